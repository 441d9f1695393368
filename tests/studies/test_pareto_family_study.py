"""The study's problems and judges, and its trials at the smallest scale."""

import math

import numpy as np
import pandas as pd
import pytest

from paperworks.datasets import DataError, own_file
from paperworks.optim import ParetoFamily
from paperworks.studies.optim import pareto_family as study

PARTS = {"gaussian-2d": study._FRONT_CONTENDERS, "wine": study._REFERENCES, "digits-0-1": study._SAMPLERS}
DEFINED = {
    "gaussian-2d": {"hypervolume", "lead", "shortfall", "seconds"},
    "wine": {"worst_nll", "worst_excess"},
    "digits-0-1": {"spearman", "log_density"},
}


@pytest.mark.parametrize("dataset", study.STUDY.scales["smoke"].datasets)
def test_every_contender_runs(dataset: str) -> None:
    for contender in study.STUDY.contenders:
        for needed in contender.requires:
            pytest.importorskip({"POT": "ot"}.get(needed, needed))
        metrics = dict(study.trial(contender.name, dataset, 0, "smoke"))
        assert set(metrics) == {metric.name for metric in study.STUDY.metrics}
        defined = {name for name, value in metrics.items() if not math.isnan(value)}
        assert defined == (DEFINED[dataset] if contender.name in PARTS[dataset] else set())
        if contender.name in PARTS[dataset] and contender.name != "bures-wasserstein":
            again = dict(study.trial(contender.name, dataset, 0, "smoke"))
            for name in defined - {"seconds"}:
                assert again[name] == metrics[name]


@pytest.mark.parametrize("dataset", study.FRONTS)
def test_search_space_holds_the_targets(dataset: str) -> None:
    for seed in range(3):
        task = study.problem(dataset, seed)
        for target in task.targets:
            vector = task.pack(target)
            assert (task.low <= vector).all()
            assert (vector <= task.high).all()
            for part, own in zip(task.unpack(vector[None]), target, strict=True):
                np.testing.assert_allclose(part[0], own, atol=1e-12)
    assert not np.allclose(study.problem(dataset, 0).low, study.problem(dataset, 1).low)


def test_volumes_and_gaps_are_of_the_exact_front() -> None:
    for dataset in ("gaussian-2d", "categorical"):
        ours = study.front_metrics("pareto-family", dataset, 1, {})
        average = study.front_metrics("parameter-average", dataset, 1, {})
        assert 0.99 < ours["hypervolume"] < 1
        assert ours["lead"] < 1e-12
        assert ours["shortfall"] < 1e-9
        assert average["hypervolume"] < ours["hypervolume"] - 1e-3
        assert average["shortfall"] > 1e-3
    few = study.front_metrics("pareto-family-100", "gaussian-2d", 1, {})
    assert 0.98 < few["hypervolume"] < study.front_metrics("pareto-family", "gaussian-2d", 1, {})["hypervolume"]
    sums = study.front_metrics("weighted-sum-bfgs", "gaussian-2d", 1, {"n_sums": 5})
    assert sums["shortfall"] < 1e-6  # BFGS finds the closed form's points


def test_lead_sees_a_dominating_point(monkeypatch: pytest.MonkeyPatch) -> None:
    """A front pushed away from the targets is dominated, and the metric says by how much."""
    pareto, front, reference, exact = study.yardstick("gaussian-2d", 2)
    monkeypatch.setattr(study, "yardstick", lambda *_: (pareto, front + 0.01, reference, exact))
    assert study.front_metrics("pareto-family-100", "gaussian-2d", 2, {})["lead"] == pytest.approx(0.01, rel=1e-3)


def test_pooled_reference_is_the_gaussian_of_all_rows() -> None:
    rng = np.random.default_rng(0)
    train = [rng.normal(size=(n, 3)) * s + s for n, s in ((40, 1.0), (20, 2.0), (10, 0.5))]
    test = [rng.normal(size=(30, 3)) * s + s for s in (1.0, 2.0, 0.5)]
    pooled = np.concatenate(train)
    own_scale = [(rows - pooled.mean(axis=0)) / pooled.std(axis=0) for rows in test]
    # standardised, all rows have mean 0 and variance 1; the regularisation adds 1e-3
    nll = [(np.log(2 * np.pi * 1.001) + rows**2 / 1.001).sum(axis=1).mean() / 2 for rows in own_scale]
    got, _ = study.worst_class("pooled", train, test)
    assert got == pytest.approx(max(nll), rel=1e-9)


def test_min_max_balances_the_training_classes() -> None:
    X, y = study.class_rows("wine")
    train = [X[y == k] for k in range(3)]
    assert [len(rows) for rows in train] == [59, 71, 48]
    excess = {name: study.worst_class(name, train, train)[1] for name in study._REFERENCES}
    assert excess["minimax"] == min(excess.values())
    nll = {name: study.worst_class(name, train, train)[0] for name in study._REFERENCES}
    assert nll["minimax-nll"] == min(nll.values())


def test_judges_know_the_classes() -> None:
    pytest.importorskip("torch")
    found = study.trained("digits-0-1", 0, 2)
    assert found.classify(found.train[0]).mean() < 0.03
    assert found.classify(found.train[1]).mean() > 0.97
    noise = np.random.default_rng(0).random(found.train[0].shape)
    assert found.log_density(found.train[0]).mean() > found.log_density(noise).mean() + 10


def test_own_table_runs(tmp_path: object) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=120), "group": rng.choice(["a", "b"], 120)})
    frame["label"] = np.where(rng.random(120) < 0.3, "yes", "no")
    frame.loc[frame.label == "yes", "x"] += 3
    frame.loc[:3, "label"] = "rare"
    frame.to_csv(tmp_path / "own.csv", index=False)
    file = own_file(tmp_path / "own.csv", task="classification", target="label")
    found = {name: study.trial(name, file.ref, 0, "smoke")["worst_excess"] for name in ("minimax", "pooled")}
    assert found["minimax"] < found["pooled"]
    frame.head(14).to_csv(tmp_path / "short.csv", index=False)
    short = own_file(tmp_path / "short.csv", task="classification", target="label")
    with pytest.raises(DataError, match="at least 2 classes"):
        study.trial("minimax", short.ref, 0, "smoke")


def test_mixture_weights_match_pareto_family() -> None:
    """The fitted problem is the declared one."""
    for dataset, (family, divergence, _, m) in study.FRONTS.items():
        pareto = study.fitted(dataset, 0)
        assert isinstance(pareto, ParetoFamily)
        assert (pareto.family, pareto.divergence, pareto.n_targets_) == (family, divergence, m)
