"""The study's histories and targets with their truth, and its trials at the smallest scale."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from paperworks.bench.catalog import missing_distributions
from paperworks.causal import tumour_cohort
from paperworks.datasets import DataError
from paperworks.studies.causal import vcip as study

STUDY = study.STUDY


def test_the_declaration_needs_no_heavy_import() -> None:
    code = (
        "import sys, paperworks.studies.causal.vcip; "
        "print(sorted({'torch', 'sklearn', 'pandas', 'scipy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("dataset", STUDY.scales["smoke"].datasets)
def test_every_contender_runs(dataset: str) -> None:
    assert not any(missing_distributions(contender.requires) for contender in STUDY.contenders)
    for contender in STUDY.contenders:
        metrics = study.trial(contender.name, dataset, 0, "smoke")
        assert set(metrics) == {metric.name for metric in STUDY.metrics}
        assert np.isfinite(list(metrics.values())).all()
        assert 0 <= metrics["grp"] <= 1
        assert metrics["grp"] == pytest.approx(np.mean([metrics[f"grp-{tau}"] for tau in study.TAUS]))
        assert metrics["target-distance"] >= 0


@pytest.mark.parametrize("contender", ["behaviour", "random", "boosted-trees"])
def test_trials_are_repeatable(contender: str) -> None:
    first = study.trial(contender, "gamma-4", 1, "smoke")
    study.problem_of.cache_clear()
    assert study.trial(contender, "gamma-4", 1, "smoke") == first
    assert study.trial(contender, "gamma-4", 2, "smoke") != first


def test_truth_is_the_simulator_and_histories_end_where_plans_begin() -> None:
    problem = study.problem_of("gamma-4", 3, "smoke")
    test = tumour_cohort(8, gamma=4.0, random_state=study.seed_for("test", "gamma-4", 3))
    mask = problem.history["mask"]
    ends = mask.sum(axis=1) - 1
    assert len(set(ends.tolist())) > 2, "lengths differ"
    assert ends.min() >= study.SHORTEST
    for i, end in enumerate(ends):
        np.testing.assert_array_equal(problem.after[i], test.actions[i, end : end + 6])
        np.testing.assert_array_equal(problem.later[i], test.outcomes[i, end + 1 : end + 7, 0])
        np.testing.assert_array_equal(problem.history["outcomes"][i, : end + 1], test.outcomes[i, : end + 1])
        np.testing.assert_array_equal(problem.history["actions"][i, :end], test.actions[i, :end])
        assert np.isnan(problem.history["outcomes"][i, end + 1 :]).all()
        assert (problem.history["actions"][i, end:] == 0).all()
    assert problem.truth is not None
    given = problem.after[None, :, :2]
    found = problem.truth(np.concatenate([given, np.zeros_like(given)]))
    # what was given leads to what was seen, up to noise of 1 % a day; nothing leads to more
    np.testing.assert_allclose(found[0], problem.later[:, 1], rtol=0.08)
    assert (found[1] >= found[0]).all()


def test_perfect_scores_win_everything() -> None:
    problem = study.problem_of("gamma-4", 0, "smoke")
    truth = problem.truth
    assert truth is not None

    def oracle(candidates: np.ndarray, target: np.ndarray) -> np.ndarray:
        return np.abs(truth(candidates) - target)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study, "fitted", lambda *_: (oracle, lambda target, tau: problem.after[:, :tau]))
        metrics = study.trial("vcip", "gamma-4", 0, "smoke")
    assert metrics["off-grp"] == 1.0
    assert metrics["off-rcs"] == pytest.approx(1.0)
    assert metrics["rcs"] == pytest.approx(1.0)
    assert metrics["off-best-distance"] == pytest.approx(0.0, abs=1e-9)
    assert metrics["grp"] > 0.8  # the observed outcome holds noise that the truth doesn't
    assert metrics["target-distance"] < metrics["off-target-distance"]


def test_equal_scores_have_no_correlation_and_equal_truths_are_left_out() -> None:
    scores = np.array([[1.0, 1, 1], [2, 1, 2], [3, 1, 3]])
    distances = np.array([[1.0, 1, 5], [2, 2, 5], [4, 3, 5]])
    assert study.mean_correlation(scores, distances) == pytest.approx(0.5)
    assert np.isnan(study.mean_correlation(scores, np.ones((3, 3))))


def test_gaps_hide_what_they_say() -> None:
    train = study.problem_of(study.GAPS, 0, "smoke").train
    mask, hidden = train["mask"], np.isnan(train["outcomes"][:, :, 0])
    np.testing.assert_array_equal(mask, ~hidden)
    last = mask.shape[1] - 1 - mask[:, ::-1].argmax(axis=1)
    inside = np.arange(mask.shape[1]) < last[:, None]
    assert mask[inside].mean() == pytest.approx(0.8, abs=0.05)
    unknown = np.isnan(train["actions"]).any(axis=2)
    assert not (unknown & mask[:, :-1]).any()
    assert unknown[inside[:, :-1] & ~mask[:, :-1]].mean() == pytest.approx(0.5, abs=0.1)


def hourly(n: int = 40, hours: int = 40) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    rows = []
    for stay in range(n):
        pressure = 60.0
        for hour in range(int(rng.integers(32, hours))):
            vaso, vent = float(pressure < 58), float(rng.random() < 0.5)
            seen = np.nan if rng.random() < 0.05 else pressure
            rows.append((1000 + stay, hour, seen, vaso, vent, np.nan if hour % 3 else 80 + rng.normal()))
            pressure += 4 * vaso - 1.5 + rng.normal()
    return pd.DataFrame(rows, columns=["stay", "hour", "outcome", "vaso", "vent", "heart rate"])


def test_hourly_records_are_read(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "hours.parquet"  # type: ignore[operator]
    monkeypatch.setattr(study, "_mimic_file", lambda: place)
    with pytest.raises(DataError, match="prepare_mimic"):
        study.mimic_problem(0)
    frame = hourly()
    frame.sample(frac=1.0, random_state=0).to_parquet(place)
    data = study.from_hours(frame)
    first = frame[frame.stay == 1000]
    np.testing.assert_array_equal(data["outcomes"][0, : len(first), 0], first.outcome)
    np.testing.assert_array_equal(data["actions"][0, : len(first), 0], first.vaso[: data["actions"].shape[1]])
    np.testing.assert_array_equal(data["mask"][0, : len(first)], first.outcome.notna())
    np.testing.assert_array_equal(data["covariates"][0, : len(first), 0], first["heart rate"].ffill())
    study.problem_of.cache_clear()
    metrics = study.trial("behaviour", study.MIMIC, 0, "smoke")
    assert 0 < metrics["grp"] < 1
    assert np.isnan(metrics["rcs"])
    trees = study.trial("boosted-trees", study.MIMIC, 0, "smoke")
    assert 0 < trees["grp"] < 1
    study.problem_of.cache_clear()
