"""A study that measures time: its trials must not run side by side."""

import os
import time

from paperworks.bench.study import Claim, Contender, Metric, Paper, Scale, Study


def trial(contender: str, dataset: str, seed: int, scale: str) -> dict[str, float]:
    begin = time.monotonic()
    time.sleep(0.01)
    return {"seconds": time.monotonic() - begin, "begin": begin, "end": time.monotonic(), "process": os.getpid()}


STUDY = Study(
    slug="stopwatch",
    family="tests",
    paper=Paper("Speed", "A. Author", "Nowhere 2025", "https://example.org"),
    question="Is it fast?",
    datasets=("one", "two"),
    contenders=(
        Contender("a", "method", "Section 1"),
        Contender("b", "peer", "a baseline"),
        Contender("c", "peer", "another"),
    ),
    metrics=(
        Metric("seconds", "lower", "s", timing=True),
        Metric("begin", "lower"),
        Metric("end", "lower"),
        Metric("process", "lower"),
    ),
    claims=(Claim("a is not slower", "seconds", "a", "b", "not_worse", margin=1.0),),
    scales={name: Scale(3) for name in ("smoke", "quick", "paper")},
    trial=trial,
)
