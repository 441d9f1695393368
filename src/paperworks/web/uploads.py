"""Files that come through the browser: measured while they come, read as data only, kept under names of our own."""

from __future__ import annotations

import math
import re
import secrets
import shutil
import zipfile
import zlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from starlette.concurrency import run_in_threadpool

from paperworks.datasets.files import EXTENSIONS

__all__ = ["KINDS", "Upload", "UploadError", "Uploads", "preview"]

KINDS = {end: kind for kind in ("table", "graph") for end in EXTENSIONS[kind]}
"""Kind of data by the end of the file's name."""

_PREVIEW_ROWS = 8
_PREVIEW_COLUMNS = 40
_ID = re.compile(r"[0-9a-f]{24}\Z")


class UploadError(ValueError):
    """The file is refused; the message says why."""


@dataclass(frozen=True)
class Upload:
    """A file that was taken."""

    id: str
    name: str
    """The file's own name, without any folder."""
    path: Path
    kind: str
    """``table`` or ``graph``."""
    size: int
    """Bytes."""


class Uploads:
    """The folder of uploaded files.

    Parameters
    ----------
    folder : Path
        Where files are kept, one folder each.
    max_bytes : int
        Greatest size of a file, packed and unpacked.
    max_files : int, default 100
        Files kept; the oldest make room.
    """

    def __init__(self, folder: Path, max_bytes: int, max_files: int = 100) -> None:
        self.folder = folder
        self.max_bytes = max_bytes
        self.max_files = max_files

    async def take(self, name: str, chunks: AsyncIterator[bytes], encoding: str = "") -> Upload:
        """Store a file that comes in pieces, and read it once.

        Parameters
        ----------
        name : str
            Name that the browser gave; only its last part is used.
        chunks : async iterator of bytes
            Content.
        encoding : str, default ""
            Encoding of a text file other than UTF-8; it is stored as UTF-8.

        Returns
        -------
        Upload
            The stored file.

        Raises
        ------
        UploadError
            If the name, the size or the content is refused; nothing is kept then.
        DataError
            If the file can't be read, with row and column; nothing is kept then either.
        """
        clean = _file_name(name)
        suffix = _suffix(clean)
        if not suffix:
            raise UploadError(f"{clean}: files must end in {', '.join(KINDS)}")
        upload_id = secrets.token_hex(12)
        place = self.folder / upload_id
        place.mkdir(parents=True)
        try:
            size = 0
            with (place / clean).open("xb") as out:
                async for chunk in chunks:
                    size += len(chunk)
                    if size > self.max_bytes:
                        raise UploadError(f"{clean} is larger than the {_megabytes(self.max_bytes)} allowed")
                    out.write(chunk)
            if size == 0:
                raise UploadError(f"{clean} is empty")
            await run_in_threadpool(self._inspect, place / clean, suffix, encoding)
            await run_in_threadpool(preview, self.get(upload_id))
        except BaseException:
            shutil.rmtree(place, ignore_errors=True)
            raise
        self._make_room()
        return self.get(upload_id)

    def get(self, upload_id: str) -> Upload:
        """Return a stored file; `LookupError` if there is none of this name."""
        place = self.folder / upload_id
        if not _ID.match(upload_id) or not place.is_dir():
            raise LookupError(f"no uploaded file {upload_id!r}")
        path = next(file for file in place.iterdir())
        return Upload(upload_id, path.name, path, KINDS[_suffix(path.name)], path.stat().st_size)

    def all(self) -> list[Upload]:
        """Return the stored files, newest first."""
        if not self.folder.is_dir():
            return []
        places = [place for place in self.folder.iterdir() if _ID.match(place.name) and any(place.iterdir())]
        return [self.get(place.name) for place in sorted(places, key=lambda p: p.stat().st_mtime, reverse=True)]

    def _make_room(self) -> None:
        for upload in self.all()[self.max_files :]:
            shutil.rmtree(upload.path.parent, ignore_errors=True)

    def _inspect(self, path: Path, suffix: str, encoding: str) -> None:
        """Refuse what would unpack to more than is allowed, and markup with declarations of its own."""
        if encoding and suffix in (".csv", ".tsv", ".txt"):
            try:
                path.write_text(path.read_text(encoding), encoding="utf-8")
            except (LookupError, UnicodeError) as error:
                raise UploadError(f"{path.name} is not text in the encoding {encoding!r} ({error})") from error
        if suffix.endswith(".gz"):
            self._check_gzip(path)
        elif suffix == ".npz":
            self._check_zip(path)
        elif suffix in (".parquet", ".pq"):
            self._check_parquet(path)
        if suffix.startswith(".graphml"):
            _check_markup(path, packed=suffix.endswith(".gz"))

    def _too_large(self, path: Path) -> UploadError:
        return UploadError(f"{path.name} unpacks to more than the {_megabytes(self.max_bytes)} allowed")

    def _check_gzip(self, path: Path) -> None:
        total = 0
        unpacker = zlib.decompressobj(wbits=31)
        try:
            with path.open("rb") as file:
                while block := file.read(1 << 16):
                    while block:
                        total += len(unpacker.decompress(block, 1 << 20))
                        if total > self.max_bytes:
                            raise self._too_large(path)
                        block = unpacker.unconsumed_tail
                        if unpacker.eof:  # a file may hold several members
                            block = unpacker.unused_data
                            unpacker = zlib.decompressobj(wbits=31)
        except zlib.error as error:
            raise UploadError(f"{path.name} is not a gzip file ({error})") from error

    def _check_zip(self, path: Path) -> None:
        try:
            with zipfile.ZipFile(path) as archive:
                total = sum(member.file_size for member in archive.infolist())
                if total <= self.max_bytes:  # headers may promise more than they hold
                    total = sum(_array_bytes(archive, member) for member in archive.namelist())
        except (zipfile.BadZipFile, OSError, ValueError, RuntimeError, NotImplementedError) as error:
            raise UploadError(f"{path.name} is not an NPZ file of plain arrays ({error})") from error
        if total > self.max_bytes:
            raise self._too_large(path)

    def _check_parquet(self, path: Path) -> None:
        import pyarrow
        import pyarrow.parquet

        try:
            found = pyarrow.parquet.read_metadata(path)
        except (pyarrow.ArrowException, OSError) as error:
            raise UploadError(f"{path.name} is not a Parquet file ({' '.join(str(error).split())})") from error
        # Dictionaries and run lengths may name few bytes for many values: count eight bytes a value as well.
        bytes_told = sum(found.row_group(i).total_byte_size for i in range(found.num_row_groups))
        if max(bytes_told, 8 * found.num_rows * found.num_columns) > 8 * self.max_bytes:
            raise self._too_large(path)


def preview(upload: Upload) -> dict[str, Any]:
    """Return what the page shows of a file.

    Parameters
    ----------
    upload : Upload
        The file.

    Returns
    -------
    dict
        For a table ``columns`` (all names), ``rows`` (the first ones, as text) and ``shape``; for a graph ``shape``.

    Raises
    ------
    DataError
        If the file can't be read; the message says where.
    """
    from paperworks.datasets import own_file, raw_table

    if upload.kind == "graph":
        own = own_file(upload.path, kind="graph", task="none")
        return {"columns": [], "rows": [], "shape": list(own.shape)}
    frame = raw_table(upload.path)
    head = frame.iloc[:_PREVIEW_ROWS, :_PREVIEW_COLUMNS]
    rows = [["" if value is None or value != value else str(value) for value in row] for row in head.to_numpy(object)]
    return {"columns": [str(name) for name in frame.columns], "rows": rows, "shape": list(frame.shape)}


def _file_name(name: str) -> str:
    last = re.split(r"[\\/]", name)[-1]
    clean = "".join(c for c in last if c.isprintable() and c not in ':*?"<>|\0').strip().lstrip(".")
    if not clean:
        raise UploadError(f"the file has no usable name: {name!r}")
    stem, dot, ends = clean.partition(".")
    return stem[:100] + dot + ends[-40:]


def _suffix(name: str) -> str:
    lower = name.lower()
    return next((end for end in sorted(KINDS, key=len, reverse=True) if lower.endswith(end)), "")


def _array_bytes(archive: zipfile.ZipFile, member: str) -> int:
    """Return the bytes that an array of an NPZ file says it has."""
    with archive.open(member) as file:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(file)
    if dtype.hasobject:
        raise ValueError(f"{member} holds objects, which would have to be unpickled")
    return math.prod(shape) * dtype.itemsize


def _check_markup(path: Path, *, packed: bool) -> None:
    import gzip

    with gzip.open(path, "rb") if packed else path.open("rb") as file:
        tail = b""
        while block := file.read(1 << 16):
            text = (tail + block).replace(b"\0", b"").upper()  # UTF-16 as well
            if b"<!DOCTYPE" in text or b"<!ENTITY" in text:
                raise UploadError(f"{path.name} declares entities or a document type, which GraphML does not need")
            tail = block[-32:]


def _megabytes(size: int) -> str:
    return f"{size / 2**20:,.4g} MB"
