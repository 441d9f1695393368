"""Algorithmic recourse that learns which advice works, from delayed and partly missing feedback.

Somebody was rejected by a classifier. A recommendation names a real instance that the classifier accepts, and the
change that leads there. Whether the change is carried out, and whether it then makes things really better, becomes
known late or never. The choice among candidates is a bandit problem: a linear bandit with one unknown probability of
improvement per candidate (`DelayedLinUCB`), or an upper confidence bound on a forest over person and action
(`ForestUCB`, which needs no cost of actions). Before any feedback the bandit recommends the nearest candidate.

Use it where some tens of recommendations or more are given and some outcomes are seen. For a single explanation of
one verdict any counterfactual explainer will do.

Reference: K. Kanamori, K. Kobayashi, S. Hara, T. Takagi, "Algorithmic Recourse for Long-Term Improvement", ICML 2025.
"""

from .costs import CostModel
from .estimator import ImprovementRecourse, Recommendation
from .gaussian_process import GPUCB
from .linear_bandit import DelayedLinUCB
from .policies import ForestUCB, NearestPolicy, TrustPolicy
from .protocol import Feedback, Situation
from .simulator import RecourseSimulator

__all__ = [
    "GPUCB",
    "CostModel",
    "DelayedLinUCB",
    "Feedback",
    "ForestUCB",
    "ImprovementRecourse",
    "NearestPolicy",
    "Recommendation",
    "RecourseSimulator",
    "Situation",
    "TrustPolicy",
]
