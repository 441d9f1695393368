"""Where a run takes place and with what: recorded with every run."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import platform
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

__all__ = ["cpu_model", "installed_versions", "machine_record", "source_commit"]

_LIBRARIES = ("joblib", "numpy", "pandas", "scikit-learn", "scipy", "torch")


def machine_record() -> dict[str, Any]:
    """Return host, process id, platform, processors, memory in gigabytes (None where not known) and Python."""
    return {
        "host": platform.node(),
        "pid": os.getpid(),
        "platform": platform.platform(),
        "cpu_count": os.cpu_count(),
        "cpu_model": cpu_model(),
        "memory_gb": _memory_gb(),
        "python": platform.python_version(),
    }


def cpu_model() -> str:
    """Return the name of the processor, as the system gives it."""
    with contextlib.suppress(OSError):
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
        if found:
            return found[1].strip()
    return platform.processor() or platform.machine()


def _memory_gb() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1)
    except (AttributeError, OSError, ValueError):
        return None


def installed_versions(names: Iterable[str] = ()) -> dict[str, str]:
    """Return the versions of the numerical libraries, and of the distributions `names`, that are installed."""
    versions = {}
    for name in sorted({*_LIBRARIES, *names}):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return versions


def source_commit() -> str:
    """Return the commit of the checkout that paperworks runs from, with ``-dirty`` if it was changed since.

    Returns
    -------
    str
        Empty if paperworks is installed without a checkout.
    """
    folder = Path(__file__).parents[1]
    if _git(folder, "ls-files", "--error-unmatch", "__init__.py") is None:
        return ""
    commit = _git(folder, "rev-parse", "HEAD") or ""
    return f"{commit}-dirty" if commit and _git(folder, "status", "--porcelain", "--", ".") else commit


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
