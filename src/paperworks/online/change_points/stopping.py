"""When enough has been seen: the evidence for a jump between two arms, held against a threshold.

The paper's threshold could not be read exactly, so the default here is one with a short proof. Where two arms have the
same mean m, the product over both of (1 + n)^{-1/2} exp(n^2 (mean - m)^2 / (2 sigma^2 (n + 1))) is a martingale of mean
1: the likelihood ratio of rewards, averaged over a normal law of the mean with variance sigma^2. By Ville's inequality
it ever reaches K / delta with probability at most delta / K. The least value over m of the sum of the exponents is the
likelihood ratio of the pair with n^2 / (n + 1) in place of n. The union over *all* pairs is needed, because the data
choose which pair is reported: dividing delta by the number of change points would not do.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import zeta

from paperworks.online.change_points.theory import pair_statistic

__all__ = ["THRESHOLDS", "StoppingRule", "deviation_constant"]

THRESHOLDS = ("mixture", "kk", "heuristic")


class StoppingRule(NamedTuple):
    """Statistic and threshold of a pair of arms; numbers or arrays alike."""

    kind: str
    n_pairs: int
    """Pairs among which the data choose."""
    n_changes: int
    delta: float
    sigma: float

    def statistic(self, left: Any, right: Any, distance: Any) -> Any:
        """Return the evidence that pairs with `left` and `right` rewards and means `distance` apart differ."""
        if self.kind == "mixture":
            left, right = left * left / (left + 1.0), right * right / (right + 1.0)
        return pair_statistic(left, right, distance, self.sigma)

    def threshold(self, left: Any, right: Any, n_samples: int) -> Any:
        """Return what the evidence must exceed."""
        if self.kind == "mixture":
            return math.log(self.n_pairs / self.delta) + 0.5 * np.log((1.0 + left) * (1.0 + right))
        if self.kind == "kk":
            logs = np.log(4.0 + np.log(np.maximum(left, 1.0))) + np.log(4.0 + np.log(np.maximum(right, 1.0)))
            return 2.0 * deviation_constant(0.5 * math.log(self.n_pairs / self.delta)) + 2.0 * logs
        value = math.log((1.0 + math.log(max(n_samples, 1))) * self.n_changes / self.delta)
        return value + 0.0 * left

    def radius(self, left: Any, right: Any, n_samples: int) -> Any:
        """Return how far the distance of two sample means may lie from that of the true ones; rewards of both given."""
        unit = self.statistic(left, right, self.sigma)  # of a distance of one sigma
        return self.sigma * np.sqrt(self.threshold(left, right, n_samples) / unit)


@lru_cache(maxsize=256)
def deviation_constant(x: float) -> float:
    """Return C(x) of Kaufmann and Koolen for Gaussian arms, the least of (g(s) + x) / s over 1/2 < s < 1.

    Here g(s) = 2 s - 2 s log(4 s) + log zeta(2 s) - log(1 - s) / 2. The common x + log(1 + x) lies below C(x) for x up
    to about 4.5, where it would void the guarantee.

    Reference: E. Kaufmann, W. M. Koolen, "Mixture Martingales Revisited with Applications to Sequential Tests and
    Confidence Intervals", JMLR 22, 2021, Theorem 9.
    """

    def value(s: float) -> float:
        g = 2 * s - 2 * s * math.log(4 * s) + math.log(zeta(2 * s)) - 0.5 * math.log1p(-s)
        return float((g + x) / s)

    return float(minimize_scalar(value, bounds=(0.5 + 1e-9, 1 - 1e-12), method="bounded", options={"xatol": 1e-10}).fun)
