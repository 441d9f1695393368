"""What the pages say: one page per study from what a store holds, the same for static files and the served site."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from paperworks import __version__
from paperworks.bench import catalog
from paperworks.bench.card import Card, card_of
from paperworks.bench.report.charts import IntervalRow, interval_chart
from paperworks.bench.report.plots import draw
from paperworks.bench.report.provenance import HIDDEN, command_of, described, version_of
from paperworks.bench.report.wording import (
    INTERVALS,
    SIGNS,
    claim_in_words,
    decimals_for,
    effect_name,
    first_line,
    format_interval,
    format_number,
    format_ratio,
    plural,
    scope_in_words,
)
from paperworks.bench.study import Claim, Study, StudyError
from paperworks.bench.verdict import forest_table, pairwise_table, summary_table

if TYPE_CHECKING:
    from paperworks.bench.store import RunRecord

__all__ = [
    "ASSETS",
    "Links",
    "Page",
    "Reader",
    "context_of",
    "environment",
    "file_name",
    "gather",
    "index_context",
]

_ROLES = {"method": 0, "ablation": 1, "peer": 2}
_HISTORY = 20
ASSETS = ("style.css", "site.js")
"""Files that pages load; they lie beside the templates."""


class Reader(Protocol):
    """The part of `paperworks.bench.store.Store` that pages need."""

    def run(self, run_id: int) -> RunRecord: ...
    def latest(self) -> dict[str, RunRecord]: ...
    def runs(self, study: str | None = None, limit: int | None = None) -> list[RunRecord]: ...
    def results(self, run_id: int) -> pd.DataFrame: ...


@dataclass(frozen=True)
class Links:
    """Addresses of pages: of files beside each other, or of the served site."""

    root: str = ""
    """Way from a page to the folder of the site, such as ``../``; ignored by the served site."""
    served: bool = False

    @property
    def home(self) -> str:
        """Address of the index."""
        return "/" if self.served else f"{self.root}index.html"

    def study(self, slug: str) -> str:
        """Return the address of a study's page."""
        return f"/methods/{quote(slug, safe='')}" if self.served else f"{self.root}studies/{file_name(slug)}.html"

    def asset(self, name: str) -> str:
        """Return the address of a style sheet or script."""
        return f"/assets/{name}" if self.served else f"{self.root}{name}"


@dataclass(frozen=True)
class Page:
    """What is shown of one study."""

    card: Card
    study: Study | None
    run: RunRecord | None
    """The run that is shown; None if there is none."""
    newer: RunRecord | None
    """A newer run that is not done."""
    history: tuple[RunRecord, ...]

    @property
    def verdict(self) -> str:
        """Word of the verdict; empty if there is none."""
        return str(self.run.verdict["verdict"]) if self.run and self.run.verdict and self.run.status == "done" else ""

    @property
    def deciding(self) -> str:
        """The claim that decides the verdict, with its interval; empty if there is none."""
        claims = self.run.verdict["claims"] if self.run and self.run.verdict and self.verdict else []
        claim = next((claim for claim in claims if claim["verdict"] == self.verdict), None)
        if claim is None or claim["estimate"] is None:
            return ""
        decimals = decimals_for([(claim["high"] or 0.0) - (claim["low"] or 0.0)])
        found = f"{format_number(claim['estimate'], decimals)} {format_interval(claim['low'], claim['high'], decimals)}"
        return f"{claim['statement']}: {found.replace('-', '−')}"

    @property
    def kind(self) -> str:
        """Kind of data that a user can bring; empty if the study runs on its own data only."""
        return self.study.own_data.kind if self.study and self.study.own_data else ""

    @property
    def missing(self) -> tuple[str, ...]:
        """Distributions of the method's extras that are not installed."""
        extras = self.study.extras if self.study else ()
        return catalog.missing_distributions(tuple(d for extra in extras for d in catalog.extra_requirements(extra)))

    @property
    def words(self) -> str:
        """What searching as one types looks through."""
        card = self.card
        told = (card.slug, card.family, card.question, card.paper.title, card.paper.authors, *card.public_names)
        return " ".join(told).lower()


def gather(
    store: Reader,
    *,
    studies: Collection[str] | Mapping[str, Study] | None = None,
    run: RunRecord | None = None,
    cards: Mapping[str, Card] | None = None,
) -> tuple[list[Page], list[RunRecord]]:
    """Choose what is shown of each study.

    Parameters
    ----------
    store : Store
        Where the runs are.
    studies : collection of str, or mapping of str to Study, optional
        Slugs of the studies to show, by default all in the store and in `cards`. A mapping gives the studies as well;
        otherwise they are those that ship with paperworks, and files of the current user.
    run : RunRecord, optional
        A run to show instead of the newest one of its study.
    cards : mapping of str to Card, optional
        What is known of the methods, by slug; by default made from the studies.

    Returns
    -------
    list of Page
        Sorted by family and slug.
    list of RunRecord
        The newest run of each study that is not on this machine.
    """
    cards = dict(cards or {})
    history: dict[str, list[RunRecord]] = {slug: store.runs(slug) for slug in studies or ()}
    if studies is None:
        for record in store.runs():
            history.setdefault(record.study, []).append(record)
        history |= {slug: [] for slug in cards if slug not in history}
    given = studies if isinstance(studies, Mapping) else {}
    latest = store.latest()
    pages: list[Page] = []
    orphans: list[RunRecord] = []
    for slug, runs in history.items():
        study = given.get(slug) or _study_of(slug, runs)
        card = cards.get(slug) or (card_of(study) if study else None)
        if card is None:
            orphans += runs[:1]
            continue
        shown = run if run and run.study == slug else latest.get(slug) or _shown(runs)
        newest = runs[0] if runs else None
        newer = newest if newest and shown and newest.id != shown.id and newest.status != "done" else None
        pages.append(Page(card, study, shown, newer, tuple(runs[:_HISTORY])))
    return sorted(pages, key=lambda page: (page.card.family, page.card.slug)), orphans


def index_context(
    pages: Sequence[Page], orphans: Sequence[RunRecord], speeds: Mapping[str, Mapping[str, Any] | None]
) -> dict[str, Any]:
    """Return what the index is rendered with; `speeds` holds what `speed_of` gives, by slug."""
    found = [page.verdict for page in pages]
    return {
        "pages": pages,
        "orphans": orphans,
        "counts": {word: found.count(word) for word in SIGNS},
        "families": sorted({page.card.family for page in pages}),
        "kinds": sorted({page.kind for page in pages if page.kind}),
        "speeds": {slug: speed["cases"][0] for slug, speed in speeds.items() if speed and speed["cases"]},
    }


def environment() -> Environment:
    """Return the templates with their filters; all text is escaped."""
    made = Environment(
        loader=PackageLoader("paperworks.bench.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        number=_typographic(format_number),
        ratio=format_ratio,
        first_line=first_line,
        file_name=file_name,
        web=_web,
        slugged=_anchor,
        summary=_summary,
        text=described,
    )
    made.globals.update(
        plural=plural,
        signs=SIGNS,
        hidden=HIDDEN,
        version=__version__,
        interval=_typographic(format_interval),
        intervals=INTERVALS,
    )
    return made


def _typographic(function: Any) -> Any:
    return lambda *args: function(*args).replace("-", "−")


def file_name(slug: str) -> str:
    """Return a study's name as part of an address."""
    return re.sub(r"[^a-z0-9-]+", "-", slug.lower()).strip("-") or "study"


def _anchor(text: str) -> str:
    return "d-" + file_name(text)


def _summary(page: Page) -> str:
    """Return in a sentence or two what the run of a page has brought."""
    run = page.run
    if run is None:
        return ""
    when = f"Scale {run.scale}, {run.started.day} {run.started:%B %Y}."
    if run.status != "done":
        return f"{run.n_done:,} of {plural(run.n_planned, 'trial')}. {when}"
    claims = ""
    if run.verdict:
        counts = run.verdict["counts"]
        words = {"holds": ("holds", "hold"), "fails": ("fails", "fail"), "inconclusive": ("inconclusive",) * 2}
        found = [f"{counts[word]} {one if counts[word] == 1 else many}" for word, (one, many) in words.items()]
        parts = [text for word, text in zip(words, found, strict=True) if counts[word]]
        claims = f"Of {plural(sum(counts.values()), 'claim')} {', '.join(parts)}. " if parts else ""
    failed = f", {run.n_failed:,} of them failed" if run.n_failed else ""
    return f"{claims}{plural(run.n_done, 'trial')}{failed}. {when}"


def _web(address: str) -> str:
    """Return an address that is safe to link to; empty otherwise."""
    return address if re.match(r"https?://", address, re.IGNORECASE) else ""


# ------------------------------------------------------------------------------------------------------- what to show


def _shown(runs: Sequence[RunRecord]) -> RunRecord | None:
    return next((run for run in runs if run.status == "done"), runs[0] if runs else None)


def _study_of(slug: str, runs: Sequence[RunRecord]) -> Study | None:
    """Return the study of a slug: one that ships with paperworks, or a file that belongs to the current user.

    A store may be shared. A path that somebody else has put there must not make this process run their file.
    """
    for entry in catalog.entries():
        if entry.study.slug == slug:
            return entry.study
    for run in runs:
        ref = str(run.arguments.get("study") or "")
        if ref.startswith("file:") and _is_mine(Path(ref.removeprefix("file:"))):
            try:
                return catalog.load_study(ref)
            except Exception:  # the file may be in any state by now; its runs are listed without it
                return None
    return None


def _is_mine(path: Path) -> bool:
    try:
        return path.is_file() and (not hasattr(os, "getuid") or path.stat().st_uid == os.getuid())
    except OSError:
        return False


def _as_judged(study: Study, run: RunRecord) -> Study | None:
    """Return the study with the claims that the run was judged by, which may have changed since."""
    stored = (run.verdict or {}).get("claims", [])
    names = ("statement", "metric", "subject", "against", "kind", "margin")
    try:
        claims = [Claim(**{name: claim[name] for name in names}, datasets=tuple(claim["datasets"])) for claim in stored]
        return replace(study, claims=tuple(claims))
    except (StudyError, KeyError, TypeError):
        return None


def context_of(store: Reader, page: Page, speed: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return what the page of a study is rendered with."""
    run, study, card = page.run, page.study, page.card
    contenders = [
        {"name": c.name, "role": c.role, "source": c.source, "version": version_of(c.name, c.requires, c.role, run)}
        for c in sorted(card.contenders, key=lambda c: _ROLES[c.role])
    ]
    context: dict[str, Any] = {
        "page": page,
        "card": card,
        "run": run,
        "contenders": contenders,
        "speed": speed,
        "claims": [],
        "stated": [],
        "notes": [],
        "confidence": "95 %",
        "pictures": [],
        "tables": [],
        "pairs": [],
        "figures": [{"figure": f, "ours": None} for f in card.figures],
        "failures": [],
        "command": f"paperworks run {card.slug}",
        "incomplete": False,
    }
    if run is None or run.status != "done":
        stated = study.claims if study else card.claims
        context["stated"] = [{"statement": c.statement, "words": claim_in_words(asdict(c), study)} for c in stated]
    if run is None:
        return context
    context["command"] = command_of(run, study)
    results = store.results(run.id)
    context["failures"] = _failures(results)
    if run.status != "done":
        return context
    verdict = run.verdict or {"claims": [], "notes": ["No verdict was stored."], "confidence": 0.95}
    context["notes"] = verdict["notes"]
    context["confidence"] = f"{100 * verdict['confidence']:g} %"
    judged = _as_judged(study, run) if study else None
    forest = forest_table(judged, results, confidence=verdict["confidence"]) if judged else None
    context["claims"] = [_claim(claim, i, forest, judged or study) for i, claim in enumerate(verdict["claims"])]
    if study is not None:
        summary = summary_table(study, results, confidence=verdict["confidence"])
        context["tables"] = _tables(study, summary)
        drawn = [draw(plot, study, results) for plot in study.plots]
        context["pictures"] = [(picture, Markup(picture.svg)) for picture in drawn if picture]
        context["incomplete"] = bool((~summary["complete"].astype(bool)).any())
        context["pairs"] = _pairs(study, pairwise_table(study, results))
        context["figures"] = _figures(card, summary)
    return context


def _claim(claim: Mapping[str, Any], position: int, forest: pd.DataFrame | None, study: Study | None) -> dict[str, Any]:
    ratio = claim["kind"] == "ratio"
    pooled = {name: math.nan if claim[name] is None else claim[name] for name in ("estimate", "low", "high")}
    rows = [{"label": "all data sets", **pooled, "n_pairs": claim["n_pairs"], "n_imputed": claim["n_imputed"]}]
    if forest is not None:
        own = forest[(forest["claim"] == position) & (forest["dataset"] != "")]
        shown = own.rename(columns={"dataset_label": "label"})[["label", *pooled, "n_pairs", "n_imputed"]]
        single: list[dict[str, Any]] = [{str(k): v for k, v in row.items()} for row in shown.to_dict("records")]
        rows = [*single, *rows] if len(single) != 1 else [{**rows[0], "label": single[0]["label"]}]
    decimals = decimals_for(row["high"] - row["low"] for row in rows)
    name = effect_name(claim)
    against = claim["against"] if isinstance(claim["against"], str) else f"{claim['against']:g}"
    threshold = f"{'margin' if ratio else 'threshold'} {claim['threshold']:g}"
    bounds = (claim["low"], claim["high"])
    found = "there is no interval"
    if claim["estimate"] is not None:
        found = f"{format_number(claim['estimate'], decimals)} {format_interval(*bounds, decimals)}"
    chart = interval_chart(
        [
            IntervalRow(row["label"], row["estimate"], row["low"], row["high"], emphasis=i == len(rows) - 1)
            for i, row in enumerate(rows)
        ],
        title=f"{claim['verdict']}: {claim['statement']}",
        description=f"{name}: {found}, {threshold}. The numbers are in the table below.",
        axis=name if len(name) <= 72 else f"{claim['metric']}: {'ratio' if ratio else 'advantage of the subject'}",
        threshold=claim["threshold"],
        neutral=1.0 if ratio else 0.0,
        log=ratio,
    )
    return {
        "claim": claim,
        "words": claim_in_words(claim, study),
        "scope": scope_in_words(claim),
        "effect": name,
        "quantity": f"Ratio {claim['subject']} / {against}:" if ratio else f"Advantage of {claim['subject']}:",
        "side": "left" if ratio and _is_lower(claim, study) else "right",
        "found": found.replace("-", "−"),
        "threshold": threshold.replace("-", "−"),
        "method": INTERVALS.get(claim["method"], ""),
        "rows": rows,
        "decimals": decimals,
        "chart": Markup(chart),
    }


def _is_lower(claim: Mapping[str, Any], study: Study | None) -> bool:
    """Return whether the claim's metric is better when lower."""
    return any(m.name == claim["metric"] and m.better == "lower" for m in study.metrics) if study else False


def _tables(study: Study, summary: pd.DataFrame) -> list[dict[str, Any]]:
    """One table per data set: the method first, then its ablations, then peers."""
    roles = {contender.name: contender.role for contender in study.contenders}
    tables = []
    for dataset, part in summary.groupby("dataset", sort=False):
        cells = part.set_index(["contender", "metric"]).to_dict("index")
        names = sorted(part["contender"].drop_duplicates(), key=lambda name: _ROLES[roles.get(name, "peer")])
        width = (part["high"] - part["low"]).groupby(part["metric"])
        tables.append(
            {
                "dataset": dataset,
                "label": part["dataset_label"].iloc[0],
                "metrics": study.metrics,
                "decimals": {metric: decimals_for(values) for metric, values in width},
                "rows": [
                    {
                        "contender": name,
                        "role": roles.get(name, ""),
                        "n": max(cells[name, metric.name]["n"] for metric in study.metrics),
                        "n_failed": max(cells[name, metric.name]["n_failed"] for metric in study.metrics),
                        "cells": {metric.name: cells[name, metric.name] for metric in study.metrics},
                    }
                    for name in names
                ],
            }
        )
    return tables


def _pairs(study: Study, table: pd.DataFrame) -> list[dict[str, Any]]:
    return [
        {"metric": metric, "rows": rows.to_dict("records")}
        for metric in study.metrics
        if not (rows := table[table["metric"] == metric.name]).empty
    ]


def _figures(card: Card, summary: pd.DataFrame) -> list[dict[str, Any]]:
    cells = summary.set_index(["metric", "contender", "dataset"]).to_dict("index")
    return [{"figure": f, "ours": cells.get((f.metric, f.contender, f.dataset))} for f in card.figures]


def _failures(results: pd.DataFrame) -> list[dict[str, Any]]:
    failed = results[results["status"] != "ok"]
    keys = ["contender", "dataset_label", "status", "error"]
    found = []
    for key, rows in failed.assign(error=failed["error"].map(first_line)).groupby(keys, sort=False):
        seeds = sorted(rows["seed"])
        text = ", ".join(str(seed) for seed in seeds[:12]) + (", …" if len(seeds) > 12 else "")
        found.append({**dict(zip(keys, key, strict=True)), "n": len(rows), "seeds": text})
    return found
