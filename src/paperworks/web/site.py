"""What both the pages and the JSON API need: the store, what was rendered before, uploads and jobs."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paperworks.bench import catalog
from paperworks.bench.card import Card, all_cards
from paperworks.bench.comparison import compare_stored
from paperworks.bench.report.pages import Links, Page, context_of, environment, gather, index_context
from paperworks.bench.report.provenance import speed_of
from paperworks.bench.store import RunRecord, Store
from paperworks.bench.study import Study
from paperworks.datasets import own_file
from paperworks.web.jobs import Job, Jobs
from paperworks.web.uploads import KINDS, Upload, Uploads

__all__ = ["Site"]

_CACHED = 512
_LINKS = Links(served=True)


@dataclass
class Site:
    """A store with everything that is shown of it."""

    store: Store
    uploads: Uploads
    jobs: Jobs
    benchmarks: Path | None = None
    needs_token: bool = False

    def __post_init__(self) -> None:
        self._templates = environment()
        self._rendered: OrderedDict[tuple[Any, ...], str] = OrderedDict()
        self._lock = threading.Lock()

    def render(self, template: str, **context: Any) -> str:
        """Return a page."""
        return self._templates.get_template(template).render(link=_LINKS, needs_token=self.needs_token, **context)

    def pages(self) -> tuple[list[Page], list[RunRecord]]:
        """Return what is shown of each study, and the runs of studies that are not on this machine."""
        return gather(self.store, cards=all_cards())

    def page(self, slug: str, run: RunRecord | None = None) -> Page:
        """Return what is shown of one study; `LookupError` if neither the package nor the store knows it."""
        cards: Mapping[str, Card] = {key: card for key, card in all_cards().items() if key == slug}
        pages, _ = gather(self.store, studies=[slug], run=run, cards=cards)
        if not pages:
            raise LookupError(f"no study {slug!r} on this machine")
        return pages[0]

    def index(self) -> str:
        """Return the page of all methods."""
        pages, orphans = self.pages()
        marks = tuple((p.card.slug, p.run.id if p.run else 0, p.run.status if p.run else "") for p in pages)
        key = ("index", marks, tuple(run.id for run in orphans))
        speeds = {page.card.slug: self.speed(page.card.slug) for page in pages}
        return self._cached(key, lambda: self.render("index.html", **index_context(pages, orphans, speeds)))

    def method(self, page: Page) -> str:
        """Return the page of one study."""
        slug = page.card.slug
        shown = [(r.id, r.status, r.n_done) for r in (page.run, page.newer, *page.history) if r]
        key = ("method", slug, tuple(shown))
        return self._cached(key, lambda: self.render("study.html", **context_of(self.store, page, self.speed(slug))))

    def data_page(self, problem: str = "") -> str:
        """Return the page on which a file is chosen."""
        largest = self.uploads.max_bytes / 2**20
        return self.render("data.html", uploads=self.uploads.all(), problem=problem, max_mb=largest, kinds=KINDS)

    def warm(self) -> None:
        """Render every method's page once, so that the first reader does not wait."""
        for page in self.pages()[0]:
            self.method(page)

    def speed(self, slug: str) -> dict[str, Any] | None:
        """Return the measured speed of a method, if there is any."""
        return speed_of(self.benchmarks, slug) if self.benchmarks else None

    def compare(self, first: int, second: int) -> dict[str, Any]:
        """Compare two runs of one study.

        Raises
        ------
        StoreError
            If a run does not exist.
        ValueError, LookupError
            If the runs are of different studies, or the study is not on this machine.
        """
        record = self.store.run(first)
        return compare_stored(self.store, first, second, self.page(record.study).study)

    def start(
        self, study: str, scale: str, upload: Upload | None = None, target: str | None = None, seeds: int | None = None
    ) -> Job:
        """Queue a run of a study that ships with paperworks, on its own data or on an uploaded file.

        Raises
        ------
        LookupError
            If there is no such study.
        DataError, ValueError
            If the file does not fit the study.
        QueueFull
            If too many runs are waiting.
        """
        found: Study = catalog.load_study(self._ref(study))
        arguments: dict[str, Any] = {"seeds": range(seeds) if seeds else None}
        if upload is not None:
            if found.own_data is None:
                raise ValueError(f"{study} does not take a file of your own")
            arguments["own"] = own_file(
                upload.path, kind=found.own_data.kind, task=found.own_data.task, target=target or None
            )
        return self.jobs.add(study, scale, upload.name if upload else "", **arguments)

    def _ref(self, study: str) -> str:
        """Only studies that ship with paperworks are started from the browser: a path would be somebody's code."""
        for entry in catalog.entries():
            if entry.study.slug == study:
                return entry.ref
        raise LookupError(f"no study {study!r}")

    def _cached(self, key: tuple[Any, ...], make: Any) -> str:
        with self._lock:
            if key in self._rendered:
                self._rendered.move_to_end(key)
                return self._rendered[key]
        text: str = make()
        with self._lock:
            self._rendered[key] = text
            while len(self._rendered) > _CACHED:
                self._rendered.popitem(last=False)
        return text
