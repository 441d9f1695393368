"""Speed of the canonical program, the cluster program and the local search beside plain formulations."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import networkx as nx
import numpy as np
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

from benchmarks import Case
from paperworks.clustering import (
    ConstrainedCorrelationClustering,
    local_search,
    plant_instance,
    solve_canonical_lp,
    solve_cluster_lp,
)


def triangles(n: int) -> sparse.csr_array:
    """Return all triangle inequalities of n nodes as rows over the pairs."""
    u, v, w = np.array(list(itertools.combinations(range(n), 3))).T
    number = np.zeros((n, n), dtype=np.int64)
    number[np.triu_indices(n, 1)] = np.arange(n * (n - 1) // 2)
    sides = np.column_stack([number[u, v], number[u, w], number[v, w]])
    blocks = []
    for long in range(3):
        sign = -np.ones(3)
        sign[long] = 1.0
        row = np.repeat(np.arange(len(sides)), 3)
        blocks.append(sparse.csr_array((np.tile(sign, len(sides)), (row, sides.ravel()))))
    return sparse.csr_array(sparse.vstack(blocks))


def dense_canonical(X: Any) -> float:
    """Hand all triangles to HiGHS at once."""
    n = len(X)
    cost = np.where(X[np.triu_indices(n, 1)] == 1, 1.0, -1.0)
    A = triangles(n)
    return float(linprog(cost, A_ub=A, b_ub=np.zeros(A.shape[0]), bounds=(0, 1), method="highs").fun)


def whole_mip(X: Any, limit: float) -> Any:
    """Solve the clustering problem itself as one integer program over pairs."""
    n = len(X)
    cost = np.where(X[np.triu_indices(n, 1)] == 1, 1.0, -1.0)
    A = sparse.csc_array(triangles(n))
    constraint = LinearConstraint(A, -np.inf, np.zeros(A.shape[0]))
    return milp(
        cost, integrality=np.ones(cost.size), bounds=Bounds(0, 1), constraints=constraint, options={"time_limit": limit}
    )


def fit(graph: Any, lp: str) -> ConstrainedCorrelationClustering:
    """Fit the method."""
    return ConstrainedCorrelationClustering(lp=lp, random_state=0).fit(graph)


def loop_search(X: Any, sets: list[Any], labels: Any) -> Any:
    """Run Algorithm 1 with a cost computed anew for each set."""
    W = 2 * X - 1
    np.fill_diagonal(W, 0)

    def value(labels: Any) -> float:
        return float(W[labels[:, None] == labels].sum())

    labels, best = labels.copy(), value(labels)
    improved = True
    while improved:
        improved = False
        for members in sets:
            trial = labels.copy()
            trial[members] = labels.max() + 1
            gained = value(trial)
            if gained > best:
                labels, best, improved = trial, gained, True
    return labels


def cases() -> list[Case]:
    """Return the comparisons."""
    easy = plant_instance(60, 5, 0.1, random_state=0)[0]
    noisy = plant_instance(30, 5, 0.2, random_state=101)[0]
    large = plant_instance(300, 5, 0.1, random_state=0)[0]
    graph = nx.planted_partition_graph(100, 20, 0.5, 1e-4, seed=0)
    rng = np.random.default_rng(0)
    neighbours = [np.flatnonzero(row) for row in large + np.eye(300, dtype=int)]
    sets = neighbours + [rng.permutation(members)[: len(members) // 2 + 1] for members in neighbours]
    return [
        Case(
            "canonical program, n = 60, 10 % noise",
            partial(solve_canonical_lp, easy),
            partial(dense_canonical, easy),
            "scipy linprog with all triangles",
        ),
        Case(
            "cluster program, n = 60, 10 % noise, against the whole problem",
            partial(solve_cluster_lp, easy),
            partial(whole_mip, easy, 60.0),
            "scipy milp over pairs",
        ),
        Case(
            "cluster program, n = 30, 20 % noise, against the whole problem",
            partial(solve_cluster_lp, noisy),
            partial(whole_mip, noisy, 60.0),
            "scipy milp over pairs",
        ),
        Case(
            "local search over 600 sets, n = 300",
            partial(local_search, large, sets, np.arange(300)),
            partial(loop_search, large, sets, np.arange(300)),
            "Algorithm 1 with costs computed anew",
        ),
        Case(
            f"no program, {graph.number_of_nodes():,} nodes, {graph.number_of_edges():,} edges",
            partial(fit, graph, "none"),
            partial(nx.community.louvain_communities, graph, seed=0),
            "networkx louvain_communities",
            note="Louvain maximises modularity, another aim; no bound",
        ),
    ]
