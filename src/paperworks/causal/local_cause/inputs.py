"""What comes into `LocalCause`, checked: a table of numbers, names of columns, settings."""

from __future__ import annotations

import numbers
from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from paperworks._checks import check_choice, check_finite_array, check_integer, check_probability_open

__all__ = ["check_settings", "column_number", "correlation", "read_table"]

Floats = NDArray[np.float64]

_TWINS = 1.0 - 1e-9
"""Columns with a correlation above this are copies of each other."""


def read_table(X: Any) -> tuple[Floats, NDArray[Any]]:
    """Return the values and the names of the columns (their numbers where there are none)."""
    if isinstance(X, pd.DataFrame):
        double = sorted(str(name) for name, count in Counter(X.columns).items() if count > 1)
        if double:
            raise ValueError(f"X has columns with the same name: {', '.join(double)}; rename or drop them")
        other = [
            str(name)
            for name, kind in X.dtypes.items()
            if not (pd.api.types.is_numeric_dtype(kind) and not pd.api.types.is_complex_dtype(kind))
        ]
        if other and not all(_is_numeric_object(X[name]) for name in X.columns if str(name) in other):
            raise TypeError(f"X has columns that are not numeric: {', '.join(other)}; encode or drop them")
        names = X.columns.to_numpy(dtype=object)
        X = X.to_numpy(dtype=np.float64, na_value=np.nan)
    else:
        names = None
    array = np.asarray(X)
    if array.dtype.kind not in "biufO":
        raise TypeError(f"X must be numeric, got dtype {array.dtype}")
    values = check_finite_array(array, "X", ndim=2)
    if values.shape[1] < 2:
        raise ValueError(f"X must have at least 2 columns, got {values.shape[1]}")
    if len(values) < 2:
        raise ValueError(f"X must have at least 2 rows, got {len(values)}")
    if names is None:
        names = np.arange(values.shape[1])
    constant = np.flatnonzero(np.ptp(values, axis=0) == 0)
    if constant.size:
        raise ValueError(f"X has constant columns, which can't depend on anything: {_listed(names, constant)}")
    return values, names


def _is_numeric_object(column: pd.Series) -> bool:
    return column.dtype == object and all(isinstance(v, int | float | np.number) for v in column)


def _listed(names: NDArray[Any], columns: Any) -> str:
    return ", ".join(repr(names[k]) if isinstance(names[k], str) else str(names[k]) for k in columns)


def column_number(names: NDArray[Any], value: Any, argument: str) -> int:
    """Return the number of the column called `value`; where no name is a number, also of column number `value`."""
    if isinstance(value, str | tuple | numbers.Real) and not isinstance(value, bool):
        for k, name in enumerate(names):
            if isinstance(name, str) == isinstance(value, str) and name == value:
                return k
    numbered = any(isinstance(name, numbers.Integral) for name in names)
    if not numbered and isinstance(value, int | np.integer) and not isinstance(value, bool) and 0 <= value < len(names):
        return int(value)
    known = f"a number from 0 to {len(names) - 1}"
    if not numbered or list(names) != list(range(len(names))):
        known = f"one of the columns {_listed(names, range(min(len(names), 10)))}{', ...' if len(names) > 10 else ''}"
    raise ValueError(f"{argument} must be {known}, got {value!r}")


def correlation(values: Floats, names: NDArray[Any]) -> Floats:
    """Return the correlation matrix, refusing columns that no test could tell apart."""
    centred = values - values.mean(axis=0)
    scale = np.abs(centred).max(axis=0)  # squares of huge or tiny columns must neither overflow nor vanish
    unfit = np.flatnonzero((scale == 0) | ~np.isfinite(scale))
    if unfit.size:
        raise ValueError(f"X has columns too large or too flat to correlate: {_listed(names, unfit)}")
    centred = centred / scale
    centred /= np.sqrt(np.einsum("ij,ij->j", centred, centred))
    corr = np.clip(centred.T @ centred, -1.0, 1.0)
    np.fill_diagonal(corr, 1.0)
    twins = np.argwhere(np.triu(np.abs(corr), 1) > _TWINS)
    if len(twins):
        raise ValueError(
            f"X has columns that are copies of each other up to scale: {_listed(names, twins[0])}; drop one of them"
        )
    if len(values) > len(corr) + 1:
        least, vectors = np.linalg.eigh(corr)
        if least[0] < 1e-11:
            involved = np.flatnonzero(np.abs(vectors[:, 0]) > 1e-3)
            raise ValueError(
                f"X has columns that are linear combinations of each other, so that their correlation is singular: "
                f"{_listed(names, involved)}; drop one of them"
            )
    return corr


def check_settings(
    ci_test: Any, alpha: Any, max_cond: Any, rule: Any, mb: Any, mb_alpha: Any, max_local: Any, verbose: Any
) -> None:
    """Refuse settings that make no sense."""
    if not callable(ci_test):
        check_choice(ci_test, "ci_test", ("fisherz", "g"))
    check_probability_open(alpha, "alpha")
    if max_cond is not None:
        check_integer(max_cond, "max_cond", minimum=0)
    check_choice(rule, "rule", ("corrected", "paper"))
    check_choice(mb, "mb", ("tc",))
    if isinstance(mb_alpha, str):
        check_choice(mb_alpha, "mb_alpha", ("auto",))
    else:
        check_probability_open(mb_alpha, "mb_alpha")
    if max_local is not None:
        check_integer(max_local, "max_local", minimum=1)
    check_integer(verbose, "verbose", minimum=0)
