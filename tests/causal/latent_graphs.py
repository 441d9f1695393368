"""Small graphs with hidden variables, and what an enumeration of all graphs that fit says about them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import networkx as nx
import numpy as np

Edges = list[tuple[int, int]]


def random_dag(rng: np.random.Generator, n: int, n_latent: int, degree: float) -> nx.DiGraph:
    """Draw a graph on n observed nodes 0 ... n - 1 and n_latent hidden ones behind them."""
    m = n + n_latent
    place = rng.permutation(m)
    dag = nx.DiGraph()
    dag.add_nodes_from(range(m))
    for i in range(m):
        for j in range(i + 1, m):
            if rng.random() < degree / (m - 1):
                dag.add_edge(int(place[i]), int(place[j]))
    return dag


def dag_of(edges: Edges, n: int) -> nx.DiGraph:
    dag = nx.DiGraph()
    dag.add_nodes_from(range(n))
    dag.add_edges_from(edges)
    return dag


def oracle(dag: nx.DiGraph) -> Callable[[int, int, tuple[int, ...]], float]:
    """Return a test that knows which nodes are d-separated (1.0) and which not (0.0)."""
    parents = {v: tuple(dag.predecessors(v)) for v in dag}
    children = {v: tuple(dag.successors(v)) for v in dag}

    def ask(x: int, y: int, z: tuple[int, ...]) -> float:
        given, above = set(z), set(z)
        todo = list(z)
        while todo:
            new = set(parents[todo.pop()]) - above
            above |= new
            todo += new
        seen, walk = set(), [(x, False)]  # a node, and whether it was entered along an arrow
        while walk:
            state = walk.pop()
            if state in seen:
                continue
            seen.add(state)
            v, entered = state
            if v == y:
                return 0.0
            if v not in given:
                walk += [(c, True) for c in children[v]]
            if (v in above) if entered else (v not in given):
                walk += [(p, False) for p in parents[v]]
        return 1.0

    return ask


def msep_in_mag(arrow: list[list[bool]], adjacent: list[list[bool]], x: int, y: int, z: frozenset[int]) -> bool:
    """Is x m-separated from y by z in the mixed graph with ``arrow[i][j]``: an arrow at j on the edge i - j?"""
    n = len(arrow)
    above = set(z)
    todo = list(z)
    while todo:
        j = todo.pop()
        new = {i for i in range(n) if adjacent[i][j] and arrow[i][j] and not arrow[j][i]} - above
        above |= new
        todo += new
    seen, walk = set(), [(j, arrow[x][j]) for j in range(n) if adjacent[x][j]]
    while walk:
        state = walk.pop()
        if state in seen:
            continue
        seen.add(state)
        v, entered = state
        if v == y:
            return False
        for w in range(n):
            if adjacent[v][w]:
                collides = entered and arrow[w][v]
                if (v in above) if collides else (v not in z):
                    walk.append((w, arrow[v][w]))
    return True


def members(n: int, ask: Callable[[int, int, tuple[int, ...]], float], max_edges: int) -> Iterator[np.ndarray]:
    """Yield every MAG on n nodes with exactly the independences of `ask`, as an array of arrows.

    Nothing comes of more than `max_edges` edges, where the enumeration takes long.
    """
    pairs = list(itertools.combinations(range(n), 2))
    separating: dict[tuple[int, int], list[frozenset[int]]] = {}
    for a, b in pairs:
        rest = [v for v in range(n) if v not in (a, b)]
        sets = itertools.chain.from_iterable(itertools.combinations(rest, k) for k in range(n - 1))
        separating[a, b] = [frozenset(z) for z in sets if ask(a, b, z) > 0.5]
    edges = [pair for pair in pairs if not separating[pair]]
    if len(edges) > max_edges:
        return
    adjacent = np.zeros((n, n), dtype=bool)
    for a, b in edges:
        adjacent[a, b] = adjacent[b, a] = True
    triples = [
        (a, c, b, c not in separating[a, b][0])
        for a, b in pairs
        if separating[a, b]
        for c in range(n)
        if adjacent[a, c] and adjacent[b, c]
    ]
    arrow = np.zeros((n, n), dtype=bool)

    def assign(k: int) -> Iterator[np.ndarray]:
        if k == len(edges):
            if is_ancestral(arrow, adjacent) and fits():
                yield arrow.copy()
            return
        a, b = edges[k]
        for at_a, at_b in ((False, True), (True, False), (True, True)):
            arrow[b, a], arrow[a, b] = at_a, at_b
            if all(
                (arrow[p, c] and arrow[q, c]) == collider
                for p, c, q, collider in triples
                if (min(p, c), max(p, c)) <= (a, b) and (min(q, c), max(q, c)) <= (a, b) and c in (a, b)
            ):
                yield from assign(k + 1)
        arrow[b, a] = arrow[a, b] = False

    neighbours = adjacent.tolist()

    def fits() -> bool:
        lists = arrow.tolist()
        for (a, b), sets in separating.items():
            if sets:
                rest = [v for v in range(n) if v not in (a, b)]
                for size in range(n - 1):
                    for z in itertools.combinations(rest, size):
                        if msep_in_mag(lists, neighbours, a, b, frozenset(z)) != (frozenset(z) in sets):
                            return False
        return True

    yield from assign(0)


def directed_reach(directed: np.ndarray) -> np.ndarray:
    """Return who reaches whom along directed edges (of at most eight nodes), by squaring the paths of each length."""
    start = directed.astype(np.float64)
    walks = start + np.eye(len(directed))
    for _ in range(3):
        walks = walks @ walks
    return (start @ walks) > 0


def is_ancestral(arrow: np.ndarray, adjacent: np.ndarray) -> bool:
    """No directed cycle, and no arrow at an ancestor of the other end."""
    reach = directed_reach(adjacent & arrow & ~arrow.T)
    return not (np.diag(reach).any() or (reach & arrow.T).any())


def enumerated_relations(
    n: int, ask: Callable[[int, int, tuple[int, ...]], float], max_edges: int = 15
) -> tuple[dict[tuple[int, int], str], int]:
    """Return the relation of each ordered pair, read off all members of the class, and how many there are."""
    some, every = np.zeros((n, n), dtype=bool), np.ones((n, n), dtype=bool)
    common = np.ones((n, n), dtype=bool)
    count = 0
    for arrow in members(n, ask, max_edges):
        directed = arrow & ~arrow.T
        reach = directed_reach(directed)
        some, every, common = some | reach, every & reach, common & directed
        count += 1
    explicit = directed_reach(common)
    return {
        (x, y): "invariant_non_ancestor"
        if not some[x, y]
        else "possible_ancestor"
        if not every[x, y]
        else "explicit_invariant_ancestor"
        if explicit[x, y]
        else "implicit_invariant_ancestor"
        for x in range(n)
        for y in range(n)
        if x != y
    }, count
