"""Runs started from the browser: one at a time, a short queue, each can be stopped."""

from __future__ import annotations

import queue
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from paperworks.bench.runner import Event, run_study
from paperworks.bench.store import Store

__all__ = ["Job", "Jobs", "QueueFull"]

_KEPT = 200


class QueueFull(RuntimeError):
    """No more runs can wait."""


class _Stopped(Exception):
    """The job was told to stop."""


@dataclass
class Job:
    """A run that was asked for."""

    id: str
    study: str
    scale: str
    data: str
    """What it runs on: a file's name, empty for the study's own data sets."""
    arguments: dict[str, Any] = field(repr=False)
    state: Literal["waiting", "running", "done", "failed", "stopped"] = "waiting"
    run_id: int = 0
    """Number of the run once it has begun, else 0."""
    n_done: int = 0
    n_total: int = 0
    error: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the job as plain data."""
        names = ("id", "study", "scale", "data", "state", "run_id", "n_done", "n_total", "error")
        return {name: getattr(self, name) for name in names}


class Jobs:
    """Runs jobs one after the other in a thread of its own.

    Parameters
    ----------
    open_store : callable
        Returns a `Store` for the thread of the jobs.
    max_waiting : int, default 8
        Jobs that may wait.
    jobs : int, optional
        Trials of a run at the same time; one per processor by default.
    """

    def __init__(self, open_store: Callable[[], Store], max_waiting: int = 8, jobs: int | None = None) -> None:
        self._open_store = open_store
        self._waiting: queue.Queue[Job | None] = queue.Queue()
        self._max_waiting = max_waiting
        self._places = jobs
        self._known: dict[str, Job] = {}
        self._lock = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="paperworks-jobs", daemon=True)
        self._thread.start()

    def add(self, study: str, scale: str, data: str, **arguments: Any) -> Job:
        """Queue a run of a study; `arguments` go to `run_study`.

        Raises
        ------
        QueueFull
            If too many runs are waiting.
        """
        with self._lock:
            waiting = sum(job.state == "waiting" for job in self._known.values())
            if self._closed or waiting >= self._max_waiting:
                raise QueueFull(f"{waiting} runs are waiting already; try again when some are done")
            job = Job(secrets.token_hex(8), study, scale, data, arguments)
            self._known[job.id] = job
            ended = [key for key, old in self._known.items() if old.state not in ("waiting", "running")]
            for key in ended[: max(0, len(self._known) - _KEPT)]:
                del self._known[key]
        self._waiting.put(job)
        return job

    def get(self, job_id: str) -> Job:
        """Return a job; `LookupError` if there is none of this id."""
        try:
            return self._known[job_id]
        except KeyError:
            raise LookupError(f"no job {job_id!r}") from None

    def all(self) -> list[Job]:
        """Return all jobs, newest first."""
        return list(reversed(self._known.values()))

    def stop(self, job_id: str) -> Job:
        """Take a waiting job off the queue, or stop a running one after its next trial."""
        job = self.get(job_id)
        with self._lock:
            if job.state in ("waiting", "running"):
                job.state = "stopped"
        return job

    def close(self) -> None:
        """Stop everything; trials that are done stay stored."""
        with self._lock:
            self._closed = True
            for job in self._known.values():
                if job.state in ("waiting", "running"):
                    job.state = "stopped"
        self._waiting.put(None)
        self._thread.join(timeout=30)

    def _work(self) -> None:
        while (job := self._waiting.get()) is not None:
            with self._lock:
                if job.state != "waiting":
                    continue
                job.state = "running"
            try:
                with self._open_store() as store:
                    self._run(job, store)
            except _Stopped:
                pass
            except Exception as error:  # whatever it is, it belongs to this job and the next one goes on
                job.error = " ".join(str(error).split()) or type(error).__name__
                with self._lock:
                    if job.state == "running":
                        job.state = "failed"

    def _run(self, job: Job, store: Store) -> None:
        def on_event(event: Event) -> None:
            job.run_id, job.n_done, job.n_total = event.run_id, event.n_done, event.n_total
            if job.state == "stopped":
                raise _Stopped

        result = run_study(
            job.study, scale=job.scale, jobs=self._places, store=store, on_event=on_event, **job.arguments
        )
        job.run_id = result.run.id
        with self._lock:
            if job.state == "running":
                job.state = "done"
