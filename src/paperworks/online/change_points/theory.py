"""How many samples change points cost: the lower bounds of the paper, and the shares of samples that reach them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize

from paperworks._checks import check_choice, check_finite_array, check_integer, check_positive, check_probability_open

__all__ = ["allocation", "glr_statistic", "lower_bound"]

Floats = NDArray[np.float64]

OBJECTIVES = ("any", "exact")
FLOOR = 1e-9  # of a jump, in units of sigma: without it a jump estimated as 0 would take every sample


def lower_bound(
    means: ArrayLike, n_changes: int = 1, *, sigma: float = 1.0, delta: float = 0.05, objective: str = "any"
) -> float:
    """Return the fewest samples, on average, in which any method finds the change points.

    Parameters
    ----------
    means : array-like of shape (n_arms,)
        True mean of each arm. Neighbours whose means differ, however little, are a change point.
    n_changes : int, default=1
        How many change points are to be found; only for ``objective="any"``.
    sigma : float, default=1.0
        Standard deviation of a reward, in the unit of the means.
    delta : float, default=0.05
        Probability of error that is allowed, in (0, 1).
    objective : {"any", "exact"}, default="any"
        ``"any"``: some `n_changes` of the change points, of which there may be more (Theorem 5.5). ``"exact"``: all of
        them, when their number is known (Corollary 4.3 for one, Theorem 5.2 for more).

    Returns
    -------
    float
        8 sigma^2 log(1 / (4 delta)) times the sum of 1 / jump^2 over the `n_changes` largest jumps; for ``"exact"``
        with two or more jumps 4 in place of 8, over all jumps. It is 0 for `delta` >= 1/4.

    Raises
    ------
    ValueError
        If an argument is out of range, or `means` have fewer than `n_changes` change points, or none.
    TypeError
        If an argument has the wrong type.

    References
    ----------
    J. Lazzaro, C. Pike-Burke, "Fixed-Confidence Multiple Change Point Identification under Bandit Feedback", ICML 2025.

    Examples
    --------
    >>> from paperworks.online import lower_bound
    >>> round(lower_bound([0, 0, 0, 1, 1], delta=0.1), 3)
    7.33
    """
    jumps = np.abs(np.diff(check_means(means)))
    n_changes = check_integer(n_changes, "n_changes", minimum=1)
    sigma, delta = check_positive(sigma, "sigma"), check_probability_open(delta, "delta")
    jumps = np.sort(jumps[jumps > 0])[::-1]
    if check_choice(objective, "objective", OBJECTIVES) == "exact":
        n_changes = max(jumps.size, 1)
    if jumps.size < n_changes:
        raise ValueError(f"means must have at least {n_changes} change point(s), got {jumps.size}")
    factor = 8.0 if objective == "any" or n_changes == 1 else 4.0
    return float(factor * max(-math.log(4.0 * delta), 0.0) * np.square(sigma / jumps[:n_changes]).sum())


def allocation(means: ArrayLike, change_points: ArrayLike, exact: bool = False) -> Floats:
    """Return the share of samples that each arm should get, so that all change points are confirmed together.

    Parameters
    ----------
    means : array-like of shape (n_arms,)
        Mean of each arm.
    change_points : array-like of int of shape (n_changes,)
        Change points to confirm; x stands between arms x and x + 1, whose means must differ.
    exact : bool, default=False
        Solve the paper's trade-off numerically. The formula is already optimal unless two change points share an arm.

    Returns
    -------
    ndarray of shape (n_arms,)
        Shares that sum to 1, zero away from the change points. The two arms of a change point get shares in
        proportion to 1 / jump^2; an arm of two change points gets the sum.

    Raises
    ------
    ValueError
        If `change_points` is empty, repeated, out of range, or names neighbours with equal means.
    TypeError
        If `means` are not numbers or `change_points` are not integers.

    Notes
    -----
    With `exact` the smallest of w_x w_{x+1} / (w_x + w_{x+1}) jump_x^2 over the change points is as large as it can be.
    Where change points share an arm the paper's formula falls a little short of that.

    Examples
    --------
    >>> from paperworks.online import allocation
    >>> allocation([0.0, 1.0, 3.0], [0, 1])
    array([0.4, 0.5, 0.1])
    >>> allocation([0.0, 1.0, 3.0], [0, 1], exact=True).round(3)
    array([0.464, 0.469, 0.067])
    """
    values = check_means(means)
    points = np.asarray(change_points)
    if points.ndim != 1 or points.size == 0:
        raise ValueError(f"change_points must be a non-empty list, got shape {points.shape}")
    if not np.issubdtype(points.dtype, np.integer):
        raise TypeError(f"change_points must be integers, got dtype {points.dtype}")
    points = np.sort(points)
    if points[0] < 0 or points[-1] > values.size - 2 or (np.diff(points) == 0).any():
        raise ValueError(f"change_points must be different numbers in 0..{values.size - 2}, got {points.tolist()}")
    jumps = np.abs(np.diff(values))[points]
    if (jumps == 0).any():
        raise ValueError(f"means do not change at change_points {points[jumps == 0].tolist()}")
    shares = np.zeros(values.size)
    if not exact:
        half = pair_shares(list(jumps), 0.0)
        for x, share in zip(points, half, strict=True):
            shares[x] += share
            shares[x + 1] += share
        return shares
    scaled = jumps / jumps.min()
    for chain in np.split(np.arange(points.size), np.flatnonzero(np.diff(points) > 1) + 1):
        first = points[chain[0]]
        shares[first : first + chain.size + 1] = _chain_weights(scaled[chain] ** 2)
    return shares / shares.sum()


def pair_shares(jumps: list[Any], floor: Any) -> list[Any]:
    """Return the share of *each* of the two arms of every jump; the entries may be arrays over runs."""
    jumps = [np.maximum(jump, floor) for jump in jumps]
    least = jumps[0]
    for jump in jumps[1:]:
        least = np.minimum(least, jump)
    inverse = [(least / jump) * (least / jump) for jump in jumps]
    total = inverse[0]
    for each in inverse[1:]:
        total = total + each
    return [0.5 * each / total for each in inverse]


def _chain_weights(squares: Floats) -> Floats:
    """Return the least weights w of neighbouring arms with 1 / w_i + 1 / w_{i+1} <= squares_i for each pair.

    The dual is to maximise sum_i 2 sqrt(v_{i-1} + v_i) - sum_i v_i squares_i over v >= 0, and then
    w_i = sqrt(v_{i-1} + v_i). The variables are scaled by the solution 4 / squares^2 of a pair alone.
    """
    scale = 4.0 / squares**2
    if squares.size == 1:
        return np.sqrt(np.r_[scale, scale])

    def loss(v: Floats) -> tuple[float, Floats]:
        roots = np.sqrt(np.maximum(np.convolve(v * scale, [1.0, 1.0]), 1e-300))
        slope = scale * (1.0 / roots[:-1] + 1.0 / roots[1:] - squares)
        return float((v * scale * squares).sum() - 2.0 * roots.sum()), -slope

    bounds = [(0.0, None)] * squares.size
    options = {"ftol": 1e-15, "gtol": 1e-10, "maxiter": 10_000, "maxfun": 100_000}
    found = minimize(loss, np.full(squares.size, 0.5), jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return np.asarray(np.sqrt(np.convolve(found.x * scale, [1.0, 1.0])))


def glr_statistic(counts: ArrayLike, means: ArrayLike, *, sigma: float) -> Floats:
    """Return the log likelihood ratio for a jump between each pair of neighbours.

    Parameters
    ----------
    counts : array-like of shape (n_arms,)
        Rewards seen of each arm, >= 0.
    means : array-like of shape (n_arms,)
        Their averages; what stands at an arm without rewards does not matter, if it is finite.
    sigma : float
        Standard deviation of a reward, in the unit of the means.

    Returns
    -------
    ndarray of shape (n_arms - 1,)
        How much better two means explain the rewards of the pair than one does,
        n_x n_{x+1} / (n_x + n_{x+1}) (mean_x - mean_{x+1})^2 / (2 sigma^2); 0 where an arm has no rewards.

    Raises
    ------
    ValueError
        If lengths differ, a count is negative, or `sigma` is not positive.
    TypeError
        If an argument is not numeric.

    Examples
    --------
    >>> from paperworks.online import glr_statistic
    >>> glr_statistic([4, 4, 0], [0.0, 1.0, 7.0], sigma=1.0)
    array([1., 0.])
    """
    values, n = check_means(means), check_finite_array(counts, "counts", ndim=1)
    if n.shape != values.shape or (n < 0).any():
        raise ValueError(f"counts must be {values.size} numbers >= 0, one for each mean, got {n.tolist()}")
    return pair_statistic(n[:-1], n[1:], np.abs(np.diff(values)), check_positive(sigma, "sigma"))


def pair_statistic(left: Any, right: Any, distance: Any, sigma: float) -> Any:
    """Return the log likelihood ratio of pairs with (effective) sample sizes `left` and `right`."""
    scaled = distance / sigma
    return left * right / (left + right + 1e-300) * (0.5 * scaled) * scaled


def check_means(means: Any) -> Floats:
    """Return the means of at least two arms."""
    values = check_finite_array(means, "means", ndim=1)
    if values.size < 2:
        raise ValueError(f"means must hold at least 2 arms, got {values.size}")
    return values
