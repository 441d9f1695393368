"""The false coverage proportion of a batch of prediction sets."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .models import as_target

__all__ = ["false_coverage_proportion"]


def false_coverage_proportion(intervals: Any, y: ArrayLike) -> float:
    """Return the share of labels that their prediction sets miss.

    Parameters
    ----------
    intervals : array-like of shape (m, 2), or list of m array-likes of shape (k, 2)
        Lower and upper ends, which belong to the interval; or all pieces of every prediction set. An interval of NaN
        and a set of no pieces are empty and miss.
    y : array-like of shape (m,)
        The true labels.

    Returns
    -------
    float
        The number of misses over m.

    Raises
    ------
    ValueError
        If the shapes do not fit, m is 0, or a label is NaN.

    Examples
    --------
    >>> from paperworks.conformal import false_coverage_proportion
    >>> false_coverage_proportion([[0, 1], [0, 1], [0, 1], [float("nan"), float("nan")]], [0.5, 1.0, 2.0, 0.5])
    0.5
    """
    labels = as_target(y, "y")
    if not len(labels):
        raise ValueError("y must hold at least one label, got 0")
    if len(intervals) != len(labels):
        raise ValueError(f"intervals and y must have the same length, got {len(intervals)} and {len(labels)}")
    pieces = [np.asarray(item, dtype=np.float64) for item in intervals]
    if all(piece.shape == (2,) for piece in pieces):
        table = np.stack(pieces)
        hit = (table[:, 0] <= labels) & (labels <= table[:, 1])
    else:
        for i, piece in enumerate(pieces):
            if piece.ndim != 2 or piece.shape[1] != 2:
                raise ValueError(
                    f"intervals must have shape (m, 2) or hold arrays of shape (k, 2); item {i} has shape {piece.shape}"
                )
        hit = np.array([bool(((p[:, 0] <= v) & (v <= p[:, 1])).any()) for p, v in zip(pieces, labels, strict=True)])
    return float((~hit).sum() / len(labels))
