"""The CoJER estimator: what it promises, how it treats data and models, and what it refuses."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.compose import make_column_transformer
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import RandomForestRegressor
from sklearn.exceptions import DataConversionWarning, NotFittedError
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils.estimator_checks import parametrize_with_checks

from paperworks.conformal import CoJER, cojer_threshold, false_coverage_proportion


class Column(RegressorMixin, BaseEstimator):
    """Predict one column of X."""

    def __init__(self, column=0):
        self.column = column

    def fit(self, X, y):
        self.fitted_ = True
        return self

    def predict(self, X):
        return X[:, self.column]


def columns(count):
    return [(f"column{j}", Column(j).fit(None, None)) for j in range(count)]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(700, 3))
    y = X @ [1.0, -2.0, 0.5] + np.sin(3 * X[:, 0]) + 0.3 * rng.normal(size=700)
    return X, y


MODELS = [("ridge", Ridge()), ("knn", KNeighborsRegressor())]


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(
    [
        CoJER(LinearRegression()),
        CoJER([("linear", LinearRegression()), ("dummy", Ridge())], calibration="split", band="exact"),
        CoJER(MODELS[:1], calibration="independent", random_state=0),
    ]
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks([CoJER()])
def test_scikit_learn_contract_of_the_default(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings("ignore:.*sets are empty:UserWarning")
class TestIntervals:
    @pytest.mark.parametrize("band", ["scp", "exact", "dkw", "jer"])
    def test_one_model(self, data, band):
        X, y = data
        model = Ridge().fit(X[:200], y[:200])
        cojer = CoJER(model, prefit=True, band=band, alpha=0.2, delta=0.2, random_state=0).fit(X[200:500], y[200:500])
        intervals = cojer.predict_interval(X[500:])
        t, n = cojer.threshold_, 300
        assert cojer.n_cal_ == n
        assert t == cojer.threshold_
        assert cojer.alpha_hat_ == t / (n + 1)
        assert cojer.n_empty_ == 0
        residuals = np.sort(np.abs(y[200:500] - model.predict(X[200:500])))
        np.testing.assert_array_equal(cojer.residuals_, residuals[None])
        f = model.predict(X[500:])
        np.testing.assert_array_equal(intervals, np.column_stack([f - residuals[n - t], f + residuals[n - t]]))
        if band != "jer":
            assert t == cojer_threshold(n, 200, 0.2, 0.2, band=band)

    def test_bands_are_ordered(self, data):
        X, y = data
        length = {}
        for band in ("scp", "exact", "jer", "dkw"):
            cojer = CoJER(MODELS, band=band, alpha=0.2, delta=0.2, random_state=1).fit(X[:500], y[:500])
            length[band] = np.nansum(np.diff(cojer.predict_interval(X[500:]), axis=1))  # an empty set has length 0
        assert length["scp"] < length["exact"] < length["jer"] < length["dkw"] < np.inf

    @pytest.mark.parametrize("aggregation", ["harmonic", "arithmetic", "geometric"])
    def test_copies_of_a_model_change_nothing(self, data, aggregation):
        X, y = data
        model = RandomForestRegressor(10, random_state=0).fit(X[:200], y[:200])
        kwargs = {"prefit": True, "aggregation": aggregation, "band": "exact"}
        one = CoJER(model, **kwargs).fit(X[200:500], y[200:500])
        three = CoJER([(str(i), model) for i in range(3)], **kwargs).fit(X[200:500], y[200:500])
        np.testing.assert_array_equal(three.predict_interval(X[500:]), one.predict_interval(X[500:]))
        np.testing.assert_allclose(three.p_values(X[500:], y[500:]), one.p_values(X[500:], y[500:]), rtol=1e-12)

    @pytest.mark.parametrize("aggregation", ["harmonic", "arithmetic", "geometric", "quantile"])
    @pytest.mark.parametrize("calibration", ["plain", "independent", "split"])
    def test_sets_are_where_the_p_value_is_large(self, data, aggregation, calibration):
        X, y = data
        cojer = CoJER(MODELS, aggregation=aggregation, calibration=calibration, alpha=0.3, random_state=0)
        cojer.fit(X[:500], y[:500])
        unions = cojer.predict_interval(X[500:], return_union=True)
        rng = np.random.default_rng(0)
        for _ in range(5):
            labels = y[500:] + 2 * rng.normal(size=200)
            member = np.array([((u[:, 0] <= v) & (v <= u[:, 1])).any() for u, v in zip(unions, labels, strict=True)])
            np.testing.assert_array_equal(member, cojer.p_values(X[500:], labels) > cojer.alpha_hat_)
            assert 0.05 < member.mean() < 0.98

    def test_p_values_of_one_model(self, data):
        X, y = data
        cojer = CoJER(Ridge(), random_state=0).fit(X[:500], y[:500])
        scores = np.abs(y[500:] - cojer.predict(X[500:]))
        expected = (1 + (cojer.residuals_[0][None] >= scores[:, None]).sum(axis=1)) / (cojer.n_cal_ + 1)
        np.testing.assert_array_equal(cojer.p_values(X[500:], y[500:]), expected)

    def test_empty_sets_are_said_and_miss(self):
        X_cal, X = np.zeros((50, 2)), np.array([[0.0, 1000.0], [0.0, 0.1]])
        cojer = CoJER(columns(2), prefit=True, band="scp").fit(X_cal, np.linspace(0, 1, 50))
        with pytest.warns(UserWarning, match="1 of 2 prediction sets are empty"):
            intervals = cojer.predict_interval(X)
        assert cojer.n_empty_ == 1
        assert np.isnan(intervals[0]).all()
        assert np.isfinite(intervals[1]).all()
        assert false_coverage_proportion(intervals, [0.0, 0.0]) == 0.5
        with pytest.warns(UserWarning, match="empty"):
            unions = cojer.predict_interval(X, return_union=True)
        assert [len(u) for u in unions] == [0, 1]

    def test_predict_is_the_mean_and_score_its_r2(self, data):
        X, y = data
        cojer = CoJER(MODELS, random_state=0).fit(X[:500], y[:500])
        mean = np.mean([model.predict(X[500:]) for model in cojer.estimators_], axis=0)
        np.testing.assert_allclose(cojer.predict(X[500:]), mean)
        residual = ((y[500:] - mean) ** 2).sum() / ((y[500:] - y[500:].mean()) ** 2).sum()
        assert cojer.score(X[500:], y[500:]) == pytest.approx(1 - residual)


class TestGuarantee:
    """Independent simulations: calibration and test data anew each time."""

    @staticmethod
    def share_exceeding(cojer, draw, alpha, runs, m):
        bad = 0
        for _ in range(runs):
            X, y = draw()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                intervals = cojer.fit(X[:-m], y[:-m]).predict_interval(X[-m:])
            bad += false_coverage_proportion(intervals, y[-m:]) > alpha
        return bad / runs

    def test_one_model(self):
        rng = np.random.default_rng(0)

        def draw():
            return np.zeros((200, 1)), rng.standard_t(3, size=200)

        kwargs = {"prefit": True, "alpha": 0.1, "delta": 0.2}
        exact = self.share_exceeding(CoJER(columns(1), band="exact", **kwargs), draw, 0.1, 500, 100)
        scp = self.share_exceeding(CoJER(columns(1), band="scp", **kwargs), draw, 0.1, 500, 100)
        assert 0.05 <= exact <= 0.2 + 3 * np.sqrt(0.16 / 500)
        assert scp > 0.35

    @staticmethod
    def independent_models(seed):
        """Five models whose scores are independent: the least favourable case of the plain calibration."""
        rng = np.random.default_rng(seed)
        return lambda: (rng.normal(size=(400, 5)), np.zeros(400))

    def test_plain_calibration_is_not_exact_and_split_is(self):
        kwargs = {"prefit": True, "alpha": 0.1, "delta": 0.2, "band": "exact", "random_state": 0}
        runs, m = 150, 100
        error = 3 * np.sqrt(0.16 / runs)
        plain = self.share_exceeding(CoJER(columns(5), **kwargs), self.independent_models(2), 0.1, runs, m)
        split = self.share_exceeding(
            CoJER(columns(5), calibration="split", **kwargs), self.independent_models(2), 0.1, runs, m
        )
        assert split <= 0.2 + error
        assert plain > split

    @pytest.mark.slow
    def test_shares_of_the_aggregated_sets(self):
        # The hull covers more than the set, so the p-values are what the figures of the plain calibration speak of.
        alpha, delta, runs, m = 0.1, 0.2, 2000, 100
        share = {}
        for calibration in ("plain", "split"):
            draw = self.independent_models(1)
            cojer = CoJER(
                columns(5), prefit=True, alpha=alpha, delta=delta, band="exact", calibration=calibration, random_state=0
            )
            bad = 0
            for _ in range(runs):
                X, y = draw()
                cojer.fit(X[:-m], y[:-m])
                t = cojer_threshold(300 if calibration == "plain" else 150, m, alpha, delta, band="exact")
                n = 300 if calibration == "plain" else 150
                bad += (cojer.p_values(X[-m:], y[-m:]) <= t / (n + 1)).mean() > alpha
            share[calibration] = bad / runs
        assert share["plain"] == pytest.approx(0.31, abs=0.04)
        assert 0.1 < share["split"] <= 0.2 + 3 * np.sqrt(0.16 / runs)

    def test_independent_calibration_covers_independent_models(self):
        draw = self.independent_models(1)
        cojer = CoJER(columns(5), prefit=True, delta=0.2, calibration="independent", n_null=200, random_state=0)
        runs, bad = 60, 0
        for _ in range(runs):
            X, y = draw()
            cojer.fit(X[:300], y[:300])
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # independent models leave a set empty now and then
                cojer.predict_interval(X[300:])
            bad += (cojer.p_values(X[300:], y[300:]) <= cojer.alpha_hat_).mean() > 0.1
        assert bad / runs <= 0.2 + 3 * np.sqrt(0.16 / runs)

    def test_fcp_bound_holds_for_all_thresholds_at_once(self):
        rng = np.random.default_rng(3)
        runs, violated, informative = 200, 0, 0
        for _ in range(runs):
            y = rng.normal(size=160)
            X = np.zeros((160, 1))
            cojer = CoJER(columns(1), prefit=True, delta=0.2, template="beta").fit(X[:100], y[:100])
            for width in np.sort(np.abs(y))[::8]:
                fcp = (np.abs(y[100:]) > width).mean()
                bound = cojer.fcp_bound(60, half_width=width)
                if bound < fcp:
                    violated += 1
                    break
                informative += bound < 1
        assert violated / runs <= 0.2 + 3 * np.sqrt(0.16 / runs)
        assert informative > runs


class TestBandIsKept:
    def test_alpha_may_change_freely(self, data):
        X, y = data
        cojer = CoJER(Ridge(), random_state=0).fit(X[:500], y[:500])
        thresholds = {}
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for alpha in (0.1, 0.2, 0.4, 0.1):
                cojer.predict_interval(X[500:], alpha=alpha)
                assert thresholds.setdefault(alpha, cojer.threshold_) == cojer.threshold_
        assert thresholds[0.1] < thresholds[0.2] < thresholds[0.4]
        # All levels read one band, which bounds the misses at the levels' own thresholds.
        for alpha, t in thresholds.items():
            assert cojer.fcp_bound(200, t=t) <= alpha + 1e-12

    def test_order_of_calls_does_not_matter(self, data):
        X, y = data
        first = CoJER(Ridge(), random_state=0).fit(X[:500], y[:500])
        second = clone(first).fit(X[:500], y[:500])
        a = [first.predict_interval(X[500:600]), first.predict_interval(X[500:])]
        b = [second.predict_interval(X[500:]), second.predict_interval(X[500:600])]
        np.testing.assert_array_equal(a[0], b[1])
        np.testing.assert_array_equal(a[1], b[0])

    def test_longer_band_is_said(self, data):
        X, y = data
        cojer = CoJER(Ridge(), random_state=0).fit(X[:500], y[:500])
        cojer.predict_interval(X[500:])
        with pytest.warns(UserWarning, match="new band"):
            cojer.predict_interval(X[500:], alpha=0.7)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            CoJER(Ridge(), k_max=200, random_state=0).fit(X[:500], y[:500]).predict_interval(X[500:], alpha=0.7)

    def test_fcp_bound_by_definition(self, data):
        X, y = data
        cojer = CoJER(Ridge(), template="beta", random_state=0).fit(X[:500], y[:500])
        n = cojer.n_cal_
        for half_width in (0.0, 0.3, 0.6, 10.0):
            t = 1 + int((cojer.residuals_[0] > half_width).sum())
            if t <= n:
                assert cojer.fcp_bound(200, half_width=half_width) == cojer.fcp_bound(200, t=t)
        bounds = [cojer.fcp_bound(200, t=t) for t in range(n + 1)]
        assert bounds[0] == 0.0
        assert bounds[-1] == 1.0
        assert (np.diff(bounds) >= 0).all()
        # The bound at t is the least alpha (in steps of 1/m) whose threshold is at least t.
        for k in (10, 20, 60):
            cojer.predict_interval(X[500:], alpha=(k + 0.5) / 200)
            assert cojer.fcp_bound(200, t=cojer.threshold_) <= k / 200 < cojer.fcp_bound(200, t=cojer.threshold_ + 1)

    def test_fcp_bound_arguments(self, data):
        X, y = data
        one = CoJER(Ridge(), random_state=0).fit(X[:300], y[:300])
        for kwargs in ({}, {"t": 1, "half_width": 0.1}, {"t": -1}, {"t": 1000}, {"half_width": -1.0}):
            with pytest.raises(ValueError, match=r"t and half_width|t must be|half_width"):
                one.fcp_bound(50, **kwargs)
        with pytest.raises(ValueError, match="n_test"):
            one.fcp_bound(0, t=1)
        with pytest.raises(ValueError, match="single model"):
            CoJER(MODELS).fit(X[:300], y[:300]).fcp_bound(50, half_width=1.0)
        with pytest.raises(ValueError, match="band='jer'"):
            CoJER(Ridge(), band="exact").fit(X[:300], y[:300]).fcp_bound(50, t=1)
        with pytest.raises(NotFittedError):
            CoJER(Ridge()).fcp_bound(50, t=1)


class TestTooFewCalibrationPoints:
    def test_case(self):
        X, y = np.zeros((5, 1)), np.arange(5.0)
        f = DummyRegressor(strategy="constant", constant=0.0).fit(X, y)
        cojer = CoJER(f, prefit=True, band="scp", alpha=0.1).fit(X, y)
        with pytest.warns(UserWarning, match=r"5 calibration points .* 9 would") as seen:
            intervals = cojer.predict_interval(np.zeros((3, 1)))
        assert len(seen) == 1
        np.testing.assert_array_equal(intervals, [[-np.inf, np.inf]] * 3)
        assert cojer.threshold_ == 0
        with pytest.warns(UserWarning, match="too few"):
            unions = cojer.predict_interval(np.zeros((3, 1)), return_union=True)
        assert [u.tolist() for u in unions] == [[[-np.inf, np.inf]]] * 3

    @pytest.mark.parametrize("kwargs", [{"band": "exact"}, {"template": "beta"}])
    @pytest.mark.parametrize("calibration", ["plain", "split"])
    def test_the_number_named_is_the_least(self, kwargs, calibration):
        def threshold(n):
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                model = CoJER(columns(1), prefit=True, calibration=calibration, random_state=0, **kwargs)
                model.fit(np.zeros((n, 1)), np.arange(float(n))).predict_interval(np.zeros((20, 1)))
            return model.threshold_, [str(w.message) for w in seen]

        t, messages = threshold(10)
        assert t == 0
        needed = int(messages[0].split("; ")[1].split()[0])
        assert threshold(needed)[0] >= 1
        assert threshold(needed - 1)[0] == 0

    def test_learned_template_says_about(self):
        cojer = CoJER(columns(1), prefit=True, random_state=0).fit(np.zeros((10, 1)), np.arange(10.0))
        with pytest.warns(UserWarning, match=r"about \d+ would"):
            cojer.predict_interval(np.zeros((50, 1)))

    def test_dkw_never_enough(self):
        cojer = CoJER(columns(1), prefit=True, band="dkw").fit(np.zeros((500, 1)), np.arange(500.0))
        with pytest.warns(UserWarning, match="no number"):
            intervals = cojer.predict_interval(np.zeros((100, 1)))
        assert np.isinf(intervals).all()

    def test_quantile_aggregation_needs_more(self):
        # Labels of rank 1 under all models have the aggregate 1/0.3 > 3.
        kwargs = {"prefit": True, "aggregation": "quantile", "band": "scp"}
        X = np.zeros((31, 2))
        with pytest.warns(UserWarning, match="39 would"):
            assert np.isinf(CoJER(columns(2), **kwargs).fit(X, np.arange(31.0)).predict_interval(X)).all()
        X = np.zeros((39, 2))
        assert np.isfinite(CoJER(columns(2), **kwargs).fit(X, np.arange(39.0)).predict_interval(X)).all()


class TestData:
    def test_column_target(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(200, 2))
        y = X @ [1.0, -2.0] + 0.1 * rng.normal(size=200)
        f = LinearRegression().fit(X[:100], y[:100])
        a = CoJER(f, prefit=True, band="scp", alpha=0.2).fit(X[100:], y[100:])
        for column in (y[100:, None], pd.DataFrame({"y": y[100:]})):
            with pytest.warns(DataConversionWarning):
                b = CoJER(f, prefit=True, band="scp", alpha=0.2).fit(X[100:], column)
            assert a.residuals_.shape == b.residuals_.shape == (1, 100)
            np.testing.assert_array_equal(a.predict_interval(X), b.predict_interval(X))
        with pytest.raises(ValueError, match=r"\(100, 2\)"):
            CoJER(f, prefit=True).fit(X[100:], np.column_stack([y[100:], y[100:]]))

    def test_model_that_predicts_a_column(self):
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(60, 2)), rng.normal(size=60)
        column = LinearRegression().fit(X, y[:, None])
        assert column.predict(X).shape == (60, 1)
        flat = LinearRegression().fit(X, y)
        np.testing.assert_allclose(
            CoJER(column, prefit=True).fit(X, y).residuals_, CoJER(flat, prefit=True).fit(X, y).residuals_
        )

    def test_data_frames_reach_the_models(self, data):
        X, y = data
        frame = pd.DataFrame(X, columns=["größe", "b", "c"]).assign(kind=np.where(X[:, 0] > 0, "up", "down"))
        pipeline = make_pipeline(
            make_column_transformer((OneHotEncoder(), ["kind"]), remainder="passthrough"), LinearRegression()
        )
        cojer = CoJER([("linear", pipeline)], band="exact", random_state=0).fit(frame[:500], pd.Series(y[:500]))
        np.testing.assert_array_equal(cojer.feature_names_in_, ["größe", "b", "c", "kind"])
        assert cojer.predict_interval(frame[500:]).shape == (200, 2)
        assert cojer.p_values(frame[500:], pd.Series(y[500:])).shape == (200,)
        with pytest.raises(ValueError, match="feature names"):
            cojer.predict_interval(frame[500:].rename(columns={"b": "z"}))

    def test_shuffled_index_and_lists_are_the_same_data(self, data):
        X, y = data
        index = np.random.default_rng(0).permutation(500)
        a = CoJER(Ridge(), random_state=0).fit(X[:500], y[:500]).predict_interval(X[500:])
        frame = CoJER(Ridge(), random_state=0).fit(
            pd.DataFrame(X[:500], index=index), pd.Series(y[:500], index=index[::-1])
        )
        np.testing.assert_allclose(a, frame.predict_interval(pd.DataFrame(X[500:])))
        lists = CoJER(Ridge(), random_state=0).fit(X[:500].tolist(), y[:500].tolist())
        np.testing.assert_allclose(a, lists.predict_interval(X[500:].tolist()))

    @pytest.mark.parametrize("form", [sparse.csr_matrix, sparse.coo_array])
    def test_sparse(self, data, form):
        X, y = data
        dense = CoJER(Ridge(solver="lsqr"), random_state=0).fit(X[:500], y[:500])
        other = CoJER(Ridge(solver="lsqr"), random_state=0).fit(form(X[:500]), y[:500])
        np.testing.assert_allclose(
            other.predict_interval(form(X[500:])), dense.predict_interval(X[500:]), rtol=1e-3, atol=1e-3
        )
        with pytest.raises(TypeError, match="sparse"):
            CoJER().fit(form(X), y)

    def test_own_calibration_set_uses_all_of_x(self, data):
        X, y = data
        cojer = CoJER(Ridge()).fit(X[:300], y[:300], X[300:500], y[300:500])
        np.testing.assert_array_equal(cojer.estimators_[0].coef_, Ridge().fit(X[:300], y[:300]).coef_)
        assert cojer.n_cal_ == 200

    def test_prefit_models_are_not_touched_and_others_are_cloned(self, data):
        X, y = data
        model = Ridge().fit(X[:200], y[:200])
        before = pickle.dumps(model)
        assert CoJER(model, prefit=True).fit(X[200:], y[200:]).estimators_[0] is model
        assert pickle.dumps(model) == before
        fresh = Ridge()
        CoJER(fresh).fit(X, y)
        assert not hasattr(fresh, "coef_")

    def test_repeatable_and_leaves_the_global_state(self, data):
        X, y = data
        np.random.seed(0)  # noqa: NPY002
        state = np.random.get_state()[1].copy()  # noqa: NPY002
        a, b = (CoJER(MODELS, random_state=3).fit(X[:500], y[:500]).predict_interval(X[500:]) for _ in range(2))
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(state, np.random.get_state()[1])  # noqa: NPY002
        c = CoJER(MODELS, random_state=4).fit(X[:500], y[:500]).predict_interval(X[500:])
        assert (a != c).any()

    def test_pickle(self, data):
        X, y = data
        cojer = CoJER(MODELS, random_state=0).fit(X[:500], y[:500])
        copy = pickle.loads(pickle.dumps(cojer))
        np.testing.assert_array_equal(copy.predict_interval(X[500:]), cojer.predict_interval(X[500:]))

    def test_n_jobs(self, data):
        X, y = data
        a = CoJER(MODELS, random_state=0).fit(X[:500], y[:500]).predict_interval(X[500:])
        b = CoJER(MODELS, random_state=0, n_jobs=2).fit(X[:500], y[:500]).predict_interval(X[500:])
        np.testing.assert_array_equal(a, b)

    def test_grid_search(self, data):
        X, y = data
        search = GridSearchCV(CoJER(Ridge(), random_state=0), {"estimators__alpha": [0.1, 1e4]}, cv=3).fit(X, y)
        assert search.best_params_ == {"estimators__alpha": 0.1}

    def test_default_models(self, data):
        X, y = data
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the perceptron stops early
            cojer = CoJER(random_state=0, band="exact").fit(X[:300], y[:300])
        assert len(cojer.estimators_) == 5
        assert false_coverage_proportion(cojer.predict_interval(X[300:]), y[300:]) < 0.2

    def test_large_batch_with_a_bad_model(self):
        # Most sets do not hold the extreme predictions, and many are empty.
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(6000, 2)), np.zeros(6000)
        X[:, 1] = 3.0 + 0.2 * X[:, 1]
        cojer = CoJER(columns(2), prefit=True, band="scp").fit(X[:3000], y[:3000])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            intervals = cojer.predict_interval(X[3000:])
            unions = cojer.predict_interval(X[3000:3100], return_union=True)
        filled = [i for i, union in enumerate(unions) if len(union)]
        assert 0 < len(filled) < 100
        for i, union in enumerate(unions):
            expected = [union[0, 0], union[-1, 1]] if len(union) else [np.nan, np.nan]
            np.testing.assert_allclose(intervals[i], expected, rtol=1e-12)


class TestBadInput:
    @pytest.mark.parametrize(
        ("kwargs", "name"),
        [
            ({"alpha": 0.0}, "alpha"),
            ({"alpha": 1.2}, "alpha"),
            ({"delta": 0.0}, "delta"),
            ({"band": "simes"}, "band"),
            ({"template": "line"}, "template"),
            ({"aggregation": "max"}, "aggregation"),
            ({"calibration": "none"}, "calibration"),
            ({"cal_size": 1.0}, "cal_size"),
            ({"n_null": 0}, "n_null"),
            ({"k_max": 0}, "k_max"),
            ({"calibration": "independent", "band": "exact"}, "independent"),
            ({"calibration": "independent", "template": "beta"}, "independent"),
        ],
    )
    def test_parameters(self, data, kwargs, name):
        cojer = CoJER(Ridge(), **kwargs)  # the constructor only stores
        with pytest.raises(ValueError, match=name):
            cojer.fit(*data)

    @pytest.mark.parametrize("alpha", [0.0, 1.0, -0.1, float("nan")])
    def test_alpha_of_predict_interval(self, data, alpha):
        cojer = CoJER(Ridge()).fit(*data)
        with pytest.raises(ValueError, match="alpha"):
            cojer.predict_interval(data[0], alpha=alpha)

    @pytest.mark.parametrize(
        ("estimators", "error", "message"),
        [
            ([], ValueError, "empty list"),
            ([Ridge(), Ridge()], TypeError, "pairs"),
            ([("a", Ridge()), ("a", Ridge())], ValueError, "unique"),
            ("ridge", TypeError, "predict"),
            ([("a", object())], TypeError, "predict"),
            (Ridge, TypeError, "instance"),
        ],
    )
    def test_estimators(self, data, estimators, error, message):
        with pytest.raises(error, match=message):
            CoJER(estimators).fit(*data)

    def test_prefit(self, data):
        X, y = data
        with pytest.raises(NotFittedError, match="'knn'"):
            CoJER([("knn", KNeighborsRegressor())], prefit=True).fit(X, y)
        with pytest.raises(ValueError, match="estimators"):
            CoJER(prefit=True).fit(X, y)
        model = Ridge().fit(X, y)
        with pytest.raises(ValueError, match="X_cal"):
            CoJER(model, prefit=True).fit(X, y, X, y)
        with pytest.raises(ValueError, match="at least 2"):
            CoJER(model, prefit=True).fit(X[:1], y[:1])

    def test_calibration_set(self, data):
        X, y = data
        with pytest.raises(ValueError, match="together"):
            CoJER(Ridge()).fit(X, y, X_cal=X)
        with pytest.raises(ValueError, match="at least 2"):
            CoJER(Ridge()).fit(X, y, X[:1], y[:1])
        with pytest.raises(ValueError, match="features"):
            CoJER(Ridge()).fit(X, y, X[:, :2], y)
        with pytest.raises(ValueError, match="y_cal"):
            CoJER(Ridge()).fit(X, y, X, np.where(y > 0, y, np.nan))

    def test_targets(self, data):
        X, y = data
        for bad in (np.full(700, "a"), y.astype(str), np.where(y > 0, "yes", "no").astype(object), y * 1j):
            with pytest.raises(ValueError, match="numeric"):
                CoJER(Ridge()).fit(X, bad)
        for value in (np.nan, np.inf):
            with pytest.raises(ValueError, match="y contains"):
                CoJER(Ridge()).fit(X, np.r_[y[:-1], value])
        with pytest.raises(ValueError, match="inconsistent"):
            CoJER(Ridge()).fit(X, y[:-1])

    def test_features(self, data):
        X, y = data
        cojer = CoJER(Ridge()).fit(X, y)
        with pytest.raises(ValueError, match="NaN"):
            CoJER(Ridge()).fit(np.where(X > 2, np.nan, X), y)
        with pytest.raises(ValueError, match="NaN"):
            cojer.predict_interval(np.full((3, 3), np.nan))
        with pytest.raises(ValueError, match="0 samples"):
            cojer.predict_interval(np.empty((0, 3)))
        with pytest.raises(ValueError, match="2 features"):
            cojer.predict_interval(X[:, :2])
        with pytest.raises(ValueError, match="inconsistent"):
            cojer.p_values(X, y[:-1])
        for call in ("predict", "predict_interval"):
            with pytest.raises(NotFittedError):
                getattr(CoJER(Ridge()), call)(X)

    @pytest.mark.parametrize("n", [1, 2])
    def test_too_small_to_split(self, n):
        with pytest.raises(ValueError, match=f"n_samples={n}"):
            CoJER(Ridge()).fit(np.zeros((n, 1)), np.zeros(n))

    def test_predictions(self):
        class Broken(Column):
            def predict(self, X):
                return X if self.column else np.full(len(X), np.nan)

        X, y = np.zeros((20, 2)), np.zeros(20)
        with pytest.raises(ValueError, match="NaN"):
            CoJER(Broken(0).fit(X, y), prefit=True).fit(X, y)
        with pytest.raises(ValueError, match="one number per row"):
            CoJER(Broken(1).fit(X, y), prefit=True).fit(X, y)

    def test_failed_refit_leaves_the_old_fit(self, data):
        X, y = data
        cojer = CoJER(Ridge(), random_state=0).fit(X[:500], y[:500])
        before = cojer.predict_interval(X[500:])
        with pytest.raises(ValueError, match="y contains"):
            cojer.fit(X[:500], np.full(500, np.nan))
        np.testing.assert_array_equal(cojer.predict_interval(X[500:]), before)
