"""Runs, trials, their metrics, and which trials belong to which run."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the four tables of the first edition."""
    op.create_table(
        "run",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("study", sa.Text, nullable=False),
        sa.Column("family", sa.Text, nullable=False),
        sa.Column("scale", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("n_planned", sa.Integer, nullable=False),
        sa.Column("started", sa.DateTime(timezone=True), nullable=False),
        sa.Column("finished", sa.DateTime(timezone=True)),
        sa.Column("version", sa.Text, nullable=False),
        sa.Column("commit_id", sa.Text, nullable=False),
        sa.Column("host", sa.Text, nullable=False),
        sa.Column("pid", sa.BigInteger, nullable=False),
        sa.Column("process_started", sa.BigInteger),
        sa.Column("machine", sa.JSON(), nullable=False),
        sa.Column("versions", sa.JSON(), nullable=False),
        sa.Column("arguments", sa.JSON(), nullable=False),
        sa.Column("verdict", sa.JSON(none_as_null=True)),
        sa.CheckConstraint("status IN ('running', 'done', 'interrupted')", name="run_status"),
    )
    op.create_index("run_by_study", "run", ["study", "id"])
    op.create_table(
        "trial",
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
        sa.Column("wall_seconds", sa.Double),
        sa.Column("cpu_seconds", sa.Double),
        sa.Column("peak_mb", sa.Double),
        sa.Column("version", sa.Text, nullable=False),
        sa.Column("recorded", sa.DateTime(timezone=True), nullable=False),
        sa.UniqueConstraint("fingerprint", "generation", name="trial_generation"),
        sa.CheckConstraint("status IN ('ok', 'failed', 'timeout', 'crashed')", name="trial_status"),
    )
    op.create_table(
        "metric",
        sa.Column("trial_id", sa.Integer, sa.ForeignKey("trial.id", name="metric_trial"), primary_key=True),
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("value", sa.Double),
        sa.Column("state", sa.Text, nullable=False),
        sa.CheckConstraint("state IN ('finite', 'undefined', '+inf', '-inf', '-zero')", name="metric_state"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "run_trial",
        sa.Column("run_id", sa.Integer, sa.ForeignKey("run.id", name="run_trial_run"), primary_key=True),
        sa.Column("fingerprint", sa.Text, primary_key=True),
        sa.Column("trial_id", sa.Integer, sa.ForeignKey("trial.id", name="run_trial_trial"), nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index("run_trial_by_trial", "run_trial", ["trial_id"])


def downgrade() -> None:
    """Drop the four tables."""
    for table in ("run_trial", "metric", "trial", "run"):
        op.drop_table(table)
