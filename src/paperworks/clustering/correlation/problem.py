"""The problem: plus and minus pairs, certain pairs, and what a clustering costs (section 2 of the paper).

Nodes that are joined by must-links are contracted to one supernode. A pair of supernodes then carries the plus weight p
and the minus weight q of all pairs between them. Every legal clustering keeps its cost, so linear programs, moves and
roundings may work on supernodes, and must-links can't be broken by construction.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from paperworks.clustering._graphs import Graph, read_graph, read_pairs

__all__ = [
    "Instance",
    "check_constraints",
    "clustering_cost",
    "entries_at",
    "in_order_of_appearance",
    "make_instance",
    "plant_instance",
    "signs",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Instance:
    """A contracted problem on m supernodes; the net weight of a pair a, b is ``signed[a, b] - kappa size_a size_b``."""

    group: Ints
    """(n,) supernode of each node, numbered in order of appearance."""
    size: Floats
    """(m,) number of nodes in each supernode."""
    signed: sparse.csr_array
    """(m, m) stored part of the net weights: 2p if absent pairs are minus pairs, p - q if they are indifferent."""
    kappa: float
    """1 if absent pairs are minus pairs (unweighted), 0 if they are indifferent (weighted)."""
    plus: sparse.csr_array
    """(m, m) plus weights p."""
    inner: Floats
    """(m,) plus minus minus weight inside each supernode."""
    total_plus: float
    """Weight of all plus pairs."""
    hostile: sparse.csr_array
    """(m, m) 1 where two supernodes must stay apart."""

    @property
    def m(self) -> int:
        """Number of supernodes."""
        return int(self.size.size)

    @cached_property
    def W(self) -> Floats:
        """Net weights p - q as a dense (m, m) array with zero diagonal."""
        W = self.signed.toarray() - self.kappa * np.outer(self.size, self.size)
        np.fill_diagonal(W, 0.0)
        return W

    @cached_property
    def P(self) -> Floats:
        """Plus weights as a dense (m, m) array."""
        return np.asarray(self.plus.toarray())

    @cached_property
    def Q(self) -> Floats:
        """Minus weights as a dense (m, m) array."""
        return self.P - self.W

    @cached_property
    def H(self) -> Bools:
        """Hostile pairs as a dense (m, m) array."""
        return np.asarray(self.hostile.toarray() > 0)

    @cached_property
    def scale(self) -> float:
        """A magnitude of the weights, for tolerances."""
        return max(1.0, float(np.abs(self.signed.data).max(initial=0.0)))

    def value(self, labels: Ints) -> float:
        """Return the sum over clusters of plus minus minus weight inside."""
        S = self.signed.tocoo()
        inside = S.data[labels[S.row] == labels[S.col]].sum() / 2.0
        mass = np.bincount(labels, weights=self.size)
        pairs = (np.square(mass).sum() - np.square(self.size).sum()) / 2.0
        return float(self.inner.sum() + inside - self.kappa * pairs)

    def cost(self, labels: Ints) -> float:
        """Return the weight of plus pairs across clusters and minus pairs inside."""
        return max(0.0, self.total_plus - self.value(labels))

    def expand(self, labels: Ints) -> Ints:
        """Return labels of the original nodes, numbered in order of appearance."""
        return in_order_of_appearance(np.asarray(labels)[self.group])


def in_order_of_appearance(labels: ArrayLike) -> Ints:
    """Number the labels 0, 1, ... in order of their first appearance."""
    _, first, inverse = np.unique(np.asarray(labels), return_index=True, return_inverse=True)
    rank = np.empty(first.size, dtype=np.int64)
    rank[np.argsort(first)] = np.arange(first.size)
    return rank[inverse]


def signs(graph: Graph, name: str = "X", *, weights: bool = False) -> sparse.csr_array:
    """Return the stored pairs with their sign: +1 (plus) if unweighted, any number if weighted."""
    W = graph.weights
    if weights:
        return W
    bad = np.flatnonzero(~np.isin(W.data, (-1.0, 1.0)))
    if bad.size:
        i, j = _where(W, bad[0])
        raise ValueError(
            f"{name}[{graph.name(i)!r}, {graph.name(j)!r}] is {W.data[bad[0]]:g}; entries must be 0 and 1, or -1 and 1 "
            "(weights=True takes any numbers)"
        )
    negative = W.data < 0
    n = graph.n_nodes
    if graph.complete and negative.any() and W.nnz < n * (n - 1):
        raise ValueError(f"{name} mixes 0 with -1 off its diagonal; entries must be 0 and 1, or -1 and 1")
    if negative.any():
        W = W.copy()
        W.data[negative] = 0.0
        W.eliminate_zeros()
    return W


def make_instance(graph: Graph, must: Ints, cannot: Ints, *, weights: bool = False, name: str = "X") -> Instance:
    """Contract a graph along its must-links; raise ValueError if a cannot-link contradicts them."""
    n = graph.n_nodes
    loop = np.flatnonzero(cannot[:, 0] == cannot[:, 1])
    if loop.size:
        node = graph.name(cannot[loop[0], 0])
        raise ValueError(f"cannot_link[{loop[0]}] holds the pair ({node!r}, {node!r}); a node can't leave itself")
    links = sparse.csr_array((np.ones(len(must)), (must[:, 0], must[:, 1])), shape=(n, n))
    group = in_order_of_appearance(connected_components(links, directed=False)[1])
    broken = np.flatnonzero(group[cannot[:, 0]] == group[cannot[:, 1]])
    if broken.size:
        u, v = (int(node) for node in cannot[broken[0]])
        chain = " - ".join(str(graph.name(node)) for node in _chain(must, u, v))
        raise ValueError(
            f"must_link and cannot_link contradict each other: the must-links {chain} join the cannot-link "
            f"({graph.name(u)!r}, {graph.name(v)!r})"
        )
    stored = signs(graph, name, weights=weights)
    member = sparse.csr_array((np.ones(n), (np.arange(n), group)))
    size = np.bincount(group).astype(np.float64)

    def contract(matrix: sparse.csr_array) -> tuple[sparse.csr_array, Floats]:
        out = sparse.csr_array(member.T @ matrix @ member) if size.size < n else sparse.csr_array(matrix, copy=True)
        inside = out.diagonal() / 2.0
        coo = out.tocoo()
        apart = coo.row != coo.col
        out = sparse.csr_array((coo.data[apart], (coo.row[apart], coo.col[apart])), shape=out.shape)
        out.eliminate_zeros()
        out.sort_indices()
        return out, inside

    plus, plus_inside = contract(stored.maximum(0.0) if weights else stored)
    signed, signed_inside = contract(stored) if weights else (sparse.csr_array(plus * 2.0), 2.0 * plus_inside)
    kappa = 0.0 if weights else 1.0
    ends = group[cannot]
    both = np.concatenate([ends, ends[:, ::-1]])
    hostile = sparse.csr_array((np.ones(len(both)), (both[:, 0], both[:, 1])), shape=plus.shape)
    hostile.sum_duplicates()
    hostile.sort_indices()
    hostile.data[:] = 1.0
    return Instance(
        group=group,
        size=size,
        signed=signed,
        kappa=kappa,
        plus=plus,
        inner=signed_inside - kappa * size * (size - 1.0) / 2.0,
        total_plus=float(plus.data.sum() / 2.0 + plus_inside.sum()),
        hostile=hostile,
    )


def entries_at(matrix: sparse.csr_array, rows: Ints, columns: Ints) -> Floats:
    """Return single entries of a matrix with sorted indices."""
    n = matrix.shape[1]
    stored = np.repeat(np.arange(matrix.shape[0], dtype=np.int64), np.diff(matrix.indptr)) * n + matrix.indices
    wanted = np.asarray(rows, dtype=np.int64) * n + columns
    place = np.minimum(np.searchsorted(stored, wanted), max(stored.size - 1, 0))
    if stored.size == 0:
        return np.zeros(wanted.size)
    return np.where(stored[place] == wanted, matrix.data[place], 0.0)


def _where(matrix: sparse.csr_array, k: int) -> tuple[int, int]:
    return int(np.searchsorted(matrix.indptr, k, side="right") - 1), int(matrix.indices[k])


def _chain(must: Ints, start: int, goal: int) -> list[int]:
    """Return a shortest chain of must-links from start to goal."""
    near: dict[int, list[int]] = {}
    for u, v in must.tolist():
        near.setdefault(u, []).append(v)
        near.setdefault(v, []).append(u)
    before = {start: start}
    queue = deque([start])
    while goal not in before:
        u = queue.popleft()
        for v in sorted(near.get(u, [])):
            if v not in before:
                before[v] = u
                queue.append(v)
    chain = [goal]
    while chain[-1] != start:
        chain.append(before[chain[-1]])
    return chain[::-1]


def check_labels(labels: ArrayLike, n: int, name: str = "labels") -> Ints:
    """Return labels as (n,) small integers."""
    array = np.asarray(labels)
    if array.shape != (n,):
        raise ValueError(f"{name} must have shape ({n},), got {array.shape}")
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise ValueError(f"{name} must not hold NaN")
    return np.unique(array, return_inverse=True)[1].astype(np.int64)


def clustering_cost(X: Any, labels: ArrayLike, *, weights: bool = False) -> float:
    """Cost of a clustering: plus pairs across clusters and minus pairs inside.

    Parameters
    ----------
    X : array of shape (n, n), sparse matrix, networkx.Graph or list of edges
        The plus pairs, as in `ConstrainedCorrelationClustering`.
    labels : array-like of shape (n,)
        Cluster of each node.
    weights : bool, default=False
        Take the entries of `X` as signed weights; absent pairs are then indifferent.

    Returns
    -------
    int or float
        The number of wrong pairs, or their total weight with `weights`.

    Raises
    ------
    ValueError
        If `X` is malformed or `labels` has another length.

    Examples
    --------
    >>> from paperworks.clustering import clustering_cost
    >>> clustering_cost([("a", "b"), ("b", "c")], [0, 0, 0])
    1
    """
    graph = read_graph(X, weighted=weights)
    none = np.empty((0, 2), dtype=np.int64)
    cost = make_instance(graph, none, none, weights=weights).cost(check_labels(labels, graph.n_nodes))
    return cost if weights else round(cost)


def check_constraints(labels: ArrayLike, must_link: Any = None, cannot_link: Any = None) -> int:
    """Count the constraints that a clustering breaks.

    Parameters
    ----------
    labels : array-like of shape (n,)
        Cluster of each node.
    must_link, cannot_link : array-like of shape (r, 2), optional
        Pairs of node numbers.

    Returns
    -------
    int
        Number of must-links across clusters and cannot-links inside one; 0 says that all hold.

    Raises
    ------
    ValueError
        If a pair is malformed or names a node that does not exist.

    Examples
    --------
    >>> from paperworks.clustering import check_constraints
    >>> check_constraints([0, 0, 1], must_link=[(0, 2)], cannot_link=[(1, 2)])
    1
    """
    array = np.asarray(labels)
    if array.ndim != 1:
        raise ValueError(f"labels must have one dimension, got shape {array.shape}")
    array = check_labels(array, array.size)
    nodes = Graph(sparse.csr_array((array.size, array.size)), None, False)
    must, cannot = read_pairs(must_link, nodes, "must_link"), read_pairs(cannot_link, nodes, "cannot_link")
    split = array[must[:, 0]] != array[must[:, 1]]
    joined = array[cannot[:, 0]] == array[cannot[:, 1]]
    return int(split.sum() + joined.sum())


def plant_instance(
    n: int, k: int, noise: float, n_must: int = 0, n_cannot: int = 0, random_state: Any = None
) -> tuple[Ints, Ints, Ints, Ints]:
    """Draw a noisy graph of k groups, with constraints that are true.

    Parameters
    ----------
    n : int
        Number of nodes.
    k : int
        Number of groups; each node draws its own uniformly.
    noise : float
        Probability, for each pair, that its sign is flipped.
    n_must, n_cannot : int, default=0
        Number of distinct constraints, drawn uniformly from the pairs of one group and of two groups.
    random_state : int, RandomState or None, default=None
        Seed of all draws.

    Returns
    -------
    X : ndarray of shape (n, n)
        1 for a plus pair, 0 for a minus pair and on the diagonal.
    must_link : ndarray of shape (n_must, 2)
        Pairs of one group.
    cannot_link : ndarray of shape (n_cannot, 2)
        Pairs of two groups.
    truth : ndarray of shape (n,)
        The groups.

    Raises
    ------
    ValueError
        If an argument is out of range or there are fewer such pairs than asked for.

    Examples
    --------
    >>> from paperworks.clustering import plant_instance
    >>> X, must_link, cannot_link, truth = plant_instance(6, 2, 0.1, n_must=1, random_state=0)
    >>> X.shape, must_link.shape, cannot_link.shape, truth.shape
    ((6, 6), (1, 2), (0, 2), (6,))
    """
    from sklearn.utils import check_random_state

    from paperworks._checks import check_fraction, check_integer

    n, k = check_integer(n, "n", minimum=1), check_integer(k, "k", minimum=1)
    noise = check_fraction(noise, "noise")
    counts = {"n_must": check_integer(n_must, "n_must", minimum=0)}
    counts["n_cannot"] = check_integer(n_cannot, "n_cannot", minimum=0)
    rng = check_random_state(random_state)
    truth = rng.randint(k, size=n).astype(np.int64)
    rows, columns = np.triu_indices(n, 1)
    same = truth[rows] == truth[columns]
    X = np.zeros((n, n), dtype=np.int64)
    X[rows, columns] = same ^ (rng.random_sample(rows.size) < noise)
    X += X.T
    drawn = []
    for (name, count), where in zip(counts.items(), (same, ~same), strict=True):
        pool = np.flatnonzero(where)
        if count > pool.size:
            raise ValueError(f"{name} must be at most {pool.size}, the number of such pairs; got {count}")
        chosen = rng.choice(pool, size=count, replace=False) if count else pool[:0]
        drawn.append(np.column_stack([rows[chosen], columns[chosen]]).astype(np.int64))
    return X, drawn[0], drawn[1], truth
