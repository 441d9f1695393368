"""Learning the part of a PAG around one variable, Markov blanket by Markov blanket.

Starting from the target, the structure over each variable's Markov blanket is learned alone; only what such a local
structure can be trusted for enters the graph. The walk goes on to the neighbours until the marks around the target
can't change any more.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfc

from paperworks.causal.local_cause.ci_tests import FisherTester, Tester
from paperworks.causal.local_cause.orientation import close
from paperworks.causal.local_cause.pag import ARROW, CIRCLE, TAIL, PartialGraph

__all__ = ["Blankets", "GaussianBlankets", "LocalLearner", "TestedBlankets"]

Floats = NDArray[np.float64]


class Blankets(ABC):
    """Markov blankets of all variables by total conditioning: y is in x's if they depend given all others."""

    def __init__(self, tester: Tester, n: int, alpha: float) -> None:
        self.tester = tester
        self.n = n
        self.alpha = alpha
        self.found: dict[int, tuple[int, ...]] = {}

    @abstractmethod
    def p(self, x: int, y: int) -> float:
        """Return the p-value of x and y given all others."""

    def __call__(self, x: int) -> tuple[int, ...]:
        """Return the Markov blanket of x, sorted."""
        if x not in self.found:
            self.found[x] = tuple(y for y in range(self.n) if y != x and self.p(x, y) <= self.alpha)
        return self.found[x]


class TestedBlankets(Blankets):
    """Total conditioning with the tester's own questions."""

    def p(self, x: int, y: int) -> float:
        """Ask the tester, with all other variables given."""
        before, self.tester.stage = self.tester.stage, "markov_blanket"
        value = self.tester.p(x, y, tuple(v for v in range(self.n) if v not in (x, y)))
        self.tester.stage = before
        return value


class GaussianBlankets(Blankets):
    """All total partial correlations from one inverse of the shrunk correlation matrix.

    With shrinkage s the matrix (1 - s) R + s I takes part with effectively sum_i (1 - s) d_i / ((1 - s) d_i + s)
    variables, d_i the eigenvalues of R; this replaces their number in the test. The partial correlations are divided
    by 1 - s, by which shrinkage alone lessens them. Without shrinkage this is Fisher's z, and with nothing left of
    the correlations among the others it is the test without conditions.
    """

    def __init__(self, tester: FisherTester, corr: Floats, shrinkage: float, alpha: float) -> None:
        super().__init__(tester, len(corr), alpha)
        values, vectors = np.linalg.eigh(corr)
        shrunk = np.maximum((1.0 - shrinkage) * values, 0.0) + shrinkage
        precision = (vectors / shrunk) @ vectors.T
        scale = np.sqrt(np.diag(precision))
        r = np.abs(precision / scale / scale[:, None]) / max(1.0 - shrinkage, 1e-12)
        r = np.minimum(r, 1.0 - 1e-7)
        effective = float(((shrunk - shrinkage) / shrunk).sum())
        self.table = erfc(np.arctanh(r) * np.sqrt(max(tester.n_samples - effective - 1.0, 1.0) / 2.0))
        self.counted: set[int] = set()

    def p(self, x: int, y: int) -> float:
        """Read the table."""
        return float(self.table[x, y])

    def __call__(self, x: int) -> tuple[int, ...]:
        """Return the Markov blanket of x; each partial correlation read counts as one test."""
        if x not in self.counted:
            self.tester.counts["markov_blanket"] += self.n - 1 - len(self.counted)
            self.counted.add(x)
        return super().__call__(x)


class LocalLearner:
    """The graph learned so far, with the variables whose Markov blankets have been worked through."""

    def __init__(
        self,
        tester: Tester,
        blanket: Blankets,
        *,
        max_cond: int | None,
        max_local: int | None = None,
        report: Callable[[int, int], None] | None = None,
    ) -> None:
        self.tester = tester
        self.blanket = blanket
        self.max_cond = max_cond
        self.max_local = max_local
        self.report = report
        self.graph = PartialGraph(blanket.n)
        self.done: list[int] = []

    def copy(self) -> LocalLearner:
        """Return a learner that goes on from here on its own graph, with the same tests."""
        other = LocalLearner(
            self.tester, self.blanket, max_cond=self.max_cond, max_local=self.max_local, report=self.report
        )
        other.graph = self.graph.copy()
        other.done = self.done.copy()
        return other

    def learn(self, x: int) -> None:
        """Learn the graph over MB+(x)."""
        self.tester.stage = "skeleton"
        started = len(self.done)
        while (v := self._next(x)) is not None:
            if self.max_local is not None and len(self.done) - started >= self.max_local:
                warnings.warn(
                    f"stopped after max_local={self.max_local} local structures; marks that more of them would settle "
                    "stay circles",
                    UserWarning,
                    stacklevel=3,
                )
                break
            self._learn_around(v)
            self.done.append(v)
            if self.report is not None:
                self.report(v, len(self.done))
            if self.graph.adjacent[x] <= set(self.done):
                close(self.graph)
                if self._settled(x):
                    return
        close(self.graph)

    def _next(self, x: int) -> int | None:
        """Return the variable to learn next: the first unlearned one that a breadth-first walk from x meets."""
        done = set(self.done)
        seen, queue = {x}, [x]
        for v in queue:
            if v not in done:
                return v
            for w in sorted(self.graph.adjacent[v] - seen):
                seen.add(w)
                queue.append(w)
        return None

    def _learn_around(self, v: int) -> None:
        graph = self.graph
        blanket = self.blanket(v)
        for w in range(graph.n):
            if w != v and w not in blanket:
                graph.separate(v, w, blanket)
        local, sepset = self._local_skeleton(v, blanket)
        for w in blanket:
            if w in local[v]:
                graph.connect(v, w)
        for a, c in self._trusted_arrows(v, local, sepset):
            if graph.connect(a, c):
                graph.set_mark(a, c, ARROW)

    def _local_skeleton(
        self, v: int, blanket: tuple[int, ...]
    ) -> tuple[dict[int, set[int]], dict[tuple[int, int], tuple[int, ...]]]:
        """Return who is adjacent to whom among MB+(v), by removing pairs as the PC algorithm does, and by which sets.

        Only separating sets from within MB+(v) count here: the structure is that of these variables alone, and one
        from outside would make colliders of vertices that stand in for those it contains.
        """
        graph, tester = self.graph, self.tester
        nodes = sorted((*blanket, v))
        local = {u: set(nodes) - {u} for u in nodes}
        sepset: dict[tuple[int, int], tuple[int, ...]] = {}
        limit = len(nodes) - 2 if self.max_cond is None else self.max_cond

        def remove(a: int, b: int, z: tuple[int, ...]) -> None:
            local[a].discard(b)
            local[b].discard(a)
            sepset[a, b] = sepset[b, a] = z
            graph.separate(a, b, z)

        inside = set(nodes)
        for a in nodes:
            for b in graph.apart[a] & inside:
                if a < b and inside.issuperset(graph.sepset[a, b]):
                    remove(a, b, graph.sepset[a, b])
        for size in range(limit + 1):
            if all(len(around) <= size for around in local.values()):
                break
            for a in nodes:
                for b in sorted(w for w in local[a] if w > a and w not in graph.adjacent[a]):
                    for end, other in ((a, b), (b, a)):
                        z = tester.separator(a, b, sorted(local[end] - {other}), size)
                        if z is not None:
                            remove(a, b, z)
                            break
        if self.max_cond is None:
            for w in sorted(local[v] - graph.adjacent[v]):
                z = tester.smallest_separator(v, w, [u for u in blanket if u != w])
                if z is not None:
                    remove(v, w, z)
        return local, sepset

    def _trusted_arrows(
        self, v: int, local: dict[int, set[int]], sepset: dict[tuple[int, int], tuple[int, ...]]
    ) -> list[tuple[int, int]]:
        """Return pairs (a, c) with an arrow at c: unshielded colliders that contain v, or lie on an uncovered
        collider path from v (Proposition 2)."""

        def collides(a: int, c: int, b: int) -> bool:
            return b not in local[a] and c not in sepset[a, b]

        arrows = []
        around = sorted(local[v])
        for k, a in enumerate(around):
            for b in around[k + 1 :]:
                if collides(a, v, b):
                    arrows += [(a, v), (b, v)]
        todo = [(v, c) for c in around]
        seen = set(todo)
        while todo:
            a, c = todo.pop()
            for b in sorted(local[c] - {a}):
                if collides(a, c, b):
                    arrows += [(a, c), (b, c)]
                    if (c, b) not in seen:
                        seen.add((c, b))
                        todo.append((c, b))
        return arrows

    def _settled(self, x: int) -> bool:
        """Can no mark and no adjacency within MB+(x) change any more?

        A mark can change only if something unlearned can be reached from its edge without passing an arrow that
        points against the walk (stop rules R1 and R3), the steps of discriminating paths being passed as well.
        """
        graph, done = self.graph, set(self.done)
        nodes = sorted((*self.blanket(x), x))
        todo = []
        for k, a in enumerate(nodes):
            for b in nodes[k + 1 :]:
                known = b in graph.apart[a] or (
                    b in graph.adjacent[a] and CIRCLE not in (graph.mark[a][b], graph.mark[b][a])
                )
                if not known:
                    todo += [a, b]
        seen = set(todo)
        while todo:
            u = todo.pop()
            if u not in done:
                return False
            for w in (self._outward(u) | self._discriminating(u)) - seen:
                seen.add(w)
                todo.append(w)
        return True

    def _outward(self, u: int) -> set[int]:
        return {w for w in self.graph.adjacent[u] if self.graph.mark[w][u] != ARROW}

    def _discriminating(self, u: int) -> set[int]:
        """Return the vertices that may lie on discriminating paths for u (rule R4)."""
        graph, mark = self.graph, self.graph.mark
        found: set[int] = set()
        for a in graph.adjacent[u]:
            if mark[a][u] != CIRCLE:
                continue
            todo = [u]
            while todo:
                c = todo.pop()
                for q in (graph.adjacent[c] & graph.adjacent[a]) - found:
                    if mark[q][a] == ARROW and TAIL not in (mark[c][q], *([mark[q][c]] if c != u else [])):
                        found.add(q)
                        todo.append(q)
        return found
