"""Static pages over a store: an index and one page per study, readable without a network."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path

from paperworks.bench.card import Card
from paperworks.bench.report.pages import (
    ASSETS,
    Links,
    Reader,
    context_of,
    environment,
    file_name,
    gather,
    index_context,
)
from paperworks.bench.report.provenance import speed_of
from paperworks.bench.study import Study

__all__ = ["build_site"]


def build_site(
    store: Reader,
    out_dir: str | os.PathLike[str],
    *,
    studies: Collection[str] | Mapping[str, Study] | None = None,
    run: int | None = None,
    cards: Mapping[str, Card] | None = None,
    benchmarks: str | os.PathLike[str] | None = None,
) -> Path:
    """Write static pages of what a store holds.

    Each study shows the run that speaks for it (`Store.latest`), or else its newest finished run. A study without one
    shows its newest run as unfinished, without numbers: means over the part that is done would mislead. Files in
    `out_dir` that are not part of the site stay as they are.

    Parameters
    ----------
    store : Store
        Where the runs are.
    out_dir : path
        Folder to write; made if it does not exist.
    studies : collection of str, or mapping of str to Study, optional
        Slugs of the studies to show, by default all in the store and in `cards`. A mapping gives the studies as well;
        otherwise they are those that ship with paperworks, and files of the current user.
    run : int, optional
        Number of a run to show instead of the newest one of its study.
    cards : mapping of str to Card, optional
        What is known of the methods, by slug; by default made from the studies.
    benchmarks : path, optional
        Folder with one ``<slug>.json`` of speed ratios per method.

    Returns
    -------
    Path
        ``index.html``, or the page of the study of `run` if that is given.

    Raises
    ------
    ValueError
        If a file of `benchmarks` is malformed.
    """
    out = Path(out_dir)
    folder = out / "studies"
    folder.mkdir(parents=True, exist_ok=True)
    asked = store.run(run) if run is not None else None
    pages, orphans = gather(store, studies=studies, run=asked, cards=cards)
    templates = environment()
    speeds = {}
    for page in pages:
        speed = speed_of(Path(benchmarks), page.card.slug) if benchmarks else None
        speeds[page.card.slug] = speed
        html = templates.get_template("study.html").render(link=Links("../"), **context_of(store, page, speed))
        (folder / f"{file_name(page.card.slug)}.html").write_text(html, encoding="utf-8")
    index = out / "index.html"
    html = templates.get_template("index.html").render(link=Links(), **index_context(pages, orphans, speeds))
    index.write_text(html, encoding="utf-8")
    for name in ASSETS:
        source = Path(__file__).parent / "templates" / name
        (out / name).write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
    if asked is not None and any(page.run is asked for page in pages):
        return folder / f"{file_name(asked.study)}.html"
    return index
