"""The study's queries with their truth, and its trials at the smallest scale."""

import importlib.metadata
import math

import numpy as np
import pandas as pd
import pytest

from paperworks.causal import LocalCause, true_relation
from paperworks.datasets import DataError, own_file
from paperworks.studies.causal import local_cause as study


def installed(name: str) -> bool:
    try:
        return bool(importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        return False


needs_networks = pytest.mark.skipif(not installed("pgmpy"), reason="pip install --no-deps pgmpy==1.1.2")
needs_peers = pytest.mark.skipif(not installed("causal-learn"), reason="pip install causal-learn")


@needs_networks
@needs_peers
@pytest.mark.parametrize("contender", [contender.name for contender in study.STUDY.contenders])
def test_every_contender_runs(contender: str) -> None:
    found = [study.trial(contender, "alarm", 0, "smoke") for _ in range(2)]
    assert set(found[0]) == {metric.name for metric in study.STUDY.metrics}
    assert found[0]["wf1"] == found[1]["wf1"]
    assert found[0]["n_tests"] == found[1]["n_tests"]
    assert 0 <= found[0]["wf1"] <= 1
    assert found[0]["seconds"] > 0


@needs_networks
def test_queries_are_drawn_evenly_with_their_truth() -> None:
    task = study.draw("alarm", 1, "quick")
    assert task.data.shape == (1000, 33)
    assert task.truth is not None
    assert sorted(task.truth) == [0] * 4 + [1] * 4 + [2] * 4
    graph = study.network("alarm", 1000)
    latents = set(graph) - set(task.data.columns)
    assert len(latents) == 4
    assert all(graph.out_degree(v) >= 2 for v in latents)
    for (x, y), kind in zip(task.pairs, task.truth, strict=True):
        relation = true_relation(graph, latents, task.data.columns[x], task.data.columns[y])
        assert study._kind(relation) == kind


@needs_networks
def test_part_of_a_network_is_induced() -> None:
    whole, part = study.network("alarm", 1000), study.network("alarm", 14)
    assert whole.number_of_nodes() == 37
    assert part.number_of_nodes() == 14
    assert set(part.edges) == {(u, v) for u, v in whole.edges if u in part and v in part}
    assert max(part.degree, key=lambda item: item[1])[0] == max(whole, key=whole.degree)


@needs_networks
@needs_peers
def test_local_answers_beat_correlation() -> None:
    scores = {
        name: np.mean([study.trial(name, "alarm", seed, "quick")["wf1"] for seed in range(6)])
        for name in ("local-cause", "correlation")
    }
    assert scores["local-cause"] > scores["correlation"] + 0.05


def test_weighted_f1_by_hand() -> None:
    truth, found = [0, 0, 1, 1, 2, 2], [0, 0, 1, 0, 2, 1]
    precision = (2 / 3 + 1 / 2 + 1) / 3
    recall = 4 / 6
    assert study.weighted_f1(truth, found) == pytest.approx(2 * precision * recall / (precision + recall))
    assert study.weighted_f1(truth, truth) == 1.0
    assert study.weighted_f1([0, 1], [1, 0]) == 0.0


@needs_peers
def test_peers_read_a_collider() -> None:
    rng = np.random.default_rng(0)
    a, b, noise, other = rng.normal(size=(4, 3000))
    grass = a + b + noise
    data = pd.DataFrame({"rain": a, "sprinkler": b, "grass": grass, "shoes": grass + other})
    pairs = [(2, 3), (0, 1), (3, 0), (0, 3)]
    task = study.Task(data, pairs, None)
    assert study.ANSWERS["fci"](task)[0] == [2, 0, 0, 1]
    assert study.ANSWERS["local-cause"](task)[0] == [2, 0, 0, 1]
    assert study.ANSWERS["local-sufficient"](task)[0][:3] == [2, 0, 0]
    assert study.ANSWERS["pc"](task)[0] == [2, 0, 0, 2]  # nothing hidden: rain itself must be the cause
    assert study.ANSWERS["correlation"](task)[0] == [1, 0, 1, 1]


def test_tests_and_seconds_are_those_of_one_query() -> None:
    data = pd.DataFrame(np.random.default_rng(0).normal(size=(200, 5)))
    task = study.Task(data, [(0, 1), (2, 3)], None)
    expected = []
    for x, y in task.pairs:
        model = LocalCause(alpha=study.ALPHA).fit(data.to_numpy(), target=x)
        model.relation(y)
        expected.append(model.n_tests_)
    assert study.ANSWERS["local-cause"](task)[1] == np.mean(expected)


def test_own_table_runs(tmp_path: object) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(300, 4)) @ rng.normal(size=(4, 4)), columns=list("abcd"))
    frame["kind"] = rng.choice(["u", "v"], 300)
    frame.to_csv(tmp_path / "own.csv", index=False)
    file = own_file(tmp_path / "own.csv", task="none")
    metrics = study.trial("local-cause", file.ref, 0, "smoke")
    assert math.isnan(metrics["wf1"])
    assert metrics["n_tests"] > 3
    assert study.draw(file.ref, 0, "smoke").data.columns.tolist() == list("abcd")
    frame[["a", "kind"]].to_csv(tmp_path / "narrow.csv", index=False)
    with pytest.raises(DataError, match="at least 3 numeric columns"):
        study.trial("local-cause", own_file(tmp_path / "narrow.csv", task="none").ref, 0, "smoke")


def test_missing_networks_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    from paperworks.causal.local_cause import simulation

    monkeypatch.setattr(simulation.importlib.metadata, "files", lambda name: [])
    with pytest.raises(DataError, match="pip install --no-deps pgmpy"):
        study.network("mildew", 1000)
