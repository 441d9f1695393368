"""Confidence intervals of means and proportions."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

__all__ = ["MIN_PAIRS", "Interval", "IntervalMethod", "mean_interval", "mean_intervals", "proportion_interval"]

IntervalMethod = Literal["bca", "exact-binomial", "student", "constant", "percentile"]
Floats = NDArray[np.float64]

MIN_PAIRS = 6
"""Fewest pairs that decide a claim: with five, even a sign test of equal signs has p = 2 / 2**5 > 0.05."""

_MAX_BCA = 1000
_RESAMPLES = 9999
_DRAWS = 2_000_000
_SEED = 20250713


@dataclass(frozen=True)
class Interval:
    """Confidence interval of a mean effect, or of a ratio."""

    estimate: float
    """Mean effect in the metric's unit, positive where the subject is better; for a ratio the geometric mean."""
    low: float
    high: float
    n_pairs: int
    method: IntervalMethod


def mean_interval(values: ArrayLike, *, confidence: float = 0.95) -> Interval:
    """Return a confidence interval for the mean of independent values.

    Bias-corrected and accelerated bootstrap with a fixed stream for 6 to 1000 values; Student's t for more, where the
    bootstrap adds nothing, and for fewer, where it is far too narrow; ``constant`` if all values are equal.

    Parameters
    ----------
    values : array-like of shape (n,)
        Finite numbers, at least one.
    confidence : float, default 0.95
        Confidence level in (0, 1).

    Returns
    -------
    Interval
        Two-sided interval around the mean.

    Raises
    ------
    ValueError
        If `values` is empty, not one-dimensional or not finite, or `confidence` is outside (0, 1).

    Examples
    --------
    >>> from paperworks.bench.verdict import mean_interval
    >>> interval = mean_interval([0.1, 0.3, 0.2, 0.5, 0.4, 0.3])
    >>> interval.method, round(interval.estimate, 3), interval.low > 0
    ('bca', 0.3, True)
    >>> mean_interval([2.0] * 8)
    Interval(estimate=2.0, low=2.0, high=2.0, n_pairs=8, method='constant')
    """
    x = np.asarray(values, dtype=np.float64)
    if x.ndim != 1 or x.size == 0:
        raise ValueError(f"values must be a non-empty one-dimensional array, got shape {x.shape}")
    if not np.isfinite(x).all():
        raise ValueError(f"values must be finite, got {int((~np.isfinite(x)).sum())} that are not")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be in (0, 1), got {confidence!r}")
    resamples = max(1999, min(_RESAMPLES, _DRAWS // x.size))
    means, low, high, methods = mean_intervals(x[None, :], confidence, resamples, _MAX_BCA)
    return Interval(float(means[0]), float(low[0]), float(high[0]), x.size, methods[0])


def mean_intervals(
    rows: Floats, confidence: float, resamples: int, max_bca: int
) -> tuple[Floats, Floats, Floats, list[IntervalMethod]]:
    """Return means, lower and upper bounds and the methods for all rows of a matrix at once; see `mean_interval`."""
    n_rows, n = rows.shape
    constant = rows.min(axis=1) == rows.max(axis=1)
    with np.errstate(over="ignore"):
        means = np.where(constant, rows[:, 0], rows.mean(axis=1))
    low, high = means.copy(), means.copy()
    methods: list[IntervalMethod] = ["constant"] * n_rows
    varied = np.flatnonzero(~constant)
    if not MIN_PAIRS <= n <= max_bca:
        with np.errstate(over="ignore", invalid="ignore"):
            half = stats.t.ppf((1 + confidence) / 2, n - 1) * rows[varied].std(axis=1, ddof=1) / math.sqrt(n)
        low[varied], high[varied] = means[varied] - half, means[varied] + half
        for i in varied:
            methods[i] = "student"
        return means, low, high, methods
    chunk = max(1, 4_000_000 // (n * n))
    for start in range(0, varied.size, chunk):
        index = varied[start : start + chunk]
        low[index], high[index] = _bootstrap(rows[index], confidence, resamples, "BCa")
        for i in index:
            methods[i] = "bca"
    for i in varied:
        if not (math.isfinite(low[i]) and math.isfinite(high[i])):
            bounds = _bootstrap(rows[i : i + 1], confidence, resamples, "percentile")
            low[i], high[i] = bounds[0][0], bounds[1][0]
            methods[i] = "percentile"
    return means, low, high, methods


def _bootstrap(
    rows: Floats, confidence: float, resamples: int, method: Literal["BCa", "percentile"]
) -> tuple[Floats, Floats]:
    batch = max(1, 4_000_000 // rows.size)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # a degenerate interval comes as NaN and is dealt with by the caller
        found = stats.bootstrap(
            (rows,),
            np.mean,
            axis=-1,
            vectorized=True,
            n_resamples=resamples,
            batch=batch,
            confidence_level=confidence,
            method=method,
            rng=np.random.default_rng(_SEED),
        )
    interval = found.confidence_interval
    return np.atleast_1d(interval.low), np.atleast_1d(interval.high)


def proportion_interval(successes: int, n: int, confidence: float) -> tuple[float, float]:
    """Return the exact bounds of Clopper and Pearson for a probability."""
    found = stats.binomtest(successes, n).proportion_ci(confidence_level=confidence, method="exact")
    return float(found.low), float(found.high)
