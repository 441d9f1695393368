"""What a data set is: the record in the catalogue, the table that loading gives, and the error of bad data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["DataError", "Dataset", "Kind", "Table", "Task"]

Kind = Literal["table", "graph", "matrix", "series", "image", "text", "molecules"]
Task = Literal["classification", "regression", "none"]


class DataError(ValueError):
    """Data cannot be used; the message is one clear line that names the file, the row and the column."""


@dataclass(frozen=True)
class Table:
    """Features and a target, row by row."""

    X: pd.DataFrame
    """Features, shape (n_rows, n_features), with the names of the source; text columns have dtype object."""
    y: pd.Series[Any]
    """Target, shape (n_rows,), nothing missing; without elements where the task is ``none``."""
    target: str
    """Name of the target; empty where there is none."""
    notes: tuple[str, ...] = ()
    """What was done to the columns, in words for the user."""

    def copy(self) -> Table:
        """Return a table whose frames can be changed without touching this one."""
        return Table(self.X.copy(), self.y.copy(), self.target, self.notes)


@dataclass(frozen=True)
class Dataset:
    """One entry of the catalogue; nothing is read before `loader` is called."""

    name: str
    kind: Kind
    task: Task
    """What the target is; ``none`` where there is no target."""
    shape: tuple[int, ...] | None
    """Rows and features of a table, nodes and edges of a graph; None if only reading tells."""
    licence: str
    source: str
    """Citation and address."""
    loader: Callable[[], Any]
    """Reads or generates the data; called once per process by `paperworks.datasets.load`."""
    description: str = ""
    requires: tuple[str, ...] = ()
    """Distributions, as pip names them, without which the data is not there."""
    install: str = ""
    """The command that brings them."""
    host: str = ""
    """The machine that serves the data on first use; empty if no network is needed."""
