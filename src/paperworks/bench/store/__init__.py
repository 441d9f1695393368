"""Where results live: an append-only store of runs and trials in SQLite or PostgreSQL.

A trial's outcome is a new row under its fingerprint, never a change of an old one; a run points to the trials that
belong to it. Every recorded trial is committed before `Store.record` returns, so that a killed process loses nothing
it has reported. The schema is versioned: Alembic brings an older store up to date when it is opened, and a store
written by a newer version of paperworks is refused untouched.

SQLite (the default) serves one machine: any number of processes read while one writes and the others wait their turn.
Where several machines write, or the file would live on a network file system, use PostgreSQL.
"""

from __future__ import annotations

from paperworks.bench.store.records import RunRecord, StoreError, TrialRecord
from paperworks.bench.store.schema import RESULT_COLUMNS
from paperworks.bench.store.store import Store

__all__ = ["RESULT_COLUMNS", "RunRecord", "Store", "StoreError", "TrialRecord"]
