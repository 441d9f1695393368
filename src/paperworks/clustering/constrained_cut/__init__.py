"""Spectral cuts of one graph constrained by another: things that belong together, and things that belong apart.

G says which items are similar, H which are not: cannot-link pairs, or a whole graph of differences. The cut with the
least ratio w_G(S, rest) / w_H(S, rest) is sought by one generalised eigenproblem of the two Laplacians and a sweep
through its vector, and comes with bounds on how much better any cut could be.

Reference: J. S. Fabila-Carrasco, H. Sun, "Signed Laplacians for Constrained Graph Clustering", ICML 2025, PMLR 267.

Use it when some pairs are known to belong apart or together, or when dissimilarity is measured as well as similarity.
It costs about as much as plain spectral clustering. Constraints are soft: weights on both sides, not promises; for hard
ones take `ConstrainedCorrelationClustering`.
"""

from .bounds import cheeger_bound
from .cuts import brute_force_cut, cut_ratio, sweep_cut
from .estimator import ConstrainedSpectralCut
from .generated import rgg_pair, sbm_pair
from .problem import signed_laplacian

__all__ = [
    "ConstrainedSpectralCut",
    "brute_force_cut",
    "cheeger_bound",
    "cut_ratio",
    "rgg_pair",
    "sbm_pair",
    "signed_laplacian",
    "sweep_cut",
]
