"""Where results live: an append-only store of runs and trials in SQLite or PostgreSQL.

A trial's outcome is a new row under its fingerprint, never a change of an old one; a run points to the trials that
belong to it. Every recorded trial is committed before `Store.record` returns, so that a killed process loses nothing
it has reported. The schema is versioned: Alembic brings an older store up to date when it is opened, and a store
written by a newer version of paperworks is refused untouched.

SQLite (the default) serves one machine: any number of processes read while one writes and the others wait their turn.
Where several machines write, or the file would live on a network file system, use PostgreSQL.
"""

from __future__ import annotations

import math
import os
import platform
import re
import socket
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, cast

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError

from paperworks._checks import check_choice, check_integer

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["METADATA", "RESULT_COLUMNS", "RunRecord", "Store", "StoreError", "TrialRecord"]

REVISION = "0001"
"""The newest schema revision in `migrations/versions`."""

VERSION_TABLE = "paperworks_schema"

RESULT_COLUMNS = (
    "contender",
    "dataset",
    "dataset_label",
    "seed",
    "status",
    "error",
    "wall_seconds",
    "cpu_seconds",
    "peak_mb",
)
"""Columns of `Store.results` that come before the metrics; no metric may have one of these names."""

_BUSY_SECONDS = 60.0
_ERROR_CHARACTERS = 20_000
_CHUNK = 900  # parameters of one IN list; the oldest SQLite limit is 999
_MIGRATION_LOCK = 0x7061706572  # PostgreSQL advisory lock, one number for all writers
_migrating = threading.Lock()  # Alembic's `context` and `op` are global to the process


class StoreError(RuntimeError):
    """The store can't be opened, read or written; the message is one line and holds no password."""


# --- Schema ---


class _UTC(sa.TypeDecorator[datetime]):
    """A moment in UTC: SQLite keeps no time zone, so it's put back on reading."""

    impl = sa.DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: sa.Dialect) -> datetime | None:
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: sa.Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


METADATA = sa.MetaData()

_RUN = sa.Table(
    "run",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("study", sa.Text, nullable=False),
    sa.Column("family", sa.Text, nullable=False),
    sa.Column("scale", sa.Text, nullable=False),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("n_planned", sa.Integer, nullable=False),
    sa.Column("started", _UTC, nullable=False),
    sa.Column("finished", _UTC),
    sa.Column("version", sa.Text, nullable=False),
    sa.Column("commit_id", sa.Text, nullable=False),
    sa.Column("host", sa.Text, nullable=False),
    sa.Column("pid", sa.BigInteger, nullable=False),
    sa.Column("process_started", sa.BigInteger),
    sa.Column("machine", sa.JSON, nullable=False),
    sa.Column("versions", sa.JSON, nullable=False),
    sa.Column("arguments", sa.JSON, nullable=False),
    sa.Column("verdict", sa.JSON(none_as_null=True)),
    sa.CheckConstraint("status IN ('running', 'done', 'interrupted')", name="run_status"),
    sa.Index("run_by_study", "study", "id"),
)

_TRIAL = sa.Table(
    "trial",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("fingerprint", sa.Text, nullable=False),
    sa.Column("generation", sa.Integer, nullable=False),
    sa.Column("study", sa.Text, nullable=False),
    sa.Column("contender", sa.Text, nullable=False),
    sa.Column("dataset", sa.Text, nullable=False),
    sa.Column("dataset_label", sa.Text, nullable=False),
    sa.Column("seed", sa.BigInteger, nullable=False),
    sa.Column("scale", sa.Text, nullable=False),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("error", sa.Text, nullable=False),
    sa.Column("wall_seconds", sa.Double),  # NULL is NaN: not known
    sa.Column("cpu_seconds", sa.Double),
    sa.Column("peak_mb", sa.Double),
    sa.Column("version", sa.Text, nullable=False),
    sa.Column("recorded", _UTC, nullable=False),
    sa.UniqueConstraint("fingerprint", "generation", name="trial_generation"),
    sa.CheckConstraint("status IN ('ok', 'failed', 'timeout', 'crashed')", name="trial_status"),
)

_METRIC = sa.Table(
    "metric",
    METADATA,
    sa.Column("trial_id", sa.ForeignKey(_TRIAL.c.id, name="metric_trial"), primary_key=True),
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("value", sa.Double),  # NULL unless finite
    sa.Column("state", sa.Text, nullable=False),
    sa.CheckConstraint("state IN ('finite', 'nan', '+inf', '-inf', '-zero')", name="metric_state"),
    sqlite_with_rowid=False,
)

# One row per run and fingerprint, by primary key: no result can count twice in a run.
_RUN_TRIAL = sa.Table(
    "run_trial",
    METADATA,
    sa.Column("run_id", sa.ForeignKey(_RUN.c.id, name="run_trial_run"), primary_key=True),
    sa.Column("fingerprint", sa.Text, primary_key=True),
    sa.Column("trial_id", sa.ForeignKey(_TRIAL.c.id, name="run_trial_trial"), nullable=False),
    sa.Index("run_trial_by_trial", "trial_id"),
    sqlite_with_rowid=False,
)

# SQLite stores NaN as NULL and drops the sign of -0.0, so `state` says what `value` can't.
_SPECIAL = {"nan": math.nan, "+inf": math.inf, "-inf": -math.inf, "-zero": -0.0}


def _encode(value: float) -> tuple[float | None, str]:
    if math.isnan(value):
        return None, "nan"
    if math.isinf(value):
        return None, "+inf" if value > 0 else "-inf"
    if value == 0 and math.copysign(1.0, value) < 0:
        return None, "-zero"
    return value, "finite"


def _decode(value: float | None, state: str) -> float:
    return cast(float, value) if state == "finite" else _SPECIAL[state]


# --- Records ---


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


# --- Values on their way in ---


def _text(value: str) -> str:
    """Return `value` without what a database refuses: NUL characters and lone surrogates."""
    return str(value).replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def _plain(value: Any) -> Any:
    """Return `value` as plain JSON data: text keys, and text for what JSON has no word for."""
    if isinstance(value, Mapping):
        return {_text(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted((_plain(item) for item in value), key=str)
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    if hasattr(value, "dtype") and hasattr(value, "tolist"):  # NumPy scalars and arrays
        return _plain(value.tolist())
    return _text(value)


def _number(value: Any, name: str) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(f"{name} must be a number, got {value!r} of type {type(value).__name__}") from error


def _cut(error: str) -> str:
    text = _text(error)
    over = len(text) - _ERROR_CHARACTERS
    return text if over <= 0 else f"{text[:_ERROR_CHARACTERS]} [{over} more characters cut]"


def _chunks(values: Iterable[str]) -> Iterator[list[str]]:
    unique = sorted(set(values))
    for start in range(0, len(unique), _CHUNK):
        yield unique[start : start + _CHUNK]


# --- Processes ---


def _hosts() -> set[str]:
    return {platform.node(), socket.gethostname()}


def _process_started(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot; None where the system doesn't tell (not Linux)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        return None if fields[0] in (b"Z", b"X") else int(fields[19])  # fields 3 and 22 of proc(5); zombies are dead
    except (OSError, IndexError, ValueError):
        return None


def _is_gone(pid: int, started: int | None) -> bool:
    """Tell whether the process is gone for certain; its id may belong to a later process by now."""
    if os.name != "posix":  # elsewhere signal 0 isn't harmless
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except PermissionError:
        pass
    return started is not None and Path("/proc/self/stat").exists() and _process_started(pid) != started


# --- Addresses ---


def _resolve(url: str | os.PathLike[str] | None) -> sa.URL:
    """Return the address as SQLAlchemy takes it, for one of the two databases that are supported."""
    if url is None:
        url = os.environ.get("PAPERWORKS_STORE") or None
    if url is None:
        import platformdirs

        return sa.URL.create("sqlite", database=str(Path(platformdirs.user_data_dir("paperworks")) / "results.sqlite"))
    text = os.fspath(url)
    if "://" not in text:
        if not text.strip():
            raise StoreError("the store's address is empty; expected a file path or postgresql://...")
        return sa.URL.create("sqlite", database=str(Path(text).expanduser()))
    try:
        parsed = sa.make_url(text)
    except (SQLAlchemyError, ValueError):
        raise StoreError(
            "the store's address can't be read; expected a file path, sqlite:///path or "
            "postgresql://user:password@host:port/database (special characters percent-encoded)"
        ) from None
    backend = parsed.get_backend_name()
    if backend in ("postgresql", "postgres"):
        return parsed.set(drivername="postgresql+psycopg")
    if backend != "sqlite":
        raise StoreError(f"a store is kept in SQLite or PostgreSQL, not in {backend!r}")
    if parsed.database in (None, "", ":memory:"):
        raise StoreError("a store is kept in a file; SQLite's in-memory database would lose it")
    return parsed.set(drivername="sqlite")


def _printable(url: sa.URL) -> str:
    secret = {key: "***" for key in url.query if "password" in key.lower()}
    return url.update_query_dict(secret).render_as_string(hide_password=True)


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
    >>> trial = TrialRecord("f0", "cojer", "CoJER", "wine", "wine", 0, "smoke", "ok", "", {"fcp": 0.1}, 0.2, 0.2, 9, "1")
    >>> with tempfile.TemporaryDirectory() as folder, Store(f"{folder}/results.sqlite") as store:
    ...     run = store.begin_run(study="cojer", family="conformal", scale="smoke", n_planned=1, version="0.1.0",
    ...                           commit="", machine={}, versions={}, arguments={})
    ...     store.record(run, trial)
    ...     store.finish_run(run, "done", {"verdict": "holds"})
    ...     frame = store.results(run)
    >>> frame[["contender", "seed", "fcp"]].to_dict("records")
    [{'contender': 'CoJER', 'seed': 0, 'fcp': 0.1}]
    """

    url: str

    def __init__(self, url: str | os.PathLike[str] | None = None) -> None:
        address = _resolve(url)
        self.url = _printable(address)
        self._password = str(address.password or address.query.get("password") or "")
        self._sqlite = address.get_backend_name() == "sqlite"
        self._engine = self._sqlite_engine(address) if self._sqlite else self._postgres_engine(address)
        # Writers take SQLite's lock when they begin: they wait for it instead of failing half way.
        self._writer = self._engine.execution_options(paperworks_write=True)
        # A reader sees one moment of the store in all its queries; SQLite does this by itself.
        self._reader = (
            self._engine if self._sqlite else self._engine.execution_options(isolation_level="REPEATABLE READ")
        )
        insert = sqlite.insert if self._sqlite else postgresql.insert
        self._insert_link = insert(_RUN_TRIAL)
        try:
            self._open()
        except BaseException:
            self._engine.dispose()
            raise

    # --- Opening ---

    def _sqlite_engine(self, address: sa.URL) -> sa.Engine:
        path = Path(cast(str, address.database))
        if not cast(str, address.database).startswith("file:"):
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise StoreError(f"{self.url}: can't create the directory {path.parent}: {error.strerror}") from error
        engine = sa.create_engine(address, connect_args={"timeout": _BUSY_SECONDS})

        def connected(connection: Any, _: Any) -> None:
            connection.isolation_level = None  # transactions begin where `begun` says, not where the driver guesses
            for pragma in ("foreign_keys = ON", "synchronous = NORMAL"):
                connection.execute(f"PRAGMA {pragma}")

        def begun(connection: sa.Connection) -> None:
            writes = connection.get_execution_options().get("paperworks_write", False)
            connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

        sa.event.listen(engine, "connect", connected)
        sa.event.listen(engine, "begin", begun)
        return engine

    def _postgres_engine(self, address: sa.URL) -> sa.Engine:
        try:
            import psycopg  # noqa: F401
        except ImportError as error:
            raise StoreError(
                'a PostgreSQL store needs psycopg; install it with: pip install "paperworks[postgres]"'
            ) from error
        arguments = {} if "connect_timeout" in address.query else {"connect_timeout": 10}
        return sa.create_engine(address, connect_args=arguments, pool_pre_ping=True)

    def _open(self) -> None:
        with self._errors():
            if self._revision() != REVISION:
                if self._sqlite:
                    self._use_wal()
                with _migrating, self._writer.begin() as connection:
                    if not self._sqlite:
                        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_MIGRATION_LOCK)))
                    # Another process may have migrated while this one waited.
                    revision = self._stored_revision(connection)
                    if revision != REVISION:
                        self._migrate(connection)

    def _revision(self) -> str | None:
        """Return the schema revision of the store, None if it is empty; refuse what isn't ours to touch."""
        try:
            with self._engine.connect() as connection:
                revision = connection.scalar(sa.text(f"SELECT version_num FROM {VERSION_TABLE}"))
        except DBAPIError as error:
            with self._engine.connect() as connection:
                tables = set(sa.inspect(connection).get_table_names())
            if VERSION_TABLE in tables:  # created by somebody else in between, or unreadable
                with self._engine.connect() as connection:
                    revision = self._stored_revision(connection)
            else:
                # In PostgreSQL a database may be shared; a SQLite file with tables of others isn't a store.
                foreign = sorted(tables if self._sqlite else tables & set(METADATA.tables))
                if foreign:
                    raise StoreError(
                        f"{self.url} is a database of something else: it holds the table(s) {', '.join(foreign[:5])}"
                    ) from error
                return None
        if revision != REVISION:
            self._refuse_unknown(revision)
        return cast("str | None", revision)

    def _stored_revision(self, connection: sa.Connection) -> str | None:
        if not sa.inspect(connection).has_table(VERSION_TABLE):
            return None
        return cast("str | None", connection.scalar(sa.text(f"SELECT version_num FROM {VERSION_TABLE}")))

    def _refuse_unknown(self, revision: str | None) -> None:
        from alembic.script import ScriptDirectory

        known = {script.revision for script in ScriptDirectory.from_config(_alembic_config()).walk_revisions()}
        if revision is not None and revision not in known:
            raise StoreError(
                f"{self.url} was written by a newer version of paperworks (its schema is {revision!r}, this version "
                f"knows up to {REVISION!r}); upgrade paperworks or use another store"
            )

    def _migrate(self, connection: sa.Connection) -> None:
        from alembic import command

        config = _alembic_config()
        config.attributes["connection"] = connection
        command.upgrade(config, "head")

    def _use_wal(self) -> None:
        """Let readers and one writer work side by side; the mode is a property of the file and stays."""
        deadline = time.monotonic() + _BUSY_SECONDS
        while True:  # SQLite doesn't wait by itself for this switch
            connection = self._engine.raw_connection()
            try:
                connection.cursor().execute("PRAGMA journal_mode = WAL")
                return
            except Exception as error:
                if "locked" not in str(error) or time.monotonic() > deadline:
                    raise StoreError(f"{self.url}: {error}") from error
            finally:
                connection.close()
            time.sleep(0.02)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn what the database says into one line."""
        try:
            yield
        except DBAPIError as error:
            raise StoreError(f"{self.url}: {self._one_line(error.orig)}") from error
        except (SQLAlchemyError, UnicodeError) as error:
            raise StoreError(f"{self.url}: {self._one_line(error)}") from error

    def _one_line(self, error: BaseException | None) -> str:
        line = re.sub(r"\s+", " ", str(error)).strip() or type(error).__name__
        return line.replace(self._password, "***") if self._password else line

    @contextmanager
    def _write(self) -> Iterator[sa.Connection]:
        with self._errors(), self._writer.begin() as connection:
            yield connection

    @contextmanager
    def _read(self) -> Iterator[sa.Connection]:
        with self._errors(), self._reader.connect() as connection:
            yield connection

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Store({self.url!r})"

    def close(self) -> None:
        """Close all connections. What was recorded is already safe."""
        self._engine.dispose()

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
        host = _text(machine.get("host") or platform.node())
        pid = check_integer(machine.get("pid") or os.getpid(), "machine['pid']", minimum=1)
        row = {
            "study": _text(study),
            "family": _text(family),
            "scale": _text(scale),
            "status": "running",
            "n_planned": check_integer(n_planned, "n_planned", minimum=0),
            "started": datetime.now(UTC),
            "version": _text(version),
            "commit_id": _text(commit),
            "host": host,
            "pid": pid,
            "process_started": _process_started(pid) if host in _hosts() else None,
            "machine": _plain(machine),
            "versions": _plain(versions),
            "arguments": _plain(arguments),
        }
        with self._write() as connection:
            return _new_id(connection.execute(sa.insert(_RUN), row))

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
        fingerprint = _text(trial.fingerprint)
        row = {
            "fingerprint": fingerprint,
            "generation": sa.select(sa.func.coalesce(sa.func.max(_TRIAL.c.generation), 0) + 1)
            .where(_TRIAL.c.fingerprint == fingerprint)
            .scalar_subquery(),
            "study": _text(trial.study),
            "contender": _text(trial.contender),
            "dataset": _text(trial.dataset),
            "dataset_label": _text(trial.dataset_label),
            "seed": check_integer(trial.seed, "seed", minimum=-(2**63), maximum=2**63 - 1),
            "scale": _text(trial.scale),
            "status": check_choice(trial.status, "status", ("ok", "failed", "timeout", "crashed")),
            "error": _cut(trial.error),
            "version": _text(trial.version),
            "recorded": datetime.now(UTC),
        }
        for name in ("wall_seconds", "cpu_seconds", "peak_mb"):
            number = _number(getattr(trial, name), name)
            row[name] = None if math.isnan(number) else number
        metrics = {_text(name): _encode(_number(value, f"metric {name!r}")) for name, value in trial.metrics.items()}
        for name in RESULT_COLUMNS:
            if name in metrics:
                raise StoreError(f"metric {name!r} has the name of a column of the results; rename it in the study")
        with self._write() as connection:
            if not self._sqlite:  # one writer at a time per fingerprint
                key = sa.func.hashtextextended(fingerprint, 0)
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(key)))
            trial_id = _new_id(connection.execute(sa.insert(_TRIAL).values(row)))
            if metrics:
                values = [
                    {"trial_id": trial_id, "name": name, "value": value, "state": state}
                    for name, (value, state) in metrics.items()
                ]
                connection.execute(sa.insert(_METRIC), values)
            link = {"run_id": run_id, "fingerprint": fingerprint, "trial_id": trial_id}
            statement = self._insert_link.on_conflict_do_update(
                index_elements=["run_id", "fingerprint"], set_={"trial_id": self._insert_link.excluded.trial_id}
            )
            try:
                connection.execute(statement, link)
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
        excluded = self._insert_link.excluded
        with self._write() as connection:
            self._require_run(connection, run_id)
            for chunk in _chunks(map(_text, fingerprints)):
                newest = (
                    sa.select(sa.literal(run_id), _TRIAL.c.fingerprint, sa.func.max(_TRIAL.c.id))
                    .where(_TRIAL.c.status == "ok", _TRIAL.c.fingerprint.in_(chunk))
                    .group_by(_TRIAL.c.fingerprint)
                )
                connection.execute(
                    self._insert_link.from_select(["run_id", "fingerprint", "trial_id"], newest).on_conflict_do_update(
                        index_elements=["run_id", "fingerprint"],
                        set_={"trial_id": excluded.trial_id},
                        where=excluded.trial_id > _RUN_TRIAL.c.trial_id,
                    )
                )
                found = set(
                    connection.scalars(
                        sa.select(_TRIAL.c.fingerprint).where(_TRIAL.c.status == "ok", _TRIAL.c.fingerprint.in_(chunk))
                    )
                )
                missing = [fingerprint for fingerprint in chunk if fingerprint not in found]
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
            "verdict": None if verdict is None else _plain(verdict),
        }
        with self._write() as connection:
            ended = connection.execute(
                sa.update(_RUN).where(_RUN.c.id == run_id, _RUN.c.status == "running").values(change)
            )
            if ended.rowcount == 0:
                self._require_run(connection, run_id)
                raise StoreError(f"{self.url}: run {run_id} has ended already")

    # --- Reading ---

    def _require_run(self, connection: sa.Connection, run_id: int) -> None:
        if connection.scalar(sa.select(_RUN.c.id).where(_RUN.c.id == run_id)) is None:
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
            for chunk in _chunks(map(_text, fingerprints)):
                newest = (
                    sa.select(sa.func.max(_TRIAL.c.id))
                    .where(_TRIAL.c.status == "ok", _TRIAL.c.fingerprint.in_(chunk))
                    .group_by(_TRIAL.c.fingerprint)
                )
                found |= {trial.fingerprint: trial for trial in _trials(connection, newest)}
        return found

    def trials(self, run_id: int) -> list[TrialRecord]:
        """Return the trials of a run, in the order in which they were recorded."""
        with self._read() as connection:
            self._require_run(connection, run_id)
            return _trials(connection, sa.select(_RUN_TRIAL.c.trial_id).where(_RUN_TRIAL.c.run_id == run_id))

    def run(self, run_id: int) -> RunRecord:
        """Return one run."""
        with self._read() as connection:
            found = _runs(connection, _RUN.c.id == run_id)
        if not found:
            raise StoreError(f"{self.url}: there is no run {run_id}")
        return found[0]

    def runs(self, study: str | None = None, limit: int | None = None) -> list[RunRecord]:
        """Return the runs (of one study), newest first, at most `limit`."""
        if limit is not None:
            limit = check_integer(limit, "limit", minimum=0)
        with self._read() as connection:
            return _runs(connection, sa.true() if study is None else _RUN.c.study == study, limit)

    def latest(self) -> dict[str, RunRecord]:
        """Return the newest run of each study that is done, whatever its scale."""
        newest = sa.select(sa.func.max(_RUN.c.id)).where(_RUN.c.status == "done").group_by(_RUN.c.study)
        with self._read() as connection:
            return {run.study: run for run in _runs(connection, _RUN.c.id.in_(newest))}

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
        import numpy as np
        import pandas as pd

        with self._read() as connection:
            self._require_run(connection, run_id)
            columns = [_TRIAL.c[name] for name in RESULT_COLUMNS]
            rows = connection.execute(
                sa.select(_TRIAL.c.id, *columns)
                .join(_RUN_TRIAL, _RUN_TRIAL.c.trial_id == _TRIAL.c.id)
                .where(_RUN_TRIAL.c.run_id == run_id)
                .order_by(_TRIAL.c.id)
            ).all()
            values = connection.execute(
                sa.select(_METRIC.c.trial_id, _METRIC.c.name, _METRIC.c.value, _METRIC.c.state)
                .join(_RUN_TRIAL, _RUN_TRIAL.c.trial_id == _METRIC.c.trial_id)
                .where(_RUN_TRIAL.c.run_id == run_id)
            ).all()
        frame = pd.DataFrame.from_records([tuple(row) for row in rows], columns=["id", *RESULT_COLUMNS])
        for name in ("wall_seconds", "cpu_seconds", "peak_mb"):
            frame[name] = frame[name].astype(float)
        frame["seed"] = frame["seed"].astype(np.int64)
        if values:
            trial_ids, names, numbers, states = zip(*values, strict=True)
            table = np.array(numbers, dtype=float)
            state_of = np.array(states)
            for state, special in _SPECIAL.items():
                table[state_of == state] = special
            codes, labels = pd.factorize(np.array(names, dtype=object), sort=True)
            matrix = np.full((len(frame), len(labels)), np.nan)
            matrix[np.searchsorted(frame["id"].to_numpy(), np.array(trial_ids)), codes] = table
            frame = pd.concat([frame, pd.DataFrame(matrix, columns=labels)], axis=1)
        order = np.lexsort(
            [frame["seed"].to_numpy()]
            + [pd.factorize(frame[name], sort=True)[0] for name in ("contender", "dataset", "dataset_label")]
        )
        return frame.drop(columns="id").iloc[order].reset_index(drop=True)

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
            metric. Column ``state`` says ``finite``, ``nan``, ``+inf``, ``-inf`` or ``missing`` (no metric).

        Raises
        ------
        StoreError
            If the suffix is another one, or the file can't be written.
        """
        target = Path(path)
        if target.suffix.lower() not in (".parquet", ".csv"):
            raise StoreError(f"can't export to {target.name!r}: the file's name must end with .parquet or .csv")
        part = target.with_name(f".{target.name}.{os.getpid()}.part")
        try:
            with self._read() as connection:
                n_rows = _write_table(part, target.suffix.lower(), self._long_frames(connection, study))
            part.replace(target)
        except OSError as error:
            raise StoreError(f"can't write {target}: {error.strerror or error}") from error
        finally:
            part.unlink(missing_ok=True)
        return n_rows

    def _long_frames(self, connection: sa.Connection, study: str | None) -> Iterator[pd.DataFrame]:
        """Yield the exported rows run by run; an empty frame comes first, so that there's always a header."""
        import pandas as pd

        of_run = {
            "run": _RUN.c.id,
            "study": _RUN.c.study,
            "family": _RUN.c.family,
            "scale": _RUN.c.scale,
            "started": _RUN.c.started,
            "commit": _RUN.c.commit_id,
        }
        of_trial = {name: _TRIAL.c[name] for name in ("fingerprint", "generation", "version", *RESULT_COLUMNS)}
        of_metric = {"metric": _METRIC.c.name, "value": _METRIC.c.value, "state": _METRIC.c.state}
        columns = of_run | of_trial | of_metric
        yield pd.DataFrame(columns=list(columns)).astype(_EXPORT_TYPES)
        condition = sa.true() if study is None else _RUN.c.study == study
        for run_id in connection.scalars(sa.select(_RUN.c.id).where(condition).order_by(_RUN.c.id)).all():
            rows = connection.execute(
                sa.select(*(column.label(name) for name, column in columns.items()))
                .select_from(_RUN_TRIAL)
                .join(_RUN, _RUN.c.id == _RUN_TRIAL.c.run_id)
                .join(_TRIAL, _TRIAL.c.id == _RUN_TRIAL.c.trial_id)
                .outerjoin(_METRIC, _METRIC.c.trial_id == _TRIAL.c.id)
                .where(_RUN_TRIAL.c.run_id == run_id)
                .order_by(_TRIAL.c.id, _METRIC.c.name)
            ).all()
            if not rows:
                continue
            frame = pd.DataFrame.from_records([tuple(row) for row in rows], columns=list(columns))
            frame["state"] = frame["state"].fillna("missing")
            for state, special in _SPECIAL.items():
                frame.loc[frame["state"] == state, "value"] = special
            frame["state"] = frame["state"].replace("-zero", "finite")
            yield frame.astype(_EXPORT_TYPES)


def _new_id(result: sa.CursorResult[Any]) -> int:
    key = result.inserted_primary_key
    assert key is not None
    return int(key[0])


def _alembic_config() -> Any:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    return config


_EXPORT_TYPES = {
    "run": "int64",
    "generation": "int64",
    "seed": "int64",
    "started": "datetime64[us, UTC]",
    "wall_seconds": "float64",
    "cpu_seconds": "float64",
    "peak_mb": "float64",
    "value": "float64",
}


def _write_table(path: Path, suffix: str, frames: Iterator[pd.DataFrame]) -> int:
    """Write frames of the same columns one after the other and return the number of rows."""
    head = next(frames)
    n_rows = 0
    if suffix == ".csv":
        with path.open("w", encoding="utf-8", newline="") as file:
            head.to_csv(file, index=False)
            for frame in frames:
                frame.to_csv(file, index=False, header=False)
                n_rows += len(frame)
        return n_rows
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {"int64": pa.int64(), "float64": pa.float64(), "datetime64[us, UTC]": pa.timestamp("us", tz="UTC")}
    schema = pa.schema([(name, kinds[_EXPORT_TYPES[name]] if name in _EXPORT_TYPES else pa.string()) for name in head])
    with pq.ParquetWriter(path, schema) as writer:
        for frame in frames:
            # Built column by column: a conversion of the whole frame would turn NaN into null.
            arrays = [
                pa.array(frame[field.name], type=field.type, from_pandas=field.type == pa.string()) for field in schema
            ]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
            n_rows += len(frame)
    return n_rows


def _trials(connection: sa.Connection, ids: sa.Select[Any]) -> list[TrialRecord]:
    metrics: dict[int, dict[str, float]] = {}
    values = sa.select(_METRIC.c.trial_id, _METRIC.c.name, _METRIC.c.value, _METRIC.c.state)
    for trial_id, name, value, state in connection.execute(values.where(_METRIC.c.trial_id.in_(ids))):
        metrics.setdefault(trial_id, {})[name] = _decode(value, state)

    def known(value: float | None) -> float:
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
            wall_seconds=known(row.wall_seconds),
            cpu_seconds=known(row.cpu_seconds),
            peak_mb=known(row.peak_mb),
            version=row.version,
        )
        for row in connection.execute(sa.select(_TRIAL).where(_TRIAL.c.id.in_(ids)).order_by(_TRIAL.c.id))
    ]


def _runs(connection: sa.Connection, condition: sa.ColumnElement[bool], limit: int | None = None) -> list[RunRecord]:
    rows = connection.execute(sa.select(_RUN).where(condition).order_by(_RUN.c.id.desc()).limit(limit)).all()
    ids = sa.select(_RUN.c.id).where(condition).order_by(_RUN.c.id.desc()).limit(limit).subquery()
    linked = sa.select(_RUN_TRIAL.c.run_id, sa.func.count()).join(ids, ids.c.id == _RUN_TRIAL.c.run_id)
    done: dict[int, int] = dict(connection.execute(linked.group_by(_RUN_TRIAL.c.run_id)).tuples().all())
    failing = linked.join(_TRIAL, _TRIAL.c.id == _RUN_TRIAL.c.trial_id).where(_TRIAL.c.status != "ok")
    failed: dict[int, int] = dict(connection.execute(failing.group_by(_RUN_TRIAL.c.run_id)).tuples().all())
    hosts = _hosts()
    runs = []
    for row in rows:
        dead = row.status == "running" and row.host in hosts and _is_gone(row.pid, row.process_started)
        runs.append(
            RunRecord(
                id=row.id,
                study=row.study,
                family=row.family,
                scale=row.scale,
                status="interrupted" if dead else row.status,
                n_planned=row.n_planned,
                n_done=done.get(row.id, 0),
                n_failed=failed.get(row.id, 0),
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
    return runs
