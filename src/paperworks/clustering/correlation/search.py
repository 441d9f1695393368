"""Local search over a family of sets (Algorithms 1 and 2), and the moves of single nodes, merges and splits.

Both work on the stored pairs only; the weight that absent pairs have in common is kept as one total per cluster. A
graph of 10^5 edges is therefore no harder than its edges.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from paperworks.clustering._graphs import read_graph

from .problem import Bools, Floats, Instance, Ints, check_labels, in_order_of_appearance, make_instance

__all__ = ["improve", "legal", "local_search", "membership", "neighbourhoods", "penalised", "refine", "set_search"]

LARGEST_NEIGHBOURHOOD = 256
"""A node with more plus neighbours than this has no candidate set of its own."""


def set_search(
    instance: Instance,
    sets: sparse.csr_array,
    labels: Ints,
    *,
    signed: sparse.csr_array | None = None,
    deadline: float = np.inf,
) -> Ints:
    """Make a set a cluster of its own while that lowers the cost (Algorithm 1).

    `sets` is the (n_sets, m) membership. `signed` replaces the stored weights of the instance (see `penalised`).
    In a sweep all gains are computed at once; sets are then taken from the best one down, leaving out those one of
    whose clusters has changed in this sweep, so that each gain is exact when its set is taken.
    """
    S = instance.signed if signed is None else signed
    stored = S.tocoo()
    kappa, size = instance.kappa, instance.size
    B = sparse.csr_array(sets, dtype=np.float64)
    mass = B @ size
    within = np.asarray((B @ S).multiply(B).sum(axis=1)).ravel() / 2.0
    labels = in_order_of_appearance(labels)
    tolerance = 1e-9 * instance.scale
    stale = np.arange(B.shape[0])
    gain = np.zeros(B.shape[0])
    while stale.size and time.monotonic() < deadline:
        n_clusters = int(labels.max()) + 1
        same = labels[stored.row] == labels[stored.col]
        kept = sparse.csr_array((stored.data[same], (stored.row[same], stored.col[same])), shape=S.shape)
        own = np.asarray(kept.sum(axis=1)).ravel()
        A = B[stale]
        together = np.asarray((A @ kept).multiply(A).sum(axis=1)).ravel()
        cluster = sparse.csr_array((size, (np.arange(instance.m), labels)), shape=(instance.m, n_clusters))
        part = A @ cluster
        part_squares = np.asarray(part.power(2).sum(axis=1)).ravel()
        part_leaves = part @ np.bincount(labels, weights=size) - part_squares
        # gained: pairs of S from different clusters; lost: pairs from S to the rest of its clusters
        gain[stale] = (within[stale] - together / 2.0) - (A @ own - together)
        gain[stale] -= kappa * ((mass[stale] ** 2 - part_squares) / 2.0 - part_leaves)
        order = np.argsort(-gain, kind="stable")
        changed = np.zeros(n_clusters, dtype=bool)
        moved = np.zeros(instance.m, dtype=bool)
        fresh = n_clusters
        before = labels.copy()
        for k in order[: np.searchsorted(-gain[order], -tolerance)].tolist():
            members = B.indices[B.indptr[k] : B.indptr[k + 1]]
            touched = before[members]
            if changed[touched].any():
                continue
            changed[touched] = True
            labels[members] = fresh
            fresh += 1
        if fresh == n_clusters:
            break
        moved = changed[before]
        labels = in_order_of_appearance(labels)
        stale = np.flatnonzero(B @ moved.astype(np.float64) > 0)
    return labels


def penalised(instance: Instance, labels: Ints) -> sparse.csr_array:
    """Return stored weights under which plus pairs cut by `labels` count twice (section 3.5 of the paper)."""
    plus = instance.plus.tocoo()
    cut = labels[plus.row] != labels[plus.col]
    extra = sparse.csr_array((plus.data[cut], (plus.row[cut], plus.col[cut])), shape=plus.shape)
    return sparse.csr_array(instance.signed + extra)


def refine(instance: Instance, labels: Ints, deadline: float = np.inf) -> Ints:
    """Improve a legal clustering by moves of nodes, merges and splits until none helps; the cost never rises."""
    best = in_order_of_appearance(labels)
    value = instance.value(best)
    tolerance = 1e-9 * instance.scale
    while time.monotonic() < deadline:
        trial = _moves_and_merges(instance, best, deadline)
        trial = _split(instance, trial, deadline)
        gained = instance.value(trial)
        if gained <= value + tolerance:
            break
        best, value = trial, gained
    return best


def improve(instance: Instance, deadline: float = np.inf) -> Ints:
    """Cluster greedily: single supernodes first, then moves, merges and splits."""
    return refine(instance, np.arange(instance.m), deadline)


def _moves_and_merges(instance: Instance, labels: Ints, deadline: float) -> Ints:
    """Move nodes between clusters, then clusters as wholes, until neither helps."""
    value = instance.value(labels)
    while time.monotonic() < deadline:
        labels = _node_moves(instance.signed, instance.kappa, instance.size, instance.hostile, labels, deadline)
        while time.monotonic() < deadline:
            k = int(labels.max()) + 1
            member = sparse.csr_array((np.ones(labels.size), (np.arange(labels.size), labels)), shape=(labels.size, k))
            upper = _node_moves(
                sparse.csr_array(member.T @ instance.signed @ member),
                instance.kappa,
                np.asarray(np.bincount(labels, weights=instance.size), dtype=np.float64),
                sparse.csr_array(member.T @ instance.hostile @ member),
                np.arange(k),
                deadline,
            )
            if upper.max() + 1 == k:
                break
            labels = in_order_of_appearance(upper[labels])
        gained = instance.value(labels)
        if gained <= value + 1e-9 * instance.scale:
            break
        value = gained
    return labels


def _split(instance: Instance, labels: Ints, deadline: float) -> Ints:
    """Cluster the inside of each cluster anew and keep the parts where they cost less than the whole."""
    S = instance.signed.tocoo()
    inside = labels[S.row] == labels[S.col]
    kept = sparse.csr_array((S.data[inside], (S.row[inside], S.col[inside])), shape=S.shape)
    parts = _node_moves(
        kept, instance.kappa, instance.size, instance.hostile, np.arange(instance.m), deadline, within=labels
    )

    def value_by_cluster(of: Ints) -> Floats:
        together = of[S.row] == of[S.col]
        value = np.bincount(labels[S.row[together]], weights=S.data[together] / 2.0, minlength=labels.max() + 1)
        mass = np.bincount(of, weights=instance.size)
        owner = np.zeros(mass.size, dtype=np.int64)
        owner[of] = labels
        return value - instance.kappa * np.bincount(owner, weights=mass**2 / 2.0, minlength=labels.max() + 1)

    better = value_by_cluster(parts) > value_by_cluster(labels) + 1e-9 * instance.scale
    return in_order_of_appearance(np.where(better[labels], parts + labels.max() + 1, labels))


def _node_moves(
    signed: sparse.csr_array,
    kappa: float,
    size: Floats,
    hostile: sparse.csr_array,
    labels: Ints,
    deadline: float,
    within: Ints | None = None,
) -> Ints:
    """Move single nodes to the legal cluster (or to one of their own) that gains most, until no move helps.

    Plain lists: a visit touches the few stored neighbours of one node, where array calls would cost more than they do.
    With `within`, nodes stay inside their part of that clustering.
    """
    m = int(size.size)
    start, near, weight = signed.indptr.tolist(), signed.indices.tolist(), signed.data.tolist()
    mass_of: list[float] = size.tolist()
    enemies: dict[int, list[int]] = {
        int(u): hostile.indices[hostile.indptr[u] : hostile.indptr[u + 1]].tolist()
        for u in np.flatnonzero(np.diff(hostile.indptr))
    }
    part = None if within is None else within.tolist()
    tolerance = 1e-9 * max(1.0, float(np.abs(signed.data).max(initial=0.0)))
    label: list[int] = labels.tolist()
    mass = np.bincount(labels, weights=size, minlength=m + 1).tolist()
    count = np.bincount(labels, minlength=m + 1).tolist()
    free = [k for k in range(len(count) - 1, -1, -1) if count[k] == 0]
    queue, later = list(range(m)), bytearray(m)
    while queue and time.monotonic() < deadline:
        waiting: list[int] = []
        any_move = False
        for u in queue:
            later[u] = 0
            own = label[u]
            link: dict[int, float] = {}
            for k in range(start[u], start[u + 1]):
                v = near[k]
                if v != u and (part is None or part[v] == part[u]):
                    to = label[v]
                    link[to] = link.get(to, 0.0) + weight[k]
            tax = kappa * mass_of[u]
            stay = link.pop(own, 0.0) - tax * (mass[own] - mass_of[u])
            for v in enemies.get(u, ()):
                link.pop(label[v], None)
            best, target = 0.0, -1
            for to, value in link.items():
                value -= tax * mass[to]
                if value > best + tolerance or (value > best - tolerance and target >= 0 and to < target):
                    best, target = value, to
            if best <= stay + tolerance or (target < 0 and count[own] == 1):
                continue
            if target < 0:
                target = free.pop()
            any_move = True
            label[u] = target
            mass[own] -= mass_of[u]
            mass[target] += mass_of[u]
            count[own] -= 1
            count[target] += 1
            if count[own] == 0:
                mass[own] = 0.0
                free.append(own)
            for v in near[start[u] : start[u + 1]]:
                if not later[v]:
                    later[v] = 1
                    waiting.append(v)
        if not waiting and (any_move or len(queue) < m):
            waiting = list(range(m))  # totals moved under nodes that are no neighbours: look at all once more
        queue = waiting
    return in_order_of_appearance(np.array(label))


def neighbourhoods(instance: Instance, deadline: float = np.inf) -> sparse.csr_array:
    """Return, for each supernode, itself and its plus neighbours without hostile ones and those that don't fit.

    The member with the most negative gain is dropped first, again and again; of two hostile members the one with the
    smaller gain goes. Sets that are left with their centre alone are not returned.
    """
    m, kappa = instance.m, instance.kappa
    size: list[float] = instance.size.tolist()
    S = instance.signed
    quarrels = instance.hostile.nnz > 0
    enemies = [set(instance.hostile.indices[a:b].tolist()) for a, b in _spans(instance.hostile)]
    rows: list[dict[int, float]] = [
        dict(zip(S.indices[a:b].tolist(), S.data[a:b].tolist(), strict=True)) for a, b in _spans(S)
    ]
    found: set[tuple[int, ...]] = set()
    for centre in range(m):
        if time.monotonic() >= deadline:
            break
        near = [
            v
            for v, weight in rows[centre].items()
            if weight - kappa * size[centre] * size[v] > 0 and v not in enemies[centre]
        ]
        if not 0 < len(near) <= LARGEST_NEIGHBOURHOOD:
            continue
        # link: stored weight to the other members; the rest of a gain follows from the total size
        members = {centre: 0.0, **dict.fromkeys(near, 0.0)}
        total = sum(size[v] for v in members)
        for v in members:
            row = rows[v]
            members[v] = sum([row[u] for u in members if u in row])
        while len(members) > 1:
            clashing = [v for v in members if v != centre and not enemies[v].isdisjoint(members)] if quarrels else []
            worst, out = (np.inf if clashing else 0.0), -1
            for v in clashing or members:
                gain = members[v] - kappa * size[v] * (total - size[v])
                if v != centre and (gain < worst or (gain == worst and -1 < v < out)):
                    worst, out = gain, v
            if out < 0:
                break
            del members[out]
            total -= size[out]
            for v, weight in rows[out].items():
                if v in members:
                    members[v] -= weight
        if len(members) > 1:
            found.add(tuple(sorted(members)))
    return membership(sorted(found), m)


def membership(sets: Iterable[Iterable[int]], m: int) -> sparse.csr_array:
    """Return sets of nodes as a (n_sets, m) matrix of zeros and ones."""
    rows = [np.fromiter(members, dtype=np.int64) for members in sets]
    indptr = np.concatenate([[0], np.cumsum([row.size for row in rows], dtype=np.int64)])
    indices = np.concatenate([*rows, np.empty(0, dtype=np.int64)])
    return sparse.csr_array((np.ones(indices.size), indices, indptr), shape=(len(rows), m))


def _spans(matrix: sparse.csr_array) -> list[tuple[int, int]]:
    return list(zip(matrix.indptr[:-1].tolist(), matrix.indptr[1:].tolist(), strict=True))


def local_search(
    X: Any,
    sets: Iterable[ArrayLike],
    labels: ArrayLike,
    penalty_labels: ArrayLike | None = None,
    *,
    weights: bool = False,
) -> Ints:
    """Improve a clustering by making given sets clusters of their own (Algorithms 1 and 2).

    The move with a set S takes the members of S out of their clusters and joins them. The best move is made until none
    lowers the cost.

    Parameters
    ----------
    X : array of shape (n, n), sparse matrix, networkx.Graph or list of edges
        The plus pairs, as in `ConstrainedCorrelationClustering`.
    sets : iterable of sequences of int
        The sets, of node numbers. Constraints hold in the result if they hold in `labels` and in each set.
    labels : array-like of shape (n,)
        Clustering to start from.
    penalty_labels : array-like of shape (n,), optional
        A clustering whose cut plus pairs count twice (Algorithm 2).
    weights : bool, default=False
        Take the entries of `X` as signed weights.

    Returns
    -------
    ndarray of shape (n,)
        The clustering, numbered in order of appearance.

    Raises
    ------
    ValueError
        If `X` or the labels are malformed, or a set is empty or names a node that does not exist.

    Examples
    --------
    >>> from paperworks.clustering import local_search
    >>> local_search([(0, 1), (1, 2), (0, 2), (2, 3)], [[0, 1, 2]], [0, 1, 2, 3])
    array([0, 0, 0, 1])
    """
    graph = read_graph(X, weighted=weights)
    none = np.empty((0, 2), dtype=np.int64)
    instance = make_instance(graph, none, none, weights=weights)
    rows = [
        np.unique(np.asarray(sorted(members) if isinstance(members, set | frozenset) else members)) for members in sets
    ]
    for r, row in enumerate(rows):
        if row.size == 0 or row.dtype.kind not in "iu" or row[0] < 0 or row[-1] >= instance.m:
            raise ValueError(f"sets[{r}] must hold node numbers in 0..{instance.m - 1}, got {row.tolist()}")
    start = check_labels(labels, instance.m)
    signed = None
    if penalty_labels is not None:
        signed = penalised(instance, check_labels(penalty_labels, instance.m, "penalty_labels"))
    return set_search(instance, membership(rows, instance.m), start, signed=signed)


def legal(sets: Bools, hostile: Bools) -> Bools:
    """Tell for each row of a boolean membership whether it holds no hostile pair."""
    member = sets.astype(np.float64)
    return np.asarray(((member @ hostile) * member).sum(axis=1) == 0)
