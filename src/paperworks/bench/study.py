"""The contract of a study: frozen records that say what is compared with what, on which data, for which claim.

A study is one module `paperworks/studies/<family>/<method>.py` (or any file of a user) that defines ``STUDY``, a
`Study`, and its trial function. The records hold data and check it; they do nothing else. A malformed study raises
`StudyError` while its module is imported, with a message that says what is wrong and where.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

__all__ = [
    "RESULT_COLUMNS",
    "SCALES",
    "Claim",
    "Contender",
    "Figure",
    "Metric",
    "OwnData",
    "Paper",
    "Plot",
    "Scale",
    "Study",
    "StudyError",
    "TrialFunction",
]

SCALES = ("smoke", "quick", "paper")

RESULT_COLUMNS = (
    "contender",
    "dataset",
    "dataset_label",
    "seed",
    "status",
    "error",
    "wall_seconds",
    "cpu_seconds",
    "peak_mb",
)
"""Columns of a table of results beside the metrics; no metric may have one of these names."""

_SLUG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*\Z")
_FAMILY = re.compile(r"[a-z][a-z0-9_]*\Z")


class StudyError(ValueError):
    """A study is malformed; the message names the field and the value."""


TrialFunction = Callable[[str, str, int, str], Mapping[str, float]]
"""``trial(contender, dataset, seed, scale) -> {metric name: value}``, a plain function addressed by names only."""


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise StudyError(message)


def _text(value: Any, where: str) -> None:
    _require(isinstance(value, str) and bool(value.strip()), f"{where} must be a non-empty text, got {value!r}")


def _choice(value: Any, where: str, choices: tuple[str, ...]) -> None:
    _require(value in choices, f"{where} must be one of {', '.join(choices)}; got {value!r}")


@dataclass(frozen=True)
class Paper:
    """The paper whose method is studied."""

    title: str
    authors: str
    venue: str
    """Venue with year and pages, for instance ``"ICML 2025, PMLR 267:4471-4481"``."""
    url: str
    code: str = ""
    """Address of the official code; empty if there is none."""

    def __post_init__(self) -> None:
        for name in ("title", "authors", "venue", "url"):
            _text(getattr(self, name), f"Paper.{name}")


@dataclass(frozen=True)
class Metric:
    """One number that each trial returns."""

    name: str
    better: Literal["higher", "lower"]
    unit: str = ""
    description: str = ""
    timing: bool = False
    """True for a metric that measures time: its study runs one trial at a time, contenders interleaved."""

    def __post_init__(self) -> None:
        _text(self.name, "Metric.name")
        _require(self.name not in RESULT_COLUMNS, f"Metric.name {self.name!r} is taken by a column of every result")
        _choice(self.better, f"Metric({self.name!r}).better", ("higher", "lower"))


@dataclass(frozen=True)
class Contender:
    """One entrant of a study."""

    name: str
    role: Literal["method", "ablation", "peer"]
    source: str
    """Where it comes from: a paper's section, or a library with the class used."""
    requires: tuple[str, ...] = ()
    """Distributions (as pip names them) that this contender alone needs; if one is missing, it is left out and said."""
    install: str = "paperworks[peers]"
    """What to install to get `requires`."""

    def __post_init__(self) -> None:
        _text(self.name, "Contender.name")
        _choice(self.role, f"Contender({self.name!r}).role", ("method", "ablation", "peer"))
        _text(self.source, f"Contender({self.name!r}).source")
        _require(isinstance(self.requires, tuple), f"Contender({self.name!r}).requires must be a tuple of names")


@dataclass(frozen=True)
class Claim:
    """What the paper says, as a comparison on one metric.

    With e the advantage of `subject` over `against` (positive where the subject is better, in the metric's unit):

    - ``better`` says e > margin,
    - ``not_worse`` says e >= -margin,
    - ``ratio`` says subject/against <= margin where lower is better, >= margin where higher is better.
    """

    statement: str
    metric: str
    subject: str
    against: str | float
    """A contender, or a fixed number that the subject's metric is held against."""
    kind: Literal["better", "not_worse", "ratio"]
    margin: float = 0.0
    datasets: tuple[str, ...] = ()
    """The data sets that the claim speaks of; empty means all of the run, the user's own included."""

    def __post_init__(self) -> None:
        _text(self.statement, "Claim.statement")
        where = f"Claim({self.statement!r})"
        _choice(self.kind, f"{where}.kind", ("better", "not_worse", "ratio"))
        _require(
            isinstance(self.margin, int | float) and math.isfinite(self.margin),
            f"{where}.margin must be a finite number, got {self.margin!r}",
        )
        if self.kind == "ratio":
            _require(self.margin > 0, f"{where}.margin must be positive for a ratio, got {self.margin!r}")
        else:
            _require(self.margin >= 0, f"{where}.margin must not be negative, got {self.margin!r}")
        if not isinstance(self.against, str):
            _require(
                isinstance(self.against, int | float) and math.isfinite(self.against),
                f"{where}.against must be a contender or a finite number, got {self.against!r}",
            )


@dataclass(frozen=True)
class Scale:
    """The size at which a study runs."""

    seeds: int
    """Number of seeds: 0, 1, ..., seeds - 1."""
    datasets: tuple[str, ...] = ()
    """Data sets at this scale; empty means all of the study's."""
    contenders: tuple[str, ...] = ()
    """Contenders at this scale; empty means all of the study's."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Values that the trial function reads as ``STUDY.scales[scale].settings``."""

    def __post_init__(self) -> None:
        _require(
            isinstance(self.seeds, int) and not isinstance(self.seeds, bool) and self.seeds >= 1,
            f"Scale.seeds must be an integer >= 1, got {self.seeds!r}",
        )
        object.__setattr__(self, "settings", MappingProxyType(dict(self.settings)))


@dataclass(frozen=True)
class Figure:
    """A number that the paper itself reports, with its place."""

    metric: str
    contender: str
    dataset: str
    value: float
    where: str
    """Table, figure or section of the paper."""

    def __post_init__(self) -> None:
        for name in ("metric", "contender", "dataset", "where"):
            _text(getattr(self, name), f"Figure.{name}")
        _require(math.isfinite(self.value), f"Figure({self.where!r}).value must be finite, got {self.value!r}")


@dataclass(frozen=True)
class Plot:
    """The picture that the field would draw of a study's results.

    - ``spread`` shows how one metric varies over the trials of each contender,
    - ``tradeoff`` sets the means of two metrics against each other, a point per contender,
    - ``curve`` follows the mean of a metric along data sets that differ in one number.
    """

    kind: Literal["spread", "tradeoff", "curve"]
    metric: str
    title: str
    against: str = ""
    """``tradeoff``: the metric on the horizontal axis. ``curve``: what the number is."""
    at: Mapping[str, float] = field(default_factory=dict)
    """``curve``: the number of each data set."""
    datasets: tuple[str, ...] = ()
    """Data sets that enter a ``spread`` or a ``tradeoff``; empty means all of the run."""
    contenders: tuple[str, ...] = ()
    """Contenders that are drawn; empty means all."""
    reference: float | None = None
    """A value of the metric to be drawn as a line, such as a promised level."""

    def __post_init__(self) -> None:
        _choice(self.kind, "Plot.kind", ("spread", "tradeoff", "curve"))
        _text(self.title, "Plot.title")
        where = f"Plot({self.title!r})"
        _require(bool(self.against) == (self.kind != "spread"), f"{where}.against goes with tradeoff and curve")
        _require(bool(self.at) == (self.kind == "curve"), f"{where}.at goes with curve")
        object.__setattr__(self, "at", MappingProxyType(dict(self.at)))


@dataclass(frozen=True)
class OwnData:
    """What a user's own file must hold for the study to run on it."""

    kind: Literal["table", "graph", "matrix", "series"]
    task: Literal["classification", "regression", "none"]
    """What the target column is; ``none`` where there is no target."""

    def __post_init__(self) -> None:
        _choice(self.kind, "OwnData.kind", ("table", "graph", "matrix", "series"))
        _choice(self.task, "OwnData.task", ("classification", "regression", "none"))


@dataclass(frozen=True)
class Study:
    """A declared experiment for one method: data sets x contenders x seeds -> metrics."""

    slug: str
    family: str
    paper: Paper
    question: str
    """What a user wants to know, in their words."""
    datasets: tuple[str, ...]
    """Names that `paperworks.datasets.load` knows, or that the trial function generates itself."""
    contenders: tuple[Contender, ...]
    metrics: tuple[Metric, ...]
    claims: tuple[Claim, ...]
    scales: Mapping[str, Scale]
    trial: TrialFunction
    extras: tuple[str, ...] = ()
    """Extras of paperworks without which the method itself can't run."""
    figures: tuple[Figure, ...] = ()
    """The paper's own numbers; empty where none is known."""
    own_data: OwnData | None = None
    plots: tuple[Plot, ...] = ()
    """Pictures of the results on the method's page, beside those of the claims."""
    limits: tuple[str, ...] = ()
    """What a reader of the verdict should know: where the paper is open or wrong, what this study can't show."""
    keywords: tuple[str, ...] = ()
    """Words and phrases by which people who have the problem would look for it, beside those of `question`."""

    def __post_init__(self) -> None:
        _require(isinstance(self.slug, str) and bool(_SLUG.match(self.slug)), f"Study.slug is malformed: {self.slug!r}")
        where = f"Study {self.slug!r}"
        _require(
            isinstance(self.family, str) and bool(_FAMILY.match(self.family)),
            f"{where}: family is malformed: {self.family!r}",
        )
        _require(isinstance(self.paper, Paper), f"{where}: paper must be a Paper, got {self.paper!r}")
        _text(self.question, f"{where}: question")
        records = {"contenders": Contender, "metrics": Metric, "claims": Claim, "figures": Figure, "plots": Plot}
        for name, kind in records.items():
            value = getattr(self, name)
            _require(
                isinstance(value, tuple) and all(isinstance(item, kind) for item in value),
                f"{where}: {name} must be a tuple of {kind.__name__}, got {value!r}",
            )
        for name in ("datasets", "extras", "limits", "keywords"):
            value = getattr(self, name)
            _require(
                isinstance(value, tuple) and all(isinstance(item, str) and item for item in value),
                f"{where}: {name} must be a tuple of names, got {value!r}",
            )
        _require(callable(self.trial), f"{where}: trial must be a function, got {self.trial!r}")
        self._check_names(where)
        self._check_scales(where)
        object.__setattr__(self, "scales", MappingProxyType(dict(self.scales)))

    def _check_names(self, where: str) -> None:
        names = {
            "datasets": list(self.datasets),
            "contenders": [c.name for c in self.contenders],
            "metrics": [m.name for m in self.metrics],
        }
        for label, values in names.items():
            _require(bool(values), f"{where}: {label} must not be empty")
            double = sorted({v for v in values if values.count(v) > 1})
            _require(not double, f"{where}: {label} named twice: {', '.join(double)}")
        _require(any(c.role == "method" for c in self.contenders), f"{where}: no contender has the role 'method'")
        for claim in self.claims:
            place = f"{where}: claim {claim.statement!r}"
            _require(claim.metric in names["metrics"], f"{place}: unknown metric {claim.metric!r}")
            _require(claim.subject in names["contenders"], f"{place}: unknown subject {claim.subject!r}")
            if isinstance(claim.against, str):
                _require(claim.against in names["contenders"], f"{place}: unknown contender {claim.against!r}")
            unknown = [d for d in claim.datasets if d not in names["datasets"]]
            _require(not unknown, f"{place}: unknown data sets {', '.join(unknown)}")
        for plot in self.plots:
            place = f"{where}: plot {plot.title!r}"
            wanted = [plot.metric, plot.against] if plot.kind == "tradeoff" else [plot.metric]
            unknown = [m for m in wanted if m not in names["metrics"]]
            _require(not unknown, f"{place}: unknown metrics {', '.join(unknown)}")
            for label, chosen in (("datasets", (*plot.datasets, *plot.at)), ("contenders", plot.contenders)):
                unknown = [name for name in chosen if name not in names[label]]
                _require(not unknown, f"{place}: unknown {label} {', '.join(unknown)}")
        for figure in self.figures:
            _require(figure.metric in names["metrics"], f"{where}: figure of unknown metric {figure.metric!r}")

    def _check_scales(self, where: str) -> None:
        _require(
            isinstance(self.scales, Mapping) and set(self.scales) == set(SCALES),
            f"{where}: scales must be a mapping with exactly {', '.join(SCALES)}; got {list(self.scales)!r}",
        )
        known = {"datasets": set(self.datasets), "contenders": {c.name for c in self.contenders}}
        for name, scale in self.scales.items():
            _require(isinstance(scale, Scale), f"{where}: scale {name!r} must be a Scale, got {scale!r}")
            for label, allowed in known.items():
                unknown = [v for v in getattr(scale, label) if v not in allowed]
                _require(not unknown, f"{where}: scale {name!r} names unknown {label}: {', '.join(unknown)}")
