"""Alembic's entry point: migrates over the connection that the store hands in, inside the store's transaction."""

from __future__ import annotations

from alembic import context

from paperworks.bench.store.schema import METADATA, VERSION_TABLE

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    version_table=VERSION_TABLE,
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
