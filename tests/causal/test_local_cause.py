"""The estimator: known graphs, agreement with FCI, invariances, counts and what is refused."""

from collections.abc import Callable

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

from paperworks.causal import LocalCause, bif_graph, random_latent_sem, true_relation
from paperworks.causal.local_cause.pag import read_relation
from paperworks.causal.local_cause.simulation import oracle_graph, oracle_pag
from tests.causal.latent_graphs import dag_of, oracle, random_dag

Y_STRUCTURE = [(0, 1), (2, 1), (1, 3)]
# Observed 0-4, hidden 5; the set {1, 4} that separates 0 and 2 lies next to 0 only.
ONE_SIDED = [(1, 0), (2, 3), (2, 1), (4, 3), (4, 1), (4, 0), (5, 3), (5, 0)]


def fit(dag: nx.DiGraph, n: int, target: int, **given_settings: object) -> LocalCause:
    columns = np.random.default_rng(0).normal(size=(5, n))  # only their number counts
    return LocalCause(ci_test=oracle(dag), **given_settings).fit(columns, target=target)


def test_chain_says_possible_in_every_direction() -> None:
    for x in range(3):
        assert set(fit(dag_of([(0, 1), (1, 2)], 3), 3, x).relations()) == {"possible_ancestor"}


@pytest.mark.parametrize("rule", ["corrected", "paper"])
def test_y_structure(rule: str) -> None:
    dag = dag_of(Y_STRUCTURE, 4)
    assert fit(dag, 4, 1, rule=rule).relation(3) == "explicit_invariant_ancestor"
    assert fit(dag, 4, 0, rule=rule).relations([3, 1, 2]).tolist() == [
        "possible_ancestor",
        "possible_ancestor",
        "invariant_non_ancestor",
    ]
    assert fit(dag, 4, 3, rule=rule).relation(0) == "invariant_non_ancestor"


def test_separating_set_next_to_one_end_only() -> None:
    dag = dag_of(ONE_SIDED, 6)
    for x in (1, 4):
        model = fit(dag, 5, x)
        assert model.relation(0) == "explicit_invariant_ancestor"
        assert model.pag_[x, 0] == 2
        assert model.pag_[0, x] == 3
    assert fit(dag, 5, 0).pag_[0, 2] == 0


@pytest.mark.parametrize(
    ("seed", "n_graphs", "largest"), [(0, 25, 8), pytest.param(1, 150, 11, marks=pytest.mark.slow)]
)
def test_graph_over_the_blanket_and_answers_are_those_of_the_whole_pag(seed: int, n_graphs: int, largest: int) -> None:
    rng = np.random.default_rng(seed)
    smaller = 0
    for _ in range(n_graphs):
        n = int(rng.integers(6, largest + 1))
        dag = random_dag(rng, n, int(rng.integers(0, 4)), rng.uniform(1.5, 3.0))
        hidden = range(n, len(dag))
        whole = oracle_pag(dag, hidden)
        for x in range(n):
            model = fit(dag, n, x, max_cond=None)
            near = np.ix_(*[[x, *model.markov_blanket_]] * 2)
            np.testing.assert_array_equal(model.pag_[near], whole[near])
            smaller += model.n_local_ < n
            for y, relation in model.relations().items():
                assert relation == true_relation(dag, hidden, x, y)
    assert smaller > n_graphs


def test_pag_is_that_of_causal_learn() -> None:
    fci = pytest.importorskip("causallearn.search.ConstraintBased.FCI").fci
    rng = np.random.default_rng(5)
    for _ in range(8):
        n = int(rng.integers(5, 9))
        dag = random_dag(rng, n, 2, 2.2)
        np.testing.assert_array_equal(oracle_pag(dag, range(n, len(dag))), run_fci(fci, n, oracle(dag)))


def run_fci(fci: Callable, n: int, ask: Callable) -> np.ndarray:
    """Run causal-learn's FCI with the d-separation oracle and return its marks in our coding."""
    from causallearn.utils import cit

    class Oracle(cit.CIT_Base):
        method = "oracle"

        def __init__(self, data: np.ndarray) -> None:
            pass

        def __call__(self, x: int, y: int, given_set: object = None) -> float:
            return ask(int(x), int(y), tuple(int(z) for z in given_set or ()))

    cit.register_ci_test("paperworks_oracle", Oracle)
    found, _ = fci(np.random.default_rng(0).normal(size=(20, n)), "paperworks_oracle", 0.5, show_progress=False)
    code = {0: 0, -1: 3, 1: 2, 2: 1}
    return np.array([[code[int(found.graph[j, i])] for j in range(n)] for i in range(n)])


@given(st.integers(0, 10_000))
@settings(max_examples=25, deadline=None)
def test_markov_blanket_is_the_one_by_definition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 8))
    dag = random_dag(rng, n, int(rng.integers(0, 4)), 2.5)
    x = int(rng.integers(n))
    hidden = set(range(n, len(dag)))
    # A hidden node without observed descendants links nothing. In the moral graph of the rest, the blanket is what x
    # is linked to by paths whose inner nodes are hidden.
    idle = [v for v in hidden if not nx.descendants(dag, v) - hidden]
    moral = nx.moral_graph(dag.subgraph(set(dag) - set(idle)))
    seen, todo = {x}, [x]
    while todo:
        for w in set(moral[todo.pop()]) - seen:
            seen.add(w)
            if w in hidden:
                todo.append(w)
    assert fit(dag, n, x).markov_blanket_ == sorted(seen - hidden - {x})


@pytest.fixture(scope="module")
def alarm() -> tuple[nx.DiGraph, pd.DataFrame, list[str]]:
    graph = read_network("alarm")
    data, latents = random_latent_sem(graph, 4, 1000, random_state=3)
    return graph, data, latents


def read_network(name: str) -> nx.DiGraph:
    try:
        return bif_graph(name)
    except ImportError as error:
        pytest.skip(str(error))


def test_neither_order_nor_scale_of_columns_matter(alarm: tuple) -> None:
    _, data, _ = alarm
    rng = np.random.default_rng(0)
    for target in ("HR", "LVFAILURE" if "LVFAILURE" in data else "CO"):
        plain = LocalCause().fit(data, target=target)
        other = data[rng.permutation(data.columns)] * rng.uniform(-5, 5, data.shape[1]) + 7
        changed = LocalCause().fit(other, target=target)
        pd.testing.assert_series_equal(changed.relations(data.columns.drop(target)), plain.relations())
        assert changed.n_tests_ == plain.n_tests_
        back = [other.columns.get_loc(name) for name in data.columns]
        np.testing.assert_array_equal(changed.pag_[np.ix_(back, back)], plain.pag_)


def test_answers_do_not_depend_on_what_was_asked_before(alarm: tuple) -> None:
    _, data, _ = alarm
    for target in data.columns[:6]:
        at_once = LocalCause().fit(data, target=target).relations()
        model = LocalCause().fit(data, target=target)
        for effect in reversed(at_once.index):
            assert model.relation(effect) == at_once[effect]


def test_without_cache_the_answers_are_the_same(alarm: tuple) -> None:
    _, data, _ = alarm
    kept, asked_again = (LocalCause(cache=cache).fit(data, target="CO") for cache in (True, False))
    pd.testing.assert_series_equal(kept.relations(), asked_again.relations())
    assert asked_again.n_tests_ >= kept.n_tests_


def test_independent_columns_cause_nothing() -> None:
    rng = np.random.default_rng(0)
    rejected = sum(
        (LocalCause().fit(rng.normal(size=(400, 8)), target=0).relations() != "invariant_non_ancestor").any()
        for _ in range(60)
    )
    assert rejected <= 60 * 0.01 * 8 + 6


def test_large_samples_give_the_true_answers() -> None:
    graph = nx.DiGraph([("u", "a"), ("u", "b"), ("a", "c"), ("b", "c"), ("d", "a"), ("e", "b"), ("c", "f")])
    right = total = 0
    for seed in range(10):
        data, latents = random_latent_sem(graph, 0, 20_000, random_state=seed)
        data = data.drop(columns="u")
        for target in data:
            for effect, relation in LocalCause(alpha=1e-3).fit(data, target=target).relations().items():
                right += relation == true_relation(graph, ["u"], target, effect)
                total += 1
    assert latents == []
    assert right / total > 0.9


def test_discrete_data_with_the_g_test() -> None:
    rng = np.random.default_rng(0)
    rain, sprinkler = rng.integers(2, size=(2, 4000))
    grass = np.where(rng.random(4000) < 0.1, rng.integers(2, size=4000), rain | sprinkler)
    shoes = np.where(rng.random(4000) < 0.1, rng.integers(2, size=4000), grass)
    X = pd.DataFrame({"rain": rain, "sprinkler": sprinkler, "grass": grass, "shoes": shoes})
    model = LocalCause("g").fit(X, target="grass")
    assert model.relations().to_dict() == {
        "rain": "invariant_non_ancestor",
        "sprinkler": "invariant_non_ancestor",
        "shoes": "explicit_invariant_ancestor",
    }
    recoded = LocalCause("g").fit(X.replace({0: 7.5, 1: -2.0}), target="grass")
    pd.testing.assert_series_equal(recoded.relations(), model.relations())


def test_no_question_is_asked_twice_and_all_are_counted() -> None:
    rng = np.random.default_rng(1)
    dag = random_dag(rng, 9, 2, 2.5)
    asked = []
    ask = oracle(dag)

    def counting(x: int, y: int, z: tuple[int, ...]) -> float:
        asked.append((min(x, y), max(x, y), frozenset(z)))
        assert len(set(z) | {x, y}) == len(z) + 2
        return ask(x, y, z)

    model = LocalCause(ci_test=counting).fit(np.random.default_rng(0).normal(size=(5, 9)), target=4)
    before = model.n_tests_
    assert before == len(asked) == len(set(asked))
    model.relations()
    assert model.n_tests_ == sum(model.n_tests_by_stage_.values()) == len(asked) == len(set(asked)) > before


def test_fewer_tests_than_fci_on_sparse_graphs() -> None:
    fci = pytest.importorskip("causallearn.search.ConstraintBased.FCI").fci
    rng = np.random.default_rng(0)
    ratios = []
    for _ in range(5):
        dag = random_dag(rng, 18, 2, 1.8)
        asked = set()
        ask = oracle(dag)

        def counting(x: int, y: int, z: tuple[int, ...], ask: Callable = ask, asked: set = asked) -> float:
            asked.add((min(x, y), max(x, y), frozenset(z)))
            return ask(x, y, z)

        run_fci(fci, 18, counting)
        ratios += [fit(dag, 18, x).n_tests_ / len(asked) for x in range(0, 18, 3)]
    assert np.median(ratios) < 1


def test_explanation_holds_the_tests_that_decide(alarm: tuple) -> None:
    _, data, _ = alarm
    model = LocalCause().fit(data, target="CO")
    assert model.relation("HISTORY" if "HISTORY" in data else data.columns[0]) in model.relations().to_numpy()
    for effect, relation in model.relations().items():
        found = model.explain(effect)
        column = data.columns.get_loc(effect)
        assert set(found) == {"relation", "rule", "sets", "tests"}
        assert found["relation"] == relation
        assert all(members == sorted(members) for members in found["sets"].values())
        assert all({x, y} == {model.target_, column} for x, y, _, _ in found["tests"])
        if not model.pag_[model.target_, column]:
            p = [test[3] for test in found["tests"]]
            assert (p[-1] > 0.01) == (relation != "explicit_invariant_ancestor")


def test_networkx_graph_has_the_marks() -> None:
    graph = fit(dag_of(Y_STRUCTURE, 4), 4, 1).to_networkx()
    edges = {(u, v): (d["mark_u"], d["mark_v"]) for u, v, d in graph.edges(data=True)}
    assert edges == {(0, 1): ("circle", "arrow"), (2, 1): ("circle", "arrow"), (1, 3): ("tail", "arrow")}


def test_shrinkage_copes_with_more_columns_than_rows() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 100))
    X[:, 1] = X[:, 0] + 0.3 * rng.normal(size=60)
    model = LocalCause().fit(X, target=0)
    assert 1 in model.markov_blanket_
    assert model.relation(1) == "possible_ancestor"
    assert (model.relations() == "invariant_non_ancestor").mean() > 0.9


def test_max_local_stops_the_walk_with_a_warning() -> None:
    dag = dag_of([(k, k + 1) for k in range(7)], 8)
    with pytest.warns(UserWarning, match="max_local=2"):
        model = fit(dag, 8, 3, max_local=2)
    assert model.n_local_ == 2 < fit(dag, 8, 3).n_local_


def test_verbose_says_where_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    fit(dag_of([(0, 1)], 2), 2, 0, verbose=1)
    assert "around 0" in capsys.readouterr().out


GOOD = pd.DataFrame(np.random.default_rng(2).normal(size=(300, 4)), columns=list("abcd"))


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (GOOD.assign(e=GOOD.a), ["'a'", "'e'", "copies"]),
        (GOOD.assign(e=-GOOD.a), ["'a'", "'e'", "copies"]),
        (GOOD.assign(e=GOOD.a * 1e-9 + 4), ["'a'", "'e'", "copies"]),
        (GOOD.set_axis(["a", "b", "a", "d"], axis=1), ["same name", "a"]),
        (GOOD.assign(e=1.0), ["constant", "'e'"]),
        (GOOD.assign(e=GOOD.a + GOOD.b), ["'a'", "'b'", "'e'", "singular"]),
        (GOOD.mask(GOOD > 2.5), ["NaN"]),
        (GOOD.replace(GOOD.iloc[0, 0], np.inf), ["infinite"]),
        (GOOD[["b"]], ["2 columns"]),
        (GOOD.head(5), ["max_cond"]),
        (GOOD.b.to_numpy(), ["dimension"]),
    ],
)
def test_bad_tables_are_refused(frame: object, words: list[str]) -> None:
    model = LocalCause()
    with pytest.raises(ValueError) as error:
        model.fit(frame, target="b" if hasattr(frame, "columns") else 0)
    assert all(word in str(error.value) for word in words)
    assert not [name for name in vars(model) if name.endswith("_")]


@pytest.mark.parametrize(
    "frame", [GOOD.assign(e="x"), GOOD.assign(e=pd.Categorical(["u", "v"] * 150)), np.array([["a", "b"], ["c", "d"]])]
)
def test_text_is_refused(frame: object) -> None:
    with pytest.raises(TypeError, match="numeric"):
        LocalCause().fit(frame, target=1)


@pytest.mark.parametrize(
    ("bad", "error", "word"),
    [
        ({"alpha": 0.0}, ValueError, "alpha"),
        ({"alpha": 1}, ValueError, "alpha"),
        ({"max_cond": -1}, ValueError, "max_cond"),
        ({"max_cond": 1.5}, TypeError, "max_cond"),
        ({"rule": "other"}, ValueError, "rule"),
        ({"mb": "iamb"}, ValueError, "mb"),
        ({"mb_alpha": "none"}, ValueError, "mb_alpha"),
        ({"mb_alpha": 2.0}, ValueError, "mb_alpha"),
        ({"ci_test": "kci"}, ValueError, "ci_test"),
        ({"ci_test": lambda x, y, z: 1.5}, ValueError, "ci_test"),
        ({"ci_test": lambda x, y, z: None}, ValueError, "ci_test"),
        ({"max_local": 0}, ValueError, "max_local"),
        ({"verbose": -1}, ValueError, "verbose"),
    ],
)
def test_bad_settings_are_refused(bad: dict, error: type, word: str) -> None:
    with pytest.raises(error, match=word):
        LocalCause(**bad).fit(GOOD, target="a")


def test_bad_columns_are_refused() -> None:
    with pytest.raises(ValueError, match="target"):
        LocalCause().fit(GOOD, target="z")
    with pytest.raises(ValueError, match="target"):
        LocalCause().fit(GOOD, target=4)
    with pytest.raises(NotFittedError):
        LocalCause().relation("b")
    model = LocalCause().fit(GOOD, target="a")
    for effect in ("z", "a", 0, 9):
        with pytest.raises(ValueError, match="effect"):
            model.relation(effect)
    assert model.relation(1) == model.relation("b")


def test_columns_called_by_numbers_are_found_by_name() -> None:
    frame = GOOD.set_axis([30, 10, 20, 0], axis=1)
    model = LocalCause().fit(frame, target=0)
    assert model.target_ == 3
    assert model.relations().index.tolist() == [30, 10, 20]
    with pytest.raises(ValueError, match="one of the columns 30, 10, 20, 0, got 1"):
        model.relation(1)


@pytest.mark.slow
def test_a_wide_network() -> None:
    graph = read_network("andes")
    data, latents = random_latent_sem(graph, 10, 1000, random_state=0)
    assert data.shape == (1000, 213)
    assert len(latents) == 10
    truth = oracle_graph(graph, set(latents))
    right = []
    for x in range(0, 213, 20):
        relations = LocalCause().fit(data.to_numpy(), target=x).relations(range(1, 213, 20))
        right += [relation == read_relation(truth, x, y) for y, relation in relations.items()]
    assert np.mean(right) > 0.75
