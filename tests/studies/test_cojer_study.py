"""The study of CoJER: its trial at the smallest scale, its splits, and what it calls missed."""

import math

import numpy as np
import pandas as pd
import pytest

from paperworks import datasets
from paperworks.bench.catalog import missing_distributions
from paperworks.conformal import CoJER, false_coverage_proportion
from paperworks.datasets import Table
from paperworks.studies.conformal import cojer as study
from paperworks.studies.conformal.cojer import STUDY, best_single, make_models, make_split, predict_intervals, trial

CONTENDERS = [contender for contender in STUDY.contenders if not missing_distributions(contender.requires)]
SETTINGS = STUDY.scales["smoke"].settings


@pytest.fixture
def fitted():
    split = make_split("friedman1", 1, STUDY.scales["quick"].settings)
    models = [(name, model.fit(split.X_train, split.y_train)) for name, model in make_models("fast", 0)]
    return models, split


@pytest.mark.parametrize("contender", [c.name for c in CONTENDERS])
def test_trial(contender):
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    first, second = (trial(contender, "friedman1", 1, "smoke") for _ in range(2))
    assert first == second
    np.testing.assert_array_equal(state, np.random.get_state()[1])  # noqa: NPY002
    assert set(first) == {metric.name for metric in STUDY.metrics}
    assert first["controlled"] in (0.0, 1.0)
    assert first["controlled"] == (first["fcp"] <= 0.1)
    assert 0 <= first["fcp"] <= 1
    if contender == "dkw":  # 66 calibration points are too few for that bound
        assert first["length"] == first["relative_length"] == math.inf
        assert first["fcp"] == 0
    else:
        assert 0 < first["length"] < math.inf
        assert 0 < first["relative_length"] < math.inf
        assert trial(contender, "friedman1", 2, "smoke") != first


def test_reference_is_one():
    assert trial("scp", "friedman1", 0, "smoke")["relative_length"] == 1.0


def test_unknown_contender():
    with pytest.raises(ValueError, match="unknown contender"):
        trial("oracle", "friedman1", 0, "smoke")


class TestSplit:
    @pytest.mark.parametrize(
        ("dataset", "sizes"),
        [("diabetes", (198, 98, 100)), ("friedman1", (898, 442, 100)), ("friedman1/m=500", (898, 442, 500))],
    )
    def test_sizes(self, dataset, sizes):
        split = make_split(dataset, 0, STUDY.scales["quick"].settings)
        assert (len(split.y_train), len(split.y_cal), len(split.y_test)) == sizes
        np.testing.assert_allclose(split.X_train.mean(axis=0), 0, atol=1e-9)
        np.testing.assert_allclose(split.X_train.std(axis=0), 1, atol=1e-9)

    def test_parts_are_disjoint_rows_of_the_table(self, monkeypatch):
        X = pd.DataFrame({"a": np.arange(500.0), "b": np.tile(["x", "y"], 250)})
        monkeypatch.setattr(datasets, "load", lambda name: Table(X, pd.Series(np.arange(500.0)), "y"))
        split = make_split("numbers", 0, {"m": 1000, "max_rows": 400})
        rows = np.concatenate([split.y_train, split.y_cal, split.y_test])
        assert len(set(rows)) == len(rows) == 400
        # Features and targets stay together: the first column is the row number up to shift and scale.
        for X_part, y_part in (
            (split.X_train, split.y_train),
            (split.X_cal, split.y_cal),
            (split.X_test, split.y_test),
        ):
            assert np.corrcoef(X_part[:, 0], y_part)[0, 1] == pytest.approx(1)
        assert np.isin(np.unique(make_split("numbers", 1, {"m": 50, "max_rows": 400}).y_test), np.arange(500)).all()

    def test_seeds_and_sizes_differ(self):
        settings = STUDY.scales["quick"].settings
        first = make_split("friedman1", 0, settings)
        assert (first.y_test != make_split("friedman1", 1, settings).y_test).any()
        assert (first.y_test != make_split("friedman1/m=500", 0, settings).y_test[:100]).any()
        np.testing.assert_array_equal(first.y_test, make_split("friedman1", 0, settings).y_test)

    def test_own_file_gives_the_same_from_any_place(self, monkeypatch):
        rng = np.random.default_rng(0)
        table = Table(pd.DataFrame(rng.normal(size=(100, 2)), columns=["a", "b"]), pd.Series(rng.normal(size=100)), "y")
        monkeypatch.setattr(datasets, "load", lambda name: table)
        a, b = (make_split(f"file:/{place}/m=3/t.csv?target=y", 0, SETTINGS) for place in ("here", "there"))
        np.testing.assert_array_equal(a.y_test, b.y_test)
        assert len(a.y_test) == 33

    def test_too_few_rows(self, monkeypatch):
        table = Table(pd.DataFrame({"a": np.arange(20.0)}), pd.Series(np.arange(20.0)), "y")
        monkeypatch.setattr(datasets, "load", lambda name: table)
        with pytest.raises(ValueError, match="at least 60 rows, got 20"):
            trial("cojer", "file:/tiny.csv?target=y", 0, "smoke")


class TestContenders:
    def test_bonferroni_is_the_intersection(self, fitted):
        models, split = fitted
        found = study.bonferroni(models, split, 0)
        t = math.floor(0.1 / 3 * 443 + 1e-9)
        low, high = [], []
        for _, model in models:
            residual = np.sort(np.abs(split.y_cal - model.predict(split.X_cal)))[442 - t]
            low.append(model.predict(split.X_test) - residual)
            high.append(model.predict(split.X_test) + residual)
        expected = np.column_stack([np.max(low, axis=0), np.min(high, axis=0)])
        full = expected[:, 0] <= expected[:, 1]
        np.testing.assert_allclose(found[full], expected[full])
        assert np.isnan(found[~full]).all()

    def test_twice_average_is_where_the_doubled_mean_exceeds_alpha(self, fitted):
        models, split = fitted
        intervals = predict_intervals("twice-average", models, split, 0)
        cojer = CoJER(models, prefit=True, aggregation="arithmetic").fit(split.X_cal, split.y_cal)
        width = intervals[:, 1] - intervals[:, 0]
        for shift, accepted in ((1e-6, True), (-1e-6, False)):
            for side, sign in ((0, 1), (1, -1)):
                y = intervals[:, side] + sign * shift * width
                assert ((2 * cojer.p_values(split.X_test, y) > 44 / 443) == accepted).all()

    def test_single_model_has_the_least_held_out_error(self, fitted):
        models, split = fitted
        errors = {name: ((model.predict(split.X_test) - split.y_test) ** 2).mean() for name, model in models}
        assert best_single(models, split)[0] == min(errors, key=errors.get) == "boosting"

    @pytest.mark.parametrize("peer", [c.name for c in CONTENDERS if c.name in ("mapie", "crepes")])
    def test_peers_are_split_conformal_prediction(self, fitted, peer):
        models, split = fitted
        single = best_single(models, split)
        ours = study.calibrated([single], split, 0, band="scp").predict_interval(split.X_test)
        np.testing.assert_allclose(predict_intervals(peer, models, split, 0), ours, rtol=0.03, atol=0.05)

    def test_bands_are_ordered(self, fitted):
        models, split = fitted
        intervals = {name: predict_intervals(name, models, split, 0) for name in ("scp", "cojer-exact", "cojer")}
        length = {name: np.nansum(ends[:, 1] - ends[:, 0]) for name, ends in intervals.items()}
        assert length["scp"] < length["cojer-exact"] < length["cojer"]
        assert false_coverage_proportion(intervals["cojer"], split.y_test) <= 0.1


def test_quick_runs_with_the_core_install():
    quick = STUDY.scales["quick"]
    assert all(not datasets.info(name.partition("/")[0]).requires for name in quick.datasets)
    assert all(not c.requires for c in STUDY.contenders if c.role != "peer" or c.name in ("scp", "dkw"))


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
def test_paper_scale_models_run():
    split = make_split("friedman1", 0, SETTINGS)
    models = [(name, model.fit(split.X_train, split.y_train)) for name, model in make_models("paper", 0)]
    assert len(models) == 5
    assert np.isfinite(predict_intervals("cojer-exact", models, split, 0)).all()


def test_every_dataset_is_known():
    known = set(datasets.names())
    names = {name.partition("/m=")[0] for name in STUDY.datasets}
    assert not {name for name in names if name not in known}
