"""The store of results: what goes in comes out, whoever else writes and whatever dies. On SQLite and on PostgreSQL."""

from __future__ import annotations

import math
import os
import signal
import sqlite3
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import alembic.op
import numpy as np
import pandas as pd
import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paperworks.bench.store import RESULT_COLUMNS, Store, StoreError, TrialRecord
from paperworks.bench.store.database import _alembic_config
from paperworks.bench.store.schema import METADATA, METRIC, REVISION, RUN, RUN_TRIAL, TRIAL, VERSION_TABLE

TRIAL_OK = TrialRecord(
    fingerprint="a" * 64,
    study="cojer",
    contender="CoJER",
    dataset="wine",
    dataset_label="Wine",
    seed=0,
    scale="quick",
    status="ok",
    error="",
    metrics={"fcp": 0.125, "size": 3.0},
    wall_seconds=1.5,
    cpu_seconds=1.25,
    peak_mb=100.5,
    version="0.1.0",
)
TRIAL_FAILED = replace(TRIAL_OK, status="failed", error="ValueError: singular", metrics={})


def begin(store: Store, **changes: Any) -> int:
    values: dict[str, Any] = {
        "study": "cojer",
        "family": "conformal",
        "scale": "quick",
        "n_planned": 3,
        "version": "0.1.0",
        "commit": "abc123",
        "machine": {},
        "versions": {"numpy": "2.0"},
        "arguments": {"seeds": [0, 1]},
    }
    return store.begin_run(**(values | changes))


def rows(store: Store, statement: sa.Select[Any]) -> list[Any]:
    with store._database.read() as connection:
        return list(connection.execute(statement).all())


def same_float(a: float, b: float) -> bool:
    """Equal to the bit, every NaN counting as one."""
    return struct.pack("d", a) == struct.pack("d", b) or (math.isnan(a) and math.isnan(b))


def python(script: str, *arguments: object, **options: Any) -> subprocess.Popen[str]:
    command_line = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.Popen(command_line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


# --- Round trips ---


def test_a_trial_comes_back_as_it_went_in(store_url: str) -> None:
    with Store(store_url) as store:
        run = begin(store)
        store.record(run, TRIAL_OK)
    with Store(store_url) as store:
        assert store.trials(run) == [TRIAL_OK]
        assert store.known([TRIAL_OK.fingerprint]) == {TRIAL_OK.fingerprint: TRIAL_OK}


def test_a_run_comes_back_as_it_went_in(store_url: str) -> None:
    before = datetime.now(UTC)
    verdict = {"verdict": "holds", "claims": [{"low": 0.5, "note": None, "größe": True}]}
    with Store(store_url) as store:
        run = begin(store, machine={"host": "elsewhere", "pid": 1, "cpu": "µ"}, arguments={"jobs": None, "ü": [1, 2.5]})
        going = store.run(run)
        assert (going.status, going.finished, going.verdict, going.n_done, going.n_failed) == (
            "running",
            None,
            None,
            0,
            0,
        )
        store.finish_run(run, "done", verdict)
        done = store.run(run)
    assert (done.id, done.study, done.family, done.scale, done.n_planned) == (run, "cojer", "conformal", "quick", 3)
    assert (done.status, done.version, done.commit, done.versions) == ("done", "0.1.0", "abc123", {"numpy": "2.0"})
    assert done.machine == {"host": "elsewhere", "pid": 1, "cpu": "µ"}
    assert done.arguments == {"jobs": None, "ü": [1, 2.5]}
    assert done.verdict == verdict
    assert done.finished is not None
    assert before <= done.started <= done.finished <= datetime.now(UTC)
    assert done.started.utcoffset() is not None


SPECIAL_FLOATS = st.sampled_from(
    [
        math.nan,
        math.inf,
        -math.inf,
        -0.0,
        0.0,
        5e-324,
        -5e-324,
        sys.float_info.max,
        sys.float_info.min,
        2.0**53 + 2,
        1e22,
    ]
)
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    metrics=st.dictionaries(
        TEXT.filter(lambda name: name not in RESULT_COLUMNS), SPECIAL_FLOATS | st.floats(), max_size=5
    ),
    text=TEXT,
    seed=st.integers(-(2**63), 2**63 - 1),
    seconds=SPECIAL_FLOATS.filter(lambda value: value != 0 or math.copysign(1, value) > 0),
)
def test_every_float_and_text_survives(
    store_url: str, metrics: dict[str, float], text: str, seed: int, seconds: float
) -> None:
    trial = replace(
        TRIAL_OK, metrics=metrics, contender=text, dataset_label=text, error=text, seed=seed, wall_seconds=seconds
    )
    with Store(store_url) as store:
        run = begin(store, study=text, arguments={text: text})
        store.record(run, trial)
        (back,) = store.trials(run)
        frame = store.results(run)
        assert store.run(run).arguments == {text: text}
        assert store.run(run).study == text
    assert set(back.metrics) == set(metrics)
    assert all(same_float(back.metrics[name], value) for name, value in metrics.items())
    assert same_float(back.wall_seconds, seconds)
    assert replace(back, metrics=metrics, wall_seconds=seconds) == trial
    assert list(frame.columns) == [*RESULT_COLUMNS, *sorted(metrics)]
    for name, value in metrics.items():
        assert frame[name].dtype == float
        np.testing.assert_array_equal(frame[name].to_numpy(), [value])


def test_what_a_database_refuses_is_replaced_in_texts(store_url: str) -> None:
    trial = replace(TRIAL_FAILED, error="bad \0 byte, lone \udc80 surrogate", dataset="file:/x\udcff.csv")
    with Store(store_url) as store:
        run = begin(store, machine={"path": "a\0b"}, arguments={"file": "\udcff"})
        store.record(run, trial)
        (back,) = store.trials(run)
        assert back.error == "bad \ufffd byte, lone ? surrogate"
        assert back.dataset == "file:/x?.csv"
        assert store.run(run).machine == {"path": "a\ufffdb"}


def test_huge_error_texts_are_cut_and_say_so(store_url: str) -> None:
    with Store(store_url) as store:
        run = begin(store)
        store.record(run, replace(TRIAL_FAILED, error="é" * 20_000))
        store.record(run, replace(TRIAL_FAILED, fingerprint="b", error="é" * 1_000_000))
        whole, cut = (trial.error for trial in store.trials(run))
    assert whole == "é" * 20_000
    assert cut == "é" * 20_000 + " [980000 more characters cut]"


def test_what_json_has_no_word_for_is_kept_as_text(store_url: str) -> None:
    given_arguments = {
        "path": Path("a/b"),
        "timeout": math.inf,
        "share": np.float64(0.5),
        "none": math.nan,
        "grid": np.arange(3),
        "set": {"b", "a"},
        3: (1, 2),
    }
    with Store(store_url) as store:
        run = begin(store, arguments=given_arguments)
        store.finish_run(run, "done", {"interval": [-math.inf, np.int64(3)]})
        back = store.run(run)
    assert back.arguments == {
        "path": str(Path("a/b")),
        "timeout": "inf",
        "share": 0.5,
        "none": "nan",
        "grid": [0, 1, 2],
        "set": ["a", "b"],
        "3": [1, 2],
    }
    assert back.verdict == {"interval": ["-inf", 3]}


# --- Generations, links, counts ---


def test_failed_trials_are_not_known_and_the_newest_ok_result_is(store_url: str) -> None:
    better = replace(TRIAL_OK, metrics={"fcp": 0.25})
    with Store(store_url) as store:
        run = begin(store)
        store.record(run, TRIAL_FAILED)
        assert store.known([TRIAL_OK.fingerprint]) == {}
        store.record(run, TRIAL_OK)
        store.record(run, better)
        store.record(run, TRIAL_FAILED)
        assert store.known([TRIAL_OK.fingerprint, TRIAL_OK.fingerprint, "unknown"]) == {TRIAL_OK.fingerprint: better}
        assert store.known([]) == {}


def test_nothing_is_overwritten_and_a_run_holds_the_newest_of_its_own(store_url: str) -> None:
    fresh = replace(TRIAL_OK, metrics={"fcp": 0.5})
    with Store(store_url) as store:
        first, second, third = begin(store), begin(store), begin(store)
        store.record(first, TRIAL_FAILED)
        store.record(first, TRIAL_OK)
        store.record(second, fresh)
        store.link(third, [TRIAL_OK.fingerprint])
        assert store.trials(first) == [TRIAL_OK]
        assert store.trials(second) == [fresh]
        assert store.trials(third) == [fresh]
        kept = rows(store, sa.select(TRIAL.c.generation, TRIAL.c.status).order_by(TRIAL.c.generation))
        assert [tuple(row) for row in kept] == [(1, "failed"), (2, "ok"), (3, "ok")]
        values = rows(store, sa.select(METRIC.c.value).where(METRIC.c.name == "fcp").order_by(METRIC.c.trial_id))
        assert [row.value for row in values] == [0.125, 0.5]


def test_linking_is_idempotent_and_all_or_nothing(store_url: str) -> None:
    trials = [replace(TRIAL_OK, fingerprint=f"{k:064x}", seed=k) for k in range(5)]
    with Store(store_url) as store:
        source, target = begin(store), begin(store)
        for trial in trials:
            store.record(source, trial)
        store.record(source, replace(TRIAL_FAILED, fingerprint="failed"))
        with pytest.raises(StoreError, match=r"2 fingerprint\(s\) have no result to link, the first: 'failed'"):
            store.link(target, [trials[0].fingerprint, "unknown", "failed"])
        assert store.trials(target) == []
        store.link(target, [])
        for _ in range(2):
            store.link(target, [trial.fingerprint for trial in trials] * 2)
        assert store.trials(target) == trials
        assert store.run(target).n_done == 5


def test_counts_are_of_trials_not_of_attempts(store_url: str) -> None:
    with Store(store_url) as store:
        run, other = begin(store), begin(store)
        for k, status in enumerate(["ok", "failed", "timeout", "crashed", "ok"]):
            metrics = {"fcp": 0.1} if status == "ok" else {}
            trial = replace(TRIAL_FAILED, fingerprint=f"f{k}", status=status, metrics=metrics)  # type: ignore[arg-type]
            store.record(run, trial)
        store.record(run, replace(TRIAL_OK, fingerprint="f1"))  # tried again, with success
        store.link(other, ["f0", "f1"])
        assert (store.run(run).n_done, store.run(run).n_failed) == (5, 2)
        assert (store.run(other).n_done, store.run(other).n_failed) == (2, 0)
        assert [(r.id, r.n_done, r.n_failed) for r in store.runs(limit=1)] == [(other, 2, 0)]


def test_many_fingerprints_at_once(store_url: str) -> None:
    trials = {
        f"{k:064x}": replace(TRIAL_OK, fingerprint=f"{k:064x}", seed=k, metrics={"fcp": float(k)}) for k in range(40)
    }
    asked = [f"{k:064x}" for k in range(20, 20_020)]
    with Store(store_url) as store:
        run, other = begin(store), begin(store)
        for trial in trials.values():
            store.record(run, trial)
        found = store.known(asked)
        assert found == {name: trials[name] for name in asked[:20]}
        store.link(other, list(trials))
        assert store.trials(other) == list(trials.values())


# --- Runs ---


def test_runs_are_listed_newest_first(store_url: str) -> None:
    with Store(store_url) as store:
        assert store.runs() == []
        ids = [begin(store, study=study) for study in ("cojer", "immax", "cojer", "immax")]
        assert [run.id for run in store.runs()] == ids[::-1]
        assert [run.id for run in store.runs("cojer")] == [ids[2], ids[0]]
        assert [run.id for run in store.runs("cojer", limit=1)] == [ids[2]]
        assert store.runs("nothing") == []
        assert store.runs(limit=0) == []


def test_latest_is_the_newest_done_run_of_each_study(store_url: str) -> None:
    with Store(store_url) as store:
        old, new, stopped, going, other = (begin(store, study=s) for s in ("a", "a", "a", "a", "b"))
        store.finish_run(new, "done", {"verdict": "fails"})
        store.finish_run(old, "done", {"verdict": "holds"})
        store.finish_run(stopped, "interrupted", None)
        assert {study: run.id for study, run in store.latest().items()} == {"a": new}
        store.finish_run(other, "done", None)
        assert {study: run.id for study, run in store.latest().items()} == {"a": new, "b": other}
        assert store.run(going).status == "running"
        assert (store.run(stopped).status, store.run(stopped).verdict) == ("interrupted", None)


def test_latest_prefers_whole_runs_of_a_larger_scale(store_url: str) -> None:
    with Store(store_url) as store:

        def done(scale: str, whole: bool) -> int:
            run = begin(store, study="a", scale=scale, arguments={"whole": whole})
            store.finish_run(run, "done", None)
            return run

        done("quick", False)
        assert store.latest() == {}
        smoke = done("smoke", True)
        assert store.latest()["a"].id == smoke
        quick = done("quick", True)
        done("smoke", True)
        done("quick", False)
        assert store.latest()["a"].id == quick
        newer = done("quick", True)
        assert store.latest()["a"].id == newer


def test_what_a_run_said_stands(store_url: str) -> None:
    with Store(store_url) as store:
        run = begin(store)
        store.finish_run(run, "done", {"verdict": "holds"})
        with pytest.raises(StoreError, match=f"run {run} has ended already"):
            store.finish_run(run, "interrupted", None)
        assert (store.run(run).status, store.run(run).verdict) == ("done", {"verdict": "holds"})


@pytest.mark.parametrize(
    "call",
    [
        lambda store: store.run(7),
        lambda store: store.results(7),
        lambda store: store.trials(7),
        lambda store: store.record(7, TRIAL_OK),
        lambda store: store.link(7, []),
        lambda store: store.finish_run(7, "done", None),
    ],
)
def test_unknown_runs_are_refused(store_url: str, call: Callable[[Store], object]) -> None:
    with Store(store_url) as store:
        with pytest.raises(StoreError, match="there is no run 7"):
            call(store)
        assert rows(store, sa.select(TRIAL.c.id)) == []


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"status": "fine"}, ValueError, "status must be one of .*'timeout'.*; got 'fine'"),
        ({"seed": 0.5}, TypeError, "seed must be an integer, got 0.5"),
        ({"seed": 2**63}, ValueError, "seed must be at most"),
        ({"metrics": {"fcp": "0.5"}}, TypeError, "metric 'fcp' must be a number, got '0.5' of type str"),
        ({"metrics": {"fcp": None}}, TypeError, "metric 'fcp' must be a number, got None"),
        ({"metrics": {"error": 0.1}}, StoreError, "metric 'error' has the name of a column"),
        ({"peak_mb": "much"}, TypeError, "peak_mb must be a number"),
    ],
)
def test_bad_trials_are_refused_by_name(
    tmp_path: Path, change: dict[str, Any], error: type[Exception], message: str
) -> None:
    with Store(tmp_path / "results.sqlite") as store:
        run = begin(store)
        with pytest.raises(error, match=message):
            store.record(run, replace(TRIAL_OK, **change))
        assert store.trials(run) == []


def test_numbers_of_any_library_are_taken(store_url: str) -> None:
    metrics = {"a": np.float32(0.5), "b": np.int64(3), "c": True, "d": np.array(2.5)}
    with Store(store_url) as store:
        run = begin(store)
        store.record(run, replace(TRIAL_OK, metrics=metrics, peak_mb=np.float64(9.0), seed=np.int64(4)))  # type: ignore[arg-type]
        (back,) = store.trials(run)
    assert back.metrics == {"a": 0.5, "b": 3.0, "c": 1.0, "d": 2.5}
    assert (back.seed, back.peak_mb) == (4, 9.0)


# --- Tables ---


def test_results_are_one_sorted_row_per_trial(store_url: str) -> None:
    order = [
        ("wine", "CoJER", 1),
        ("iris", "peer", 0),
        ("wine", "CoJER", 0),
        ("iris", "CoJER", 0),
        ("iris", "CoJER", 10),
    ]
    with Store(store_url) as store:
        run, empty = begin(store), begin(store)
        for k, (dataset, contender, seed) in enumerate(order):
            metrics = {"fcp": k + 0.5} if k != 1 else {"size": -math.inf, "gap": math.nan}
            trial = replace(
                TRIAL_OK, fingerprint=f"f{k}", dataset=dataset, contender=contender, seed=seed, metrics=metrics
            )
            store.record(run, trial)
        store.record(run, replace(TRIAL_FAILED, fingerprint="f9", dataset="zoo", wall_seconds=math.nan))
        frame = store.results(run)
        nothing = store.results(empty)
    assert list(frame.columns) == [*RESULT_COLUMNS, "fcp", "gap", "size"]
    keys = list(frame[["dataset", "contender", "seed"]].itertuples(index=False, name=None))
    assert keys == sorted([*order, ("zoo", "CoJER", 0)])
    nan = math.nan
    np.testing.assert_array_equal(frame["fcp"], [3.5, 4.5, nan, 2.5, 0.5, nan])
    np.testing.assert_array_equal(frame["size"], [nan, nan, -math.inf, nan, nan, nan])
    np.testing.assert_array_equal(frame["gap"], [nan] * 6)
    assert frame.iloc[-1][["status", "error", "dataset_label"]].tolist() == ["failed", "ValueError: singular", "Wine"]
    assert math.isnan(frame.iloc[-1]["wall_seconds"])
    assert frame.index.tolist() == list(range(6))
    assert list(nothing.columns) == list(RESULT_COLUMNS)
    assert len(nothing) == 0
    assert nothing["seed"].dtype == np.int64
    assert nothing["peak_mb"].dtype == float


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".CSV"])
def test_export_has_one_row_per_run_trial_and_metric(store_url: str, tmp_path: Path, suffix: str) -> None:
    target = tmp_path / f"größe{suffix}"
    odd = {"a": math.nan, "b": math.inf, "c": -math.inf, "d": -0.0, "e": 0.1 + 0.2, "f": 5e-324}
    with Store(store_url) as store:
        first, second, other = begin(store), begin(store), begin(store, study="immax", commit="")
        store.record(first, replace(TRIAL_OK, metrics=odd, contender='näive, "quoted"\nline'))
        store.record(first, replace(TRIAL_FAILED, fingerprint="f"))
        store.link(second, [TRIAL_OK.fingerprint])
        store.record(other, replace(TRIAL_OK, fingerprint="g", peak_mb=math.nan))
        assert store.export(target) == 6 + 1 + 6 + 2
        read = pd.read_parquet if suffix == ".parquet" else partial(pd.read_csv, float_precision="round_trip")
        frame = read(target)
        assert store.export(target, study="immax") == 2
        assert sorted(read(target)["metric"]) == ["fcp", "size"]
        assert store.export(target, study="nothing") == 0
        assert list(read(target).columns) == list(frame.columns)
    assert sorted(path.name for path in tmp_path.glob("*größe*")) == [target.name]
    assert len(frame) == 15
    assert not frame.duplicated(["run", "fingerprint", "metric"]).any()
    for run in (first, second):
        part = frame[(frame["run"] == run) & (frame["status"] == "ok")].set_index("metric")
        assert part["state"].to_dict() == {
            "a": "undefined",
            "b": "+inf",
            "c": "-inf",
            "d": "finite",
            "e": "finite",
            "f": "finite",
        }
        assert all(same_float(part["value"][name], value) for name, value in odd.items())
        assert set(part["contender"]) == {'näive, "quoted"\nline'}
    (failed,) = frame[frame["status"] == "failed"].to_dict("records")
    assert pd.isna(failed["metric"])
    assert math.isnan(failed["value"])
    assert (failed["state"], failed["error"], failed["seed"]) == ("missing", "ValueError: singular", 0)
    assert frame[frame["run"] == other]["peak_mb"].isna().all()
    assert pd.to_datetime(frame["started"]).dt.tz is not None


def test_a_failed_export_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "results.parquet"
    target.write_text("old")
    with Store(tmp_path / "results.sqlite") as store:
        begin(store)
        with pytest.raises(StoreError, match=r"results\.xlsx.*must end with \.parquet or \.csv"):
            store.export(tmp_path / "results.xlsx")
        with pytest.raises(StoreError, match=r"can't write .*No such file or directory"):
            store.export(tmp_path / "nowhere" / "results.csv")
        monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        with pytest.raises(StoreError, match="No space left on device"):
            store.export(target)
    assert target.read_text() == "old"
    assert not list(tmp_path.glob(".*part"))


# --- Processes that die, or write at the same time ---

WRITER = """
import sys
from paperworks.bench.store import Store, TrialRecord
url, run, first, last, value = sys.argv[1], *map(int, sys.argv[2:])
with Store(url) as store:
    print("ready", flush=True)
    sys.stdin.readline()
    for k in range(first, last):
        trial = TrialRecord(f"{k:064x}", "s", "c", "d", "D", k, "quick", "ok", "", {"value": value}, 0.1, 0.1, 1.0, "v")
        store.record(run, trial)
        print(k, flush=True)
"""


def test_two_writers_wait_for_each_other_and_never_double_a_result(store_url: str) -> None:
    n = 60
    with Store(store_url) as store:
        shared = begin(store)
        writers = [python(WRITER, store_url, shared, 0, n, k, stdin=subprocess.PIPE) for k in (1, 2)]
        for writer in writers:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "ready\n", writer.communicate()
        for writer in writers:
            assert writer.stdin is not None
            writer.stdin.write("\n")
            writer.stdin.flush()
        for writer in writers:
            _, errors = writer.communicate(timeout=120)
            assert writer.returncode == 0, errors
        frame = store.results(shared)
        assert frame["seed"].tolist() == list(range(n))
        assert store.run(shared).n_done == n
        generations = rows(
            store, sa.select(TRIAL.c.seed, TRIAL.c.generation).order_by(TRIAL.c.seed, TRIAL.c.generation)
        )
        assert [tuple(row) for row in generations] == [(k, g) for k in range(n) for g in (1, 2)]
        newest = rows(
            store,
            sa.select(TRIAL.c.seed, METRIC.c.value)
            .join(METRIC, METRIC.c.trial_id == TRIAL.c.id)
            .where(TRIAL.c.generation == 2)
            .order_by(TRIAL.c.seed),
        )
        assert frame["value"].tolist() == [row.value for row in newest]


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_a_killed_writer_loses_no_reported_trial(store_url: str) -> None:
    with Store(store_url) as store:
        run = begin(store)
        writer = python(WRITER, store_url, run, 0, 10**9, 1, stdin=subprocess.PIPE)
        assert writer.stdin is not None
        assert writer.stdout is not None
        writer.stdin.write("\n")
        writer.stdin.flush()
        reported = [writer.stdout.readline() for _ in range(25)]
        writer.send_signal(signal.SIGKILL)
        reported += writer.stdout.readlines()
        _, errors = writer.communicate(timeout=60)
        assert reported[0] == "ready\n", errors
        last = int(reported[-1])
        seeds = store.results(run)["seed"].tolist()
        # The last trial may have been stored without a chance to say so.
        assert seeds in (list(range(last + 1)), list(range(last + 2)))
        assert all(trial.metrics == {"value": 1.0} for trial in store.trials(run))
        store.record(run, TRIAL_OK)
    with Store(store_url) as store:
        assert len(store.trials(run)) == len(seeds) + 1


OPENER = """
import sys
from paperworks.bench.store import Store
print("ready", flush=True)
sys.stdin.readline()
with Store(sys.argv[1]) as store:
    store.begin_run(study="s", family="f", scale="quick", n_planned=1, version="", commit="", machine={}, versions={},
                    arguments={})
"""


def test_a_fresh_store_can_be_opened_by_several_at_once(store_url: str) -> None:
    openers = [python(OPENER, store_url, stdin=subprocess.PIPE) for _ in range(3)]
    for opener in openers:
        assert opener.stdout is not None
        assert opener.stdout.readline() == "ready\n", opener.communicate()
    for opener in openers:
        assert opener.stdin is not None
        opener.stdin.write("\n")
        opener.stdin.flush()
    for opener in openers:
        _, errors = opener.communicate(timeout=120)
        assert opener.returncode == 0, errors
    with Store(store_url) as store:
        assert len(store.runs()) == 3
        assert [tuple(row) for row in rows(store, sa.select(sa.text(f"version_num FROM {VERSION_TABLE}")))] == [
            (REVISION,)
        ]


def test_threads_may_share_a_store_and_open_fresh_ones(store_url: str, tmp_path: Path) -> None:
    failures: list[BaseException] = []
    with Store(store_url) as store:
        run = begin(store)

        def work(k: int) -> None:
            try:
                with Store(tmp_path / f"fresh{k}.sqlite") as fresh:
                    begin(fresh)
                for seed in range(5):
                    store.record(run, replace(TRIAL_OK, fingerprint=f"{k}-{seed}", seed=seed))
            except BaseException as error:  # a thread has no other way to tell
                failures.append(error)

        threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        assert len(store.trials(run)) == 20


def test_an_interrupted_recording_leaves_nothing_half(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store(store_url) as store:
        run = begin(store)

        def interrupted(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            # Just after the trial's own row was sent.
            patch.setattr("paperworks.bench.store.store._new_id", interrupted)
            with pytest.raises(KeyboardInterrupt):
                store.record(run, TRIAL_OK)
        assert rows(store, sa.select(TRIAL.c.id)) == []
        store.record(run, TRIAL_OK)
        assert store.trials(run) == [TRIAL_OK]


@pytest.mark.skipif(os.name != "posix", reason="processes are told dead from alive on POSIX only")
def test_a_run_whose_process_is_gone_reads_as_interrupted(store_url: str) -> None:
    import platform

    sleeper = python("input()", stdin=subprocess.PIPE)
    host = platform.node()
    with Store(store_url) as store:
        theirs = begin(store, machine={"host": host, "pid": sleeper.pid})
        finished = begin(store, machine={"host": host, "pid": sleeper.pid})
        elsewhere = begin(store, machine={"host": "another-" + host, "pid": sleeper.pid})
        mine = begin(store)
        store.finish_run(finished, "done", None)
        assert {run.id: run.status for run in store.runs()} == {
            theirs: "running",
            finished: "done",
            elsewhere: "running",
            mine: "running",
        }
        sleeper.kill()
        sleeper.communicate()
        assert {run.id: run.status for run in store.runs()} == {
            theirs: "interrupted",
            finished: "done",
            elsewhere: "running",
            mine: "running",
        }
        assert store.run(theirs).status == "interrupted"
        assert store.run(theirs).finished is None


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="start times of processes are read on Linux only")
def test_a_later_process_with_the_same_id_is_another(store_url: str) -> None:
    with Store(store_url) as store:
        run = begin(store)
        with store._database.write() as connection:
            connection.execute(sa.update(RUN).values(process_started=RUN.c.process_started - 1))
        assert store.run(run).status == "interrupted"


def test_a_run_that_ends_while_it_is_looked_at_is_not_called_interrupted(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store(store_url) as store:
        run = begin(store)

        def ends_now(*_: object) -> bool:
            if store_status() == "running":
                store.finish_run(run, "done", None)
            return True

        def store_status() -> str:
            return str(rows(store, sa.select(RUN.c.status))[0].status)

        monkeypatch.setattr("paperworks.bench.store.reading.is_gone", ends_now)
        assert store.run(run).status == "done"


# --- Schema ---


def test_the_migrated_schema_is_the_declared_one(store_url: str) -> None:
    assert ScriptDirectory.from_config(_alembic_config()).get_heads() == [REVISION]
    with Store(store_url) as store, store._database.read() as connection:
        options = {"compare_type": True, "compare_server_default": True, "version_table": VERSION_TABLE}
        assert compare_metadata(MigrationContext.configure(connection, opts=options), METADATA) == []
        inspector = sa.inspect(connection)
        for table in METADATA.sorted_tables:
            declared = {c.name for c in table.constraints if isinstance(c, sa.CheckConstraint)}
            assert {c["name"] for c in inspector.get_check_constraints(table.name)} == declared
    with Store(store_url) as store, store._database.write() as connection:
        refused = sa.insert(RUN_TRIAL).values(run_id=1, fingerprint="x", trial_id=1)
        with pytest.raises(sa.exc.IntegrityError):  # foreign keys are enforced
            connection.execute(refused)
        connection.rollback()


def test_the_schema_can_be_undone_and_made_again(store_url: str) -> None:
    with Store(store_url) as store:
        begin(store)
        with store._database.write() as connection:
            config = _alembic_config()
            config.attributes["connection"] = connection
            command.downgrade(config, "base")
        with store._database.read() as connection:
            assert sa.inspect(connection).get_table_names() == [VERSION_TABLE]
    with Store(store_url) as store:
        assert store.runs() == []


def test_a_migration_that_fails_leaves_no_half_schema(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("stopped half way")

    with monkeypatch.context() as patch:
        patch.setattr(alembic.op, "create_index", fails)
        with pytest.raises(RuntimeError, match="half way"):
            Store(store_url)
    with Store(store_url) as store:  # tables of the first attempt would be refused as somebody else's
        assert store.runs() == []


def test_a_store_of_a_newer_version_is_refused_untouched(store_url: str) -> None:
    with Store(store_url) as store:
        run = begin(store)
        with store._database.write() as connection:
            connection.execute(sa.text(f"UPDATE {VERSION_TABLE} SET version_num = '9999'"))
    path = Path(store_url)
    before = path.read_bytes() if path.exists() else b""
    with pytest.raises(StoreError, match=r"written by a newer version of paperworks.*'9999'.*upgrade") as refused:
        Store(store_url)
    assert "\n" not in str(refused.value)
    if path.exists():
        assert path.read_bytes() == before
        with sqlite3.connect(path) as raw:
            raw.execute(f"UPDATE {VERSION_TABLE} SET version_num = '{REVISION}'")
        raw.close()
        with Store(store_url) as store:
            assert [found.id for found in store.runs()] == [run]


def test_opening_a_store_that_is_up_to_date_needs_no_alembic(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    Store(path).close()
    script = """
import sys
import paperworks.bench.store
light = [name for name in ("alembic", "pandas", "pyarrow", "psycopg") if name in sys.modules]
with paperworks.bench.store.Store(sys.argv[1]) as store:
    store.runs()
assert light == [] and "alembic" not in sys.modules and "pandas" not in sys.modules, light
"""
    process = python(script, path)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors


# --- SQLite ---


def test_reading_does_not_hold_up_writing_and_sees_one_moment(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    with Store(path) as store:
        run = begin(store)
        store.record(run, TRIAL_OK)
        with store._database.read() as reader:
            count = sa.select(sa.func.count()).select_from(TRIAL)
            assert reader.scalar(count) == 1
            store.record(run, replace(TRIAL_OK, fingerprint="b"))
            assert reader.scalar(count) == 1
        assert len(store.trials(run)) == 2


def test_a_writer_waits_for_a_lock_instead_of_failing(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    with Store(path) as store:
        run = begin(store)
        other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        other.execute("BEGIN IMMEDIATE")
        released: list[float] = []

        def release() -> None:
            released.append(time.monotonic())
            other.execute("COMMIT")

        timer = threading.Timer(0.3, release)
        timer.start()
        store.record(run, TRIAL_OK)
        assert released
        assert time.monotonic() >= released[0]
        timer.join()
        other.close()
        assert store.trials(run) == [TRIAL_OK]


def test_addresses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv("PAPERWORKS_STORE", raising=False)
    Store(tmp_path / "plain 100% ä?#.sqlite").close()
    assert (tmp_path / "plain 100% ä?#.sqlite").exists()
    Store(str(tmp_path / "new" / "folder" / "r.db")).close()
    assert (tmp_path / "new" / "folder" / "r.db").exists()
    with Store("sqlite:///by-url.sqlite") as store:
        assert store.url == "sqlite:///by-url.sqlite"
        assert repr(store) == "Store('sqlite:///by-url.sqlite')"
    assert (tmp_path / "by-url.sqlite").exists()
    Store("~/at-home.sqlite").close()
    assert (tmp_path / "home" / "at-home.sqlite").exists()
    monkeypatch.setenv("PAPERWORKS_STORE", str(tmp_path / "environment.sqlite"))
    Store().close()
    assert (tmp_path / "environment.sqlite").exists()
    monkeypatch.setenv("PAPERWORKS_STORE", "")
    with Store() as store:
        assert store.url.endswith("results.sqlite")
    if sys.platform == "linux":
        assert (tmp_path / "data" / "paperworks" / "results.sqlite").exists()


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("mysql://user:secret@host/db", "SQLite or PostgreSQL, not in 'mysql'"),
        ("nonsense://", "SQLite or PostgreSQL, not in 'nonsense'"),
        ("://x", "address can't be read"),
        ("postgresql://user:secret@host:port/db", "address can't be read"),
        ("sqlite://", "in memory would be lost"),
        ("sqlite:///:memory:", "in memory would be lost"),
        ("  ", "address is empty"),
    ],
)
def test_addresses_that_cannot_be_used_are_refused_without_the_password(address: str, message: str) -> None:
    with pytest.raises(StoreError, match=message) as refused:
        Store(address)
    assert "secret" not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_paths_that_cannot_be_a_store_are_refused_untouched(tmp_path: Path) -> None:
    noise = tmp_path / "noise.sqlite"
    noise.write_bytes(b"not a database, " * 1000)
    folder = tmp_path / "folder"
    folder.mkdir()
    foreign = tmp_path / "foreign.sqlite"
    with sqlite3.connect(foreign) as raw:
        raw.execute("CREATE TABLE experiments (id INTEGER)")
    raw.close()
    before = {path: path.read_bytes() for path in (noise, foreign)}
    for path, message in {
        noise: "not a database",
        folder: "is a directory",
        noise / "below.sqlite": "can't create the directory",
        foreign: "database of something else, with the tables experiments",
    }.items():
        with pytest.raises(StoreError, match=message) as refused:
            Store(path)
        assert str(path) in str(refused.value)
        assert "\n" not in str(refused.value)
    assert {path: path.read_bytes() for path in before} == before


def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    path.touch()
    with Store(path) as store:
        assert store.runs() == []


@pytest.mark.parametrize("share", [0.15, 0.5, 0.9])
def test_a_damaged_store_is_named_as_such(tmp_path: Path, share: float) -> None:
    path = tmp_path / "results.sqlite"
    with Store(path) as store:
        run = begin(store)
        for k in range(200):
            store.record(run, replace(TRIAL_OK, fingerprint=f"{k:064x}", seed=k))
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])

    def use() -> None:
        with Store(path) as store:
            store.runs()
            store.trials(run)
            store.results(run)

    with pytest.raises(StoreError, match=r"malformed|not a database|disk I/O"):
        use()


def test_a_store_moved_with_its_file_keeps_everything(tmp_path: Path) -> None:
    with Store(tmp_path / "a.sqlite") as store:
        run = begin(store)
        store.record(run, TRIAL_OK)
    assert [path.name for path in tmp_path.iterdir()] == ["a.sqlite"]  # nothing is left in side files
    (tmp_path / "a.sqlite").rename(tmp_path / "b.sqlite")
    with Store(tmp_path / "b.sqlite") as store:
        assert store.trials(run) == [TRIAL_OK]


def test_trials_come_in_parts(store_url: str) -> None:
    with Store(store_url) as store:
        run = begin(store)
        for k in range(7):
            store.record(run, replace(TRIAL_OK, fingerprint=f"f{k}", seed=k, status="failed" if k % 3 == 0 else "ok"))
        everything = store.trials(run)
        assert [trial.seed for trial in everything] == list(range(7))
        assert store.trials(run, newest_first=True) == everything[::-1]
        assert store.trials(run, limit=3, offset=2) == everything[2:5]
        assert store.trials(run, offset=5) == everything[5:]
        assert store.trials(run, limit=2, newest_first=True) == everything[:-3:-1]
        assert store.trials(run, limit=2, offset=1, newest_first=True) == everything[5:3:-1]
        assert store.trials(run, limit=0) == store.trials(run, offset=7) == []
        failed = store.trials(run, status="failed")
        assert [trial.seed for trial in failed] == [0, 3, 6]
        assert store.trials(run, status="failed", limit=1, offset=1) == failed[1:2]
        assert (store.count(run), store.count(run, "failed"), store.count(run, "timeout")) == (7, 3, 0)
        for call in (store.trials, store.count):
            with pytest.raises(StoreError, match="no run 99"):
                call(99)
        with pytest.raises(ValueError, match="limit"):
            store.trials(run, limit=-1)


@pytest.mark.slow
def test_a_hundred_thousand_trials(store_url: str) -> None:
    n, n_runs = 100_000, 10
    with Store(store_url) as store:
        runs = [begin(store, study=f"s{k}") for k in range(n_runs)]
        whole = begin(store, study="all")
        with store._database.write() as connection:
            for start in range(0, n, 10_000):
                block = range(start, start + 10_000)
                template = {c.name: getattr(TRIAL_OK, c.name, None) for c in TRIAL.c}
                template |= {"generation": 1, "recorded": datetime.now(UTC)}
                trials = [
                    template
                    | {
                        "id": k + 1,
                        "fingerprint": f"{k:064x}",
                        "seed": k,
                        "status": "failed" if k % 100 == 7 else "ok",
                    }
                    for k in block
                ]
                connection.execute(sa.insert(TRIAL), trials)
                values = [
                    {"trial_id": k + 1, "name": name, "value": factor * k, "state": "finite"}
                    for k in block
                    if k % 100 != 7
                    for name, factor in (("double", 2.0), ("half", 0.5))
                ]
                connection.execute(sa.insert(METRIC), values)
                links = [
                    {"run_id": run, "fingerprint": f"{k:064x}", "trial_id": k + 1}
                    for k in block
                    for run in (runs[start // 10_000], whole)
                ]
                connection.execute(sa.insert(RUN_TRIAL), links)
        for run in [*runs, whole]:
            store.finish_run(run, "done", None)
        listed = {run.id: (run.n_done, run.n_failed) for run in store.runs()}
        assert listed == dict.fromkeys(runs, (10_000, 100)) | {whole: (n, 1000)}
        assert len(store.latest()) == n_runs + 1
        frame = store.results(whole)
        seeds = np.arange(n)
        assert frame["seed"].tolist() == seeds.tolist()
        expected = np.where(seeds % 100 == 7, np.nan, seeds)
        np.testing.assert_array_equal(frame["double"], 2 * expected)
        np.testing.assert_array_equal(frame["half"], 0.5 * expected)
        assert len(store.results(runs[3])) == 10_000
        known = store.known([f"{k:064x}" for k in range(-5, n + 5) if k >= 0])
        assert len(known) == n - 1000
        assert known[f"{99_999:064x}"].metrics == {"double": 199_998.0, "half": 49_999.5}
        again = begin(store)
        store.link(again, list(known))
        assert store.run(again).n_done == n - 1000
