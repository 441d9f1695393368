"""The rules for columns of the user's own tables: what is a number, a date, text or a target, and what is refused.

Every rule looks at one cell at a time or at the whole column's type; nothing is estimated here. Medians and categories
are for the encoder, which sees training rows only.
"""

from __future__ import annotations

import datetime as dt
import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types

from paperworks.datasets.readers import Source
from paperworks.datasets.record import DataError

__all__ = [
    "class_target",
    "days_since_epoch",
    "feature_columns",
    "listed",
    "number_columns",
    "number_target",
]

_MISSING = frozenset({"", "na", "n/a", "#n/a", "nan", "null", "none", "?"})
_TRUTH = {"true": 1, "false": 0}
_FEW = 0.1  # a column with a smaller share of odd cells is taken for a column with mistakes
_INFINITE = frozenset(s + w for s in ("", "+", "-") for w in ("inf", "infinity"))
_MANY_TEXTS = 20
_MANY_CLASSES = 20

_INTEGER = re.compile(r"[+-]?(0|[1-9]\d{0,17})\Z", re.ASCII)
_CODE = re.compile(r"[+-]?(0\d+|\d{19,})\Z", re.ASCII)
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?\Z", re.ASCII | re.IGNORECASE)
_COMMA_NUMBER = re.compile(r"[+-]?\d+(,\d+)?(e[+-]?\d+)?\Z", re.ASCII | re.IGNORECASE)
_DATE = re.compile(
    r"(\d{4})-(\d{1,2})-(\d{1,2})"
    r"(?:[T ](\d{1,2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,9}))?)?\s*(Z|[+-]\d{2}(?::?\d{2})?)?)?\Z",
    re.ASCII | re.IGNORECASE,
)
_EPOCH = dt.datetime(1970, 1, 1)
_DAY = dt.timedelta(days=1)

_Role = Literal["number", "date", "text", "empty"]


class _Notes:
    """Names of columns by the rule that was used on them, said in one line per rule."""

    def __init__(self) -> None:
        self.rules: dict[str, list[str]] = {}

    def add(self, rule: str, name: str) -> None:
        self.rules.setdefault(rule, []).append(name)

    def said(self) -> tuple[str, ...]:
        return tuple(f"{listed(names)}: {rule}" for rule, names in self.rules.items())


@dataclass(frozen=True)
class _Texts:
    """The different texts of a column, trimmed, with the rows that hold them."""

    codes: NDArray[np.intp]
    """For each row the index of its text; -1 where the cell is empty."""
    texts: list[str]
    counts: NDArray[np.intp]

    @classmethod
    def of(cls, column: pd.Series[Any]) -> _Texts:
        codes, values = pd.factorize(column.astype(object))
        texts = [str(value).strip() for value in values]
        return cls(codes, texts, np.bincount(codes[codes >= 0], minlength=len(texts)))

    def spread(self, values: Iterable[Any], dtype: Any) -> NDArray[Any]:
        """Return the value of each row's text, NaN where the cell is empty."""
        return np.array([*values, np.nan], dtype=dtype)[self.codes]  # code -1 takes the last

    def first(self, chosen: NDArray[np.bool_]) -> tuple[int, str]:
        """Return the first row that holds one of the chosen texts, and that text."""
        position = int(np.flatnonzero(np.append(chosen, False)[self.codes])[0])
        return position, self.texts[self.codes[position]]


def listed(names: Iterable[str], most: int = 8) -> str:
    """Return names joined by commas, with the number of those beyond `most`."""
    names = list(names)
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")


def days_since_epoch(column: pd.Series[Any]) -> NDArray[np.float64]:
    """Return dates as days since 1970-01-01 UTC with their fraction, NaN where missing; shape (n_rows,)."""
    if isinstance(column.dtype, pd.DatetimeTZDtype):
        column = column.dt.tz_convert("UTC").dt.tz_localize(None)
    moments = column.to_numpy().astype("datetime64[us]")
    days: NDArray[np.float64] = (moments - np.datetime64("1970-01-01", "us")) / np.timedelta64(1, "D")
    return days


def feature_columns(source: Source, names: list[str]) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Apply the rules for features.

    Parameters
    ----------
    source : Source
        The file as it was read.
    names : list of str
        The columns that are features.

    Returns
    -------
    X : pandas.DataFrame
        Columns of float64 or an integer type, and of dtype object where they hold text (NaN where missing).
    notes : tuple of str
        One line for each rule that was used.

    Raises
    ------
    DataError
        If a column can't be used, or none is left.
    """
    notes, columns = _Notes(), {}
    identifiers: dict[str, str] = {}
    for name in names:
        role, values = _feature(source, name, notes, "missing cells get the median of the training rows")
        if role == "empty":
            continue
        if role == "text":
            distinct, filled = len(set(values[values == values])), int((values == values).sum())
            if distinct > _MANY_TEXTS and 2 * distinct > filled:
                identifiers[name] = f"{name!r} ({distinct} different texts in {filled} cells)"
                continue
            notes.add("text, one-hot coded by the training rows", name)
        columns[name] = values
    if identifiers:
        drops = " ".join(f"--drop {shlex.quote(name)}" for name in identifiers)
        raise DataError(
            f"{source.path.name}: free text or identifiers cannot be features: {', '.join(identifiers.values())}; "
            f"leave out with {drops}"
        )
    if not columns:
        raise DataError(f"{source.path.name}: no feature column is left{_why(notes)}")
    return pd.DataFrame(columns), notes.said()


def number_columns(source: Source, names: list[str], *, time_index: bool) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Return columns of numbers as a float64 frame, shape (n_rows, n_columns); empty cells are NaN.

    With `time_index`, the first column of dates, if there is one, becomes the index, in days since 1970-01-01.
    """
    notes, columns, index = _Notes(), {}, None
    for name in names:
        role, values = _feature(source, name, notes, "missing cells stay missing")
        if role == "text":
            raise DataError(
                f"{source.path.name}: column {name!r} holds text, only numbers are taken here; "
                f"leave it out with --drop {shlex.quote(name)}"
            )
        if role == "date" and time_index and index is None:
            index = pd.Index(values, name=name)
        elif role != "empty":
            columns[name] = np.asarray(values, dtype=np.float64)
    if not columns:
        raise DataError(f"{source.path.name}: no column of numbers is left{_why(notes)}")
    return pd.DataFrame(columns, index=index), notes.said()


def class_target(source: Source, name: str) -> tuple[pd.Series[Any], tuple[str, ...]]:
    """Return the classes of a target column, shape (n_rows,): int64, or text as dtype object.

    Raises
    ------
    DataError
        If cells are empty, the column looks continuous or like an identifier, or has a single class.
    """
    column, where = source.column(name), f"{source.path.name}: target {name!r}"
    _refuse_empty(source, name, where)
    notes: list[str] = []
    values = _classes(source, column, where, notes)
    n_rows = len(values)
    found, counts = np.unique(values, return_counts=True)
    if values.dtype.kind == "f" or (len(found) > _MANY_CLASSES and 10 * len(found) > n_rows and values.dtype != object):
        raise DataError(
            f"{where} looks continuous ({len(found)} different numbers in {n_rows} rows); "
            f"a target of this study must hold classes"
        )
    if values.dtype == object and len(found) > max(2, n_rows / 2):
        raise DataError(f"{where} looks like an identifier ({len(found)} different texts in {n_rows} rows)")
    if len(found) == 1:
        raise DataError(f"{where} has a single class, {found.tolist()[0]!r}; at least two are needed")
    single = [repr(value) for value in found[counts == 1].tolist()]
    if single:
        notes.append(f"classes of {name} with a single row: {listed(single)}")
    return pd.Series(values, name=name), tuple(notes)


def number_target(source: Source, name: str) -> tuple[pd.Series[Any], tuple[str, ...]]:
    """Return a target column of finite numbers, shape (n_rows,), float64.

    Raises
    ------
    DataError
        If cells are empty or hold no finite number, or all hold the same one.
    """
    column, where = source.column(name), f"{source.path.name}: target {name!r}"
    _refuse_empty(source, name, where)
    notes: list[str] = []
    if _is_text(column):
        texts = _Texts.of(column)
        numbers, comma = _numbers(texts.texts, source)
        if not np.isfinite(numbers).all():
            position, text = texts.first(~np.isfinite(numbers))
            raise DataError(f"{where} must hold finite numbers; row {source.row(position)} holds {text!r}")
        if comma:
            notes.append(f"{name}: decimal comma read as a point")
        values = texts.spread(numbers, np.float64)
    elif types.is_numeric_dtype(column.dtype) and not types.is_bool_dtype(column.dtype):
        values = column.to_numpy(dtype=np.float64)
    else:
        raise DataError(f"{where} must hold finite numbers, it holds {column.dtype}")
    _refuse_infinite(source, values, where)
    if (values == values[0]).all():
        raise DataError(f"{where} has the same value, {values[0]:g}, in all {len(values)} rows")
    return pd.Series(values, name=name), tuple(notes)


def _feature(source: Source, name: str, notes: _Notes, on_missing: str) -> tuple[_Role, Any]:
    column = source.column(name)
    where = f"{source.path.name}: column {name!r}"
    role: _Role = "number"
    if _is_text(column):
        role, values = _text_feature(source, name, column, notes)
    elif types.is_bool_dtype(column.dtype):
        notes.add("true/false, taken as 1/0", name)
        values = column.to_numpy(dtype=np.float64)
    elif types.is_datetime64_any_dtype(column.dtype):
        role, values = "date", days_since_epoch(column)
        notes.add("dates, taken as days since 1970-01-01", name)
    elif types.is_timedelta64_dtype(column.dtype):
        values = column.to_numpy() / np.timedelta64(1, "D")
        notes.add("durations, taken as days", name)
    else:
        values = column.to_numpy()
    if role in ("number", "date"):
        _refuse_infinite(source, values, where)
        missing = np.isnan(values)
        if missing.all():
            role = "empty"
        elif missing.any():
            notes.add(on_missing, name)
    if role == "empty":
        notes.add("no cell holds a value, left out", name)
    return role, values


def _text_feature(source: Source, name: str, column: pd.Series[Any], notes: _Notes) -> tuple[_Role, Any]:
    cells = _Texts.of(column)
    empty = np.array([text.casefold() in _MISSING for text in cells.texts], dtype=bool)
    if empty.all():
        return "empty", None
    filled = ~empty
    if all(text.casefold() in _TRUTH for text, kept in zip(cells.texts, filled, strict=True) if kept):
        notes.add("true/false, taken as 1/0", name)
        return "number", cells.spread([_TRUTH.get(text.casefold(), np.nan) for text in cells.texts], np.float64)
    numbers, comma = _numbers(cells.texts, source)
    if _holds(source, name, "numbers", cells, filled, numbers):
        if comma:
            notes.add("decimal comma read as a point", name)
        return "number", cells.spread(np.where(filled, numbers, np.nan), np.float64)
    days = np.array([_days(text) for text in cells.texts])
    if _holds(source, name, "dates", cells, filled, days):
        notes.add("dates, taken as days since 1970-01-01", name)
        return "date", cells.spread(np.where(filled, days, np.nan), np.float64)
    # In a column of text only an empty cell is missing: "NA" may be a country.
    return "text", cells.spread([text or np.nan for text in cells.texts], object)


def _holds(
    source: Source, name: str, what: str, cells: _Texts, filled: NDArray[np.bool_], values: NDArray[np.float64]
) -> bool:
    """Return whether all filled cells have a value; refuse a column in which only a few have none."""
    odd = filled & np.isnan(values)
    n_odd, n_filled = int(cells.counts[odd].sum()), int(cells.counts[filled].sum())
    if 0 < n_odd < _FEW * n_filled:
        position, text = cells.first(odd)
        raise DataError(
            f"{source.path.name}: column {name!r} holds {what} except in {n_odd} of {n_filled} cells, the first is "
            f"{text!r} in row {source.row(position)}; correct them or leave the column out with "
            f"--drop {shlex.quote(name)}"
        )
    return n_odd == 0


def _numbers(texts: list[str], source: Source) -> tuple[NDArray[np.float64], bool]:
    """Return the number in each text, NaN where there is none, and whether the decimal sign is a comma."""
    comma = source.separator not in ("", ",") and any("," in text and _COMMA_NUMBER.match(text) for text in texts)
    form = _COMMA_NUMBER if comma else _NUMBER
    numbers = [
        float(text.replace(",", ".")) if form.match(text) or text.casefold() in _INFINITE else np.nan for text in texts
    ]
    return np.array(numbers, dtype=np.float64), comma


def _days(text: str) -> float:
    match = _DATE.match(text)
    if match is None:
        return float("nan")
    year, month, day, hour, minute, second, fraction, zone = match.groups(default="0")
    try:
        moment = dt.datetime(int(year), int(month), int(day), int(hour), int(minute), int(second))
    except ValueError:
        return float("nan")
    days = (moment - _EPOCH) / _DAY + float(f"0.{fraction}") / 86400
    if zone[0] in "+-":
        digits = zone[1:].replace(":", "").ljust(4, "0")
        days -= float(f"{zone[0]}1") * (int(digits[:2]) / 24 + int(digits[2:]) / 1440)
    return days


def _classes(source: Source, column: pd.Series[Any], where: str, notes: list[str]) -> NDArray[Any]:
    if types.is_bool_dtype(column.dtype):
        notes.append(f"{column.name}: true/false, taken as 1/0")
        return column.to_numpy(dtype=np.int64)
    if _is_text(column):
        cells = _Texts.of(column)
        texts = cells.texts
        if all(text.casefold() in _TRUTH for text in texts):
            notes.append(f"{column.name}: true/false, taken as 1/0")
            return cells.spread([_TRUTH[text.casefold()] for text in texts], np.float64).astype(np.int64)
        if source.typed or not all(_NUMBER.match(text) for text in texts):
            numbers, comma = _numbers(texts, source)
            if source.typed or not comma or np.isnan(numbers).any():
                return cells.spread(texts, object)
            return cells.spread(numbers, np.float64)
        if all(_INTEGER.match(text) for text in texts):
            return np.array([int(text) for text in texts], dtype=np.int64)[cells.codes]
        values = np.array([float(text) for text in texts])
        if any(_CODE.match(text) for text in texts):
            return cells.spread(texts, object)  # as numbers, "1" and "01" would become one class
        column = pd.Series(values[cells.codes])
    if not types.is_numeric_dtype(column.dtype):
        raise DataError(f"{where} must hold classes, it holds {column.dtype}")
    numbers = column.to_numpy()
    if numbers.dtype.kind == "f":
        _refuse_infinite(source, numbers, where)
        if (numbers % 1 == 0).all() and np.abs(numbers).max() < 2**53:
            return numbers.astype(np.int64)
    return numbers


def _is_text(column: pd.Series[Any]) -> bool:
    return types.is_object_dtype(column.dtype) or isinstance(column.dtype, pd.StringDtype)


def _refuse_empty(source: Source, name: str, where: str) -> None:
    column = source.column(name)
    missing = column.isna().to_numpy()
    if _is_text(column):
        missing = missing | np.array([isinstance(value, str) and not value.strip() for value in column], dtype=bool)
    if missing.any():
        raise DataError(
            f"{where}: {missing.sum()} of {len(missing)} targets are missing, the first in row "
            f"{source.row(int(missing.argmax()))}; fill or remove those rows"
        )


def _refuse_infinite(source: Source, values: NDArray[Any], where: str) -> None:
    infinite = np.isinf(values)
    if infinite.any():
        position = int(infinite.argmax())
        raise DataError(f"{where}: row {source.row(position)} holds an infinite number ({values[position]})")


def _why(notes: _Notes) -> str:
    return f" ({'; '.join(notes.said())})" if notes.rules else ""
