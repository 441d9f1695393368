"""The study's data with their truth, and its trials at the smallest scale."""

import numpy as np
import pandas as pd
import pytest

from paperworks.bench.seeds import rng_for
from paperworks.conformal import DistortionRiskControl
from paperworks.datasets import DataError, own_file
from paperworks.studies.conformal import risk_control as study


@pytest.mark.parametrize("dataset", study.STUDY.scales["smoke"].datasets)
def test_every_contender_runs(dataset: str) -> None:
    for contender in study.STUDY.contenders:
        if contender.requires:
            pytest.importorskip("mapie")
        metrics = study.trial(contender.name, dataset, 0, "smoke")
        assert set(metrics) == {metric.name for metric in study.STUDY.metrics}
        assert metrics == study.trial(contender.name, dataset, 0, "smoke")
        assert 1 <= metrics["draws"] <= 40
        assert 0 <= metrics["abstain_rate"] <= 1
    assert study.trial("cdrc-l", dataset, 0, "smoke") != study.trial("cdrc-l", dataset, 1, "smoke")


@pytest.mark.parametrize("dataset", ["simulated", "digits"])
@pytest.mark.parametrize("target", ["cvar", "mean", "var"])
def test_truth_is_what_evaluation_of_the_population_says(dataset: str, target: str) -> None:
    prompts = study.population(dataset, 2000)
    known = study.truth(dataset, 2000, "standard", target, 50)
    control = DistortionRiskControl(**study._TARGETS[target], method="BJ", alpha=0.99, lambdas=known.lambdas)
    control.fit(prompts.machine["standard"], prompts.human)
    for k in (0, 1, 10, 40):
        control.lambda_ = -np.inf if k == 0 else known.lambdas[k - 1]
        found = control.evaluate(prompts.machine["standard"], prompts.human)
        assert known.risk[k] == pytest.approx(found["risk"], abs=1e-12)
        assert known.draws[k] == pytest.approx(found["deployment_cost"], abs=1e-9)
        assert known.abstain[k] == pytest.approx(found["abstain_rate"], abs=1e-12)


def test_alphas_cut_the_range_of_the_risk() -> None:
    for dataset in ("simulated", "digits"):
        for target, alpha in study._ALPHAS.get(dataset, study._ALPHAS["others"]).items():
            risk = study.truth(dataset, 2000, "standard", target, 50).risk
            assert risk.min() < alpha < risk.max()
            assert (np.diff(risk) >= -1e-12).all()


@pytest.mark.parametrize("dataset", ["simulated", "digits"])
def test_scorers_agree_with_people_more_and_more(dataset: str) -> None:
    prompts = study.population(dataset, 2000)
    agreement = [np.corrcoef(prompts.machine[s].ravel(), prompts.human.ravel())[0, 1] for s in study.SCORERS]
    assert agreement == sorted(agreement)
    assert agreement[-1] - agreement[0] > 0.1


def test_labels_are_drawn_from_the_root_of_the_probabilities() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=900)
    X = np.eye(3)[y] + rng.normal(scale=0.8, size=(900, 3))
    prompts = study.from_labels(X, y, 60, 240, rng)
    assert prompts.human.shape == (600, study.N_CANDIDATES)
    probabilities = 1 - prompts.machine["standard"]
    several = [np.unique(row) for row in probabilities]
    row = max(range(600), key=lambda i: several[i].size == 3)
    for p in several[row]:
        share = np.mean([np.mean(probabilities[i] == p) for i in [row]])
        assert share == pytest.approx(np.sqrt(p) / np.sqrt(several[row]).sum(), abs=0.25)
    expected, drawn = [], []
    for row_values, row_probabilities in zip(several, probabilities, strict=True):
        if row_values.size == 3:
            weights = np.sqrt(row_values) / np.sqrt(row_values).sum()
            expected.append(weights @ row_values)
            drawn.append(row_probabilities.mean())
    assert len(drawn) > 300
    assert np.mean(drawn) == pytest.approx(np.mean(expected), abs=0.01)


def test_coverage_needs_the_margin() -> None:
    """Without a margin about half of the calibrations miss; with it nearly none does."""
    shares = {
        bound: np.mean([study.trial(bound, "simulated", seed, "smoke")["coverage"] for seed in range(40)])
        for bound in ("no-margin", "cdrc-l")
    }
    assert 0.3 < shares["no-margin"] < 0.75
    assert shares["cdrc-l"] > 0.85


def test_mapie_walks_the_same_sequence() -> None:
    methods = pytest.importorskip("mapie.risk_control.methods")
    prompts = study.population("simulated", 2000)
    machine, human = prompts.machine["standard"][:300], prompts.human[:300]
    lambdas = np.linspace(0.02, 0.5, 60)
    count = study.choose(machine, human, lambdas, "mean", 0.15, "mapie", 0)
    means = [np.where(machine <= cut, human, 0).max(axis=1).mean() for cut in lambdas]
    p = methods.compute_hoeffding_bentkus_p_value(np.array(means), 300, 0.15)[:, 0]
    assert 0 < count < 60
    assert (p[:count] <= 0.05).all()
    assert p[count] > 0.05


def test_own_table_runs(tmp_path: object) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=400), "group": rng.choice(["a", "b"], 400)})
    frame["label"] = np.where(frame.x + rng.normal(size=400) > 0.3, "yes", "no")
    frame.to_csv(tmp_path / "own.csv", index=False)
    file = own_file(tmp_path / "own.csv", task="classification", target="label")
    metrics = study.trial("cdrc-l", file.ref, 0, "smoke")
    assert 0 <= metrics["gap"] <= 0.5
    frame.head(100).to_csv(tmp_path / "short.csv", index=False)
    short = own_file(tmp_path / "short.csv", task="classification", target="label")
    with pytest.raises(DataError, match="at least 200 rows"):
        study.trial("cdrc-l", short.ref, 0, "smoke")


def test_scores_of_a_language_model(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = study.score_candidates(
        ["be kind", "be rude"],
        lambda prompt, count: [prompt + "!" * i for i in range(count)],
        human=lambda texts: [min(text.count("!") / 40, 1.0) for text in texts],
        machine=lambda texts: [len(text) / 100 for text in texts],
        n_candidates=5,
    )
    assert frame.columns.tolist() == ["prompt", "machine", "human"]
    assert frame.prompt.tolist() == [0] * 5 + [1] * 5
    assert frame.human.tolist() == [i / 40 for i in range(5)] * 2
    place = tmp_path / "scores.parquet"
    monkeypatch.setattr(study, "_toxicity_file", lambda: place)
    study.population.cache_clear()
    with pytest.raises(DataError, match="prepare_toxicity"):
        study.population("toxicity", 10)
    frame.to_parquet(place)
    prompts = study.population("toxicity", 10)
    study.population.cache_clear()
    np.testing.assert_allclose(prompts.human, [np.arange(5) / 40] * 2)
    np.testing.assert_allclose(prompts.machine["standard"], [(7 + np.arange(5)) / 100] * 2)


def test_simulation_is_the_declared_law() -> None:
    prompts = study.simulate(20_000, rng_for("law"))
    # Of a Beta(a, 3) with a = 0.5 + 4 h, h ~ Beta(0.5, 3): the mean loss by numerical integration.
    h = np.random.default_rng(0).beta(0.5, 3, 2_000_000)
    assert prompts.human.mean() == pytest.approx(np.mean((0.5 + 4 * h) / (3.5 + 4 * h)), abs=0.005)
    assert prompts.human.shape == (20_000, 40)
    for scorer in study.SCORERS:
        assert 0 < prompts.machine[scorer].min() < prompts.machine[scorer].max() < 1
