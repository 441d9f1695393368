"""Results in the terminal: Rich renderables, and the same records as plain data for ``--json``.

Names come from users and files: they enter as `Text`, never as markup.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Protocol, Self

import rich.progress
from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from paperworks.bench.report.wording import (
    INTERVALS,
    MISSING,
    SIGNS,
    claim_in_words,
    decimals_for,
    first_line,
    format_interval,
    format_number,
    plural,
    scope_in_words,
)
from paperworks.bench.study import Study
from paperworks.bench.verdict import summary_table

if TYPE_CHECKING:
    import pandas as pd

    from paperworks.bench.card import Card
    from paperworks.bench.find import Match
    from paperworks.bench.store import RunRecord, TrialRecord

__all__ = [
    "Progress",
    "card_view",
    "claims_view",
    "comparison_view",
    "datasets_table",
    "differences_view",
    "doctor_view",
    "failures_view",
    "matches_view",
    "methods_table",
    "record_view",
    "result_view",
    "run_to_json",
    "run_view",
    "study_header",
    "trial_to_json",
]

_STYLES = {"holds": "bold green", "fails": "bold red", "inconclusive": "bold yellow"}
_METRICS_PER_TABLE = 4


class _Event(Protocol):
    """What the runner reports; see `paperworks.bench.runner.Event`."""

    @property
    def kind(self) -> str: ...
    @property
    def n_done(self) -> int: ...
    @property
    def n_total(self) -> int: ...
    @property
    def message(self) -> str: ...


class _Result(Protocol):
    """What a finished run returns; see `paperworks.bench.runner.RunResult`."""

    @property
    def run(self) -> RunRecord: ...
    @property
    def results(self) -> pd.DataFrame: ...
    @property
    def n_reused(self) -> int: ...


# --------------------------------------------------------------------------------------------------------- plain data


def run_to_json(run: RunRecord) -> dict[str, Any]:
    """Return a run as plain data; times as ISO 8601 in UTC."""
    record = asdict(run)
    record.update(started=run.started.isoformat(), finished=run.finished.isoformat() if run.finished else None)
    return record


def trial_to_json(trial: TrialRecord) -> dict[str, Any]:
    """Return a trial as plain data.

    A metric that is not finite is None under ``metrics``, with what it is (``nan``, ``inf`` or ``-inf``) under
    ``undefined``.
    """
    record = asdict(trial)
    record["metrics"] = {name: value if math.isfinite(value) else None for name, value in trial.metrics.items()}
    record["undefined"] = {name: str(float(value)) for name, value in trial.metrics.items() if not math.isfinite(value)}
    for name in ("wall_seconds", "cpu_seconds", "peak_mb"):
        record[name] = record[name] if math.isfinite(record[name]) else None
    return record


# ------------------------------------------------------------------------------------------------------------- pieces


def _table(title: str = "", columns: Sequence[str] = (), numbers: Iterable[str] = ()) -> Table:
    table = Table(box=box.SIMPLE_HEAD, title=Text(title, style="bold") if title else None, title_justify="left")
    for column in columns:
        table.add_column(Text(column), justify="right" if column in numbers else "left", overflow="fold")
    return table


def _line(*parts: str | Text | tuple[str, str]) -> Text:
    return Text.assemble(*parts)


def _verdict(word: str) -> Text:
    return Text(f"{SIGNS.get(word, ' ')} {word}", style=_STYLES.get(word, ""))


def _indented(text: str, style: str = "", depth: int = 1) -> Padding:
    return Padding(Text(text, style=style), (0, 0, 0, 2 * depth), expand=False)


# -------------------------------------------------------------------------------------------------------------- study


def study_header(study: Study, scale: str) -> RenderableType:
    """Return the lines above a run: paper, question, size."""
    size = study.scales[scale]
    datasets = len(size.datasets or study.datasets)
    contenders = len(size.contenders or study.contenders)
    return Group(
        _line((study.slug, "bold"), f"  {study.paper.title}"),
        _indented(f"{study.paper.authors}. {study.paper.venue}. {study.paper.url}", "dim"),
        _indented(study.question),
        _indented(
            f"Scale {scale}: {plural(datasets, 'data set')} × {plural(contenders, 'contender')} × "
            f"{plural(size.seeds, 'seed')}"
        ),
    )


def comparison_view(study: Study, results: pd.DataFrame) -> RenderableType:
    """Return the table of contenders and metrics of every data set.

    Parameters
    ----------
    study : Study
        The study.
    results : DataFrame
        One row per trial, as `paperworks.bench.verdict.judge` takes it.

    Returns
    -------
    renderable
        Per data set one table (more if there are many metrics) with the mean and its 95 % interval below. ``*`` marks
        the best mean; a number in parentheses says how many of the trials are in a mean that not all could enter.
        Metrics and contenders without any number are left out of the table.
    """
    summary = summary_table(study, results)
    if summary.empty:
        return Text("No trials.")
    roles = {contender.name: contender.role for contender in study.contenders}
    directions = {metric.name: "↑" if metric.better == "higher" else "↓" for metric in study.metrics}
    parts: list[RenderableType] = []
    for _, rows in summary.groupby("dataset", sort=False):
        names = sorted(
            rows["contender"].drop_duplicates(), key=lambda name: ("method", "ablation", "peer").index(roles[name])
        ) if set(rows["contender"]) <= set(roles) else list(rows["contender"].drop_duplicates())  # fmt: skip
        cells = rows.set_index(["contender", "metric"])
        present = set(rows.loc[~rows["absent"].astype(bool), "metric"])
        metrics = [metric.name for metric in study.metrics if metric.name in present]
        n = int(rows["n"].max())
        title = f"{rows['dataset_label'].iloc[0]}  ({plural(n, 'trial')} each)"
        for start in range(0, len(metrics), _METRICS_PER_TABLE):
            chunk = metrics[start : start + _METRICS_PER_TABLE]
            headers = [f"{name} {directions[name]}" for name in chunk]
            table = _table(title if start == 0 else "", ["contender", *headers], headers)
            decimals = {
                name: decimals_for(cells.xs(name, level="metric")["high"] - cells.xs(name, level="metric")["low"])
                for name in chunk
            }
            for name in names:
                if all(cells.loc[(name, metric), "absent"] for metric in chunk):
                    continue
                label = Text(name, style="bold" if roles.get(name) == "method" else "")
                shown = [_cell(cells.loc[(name, metric)], decimals[metric]) for metric in chunk]
                table.add_row(label, *shown)
            parts.append(table)
    parts.append(_legend(summary))
    return Group(*parts)


def _cell(row: pd.Series[Any], decimals: int) -> Text:
    text = Text(format_number(row["mean"], decimals))
    if row["best"]:
        text.stylize("bold")
        text.append(" *")
    if not row["complete"] and not row["absent"]:
        text.append(f" ({row['n_defined']}/{row['n']})", style="yellow")
    interval = format_interval(row["low"], row["high"], decimals)
    return text.append(f"\n{interval}", style="dim") if interval else text


def _legend(summary: pd.DataFrame) -> RenderableType:
    lines: list[RenderableType] = [
        _indented("mean with 95 % interval; ↑ higher is better, ↓ lower is better; * best mean", "dim")
    ]
    absent = summary["absent"].astype(bool)
    if absent.any():
        lines.append(_indented("–: not a number in any trial, as where a contender has no such metric", "dim"))
    partial = summary[~summary["complete"].astype(bool) & ~absent]
    for (contender, metric, reason), rows in partial.groupby(["contender", "metric", "reason"], sort=False):
        where = ", ".join(rows["dataset_label"])
        some, n = int(rows["n_defined"].sum()), int(rows["n"].sum())
        lines.append(_indented(f"{metric} of {contender} on {where}: {reason}; {some} of {n} trials are in the mean"))
    return Group(*lines)


def claims_view(verdict: Mapping[str, Any], study: Study | None = None) -> RenderableType:
    """Return the claims with their verdicts.

    Parameters
    ----------
    verdict : mapping
        As `StudyVerdict.to_json` gives it and the store keeps it.
    study : Study, optional
        The study, for the direction of the metrics.
    """
    parts: list[RenderableType] = [_line(("Verdict: ", "bold"), _verdict(verdict["verdict"]))]
    parts.extend(_indented(note) for note in verdict["notes"])
    for claim in verdict["claims"]:
        parts.append(Text(""))
        parts.append(_line(_verdict(claim["verdict"]), "  ", (claim["statement"], "bold")))
        parts.append(_indented(f"{claim_in_words(claim, study)}, {scope_in_words(claim)}", depth=2))
        parts.append(_indented(_found(claim, verdict["confidence"]), depth=2))
        parts.extend(_indented(note, "yellow", depth=2) for note in claim["notes"])
    return Group(*parts)


def _found(claim: Mapping[str, Any], confidence: float) -> str:
    if claim["method"] is None:
        return "no interval"
    bounds = (claim["low"], claim["high"])
    width = [] if None in bounds else [claim["high"] - claim["low"]]
    digits = decimals_for(width)
    name = f"{claim['subject']} / {claim['against']}" if claim["kind"] == "ratio" else "advantage"
    return (
        f"{name} {format_number(claim['estimate'], digits)} {format_interval(*bounds, digits)}, "
        f"{'margin' if claim['kind'] == 'ratio' else 'threshold'} {claim['threshold']:g}; "
        f"{plural(claim['n_pairs'], 'pair')}, {confidence:.0%} {INTERVALS[claim['method']]}"
    )


def failures_view(results: pd.DataFrame) -> RenderableType:
    """Return the failed trials by contender, data set and error; empty if there are none."""
    failed = results[results["status"] != "ok"]
    if failed.empty:
        return Text("")
    parts: list[RenderableType] = [Text(f"{plural(len(failed), 'trial')} of {len(results):,} failed", style="bold red")]
    keyed = failed.assign(error=failed["error"].map(first_line))
    for (contender, label, status, error), rows in keyed.groupby(
        ["contender", "dataset_label", "status", "error"], sort=False
    ):
        parts.append(
            _indented(f"{contender} on {label}, {plural(len(rows), 'trial')} {status}: {error or 'no message'}")
        )
    return Group(*parts)


def _left_out_view(names: Sequence[str], study: Study | None) -> list[RenderableType]:
    if not names:
        return []
    contenders = {contender.name: contender for contender in study.contenders} if study else {}
    lines: list[RenderableType] = []
    for name in names:
        contender = contenders.get(name)
        reason = "what it needs is not installed"
        if contender and contender.requires:
            reason = f'needs {", ".join(contender.requires)} (pip install "{contender.install}")'
        lines.append(_indented(f"{name}: {reason}"))
    return [Text("Left out", style="bold"), *lines, Text("")]


def result_view(study: Study, result: _Result) -> RenderableType:
    """Return what a run has found: comparison, failed trials, what was left out, claims and verdict."""
    return run_view(result.run, result.results, study, n_reused=result.n_reused)


def run_view(
    run: RunRecord,
    results: pd.DataFrame,
    study: Study | None,
    *,
    n_reused: int = 0,
) -> RenderableType:
    """Return a stored run.

    Parameters
    ----------
    run : RunRecord
        The run.
    results : DataFrame
        Its trials, as `Store.results` gives them.
    study : Study or None
        Its study; without it (a file that is gone) there is no table of metrics.
    n_reused : int, default 0
        How many of the trials were known before.
    """
    trials = f"{run.n_done:,} of {run.n_planned:,} trials"
    reused = f", {n_reused:,} known before" if n_reused else ""
    state = "" if run.status == "done" else f" {run.status}:"
    parts: list[RenderableType] = [
        Text(""),
        _line(
            (f"Run {run.id}", "bold"),
            f" of {run.study}, scale {run.scale}, {run.started:%Y-%m-%d %H:%M} UTC:{state} {trials}{reused}",
        ),
    ]
    if run.status != "done":
        parts.append(_indented("There is no verdict before all trials are done; run it again to go on.", "yellow"))
    elif study is None:
        parts.append(_indented("The study itself is not on this machine: its metrics are in `paperworks export`."))
    else:
        parts += [Text(""), comparison_view(study, results)]
    parts.append(Text(""))
    if (results["status"] != "ok").any():
        parts += [failures_view(results), Text("")]
    parts += _left_out_view(run.arguments.get("left_out") or (), study)
    if run.verdict is not None and run.status == "done":
        parts.append(claims_view(run.verdict, study))
    return Group(*parts)


def card_view(card: Card) -> RenderableType:
    """Return the card of a method."""
    parts: list[RenderableType] = [
        _line((card.slug, "bold"), f"  ({card.family}, paperworks run {card.slug})"),
        _indented(card.question),
        Text(""),
        _indented(f"{card.paper.title}. {card.paper.authors}. {card.paper.venue}."),
        _indented(card.paper.url),
        Text(""),
        _indented(card.install),
    ]
    if card.import_line:
        parts.append(_indented(card.import_line))
    if card.example:
        parts += [Text(""), _indented(card.example)]
    if card.claims:
        parts += [Text(""), Text("Claims", style="bold"), *(_indented(claim.statement) for claim in card.claims)]
    table = _table("Contenders", ["name", "role", "source"])
    for contender in card.contenders:
        table.add_row(Text(contender.name), contender.role, Text(contender.source))
    parts += [Text(""), table]
    if card.limits:
        parts += [Text("Limits", style="bold"), *(_indented(limit) for limit in card.limits)]
    return Group(*parts)


# -------------------------------------------------------------------------------------------------------------- lists


def methods_table(rows: Sequence[Mapping[str, Any]]) -> RenderableType:
    """Return the list of methods with their last verdict."""
    table = _table("", ["method", "family", "verdict", "names", "extras", "paper"])
    table.show_edge = False  # the first line of the output says something
    for row in rows:
        verdict = _verdict(row["verdict"]) if row["verdict"] else Text(MISSING)
        names, extras = ", ".join(row["public_names"]), ", ".join(row["extras"])
        table.add_row(
            Text(row["slug"], style="bold"), row["family"], verdict, Text(names), Text(extras), Text(row["paper"])
        )
    return table


def datasets_table(rows: Sequence[Mapping[str, Any]]) -> RenderableType:
    """Return the list of data sets; `record_view` shows the rest of a record."""
    columns = ("name", "kind", "task", "shape", "available", "licence")
    table = _table("", columns)
    for row in rows:
        table.add_row(*(_value(row.get(column)) for column in columns))
    return table


def record_view(row: Mapping[str, Any]) -> RenderableType:
    """Return one record, a line per field."""
    table = Table.grid(padding=(0, 2))
    for key, value in row.items():
        table.add_row(Text(key, style="bold"), _value(value))
    return table


def _value(value: Any) -> Text:
    if value is None or value == "" or value == () or value == []:
        return Text(MISSING)
    if isinstance(value, bool):
        return Text("yes" if value else "no")
    if isinstance(value, Mapping):
        return Text(", ".join(f"{key} {item}" for key, item in value.items()))
    if isinstance(value, list | tuple):
        return Text(", ".join(str(item) for item in value))
    return Text(str(value))


def doctor_view(findings: Mapping[str, Any]) -> RenderableType:
    """Return the state of an installation."""
    table = _table("", ["part", "state", "what is missing"])
    for part in [*findings["extras"], *findings["backends"]]:
        missing = ", ".join(part["missing"])
        state = Text("missing", style="yellow") if missing else Text("ready", style="green")
        table.add_row(Text(part["name"]), state, Text(f"{missing}: {part['install']}" if missing else ""))
    store = findings["store"]
    return Group(
        _line(
            (f"paperworks {findings['paperworks']}", "bold"), f", Python {findings['python']}, {findings['platform']}"
        ),
        _indented(f"{plural(findings['cores'], 'core')}"),
        _line("  store ", (str(store["url"]), "bold"), f": {store['message']}"),
        _indented(", ".join(f"{name} {version}" for name, version in findings["packages"].items()), "dim"),
        table,
    )


# ----------------------------------------------------------------------------------------------------------- progress


class Progress:
    """A progress bar fed by the events of a run; silent where the console is no terminal.

    Parameters
    ----------
    console : Console
        Where to draw, usually stderr.
    """

    def __init__(self, console: Console) -> None:
        self._bar = rich.progress.Progress(
            rich.progress.TextColumn("{task.description}", markup=False),
            rich.progress.BarColumn(),
            rich.progress.MofNCompleteColumn(),
            rich.progress.TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("trials", total=None)
        self._failed: Counter[str] = Counter()

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._bar.stop()

    def on_event(self, event: _Event) -> None:
        """Show where the run is."""
        outcome = getattr(event, "outcome", None)
        if outcome is not None and outcome.status != "ok":
            self._failed[outcome.status] += 1
        failed = "".join(f", {count} {status}" for status, count in self._failed.items())
        self._bar.update(self._task, completed=event.n_done, total=event.n_total, description=f"trials{failed}")


def matches_view(matches: Sequence[Match], cards: Mapping[str, Card]) -> RenderableType:
    """Return the methods that may solve a problem, with the words that speak for each."""
    if not matches:
        return Text(
            "Nothing here fits: no method shares a telling word with this problem. `paperworks list` shows all."
        )
    lines: list[RenderableType] = []
    for match in matches:
        card = cards[match.slug]
        lines.append(_line((match.slug, "bold"), f"  {card.question}"))
        lines.append(_indented(f"because of: {', '.join(match.because)}", "dim"))
        if card.import_line:
            lines.append(_indented(card.import_line))
    return Group(*lines)


def differences_view(found: Mapping[str, Any]) -> RenderableType:
    """Return two runs beside each other, from `paperworks.bench.comparison.compare_stored`."""
    verdicts = [run["verdict"]["verdict"] if run["verdict"] else "none" for run in (found["before"], found["after"])]
    parts: list[RenderableType] = [
        _line((found["study"], "bold"), f"  run {found['before']['id']} and run {found['after']['id']}"),
        _indented(f"verdict {verdicts[0]} before, {verdicts[1]} after"),
    ]
    if found["differences"]:
        table = _table("What was not the same", ["what", "before", "after"])
        for item in found["differences"]:
            table.add_row(*(Text(str(item[key])) for key in ("what", "before", "after")))
        parts.append(table)
    columns = ["metric", "contender", "before", "after", "change", "95 % interval", "pairs", "p (Holm)", "finding"]
    table = _table("What it did to the numbers", columns, columns[2:8])
    for row in found["rows"]:
        if not row["n_pairs"]:
            continue
        decimals = decimals_for([(row["high"] or 0.0) - (row["low"] or 0.0)])
        numbers = [format_number(row[name], decimals) for name in ("before", "after", "change")]
        spread = format_interval(row["low"], row["high"], decimals)
        tail = [spread, str(row["n_pairs"]), format_number(row["p_holm"]), row["finding"]]
        style = "bold" if row["finding"] in ("better", "worse") else ""
        table.add_row(*(Text(cell, style=style) for cell in (row["metric"], row["contender"], *numbers, *tail)))
    parts.append(table)
    return Group(*parts)
