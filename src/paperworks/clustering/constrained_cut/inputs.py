"""What is made of the user's pairs and points before anything is solved."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.neighbors import NearestNeighbors

from paperworks.clustering._graphs import Graph, read_pairs
from paperworks.clustering.constrained_cut.problem import Floats, components, read_similarities

__all__ = ["dissimilarity", "joined", "pair_matrix", "read_both"]


def read_both(must_link: Any, cannot_link: Any, graph: Graph) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return both lists without repetitions, each pair with the smaller number first."""
    found = []
    for name, given in (("must_link", must_link), ("cannot_link", cannot_link)):
        pairs = read_pairs(given, graph, name)
        same = np.flatnonzero(pairs[:, 0] == pairs[:, 1])
        if same.size:
            raise ValueError(f"{name} holds the pair of {graph.name(int(pairs[same[0], 0]))!r} with itself")
        found.append(np.unique(np.sort(pairs, axis=1), axis=0))
    both = set(map(tuple, found[0].tolist())) & set(map(tuple, found[1].tolist()))
    if both:
        u, v = min(both)
        raise ValueError(f"must_link and cannot_link both hold the pair ({graph.name(u)!r}, {graph.name(v)!r})")
    return found[0], found[1]


def dissimilarity(H: Any, graph: Graph) -> sparse.csr_array:
    """Return the weights of H in the order of G's nodes."""
    other = read_similarities(H, "H")
    if graph.names is None or other.names is None:
        if other.n_nodes != graph.n_nodes:
            raise ValueError(f"H must have the nodes of X ({graph.n_nodes}), got {other.n_nodes}")
        return other.weights
    place = {name: i for i, name in enumerate(graph.names)}
    unknown = [name for name in other.names if name not in place]
    if unknown:
        raise ValueError(f"H has the node {unknown[0]!r}, which X does not have")
    at = np.array([place[name] for name in other.names])
    rows = other.weights.tocoo()
    n = graph.n_nodes
    return sparse.csr_array((rows.data, (at[rows.row], at[rows.col])), shape=(n, n))


def pair_matrix(pairs: NDArray[np.int64], weight: float, n: int) -> sparse.csr_array:
    """Return the graph in which each pair is an edge of one weight."""
    rows, columns = np.concatenate([pairs, pairs[:, ::-1]]).T
    return sparse.csr_array((np.full(len(rows), weight), (rows, columns)), shape=(n, n))


def joined(weights: sparse.csr_array, rows: Floats) -> sparse.csr_array:
    """Join the pieces of a graph of neighbours by the shortest edges between them, at weight 1/2."""
    while (count := (found := components(weights))[0]) > 1:
        labels = found[1]
        smallest = int(np.argmin(np.bincount(labels, minlength=count)))
        inside, outside = np.flatnonzero(labels == smallest), np.flatnonzero(labels != smallest)
        if len(inside) * len(outside) <= 4_000_000:
            apart = cdist(rows[inside], rows[outside])
            i, j = (int(place) for place in np.unravel_index(int(np.argmin(apart)), apart.shape))
        else:
            distance, near = NearestNeighbors(n_neighbors=1).fit(rows[outside]).kneighbors(rows[inside])
            i = int(np.argmin(distance[:, 0]))
            j = int(near[i, 0])
        weights = sparse.csr_array(weights + pair_matrix(np.array([[inside[i], outside[j]]]), 0.5, len(rows)))
    return weights
