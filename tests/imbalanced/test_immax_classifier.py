"""The IMMAX classifier against scikit-learn, closed forms and the contract of estimators."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import scipy.sparse as sp  # noqa: E402
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from sklearn.datasets import make_classification  # noqa: E402
from sklearn.exceptions import ConvergenceWarning  # noqa: E402
from sklearn.linear_model import LogisticRegression  # noqa: E402
from sklearn.model_selection import StratifiedKFold  # noqa: E402
from sklearn.svm import LinearSVC  # noqa: E402
from sklearn.utils.estimator_checks import parametrize_with_checks  # noqa: E402

from paperworks.imbalanced import ImmaxClassifier, ImmaxLoss, class_margin_loss, optimal_margins  # noqa: E402
from paperworks.imbalanced.immax.solvers import LinearFitter  # noqa: E402


@parametrize_with_checks([ImmaxClassifier(gammas=(0.0, 1 / 3), alpha=1e-2)])
def test_estimator_contract(estimator, check):
    check(estimator)


def data(n=120, n_classes=3, seed=0, **kwargs):
    return make_classification(
        n, 6, n_informative=4, n_classes=n_classes, n_clusters_per_class=1, random_state=seed, **kwargs
    )


def objective(model, X, y, weight=None, surrogate="logistic"):
    """The penalised mean surrogate, by the torch loss."""
    loss = ImmaxLoss(model.rho_, surrogate=surrogate, reduction="none")
    h = torch.as_tensor(model.decision_function(X))
    weight = np.ones(len(y)) if weight is None else weight
    mean = float(weight @ loss(h, torch.as_tensor(y)).numpy() / weight.sum())
    return mean + model.alpha_ * float(np.sum(model.coef_**2))


@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_unit_margins_are_logistic_regression(n_classes, fit_intercept):
    X, y = data(n_classes=n_classes, n=150)
    alpha = 0.003
    ours = ImmaxClassifier(rho=np.ones(n_classes), alpha=alpha, fit_intercept=fit_intercept).fit(X, y)
    theirs = LogisticRegression(
        C=1 / (2 * len(y) * alpha), tol=1e-12, max_iter=10_000, fit_intercept=fit_intercept
    ).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=2e-5)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=2e-5)
    assert ours.cv_results_ is None
    assert ours.gamma_ is None
    assert ours.temperature_ == 1.0


@pytest.mark.parametrize("surrogate", ["logistic", "sumexp", "hinge"])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_the_fit_is_a_minimum(surrogate, n_classes):
    X, y = data(n_classes=n_classes, weights=[0.6] if n_classes == 2 else None, flip_y=0.1)
    rho = np.linspace(0.5, 1.5, n_classes)
    model = ImmaxClassifier(rho=rho, alpha=0.01, surrogate=surrogate).fit(X, y)
    best = objective(model, X, y, surrogate=surrogate)
    rng = np.random.default_rng(0)
    coef, intercept = model.coef_.copy(), model.intercept_.copy()
    for size in (1e-3, 1e-2, 0.1, 1.0):
        for _ in range(20):
            model.coef_ = coef + size * rng.normal(size=coef.shape)
            model.intercept_ = intercept + size * rng.normal(size=intercept.shape)
            assert objective(model, X, y, surrogate=surrogate) > best - 1e-5


@pytest.mark.parametrize("n_classes", [2, 4])
def test_large_problems_reach_the_same_minimum(n_classes):
    """The solver for large problems (L-BFGS, whitened or by its diagonal) against Newton's method."""
    X, y = data(n_classes=n_classes, n=300)
    X = X * [1, 10, 0.1, 1, 100, 1] + 3
    rho, weight = np.linspace(0.5, 1.5, n_classes), np.random.default_rng(0).uniform(0.5, 2, 300)
    small = LinearFitter(X, y, weight, n_classes).fit(rho, 0.01)
    for rows, tolerance in ((X, 1e-4), (sp.csr_array(X), 1e-2)):
        large = LinearFitter(X, y, weight, n_classes, max_iter=5000)
        large.X, large.matrix = rows, False
        found = large.fit(rho, 0.01)
        assert found.converged
        np.testing.assert_allclose(found.scores(X), small.scores(X), atol=tolerance)


def test_binary_hinge_is_a_support_vector_machine():
    X, y = data(n_classes=2, flip_y=0.1)
    alpha = 0.01
    ours = ImmaxClassifier(rho=[1, 1], alpha=alpha, surrogate="hinge", fit_intercept=False).fit(X, y)
    svm = LinearSVC(
        loss="hinge", C=1 / (2 * len(y) * alpha), fit_intercept=False, tol=1e-8, max_iter=1_000_000, random_state=0
    ).fit(X, y)
    np.testing.assert_allclose(ours.coef_, svm.coef_, atol=1e-4)


@settings(max_examples=15, deadline=None)
@given(negative=st.floats(0.2, 4), positive=st.floats(0.2, 4), gap=st.floats(0.5, 5), start=st.floats(-3, 3))
def test_separable_hinge_divides_the_gap_by_the_margins(negative, positive, gap, start):
    X = np.array([start - 1.3, start - 0.4, start, start + gap, start + gap + 2.0])[:, None]
    y = [0, 0, 0, 1, 1]
    for surrogate in ("hinge", "ramp"):
        model = ImmaxClassifier(rho=[negative, positive], alpha=1e-6, surrogate=surrogate).fit(X, y)
        decision = -model.intercept_[0] / model.coef_[0, 0]
        np.testing.assert_allclose(decision, start + gap * negative / (negative + positive), atol=1e-3 * gap)


def test_ramp_gives_up_on_an_outlier_that_moves_the_hinge():
    X = np.r_[np.linspace(-2, -1, 30), np.linspace(1, 2, 30), 30.0][:, None]
    y = np.r_[np.zeros(30, int), np.ones(30, int), 0]
    fits = {s: ImmaxClassifier(rho=[1, 1], alpha=1e-3, surrogate=s).fit(X, y) for s in ("hinge", "ramp")}
    errors = {s: int((m.predict(X) != y).sum()) for s, m in fits.items()}
    assert errors["ramp"] == 1
    ramp = {s: objective(m, X, y, surrogate="ramp") for s, m in fits.items()}
    assert ramp["ramp"] < ramp["hinge"] - 0.01


def test_ramp_of_many_classes_never_ends_above_the_hinge():
    X, y = data(n_classes=4, flip_y=0.3, n=200)
    rho = np.array([0.5, 1.0, 1.0, 2.0])
    fits = [ImmaxClassifier(rho=rho, alpha=1e-3, surrogate=s).fit(X, y) for s in ("hinge", "ramp")]
    values = [objective(m, X, y, surrogate="ramp") for m in fits]
    assert values[1] < values[0]


def test_larger_margins_move_the_boundary_away_from_their_class():
    X, y = data(n_classes=2, class_sep=3.0, flip_y=0.0, weights=[0.8])
    scores = [
        ImmaxClassifier(rho=rho, alpha=1e-4, surrogate="hinge").fit(X, y).decision_function(X)
        for rho in ([2.0, 0.5], [0.5, 2.0])
    ]
    negative = y == 0
    assert scores[0][negative].max() < scores[1][negative].max() - 0.5


@pytest.mark.parametrize("surrogate", ["logistic", "sumexp", "hinge"])
def test_permuted_classes_with_permuted_margins(surrogate):
    X, y = data(n_classes=3)
    order = np.array([2, 0, 1])
    rho = np.array([0.4, 1.0, 2.0])
    a = ImmaxClassifier(rho=rho, alpha=0.01, surrogate=surrogate).fit(X, y)
    b = ImmaxClassifier(rho=rho[order], alpha=0.01, surrogate=surrogate).fit(X, np.argsort(order)[y])
    np.testing.assert_allclose(a.decision_function(X)[:, order], b.decision_function(X), atol=1e-4)
    doubled = ImmaxClassifier(rho=2 * rho, alpha=0.0025, surrogate=surrogate).fit(X, y)  # the gauge
    np.testing.assert_allclose(doubled.decision_function(X), 2 * a.decision_function(X), atol=1e-3)


def test_weights_are_repetitions():
    X, y = data(n_classes=3, n=60)
    weight = np.random.default_rng(0).integers(0, 4, 60)
    weight[:3] = 2
    repeated = np.repeat(np.arange(60), weight)
    for surrogate in ("logistic", "hinge"):
        a = ImmaxClassifier(rho="theory", alpha=0.01, surrogate=surrogate).fit(X, y, weight)
        b = ImmaxClassifier(rho="theory", alpha=0.01, surrogate=surrogate).fit(X[repeated], y[repeated])
        np.testing.assert_allclose(a.rho_, b.rho_)
        np.testing.assert_allclose(a.decision_function(X), b.decision_function(X), atol=1e-5)
        assert a.class_count_.tolist() == b.class_count_.tolist()
        np.testing.assert_allclose(list(a.margin_bound().values()), list(b.margin_bound().values()), rtol=1e-5)


# Choosing the margins


def test_theory_margins():
    X, y = data(n_classes=3, weights=[0.7, 0.2], n=200)
    model = ImmaxClassifier(rho="theory", alpha=0.01).fit(X, y)
    radii = [np.linalg.norm(X[y == k], axis=1).max() for k in range(3)]
    rho = optimal_margins(np.bincount(y), radii)
    np.testing.assert_allclose(model.rho_, rho / np.exp(np.log(rho).mean()))


def test_the_choice_is_the_best_of_the_table():
    X, y = data(n_classes=3, weights=[0.7, 0.2], n=200, flip_y=0.2)
    model = ImmaxClassifier(random_state=0).fit(X, y)
    table = model.cv_results_
    assert len(table["params"]) == 15
    order = np.lexsort((table["mean_test_log_loss"], -table["mean_test_score"].round(12)))
    assert table["params"][order[0]] == {"alpha": model.alpha_, "gamma": model.gamma_}
    assert (table["rank_test_score"][order] == np.arange(1, 16)).all()
    np.testing.assert_allclose(model.rho_, table["rho"][order[0]])
    np.testing.assert_allclose(np.exp(np.log(table["rho"]).mean(axis=1)), 1.0)
    splits = np.array([table[f"split{k}_test_score"] for k in range(3)])
    np.testing.assert_allclose(splits.mean(axis=0), table["mean_test_score"])


def test_table_entries_are_held_out_scores():
    X, y = data(n_classes=2, weights=[0.8], n=150, flip_y=0.1)
    folds = list(StratifiedKFold(4, shuffle=True, random_state=1).split(X, y))
    for scoring in ("accuracy", "balanced_accuracy", "roc_auc", "neg_log_loss"):
        model = ImmaxClassifier(gammas=(-0.25,), alpha=0.01, cv=folds, scoring=scoring).fit(X, y)
        expected = []
        for train, test in folds:
            part = ImmaxClassifier(rho=model.rho_, alpha=0.01).fit(X[train], y[train])
            from sklearn.metrics import get_scorer

            expected.append(get_scorer(scoring)(part, X[test], y[test]))
        np.testing.assert_allclose(model.cv_results_["mean_test_score"], np.mean(expected), atol=2e-3)


def test_scoring_decides():
    rng = np.random.default_rng(0)
    y = (rng.random(1500) < 0.08).astype(int)
    X = rng.normal(size=(1500, 2)) + 0.8 * y[:, None]
    accuracy, balanced = (
        ImmaxClassifier(scoring=s, random_state=0, gammas=(-0.5, 0, 0.75), alpha=1e-3).fit(X, y)
        for s in ("accuracy", "balanced_accuracy")
    )
    # a large exponent lowers the threshold of the rare class: good for its recall, bad for 0/1 accuracy
    assert balanced.gamma_ == 0.75
    assert accuracy.gamma_ < 0.75
    assert (balanced.predict(X)[y == 1] == 1).mean() > (accuracy.predict(X)[y == 1] == 1).mean() + 0.2


def test_coordinate_never_ends_worse_than_cv():
    X, y = data(n_classes=3, weights=[0.7, 0.2], n=200, flip_y=0.2)
    folds = list(StratifiedKFold(3, shuffle=True, random_state=0).split(X, y))

    def held_out(rho, alpha):
        m = ImmaxClassifier(rho=rho, alpha=alpha, cv=folds)
        return np.mean([m.fit(X[a], y[a]).score(X[b], y[b]) for a, b in folds])

    cv = ImmaxClassifier(cv=folds).fit(X, y)
    coordinate = ImmaxClassifier(rho="coordinate", cv=folds).fit(X, y)
    assert coordinate.gamma_ == cv.gamma_
    assert held_out(coordinate.rho_, coordinate.alpha_) >= held_out(cv.rho_, cv.alpha_) - 1e-9
    assert not np.allclose(coordinate.rho_, cv.rho_)


def test_temperature_minimises_the_held_out_log_loss():
    X, y = data(n_classes=3, n=200, flip_y=0.3)
    folds = list(StratifiedKFold(3, shuffle=True, random_state=0).split(X, y))
    model = ImmaxClassifier(rho=[0.5, 1, 2], cv=folds).fit(X, y)
    scores = np.empty((200, 3))
    for train, test in folds:
        part = ImmaxClassifier(rho=[0.5, 1, 2], alpha=model.alpha_).fit(X[train], y[train])
        scores[test] = part.decision_function(X[test])

    def log_loss(T):
        z = scores / T
        return np.mean(np.log(np.exp(z).sum(axis=1)) - z[np.arange(200), y])

    best = min(np.linspace(0.3, 3, 2701), key=log_loss)
    assert abs(model.temperature_ - best) < 2e-3
    assert model.temperature_ != 1.0
    h = model.decision_function(X) / model.temperature_
    np.testing.assert_allclose(model.predict_proba(X), np.exp(h) / np.exp(h).sum(axis=1, keepdims=True))


def test_same_seed_same_model_and_global_streams_untouched():
    X, y = data(n_classes=3)
    before, torch_before = np.random.get_state()[1].copy(), torch.get_rng_state()  # noqa: NPY002
    for settings_ in ({}, {"kernel": "rbf"}, {"hidden": (4,), "max_iter": 20, "gammas": (0.0,), "alpha": 0.01}):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            a, b = (ImmaxClassifier(random_state=3, **settings_).fit(X, y) for _ in range(2))
        np.testing.assert_array_equal(a.decision_function(X), b.decision_function(X))
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), torch_before)


@pytest.mark.slow
def test_parallel_folds_change_nothing():
    X, y = data(n_classes=3)
    a = ImmaxClassifier(random_state=0).fit(X, y)
    b = ImmaxClassifier(random_state=0, n_jobs=2).fit(X, y)
    assert (a.gamma_, a.alpha_) == (b.gamma_, b.alpha_)
    np.testing.assert_allclose(a.predict_proba(X), b.predict_proba(X), rtol=1e-6)


# Kernels and networks


def rings(n=300, seed=0):
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < 0.25).astype(int)
    angle, radius = rng.uniform(0, 2 * np.pi, n), np.where(y, 0.5, 2.0) + 0.1 * rng.normal(size=n)
    return np.c_[radius * np.cos(angle), radius * np.sin(angle)], y


@pytest.mark.parametrize("settings_", [{"kernel": "rbf"}, {"kernel": "poly"}, {"hidden": (16,), "max_iter": 300}])
def test_rings_need_more_than_a_line(settings_):
    X, y = rings()
    X_test, y_test = rings(seed=1)
    line = ImmaxClassifier(rho="theory", alpha=1e-3).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = ImmaxClassifier(rho="theory", alpha=1e-3, random_state=0, **settings_).fit(X, y)
    assert model.score(X_test, y_test) > 0.97
    assert line.score(X_test, y_test) < 0.85
    assert pickle.loads(pickle.dumps(model)).predict(X_test).tolist() == model.predict(X_test).tolist()


@pytest.mark.parametrize("n_classes", [2, 3])
def test_network_reaches_the_linear_optimum(n_classes):
    """Without a hidden layer the network is the linear model (for two classes with a penalty on two rows)."""
    X, y = data(n_classes=n_classes)
    rho = np.linspace(0.5, 1.5, n_classes)

    def factory(n_features, n_outputs):
        return torch.nn.Linear(n_features, n_outputs)

    alpha = 0.02
    network = ImmaxClassifier(rho=rho, alpha=alpha, hidden=factory, max_iter=3000, random_state=0).fit(X, y)
    linear = ImmaxClassifier(rho=rho, alpha=alpha / 2 if n_classes == 2 else alpha).fit(X, y)
    h, expected = network.decision_function(X), linear.decision_function(X)
    if n_classes > 2:  # a common shift of the logits is free
        h, expected = h - h.mean(axis=1, keepdims=True), expected - expected.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(h, expected, atol=0.1)
    assert not hasattr(network, "coef_")
    assert isinstance(network.module_, torch.nn.Linear)


def test_network_with_weights_and_bad_factories():
    X, y = data(n_classes=3)
    weight = np.where(y == 0, 0.0, 1.0)
    weight[y == 0] = 1e-9
    model = ImmaxClassifier(rho=[1, 1, 1], alpha=1e-3, hidden=(8,), max_iter=100, random_state=0)
    with pytest.warns(ConvergenceWarning, match="max_iter=100"):
        model.fit(X, y, weight)
    assert (model.predict(X) == 0).mean() < 0.05
    with pytest.raises(ValueError, match=r"output of shape \(120, 3\), got \(120, 2\)"):
        ImmaxClassifier(rho=[1, 1, 1], alpha=1e-3, hidden=lambda d, k: torch.nn.Linear(d, 2)).fit(X, y)
    with pytest.raises(TypeError, match=r"torch.nn.Module, got int"):
        ImmaxClassifier(rho=[1, 1, 1], alpha=1e-3, hidden=lambda d, k: 3).fit(X, y)
    with pytest.raises(ValueError, match="hidden must be at least 1"):
        ImmaxClassifier(rho=[1, 1, 1], alpha=1e-3, hidden=(0,)).fit(X, y)
    with pytest.raises(TypeError, match="hidden must be a tuple of widths or a function"):
        ImmaxClassifier(rho=[1, 1, 1], alpha=1e-3, hidden=16).fit(X, y)


# The bound


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("kernel", [None, "rbf"])
def test_margin_bound(n_classes, kernel):
    X, y = data(n_classes=n_classes)
    model = ImmaxClassifier(rho="theory", alpha=0.05, kernel=kernel, random_state=0).fit(X, y)
    found = model.margin_bound()
    h = model.decision_function(X)
    if n_classes == 2:
        margins, factor = np.where(y == 1, h, -h), 2.0
    else:
        rival = np.where(np.eye(3, dtype=bool)[y], -np.inf, h).max(axis=1)
        margins, factor = h[np.arange(len(y)), y] - rival, 4 * np.sqrt(6) * np.sqrt(3)
    assert found["empirical"] == pytest.approx(class_margin_loss(margins, y, model.rho_).mean())
    assert found["empirical"] >= (model.predict(X) != y).mean()
    assert found["confidence"] == pytest.approx(3 * np.sqrt(np.log(2 / 0.05) / 240))
    if kernel is None:
        norm = np.sqrt((model.coef_**2).sum() + (model.intercept_**2).sum())
        squares = ((X**2).sum(axis=1) + 1) / model.rho_[y] ** 2
        assert found["complexity"] == pytest.approx(factor * norm / 120 * np.sqrt(squares.sum()))
    assert found["bound"] == pytest.approx(found["empirical"] + found["complexity"] + found["confidence"])
    assert model.margin_bound(X, y) == pytest.approx(found)
    assert model.margin_bound(delta=0.01)["confidence"] > found["confidence"]
    half = model.margin_bound(X[:60], y[:60])
    assert half["confidence"] > found["confidence"]


def test_margin_bound_refuses():
    X, y = data(n_classes=2)
    model = ImmaxClassifier(rho=[1, 1], alpha=0.05).fit(X, y)
    with pytest.raises(ValueError, match="given together, got only X"):
        model.margin_bound(X)
    with pytest.raises(ValueError, match="delta must lie strictly between 0 and 1, got 1"):
        model.margin_bound(delta=1)
    with pytest.raises(ValueError, match=r"labels that fit hasn't seen: \[7\]"):
        model.margin_bound(X[:2], [0, 7])
    with pytest.warns(ConvergenceWarning):
        network = ImmaxClassifier(rho=[1, 1], alpha=0.05, hidden=(3,), max_iter=2, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="linear or kernel scorer"):
        network.margin_bound()


# Bad input


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        ({"rho": [1.0, 2.0]}, "got 2 margins for 3 classes"),
        ({"rho": [1.0, 2.0, -1.0]}, "rho must be positive"),
        ({"rho": [1.0, 2.0, np.nan]}, "rho holds 1 value"),
        ({"rho": "best"}, "rho must be one of 'cv', 'coordinate', 'theory'; got 'best'"),
        ({"gammas": ()}, "gammas must hold at least one exponent"),
        ({"gammas": (np.nan,)}, "gammas holds 1 value"),
        ({"alpha": 0.0}, "alpha must be a finite number > 0"),
        ({"alpha": "auto"}, "alpha must be one of 'cv'"),
        ({"kernel": "cosine"}, "kernel must be one of"),
        ({"kernel": "rbf", "hidden": (3,)}, "kernel and hidden exclude each other"),
        ({"surrogate": "squared"}, "surrogate must be one of"),
        ({"scoring": "goodness"}, "scoring is unknown: 'goodness'"),
        ({"cv": 1}, "cv must be at least 2, got 1"),
        ({"cv": 500}, "holds out no row"),
        ({"cv": []}, "cv must"),
        ({"max_iter": 0}, "max_iter must be at least 1"),
        ({"scoring": lambda *a: np.nan}, "on a fold"),
    ],
)
def test_bad_settings(settings_, message):
    X, y = data(n_classes=3)
    with pytest.raises(ValueError, match=message):
        ImmaxClassifier(**settings_).fit(X, y)


def test_bad_types():
    X, y = data(n_classes=3)
    with pytest.raises(TypeError, match="scoring must be the name of a metric or a function, got 3"):
        ImmaxClassifier(scoring=3).fit(X, y)
    with pytest.raises(TypeError, match="alpha must be"):
        ImmaxClassifier(alpha=[0.1]).fit(X, y)
    with pytest.raises(ValueError, match="rho='coordinate' takes at most 20 classes, got 21"):
        ImmaxClassifier(rho="coordinate").fit(np.eye(63), np.arange(63) % 21)


def test_bad_rows():
    X, y = data(n_classes=3)
    broken = X.copy()
    broken[3, 1] = np.nan
    model = ImmaxClassifier(rho=[1, 1, 1], alpha=0.1)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(broken, y)
    with pytest.raises(ValueError, match="at least 2 classes, got 1 class"):
        model.fit(X, np.zeros(120))
    with pytest.raises(ValueError, match="at least 2 classes, got 1 class"):
        model.fit(X, y, np.where(y == 1, 1.0, 0.0))
    with pytest.raises(ValueError, match="sample_weight must be non-negative"):
        model.fit(X, y, -np.ones(120))
    with pytest.raises(ValueError, match="sample_weight must have a positive entry"):
        model.fit(X, y, np.zeros(120))
    with pytest.raises(ValueError, match=r"sample_weight must have shape \(120,\), got \(3,\)"):
        model.fit(X, y, np.ones(3))
    model.fit(X, y)
    with pytest.raises(ValueError, match="NaN"):
        model.predict(broken)


def test_says_when_it_has_not_converged():
    X, y = data(n_classes=3)
    with pytest.warns(ConvergenceWarning, match="no convergence in max_iter=2 iterations"):
        ImmaxClassifier(rho=[1, 1, 1], alpha=1e-4, max_iter=2).fit(X, y)
