"""Verdicts on claims."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from paperworks.bench.study import Claim, Metric, Study
from paperworks.bench.verdict.intervals import MIN_PAIRS, Interval, mean_interval, proportion_interval
from paperworks.bench.verdict.pairs import Pairs, check_results, is_binary, pair_trials, sign_of

__all__ = [
    "MAX_IMPUTED",
    "ClaimVerdict",
    "StudyVerdict",
    "Verdict",
    "as_reported",
    "effect_interval",
    "effect_threshold",
    "judge",
]

Verdict = Literal["holds", "fails", "inconclusive"]

MAX_IMPUTED = 0.1
"""A claim cannot hold if more than this part of its pairs stands for failed trials: how bad those are is not known."""


@dataclass(frozen=True)
class ClaimVerdict:
    """A claim with what the results say about it."""

    claim: Claim
    verdict: Verdict
    interval: Interval | None
    """None if no pair has a value."""
    threshold: float
    """What the interval is held against: the margin, its negative for ``not_worse``, the ratio itself for ``ratio``."""
    n_imputed: int = 0
    """How many of the pairs stand for a failed or undefined trial of the subject."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class StudyVerdict:
    """The verdict on a study: fails if a claim fails, holds if all hold, else inconclusive."""

    verdict: Verdict
    claims: tuple[ClaimVerdict, ...]
    confidence: float = 0.95
    notes: tuple[str, ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        """How many claims hold, fail and are inconclusive."""
        found = Counter(claim.verdict for claim in self.claims)
        return {name: found[name] for name in ("holds", "fails", "inconclusive")}

    def to_json(self) -> dict[str, Any]:
        """Return plain data for storage and reports; a number that is not finite becomes None, with a note."""
        return {
            "verdict": self.verdict,
            "confidence": self.confidence,
            "counts": self.counts,
            "notes": list(self.notes),
            "claims": [_claim_json(claim) for claim in self.claims],
        }


def _number(n: int, one: str, many: str | None = None) -> str:
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def effect_threshold(claim: Claim, metric: Metric) -> float:
    """Return what the mean effect is held against; for a ratio a logarithm."""
    if claim.kind == "ratio":
        return sign_of(metric) * math.log(claim.margin)
    return claim.margin if claim.kind == "better" else -claim.margin


def effect_interval(pairs: Pairs, claim: Claim, metric: Metric, binary: bool, confidence: float) -> Interval | None:
    """Return the interval of the mean effect (of the log ratio for a ratio); None if no effect is defined."""
    threshold = effect_threshold(claim, metric)
    effects = pairs.effects(threshold)
    if effects.size == 0:
        return None
    if binary and claim.kind != "ratio" and not isinstance(claim.against, str):
        # All trials of a 0/1 metric may agree, which says less than a bootstrap of them would make of it. A failed
        # trial has the worse of the two values.
        kept = pairs.frame[pairs.frame["state"].isin(("used", "failed", "undefined"))]
        sign = sign_of(metric)
        worst = 0.0 if sign > 0 else 1.0
        values = np.where(kept["state"] == "used", kept["subject"].to_numpy(dtype=np.float64), worst)
        bounds = proportion_interval(int(values.sum()), values.size, confidence)
        low, high = sorted(sign * (bound - claim.against) for bound in bounds)
        return Interval(sign * (float(values.mean()) - claim.against), low, high, values.size, "exact-binomial")
    return mean_interval(effects, confidence=confidence)


def as_reported(interval: Interval, claim: Claim, metric: Metric) -> Interval:
    """Return the interval as it is shown: a ratio as such, not as its logarithm."""
    if claim.kind != "ratio":
        return interval
    with np.errstate(over="ignore"):
        estimate, *bounds = (
            float(np.exp(sign_of(metric) * effect)) for effect in (interval.estimate, interval.low, interval.high)
        )
    return Interval(estimate, min(bounds), max(bounds), interval.n_pairs, interval.method)


def _decide(kind: str, low: float, high: float, threshold: float, tolerance: float) -> Verdict:
    # Differences of decimal numbers are off by rounding; what is equal up to rounding counts as equal.
    if kind == "better":
        if low > threshold + tolerance:
            return "holds"
        return "fails" if high <= threshold + tolerance else "inconclusive"
    if low >= threshold - tolerance:
        return "holds"
    return "fails" if high < threshold - tolerance else "inconclusive"


def _rounding(pairs: Pairs, claim: Claim) -> float:
    used = pairs.frame.loc[pairs.frame["state"] == "used", ["subject", "against"]].to_numpy(dtype=np.float64)
    if claim.kind == "ratio":
        return 1e-12
    return 1e-12 * float(np.abs(used).max(initial=0.0))


def _notes(pairs: Pairs, claim: Claim, results: pd.DataFrame) -> list[str]:
    notes: list[str] = []
    ran = {claim.subject: bool((results["contender"] == claim.subject).any())}
    if isinstance(claim.against, str):
        ran[claim.against] = bool((results["contender"] == claim.against).any())
    notes.extend(f"{name} was not run." for name, was_run in ran.items() if not was_run)
    if claim.datasets:
        absent = [name for name in claim.datasets if name not in set(results["dataset"])]
        if absent:
            notes.append(f"Not in this run: {', '.join(absent)}.")
    n = len(pairs.frame) - pairs.count("missing")
    for state, reason in (("failed", "failed"), ("undefined", f"have no finite value of {claim.metric}")):
        if count := pairs.count(state):
            reason = reason.replace("have", "has") if count == 1 else reason
            notes.append(
                f"{count:,} of {_number(n, 'trial')} of {claim.subject} {reason}; each counts as its worst result."
            )
    if count := pairs.count("unbounded"):
        notes.append(f"{_number(count, 'pair')} left out: {claim.metric} of {claim.subject} is infinitely good there.")
    if count := pairs.count("against"):
        notes.append(f"{_number(count, 'pair')} without a finite value of {claim.metric} of {claim.against} left out.")
    if all(ran.values()) and (count := pairs.count("missing")):
        notes.append(f"{_number(count, 'pair')} left out: only one of the two was run there.")
    return notes


def _judge_claim(results: pd.DataFrame, claim: Claim, metric: Metric, binary: bool, confidence: float) -> ClaimVerdict:
    pairs = pair_trials(results, metric, claim.subject, claim.against, claim.kind, claim.datasets)
    threshold = effect_threshold(claim, metric)
    reported = claim.margin if claim.kind == "ratio" else threshold
    notes = _notes(pairs, claim, results)
    imputed = pairs.count("failed", "undefined")

    if count := pairs.count("nonpositive"):
        notes.append(f"A ratio needs positive values; {_number(count, 'pair')} of {claim.metric} without.")
        return ClaimVerdict(claim, "inconclusive", None, reported, imputed, tuple(notes))
    interval = effect_interval(pairs, claim, metric, binary, confidence)
    if interval is None:
        if imputed:
            notes.append(f"{claim.subject} has no result to show.")
        elif not any(note.endswith("was not run.") for note in notes):
            notes.append("Not run: there is no pair to compare.")
        return ClaimVerdict(claim, "fails" if imputed else "inconclusive", None, reported, imputed, tuple(notes))

    verdict = _decide(claim.kind, interval.low, interval.high, threshold, _rounding(pairs, claim))
    if interval.method == "percentile":
        notes.append("The BCa interval is undefined for these values; this is the percentile interval.")
    if not (math.isfinite(interval.low) and math.isfinite(interval.high)):
        verdict = "inconclusive"
        notes.append("The values are too large: the interval is not finite.")
    if interval.n_pairs < MIN_PAIRS:
        verdict = "inconclusive"
        notes.append(f"Only {_number(interval.n_pairs, 'pair')}; a verdict needs at least {MIN_PAIRS}.")
    elif verdict == "holds" and imputed > MAX_IMPUTED * interval.n_pairs:
        verdict = "inconclusive"
        notes.append(f"More than {MAX_IMPUTED:.0%} of the trials have no result: too many for the claim to hold.")
    return ClaimVerdict(claim, verdict, as_reported(interval, claim, metric), reported, imputed, tuple(notes))


def judge(study: Study, results: pd.DataFrame, *, confidence: float = 0.95) -> StudyVerdict:
    """Judge every claim of a study by the results of a run.

    Parameters
    ----------
    study : Study
        The study, for its claims and the direction of its metrics.
    results : DataFrame of one row per trial
        Columns contender, dataset, dataset_label, seed, status (``"ok"`` or what went wrong), error, and one float
        column per metric, NaN where there is no value.
    confidence : float, default 0.95
        Level of the two-sided intervals.

    Returns
    -------
    StudyVerdict
        The verdict of the study with one `ClaimVerdict` per claim, in the study's order.

    Raises
    ------
    ValueError
        If a column is missing, a trial comes twice, or `confidence` is outside (0, 1).

    Notes
    -----
    Failed or undefined trials of a claim's subject count as the worst defined effect or as the threshold, whichever is
    smaller; if they are more than a tenth of the pairs, the claim cannot hold. Pairs in which the other side has no
    finite value are left out and counted in the notes. A metric is taken as 0/1 if all its finite values in `results`
    are 0 or 1; held against a number, its interval is the exact one of Clopper and Pearson. Fewer than six pairs, or
    values that are not positive under a ratio, leave a claim inconclusive.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be in (0, 1), got {confidence!r}")
    check_results(results)
    metrics = {metric.name: metric for metric in study.metrics}
    binary = {name: is_binary(results, name) for name in {claim.metric for claim in study.claims}}
    claims = tuple(
        _judge_claim(results, claim, metrics[claim.metric], binary[claim.metric], confidence) for claim in study.claims
    )
    found = {claim.verdict for claim in claims}
    verdict: Verdict = "holds" if found == {"holds"} else "fails" if "fails" in found else "inconclusive"
    notes = () if claims else ("The study states no claim.",)
    return StudyVerdict(verdict, claims, confidence, notes)


def _claim_json(found: ClaimVerdict) -> dict[str, Any]:
    claim, interval = found.claim, found.interval
    notes = list(found.notes)
    numbers: dict[str, float | None] = {"estimate": None, "low": None, "high": None}
    if interval is not None:
        for name in numbers:
            value = getattr(interval, name)
            numbers[name] = value if math.isfinite(value) else None
            if not math.isfinite(value):
                notes.append(f"{name} is not finite.")
    return {
        "statement": claim.statement,
        "metric": claim.metric,
        "subject": claim.subject,
        "against": claim.against,
        "kind": claim.kind,
        "margin": claim.margin,
        "datasets": list(claim.datasets),
        "verdict": found.verdict,
        **numbers,
        "threshold": found.threshold,
        "n_pairs": interval.n_pairs if interval else 0,
        "n_imputed": found.n_imputed,
        "method": interval.method if interval else None,
        "notes": notes,
    }
