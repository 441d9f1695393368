"""Clustering by pairwise judgements, with pairs that are certain, no number of clusters, and a certificate.

Every pair of nodes says "together" or "apart", and a clustering pays for each pair that it contradicts; must-links and
cannot-links are never broken. The cluster linear program, with one variable for each set that could be a cluster, gives
a lower bound on the optimum and the sets from which two local searches, a rounding and a mix of the three make a
clustering that costs at most 1.92 times the bound.

Reference: A. Kalavas, E. Kipouridis, N. Varma, "Towards Better-than-2 Approximation for Constrained Correlation
Clustering", ICML 2025, PMLR 267:28721-28734. The canonical program and its pivot: A. van Zuylen, D. P. Williamson,
"Deterministic pivoting algorithms for constrained ranking and clustering problems", Mathematics of Operations Research
34, 2009.

Use it to remove duplicates, to merge entities or to group by noisy judgements when some pairs are known for sure. With
more than a few hundred nodes only local search is left, with the weaker bound of a packing. If you have vectors, round
groups and their number, k-means with constraints is simpler.

The pieces: `problem` (costs, constraints, contraction), `search` (Algorithms 1 and 2, moves of nodes), `canonical` (the
canonical program and the pivot), `cluster_lp` and `pricing` (the cluster program by column generation), `rounding`
(Algorithms 3 and 4), `exact` (small optima), `estimator` (all of it as one object).
"""

from paperworks.clustering.correlation.canonical import solve_canonical_lp
from paperworks.clustering.correlation.cluster_lp import solve_cluster_lp
from paperworks.clustering.correlation.estimator import Certificate, ConstrainedCorrelationClustering
from paperworks.clustering.correlation.exact import exact_correlation_clustering
from paperworks.clustering.correlation.problem import check_constraints, clustering_cost, plant_instance
from paperworks.clustering.correlation.rounding import pivot_mix
from paperworks.clustering.correlation.search import local_search

__all__ = [
    "Certificate",
    "ConstrainedCorrelationClustering",
    "check_constraints",
    "clustering_cost",
    "exact_correlation_clustering",
    "local_search",
    "pivot_mix",
    "plant_instance",
    "solve_canonical_lp",
    "solve_cluster_lp",
]
