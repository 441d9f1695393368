"""The command line as a user meets it: exit codes, streams and messages."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from paperworks.cli import main

COLUMNS = "160"

STUDY = '''
"""A study of the test: settles in no time, and misbehaves where its data set says so."""
import math, os, time
from paperworks.bench.seeds import rng_for
from paperworks.bench.study import Claim, Contender, Metric, Paper, Scale, Study

def trial(contender, dataset, seed, scale):
    if dataset == "slow":
        time.sleep(0.3)
    if dataset == "raises" and contender == "ours":
        raise RuntimeError("this data set is cursed")
    if dataset == "dies" and contender == "ours":
        os._exit(9)
    value = rng_for("x", contender, dataset, seed).normal() + (2.0 if contender == "ours" else 0.0)
    spread = {"undefined": math.nan, "infinite": math.inf}.get(dataset, abs(value))
    return {"value": value, "spread": spread if contender == "ours" else abs(value)}

STUDY = Study(
    slug="fake-study", family="fakes",
    paper=Paper("On Fakes", "A. Nonymous", "Nowhere 2025", "https://example.org"),
    question="Is ours larger?",
    datasets=("plain", "slow", "raises", "dies", "undefined", "infinite"),
    contenders=(
        Contender("ours", "method", "section 1"),
        Contender("theirs", "peer", "a library"),
        Contender("absent", "peer", "a library that is not there", requires=("no-such-distribution",)),
    ),
    metrics=(Metric("value", "higher"), Metric("spread", "lower")),
    claims=(Claim("ours is larger", "value", "ours", "theirs", "better"),),
    scales={"smoke": Scale(2, datasets=("plain",)), "quick": Scale(12, datasets=("plain",)), "paper": Scale(20)},
    trial=trial,
)
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "fakes.py").write_text(STUDY, encoding="utf-8")
    return tmp_path


@dataclass
class Done:
    returncode: int
    stdout: str
    stderr: str


def environment(folder: Path, **changes: str) -> dict[str, str]:
    return {"PAPERWORKS_STORE": str(folder / "results.sqlite"), "COLUMNS": COLUMNS, **changes}


def command(folder: Path, *args: str, **env: str) -> Done:
    """Run a command in this process, which saves the start of another one."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.chdir(folder)
        for name, value in environment(folder, **env).items():
            patch.setenv(name, value)
        with pytest.raises(SystemExit) as stop:
            main(list(args))
    return Done(int(stop.value.code or 0), out.getvalue(), err.getvalue())


def start(folder: Path, *args: str) -> subprocess.Popen[str]:
    """Start a command in a process group of its own, as a shell does."""
    return subprocess.Popen(
        [sys.executable, "-m", "paperworks", *args],
        cwd=folder,
        env={**os.environ, **environment(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def one_line(done: Done, code: int) -> str:
    assert done.returncode == code, done.stdout + done.stderr
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    assert "Traceback" not in done.stderr
    return lines[0]


def test_a_run_ends_in_table_verdict_and_page(folder: Path) -> None:
    done = command(folder, "run", "fakes.py")
    assert done.returncode == 0, done.stderr
    for text in ("ours", "theirs", "ours is larger", "holds", "Report:", "no-such-distribution"):
        assert text in done.stdout
    page = Path(done.stdout.split("Report:")[1].strip().splitlines()[0])
    page = page if page.is_absolute() else folder / page
    assert "ours is larger" in page.read_text(encoding="utf-8")


def test_second_run_reuses_every_trial(folder: Path) -> None:
    first = json.loads(command(folder, "run", "fakes.py", "--json", "--no-report").stdout)
    second = json.loads(command(folder, "run", "fakes.py", "--json", "--no-report").stdout)
    assert first["reused"] == 0
    assert second["reused"] == len(second["trials"]) == 24
    key = ("contender", "dataset", "seed", "metrics")
    assert [[t[k] for k in key] for t in first["trials"]] == [[t[k] for k in key] for t in second["trials"]]
    fresh = json.loads(command(folder, "run", "fakes.py", "--json", "--no-report", "--fresh").stdout)
    assert fresh["reused"] == 0


def test_json_has_no_bare_nan_and_undefined_metrics_have_a_reason(folder: Path) -> None:
    done = command(
        folder, "run", "fakes.py", "--scale", "paper", "--datasets", "plain,undefined,infinite", "--seeds", "0-3"
    )
    assert done.returncode == 0, done.stderr
    shown = command(folder, "show", "1", "--json")

    def refuse(word: str) -> None:
        raise AssertionError(f"bare {word} in JSON")

    record = json.loads(shown.stdout, parse_constant=refuse)
    undefined = [t for t in record["trials"] if t["dataset"] in ("undefined", "infinite") and t["contender"] == "ours"]
    assert len(undefined) == 8
    for trial in undefined:
        assert trial["metrics"]["spread"] is None
        assert trial["undefined"]["spread"] == {"undefined": "nan", "infinite": "inf"}[trial["dataset"]]
        assert isinstance(trial["metrics"]["value"], float)


@pytest.mark.parametrize(("dataset", "reason"), [("raises", "this data set is cursed"), ("dies", "died")])
def test_a_failed_trial_gives_exit_code_1_and_is_said(folder: Path, dataset: str, reason: str) -> None:
    args = ("run", "fakes.py", "--scale", "paper", "--datasets", f"plain,{dataset}", "--seeds", "0-7")
    done = command(folder, *args)
    assert done.returncode == 1, done.stdout + done.stderr
    assert reason in done.stdout
    assert "Traceback" not in done.stderr
    again = json.loads(command(folder, *args, "--json").stdout)
    assert again["reused"] == 24, "only the failed ones are tried again"
    assert sum(t["status"] != "ok" for t in again["trials"]) == 8


def test_ctrl_c_ends_in_one_line_and_the_next_run_goes_on(folder: Path) -> None:
    args = [
        "run",
        "fakes.py",
        "--scale",
        "paper",
        "--datasets",
        "slow",
        "--seeds",
        "0-15",
        "--jobs",
        "2",
        "--no-report",
    ]
    process = start(folder, *args)
    deadline = time.monotonic() + 60
    done_trials = 0
    while done_trials < 6 and time.monotonic() < deadline:
        time.sleep(0.2)
        if (folder / "results.sqlite").exists():
            shown = command(folder, "show", "1", "--json")
            done_trials = len(json.loads(shown.stdout)["trials"]) if shown.returncode == 0 else 0
    os.killpg(process.pid, signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    assert "Traceback" not in stderr
    assert "interrupted" in stderr.strip().splitlines()[-1]

    record = json.loads(command(folder, "show", "1", "--json").stdout)
    assert record["status"] == "interrupted"
    assert record["verdict"] is None
    stored = len(record["trials"])
    assert 6 <= stored < record["n_planned"] == 32
    assert f"{stored} of 32" in command(folder, "show", "1").stdout

    resumed = json.loads(command(folder, *args, "--json").stdout)
    assert resumed["reused"] == stored
    elsewhere = json.loads(command(folder, *args, "--json", PAPERWORKS_STORE=str(folder / "other.sqlite")).stdout)
    key = ("contender", "dataset", "seed")
    assert {tuple(t[k] for k in key): t["metrics"] for t in resumed["trials"]} == {
        tuple(t[k] for k in key): t["metrics"] for t in elsewhere["trials"]
    }


def test_output_into_head_is_a_success(folder: Path) -> None:
    done = subprocess.run(
        f"set -o pipefail; {sys.executable} -m paperworks list | head -1",
        shell=True,
        executable="/bin/bash",
        cwd=folder,
        env={**os.environ, "PYTHONUNBUFFERED": "1", "PAPERWORKS_STORE": str(folder / "results.sqlite")},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == 1


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["run", "cojerr"], "cojer"),
        (["run", "cojer", "--scale", "huge"], "scale"),
        (["run", "cojer", "--jobs", "0"], "jobs"),
        (["run", "cojer", "--seeds", "x"], "--seeds"),
        (["run", "cojer", "--seeds", "5-2"], "backwards"),
        (["run", "cojer", "--contenders", "nobody"], "nobody"),
        (["run", "cojer", "--datasets", "nothing"], "nothing"),
        (["run", "cojer", "--target", "y"], "--data"),
        (["run", "cojer", "--address", "ray://nowhere:1"], "address"),
        (["run", "cojer", "--data", "missing.csv", "--target", "y"], "missing.csv"),
        (["run", "missing.py"], "missing.py"),
        (["show", "nothing-like-it"], "nothing-like-it"),
        (["show", "12345"], "12345"),
        (["list", "--family", "nonsense"], "nonsense"),
        (["data", "info", "nonsense"], "nonsense"),
        (["nonsense"], "nonsense"),
        (["list", "--store", "/dev/null/x.sqlite"], "/dev/null/x.sqlite"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(folder: Path, args: list[str], expected: str) -> None:
    assert expected in one_line(command(folder, *args), 2)


def test_debug_shows_the_traceback(folder: Path) -> None:
    process = start(folder, "--debug", "run", "nothing-like-it")
    assert "Traceback" in process.communicate()[1]
    assert process.returncode == 1


def test_malformed_study_names_its_fault(folder: Path) -> None:
    text = STUDY.replace('Claim("ours is larger", "value"', 'Claim("ours is larger", "valeu"')
    (folder / "broken.py").write_text(text, encoding="utf-8")
    message = one_line(command(folder, "run", "broken.py"), 2)
    assert "valeu" in message
    assert "fake-study" in message


def test_list_show_doctor_and_data_speak_json(folder: Path) -> None:
    listed = json.loads(command(folder, "list", "--json").stdout)
    assert {row["slug"] for row in listed} >= {"cojer", "immax"}
    assert all(row["verdict"] is None for row in listed)
    card = json.loads(command(folder, "show", "cojer", "--json").stdout)
    assert card["import_line"].startswith("from paperworks.conformal import")
    assert ">>>" in card["example"]
    state = json.loads(command(folder, "doctor", "--json").stdout)
    assert state["store"]["ok"]
    assert {part["name"] for part in state["extras"]} >= {"torch", "jax", "ray", "dask", "peers"}
    rows = json.loads(command(folder, "data", "list", "--json").stdout)
    assert "diabetes" in [row["name"] for row in rows]
    for args in (["list"], ["show", "cojer"], ["doctor"], ["data", "list"], ["data", "info", "wine"], ["--help"]):
        done = command(folder, *args)
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""


def test_list_is_filtered_by_family_and_verdict(folder: Path) -> None:
    listed = json.loads(command(folder, "list", "--family", "conformal", "--json").stdout)
    assert {row["family"] for row in listed} == {"conformal"}
    assert json.loads(command(folder, "list", "--verdict", "holds", "--json").stdout) == []


def test_export_and_data_get_write_tables(folder: Path) -> None:
    assert command(folder, "run", "fakes.py", "--scale", "smoke", "--no-report").returncode == 0
    assert command(folder, "export", "all.parquet").returncode == 0
    assert len(pd.read_parquet(folder / "all.parquet")) == 8
    assert command(folder, "data", "get", "wine", "--out", "wine.csv").returncode == 0
    assert pd.read_csv(folder / "wine.csv").shape == (178, 14)


def write_table(file: Path, rows: int = 120, **columns: object) -> None:
    rng = np.random.default_rng(0)
    u = rng.normal(size=rows)
    base = {"u": u, "v": rng.normal(size=rows), "y": 2 * u + rng.normal(size=rows)}
    pd.DataFrame({**base, **columns}).to_csv(file, index=False)


def run_own(folder: Path, file: str, target: str, *more: str, study: str = "cojer") -> Done:
    few = {"cojer": "cojer,scp", "immax": "immax-theory,logistic-regression"}[study]
    options = ["--scale", "smoke", "--seeds", "0", "--contenders", few, "--no-report"]
    return command(folder, "run", study, "--data", file, "--target", target, *options, *more)


def test_own_table_runs_and_a_changed_file_runs_again(folder: Path) -> None:
    write_table(folder / "my.csv")
    first = json.loads(run_own(folder, "my.csv", "y", "--json").stdout)
    again = json.loads(run_own(folder, "my.csv", "y", "--json").stdout)
    assert first["reused"] == 0
    assert again["reused"] == len(again["trials"])
    table = pd.read_csv(folder / "my.csv")
    table["y"] = table["y"].sample(frac=1, random_state=0).to_numpy()
    table.to_csv(folder / "my.csv", index=False)
    changed = json.loads(run_own(folder, "my.csv", "y", "--json").stdout)
    assert changed["reused"] == 0
    assert [t["metrics"] for t in changed["trials"]] != [t["metrics"] for t in first["trials"]]
    assert all("my.csv" in t["dataset_label"] for t in changed["trials"])


def test_spreadsheet_file_with_accents(folder: Path) -> None:
    rows = "\n".join(f"{i % 2},{i}" for i in range(60))
    (folder / "my.csv").write_bytes(b"\xef\xbb\xbf" + f'"y","größe"\n{rows}\n'.encode())
    pytest.importorskip("torch")
    done = run_own(folder, "my.csv", "y", study="immax")
    assert done.returncode == 0, done.stderr
    assert "größe" in one_line(run_own(folder, "my.csv", "größe", study="immax"), 2)
    message = one_line(run_own(folder, "my.csv", "gröse", study="immax"), 2)
    assert message.index("größe") < message.index("y", message.index("größe"))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "empty"),
        (b"u,v,y\n", "no rows"),
        ("u,y\nä,1\n".encode("latin-1") * 30, "encoding"),
        (b"u,v,y\n1,2,3\n4,5\n6,7,8,9\n", "row"),
        (b"u,u,y\n1,2,3\n", "u"),
        (b"u,v,z\n1,2,3\n", "columns"),
    ],
)
def test_bad_files_are_one_line(folder: Path, content: bytes, expected: str) -> None:
    (folder / "bad.csv").write_bytes(content)
    message = one_line(run_own(folder, "bad.csv", "y"), 2)
    assert "bad.csv" in message
    assert expected in message


def test_missing_targets_are_counted(folder: Path) -> None:
    write_table(folder / "gaps.csv", y=[None if i % 3 == 0 else float(i) for i in range(120)])
    assert "40 of 120" in one_line(run_own(folder, "gaps.csv", "y"), 2)
