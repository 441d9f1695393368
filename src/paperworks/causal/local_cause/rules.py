"""The decision: what the graph around X and a few tests say about X as a cause of Y."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import networkx as nx

from paperworks.causal.local_cause.ci_tests import Tester
from paperworks.causal.local_cause.learner import LocalLearner
from paperworks.causal.local_cause.pag import (
    ARROW,
    CIRCLE,
    EXPLICIT,
    IMPLICIT,
    NON_ANCESTOR,
    POSSIBLE,
    TAIL,
    PartialGraph,
    arrow_collider_ends,
    circle_collider_ends,
)

__all__ = ["Answer", "Surroundings", "corrected_rule", "look_around", "printed_rule"]

Question = tuple[int, int, tuple[int, ...]]


@dataclass(frozen=True)
class Surroundings:
    """What has been learned about one variable x."""

    x: int
    graph: PartialGraph
    blanket: tuple[int, ...]
    ipre: dict[int, tuple[int, ...] | None]
    """Variables of MB(x) that x is an invariant non-ancestor of, with the set that shows it (None: an arrow at x)."""
    parents: tuple[int, ...]
    """Pa*(x)."""
    circles: tuple[int, ...]
    """Neighbours whose edge has a circle at x."""
    cliques: tuple[tuple[int, ...], ...]
    """Maximal cliques of `circles`."""


@dataclass
class Answer:
    """A relation with what it rests on."""

    relation: str
    rule: str
    sets: dict[str, tuple[int, ...]] = field(default_factory=dict)
    questions: list[Question] = field(default_factory=list)


def look_around(learner: LocalLearner, x: int) -> Surroundings:
    """Learn the graph over MB+(x) and read off the sets that the rules need."""
    learner.learn(x)
    graph, blanket = learner.graph, learner.blanket(x)
    learner.tester.stage = "decision"
    ipre: dict[int, tuple[int, ...] | None] = {v: None for v in sorted(graph.adjacent[x]) if graph.is_arrow(v, x)}
    growing = True
    while growing:
        growing = False
        for v in blanket:
            if v in ipre or v in graph.adjacent[x]:
                continue
            z = _separating_subset(learner.tester, graph, x, v, ipre)
            if z is not None:
                ipre[v] = z
                growing = True
    circles = tuple(sorted(v for v in graph.adjacent[x] if graph.mark[v][x] == CIRCLE))
    around = nx.Graph()
    around.add_nodes_from(circles)
    around.add_edges_from((a, b) for a in circles for b in circles if a < b and b in graph.adjacent[a])
    cliques = tuple(sorted(tuple(sorted(c)) for c in nx.find_cliques(around))) if circles else ()
    return Surroundings(x, graph, blanket, ipre, tuple(sorted(arrow_collider_ends(graph, x, ipre))), circles, cliques)


def _separating_subset(
    tester: Tester, graph: PartialGraph, x: int, v: int, candidates: Iterable[int]
) -> tuple[int, ...] | None:
    """Return a subset of the candidates that separates x and v; one that is known already costs no test."""
    given = set(candidates)
    known = graph.sepset.get((x, v))
    if known is not None and given.issuperset(known):
        return tuple(sorted(known))
    return tester.smallest_separator(x, v, sorted(given))


def _from_graph(here: Surroundings, y: int) -> Answer | None:
    """Answer from the marks alone, where y is adjacent to x or an augmented parent of it."""
    x, graph = here.x, here.graph
    if y in graph.adjacent[x]:
        at_x, at_y = graph.mark[y][x], graph.mark[x][y]
        if at_x == ARROW:
            return Answer(NON_ANCESTOR, "adjacent: arrow at the target")
        if at_x == TAIL and at_y == ARROW:
            return Answer(EXPLICIT, "adjacent: directed edge")
        return Answer(POSSIBLE, "adjacent: circle at the target")
    if y in here.parents:
        shown = here.ipre[y]
        assert shown is not None  # y is not adjacent
        return Answer(NON_ANCESTOR, "augmented parent", {"separating_set": shown}, [(x, y, shown)])
    return None


def printed_rule(here: Surroundings, y: int, tester: Tester) -> Answer:
    """Theorems 1-4 as printed; wrong for about one pair in thirty, see `corrected_rule`."""
    tester.stage = "decision"
    x = here.x
    answer = _from_graph(here, y)
    if answer is not None:
        answer.sets["augmented_parents"] = here.parents
        return answer
    circle_ends = circle_collider_ends(here.graph, x, here.ipre, here.circles)
    sets = {"augmented_parents": here.parents, "circle_collider_ends": tuple(sorted(circle_ends))}
    if y in circle_ends:
        shown = here.ipre[y]
        assert shown is not None
        return Answer(NON_ANCESTOR, "end of a circle-collider path", sets | {"separating_set": shown}, [(x, y, shown)])
    asked: list[Question] = []

    def independent(given: Iterable[int]) -> bool:
        asked.append((x, y, tester.cut(tuple(set(given)))))
        return tester.independent(*asked[-1])

    if independent(here.parents):
        return Answer(NON_ANCESTOR, "Theorem 1", sets, asked)
    if not independent({*here.parents, *circle_ends}):
        return Answer(EXPLICIT, "Theorem 2", sets, asked)
    for clique in here.cliques:
        if independent({*here.parents, *circle_collider_ends(here.graph, x, here.ipre, clique)}):
            return Answer(POSSIBLE, "Theorem 3", sets | {"clique": clique}, asked)
    return Answer(IMPLICIT, "Theorem 4", sets, asked)


def corrected_rule(here: Surroundings, y: int, tester: Tester, elsewhere: Callable[[int], Surroundings]) -> Answer:
    """Decide with a conditioning set that follows each clique's choice of the circles at x.

    The printed rule leaves an end W of a collider path open whenever x is only a *possible* ancestor of W, and then
    conditions on a collider. Here W joins the set as soon as x and W are separated within it: x is a non-ancestor of
    W in the member that the clique picks. Descendants of y must not be conditioned on, so that vertices that can't
    be ancestors of y leave the set again; `elsewhere` gives the surroundings of such a vertex.
    """
    x = here.x
    answer = _from_graph(here, y)
    if answer is not None:
        answer.sets["augmented_parents"] = here.parents
        return answer
    tester.stage = "decision"
    sets: dict[str, tuple[int, ...]] = {"augmented_parents": here.parents}
    asked: list[Question] = []

    def independent(given: Iterable[int]) -> bool:
        question = (x, y, tester.cut(tuple(set(given))))
        if question not in asked:
            asked.append(question)
        return tester.independent(*question)

    def separates(given: set[int]) -> tuple[int, ...] | None:
        """Return the part of `given` that separates x and y: all of it, or what may be an ancestor of y."""
        if independent(given):
            return tuple(sorted(given))
        kept = {v for v in given if v in here.parents or not causes_nothing(elsewhere(v), y, tester)}
        return tuple(sorted(kept)) if independent(kept) else None

    if independent(here.parents):
        return Answer(NON_ANCESTOR, "independent given the augmented parents", sets, asked)
    union: set[int] = set(here.parents)
    for clique in here.cliques:
        chosen, shown = follow(here, {*here.parents, *clique}, clique, tester)
        union |= chosen
        if y in chosen:
            found = sets | {"clique": clique, "conditioning_set": tuple(sorted(chosen))}
            return Answer(POSSIBLE, "non-ancestor in the member of a clique", found, [*asked, (x, y, shown[y])])
        given = separates(chosen)
        if given is not None:
            found = sets | {"clique": clique, "conditioning_set": given}
            return Answer(POSSIBLE, "independent in the member of a clique", found, asked)
    if not here.cliques:
        return Answer(EXPLICIT, "no circle at the target", sets, asked)
    given = separates(follow(here, union, here.circles, tester)[0])
    if given is not None:
        return Answer(
            IMPLICIT, "independent only given all cliques together", sets | {"conditioning_set": given}, asked
        )
    return Answer(EXPLICIT, "dependent given all cliques together", sets | {"conditioning_set": asked[-1][2]}, asked)


def follow(
    here: Surroundings, start: set[int], firsts: Sequence[int], tester: Tester
) -> tuple[set[int], dict[int, tuple[int, ...]]]:
    """Add to `start` the ends of collider paths from x by way of `firsts` that are separated from x within the set.

    With a clique as `firsts` these are the augmented parents of x in the member that the clique picks. Returned are
    the set and what shows each that was added.
    """
    x, graph = here.x, here.graph
    chosen = set(start)
    shown: dict[int, tuple[int, ...]] = {}
    growing = True
    while growing:
        growing = False
        ends = {w for v in firsts if graph.is_arrow(x, v) for w in _next_ends(graph, x, v, chosen)}
        for w in sorted(ends - chosen - graph.adjacent[x]):
            z = _separating_subset(tester, graph, x, w, chosen)
            if z is not None:
                chosen.add(w)
                shown[w] = z
                growing = True
    return chosen, shown


def _next_ends(graph: PartialGraph, x: int, first: int, inner: set[int]) -> set[int]:
    """Return ends of collider paths x, first, ..., end whose inner vertices lie in `inner`."""
    ends: set[int] = set()
    passed, todo = {x, first}, [first]
    while todo:
        u = todo.pop()
        for w in graph.adjacent[u]:
            if w != x and graph.is_arrow(w, u):
                ends.add(w)
                if w in inner and w not in passed and graph.is_arrow(u, w):
                    passed.add(w)
                    todo.append(w)
    return ends


def causes_nothing(here: Surroundings, y: int, tester: Tester) -> bool:
    """Is ``here.x`` an invariant non-ancestor of y?"""
    answer = _from_graph(here, y)
    if answer is not None:
        return answer.relation == NON_ANCESTOR
    return tester.independent(here.x, y, tester.cut(here.parents))
