"""Checks of what a user hands in; each error names the argument, what came and what was expected."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from paperworks._checks import check_finite_array, check_positive

Floats = NDArray[np.float64]


def coded(treatments: Any, p: int, names: Sequence[Any] | None, name: str = "treatments") -> NDArray[np.int8]:
    """Return 0/1 treatments, shape (n, p), as -1 and +1: the one place where the coding changes."""
    if isinstance(treatments, pd.DataFrame):
        columns = list(treatments.columns)
        if len(set(columns)) < len(columns):
            double = next(c for c in columns if columns.count(c) > 1)
            raise ValueError(f"{name} has the column {double!r} more than once")
        if names is not None and columns != list(names):
            if set(columns) != set(names):
                raise ValueError(f"{name} must have the columns {list(names)}, got {columns}")
            treatments = treatments[list(names)]
        treatments = treatments.to_numpy()
    given = check_finite_array(treatments, name, ndim=2)
    if given.shape[0] < 1 or given.shape[1] != p:
        raise ValueError(f"{name} must have shape (n >= 1, {p}), got {given.shape}")
    odd = (given != 0) & (given != 1)
    if odd.any():
        row, column = np.argwhere(odd)[0]
        raise ValueError(f"{name} must be 0 or 1, got {given[row, column]:g} in row {row}, column {column}")
    return (2 * given - 1).astype(np.int8)


def dosage(dose: ArrayLike, p: int) -> Floats:
    """Return a dosage: p numbers in [0, 1]."""
    checked: Floats = check_finite_array(dose, "dose", ndim=1)
    if checked.size != p:
        raise ValueError(f"dose must have {p} values, got {checked.size}")
    outside = (checked < 0) | (checked > 1)
    if outside.any():
        raise ValueError(f"dose must lie in [0, 1], got {checked[outside][0]:g}")
    return checked


def term_weights(weights: ArrayLike, n_terms: int) -> Floats:
    """Return one weight >= 0 per term."""
    checked: Floats = check_finite_array(weights, "weights", ndim=1)
    if checked.size != n_terms:
        raise ValueError(f"weights must have one value per term, {n_terms}, got {checked.size}")
    if (checked < 0).any():
        raise ValueError(f"weights must not be negative, got {checked.min():g}")
    return checked


def limit(supply: float | None) -> float | None:
    """Return a limit on the sum of the dosages, or None."""
    return None if supply is None else check_positive(supply, "supply")


def greatest(upper: ArrayLike | None, p: int) -> Floats:
    """Return the greatest dosage of each treatment, in (0, 1]."""
    checked = check_finite_array(1.0 if upper is None else upper, "upper")
    if checked.shape not in ((), (p,)):
        raise ValueError(f"upper must be a number or {p} numbers, got shape {checked.shape}")
    if ((checked <= 0) | (checked > 1)).any():
        raise ValueError(f"upper must lie in (0, 1], got {checked.min():g} to {checked.max():g}")
    return np.array(np.broadcast_to(checked, (p,)))


def law(combinations: Any, weights: ArrayLike, p: int, names: Sequence[Any] | None) -> tuple[NDArray[np.int8], Floats]:
    """Return combinations as -1 and +1, and their probabilities, which sum to 1."""
    rows = coded(combinations, p, names, "combinations")
    q = check_finite_array(weights, "weights", ndim=1)
    if q.size != len(rows):
        raise ValueError(f"weights must have one value per combination, {len(rows)}, got {q.size}")
    if (q < 0).any() or not q.any():
        raise ValueError("weights must not be negative nor all zero")
    return rows, q / q.sum()
