"""Response matrices: who answered which item, and was it right. Missing answers are the normal case."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from paperworks._checks import check_integer

__all__ = ["Responses", "read_responses", "response_matrix"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_CHUNK = 4096
"""Cells that are worked on at once: with 11 nodes their numbers fit into a processor's second-level cache."""


@dataclass(frozen=True)
class Responses:
    """The observed cells of a matrix of takers x items, ordered by taker; nothing is kept for missing cells."""

    shape: tuple[int, int]
    item: NDArray[np.int32]
    """Item of each cell."""
    starts: Integers
    """The cells of taker i are ``starts[i]:starts[i + 1]``."""
    right: NDArray[np.bool_]
    """Whether each cell is right."""
    taker_names: NDArray[Any] | None = None
    item_names: NDArray[Any] | None = None

    @property
    def n_cells(self) -> int:
        """Number of observed cells."""
        return len(self.item)

    @cached_property
    def taker(self) -> NDArray[np.int32]:
        """Taker of each cell."""
        return np.repeat(np.arange(self.shape[0], dtype=np.int32), np.diff(self.starts))

    @cached_property
    def per_taker(self) -> Integers:
        """Number of cells of each taker."""
        return np.diff(self.starts)

    @cached_property
    def per_item(self) -> Integers:
        """Number of cells of each item."""
        return np.bincount(self.item, minlength=self.shape[1])

    @cached_property
    def right_per_taker(self) -> Floats:
        """Number of right cells of each taker."""
        return np.bincount(self.taker, weights=self.right, minlength=self.shape[0]).astype(np.float64)

    @cached_property
    def right_per_item(self) -> Floats:
        """Number of right cells of each item."""
        return np.bincount(self.item, weights=self.right, minlength=self.shape[1]).astype(np.float64)

    @cached_property
    def by_item(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Taker and item of each cell, ordered by item."""
        rows = sparse.csr_array((self.item, self.item, self.starts), shape=self.shape).tocsc()
        return rows.indices.astype(np.int32, copy=False), rows.data

    @cached_property
    def right_matrix(self) -> sparse.csr_array:
        """The right cells as ones of a sparse matrix."""
        starts = np.concatenate([[0], np.cumsum(self.right_per_taker.astype(np.int64))])
        item = self.item[self.right]
        return sparse.csr_array((np.ones(len(item)), item, starts), shape=self.shape)

    def blocks(self) -> Iterator[tuple[slice, int, int]]:
        """Yield pieces of the cells: a slice and the first and last taker in it.

        A piece holds whole takers, or a part of a single one if that has more cells than a piece.
        """
        starts, first = self.starts, 0
        n_takers = self.shape[0]
        while first < n_takers:
            last = int(np.searchsorted(starts, starts[first] + _CHUNK, side="right")) - 2
            if last < first:
                for low in range(starts[first], starts[first + 1], _CHUNK):
                    yield slice(low, min(low + _CHUNK, starts[first + 1])), first, first
                last = first
            else:
                yield slice(starts[first], starts[last + 1]), first, last
            first = last + 1

    def select_items(self, kept: NDArray[np.bool_]) -> Responses:
        """Return the cells of some items, which are numbered anew; takers stay, even those left without cells."""
        number = np.cumsum(kept, dtype=np.int32) - 1
        cells = kept[self.item]
        per_taker = np.bincount(self.taker[cells], minlength=self.shape[0])
        return Responses(
            (self.shape[0], int(kept.sum())),
            number[self.item[cells]],
            np.concatenate([[0], np.cumsum(per_taker)]),
            self.right[cells],
        )


def read_responses(Y: Any, name: str = "Y", *, full: bool = True) -> Responses:
    """Validate a response matrix and keep its observed cells.

    Parameters
    ----------
    Y : array-like, DataFrame or sparse matrix of shape (n_takers, n_items)
        1 for right, 0 for wrong, NaN for missing. In a sparse matrix the stored entries, zeros included, are observed.
    name : str
        Name of the argument in messages.
    full : bool
        Whether it is a matrix to calibrate on: at least 2 x 2, with an answer in every row and column.

    Returns
    -------
    Responses
        The observed cells.
    """
    taker_names = item_names = None
    if sparse.issparse(Y):
        matrix = sparse.coo_array(Y)
        row, column, value = matrix.row, matrix.col, matrix.data
        shape = matrix.shape
    else:
        if isinstance(Y, pd.DataFrame):
            taker_names, item_names = Y.index.to_numpy(), Y.columns.to_numpy()
        try:
            array = Y.to_numpy(dtype=float, na_value=np.nan) if isinstance(Y, pd.DataFrame) else np.asarray(Y)
            array = array if array.dtype.kind in "fbiu" else array.astype(float)
        except (TypeError, ValueError) as error:
            raise TypeError(f"{name} must hold 0, 1 and NaN, got something that is no number: {error}") from error
        if array.ndim != 2:
            raise ValueError(f"{name} must have 2 dimensions, takers x items, got shape {array.shape}")
        shape = array.shape
        seen = ~np.isnan(array) if array.dtype.kind == "f" else np.ones(shape, dtype=bool)
        row, column = np.nonzero(seen)
        value = array[seen]
    if full and min(shape) < 2:
        raise ValueError(f"{name} must have at least 2 takers and 2 items, got shape {shape}")
    _check_values(np.asarray(value), row, column, name)
    if sparse.issparse(Y):
        order = np.lexsort((column, row))
        row, column, value = row[order], column[order], value[order]
        twice = (np.diff(row) == 0) & (np.diff(column) == 0)
        if twice.any():
            at = int(np.argmax(twice))
            raise ValueError(f"{name} stores the cell ({row[at]}, {column[at]}) twice")
    starts = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=shape[0]))])
    responses = Responses(
        (int(shape[0]), int(shape[1])),
        column.astype(np.int32),
        starts,
        np.asarray(value) == 1,
        taker_names,
        item_names,
    )
    if full:
        for count, what, names in (
            (responses.per_taker, "taker(s)", taker_names),
            (responses.per_item, "item(s)", item_names),
        ):
            empty = np.flatnonzero(count == 0)
            if len(empty):
                raise ValueError(f"{name} has {len(empty)} {what} without any response: {listed(empty, names)}")
    return responses


def _check_values(value: NDArray[Any], row: NDArray[Any], column: NDArray[Any], name: str) -> None:
    bad = (value != 0) & (value != 1)
    if not bad.any():
        return
    at = int(np.argmax(bad))
    message = f"{name} must hold 0, 1 or missing, got {value[at]!s} in row {row[at]}, column {column[at]}"
    if ((value >= 0) & (value <= 1)).all():
        message += "; binarise fractions first, for instance with score >= 0.5"
    raise ValueError(message)


def listed(positions: NDArray[Any], names: NDArray[Any] | None, limit: int = 10) -> str:
    """Return the first names (or positions) as text."""
    shown = [str(names[i]) if names is not None else str(i) for i in positions[:limit]]
    return ", ".join(shown) + (", ..." if len(positions) > limit else "")


def item_positions(items: Any, n_items: int, names: NDArray[Any] | None) -> Integers:
    """Return positions of items given by position or, if they have names, by name; no item twice."""
    if items is None:
        return np.arange(n_items)
    asked = list(np.asarray(items).ravel()) if not isinstance(items, list | tuple) else list(items)
    where = {} if names is None else {name: i for i, name in enumerate(names)}
    found = []
    for item in asked:
        if item in where:
            found.append(where[item])
        elif isinstance(item, int | np.integer) and not isinstance(item, bool) and 0 <= item < n_items:
            found.append(int(item))
        else:
            raise ValueError(f"items must be among the {n_items} calibrated ones, got {item!r}")
    if len(set(found)) < len(found):
        raise ValueError("items holds the same item twice")
    return np.array(found, dtype=np.int64)


def response_matrix(
    long_df: pd.DataFrame, taker: str, item: str, score: str, min_takers: int = 30, min_items: int = 30
) -> pd.DataFrame:
    """Turn a long table of scores into a response matrix.

    Rows without a score are dropped, of several scores of a taker on an item the first is kept, and a score of 0.5
    counts as 1. Items with fewer than `min_takers` takers, takers with fewer than `min_items` items, and items that
    everybody has right, or wrong, are removed until none is left.

    Parameters
    ----------
    long_df : DataFrame
        One row per answer.
    taker : str
        Column that names who answered (a model, a student).
    item : str
        Column that names what was asked.
    score : str
        Column of scores: 0, 0.5, 1 or missing; booleans will do.
    min_takers : int, default=30
        Answers that an item needs.
    min_items : int, default=30
        Answers that a taker needs.

    Returns
    -------
    DataFrame of shape (n_takers, n_items)
        1.0, 0.0 or NaN; takers and items sorted by name.

    Raises
    ------
    ValueError
        If a column does not exist, a score is something else, or nothing is left.

    Examples
    --------
    >>> import pandas as pd
    >>> from paperworks.evaluate import response_matrix
    >>> answers = pd.DataFrame(
    ...     {"model": ["a", "a", "b", "b"], "question": ["q1", "q2", "q1", "q2"], "score": [1.0, 0.0, 0.0, 0.5]}
    ... )
    >>> response_matrix(answers, "model", "question", "score", min_takers=2, min_items=2)
    question   q1   q2
    model
    a         1.0  0.0
    b         0.0  1.0
    """
    check_integer(min_takers, "min_takers", minimum=1)
    check_integer(min_items, "min_items", minimum=1)
    for label, column in (("taker", taker), ("item", item), ("score", score)):
        if column not in long_df.columns:
            raise ValueError(f"{label} must name a column of long_df, got {column!r}; it has {list(long_df.columns)}")
    rows = long_df[[taker, item, score]].dropna().drop_duplicates([taker, item])
    rows = rows.assign(**{score: rows[score].astype(float)})
    values = rows[score].to_numpy()
    odd = ~np.isin(values, (0.0, 0.5, 1.0))
    if odd.any():
        raise ValueError(
            f"score must be 0, 0.5 or 1, got {values[odd][0]!s}; binarise fractions first, for instance with >= 0.5"
        )
    rows[score] = (values >= 0.5).astype(float)
    while len(rows):
        of_item = rows.groupby(item, observed=True)[score].agg(["size", "mean"])
        of_taker = rows.groupby(taker, observed=True).size()
        items = of_item.index[(of_item["size"] >= min_takers) & (of_item["mean"] > 0) & (of_item["mean"] < 1)]
        takers = of_taker.index[of_taker >= min_items]
        if len(items) == len(of_item) and len(takers) == len(of_taker):
            return rows.pivot(index=taker, columns=item, values=score)
        rows = rows[rows[item].isin(items) & rows[taker].isin(takers)]
    raise ValueError(
        f"nothing is left: no set of takers and items with at least {min_items} items per taker and {min_takers} takers"
        " per item has varied scores"
    )
