"""From the solution of the cluster program to a clustering: rounding, and the mix of three (Algorithms 3 and 4)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from .problem import Bools, Floats, Instance, Ints, check_labels, in_order_of_appearance

__all__ = ["draw", "pivot_mix", "round_and_choose"]


def draw(sets: Bools, z: Floats, count: int, rng: np.random.RandomState) -> Ints:
    """Draw `count` clusterings (Algorithm 3), as (count, m) numbers of sets.

    Algorithm 3 draws sets in proportion to z among those that meet the remaining nodes. Give each set an exponential
    clock of rate z instead: the order in which they ring is that of the draws, and sets that meet no remaining node
    take none, so each node belongs to the first of its sets to ring. Two nodes are separated with probability
    2x / (1 + x).
    """
    clocks = rng.standard_exponential((count, len(z))) / z
    labels = np.empty((count, sets.shape[1]), dtype=np.int64)
    for node, member in enumerate(sets.T):
        own = np.flatnonzero(member)
        labels[:, node] = own[clocks[:, own].argmin(axis=1)]
    return labels


def round_and_choose(instance: Instance, drawn: Ints, local: Ints, penalty: Ints) -> tuple[Ints, Ints]:
    """Return the cheapest of the drawn clusterings, and the one that the mix needs (section 3.6 of the paper).

    The latter has the least minus weight inside its clusters plus plus weight that it cuts together with `local` and
    together with `penalty`.
    """
    P, Q = instance.P, instance.Q
    twice = P * ((local[:, None] != local) * 1.0 + (penalty[:, None] != penalty))
    costs, scores = [], []
    for labels in drawn:
        same = labels[:, None] == labels
        minus = float(Q[same].sum())
        costs.append(float(P[~same].sum()) + minus)
        scores.append(float(twice[~same].sum()) + minus)
    return drawn[int(np.argmin(costs))], drawn[int(np.argmin(scores))]


def pivot_mix(L1: ArrayLike, L2: ArrayLike, I: ArrayLike) -> Ints:
    """Mix three clusterings (Algorithm 4).

    Nodes with the same three clusters form a class. The largest class left (of equal ones that with the smallest node)
    and all nodes left that differ from it in exactly one of the three become a cluster. Two nodes of a cluster share
    one of the three clusters, so constraints that hold in all three hold in the mix.

    Parameters
    ----------
    L1, L2, I : array-like of shape (n,)
        The clusterings.

    Returns
    -------
    ndarray of shape (n,)
        The mix, numbered in order of appearance.

    Raises
    ------
    ValueError
        If the clusterings do not have the same length.

    Examples
    --------
    >>> from paperworks.clustering import pivot_mix
    >>> pivot_mix([0, 0, 0, 1], [0, 0, 1, 1], [0, 0, 0, 1])
    array([0, 0, 0, 1])
    """
    n = np.asarray(L1).size
    given = zip((L1, L2, I), ("L1", "L2", "I"), strict=True)
    triples = np.column_stack([check_labels(labels, n, name) for labels, name in given])
    classes, first, group, count = np.unique(
        triples, axis=0, return_index=True, return_inverse=True, return_counts=True
    )
    order = np.lexsort((first, -count))
    out = np.full(len(classes), -1, dtype=np.int64)
    for number, k in enumerate(order.tolist()):
        if out[k] < 0:
            near = (classes != classes[k]).sum(axis=1) <= 1
            out[near & (out < 0)] = number
    return in_order_of_appearance(out[group.ravel()])
