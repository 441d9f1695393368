"""A study that computes fixed numbers at once; what it does beside is chosen by the name of the data set."""

import ctypes
import math
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np

from paperworks.bench.seeds import rng_for
from paperworks.bench.study import Claim, Contender, Metric, OwnData, Paper, Scale, Study


def _leave_mark(contender: str, dataset: str, seed: int) -> None:
    """Add a line to a file, so that a test can count how often each trial ran."""
    folder = os.environ.get("ARITHMETIC_MARKS")
    if folder:
        with open(Path(folder) / "marks.txt", "a") as file:
            file.write(f"{contender} {dataset} {seed}\n")


def trial(contender: str, dataset: str, seed: int, scale: str) -> dict[str, float]:
    _leave_mark(contender, dataset, seed)
    shift = {"method": 1.0, "peer": 0.0, "needy": 0.5}[contender]
    if dataset == "fails" and contender == "peer":
        raise ValueError("this data set\nis too hard")
    if dataset == "exits" and contender == "peer":
        os._exit(9)
    if dataset == "killed" and contender == "peer":
        os.kill(os.getpid(), signal.SIGKILL)
    if dataset == "leaves" and contender == "peer":
        sys.exit(3)
    if dataset == "slow-python" and contender == "peer":
        while True:
            time.sleep(0.01)
    if dataset == "slow-c" and contender == "peer":
        ctypes.PyDLL(None).sleep(600)
    if dataset == "undefined":
        return {"score": math.nan, "loss": math.inf}
    if dataset == "pauses":
        time.sleep(0.1)
    if dataset == "prints":
        print("not for the screen of the run")
    if dataset.startswith("file:"):
        from paperworks.datasets import load

        table = load(dataset)
        return {"score": shift + float((table.y == "yes").mean()), "loss": float(table.X["size"].sum()) + seed}
    rng = rng_for("arithmetic", dataset, seed)
    sample = rng.standard_normal((60, 60))
    return {"score": shift + float(np.linalg.svd(sample, compute_uv=False).sum()), "loss": float(sample.mean()) - shift}


DATASETS = (
    "plain",
    "other",
    "fails",
    "exits",
    "killed",
    "leaves",
    "slow-python",
    "slow-c",
    "undefined",
    "pauses",
    "prints",
)

STUDY = Study(
    slug="arithmetic",
    family="tests",
    paper=Paper("Sums", "A. Author", "Nowhere 2025", "https://example.org"),
    question="Does one plus one make two?",
    datasets=DATASETS,
    contenders=(
        Contender("method", "method", "Section 1"),
        Contender("peer", "peer", "a baseline"),
        Contender("needy", "peer", "a library", requires=("no-such-distribution",), install="no-such-distribution"),
    ),
    metrics=(Metric("score", "higher"), Metric("loss", "lower")),
    claims=(Claim("the method scores higher", "score", "method", "peer", "better"),),
    scales={
        "smoke": Scale(2, datasets=("plain",), contenders=("method", "peer")),
        "quick": Scale(3, datasets=("plain", "other"), contenders=("method", "peer")),
        "paper": Scale(500, datasets=("plain",), contenders=("method", "peer")),
    },
    trial=trial,
    own_data=OwnData("table", "classification"),
)
