"""Pairs of random graphs with a known clustering."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.spatial.distance import cdist

from paperworks._checks import check_fraction, check_integer, check_positive

__all__ = ["rgg_pair", "sbm_pair"]

Pair = tuple[sparse.csr_array, sparse.csr_array, NDArray[np.int64]]


def sbm_pair(n: int, p: float, q: float, seed: int | None = None) -> Pair:
    """Draw a similarity graph from a block model of two halves, and a dissimilarity graph with the roles exchanged.

    Parameters
    ----------
    n : int
        Number of nodes, at least 2.
    p : float
        Probability of an edge of G within a half and of an edge of H between the halves, in [0, 1].
    q : float
        Probability of an edge of G between the halves and of an edge of H within a half, in [0, 1].
    seed : int, optional
        Seed of the random numbers.

    Returns
    -------
    G, H : csr_array of shape (n, n)
        Weights 0 and 1.
    labels : ndarray of shape (n,)
        The half of each node.

    Raises
    ------
    ValueError
        If an argument is out of range.

    References
    ----------
    J. S. Fabila-Carrasco, H. Sun, "Signed Laplacians for Constrained Graph Clustering", ICML 2025, section 5.1.

    Examples
    --------
    >>> from paperworks.clustering import sbm_pair
    >>> G, H, labels = sbm_pair(100, 0.8, 0.1, seed=0)
    >>> bool(G[:50, :50].sum() > G[:50, 50:].sum()), bool(H[:50, :50].sum() < H[:50, 50:].sum())
    (True, True)
    """
    n = check_integer(n, "n", minimum=2)
    p, q = check_fraction(p, "p"), check_fraction(q, "q")
    rng = np.random.RandomState(seed)
    labels = (np.arange(n) >= n // 2).astype(np.int64)
    same = labels[:, None] == labels
    graphs = []
    for within, between in ((p, q), (q, p)):
        upper = np.triu(rng.random_sample((n, n)) < np.where(same, within, between), 1)
        graphs.append(sparse.csr_array((upper | upper.T).astype(np.float64)))
    return graphs[0], graphs[1], labels


def rgg_pair(
    n: int,
    distance: float,
    radius: float = 0.2,
    g_radii: tuple[float, float] = (0.1, 0.05),
    h_radii: tuple[float, float] = (0.05, 0.1),
    seed: int | None = None,
) -> Pair:
    """Draw points in two disks and join near ones, more readily within a disk in G and between the disks in H.

    Parameters
    ----------
    n : int
        Number of points, half in each disk; at least 2.
    distance : float
        Distance of the centres; 0 puts one disk upon the other.
    radius : float, default=0.2
        Radius of the disks.
    g_radii : tuple of float, default=(0.1, 0.05)
        Distance up to which points are joined in G, within a disk and between the disks.
    h_radii : tuple of float, default=(0.05, 0.1)
        The same for H.
    seed : int, optional
        Seed of the random numbers.

    Returns
    -------
    G, H : csr_array of shape (n, n)
        Weights 0 and 1.
    labels : ndarray of shape (n,)
        The disk of each point.

    Raises
    ------
    ValueError
        If an argument is out of range.

    References
    ----------
    J. S. Fabila-Carrasco, H. Sun, "Signed Laplacians for Constrained Graph Clustering", ICML 2025, section 5.1.

    Examples
    --------
    >>> from paperworks.clustering import rgg_pair
    >>> G, H, labels = rgg_pair(200, 0.1, seed=0)
    >>> G.shape, labels.sum()
    ((200, 200), np.int64(100))
    """
    n = check_integer(n, "n", minimum=2)
    radius = check_positive(radius, "radius")
    if not np.isfinite(distance):
        raise ValueError(f"distance must be finite, got {distance!r}")
    rng = np.random.RandomState(seed)
    labels = (np.arange(n) >= n // 2).astype(np.int64)
    angle, reach = 2 * np.pi * rng.random_sample(n), radius * np.sqrt(rng.random_sample(n))
    points = np.column_stack([reach * np.cos(angle) + distance * labels, reach * np.sin(angle)])
    apart, same = cdist(points, points), labels[:, None] == labels
    graphs = []
    for name, (within, between) in (("g_radii", g_radii), ("h_radii", h_radii)):
        limits = check_positive(within, name, zero_ok=True), check_positive(between, name, zero_ok=True)
        near = apart <= np.where(same, *limits)
        np.fill_diagonal(near, False)
        graphs.append(sparse.csr_array(near.astype(np.float64)))
    return graphs[0], graphs[1], labels
