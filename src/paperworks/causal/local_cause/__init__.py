"""Does X cause Y, where hidden common causes are possible? An answer from the neighbourhood of X alone.

Without experiments only the class of graphs that fit the data can be known. A partial ancestral graph (PAG) stands for
it, and X is an ancestor of Y in none of its members, in some, or in all. Instead of learning the whole PAG, the part
over the Markov blanket of X is learned, and a few tests of X and Y given sets from there give the answer.

Reference: Z. Li, Z. Liu, F. Xie, H. Zhang, C. Liu, Z. Geng, "Local Identifying Causal Relations in the Presence of
Latent Variables", ICML 2025. Orientation rules: J. Zhang, "On the completeness of orientation rules for causal
discovery in the presence of latent confounders and selection bias", Artificial Intelligence 172, 2008.

Use it for one question, or a few, about many variables. If you want the whole graph, learn it with FCI.

The pieces: `ci_tests` (independence tests, asked once each), `pag` (marks, collider paths, reading a complete PAG),
`orientation` (rules R1-R4 and R8-R10), `learner` (the graph around a variable), `rules` (the printed and the corrected
decision), `estimator` (all of it as one object), `simulation` (data and truth for checks).
"""

from paperworks.causal.local_cause.ci_tests import fisher_z, g_test
from paperworks.causal.local_cause.estimator import LocalCause
from paperworks.causal.local_cause.pag import PagMark, augmented_parents
from paperworks.causal.local_cause.simulation import bif_graph, random_latent_sem, true_relation

__all__ = [
    "LocalCause",
    "PagMark",
    "augmented_parents",
    "bif_graph",
    "fisher_z",
    "g_test",
    "random_latent_sem",
    "true_relation",
]
