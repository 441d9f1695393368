"""Upper confidence bounds for distortion risks, section 3 of the paper and its baselines."""

from __future__ import annotations

import math
import warnings
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special, stats
from scipy.optimize import brentq

from paperworks._checks import check_choice, check_integer, check_positive, check_probability_open

from .distortion import Curve, Distortion, Floats, RowStatistic, check_losses, make_distortion, weighted_rows

__all__ = [
    "METHODS",
    "asymptotic_warning",
    "berk_jones_bounds",
    "check_bounded",
    "distortion_ucb",
    "standard_error",
    "upper_bound",
]

METHODS = ("L", "exact", "bootstrap", "DKW", "BJ")


def distortion_ucb(
    losses: ArrayLike,
    *,
    risk: str = "cvar",
    beta: float = 0.75,
    delta: float = 0.05,
    method: str = "L",
    loss_bound: float = 1.0,
    psi: Curve | None = None,
    cdf: Curve | None = None,
    n_bootstrap: int = 1000,
    random_state: Any = None,
) -> float:
    """Return a bound that the distortion risk of the law behind a sample exceeds with probability at most `delta`.

    Parameters
    ----------
    losses : array-like of shape (n,)
        Independent losses in any order; at least 2 for "L" and "bootstrap".
    risk : {"cvar", "mean", "var", "spectral"}, default="cvar"
        The risk, as in `distortion_risk`.
    beta : float, default=0.75
        Its level, as in `distortion_risk`.
    delta : float, default=0.05
        Allowed probability of error, in (0, 1).
    method : {"L", "exact", "bootstrap", "DKW", "BJ"}, default="L"
        - "L": the paper's bound from the asymptotic normality of L-statistics; close to the risk, needs a few hundred
          losses and a risk whose weight has a density (not "var").
        - "exact": an order statistic, for "var" only; holds for every n and law.
        - "bootstrap": as "L", with the standard deviation of resampled statistics; also for weights that jump.
        - "DKW", "BJ": confidence bands for the distribution function of Dvoretzky, Kiefer and Wolfowitz, and of Berk
          and Jones; hold for every n and every law on [0, `loss_bound`], but are wide.
    loss_bound : float, default=1.0
        Greatest possible loss; used by "DKW", "BJ" and, where no order statistic is high enough, "exact".
    psi : callable, optional
        Density of the weight of quantile levels, for "spectral".
    cdf : callable, optional
        Its distribution function, for "spectral".
    n_bootstrap : int, default=1000
        Number of resamples for "bootstrap", at least 2; memory is 8 n `n_bootstrap` bytes.
    random_state : int, numpy.random.Generator or None, default=None
        Source of the resamples; used by "bootstrap" only.

    Returns
    -------
    float
        The upper confidence bound, in the unit of the losses.

    Raises
    ------
    ValueError
        If an argument is out of range, a method does not fit the risk, or a bounded method meets a loss outside
        [0, `loss_bound`].

    Warns
    -----
    UserWarning
        If "L" or "bootstrap" rests on fewer than 20 losses or fewer than 30 in the tail.

    Notes
    -----
    "L" is ``R + z sigma / sqrt(n)`` with ``sigma^2`` the mean squared influence
    ``IF_i = -(sum_{k>=i} g_k - sum_k (k/n) g_k)``, ``g_k = psi(k/n) (X_(k+1) - X_(k))``, in O(n) after sorting. The
    bands give L_i <= F(X_(i)) for all i at once, and the bound ``sum_i [Psi(L_i) - Psi(L_{i-1})] X_(i) +
    [1 - Psi(L_n)] loss_bound``. "exact" is X_(k) with the smallest k for which P(Bin(n, beta) >= k) <= delta.
    Reference: arXiv 2502.20285, section 3; arXiv 2212.13629 for the bands.

    Examples
    --------
    >>> import numpy as np
    >>> from paperworks.conformal import distortion_risk, distortion_ucb
    >>> losses = np.linspace(0, 1, 400) ** 3
    >>> round(distortion_risk(losses), 3)
    0.686
    >>> round(distortion_ucb(losses), 3), round(distortion_ucb(losses, method="DKW"), 3)
    (0.733, 0.814)
    """
    distortion = make_distortion(risk, beta, psi, cdf)
    sample = np.sort(check_losses(losses))
    bound = upper_bound(
        distortion,
        sample.size,
        delta=delta,
        method=method,
        loss_bound=loss_bound,
        n_bootstrap=n_bootstrap,
        random_state=random_state,
    )
    check_bounded(sample, "losses", distortion, sample.size, delta, method, loss_bound)
    if method in ("L", "bootstrap") and (message := asymptotic_warning(distortion, sample.size)):
        warnings.warn(message, UserWarning, stacklevel=2)
    return float(bound(sample[None, :])[0])


def upper_bound(
    distortion: Distortion,
    n: int,
    *,
    delta: float,
    method: str,
    loss_bound: float,
    n_bootstrap: int,
    random_state: Any,
) -> RowStatistic:
    """Return the bound of `distortion_ucb` as a function of sorted samples of size `n`, one per row."""
    check_choice(method, "method", METHODS)
    check_probability_open(delta, "delta")
    check_positive(loss_bound, "loss_bound")
    if n < 2 and method in ("L", "bootstrap"):
        raise ValueError(f"method={method!r} needs at least 2 losses (one for each prompt), got {n}")
    if method == "exact":
        return _order_statistic(distortion, n, delta, loss_bound)
    if method in ("DKW", "BJ"):
        levels = berk_jones_bounds(n, delta) if method == "BJ" else _dkw_bounds(n, delta)
        return _band(distortion, levels, loss_bound)
    statistic = distortion.statistic(n)
    spread = (
        standard_error(distortion, n)
        if method == "L"
        else _bootstrap_error(distortion, n, check_integer(n_bootstrap, "n_bootstrap", minimum=2), random_state)
    )
    z = float(stats.norm.isf(delta))
    return lambda rows: statistic(rows) + z * spread(rows)


def asymptotic_warning(distortion: Distortion, n: int) -> str:
    """Return what to tell the user where normality can't be relied on, or an empty text."""
    tail = n * distortion.tail
    if n < 20:
        return f"the bound is asymptotic and rests on {n} losses only, fewer than 20; method='BJ' holds for any number"
    if distortion.tail < 1.0 and tail < 30.0 - 1e-9:
        return (
            f"the bound is asymptotic and rests on about {tail:.1f} losses in the tail, fewer than 30; "
            "method='BJ' holds for any number"
        )
    return ""


def check_bounded(
    losses: NDArray[Any], name: str, distortion: Distortion, n: int, delta: float, method: str, loss_bound: float
) -> None:
    """Raise `ValueError` if the method relies on losses in [0, loss_bound] and one lies outside; NaN is passed over."""
    if method == "exact" and distortion.quantile is not None and _rank(n, distortion.quantile, delta) <= n:
        return
    if method in ("L", "bootstrap"):
        return
    low, high = np.nanmin(losses), np.nanmax(losses)
    if low < 0 or high > loss_bound:
        raise ValueError(
            f"{name} must lie in [0, loss_bound] = [0, {loss_bound:g}] for method={method!r}, "
            f"got a minimum of {low:g} and a maximum of {high:g}"
        )


def standard_error(distortion: Distortion, n: int) -> RowStatistic:
    """Return sigma / sqrt(n) of the L-statistic as a function of sorted samples of size n, one per row.

    The influence of X_(i) is H_i - mean(H) with H_i = sum_{k<i} psi(k/n) (X_(k+1) - X_(k)), so sigma^2 = Var(H).
    """
    if distortion.density is None:
        raise ValueError(
            "method='L' needs a risk whose weight has a density, and this one jumps (as a quantile does); "
            "take method='exact' for risk='var', else 'bootstrap', 'DKW' or 'BJ'"
        )
    psi = distortion.density(np.arange(1, n) / n)
    support = np.flatnonzero(psi)
    if support.size == 0:  # the weight lies on the largest loss alone
        return lambda rows: np.zeros(len(rows))
    first = int(support[0])
    flat = float(psi[first]) if np.all(psi[first:] == psi[first]) else None

    def error(rows: Floats) -> Floats:
        # H is 0 up to the order statistic `first`, so only what comes after needs work.
        if flat is not None:
            path = flat * (rows[:, first + 1 :] - rows[:, first : first + 1])
        else:
            path = np.cumsum(psi[first:] * np.diff(rows[:, first:], axis=1), axis=1)
        mean = path.sum(axis=1) / n
        path -= mean[:, None]
        squares: Floats = np.einsum("ij,ij->i", path, path) + (first + 1) * mean**2
        return np.sqrt(squares) / n

    return error


def _bootstrap_error(distortion: Distortion, n: int, n_bootstrap: int, random_state: Any) -> RowStatistic:
    """Return the standard deviation of resampled L-statistics as a function of sorted samples, one per row.

    A resample is a vector of counts over the order statistics, so its statistic is a weighted sum of the sorted
    sample: all resamples of all rows are one matrix product.
    """
    rng = np.random.default_rng(random_state)
    weights = np.empty((n_bootstrap, n))
    for row in weights:
        levels = np.cumsum(np.bincount(rng.integers(n, size=n), minlength=n)) / n
        row[:] = distortion.weights(levels)
    return lambda rows: (rows @ weights.T).std(axis=1, ddof=1)


def _band(distortion: Distortion, levels: Floats, loss_bound: float) -> RowStatistic:
    weighted = weighted_rows(distortion.weights(levels))
    rest = (1.0 - float(distortion.cdf(levels[-1:])[0])) * loss_bound
    return lambda rows: weighted(rows) + rest


def _order_statistic(distortion: Distortion, n: int, delta: float, loss_bound: float) -> RowStatistic:
    if distortion.quantile is None:
        raise ValueError("method='exact' is for risk='var' only; take 'L', 'bootstrap', 'DKW' or 'BJ'")
    rank = _rank(n, distortion.quantile, delta)
    if rank > n:
        return lambda rows: np.full(len(rows), loss_bound)
    return lambda rows: rows[:, rank - 1].copy()


@lru_cache(maxsize=128)
def _rank(n: int, beta: float, delta: float) -> int:
    """Return the smallest k with P(Bin(n, beta) >= k) <= delta; n + 1 if there is none."""
    exceeds = stats.binom.sf(np.arange(n), n, beta)
    return 1 + int(np.searchsorted(-exceeds, -delta * (1.0 + 1e-12)))


def _dkw_bounds(n: int, delta: float) -> Floats:
    """Return max(0, i/n - eps), i = 1..n, with the one-sided eps of Dvoretzky, Kiefer, Wolfowitz and Massart."""
    return np.maximum(np.arange(1, n + 1) / n - math.sqrt(-math.log(delta) / (2 * n)), 0.0)


def berk_jones_bounds(n: int, delta: float) -> NDArray[np.float64]:
    """Return lower bounds for the distribution function at the order statistics, all valid at once.

    Parameters
    ----------
    n : int
        Sample size, at least 1.
    delta : float
        Probability that any of the bounds fails, in (0, 1).

    Returns
    -------
    ndarray of shape (n,)
        Increasing L_1, ..., L_n with P(F(X_(i)) >= L_i for all i) = 1 - `delta` for a continuous F, and at least that
        for any F.

    Raises
    ------
    ValueError
        If `n` < 1 or `delta` is not in (0, 1).

    Notes
    -----
    L_i is the c-quantile of Beta(i, n - i + 1), and c solves the probability above; arXiv 2212.13629, after R. Berk and
    D. Jones (1979). The probability comes from a Poisson process conditioned on n points (A. Moscovich, B. Nadler,
    2017), whose counts are followed over a window of eight standard deviations. Below ``delta = 1e-8``, where
    double precision does not resolve that probability, c is `delta` / n, which is valid but slightly wide. Results are
    cached; the first call takes about a second for n = 6000 and a minute for n = 100,000.

    Examples
    --------
    >>> from paperworks.conformal import berk_jones_bounds
    >>> berk_jones_bounds(1, 0.05)
    array([0.05])
    >>> berk_jones_bounds(4, 0.1).round(3)
    array([0.008, 0.078, 0.214, 0.426])
    """
    check_integer(n, "n", minimum=1)
    return _berk_jones(int(n), check_probability_open(delta, "delta")).copy()


@lru_cache(maxsize=32)
def _berk_jones(n: int, delta: float) -> Floats:
    ranks = np.arange(1, n + 1)

    def bounds(log_c: float) -> Floats:
        return np.asarray(special.betaincinv(ranks, n - ranks + 1, math.exp(log_c)), dtype=np.float64)

    if n == 1:
        return np.array([delta])
    low, high = math.log(delta / n), math.log(delta)  # the union bound, and the failure of a single bound
    if delta < 1e-8:
        return bounds(low)
    return bounds(brentq(lambda log_c: _probability_above(bounds(log_c)) - (1.0 - delta), low, high, xtol=1e-9))


def _probability_above(levels: Floats) -> float:
    """Return P(U_(i) >= levels[i-1] for all i) for n uniform order statistics and increasing levels in (0, 1).

    The event says that at most i - 1 points lie below level i. A Poisson process of rate n has independent increments;
    conditioned on n points in all, these are n independent uniforms.
    """
    n = levels.size
    means = n * np.diff(levels, prepend=0.0, append=1.0)
    spread = 8.0 * np.sqrt(n * levels * (1.0 - levels)) + 20.0
    lowest = np.maximum(np.floor(n * levels - spread), 0.0).astype(int)
    largest = means.max()
    jumps = np.arange(int(largest + 10.0 * math.sqrt(largest) + 25.0) + 1)
    log_factorial = special.gammaln(jumps + 1.0)
    state, offset = np.ones(1), 0  # state[j] = P(offset + j points so far, no level crossed)
    for i in range(n):
        if i % 4096 == 0:
            rates = means[i : i + 4096, None]
            kernels = np.exp(special.xlogy(jumps, rates) - rates - log_factorial)
        state = np.convolve(state, kernels[i % 4096])
        start = max(int(lowest[i]), offset)
        state, offset = state[start - offset : i + 1 - offset], start
    missing = n - offset - np.arange(state.size)
    finish = np.exp(special.xlogy(missing, means[n]) - means[n] - special.gammaln(missing + 1.0))
    return float(state @ finish / np.exp(special.xlogy(n, n) - n - special.gammaln(n + 1.0)))
