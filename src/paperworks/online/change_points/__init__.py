"""Where along an ordered range of settings does a noisy response jump? Found in few measurements, with a certificate.

Each setting is an arm of a bandit. MCPI tracks the pairs of neighbouring arms whose sample means lie furthest apart,
gives each pair samples in proportion to 1 / jump^2, looks at all other arms now and then, and stops when the evidence
for every one of these jumps passes a threshold. A reported change point is wrong with probability at most delta.

Reference: J. Lazzaro, C. Pike-Burke, "Fixed-Confidence Multiple Change Point Identification under Bandit Feedback",
ICML 2025, PMLR 267, arXiv 2507.08994. The threshold ``"kk"`` follows E. Kaufmann, W. M. Koolen, "Mixture Martingales
Revisited with Applications to Sequential Tests and Confidence Intervals", JMLR 22, 2021.

Use it where a measurement costs time or money and you choose the setting of the next one. Don't use it for changes over
time, for a slope (neighbouring settings all differ a little, and the largest step is reported), or where all settings
were measured already: then offline detection is the tool.
"""

from .bandit import ChangePointBandit, ChangePointResult
from .simulation import simulate
from .theory import allocation, glr_statistic, lower_bound

__all__ = [
    "ChangePointBandit",
    "ChangePointResult",
    "allocation",
    "glr_statistic",
    "lower_bound",
    "simulate",
]
