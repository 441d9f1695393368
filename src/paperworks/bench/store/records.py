"""What goes into the store and comes out of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

__all__ = ["RunRecord", "StoreError", "TrialRecord", "clean_error", "clean_json", "clean_number", "clean_text"]

_ERROR_CHARACTERS = 20_000


class StoreError(RuntimeError):
    """The store can't be opened, read or written; the message is one line and holds no password."""


@dataclass(frozen=True)
class TrialRecord:
    """The outcome of one contender on one data set with one seed."""

    fingerprint: str
    """Digest of everything that the outcome depends on."""
    study: str
    contender: str
    dataset: str
    dataset_label: str
    """The data set's name as shown to people."""
    seed: int
    scale: str
    status: Literal["ok", "failed", "timeout", "crashed"]
    error: str
    """Why there is no result; empty if `status` is ``"ok"``. Cut after 20,000 characters in the store."""
    metrics: Mapping[str, float]
    """Values by name; NaN and infinities are kept as they are."""
    wall_seconds: float
    """NaN where not known, as for the next two."""
    cpu_seconds: float
    peak_mb: float
    version: str
    """Version of paperworks that computed it."""


@dataclass(frozen=True)
class RunRecord:
    """One execution of a study."""

    id: int
    study: str
    family: str
    scale: str
    status: Literal["running", "done", "interrupted"]
    """``"interrupted"`` as well for a run whose process on this host is gone without a word."""
    n_planned: int
    n_done: int
    """Trials of the run with an outcome, failed ones included."""
    n_failed: int
    """Those of `n_done` that are not ``"ok"``."""
    started: datetime
    finished: datetime | None
    version: str
    commit: str
    machine: Mapping[str, Any]
    versions: Mapping[str, str]
    arguments: Mapping[str, Any]
    verdict: Mapping[str, Any] | None
    """What `Store.finish_run` was given; None for a run without a verdict."""


def clean_text(value: Any) -> str:
    """Return text without what a database refuses: NUL characters and lone surrogates."""
    return str(value).replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def clean_error(value: str) -> str:
    """Return an error text cut to a size that a page can show."""
    text = clean_text(value)
    over = len(text) - _ERROR_CHARACTERS
    return text if over <= 0 else f"{text[:_ERROR_CHARACTERS]} [{over} more characters cut]"


def clean_json(value: Any) -> Any:
    """Return plain JSON data: text keys, and text for what JSON has no word for (paths, NaN, infinities)."""
    if isinstance(value, Mapping):
        return {clean_text(key): clean_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [clean_json(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted((clean_json(item) for item in value), key=str)
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    if hasattr(value, "dtype") and hasattr(value, "tolist"):  # NumPy scalars and arrays
        return clean_json(value.tolist())
    return clean_text(value)


def clean_number(value: Any, name: str) -> float:
    """Return a number of any library as a float."""
    try:
        if isinstance(value, str | bytes):
            raise TypeError
        return float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(f"{name} must be a number, got {value!r} of type {type(value).__name__}") from error
