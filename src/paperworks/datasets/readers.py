"""Reading the user's tables: CSV, Parquet and NPZ into a frame, with row numbers as the user sees them.

Cells are taken as they stand: only an empty cell is missing here; what "NA" means is for the rules of the columns.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import shlex
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from paperworks.datasets.record import DataError

__all__ = ["Source", "read_csv", "read_npz", "read_parquet"]

_SEPARATORS = ";\t|,"  # on a tie the comma comes last: it may be a decimal comma
_SAMPLE_LINES = 50


@dataclass(frozen=True)
class Source:
    """A frame as it stands in a file."""

    path: Path
    frame: pd.DataFrame
    notes: tuple[str, ...] = ()
    separator: str = ""
    """The separator of a CSV file; empty for files with typed columns."""
    encoding: str = ""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Columns of a type that no rule takes, with the type; their cells are not read."""

    @property
    def typed(self) -> bool:
        """Whether the file says what type a column has."""
        return not self.separator

    def column(self, name: str) -> pd.Series[Any]:
        """Return a column as it stands; refuse one of a type that no rule takes."""
        if name in self.refused:
            raise DataError(
                f"{self.path.name}: column {name!r} holds {self.refused[name]}; numbers, text, true/false and dates "
                f"are taken; leave it out with --drop {shlex.quote(name)}"
            )
        return self.frame[name]

    def row(self, position: int) -> int:
        """Return the number of a row as a spreadsheet shows it (the header is row 1); from 1 in a typed file."""
        if self.typed:
            return position + 1
        with _explained(self.path, self.encoding):
            filled = (number for number, record, _ in _records(self) if not _blank(record))
            return next(islice(filled, position + 1, None), position + 2)


def read_csv(path: Path, encoding: str | None, target: str | None) -> Source:
    """Read a CSV file; the separator is found from its first lines, ``.gz`` is unpacked.

    Parameters
    ----------
    path : Path
        The file.
    encoding : str or None
        Name of the encoding; None means UTF-8, with or without a byte-order mark.
    target : str or None
        The column whose cells are kept as text.

    Returns
    -------
    Source

    Raises
    ------
    DataError
        If the file is empty, damaged, in another encoding or not a table.
    """
    try:
        codec = codecs.lookup(encoding or "utf-8").name
    except LookupError as error:
        raise DataError(f"{path.name}: there is no encoding called {encoding!r}") from error
    codec = "utf-8-sig" if codec == "utf-8" else codec
    with _explained(path, codec):
        with _open(path, codec) as stream:
            lines = list(islice(stream, _SAMPLE_LINES))
        if any("\0" in line for line in lines):
            raise DataError(f"{path.name}: holds zero bytes, so it is not {_spoken(codec)} text; try --encoding utf-16")
        separator = _separator(lines)
        header = next((r for r in csv.reader(lines, **_dialect(separator)) if not _blank(r)), None)
        if header is None:
            raise DataError(f"{path.name}: is empty")
        names = _named(path, [cell.strip() for cell in header])
        source = Source(path, pd.DataFrame(columns=pd.Index(names)), (), separator, codec)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", pd.errors.ParserWarning)
                frame = pd.read_csv(
                    path,
                    sep=separator,
                    header=0,
                    names=names,
                    index_col=False,
                    dtype={name: str for name in names if same_name(name, target)},
                    keep_default_na=False,
                    na_values=[""],
                    skipinitialspace=True,
                    low_memory=False,
                    encoding=codec,
                    compression="gzip" if path.suffix.lower() == ".gz" else None,
                )
        except pd.errors.EmptyDataError as error:
            raise DataError(f"{path.name}: is empty") from error
        except (pd.errors.ParserError, pd.errors.ParserWarning) as error:
            _check_widths(source)
            raise DataError(f"{path.name}: {_parser_trouble(error)}") from error
        # A short row does not stop the parser: it fills the row up, and the last column shows it.
        if len(names) > 1 and len(frame) and frame.iloc[:, -1].isna().any():
            _check_widths(source)
    notes: tuple[str, ...] = ()
    if len(frame) and header[0].strip() == "" and _counts_rows(frame.iloc[:, 0]):
        frame = frame.iloc[:, 1:]
        notes = ("the first column has no name and only counts the rows: left out",)
    return Source(path, frame, notes, separator, codec)


def same_name(name: str, wanted: str | None) -> bool:
    """Return whether two column names are the same text, however their accents are composed."""
    from unicodedata import normalize

    return wanted is not None and normalize("NFC", name) == normalize("NFC", wanted)


def read_parquet(path: Path) -> Source:
    """Read a Parquet file; columns of lists, structures and bytes are refused when they are used."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.ParquetFile(path).read()
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path.name}: is no readable Parquet file ({_first_line(error)})") from error
    columns: dict[str, Any] = {}
    refused: dict[str, str] = {}
    for entry, column in zip(table.schema, table.columns, strict=True):
        if entry.name in columns:
            raise DataError(f"{path.name}: the column name {entry.name!r} appears twice")
        if entry.name.startswith("__index_level_"):
            continue
        kind = entry.type
        if pa.types.is_dictionary(kind):
            column, kind = column.cast(kind.value_type), kind.value_type
        if pa.types.is_decimal(kind):
            column = column.cast(pa.float64())
        elif pa.types.is_date(kind):
            column = column.cast(pa.date32()).cast(pa.timestamp("s"))
        elif pa.types.is_null(kind):
            column = column.cast(pa.float64())
        elif not (
            pa.types.is_integer(kind)
            or pa.types.is_floating(kind)
            or pa.types.is_boolean(kind)
            or pa.types.is_timestamp(kind)
            or pa.types.is_duration(kind)
            or pa.types.is_string(kind)
            or pa.types.is_large_string(kind)
            or pa.types.is_string_view(kind)
        ):
            refused[entry.name] = str(kind)
            columns[entry.name] = pd.Series(np.nan, index=range(len(table)))
            continue
        columns[entry.name] = column.to_pandas()
    return Source(path, pd.DataFrame(columns), refused=refused)


def read_npz(path: Path, target: str | None) -> Source:
    """Read arrays ``X`` (rows, columns) and the target, ``y`` if not named, from an NPZ file without pickles."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (OSError, ValueError, EOFError, AttributeError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"{path.name}: is no readable NPZ file of numbers or text (objects are refused)") from error
    listed = ", ".join(arrays) or "none"
    wanted = next((name for name in arrays if same_name(name, target)), None)
    if target is not None and wanted is None:
        raise DataError(f"{path.name}: has no array {target!r}; its arrays: {listed}")
    features = "X" if "X" in arrays else next(iter([n for n in arrays if n != wanted]), "")
    if not features or ("X" not in arrays and len(arrays) > 1 + (wanted is not None)):
        raise DataError(f"{path.name}: needs an array X with the features; its arrays: {listed}")
    X = arrays[features]
    if X.ndim != 2 or X.dtype.kind not in "biuf":
        raise DataError(
            f"{path.name}: array {features!r} must hold numbers in rows and columns, got shape {X.shape}, "
            f"dtype {X.dtype}"
        )
    frame = pd.DataFrame(X, columns=pd.Index([f"x{i + 1}" for i in range(X.shape[1])]))
    if wanted is not None:
        y = arrays[wanted]
        if y.shape != (len(X),):
            raise DataError(f"{path.name}: array {wanted!r} must have shape ({len(X)},), got {y.shape}")
        if wanted in frame:
            raise DataError(f"{path.name}: the target must not be called {wanted!r}, a feature has that name")
        frame[wanted] = y.astype(object) if y.dtype.kind in "US" else y
    return Source(path, frame)


def _parser_trouble(error: Exception) -> str:
    unclosed = re.search(r"EOF inside string starting at row (\d+)", str(error))
    if unclosed:
        return f"a quoted field that begins near row {int(unclosed[1]) + 1} is never closed"
    return f"is no readable CSV file ({_first_line(error)})"


def _separator(lines: list[str]) -> str:
    best, chosen = (0.0, 0), ","
    for separator in _SEPARATORS:
        widths = [len(r) for r in csv.reader(lines, **_dialect(separator)) if not _blank(r)]
        if not widths or widths[0] < 2:
            continue
        rank = (sum(w == widths[0] for w in widths) / len(widths), widths[0])
        if rank > best:
            best, chosen = rank, separator
    return chosen


def _dialect(separator: str) -> dict[str, Any]:
    return {"delimiter": separator, "skipinitialspace": True}


def _blank(record: list[str]) -> bool:
    return len(record) == 0 or (len(record) == 1 and not record[0].strip())


def _named(path: Path, names: list[str]) -> list[str]:
    for i, name in enumerate(names):
        if name and name in names[:i]:
            raise DataError(
                f"{path.name}: the column name {name!r} appears twice (columns {names.index(name) + 1} and {i + 1})"
            )
    return [name or f"column {i + 1}" for i, name in enumerate(names)]


def _counts_rows(column: pd.Series[Any]) -> bool:
    if column.dtype.kind not in "iu":
        return False
    return bool((column.to_numpy() - np.arange(len(column)) == column.iloc[0]).all()) and column.iloc[0] in (0, 1)


def _check_widths(source: Source) -> None:
    width = None
    for number, record, line in _records(source):
        if _blank(record):
            continue
        if width is None:
            width = len(record)
        elif len(record) != width:
            where = f"row {number}" if line == number else f"row {number} (line {line})"
            raise DataError(
                f"{source.path.name}: {where} has {len(record)} fields, the header has {width} "
                f"(separator {_SPOKEN[source.separator]})"
            )


_SPOKEN = {",": "comma", ";": "semicolon", "\t": "tab", "|": "|"}


def _records(source: Source) -> Iterator[tuple[int, list[str], int]]:
    """Yield row number, cells and the number of the row's last line."""
    with _open(source.path, source.encoding) as stream:
        reader = csv.reader(stream, **_dialect(source.separator))
        for number, record in enumerate(reader, start=1):
            yield number, record, reader.line_num


def _open(path: Path, encoding: str) -> io.TextIOBase:
    if path.suffix.lower() == ".gz":
        return gzip.open(path, "rt", encoding=encoding, newline="")
    return path.open(encoding=encoding, newline="")


@contextmanager
def _explained(path: Path, encoding: str) -> Iterator[None]:
    try:
        yield
    except UnicodeError as error:
        raise DataError(_wrong_encoding(path, encoding)) from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path.name}: is no readable gzip file ({_first_line(error)})") from error
    except csv.Error as error:
        raise DataError(f"{path.name}: is no readable CSV file ({_first_line(error)})") from error


def _wrong_encoding(path: Path, encoding: str) -> str:
    data = gzip.decompress(path.read_bytes()) if path.suffix.lower() == ".gz" else path.read_bytes()
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return f"{path.name}: begins with the mark of UTF-16, so it is not {_spoken(encoding)}; try --encoding utf-16"
    try:
        data.decode(encoding)
    except UnicodeDecodeError as error:
        start = error.start + (3 if encoding == "utf-8-sig" and data[:3] == b"\xef\xbb\xbf" else 0)
        row = data.count(b"\n", 0, start) + 1
        byte = f"row {row}: byte 0x{data[start]:02x} (at position {start} of the file)"
        if encoding != "utf-8-sig":
            return f"{path.name}: {byte} is not {encoding}; name the right one with --encoding"
        windows = any(0x80 <= b <= 0x9F for b in data)  # letters in cp1252, control codes in latin-1
        return f"{path.name}: {byte} is not UTF-8; try --encoding {'cp1252' if windows else 'latin-1'}"
    except UnicodeError as error:
        return f"{path.name}: is not {encoding} ({_first_line(error)}); name the right one with --encoding"
    return f"{path.name}: is not {encoding} text; name the right one with --encoding"


def _spoken(encoding: str) -> str:
    return "UTF-8" if encoding == "utf-8-sig" else encoding


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
