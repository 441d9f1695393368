"""A study that tells what its worker process is like, and takes memory, time or a child process if asked to."""

import os
import subprocess
import sys
import time

from paperworks.bench.study import Contender, Metric, Paper, Scale, Study

METRICS = ("pid", "pools", "omp", "hash", "global_rng", "joblib_jobs")


def trial(contender: str, dataset: str, seed: int, scale: str) -> dict[str, float]:
    import joblib
    import numpy as np
    import threadpoolctl

    if dataset == "memory":
        block = np.ones(40_000_000)
        assert block.sum() > 0
    if dataset == "child":
        code = "import time; t = time.process_time()\nwhile time.process_time() - t < 0.3: pass"
        subprocess.run([sys.executable, "-c", code], check=True)
    if dataset == "sleep":
        time.sleep(0.3)
    np.ones((50, 50)) @ np.ones((50, 50))
    pools = [library["num_threads"] for library in threadpoolctl.threadpool_info()]
    return {
        "pid": os.getpid(),
        "pools": max(pools),
        "omp": float(os.environ["OMP_NUM_THREADS"]),
        "hash": float(hash("a name") % 1_000_003),
        "global_rng": float(np.random.get_state()[2]),  # noqa: NPY002
        "joblib_jobs": joblib.effective_n_jobs(-1),
    }


STUDY = Study(
    slug="probing",
    family="tests",
    paper=Paper("Probes", "A. Author", "Nowhere 2025", "https://example.org"),
    question="Where am I?",
    datasets=("nothing", "memory", "child", "sleep"),
    contenders=(Contender("method", "method", "Section 1"), Contender("peer", "peer", "a baseline")),
    metrics=tuple(Metric(name, "higher") for name in METRICS),
    claims=(),
    scales={name: Scale(2, datasets=("nothing",)) for name in ("smoke", "quick", "paper")},
    trial=trial,
)
