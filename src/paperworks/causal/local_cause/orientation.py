"""Orientation rules R0-R4 and R8-R10 of J. Zhang (2008), on a graph of which only a part may be known.

There is no selection bias, so R5-R7 do not apply. A premise "not adjacent" needs a pair *known* to be separated.
"""

from __future__ import annotations

from paperworks.causal.local_cause.pag import ARROW, CIRCLE, TAIL, PartialGraph, uncovered_firsts

__all__ = ["close"]


def close(graph: PartialGraph) -> None:
    """Orient unshielded colliders, then apply the rules until none changes a mark."""
    _pass(graph, (_unshielded_collider,))
    changed = True
    while changed:
        while _pass(graph, (_away_from_collider, _away_from_cycle, _double_triangle, _directed_shortcut)):
            pass
        changed = _pass(graph, (_discriminating_path, _uncovered_path))


def _pass(graph: PartialGraph, rules: tuple) -> bool:
    """Try each rule once on each circle (at b, on the edge a - b)."""
    changed = False
    for b in range(graph.n):
        for a in graph.adjacent[b]:
            if graph.mark[a][b] == CIRCLE and any(rule(graph, a, b) for rule in rules):
                changed = True
    return changed


def _unshielded_collider(graph: PartialGraph, a: int, b: int) -> bool:
    """R0: c *-* b o-* a with c and a separated by a set without b gives an arrow at b."""
    if any(b not in graph.sepset[a, c] for c in graph.adjacent[b] & graph.apart[a]):
        graph.mark[a][b] = ARROW
        return True
    return False


def _away_from_collider(graph: PartialGraph, a: int, b: int) -> bool:
    """R1: c *-> b o-* a with c and a separated by a set with b gives b -> a.

    While only a part of the graph is known, b may still turn out a collider if the set does not hold it.
    """
    mark = graph.mark
    if any(mark[c][b] == ARROW and b in graph.sepset[a, c] for c in graph.adjacent[b] & graph.apart[a]):
        mark[a][b] = TAIL
        graph.set_mark(b, a, ARROW)
        return True
    return False


def _away_from_cycle(graph: PartialGraph, a: int, b: int) -> bool:
    """R2: a -> c *-> b or a *-> c -> b, with a *-o b, gives a *-> b."""
    mark = graph.mark
    for c in graph.adjacent[a] & graph.adjacent[b]:
        if mark[a][c] == ARROW and mark[c][b] == ARROW and (mark[c][a] == TAIL or mark[b][c] == TAIL):
            mark[a][b] = ARROW
            return True
    return False


def _double_triangle(graph: PartialGraph, a: int, b: int) -> bool:
    """R3: c *-> b <-* d, c *-o a o-* d, c and d apart, with a *-o b, gives a *-> b."""
    mark = graph.mark
    corners = [c for c in graph.adjacent[a] & graph.adjacent[b] if mark[c][b] == ARROW and mark[c][a] == CIRCLE]
    if any(d in graph.apart[c] for k, c in enumerate(corners) for d in corners[k + 1 :]):
        mark[a][b] = ARROW
        return True
    return False


def _directed_shortcut(graph: PartialGraph, a: int, b: int) -> bool:
    """R8: b -> c -> a, with b o-> a, gives b -> a."""
    if graph.mark[b][a] != ARROW:
        return False
    if any(graph.is_directed(b, c) and graph.is_directed(c, a) for c in graph.adjacent[a] & graph.adjacent[b]):
        graph.mark[a][b] = TAIL
        return True
    return False


def _discriminating_path(graph: PartialGraph, a: int, b: int) -> bool:
    """R4: a discriminating path (t, ..., c, b, a) for b tells whether b is a collider on it.

    Every vertex between t and b is a collider on the path and a parent of a; t is not adjacent to a.
    """
    mark = graph.mark
    for c in graph.adjacent[a] & graph.adjacent[b]:
        if not (graph.is_directed(c, a) and mark[b][c] == ARROW):
            continue
        seen, todo = {a, b, c}, [c]
        while todo:
            u = todo.pop()
            for t in graph.adjacent[u]:
                if t in seen or mark[t][u] != ARROW:
                    continue
                if t in graph.apart[a]:
                    if b in graph.sepset[t, a]:
                        mark[a][b] = TAIL
                        graph.set_mark(b, a, ARROW)
                    else:
                        mark[a][b] = ARROW
                        for i, j in ((b, a), (b, c), (c, b)):
                            graph.set_mark(i, j, ARROW)
                    return True
                if graph.is_directed(t, a) and mark[u][t] == ARROW:
                    seen.add(t)
                    todo.append(t)
    return False


def _uncovered_path(graph: PartialGraph, a: int, b: int) -> bool:
    """R9 and R10: uncovered possibly directed paths from b, with b o-> a, give b -> a.

    R9: a path b, c, ..., a with c and a apart. R10: paths to two parents of a whose first vertices are different and
    apart.
    """
    if graph.mark[b][a] != ARROW:
        return False
    starts = {c for c in graph.adjacent[b] if c != a and graph.mark[c][b] != ARROW and graph.mark[b][c] != TAIL}
    found = (not starts.isdisjoint(graph.apart[a]) and bool(uncovered_firsts(graph, b, a, apart_from=a))) or (
        any(not starts.isdisjoint(graph.apart[c]) for c in starts) and _two_ways(graph, a, b)
    )
    if found:
        graph.mark[a][b] = TAIL
    return found


def _two_ways(graph: PartialGraph, a: int, b: int) -> bool:
    parents = [c for c in graph.adjacent[a] if c != b and graph.is_directed(c, a)]
    firsts = [uncovered_firsts(graph, b, c) - {a} for c in parents] if len(parents) > 1 else []
    return any(
        v in graph.apart[u] for k, first in enumerate(firsts) for other in firsts[k + 1 :] for u in first for v in other
    )
