"""Rent or buy without probabilities: what a rent time costs, and the two rules that people use today."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from paperworks._checks import check_finite_array, check_fraction, check_positive, check_probability_open

__all__ = ["binary_rent_time", "conformal_rent_time", "ski_rental_cost"]

Floats = NDArray[np.float64]


def check_not_negative(value: ArrayLike, name: str, *, ndim: int | None = None) -> Floats:
    """Return finite numbers >= 0."""
    array = check_finite_array(value, name, ndim=ndim)
    if (array < 0).any():
        raise ValueError(
            f"{name} must be >= 0, got {int((array < 0).sum())} negative value(s), the first "
            f"{float(array[array < 0].flat[0])!r}"
        )
    return array


def check_broadcastable(first: Floats, first_name: str, second: Floats, second_name: str) -> None:
    """Refuse shapes that don't go together."""
    try:
        np.broadcast_shapes(first.shape, second.shape)
    except ValueError:
        raise ValueError(
            f"{first_name} and {second_name} must have shapes that go together, got {first.shape} and {second.shape}"
        ) from None


def ski_rental_cost(k: ArrayLike, z: ArrayLike, b: float) -> Floats:
    """Return what it costs to rent for a time `k` and then buy, if the need lasts for a time `z`.

    Parameters
    ----------
    k : array-like
        Time after which it is bought, >= 0; renting costs 1 per unit of time.
    z : array-like
        Duration of the need, >= 0, of a shape that broadcasts with `k`.
    b : float
        Price of buying, > 0.

    Returns
    -------
    ndarray
        ``z`` where ``z <= k``, otherwise ``k + b``.

    Raises
    ------
    ValueError
        If a number is negative, not finite or, for `b`, zero, or the shapes don't go together.

    Notes
    -----
    Section 3 of the paper. Knowing `z`, the cost would be ``min(z, b)``.

    Examples
    --------
    >>> from paperworks.online import ski_rental_cost
    >>> ski_rental_cost(10.0, [4.0, 10.0, 25.0], 30.0)
    array([ 4., 10., 40.])
    """
    price = check_positive(b, "b")
    rent, need = check_not_negative(k, "k"), check_not_negative(z, "z")
    check_broadcastable(rent, "k", need, "z")
    return np.where(need <= rent, need, rent + price)


def binary_rent_time(pred: ArrayLike, *, error_rate: float, buy_cost: float) -> Floats:
    """Return rent times from a binary prediction with a known error rate.

    Parameters
    ----------
    pred : array-like
        1 (or True) where the need is predicted to last longer than `buy_cost`, else 0.
    error_rate : float
        Share of wrong predictions on data that the classifier has not seen, in [0, 1].
    buy_cost : float
        Price of buying, > 0, in the cost of renting for a unit of time.

    Returns
    -------
    ndarray
        ``sqrt(error_rate) * buy_cost`` where 1 is predicted, else `buy_cost`.

    Raises
    ------
    ValueError
        If a prediction is not 0 or 1, or a number out of range.

    Notes
    -----
    The rule of K. Anand, R. Ge, D. Panigrahi, "Customizing ML Predictions for Online Algorithms", ICML 2020, a peer in
    section 5 of the paper.

    Examples
    --------
    >>> from paperworks.online import binary_rent_time
    >>> binary_rent_time([0, 1], error_rate=0.25, buy_cost=30.0)
    array([30., 15.])
    """
    price = check_positive(buy_cost, "buy_cost")
    error = check_fraction(error_rate, "error_rate")
    array = check_finite_array(pred, "pred")
    bad = (array != 0.0) & (array != 1.0)
    if bad.any():
        raise ValueError(f"pred must be 0 or 1, got {float(array[bad].flat[0])!r}")
    return np.where(array == 1.0, np.sqrt(error) * price, price)


def conformal_rent_time(lower: ArrayLike, upper: ArrayLike, *, delta: float, buy_cost: float) -> Floats:
    """Return rent times from an interval that holds the duration with probability ``1 - delta``.

    Parameters
    ----------
    lower, upper : array-like
        Ends of the interval, ``0 < lower <= upper``, of shapes that broadcast. Intervals of a regression may reach
        below 0: clip `lower` at a small positive number.
    delta : float
        Probability that the interval misses, in (0, 1).
    buy_cost : float
        Price of buying, > 0, in the cost of renting for a unit of time.

    Returns
    -------
    ndarray
        Time after which to buy.

    Raises
    ------
    ValueError
        If `lower` is not positive or above `upper`, or a number is out of range.

    Notes
    -----
    Algorithm 2 of B. Sun et al., "Online Algorithms with Uncertainty-Quantified Predictions", ICML 2024, a peer in
    sections 3.3 and 5 of the paper. The published code of the paper has another square root,
    ``sqrt(b * delta / lower * (1 - delta))``; it should divide by ``lower * (1 - delta)``, as here.

    Examples
    --------
    >>> from paperworks.online import conformal_rent_time
    >>> conformal_rent_time([5.0, 50.0, 20.0], [20.0, 90.0, 40.0], delta=0.1, buy_cost=30.0)
    array([30., 10., 40.])
    """
    price = check_positive(buy_cost, "buy_cost")
    miss = check_probability_open(delta, "delta")
    low, high = check_finite_array(lower, "lower"), check_finite_array(upper, "upper")
    check_broadcastable(low, "lower", high, "upper")
    if (low <= 0).any():
        raise ValueError(
            f"lower must be > 0, got {float(low[low <= 0].flat[0])!r}; clip it at a small positive number, "
            "for instance np.maximum(lower, 1e-3)"
        )
    low, high = np.broadcast_arrays(low, high)
    if (low > high).any():
        place = tuple(int(i) for i in np.argwhere(low > high)[0])
        raise ValueError(
            f"lower must be at most upper, got {float(low[place])!r} > {float(high[place])!r} at index {place}"
        )
    odds = miss / (1.0 - miss)
    with np.errstate(over="ignore"):  # an interval that begins near 0 has an infinite ratio, which is right below
        ratio = price / low
    # Worst expected ratio of the best rent time up to `lower`, and that of renting up to `upper`.
    early = np.where(
        miss < low / (low + price),
        miss + (1.0 - miss) * ratio + 2.0 * np.sqrt(miss * (1.0 - miss) * ratio),
        1.0 + ratio,
    )
    late = miss + high / price
    between = np.where(
        (early >= 2.0) & (late >= 2.0),
        price,
        np.where(early <= late, low * np.minimum(1.0, np.sqrt(odds * ratio)), high),
    )
    long = price * min(1.0, np.sqrt(odds))
    return np.where(high <= price, price, np.where(low > price, long, between))
