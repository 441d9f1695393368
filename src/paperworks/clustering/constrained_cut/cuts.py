"""Cut ratios: of a labelling, along a sweep, and the least of all by enumeration."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from paperworks._checks import check_finite_array, check_integer
from paperworks.clustering.constrained_cut.problem import Floats, Problem, degrees, read_similarities

__all__ = ["best_sweep", "brute_force_cut", "cut_ratio", "prefix_cuts", "ratio_of", "read_pair", "sweep_cut"]

Labels = NDArray[np.int64]


def read_pair(G: Any, H: Any) -> Problem:
    """Return the problem of two graphs, without a dense part."""
    g, h = read_similarities(G, "G").weights, read_similarities(H, "H").weights
    if g.shape != h.shape:
        raise ValueError(f"G and H must have the same nodes, got {g.shape[0]} and {h.shape[0]}")
    return Problem(g, h, np.zeros(g.shape[0]))


def _across(weights: sparse.csr_array, inside: NDArray[np.bool_]) -> float:
    """Return the weight of the edges that leave a set."""
    rows = weights.tocoo()
    return float(rows.data[inside[rows.row] & ~inside[rows.col]].sum())


def _ratio(problem: Problem, inside: NDArray[np.bool_]) -> float:
    cut_G = _across(problem.G, inside)
    cut_H = _across(problem.H, inside) + float(problem.r[inside].sum() * problem.r[~inside].sum())
    return cut_G / cut_H if cut_H > 0 else math.inf


def ratio_of(problem: Problem, labels: Labels) -> float | Floats:
    """Return the cut ratio of two clusters, or of each against the rest for more."""
    values = np.unique(labels)
    if len(values) == 2:
        return _ratio(problem, labels == values[0])
    return np.array([_ratio(problem, labels == value) for value in values])


def cut_ratio(G: Any, H: Any, labels: ArrayLike) -> float | Floats:
    """Return the cut of G over the cut of H.

    Parameters
    ----------
    G, H : array, sparse matrix, networkx.Graph or list of tuples
        Non-negative symmetric weights of shape (n, n); diagonals are ignored.
    labels : array-like of shape (n,)
        Cluster of each node, at least two different ones.

    Returns
    -------
    float or ndarray of shape (k,)
        The ratio for two clusters; for k > 2 that of each cluster against the rest, in the order of the sorted labels.
        Infinite where H is not cut at all.

    Raises
    ------
    ValueError
        If the graphs do not fit each other, a weight is negative, or there are fewer than two clusters.

    References
    ----------
    J. S. Fabila-Carrasco, H. Sun, "Signed Laplacians for Constrained Graph Clustering", ICML 2025, section 3.

    Examples
    --------
    >>> from paperworks.clustering import cut_ratio
    >>> G = [[0, 3, 1], [3, 0, 0], [1, 0, 0]]
    >>> H = [[0, 0, 2], [0, 0, 2], [2, 2, 0]]
    >>> cut_ratio(G, H, [0, 0, 1])
    0.25
    """
    problem = read_pair(G, H)
    found = np.asarray(labels)
    if found.shape != (problem.n,):
        raise ValueError(f"labels must have shape ({problem.n},), got {found.shape}")
    _, codes = np.unique(found, return_inverse=True)
    if codes.max(initial=0) < 1:
        raise ValueError("labels must hold at least two clusters, got one")
    return ratio_of(problem, codes.astype(np.int64))


def prefix_cuts(weights: sparse.csr_array, order: NDArray[np.int64]) -> Floats:
    """Return the cut of the first i nodes of an order for i = 1..n-1, in one pass over the edges.

    An edge is cut from the place of its first node to just before that of its second.
    """
    n = len(order)
    rank = np.empty(n, dtype=np.int64)
    rank[order] = np.arange(n)
    upper = sparse.triu(weights, 1).tocoo()
    first, second = rank[upper.row], rank[upper.col]
    steps = np.bincount(np.minimum(first, second), upper.data, n) - np.bincount(
        np.maximum(first, second), upper.data, n
    )
    cuts: Floats = np.maximum(np.cumsum(steps)[:-1], 0.0)
    return cuts


def best_sweep(problem: Problem, f: Floats, min_fraction: float) -> tuple[Labels, float, float]:
    """Return the best split of the sorted entries, its ratio, and the least ratio without a smallest share."""
    n = problem.n
    order = np.argsort(f, kind="stable")
    inside = np.cumsum(problem.r[order])[:-1]
    cut_H = prefix_cuts(problem.H, order) + inside * (problem.r.sum() - inside)
    cut_G = prefix_cuts(problem.G, order)
    # What cancellation leaves of a cut is no cut.
    cut_G[cut_G < 1e-13 * max(degrees(problem.G).sum(), 1e-300)] = 0.0
    cut_H[cut_H < 1e-13 * problem.d_H.sum()] = 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(cut_H > 0, cut_G / cut_H, np.inf)
    least = max(1, math.ceil(min_fraction * n))
    allowed = ratios[least - 1 : n - least]
    split = least + int(np.argmin(allowed))
    labels = np.ones(n, dtype=np.int64)
    labels[order[:split]] = 0
    return labels, float(ratios[split - 1]), float(ratios.min())


def sweep_cut(f: ArrayLike, G: Any, H: Any, min_fraction: float = 0.0) -> tuple[Labels, float]:
    """Return the best of the n - 1 splits of the nodes in the order of a vector.

    Parameters
    ----------
    f : array-like of shape (n,)
        Value of each node, such as an eigenvector. Equal values keep the order of the nodes.
    G, H : array, sparse matrix, networkx.Graph or list of tuples
        Non-negative symmetric weights of shape (n, n).
    min_fraction : float, default=0.0
        Least share of the nodes on either side, in [0, 0.5); at least one node.

    Returns
    -------
    labels : ndarray of shape (n,)
        0 for the nodes with the lower values, 1 for the others.
    ratio : float
        Their cut ratio.

    Raises
    ------
    ValueError
        If the shapes do not fit, `f` is not finite, or `min_fraction` is outside [0, 0.5).

    References
    ----------
    J. S. Fabila-Carrasco, H. Sun, "Signed Laplacians for Constrained Graph Clustering", ICML 2025, section 3.

    Examples
    --------
    >>> from paperworks.clustering import sweep_cut
    >>> G = [(0, 1, 5.0), (1, 2, 1.0), (2, 3, 5.0)]
    >>> H = [(0, 3, 1.0), (1, 2, 1.0)]
    >>> sweep_cut([0.1, 0.2, 0.8, 0.9], G, H)
    (array([0, 0, 1, 1]), 0.5)
    """
    problem = read_pair(G, H)
    values = check_finite_array(f, "f", ndim=1)
    if len(values) != problem.n:
        raise ValueError(f"f must have one value per node ({problem.n}), got {len(values)}")
    if problem.n < 2:
        raise ValueError("G must have at least two nodes to be cut, got 1")
    labels, ratio, _ = best_sweep(problem, values, check_min_fraction(min_fraction))
    return labels, ratio


def check_min_fraction(value: float) -> float:
    """Return `min_fraction` if it lies in [0, 0.5)."""
    if not (isinstance(value, int | float) and 0 <= value < 0.5):
        raise ValueError(f"min_fraction must lie in [0, 0.5), got {value!r}")
    return float(value)


def brute_force_cut(G: Any, H: Any, max_n: int = 16) -> tuple[Labels, float]:
    """Return the cut of the least ratio by trying all.

    Parameters
    ----------
    G, H : array, sparse matrix, networkx.Graph or list of tuples
        Non-negative symmetric weights of shape (n, n).
    max_n : int, default=16
        Greatest number of nodes that is accepted: 2^(n-1) cuts are tried.

    Returns
    -------
    labels : ndarray of shape (n,)
        The best cut; node 0 has label 0.
    ratio : float
        Its ratio.

    Raises
    ------
    ValueError
        If there are fewer than two or more than `max_n` nodes, or the graphs do not fit.

    References
    ----------
    J. S. Fabila-Carrasco, H. Sun, "Signed Laplacians for Constrained Graph Clustering", ICML 2025, section 3.

    Examples
    --------
    >>> from paperworks.clustering import brute_force_cut
    >>> G = [[0, 1, 0], [1, 0, 2], [0, 2, 0]]
    >>> H = [[0, 0, 1], [0, 0, 0], [1, 0, 0]]
    >>> brute_force_cut(G, H)
    (array([0, 1, 1]), 1.0)
    """
    problem = read_pair(G, H)
    n = problem.n
    if not 2 <= n <= check_integer(max_n, "max_n", minimum=2, maximum=24):
        raise ValueError(f"G must have between 2 and max_n = {max_n} nodes, got {n}")
    best = (math.inf, 1)
    dense = problem.G.toarray(), problem.H.toarray()
    for start in range(1, 2 ** (n - 1), 1 << 14):
        codes = np.arange(start, min(start + (1 << 14), 2 ** (n - 1)))
        other = ((codes[:, None] << 1) >> np.arange(n)) & 1  # node 0 is never on the other side
        cut_G, cut_H = (np.einsum("ij,ij->i", other @ weights, 1 - other) for weights in dense)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.where(cut_H > 0, cut_G / cut_H, np.inf)
        i = int(np.argmin(ratios))
        best = min(best, (float(ratios[i]), int(codes[i])))
    labels = ((best[1] << 1) >> np.arange(n)) & 1
    return labels.astype(np.int64), best[0]
