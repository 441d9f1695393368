"""What is particular to a store in PostgreSQL; the common battery in `test_store.py` runs on both."""

from __future__ import annotations

import builtins
import socket
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

from paperworks.bench.store import Store, StoreError
from paperworks.bench.store.schema import TRIAL, VERSION_TABLE

from .test_store import TRIAL_OK, begin


def test_both_names_of_the_scheme_reach_the_same_store(new_database: Callable[[], str]) -> None:
    url = new_database()
    with Store(url) as store:
        run = begin(store)
        store.record(run, TRIAL_OK)
    for scheme in ("postgres://", "postgresql+psycopg://", "postgresql+psycopg2://"):
        with Store(url.replace("postgresql://", scheme)) as store:
            assert store.trials(run) == [TRIAL_OK]
            assert store.url == sa.make_url(url).set(drivername="postgresql+psycopg").render_as_string()


def test_the_environment_names_a_server(new_database: Callable[[], str], monkeypatch: pytest.MonkeyPatch) -> None:
    url = new_database()
    monkeypatch.setenv("PAPERWORKS_STORE", url)
    with Store() as store:
        begin(store)
    with Store(url) as store:
        assert len(store.runs()) == 1


def test_the_password_is_never_shown(new_database: Callable[[], str]) -> None:
    url = sa.make_url(new_database())
    assert url.password
    with Store(url.render_as_string(hide_password=False)) as store:
        assert str(url.password) not in store.url + repr(store)
        assert "***" in store.url
    in_query = url.set(password=None).update_query_dict({"password": str(url.password)})
    with Store(in_query.render_as_string(hide_password=False)) as store:
        assert str(url.password) not in store.url
    wrong = url.set(password="open-sesame").render_as_string(hide_password=False)
    with pytest.raises(StoreError, match="password authentication failed") as refused:
        Store(wrong)
    assert "open-sesame" not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_server_or_database_that_is_not_there(postgres_server: str) -> None:
    with pytest.raises(StoreError, match='database "nowhere" does not exist'):
        Store(f"{postgres_server}/nowhere")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with pytest.raises(StoreError, match="refused") as refused:
        Store(f"postgresql://user:open-sesame@127.0.0.1:{port}/db")
    assert "open-sesame" not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_without_psycopg_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real_import = builtins.__import__

    def no_psycopg(name: str, *arguments: Any, **options: Any) -> Any:
        if name == "psycopg":
            raise ModuleNotFoundError("No module named 'psycopg'", name="psycopg")
        return real_import(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", no_psycopg)
    with pytest.raises(StoreError, match=r'pip install "paperworks\[postgres\]"'):
        Store("postgresql://localhost/db")


def test_a_database_may_be_shared_but_tables_are_not_taken_over(new_database: Callable[[], str]) -> None:
    url = new_database()
    engine = sa.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE alembic_version (version_num TEXT)"))
        connection.execute(sa.text("INSERT INTO alembic_version VALUES ('theirs')"))
        connection.execute(sa.text("CREATE TABLE trial (patient TEXT)"))
    with pytest.raises(StoreError, match="database of something else, with the tables trial"):
        Store(url)
    with engine.begin() as connection:
        assert not sa.inspect(connection).has_table(VERSION_TABLE)
        connection.execute(sa.text("DROP TABLE trial"))
    with Store(url) as store:
        begin(store)
    with engine.connect() as connection:
        assert connection.scalar(sa.text("SELECT version_num FROM alembic_version")) == "theirs"
    engine.dispose()


def test_a_reader_sees_one_moment(new_database: Callable[[], str]) -> None:
    with Store(new_database()) as store:
        run = begin(store)
        count = sa.select(sa.func.count()).select_from(TRIAL)
        with store._database.read() as reader:
            assert reader.scalar(count) == 0
            store.record(run, TRIAL_OK)
            assert reader.scalar(count) == 0
        assert store.trials(run) == [TRIAL_OK]


def test_a_server_that_restarts_between_trials_is_found_again(new_database: Callable[[], str]) -> None:
    url = new_database()
    engine = sa.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    with Store(url) as store:
        run = begin(store)
        with engine.connect() as connection:  # as a restart does: end all other sessions
            ended = connection.scalars(
                sa.text(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
            ).all()
        assert ended
        store.record(run, TRIAL_OK)
        assert store.trials(run) == [TRIAL_OK]
    engine.dispose()
