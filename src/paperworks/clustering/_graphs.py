"""One reader for the forms in which people hold a graph, and one for pairs of its nodes.

A graph may come as a square array, a DataFrame, a sparse matrix, a networkx graph or a list of edges. Whatever the
form, the same graph gives the same weights, so that a method which starts from `read_graph` can't depend on the form.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

__all__ = ["Graph", "read_graph", "read_pairs"]


class Graph(NamedTuple):
    """An undirected graph on the nodes 0..n-1."""

    weights: sparse.csr_array
    """(n, n) symmetric float64 weights, indices sorted, no diagonal, no stored zeros."""
    names: tuple[Hashable, ...] | None
    """Name of each node, or None where the nodes have only numbers."""
    complete: bool
    """True if the form says something about every pair (arrays), False if absent pairs are just absent."""

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return int(self.weights.shape[0])

    def name(self, node: int) -> Hashable:
        """Return what the user calls a node."""
        return int(node) if self.names is None else self.names[node]


def read_graph(X: Any, name: str = "X", *, weighted: bool = False) -> Graph:
    """Read an undirected graph.

    Parameters
    ----------
    X : array, DataFrame, sparse matrix, networkx.Graph or list of tuples
        - A square symmetric array or sparse matrix; its diagonal is ignored. A DataFrame whose index and columns hold
          the same names gives names to the nodes.
        - A networkx graph; nodes in the order of ``X.nodes``. Parallel edges count once (their weights are added with
          `weighted`), loops are ignored.
        - A list (or set) of edges, each a *tuple* ``(u, v)`` or ``(u, v, weight)``, or a DataFrame with the columns
          ``source``, ``target`` and, if wanted, ``weight``. Nodes are those that occur, in increasing order if all are
          integers and in order of appearance otherwise; ``(u, u)`` introduces a node without an edge.
    name : str, default="X"
        Name of the argument in messages.
    weighted : bool, default=False
        Read the edge attribute ``weight`` of a networkx graph (1 where it is absent); without it every edge weighs 1.

    Returns
    -------
    Graph
        The graph; a pair without an edge is not stored.

    Raises
    ------
    ValueError
        If there is no node, the matrix is not square or not symmetric, a weight is NaN or infinite, or an edge is
        listed twice with different weights.
    TypeError
        If the graph is directed or the entries are not numbers.

    Examples
    --------
    >>> from paperworks.clustering._graphs import read_graph
    >>> read_graph([("a", "b"), ("b", "c", -2.0)]).weights.toarray()
    array([[ 0.,  1.,  0.],
           [ 1.,  0., -2.],
           [ 0., -2.,  0.]])
    """
    if hasattr(X, "nodes") and hasattr(X, "edges") and hasattr(X, "is_directed"):
        return _from_networkx(X, name, weighted)
    if isinstance(X, pd.DataFrame) and {"source", "target"} <= set(X.columns) <= {"source", "target", "weight"}:
        return _from_edges(list(X[[c for c in ("source", "target", "weight") if c in X]].itertuples(False, None)), name)
    if isinstance(X, list | set | frozenset) and X and all(isinstance(e, tuple) and len(e) in (2, 3) for e in X):
        # the order of a set of text changes from one process to the next
        return _from_edges(sorted(X, key=repr) if isinstance(X, set | frozenset) else X, name)
    names = None
    if isinstance(X, pd.DataFrame):
        if set(X.index) == set(X.columns) and list(X.index) != list(X.columns):
            raise ValueError(f"{name} has the same names in its index and its columns, but in different orders")
        if not isinstance(X.index, pd.RangeIndex) and list(X.index) == list(X.columns):
            names = _unique(X.index.tolist(), name)
        X = X.to_numpy()
    complete = not sparse.issparse(X)
    try:
        array = np.asarray(X, dtype=np.float64) if complete else sparse.csr_array(X, dtype=np.float64, copy=True)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{name} must be a square matrix of numbers, a networkx graph or a list of edge tuples, "
            f"got {type(X).__name__}: {error}"
        ) from error
    if array.ndim != 2 or array.shape[0] != array.shape[1]:
        raise ValueError(
            f"{name} must be a square matrix, got shape {array.shape}; edges are given as a list of tuples (u, v)"
        )
    if array.shape[0] == 0:
        raise ValueError(f"{name} must have at least one node, got shape {array.shape}")
    return Graph(_clean(sparse.csr_array(array), name, names), names, complete)


def read_pairs(pairs: Any, graph: Graph, name: str) -> NDArray[np.int64]:
    """Read pairs of nodes as an (r, 2) array of node numbers, in the order given.

    Parameters
    ----------
    pairs : None, array of shape (r, 2), list of pairs or DataFrame with two columns
        Node numbers, or node names if the graph has names.
    graph : Graph
        The graph whose nodes are meant.
    name : str
        Name of the argument in messages.

    Returns
    -------
    ndarray of shape (r, 2)
        Node numbers; (0, 2) for None and for an empty list.

    Raises
    ------
    ValueError
        If `pairs` is not of shape (r, 2), or a node does not exist.
    TypeError
        If an entry is not an integer and the graph has no names.

    Examples
    --------
    >>> from paperworks.clustering._graphs import read_graph, read_pairs
    >>> read_pairs([("c", "a")], read_graph([("a", "b"), ("b", "c")]), "must_link")
    array([[2, 0]])
    """
    if pairs is None:
        return np.empty((0, 2), dtype=np.int64)
    if isinstance(pairs, str | bytes | Mapping) or not isinstance(pairs, Iterable):
        raise TypeError(f"{name} must hold pairs of nodes, got {type(pairs).__name__}")
    if isinstance(pairs, pd.DataFrame):
        rows: list[Any] = list(pairs.itertuples(index=False, name=None))
    elif isinstance(pairs, np.ndarray):
        if pairs.size == 0:
            return np.empty((0, 2), dtype=np.int64)
        if pairs.ndim != 2 or pairs.shape[1] != 2:
            raise ValueError(f"{name} must have shape (r, 2), got {pairs.shape}")
        rows = pairs.tolist()
    else:
        rows = list(pairs)
    place = None if graph.names is None else {node: i for i, node in enumerate(graph.names)}
    out = np.empty((len(rows), 2), dtype=np.int64)
    for r, row in enumerate(rows):
        if isinstance(row, str | bytes) or not isinstance(row, Sequence | np.ndarray) or len(row) != 2:
            raise ValueError(f"{name} must hold pairs (shape (r, 2)), entry {r} is {row!r}")
        for side, node in enumerate(row):
            out[r, side] = _number(node, place, graph.n_nodes, f"{name}[{r}]")
    return out


def _number(node: Any, place: Mapping[Hashable, int] | None, n: int, where: str) -> int:
    if place is not None:
        if not isinstance(node, Hashable) or node not in place:
            raise ValueError(f"{where} names the node {node!r}, which the graph does not have")
        return place[node]
    whole = isinstance(node, numbers.Real) and not isinstance(node, bool | np.bool_) and float(node).is_integer()
    if not whole:
        raise TypeError(f"{where} must hold integers, node numbers of an array without names; got {node!r}")
    if not 0 <= node < n:
        raise ValueError(f"{where} names node {int(node)}, expected 0..{n - 1}")
    return int(node)


def _from_networkx(graph: Any, name: str, weighted: bool) -> Graph:
    if graph.is_directed():
        raise TypeError(f"{name} must be an undirected graph, got a {type(graph).__name__}; try .to_undirected()")
    names = tuple(graph.nodes)
    if not names:
        raise ValueError(f"{name} must have at least one node, got an empty graph")
    place = {node: i for i, node in enumerate(names)}
    weight: dict[tuple[int, int], float] = {}
    for u, v, value in graph.edges(data="weight", default=1):
        if u != v:
            pair = (min(place[u], place[v]), max(place[u], place[v]))
            if weighted:
                weight[pair] = weight.get(pair, 0.0) + _real(value, f"{name}: weight of the edge ({u!r}, {v!r})")
            else:
                weight[pair] = 1.0
    return Graph(_assemble(weight, len(names)), names, False)


def _from_edges(edges: Iterable[tuple[Any, ...]], name: str) -> Graph:
    listed = list(edges)
    names: list[Hashable] = list(dict.fromkeys(node for edge in listed for node in edge[:2]))
    if any(isinstance(node, float) and math.isnan(node) for node in names):
        raise ValueError(f"{name} holds an edge with a NaN as node")
    if not names:
        raise ValueError(f"{name} must have at least one node, got no edges")
    if all(isinstance(node, numbers.Integral) and not isinstance(node, bool) for node in names):
        names = sorted(int(node) for node in names)  # type: ignore[call-overload]
    place = {node: i for i, node in enumerate(names)}
    weight: dict[tuple[int, int], float] = {}
    for edge in listed:
        u, v = place[edge[0]], place[edge[1]]
        value = 1.0 if len(edge) == 2 else _real(edge[2], f"{name}: weight of the edge {edge[:2]!r}")
        if u != v and weight.setdefault((min(u, v), max(u, v)), value) != value:
            raise ValueError(f"{name} lists the edge {edge[:2]!r} twice, with weights that differ")
    return Graph(_assemble(weight, len(names)), tuple(names), False)


def _real(value: Any, what: str) -> float:
    if not isinstance(value, numbers.Real):
        raise TypeError(f"{what} must be a number, got {value!r}")
    if not math.isfinite(value):
        raise ValueError(f"{what} must be finite, got {value!r}")
    return float(value)


def _assemble(weight: Mapping[tuple[int, int], float], n: int) -> sparse.csr_array:
    pairs = np.array(list(weight), dtype=np.int64).reshape(-1, 2)
    value = np.fromiter(weight.values(), dtype=np.float64, count=len(weight))
    rows, columns = np.concatenate([pairs, pairs[:, ::-1]]).T
    matrix = sparse.csr_array((np.concatenate([value, value]), (rows, columns)), shape=(n, n))
    matrix.eliminate_zeros()
    matrix.sort_indices()
    return matrix


def _clean(matrix: sparse.csr_array, name: str, names: tuple[Hashable, ...] | None) -> sparse.csr_array:
    """Check finiteness and symmetry; drop the diagonal and stored zeros."""
    matrix.sum_duplicates()
    coo = matrix.tocoo()
    rows, columns = coo.row.astype(np.int64), coo.col.astype(np.int64)

    def entry(i: int, j: int) -> str:
        return f"{name}[{i}, {j}]" if names is None else f"{name}[{names[i]!r}, {names[j]!r}]"

    apart = rows != columns
    rows, columns, value = rows[apart], columns[apart], coo.data[apart]
    bad = np.flatnonzero(~np.isfinite(value))
    if bad.size:
        raise ValueError(f"{entry(rows[bad[0]], columns[bad[0]])} is {value[bad[0]]}, expected a finite number")
    clean = sparse.csr_array((value, (rows, columns)), shape=matrix.shape)
    mirrored = sparse.csr_array((value, (columns, rows)), shape=matrix.shape)
    gap = sparse.coo_array(abs(clean - mirrored))
    scale = float(np.abs(value).max(initial=0.0))
    wrong = np.flatnonzero(gap.data > 1e-6 * scale)
    if wrong.size:
        i, j = (int(axis[wrong[np.lexsort((gap.col[wrong], gap.row[wrong]))[0]]]) for axis in (gap.row, gap.col))
        raise ValueError(
            f"{name} must be symmetric, but {entry(i, j)} = {clean[i, j]:g} and {entry(j, i)} = {clean[j, i]:g}"
        )
    if gap.nnz:
        clean = sparse.csr_array((clean + mirrored) * 0.5)
    clean.eliminate_zeros()
    clean.sort_indices()
    return clean


def _unique(names: list[Hashable], name: str) -> tuple[Hashable, ...]:
    if len(set(names)) < len(names):
        raise ValueError(f"{name} names some nodes twice")
    return tuple(names)
