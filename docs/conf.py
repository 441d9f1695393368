"""Sphinx configuration; the API pages are made from the families' stubs at build time."""

from __future__ import annotations

from pathlib import Path

import paperworks
from paperworks.bench import catalog

project = "Paperworks"
author = "The Paperworks developers"
release = paperworks.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.mathjax", "numpydoc"]
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
html_theme = "pydata_sphinx_theme"
html_title = "Paperworks"
html_show_sourcelink = False
numpydoc_class_members_toctree = False
autosummary_generate = False
numpydoc_show_inherited_class_members = False
# Docstrings that estimators inherit from scikit-learn refer to its own glossary.
suppress_warnings = ["ref.ref", "ref.term"]

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


_write_api_pages()
