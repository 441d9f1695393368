"""The study's environments and rows, and its trials at the smallest scale."""

import math

import numpy as np
import pandas as pd
import pytest

from paperworks.bench.seeds import rng_for, seed_for
from paperworks.datasets import DataError, own_file
from paperworks.online import lower_bound, simulate
from paperworks.studies.online import change_points as study

NAMES = {metric.name for metric in study.STUDY.metrics}


@pytest.mark.parametrize("dataset", ["one-jump-10", "nile"])
@pytest.mark.parametrize("contender", [contender.name for contender in study.STUDY.contenders])
def test_every_contender_runs(contender: str, dataset: str) -> None:
    if contender in study._PEERS:
        pytest.importorskip(contender)
    if dataset == "nile":
        pytest.importorskip("statsmodels")
    metrics = study.trial(contender, dataset, 0, "smoke")
    assert set(metrics) == NAMES
    np.testing.assert_equal(metrics, study.trial(contender, dataset, 0, "smoke"))
    if dataset == "nile" and contender in {"oracle", "elimination", "bisect", "clustering"}:
        assert all(math.isnan(value) for value in metrics.values())
        return
    assert metrics["samples"] >= 10
    assert 0 <= metrics["wrong"] <= 1
    assert math.isnan(metrics["slope"]) == (contender != "mcpi" or dataset == "nile")
    assert metrics["samples"] != study.trial(contender, dataset, 1, "smoke")["samples"]


@pytest.mark.parametrize("dataset", sorted(study.ENVIRONMENTS))
def test_environments_have_their_jumps(dataset: str) -> None:
    environment = study.ENVIRONMENTS[dataset]
    places = set()
    for seed in range(20):
        means = study.step_means(environment, rng_for("jumps", dataset, seed))
        jumps = np.diff(means)
        assert means.size == environment.n_arms
        np.testing.assert_allclose(sorted(jumps[jumps != 0]), sorted(environment.jumps))
        places |= study._jumps(means)
    assert len(places) > 5


def test_metrics_are_those_of_the_runs() -> None:
    metrics = study.trial("mcpi", "one-jump-10", 0, "smoke")
    means = study.step_means(study.ENVIRONMENTS["one-jump-10"], rng_for("jumps", "one-jump-10", 0))
    taus = [
        simulate(means, delta=delta, n_runs=5, random_state=seed_for("noise", "one-jump-10", 0)).tau.mean()
        for delta in (0.1, 0.01)
    ]
    assert metrics["samples"] == taus[0]
    assert metrics["samples_strict"] == taus[1]
    assert metrics["to_bound"] == pytest.approx(taus[0] / lower_bound(means, delta=0.1))
    assert metrics["slope"] == pytest.approx((taus[1] - taus[0]) / math.log(10) / 8)


def test_nile_is_in_bins_of_four_years() -> None:
    pytest.importorskip("statsmodels")
    parts, sigma = study.bins("nile")
    means = np.array([part.mean() for part in parts])
    assert [part.size for part in parts] == [4] * 25
    assert sigma == pytest.approx(125.31, abs=0.01)
    assert np.abs(np.diff(means)).argmax() == 6  # 1895-1898 and 1899-1902
    assert np.diff(means)[6] == pytest.approx(-357, abs=1)


def test_peers_find_what_is_plain_and_keep_to_the_budget() -> None:
    means = np.repeat([0.0, 50.0, -20.0], [4, 5, 3])
    for name, find in study._PEERS.items():
        pytest.importorskip(name)
        drawn = []

        def draw(arm: int, size: int, drawn: list[int] = drawn) -> np.ndarray:
            drawn.append(size)
            return means[arm] + np.random.default_rng(len(drawn)).normal(size=size)

        assert sorted(find(61, 12, 2, draw, 1.0)) == [3, 8]
        assert 60 <= sum(drawn) <= 61


def test_own_table_runs(tmp_path: object) -> None:
    rng = np.random.default_rng(0)
    load = rng.permutation(400) / 4  # 25 bins of 16 rows; the jump stands between the 15th and the 16th
    frame = pd.DataFrame({"load": load, "latency": 10 + 30.0 * (load >= 60) + rng.normal(size=400)})
    frame.to_csv(tmp_path / "own.csv", index=False)
    file = own_file(tmp_path / "own.csv", task="regression", target="latency")
    metrics = study.trial("mcpi", file.ref, 0, "smoke")
    assert metrics["wrong"] == 0
    assert metrics["samples"] == 25  # so plain that one row of each bin will do
    parts, _ = study.bins(file.ref)
    assert (len(parts), sum(part.size for part in parts)) == (25, 400)
    frame.head(5).to_csv(tmp_path / "short.csv", index=False)
    short = own_file(tmp_path / "short.csv", task="regression", target="latency")
    with pytest.raises(DataError, match="at least 8 rows"):
        study.trial("mcpi", short.ref, 0, "smoke")
    frame.assign(latency=np.where(load >= 60, 40.0, 10.0)).to_csv(tmp_path / "flat.csv", index=False)
    flat = own_file(tmp_path / "flat.csv", task="regression", target="latency")
    with pytest.raises(DataError, match="is constant in every bin"):
        study.trial("mcpi", flat.ref, 0, "smoke")
