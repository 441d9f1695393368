"""No test reads or writes the user's own results."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True, scope="session")
def _own_store(tmp_path_factory: pytest.TempPathFactory) -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PAPERWORKS_STORE", str(tmp_path_factory.mktemp("store") / "results.sqlite"))
        yield
