"""Finds the method for a problem told in plain words.

Each method is a text: the question its study answers, its paper, its claims and what its docstrings say of when to use
it. The query and the texts are compared as TF-IDF vectors of word stems; no network and no model is needed. The words
that two texts share are the explanation, and where they are too few the answer is that nothing fits.
"""

from __future__ import annotations

import ast
import importlib.util
import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, TfidfVectorizer

from paperworks.bench import catalog
from paperworks.bench.study import Study

__all__ = ["Finder", "Match", "finder"]

_WORD = re.compile(r"[a-z][a-z0-9]+")
_SECTION = re.compile(r"^(Parameters|Attributes|Returns|Raises|Examples|References|Yields|Notes)\n-+$", re.MULTILINE)
_FILLERS = ENGLISH_STOP_WORDS | {
    "a", "able", "as", "best", "better", "can", "data", "does", "example", "good", "help", "how", "know", "like", "lot",
    "make", "many", "method", "methods", "model", "models", "need", "people", "question", "result", "same", "set",
    "sets", "tell", "thing", "time", "today", "use", "used", "user", "using", "want", "way", "work", "works",
}  # fmt: skip
_MIN_SCORE = 0.06
_ENDINGS = (
    "isations", "izations", "isation", "ization", "fulness", "ements", "ations", "ation", "ement", "ities", "ness",
    "ised", "ized", "ises", "izes", "ising", "izing", "ings", "ing", "ions", "ion", "ally", "edly", "ity", "ies",
    "ied", "ive", "ers", "er", "ors", "or", "est", "ed", "es", "ly", "al", "ic", "s", "e", "y",
)  # fmt: skip


def stem(word: str) -> str:
    """Return a word without its ending, so that forms of one word meet.

    Examples
    --------
    >>> from paperworks.bench.find import stem
    >>> stem("clusters") == stem("clustering") == stem("clustered")
    True
    """
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return stem(word[: -len(ending)]) if ending in ("s", "es", "ly") else word[: -len(ending)]
    return word


def stems(text: str) -> list[str]:
    """Return the stems of the telling words of a text, in order, and of pairs of neighbours."""
    words = [word for word in _WORD.findall(text.lower()) if word not in _FILLERS]
    single = [stem(word) for word in words]
    return single + [f"{a} {b}" for a, b in itertools.pairwise(single)]


@dataclass(frozen=True)
class Match:
    """A method that may solve the problem."""

    slug: str
    score: float
    """Cosine between the query and the method's text, in [0, 1]."""
    because: tuple[str, ...]
    """Words of the query that speak for it, the strongest first."""


class Finder:
    """Ranks methods for a problem.

    Parameters
    ----------
    texts : mapping of str to sequence of (str, float)
        Per method the parts of its text, each with its weight.
    """

    def __init__(self, texts: dict[str, Sequence[tuple[str, float]]]) -> None:
        self._slugs = list(texts)
        if not self._slugs:
            return
        self._vectorizer = TfidfVectorizer(analyzer=stems, sublinear_tf=True)
        parts = [part for slug in self._slugs for part in texts[slug]]
        self._vectorizer.fit(["\n".join(text for text, _ in texts[slug]) for slug in self._slugs])
        vectors = self._vectorizer.transform([text for text, _ in parts]).multiply(
            np.array([[weight] for _, weight in parts])
        )
        owner = np.repeat(np.arange(len(self._slugs)), [len(texts[slug]) for slug in self._slugs])
        rows = vectors.tocsr()
        sums = np.vstack([np.asarray(rows[owner == i].sum(axis=0)) for i in range(len(self._slugs))])
        self._texts = sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-300)

    def find(self, problem: str, limit: int = 5) -> list[Match]:
        """Rank the methods for a problem.

        Parameters
        ----------
        problem : str
            The problem in plain words.
        limit : int, default 5
            Length of the list.

        Returns
        -------
        list of Match
            The best first; empty if no method shares telling words with the problem.

        Raises
        ------
        ValueError
            If the problem has no word in it.
        """
        if not _WORD.search(problem.lower()):
            raise ValueError(f"problem must hold at least one word, got {problem!r}")
        if not self._slugs:
            return []
        query = self._vectorizer.transform([problem]).toarray()[0]
        shares = self._texts * query
        scores = shares.sum(axis=1)
        names = self._vectorizer.get_feature_names_out()
        spoken = {stem(word): word for word in _WORD.findall(problem.lower())}
        matches = []
        for i in np.argsort(-scores, kind="stable")[:limit]:
            if scores[i] < _MIN_SCORE:
                break
            terms = [names[j] for j in np.argsort(-shares[i], kind="stable") if shares[i, j] > 0]
            because = dict.fromkeys(spoken.get(part, part) for term in terms for part in str(term).split())
            matches.append(Match(self._slugs[i], float(scores[i]), tuple(because)[:5]))
        return matches


def _prose(docstring: str) -> str:
    """Return the sentences of a docstring, without its lists of parameters and its example."""
    cut = _SECTION.search(docstring)
    return docstring[: cut.start()] if cut else docstring


def _docstrings(module: str) -> Iterable[str]:
    """Yield the prose of a method's module and of its public names, read from source."""
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        return
    origin = Path(spec.origin)
    public = set(catalog.public_names(module))
    for file in sorted(origin.parent.glob("*.py")) if origin.name == "__init__.py" else [origin]:
        tree = catalog.parsed(file)
        yield _prose(ast.get_docstring(tree) or "")
        for node in tree.body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name in public:
                yield _prose(ast.get_docstring(node) or "")


def text_of(study: Study, module: str = "") -> list[tuple[str, float]]:
    """Return the parts of a method's text with their weights: what it is for counts most."""
    parts: list[tuple[str, float]] = [
        (study.question, 3.0),
        (f"{study.slug} {study.family} {study.paper.title}", 2.0),
        (" ".join(study.keywords), 3.0),
        (" ".join(claim.statement for claim in study.claims), 1.0),
    ]
    prose = "\n".join(_docstrings(module)) if module else ""
    return [*parts, (prose, 2.0)] if prose else parts


@cache
def finder() -> Finder:
    """Return the finder of all methods that ship with paperworks."""
    texts: dict[str, Any] = {
        entry.study.slug: text_of(entry.study, catalog.method_module(entry.ref)) for entry in catalog.entries()
    }
    return Finder(texts)
