"""The study's instances with their truth, its peers, and its trials at the smallest scale."""

import importlib.util
import itertools

import numpy as np
import pandas as pd
import pytest

from paperworks.clustering import check_constraints, clustering_cost, exact_correlation_clustering
from paperworks.datasets import own_file
from paperworks.studies.clustering import correlation as study


def test_every_contender_runs() -> None:
    settings = study.STUDY.scales["smoke"]
    (dataset,) = settings.datasets
    given = study.problem(dataset, 0)
    best = exact_correlation_clustering(given.plus, given.must, given.cannot)[1]
    costs = {}
    for contender in study.STUDY.contenders:
        if contender.requires and importlib.util.find_spec("active_semi_clustering") is None:
            continue
        metrics = study.trial(contender.name, dataset, 0, "smoke")
        assert set(metrics) == {metric.name for metric in study.STUDY.metrics}
        np.testing.assert_equal(metrics, study.trial(contender.name, dataset, 0, "smoke"))
        costs[contender.name] = metrics["cost"]
        if contender.name != "cop-kmeans":
            assert metrics["cost"] >= best or metrics["violated"] > 0
            assert metrics["ratio"] >= 1 - 1e-6 or metrics["violated"] > 0
    assert costs["exact"] == best
    assert (
        costs["constrained-cc"] <= costs["no-polish"] <= costs["no-mix"] <= costs["no-penalty"] <= costs["local-only"]
    )
    assert np.isnan(costs.get("cop-kmeans", np.nan))


@pytest.mark.parametrize("dataset", ["planted-40-20-20", "karate", "iris-60", "names-60", "southern-women", "football"])
def test_instances_are_graphs_with_constraints_that_agree(dataset: str) -> None:
    given = study.problem(dataset, 1)
    np.testing.assert_array_equal(given.plus, given.plus.T)
    assert set(np.unique(given.plus)) == {0, 1}
    assert not given.plus.diagonal().any()
    if given.truth is not None:
        wrong = 1 if dataset.startswith("planted") else 0
        assert check_constraints(given.truth, given.must, given.cannot) == wrong
    # the pivot needs no program; constraints that contradict each other would stop it
    labels = study.random_pivot(given, np.random.default_rng(0))
    assert check_constraints(labels, given.must, given.cannot) == 0


def test_plus_pairs_of_points_are_the_near_ones() -> None:
    given = study.problem("iris-60", 0)
    distance = np.linalg.norm(given.points[:, None] - given.points, axis=2)
    upper = np.triu_indices(60, 1)
    near = given.plus[upper] == 1
    assert distance[upper][near].max() <= distance[upper][~near].min()
    assert distance[upper][near].max() ** 2 <= np.median(distance[upper] ** 2) / 2


def test_jaro() -> None:
    assert study.jaro("martha", "marhta") == pytest.approx(17 / 18)
    assert study.jaro("dixon", "dicksonx") == pytest.approx(23 / 30)
    assert study.jaro("abc", "xyz") == 0
    assert study.jaro("same", "same") == 1


def test_peers() -> None:
    plus = np.zeros((6, 6), dtype=np.int64)
    for i, j in [(0, 1), (1, 2), (3, 4)]:
        plus[i, j] = plus[j, i] = 1
    given = study.Problem(plus, np.array([[4, 5]]), np.array([[0, 2]]), None, None)
    joined = study.union_find(given)
    assert len({joined[0], joined[1], joined[2]}) == 1
    assert len({joined[3], joined[4], joined[5]}) == 1
    assert joined[0] != joined[3]
    for seed in range(10):
        labels = study.random_pivot(given, np.random.default_rng(seed))
        assert check_constraints(labels, given.must, given.cannot) == 0
        assert clustering_cost(plus, labels) in (
            2,
            3,
        )  # one of two plus pairs is cut; 3-4 is worth no more than 3-5 costs


@pytest.mark.skipif(importlib.util.find_spec("active_semi_clustering") is None, reason="needs the peer")
def test_cop_kmeans_leaves_the_global_state_alone() -> None:
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    errors = np.geterr()
    given = study.problem("iris-60", 0)
    labels = study.cop_kmeans(given, 0)
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002
    assert np.geterr() == errors
    assert all(labels[a] != labels[b] for a, b in given.cannot)
    assert len(set(labels.tolist())) == 3


def test_own_table_runs(tmp_path: object) -> None:
    rng = np.random.default_rng(0)
    kind = np.repeat(["a", "b", "c"], 8)
    frame = pd.DataFrame({"x": np.repeat([0, 5, 10], 8) + rng.normal(size=24), "kind": kind})
    frame.to_csv(tmp_path / "own.csv", index=False)
    file = own_file(tmp_path / "own.csv", task="classification", target="kind")
    metrics = study.trial("constrained-cc", file.ref, 0, "smoke")
    assert metrics["legal"] == 1
    assert metrics["ari"] > 0.5
    assert metrics["ratio"] == pytest.approx(1.0, abs=0.01)


def test_constraints_are_distinct_and_wrong_ones_split_a_group() -> None:
    truth = np.repeat([0, 1, 2], 8)
    must, cannot = study.constraints(truth, 40, np.random.default_rng(0), wrong=2)
    assert len(must) == len(cannot) == 20
    pairs = list(itertools.chain(map(tuple, must.tolist()), map(tuple, cannot.tolist())))
    assert len(set(pairs)) == 40
    assert check_constraints(truth, must, cannot) == 2
