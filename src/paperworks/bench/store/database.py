"""The database under the store: its address, its transactions, its schema."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from paperworks.bench.store.records import StoreError
from paperworks.bench.store.schema import METADATA, REVISION, VERSION_TABLE

__all__ = ["Database", "resolve"]

_BUSY_SECONDS = 60.0
_MIGRATION_LOCK = 0x7061706572  # a PostgreSQL advisory lock is a number that all writers agree on
_migrating = threading.Lock()  # Alembic's `context` and `op` are global to the process


def resolve(url: str | os.PathLike[str] | None) -> sa.URL:
    """Return an address as SQLAlchemy takes it, for one of the two databases that are supported."""
    if url is None:
        url = os.environ.get("PAPERWORKS_STORE") or None
    if url is None:
        import platformdirs

        return sa.URL.create("sqlite", database=str(Path(platformdirs.user_data_dir("paperworks")) / "results.sqlite"))
    text = os.fspath(url)
    if not text.strip():
        raise StoreError("the store's address is empty; expected a file path or postgresql://...")
    if "://" not in text:
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
        raise StoreError("a store is kept in a file; a database in memory would be lost")
    return parsed.set(drivername="sqlite")


class Database:
    """One SQLite file or PostgreSQL database with the store's schema in it.

    Parameters
    ----------
    address : sqlalchemy.URL
        From `resolve`.

    Attributes
    ----------
    url : str
        The address with any password replaced by ``***``.
    is_sqlite : bool
        Which of the two it is.
    """

    def __init__(self, address: sa.URL) -> None:
        hidden = {key: "***" for key in address.query if "password" in key.lower()}
        self.url = address.update_query_dict(hidden).render_as_string(hide_password=True)
        self._passwords = [str(word) for word in (address.password, *map(address.query.get, hidden)) if word]
        self.is_sqlite = address.get_backend_name() == "sqlite"
        self._engine = self._sqlite_engine(address) if self.is_sqlite else self._postgres_engine(address)
        # A writer takes SQLite's lock when it begins: it waits for it then, instead of failing half way.
        self._writer = self._engine.execution_options(paperworks_write=True)
        # A reader sees one moment of the store in all its queries; SQLite does this by itself.
        isolation = {} if self.is_sqlite else {"isolation_level": "REPEATABLE READ"}
        self._reader = self._engine.execution_options(**isolation)
        try:
            self._bring_up_to_date()
        except BaseException:
            self.close()
            raise

    def _sqlite_engine(self, address: sa.URL) -> sa.Engine:
        name = cast(str, address.database)
        if not name.startswith("file:"):
            path = Path(name)
            if path.is_dir():
                raise StoreError(f"{self.url} is a directory; expected a file")
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise StoreError(f"{self.url}: can't create the directory {path.parent}: {error.strerror}") from error
        engine = sa.create_engine(address, connect_args={"timeout": _BUSY_SECONDS})

        def connected(connection: Any, _: Any) -> None:
            connection.isolation_level = None  # transactions begin where `begun` says, not where the driver guesses
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA synchronous = NORMAL")  # with WAL, a commit survives the death of the process

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

    # --- Schema ---

    def _bring_up_to_date(self) -> None:
        with self.read() as connection:
            revision = self._revision(connection)
        if revision == REVISION:
            return
        if self.is_sqlite:
            self._use_wal()
        with _migrating, self.write() as connection:
            if not self.is_sqlite:
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_MIGRATION_LOCK)))
            if self._revision(connection) != REVISION:  # another process may have migrated while this one waited
                from alembic import command

                config = _alembic_config()
                config.attributes["connection"] = connection
                command.upgrade(config, "head")

    def _revision(self, connection: sa.Connection) -> str | None:
        """Return the schema's revision, None if there is no schema yet; refuse what isn't ours to touch."""
        inspector = sa.inspect(connection)
        revision: str | None = None
        if inspector.has_table(VERSION_TABLE):
            revision = connection.scalar(sa.text(f"SELECT version_num FROM {VERSION_TABLE}"))
        if revision is None:
            tables = set(inspector.get_table_names()) - {VERSION_TABLE}
            # A PostgreSQL database may be shared; a SQLite file with tables of others is a mistake.
            foreign = sorted(tables if self.is_sqlite else tables & set(METADATA.tables))
            if foreign:
                raise StoreError(
                    f"{self.url} is a database of something else, with the tables {', '.join(foreign[:5])}"
                )
        elif revision != REVISION:
            from alembic.script import ScriptDirectory

            scripts = ScriptDirectory.from_config(_alembic_config())
            if revision not in {script.revision for script in scripts.walk_revisions()}:
                raise StoreError(
                    f"{self.url} was written by a newer version of paperworks (schema {revision!r}; this version knows "
                    f"schemas up to {REVISION!r}): upgrade paperworks or use another store"
                )
        return revision

    def _use_wal(self) -> None:
        """Let readers and one writer work side by side. The mode is a property of the file: it is set once."""
        deadline = time.monotonic() + _BUSY_SECONDS
        while True:  # SQLite doesn't wait by itself for this switch
            with self.errors():
                raw = self._engine.raw_connection()
                try:
                    raw.cursor().execute("PRAGMA journal_mode = WAL")
                    return
                except Exception as error:
                    if "locked" not in str(error) or time.monotonic() > deadline:
                        raise StoreError(f"{self.url}: {error}") from error
                finally:
                    raw.close()
            time.sleep(0.02)

    # --- Transactions ---

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Turn what the database says into one line."""
        try:
            yield
        except DBAPIError as error:
            raise StoreError(f"{self.url}: {self._one_line(error.orig)}") from error
        except (SQLAlchemyError, UnicodeError) as error:
            raise StoreError(f"{self.url}: {self._one_line(error)}") from error

    def _one_line(self, error: BaseException | None) -> str:
        line = re.sub(r"\s+", " ", str(error)).strip() or type(error).__name__
        for word in self._passwords:
            line = line.replace(word, "***")
        return line

    @contextmanager
    def write(self) -> Iterator[sa.Connection]:
        """Give a transaction that is committed at the end and undone by any exception."""
        with self.errors(), self._writer.begin() as connection:
            yield connection

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """Give a transaction that sees one moment of the store."""
        with self.errors(), self._reader.connect() as connection:
            yield connection

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()


def _alembic_config() -> Any:
    from alembic.config import Config

    config = Config()
    location = Path(__file__).parents[1] / "migrations"
    config.set_main_option("script_location", str(location).replace("%", "%%"))
    return config
