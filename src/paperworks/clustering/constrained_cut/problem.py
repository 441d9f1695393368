"""The pair of graphs: which nodes belong together (G) and which belong apart (H)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from paperworks.clustering._graphs import Graph, read_graph

__all__ = ["Problem", "components", "degrees", "laplacian", "read_similarities", "signed_laplacian"]

Floats = NDArray[np.float64]


def read_similarities(X: Any, name: str) -> Graph:
    """Read a graph in any form whose weights must not be negative."""
    graph = read_graph(X, name, weighted=True)
    if graph.weights.nnz and graph.weights.data.min() < 0:
        raise ValueError(f"{name} must have no negative weight, got {graph.weights.data.min():g}")
    return graph


def degrees(weights: sparse.csr_array) -> Floats:
    """Return the sum of weights at each node."""
    return np.asarray(weights.sum(axis=1), dtype=np.float64).ravel()


def laplacian(weights: sparse.csr_array) -> sparse.csr_array:
    """Return D - W."""
    return sparse.csr_array(sparse.diags_array(degrees(weights)) - weights)


def components(weights: sparse.csr_array) -> tuple[int, NDArray[np.int64]]:
    """Return the number of connected components and the one of each node."""
    n, labels = connected_components(weights, directed=False)
    return int(n), labels.astype(np.int64)


def signed_laplacian(H: Any, loops: dict[int, float] | None = None) -> sparse.csr_array:
    """Return the signed Laplacian of a graph whose weights may be negative.

    The diagonal holds the sums of absolute weights, so that the matrix is positive semidefinite. A loop of sign -1 and
    weight w at node v adds 4 w to the diagonal: one such loop makes the Laplacian of a connected graph positive
    definite.

    Parameters
    ----------
    H : array, sparse matrix, networkx.Graph or list of tuples
        Symmetric weights of shape (n, n); the diagonal is ignored.
    loops : dict of int to float, optional
        Weight of the negative loop at each node that has one.

    Returns
    -------
    csr_array of shape (n, n)
        The matrix.

    Raises
    ------
    ValueError
        If a loop names a node that does not exist, or its weight is not positive and finite.

    References
    ----------
    J. S. Fabila-Carrasco, H. Sun, "Signed Laplacians for Constrained Graph Clustering", ICML 2025, section 4.

    Examples
    --------
    >>> from paperworks.clustering import signed_laplacian
    >>> signed_laplacian([(0, 1, -2.0)], loops={0: 0.25}).toarray()
    array([[3., 2.],
           [2., 2.]])
    """
    weights = read_graph(H, "H", weighted=True).weights
    diagonal = degrees(abs(weights))
    for node, weight in (loops or {}).items():
        if not 0 <= node < weights.shape[0]:
            raise ValueError(f"loops names node {node!r}, expected 0..{weights.shape[0] - 1}")
        if not (np.isfinite(weight) and weight > 0):
            raise ValueError(f"loops[{node}] must be positive and finite, got {weight!r}")
        diagonal[node] += 4 * weight
    return sparse.csr_array(sparse.diags_array(diagonal) - weights)


class Problem(NamedTuple):
    """Similarity G, dissimilarity H, and a dense part of H that is never formed.

    The dense part has the weight ``r_u r_v`` between any two nodes: with ``r = d sqrt(b / vol)`` it is the background
    ``b d d^T / vol``, under which a cut ratio is the normalised cut.
    """

    G: sparse.csr_array
    H: sparse.csr_array
    r: Floats

    @property
    def n(self) -> int:
        """Number of nodes."""
        return int(self.G.shape[0])

    @property
    def d_G(self) -> Floats:
        """Degrees of G."""
        return degrees(self.G)

    @property
    def d_H(self) -> Floats:
        """Degrees of H with its dense part."""
        return degrees(self.H) + self.r * (self.r.sum() - self.r)

    @property
    def scale(self) -> float:
        """c_0, the factor that brings the degrees of G below those of H (section 3.2)."""
        d_G, d_H = self.d_G, self.d_H
        return float((d_H[d_G > 0] / d_G[d_G > 0]).min())

    def apart(self) -> sparse.csr_array:
        """Return the sparse part of the Laplacian of H; the whole one is this minus r r^T."""
        diagonal = degrees(self.H) + self.r * self.r.sum()
        return sparse.csr_array(sparse.diags_array(diagonal) - self.H)

    def apart_dense(self) -> Floats:
        """Return the Laplacian of H as a dense matrix."""
        return np.asarray(self.apart().toarray() - np.outer(self.r, self.r), dtype=np.float64)

    def is_connected_apart(self) -> bool:
        """Return whether H with its dense part is connected."""
        return bool((self.r > 0).all()) or self.apart_components()[0] == 1

    def apart_components(self) -> tuple[int, NDArray[np.int64]]:
        """Return the components of H with its dense part: all nodes with r > 0 are in one."""
        dense = np.flatnonzero(self.r > 0)
        if dense.size == 0:
            return components(self.H)
        star = sparse.coo_array((np.ones(dense.size), (np.full(dense.size, dense[0]), dense)), shape=self.H.shape)
        return components(sparse.csr_array(self.H + star + star.T))

    def part(self, nodes: NDArray[np.int64]) -> Problem:
        """Return the problem of some of the nodes."""
        rows = sparse.csr_array(self.G)[nodes][:, nodes], sparse.csr_array(self.H)[nodes][:, nodes]
        return Problem(sparse.csr_array(rows[0]), sparse.csr_array(rows[1]), self.r[nodes])
