"""Bounds on the least cut ratio: from below by the second eigenvalue, from above by the theorem of Cheeger's type."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from paperworks.clustering.constrained_cut.cuts import read_pair
from paperworks.clustering.constrained_cut.problem import Floats, Problem
from paperworks.clustering.constrained_cut.spectrum import Pencil, grounded, neutral_pairs, second_normalised

__all__ = ["Bounds", "bounds_of", "cheeger_bound"]


class Bounds(NamedTuple):
    """Bounds on the least cut ratio, and what they are made of."""

    lower: float
    """lambda_2 / c_0."""
    upper: float
    """The bound in the proof, with the vector itself: at most `cheeger` / sqrt(2)."""
    cheeger: float
    """The bound of the theorem."""
    scale: float
    lambda2: float
    lambda2_H: float


def bounds_of(
    problem: Problem,
    pencil: Pencil | None = None,
    *,
    solver: str = "auto",
    rng: np.random.RandomState | None = None,
) -> Bounds:
    """Return the bounds; `pencil` is the solution of the neutral problem if it is known."""
    rng = rng or np.random.RandomState(0)
    if pencil is None or len(pencil.values) < 2:
        weight, nodes = grounded(problem, None, None)
        pencil = neutral_pairs(problem, 2, weight=weight, nodes=nodes, solver=solver, rng=rng)
    c0, d_H = problem.scale, problem.d_H
    lambda2 = max(float(pencil.values[1]), 0.0)
    x: Floats = pencil.vectors[:, 1]
    x = x - (d_H @ x) / d_H.sum()
    apart = float(x @ (problem.apart() @ x) - (problem.r @ x) ** 2)
    spread = float(d_H @ (x * x))
    lambda2_H = second_normalised(problem, solver=solver, rng=rng)
    upper = 2 * math.sqrt(2 * lambda2 * spread / apart) / c0 if apart > 1e-14 * spread else math.inf
    cheeger = 4 * math.sqrt(lambda2 / lambda2_H) / c0 if lambda2_H > 1e-14 else math.inf
    return Bounds(lambda2 / c0, upper, cheeger, c0, lambda2, lambda2_H)


def cheeger_bound(G: Any, H: Any) -> dict[str, float]:
    """Return bounds on the least ratio of a cut of G to the same cut of H.

    Parameters
    ----------
    G, H : array, sparse matrix, networkx.Graph or list of tuples
        Non-negative symmetric weights of shape (n, n). Every node has an edge in H.

    Returns
    -------
    dict
        ``lower`` <= least ratio <= ``upper`` <= ``cheeger``, further ``scale`` (c_0), ``lambda2`` (second eigenvalue of
        the pair, with G scaled) and ``lambda2_H`` (second eigenvalue of the normalised Laplacian of H). The upper
        bounds are infinite if H is not connected.

    Raises
    ------
    ValueError
        If the graphs do not fit each other, a weight is negative, or a node has no edge in H.

    References
    ----------
    J. S. Fabila-Carrasco, H. Sun, "Signed Laplacians for Constrained Graph Clustering", ICML 2025, Theorem 1; `upper`
    keeps the constant of the proof, 2 sqrt(2), and the vector's own quotient.

    Examples
    --------
    >>> import numpy as np
    >>> from paperworks.clustering import cheeger_bound
    >>> complete = np.ones((5, 5)) - np.eye(5)
    >>> found = cheeger_bound(complete, complete)  # every cut has the ratio 1
    >>> round(found["lower"], 12)
    1.0
    >>> found["lower"] <= found["upper"] <= found["cheeger"]
    True
    """
    problem = read_pair(G, H)
    bare = np.flatnonzero(problem.d_H <= 0)
    if bare.size:
        raise ValueError(f"H must have an edge at every node, node {bare[0]} has none")
    if problem.G.nnz == 0:
        raise ValueError("G must have at least one edge, got none")
    return bounds_of(problem)._asdict()
