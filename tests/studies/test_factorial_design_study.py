"""The study's experiments: contenders see the same, respect the constraints, and its risks are what they say."""

import math

import numpy as np
import pandas as pd
import pytest

from paperworks.causal import FactorialDesign
from paperworks.datasets import DataError, own_file
from paperworks.studies.causal import factorial_design as study

CONTENDERS = [contender.name for contender in study.STUDY.contenders]


@pytest.mark.parametrize("dataset", study.STUDY.scales["smoke"].datasets)
def test_every_contender_runs(dataset: str) -> None:
    problem = study.PROBLEMS.get(dataset, study.Problem(10, 2, 300))
    for contender in CONTENDERS:
        if contender == "fracfact" and problem.words:
            pytest.importorskip("pydoe")
        metrics = study.trial(contender, dataset, 0, "smoke")
        assert set(metrics) == {metric.name for metric in study.STUDY.metrics}
        if not study._applies(contender, problem):
            assert all(math.isnan(value) for value in metrics.values())
            continue
        assert metrics == pytest.approx(study.trial(contender, dataset, 0, "smoke"), rel=0, abs=0, nan_ok=True)
        assert metrics["squared_error"] > 0
        assert metrics["squared_error"] != study.trial(contender, dataset, 1, "smoke")["squared_error"]
        if problem.true_order is None:
            assert 0 < metrics["risk"] < metrics["ols_risk"]
        else:
            assert math.isnan(metrics["risk"])


@pytest.mark.parametrize("name", study.SUPPLY)
@pytest.mark.parametrize("contender", ["passive", "off-0.1", "random"])
def test_supply_is_kept(name: str, contender: str) -> None:
    problem = study.PROBLEMS[name]
    for seed in range(20):
        dose = study._dose(contender, problem, FactorialDesign(problem.p, 2), ("x", seed, 0, 0))
        assert dose.sum() == pytest.approx(2.0)
        assert ((dose >= 0) & (dose <= 1)).all()


@pytest.mark.parametrize("distance", [0.1, 0.2, 0.4])
def test_distance_is_what_the_name_says(distance: float) -> None:
    for name, problem in study.PROBLEMS.items():
        if study._applies(f"off-{distance}", problem):
            design = FactorialDesign(problem.p, problem.order)
            dose = study._dose(f"off-{distance}", problem, design, (name, 0, 0, 0))
            gap = np.abs(dose - design.passive(supply=problem.supply)).max()
            assert gap == pytest.approx(distance)


def test_risk_is_the_mean_error_of_ridge_over_truths() -> None:
    """Units fixed, coefficients of mean square 1/3: the error averages to the risk."""
    rng = np.random.default_rng(0)
    design = FactorialDesign(4, 1, ridge=12.0, noise_std=2.0, random_state=0)  # lambda = sigma^2 / (1/3)
    units = design.assign(np.full(4, 0.4), 12)
    Z = design.features(units)
    risk = 4.0 * (1 / (np.linalg.eigvalsh(Z.T @ Z) + 12.0)).sum()
    errors = []
    for _ in range(3000):
        coef = rng.uniform(-1, 1, 5)
        fresh = FactorialDesign(4, 1, ridge=12.0, noise_std=2.0)
        fresh.update(units, Z @ coef + 2.0 * rng.normal(size=12)).fit()
        errors.append(((fresh.coef_ - coef) ** 2).sum())
    assert np.mean(errors) == pytest.approx(risk, rel=0.03)


def test_contenders_share_truth_and_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same treatments give the same error, whoever chose them."""
    problem = study.PROBLEMS["many-rounds-5"]
    coef = np.arange(6.0)
    fixed = [(np.random.default_rng(i).random((16, 5)) < 0.5).astype(int) for i in range(10)]
    monkeypatch.setattr(study, "_units", lambda contender, problem, design, part: iter(fixed))
    first, second = (study._experiment(name, problem, coef, 1.0, ("x", 0, 0), 2) for name in ("passive", "random"))
    assert first == second


def test_every_applicable_pair_of_a_claim_has_values() -> None:
    """A claim on named data sets never meets a subject that is undefined there."""
    for claim in study.STUDY.claims:
        for name in claim.datasets or study.PROBLEMS:
            problem = study.PROBLEMS[name]
            assert study._applies(claim.subject, problem)
            if isinstance(claim.against, str):
                assert study._applies(claim.against, problem)
            if claim.metric != "squared_error":
                assert problem.true_order is None


def table(tmp_path, n: int, columns: int = 4):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(n, columns)), columns=[f"größe {i}" for i in range(columns)])
    frame["y"] = (frame.iloc[:, 0] > 0) * 2.0 + rng.normal(scale=0.5, size=n)
    path = tmp_path / "own.csv"
    frame.to_csv(path, index=False)
    return own_file(path, task="regression", target="y").ref


def test_own_table(tmp_path) -> None:
    ref = table(tmp_path, 400)
    problem, coef = study._from_table(ref)
    assert (problem.p, problem.order) == (4, 2)
    assert int(np.abs(coef).argmax()) == 1
    assert 0.2 < problem.sigma < 0.7
    metrics = {name: study.trial(name, ref, 0, "smoke") for name in CONTENDERS}
    assert metrics["passive"]["risk"] < metrics["off-0.4"]["risk"]
    assert math.isnan(metrics["active"]["risk"])


@pytest.mark.parametrize(("n", "columns", "message"), [(20, 4, "more than 22 rows"), (50, 2, "at least 3 columns")])
def test_small_tables_are_refused(tmp_path, n: int, columns: int, message: str) -> None:
    with pytest.raises(DataError, match=message):
        study._from_table(table(tmp_path, n, columns))
