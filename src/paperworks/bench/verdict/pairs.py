"""Trials of two contenders side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from paperworks.bench.study import Metric

__all__ = [
    "KEYS",
    "Pairs",
    "check_results",
    "is_binary",
    "metric_values",
    "pair_trials",
    "paired_differences",
    "sign_of",
]

KEYS = ["dataset", "seed"]
_COLUMNS = ("contender", "dataset", "dataset_label", "seed", "status", "error")
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Pairs:
    """The trials of a subject and of what it is held against, side by side."""

    frame: pd.DataFrame
    """One row per (dataset, seed) that either side was run on, sorted, with the columns dataset, dataset_label, seed,
    subject, against (metric values), effect (NaN where undefined) and state: ``used`` (both values are finite),
    ``failed`` and ``undefined`` (the subject's trial failed, or has no finite value; the other side is fine),
    ``unbounded`` (the subject is infinitely good), ``against`` (the other side has no finite value), ``missing`` (one
    side was not run), ``nonpositive`` (a ratio of values that are not all positive)."""

    def count(self, *states: str) -> int:
        """Return the number of rows in the given states."""
        return int(self.frame["state"].isin(states).sum())

    def effects(self, threshold: float) -> Floats:
        """Return the effects of the pairs that count, in the order of the frame.

        A failed or undefined trial of the subject counts as the worst defined effect or as `threshold`, whichever is
        smaller. The result is empty if no effect is defined.
        """
        kept = self.frame[self.frame["state"].isin(("used", "failed", "undefined"))]
        effects = kept["effect"].to_numpy(dtype=np.float64)
        used = kept["state"].to_numpy() == "used"
        if not used.any():
            return np.empty(0)
        return np.where(used, effects, min(float(effects[used].min()), threshold))


def check_results(results: pd.DataFrame) -> pd.DataFrame:
    """Return `results` if it has the columns needed and no trial twice; raise `ValueError` otherwise."""
    absent = [name for name in _COLUMNS if name not in results.columns]
    if absent:
        raise ValueError(f"results must have the columns {', '.join(_COLUMNS)}; missing: {', '.join(absent)}")
    double = results.duplicated(["contender", *KEYS])
    if double.any():
        row = results[double].iloc[0]
        raise ValueError(
            f"results must have one row per contender, dataset and seed; "
            f"({row['contender']!r}, {row['dataset']!r}, {row['seed']!r}) comes twice"
        )
    return results


def metric_values(rows: pd.DataFrame, metric: str) -> pd.Series[float]:
    """Return the column of a metric; NaN throughout if no trial has it."""
    if metric not in rows.columns:
        return pd.Series(np.nan, index=rows.index, dtype=np.float64)
    return rows[metric].astype(np.float64)


def sign_of(metric: Metric) -> float:
    """Return +1 where higher is better, else -1."""
    return 1.0 if metric.better == "higher" else -1.0


def _side(results: pd.DataFrame, contender: str, metric: str, datasets: Sequence[str]) -> pd.DataFrame:
    rows = results[results["contender"] == contender]
    if datasets:
        rows = rows[rows["dataset"].isin(datasets)]
    return pd.DataFrame(
        {
            "dataset": rows["dataset"],
            "seed": rows["seed"],
            "dataset_label": rows["dataset_label"],
            "ok": rows["status"] == "ok",
            "value": metric_values(rows, metric),
        }
    )


def paired_differences(
    results: pd.DataFrame,
    metric: Metric,
    subject: str,
    against: str | float,
    kind: Literal["better", "not_worse", "ratio"] = "better",
    *,
    datasets: Sequence[str] = (),
) -> Pairs:
    """Put the trials of `subject` and `against` side by side.

    Parameters
    ----------
    results : DataFrame
        One row per trial with the columns contender, dataset, dataset_label, seed, status, error and one per metric.
    metric : Metric
        The metric; its direction gives the sign of the effects.
    subject : str
        Contender whose advantage is measured.
    against : str or float
        The other contender, or a number that every trial of `subject` is held against.
    kind : {"better", "not_worse", "ratio"}, default "better"
        The effect is ``±(subject - against)``, for ``ratio`` ``±log(subject / against)``; positive where the subject is
        better.
    datasets : sequence of str, default ()
        Data sets to keep; empty means all.

    Returns
    -------
    Pairs
        All pairs, the unusable ones included, each with its state.

    Raises
    ------
    ValueError
        If a column is missing, or a trial comes twice.

    Examples
    --------
    >>> import pandas as pd
    >>> from paperworks.bench.study import Metric
    >>> from paperworks.bench.verdict import paired_differences
    >>> rows = [("ours", 0, 0.9), ("peer", 0, 0.7), ("ours", 1, 0.8), ("peer", 1, 0.9)]
    >>> frame = pd.DataFrame(rows, columns=["contender", "seed", "accuracy"])
    >>> frame = frame.assign(dataset="wine", dataset_label="wine", status="ok", error="")
    >>> pairs = paired_differences(frame, Metric("accuracy", "higher"), "ours", "peer")
    >>> pairs.effects(threshold=0.0).round(3).tolist()
    [0.2, -0.1]
    """
    return pair_trials(check_results(results), metric, subject, against, kind, datasets)


def pair_trials(
    results: pd.DataFrame, metric: Metric, subject: str, against: str | float, kind: str, datasets: Sequence[str]
) -> Pairs:
    """Do what `paired_differences` does, without checking `results` again."""
    ours = _side(results, subject, metric.name, datasets)
    if isinstance(against, str):
        theirs = _side(results, against, metric.name, datasets)
        frame = ours.merge(theirs, on=KEYS, how="outer", suffixes=("", "_against"))
        frame["dataset_label"] = frame["dataset_label"].fillna(frame["dataset_label_against"])
    else:
        frame = ours.assign(ok_against=True, value_against=float(against))
    frame = frame.sort_values(KEYS, kind="stable", ignore_index=True)

    x = frame["value"].to_numpy(dtype=np.float64)
    y = frame["value_against"].to_numpy(dtype=np.float64)
    missing = (frame["ok"].isna() | frame["ok_against"].isna()).to_numpy(dtype=bool)
    failed = ~frame["ok"].eq(True).to_numpy(dtype=bool)
    against_undefined = ~(frame["ok_against"].eq(True).to_numpy(dtype=bool) & np.isfinite(y))
    unbounded = np.isinf(x) & (np.sign(x) == sign_of(metric))
    with np.errstate(all="ignore"):
        effect = sign_of(metric) * (np.log(x) - np.log(y) if kind == "ratio" else x - y)
    nonpositive = (x <= 0) | (y <= 0) if kind == "ratio" else np.zeros(x.shape, dtype=bool)
    state = np.select(
        [missing, against_undefined, failed, unbounded, ~np.isfinite(x), nonpositive],
        ["missing", "against", "failed", "unbounded", "undefined", "nonpositive"],
        default="used",
    )
    largest = np.finfo(np.float64).max  # a difference of huge numbers may overflow
    return Pairs(
        pd.DataFrame(
            {
                "dataset": frame["dataset"],
                "dataset_label": frame["dataset_label"],
                "seed": frame["seed"],
                "subject": x,
                "against": y,
                "effect": np.where(state == "used", np.clip(effect, -largest, largest), np.nan),
                "state": state,
            }
        )
    )


def is_binary(results: pd.DataFrame, metric: str) -> bool:
    """Return whether all finite values of a metric are 0 or 1."""
    values = metric_values(results, metric).to_numpy()
    values = values[np.isfinite(values)]
    return values.size > 0 and bool(np.isin(values, (0.0, 1.0)).all())
