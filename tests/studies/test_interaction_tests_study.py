"""The study's laws are what they are called, and its trials run at the smallest scale."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest

from paperworks.bench.seeds import rng_for
from paperworks.datasets import DataError, own_file
from paperworks.studies.causal import interaction_tests as study

SMOKE = study.STUDY.scales["smoke"]


def run(contender: str, dataset: str, seed: int = 0) -> dict[str, float]:
    metrics = dict(study.trial(contender, dataset, seed, "smoke"))
    metrics.pop("seconds")
    return metrics


@pytest.mark.parametrize("dataset", SMOKE.datasets)
def test_every_contender_runs_and_repeats_itself(dataset: str) -> None:
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    for contender in study.STUDY.contenders:
        if contender.requires:
            pytest.importorskip("hyppo")
        metrics = study.trial(contender.name, dataset, 0, "smoke")
        assert set(metrics) == {metric.name for metric in study.STUDY.metrics}
        ran = dataset in study.ONLY_ON.get(contender.name, SMOKE.datasets)
        assert math.isfinite(metrics["right"]) == math.isfinite(metrics["seconds"]) == ran
        assert all(0 <= rate <= 1 for rate in (metrics["right"], metrics["shuffled"]) if math.isfinite(rate))
        np.testing.assert_equal(run(contender.name, dataset), run(contender.name, dataset))
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002


def test_seeds_differ() -> None:
    assert len({tuple(run("joint", "weak-pairs", seed).values()) for seed in range(4)}) > 1


def test_right_turns_round_where_the_null_hypothesis_holds() -> None:
    assert run("lancaster", "two-pairs")["right"] == 0.0  # rejects two independent pairs, wrongly for this question
    assert run("joint", "two-pairs")["right"] == 1.0  # rejects them, rightly for that one
    assert run("streitberg", "two-pairs")["right"] >= 0.7
    assert run("streitberg", "v-structure")["right"] >= 0.7


def correlation(dataset: str) -> np.ndarray:
    return np.corrcoef(study.draw(dataset, 20_000, rng_for("law", dataset)))


@pytest.mark.parametrize(
    ("dataset", "dependent"),
    [
        ("two-pairs", {(0, 1), (2, 3)}),
        ("weak-pairs", {(0, 1), (2, 3)}),
        ("one-and-three", {(1, 2), (1, 3), (2, 3)}),
        ("one-and-xor", set()),
        ("xor-4", set()),
        ("xor-5", set()),
        ("v-structure", set()),
    ],
)
def test_pairs_of_a_law_are_dependent_where_they_should_be(dataset: str, dependent: set[tuple[int, int]]) -> None:
    found = correlation(dataset)
    for pair in itertools.combinations(range(len(found)), 2):
        assert (abs(found[pair]) > 0.05) == (pair in dependent)


@pytest.mark.parametrize(("dataset", "members"), [("one-and-xor", [1, 2, 3]), ("xor-4", [0, 1, 2, 3])])
def test_exclusive_or_shows_as_a_phase(dataset: str, members: list[int]) -> None:
    """The sum of the others minus the last variable, turned round the circle, is concentrated."""
    *others, last = (study.draw(dataset, 20_000, rng_for("law", dataset))[i] for i in members)
    share = {"one-and-xor": 1.0, "xor-4": 0.6}[dataset]
    assert abs(np.exp(2j * np.pi * (sum(others) - last)).mean()) == pytest.approx(share, abs=0.02)
    assert abs(np.exp(2j * np.pi * (others[0] - last)).mean()) < 0.02


def test_permutation_peer_rejects_interactions_and_nothing_else() -> None:
    settings = {"permutations_per_split": 39}
    for dataset, rejected in (("xor-4", True), ("v-structure", True), ("two-pairs", False), ("one-and-xor", False)):
        sample = study.draw(dataset, 150, rng_for("peer", dataset, 0))
        assert study.TESTS["permutation-streitberg"](sample, 0, settings) == rejected


def test_ablation_is_more_timid_than_the_method() -> None:
    """Its standard error is too large, so that it rejects only if the method does (for four normal variables)."""
    decisions = np.array(
        [
            [study.TESTS[name](study.draw("weak-pairs", 80, rng_for("timid", seed)), seed, {}) for seed in range(40)]
            for name in ("joint", "no-influence")
        ]
    )
    assert decisions[0].sum() >= decisions[1].sum() > 0


def test_runs_on_a_file_of_the_users(tmp_path) -> None:
    rng = np.random.default_rng(0)
    a = rng.normal(size=150)
    frame = pd.DataFrame(
        {
            "prix (€)": a,
            "copy": a + 0.1 * rng.normal(size=150),
            "job": rng.choice(["x", "y", "z"], 150),
            "flag": rng.random(150) < 0.4,
            "constant": 1,
        }
    )
    frame.loc[3, "copy"] = np.nan
    frame.to_csv(tmp_path / "mine.csv", index=False)
    ref = own_file(tmp_path / "mine.csv", task="none").ref
    for contender in study.STUDY.contenders:
        if contender.requires:
            pytest.importorskip("hyppo")
        metrics = study.trial(contender.name, ref, 0, "smoke")
        assert 0 <= metrics["right"] <= 1
    assert study.trial("joint", ref, 0, "smoke")["shuffled"] <= 0.5


@pytest.mark.parametrize(("rows", "message"), [(30, "at least 40 rows"), (60, "at least 3 columns that vary, got 2")])
def test_a_table_that_is_too_small_is_named(tmp_path, rows: int, message: str) -> None:
    rng = np.random.default_rng(0)
    pd.DataFrame(rng.normal(size=(rows, 2)), columns=["a", "b"]).to_csv(tmp_path / "small.csv", index=False)
    ref = own_file(tmp_path / "small.csv", task="none").ref
    with pytest.raises(DataError, match=message):
        study.trial("joint", ref, 0, "smoke")
