"""Whether the process behind a run is still there."""

from __future__ import annotations

import os
import platform
import socket
from pathlib import Path

__all__ = ["is_gone", "is_this_host", "process_started"]


def is_this_host(host: str) -> bool:
    """Tell whether `host` is a name of this machine."""
    return host in (platform.node(), socket.gethostname())


def process_started(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot; None if it is dead, or on a system other than Linux."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        return None if fields[0] in (b"Z", b"X") else int(fields[19])  # fields 3 and 22 of proc(5); zombies are dead
    except (OSError, IndexError, ValueError):
        return None


def is_gone(pid: int, started: int | None) -> bool:
    """Tell whether the process that started at `started` is gone for certain; its id may be another's by now."""
    if os.name != "posix":  # elsewhere asking by signal 0 isn't harmless
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except PermissionError:  # somebody else's, and where /proc hides it there's no more to learn
        return started is not None and process_started(pid) not in (None, started)
    return started is not None and process_started(pid) != started
