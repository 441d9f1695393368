"""A throwaway PostgreSQL server for the tests of the store."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest


def _server_binaries() -> Path | None:
    """Return the folder with `initdb` and `postgres`: on PATH, or where Debian keeps them."""
    found = shutil.which("initdb")
    if found:
        return Path(found).resolve().parent
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: float(folder.parent.name))
    return next((folder for folder in reversed(folders) if (folder / "initdb").exists()), None)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """Address of a fresh server on the loopback interface, as its owner, without a database name."""
    pytest.importorskip("psycopg", reason="psycopg isn't installed")
    binaries = _server_binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL server is installed (initdb not found)")
    as_owner: dict[str, Any] = {}
    if os.geteuid() == 0:  # the server refuses to run as root
        if not _user_exists("postgres"):
            pytest.skip("running as root, and there is no user 'postgres' to run the server")
        as_owner = {"user": "postgres", "group": "postgres", "extra_groups": []}
    # Not below pytest's own folder, which other users can't enter.
    root = Path(tempfile.mkdtemp(prefix="paperworks-postgres-"))
    try:
        if as_owner:
            shutil.chown(root, "postgres", "postgres")
        password = secrets.token_hex(12)
        (root / "password").write_text(password)
        (root / "password").chmod(0o644)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]

        def call(*command: str | Path) -> None:
            # No pipes: the server inherits them and would keep a reader waiting for ever.
            with (root / "output.txt").open("ab") as output:
                done = subprocess.run(command, cwd=root, stdout=output, stderr=output, timeout=120, **as_owner)
            assert done.returncode == 0, (root / "output.txt").read_text()

        data = root / "data"
        call(
            *(binaries / "initdb", "-D", data, "-U", "owner", "-A", "scram-sha-256", "--pwfile", root / "password"),
            *("-E", "UTF8", "--locale=C", "--no-sync"),
        )
        options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={root} -c fsync=off"
        call(binaries / "pg_ctl", "-D", data, "-w", "-l", data / "log", "-o", options, "start")
        try:
            yield f"postgresql://owner:{password}@127.0.0.1:{port}"
        finally:
            call(binaries / "pg_ctl", "-D", data, "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _user_exists(name: str) -> bool:
    import pwd

    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


@pytest.fixture
def new_database(postgres_server: str) -> Iterator[Callable[[], str]]:
    """A function that creates an empty database and returns its address."""
    import psycopg

    names: list[str] = []

    def create() -> str:
        name = f"t{secrets.token_hex(6)}"
        names.append(name)
        with psycopg.connect(f"{postgres_server}/postgres", autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"')
        return f"{postgres_server}/{name}"

    yield create
    with psycopg.connect(f"{postgres_server}/postgres", autocommit=True) as connection:
        for name in names:
            connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Address of an empty store, on either database."""
    if request.param == "sqlite":
        return str(tmp_path / "results.sqlite")
    return str(request.getfixturevalue("new_database")())
