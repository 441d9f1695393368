"""Partial ancestral graphs: marks, collider paths, and what a complete graph says about two variables.

A mark belongs to one end of an edge: ``pag[i, j]`` is the mark *at j* on the edge between i and j, 0 where there is
none. So ``i -> j`` is ``pag[i, j] = ARROW, pag[j, i] = TAIL``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from enum import IntEnum
from inspect import Parameter, Signature
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from paperworks._checks import check_integer

__all__ = ["RELATIONS", "PagMark", "PartialGraph", "augmented_parents", "read_relation"]

NONE, CIRCLE, ARROW, TAIL = range(4)

NON_ANCESTOR = "invariant_non_ancestor"
POSSIBLE = "possible_ancestor"
EXPLICIT = "explicit_invariant_ancestor"
IMPLICIT = "implicit_invariant_ancestor"
RELATIONS = (NON_ANCESTOR, POSSIBLE, EXPLICIT, IMPLICIT)


class PagMark(IntEnum):
    """Mark at one end of an edge of a partial ancestral graph.

    ``pag[i, j]`` holds the mark at j on the edge between i and j. An arrow at j says that j is no cause of i, a tail
    that j is a cause of i, and a circle that the data can't tell.

    Parameters
    ----------
    value : int
        0 (no edge), 1 (circle), 2 (arrow) or 3 (tail).

    Examples
    --------
    >>> from paperworks.causal import PagMark
    >>> PagMark(2).name
    'ARROW'
    """

    NONE = NONE
    CIRCLE = CIRCLE
    ARROW = ARROW
    TAIL = TAIL


# Enumerations show the signature of their functional interface, which nobody needs here.
PagMark.__signature__ = Signature([Parameter("value", Parameter.POSITIONAL_OR_KEYWORD)])  # type: ignore[attr-defined]


class PartialGraph:
    """A PAG under construction: each pair is unknown, adjacent (with two marks) or separated by a known set."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.mark: list[list[int]] = [[NONE] * n for _ in range(n)]
        self.adjacent: list[set[int]] = [set() for _ in range(n)]
        self.apart: list[set[int]] = [set() for _ in range(n)]
        self.sepset: dict[tuple[int, int], tuple[int, ...]] = {}

    def copy(self) -> PartialGraph:
        """Return an independent copy."""
        other = PartialGraph.__new__(PartialGraph)
        other.n = self.n
        other.mark = [row.copy() for row in self.mark]
        other.adjacent = [s.copy() for s in self.adjacent]
        other.apart = [s.copy() for s in self.apart]
        other.sepset = self.sepset.copy()
        return other

    def connect(self, i: int, j: int) -> bool:
        """Make i and j adjacent unless they are known to be separated; return whether they are adjacent now."""
        if j in self.adjacent[i]:
            return True
        if j in self.apart[i]:
            return False
        self.adjacent[i].add(j)
        self.adjacent[j].add(i)
        self.mark[i][j] = self.mark[j][i] = CIRCLE
        return True

    def separate(self, i: int, j: int, z: Sequence[int]) -> None:
        """Record that z separates i and j, unless something is known about the pair (the first finding stays)."""
        if j in self.adjacent[i] or j in self.apart[i]:
            return
        self.apart[i].add(j)
        self.apart[j].add(i)
        self.sepset[i, j] = self.sepset[j, i] = tuple(z)

    def set_mark(self, i: int, j: int, mark: int) -> bool:
        """Replace a circle at j on the edge i - j; return whether there was one."""
        if self.mark[i][j] != CIRCLE:
            return False
        self.mark[i][j] = mark
        return True

    def is_arrow(self, i: int, j: int) -> bool:
        """Is there an edge with an arrow at j?"""
        return self.mark[i][j] == ARROW

    def is_directed(self, i: int, j: int) -> bool:
        """Is there an edge i -> j?"""
        return self.mark[i][j] == ARROW and self.mark[j][i] == TAIL

    def to_array(self) -> NDArray[np.int8]:
        """Return the marks as an array."""
        return np.array(self.mark, dtype=np.int8).reshape(self.n, self.n)

    @classmethod
    def from_array(cls, pag: NDArray[Any]) -> PartialGraph:
        """Read marks from an array; pairs without an edge count as separated, by an unknown set."""
        graph = cls(len(pag))
        graph.mark = pag.tolist()
        for i in range(graph.n):
            graph.adjacent[i] = {j for j in range(graph.n) if graph.mark[i][j]}
            graph.apart[i] = set(range(graph.n)) - graph.adjacent[i] - {i}
        return graph


def collider_ends(graph: PartialGraph, first: int, inner: Collection[int], x: int) -> set[int]:
    """Return the ends of collider paths x *-> first <-> ... <-* end whose vertices after `first` lie in `inner`.

    The edge x - first must have its arrow at `first`. Vertices suffice as states of the search: every inner vertex
    has arrows on both sides, so a walk that meets one twice can be cut short.
    """
    ends: set[int] = set()
    passed, todo = {x, first}, [first]
    while todo:
        u = todo.pop()
        for w in graph.adjacent[u]:
            if w != x and w in inner and graph.is_arrow(w, u):
                ends.add(w)
                if w not in passed and graph.is_arrow(u, w):
                    passed.add(w)
                    todo.append(w)
    return ends


def arrow_collider_ends(graph: PartialGraph, x: int, ipre: Collection[int]) -> set[int]:
    """Return Pa*(x): ends of arrow-collider paths from x on which x is an ancestor of nobody (Definition 4)."""
    found = set()
    for v in graph.adjacent[x]:
        if v in ipre and graph.is_arrow(v, x):
            found.add(v)
            if graph.is_arrow(x, v):
                found |= collider_ends(graph, v, ipre, x)
    return found


def circle_collider_ends(graph: PartialGraph, x: int, ipre: Collection[int], firsts: Iterable[int]) -> set[int]:
    """Return Ne*(x) restricted to paths that start with a vertex of `firsts`, among those with a circle at x."""
    found = set()
    for v in firsts:
        found.add(v)
        if graph.is_arrow(x, v):
            found |= collider_ends(graph, v, ipre, x)
    return found


def augmented_parents(pag: ArrayLike, x: int, ipre: Iterable[int]) -> list[int]:
    """Return the augmented parents Pa*(x) of a variable in a partial ancestral graph.

    These are the ends V of all arrow-collider paths X, V1, ..., V: the edge at X has its arrow at X, every vertex
    between X and V is a collider, and X is an invariant non-ancestor of every vertex of the path. Given them, X is
    independent of exactly the variables that it can't be a cause of (Theorem 1).

    Parameters
    ----------
    pag : array-like of shape (n, n)
        Marks; ``pag[i, j]`` is the `PagMark` at j on the edge between i and j.
    x : int
        The variable.
    ipre : iterable of int
        Variables of which `x` is known to be an invariant non-ancestor.

    Returns
    -------
    list of int
        The augmented parents, sorted.

    Raises
    ------
    ValueError
        If `pag` is not square, holds other numbers than marks, has an edge with one end only, or `x` or a member of
        `ipre` is not a column number.
    TypeError
        If `x` is not an integer.

    References
    ----------
    Z. Li, Z. Liu, F. Xie, H. Zhang, C. Liu, Z. Geng, "Local Identifying Causal Relations in the Presence of Latent
    Variables", ICML 2025, Definition 4.

    Examples
    --------
    X <-> V <- W, and X is known to cause neither V nor W.

    >>> import numpy as np
    >>> from paperworks.causal import augmented_parents
    >>> pag = np.zeros((3, 3), dtype=int)
    >>> pag[0, 1] = pag[1, 0] = 2
    >>> pag[2, 1], pag[1, 2] = 2, 3
    >>> augmented_parents(pag, 0, ipre=[1, 2])
    [1, 2]
    """
    marks = check_marks(pag)
    check_integer(x, "x", minimum=0, maximum=len(marks) - 1)
    known = {check_integer(v, "a member of ipre", minimum=0, maximum=len(marks) - 1) for v in ipre}
    return sorted(arrow_collider_ends(PartialGraph.from_array(marks), int(x), known))


def check_marks(pag: ArrayLike) -> NDArray[np.int8]:
    """Return `pag` as a square array of marks whose edges have two ends."""
    marks = np.asarray(pag)
    if marks.ndim != 2 or marks.shape[0] != marks.shape[1]:
        raise ValueError(f"pag must be a square array of marks, got shape {marks.shape}")
    if not np.isin(marks, [mark.value for mark in PagMark]).all():
        raise ValueError("pag must hold the marks 0 (none), 1 (circle), 2 (arrow), 3 (tail) only")
    if np.diag(marks).any() or ((marks == NONE) != (marks.T == NONE)).any():
        raise ValueError("pag must have a mark at both ends of each edge and none on the diagonal")
    return marks.astype(np.int8)


def read_relation(graph: PartialGraph, x: int, y: int) -> str:
    """Return what a complete PAG says about x as a cause of y.

    Without a possibly directed path x is an invariant non-ancestor; with a directed one an explicit ancestor; with
    two uncovered possibly directed paths whose first vertices are different and not adjacent an implicit one.
    """
    if not _reaches(graph, x, y, lambda i, j: graph.mark[j][i] != ARROW and graph.mark[i][j] != TAIL):
        return NON_ANCESTOR
    if _reaches(graph, x, y, graph.is_directed):
        return EXPLICIT
    firsts = sorted(uncovered_firsts(graph, x, y))
    for k, a in enumerate(firsts):
        if any(b in graph.apart[a] for b in firsts[k + 1 :]):
            return IMPLICIT
    return POSSIBLE


def _reaches(graph: PartialGraph, x: int, y: int, passes: Any) -> bool:
    seen, todo = {x}, [x]
    while todo:
        i = todo.pop()
        for j in graph.adjacent[i]:
            if j not in seen and passes(i, j):
                if j == y:
                    return True
                seen.add(j)
                todo.append(j)
    return False


def uncovered_firsts(graph: PartialGraph, x: int, y: int, *, apart_from: int = -1) -> set[int]:
    """Return the first vertices of uncovered possibly directed paths from x to y.

    On such a path each two vertices with one between them are known to be separated, and no mark points back. With
    `apart_from` the first vertex must also be separated from that one. The search goes backwards from y over states
    (vertex, its successor).
    """
    found: set[int] = set()
    todo = [(j, y) for j in graph.adjacent[y] if _forward(graph, j, y)]
    seen = set(todo)
    while todo:
        i, j = todo.pop()
        if i == x:
            if apart_from < 0 or j in graph.apart[apart_from]:
                found.add(j)
            continue
        for h in graph.adjacent[i]:
            state = (h, i)
            if h in graph.apart[j] and state not in seen and h != y and _forward(graph, h, i):
                seen.add(state)
                todo.append(state)
    return found


def _forward(graph: PartialGraph, i: int, j: int) -> bool:
    return graph.mark[j][i] != ARROW and graph.mark[i][j] != TAIL
