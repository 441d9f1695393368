"""Two writers, one PostgreSQL, one Ray cluster, and a worker that is killed: nothing is lost and nothing doubled."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from paperworks.bench.store import Store

psutil = pytest.importorskip("psutil")
ADDRESS = pytest.importorskip("ray").util.get_node_ip_address()
RAY = Path(sys.executable).with_name("ray")
pytestmark = pytest.mark.skipif(not RAY.exists() and shutil.which("ray") is None, reason="no command ray")

STUDY = '''
"""A study of the test: trials that take a moment."""
import time
from paperworks.bench.seeds import rng_for
from paperworks.bench.study import Claim, Contender, Metric, Paper, Scale, Study

def trial(contender, dataset, seed, scale):
    time.sleep(0.15)
    return {"value": rng_for("slow", contender, dataset, seed).normal() + (contender == "ours")}

STUDY = Study(
    slug="slow-study", family="fakes", paper=Paper("On Patience", "A. Nonymous", "Nowhere 2025", "https://example.org"),
    question="Is ours larger?", datasets=("plain",),
    contenders=(Contender("ours", "method", "section 1"), Contender("theirs", "peer", "a library")),
    metrics=(Metric("value", "higher"),),
    claims=(Claim("ours is larger", "value", "ours", "theirs", "better"),),
    scales={name: Scale(60) for name in ("smoke", "quick", "paper")}, trial=trial,
)
'''


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN", "a-token-of-the-test-0123456789abcdef")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ray = str(RAY if RAY.exists() else shutil.which("ray"))
    head = ["start", "--head", f"--port={port}", "--num-cpus=2", "--include-dashboard=false", "--disable-usage-stats"]
    subprocess.run(
        [ray, *head, f"--node-ip-address={ADDRESS}", "--object-store-memory=100000000"],
        check=True,
        capture_output=True,
        timeout=180,
    )
    yield f"{ADDRESS}:{port}"
    subprocess.run([ray, "stop", "--force"], check=False, capture_output=True, timeout=120)


def workers() -> list[psutil.Process]:
    """Return the processes that run a trial now; Ray writes into their titles what they do."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        title = " ".join(process.info["cmdline"] or [])
        if title.startswith("ray::run_isolated"):
            found.append(process)
    return found


def test_two_writers_and_a_killed_worker(cluster: str, new_database: Callable[[], str], tmp_path: Path) -> None:
    url = new_database()
    file = tmp_path / "slow.py"
    file.write_text(STUDY, encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "paperworks",
        "run",
        str(file),
        "--no-report",
        "--backend",
        "ray",
        "--address",
        cluster,
    ]
    with Store(url) as store:
        started = [
            subprocess.Popen([*command, "--jobs", "1"], env={**os.environ, "PAPERWORKS_STORE": url}, text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            for _ in range(2)
        ]  # fmt: skip
        killed = 0
        for _ in range(1200):
            runs = store.runs()
            if not killed and len(runs) == 2 and all(run.n_done >= 5 for run in runs):
                for process in workers()[:1]:
                    process.kill()
                    killed = process.pid
            if all(process.poll() is not None for process in started):
                break
            time.sleep(0.1)
        ends = [process.communicate(timeout=60) for process in started]
        assert killed, ends
        assert [process.returncode for process in started] == [0, 0], ends
        runs = store.runs()
        assert [run.status for run in runs] == ["done", "done"]
        seen = []
        for run in runs:
            trials = store.trials(run.id)
            assert Counter((trial.contender, trial.seed) for trial in trials) == Counter(
                (contender, seed) for contender in ("ours", "theirs") for seed in range(60)
            )
            assert {trial.status for trial in trials} == {"ok"}
            seen.append({trial.fingerprint: trial.metrics["value"] for trial in trials})
        assert seen[0] == seen[1]
        assert runs[0].verdict == runs[1].verdict
        table = tmp_path / "all.csv"
        store.export(table)
        import pandas as pd

        exported = pd.read_csv(table)
        assert len(exported.drop_duplicates("fingerprint")) == 120
