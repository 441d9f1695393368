"""AUC for a shifted target domain, learnt from labelled positives and unlabelled rows.

The risk of misordering a positive and a negative of the target domain equals, up to constants, the risk of misordering
a weighted labelled positive and a row of the target domain; that row is either an unlabelled target row or a weighted
unlabelled training row. Neither negatives nor class priors are needed, only the density ratio of the inputs.

Reference: A. Kumagai, T. Iwata, H. Takahashi, T. Nishiyama, K. Adachi, Y. Fujiwara, "Positive-unlabeled AUC
Maximization under Covariate Shift", ICML 2025, PMLR 267. Use it where ranking on the target counts, inputs have moved
and p(y|x) hasn't; where the labels themselves mean something else in the target, no weighting of inputs helps.
"""

from .classifier import ShiftAUCClassifier
from .ratio import density_ratio
from .risks import auc_risk_positive, auc_risk_pu

__all__ = ["ShiftAUCClassifier", "auc_risk_positive", "auc_risk_pu", "density_ratio"]
