"""Where trials run: processes of this machine (loky), a Ray cluster or a Dask cluster.

All three do the same. They keep as many trials in flight as there are places, hand back each outcome as soon as it is
there, and survive the death of a worker process: its trial is tried a second time when all others are done, alone, so
that one that was killed for want of memory gets all of it; if its process dies again, the trial has *crashed*.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import signal
import socket
import threading
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from functools import partial
from itertools import islice
from multiprocessing import resource_tracker
from typing import Any, Literal, Self

from joblib import cpu_count
from joblib.externals.loky import ProcessPoolExecutor
from joblib.externals.loky.backend import resource_tracker as loky_tracker
from joblib.externals.loky.process_executor import BrokenProcessPool, TerminatedWorkerError

from paperworks._checks import check_choice, check_integer, extra
from paperworks.bench.worker import Outcome, Task, hard_limit, thread_environment

__all__ = ["BACKENDS", "Backend", "Executor", "ExecutorError", "check_backend", "local_jobs", "make_executor"]

Backend = Literal["loky", "ray", "dask"]
BACKENDS: tuple[Backend, ...] = ("loky", "ray", "dask")

Function = Callable[[Task], Outcome]

_PARENT_POLL_SECONDS = 1.0
_CONNECT_SECONDS = 10.0


class ExecutorError(RuntimeError):
    """The backend itself doesn't work: no trial can run on it."""


class _WorkerDied(Exception):
    """The process that ran a trial is gone; the message says how."""


@dataclass(frozen=True)
class _Flight:
    task: Task
    submitted: float


class Executor(ABC):
    """Runs tasks in worker processes; a context manager.

    A backend says how to submit one task, how to wait for any of several, and how to take a result.
    """

    places: int
    """Number of trials that run at the same time."""
    exact: bool = True
    """Whether a death is surely that of the trial it is reported for."""

    def imap_unordered(self, function: Function, tasks: Iterable[Task]) -> Iterator[Outcome]:
        """Run ``function(task)`` for every task.

        Parameters
        ----------
        function : callable
            Importable function that never raises.
        tasks : iterable of Task
            Taken one by one, as places become free.

        Yields
        ------
        Outcome
            One per task, in the order in which they finish.

        Raises
        ------
        ExecutorError
            If the backend can't run the function at all.
        """
        again: list[Task] = []
        for flight, result in self._fly(function, tasks, self.places):
            if isinstance(result, Outcome):
                yield result
            elif self.exact and _ran_out_of_time(flight, result):
                yield _lost(flight, result)
            else:
                again.append(flight.task)
        for flight, result in self._fly(function, again, 1):
            yield result if isinstance(result, Outcome) else _lost(flight, result)

    def _fly(
        self, function: Function, tasks: Iterable[Task], places: int
    ) -> Iterator[tuple[_Flight, Outcome | _WorkerDied]]:
        remaining = iter(tasks)
        flying: dict[Any, _Flight] = {}
        while True:
            for task in islice(remaining, places - len(flying)):
                flying[self._submit(function, task)] = _Flight(task, time.monotonic())
            if not flying:
                return
            for handle in self._wait(flying):
                flight = flying.pop(handle)
                try:
                    yield flight, self._result(handle)
                except _WorkerDied as death:
                    yield flight, death

    @abstractmethod
    def _submit(self, function: Function, task: Task) -> Any:
        """Start a task and return a hashable handle."""

    @abstractmethod
    def _wait(self, handles: Collection[Any]) -> Collection[Any]:
        """Wait until at least one of the handles is done and return those that are."""

    @abstractmethod
    def _result(self, handle: Any) -> Outcome:
        """Return the result behind a handle that is done, or raise `_WorkerDied`."""

    @abstractmethod
    def close(self) -> None:
        """Stop at once what still runs, and everything that this executor started."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def make_executor(
    backend: Backend, *, jobs: int | None = None, threads: int = 1, address: str | None = None
) -> Executor:
    """Return an executor.

    Parameters
    ----------
    backend : {"loky", "ray", "dask"}
        Where trials run.
    jobs : int, optional
        Number of trials at the same time; by default as many as there are processors for, on this machine or, with
        `address`, on the cluster.
    threads : int, default=1
        Threads of each trial.
    address : str, optional
        Address of a running Ray or Dask cluster; without it one is started on this machine and stopped again. After
        a change of code, restart the workers of a running cluster: they keep the modules that they have imported.

    Returns
    -------
    Executor
        To be closed after use.

    Raises
    ------
    ImportError
        If the backend is not installed; the message holds the install command.
    ValueError
        If an argument is out of range, or `address` is given for loky.
    ExecutorError
        If the cluster can't be reached.
    """
    check_backend(backend, jobs=jobs, threads=threads, address=address)
    if backend == "loky":
        return _Loky(jobs or local_jobs(threads), threads)
    if backend == "ray":
        return _Ray(jobs, threads, address)
    return _Dask(jobs, threads, address)


def check_backend(backend: str, *, jobs: int | None, threads: int, address: str | None) -> None:
    """Check the arguments of `make_executor` without starting anything."""
    check_choice(backend, "backend", BACKENDS)
    check_integer(threads, "threads", minimum=1)
    if jobs is not None:
        check_integer(jobs, "jobs", minimum=1)
    if backend == "loky" and address is not None:
        raise ValueError(
            f"address is for a running ray or dask cluster, got {address!r} with backend 'loky', "
            "which runs on this machine"
        )


def local_jobs(threads: int) -> int:
    """Return how many trials of `threads` threads the processors of this machine can take at the same time."""
    return max(1, int(cpu_count()) // threads)


def _ran_out_of_time(flight: _Flight, death: _WorkerDied) -> bool:
    """Whether a worker died because its trial passed the hard limit, which ends the process with exit code 1."""
    if flight.task.timeout is None:
        return False
    known = re.search(r"exit code (-?\d+)|signal", str(death))
    late = time.monotonic() - flight.submitted >= hard_limit(flight.task.timeout)
    return late and (known is None or known[1] == "1")


def _lost(flight: _Flight, death: _WorkerDied) -> Outcome:
    seconds = time.monotonic() - flight.submitted
    if _ran_out_of_time(flight, death):
        text = f"stopped after {flight.task.timeout:g} s; it did not react, so its worker process was ended"
        return Outcome(flight.task, "timeout", text, wall_seconds=seconds)
    return Outcome(flight.task, "crashed", f"{death}, also when tried a second time, alone", wall_seconds=seconds)


@contextlib.contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Start processes that Ctrl-C doesn't reach: they inherit the blocked signal, and this process ends them."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    for tracker in (resource_tracker, loky_tracker):  # whose own start would unblock the signal again
        tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Loky(Executor):
    """One loky pool of one process per place, so that a death is that of the one trial that ran there."""

    def __init__(self, jobs: int, threads: int) -> None:
        self.places = jobs
        self._environment = thread_environment(threads)
        self._pools: list[Any] = []
        self._idle: list[Any] = []
        self._busy: dict[Future[Outcome], Any] = {}
        # A worker that has grown by much is replaced by loky between two trials, which is welcome here.
        warnings.filterwarnings("ignore", "A worker stopped while some jobs were given", UserWarning)

    def _submit(self, function: Function, task: Task) -> Any:
        pool = future = None
        if self._idle:
            pool = self._idle.pop()
            try:
                future = pool.submit(function, task)
            except BrokenProcessPool:  # killed from outside while it had nothing to do
                self._stop(pool)
        if future is None:
            pool = ProcessPoolExecutor(1, env=self._environment, initializer=_start_worker, initargs=(os.getpid(),))
            self._pools.append(pool)
            with _interrupts_blocked():
                future = pool.submit(function, task)  # which starts the process
        self._busy[future] = pool
        return future

    def _stop(self, pool: Any) -> None:
        pool.shutdown(wait=True, kill_workers=True)
        self._pools.remove(pool)

    def _wait(self, handles: Collection[Any]) -> Collection[Any]:
        return wait(handles, return_when=FIRST_COMPLETED).done

    def _result(self, handle: Any) -> Outcome:
        pool = self._busy.pop(handle)
        try:
            outcome: Outcome = handle.result()
        except TerminatedWorkerError as error:
            self._stop(pool)
            raise _WorkerDied(_exit_reason(str(error))) from None
        except Exception as error:
            cause = str(error.__cause__ or error).strip()
            raise ExecutorError(f"a worker process could not take a trial: {cause}") from error
        self._idle.append(pool)
        return outcome

    def close(self) -> None:
        for pool in list(self._pools):
            self._stop(pool)
        self._idle.clear()
        self._busy.clear()


def _exit_reason(message: str) -> str:
    """Say how a worker ended, from loky's text ``{SIGKILL(-9)}`` or ``{EXIT(9)}``."""
    found = re.search(r"\{([A-Z0-9]+)\((-?\d+)\)", message)
    if not found:
        return "worker process died"
    if int(found[2]) < 0:
        memory = ", perhaps for want of memory" if found[1] == "SIGKILL" else ""
        return f"worker process died, signal {found[1]}{memory}"
    return f"worker process died, exit code {found[2]}"


def _start_worker(parent: int) -> None:
    """Prepare a loky worker: deaf to Ctrl-C, and gone once the process that started it is."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if os.name == "posix":
        threading.Thread(target=_follow, args=(parent,), daemon=True, name="follow-parent").start()


def _follow(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_PARENT_POLL_SECONDS)
    os._exit(0)


class _Ray(Executor):
    """Ray tasks without retries; a local cluster unless an address is given or Ray is connected already."""

    exact = False  # Ray says nothing about how a worker ended, and a trial may have waited for one to start

    def __init__(self, jobs: int | None, threads: int, address: str | None) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        with extra("ray"):
            import ray
        self._ray: Any = ray
        self._owner = not self._ray.is_initialized()
        if self._owner:
            options: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
            if address is None:
                jobs = jobs or local_jobs(threads)
                options |= {"address": "local", "num_cpus": jobs * threads, "include_dashboard": False}
            else:
                _check_reachable(address)
                options["address"] = address
            _keep_stdout_clean()
            try:
                self._ray.init(**options)
            except (ConnectionError, ValueError, RuntimeError) as error:
                raise ExecutorError(f"no Ray cluster at {address or 'this machine'}: {error}") from error
        self.places = jobs or max(1, int(self._ray.cluster_resources().get("CPU", 1)) // threads)
        self._options = {
            "max_retries": 0,
            "num_cpus": threads,
            "runtime_env": {"env_vars": thread_environment(threads)},
        }
        self._remote: dict[Function, Any] = {}

    def _submit(self, function: Function, task: Task) -> Any:
        if function not in self._remote:
            self._remote[function] = self._ray.remote(**self._options)(function)
        return self._remote[function].remote(task)

    def _wait(self, handles: Collection[Any]) -> Collection[Any]:
        done: list[Any] = self._ray.wait(list(handles), num_returns=1)[0]
        return done

    def _result(self, handle: Any) -> Outcome:
        errors = self._ray.exceptions
        try:
            outcome: Outcome = self._ray.get(handle)
        except (
            errors.WorkerCrashedError,
            errors.OutOfMemoryError,
            errors.NodeDiedError,
            errors.LocalRayletDiedError,
            errors.ObjectLostError,
        ) as error:
            memory = " for want of memory" if isinstance(error, errors.OutOfMemoryError) else ""
            raise _WorkerDied(f"worker process died{memory}") from None
        except Exception as error:
            raise ExecutorError(f"a Ray worker could not take a trial: {error}") from error
        return outcome

    def close(self) -> None:
        if self._owner and self._ray.is_initialized():
            self._ray.shutdown()


def _check_reachable(address: str) -> None:
    """Say at once that nothing answers at ``host:port``: Ray itself tries for minutes and then ends the process."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal():  # "auto" and the like
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise ExecutorError(f"no Ray cluster at {address}: {error}") from error


def _keep_stdout_clean() -> None:
    """Let Ray report dead workers on the standard error: the standard output belongs to the results."""
    import ray._private.worker as worker

    show: Any = getattr(worker, "print_to_stdstream", None)
    if show is not None and not hasattr(show, "func"):
        worker.print_to_stdstream = partial(_show_on_stderr, show)


def _show_on_stderr(show: Callable[..., None], data: dict[str, Any], *args: Any, **options: Any) -> None:
    show({**data, "is_err": True}, *args, **options)


class _Dask(Executor):
    """A Dask cluster of processes with one thread each, unless an address is given."""

    exact = False  # two trials may wait at the same worker

    def __init__(self, jobs: int | None, threads: int, address: str | None) -> None:
        with extra("dask"):
            import dask
            import distributed as _distributed
        distributed: Any = _distributed
        self._distributed = distributed
        self._cluster: Any = None
        self._client: Any = None
        options: dict[str, Any] = {"set_as_default": False}
        if address is None:
            settings = {
                "distributed.nanny.pre-spawn-environ": thread_environment(threads),
                "distributed.scheduler.allowed-failures": 0,
            }
            with dask.config.set(settings), _interrupts_blocked():
                try:
                    self._cluster = distributed.LocalCluster(
                        n_workers=jobs or local_jobs(threads),
                        threads_per_worker=1,
                        processes=True,
                        dashboard_address=":0",
                        memory_limit=0,
                        silence_logs=logging.CRITICAL,
                    )
                except RuntimeError as error:
                    raise ExecutorError(
                        f"the local Dask cluster did not start ({error}); in a script, what starts it must stand under "
                        "`if __name__ == '__main__':`"
                    ) from error
                self._client = distributed.Client(self._cluster, **options)
        else:
            try:
                self._client = distributed.Client(address, timeout=_CONNECT_SECONDS, **options)
            except (OSError, ValueError) as error:
                raise ExecutorError(f"no Dask cluster at {address}: {error}") from error
        workers = len(self._client.scheduler_info(n_workers=-1)["workers"])
        self.places = min(jobs, workers or jobs) if jobs is not None else max(1, workers)

    def _submit(self, function: Function, task: Task) -> Any:
        return self._client.submit(function, task, pure=False, retries=0)

    def _wait(self, handles: Collection[Any]) -> Collection[Any]:
        with self._client.as_current():
            done: Collection[Any] = self._distributed.wait(list(handles), return_when="FIRST_COMPLETED").done
        return done

    def _result(self, handle: Any) -> Outcome:
        try:
            outcome: Outcome = handle.result()
        except (self._distributed.KilledWorker, self._distributed.client.FutureCancelledError):
            raise _WorkerDied("worker process died") from None
        except Exception as error:
            raise ExecutorError(f"a Dask worker could not take a trial: {error}") from error
        finally:
            handle.release()
        return outcome

    def close(self) -> None:
        for part in (self._client, self._cluster):
            if part is not None:
                part.close(timeout=5)
        self._client = self._cluster = None
