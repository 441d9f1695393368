"""The user's own files as data sets: read and checked once, then known by a reference that holds their digest.

A reference is text such as ``file:/data/churn.csv?kind=table&task=classification&target=churned&sha256=...``; it says
all that reading needs, so a worker process gets the same table or a clear error.
"""

from __future__ import annotations

import difflib
import hashlib
import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args
from urllib.parse import parse_qs, quote, unquote_to_bytes, urlencode

from paperworks.datasets import catalog
from paperworks.datasets.record import DataError, Dataset, Table, Task

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd

    from paperworks.datasets.readers import Source

__all__ = ["EXTENSIONS", "OwnFile", "own_file", "raw_table", "record_of"]

OwnKind = Literal["table", "graph", "matrix", "series"]

_TEXT = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz")
_PARQUET = (".parquet", ".pq")
_FRAMES = (*_TEXT, *_PARQUET, ".npz")
EXTENSIONS: dict[str, tuple[str, ...]] = {
    "table": _FRAMES,
    "graph": (".graphml", ".graphml.gz"),
    "matrix": _FRAMES,
    "series": _FRAMES,
}
"""Ends of the names of files that hold each kind."""
_SCHEME = "file:"


@dataclass(frozen=True)
class OwnFile:
    """A file of the user that was read and can be used."""

    ref: str
    """What `paperworks.datasets.load` takes; holds path, settings and digest."""
    label: str
    """What people read: file name and target."""
    digest: str
    """SHA-256 of the file's content, 64 hexadecimal digits."""
    shape: tuple[int, ...]
    """Rows and columns of the features; nodes and edges of a graph."""
    notes: tuple[str, ...] = ()
    """What was done to the columns."""


@dataclass(frozen=True)
class _Request:
    """What a reference says."""

    path: Path
    kind: OwnKind
    task: Task
    target: str | None
    encoding: str | None
    drop: tuple[str, ...]
    digest: str

    @property
    def label(self) -> str:
        return f"{self.path.name} ({self.target})" if self.target else self.path.name

    def ref(self) -> str:
        fields: list[tuple[str, str]] = [("kind", self.kind), ("task", self.task)]
        fields += [(name, value) for name in ("target", "encoding") if (value := getattr(self, name)) is not None]
        fields += [("drop", name) for name in self.drop] + [("sha256", self.digest)]
        return f"{_SCHEME}{quote(os.fsencode(self.path))}?{urlencode(fields, quote_via=quote)}"

    @classmethod
    def parse(cls, ref: str) -> _Request:
        path, _, query = ref.removeprefix(_SCHEME).partition("?")
        fields = parse_qs(query)
        one = {name: values[0] for name, values in fields.items()}
        kind, task, digest = one.get("kind", "table"), one.get("task", "none"), one.get("sha256", "")
        if not path or len(digest) != 64 or kind not in EXTENSIONS or task not in get_args(Task):
            raise DataError(f"malformed reference of an own file: {ref!r}; own_file() makes them")
        return cls(
            Path(os.fsdecode(unquote_to_bytes(path))),
            kind,  # type: ignore[arg-type]
            task,  # type: ignore[arg-type]
            one.get("target"),
            one.get("encoding"),
            tuple(fields.get("drop", ())),
            digest,
        )


def own_file(
    path: str | os.PathLike[str],
    *,
    kind: OwnKind = "table",
    task: Task = "classification",
    target: str | None = None,
    encoding: str | None = None,
    drop: Sequence[str] = (),
) -> OwnFile:
    """Read a file of the user, check everything once and return its reference.

    Parameters
    ----------
    path : str or path-like
        CSV (also TSV, and gzip-compressed), Parquet or NPZ for tables, matrices and series; GraphML for graphs.
    kind : {"table", "graph", "matrix", "series"}, default "table"
        What the file holds.
    task : {"classification", "regression", "none"}, default "classification"
        What the target is. Only tables have a target.
    target : str, optional
        Column with the target; in an NPZ file the array, ``y`` if not given.
    encoding : str, optional
        Encoding of a CSV file; UTF-8 (with or without byte-order mark) if not given.
    drop : sequence of str, default ()
        Columns to leave out.

    Returns
    -------
    OwnFile

    Raises
    ------
    DataError
        If the file can't be used as it is; one line with file, row and column.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from paperworks.datasets import load, own_file
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = pathlib.Path(folder.name) / "shop.csv"
    >>> _ = path.write_text("size,sold\\n1,yes\\n2,no\\n3,yes\\n4,no\\n")
    >>> own = own_file(path, target="sold")
    >>> own.label, own.shape
    ('shop.csv (sold)', (4, 1))
    >>> load(own.ref).y.tolist()
    ['yes', 'no', 'yes', 'no']
    >>> folder.cleanup()
    """
    if kind not in EXTENSIONS:
        raise ValueError(f"kind must be one of {', '.join(EXTENSIONS)}; got {kind!r}")
    if task not in get_args(Task):
        raise ValueError(f"task must be one of {', '.join(get_args(Task))}; got {task!r}")
    if isinstance(drop, str):
        raise TypeError(f"drop must be a sequence of column names, got the text {drop!r}")
    place = Path(os.path.abspath(path))  # links stay: the name is the user's
    request = _Request(place, kind, task, target, encoding, tuple(drop), _digest(place, kind))
    if target is None and task != "none" and kind == "table" and place.suffix.lower() == ".npz":
        request = _Request(place, kind, task, "y", encoding, tuple(drop), request.digest)
    ref = request.ref()
    data = catalog.load_once(ref)
    shape, notes = _described(data)
    return OwnFile(ref, request.label, request.digest, shape, notes)


def raw_table(path: str | os.PathLike[str], *, encoding: str | None = None) -> pd.DataFrame:
    """Read a table of the user as it is: all columns, before any is chosen, dropped or made numeric.

    Parameters
    ----------
    path : str or path-like
        CSV, Parquet or NPZ, as `own_file` takes it.
    encoding : str, optional
        Encoding of a CSV file; UTF-8 if not given.

    Returns
    -------
    DataFrame
        The columns of the file in their order.

    Raises
    ------
    DataError
        If the file can't be read; one line with file, row and column.
    """
    place = Path(os.path.abspath(path))
    target = "y" if place.suffix.lower() == ".npz" else None
    return _source(_Request(place, "table", "none", target, encoding, (), _digest(place, "table"))).frame


def record_of(ref: str) -> Dataset:
    """Return the record of an own file; nothing is read."""
    request = _Request.parse(ref)
    return Dataset(
        name=ref,
        kind=request.kind,
        task=request.task,
        shape=None,
        licence="the user's own",
        source=str(request.path),
        loader=lambda: _read(request),
        description=request.label,
    )


def _described(data: Any) -> tuple[tuple[int, ...], tuple[str, ...]]:
    if isinstance(data, Table):
        return data.X.shape, data.notes
    if hasattr(data, "number_of_nodes"):
        return (data.number_of_nodes(), data.number_of_edges()), ()
    return data.shape, tuple(data.attrs.get("notes", ()))


def _digest(path: Path, kind: str) -> str:
    """Return the SHA-256 of a file, refusing what is no readable file of the kind."""
    accepted = EXTENSIONS[kind]
    try:
        if path.is_dir():
            raise DataError(f"{path} is a folder; name a file ({', '.join(accepted)})")
        if not path.exists():
            raise DataError(f"there is no file {path}")
        if not path.name.lower().endswith(accepted):
            raise DataError(f"{path.name}: a {kind} is read from {', '.join(accepted)}, not from this extension")
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or type(error).__name__}") from error


def _read(request: _Request) -> Any:
    digest = _digest(request.path, request.kind)
    if digest != request.digest:
        raise DataError(
            f"{request.path.name} has changed since it was checked "
            f"(SHA-256 {digest[:12]}..., expected {request.digest[:12]}...); start again with the new file"
        )
    if request.kind == "graph":
        return _read_graph(request)
    source = _source(request)
    target = _target(request, source)
    features = _kept(request, source, target)
    if request.kind == "table":
        return _table(request, source, features, target)
    from paperworks.datasets.columns import number_columns

    frame, notes = number_columns(source, features, time_index=request.kind == "series")
    frame.attrs["notes"] = [*source.notes, *notes]
    return frame


def _table(request: _Request, source: Source, features: list[str], target: str | None) -> Table:
    import pandas as pd

    from paperworks.datasets.columns import class_target, feature_columns, number_target

    y: pd.Series[Any] = pd.Series(dtype=float)
    said: tuple[str, ...] = ()
    if target is not None:
        y, said = (class_target if request.task == "classification" else number_target)(source, target)
    X, notes = feature_columns(source, features)
    return Table(X, y, target or "", (*source.notes, *said, *notes))


def _source(request: _Request) -> Source:
    from paperworks.datasets.readers import read_csv, read_npz, read_parquet

    suffix = request.path.suffix.lower()
    if suffix in _PARQUET:
        source = read_parquet(request.path)
    elif suffix == ".npz":
        source = read_npz(request.path, request.target)
    else:
        source = read_csv(request.path, request.encoding, request.target)
    if len(source.frame) == 0:
        raise DataError(
            f"{request.path.name}: holds a header but no rows"
            if source.separator
            else f"{request.path.name}: holds no rows"
        )
    return source


def _target(request: _Request, source: Source) -> str | None:
    columns = [str(name) for name in source.frame.columns]
    if request.task == "none" or request.kind != "table":
        if request.target is not None:
            raise DataError(f"{request.path.name}: no target is used here, got {request.target!r}")
        return None
    if request.target is None:
        raise DataError(f"{request.path.name}: name the target column with --target; columns: {_listed(columns)}")
    return _column(request, request.target, columns, "target")


def _kept(request: _Request, source: Source, target: str | None) -> list[str]:
    columns = [str(name) for name in source.frame.columns]
    dropped = {_column(request, name, columns, "column to drop") for name in request.drop}
    if target in dropped:
        raise DataError(f"{request.path.name}: column {target!r} is the target, it cannot be dropped")
    return [name for name in columns if name != target and name not in dropped]


def _column(request: _Request, wanted: str, columns: list[str], what: str) -> str:
    from paperworks.datasets.readers import same_name

    for name in columns:
        if same_name(name, wanted):
            return name
    closeness = {n: difflib.SequenceMatcher(None, n.casefold(), wanted.casefold()).ratio() for n in columns}
    ordered = sorted(columns, key=lambda n: -closeness[n])
    raise DataError(f"{request.path.name}: there is no {what} {wanted!r}; columns, closest first: {_listed(ordered)}")


def _listed(columns: Sequence[str]) -> str:
    from paperworks.datasets.columns import listed

    return listed([shlex.quote(name) if " " in name or "," in name else name for name in columns], most=30)


def _read_graph(request: _Request) -> nx.Graph[Any]:
    import zlib
    from xml.etree.ElementTree import ParseError

    import networkx as nx

    name = request.path.name
    if request.target is not None or request.drop:
        raise DataError(f"{name}: a graph has no target or columns to drop")
    try:
        graph: nx.Graph[Any] = nx.read_graphml(request.path)
    except ParseError as error:
        line, column = error.position
        raise DataError(f"{name}: malformed XML in line {line}, column {column + 1}") from error
    except (nx.NetworkXError, KeyError, ValueError, OSError, EOFError, zlib.error) as error:
        raise DataError(f"{name}: is no readable GraphML file ({str(error).splitlines()[0]})") from error
    if graph.number_of_nodes() == 0:
        raise DataError(f"{name}: the graph has no nodes")
    return graph
