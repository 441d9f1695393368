"""Numbers and claims in words, the same in the terminal and on the page."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from paperworks.bench.study import Study

__all__ = [
    "INTERVALS",
    "SIGNS",
    "claim_in_words",
    "decimals_for",
    "effect_name",
    "first_line",
    "format_interval",
    "format_number",
    "format_ratio",
    "plural",
    "scope_in_words",
]

SIGNS = {"holds": "✓", "fails": "✗", "inconclusive": "~"}
"""A sign for each verdict, so that colour is never alone."""

INTERVALS = {
    "bca": "bootstrap (BCa)",
    "percentile": "bootstrap (percentile)",
    "student": "Student t",
    "exact-binomial": "exact binomial",
    "constant": "all values equal",
}
"""Kinds of intervals in words."""

MISSING = "–"


def plural(n: int, one: str, many: str | None = None) -> str:
    """Return a count with its noun.

    Examples
    --------
    >>> from paperworks.bench.report.wording import plural
    >>> plural(1, "trial"), plural(1200, "trial")
    ('1 trial', '1,200 trials')
    """
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def first_line(text: str, limit: int = 200) -> str:
    """Return the first line of a text that says something, cut to `limit` characters."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return line if len(line) <= limit else line[: limit - 1] + "…"


def decimals_for(widths: Iterable[float]) -> int:
    """Return how many decimals show two digits of the narrowest of the given widths; 3 if none is positive.

    Examples
    --------
    >>> from paperworks.bench.report.wording import decimals_for
    >>> decimals_for([0.024, 0.5]), decimals_for([130.0]), decimals_for([])
    (3, 0, 3)
    """
    positive = [width for width in widths if math.isfinite(width) and width > 0]
    if not positive:
        return 3
    return min(6, max(0, 1 - math.floor(math.log10(min(positive)))))


def format_number(value: float | None, decimals: int = 3) -> str:
    """Return a number with fixed decimals, in powers of ten where that would show nothing, a dash where there is none.

    Examples
    --------
    >>> from paperworks.bench.report.wording import format_number
    >>> format_number(0.81249), format_number(2.5e-9), format_number(float("nan")), format_number(-0.0001, 2)
    ('0.812', '2.5e-09', '–', '-0.0001')
    """
    if value is None or math.isnan(value):
        return MISSING
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if value != 0 and (abs(value) >= 1e7 or abs(value) < 0.5 * 10.0**-decimals):
        return f"{value:.2g}"
    return f"{value:.{decimals}f}"


def format_interval(low: float | None, high: float | None, decimals: int = 3) -> str:
    """Return ``[low, high]``, or an empty text where there is no interval."""
    if low is None or high is None or math.isnan(low) or math.isnan(high):
        return ""
    return f"[{format_number(low, decimals)}, {format_number(high, decimals)}]"


def format_ratio(value: float) -> str:
    """Return how many times one is another, in three digits.

    Examples
    --------
    >>> from paperworks.bench.report.wording import format_ratio
    >>> format_ratio(1562.3), format_ratio(0.9476), format_ratio(24.21)
    ('1,560', '0.948', '24.2')
    """
    if not math.isfinite(value) or value <= 0:
        return MISSING
    digits = max(0, 2 - math.floor(math.log10(value)))
    return f"{round(value, 2 - math.floor(math.log10(value))):,.{digits}f}"


def claim_in_words(claim: Mapping[str, Any], study: Study | None = None) -> str:
    """Return what a claim says as one sentence.

    Parameters
    ----------
    claim : mapping
        A claim as `StudyVerdict.to_json` gives it.
    study : Study, optional
        Its study, for the direction and the unit of the metric.

    Returns
    -------
    str
        For instance ``accuracy of IMMAX is higher than that of LDAM by more than 0.01``.
    """
    metric = next((m for m in study.metrics if m.name == claim["metric"]), None) if study else None
    unit = f" {metric.unit}" if metric and metric.unit else ""
    margin = f"{claim['margin']:g}"
    number = not isinstance(claim["against"], str)
    rival = f"{claim['against']:g}{unit}" if number else f"that of {claim['against']}"
    subject = f"{claim['metric']} of {claim['subject']}"
    if claim["kind"] == "ratio":
        bound = {"lower": "at most", "higher": "at least"}[metric.better] if metric else "within"
        return f"{subject} is {bound} {margin} times {rival}"
    if claim["kind"] == "not_worse":
        return f"{subject} is {f'at most {margin}{unit} worse' if claim['margin'] else 'not worse'} than {rival}"
    comparison = {"lower": "lower", "higher": "higher"}[metric.better] if metric else "better"
    return f"{subject} is {comparison} than {rival}" + (f" by more than {margin}{unit}" if claim["margin"] else "")


def scope_in_words(claim: Mapping[str, Any]) -> str:
    """Return the data sets that a claim speaks of."""
    return f"on {', '.join(claim['datasets'])}" if claim["datasets"] else "over all data sets"


def effect_name(claim: Mapping[str, Any]) -> str:
    """Return the name of the quantity whose interval decides a claim."""
    against = claim["against"] if isinstance(claim["against"], str) else f"{claim['against']:g}"
    if claim["kind"] == "ratio":
        return f"{claim['metric']}: {claim['subject']} / {against}"
    return f"{claim['metric']}: advantage of {claim['subject']} over {against}"
