"""Worker processes: what a trial's outcome says, and that no trial takes another one with it."""

import dataclasses
import importlib.util
import math
import os
import signal
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from paperworks.bench import executors
from paperworks.bench.executors import Executor, ExecutorError, make_executor
from paperworks.bench.study import Study
from paperworks.bench.worker import (
    Outcome,
    Task,
    file_digest,
    hard_limit,
    read_study,
    run_isolated,
    run_trial,
    thread_environment,
)

STUDIES = Path(__file__).parent / "studies"
ARITHMETIC = f"file:{STUDIES / 'arithmetic.py'}"
PROBING = f"file:{STUDIES / 'probing.py'}"


def task(dataset: str, contender: str = "peer", seed: int = 0, *, study: str = ARITHMETIC, **options) -> Task:
    return Task(study, contender, dataset, seed, "smoke", f"{contender} {dataset} {seed}", **options)


def by_dataset(outcomes: list[Outcome]) -> dict[str, Outcome]:
    found = {outcome.task.dataset: outcome for outcome in outcomes}
    assert len(found) == len(outcomes)
    return found


# --- One trial ---


def test_a_trial_returns_what_its_function_returns():
    outcome = run_trial(task("plain", "method", 3))
    expected = read_study(ARITHMETIC).trial("method", "plain", 3, "smoke")
    assert outcome.status == "ok"
    assert outcome.error == ""
    assert outcome.metrics == expected
    assert outcome.wall_seconds > 0


def test_a_failure_is_one_line_with_type_message_and_place():
    outcome = run_trial(task("fails"))
    line = next(
        number
        for number, text in enumerate((STUDIES / "arithmetic.py").read_text().splitlines(), start=1)
        if "raise ValueError" in text
    )
    assert outcome.status == "failed"
    assert outcome.error == f"ValueError: this data set is too hard [arithmetic.py:{line} in trial]"
    assert outcome.metrics == {}


def test_system_exit_and_keyboard_interrupt_of_a_trial_do_not_get_out():
    assert run_trial(task("leaves")).error.startswith("SystemExit: 3")
    study = _study_returning(KeyboardInterrupt())
    assert run_trial(_sent(study)).error.startswith("KeyboardInterrupt")


def test_undefined_and_infinite_metrics_are_kept():
    outcome = run_trial(task("undefined"))
    assert outcome.status == "ok"
    assert math.isnan(outcome.metrics["score"])
    assert outcome.metrics["loss"] == math.inf


def _study_returning(value: object) -> Study:
    def trial(contender: str, dataset: str, seed: int, scale: str) -> object:
        if isinstance(value, BaseException):
            raise value
        return value

    return dataclasses.replace(read_study(ARITHMETIC), trial=trial)


def _sent(study: Study) -> Task:
    from paperworks.bench.sending import prepare

    return task("plain", payload=prepare(study).payload)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "must return a mapping of metrics, got NoneType"),
        ({"score": 1.0}, "without loss; the study has score, loss"),
        ({"score": 1.0, "loss": 0.0, "speed": 2.0}, "with unknown speed"),
        ({"score": 1.0, "los": 0.0}, "without loss and with unknown los"),
        ({"score": "0.9", "loss": 0.0}, "metric 'score' must be a number, got '0.9' of type str"),
        ({"score": 1.0, "loss": None}, "metric 'loss' must be a number, got None"),
        ({"score": 1j, "loss": 0.0}, "metric 'score' must be a number"),
        ({"score": np.ones(1), "loss": 0.0}, "metric 'score' must be a number"),
    ],
)
def test_malformed_metrics_fail_the_trial(value, message):
    outcome = run_trial(_sent(_study_returning(value)))
    assert outcome.status == "failed"
    assert message in outcome.error


def test_numbers_of_other_libraries_are_metrics():
    outcome = run_trial(_sent(_study_returning({"score": np.float32(0.5), "loss": np.array(2)})))
    assert outcome.metrics == {"score": 0.5, "loss": 2.0}
    assert all(type(value) is float for value in outcome.metrics.values())
    assert run_trial(_sent(_study_returning({"score": True, "loss": 10**400}))).metrics == {
        "score": 1,
        "loss": math.inf,
    }


def test_a_python_loop_is_stopped_at_its_limit():
    outcome = run_trial(task("slow-python", timeout=0.3))
    assert outcome.status == "timeout"
    assert outcome.error.startswith("stopped after 0.3 s [arithmetic.py:")
    assert 0.3 <= outcome.wall_seconds < hard_limit(0.3)


def test_a_limit_that_is_not_reached_leaves_nothing_behind():
    n_threads = threading.active_count()
    for seed in range(20):  # trials that end about when their time is up
        assert run_trial(task("pauses", seed=seed, timeout=0.1)).status in ("ok", "timeout")
    deadline = time.monotonic() + 0.3
    while time.monotonic() < deadline:  # an exception that came too late would hit here
        sum(range(100))
    assert threading.active_count() == n_threads


def test_a_trial_that_swallows_the_first_stop_gets_another():
    def trial(contender: str, dataset: str, seed: int, scale: str) -> dict[str, float]:
        while True:
            try:
                time.sleep(0.01)
            except BaseException:
                if state:
                    raise
                state.append(1)

    state: list[int] = []
    study = dataclasses.replace(read_study(ARITHMETIC), trial=trial)
    outcome = run_trial(dataclasses.replace(_sent(study), timeout=0.1))
    assert outcome.status == "timeout"


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peak memory of a trial needs Linux")
def test_peak_memory_is_that_of_the_trial():
    with make_executor("loky", jobs=1) as executor:
        tasks = [task(name, study=PROBING) for name in ("nothing", "memory", "sleep")]
        outcomes = by_dataset(list(executor.imap_unordered(run_isolated, tasks)))
    assert outcomes["memory"].peak_mb > outcomes["nothing"].peak_mb + 300  # 40 million doubles are 320 MB
    assert outcomes["sleep"].peak_mb < outcomes["memory"].peak_mb - 300


def test_processor_time_counts_children_and_not_sleep():
    with make_executor("loky", jobs=1) as executor:
        list(executor.imap_unordered(run_isolated, [task("nothing", study=PROBING)]))  # imports are not measured
        tasks = [task(name, study=PROBING) for name in ("child", "sleep")]
        outcomes = by_dataset(list(executor.imap_unordered(run_isolated, tasks)))
    assert outcomes["child"].cpu_seconds > 0.25
    assert outcomes["sleep"].wall_seconds > 0.29
    assert outcomes["sleep"].cpu_seconds < 0.25


# --- Study files ---


def test_a_study_file_is_read_anew_when_it_changed(tmp_path):
    path = tmp_path / "mine.py"
    source = (STUDIES / "arithmetic.py").read_text()
    path.write_text(source)
    ref = f"file:{path}"
    before = run_trial(task("plain", study=ref, digest=file_digest(path)))
    old = file_digest(path)
    path.write_text(source.replace('"peer": 0.0', '"peer": 100.0'))
    after = run_trial(task("plain", study=ref, digest=file_digest(path)))
    assert after.metrics["score"] == pytest.approx(before.metrics["score"] + 100, abs=1e-9)
    stale = run_trial(task("plain", study=ref, digest=old))
    assert stale.status == "failed"
    assert "differs from the one that the run was started with" in stale.error


def test_a_study_file_that_is_not_on_the_machine_is_named(tmp_path):
    outcome = run_trial(task("plain", study=f"file:{tmp_path / 'away.py'}"))
    assert outcome.status == "failed"
    assert f"the study file {tmp_path / 'away.py'} does not exist on" in outcome.error


# --- Executors ---


def test_arguments_are_checked(monkeypatch):
    with pytest.raises(ValueError, match="address is for a running ray or dask cluster, got 'tcp://h:1'"):
        make_executor("loky", address="tcp://h:1")
    with pytest.raises(ValueError, match="backend must be one of 'loky', 'ray', 'dask'; got 'slurm'"):
        make_executor("slurm")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="jobs must be at least 1, got 0"):
        make_executor("loky", jobs=0)
    with pytest.raises(TypeError, match="threads must be an integer"):
        make_executor("loky", threads=1.5)  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r'pip install "paperworks\[ray\]"'):
        make_executor("ray")
    monkeypatch.setitem(sys.modules, "dask", None)
    with pytest.raises(ImportError, match=r'pip install "paperworks\[dask\]"'):
        make_executor("dask")


@pytest.mark.parametrize(("backend", "address"), [("ray", "127.0.0.1:9"), ("dask", "tcp://127.0.0.1:9")])
def test_a_cluster_that_does_not_answer_is_named(backend, address, monkeypatch):
    if importlib.util.find_spec(backend) is None:
        pytest.skip(f"{backend} is not installed")
    monkeypatch.setattr(executors, "_CONNECT_SECONDS", 0.5)
    with pytest.raises(ExecutorError, match=f"no {backend.capitalize()} cluster at {address}"):
        make_executor(backend, address=address)


def test_tasks_are_taken_only_as_places_become_free():
    taken: list[int] = []

    def tasks():
        for seed in range(12):
            taken.append(seed)
            yield task("plain", seed=seed)

    with make_executor("loky", jobs=2) as executor:
        for n_done, _ in enumerate(executor.imap_unordered(run_isolated, tasks()), start=1):
            assert len(taken) <= n_done + 2
    assert n_done == 12


def _check_deaths(executor: Executor) -> None:
    names = ("plain", "exits", "other", "killed", "fails", "undefined", "prints")
    outcomes = by_dataset(list(executor.imap_unordered(run_isolated, [task(name) for name in names])))
    assert {name: outcome.status for name, outcome in outcomes.items()} == {
        "plain": "ok",
        "exits": "crashed",
        "other": "ok",
        "killed": "crashed",
        "fails": "failed",
        "undefined": "ok",
        "prints": "ok",
    }
    assert outcomes["exits"].error.startswith("worker process died")
    for name in ("plain", "other", "prints"):
        assert outcomes[name].metrics == read_study(ARITHMETIC).trial("peer", name, 0, "smoke")
    # Afterwards the executor goes on as if nothing had been.
    more = list(executor.imap_unordered(run_isolated, [task("plain", seed=seed) for seed in range(6)]))
    assert [outcome.status for outcome in more] == ["ok"] * 6


def test_loky_survives_the_death_of_workers(tmp_path, monkeypatch):
    monkeypatch.setenv("ARITHMETIC_MARKS", str(tmp_path))
    with make_executor("loky", jobs=2) as executor:
        _check_deaths(executor)
    marks = Counter((tmp_path / "marks.txt").read_text().splitlines())
    assert marks["peer exits 0"] == 2  # tried again, alone
    assert marks["peer killed 0"] == 2
    assert marks["peer fails 0"] == marks["peer undefined 0"] == marks["peer plain 5"] == 1


def test_loky_says_how_a_worker_died():
    with make_executor("loky", jobs=1) as executor:
        outcomes = by_dataset(list(executor.imap_unordered(run_isolated, [task("exits"), task("killed")])))
    assert outcomes["exits"].error == "worker process died, exit code 9, also when tried a second time, alone"
    assert "signal SIGKILL, perhaps for want of memory" in outcomes["killed"].error


def test_a_worker_that_is_killed_while_it_waits_is_replaced():
    with make_executor("loky", jobs=1) as executor:
        (first,) = executor.imap_unordered(run_isolated, [task("nothing", study=PROBING)])
        os.kill(int(first.metrics["pid"]), signal.SIGKILL)
        (second,) = executor.imap_unordered(run_isolated, [task("nothing", study=PROBING)])
    assert second.status == "ok"
    assert second.metrics["pid"] != first.metrics["pid"]


def test_a_trial_stuck_in_compiled_code_is_a_timeout():
    with make_executor("loky", jobs=2) as executor:
        tasks = [task("slow-c", timeout=0.2), *(task("plain", seed=seed, timeout=30) for seed in range(4))]
        outcomes = list(executor.imap_unordered(run_isolated, tasks))
    assert Counter(outcome.status for outcome in outcomes) == {"ok": 4, "timeout": 1}
    stuck = next(outcome for outcome in outcomes if outcome.status == "timeout")
    assert stuck.error.startswith("stopped after 0.2 s; it did not react")
    assert stuck.task.dataset == "slow-c"


def test_a_crash_before_the_limit_is_no_timeout():
    with make_executor("loky", jobs=1) as executor:
        (outcome,) = executor.imap_unordered(run_isolated, [task("exits", timeout=30)])
    assert outcome.status == "crashed"


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_are_limited_in_the_worker(threads):
    with make_executor("loky", jobs=1, threads=threads) as executor:
        (outcome,) = executor.imap_unordered(run_isolated, [task("nothing", study=PROBING, threads=threads)])
    assert outcome.metrics["pools"] == threads
    assert outcome.metrics["omp"] == threads
    assert outcome.metrics["joblib_jobs"] == min(threads, os.cpu_count() or 1)


def test_thread_limits_of_a_trial_do_not_stay(monkeypatch):
    import threadpoolctl

    for name, value in thread_environment(1).items():
        monkeypatch.setenv(name, value)
    with threadpoolctl.threadpool_limits(limits=2):
        before = [library["num_threads"] for library in threadpoolctl.threadpool_info()]
        assert run_trial(task("nothing", study=PROBING)).metrics["pools"] == 1
        assert [library["num_threads"] for library in threadpoolctl.threadpool_info()] == before


def test_what_a_trial_prints_does_not_reach_the_standard_output(capfd):
    with make_executor("loky", jobs=1) as executor:
        list(executor.imap_unordered(run_isolated, [task("prints")]))
    captured = capfd.readouterr()
    assert captured.out == ""
    assert "not for the screen of the run" in captured.err


def _reference_metrics() -> dict[str, dict[str, float]]:
    with make_executor("loky", jobs=1) as executor:
        tasks = [task(name, contender, seed) for name, contender, seed in _GRID]
        return {o.task.fingerprint: o.metrics for o in executor.imap_unordered(run_isolated, tasks)}


_GRID = [(name, contender, seed) for name in ("plain", "other") for contender in ("method", "peer") for seed in (0, 1)]


@pytest.mark.parametrize("backend", ["ray", "dask"])
def test_clusters_do_the_same_as_loky(backend):
    if importlib.util.find_spec(backend) is None:
        pytest.skip(f"{backend} is not installed")
    expected = _reference_metrics()
    with make_executor(backend, jobs=2) as executor:
        assert executor.places == 2
        tasks = [task(name, contender, seed) for name, contender, seed in _GRID]
        found = {o.task.fingerprint: o.metrics for o in executor.imap_unordered(run_isolated, tasks)}
        assert found == expected  # bit for bit
        (probe,) = executor.imap_unordered(run_isolated, [task("nothing", study=PROBING)])
        assert probe.metrics["pools"] == probe.metrics["omp"] == 1
        (stopped,) = executor.imap_unordered(run_isolated, [task("slow-python", timeout=0.3)])
        assert stopped.status == "timeout"
        _check_deaths(executor)
    with make_executor("loky", jobs=1) as executor:
        (local,) = executor.imap_unordered(run_isolated, [task("nothing", study=PROBING)])
    assert probe.metrics["hash"] == local.metrics["hash"]
