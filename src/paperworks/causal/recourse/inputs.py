"""Checks of the tables and persons that a user hands in; each error names what came and what was expected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_bool_dtype, is_complex_dtype, is_numeric_dtype
from scipy import sparse

from paperworks._checks import check_finite_array

from .protocol import Floats, Integers

Names = tuple[Any, ...]


def as_generator(random_state: Any) -> np.random.Generator:
    """Return a NumPy generator; it never touches the global state."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31, size=4))
    if random_state is not None and not isinstance(random_state, int | np.integer | np.random.Generator):
        raise TypeError(f"random_state must be an integer, a Generator, a RandomState or None, got {random_state!r}")
    if isinstance(random_state, int | np.integer) and random_state < 0:
        raise ValueError(f"random_state must not be negative, got {random_state}")
    return np.random.default_rng(random_state)


def read_table(X: Any, name: str = "X") -> tuple[Floats, Names | None]:
    """Return a table as floats, and its column names if it has any."""
    if sparse.issparse(X):
        raise TypeError(f"{name} must be dense, got a sparse {type(X).__name__}; use {name}.toarray()")
    names: Names | None = None
    if isinstance(X, pd.DataFrame):
        names = tuple(X.columns)
        double = [column for column in dict.fromkeys(names) if names.count(column) > 1]
        if double:
            raise ValueError(f"{name} has the column {double[0]!r} more than once")
        coded = [c for c in names if not _is_number(X[c])]
        if coded:
            raise TypeError(
                f"{name} must be numeric; encode these columns first: "
                + ", ".join(f"{c!r} ({X[c].dtype})" for c in coded)
            )
        missing = [c for c in names if X[c].isna().any()]
        if missing:
            raise ValueError(f"{name} has missing values (NaN) in the columns " + ", ".join(map(repr, missing)))
        X = X.to_numpy(dtype=np.float64)
    elif np.asarray(X).dtype.kind in "USMmc":
        raise TypeError(f"{name} must be numeric, got dtype {np.asarray(X).dtype}; encode it first")
    table = check_finite_array(X, name, ndim=2)
    if table.shape[1] < 1:
        raise ValueError(f"{name} must have at least one column, got shape {table.shape}")
    return table, names


def _is_number(column: Any) -> bool:
    if is_bool_dtype(column.dtype):
        return not isinstance(column.dtype, pd.CategoricalDtype)
    return bool(is_numeric_dtype(column.dtype)) and not is_complex_dtype(column.dtype)


def read_labels(y: Any, n_samples: int) -> NDArray[np.int64]:
    """Return labels 0 and 1, both of which occur at least twice."""
    labels = check_finite_array(y, "y", ndim=1)
    if labels.size != n_samples:
        raise ValueError(f"y must have one label per row of X, {n_samples}, got {labels.size}")
    found = np.unique(labels)
    if not np.isin(found, (0.0, 1.0)).all():
        raise ValueError(f"y must be binary, 0 or 1 with 1 the favourable label; got {found[:5].tolist()}")
    counts = np.bincount(labels.astype(np.int64), minlength=2)
    if counts.min() < 2:
        raise ValueError(f"y must have at least 2 rows of each label, got {counts[0]} of 0 and {counts[1]} of 1")
    return labels.astype(np.int64)


def read_person(x: Any, n_features: int, names: Names | None) -> Floats:
    """Return one person as a vector; a Series, a mapping or a frame of one row is put in the order of `names`."""
    if isinstance(x, pd.DataFrame):
        if len(x) != 1:
            raise ValueError(f"x must be one person, got a frame of {len(x)} rows")
        table, given = read_table(x, "x")
        row, index = table[0], given
    elif isinstance(x, pd.Series | Mapping):
        series = pd.Series(dict(x), dtype=object)
        index, row = tuple(series.index), series.to_numpy()
        texts = [key for key, value in series.items() if isinstance(value, str | bytes | pd.Timestamp)]
        if texts:
            raise TypeError("x must be numeric; encode these first: " + ", ".join(map(repr, texts)))
    else:
        row, index = np.asarray(x), None
        if row.dtype.kind in "USMmc":
            raise TypeError(f"x must be numeric, got dtype {row.dtype}")
        if row.ndim == 2 and len(row) == 1:
            row = row[0]
    person = check_finite_array(row, "x", ndim=1)
    if index is not None and names is not None and index != names:
        if len(index) != len(names) or set(index) != set(names):
            raise ValueError(f"x must have the features {list(names)}, got {list(index)}")
        person = person[[index.index(name) for name in names]]
    if person.size != n_features:
        raise ValueError(f"x must have {n_features} features, got {person.size}")
    return person


def column_number(column: Any, name: str, n_features: int, names: Names | None) -> int:
    """Return the position of a column given by its name or its number."""
    if names is not None and column in names:
        return names.index(column)
    if isinstance(column, int | np.integer) and not isinstance(column, bool):
        if 0 <= column < n_features:
            return int(column)
        raise ValueError(f"{name} must name columns from 0 to {n_features - 1}, got {column}")
    known = f"one of {list(names)}" if names is not None else "a column number, as X has no column names"
    raise ValueError(f"{name} names the unknown column {column!r}; expected {known}")


def column_numbers(columns: Any, name: str, n_features: int, names: Names | None) -> Integers:
    """Return the positions of columns given by name or number, in ascending order."""
    if isinstance(columns, str) or not isinstance(columns, Sequence | np.ndarray | pd.Index | set | frozenset):
        raise TypeError(f"{name} must be a sequence of column names or numbers, got {columns!r}")
    return np.array(sorted({column_number(c, name, n_features, names) for c in columns}), dtype=np.intp)


def read_bounds(bounds: Any, n_features: int, names: Names | None) -> tuple[Floats, Floats]:
    """Return the lowest and the highest value that each feature of a target may have."""
    low, high = np.full(n_features, -np.inf), np.full(n_features, np.inf)
    if bounds is None:
        return low, high
    if not isinstance(bounds, Mapping):
        raise TypeError(f"bounds must be a mapping from columns to (low, high), got {bounds!r}")
    for column, pair in bounds.items():
        d = column_number(column, "bounds", n_features, names)
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise TypeError(f"bounds of {column!r} must be (low, high), got {pair!r}")
        for limits, value in zip((low, high), pair, strict=True):
            if value is not None:
                limits[d] = check_finite_array(value, f"bounds of {column!r}", ndim=0)
        if low[d] > high[d]:
            raise ValueError(f"bounds of {column!r} must have low <= high, got {pair!r}")
    return low, high
