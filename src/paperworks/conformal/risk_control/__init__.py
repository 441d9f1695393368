"""A cut-off on a cheap automatic score that keeps the human loss of the worst prompts below a level.

A generator's candidates carry a machine score and, on calibration prompts, a human loss. Keep the candidates whose
machine score is at most lambda; the loss of a prompt grows with lambda. The method takes the largest lambda whose upper
confidence bound for a tail risk (mean of the worst quarter, a quantile, any weighted average of quantiles) is at most
alpha; the bound comes from the asymptotic normality of L-statistics and is far less conservative than confidence bands.

Reference: C. Y.-C. Chen, J. Shen, Z. Deng, L. Lei, "Conformal Tail Risk Control for Large Language Model Alignment",
ICML 2025, arXiv 2502.20285. The Berk-Jones bound follows J. Snell, T. Zollo, Z. Deng, T. Pitassi, R. Zemel, "Quantile
Risk Control", arXiv 2212.13629.

Use it with a few hundred calibration prompts or more, drawn like those in deployment. Don't use it where prompts shift
(the certificate is void), or where an abstention is itself harmful: a prompt without an answer counts as loss 0. With
few prompts in the tail take ``method="BJ"``, which holds for every sample size.
"""

from .bounds import berk_jones_bounds, distortion_ucb
from .control import DistortionRiskControl
from .deploy import GuardedGenerator
from .distortion import distortion_risk
from .losses import prompt_losses

__all__ = [
    "DistortionRiskControl",
    "GuardedGenerator",
    "berk_jones_bounds",
    "distortion_risk",
    "distortion_ucb",
    "prompt_losses",
]
