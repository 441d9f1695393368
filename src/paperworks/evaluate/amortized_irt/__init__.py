"""Amortised item response theory: rank models on a fraction of a benchmark.

The idea: a Rasch model puts the abilities of takers (models, agents, students) and the difficulties of items on one
scale, so that an ability does not depend on which items were asked. Difficulties are predicted from the content of the
items, so that new items need no answers, and an adaptive test asks a new taker the most informative items only.

Use it when response matrices are incomplete, takers saw different items, or each answer costs money. Do not use it
when everybody answered the same items and only a ranking is wanted: the share of right answers ranks them just the
same. It assumes one ability; items that measure something else show in `RaschModel.fit_statistics`.

Reference: Truong, Tu, Liang, Li and Koyejo, "Reliable and Efficient Amortized Model-based Evaluation", ICML 2025,
arXiv 2503.13335.
"""

from .adaptive import AdaptiveTest, empirical_reliability
from .amortized import AmortizedIRT
from .generation import DifficultyConditionedGenerator, embed_texts
from .rasch import RaschModel
from .responses import response_matrix

__all__ = [
    "AdaptiveTest",
    "AmortizedIRT",
    "DifficultyConditionedGenerator",
    "RaschModel",
    "embed_texts",
    "empirical_reliability",
    "response_matrix",
]
