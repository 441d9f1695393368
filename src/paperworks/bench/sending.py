"""How a study reaches the processes that run its trials: by reference where one leads to it, else by value.

A study in an importable module or in a file is loaded by each process from there. One that was put together in a
notebook or a script, or whose trial is a lambda or a closure, travels as a pickle of its own code and values.
"""

from __future__ import annotations

import functools
import importlib.util
import inspect
import io
import sys
from collections import ChainMap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from types import FunctionType, MappingProxyType, ModuleType
from typing import Any, ClassVar

import cloudpickle

from paperworks.bench.catalog import resolve
from paperworks.bench.fingerprint import payload_digest, source_digest
from paperworks.bench.study import Study, StudyError
from paperworks.bench.worker import file_digest, read_study

__all__ = ["SentStudy", "prepare"]

_MAX_DEPTH = 12


@dataclass(frozen=True)
class SentStudy:
    """A study with all that a worker process needs to get it."""

    study: Study
    ref: str
    """Reference of the study; its slug if it travels by value."""
    digest: str
    """Digest of the study's file, for a ``file:`` reference."""
    payload: bytes
    """The pickled study; empty if the reference leads to it."""
    source: str
    """Digest of all the source that its results depend on."""


def prepare(study: str | Study) -> SentStudy:
    """Find out how worker processes get a study.

    Parameters
    ----------
    study : str or Study
        A slug, reference, module, file, or the record itself.

    Returns
    -------
    SentStudy

    Raises
    ------
    LookupError
        If there is no such study.
    StudyError
        If no reference leads to the study and it can't be pickled; the message names the object that can't, and its
        place in the study.
    """
    if isinstance(study, str):
        ref: str | None = resolve(study)
    elif isinstance(study, Study):
        ref = _reference(study)
    else:
        raise TypeError(f"study must be a name or a Study, got {type(study).__name__}")
    if ref is None:
        assert isinstance(study, Study)
        payload = _pickle(study)
        return SentStudy(study, study.slug, "", payload, payload_digest(payload))
    digest = ""
    if ref.startswith("file:") and Path(ref.removeprefix("file:")).is_file():
        digest = file_digest(ref.removeprefix("file:"))
    return SentStudy(read_study(ref, digest), ref, digest, b"", source_digest(ref))


def _reference(study: Study) -> str | None:
    """Return the reference of a study if a module's ``STUDY`` is this very object and other processes can load it."""
    module = sys.modules.get(getattr(study.trial, "__module__", None) or "")
    if module is None or getattr(module, "STUDY", None) is not study:
        return None
    if module.__name__.startswith("_paperworks_study_"):
        return f"file:{module.__file__}"
    return f"module:{module.__name__}" if _is_importable(module.__name__) else None


def _is_importable(name: str) -> bool:
    if name == "__main__" or name.startswith("_paperworks_study_"):
        return False
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    dispatch_table: ClassVar[Any] = ChainMap(
        {MappingProxyType: lambda proxy: (MappingProxyType, (dict(proxy),))}, cloudpickle.Pickler.dispatch_table
    )


def _dumps(value: Any) -> bytes:
    buffer = io.BytesIO()
    _Pickler(buffer).dump(value)
    return buffer.getvalue()


def _pickle(study: Study) -> bytes:
    module = sys.modules.get(getattr(study.trial, "__module__", None) or "")
    with _by_value(module):
        try:
            return _dumps(study)
        except Exception:
            place, culprit, error = _find_culprit(study, f"Study {study.slug!r}", 0)
            raise StudyError(
                f"{place} can't be sent to worker processes: {_short(culprit)} ({error}); make it inside of the trial "
                "function, or define the study in an importable module or a file and pass its name"
            ) from None


@contextmanager
def _by_value(module: ModuleType | None) -> Iterator[None]:
    """Pickle what a module defines by value if other processes couldn't import it."""
    if module is None or module.__name__ == "__main__" or _is_importable(module.__name__):
        yield
        return
    cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        cloudpickle.unregister_pickle_by_value(module)


def _failure(value: Any) -> str | None:
    try:
        _dumps(value)
    except Exception as error:
        return " ".join(str(error).split()) or type(error).__name__
    return None


def _find_culprit(value: Any, place: str, depth: int) -> tuple[str, Any, str]:
    """Follow what can't be pickled down to the innermost object that can't."""
    if depth < _MAX_DEPTH:
        for name, part in _parts(value):
            if part is not value and _failure(part) is not None:
                return _find_culprit(part, f"{place}: {name}", depth + 1)
    return place, value, _failure(value) or "reason unknown"


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, FunctionType):
        try:
            used = inspect.getclosurevars(value)
        except ValueError:  # a cell that is still empty
            return
        yield from ((f"name {name!r} of the enclosing function", part) for name, part in used.nonlocals.items())
        yield from ((f"global name {name!r}", part) for name, part in used.globals.items())
        yield from ((f"default {part!r:.60}", part) for part in value.__defaults__ or ())
    elif isinstance(value, functools.partial):
        yield from [("function", value.func), ("arguments", value.args), ("keywords", value.keywords)]
    elif isinstance(value, Mapping):
        yield from ((f"[{key!r}]", part) for key, part in value.items())
    elif isinstance(value, list | tuple | set | frozenset):
        yield from ((f"[{i}]", part) for i, part in enumerate(value))
    elif is_dataclass(value) and not isinstance(value, type):
        yield from ((field.name, getattr(value, field.name)) for field in fields(value))
    elif inspect.ismethod(value):
        yield "self", value.__self__
    elif hasattr(value, "__dict__"):
        yield from (
            (name, part) for name, part in vars(value).items() if not (isinstance(value, type) and name[:2] == "__")
        )


def _short(value: Any) -> str:
    text = repr(value)
    return f"a {type(value).__name__}, {text if len(text) <= 80 else text[:79] + '…'}"
