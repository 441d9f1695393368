"""The optimum of small problems."""

from __future__ import annotations

from typing import Any

import numpy as np

from paperworks._checks import check_integer
from paperworks.clustering._graphs import read_graph, read_pairs

from .pricing import subset_values
from .problem import Instance, Ints, make_instance

__all__ = ["exact_correlation_clustering", "optimum"]


def optimum(instance: Instance) -> Ints:
    """Return an optimal clustering of the supernodes by dynamic programming over subsets, 3^m steps.

    The best clustering of a set is the best cluster of its last node together with the best clustering of the rest.
    """
    m = instance.m
    _, value = subset_values(instance.W + np.diag(instance.inner), instance.H)
    best = np.zeros(1 << m)
    choice = np.zeros(1 << m, dtype=np.int64)
    for i in range(m):
        for rest in range(1 << i):
            low = _subsets(rest)
            total = value[low | (1 << i)] + best[rest ^ low]
            k = int(total.argmax())
            best[rest | (1 << i)], choice[rest | (1 << i)] = total[k], low[k] | (1 << i)
    labels = np.zeros(m, dtype=np.int64)
    left, number = (1 << m) - 1, 0
    while left:
        cluster = int(choice[left])
        labels[(cluster >> np.arange(m)) & 1 == 1] = number
        left ^= cluster
        number += 1
    return labels


def _subsets(code: int) -> Ints:
    """Return the subsets of a bit code."""
    out = np.zeros(1, dtype=np.int64)
    while code:
        bit = code & -code
        out = np.concatenate([out, out | bit])
        code ^= bit
    return out


def exact_correlation_clustering(
    X: Any, must_link: Any = None, cannot_link: Any = None, max_n: int = 12, *, weights: bool = False
) -> tuple[Ints, float]:
    """Cluster a small graph optimally.

    Parameters
    ----------
    X : array of shape (n, n), sparse matrix, networkx.Graph or list of edges
        The plus pairs, as in `ConstrainedCorrelationClustering`.
    must_link, cannot_link : array-like of shape (r, 2), optional
        Pairs that are certain.
    max_n : int, default=12
        Largest number of nodes (of groups of must-linked nodes) that is accepted; each one more triples the work.
    weights : bool, default=False
        Take the entries of `X` as signed weights.

    Returns
    -------
    labels : ndarray of shape (n,)
        An optimal legal clustering, numbered in order of appearance.
    cost : int or float
        Its cost.

    Raises
    ------
    ValueError
        If there are more nodes than `max_n`, an argument is malformed or the constraints contradict each other.

    Examples
    --------
    >>> from paperworks.clustering import exact_correlation_clustering
    >>> exact_correlation_clustering([("a", "b"), ("b", "c")], cannot_link=[("a", "c")])
    (array([0, 0, 1]), 1)
    """
    max_n = check_integer(max_n, "max_n", minimum=1)
    graph = read_graph(X, weighted=weights)
    must, cannot = read_pairs(must_link, graph, "must_link"), read_pairs(cannot_link, graph, "cannot_link")
    instance = make_instance(graph, must, cannot, weights=weights)
    if instance.m > max_n:
        raise ValueError(f"X has {instance.m} nodes after must-links are joined, more than max_n = {max_n}")
    labels = optimum(instance)
    cost = instance.cost(labels)
    return instance.expand(labels), cost if weights else round(cost)
