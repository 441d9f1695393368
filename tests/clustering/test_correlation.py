"""The estimator: closed forms, every form of input, constraints, certificates and bad input."""

import itertools
import warnings

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import check_estimator

from paperworks.clustering import (
    ConstrainedCorrelationClustering,
    check_constraints,
    clustering_cost,
    exact_correlation_clustering,
    plant_instance,
    solve_canonical_lp,
)

MODES = ("cluster", "canonical", "none")


def fit(X, must=None, cannot=None, **options) -> ConstrainedCorrelationClustering:
    options.setdefault("random_state", 0)
    return ConstrainedCorrelationClustering(**options).fit(X, must_link=must, cannot_link=cannot)


def matrix(edges, n: int):
    A = np.zeros((n, n), dtype=int)
    for i, j in edges:
        A[i, j] = A[j, i] = 1
    return A


@pytest.mark.parametrize("lp", MODES)
@pytest.mark.parametrize(
    ("must", "cannot", "cost", "labels"),
    [
        ([], [], 1, None),
        ([("a", "c")], [], 1, [0, 0, 0]),
        ([], [("a", "c")], 1, None),
        ([("a", "c")], [("a", "b")], 3, [0, 1, 0]),
    ],
)
def test_path_of_three(lp: str, must: list, cannot: list, cost: int, labels: list | None) -> None:
    model = fit([("a", "b"), ("b", "c")], must, cannot, lp=lp)
    assert model.cost_ == cost
    assert isinstance(model.cost_, int)
    assert model.node_names_ == ["a", "b", "c"]
    if labels is not None:
        np.testing.assert_array_equal(model.labels_, labels)
    if lp != "none":
        assert model.lower_bound_ == pytest.approx(cost)


def test_two_cliques() -> None:
    edges = [*itertools.combinations(range(5), 2), *itertools.combinations(range(5, 10), 2), (4, 5)]
    model = fit(edges)
    np.testing.assert_array_equal(model.labels_, [0] * 5 + [1] * 5)
    assert (model.cost_, model.gap_, model.status_, model.guarantee_) == (1, 0.0, "optimal", "1.92")
    assert fit(edges, cannot=[(0, 1)]).cost_ == 5


def test_star() -> None:
    edges = [(0, 1), (0, 2), (0, 3), (0, 4)]
    assert solve_canonical_lp(edges)[0] == pytest.approx(2.0, abs=1e-6)
    model = fit(edges)
    assert (model.cost_, model.lower_bound_, model.n_clusters_) == (3, pytest.approx(3.0), 4)
    assert fit(edges, lp="canonical").lower_bound_ == pytest.approx(2.0)


@pytest.mark.parametrize("lp", MODES)
def test_all_alike(lp: str) -> None:
    n = 7
    ones, zeros = np.ones((n, n), int), np.zeros((n, n), int)
    together, apart = fit(ones, lp=lp), fit(zeros, lp=lp)
    assert (together.n_clusters_, together.cost_) == (1, 0)
    assert (apart.n_clusters_, apart.cost_) == (n, 0)
    for model in (together, apart):
        assert model.certificate_.ratio == 1.0
        assert model.gap_ == (None if lp == "none" else 0.0)
    forced = fit(zeros, must=[(i, i + 1) for i in range(n - 1)], lp=lp)
    assert (forced.n_clusters_, forced.cost_) == (1, n * (n - 1) // 2)
    assert forced.certificate_.lower_bound == n * (n - 1) // 2


@pytest.mark.parametrize("lp", MODES)
@pytest.mark.parametrize("weights", [False, True])
def test_every_form_of_one_graph_gives_one_answer(lp: str, weights: bool) -> None:
    rng = np.random.default_rng(3)
    n = 13
    A = np.triu(rng.random((n, n)) < 0.4, 1)
    value = np.where(A, rng.choice([-2.0, -0.5, 1.0, 1.5, 3.0], size=(n, n)), 0.0) if weights else A.astype(float)
    A = value + value.T
    G = nx.Graph()
    G.add_nodes_from(range(n))
    G.add_weighted_edges_from((int(i), int(j), A[i, j]) for i, j in np.argwhere(np.triu(A)))
    edges = [(i, i) for i in range(n)] + [(u, v, w) if weights else (u, v) for u, v, w in G.edges.data("weight")]
    forms = [A, A.astype(np.float32), A.tolist(), pd.DataFrame(A), sparse.csr_array(A), sparse.csc_matrix(A), G, edges]
    forms.append(pd.DataFrame([(*e, 1.0)[:3] for e in edges], columns=["source", "target", "weight"]))
    if not weights:
        off = 1 - np.eye(n)
        forms += [A.astype(bool), A.astype(int), 2 * A - off, sparse.csr_array(2 * A - off), sparse.csr_array(A > 0)]
        forms += [A + np.eye(n), (2 * A - off).astype(int)]
    constraints = {"must": [(0, 5), (5, 7)], "cannot": [(0, 1)]}
    first = fit(forms[0], **constraints, lp=lp, weights=weights)
    assert 1 < first.n_clusters_ < n
    for form in forms[1:]:
        other = fit(form, **constraints, lp=lp, weights=weights)
        np.testing.assert_array_equal(other.labels_, first.labels_)
        assert other.cost_ == first.cost_
        assert other.lower_bound_ == first.lower_bound_
        assert other.node_names_ == list(range(n))


def test_nodes_keep_the_order_of_the_graph_and_pairs_go_by_name() -> None:
    G = nx.Graph([("d", "c"), ("c", "b"), ("b", "d"), ("a", "b")])
    model = fit(G, must=pd.DataFrame({"left": ["a"], "right": ["c"]}), cannot=[("d", "a")])
    assert model.node_names_ == ["d", "c", "b", "a"]
    group = dict(zip(model.node_names_, model.labels_.tolist(), strict=True))
    assert group["a"] == group["c"] != group["d"]


@given(st.integers(1, 9), st.integers(0, 10**6), st.booleans(), st.sampled_from(MODES))
@settings(max_examples=30, deadline=None)
def test_certificate_always_brackets_the_optimum(n: int, seed: int, weights: bool, lp: str) -> None:
    rng = np.random.default_rng(seed)
    W = np.triu(rng.choice([-2.5, -1.0, 0.0, 0.7, 1.0, 3.0], size=(n, n)), 1)
    W = W + W.T
    X = W if weights else (W > 0).astype(int)
    group = rng.integers(3, size=n)
    pairs = [tuple(p) for p in rng.integers(n, size=(int(rng.integers(0, n + 1)), 2)).tolist()]
    must = [(a, b) for a, b in pairs if group[a] == group[b]]
    cannot = [(a, b) for a, b in pairs if group[a] != group[b]]
    model = fit(X, must, cannot, lp=lp, weights=weights, mix=bool(seed % 2), polish=bool(seed % 3))
    _, best = exact_correlation_clustering(X, must, cannot, weights=weights)
    tol = 1e-5
    assert check_constraints(model.labels_, must, cannot) == 0
    assert model.cost_ == pytest.approx(clustering_cost(X, model.labels_, weights=weights))
    assert model.cost_ >= best - tol
    assert model.cost_ == pytest.approx(min(model.candidates_.values()))
    certificate = model.certificate_
    assert certificate.lower_bound <= best + tol
    assert certificate.cost == model.cost_
    if certificate.lower_bound > 0:
        assert certificate.ratio == pytest.approx(model.cost_ / certificate.lower_bound)
    if lp == "none":
        assert model.lower_bound_ is model.gap_ is model.lp_value_ is model.x_ is model.guarantee_ is None
        assert model.status_ == "heuristic"
    else:
        assert model.status_ == "optimal"
        assert model.lower_bound_ == model.lp_value_ <= best + tol
        assert (model.guarantee_ is None) == weights
        if model.guarantee_ is not None:
            assert model.cost_ <= float(model.guarantee_) * model.lower_bound_ + tol


def test_the_method_finds_the_optimum_of_small_noisy_graphs() -> None:
    for seed in range(25):
        X, must, cannot, _ = plant_instance(10, 3, 0.3, 2, 3, random_state=seed)
        model = fit(X, must, cannot)
        assert model.cost_ == exact_correlation_clustering(X, must, cannot)[1]


def test_candidates_by_mode() -> None:
    X, must, cannot, _ = plant_instance(16, 3, 0.2, 2, 2, random_state=0)
    assert set(fit(X, must, cannot).candidates_) == {"pivot", "local", "penalised", "rounded", "mixed", "polished"}
    assert set(fit(X, must, cannot, mix=False, polish=False).candidates_) == {"pivot", "local"}
    assert fit(X, must, cannot, mix=False).guarantee_ == "2"
    canonical = fit(X, must, cannot, lp="canonical", polish=False)
    assert set(canonical.candidates_) == {"pivot", "local"}
    assert canonical.lp_solution_ is None
    assert canonical.guarantee_ == "3"
    assert set(fit(X, lp="none").candidates_) == {"local", "polished"}


def test_solution_of_the_program_is_that_of_all_nodes() -> None:
    X, must, cannot, _ = plant_instance(14, 3, 0.3, 4, 4, random_state=5)
    model = fit(X, must, cannot)
    total = np.zeros(14)
    for nodes, z in model.lp_solution_:
        total[list(nodes)] += z
    np.testing.assert_allclose(total, 1.0, atol=1e-7)
    assert all(model.x_[a, b] == 0 for a, b in must)
    assert all(model.x_[a, b] == 1 for a, b in cannot)
    upper = np.triu(np.ones_like(X, dtype=bool), 1)
    paid = model.x_[upper & (X == 1)].sum() + (1 - model.x_[upper & (X == 0)]).sum()
    assert paid == pytest.approx(model.lp_value_, abs=1e-4)


def test_permuting_nodes_permutes_labels() -> None:
    X, must, cannot, _ = plant_instance(18, 3, 0.1, 3, 3, random_state=2)
    order = np.random.default_rng(0).permutation(18)
    place = np.argsort(order)
    for lp in MODES:
        plain = fit(X, must, cannot, lp=lp)
        moved = fit(X[np.ix_(order, order)], place[must], place[cannot], lp=lp)
        assert moved.cost_ == plain.cost_
        same = plain.labels_[order][:, None] == plain.labels_[order]
        np.testing.assert_array_equal(moved.labels_[:, None] == moved.labels_, same)


def test_scale_of_weights_does_not_matter() -> None:
    rng = np.random.default_rng(1)
    W = np.triu(rng.normal(size=(15, 15)), 1)
    W += W.T
    small, plain, large = (fit(W * s, weights=True) for s in (1e-6, 1.0, 1e6))
    for model, s in ((small, 1e-6), (large, 1e6)):
        np.testing.assert_array_equal(model.labels_, plain.labels_)
        assert model.lower_bound_ == pytest.approx(s * plain.lower_bound_, rel=1e-5)


def test_unit_weights_are_the_unweighted_problem() -> None:
    X, must, cannot, _ = plant_instance(13, 3, 0.3, 2, 2, random_state=4)
    for lp in MODES:
        plain, signed = fit(X, must, cannot, lp=lp), fit(2 * X - 1, must, cannot, lp=lp, weights=True)
        assert plain.cost_ == pytest.approx(signed.cost_)
        assert plain.certificate_.lower_bound == pytest.approx(signed.certificate_.lower_bound, abs=1e-4)
        assert isinstance(signed.cost_, float)


def test_features() -> None:
    rng = np.random.default_rng(0)
    centre = np.repeat(np.eye(3), 8, axis=0)
    points = centre + rng.normal(scale=0.05, size=centre.shape)
    model = fit(points, affinity="cosine", threshold=0.8)
    np.testing.assert_array_equal(model.labels_, np.repeat([0, 1, 2], 8))
    unit = points / np.linalg.norm(points, axis=1, keepdims=True)
    cosine = unit @ unit.T
    for weights, X in ((False, (cosine >= 0.8) * 1), (True, cosine - 0.8)):
        by_hand = fit((X + X.T) / 2, weights=weights)
        for affinity in ("cosine", lambda points: cosine):
            for form in (points, sparse.csr_array(points)):
                again = fit(form, affinity=affinity, threshold=0.8, weights=weights, n_jobs=2)
                assert again.cost_ == pytest.approx(by_hand.cost_)
                np.testing.assert_array_equal(again.labels_, by_hand.labels_)
    words = ["anna", "anne", "bob", "bobb"]
    shared = fit(words, affinity=lambda names: [[len(set(a) & set(b)) / 3 for b in names] for a in names])
    np.testing.assert_array_equal(shared.labels_, [0, 0, 1, 1])
    # a row of zeros is similar to nothing, and equal rows reach a threshold of 1
    np.testing.assert_array_equal(
        fit([[0.1, 0.3], [0.3, 0.9], [0, 0]], affinity="cosine", threshold=1.0).labels_, [0, 0, 1]
    )


@pytest.mark.parametrize("seed", range(4))
def test_contradiction_shows_the_chain(seed: int) -> None:
    A = np.ones((5, 5), int)
    must = [(0, 1), (1, 2), (3, 4), (1, 0)]
    np.random.default_rng(seed).shuffle(must)
    with pytest.raises(ValueError, match=r"0 - 1 - 2 .*\(0, 2\)"):
        fit(A, must, [(0, 2), (0, 2)])
    named = nx.relabel_nodes(nx.complete_graph(5), dict(enumerate("vwxyz")))
    model = ConstrainedCorrelationClustering()
    with pytest.raises(ValueError, match=r"v - w - x .*\('v', 'x'\)"):
        model.fit(named, must_link=[("v", "w"), ("w", "x")], cannot_link=[("v", "x")])
    assert not hasattr(model, "labels_")


@pytest.mark.parametrize(
    ("X", "options", "error", "message"),
    [
        (np.zeros((2, 3)), {}, ValueError, "square"),
        (np.array([[0, 1], [0, 0]]), {}, ValueError, "symmetric"),
        (np.full((3, 3), 2), {}, ValueError, r"X\[0, 1\] is 2"),
        (np.array([[0, 0.5], [0.5, 0]]), {}, ValueError, "weights=True"),
        (np.array([[0, 0, -1], [0, 0, 1], [-1, 1, 0]]), {}, ValueError, "mixes 0 with -1"),
        (np.array([[0, np.nan], [np.nan, 0]]), {"weights": True}, ValueError, "nan"),
        (np.zeros((0, 0)), {}, ValueError, "at least one node"),
        (nx.DiGraph([(0, 1)]), {}, TypeError, "undirected"),
        (np.zeros((2, 2)), {"lp": "dual"}, ValueError, "lp must be"),
        (np.zeros((2, 2)), {"pricing": "best"}, ValueError, "pricing must be"),
        (np.zeros((2, 2)), {"affinity": "rbf"}, ValueError, "affinity must be"),
        (np.zeros((2, 2)), {"affinity": 3}, TypeError, "affinity must be"),
        (np.zeros((2, 2)), {"affinity": "cosine", "threshold": float("nan")}, ValueError, "threshold"),
        (np.array([[np.nan, 1.0]]), {"affinity": "cosine"}, ValueError, "NaN"),
        (np.zeros((2, 2)), {"n_rounds": 0}, ValueError, "n_rounds"),
        (np.zeros((2, 2)), {"tol": -1.0}, ValueError, "tol"),
        (np.zeros((2, 2)), {"time_limit": 0.0}, ValueError, "time_limit"),
        (np.zeros((2, 2)), {"must": [(0, 2)]}, ValueError, r"must_link\[0\]"),
        (np.zeros((2, 2)), {"cannot": [(1, 1)]}, ValueError, r"cannot_link\[0\]"),
        (np.zeros((2, 2)), {"must": np.zeros((2, 3))}, ValueError, "must_link"),
        (np.zeros((2, 2)), {"must": [("a", "b")]}, TypeError, "must_link"),
        ([("a", "b")], {"cannot": [("a", "x")]}, ValueError, "'x'"),
    ],
)
def test_bad_input_is_named(X: object, options: dict, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        fit(X, **options)


def test_small_and_trivial_input() -> None:
    for lp in MODES:
        single = fit([[0]], lp=lp)
        assert (single.labels_.tolist(), single.n_clusters_, single.cost_) == ([0], 1, 0)
        assert fit(np.zeros((2, 2)), must=[(0, 0), (0, 1), (1, 0), (0, 1)], lp=lp).cost_ == 1
        assert fit(np.ones((2, 2)), cannot=[(0, 1), (1, 0)], lp=lp).cost_ == 1
    assert fit(np.ones((3, 3)), must=[], cannot=np.empty((0, 2))).cost_ == 0


def test_running_out_of_time_gives_a_legal_answer_with_a_certificate() -> None:
    X, must, cannot, _ = plant_instance(40, 4, 0.3, 6, 6, random_state=0)
    for limit in (1e-4, 0.1):
        for lp in MODES:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                model = fit(X, must, cannot, lp=lp, time_limit=limit)
            if limit < 0.01:
                assert any(issubclass(w.category, ConvergenceWarning) for w in caught)
                assert model.status_ == ("heuristic" if lp == "none" else "time_limit")
            assert check_constraints(model.labels_, must, cannot) == 0
            assert model.cost_ == clustering_cost(X, model.labels_)
            assert 0 < model.certificate_.lower_bound <= model.cost_


def test_large_sparse_graph_keeps_its_constraints() -> None:
    """A hundred thousand edges are never made dense; planted groups come back, with a bound that they respect."""
    rng = np.random.default_rng(0)
    n, size = 10_000, 21
    truth = np.arange(n) // size
    pairs = np.array(
        [(g * size + a, g * size + b) for g in range(n // size) for a, b in itertools.combinations(range(size), 2)]
    )
    kept = pairs[rng.random(len(pairs)) < 0.95]
    noise = rng.integers(n, size=(5_000, 2))
    rows, columns = np.concatenate([kept, noise[noise[:, 0] != noise[:, 1]]]).T
    A = sparse.csr_array((np.ones(rows.size), (rows, columns)), shape=(n, n))
    A = ((A + A.T) > 0).astype(np.int8)
    assert A.nnz / 2 > 95_000
    cannot = noise[truth[noise[:, 0]] != truth[noise[:, 1]]][:50]
    must = pairs[rng.choice(len(pairs), size=50, replace=False)]
    model = fit(A, must, cannot)
    assert model.status_ == "heuristic"
    assert check_constraints(model.labels_, must, cannot) == 0
    assert model.cost_ <= clustering_cost(A, truth) * 1.05
    assert 0 < model.certificate_.lower_bound <= clustering_cost(A, truth)
    assert model.certificate_.ratio < 1.1
    false_must = np.array([(0, 5_000), (5_000, 7_000)])  # three groups that have nothing to do with each other
    forced = fit(A, false_must, kept[:3])
    assert check_constraints(forced.labels_, false_must, kept[:3]) == 0
    assert forced.cost_ > model.cost_


def test_same_seed_same_answer_and_clone() -> None:
    X, must, cannot, _ = plant_instance(20, 3, 0.2, 2, 2, random_state=1)
    model = ConstrainedCorrelationClustering(random_state=3, n_rounds=5)
    labels = model.fit_predict(X, must_link=must, cannot_link=cannot)
    np.testing.assert_array_equal(labels, clone(model).fit(X, must_link=must, cannot_link=cannot).labels_)


def test_contract_of_scikit_learn() -> None:
    check_estimator(ConstrainedCorrelationClustering(affinity="cosine", lp="none"))


def test_planted_instance() -> None:
    X, must, cannot, truth = plant_instance(200, 4, 0.1, 30, 40, random_state=0)
    assert must.shape == (30, 2)
    assert cannot.shape == (40, 2)
    assert check_constraints(truth, must, cannot) == 0
    assert len({tuple(sorted(p)) for p in [*must.tolist(), *cannot.tolist()]}) == 70
    upper = np.triu_indices(200, 1)
    flipped = (X == 1)[upper] != (truth[:, None] == truth)[upper]
    assert flipped.mean() == pytest.approx(0.1, abs=0.01)
    np.testing.assert_array_equal(X, X.T)
    with pytest.raises(ValueError, match="n_must must be at most"):
        plant_instance(5, 5, 0.0, n_must=11)


def test_functions_name_bad_labels() -> None:
    with pytest.raises(ValueError, match=r"labels must have shape \(3,\)"):
        clustering_cost(np.zeros((3, 3)), [0, 1])
    assert check_constraints(["a", "b", "a"], [(0, 2)], [(0, 1)]) == 0
    assert check_constraints([0, 0, 1], [(0, 2), (1, 2)], [(0, 1)]) == 3
