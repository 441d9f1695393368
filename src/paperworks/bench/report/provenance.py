"""How a run was measured: versions, the command that repeats it, and measured speed."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote

from paperworks.bench.study import Study

if TYPE_CHECKING:
    from paperworks.bench.store import RunRecord

__all__ = ["HIDDEN", "command_of", "described", "speed_of", "version_of"]

HIDDEN = ("pid", "pid_started")
"""What is recorded of a machine but says nothing to people."""


def version_of(name: str, requires: Sequence[str], role: str, run: RunRecord | None) -> str:
    """Return the version of what a contender is made of; empty if it is not known."""
    if run is None:
        return ""
    if name in (run.arguments.get("left_out") or ()):
        return f"left out: {', '.join(requires) or 'what it needs'} not installed"
    known = [f"{library} {run.versions[library]}" for library in requires if library in run.versions]
    if not known and role != "peer":
        known = [f"paperworks {run.version}"]
    return ", ".join(known)


def command_of(run: RunRecord, study: Study | None) -> str:
    """Return the command that repeats a run: whatever differs from what its scale does by itself."""
    arguments = run.arguments
    ref = str(arguments.get("study") or "")
    parts = ["paperworks", "run", ref.removeprefix("file:") if ref.startswith("file:") else run.study]
    parts += ["--scale", run.scale]
    size = study.scales.get(run.scale) if study else None
    seeds = [int(seed) for seed in arguments.get("seeds") or ()]
    if seeds and not (size and seeds == list(range(size.seeds))):
        parts += ["--seeds", _ranges(seeds)]
    own = arguments.get("own")
    usual: dict[str, Sequence[str]] = {}
    if study and size:
        usual["contenders"] = size.contenders or [contender.name for contender in study.contenders]
        usual["datasets"] = size.datasets or study.datasets
    for name in ("contenders", "datasets"):
        chosen = [str(item) for item in arguments.get(name) or ()]
        skipped = arguments.get("left_out") or () if name == "contenders" else ()
        if chosen and not (name == "datasets" and own) and set(chosen) != set(usual.get(name, ())).difference(skipped):
            parts += [f"--{name}", ",".join(chosen)]
    if isinstance(own, Mapping):
        path, _, query = str(own.get("ref", "")).removeprefix("file:").partition("?")
        parts += ["--data", unquote(path)]
        fields = parse_qs(query)
        for name in ("target", "encoding", "drop"):
            for value in fields.get(name, ()):
                parts += [f"--{name}", value]
    if arguments.get("timeout") is not None:
        parts += ["--timeout", f"{arguments['timeout']:g}"]
    return shlex.join(parts)


def _ranges(seeds: Sequence[int]) -> str:
    parts: list[list[int]] = []
    for seed in sorted(set(seeds)):
        if parts and seed == parts[-1][1] + 1:
            parts[-1][1] = seed
        else:
            parts.append([seed, seed])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in parts)


def speed_of(folder: Path, slug: str) -> dict[str, Any] | None:
    """Return the measured speed of a method from ``<slug>.json`` of a folder; None if there is no such file.

    Raises
    ------
    ValueError
        If the file is malformed.
    """
    path = folder / f"{slug}.json"
    if not path.is_file():
        return None
    needed = ("name", "peer", "ours_seconds", "peer_seconds", "ratio", "ratio_low", "ratio_high")
    try:
        record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        cases = [{**{name: case[name] for name in needed}, "note": case.get("note", "")} for case in record["cases"]]
        for case in cases:
            case.update({name: float(case[name]) for name in needed[2:]})
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"benchmarks: {path.name} is malformed ({error!r})") from error
    return {"machine": described(record.get("machine", "")), "date": record.get("date", ""), "cases": cases}


def described(value: Any) -> str:
    """Return a recorded value as text."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {described(item)}" for key, item in value.items() if key not in HIDDEN)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(described(item) for item in value)
    return str(value)
