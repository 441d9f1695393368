"""One rule for turning a table of mixed columns into numbers, fitted on training rows only."""

from __future__ import annotations

import datetime as dt
import decimal
import numbers
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

from paperworks.datasets.columns import days_since_epoch

__all__ = ["MAX_CATEGORIES", "tabular_encoder"]

MAX_CATEGORIES = 20
_MISSING = "(missing)"

Role = Literal["number", "boolean", "date", "text"]


def tabular_encoder(X: pd.DataFrame) -> ColumnTransformer:
    """Return an unfitted transformer from the columns of `X` to a dense array of numbers.

    Only the *types* of the columns are taken from `X`; medians and categories come from the rows that the transformer
    is fitted on. So build it from the whole table and fit it on the training rows.

    - Numbers (durations in days): missing cells get the median of the training rows, 0 if all of those are missing.
    - True and false become 1 and 0; missing cells get the more frequent one.
    - Dates become days since 1970-01-01 (UTC); missing cells get the median.
    - Text and categories are one-hot coded, at most 20 columns each: beyond that, the least frequent of the training
      rows share one column. A missing cell is a category of its own. A category unseen in training counts as
      infrequent where there is such a column and is all zeros otherwise.

    Parameters
    ----------
    X : pandas.DataFrame of shape (n_rows, n_columns)
        The table, or any part of it with the same types.

    Returns
    -------
    sklearn.compose.ColumnTransformer
        Its output has shape (n_rows, n_features), dtype float64: first the numbers, then booleans, dates and text, each
        in the order of `X`. `get_feature_names_out` names one-hot columns ``column=category``.

    Raises
    ------
    TypeError
        If `X` is no DataFrame, or a column holds something else than numbers, booleans, dates or text.
    ValueError
        If `X` has no columns, or two of the same name.

    Examples
    --------
    >>> import pandas as pd
    >>> from paperworks.datasets import tabular_encoder
    >>> X = pd.DataFrame({"size": [1.0, None, 5.0], "colour": ["red", "blue", "red"]})
    >>> encoder = tabular_encoder(X).fit(X)
    >>> encoder.transform(X)
    array([[1., 0., 1.],
           [3., 1., 0.],
           [5., 0., 1.]])
    >>> encoder.get_feature_names_out().tolist()
    ['size', 'colour=blue', 'colour=red']
    """
    if not isinstance(X, pd.DataFrame):
        raise TypeError(f"X must be a pandas DataFrame, got {type(X).__name__}")
    if X.shape[1] == 0:
        raise ValueError("X must have at least one column, got none")
    double = X.columns[X.columns.duplicated()].unique()
    if len(double):
        raise ValueError(f"X must not have two columns of one name, got {', '.join(map(str, double))} twice")
    by_name = all(isinstance(name, str) for name in X.columns)
    columns: dict[Role, list[Any]] = {"number": [], "boolean": [], "date": [], "text": []}
    for position, name in enumerate(X.columns):
        columns[_role(X.iloc[:, position], name)].append(name if by_name else position)
    pipelines: dict[Role, tuple[Any, Any]] = {
        "number": (_numbers, SimpleImputer(strategy="median", keep_empty_features=True)),
        "boolean": (_numbers, SimpleImputer(strategy="most_frequent", keep_empty_features=True)),
        "date": (_days, SimpleImputer(strategy="median", keep_empty_features=True)),
        "text": (
            _texts,
            OneHotEncoder(
                max_categories=MAX_CATEGORIES,
                handle_unknown="infrequent_if_exist",
                sparse_output=False,
                dtype=np.float64,
                feature_name_combiner=_combined,
            ),
        ),
    }
    return ColumnTransformer(
        [
            (role, make_pipeline(FunctionTransformer(convert, feature_names_out="one-to-one"), last), columns[role])
            for role, (convert, last) in pipelines.items()
            if columns[role]
        ],
        sparse_threshold=0.0,
        verbose_feature_names_out=False,
    )


def _role(column: pd.Series[Any], name: Any) -> Role:
    dtype = column.dtype
    if types.is_bool_dtype(dtype) and not isinstance(dtype, pd.CategoricalDtype):
        return "boolean"
    if (types.is_numeric_dtype(dtype) and not types.is_complex_dtype(dtype)) or types.is_timedelta64_dtype(dtype):
        return "number"
    if types.is_datetime64_any_dtype(dtype):
        return "date"
    if isinstance(dtype, pd.CategoricalDtype | pd.StringDtype):
        return "text"
    if types.is_object_dtype(dtype):
        present = column.dropna()
        for role, kinds in _OBJECTS:
            if len(present) and all(isinstance(value, kinds) for value in present):
                return role
        if all(isinstance(value, str | numbers.Number | dt.date) for value in present):
            return "text"
    raise TypeError(f"column {name!r} of X must hold numbers, booleans, dates or text, got dtype {dtype}")


# bool is a number for Python, so it is asked first.
_OBJECTS: tuple[tuple[Role, Any], ...] = (
    ("boolean", bool | np.bool_),
    ("number", numbers.Real | decimal.Decimal),
    ("date", dt.date),
)


def _numbers(frame: pd.DataFrame) -> NDArray[np.float64]:
    return np.column_stack([_number(frame.iloc[:, i]) for i in range(frame.shape[1])])


def _number(column: pd.Series[Any]) -> Any:
    if types.is_timedelta64_dtype(column.dtype):
        return column.to_numpy() / np.timedelta64(1, "D")
    return column.to_numpy(dtype=np.float64, na_value=np.nan)


def _days(frame: pd.DataFrame) -> NDArray[np.float64]:
    return np.column_stack([days_since_epoch(frame.iloc[:, i]) for i in range(frame.shape[1])])


def _texts(frame: pd.DataFrame) -> NDArray[np.object_]:
    return np.column_stack([_text(frame.iloc[:, i]) for i in range(frame.shape[1])])


def _text(column: pd.Series[Any]) -> NDArray[np.object_]:
    codes, values = pd.factorize(column.astype(object))
    return np.array([*map(str, values), _MISSING], dtype=object)[codes]  # code -1 is the last: missing


def _combined(feature: Any, category: Any) -> str:
    return f"{feature}={category}"
