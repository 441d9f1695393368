"""Speed of rent decisions, calibration and schedules beside row-by-row code and scikit-learn's calibration."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.isotonic import IsotonicRegression

from benchmarks import Case
from paperworks.online import HistogramCalibrator, JobScheduler, SkiRental, conformal_rent_time

Floats = NDArray[np.float64]


def rows_of_a_frame(scores: Floats) -> pd.Series:
    """Decide row by row, as the published scripts do."""

    def rent_time(row: pd.Series) -> float:
        v = row["score"]
        return 30.0 if v <= 0.8 else 30.0 * math.sqrt((1.0 - v) / v)

    return pd.DataFrame({"score": scores}).apply(rent_time, axis=1)


def intervals_in_a_loop(lower: Floats, upper: Floats, delta: float, b: float) -> list[float]:
    """Decide interval by interval."""
    found = []
    for low, high in zip(lower.tolist(), upper.tolist(), strict=True):
        if high <= b:
            found.append(b)
        elif low > b:
            found.append(b * min(1.0, math.sqrt(delta / (1 - delta))))
        else:
            zeta = delta + (1 - delta) * b / low + 2 * math.sqrt(delta * (1 - delta) * b / low)
            if delta >= low / (low + b):
                zeta = 1 + b / low
            late = delta + high / b
            if zeta >= 2 and late >= 2:
                found.append(b)
            elif zeta <= late:
                found.append(low * min(1.0, math.sqrt(b * delta / (low * (1 - delta)))))
            else:
                found.append(high)
    return found


def pairs_in_loops(scores: Floats, urgent: NDArray[np.bool_], theta: float, low: float, high: float) -> float:
    """Schedule and count all pairs one by one."""
    threshold = theta / (1 - theta) * high / (high - low)
    order = np.argsort(-scores, kind="stable")
    y = urgent[order].tolist()
    n1 = int((scores > threshold).sum())
    L = M = N = 0
    for i in range(len(y)):
        if y[i]:
            continue
        for j in range(i + 1, len(y)):
            if j < n1:
                L += y[j]
                M += not y[j]
            else:
                N += y[j]
    return theta * high * L + theta * low * M + (high - low) * N


def pairs_in_matrices(scores: Floats, urgent: NDArray[np.bool_], theta: float, low: float, high: float) -> float:
    """Schedule and count all pairs by a matrix of them."""
    threshold = theta / (1 - theta) * high / (high - low)
    y = urgent[np.argsort(-scores, kind="stable")]
    n1 = int((scores > threshold).sum())
    inverted = np.triu(~y[:, None] & y[None, :], 1)
    both = np.triu(~y[:n1, None] & ~y[None, :n1], 1)
    L = inverted[:n1, :n1].sum()
    return float(theta * high * L + theta * low * both.sum() + (high - low) * (inverted.sum() - L))


def cases() -> list[Case]:
    """Return the comparisons."""
    rng = np.random.default_rng(0)
    million = rng.random(1_000_000)
    labels = rng.random(million.size) < million
    policy = SkiRental(30.0, calibrator=None)
    lower = rng.uniform(1.0, 60.0, million.size)
    upper = lower + rng.uniform(0.0, 60.0, million.size)
    scheduler = JobScheduler(0.3, calibrator=None, ties="stable")
    jobs, urgent = million[:5000], labels[:5000]
    return [
        Case(
            "20,000 rent decisions",
            partial(policy.rent_time, million[:20_000]),
            partial(rows_of_a_frame, million[:20_000]),
            "pandas.DataFrame.apply row by row",
        ),
        Case(
            "1,000,000 rent decisions",
            partial(policy.rent_time, million),
            lambda: np.where(million <= 0.8, 30.0, 30.0 * np.sqrt((1.0 - million) / np.maximum(million, 1e-300))),
            "the formula in NumPy, nothing checked",
        ),
        Case(
            "1,000,000 intervals",
            partial(conformal_rent_time, lower, upper, delta=0.1, buy_cost=30.0),
            partial(intervals_in_a_loop, lower, upper, 0.1, 30.0),
            "plain Python loop",
        ),
        Case(
            "histogram of 1,000,000 scores",
            partial(HistogramCalibrator(20).fit, million, labels),
            partial(IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip").fit, million, labels),
            "sklearn.isotonic.IsotonicRegression",
        ),
        Case(
            "schedule of 2,000 jobs with all pairs",
            partial(scheduler.run, jobs[:2000], urgent[:2000]),
            partial(pairs_in_loops, jobs[:2000], urgent[:2000], 0.3, 0.1, 1.0),
            "double loop in Python",
        ),
        Case(
            "schedule of 5,000 jobs with all pairs",
            partial(scheduler.run, jobs, urgent),
            partial(pairs_in_loops, jobs, urgent, 0.3, 0.1, 1.0),
            "double loop in Python",
        ),
        Case(
            "schedule of 5,000 jobs with all pairs, by matrices",
            partial(scheduler.run, jobs, urgent),
            partial(pairs_in_matrices, jobs, urgent, 0.3, 0.1, 1.0),
            "NumPy matrices of pairs",
        ),
    ]
