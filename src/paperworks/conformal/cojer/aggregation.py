"""Prediction sets of several models: aggregate their conformal ranks, keep the labels whose aggregate is high enough.

Model q gives the label y at x the rank ``R_q(y) = 1 + #{i: r_qi >= |y - f_q(x)|}``. The set is ``{y: agg(R(y)) >
level}``. It is closed, every right end of a piece is a breakpoint ``f_q + r_qi`` and every left end an ``f_q - r_qi``,
so its hull and its pieces are found exactly, with no grid of labels.

Ranks are integers and all comparisons are made on them, not on p-values: three equal p-values of 2/201 have a harmonic
mean above 2/201 in double precision, which would widen the set by one residual.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .thresholds import ordered_ranks

__all__ = [
    "AGGREGATIONS",
    "QUANTILE_LEVEL",
    "aggregate",
    "conformal_ranks",
    "independent_ranks",
    "is_unbounded",
    "prediction_hulls",
    "prediction_unions",
    "strictly_above",
]

AGGREGATIONS = ("harmonic", "arithmetic", "geometric", "quantile")

QUANTILE_LEVEL = 0.3
"""gamma of the quantile aggregation: quantile_gamma(p) / gamma."""

_ROUNDING = 1e-12
_N_CELLS = 16
_N_ROUNDS = 3
_BLOCK = 16_384
"""Test points, or their breakpoints, that are treated at once: it bounds the memory."""

Floats = NDArray[np.float64]


def aggregate(ranks: NDArray[Any], aggregation: str) -> Floats:
    """Aggregate conformal ranks over the models, which lie along the last axis.

    All four are homogeneous, so the aggregated p-value is the aggregated rank over n + 1 (at most 1 for the quantile).
    """
    ranks = np.asarray(ranks, dtype=np.float64)
    n_models = ranks.shape[-1]
    if aggregation == "harmonic":
        return n_models / np.reciprocal(ranks).sum(axis=-1)
    if aggregation == "arithmetic":
        return ranks.mean(axis=-1)
    if aggregation == "geometric":
        return np.exp(np.log(ranks).mean(axis=-1))
    position = QUANTILE_LEVEL * (n_models - 1)
    below = int(position)
    above = min(below + 1, n_models - 1)
    ordered = np.sort(ranks, axis=-1)
    quantile = ordered[..., below] + (position - below) * (ordered[..., above] - ordered[..., below])
    return quantile / QUANTILE_LEVEL


def strictly_above(threshold: Any) -> Any:
    """Return the level that an aggregate must exceed to count as more than `threshold`, rounding set aside."""
    return threshold * (1.0 + _ROUNDING)


def conformal_ranks(y: Floats, predictions: Floats, residuals: Floats) -> Floats:
    """Return the rank of every label under every model.

    Parameters
    ----------
    y : ndarray of shape (..., 1)
        Labels, broadcast against the predictions.
    predictions : ndarray of shape (..., M)
        Predictions of the M models.
    residuals : ndarray of shape (M, n)
        Calibration residuals, sorted along the second axis.

    Returns
    -------
    ndarray of shape (..., M)
        Ranks in 1..n+1.
    """
    n_models, n = residuals.shape
    # |(f + r) - f| may exceed r by rounding: labels within a few units in the last place of a breakpoint lie on it.
    slack = 4.0 * np.finfo(np.float64).eps * (np.abs(y) + np.abs(predictions))
    distance = np.abs(y - predictions) - slack
    ranks = np.empty(distance.shape)
    for q in range(n_models):
        ranks[..., q] = n + 1 - np.searchsorted(residuals[q], distance[..., q], side="left")
    return ranks


def independent_ranks(
    n: int, m: int, n_columns: int, size: int, n_models: int, aggregation: str, rng: np.random.Generator
) -> NDArray[np.int32]:
    """Draw the smallest aggregated ranks of batches under models whose ranks are independent.

    Rounded up to integers, for an aggregate exceeds an integer t iff its ceiling does.

    Returns
    -------
    ndarray of shape (size, n_columns)
        The `n_columns` smallest of every batch of m, in order.
    """
    drawn = np.empty((size, n_columns), dtype=np.int32)
    batch = max(1, 2_000_000 // (m * n_models))
    for start in range(0, size, batch):
        block = drawn[start : start + batch]
        ranks = np.empty((len(block), m, n_models))
        for q in range(n_models):
            ranks[:, :, q] = rng.permuted(ordered_ranks(n, m, m, len(block), rng), axis=1)
        combined = np.ceil(aggregate(ranks, aggregation) * (1.0 - _ROUNDING))
        combined = np.minimum(combined, n + 1).astype(np.int32)
        block[:] = np.sort(combined, axis=1)[:, :n_columns]
    return drawn


def is_unbounded(n_models: int, aggregation: str, level: float) -> bool:
    """Return whether labels of the lowest rank, 1 under all models, are still accepted."""
    return bool(aggregate(np.ones(n_models), aggregation) > level)


def prediction_hulls(predictions: Floats, residuals: Floats, aggregation: str, level: float) -> Floats:
    """Return the smallest interval that holds the prediction set, for every test point.

    Parameters
    ----------
    predictions : ndarray of shape (m, M)
        Predictions of the M models at the m test points.
    residuals : ndarray of shape (M, n)
        Calibration residuals, sorted along the second axis.
    aggregation : str
        One of `AGGREGATIONS`.
    level : float
        What the aggregated rank must exceed.

    Returns
    -------
    ndarray of shape (m, 2)
        Lower and upper ends; ``[nan, nan]`` where the set is empty, infinite where it is the whole line.
    """
    m, n_models = predictions.shape
    n = residuals.shape[1]
    if is_unbounded(n_models, aggregation, level):
        return np.tile([-np.inf, np.inf], (m, 1))
    if n_models == 1:
        all_ranks = np.arange(1, n + 2, dtype=np.float64)[:, None]
        t = int((aggregate(all_ranks, aggregation) <= level).sum())
        if t > n:  # not even the prediction itself is accepted
            return np.full((m, 2), np.nan)
        return predictions + np.array([-1.0, 1.0]) * residuals[0, n - t]
    # The left end is the right end of the mirrored problem, for |y - f| = |-y - (-f)|.
    blocks = [predictions[i : i + _BLOCK] for i in range(0, m, _BLOCK)]
    left = np.concatenate([-_hull_ends(-f, residuals, aggregation, level) for f in blocks])
    right = np.concatenate([_hull_ends(f, residuals, aggregation, level) for f in blocks])
    # A set of one label may be seen from one side only, by rounding; an empty one from neither.
    return np.column_stack([np.where(np.isnan(left), right, left), np.where(np.isnan(right), left, right)])


def _hull_ends(f: Floats, residuals: Floats, aggregation: str, level: float) -> Floats:
    """Return the right ends of the sets, NaN for an empty set."""
    outer = f.max(axis=1)[:, None]
    monotone = aggregate(conformal_ranks(outer, f, residuals), aggregation) > level
    ends = np.empty(len(f))
    ends[monotone] = _right_ends(f[monotone], residuals, aggregation, level)
    ends[~monotone] = _inner_right_ends(f[~monotone], residuals, aggregation, level)
    return ends


def _right_ends(f: Floats, residuals: Floats, aggregation: str, level: float) -> Floats:
    """Return the right ends of sets that hold the largest prediction; beyond it the aggregate only falls.

    Bisection over the merged breakpoints ``f_q + r_qi`` of all test points at once: each round looks at the middle of
    the longest undecided list and shortens the lists of all models by what it finds.
    """
    n = residuals.shape[1]
    outer = f.max(axis=1)
    accepted = conformal_ranks(outer[:, None], f, residuals)  # reuse of the buffer: indices of accepted breakpoints
    accepted = np.maximum(n - accepted, -1.0).astype(np.int64)
    rejected = np.full(f.shape, n, dtype=np.int64)
    active = np.arange(len(f))
    while active.size:
        width = rejected[active] - accepted[active]
        longest = width.argmax(axis=1)
        undecided = width[np.arange(active.size), longest] > 1
        active, q = active[undecided], longest[undecided]
        if not active.size:
            break
        middle = (accepted[active, q] + rejected[active, q]) // 2
        y = f[active, q] + residuals[q, middle]
        ranks = conformal_ranks(y[:, None], f[active], residuals)
        inside = aggregate(ranks, aggregation) > level
        position = (n + 1 - ranks).astype(np.int64)  # number of breakpoints left of y, per model
        yes, no = active[inside], active[~inside]
        accepted[yes] = np.maximum(accepted[yes], position[inside] - 1)
        accepted[yes, q[inside]] = np.maximum(accepted[yes, q[inside]], middle[inside])
        rejected[no] = np.minimum(rejected[no], np.maximum(position[~inside], accepted[no] + 1))
    last = np.take_along_axis(residuals.T, np.maximum(accepted, 0), axis=0)
    ends = np.where(accepted >= 0, f + last, -np.inf)
    return np.maximum(outer, ends.max(axis=1))


def _inner_right_ends(f: Floats, residuals: Floats, aggregation: str, level: float) -> Floats:
    """Return the right ends of sets that do not hold the largest prediction, NaN for an empty set.

    Nothing beyond the largest prediction is accepted, and left of the smallest one nothing that the smallest itself is
    not. In between the aggregate may rise and fall. A window that holds the right end is cut into cells, those that an
    upper bound of the aggregate excludes are dropped, and the breakpoints of what is left are looked at one by one.
    """
    ends = np.full(len(f), np.nan)
    low, high = f.min(axis=1), f.max(axis=1)
    open_ = np.arange(len(f))
    for _ in range(_N_ROUNDS):
        if not open_.size:
            return ends
        u, v, centres = low[open_, None], high[open_, None], f[open_]
        grid = u + np.linspace(0.0, 1.0, _N_CELLS + 1) * (v - u)
        nodes = np.sort(np.concatenate([grid, np.clip(centres, u, v)], axis=1), axis=1)  # no prediction inside a cell
        ranks = conformal_ranks(nodes[:, :, None], centres[:, None, :], residuals)
        inside = aggregate(ranks, aggregation) > level
        possible = aggregate(np.maximum(ranks[:, :-1], ranks[:, 1:]), aggregation) > level
        n_nodes = nodes.shape[1]
        last_inside = np.where(inside.any(axis=1), n_nodes - 1 - inside[:, ::-1].argmax(axis=1), -1)
        known = last_inside >= 0
        ends[open_[known]] = nodes[known, last_inside[known]]
        possible &= np.arange(n_nodes - 1) >= last_inside[:, None]
        left = possible.any(axis=1)
        rows = np.flatnonzero(left)
        open_ = open_[left]
        low[open_] = nodes[rows, possible[rows].argmax(axis=1)]
        high[open_] = nodes[rows, n_nodes - 1 - possible[rows, ::-1].argmax(axis=1)]
    _look_one_by_one(ends, open_, low, high, f, residuals, aggregation, level)
    return ends


def _look_one_by_one(
    ends: Floats,
    points: NDArray[np.int64],
    low: Floats,
    high: Floats,
    f: Floats,
    residuals: Floats,
    aggregation: str,
    level: float,
) -> None:
    """Raise the ends of `points` to the largest accepted breakpoint f_q + r_qi in their window [low, high]."""
    n_models, n = residuals.shape
    begin = np.empty((points.size, n_models), dtype=np.int64)
    count = np.empty_like(begin)
    for q in range(n_models):
        begin[:, q] = np.maximum(np.searchsorted(residuals[q], low[points] - f[points, q]) - 1, 0)
        stop = np.minimum(np.searchsorted(residuals[q], high[points] - f[points, q], side="right") + 1, n)
        count[:, q] = stop - begin[:, q]
    block = np.cumsum(count.sum(axis=1)) // _BLOCK
    for first, last in zip(*_runs(block), strict=True):
        counts = count[first:last].ravel()
        owner = np.repeat(np.arange(counts.size), counts)
        offset = np.arange(owner.size) - np.repeat(np.cumsum(counts) - counts, counts)
        q, point = owner % n_models, points[first + owner // n_models]
        y = f[point, q] + residuals[q, begin[first:last].ravel()[owner] + offset]
        inside = aggregate(conformal_ranks(y[:, None], f[point], residuals), aggregation) > level
        np.fmax.at(ends, point[inside], y[inside])


def _runs(labels: NDArray[np.int64]) -> tuple[list[int], list[int]]:
    """Return the starts and stops of the runs of equal labels."""
    cuts = (np.flatnonzero(np.diff(labels)) + 1).tolist()
    return ([0, *cuts], [*cuts, labels.size]) if labels.size else ([], [])


def prediction_unions(predictions: Floats, residuals: Floats, aggregation: str, level: float) -> list[Floats]:
    """Return all pieces of the prediction set of every test point.

    The arguments are those of `prediction_hulls`.

    Returns
    -------
    list of ndarray of shape (k, 2)
        Closed pieces, sorted and disjoint; shape (0, 2) for an empty set.
    """
    n_models = predictions.shape[1]
    if n_models == 1 or is_unbounded(n_models, aggregation, level):
        hulls = prediction_hulls(predictions, residuals, aggregation, level)
        return [hull[None][~np.isnan(hull[:1])] for hull in hulls]
    unions = []
    for f in predictions:
        y = np.unique(np.concatenate([f[:, None] - residuals, f[:, None] + residuals]))
        # Breakpoints and, in between, the open gaps: a gap is accepted only together with both of its ends.
        y_all = np.empty(2 * y.size - 1)
        y_all[::2] = y
        y_all[1::2] = 0.5 * (y[:-1] + y[1:])
        inside = aggregate(conformal_ranks(y_all[:, None], f, residuals), aggregation) > level
        edges = np.diff(np.concatenate(([False], inside, [False])).astype(np.int8))
        starts, stops = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1) - 1
        unions.append(np.column_stack([y_all[starts], y_all[stops]]))
    return unions
