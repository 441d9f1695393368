"""The catalogue: what there is, what it needs, and loading by name."""

from __future__ import annotations

import difflib
import socket
from functools import cache, lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from paperworks.datasets import bundled, generated, keel, remote
from paperworks.datasets.record import DataError, Dataset, Kind

__all__ = ["available", "info", "load", "load_once", "names"]

_DATASETS = {d.name: d for d in (*bundled.DATASETS, *generated.DATASETS, *keel.DATASETS, *remote.DATASETS)}
_KEPT = 16


def names(kind: Kind | None = None) -> list[str]:
    """Return the names of all registered data sets, or of those of one kind.

    Parameters
    ----------
    kind : {"table", "graph", "matrix", "series", "image", "text", "molecules"}, optional
        Only data of this kind.

    Returns
    -------
    list of str
        Names that `load` takes, whether or not their packages are installed.

    Examples
    --------
    >>> from paperworks.datasets import names
    >>> names("graph")
    ['karate', 'les-miserables', 'davis', 'florentine']
    """
    return [name for name, record in _DATASETS.items() if kind is None or record.kind == kind]


def info(name: str) -> Dataset:
    """Return the record of a data set; nothing is read.

    Parameters
    ----------
    name : str
        A registered name, or the reference of an own file.

    Raises
    ------
    DataError
        If the name is unknown; the message holds the closest names.

    Examples
    --------
    >>> from paperworks.datasets import info
    >>> info("wine").shape
    (178, 13)
    """
    if not isinstance(name, str):
        raise TypeError(f"name must be a text, got {name!r} of type {type(name).__name__}")
    if name.startswith("file:"):
        from paperworks.datasets.files import record_of

        return record_of(name)
    if name not in _DATASETS:
        close = difflib.get_close_matches(name.lower(), _DATASETS, n=3, cutoff=0.5)
        hint = f"; close to it: {', '.join(close)}" if close else "; paperworks.datasets.names() lists all"
        raise DataError(f"unknown data set {name!r}{hint}")
    return _DATASETS[name]


def available(name: str) -> bool:
    """Return whether a data set can be loaded here: its packages are installed, and its host answers if it has one.

    Parameters
    ----------
    name : str
        A registered name.

    Returns
    -------
    bool

    Examples
    --------
    >>> from paperworks.datasets import available
    >>> available("wine")
    True
    """
    record = info(name)
    if _missing(record):
        return False
    return not record.host or _reachable(record.host)


def load(name: str) -> Any:
    """Return a data set by its registered name or by the reference of an own file.

    Reading happens once per process; each call returns a copy, which the caller may change.

    Parameters
    ----------
    name : str
        A registered name (see `names`), or the ``ref`` that `own_file` returned.

    Returns
    -------
    Table, networkx.Graph or pandas.DataFrame
        By the kind of the data: a `Table` for ``table``, a graph for ``graph``, a frame of numbers for ``matrix``
        and ``series``.

    Raises
    ------
    DataError
        If the name is unknown, a file has changed or can't be used, or a network is needed and absent.
    ImportError
        If the package with the data is not installed; the message holds the install command.

    Examples
    --------
    >>> from paperworks.datasets import load
    >>> table = load("wine")
    >>> table.X.shape, table.y.nunique()
    ((178, 13), 3)
    """
    return load_once(name).copy()


@lru_cache(maxsize=_KEPT)
def load_once(name: str) -> Any:
    """Return what `load` copies: the object kept for this process, which must not be changed."""
    record = info(name)
    missing = _missing(record)
    if missing:
        raise ImportError(
            f"data set {name!r} comes with {', '.join(missing)}, which is not installed; "
            f"install it with: {record.install}",
            name=missing[0],
        )
    return record.loader()


def _missing(record: Dataset) -> list[str]:
    absent = []
    for distribution in record.requires:
        try:
            version(distribution)
        except PackageNotFoundError:
            absent.append(distribution)
    return absent


@cache
def _reachable(host: str) -> bool:
    try:
        with socket.create_connection((host, 443), timeout=2):
            return True
    except OSError:
        return False
