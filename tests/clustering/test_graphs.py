"""Every form of a graph is read to the same weights; malformed ones are named."""

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from paperworks.clustering._graphs import read_graph, read_pairs


@given(st.integers(2, 9), st.integers(0, 10_000))
def test_forms_agree(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    A = np.triu(rng.integers(-2, 3, size=(n, n)), 1).astype(float)
    A += A.T
    G = nx.Graph()
    G.add_nodes_from(range(n))
    G.add_weighted_edges_from((int(i), int(j), A[i, j]) for i, j in np.argwhere(np.triu(A)))
    edges = [(i, i) for i in range(n)] + list(G.edges.data("weight"))
    rng.shuffle(edges)
    listed = [tuple(edge) for edge in edges]
    frame = pd.DataFrame([(*edge, 1.0)[:3] for edge in listed], columns=["source", "target", "weight"])
    forms = [A, A.astype(np.float32), A.tolist(), A + 5 * np.eye(n), sparse.csr_array(A), sparse.coo_matrix(A)]
    for form in [*forms, sparse.csc_array(A), G, nx.MultiGraph(G), listed, frame]:
        graph = read_graph(form, weighted=True)
        np.testing.assert_array_equal(graph.weights.toarray(), A)
        assert graph.weights.nnz == np.count_nonzero(A)
        assert [graph.name(i) for i in range(n)] == list(range(n))


def test_unweighted_edges_of_a_networkx_graph_count_once() -> None:
    G = nx.MultiGraph([("x", "y", {"weight": 7}), ("x", "y", {"weight": 2}), ("y", "y"), ("y", "z")])
    np.testing.assert_array_equal(read_graph(G).weights.toarray(), [[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    np.testing.assert_array_equal(read_graph(G, weighted=True).weights.toarray(), [[0, 9, 0], [9, 0, 1], [0, 1, 0]])


def test_names() -> None:
    assert read_graph([("b", "a"), ("a", "c")]).names == ("b", "a", "c")
    assert read_graph([(7, 3), (3, 5)]).names == (3, 5, 7)
    frame = pd.DataFrame([[0, 1], [1, 0]], index=["p", "q"], columns=["p", "q"])
    assert read_graph(frame).names == ("p", "q")
    assert read_graph(frame.to_numpy()).names is None
    assert read_graph({("b", "a"), ("a", "c")}).names == read_graph({("a", "c"), ("b", "a")}).names
    with pytest.raises(ValueError, match="different orders"):
        read_graph(frame[["q", "p"]])


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        (np.zeros((0, 0)), ValueError, "at least one node"),
        (nx.Graph(), ValueError, "at least one node"),
        (np.zeros((2, 3)), ValueError, r"square matrix, got shape \(2, 3\)"),
        (np.zeros(4), ValueError, "square"),
        (np.array([[0, 1], [0, 0]]), ValueError, r"X\[0, 1\] = 1 and X\[1, 0\] = 0"),
        (sparse.csr_array([[0, 0, 2], [0, 0, 0], [0, 0, 0]]), ValueError, r"X\[0, 2\] = 2 and X\[2, 0\] = 0"),
        (np.array([[0, np.nan], [np.nan, 0]]), ValueError, r"X\[0, 1\] is nan"),
        (sparse.csr_array([[0, np.inf], [np.inf, 0]]), ValueError, r"X\[0, 1\] is inf"),
        ([(0, 1), (1, 0, 3.0)], ValueError, "twice"),
        ([(0, 1, float("nan"))], ValueError, "finite"),
        ([(0, 1, "heavy")], TypeError, "number"),
        ([(0, float("nan"))], ValueError, "NaN"),
        (nx.DiGraph([(0, 1)]), TypeError, "undirected"),
        ("a-b", TypeError, "X must be"),
        (None, TypeError, "X must be|square"),
    ],
)
def test_bad_graph_is_named(X: object, error: type[Exception], message: str) -> None:
    with pytest.raises((error, ValueError) if X is None else error, match=message):
        read_graph(X)


def test_pairs_by_number_and_by_name() -> None:
    numbered, named = read_graph(np.zeros((4, 4))), read_graph([("a", "b"), (("c", 1), "a")])
    expected = [[0, 3], [2, 1]]
    for pairs in (expected, np.array(expected), pd.DataFrame(expected), [(0, 3.0), (2, 1)], ((0, 3), (2, 1))):
        np.testing.assert_array_equal(read_pairs(pairs, numbered, "must_link"), expected)
    np.testing.assert_array_equal(read_pairs([("b", ("c", 1))], named, "must_link"), [[1, 2]])
    for empty in (None, [], np.empty((0, 2)), np.array([])):
        assert read_pairs(empty, numbered, "must_link").shape == (0, 2)


@pytest.mark.parametrize(
    ("pairs", "error", "message"),
    [
        ([(0, 4)], ValueError, r"must_link\[0\] names node 4, expected 0..3"),
        ([(0, 1), (-1, 2)], ValueError, r"must_link\[1\]"),
        ([(0, 1, 2)], ValueError, "pairs"),
        ([0, 1], ValueError, "pairs"),
        (np.zeros((3, 3), int), ValueError, r"shape \(r, 2\)"),
        ([("a", "b")], TypeError, "integers"),
        ([(0, 1.5)], TypeError, "integers"),
        ([(True, 1)], TypeError, "integers"),
        ("ab", TypeError, "pairs of nodes"),
        ({0: 1}, TypeError, "pairs of nodes"),
        (3, TypeError, "pairs of nodes"),
    ],
)
def test_bad_pairs_are_named(pairs: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        read_pairs(pairs, read_graph(np.zeros((4, 4))), "must_link")


def test_unknown_name_is_shown() -> None:
    with pytest.raises(ValueError, match="'dora'"):
        read_pairs([("ann", "dora")], read_graph([("ann", "bob")]), "cannot_link")
