"""The study of amortised item response theory: its banks, what it hides, and its contenders at the smallest scale."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from paperworks.bench.catalog import missing_distributions
from paperworks.datasets import DataError, own_file
from paperworks.studies.evaluate import amortized_irt as study
from paperworks.studies.evaluate.amortized_irt import (
    STUDY,
    Bank,
    calibrate,
    load_bank,
    make_holes,
    simulate,
    trial,
)

CONTENDERS = [c.name for c in STUDY.contenders if not missing_distributions(c.requires)]
ADAPTIVE = ("adaptive", "random-items", "catsim")
SETTINGS = STUDY.scales["smoke"].settings


@pytest.fixture
def helm_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(study, "_helm_folder", lambda: tmp_path / "helm")
    load_bank.cache_clear()
    return tmp_path / "helm"


@pytest.mark.parametrize("contender", CONTENDERS)
def test_trial(contender: str) -> None:
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    first, second = (trial(contender, "synthetic", 1, "smoke") for _ in range(2))
    np.testing.assert_equal(first, second)
    np.testing.assert_array_equal(state, np.random.get_state()[1])  # noqa: NPY002
    assert set(first) == {metric.name for metric in STUDY.metrics}
    if contender in ADAPTIVE:
        assert first["items_to_reliability"] >= 2
        assert 0 < first["ability_rmse"] < 2
        assert math.isnan(first["auc_cells"])
    else:
        assert 0.3 < first["auc_cells"] <= 1
        assert -1 <= first["ability_correlation"] <= 1
        assert math.isnan(first["ability_rmse"])


def test_small_banks_have_no_adaptive_test() -> None:
    assert all(math.isnan(value) for value in trial("adaptive", "wine", 0, "quick").values())


def test_unknown_contender() -> None:
    with pytest.raises(ValueError, match="unknown contender"):
        trial("oracle", "synthetic", 0, "smoke")


@pytest.mark.parametrize("dataset", ["wine", "synthetic"])
def test_holes_are_disjoint_and_hide_what_they_should(dataset: str) -> None:
    bank = load_bank(dataset, 0, "quick")
    holes = make_holes(bank, dataset, 0)
    parts = np.stack([holes.seen, holes.extra, holes.test, holes.new])
    assert parts.sum(axis=0).max() == 1
    new = (holes.extra | holes.new).any(axis=0)
    assert new.sum() == bank.Y.shape[1] // 5
    assert not holes.seen[:, new].any()
    assert holes.seen.any(axis=1).all()
    assert holes.seen[:, ~new].any(axis=0).all()
    assert holes.extra[:, new].any(axis=0).all()
    if dataset == "wine":
        size = min(50, int((~new).sum()) // 4)
        assert (holes.seen[holes.subset].sum(axis=1) == size).all()
        share = bank.Y.mean(axis=0)
        means = [share[row].mean() for row in holes.seen[holes.subset]]
        assert min(means[::2]) > max(means[1::2])  # easiest, hardest, in turns
        assert not holes.new[holes.subset].any()
        assert not holes.test[holes.subset].any()
    else:
        seen_difficulty = np.array([-bank.Y.mean(axis=0)[row].mean() for row in holes.seen])
        assert np.corrcoef(seen_difficulty, bank.ability)[0, 1] > 0.7


def test_content_methods_see_no_answer_to_new_items() -> None:
    bank = load_bank("synthetic", 0, "smoke")
    holes = make_holes(bank, "synthetic", 0)
    scrambled = bank._replace(Y=np.where(holes.seen, bank.Y, 1 - bank.Y))
    for contender in ("amortized", "amortized-two-stage", "taker-mean"):
        first, second = (calibrate(contender, each, holes, 0, SETTINGS) for each in (bank, scrambled))
        np.testing.assert_array_equal(first[0], second[0])
    first, second = (calibrate("rasch-mml", each, holes, 0, SETTINGS) for each in (bank, scrambled))
    assert not np.array_equal(first[0], second[0])


def test_a_calibration_sees_only_its_cells() -> None:
    bank = load_bank("synthetic", 0, "smoke")
    holes = make_holes(bank, "synthetic", 0)
    known = holes.seen | holes.extra
    scrambled = bank._replace(Y=np.where(known, bank.Y, 1 - bank.Y))
    for contender in CONTENDERS:
        if contender not in (*ADAPTIVE, "py-irt"):
            first, second = (calibrate(contender, each, holes, 0, SETTINGS) for each in (bank, scrambled))
            np.testing.assert_array_equal(first[0], second[0])


def test_the_simulation_is_what_it_says() -> None:
    bank = simulate(400, 50, 2000, np.random.default_rng(0))
    assert bank.Y.shape == (400, 2000)
    assert bank.Y_tested.shape == (50, 2000)
    assert abs(bank.ability.mean()) < 0.15
    logits = -np.log(1 / bank.Y.mean(axis=0).clip(0.002, 0.998) - 1)
    weights = np.linalg.lstsq(np.column_stack([bank.content, np.ones(2000)]), -logits, rcond=None)[0]
    explained = np.corrcoef(bank.content @ weights[:-1], -logits)[0, 1] ** 2
    assert 0.6 < explained < 0.8


def test_banks_of_labelled_data() -> None:
    bank = load_bank("wine", 3, "quick")
    assert bank.Y.shape == (60, 89)
    assert bank.Y_tested.shape == (40, 89)
    assert bank.content.shape == (89, 13 + 3)
    assert set(np.unique(bank.Y)) == {0.0, 1.0}
    assert 0.5 < bank.Y.mean() < 0.98
    assert np.ptp(bank.ability) > 0.1
    assert not np.array_equal(bank.Y, load_bank("wine", 4, "quick").Y)


def test_an_own_table(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=200), "b": rng.choice(["x", "y"], 200), "c": rng.normal(size=200)})
    frame["label"] = np.where(frame["a"] + (frame["b"] == "x") + 0.3 * rng.normal(size=200) > 0.5, "good", "bad")
    frame.to_csv(tmp_path / "rows.csv", index=False)
    own = own_file(tmp_path / "rows.csv", task="classification", target="label")
    found = trial("rasch-mml", own.ref, 0, "smoke")
    assert 0.4 < found["auc_cells"] <= 1
    frame.head(50).to_csv(tmp_path / "few.csv", index=False)
    few = own_file(tmp_path / "few.csv", task="classification", target="label")
    with pytest.raises(DataError, match="at least 120 rows"):
        trial("rasch-mml", few.ref, 0, "smoke")


def test_helm_responses_are_written_and_read(helm_folder: Path) -> None:
    rng = np.random.default_rng(0)
    ability, difficulty = rng.normal(size=20), rng.normal(size=30)
    rows = [
        {
            "request.model": f"model-{i}",
            "input.text": f"question {j:02d}",
            "scenario": scenario,
            "dicho_score": float(rng.random() < 1 / (1 + np.exp(difficulty[j] - ability[i]))),
        }
        for scenario in ("imdb", "bbq")
        for i in range(20)
        for j in range(30)
        if rng.random() < 0.9
    ]
    long = pd.DataFrame([*rows, {**rows[0], "scenario": "tiny"}])

    def embed(texts: list[str]) -> np.ndarray:
        return np.array([[len(text), int(text[-2:])] for text in texts], dtype=np.float32)

    with pytest.raises(DataError, match="prepare_helm"):
        trial("rasch-mml", "helm/imdb", 0, "smoke")
    assert study.write_helm(long, embed, min_partners=5) == str(helm_folder)
    assert {place.name.split("-")[0] for place in helm_folder.iterdir()} == {"imdb", "bbq"}
    bank = load_bank("helm/imdb", 0, "smoke")
    assert bank.Y.shape[0] + bank.Y_tested.shape[0] == 20
    assert np.isnan(bank.Y).any()
    assert bank.content.shape == (bank.Y.shape[1], 2)
    for contender in ("rasch-mml", "amortized", "taker-mean", "item-mean"):
        assert 0.3 < trial(contender, "helm/imdb", 0, "smoke")["auc_cells"] < 1
    needed, error = study.replay("adaptive", bank, 0, {**SETTINGS, "max_asked": 60})
    assert needed > 1
    assert math.isnan(error)  # fewer than 50 items


def test_replayed_tests_find_the_truth() -> None:
    bank = simulate(150, 30, 300, np.random.default_rng(1))
    settings = {**SETTINGS, "max_asked": 200}
    adaptive, random = (study.replay(name, bank, 0, settings) for name in ("adaptive", "random-items"))
    assert 30 < adaptive[0] < random[0]
    assert adaptive[1] < 0.5
    blind = Bank(bank.Y, bank.content, bank.ability, np.zeros_like(bank.Y_tested), bank.ability_tested)
    assert study.replay("adaptive", blind, 0, settings)[1] > 2
