"""Speed ratios against peers, measured side by side in one process.

``python -m benchmarks immax`` runs the cases of ``benchmarks/immax.py``: each case names two calls without arguments,
ours and the peer's, which do the same work. They are timed in turns, so that a slow moment of the machine meets both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["Case"]


@dataclass(frozen=True)
class Case:
    """One comparison: two calls that do the same work."""

    name: str
    ours: Callable[[], Any]
    peer: Callable[[], Any]
    peer_name: str
    note: str = ""
