"""Runs: complete, resumable, the same everywhere, and honest about what failed."""

import dataclasses
import json
import math
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from paperworks.bench import runner
from paperworks.bench.executors import ExecutorError
from paperworks.bench.runner import Event, RunInterrupted, RunResult, run_study
from paperworks.bench.store import Store
from paperworks.bench.study import OwnData, Scale, Study, StudyError
from paperworks.bench.worker import read_study

STUDIES = Path(__file__).parent / "studies"
ARITHMETIC = str(STUDIES / "arithmetic.py")
PROBING = str(STUDIES / "probing.py")
STOPWATCH = str(STUDIES / "stopwatch.py")


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "results.sqlite") as opened:
        yield opened


@pytest.fixture
def marks(tmp_path, monkeypatch):
    """Count how often each trial has run."""
    monkeypatch.setenv("ARITHMETIC_MARKS", str(tmp_path))

    def count() -> Counter[str]:
        path = tmp_path / "marks.txt"
        return Counter(path.read_text().splitlines()) if path.exists() else Counter()

    return count


def metrics_of(result: RunResult) -> dict[tuple[str, str, int], tuple[float, ...]]:
    names = [name for name in ("score", "loss") if name in result.results]
    return {
        (row.contender, row.dataset, row.seed): tuple(getattr(row, name) for name in names)
        for row in result.results.itertuples()
    }


# --- A run ---


def test_a_run_computes_the_grid_and_judges_it(store):
    events: list[Event] = []
    result = run_study(ARITHMETIC, scale="quick", jobs=2, store=store, on_event=events.append)
    trial = read_study(f"file:{ARITHMETIC}").trial
    expected = {}
    for contender in ("method", "peer"):
        for dataset in ("plain", "other"):
            for seed in range(3):
                values = trial(contender, dataset, seed, "quick")
                expected[contender, dataset, seed] = (values["score"], values["loss"])
    assert metrics_of(result) == expected
    assert result.verdict is not None
    assert result.verdict.verdict == "holds"
    assert result.run.verdict == json.loads(json.dumps(result.verdict.to_json()))
    assert result.run.status == "done"
    assert (result.run.n_planned, result.run.n_done, result.n_failed, result.n_reused) == (12, 12, 0, 0)
    assert result.left_out == ()
    assert [event.kind for event in events] == ["planned"] + ["trial"] * 12
    assert [event.n_done for event in events] == list(range(13))
    assert {event.n_total for event in events} == {12}
    assert store.latest()["arithmetic"].id == result.run.id


def test_a_run_says_where_and_with_what_it_ran(store):
    run = run_study(ARITHMETIC, scale="smoke", jobs=1, store=store).run
    assert run.machine["host"]
    assert run.machine["pid"] == os.getpid()
    assert run.machine["cpu_count"] == os.cpu_count()
    assert run.versions["numpy"] == np.__version__
    assert run.arguments["seeds"] == [0, 1]
    assert run.arguments["study"] == f"file:{ARITHMETIC}"
    assert run.arguments["backend"] == "loky"
    assert len(run.arguments["source"]) == 64
    assert run.version
    assert run.family == "tests"


def test_trials_run_seed_by_seed(store, marks, tmp_path):
    run_study(ARITHMETIC, scale="quick", jobs=1, store=store)
    lines = (tmp_path / "marks.txt").read_text().splitlines()
    assert lines == [f"{c} {d} {s}" for s in range(3) for d in ("plain", "other") for c in ("method", "peer")]


def test_a_second_run_reuses_and_a_fresh_one_does_not(store, marks):
    events: list[Event] = []
    first = run_study(ARITHMETIC, scale="quick", seeds=[0, 1], jobs=2, store=store)
    more = run_study(ARITHMETIC, scale="quick", jobs=2, store=store, on_event=events.append)
    assert more.n_reused == 8
    assert max(marks().values()) == 1
    assert [event.kind for event in events] == ["planned", "reused"] + ["trial"] * 4
    assert metrics_of(first).items() <= metrics_of(more).items()
    assert more.run.n_done == 12
    again = run_study(ARITHMETIC, scale="quick", store=store)
    assert again.n_reused == 12
    assert metrics_of(again) == metrics_of(more)
    assert max(marks().values()) == 1
    fresh = run_study(ARITHMETIC, scale="quick", jobs=2, store=store, fresh=True)
    assert fresh.n_reused == 0
    assert set(marks().values()) == {2}
    assert metrics_of(fresh) == metrics_of(more)


def test_another_scale_or_number_of_threads_is_another_result(store, marks):
    run_study(ARITHMETIC, scale="smoke", jobs=1, store=store)
    assert run_study(ARITHMETIC, scale="quick", datasets=["plain"], jobs=1, store=store).n_reused == 0
    assert run_study(ARITHMETIC, scale="smoke", jobs=1, threads=2, store=store).n_reused == 0


def test_a_changed_study_is_run_again(store, tmp_path):
    path = tmp_path / "mine.py"
    source = Path(ARITHMETIC).read_text()
    path.write_text(source)
    before = run_study(str(path), scale="smoke", seeds=range(8), jobs=1, store=store)
    path.write_text(source.replace('"method": 1.0', '"method": -50.0'))
    after = run_study(str(path), scale="smoke", seeds=range(8), jobs=1, store=store)
    assert after.n_reused == 0
    for key, (score, _) in metrics_of(after).items():
        assert score == pytest.approx(metrics_of(before)[key][0] - (51 if key[0] == "method" else 0), abs=1e-9)
    assert before.verdict.verdict == "holds"
    assert after.verdict.verdict == "fails"


# --- Failures ---


def test_failures_are_stored_and_tried_again_alone(store, marks):
    datasets = ["plain", "fails", "exits", "undefined"]
    options = {"scale": "smoke", "contenders": ["method", "peer"], "datasets": datasets, "seeds": [0], "jobs": 2}
    first = run_study(ARITHMETIC, store=store, **options)
    status = {(row.contender, row.dataset): (row.status, row.error) for row in first.results.itertuples()}
    assert first.n_failed == first.run.n_failed == 2
    assert first.run.status == "done"
    assert status["peer", "fails"][0] == "failed"
    assert status["peer", "fails"][1].startswith("ValueError: this data set is too hard")
    assert status["peer", "exits"][0] == "crashed"
    assert "exit code 9" in status["peer", "exits"][1]
    assert [value[0] for value in status.values()].count("ok") == 6
    undefined = first.results[first.results["dataset"] == "undefined"]
    assert undefined["score"].isna().all()
    assert (undefined["loss"] == math.inf).all()
    before = marks()
    second = run_study(ARITHMETIC, store=store, **options)
    assert second.n_reused == 6
    assert set(marks() - before) == {"peer fails 0", "peer exits 0"}
    assert second.n_failed == 2


def test_a_limit_on_time_is_one_trials_own(store):
    result = run_study(
        ARITHMETIC, scale="smoke", datasets=["slow-python", "plain"], seeds=[0], timeout=0.5, jobs=2, store=store
    )
    statuses = {(row.contender, row.dataset): row.status for row in result.results.itertuples()}
    assert statuses == {
        ("method", "slow-python"): "ok",
        ("peer", "slow-python"): "timeout",
        ("method", "plain"): "ok",
        ("peer", "plain"): "ok",
    }
    assert result.results["wall_seconds"].max() >= 0.5


def test_a_contender_that_lacks_its_library_is_left_out_and_said(store):
    events: list[Event] = []
    result = run_study(
        ARITHMETIC, scale="smoke", contenders=["method", "needy"], jobs=1, store=store, on_event=events.append
    )
    assert result.left_out == ("needy",)
    assert set(result.results["contender"]) == {"method"}
    assert [event.kind for event in events[:2]] == ["left_out", "planned"]
    assert events[0].message == (
        'needy left out, it needs no-such-distribution; install with: pip install "no-such-distribution"'
    )
    assert result.run.arguments["left_out"] == ["needy"]
    with pytest.raises(ImportError, match=r'no contender can run: needy left out.*pip install "no-such-dist'):
        run_study(ARITHMETIC, scale="smoke", contenders=["needy"], store=store)


def test_what_the_study_needs_is_said_before_anything_runs(store, marks, monkeypatch):
    study = dataclasses.replace(read_study(f"file:{ARITHMETIC}"), extras=("torch",))
    monkeypatch.setattr(runner, "missing_distributions", lambda names: names)
    with pytest.raises(ImportError, match=r'study \'arithmetic\' needs torch; .* pip install "paperworks\[torch\]"'):
        run_study(study, scale="smoke", store=store)
    with pytest.raises(StudyError, match="paperworks has no extra 'no-such-extra'"):
        run_study(dataclasses.replace(study, extras=("no-such-extra",)), scale="smoke", store=store)
    assert store.runs() == []
    assert not marks()


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"contenders": ["methd"]}, ValueError, "unknown contender 'methd'; the study has method, "),
        ({"datasets": ["othr"]}, ValueError, "unknown dataset 'othr'; the study has other, "),
        ({"contenders": []}, ValueError, "contenders must not be empty"),
        ({"datasets": "plain"}, TypeError, "datasets must be a sequence of names, got the text 'plain'"),
        ({"seeds": [-1]}, ValueError, "seeds must be at least 0, got -1"),
        ({"seeds": [0.5]}, TypeError, "seeds must be an integer, got 0.5"),
        ({"seeds": []}, ValueError, "seeds must not be empty"),
        ({"scale": "huge"}, ValueError, "scale must be one of 'smoke', 'quick', 'paper'; got 'huge'"),
        ({"timeout": 0}, ValueError, "timeout must be a finite number > 0, got 0"),
        ({"jobs": 0}, ValueError, "jobs must be at least 1, got 0"),
        ({"backend": "slurm"}, ValueError, "backend must be one of"),
        ({"address": "auto"}, ValueError, "address is for a running ray or dask cluster"),
    ],
)
def test_wrong_arguments_stop_before_the_run(store, options, error, message):
    with pytest.raises(error, match=message.replace("(", r"\(")):
        run_study(ARITHMETIC, store=store, **options)
    assert store.runs() == []


def test_unknown_studies_stop_before_the_run(store, tmp_path):
    with pytest.raises(LookupError, match="no study named 'no-such-study'"):
        run_study("no-such-study", store=store)
    with pytest.raises(FileNotFoundError, match=r"gone\.py does not exist"):
        run_study(f"file:{tmp_path / 'gone.py'}", store=store)
    with pytest.raises(TypeError, match="study must be a name or a Study, got int"):
        run_study(3, store=store)  # type: ignore[arg-type]
    assert store.runs() == []


def test_an_error_after_the_trials_loses_none_of_them(store, monkeypatch):
    import paperworks.bench.verdict as verdict

    def broken(study: Study, results: object) -> None:
        raise ZeroDivisionError("no verdict")

    with monkeypatch.context() as patch:
        patch.setattr(verdict, "judge", broken)
        with pytest.raises(ZeroDivisionError):
            run_study(ARITHMETIC, scale="smoke", jobs=1, store=store)
    (run,) = store.runs()
    assert (run.status, run.n_done, run.verdict) == ("interrupted", 4, None)
    assert run_study(ARITHMETIC, scale="smoke", jobs=1, store=store).n_reused == 4


# --- Own data ---


@pytest.fixture
def table(tmp_path):
    from paperworks.datasets import own_file

    def write(path: Path, n_yes: int):
        path.parent.mkdir(exist_ok=True)
        rows = [f"{i},{'yes' if i < n_yes else 'no'}" for i in range(20)]
        path.write_text("size,sold\n" + "\n".join(rows) + "\n")
        return own_file(path, target="sold")

    return write


def test_own_data_replaces_the_studys_data(store, table, tmp_path):
    own = table(tmp_path / "shop.csv", 5)
    result = run_study(ARITHMETIC, scale="smoke", own=own, jobs=1, store=store)
    assert set(result.results["dataset_label"]) == {own.label}
    scores = result.results.set_index("contender")["score"]
    assert (scores["method"] == 1.25).all()
    assert (scores["peer"] == 0.25).all()
    assert result.run.arguments["own"]["sha256"] == own.digest


def test_a_changed_file_is_computed_anew_and_a_moved_one_is_not(store, table, tmp_path):
    run_study(ARITHMETIC, scale="smoke", own=table(tmp_path / "shop.csv", 5), jobs=1, store=store)
    changed = run_study(ARITHMETIC, scale="smoke", own=table(tmp_path / "shop.csv", 10), jobs=1, store=store)
    assert changed.n_reused == 0
    assert set(changed.results["score"]) == {1.5, 0.5}
    moved = run_study(ARITHMETIC, scale="smoke", own=table(tmp_path / "new" / "name.csv", 5), jobs=1, store=store)
    assert moved.n_reused == 4
    assert set(moved.results["score"]) == {1.25, 0.25}


def test_own_data_where_it_has_no_place(store, table, tmp_path):
    own = table(tmp_path / "shop.csv", 5)
    with pytest.raises(ValueError, match="study 'probing' can't run on data of your own"):
        run_study(PROBING, own=own, store=store)
    with pytest.raises(ValueError, match="datasets and own data exclude each other"):
        run_study(ARITHMETIC, own=own, datasets=["plain"], store=store)


# --- The same everywhere ---


def test_results_do_not_depend_on_jobs_or_hash_seed(tmp_path):
    code = (
        "import sys; from paperworks.bench.runner import run_study; from paperworks.bench.store import Store\n"
        "with Store(sys.argv[1]) as store:\n"
        "    for path, name in ((sys.argv[3], 'score'), (sys.argv[4], 'hash')):\n"
        "        frame = run_study(path, scale='smoke', jobs=int(sys.argv[2]), store=store).results\n"
        "        frame = frame.sort_values(['contender', 'dataset', 'seed'])\n"
        "        print([float(value).hex() for value in frame[name]])\n"
    )
    outputs = []
    for number, (seed, jobs) in enumerate([("1", "1"), ("2", "2")]):
        arguments = [str(tmp_path / f"{number}.sqlite"), jobs, ARITHMETIC, PROBING]
        environment = {**os.environ, "PYTHONHASHSEED": seed, "OMP_NUM_THREADS": jobs}
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments], capture_output=True, text=True, env=environment, check=False
        )
        assert done.returncode == 0, done.stderr
        outputs.append(done.stdout)
    assert outputs[0] == outputs[1]
    assert outputs[0].count("0x") == 8
    assert len(set(outputs[0].splitlines()[0].split(", "))) == 4  # seeds and contenders differ


def test_global_random_states_are_neither_used_nor_changed(store):
    numpy_before = np.random.get_state()  # noqa: NPY002
    python_before = random.getstate()
    run_study(ARITHMETIC, scale="smoke", jobs=1, store=store)
    numpy_after = np.random.get_state()  # noqa: NPY002
    assert all(np.array_equal(one, other) for one, other in zip(numpy_before, numpy_after, strict=True))
    assert random.getstate() == python_before


def test_where_time_is_measured_trials_take_turns_in_one_process(store):
    result = run_study(STOPWATCH, scale="smoke", jobs=2, store=store)
    frame = result.results.sort_values("begin")
    assert frame["process"].nunique() == 1
    assert (frame["begin"].to_numpy()[1:] >= frame["end"].to_numpy()[:-1]).all()
    blocks = frame[["seed", "dataset"]].apply(tuple, axis=1).to_numpy().reshape(-1, 3)
    assert all(len(set(block)) == 1 for block in blocks)
    orders = frame["contender"].to_numpy().reshape(-1, 3)
    assert Counter(order[0] for order in orders) == {"a": 2, "b": 2, "c": 2}
    assert {"".join(order) for order in orders} == {"abc", "bca", "cab"}
    assert result.run.arguments["jobs"] == 1


def test_a_run_in_another_thread(store):
    found: list[RunResult] = []
    thread = threading.Thread(target=lambda: found.append(run_study(ARITHMETIC, scale="smoke", jobs=1, store=store)))
    thread.start()
    thread.join()
    assert found[0].run.status == "done"


# --- Studies by value ---


def _study(trial, **changes) -> Study:
    return dataclasses.replace(read_study(f"file:{ARITHMETIC}"), trial=trial, **changes)


def test_a_trial_that_changes_how_numpy_treats_errors_changes_no_other(store):
    """Some libraries make underflow an error when they are imported."""

    def trial(contender, dataset, seed, scale):
        before = np.geterr()["under"] == "raise"
        np.seterr(all="raise")
        return {"score": float(before), "loss": 0.0}

    result = run_study(_study(trial, slug="raises"), scale="smoke", jobs=1, store=store)
    assert {values[0] for values in metrics_of(result).values()} == {0.0}


def test_lambdas_closures_and_classes_travel_by_value(store):
    class Model:
        def __init__(self, shift: float) -> None:
            self.shift = shift

    by_lambda = _study(lambda contender, dataset, seed, scale: {"score": seed, "loss": len(dataset)}, slug="by-lambda")
    result = run_study(by_lambda, scale="smoke", jobs=2, store=store)
    assert set(metrics_of(result).values()) == {(0.0, 5.0), (1.0, 5.0)}

    def of(shift: float):
        model = Model(shift)
        return lambda contender, dataset, seed, scale: {"score": model.shift + seed, "loss": 0}

    for shift in (2.0, 3.0):
        scales = {name: Scale(2, settings={"shift": shift}) for name in ("smoke", "quick", "paper")}
        study = _study(of(shift), slug="by-closure", scales=scales)
        result = run_study(study, scale="smoke", datasets=["plain"], contenders=["method"], jobs=2, store=store)
        assert result.n_reused == 0
        assert {values[0] for values in metrics_of(result).values()} == {shift, shift + 1}


def test_a_study_made_in_a_script_runs(tmp_path):
    script = tmp_path / "script.py"
    source = Path(ARITHMETIC).read_text()
    script.write_text(
        source + "\nif True:\n"  # without the usual guard
        "    from paperworks.bench.runner import run_study\n    from paperworks.bench.store import Store\n"
        f"    with Store({str(tmp_path / 'r.sqlite')!r}) as store:\n"
        "        r = run_study(STUDY, scale='smoke', jobs=2, store=store)\n"
        "        print(r.run.n_done, r.n_failed, r.run.status)\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.stdout == "4 0 done\n", done.stderr


def test_what_cannot_be_sent_is_named_before_the_first_trial(store, marks):
    lock = threading.Lock()

    def trial(contender: str, dataset: str, seed: int, scale: str) -> dict[str, float]:
        with lock:
            return {"score": 1.0, "loss": 1.0}

    message = (
        r"Study 'arithmetic': trial: name 'lock' of the enclosing function can't be sent.*a lock.*importable module"
    )
    with pytest.raises(StudyError, match=message):
        run_study(_study(trial), scale="smoke", store=store)
    scales = {name: Scale(1, settings={"deep": [1, {"key": lock}]}) for name in ("smoke", "quick", "paper")}
    message = r"scales: \['smoke'\]: settings: \['deep'\]: \[1\]: \['key'\] can't be sent"
    with pytest.raises(StudyError, match=message):
        run_study(_study(lambda c, d, s, k: {}, scales=scales), scale="smoke", store=store)
    assert store.runs() == []


def test_a_study_of_an_importable_module_goes_by_reference(store):
    from tests.bench.studies import arithmetic

    result = run_study(arithmetic.STUDY, scale="smoke", jobs=1, store=store)
    assert result.run.arguments["study"] == "module:tests.bench.studies.arithmetic"
    assert result.n_failed == 0
    again = run_study("tests.bench.studies.arithmetic", scale="smoke", jobs=1, store=store)
    assert again.n_reused == 4


def test_own_data_goes_with_a_study_by_value(store, table, tmp_path):
    def trial(contender: str, dataset: str, seed: int, scale: str) -> dict[str, float]:
        from paperworks.datasets import load

        return {"score": float(load(dataset).X["size"].sum()), "loss": 0.0}

    study = _study(trial, own_data=OwnData("table", "classification"))
    result = run_study(study, scale="smoke", own=table(tmp_path / "shop.csv", 5), jobs=1, store=store)
    assert set(result.results["score"]) == {190.0}


# --- Stopped and continued ---


def test_an_interrupt_keeps_what_is_done(store, marks):
    def stop(event: Event) -> None:
        if event.kind == "trial" and event.n_done == 3:
            raise KeyboardInterrupt

    with pytest.raises(RunInterrupted, match="interrupted after 3 of 12 trials; they are stored as run 1") as caught:
        run_study(ARITHMETIC, scale="quick", jobs=2, store=store, on_event=stop)
    assert isinstance(caught.value, KeyboardInterrupt)
    assert (caught.value.run_id, caught.value.n_done, caught.value.n_total) == (1, 3, 12)
    run = store.run(1)
    assert (run.status, run.n_done, run.n_planned, run.verdict) == ("interrupted", 3, 12, None)
    assert store.latest() == {}
    assert run_study(ARITHMETIC, scale="quick", jobs=2, store=store).n_reused == 3


PROGRAM = """
import os, sys
from paperworks.bench.runner import run_study
from paperworks.bench.store import Store
with Store(sys.argv[1]) as store:
    try:
        run_study(sys.argv[2], scale="smoke", datasets=["pauses"], seeds=range(12), jobs=2, store=store)
    except KeyboardInterrupt as stop:
        print(stop, file=sys.stderr)
        sys.exit(130)
"""


def _wait_until(condition, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL, signal.SIGTERM])
def test_a_run_that_is_stopped_goes_on_where_it_was(tmp_path, marks, number):
    psutil = pytest.importorskip("psutil")
    path = tmp_path / "results.sqlite"
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(path), ARITHMETIC],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    _wait_until(lambda: sum(marks().values()) >= 7)
    children = psutil.Process(process.pid).children(recursive=True)
    if number == signal.SIGINT:
        os.killpg(process.pid, number)  # as a terminal does: every process of the group gets it
    else:
        process.send_signal(number)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == (130 if number == signal.SIGINT else -number)
    _wait_until(lambda: not any(child.is_running() and child.status() != "zombie" for child in children), 20)
    with Store(path) as store:
        run = store.run(1)
        assert run.status == "interrupted"
        assert run.verdict is None
        assert 4 <= run.n_done < 24
        if number == signal.SIGINT:
            assert errors == (
                f"interrupted after {run.n_done} of 24 trials; they are stored as run 1, "
                "and the same command computes the others\n"
            )
        stored = {f"{trial.contender} {trial.dataset} {trial.seed}" for trial in store.trials(1)}
        assert len(stored) == run.n_done
        before = marks()
        options = {"scale": "smoke", "datasets": ["pauses"], "seeds": range(12), "jobs": 2}
        result = run_study(ARITHMETIC, store=store, **options)
        assert result.n_reused == run.n_done
        assert (result.run.n_done, result.n_failed) == (24, 0)
        added = marks() - before
        assert set(added) == set(marks()) - stored
        assert set(added.values()) == {1}
    with Store(tmp_path / "other.sqlite") as store:
        assert metrics_of(run_study(ARITHMETIC, store=store, **options)) == metrics_of(result)


def test_a_backend_that_fails_ends_the_run_as_interrupted(store, monkeypatch):
    class Broken:
        places = 1

        def imap_unordered(self, function, tasks):
            raise ExecutorError("no worker takes trials")

        def __enter__(self):
            return self

        def __exit__(self, *exc_info):
            pass

    monkeypatch.setattr(runner, "make_executor", lambda *args, **options: Broken())
    with pytest.raises(ExecutorError, match="no worker takes trials"):
        run_study(ARITHMETIC, scale="smoke", store=store)
    assert store.run(1).status == "interrupted"
