"""Constrained spectral cuts: bounds against brute force, exactness of the negative loop, both readings of the loops."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.cluster import SpectralClustering
from sklearn.datasets import load_wine, make_moons
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import StandardScaler

from paperworks.clustering import (
    ConstrainedSpectralCut,
    brute_force_cut,
    cheeger_bound,
    cut_ratio,
    rgg_pair,
    sbm_pair,
    signed_laplacian,
    sweep_cut,
)
from paperworks.clustering.constrained_cut.bounds import bounds_of
from paperworks.clustering.constrained_cut.cuts import prefix_cuts
from paperworks.clustering.constrained_cut.problem import Problem, degrees, laplacian
from paperworks.clustering.constrained_cut.spectrum import grounded, neutral_pairs, potential_pairs


def random_graph(n: int, rng: np.random.Generator, density: float = 1.0) -> np.ndarray:
    upper = np.triu(rng.uniform(0.1, 1.0, (n, n)) * (rng.random((n, n)) < density), 1)
    return upper + upper.T


def dense(weights: np.ndarray) -> np.ndarray:
    return np.diag(weights.sum(axis=1)) - weights


def precomputed(k: int = 2, **options) -> ConstrainedSpectralCut:
    return ConstrainedSpectralCut(k, affinity="precomputed", random_state=0, **options)


# ---------------------------------------------------------------------------------------------- cuts and certificates


@settings(max_examples=40, deadline=None)
@given(n=st.integers(3, 9), seed=st.integers(0, 10**6))
def test_the_least_ratio_lies_between_the_bounds(n, seed):
    rng = np.random.default_rng(seed)
    G, H = random_graph(n, rng), random_graph(n, rng)
    labels, least = brute_force_cut(G, H)
    found = cheeger_bound(G, H)
    assert found["lower"] <= least * (1 + 1e-9)
    assert least <= found["upper"] * (1 + 1e-9)
    assert found["upper"] <= found["cheeger"] / np.sqrt(2) * (1 + 1e-9)
    assert cut_ratio(G, H, labels) == pytest.approx(least)
    # lambda_2 by its definition: eigenvalues on the space that is orthogonal to the constant
    basis = scipy.linalg.null_space(np.ones((1, n)))
    values = scipy.linalg.eigh(basis.T @ dense(G) @ basis, basis.T @ dense(H) @ basis, eigvals_only=True)
    assert found["lower"] == pytest.approx(values[0], rel=1e-8)
    # the sweep of the neutral vector reaches the upper bound
    model = precomputed(self_loops="neutral", min_fraction=0.0).fit(G, H=H)
    assert least * (1 - 1e-9) <= model.cut_ratio_ <= found["upper"] * (1 + 1e-9)
    assert (model.lower_bound_, model.upper_bound_) == pytest.approx((found["lower"], found["upper"]), rel=1e-7)


@settings(max_examples=40, deadline=None)
@given(n=st.integers(2, 12), seed=st.integers(0, 10**6), density=st.floats(0.2, 1.0))
def test_the_sweep_in_one_pass_equals_direct_cuts(n, seed, density):
    rng = np.random.default_rng(seed)
    G, H = random_graph(n, rng, density), random_graph(n, rng, density)
    f = rng.normal(size=n).round(1)  # with ties
    order = np.argsort(f, kind="stable")
    direct = [[W[np.ix_(order[:i], order[i:])].sum() for i in range(1, n)] for W in (G, H)]
    np.testing.assert_allclose(prefix_cuts(sparse.csr_array(G), order), direct[0], atol=1e-12)
    labels, ratio = sweep_cut(f, G, H)
    ratios = [g / h if h > 1e-12 else np.inf for g, h in zip(*direct, strict=True)]
    assert ratio == pytest.approx(min(ratios)) or min(ratios) == np.inf
    if np.isfinite(ratio):
        assert cut_ratio(G, H, labels) == pytest.approx(ratio)


def test_a_sweep_keeps_the_smallest_share():
    rng = np.random.default_rng(0)
    G, H = random_graph(10, rng), random_graph(10, rng)
    f = rng.normal(size=10)
    for share, least in ((0.0, 1), (0.1, 1), (0.11, 2), (0.3, 3), (0.49, 5)):
        labels, ratio = sweep_cut(f, G, H, share)
        assert min(labels.sum(), 10 - labels.sum()) >= least
        assert ratio >= sweep_cut(f, G, H)[1]
    model = precomputed(min_fraction=0.4).fit(G, H=H)
    assert min(np.bincount(model.labels_)) >= 4
    assert model.unrestricted_cut_ratio_ <= model.cut_ratio_


def test_the_path_of_three_nodes():
    G, H = [(1, 2, 1.0), (2, 3, 2.0)], [(1, 3, 1.0)]
    assert brute_force_cut([[0, 1, 0], [1, 0, 2], [0, 2, 0]], [[0, 0, 1], [0, 0, 0], [1, 0, 0]])[1] == 1.0
    with pytest.raises(ValueError, match="node 2 has no weight in H and background is 0"):
        precomputed(background=0.0).fit(G, H=H)
    assert precomputed(background=1e-6, min_fraction=0.0).fit(G, H=H).cut_ratio_ == pytest.approx(1.0, rel=1e-4)


def test_equal_graphs_have_the_ratio_one_everywhere():
    G = random_graph(9, np.random.default_rng(0))
    found = cheeger_bound(G, G)
    assert found["lower"] == pytest.approx(1.0)
    assert found["lambda2"] == pytest.approx(found["scale"])
    values = precomputed(5, self_loops="neutral").fit(G, H=G).eigenvalues_
    np.testing.assert_allclose(values[1:], 1.0, rtol=1e-9)
    assert values[0] == pytest.approx(0.0, abs=1e-9)


def test_scaling_similarity_scales_the_ratio():
    rng = np.random.default_rng(3)
    G, H = random_graph(12, rng), random_graph(12, rng)
    one, ten = precomputed().fit(G, H=H), precomputed().fit(10 * G, H=H)
    np.testing.assert_array_equal(one.labels_, ten.labels_)
    assert ten.cut_ratio_ == pytest.approx(10 * one.cut_ratio_)
    assert ten.lower_bound_ == pytest.approx(10 * one.lower_bound_)


@pytest.mark.parametrize("mode", ["potential", "neutral"])
def test_the_order_of_nodes_does_not_matter(mode):
    G, H, _ = sbm_pair(60, 0.6, 0.2, seed=1)
    order = np.random.default_rng(0).permutation(60)
    one = precomputed(self_loops=mode).fit(G, H=H)
    other = precomputed(self_loops=mode).fit(G[order][:, order], H=H[order][:, order])
    assert adjusted_rand_score(one.labels_[order], other.labels_) == 1.0
    assert one.cut_ratio_ == pytest.approx(other.cut_ratio_)


# ------------------------------------------------------------------------------------------------------ eigenproblems


def test_the_negative_loop_is_exact_for_a_connected_graph():
    rng = np.random.default_rng(0)
    problem = Problem(sparse.csr_array(random_graph(9, rng)), sparse.csr_array(random_graph(9, rng)), np.zeros(9))
    found = [
        neutral_pairs(problem, 5, weight=w, nodes=np.array([v]), solver="dense", rng=np.random.RandomState(0))
        for w in (1e-3, 0.1, 10.0)
        for v in (0, 4, 8)
    ]
    for pencil, v in zip(found, [0, 4, 8] * 3, strict=True):
        np.testing.assert_allclose(pencil.values[1:], found[0].values[1:], rtol=1e-10)
        assert np.abs(pencil.vectors[v, 1:]).max() < 1e-9 * np.abs(pencil.vectors).max()
    for weight in (1e-3, 10.0):
        model = precomputed(self_loops="neutral", loop_weight=weight, loop_vertex=2).fit(problem.G, H=problem.H)
        assert (model.loop_weight_, model.loop_vertex_) == (weight, 2)
        np.testing.assert_allclose(model.eigenvalues_[1], found[0].values[1], rtol=1e-10)


def test_the_potential_is_the_pencil_with_half_the_gap_of_degrees():
    rng = np.random.default_rng(1)
    G, H = random_graph(10, rng), random_graph(10, rng)
    c0 = (H.sum(1) / G.sum(1)).min()
    left = c0 * dense(G) + np.diag(0.5 * (H.sum(1) - c0 * G.sum(1)))
    values = np.sort(scipy.linalg.eig(dense(H), left, right=False).real)[::-1]
    found = potential_pairs(
        Problem(sparse.csr_array(G), sparse.csr_array(H), np.zeros(10)), 3, solver="dense", rng=np.random.RandomState(0)
    )
    np.testing.assert_allclose(found.values, 1 / values[:3], rtol=1e-9)
    residual = left @ found.vectors - dense(H) @ found.vectors * found.values
    assert np.abs(residual).max() < 1e-9


def test_against_a_complete_graph_it_is_the_fiedler_vector():
    G = random_graph(11, np.random.default_rng(2))
    H = np.ones((11, 11)) - np.eye(11)
    values, vectors = np.linalg.eigh(dense(G))
    model = precomputed(self_loops="neutral").fit(G, H=H)
    assert model.lower_bound_ == pytest.approx(values[1] / 11)
    assert abs(np.corrcoef(model.eigenvectors_[:, 1], vectors[:, 1])[0, 1]) == pytest.approx(1.0)


def test_without_constraints_it_is_the_normalised_cut():
    G = random_graph(12, np.random.default_rng(4))
    d = G.sum(axis=1)
    values, vectors = scipy.linalg.eigh(dense(G) / np.sqrt(np.outer(d, d)))
    model = precomputed(self_loops="neutral").fit(G)
    assert model.lower_bound_ == pytest.approx(values[1], rel=1e-8)
    f = vectors[:, 1] / np.sqrt(d)
    H = np.outer(d, d) / d.sum()
    np.fill_diagonal(H, 0.0)
    labels, ratio = sweep_cut(f, G, H, 0.1)
    assert adjusted_rand_score(labels, model.labels_) == 1.0
    assert model.cut_ratio_ == pytest.approx(ratio)


@pytest.mark.parametrize("mode", ["potential", "neutral"])
@pytest.mark.parametrize("background", [0.0, 1.0])
def test_sparse_solvers_agree_with_the_dense_one(mode, background):
    G, H, _ = rgg_pair(400, 0.15, 0.2, (0.08, 0.05), (0.08, 0.12), seed=0)
    problem = Problem(G, H, degrees(G) * np.sqrt(background / degrees(G).sum()))
    if background == 0:  # a cycle makes both connected
        ring = sparse.csr_array(nx.to_scipy_sparse_array(nx.cycle_graph(400), dtype=np.float64)) * 0.1
        problem = Problem(sparse.csr_array(G + ring), sparse.csr_array(H + ring), problem.r)
    else:
        ring = sparse.csr_array(nx.to_scipy_sparse_array(nx.cycle_graph(400), dtype=np.float64)) * 0.1
        problem = problem._replace(G=sparse.csr_array(G + ring))
    weight, nodes = grounded(problem, None, None)
    found = {}
    for solver in ("dense", "arpack", "lobpcg"):
        rng = np.random.RandomState(0)
        if mode == "potential":
            found[solver] = potential_pairs(problem, 3, solver=solver, rng=rng)
        else:
            found[solver] = neutral_pairs(problem, 3, weight=weight, nodes=nodes, solver=solver, rng=rng)
    for solver, tolerance in (("arpack", 1e-7), ("lobpcg", 1e-4)):
        np.testing.assert_allclose(
            found[solver].values, found["dense"].values, rtol=tolerance, atol=tolerance * found["dense"].values[-1]
        )
    bounds = [bounds_of(problem, solver=solver) for solver in ("dense", "arpack")]
    assert bounds[0].lambda2_H == pytest.approx(bounds[1].lambda2_H, rel=1e-5, abs=1e-9)
    assert bounds[0].lower == pytest.approx(bounds[1].lower, rel=1e-5)


# --------------------------------------------------------------------------------------------------------- the method


@pytest.mark.parametrize("mode", ["potential", "neutral"])
def test_two_cliques_and_one_cannot_link(mode):
    G = np.kron(np.eye(2), np.ones((4, 4))) - np.eye(8)
    G[3, 4] = G[4, 3] = 1.0
    model = precomputed(self_loops=mode).fit(G, cannot_link=[(0, 7)])
    assert adjusted_rand_score(model.labels_, np.repeat([0, 1], 4)) == 1.0
    assert model.satisfied_["cannot"] == 1.0
    assert np.isnan(model.satisfied_["must"])
    # by hand: mean degree 26 / 8, volume 26, background d d^T / vol between the cliques 13 * 13 / 26
    assert model.cut_ratio_ == pytest.approx(1 / (26 / 8 + 13 * 13 / 26))


def test_block_model_above_plain_spectral_clustering():
    """The reference values are .89 and .59 at q = .15 and .16 (means of draws), those of plain clustering .51 and 0."""
    for q, least, plain in ((0.15, 0.75, 0.8), (0.16, 0.4, 0.3)):
        ours, theirs = [], []
        for seed in range(3):
            G, H, labels = sbm_pair(500, 0.2, q, seed)
            ours.append(adjusted_rand_score(labels, precomputed(assign="median").fit(G, H=H).labels_))
            other = SpectralClustering(2, affinity="precomputed", random_state=0, assign_labels="kmeans")
            theirs.append(adjusted_rand_score(labels, other.fit(G.toarray()).labels_))
        assert np.mean(ours) > least
        assert np.mean(theirs) < min(plain, np.mean(ours))


def test_more_pairs_bring_better_clusters_on_wine():
    X, y = load_wine(return_X_y=True)
    X, y = StandardScaler().fit_transform(X), y == 0
    scores = []
    for n_pairs in (0, 150):
        found = []
        for seed in range(3):
            pairs = np.random.default_rng(seed).integers(0, len(y), (2 * n_pairs, 2))
            pairs = pairs[pairs[:, 0] != pairs[:, 1]][:n_pairs]
            same = y[pairs[:, 0]] == y[pairs[:, 1]]
            model = ConstrainedSpectralCut(random_state=0).fit(X, must_link=pairs[same], cannot_link=pairs[~same])
            found.append(adjusted_rand_score(y, model.labels_))
        scores.append(np.mean(found))
    assert scores[0] < 0.3
    assert scores[1] > 0.9


def test_every_form_of_a_graph_gives_the_same_answer():
    G, H = sbm_pair(40, 0.7, 0.2, seed=3)[:2]
    forms = {
        "array": (G.toarray(), H.toarray()),
        "sparse": (G, H),
        "networkx": (nx.from_scipy_sparse_array(G), nx.from_scipy_sparse_array(H)),
        "edges": tuple(
            [(int(u), int(v), float(w)) for u, v, w in zip(*sparse.find(sparse.triu(W)), strict=True)] for W in (G, H)
        ),
    }
    answers = [precomputed(self_loops=m).fit(g, H=h) for g, h in forms.values() for m in ("potential",)]
    for answer in answers[1:]:
        np.testing.assert_array_equal(answer.labels_, answers[0].labels_)
        assert answer.cut_ratio_ == answers[0].cut_ratio_
    names = nx.relabel_nodes(forms["networkx"][0], {i: f"n{i}" for i in range(40)})
    other = nx.relabel_nodes(forms["networkx"][1], {i: f"n{i}" for i in range(40)})
    shuffled = nx.Graph()
    shuffled.add_nodes_from(sorted(other.nodes))
    shuffled.add_edges_from(other.edges(data=True))
    named = precomputed().fit(names, H=shuffled, must_link=[("n0", "n1")])
    plain = precomputed().fit(G, H=H, must_link=[(0, 1)])
    np.testing.assert_array_equal(named.labels_, plain.labels_)


def test_pairs_are_a_set():
    X, _ = make_moons(60, noise=0.1, random_state=0)
    one = ConstrainedSpectralCut(random_state=0).fit(X, cannot_link=[(0, 9), (3, 4), (9, 0)])
    other = ConstrainedSpectralCut(random_state=0).fit(X, cannot_link=[(4, 3), (0, 9), (0, 9)])
    np.testing.assert_array_equal(one.labels_, other.labels_)
    assert (one.constraint_matrix_ != other.constraint_matrix_).nnz == 0
    assert one.constraint_matrix_[0, 9] == pytest.approx(degrees(one.affinity_matrix_).mean())


@pytest.mark.parametrize("multiway", ["kmeans", "recursive"])
@pytest.mark.parametrize("mode", ["potential", "neutral"])
def test_more_than_two_clusters(multiway, mode):
    rng = np.random.default_rng(0)
    centres = np.array([[0, 0], [5, 0], [0, 5], [5, 5]])
    X = np.concatenate([c + rng.normal(scale=0.7, size=(30, 2)) for c in centres])
    y = np.repeat(np.arange(4), 30)
    model = ConstrainedSpectralCut(4, multiway=multiway, self_loops=mode, random_state=0).fit(X)
    assert adjusted_rand_score(y, model.labels_) > 0.95
    assert model.cut_ratio_.shape == (4,)
    assert (model.cut_ratio_ > 0).all()


@pytest.mark.parametrize("k", [2, 3, 4, 5, 9])
@pytest.mark.parametrize("mode", ["potential", "neutral"])
@pytest.mark.parametrize("multiway", ["kmeans", "recursive"])
def test_a_graph_in_pieces(k, mode, multiway):
    G = sparse.block_diag([np.ones((6, 6)) - np.eye(6)] * 3).toarray()
    with pytest.warns(UserWarning, match=r"disconnected \(3 components\)"):
        model = precomputed(k, self_loops=mode, multiway=multiway).fit(G)
    assert set(model.labels_) == set(range(k))
    assert np.isfinite(model.eigenvalues_).all()
    for piece in np.split(model.labels_, 3):
        assert k > 3 or len(set(piece)) == 1
    if k == 2:
        assert model.cut_ratio_ == 0.0
    assert model.lower_bound_ == pytest.approx(0.0, abs=1e-9)
    with pytest.warns(UserWarning, match="disconnected"):
        again = precomputed(k, self_loops=mode, multiway=multiway).fit(G)
    np.testing.assert_array_equal(model.labels_, again.labels_)


@pytest.mark.parametrize("assign", ["sweep", "median", "sign", "kmeans"])
@pytest.mark.parametrize("affinity", ["nearest_neighbors", "rbf", lambda X: np.exp(-((X[:, :1] - X[:, 0]) ** 2))])
def test_roundings_and_affinities_find_two_blobs(assign, affinity):
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(20, 2)), [8, 0] + rng.normal(size=(20, 2))])
    model = ConstrainedSpectralCut(affinity=affinity, assign=assign, self_loops="neutral", random_state=0).fit(X)
    assert adjusted_rand_score(model.labels_, np.repeat([0, 1], 20)) == 1.0


def test_equal_points_are_no_trouble():
    X = np.zeros((12, 2))
    labels = ConstrainedSpectralCut(3, random_state=0).fit(X).labels_
    assert set(labels) == {0, 1, 2}


def test_scales_of_the_data_do_not_matter():
    X, _ = make_moons(80, noise=0.1, random_state=1)
    expected = ConstrainedSpectralCut(random_state=0).fit(X, cannot_link=[(0, 1)]).labels_
    for factor in (1e-150, 1e-3, 1e9, 1e150):
        found = ConstrainedSpectralCut(random_state=0).fit(X * factor, cannot_link=[(0, 1)]).labels_
        np.testing.assert_array_equal(found, expected)


def test_signed_laplacian_has_absolute_degrees():
    W = np.array([[0, 2, -1], [2, 0, 0], [-1, 0, 0.0]])
    L = signed_laplacian(W).toarray()
    np.testing.assert_array_equal(L, [[3, -2, 1], [-2, 2, 0], [1, 0, 1]])
    assert np.linalg.eigvalsh(L).min() >= -1e-12
    plain = signed_laplacian(abs(W))
    assert np.linalg.eigvalsh(plain.toarray())[0] == pytest.approx(0, abs=1e-12)
    assert np.linalg.eigvalsh(signed_laplacian(abs(W), {1: 0.5}).toarray())[0] > 0.1
    np.testing.assert_allclose(laplacian(sparse.csr_array(abs(W))).toarray(), plain.toarray())


def test_generated_pairs_have_their_densities():
    G, H, labels = sbm_pair(400, 0.3, 0.1, seed=0)
    same = labels[:, None] == labels
    np.fill_diagonal(same, False)
    other = labels[:, None] != labels
    for W, within, between in ((G, 0.3, 0.1), (H, 0.1, 0.3)):
        assert W.toarray()[same].mean() == pytest.approx(within, abs=0.01)
        assert W.toarray()[other].mean() == pytest.approx(between, abs=0.01)
        assert (W != W.T).nnz == 0
    G, H, labels = rgg_pair(300, 1.0, seed=0)
    assert G.toarray()[labels[:, None] != labels].sum() == 0
    again = rgg_pair(300, 1.0, seed=0)
    assert (again[0] != G).nnz == (again[1] != H).nnz == 0


# ---------------------------------------------------------------------------------------------------------- bad input

GOOD = np.ones((5, 5)) - np.eye(5)


@pytest.mark.parametrize(
    ("options", "fit", "said"),
    [
        ({}, {"X": GOOD, "H": np.ones((4, 4))}, "H must have the nodes of X"),
        ({}, {"X": GOOD, "H": -GOOD}, "H must have no negative weight"),
        ({}, {"X": -GOOD}, "X must have no negative weight"),
        ({}, {"X": np.triu(GOOD)}, "symmetric"),
        ({}, {"X": GOOD * np.nan}, "finite|nan"),
        ({}, {"X": np.ones((5, 4))}, "square"),
        ({}, {"X": np.ones((2, 2))}, "at least 3"),
        ({}, {"X": GOOD, "must_link": [(0, 5)]}, r"must_link\[0\]"),
        ({}, {"X": GOOD, "must_link": [(1, 1)]}, "must_link holds the pair of 1 with itself"),
        ({}, {"X": GOOD, "must_link": [(0, 1)], "cannot_link": [(1, 0)]}, r"both hold the pair \(0, 1\)"),
        ({"background": 0.0}, {"X": GOOD}, "H is empty and background is 0"),
        ({"n_clusters": 1}, {"X": GOOD}, "n_clusters"),
        ({"n_clusters": 6}, {"X": GOOD}, "n_clusters must be at most"),
        ({"min_fraction": 0.5}, {"X": GOOD}, "min_fraction"),
        ({"min_fraction": -0.1}, {"X": GOOD}, "min_fraction"),
        ({"affinity": "cosine"}, {"X": GOOD}, "affinity"),
        ({"self_loops": "both"}, {"X": GOOD}, "self_loops"),
        ({"assign": "best"}, {"X": GOOD}, "assign"),
        ({"multiway": "x"}, {"X": GOOD}, "multiway"),
        ({"eigen_solver": "x"}, {"X": GOOD}, "eigen_solver"),
        ({"background": -1.0}, {"X": GOOD}, "background"),
        ({"must_link_weight": 0.0}, {"X": GOOD}, "must_link_weight"),
        ({"cannot_link_weight": np.nan}, {"X": GOOD}, "cannot_link_weight"),
        ({"loop_vertex": 5}, {"X": GOOD}, "loop_vertex"),
        ({"loop_weight": 0.0}, {"X": GOOD}, "loop_weight"),
        ({"gamma": -1.0, "affinity": "rbf"}, {"X": GOOD}, "gamma"),
        ({"n_neighbors": 0, "affinity": "nearest_neighbors"}, {"X": GOOD}, "n_neighbors"),
    ],
)
def test_bad_input_is_named(options, fit, said):
    options = {"affinity": "precomputed", **options}
    model = ConstrainedSpectralCut(**options)
    with pytest.raises((ValueError, TypeError), match=said):
        model.fit(fit.pop("X"), **fit)
    assert not hasattr(model, "labels_")


def test_a_node_without_any_edge_is_named():
    graph = nx.path_graph(["a", "b", "c"])
    graph.add_node("island")
    with pytest.raises(ValueError, match="'island' has no edge"):
        precomputed().fit(graph)
    assert precomputed().fit(graph, must_link=[("island", "a")]).labels_.shape == (4,)
    with pytest.raises(TypeError, match="undirected"):
        precomputed().fit(nx.DiGraph([("a", "b"), ("b", "c")]))


def test_few_constraints_without_background_warn():
    G = GOOD
    H = np.full((5, 5), 1e-7)
    H[0, 1] = H[1, 0] = 1e3
    np.fill_diagonal(H, 0)
    with pytest.warns(UserWarning, match="very uneven"):
        precomputed(background=0.0).fit(G, H=H)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: cut_ratio(GOOD, GOOD, [0, 0, 0, 0, 0]), "at least two clusters"),
        (lambda: cut_ratio(GOOD, GOOD, [0, 1]), r"labels must have shape \(5,\)"),
        (lambda: cut_ratio(GOOD, np.ones((4, 4)), [0, 1, 0, 1, 0]), "same nodes"),
        (lambda: sweep_cut([1, 2, 3], GOOD, GOOD), "one value per node"),
        (lambda: sweep_cut([1, 2, np.nan, 3, 4], GOOD, GOOD), "f "),
        (lambda: brute_force_cut(np.ones((20, 20)), np.ones((20, 20))), "max_n"),
        (lambda: cheeger_bound(GOOD, [(0, 1), (1, 2), (2, 3), (4, 4)]), "node 4 has none"),
        (lambda: signed_laplacian(GOOD, {7: 1.0}), "node 7"),
        (lambda: signed_laplacian(GOOD, {0: 0.0}), "positive"),
        (lambda: sbm_pair(1, 0.5, 0.5), "n "),
        (lambda: sbm_pair(10, 1.5, 0.5), "p "),
        (lambda: rgg_pair(10, np.inf), "distance"),
        (lambda: rgg_pair(10, 0.1, radius=0.0), "radius"),
    ],
)
def test_bad_input_of_functions(call, said):
    with pytest.raises(ValueError, match=said):
        call()


def test_bounds_wait_until_they_are_read():
    G, H, _ = sbm_pair(30, 0.7, 0.2, seed=0)
    model = precomputed().fit(G, H=H)
    assert model._bounds is None
    assert model.lower_bound_ <= model.cut_ratio_
    assert model.lower_bound_ <= model.upper_bound_ <= model.cheeger_bound_


@pytest.mark.slow
def test_a_hundred_thousand_nodes():
    X = np.random.default_rng(0).random((100_000, 2))
    pairs = np.random.default_rng(1).integers(0, len(X), (1000, 2))
    apart = pairs[(X[pairs[:, 0], 0] < 0.5) != (X[pairs[:, 1], 0] < 0.5)]
    options = {"self_loops": "neutral", "min_fraction": 0.0, "random_state": 0}
    model = ConstrainedSpectralCut(**options).fit(X, cannot_link=apart)
    assert 0 < model.lower_bound_ <= model.cut_ratio_ <= model.upper_bound_ <= model.cheeger_bound_
    default = ConstrainedSpectralCut(random_state=0).fit(X, cannot_link=apart)
    assert default.lower_bound_ == pytest.approx(model.lower_bound_, rel=1e-6)
    assert model.lower_bound_ <= default.cut_ratio_
    assert min(np.bincount(default.labels_)) >= len(X) // 10
