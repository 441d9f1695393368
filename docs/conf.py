"""Sphinx configuration; the API pages are made from the families' stubs at build time."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from sphinx.application import Sphinx

import paperworks
from paperworks.bench import catalog
from paperworks.bench.report.wording import claim_in_words
from paperworks.bench.study import Study

project = "Paperworks"
author = "The Paperworks developers"
release = paperworks.__version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
]
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
exclude_patterns = ["_build", "gallery/*.rst"]
html_theme = "pydata_sphinx_theme"
html_title = "Paperworks"
html_show_sourcelink = False
numpydoc_class_members_toctree = False
autosummary_generate = False
numpydoc_show_inherited_class_members = False
# Docstrings that estimators inherit from scikit-learn refer to its own glossary.
suppress_warnings = ["ref.ref", "ref.term"]

sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "examples",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "show_memory": False,
    "min_reported_time": 60,
    "abort_on_example_error": True,
}

HERE = Path(__file__).parent


def _write_api_pages() -> None:
    """Write one API page per method, from the names in its family's stub."""
    folder = HERE / "api"
    folder.mkdir(exist_ok=True)
    pages = []
    for entry in catalog.entries():
        module = catalog.method_module(entry.ref)
        slug = entry.study.slug
        lines = [slug, "=" * len(slug), "", entry.study.question, "", f".. currentmodule:: {module}", ""]
        for name in catalog.public_names(module):
            kind = "autoclass" if name[0].isupper() else "autofunction"
            lines += [f".. {kind}:: {name}", *(["   :members:"] if kind == "autoclass" else []), ""]
        (folder / f"{slug}.rst").write_text("\n".join(lines), encoding="utf-8")
        pages.append(slug)
    toctree = [
        "API reference",
        "=============",
        "",
        ".. toctree::",
        "   :maxdepth: 1",
        "",
        *(f"   {p}" for p in pages),
        "",
    ]
    (folder / "index.rst").write_text("\n".join(toctree), encoding="utf-8")


def _write_problems() -> None:
    """Write the table of problems: what each study asks, and by which words people look for it."""
    lines = [
        "# Choose a method by your problem",
        "",
        'On the command line: `paperworks find "my test customers differ from the labelled ones"`.',
        "",
        "| your problem | also | method |",
        "| --- | --- | --- |",
    ]
    for entry in catalog.entries():
        study = entry.study
        page = f"[{study.slug}](methods/{study.slug}.md)"
        lines.append(f"| {study.question} | {'; '.join(study.keywords)} | {page} |".replace("\n", " "))
    (HERE / "choose.md").write_text("\n".join([*lines, ""]), encoding="utf-8")


def _study_part(study: Study) -> str:
    """Return what the study itself says, as the end of a method's page."""
    claims = [f"- {claim.statement}. ({claim_in_words(asdict(claim), study)}.)" for claim in study.claims]
    entrants = [f"| {c.name} | {c.role} | {c.source} |" for c in study.contenders]
    scales = []
    for name, size in study.scales.items():
        counts = (len(size.datasets or study.datasets), len(size.contenders or study.contenders), size.seeds)
        scales.append(f"| {name} | {' | '.join(map(str, counts))} |")
    parts = ["", "## What is compared", "", *claims, ""]
    parts += ["| contender | role | where it comes from |", "| --- | --- | --- |", *entrants, ""]
    parts += ["| scale | data sets | contenders | seeds |", "| --- | --- | --- | --- |", *scales, ""]
    if study.limits:
        parts += ["What the study can't show:", "", *(f"- {limit}" for limit in study.limits), ""]
    return "\n".join([*parts, f"All names with their parameters: [API](../api/{study.slug}.rst).", ""])


_STUDIES = {f"methods/{entry.study.slug}": entry.study for entry in catalog.entries()}


def _add_study(app: Sphinx, name: str, source: list[str]) -> None:
    if name in _STUDIES:
        source[0] += _study_part(_STUDIES[name])


def setup(app: Sphinx) -> None:
    """Let each method's page end with what its study declares, so that it is written once."""
    app.connect("source-read", _add_study)


_write_api_pages()
_write_problems()
