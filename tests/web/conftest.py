"""A site over a store with real runs, and a client that speaks to it as a browser on this machine does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")

from fastapi.testclient import TestClient

from paperworks.bench.runner import run_study
from paperworks.bench.store import Store
from paperworks.web.app import create_app

TABLE = "size,colour,sold\n" + "".join(
    f"{i % 7},{'red' if i % 3 else 'blue'},{'yes' if i % 2 else 'no'}\n" for i in range(60)
)


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file of a store with two runs of one study and one of another."""
    path = tmp_path_factory.mktemp("web") / "results.sqlite"
    with Store(path) as store:
        for study in ("factorial-design", "factorial-design", "shift-auc"):
            datasets = ["diabetes"] if study == "factorial-design" else None
            run_study(study, scale="smoke", datasets=datasets, jobs=1, store=store)
    return path


Make = Callable[..., TestClient]


@pytest.fixture
def make_client(tmp_path: Path) -> Iterator[Make]:
    """Return a maker of clients; each has its own server."""
    opened: list[TestClient] = []

    def make(store: Path | None = None, **options: Any) -> TestClient:
        app = create_app(str(store or tmp_path / "empty.sqlite"), uploads=tmp_path / "uploads", jobs=1, **options)
        client = TestClient(app, base_url="http://127.0.0.1:8000", follow_redirects=False)
        client.__enter__()
        opened.append(client)
        return client

    yield make
    for client in opened:
        client.__exit__(None, None, None)
