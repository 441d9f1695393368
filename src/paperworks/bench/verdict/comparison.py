"""Two runs of one study beside each other: which numbers moved, by how much, and whether that is more than chance."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from paperworks.bench.study import Study
from paperworks.bench.verdict.intervals import mean_interval
from paperworks.bench.verdict.pairs import KEYS, check_results, metric_values, sign_of
from paperworks.bench.verdict.tables import holm, ordered, signed_rank

__all__ = ["compare_runs"]


def compare_runs(study: Study, before: pd.DataFrame, after: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Compare two runs trial by trial: the same contender, data set and seed form a pair.

    Parameters
    ----------
    study : Study
        The study of both runs.
    before, after : DataFrame
        Results, as in `judge`.
    confidence : float, default 0.95
        Level of the intervals.

    Returns
    -------
    DataFrame
        One row per metric and contender with a common trial: metric, contender, before, after (means over the pairs in
        which both are finite), change (after minus before), low, high (interval of the change), n_pairs, n_left_out
        (the other common trials), n_changed (pairs whose values differ), p (Wilcoxon's signed-rank test, two-sided;
        NaN for fewer than six pairs), p_holm (corrected over all rows), and finding: ``"unchanged"`` (every pair is
        equal), ``"better"`` or ``"worse"`` (p_holm below 1 - confidence), else ``"not significant"``; empty without a
        pair.
    """
    check_results(before)
    check_results(after)
    rows: list[dict[str, Any]] = []
    signs = {metric.name: sign_of(metric) for metric in study.metrics}
    keys = ["contender", *KEYS]
    common = before[keys].merge(after[keys], on=keys)["contender"]
    for metric in study.metrics:
        sides = []
        for results in (before, after):
            values = metric_values(results, metric.name).where(results["status"] == "ok")
            sides.append(results[keys].assign(value=values))
        joined = sides[0].merge(sides[1], on=keys, suffixes=("_before", "_after"))
        for contender in ordered(common, [entrant.name for entrant in study.contenders]):
            part = joined[joined["contender"] == contender]
            first, second = (part[f"value_{side}"].to_numpy(dtype=np.float64) for side in ("before", "after"))
            kept = np.isfinite(first) & np.isfinite(second)
            change = second[kept] - first[kept]
            interval = mean_interval(change, confidence=confidence) if change.size else None
            rows.append(
                {
                    "metric": metric.name,
                    "contender": contender,
                    "before": float(first[kept].mean()) if change.size else math.nan,
                    "after": float(second[kept].mean()) if change.size else math.nan,
                    "change": interval.estimate if interval else math.nan,
                    "low": interval.low if interval else math.nan,
                    "high": interval.high if interval else math.nan,
                    "n_pairs": int(change.size),
                    "n_left_out": int(kept.size - change.size),
                    "n_changed": int(np.count_nonzero(change)),
                    "p": signed_rank(change),
                }
            )
    corrected = holm([row["p"] for row in rows])
    for row, p in zip(rows, corrected, strict=True):
        row["p_holm"] = float(p)
        row["finding"] = _finding(row, 1 - confidence, signs[row["metric"]])
    columns = ["metric", "contender", "before", "after", "change", "low", "high", "n_pairs", "n_left_out", "n_changed"]
    return pd.DataFrame(rows, columns=[*columns, "p", "p_holm", "finding"])


def _finding(row: dict[str, Any], level: float, sign: float) -> str:
    if not row["n_pairs"]:
        return ""
    if not row["n_changed"]:
        return "unchanged"
    if row["p_holm"] < level:
        return "better" if sign * row["change"] > 0 else "worse"
    return "not significant"
