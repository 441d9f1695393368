"""Independence tests, marks and simulation."""

import itertools

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from paperworks.causal import PagMark, augmented_parents, bif_graph, fisher_z, g_test, random_latent_sem, true_relation
from paperworks.causal.local_cause import simulation
from paperworks.causal.local_cause.ci_tests import FisherTester
from paperworks.causal.local_cause.learner import GaussianBlankets
from paperworks.causal.local_cause.pag import PartialGraph, arrow_collider_ends
from tests.causal.latent_graphs import oracle, random_dag


@given(st.integers(0, 10_000), st.integers(0, 5))
@settings(max_examples=60, deadline=None)
def test_fisher_z_is_the_test_of_regression_residuals(seed: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    data = rng.normal(size=(60, 7)) @ rng.normal(size=(7, 7))
    x, y, *z = rng.permutation(7)[: size + 2].tolist()
    design = np.c_[np.ones(60), data[:, z]]
    left = data[:, [x, y]] - design @ np.linalg.lstsq(design, data[:, [x, y]], rcond=None)[0]
    r = stats.pearsonr(*left.T)[0]
    expected = 2 * stats.norm.sf(abs(np.arctanh(min(abs(r), 1 - 1e-7))) * np.sqrt(60 - size - 3))
    found = fisher_z(np.corrcoef(data.T), 60, x, y, z)
    assert found == pytest.approx(expected, rel=1e-6, abs=1e-12)
    assert found == pytest.approx(fisher_z(np.corrcoef(data.T), 60, y, x, z[::-1]), rel=1e-6, abs=1e-12)


def test_fisher_z_of_determined_variables_is_finite() -> None:
    corr = np.array([[1.0, 1.0, 0.5], [1.0, 1.0, 0.5], [0.5, 0.5, 1.0]])
    assert fisher_z(corr, 100, 0, 2, [1]) == 1.0
    assert 0.0 <= fisher_z(corr, 100, 0, 1) < 1e-12


def test_fisher_z_is_uniform_under_independence() -> None:
    rng = np.random.default_rng(0)
    p = []
    for _ in range(800):
        a, b, noise, other = rng.normal(size=(4, 50))
        p.append(fisher_z(np.corrcoef([a + noise, a + other, a, b]), 50, 0, 1, [2, 3]))
    assert stats.kstest(p, "uniform").pvalue > 0.01


@given(st.integers(0, 10_000), st.integers(0, 2))
@settings(max_examples=40, deadline=None)
def test_g_test_is_the_sum_over_strata(seed: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    data = rng.integers(0, rng.integers(2, 4, size=4), size=(80, 4))
    z = list(range(2, 2 + size))
    g = dof = 0.0
    for values in itertools.product(*[np.unique(data[:, k]) for k in z]):
        rows = data[(data[:, z] == values).all(axis=1)]
        if len(rows):
            table = np.array([[((rows[:, 0] == a) & (rows[:, 1] == b)).sum() for b in range(3)] for a in range(3)])
            table = table[table.any(axis=1)][:, table.any(axis=0)]
            if min(table.shape) > 1:
                found = stats.chi2_contingency(table, correction=False, lambda_="log-likelihood")
                g, dof = g + found.statistic, dof + found.dof
    expected = stats.chi2.sf(g, dof) if dof else 1.0
    assert g_test(data * 1.5 - 7, 0, 1, z) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    "test", [lambda x, y, z: fisher_z(np.eye(4), 50, x, y, z), lambda x, y, z: g_test(np.eye(4), x, y, z)]
)
def test_impossible_questions_are_refused(test: object) -> None:
    for x, y, z in [(0, 0, []), (0, 1, [1]), (0, 1, [2, 2]), (0, 4, []), (-1, 2, []), (0, 1, [7])]:
        with pytest.raises(ValueError, match=r"x|y|z"):
            test(x, y, z)
    with pytest.raises(TypeError, match="x"):
        test(0.5, 1, [])


def test_impossible_tables_are_refused() -> None:
    with pytest.raises(ValueError, match="n must be at least 5"):
        fisher_z(np.eye(3), 4, 0, 1, [2])
    with pytest.raises(ValueError, match="square"):
        fisher_z(np.ones((2, 3)), 40, 0, 1)
    with pytest.raises(ValueError, match="NaN"):
        g_test([[0, np.nan], [1, 1]], 0, 1)
    with pytest.raises(ValueError, match="at least one row"):
        g_test(np.empty((0, 2)), 0, 1)


def test_blankets_from_one_inverse_are_total_partial_correlations() -> None:
    rng = np.random.default_rng(0)
    data = rng.normal(size=(200, 6)) @ (np.eye(6) + np.triu(rng.normal(size=(6, 6)), 1))
    corr = np.corrcoef(data.T)
    tester = FisherTester(corr, 200, 0.01)
    blankets = GaussianBlankets(tester, corr, 0.0, 0.01)
    for x, y in itertools.combinations(range(6), 2):
        rest = [k for k in range(6) if k not in (x, y)]
        assert blankets.p(x, y) == pytest.approx(fisher_z(corr, 200, x, y, rest), rel=1e-6, abs=1e-14)
    blankets(0), blankets(3), blankets(0)
    assert tester.counts["markov_blanket"] == 5 + 4  # r (2n - r - 1) / 2 with r = 2 of n = 6


def test_augmented_parents_by_all_paths() -> None:
    """Against an enumeration of simple paths on random mixed graphs."""
    rng = np.random.default_rng(0)
    nonempty = 0
    for _ in range(150):
        n = 6
        pag = np.zeros((n, n), dtype=int)
        for i, j in itertools.combinations(range(n), 2):
            if rng.random() < 0.5:
                pag[i, j], pag[j, i] = rng.choice([1, 2, 2, 3], 2)
        ipre = [v for v in range(1, n) if rng.random() < 0.8]
        expected = set()
        graph = nx.Graph([(i, j) for i, j in itertools.combinations(range(n), 2) if pag[i, j]])
        graph.add_nodes_from(range(n))
        for end in range(1, n):
            for path in nx.all_simple_paths(graph, 0, end):
                inner = zip(path, path[1:], path[2:], strict=False)
                collides = all(pag[a, b] == 2 == pag[c, b] for a, b, c in inner)
                if pag[path[1], 0] == 2 and collides and set(path[1:]) <= set(ipre):
                    expected.add(end)
        assert augmented_parents(pag, 0, ipre) == sorted(expected)
        nonempty += len(expected) > 1
    assert nonempty > 30


@pytest.mark.parametrize(
    ("pag", "x", "ipre", "word"),
    [
        (np.zeros((2, 3)), 0, [], "square"),
        ([[0, 5], [1, 0]], 0, [], "marks"),
        ([[0, 1], [0, 0]], 0, [], "both ends"),
        (np.zeros((2, 2)), 2, [], "x"),
        (np.zeros((2, 2)), 0, [3], "ipre"),
    ],
)
def test_malformed_graphs_are_refused(pag: object, x: int, ipre: list[int], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        augmented_parents(pag, x, ipre)


def test_marks_are_numbers() -> None:
    assert [mark.value for mark in PagMark] == [0, 1, 2, 3]
    graph = PartialGraph.from_array(np.array([[0, 2], [3, 0]]))
    assert graph.is_directed(0, 1)
    assert arrow_collider_ends(graph, 1, {0}) == {0}


def test_sem_has_the_declared_law() -> None:
    graph = nx.DiGraph([("u", "a"), ("u", "b"), ("a", "c"), ("v", "c"), ("v", "d")])
    data, latents = random_latent_sem(graph, 1, 200_000, random_state=0)
    assert latents in (["u"], ["v"])
    assert set(data.columns) == set("uvabcd") - set(latents)
    whole, none = random_latent_sem(graph, 0, 200_000, random_state=np.random.default_rng(1))
    assert none == []
    for child in graph:
        parents = list(graph.predecessors(child))
        design = whole[parents].to_numpy()
        weights, left = np.linalg.lstsq(design, whole[child], rcond=None)[:2] if parents else (np.array([]), None)
        assert ((np.abs(weights) > 0.49) & (np.abs(weights) < 1.01)).all()
        variance = left[0] / 200_000 if parents else whole[child].var()
        assert variance == pytest.approx(1.0, abs=0.02)


def test_sem_and_truth_refuse_bad_graphs() -> None:
    graph = nx.DiGraph([(0, 1), (1, 2)])
    with pytest.raises(ValueError, match="n_latent must be at most 0"):
        random_latent_sem(graph, 1, 10)
    with pytest.raises(ValueError, match="cycle"):
        random_latent_sem(nx.DiGraph([(0, 1), (1, 0)]), 0, 10)
    with pytest.raises(TypeError, match="DiGraph"):
        random_latent_sem(nx.Graph([(0, 1)]), 0, 10)
    with pytest.raises(ValueError, match="y must be an observed node"):
        true_relation(graph, [2], 0, 2)
    with pytest.raises(ValueError, match="twice"):
        true_relation(graph, [], 0, 0)
    with pytest.raises(ValueError, match="cycle"):
        true_relation(nx.DiGraph([(0, 1), (1, 0)]), [], 0, 1)


def test_adjacency_of_the_oracle_graph_means_never_separated() -> None:
    rng = np.random.default_rng(3)
    for _ in range(40):
        dag = random_dag(rng, 5, 3, 2.5)
        pag, ask = simulation.oracle_pag(dag, range(5, 8)), oracle(dag)
        for a, b in itertools.combinations(range(5), 2):
            rest = [v for v in range(5) if v not in (a, b)]
            separated = any(ask(a, b, z) for k in range(4) for z in itertools.combinations(rest, k))
            assert bool(pag[a, b]) != separated


def test_networks_are_read_from_their_files() -> None:
    sizes = {"alarm": (37, 46), "mildew": (35, 46), "win95pts": (76, 112), "andes": (223, 338)}
    for name, (nodes, edges) in sizes.items():
        try:
            graph = bif_graph(name)
        except ImportError as error:
            pytest.skip(str(error))
        assert (graph.number_of_nodes(), graph.number_of_edges()) == (nodes, edges)
        assert nx.is_directed_acyclic_graph(graph)
    with pytest.raises(ValueError, match="name must be one of 'alarm'"):
        bif_graph("asia")


def test_missing_files_say_how_to_get_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> None:
        raise simulation.importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(simulation.importlib.metadata, "files", absent)
    with pytest.raises(ImportError, match=r"pip install --no-deps pgmpy==1.1.2"):
        bif_graph("alarm")


def test_bif_text() -> None:
    text = "network x {\n}\nvariable A {\n}\nvariable B {\n}\nvariable C {\n}\nprobability ( A ) {\n}\n"
    text += "probability ( C | A, B ) {\n (a, b) 1;\n}\n"
    graph = simulation._parse_bif(text)
    assert list(graph) == ["A", "B", "C"]
    assert sorted(graph.edges) == [("A", "C"), ("B", "C")]
