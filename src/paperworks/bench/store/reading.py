"""Queries that bring records and tables out of the store."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from paperworks.bench.store.processes import is_gone, is_this_host
from paperworks.bench.store.records import RunRecord, TrialRecord
from paperworks.bench.store.schema import METRIC, RESULT_COLUMNS, RUN, RUN_TRIAL, TRIAL, decode

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

__all__ = ["find_runs", "find_trials", "long_tables", "result_table", "write_tables"]

_SECONDS_AND_MEMORY = ("wall_seconds", "cpu_seconds", "peak_mb")


def find_trials(connection: sa.Connection, ids: sa.Select[Any]) -> list[TrialRecord]:
    """Return the trials whose ids the query `ids` gives, in the order in which they were recorded."""
    metrics: dict[int, dict[str, float]] = {}
    values = sa.select(METRIC.c.trial_id, METRIC.c.name, METRIC.c.value, METRIC.c.state)
    for trial_id, name, value, state in connection.execute(values.where(METRIC.c.trial_id.in_(ids))):
        metrics.setdefault(trial_id, {})[name] = decode(value, state)

    def number(value: float | None) -> float:
        return math.nan if value is None else value

    return [
        TrialRecord(
            fingerprint=row.fingerprint,
            study=row.study,
            contender=row.contender,
            dataset=row.dataset,
            dataset_label=row.dataset_label,
            seed=row.seed,
            scale=row.scale,
            status=row.status,
            error=row.error,
            metrics=metrics.get(row.id, {}),
            wall_seconds=number(row.wall_seconds),
            cpu_seconds=number(row.cpu_seconds),
            peak_mb=number(row.peak_mb),
            version=row.version,
        )
        for row in connection.execute(sa.select(TRIAL).where(TRIAL.c.id.in_(ids)).order_by(TRIAL.c.id))
    ]


def find_runs(
    connection: sa.Connection, condition: sa.ColumnElement[bool], limit: int | None = None
) -> tuple[list[RunRecord], set[int]]:
    """Return the runs that meet a condition, newest first, and the ids of those that run without a process.

    Their process may have ended properly since this moment of the store: the caller has to look again.
    """
    chosen = sa.select(RUN).where(condition).order_by(RUN.c.id.desc()).limit(limit)
    ids = chosen.with_only_columns(RUN.c.id).subquery()
    linked = sa.select(RUN_TRIAL.c.run_id, sa.func.count()).join(ids, ids.c.id == RUN_TRIAL.c.run_id)
    failing = linked.join(TRIAL, TRIAL.c.id == RUN_TRIAL.c.trial_id).where(TRIAL.c.status != "ok")
    n_done = _pairs(connection, linked.group_by(RUN_TRIAL.c.run_id))
    n_failed = _pairs(connection, failing.group_by(RUN_TRIAL.c.run_id))
    runs = []
    abandoned = set()
    for row in connection.execute(chosen):
        if row.status == "running" and is_this_host(row.host) and is_gone(row.pid, row.process_started):
            abandoned.add(row.id)
        runs.append(
            RunRecord(
                id=row.id,
                study=row.study,
                family=row.family,
                scale=row.scale,
                status=row.status,
                n_planned=row.n_planned,
                n_done=n_done.get(row.id, 0),
                n_failed=n_failed.get(row.id, 0),
                started=row.started,
                finished=row.finished,
                version=row.version,
                commit=row.commit_id,
                machine=row.machine,
                versions=row.versions,
                arguments=row.arguments,
                verdict=row.verdict,
            )
        )
    return runs, abandoned


def _pairs(connection: sa.Connection, query: sa.Select[int, int]) -> dict[int, int]:
    return {row[0]: row[1] for row in connection.execute(query)}


def _plain_rows(connection: sa.Connection, query: sa.Select[Any]) -> list[tuple[Any, ...]]:
    """Return rows as the driver gives them, which is what numbers and texts need, for large tables."""
    result: Any = connection.execute(query)
    try:
        return list(result.cursor.fetchall())
    finally:
        result.close()


def result_table(connection: sa.Connection, run_id: int) -> pd.DataFrame:
    """Return the table that `Store.results` describes."""
    import numpy as np
    import pandas as pd

    rows = _plain_rows(
        connection,
        sa.select(TRIAL.c.id, *(TRIAL.c[name] for name in RESULT_COLUMNS))
        .join(RUN_TRIAL, RUN_TRIAL.c.trial_id == TRIAL.c.id)
        .where(RUN_TRIAL.c.run_id == run_id)
        .order_by(TRIAL.c.id),
    )
    frame = pd.DataFrame.from_records(rows, columns=["id", *RESULT_COLUMNS])
    ids = frame.pop("id").to_numpy(dtype=np.int64)
    frame = frame.astype({"seed": np.int64} | dict.fromkeys(_SECONDS_AND_MEMORY, float))

    in_run = METRIC.join(RUN_TRIAL, RUN_TRIAL.c.trial_id == METRIC.c.trial_id)
    here = RUN_TRIAL.c.run_id == run_id
    names = sorted(connection.scalars(sa.select(METRIC.c.name).distinct().select_from(in_run).where(here)))
    matrix = np.full((len(ids), len(names)), np.nan)
    if names:
        # The database turns rows into columns: one tuple per trial instead of one per metric.
        wide = [sa.func.max(sa.case((METRIC.c.name == name, METRIC.c.value))) for name in names]
        query = sa.select(METRIC.c.trial_id, *wide).select_from(in_run).where(here).group_by(METRIC.c.trial_id)
        numbers = np.array(_plain_rows(connection, query), dtype=float)  # ids stay far below 2^53
        matrix[np.searchsorted(ids, numbers[:, 0].astype(np.int64))] = numbers[:, 1:]
    codes = [pd.factorize(frame[name], sort=True)[0] for name in ("contender", "dataset_label", "dataset")]
    order = np.lexsort([frame["seed"].to_numpy(), *codes])
    return pd.concat([frame, pd.DataFrame(matrix, columns=names)], axis=1).iloc[order].reset_index(drop=True)


def long_tables(connection: sa.Connection, study: str | None) -> Iterator[pa.Table]:
    """Yield the rows that `Store.export` describes, run by run; a table without rows comes first."""
    import numpy as np
    import pyarrow as pa

    text, real, whole, moment = pa.string(), pa.float64(), pa.int64(), pa.timestamp("us", tz="UTC")
    of_run = {"run": whole, "study": text, "family": text, "scale": text, "started": moment, "commit": text}
    of_trial = {"fingerprint": text, "generation": whole, "version": text} | dict.fromkeys(RESULT_COLUMNS, text)
    of_trial |= {"seed": whole} | dict.fromkeys(_SECONDS_AND_MEMORY, real)
    of_metric = {"metric": text, "value": real, "state": text}
    schema = pa.schema(of_run | of_trial | of_metric)
    yield schema.empty_table()
    runs = sa.select(RUN.c.id, RUN.c.study, RUN.c.family, RUN.c.scale, RUN.c.started, RUN.c.commit_id)
    if study is not None:
        runs = runs.where(RUN.c.study == study)
    for run in connection.execute(runs.order_by(RUN.c.id)).all():
        here = RUN_TRIAL.c.run_id == run.id
        trials = _plain_rows(
            connection,
            sa.select(TRIAL.c.id, *(TRIAL.c[name] for name in of_trial))
            .join(RUN_TRIAL, RUN_TRIAL.c.trial_id == TRIAL.c.id)
            .where(here)
            .order_by(TRIAL.c.id),
        )
        if not trials:
            continue
        ids, *columns = zip(*trials, strict=True)
        # An unknown duration is NaN to us, NULL to the database and an empty cell in the file.
        arrays = [pa.array(column, kind) for column, kind in zip(columns, of_trial.values(), strict=True)]
        metrics = _plain_rows(
            connection,
            sa.select(METRIC.c.trial_id, METRIC.c.name, METRIC.c.value, METRIC.c.state)
            .join(RUN_TRIAL, RUN_TRIAL.c.trial_id == METRIC.c.trial_id)
            .where(here)
            .order_by(METRIC.c.trial_id),
        )
        trial_ids, names, values, states = (
            (list(column) for column in zip(*metrics, strict=True)) if metrics else ([],) * 4
        )
        without = sorted(set(ids) - set(trial_ids))
        empty = [None] * len(without)
        index = np.searchsorted(ids, trial_ids + without)
        numbers = list(map(decode, values, states))
        states = ["finite" if state == "-zero" else state for state in states] + ["missing"] * len(without)
        yield pa.table(
            [pa.repeat(pa.scalar(value, kind), len(index)) for value, kind in zip(run, of_run.values(), strict=True)]
            + pa.table(arrays, list(of_trial)).take(pa.array(index)).columns
            + [pa.array(names + empty, text), pa.array(numbers + empty, real), pa.array(states, text)],
            schema=schema,
        )


def write_tables(path: Path, tables: Iterator[pa.Table], *, csv: bool) -> int:
    """Write tables of one schema one after the other and return the number of rows."""
    from pyarrow.csv import CSVWriter
    from pyarrow.parquet import ParquetWriter

    head = next(tables)
    n_rows = 0
    with (CSVWriter if csv else ParquetWriter)(path, head.schema) as writer:
        for table in tables:
            writer.write_table(table)
            n_rows += table.num_rows
    return n_rows
