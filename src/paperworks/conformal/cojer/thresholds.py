"""Thresholds: from the joint law of conformal ranks to the integer t that keeps the false coverage proportion in check.

The conformal rank of a test point is ``R = 1 + #{calibration scores >= its score}``, a number in 1..n+1. A point is
missed by the set ``{y: R(y) > t}`` iff ``R <= t``, so the false coverage proportion over m test points is at most
``alpha`` iff the (k+1)-th smallest rank exceeds t, with ``k = floor(alpha m)``. Under exchangeability and without ties
the m test points occupy a uniformly random m-subset of the n+m ranks: every threshold below follows from that law.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln

from paperworks._checks import check_choice, check_integer, check_probability_open

__all__ = [
    "BANDS",
    "TEMPLATES",
    "allowed_misses",
    "as_generator",
    "beta_template",
    "cojer_threshold",
    "dkw_deviation",
    "joint_error_rate",
    "learned_template",
    "ordered_ranks",
    "sample_conformal_ranks",
    "smallest_n_cal",
    "template_size",
]

BANDS = ("jer", "exact", "dkw", "scp")
TEMPLATES = ("learned", "beta")

_ROUNDING = 1e-9
"""Guard of floor(alpha m) and of comparisons with delta: 0.7 * 10 is 6.999..., and must count as 7."""

Draw = Callable[[int], NDArray[np.int32]]
"""``draw(size) -> (size, K)``: the K smallest ranks, in order, of `size` independent batches."""


def allowed_misses(alpha: float, n_test: int) -> int:
    """Return k = floor(alpha m), the most misses among m points whose proportion is still at most alpha."""
    return min(math.floor(alpha * n_test + _ROUNDING), n_test - 1)


def as_generator(random_state: Any) -> np.random.Generator:
    """Return a NumPy generator from None, an int, a `Generator` or a `RandomState`."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31, size=4))
    return np.random.default_rng(random_state)


# --- The law of the ranks ------------------------------------------------------------------------------------------


def sample_conformal_ranks(n_cal: int, n_test: int, size: int, random_state: Any = None) -> NDArray[np.int64]:
    """Draw the conformal ranks of batches of test points, each batch sorted.

    The m ranks of a batch are exchangeable and dependent, for they share one calibration set. With the sorted
    positions ``s_1 < ... < s_m`` of a uniformly random m-subset of ``1..n+m``, the ordered ranks are
    ``R_(k) = s_k - k + 1``.

    Parameters
    ----------
    n_cal : int
        Number n of calibration points, at least 1.
    n_test : int
        Number m of test points of a batch, at least 1.
    size : int
        Number of batches, at least 1.
    random_state : None, int, numpy.random.Generator or numpy.random.RandomState, default=None
        Source of the randomness.

    Returns
    -------
    ndarray of shape (size, n_test)
        Integers in 1..n_cal+1, every row in nondecreasing order.

    Raises
    ------
    ValueError
        If a number is below 1.
    TypeError
        If a number is not an integer.

    References
    ----------
    .. [1] Blain, Thirion and Neuvial, "False Coverage Proportion Control for Conformal Prediction", ICML 2025,
       PMLR 267:4471-4481. The law of the p-values is due to Gazin, Blanchard and Roquain (2024).

    Examples
    --------
    >>> from paperworks.conformal import sample_conformal_ranks
    >>> ranks = sample_conformal_ranks(50, 20, 1000, random_state=0)
    >>> ranks.shape, int(ranks.min()), int(ranks.max())
    ((1000, 20), 1, 51)
    """
    n = check_integer(n_cal, "n_cal", minimum=1)
    m = check_integer(n_test, "n_test", minimum=1)
    size = check_integer(size, "size", minimum=1)
    return ordered_ranks(n, m, m, size, as_generator(random_state)).astype(np.int64)


def ordered_ranks(n: int, m: int, K: int, size: int, rng: np.random.Generator) -> NDArray[np.int32]:
    """Return the K smallest ranks of `size` batches, shape (size, K).

    One draw without replacement per batch: four times faster than a partition of a (size, n+m) table of uniforms,
    and its memory is that of the result.
    """
    ranks = np.empty((size, K), dtype=np.int32)
    taken = np.zeros(n + m, dtype=bool)
    for row in ranks:
        taken[:] = False
        taken[rng.choice(n + m, m, replace=False, shuffle=False)] = True
        row[:] = np.flatnonzero(taken)[:K]
    ranks -= np.arange(K, dtype=np.int32)  # 0-based positions: R_(k) = s_k - (k - 1) with s counted from 1
    ranks += 1
    return ranks


def joint_error_rate(template: ArrayLike, n_cal: int, n_test: int) -> float:
    """Return the exact joint error rate of a template of ordered ranks.

    That is P(exists k <= K: R_(k) < T_k), for the ordered conformal ranks of m test points. A scan over the n+m rank
    positions carries the probability of having met k test points so far without a violation.

    Parameters
    ----------
    template : array-like of int of shape (K,)
        Nondecreasing T_1..T_K with 1 <= K <= n_test and entries in 1..n_cal+1.
    n_cal : int
        Number n of calibration points, at least 1.
    n_test : int
        Number m of test points, at least 1.

    Returns
    -------
    float
        The joint error rate, in [0, 1], exact up to rounding (about 1e-12).

    Raises
    ------
    ValueError
        If the template is not a nondecreasing vector of integers within the bounds.

    Notes
    -----
    The cost is O((n + m) min(K, 20 sqrt(m))): states further than ten standard deviations from the mean have no mass
    that a double would notice.

    Examples
    --------
    >>> from paperworks.conformal import joint_error_rate
    >>> round(joint_error_rate([1, 2, 3, 4], n_cal=6, n_test=4), 10)  # 3/14
    0.2142857143
    """
    n = check_integer(n_cal, "n_cal", minimum=1)
    m = check_integer(n_test, "n_test", minimum=1)
    T = np.asarray(template)
    if T.ndim != 1 or not 1 <= T.size <= m:
        raise ValueError(f"template must be a vector of 1 to n_test = {m} entries, got shape {T.shape}")
    if T.dtype.kind not in "iu":
        raise ValueError(f"template must hold integers, got dtype {T.dtype}")
    if T.min() < 1 or T.max() > n + 1:
        raise ValueError(f"template must lie in 1..n_cal+1 = 1..{n + 1}, got {T.min()} to {T.max()}")
    falls = np.flatnonzero(np.diff(T.astype(np.int64)) < 0)
    if falls.size:
        i = int(falls[0])
        raise ValueError(f"template must be nondecreasing, but entry {i + 1} is {T[i + 1]} after {T[i]}")
    return _joint_error_rate(T.astype(np.int64), n, m)


def _joint_error_rate(T: NDArray[np.int64], n: int, m: int) -> float:
    K, N = T.size, n + m
    # A test point that is the (k+1)-th of its kind at position r has rank r - k: no violation iff r >= T_{k+1} + k.
    first_safe = T + np.arange(K)
    last = int(first_safe[-1])  # no violation can happen from here on
    r = np.arange(1, last + 1)
    n_safe = np.searchsorted(first_safe, r, side="right")
    centre = (r - 1) * (m / N)
    spread = 10.0 * np.sqrt(np.maximum(centre * (n / N) * (N - r + 1) / max(N - 1, 1), 0.0)) + 30.0
    # States at step r: at most n calibration points among r - 1, and never more test points than were safe so far.
    begin = np.maximum(np.maximum(r - 1 - n, np.floor(centre - spread)), 0).astype(np.int64)
    reached = np.concatenate(([0], n_safe[:-1]))
    end = np.minimum(np.minimum(reached + 1, K), np.ceil(centre + spread)).astype(np.int64)
    q = np.zeros(K + 1)
    q[0] = 1.0
    left = m - np.arange(K, dtype=np.float64)
    for a, b, safe, remaining in zip(
        begin.tolist(), end.tolist(), n_safe.tolist(), range(N, N - last, -1), strict=True
    ):
        if a >= b:
            continue
        move = q[a:b] * left[a:b]
        move /= remaining
        q[a:b] -= move
        kept = min(b, safe)
        if kept > a:
            q[a + 1 : kept + 1] += move[: kept - a]
    return min(1.0, max(0.0, 1.0 - float(q.sum())))


# --- One level, chosen in advance ----------------------------------------------------------------------------------


def _scp_threshold(n: int, alpha: float) -> int:
    return math.floor(alpha * (n + 1) + _ROUNDING)


def dkw_deviation(n_cal: int, n_test: int, delta: float, *, n_iter: int = 9) -> float:
    """Return the DKW-type deviation of the empirical law of conformal p-values from the uniform one.

    With probability at least ``1 - delta``, the share of p-values at most u is below ``u + lambda`` for all u at once.
    The bound is refined by a fixed-point iteration from lambda = 1.

    Parameters
    ----------
    n_cal : int
        Number n of calibration points, at least 1.
    n_test : int
        Number m of test points, at least 1.
    delta : float
        Probability with which the bound may fail, in (0, 1).
    n_iter : int, default=9
        Number of iterations, at least 1; every iterate is a valid bound.

    Returns
    -------
    float
        The deviation lambda, in (0, 1].

    References
    ----------
    .. [1] Gazin, Blanchard and Roquain, "Transductive conformal inference with adaptive scores", AISTATS 2024.

    Examples
    --------
    >>> from paperworks.conformal import dkw_deviation
    >>> round(dkw_deviation(1000, 500, 0.2), 10)
    0.0666847105
    """
    n = check_integer(n_cal, "n_cal", minimum=1)
    m = check_integer(n_test, "n_test", minimum=1)
    delta = check_probability_open(delta, "delta")
    n_iter = check_integer(n_iter, "n_iter", minimum=1)
    tau = n * m / (n + m)
    slope = math.sqrt(2.0 * math.pi) * 2.0 * tau / math.sqrt(n + m)
    deviation = 1.0
    for _ in range(n_iter):
        deviation = min(1.0, math.sqrt((math.log(1.0 / delta) + math.log1p(deviation * slope)) / (2.0 * tau)))
    return deviation


def _exact_threshold(n: int, m: int, k: int, delta: float) -> int:
    """Return max{t: P(BetaBinomial(m, t, n+1-t) >= k+1) <= delta}; the probability grows with t."""
    # Sum the shorter tail; the lower one only where 1 - sum keeps enough digits next to delta.
    lower = k + 1 < m - k and delta > 1e-3
    j = np.arange(0, k + 1, dtype=np.float64) if lower else np.arange(k + 1, m + 1, dtype=np.float64)
    head, tail = -gammaln(j + 1), -gammaln(m - j + 1)
    total = gammaln(n + m + 1) - gammaln(m + 1) - gammaln(n + 1)

    def excess(t: int) -> float:
        log_pmf = gammaln(j + t) + head - gammaln(t) + gammaln(m - j + n + 1 - t) + tail - gammaln(n + 1 - t) - total
        mass = float(np.exp(log_pmf).sum())
        return 1.0 - mass if lower else mass

    low, high = 0, n + 1  # t = 0 misses nothing, t = n + 1 misses everything
    while high - low > 1:
        t = (low + high) // 2
        low, high = (t, high) if excess(t) <= delta * (1 + _ROUNDING) else (low, t)
    return low


# --- Simultaneous bands --------------------------------------------------------------------------------------------


def template_size(k: int, n_test: int, k_max: int | None) -> int:
    """Return K: `k_max`, or half the batch, but at least the k + 1 that the wanted level reads."""
    return max(n_test // 2 if k_max is None else k_max, k + 1)


def learned_template(draw: Draw, n: int, m: int, n_columns: int, delta: float, n_null: int) -> NDArray[np.int64]:
    """Return the largest controlling template out of `n_null` candidates that are drawn from the null.

    Candidate b is the b-th row of the matrix of ordered null ranks with every column sorted over the draws; its joint
    error rate is estimated on as many fresh draws. Candidates grow with b, and so do their rates: bisection.
    """
    candidates = np.sort(draw(n_null), axis=0)
    fresh = draw(n_null)
    budget = delta * n_null + _ROUNDING

    def n_violated(b: int) -> int:
        return int((fresh < candidates[b]).any(axis=1).sum())

    low, high = -1, n_null
    while high - low > 1:
        b = (low + high) // 2
        low, high = (b, high) if n_violated(b) <= budget else (low, b)
    if low >= 0:
        return candidates[low].astype(np.int64)
    # No candidate controls (few draws, or a small delta): the Simes line, at the lower delta-quantile of its pivot.
    line = np.arange(1, n_columns + 1) * ((n + 1) / m)
    slope = float(np.quantile((fresh / line).min(axis=1), delta, method="lower"))
    return np.clip(np.ceil(slope * line - _ROUNDING), 1, n + 1).astype(np.int64)


def beta_template(n: int, m: int, n_columns: int, delta: float) -> NDArray[np.int64]:
    """Return the largest template of equal pointwise levels whose exact joint error rate is at most delta.

    T_k(l) = 1 + max{t: P(R_(k) <= t) <= l}. The level l is bisected until no other template lies between the largest
    that controls and the smallest that does not.
    """
    log_factorial = gammaln(np.arange(n + m + 2) + 1.0).tolist()
    low = delta / n_columns  # controls by the union bound
    high = 1.0
    T_low = _pointwise_template(low, n, m, n_columns, log_factorial)
    T_high = np.full(n_columns, n + 1, dtype=np.int64)
    for _ in range(60):
        if int((T_high - T_low).sum()) <= 1:
            break
        level = 0.5 * (low + high)
        T = _pointwise_template(level, n, m, n_columns, log_factorial)
        if np.array_equal(T, T_low) or (
            not np.array_equal(T, T_high) and _joint_error_rate(T, n, m) <= delta * (1 + _ROUNDING)
        ):
            low, T_low = level, T
        else:
            high, T_high = level, T
    return T_low


def _pointwise_template(level: float, n: int, m: int, n_columns: int, log_factorial: list[float]) -> NDArray[np.int64]:
    """Return T_k = 1 + max{t: F(k, t) <= level} with F(k, t) = P(R_(k) <= t), for k = 1..n_columns.

    T is nondecreasing in k, so one walk over (k, t) meets them all, and two binomial identities update F:
    P(R_(k) = t) = C(t+k-2, k-1) C(n-t+1+m-k, m-k) / C(n+m, m), and
    F(k, t) - F(k+1, t) = C(t+k-1, k) C(n-t+m-k, m-k) / C(n+m, m).
    """
    lf, exp = log_factorial, math.exp
    total = lf[n + m] - lf[m] - lf[n]
    template = np.empty(n_columns, dtype=np.int64)
    t, F = 0, 0.0
    for k in range(1, n_columns + 1):
        constant = -lf[k - 1] - lf[m - k] - total
        while t < n:
            step = exp(lf[t + k - 1] - lf[t] + lf[n - t + m - k] - lf[n - t] + constant)
            if F + step > level:
                break
            F += step
            t += 1
        template[k - 1] = t + 1
        if t > 0:
            F -= exp(lf[t + k - 1] - lf[k] - lf[t - 1] + lf[n - t + m - k] - lf[m - k] - lf[n - t] - total)
            F = max(F, 0.0)
    return template


# --- The common entrance -------------------------------------------------------------------------------------------


def cojer_threshold(
    n_cal: int,
    n_test: int,
    alpha: float,
    delta: float,
    *,
    band: Literal["jer", "exact", "dkw", "scp"] = "jer",
    template: Literal["learned", "beta"] = "learned",
    k_max: int | None = None,
    n_null: int = 1000,
    random_state: Any = None,
) -> int:
    """Return the integer threshold t: prediction sets keep the labels whose conformal rank exceeds t.

    Split conformal intervals at t are ``f(x)`` plus or minus the (n+1-t)-th smallest calibration residual.

    Parameters
    ----------
    n_cal : int
        Number n of calibration points, at least 1.
    n_test : int
        Number m of test points, at least 1.
    alpha : float
        Largest wanted false coverage proportion, in (0, 1).
    delta : float
        Probability with which the proportion may exceed `alpha`, in (0, 1). Not used by ``band="scp"``.
    band : {"jer", "exact", "dkw", "scp"}, default="jer"
        ``"jer"``: for all levels alpha' at once (the paper's method); ``"exact"``: for this one alpha, the largest t
        there is; ``"dkw"``: a closed formula, for all levels; ``"scp"``: split conformal, which only bounds the
        *expected* proportion.
    template : {"learned", "beta"}, default="learned"
        Shape of the ``"jer"`` band: learned from `n_null` draws (the paper's), or the pointwise quantiles of the
        ordered ranks at the level whose exact joint error rate is `delta`.
    k_max : int, optional
        Length K of the band, in 1..n_test; the default is ``n_test // 2``. Raised to floor(alpha n_test) + 1 if less.
    n_null : int, default=1000
        Number of draws that propose the learned template, and of those that check it. The Monte Carlo error of its
        joint error rate is about ``sqrt(delta / n_null)``.
    random_state : None, int, numpy.random.Generator or numpy.random.RandomState, default=None
        Source of the draws; only the learned template needs it.

    Returns
    -------
    int
        The threshold, in 0..n_cal; 0 means that no finite interval keeps the promise.

    Raises
    ------
    ValueError
        If an argument is out of its range or names no known band or template.

    References
    ----------
    .. [1] Blain, Thirion and Neuvial, "False Coverage Proportion Control for Conformal Prediction", ICML 2025,
       PMLR 267:4471-4481.

    Examples
    --------
    >>> from paperworks.conformal import cojer_threshold
    >>> [cojer_threshold(1000, 500, 0.1, 0.2, band=band) for band in ("scp", "exact", "dkw")]
    [100, 88, 33]
    >>> cojer_threshold(1000, 500, 0.1, 0.2, template="beta") < 88
    True
    """
    n = check_integer(n_cal, "n_cal", minimum=1)
    m = check_integer(n_test, "n_test", minimum=1)
    alpha = check_probability_open(alpha, "alpha")
    delta = check_probability_open(delta, "delta")
    check_choice(band, "band", BANDS)
    check_choice(template, "template", TEMPLATES)
    n_null = check_integer(n_null, "n_null", minimum=1)
    if k_max is not None:
        k_max = check_integer(k_max, "k_max", minimum=1, maximum=m)
    if band == "scp":
        return _scp_threshold(n, alpha)
    if band == "dkw":
        return max(0, math.floor((alpha - dkw_deviation(n, m, delta)) * (n + 1)))
    k = allowed_misses(alpha, m)
    if band == "exact":
        return _exact_threshold(n, m, k, delta)
    K = template_size(k, m, k_max)
    if template == "beta":
        return int(beta_template(n, m, K, delta)[k]) - 1
    rng = as_generator(random_state)
    return int(learned_template(lambda size: ordered_ranks(n, m, K, size, rng), n, m, K, delta, n_null)[k]) - 1


def smallest_n_cal(threshold: Callable[[int], int], start: int, wanted: int = 1, limit: int = 2**24) -> int | None:
    """Return the smallest n >= start with ``threshold(n) >= wanted``, or None if there is none up to `limit`."""
    low, high = start - 1, start
    while threshold(high) < wanted:
        low, high = high, 2 * high
        if high > limit:
            return None
    while high - low > 1:
        n = (low + high) // 2
        low, high = (low, n) if threshold(n) >= wanted else (n, high)
    return high
