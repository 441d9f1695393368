"""VCIP: variational counterfactual intervention planning.

Which next treatments are most likely to bring this person to a wanted outcome? A latent-state model is trained on
records in which treatments depend on the past, and whole sequences of treatments are scored by a bound on the
probability of the target under intervention. With it come a tumour simulator whose truth is known, and two plain
scorers to compare with: a predictor of outcomes, and a model of the behaviour that never looks at the target.

Reference: X. Wang, S. Lyu, L. Chi, X. Zhou, H. Chen, "Variational Counterfactual Intervention Planning to Achieve
Target Outcomes", ICML 2025. Use it for recommendations that should stay near observed practice; for plans far from it,
`OutcomeSearch` is the better first choice.
"""

from .baselines import BehaviourScore, OutcomeSearch
from .candidates import ground_truth_percentile, perturb_actions, rank_correlation
from .estimator import VCIP
from .planning import Plan
from .simulator import Cohort, dose_curve, tumour_cohort, tumour_rollout

__all__ = [
    "VCIP",
    "BehaviourScore",
    "Cohort",
    "OutcomeSearch",
    "Plan",
    "dose_curve",
    "ground_truth_percentile",
    "perturb_actions",
    "rank_correlation",
    "tumour_cohort",
    "tumour_rollout",
]
