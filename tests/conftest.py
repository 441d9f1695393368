"""No test reads or writes the user's own results, or leaves NumPy in another state than it found it."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture(autouse=True, scope="session")
def _own_store(tmp_path_factory: pytest.TempPathFactory) -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PAPERWORKS_STORE", str(tmp_path_factory.mktemp("store") / "results.sqlite"))
        yield


@pytest.fixture(autouse=True)
def _numpy_errors() -> object:
    before = np.geterr()
    yield
    assert np.geterr() == before
