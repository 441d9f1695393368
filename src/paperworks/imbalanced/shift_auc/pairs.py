"""Sums of a loss over all pairs of two samples, with gradients, without the matrix of pairs.

Every sum is ``sum_ij v_i w_j l(a_i - b_j)``. The squared loss needs moments only, the piecewise linear and the zero-one
losses one sort and cumulated weights. The sigmoid and the logistic loss are analytic within a distance of pi from the
real line, so as functions of one score they equal their Chebyshev interpolants on K nodes to rounding, with K set by
the spread of the scores: the matrix of pairs is a product of two thin matrices, and the sums cost O(K (n + m)).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.polynomial.chebyshev import chebval
from numpy.typing import NDArray
from scipy.special import expit

__all__ = ["LOSSES", "SYMMETRIC", "PairSum", "blocks", "loss_values", "pair_sum"]

Floats = NDArray[np.float64]

LOSSES = ("sigmoid", "logistic", "squared", "hinge", "ramp", "zero_one")
SYMMETRIC = ("sigmoid", "ramp", "zero_one")
"""Losses with l(z) + l(-z) = 1."""

_RANGE = 340.0
"""Scores within this distance of their centre: the product of two exponentials stays finite."""

_BLOCK = 1 << 17
"""Pairs held at once where they are summed one by one."""


class PairSum(NamedTuple):
    """A sum over pairs and its gradient in both samples of scores."""

    value: float
    by_a: Floats
    by_b: Floats


def loss_values(z: Floats, loss: str) -> Floats:
    """Return the loss of each margin."""
    values: Any
    if loss == "sigmoid":
        values = expit(-z)
    elif loss == "logistic":
        values = np.logaddexp(0.0, -z)
    elif loss == "squared":
        values = 0.5 * (1.0 - z) ** 2
    elif loss == "hinge":
        values = np.maximum(0.0, 1.0 - z)
    elif loss == "ramp":
        values = np.clip(0.5 * (1.0 - z), 0.0, 1.0)
    else:
        values = (z < 0) + 0.5 * (z == 0)
    return np.asarray(values, dtype=np.float64)


def _slopes(z: Floats, loss: str) -> Floats:
    slopes: Any
    if loss == "sigmoid":
        value = expit(-z)
        slopes = value * (value - 1.0)
    elif loss == "logistic":
        slopes = -expit(-z)
    elif loss == "squared":
        slopes = z - 1.0
    elif loss == "hinge":
        slopes = -1.0 * (z < 1)
    elif loss == "ramp":
        slopes = -0.5 * (np.abs(z) < 1)
    else:
        slopes = np.zeros_like(z)
    return np.asarray(slopes, dtype=np.float64)


def blocks(n_rows: int, n_columns: int, chunk: int | None) -> list[slice]:
    """Cut rows into blocks of `chunk`, by default of at most 131,072 pairs."""
    size = chunk or max(1, _BLOCK // max(1, n_columns))
    return [slice(i, i + size) for i in range(0, n_rows, size)]


def pair_sum(loss: str, a: Floats, b: Floats, v: Floats, w: Floats, *, chunk: int | None = None) -> PairSum:
    """Return ``sum_ij v_i w_j l(a_i - b_j)`` and its gradients in `a` and `b`.

    With `chunk` the pairs are summed one by one, `chunk` rows of `a` at once.
    """
    if chunk is not None:
        return _one_by_one(loss, a, b, v, w, chunk)
    if loss == "squared":
        return _squared(a, b, v, w)
    if loss == "hinge":
        return _hinge(a, b, v, w, 1.0)
    if loss == "ramp":  # ((1 - z)+ - (-1 - z)+) / 2
        upper, lower = _hinge(a, b, v, w, 1.0), _hinge(a, b, v, w, -1.0)
        return PairSum(
            0.5 * (upper.value - lower.value), 0.5 * (upper.by_a - lower.by_a), 0.5 * (upper.by_b - lower.by_b)
        )
    if loss == "zero_one":
        return _zero_one(a, b, v, w)
    longer = a if len(a) >= len(b) else b
    # the nearest singularities lie at a distance of pi from the real line; the error falls by exp(-asinh(pi/h)) a node
    half = max(0.5 * float(np.ptp(longer)), 1e-3)
    n_nodes = math.ceil(36.0 / math.asinh(math.pi / half)) + 12
    if 2 * n_nodes >= min(len(a), len(b)):
        return _one_by_one(loss, a, b, v, w, None)
    if len(a) >= len(b):
        return PairSum(*_interpolated(loss, 1.0, a, b, v, w, n_nodes, half))
    value, by_b, by_a = _interpolated(loss, -1.0, b, a, w, v, n_nodes, half)
    return PairSum(value, by_a, by_b)


def _one_by_one(loss: str, a: Floats, b: Floats, v: Floats, w: Floats, chunk: int | None) -> PairSum:
    centre = 0.25 * (float(a.max()) + float(a.min()) + float(b.max()) + float(b.min()))
    a, b = a - centre, b - centre
    value, by_a, by_b = 0.0, np.empty(len(a)), np.zeros(len(b))
    # 1/(1 + e^a e^-b): n + m exponentials in place of n m of them, unless their products leave the range of floats
    narrow = loss == "sigmoid" and max(np.abs(a).max(), np.abs(b).max()) < _RANGE
    if narrow:
        a, b = np.exp(a), np.exp(-b)
    for rows in blocks(len(a), len(b), chunk):
        p = v[rows]
        if loss == "sigmoid":
            if narrow:
                values = np.multiply.outer(a[rows], b)
                values += 1.0
                np.reciprocal(values, out=values)
            else:
                values = np.subtract.outer(a[rows], b)
                expit(np.negative(values, out=values), out=values)
            along, across = values @ w, p @ values
            value += float(p @ along)
            values *= values  # the slope is l^2 - l
            by_a[rows] = p * (values @ w - along)
            by_b -= p @ values - across
        else:
            z = np.subtract.outer(a[rows], b)
            slopes = _slopes(z, loss)
            value += float(p @ (loss_values(z, loss) @ w))
            by_a[rows] = p * (slopes @ w)
            by_b -= p @ slopes
    return PairSum(value, by_a, by_b * w)


def _squared(a: Floats, b: Floats, v: Floats, w: Floats) -> PairSum:
    total_v, total_w = v.sum(), w.sum()
    centre = float(b.mean())
    gap, b = 1.0 - (a - centre), b - centre  # 1 - z = gap + b
    v_gap, w_b = v @ gap, w @ b
    value = 0.5 * (total_w * (v @ gap**2) + total_v * (w @ b**2)) + v_gap * w_b
    return PairSum(float(value), -v * (gap * total_w + w_b), w * (v_gap + total_v * b))


def _hinge(a: Floats, b: Floats, v: Floats, w: Floats, knot: float) -> PairSum:
    """The loss (knot - z)+: pairs with a_i below u_j = b_j + knot count u_j - a_i."""
    centre = float(b.mean())
    a, u = a - centre, b - centre + knot
    order_u, order_a = np.argsort(u, kind="stable"), np.argsort(a, kind="stable")
    sorted_u = u[order_u]
    above = np.searchsorted(sorted_u, a, side="right")
    mass = _tail(w[order_u])[above]
    moment = _tail((w * u)[order_u])[above]
    below = np.searchsorted(a[order_a], u, side="left")
    mass_below = _head(v[order_a])[below]
    return PairSum(float(v @ (moment - a * mass)), -v * mass, w * mass_below)


def _zero_one(a: Floats, b: Floats, v: Floats, w: Floats) -> PairSum:
    order = np.argsort(b, kind="stable")
    tail, sorted_b = _tail(w[order]), b[order]
    left, right = np.searchsorted(sorted_b, a, side="left"), np.searchsorted(sorted_b, a, side="right")
    value = float(v @ (0.5 * (tail[left] + tail[right])))
    return PairSum(value, np.zeros(len(a)), np.zeros(len(b)))


def _head(x: Floats) -> Floats:
    return np.concatenate(([0.0], np.cumsum(x)))


def _tail(x: Floats) -> Floats:
    return np.concatenate((np.cumsum(x[::-1])[::-1], [0.0]))


def _interpolated(
    loss: str, sign: float, x: Floats, y: Floats, p: Floats, q: Floats, n_nodes: int, half: float
) -> tuple[float, Floats, Floats]:
    """``sum p_i q_j l(sign (x_i - y_j))`` through Chebyshev nodes on the range of x."""
    centre = 0.5 * (float(x.max()) + float(x.min()))
    t = (x - centre) / half
    angles = np.pi * (np.arange(n_nodes) + 0.5) / n_nodes
    to_coefficients = np.cos(np.outer(np.arange(n_nodes), angles)) * (2.0 / n_nodes)
    to_coefficients[0] *= 0.5
    z = sign * ((centre + half * np.cos(angles))[:, None] - y)
    values = loss_values(z, loss)
    slopes = values * (values - 1.0) if loss == "sigmoid" else _slopes(z, loss)
    at_nodes = _chebyshev_moments(t, p, n_nodes) @ to_coefficients
    value = float(at_nodes @ (values @ q))
    by_x = sign * p * chebval(t, to_coefficients @ (slopes @ q))
    by_y = -sign * q * (at_nodes @ slopes)
    return value, by_x, by_y


def _chebyshev_moments(t: Floats, p: Floats, n_terms: int) -> Floats:
    """``sum_i p_i T_k(t_i)`` for k = 0, ..., n_terms - 1, by the three-term recurrence."""
    moments = np.empty(n_terms)
    before, now, twice = p, p * t, 2.0 * t
    moments[0] = p.sum()
    for k in range(1, n_terms):
        moments[k] = now.sum()
        before, now = now, twice * now - before
    return moments
