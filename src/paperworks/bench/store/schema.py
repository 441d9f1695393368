"""The tables of the store, as the newest revision in `paperworks.bench.migrations` leaves them."""

from __future__ import annotations

import math
from datetime import UTC, datetime

import sqlalchemy as sa

__all__ = [
    "METADATA",
    "METRIC",
    "RESULT_COLUMNS",
    "REVISION",
    "RUN",
    "RUN_TRIAL",
    "TRIAL",
    "VERSION_TABLE",
    "decode",
    "encode",
]

REVISION = "0001"
"""The newest revision."""

VERSION_TABLE = "paperworks_schema"
"""Where Alembic notes the revision: a name of our own, since a PostgreSQL database may be shared."""

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


class _UTC(sa.TypeDecorator[datetime]):
    """A moment in UTC: SQLite keeps no time zone, so it is put back on reading."""

    impl = sa.DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: sa.Dialect) -> datetime | None:
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: sa.Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


METADATA = sa.MetaData()

RUN = sa.Table(
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

TRIAL = sa.Table(
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

METRIC = sa.Table(
    "metric",
    METADATA,
    sa.Column("trial_id", sa.ForeignKey(TRIAL.c.id, name="metric_trial"), primary_key=True),
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("value", sa.Double),  # NULL is NaN
    sa.Column("state", sa.Text, nullable=False),
    sa.CheckConstraint("state IN ('finite', 'undefined', '+inf', '-inf', '-zero')", name="metric_state"),
    sqlite_with_rowid=False,
)

# One row per run and fingerprint, by primary key: no result can count twice in a run.
RUN_TRIAL = sa.Table(
    "run_trial",
    METADATA,
    sa.Column("run_id", sa.ForeignKey(RUN.c.id, name="run_trial_run"), primary_key=True),
    sa.Column("fingerprint", sa.Text, primary_key=True),
    sa.Column("trial_id", sa.ForeignKey(TRIAL.c.id, name="run_trial_trial"), nullable=False),
    sa.Index("run_trial_by_trial", "trial_id"),
    sqlite_with_rowid=False,
)


def encode(value: float) -> tuple[float | None, str]:
    """Return a metric's value as the columns ``value`` and ``state``.

    SQLite stores NaN as NULL and drops the sign of -0.0; ``state`` says what ``value`` can't.
    """
    if math.isnan(value):
        return None, "undefined"
    if math.isinf(value):
        return value, "+inf" if value > 0 else "-inf"
    if value == 0 and math.copysign(1.0, value) < 0:
        return 0.0, "-zero"
    return value, "finite"


def decode(value: float | None, state: str) -> float:
    """Undo `encode`."""
    if value is None:
        return math.nan
    return -0.0 if state == "-zero" else value
