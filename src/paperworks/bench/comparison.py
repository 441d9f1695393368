"""Two stored runs beside each other: what was not the same, and what it did to the numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paperworks.bench import catalog
from paperworks.bench.report.terminal import run_to_json
from paperworks.bench.store import RunRecord, Store
from paperworks.bench.study import Study
from paperworks.bench.verdict import compare_runs

__all__ = ["compare_stored"]

_SAME_WORK = ("study", "whole", "fresh", "source")


def compare_stored(store: Store, first: int, second: int, study: Study | None = None) -> dict[str, Any]:
    """Compare two runs of one study.

    Parameters
    ----------
    store : Store
        Where the runs are.
    first, second : int
        Numbers of the runs, the older one first by custom.
    study : Study, optional
        Their study; found by the reference in the first run if not given.

    Returns
    -------
    dict
        Plain data: ``study``, ``before`` and ``after`` (the runs), ``differences`` (code, versions, machine and
        arguments that are not the same) and ``rows`` (see `paperworks.bench.verdict.compare_runs`; None for NaN).

    Raises
    ------
    StoreError
        If a run does not exist.
    ValueError
        If the runs are of different studies.
    LookupError
        If the study is not on this machine.
    """
    before, after = store.run(first), store.run(second)
    if before.study != after.study:
        raise ValueError(f"runs of {before.study} and {after.study} can't be compared: choose two of one study")
    found = study or catalog.load_study(catalog.resolve(str(before.arguments.get("study") or before.study)))
    table = compare_runs(found, store.results(first), store.results(second))
    return {
        "study": before.study,
        "before": run_to_json(before),
        "after": run_to_json(after),
        "differences": _differences(before, after),
        "rows": [_plain(row) for row in table.to_dict("records")],
    }


def _differences(before: RunRecord, after: RunRecord) -> list[dict[str, Any]]:
    sides = []
    for run in (before, after):
        fields: dict[str, Any] = {"scale": run.scale, "paperworks": run.version, "commit": run.commit}
        fields["source of the study"] = str(run.arguments.get("source") or "")[:12]
        fields |= {f"version of {name}": value for name, value in run.versions.items()}
        fields |= {f"machine: {name}": value for name, value in run.machine.items() if not name.startswith("pid")}
        fields |= {f"argument {name}": value for name, value in run.arguments.items() if name not in _SAME_WORK}
        sides.append(fields)
    names = dict.fromkeys([*sides[0], *sides[1]])
    pairs = [(name, sides[0].get(name), sides[1].get(name)) for name in names]
    return [{"what": name, "before": a, "after": b} for name, a, b in pairs if a != b]


def _plain(row: Mapping[Any, Any]) -> dict[str, Any]:
    """Return a row without NaN and infinities, for which JSON has no word."""
    return {
        str(name): None if isinstance(value, float) and not abs(value) < float("inf") else value
        for name, value in row.items()
    }
