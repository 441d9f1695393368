"""Tables over the results of a run."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from paperworks.bench.study import Metric, Study
from paperworks.bench.verdict.claims import as_reported, effect_interval, effect_threshold
from paperworks.bench.verdict.intervals import MIN_PAIRS, mean_intervals, proportion_interval
from paperworks.bench.verdict.pairs import KEYS, Pairs, check_results, is_binary, metric_values, pair_trials, sign_of

__all__ = ["forest_table", "holm", "pairwise_table", "summary_table"]

Floats = NDArray[np.float64]


def ordered(found: Iterable[str], declared: Iterable[str]) -> list[str]:
    """Return the distinct names of `found` in the order in which they were declared, others last."""
    present = set(found)
    known = [name for name in declared if name in present]
    return known + sorted(present.difference(known))


def forest_table(study: Study, results: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return the interval of every claim, per data set and over all of them.

    Parameters
    ----------
    study : Study
        The study whose claims are shown.
    results : DataFrame
        As in `judge`.
    confidence : float, default 0.95
        Level of the intervals.

    Returns
    -------
    DataFrame
        Columns claim (position in the study), dataset (``""`` for all together), dataset_label, estimate, low, high,
        n_pairs, n_imputed, method, threshold. Estimates are advantages of the subject, or ratios; NaN where there is
        none. Claims under which only one data set was run have that row and the common one.
    """
    check_results(results)
    metrics = {metric.name: metric for metric in study.metrics}
    rows = []
    for position, claim in enumerate(study.claims):
        metric = metrics[claim.metric]
        binary = is_binary(results, claim.metric)
        pairs = pair_trials(results, metric, claim.subject, claim.against, claim.kind, claim.datasets)
        labels = dict(zip(pairs.frame["dataset"], pairs.frame["dataset_label"], strict=True))
        parts = {name: Pairs(part) for name, part in pairs.frame.groupby("dataset", sort=False)}
        for name in [*ordered(labels, study.datasets), ""]:
            part = pairs if name == "" else parts[name]
            interval = None
            if not part.count("nonpositive"):
                interval = effect_interval(part, claim, metric, binary, confidence)
            shown = None if interval is None else as_reported(interval, claim, metric)
            rows.append(
                {
                    "claim": position,
                    "dataset": name,
                    "dataset_label": labels.get(name, "all data sets"),
                    "estimate": shown.estimate if shown else math.nan,
                    "low": shown.low if shown else math.nan,
                    "high": shown.high if shown else math.nan,
                    "n_pairs": shown.n_pairs if shown else 0,
                    "n_imputed": part.count("failed", "undefined"),
                    "method": shown.method if shown else "",
                    "threshold": claim.margin if claim.kind == "ratio" else effect_threshold(claim, metric),
                }
            )
    columns = ["claim", "dataset", "dataset_label", "estimate", "low", "high", "n_pairs", "n_imputed", "method"]
    return pd.DataFrame(rows, columns=[*columns, "threshold"])


def _reason(rows: pd.DataFrame, values: Floats, ok: NDArray[np.bool_]) -> str:
    counts = {
        "not a number": int((ok & np.isnan(values)).sum()),
        "infinite": int((ok & np.isinf(values)).sum()),
        **Counter(str(status) for status in rows["status"].to_numpy()[~ok]),
    }
    return ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)


def summary_table(study: Study, results: pd.DataFrame, *, confidence: float = 0.95) -> pd.DataFrame:
    """Return the mean of every metric per data set and contender.

    Parameters
    ----------
    study : Study
        The study, for its order of data sets, contenders and metrics.
    results : DataFrame
        As in `judge`.
    confidence : float, default 0.95
        Level of the intervals.

    Returns
    -------
    DataFrame
        One row per data set, contender and metric, with dataset, dataset_label, contender, metric, mean, low, high
        (over the trials with a finite value; NaN if there is none, no interval for a single one), method, n (trials),
        n_defined, n_undefined (NaN or infinite), n_failed, complete (every trial is in the mean), reason (why some are
        not), absent (every trial ended well and none has a number), and best (the best complete mean of its data set
        and metric, ties included).
    """
    check_results(results)
    contenders = [contender.name for contender in study.contenders]
    groups: dict[tuple[str, str], pd.DataFrame] = {
        (str(dataset), str(contender)): part
        for (dataset, contender), part in results.groupby(["dataset", "contender"], sort=False)
    }
    labels = dict(zip(results["dataset"], results["dataset_label"], strict=True))
    binary = {metric.name: is_binary(results, metric.name) for metric in study.metrics}
    rows: list[dict[str, Any]] = []
    cells: list[Floats] = []
    for dataset in ordered(labels, study.datasets):
        for contender in ordered((name for place, name in groups if place == dataset), contenders):
            part = groups[dataset, contender]
            ok = (part["status"] == "ok").to_numpy(dtype=bool)
            for metric in study.metrics:
                values: Floats = np.asarray(metric_values(part, metric.name), dtype=np.float64)
                defined = ok & np.isfinite(values)
                order = np.argsort(part["seed"].to_numpy(), kind="stable")
                cells.append(values[order][defined[order]])
                rows.append(
                    {
                        "dataset": dataset,
                        "dataset_label": labels[dataset],
                        "contender": contender,
                        "metric": metric.name,
                        "mean": math.nan,
                        "low": math.nan,
                        "high": math.nan,
                        "method": "",
                        "n": len(part),
                        "n_defined": int(defined.sum()),
                        "n_undefined": int((ok & ~defined).sum()),
                        "n_failed": int((~ok).sum()),
                        "complete": bool(defined.all()),
                        "reason": "" if defined.all() else _reason(part, values, ok),
                        "absent": bool(ok.all() and np.isnan(values).all()),
                    }
                )
    by_size: dict[int, list[int]] = {}
    for i, cell in enumerate(cells):
        by_size.setdefault(cell.size, []).append(i)
    for size, members in by_size.items():
        if size == 0:
            continue
        found = mean_intervals(np.stack([cells[i] for i in members]), confidence, 1999, 200)
        for i, mean, low, high, method in zip(members, *found, strict=True):
            row = rows[i]
            row["mean"] = float(mean)
            if binary[row["metric"]]:
                low, high = proportion_interval(int(cells[i].sum()), size, confidence)
                row.update(low=low, high=high, method="exact-binomial")
            elif size > 1:
                row.update(low=float(low), high=float(high), method=method)
    columns = ["dataset", "dataset_label", "contender", "metric", "mean", "low", "high", "method", "n", "n_defined"]
    table = pd.DataFrame(rows, columns=[*columns, "n_undefined", "n_failed", "complete", "reason", "absent"])
    return table.assign(best=_best(table, study.metrics))


def _best(table: pd.DataFrame, metrics: Sequence[Metric]) -> NDArray[np.bool_]:
    sign = table["metric"].map({metric.name: sign_of(metric) for metric in metrics}).astype(np.float64)
    score = (sign * table["mean"]).where(table["complete"].astype(bool))
    top = score.groupby([table["dataset"], table["metric"]]).transform("max")
    rivals = score.groupby([table["dataset"], table["metric"]]).transform("count")
    return (score.eq(top) & (rivals > 1)).to_numpy(dtype=bool)


def holm(p_values: ArrayLike) -> Floats:
    """Return p-values corrected for their number by Holm's step-down procedure.

    Parameters
    ----------
    p_values : array-like of shape (n,)
        Numbers in [0, 1]; NaN stands for a test that was not made, stays NaN and does not count.

    Returns
    -------
    ndarray of shape (n,)
        The corrected p-values in the same order: with the k-th smallest of m, the running maximum of
        ``(m - k + 1) * p``, at most 1.

    Raises
    ------
    ValueError
        If a value is outside [0, 1].

    Examples
    --------
    >>> from paperworks.bench.verdict import holm
    >>> holm([0.01, 0.04, 0.03]).round(3).tolist()
    [0.03, 0.06, 0.06]
    """
    p = np.atleast_1d(np.asarray(p_values, dtype=np.float64))
    made = np.flatnonzero(~np.isnan(p))
    if ((p[made] < 0) | (p[made] > 1)).any():
        raise ValueError(f"p_values must be in [0, 1], got {p[made].min()} to {p[made].max()}")
    order = made[np.argsort(p[made], kind="stable")]
    corrected = np.full(p.shape, np.nan)
    corrected[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * np.arange(order.size, 0, -1)))
    return corrected


def signed_rank(differences: Floats) -> float:
    """Return the two-sided p-value of Wilcoxon's signed-rank test; NaN for too few differences."""
    if differences.size < MIN_PAIRS:
        return math.nan
    if not differences.any():
        return 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ties make SciPy turn to the normal approximation, as is right here
        return float(stats.wilcoxon(differences, zero_method="pratt").pvalue)


def pairwise_table(study: Study, results: pd.DataFrame) -> pd.DataFrame:
    """Compare all pairs of contenders on every metric by Wilcoxon's signed-rank test.

    Parameters
    ----------
    study : Study
        The study, for its order of contenders and metrics.
    results : DataFrame
        As in `judge`.

    Returns
    -------
    DataFrame
        Columns metric, first, second, mean_difference (first minus second, in the metric's unit), n_pairs (common
        trials in which both have a finite value), n_left_out (the other common trials), p (two-sided; NaN for fewer
        than six pairs), p_holm (corrected over the pairs of one metric), better (the name of the better one by the mean
        difference, ``""`` if equal).
    """
    check_results(results)
    names = ordered(results["contender"], [contender.name for contender in study.contenders])
    rows = []
    ok = results["status"] == "ok"
    for metric in study.metrics:
        values = metric_values(results, metric.name).where(ok)
        wide = pd.DataFrame(
            {"contender": results["contender"], "dataset": results["dataset"], "seed": results["seed"], "value": values}
        ).set_index([*KEYS, "contender"])["value"]
        run = pd.Series(True, index=wide.index).unstack("contender", fill_value=False).sort_index()
        table = wide.unstack("contender").reindex(run.index)
        tested = []
        for first, second in combinations(names, 2):
            common = (run[first] & run[second]).to_numpy(dtype=bool)
            with np.errstate(invalid="ignore"):
                difference = (table[first] - table[second]).to_numpy(dtype=np.float64)[common]
            kept = difference[np.isfinite(difference)]
            mean = float(kept.mean()) if kept.size else math.nan
            gain = sign_of(metric) * mean
            tested.append(
                {
                    "metric": metric.name,
                    "first": first,
                    "second": second,
                    "mean_difference": mean,
                    "n_pairs": kept.size,
                    "n_left_out": int(difference.size - kept.size),
                    "p": signed_rank(kept),
                    "better": first if gain > 0 else second if gain < 0 else "",
                }
            )
        corrected = holm([row["p"] for row in tested])
        rows += [{**row, "p_holm": p} for row, p in zip(tested, corrected, strict=True)]
    columns = ["metric", "first", "second", "mean_difference", "n_pairs", "n_left_out", "p", "p_holm", "better"]
    return pd.DataFrame(rows, columns=columns)
