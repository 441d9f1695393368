"""Run a study: plan its trials, reuse those that are known, compute the others, store each at once, judge.

A run can be stopped at any moment and called again: what was stored is reused, because the fingerprint of a trial says
all that its result depends on. Nothing of a result depends on the backend or the number of jobs.
"""

from __future__ import annotations

import contextlib
import difflib
import itertools
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from paperworks import __version__
from paperworks._checks import check_choice, check_integer, check_positive
from paperworks.bench.catalog import extra_requirements, missing_distributions
from paperworks.bench.executors import Backend, check_backend, local_jobs, make_executor
from paperworks.bench.fingerprint import fingerprint, relevant_versions, source_digest
from paperworks.bench.machine import installed_versions, machine_record, source_commit
from paperworks.bench.sending import SentStudy, prepare
from paperworks.bench.store import RunRecord, Store, StoreError, TrialRecord
from paperworks.bench.study import SCALES, Contender, Study, StudyError
from paperworks.bench.worker import Outcome, Task, run_isolated

if TYPE_CHECKING:
    import pandas as pd

    from paperworks.bench.verdict import StudyVerdict
    from paperworks.datasets import OwnFile

__all__ = ["Event", "RunInterrupted", "RunResult", "fingerprint", "run_study", "source_digest"]


@dataclass(frozen=True)
class Event:
    """Something that happened during a run."""

    kind: Literal["planned", "reused", "trial", "left_out"]
    """``left_out`` comes first, once for each contender left out, then ``planned``; ``reused`` if any trial is."""
    n_done: int
    """Trials of the run with an outcome so far, those reused among them."""
    n_total: int
    outcome: Outcome | None = None
    """What became of the trial, for ``trial``."""
    message: str = ""
    """One line for people."""
    run_id: int = 0
    """Number of the run in its store."""


@dataclass(frozen=True)
class RunResult:
    """A finished run."""

    run: RunRecord
    results: pd.DataFrame
    """One row per trial, see `Store.results`."""
    verdict: StudyVerdict | None
    left_out: tuple[str, ...]
    """Contenders left out because what they need is not installed."""
    n_reused: int
    n_failed: int
    """Trials whose status is not ``ok``."""


class RunInterrupted(KeyboardInterrupt):
    """The run was stopped by Ctrl-C; what was finished is stored."""

    def __init__(self, run_id: int, n_done: int, n_total: int) -> None:
        super().__init__(
            f"interrupted after {n_done} of {n_total} trials; they are stored as run {run_id}, "
            "and the same command computes the others"
        )
        self.run_id = run_id
        self.n_done = n_done
        self.n_total = n_total


def run_study(
    study: str | Study,
    *,
    scale: str = "quick",
    seeds: Sequence[int] | None = None,
    contenders: Sequence[str] | None = None,
    datasets: Sequence[str] | None = None,
    own: OwnFile | None = None,
    jobs: int | None = None,
    backend: Backend = "loky",
    address: str | None = None,
    threads: int = 1,
    timeout: float | None = None,
    store: Store,
    fresh: bool = False,
    on_event: Callable[[Event], None] | None = None,
) -> RunResult:
    """Run a study and judge its claims.

    Parameters
    ----------
    study : str or Study
        Slug, module, file or reference of the study, or the record itself.
    scale : {"smoke", "quick", "paper"}, default="quick"
        Size of the run.
    seeds : sequence of int, optional
        Seeds; by default 0, 1, ... as many as the scale has.
    contenders, datasets : sequence of str, optional
        Names out of the study's; by default those of the scale.
    own : OwnFile, optional
        The user's own data, in place of the study's data sets.
    jobs : int, optional
        Trials at the same time; by default one per processor. A study that measures time runs one trial at a time.
    backend : {"loky", "ray", "dask"}, default="loky"
        Where trials run.
    address : str, optional
        Address of a running Ray or Dask cluster.
    threads : int, default=1
        Threads of each trial.
    timeout : float, optional
        Limit in seconds for each trial.
    store : Store
        Where results are kept.
    fresh : bool, default=False
        Compute every trial again, even if its result is known.
    on_event : callable, optional
        Called with each `Event`, in the thread that called this function.

    Returns
    -------
    RunResult
        The run as it was stored, its results and the verdict.

    Raises
    ------
    ValueError
        If an argument is out of range or names something that the study doesn't have.
    LookupError, StudyError
        If there is no such study, or it is malformed.
    ImportError
        If what the study itself needs is not installed; the message holds the install command.
    ExecutorError
        If the backend doesn't work.
    RunInterrupted
        On Ctrl-C; a `KeyboardInterrupt`. What was finished is stored.

    Examples
    --------
    >>> import tempfile
    >>> from paperworks.bench.runner import run_study
    >>> from paperworks.bench.store import Store
    >>> with tempfile.TemporaryDirectory() as folder, Store(f"{folder}/results.sqlite") as store:
    ...     result = run_study("cojer", scale="smoke", store=store)  # doctest: +SKIP
    """
    check_choice(scale, "scale", SCALES)
    if timeout is not None:
        timeout = check_positive(timeout, "timeout")
    check_backend(backend, jobs=jobs, threads=threads, address=address)
    sent = prepare(study)
    _check_extras(sent.study)
    plan = _make_plan(sent, scale, seeds, contenders, datasets, own, threads, timeout)
    known = {} if fresh else store.known([task.fingerprint for task in plan.tasks])
    pending = [task for task in plan.tasks if task.fingerprint not in known]
    n_total = len(plan.tasks)
    with contextlib.ExitStack() as stack:
        executor = None
        if pending:
            places = 1 if plan.timed else jobs or (local_jobs(threads) if address is None else None)
            places = places if places is None else min(places, len(pending))
            executor = stack.enter_context(make_executor(backend, jobs=places, threads=threads, address=address))
        run_id = store.begin_run(
            study=sent.study.slug,
            family=sent.study.family,
            scale=scale,
            n_planned=n_total,
            version=__version__,
            commit=source_commit(),
            machine=machine_record(),
            versions=installed_versions(plan.libraries),
            arguments={
                "study": sent.ref,
                "source": sent.source,
                "seeds": list(plan.seeds),
                "contenders": [contender.name for contender in plan.contenders],
                "left_out": [contender.name for contender in plan.left_out],
                "datasets": list(plan.datasets),
                "whole": seeds is None and contenders is None and datasets is None and own is None,
                "own": None if own is None else {"label": own.label, "ref": own.ref, "sha256": own.digest},
                "jobs": executor.places if executor else 0,
                "backend": backend,
                "address": address,
                "threads": threads,
                "timeout": timeout,
                "fresh": fresh,
            },
        )
        n_done = 0

        def report(event: Event) -> None:
            if on_event is not None:
                on_event(replace(event, run_id=run_id))

        try:
            for contender in plan.left_out:
                report(Event("left_out", 0, n_total, message=_why_left_out(contender)))
            report(Event("planned", 0, n_total, message=_describe_plan(plan, len(known))))
            if known:
                with _uninterrupted():
                    store.link(run_id, list(known))
                n_done = len(known)
                report(Event("reused", n_done, n_total, message=f"{_count(n_done, 'trial')} known from earlier runs"))
            for outcome in executor.imap_unordered(run_isolated, pending) if executor else ():
                with _uninterrupted():
                    store.record(run_id, _record(outcome, sent.study.slug, plan.datasets))
                    n_done += 1
                report(Event("trial", n_done, n_total, outcome, _describe_outcome(outcome, plan.datasets)))
            stack.close()
            return _finish(store, run_id, sent.study, plan, len(known))
        except BaseException as error:
            stack.close()
            with contextlib.suppress(StoreError), _uninterrupted():
                store.finish_run(run_id, "interrupted", None)
            if isinstance(error, KeyboardInterrupt):
                raise RunInterrupted(run_id, n_done, n_total) from None
            raise


@dataclass(frozen=True)
class _Plan:
    seeds: tuple[int, ...]
    datasets: dict[str, str]
    """Label by name."""
    contenders: tuple[Contender, ...]
    left_out: tuple[Contender, ...]
    timed: bool
    tasks: tuple[Task, ...]
    libraries: frozenset[str]


def _check_extras(study: Study) -> None:
    for extra in study.extras:
        needed = extra_requirements(extra)
        if not needed:
            raise StudyError(f"Study {study.slug!r}: paperworks has no extra {extra!r}")
        missing = missing_distributions(needed)
        if missing:
            raise ImportError(
                f'study {study.slug!r} needs {", ".join(missing)}; install with: pip install "paperworks[{extra}]"',
                name=missing[0],
            )


def _make_plan(
    sent: SentStudy,
    scale: str,
    seeds: Sequence[int] | None,
    contenders: Sequence[str] | None,
    datasets: Sequence[str] | None,
    own: OwnFile | None,
    threads: int,
    timeout: float | None,
) -> _Plan:
    study, size = sent.study, sent.study.scales[scale]
    chosen_seeds = _choose_seeds(seeds, size.seeds)
    names = _choose(contenders, "contender", [c.name for c in study.contenders], size.contenders)
    if own is None:
        labels = {name: name for name in _choose(datasets, "dataset", study.datasets, size.datasets)}
    else:
        if study.own_data is None:
            raise ValueError(f"study {study.slug!r} can't run on data of your own")
        if datasets is not None:
            raise ValueError(f"datasets and own data exclude each other, got datasets {list(datasets)!r} as well")
        labels = {own.ref: own.label}
    wanted = [contender for contender in study.contenders if contender.name in names]
    left_out = tuple(contender for contender in wanted if missing_distributions(contender.requires))
    present = tuple(contender for contender in wanted if contender not in left_out)
    if not present:
        raise ImportError("no contender can run: " + "; ".join(_why_left_out(contender) for contender in left_out))
    timed = any(metric.timing for metric in study.metrics)
    versions = {contender.name: relevant_versions(study, contender) for contender in present}
    record = machine_record() if timed else {}
    machine = " ".join(str(record[key]) for key in ("host", "platform", "cpu_model")) if timed else ""
    tasks = []
    # Seeds outermost, so that a run that is stopped has compared all contenders alike; where time is measured, each
    # contender is the first of its block equally often.
    for turn, (seed, dataset) in enumerate(itertools.product(chosen_seeds, labels)):
        shift = turn % len(present) if timed else 0
        for contender in present[shift:] + present[:shift]:
            mark = fingerprint(
                study=study.slug,
                contender=contender.name,
                dataset=dataset,
                seed=seed,
                scale=scale,
                source=sent.source,
                version=__version__,
                versions=versions[contender.name],
                threads=threads,
                machine=machine,
            )
            tasks.append(
                Task(
                    study=sent.ref,
                    contender=contender.name,
                    dataset=dataset,
                    seed=seed,
                    scale=scale,
                    fingerprint=mark,
                    timeout=timeout,
                    threads=threads,
                    digest=sent.digest,
                    payload=sent.payload,
                )
            )
    libraries = frozenset(name for found in versions.values() for name in found)
    return _Plan(chosen_seeds, labels, present, left_out, timed, tuple(tasks), libraries)


def _choose_seeds(seeds: Sequence[int] | None, n_seeds: int) -> tuple[int, ...]:
    if seeds is None:
        return tuple(range(n_seeds))
    chosen = tuple(check_integer(seed, "seeds", minimum=0, maximum=2**32 - 1) for seed in seeds)
    if not chosen:
        raise ValueError("seeds must not be empty")
    return tuple(dict.fromkeys(chosen))


def _choose(
    wanted: Sequence[str] | None, what: str, allowed: Sequence[str], of_scale: Sequence[str]
) -> tuple[str, ...]:
    """Return names out of `allowed`, in the order of `allowed` unless they were asked for in another."""
    if wanted is None:
        return tuple(of_scale or allowed)
    if isinstance(wanted, str):
        raise TypeError(f"{what}s must be a sequence of names, got the text {wanted!r}")
    if not wanted:
        raise ValueError(f"{what}s must not be empty")
    for name in wanted:
        if name not in allowed:
            near = sorted(allowed, key=lambda known: -difflib.SequenceMatcher(None, str(name), known).ratio())
            raise ValueError(f"unknown {what} {name!r}; the study has {', '.join(near)}")
    return tuple(dict.fromkeys(wanted))


def _finish(store: Store, run_id: int, study: Study, plan: _Plan, n_reused: int) -> RunResult:
    from paperworks.bench.verdict import judge

    results = store.results(run_id)
    verdict = judge(study, results)
    with _uninterrupted():
        store.finish_run(run_id, "done", verdict.to_json())
    run = store.run(run_id)
    left_out = tuple(contender.name for contender in plan.left_out)
    return RunResult(run, results, verdict, left_out, n_reused, run.n_failed)


def _record(outcome: Outcome, slug: str, labels: dict[str, str]) -> TrialRecord:
    task = outcome.task
    return TrialRecord(
        fingerprint=task.fingerprint,
        study=slug,
        contender=task.contender,
        dataset=task.dataset,
        dataset_label=labels[task.dataset],
        seed=task.seed,
        scale=task.scale,
        status=outcome.status,
        error=outcome.error,
        metrics=outcome.metrics,
        wall_seconds=outcome.wall_seconds,
        cpu_seconds=outcome.cpu_seconds,
        peak_mb=outcome.peak_mb,
        version=__version__,
    )


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _describe_plan(plan: _Plan, n_known: int) -> str:
    parts = [
        _count(len(plan.contenders), "contender"),
        _count(len(plan.datasets), "data set"),
        _count(len(plan.seeds), "seed"),
    ]
    text = f"{_count(len(plan.tasks), 'trial')}: {' x '.join(parts)}"
    if n_known:
        text += f"; {n_known:,} known already"
    return text + ("; one trial at a time, because time is measured" if plan.timed else "")


def _describe_outcome(outcome: Outcome, labels: dict[str, str]) -> str:
    task = outcome.task
    text = f"{task.contender} on {labels[task.dataset]}, seed {task.seed}: "
    return text + (f"{outcome.wall_seconds:.2f} s" if outcome.status == "ok" else f"{outcome.status}, {outcome.error}")


def _why_left_out(contender: Contender) -> str:
    missing = ", ".join(missing_distributions(contender.requires))
    return f'{contender.name} left out, it needs {missing}; install with: pip install "{contender.install}"'


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Put Ctrl-C off to the end of the block, so that a trial is stored whole and counted, or not at all."""
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    caught: list[tuple[int, Any]] = []
    signal.signal(signal.SIGINT, lambda number, frame: caught.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if caught:
            handler(*caught[0])
