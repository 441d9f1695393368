"""What is installed, what is missing and how to get it."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import sys
from typing import Any

from packaging.requirements import Requirement

from paperworks import __version__
from paperworks.bench.catalog import extra_requirements, missing_distributions

__all__ = ["examine"]

_BACKENDS = {"loky": ("joblib",), "ray": ("ray",), "dask": ("dask", "distributed")}


def examine(store_url: str | None = None) -> dict[str, Any]:
    """Return the state of this installation as plain data.

    Parameters
    ----------
    store_url : str, optional
        Store to look at; the default store if not given.

    Returns
    -------
    dict
        Keys ``paperworks``, ``python``, ``platform``, ``cores``, ``packages`` (name to version), ``extras`` (a list of
        records with name, installed, missing and install command), ``backends`` (likewise) and ``store`` (url, ok,
        message).
    """
    return {
        "paperworks": __version__,
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "packages": {name: importlib.metadata.version(name) for name in _core_requirements()},
        "extras": [_part(name, extra_requirements(name), name) for name in _extras()],
        "backends": [_part(name, needed, name) for name, needed in _BACKENDS.items()],
        "store": _store_state(store_url),
    }


def _core_requirements() -> list[str]:
    requirements = [Requirement(text) for text in importlib.metadata.requires("paperworks") or []]
    return [r.name for r in requirements if r.marker is None and not missing_distributions((r.name,))]


def _extras() -> list[str]:
    names = importlib.metadata.metadata("paperworks").get_all("Provides-Extra") or []
    return [re.sub(r"[-_.]+", "-", name) for name in names if name not in ("all", "dev")]


def _part(name: str, needed: tuple[str, ...], extra: str) -> dict[str, Any]:
    missing = missing_distributions(needed)
    return {
        "name": name,
        "installed": {n: importlib.metadata.version(n) for n in needed if n not in missing},
        "missing": list(missing),
        "install": f'pip install "paperworks[{extra}]"' if missing else "",
    }


def _store_state(url: str | None) -> dict[str, Any]:
    from paperworks.bench.store import Store, StoreError

    try:
        with Store(url) as store:
            runs = len(store.runs())
            return {"url": store.url, "ok": True, "message": f"{runs} run{'s' * (runs != 1)} stored"}
    except (StoreError, ImportError) as error:
        # The address itself may hold a password; the message has it masked.
        return {"url": "", "ok": False, "message": str(error)}
