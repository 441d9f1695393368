"""The store itself: what writes and reads runs and trials."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import IntegrityError

from paperworks._checks import check_choice, check_integer
from paperworks.bench.store.database import Database, resolve
from paperworks.bench.store.processes import is_this_host, process_started
from paperworks.bench.store.reading import find_runs, find_trials, long_tables, result_table, write_tables
from paperworks.bench.store.records import (
    RunRecord,
    StoreError,
    TrialRecord,
    clean_error,
    clean_json,
    clean_number,
    clean_text,
)
from paperworks.bench.store.schema import METRIC, RESULT_COLUMNS, RUN, RUN_TRIAL, TRIAL, encode
from paperworks.bench.study import SCALES

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Store"]

_ALL = 2**62  # SQLite knows no OFFSET without a LIMIT
_CHUNK = 900  # parameters of one IN list; the oldest SQLite limit is 999

_INSERT_TRIAL = sa.insert(TRIAL).values(
    generation=sa.select(sa.func.coalesce(sa.func.max(TRIAL.c.generation), 0) + 1)
    .where(TRIAL.c.fingerprint == sa.bindparam("of_fingerprint", type_=sa.Text))
    .scalar_subquery()
)
_INSERT_METRIC = sa.insert(METRIC)
_LOCK_FINGERPRINT = sa.select(
    sa.func.pg_advisory_xact_lock(sa.func.hashtextextended(sa.bindparam("fingerprint", type_=sa.Text), 0))
)


class Store:
    """Results of runs, kept in a SQLite file or a PostgreSQL database.

    Opening creates or migrates the schema where needed; several processes may do so at the same moment. A store is
    a context manager; its methods may be called from several threads, and it must not be carried into a forked process.

    Parameters
    ----------
    url : str or path, optional
        A file path, ``sqlite:///path`` or ``postgresql://user:password@host:port/database`` (needs
        ``paperworks[postgres]``). Default: the environment's ``PAPERWORKS_STORE``, else ``results.sqlite`` in the
        user's data directory.

    Attributes
    ----------
    url : str
        The address, with any password replaced by ``***``.

    Raises
    ------
    StoreError
        If the store can't be reached or written, is no database, belongs to something else, or was written by a
        newer version of paperworks. Every method raises it when the database fails.

    Examples
    --------
    >>> import tempfile
    >>> from paperworks.bench.store import Store, TrialRecord
    >>> trial = TrialRecord("f", "cojer", "CoJER", "wine", "wine", 0, "smoke", "ok", "", {"fcp": 0.1}, 0.2, 0.2, 9, "")
    >>> with tempfile.TemporaryDirectory() as folder, Store(f"{folder}/results.sqlite") as store:
    ...     run = store.begin_run(study="cojer", family="conformal", scale="smoke", n_planned=1, version="0.1.0",
    ...                           commit="", machine={}, versions={}, arguments={})
    ...     store.record(run, trial)
    ...     store.finish_run(run, "done", {"verdict": "holds"})
    ...     frame = store.results(run)
    >>> frame[["contender", "seed", "fcp"]].to_dict("records")
    [{'contender': 'CoJER', 'seed': 0, 'fcp': 0.1}]
    """

    def __init__(self, url: str | os.PathLike[str] | None = None) -> None:
        self._database = Database(resolve(url))
        self.url: str = self._database.url
        self._read, self._write = self._database.read, self._database.write
        self._insert_link = (sqlite.insert if self._database.is_sqlite else postgresql.insert)(RUN_TRIAL)
        excluded = self._insert_link.excluded
        self._if_newer: dict[str, Any] = {
            "index_elements": ["run_id", "fingerprint"],
            "set_": {"trial_id": excluded.trial_id},
            "where": excluded.trial_id > RUN_TRIAL.c.trial_id,
        }
        self._link_newest = self._insert_link.on_conflict_do_update(**self._if_newer)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Store({self.url!r})"

    def close(self) -> None:
        """Close all connections. What was recorded is already safe."""
        self._database.close()

    # --- Writing ---

    def begin_run(
        self,
        *,
        study: str,
        family: str,
        scale: str,
        n_planned: int,
        version: str,
        commit: str,
        machine: Mapping[str, Any],
        versions: Mapping[str, str],
        arguments: Mapping[str, Any],
    ) -> int:
        """Begin a run and return its id.

        Parameters
        ----------
        study, family, scale : str
            What runs.
        n_planned : int
            Number of trials that the run is going to have.
        version, commit : str
            Version of paperworks and its source commit (empty if not known).
        machine : mapping
            Where it runs. ``machine["host"]`` and ``machine["pid"]`` (default: this process) tell later whether the
            run is still alive.
        versions : mapping
            Versions of the libraries in use.
        arguments : mapping
            How the run was called. Whatever is not JSON in the mappings is stored as text.

        Returns
        -------
        int
            The run's id.
        """
        host = clean_text(machine.get("host") or platform.node())
        pid = check_integer(machine.get("pid") or os.getpid(), "machine['pid']", minimum=1)
        row = {
            "study": clean_text(study),
            "family": clean_text(family),
            "scale": clean_text(scale),
            "status": "running",
            "n_planned": check_integer(n_planned, "n_planned", minimum=0),
            "started": datetime.now(UTC),
            "version": clean_text(version),
            "commit_id": clean_text(commit),
            "host": host,
            "pid": pid,
            "process_started": process_started(pid) if is_this_host(host) else None,
            "machine": clean_json(machine),
            "versions": clean_json(versions),
            "arguments": clean_json(arguments),
        }
        with self._write() as connection:
            return _new_id(connection.execute(sa.insert(RUN), row))

    def record(self, run_id: int, trial: TrialRecord) -> None:
        """Append the outcome of a trial and make it part of a run; it is committed when this returns.

        Under a fingerprint that the store knows already, a new generation is appended. The run then holds the newest
        generation that was recorded in it; results of other runs don't change.

        Parameters
        ----------
        run_id : int
            The run.
        trial : TrialRecord
            The outcome. NUL characters and lone surrogates in texts are replaced.

        Raises
        ------
        StoreError
            If there is no such run, or a metric has the name of a column of `results`.
        ValueError, TypeError
            If the status is unknown, or a metric's value is not a number.
        """
        fingerprint = clean_text(trial.fingerprint)
        row: dict[str, Any] = {
            "fingerprint": fingerprint,
            "of_fingerprint": fingerprint,
            "study": clean_text(trial.study),
            "contender": clean_text(trial.contender),
            "dataset": clean_text(trial.dataset),
            "dataset_label": clean_text(trial.dataset_label),
            "seed": check_integer(trial.seed, "seed", minimum=-(2**63), maximum=2**63 - 1),
            "scale": clean_text(trial.scale),
            "status": check_choice(trial.status, "status", ("ok", "failed", "timeout", "crashed")),
            "error": clean_error(trial.error),
            "version": clean_text(trial.version),
            "recorded": datetime.now(UTC),
        }
        for name in ("wall_seconds", "cpu_seconds", "peak_mb"):
            number = clean_number(getattr(trial, name), name)
            row[name] = None if math.isnan(number) else number
        metrics = {
            clean_text(name): encode(clean_number(value, f"metric {name!r}")) for name, value in trial.metrics.items()
        }
        for name in RESULT_COLUMNS:
            if name in metrics:
                raise StoreError(f"metric {name!r} has the name of a column of the results; rename it in the study")
        with self._write() as connection:
            if not self._database.is_sqlite:  # where SQLite has one writer at a time, here it's one per fingerprint
                connection.execute(_LOCK_FINGERPRINT, {"fingerprint": fingerprint})
            trial_id = _new_id(connection.execute(_INSERT_TRIAL, row))
            if metrics:
                values = [
                    {"trial_id": trial_id, "name": name, "value": value, "state": state}
                    for name, (value, state) in metrics.items()
                ]
                connection.execute(_INSERT_METRIC, values)
            link = {"run_id": run_id, "fingerprint": fingerprint, "trial_id": trial_id}
            try:
                connection.execute(self._link_newest, link)
            except IntegrityError as error:
                raise StoreError(f"{self.url}: there is no run {run_id}") from error

    def link(self, run_id: int, fingerprints: Sequence[str]) -> None:
        """Make stored trials part of a run: of each fingerprint, its newest ``"ok"`` result.

        All are linked or none.

        Parameters
        ----------
        run_id : int
            The run.
        fingerprints : sequence of str
            What `known` returned; doubles count once.

        Raises
        ------
        StoreError
            If there is no such run, or a fingerprint has no ``"ok"`` result.
        """
        with self._write() as connection:
            self._require_run(connection, run_id)
            for chunk in _chunks(fingerprints):
                is_usable = sa.and_(TRIAL.c.status == "ok", TRIAL.c.fingerprint.in_(chunk))
                newest = sa.select(sa.literal(run_id), TRIAL.c.fingerprint, sa.func.max(TRIAL.c.id))
                insert = self._insert_link.from_select(
                    ["run_id", "fingerprint", "trial_id"], newest.where(is_usable).group_by(TRIAL.c.fingerprint)
                )
                connection.execute(insert.on_conflict_do_update(**self._if_newer))
                usable = set(connection.scalars(sa.select(TRIAL.c.fingerprint).where(is_usable)))
                missing = [fingerprint for fingerprint in chunk if fingerprint not in usable]
                if missing:
                    raise StoreError(
                        f"{self.url}: {len(missing)} fingerprint(s) have no result to link, the first: {missing[0]!r}"
                    )

    def finish_run(
        self, run_id: int, status: Literal["done", "interrupted"], verdict: Mapping[str, Any] | None
    ) -> None:
        """End a run, with its verdict as plain JSON.

        Parameters
        ----------
        run_id : int
            A run that was not ended before.
        status : {"done", "interrupted"}
            How it ended.
        verdict : mapping or None
            The verdict, or None if there is none (always for an interrupted run).

        Raises
        ------
        StoreError
            If there is no such run, or it has ended already: what it said then stands.
        """
        check_choice(status, "status", ("done", "interrupted"))
        change = {
            "status": status,
            "finished": datetime.now(UTC),
            "verdict": None if verdict is None else clean_json(verdict),
        }
        with self._write() as connection:
            ended = connection.execute(
                sa.update(RUN).where(RUN.c.id == run_id, RUN.c.status == "running").values(change)
            )
            if ended.rowcount == 0:
                self._require_run(connection, run_id)
                raise StoreError(f"{self.url}: run {run_id} has ended already")

    # --- Reading ---

    def _require_run(self, connection: sa.Connection, run_id: int) -> None:
        if connection.scalar(sa.select(RUN.c.id).where(RUN.c.id == run_id)) is None:
            raise StoreError(f"{self.url}: there is no run {run_id}")

    def known(self, fingerprints: Sequence[str]) -> dict[str, TrialRecord]:
        """Return the newest ``"ok"`` result of each fingerprint that has one.

        Parameters
        ----------
        fingerprints : sequence of str
            Any number of them.

        Returns
        -------
        dict of str to TrialRecord
            By fingerprint. Failed trials are not known: they are tried again.
        """
        found: dict[str, TrialRecord] = {}
        with self._read() as connection:
            for chunk in _chunks(fingerprints):
                newest = (
                    sa.select(sa.func.max(TRIAL.c.id))
                    .where(TRIAL.c.status == "ok", TRIAL.c.fingerprint.in_(chunk))
                    .group_by(TRIAL.c.fingerprint)
                )
                found |= {trial.fingerprint: trial for trial in find_trials(connection, newest)}
        return found

    def trials(
        self,
        run_id: int,
        *,
        status: str | None = None,
        limit: int | None = None,
        offset: int = 0,
        newest_first: bool = False,
    ) -> list[TrialRecord]:
        """Return the trials of a run.

        Parameters
        ----------
        run_id : int
            The run.
        status : str, optional
            Only trials of this status.
        limit : int, optional
            Length of the list; all of them if not given.
        offset : int, default 0
            Trials to skip.
        newest_first : bool, default False
            The last recorded first instead of last.

        Returns
        -------
        list of TrialRecord
            In the order in which they were recorded, unless `newest_first`.

        Raises
        ------
        StoreError
            If there is no such run.
        """
        offset = check_integer(offset, "offset", minimum=0)
        ids = sa.select(TRIAL.c.id).join(RUN_TRIAL, RUN_TRIAL.c.trial_id == TRIAL.c.id)
        ids = ids.where(RUN_TRIAL.c.run_id == run_id)
        if status is not None:
            ids = ids.where(TRIAL.c.status == status)
        if limit is not None or offset:
            ids = ids.order_by(TRIAL.c.id.desc() if newest_first else TRIAL.c.id).offset(offset)
            ids = ids.limit(check_integer(limit, "limit", minimum=0) if limit is not None else _ALL)
        with self._read() as connection:
            self._require_run(connection, run_id)
            found = find_trials(connection, ids)
        return found[::-1] if newest_first else found

    def count(self, run_id: int, status: str | None = None) -> int:
        """Return the number of trials of a run, of one status if that is given."""
        query = sa.select(sa.func.count()).select_from(RUN_TRIAL).where(RUN_TRIAL.c.run_id == run_id)
        if status is not None:
            query = query.join(TRIAL, RUN_TRIAL.c.trial_id == TRIAL.c.id).where(TRIAL.c.status == status)
        with self._read() as connection:
            self._require_run(connection, run_id)
            return int(connection.execute(query).scalar_one())

    def run(self, run_id: int) -> RunRecord:
        """Return one run."""
        found = self._find_runs(RUN.c.id == run_id)
        if not found:
            raise StoreError(f"{self.url}: there is no run {run_id}")
        return found[0]

    def runs(self, study: str | None = None, limit: int | None = None) -> list[RunRecord]:
        """Return the runs (of one study), newest first, at most `limit`."""
        if limit is not None:
            limit = check_integer(limit, "limit", minimum=0)
        return self._find_runs(sa.true() if study is None else RUN.c.study == study, limit)

    def latest(self) -> dict[str, RunRecord]:
        """Return, for each study, the run that speaks for it.

        Returns
        -------
        dict of str to RunRecord
            Of its runs that are done and whole (all seeds, data sets and contenders of their scale), the newest one of
            the largest scale. A study without such a run is not in it: a run on a part of the grid, or on a user's own
            data, answers another question.
        """
        query = sa.select(RUN.c.id, RUN.c.study, RUN.c.scale, RUN.c.arguments).where(RUN.c.status == "done")
        with self._read() as connection:
            done = connection.execute(query.order_by(RUN.c.id)).all()
        best: dict[str, tuple[int, int]] = {}
        for run_id, study, scale, arguments in done:
            if arguments.get("whole", True):
                rank = (SCALES.index(scale) if scale in SCALES else -1, run_id)
                best[study] = max(best.get(study, rank), rank)
        chosen = [run_id for _, run_id in best.values()]
        return {run.study: run for run in self._find_runs(RUN.c.id.in_(chosen))}

    def _find_runs(self, condition: sa.ColumnElement[bool], limit: int | None = None) -> list[RunRecord]:
        with self._read() as connection:
            runs, abandoned = find_runs(connection, condition, limit)
        if not abandoned:
            return runs
        # Whose process is gone may have ended properly just before: only a second look tells.
        with self._read() as connection:
            runs, _ = find_runs(connection, condition, limit)
        return [
            replace(run, status="interrupted") if run.id in abandoned and run.status == "running" else run
            for run in runs
        ]

    def results(self, run_id: int) -> pd.DataFrame:
        """Return the trials of a run as a table.

        Parameters
        ----------
        run_id : int
            The run.

        Returns
        -------
        DataFrame of shape (n_trials, 9 + n_metrics)
            The columns of `RESULT_COLUMNS`, then one float column per metric in alphabetical order: NaN where the
            trial has no such metric or its value is NaN. Rows are sorted by data set, contender and seed, so that they
            don't depend on the order in which the trials ended.
        """
        with self._read() as connection:
            self._require_run(connection, run_id)
            return result_table(connection, run_id)

    def export(self, path: str | os.PathLike[str], *, study: str | None = None) -> int:
        """Write all results (of one study) to a file in long format.

        Parameters
        ----------
        path : str or path
            Ends with ``.parquet`` or ``.csv``. The file is complete or not there at all; one that exists is replaced.
        study : str, optional
            Only the runs of this study. Default: all.

        Returns
        -------
        int
            Number of rows: one per run, trial and metric. A trial without metrics has one row as well, with an empty
            metric. Column ``state`` says ``finite``, ``undefined`` (NaN), ``+inf``, ``-inf`` or ``missing``.

        Raises
        ------
        StoreError
            If the suffix is another one, or the file can't be written.
        """
        target = Path(path)
        suffix = target.suffix.lower()
        if suffix not in (".parquet", ".csv"):
            raise StoreError(f"can't export to {target.name!r}: the file's name must end with .parquet or .csv")
        part = target.with_name(f".{target.name}.{os.getpid()}.part")
        try:
            with self._read() as connection:
                n_rows = write_tables(part, long_tables(connection, study), csv=suffix == ".csv")
            part.replace(target)
        except OSError as error:
            raise StoreError(f"can't write {target}: {error.strerror or error}") from error
        finally:
            part.unlink(missing_ok=True)
        return n_rows


def _chunks(values: Iterable[str]) -> Iterator[list[str]]:
    unique = sorted(set(map(clean_text, values)))
    for start in range(0, len(unique), _CHUNK):
        yield unique[start : start + _CHUNK]


def _new_id(result: sa.CursorResult[Any]) -> int:
    key = result.inserted_primary_key
    assert key is not None
    return int(key[0])
