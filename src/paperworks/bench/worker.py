"""What happens inside a worker process: run one trial and turn whatever it does into an `Outcome`.

A trial has a limit on time, a fixed number of threads, and is measured: wall time, processor time and peak memory.
Nothing here draws random numbers or touches a global random state. The module imports light, because every worker of
every backend imports it first.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import hashlib
import math
import numbers
import os
import pickle
import re
import socket
import sys
import sysconfig
import threading
import time
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from paperworks.bench.catalog import load_study
from paperworks.bench.study import Study

__all__ = [
    "Outcome",
    "Status",
    "Task",
    "TrialTimeout",
    "file_digest",
    "hard_limit",
    "read_study",
    "run_isolated",
    "run_trial",
    "thread_environment",
]

Status = Literal["ok", "failed", "timeout", "crashed"]

_ERROR_LENGTH = 2000
_FRAMES = 3
_NUDGE_SECONDS = 1.0

_LIBRARIES = tuple(
    os.path.realpath(sysconfig.get_path(name)) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")
)
_PACKAGE = os.path.realpath(Path(__file__).parents[1]) + os.sep


class TrialTimeout(BaseException):
    """Raised inside a trial when its time is up; no ``Exception``, so that a trial's own handlers let it pass."""


@dataclass(frozen=True)
class Task:
    """One trial to run."""

    study: str
    """Reference of the study; only its slug if the study travels by value."""
    contender: str
    dataset: str
    seed: int
    scale: str
    fingerprint: str
    timeout: float | None = None
    """Limit in seconds on the trial function alone, loading the study not counted."""
    threads: int = 1
    digest: str = ""
    """Digest of the study's file, for ``file:`` references."""
    payload: bytes = field(default=b"", repr=False)
    """The study itself, pickled, if no reference leads to it."""


@dataclass(frozen=True)
class Outcome:
    """What became of one trial."""

    task: Task
    status: Status
    error: str = ""
    metrics: dict[str, float] = field(default_factory=dict)
    wall_seconds: float = 0.0
    cpu_seconds: float = 0.0
    """Processor time of the process with all its threads and children."""
    peak_mb: float = 0.0
    """Largest resident memory of the process during the trial, in megabytes (10^6 bytes)."""


def run_trial(task: Task) -> Outcome:
    """Run one trial in this process.

    Parameters
    ----------
    task : Task
        The trial.

    Returns
    -------
    Outcome
        Its metrics, or the reason why there are none. Nothing that the trial raises gets out, `SystemExit` included.
    """
    return _run(task, hard=False)


def run_isolated(task: Task) -> Outcome:
    """Run one trial in a worker process that may be lost: like `run_trial`, with a limit that nothing can ignore.

    A trial that doesn't stop `hard_limit` seconds after its start, because it is stuck in compiled code, takes its
    process with it (exit code 1).
    """
    os.environ.update(thread_environment(task.threads))  # for libraries not yet loaded, where the backend didn't
    return _run(task, hard=True)


def hard_limit(timeout: float) -> float:
    """Return the seconds after which a trial with the limit `timeout` is ended together with its process."""
    return timeout + min(30.0, 5.0 + timeout / 10)


def thread_environment(threads: int) -> dict[str, str]:
    """Return the environment that holds numerical libraries, and joblib inside of a trial, to `threads` threads.

    The variables work only if they are set before the libraries are loaded. The seed of string hashes is among them,
    so that the order of a set is the same in all workers.
    """
    names = (
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "BLIS_NUM_THREADS",
        "VECLIB_MAXIMUM_THREADS",
        "NUMEXPR_NUM_THREADS",
        "NUMBA_NUM_THREADS",
        "LOKY_MAX_CPU_COUNT",
    )
    return {**dict.fromkeys(names, str(threads)), "PYTHONHASHSEED": "1"}


def file_digest(path: str | Path) -> str:
    """Return the SHA-256 of a file's content."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def read_study(ref: str, digest: str = "") -> Study:
    """Return the study behind a reference, as its file is now, even if the file changed since it was loaded.

    Parameters
    ----------
    ref : str
        Reference as `paperworks.bench.catalog.resolve` gives it.
    digest : str, default=""
        For a ``file:`` reference, the content that the file must have.

    Raises
    ------
    FileNotFoundError
        If the file is not on this machine.
    ValueError
        If the file on this machine has another content than `digest` says.
    """
    if not ref.startswith("file:"):
        return load_study(ref)
    path = Path(ref.removeprefix("file:"))
    if not path.is_file():
        raise FileNotFoundError(
            f"the study file {path} does not exist on {socket.gethostname()}; "
            "put it at the same path on every machine that runs trials, or make it an importable module"
        )
    found = file_digest(path)
    if digest and found != digest:
        raise ValueError(
            f"the study file {path} on {socket.gethostname()} differs from the one that the run was started with"
        )
    if _LOADED.setdefault(ref, found) != found:
        load_study.cache_clear()
        for name, module in list(sys.modules.items()):
            if name.startswith("_paperworks_study_") and getattr(module, "__file__", None) == str(path):
                del sys.modules[name]
        _LOADED[ref] = found
    return load_study(ref)


_LOADED: dict[str, str] = {}
"""Digest of each study file as this process has loaded it."""

_ONE_AT_A_TIME = threading.Lock()
"""Memory, threads and the hard limit belong to the process: a process runs one trial at a time."""


def _run(task: Task, *, hard: bool) -> Outcome:
    answer = replace(task, payload=b"")
    with _ONE_AT_A_TIME:
        watch = _Watch()
        try:
            study = _unpickle(task.payload) if task.payload else read_study(task.study, task.digest)
            # np.errstate(): a peer that changes how NumPy treats overflow must not change other trials.
            with _thread_limits(task.threads), np.errstate(), contextlib.redirect_stdout(sys.stderr):
                watch.start()
                with _hard_timeout(task.timeout if hard else None), _soft_timeout(task.timeout):
                    value = study.trial(task.contender, task.dataset, task.seed, task.scale)
                watch.stop()
            return Outcome(answer, "ok", "", _metrics(study, value), *watch.stop())
        except TrialTimeout as error:
            message = f"stopped after {task.timeout:g} s{_where(error)}"
            return Outcome(answer, "timeout", message, {}, *watch.stop())
        except BaseException as error:
            return Outcome(answer, "failed", _describe(error), {}, *watch.stop())


@lru_cache(maxsize=4)
def _unpickle(payload: bytes) -> Study:
    study = pickle.loads(payload)
    assert isinstance(study, Study)
    return study


def _metrics(study: Study, value: Any) -> dict[str, float]:
    """Check what a trial returned against the study's metrics; NaN and infinity are values like others."""
    if not isinstance(value, Mapping):
        raise TypeError(f"the trial must return a mapping of metrics, got {type(value).__name__}")
    expected = [metric.name for metric in study.metrics]
    missing = [name for name in expected if name not in value]
    unknown = [str(name) for name in value if name not in expected]
    if missing or unknown:
        parts = [f"without {', '.join(missing)}"] if missing else []
        parts += [f"with unknown {', '.join(unknown)}"] if unknown else []
        raise ValueError(f"the trial returned metrics {' and '.join(parts)}; the study has {', '.join(expected)}")
    return {name: _number(name, value[name]) for name in expected}


def _number(name: str, value: Any) -> float:
    scalar = isinstance(value, numbers.Real) or (hasattr(value, "__float__") and getattr(value, "ndim", None) == 0)
    if not scalar:
        raise TypeError(f"metric {name!r} must be a number, got {value!r:.200} of type {type(value).__name__}")
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _describe(error: BaseException) -> str:
    message = re.sub(r"\s+", " ", str(error)).strip()
    text = f"{type(error).__name__}: {message}" if message else type(error).__name__
    if len(text) > _ERROR_LENGTH:
        text = text[: _ERROR_LENGTH - 1] + "…"
    return text + _where(error)


def _where(error: BaseException) -> str:
    """Return the last frames that belong to the study and the method, innermost last."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename != __file__ and not frame.filename.startswith("<frozen")
    ]
    own = [frame for frame in frames if _is_own(os.path.realpath(frame.filename))]
    shown = (own or frames[-1:])[-_FRAMES:]
    if not shown:
        return ""
    return " [" + " > ".join(f"{Path(f.filename).name}:{f.lineno} in {f.name}" for f in shown) + "]"


def _is_own(filename: str) -> bool:
    return filename.startswith(_PACKAGE) or not filename.startswith(_LIBRARIES)


class _Watch:
    """Wall time, processor time and peak memory between `start` and the first `stop`."""

    def __init__(self) -> None:
        self._begin: tuple[float, float] | None = None
        self._figures = (0.0, 0.0, 0.0)

    def start(self) -> None:
        _reset_peak()
        self._begin = (time.perf_counter(), _cpu_seconds())

    def stop(self) -> tuple[float, float, float]:
        if self._begin is not None:
            wall, cpu = self._begin
            self._figures = (time.perf_counter() - wall, _cpu_seconds() - cpu, _peak_mb())
            self._begin = None
        return self._figures


def _cpu_seconds() -> float:
    try:
        import resource
    except ImportError:  # Windows
        return time.process_time()
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def _reset_peak() -> None:
    """Set the kernel's high-water mark of this process back to what it uses now (Linux only)."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _peak_mb() -> float:
    with contextlib.suppress(OSError):
        found = re.search(r"^VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
        if found:
            return int(found[1]) * 1024 / 1e6
    try:
        import resource
    except ImportError:  # Windows
        return math.nan
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e6


@contextlib.contextmanager
def _soft_timeout(seconds: float | None) -> Iterator[None]:
    """Raise `TrialTimeout` in the calling thread once `seconds` have passed, and again until it leaves the block.

    The exception is set from a second thread and comes at the next Python instruction of the first one.
    """
    if seconds is None:
        yield
        return
    raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc
    ident = ctypes.c_ulong(threading.get_ident())
    finished = threading.Lock()  # locked while the trial runs; a bare lock, for the exception may come anywhere
    finished.acquire()

    def nudge() -> None:
        wait = seconds
        while not finished.acquire(timeout=wait):
            raise_in(ident, ctypes.py_object(TrialTimeout))
            wait = _NUDGE_SECONDS

    watcher = threading.Thread(target=nudge, daemon=True, name="trial-timeout")
    watcher.start()
    try:
        yield
    finally:
        while watcher.is_alive():
            try:
                if finished.locked():
                    finished.release()
                watcher.join(0.01)
            except TrialTimeout:  # the trial was over already
                continue
        raise_in(ident, None)


@contextlib.contextmanager
def _hard_timeout(seconds: float | None) -> Iterator[None]:
    """End this process if the block is not left `hard_limit` seconds after its start, whatever it is doing."""
    if seconds is None:
        yield
        return
    with open(os.devnull, "w") as sink:
        faulthandler.dump_traceback_later(hard_limit(seconds), exit=True, file=sink)
        try:
            yield
        finally:
            faulthandler.cancel_dump_traceback_later()


@contextlib.contextmanager
def _thread_limits(threads: int) -> Iterator[None]:
    """Hold the numerical libraries that are loaded to `threads` threads."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(_controller(len(sys.modules)).limit(limits=threads))
        torch = sys.modules.get("torch")
        if torch is not None and hasattr(torch, "set_num_threads"):
            before = torch.get_num_threads()
            torch.set_num_threads(threads)
            stack.callback(torch.set_num_threads, before)
        yield


@lru_cache(maxsize=1)
def _controller(n_modules: int) -> Any:
    """Return what controls the libraries loaded now; searched anew only when modules were imported in between."""
    del n_modules
    import threadpoolctl

    return threadpoolctl.ThreadpoolController()
