"""Tables as users have them: tiny classes, digits as text, pandas labels, sparse rows."""

from __future__ import annotations

import tracemalloc
import warnings

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("torch")

import scipy.sparse as sp
from sklearn.model_selection import KFold, StratifiedKFold

from paperworks.imbalanced import ImmaxClassifier
from paperworks.imbalanced.immax.selection import make_folds


def tiny(counts, seed=0):
    rng = np.random.default_rng(seed)
    y = np.repeat(np.array(list("abcdefg"))[: len(counts)], counts)
    return rng.normal(size=(len(y), 3)), y


# A class with a single row


@pytest.mark.parametrize("cv", [3, StratifiedKFold(3), KFold(3), KFold(3, shuffle=True, random_state=0)])
@pytest.mark.parametrize("rho", ["cv", "coordinate", [1.0, 2.0, 0.5]])
def test_a_class_with_one_row(cv, rho):
    X, y = tiny([25, 15, 1])
    order = np.random.default_rng(5).permutation(41)
    X, y = X[order], y[order]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = ImmaxClassifier(rho=rho, cv=cv, random_state=0).fit(X, y)
    assert len(caught) == 1
    assert "'c' (count 1)" in str(caught[0].message)
    assert "'a'" not in str(caught[0].message)
    assert model.classes_.tolist() == ["a", "b", "c"]
    prob = model.predict_proba(X)
    assert prob.shape == (41, 3)
    np.testing.assert_allclose(prob.sum(axis=1), 1.0)
    assert np.isfinite(prob).all()
    for name, values in model.cv_results_.items():
        if name != "params":
            assert np.isfinite(np.asarray(values, dtype=float)).all(), name


def folds_of(y, cv, weight=None):
    labels = np.unique(y, return_inverse=True)[1]
    kept = np.arange(len(y)) if weight is None else np.flatnonzero(weight)
    encoded = np.where(np.isin(np.arange(len(y)), kept), labels, -1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make_folds(cv, np.zeros((len(y), 1)), encoded, kept, np.unique(y), lambda: 0), labels[kept]


@pytest.mark.parametrize("counts", [[25, 15, 1], [9, 2, 2], [7, 2, 1, 1], [3, 3], [40, 5, 4]])
@pytest.mark.parametrize("cv", [2, 3, 5, KFold(2)])
def test_folds_keep_every_class_in_training(counts, cv):
    _, y = tiny(counts)
    folds, labels = folds_of(y, cv)
    held_out = np.concatenate([test for _, test in folds])
    assert len(np.unique(held_out)) == len(held_out)
    for train, test in folds:
        assert set(labels[train]) == set(labels)
        assert not set(train) & set(test)
        assert sorted([*train, *test]) == list(range(len(y)))
    if cv in (2, 3, 5):
        # all rows but those of single-row classes are held out once, evenly and by class
        assert len(held_out) == sum(c for c in counts if c > 1)
        sizes = np.array([[np.sum(labels[test] == k) for k in np.unique(labels)] for _, test in folds])
        assert (np.ptp(sizes, axis=0) <= 1).all()
        assert np.ptp(sizes.sum(axis=1)) <= 1


def test_splits_of_a_list_refer_to_the_rows_as_passed():
    X, y = tiny([10, 8])
    weight = np.ones(18)
    weight[[0, 12]] = 0
    splits = [(np.arange(0, 18, 2), np.arange(1, 18, 2)), (np.arange(1, 18, 2), np.arange(0, 18, 2))]
    a = ImmaxClassifier(cv=splits).fit(X, y, weight)
    kept = np.flatnonzero(weight)
    place = np.cumsum(weight > 0) - 1
    shifted = [tuple(place[part[weight[part] > 0]] for part in split) for split in splits]
    b = ImmaxClassifier(cv=shifted).fit(X[kept], y[kept])
    np.testing.assert_allclose(a.cv_results_["mean_test_score"], b.cv_results_["mean_test_score"])
    np.testing.assert_allclose(a.predict_proba(X), b.predict_proba(X), rtol=1e-6)


def test_fixed_settings_need_no_held_out_rows():
    X, y = tiny([3, 1, 1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = ImmaxClassifier(rho="theory", alpha=0.1).fit(X, y)
    assert model.predict_proba(X).shape == (5, 3)
    X, y = tiny([1, 1, 1])
    with pytest.raises(ValueError, match="holds out no row"):
        ImmaxClassifier().fit(X, y)


# Labels


def test_digits_as_text_keep_their_margins():
    rng = np.random.default_rng(1)
    X, k = rng.normal(size=(90, 4)), rng.integers(0, 3, size=90)
    X[np.arange(90), k] += 1.5
    digits, letters = np.array(["1", "10", "2"])[k], np.array(["a", "b", "c"])[k]
    rho = [0.5, 2.0, 1.0]
    a = ImmaxClassifier(rho=rho, alpha=0.1).fit(X, digits)
    b = ImmaxClassifier(rho=rho, alpha=0.1).fit(X, letters)
    assert a.classes_.tolist() == ["1", "10", "2"]
    np.testing.assert_array_equal(a.coef_, b.coef_)
    assert set(a.predict(X)) == {"1", "10", "2"}
    assert a.predict(X).dtype.kind == "U"
    np.testing.assert_array_equal(a.predict(X) == digits, b.predict(X) == letters)
    # numbers of the same digits sort differently: 1, 2, 10
    numbers = ImmaxClassifier(rho=[0.5, 1.0, 2.0], alpha=0.1).fit(X, digits.astype(int))
    np.testing.assert_allclose(numbers.coef_[[0, 2, 1]], a.coef_, atol=1e-8)


@pytest.fixture
def frame():
    rng = np.random.default_rng(2)
    X = pd.DataFrame(rng.normal(size=(60, 2)), columns=["u", "v"])
    return X, pd.Series((X["u"] + 0.3 * rng.normal(size=60) > 0).astype(int))


def named(y):
    return y.map({0: "no", 1: "yes"})


@pytest.mark.parametrize(
    "convert",
    [
        lambda y: y.astype("Int64"),
        lambda y: y.astype("Int8"),
        lambda y: y.astype("Float64"),
        lambda y: y.astype("boolean"),
        lambda y: y.astype(bool),
        lambda y: y.astype(object),
        lambda y: y.astype(str),
        lambda y: y.astype("category"),
        lambda y: y.astype("Int64").astype("category"),
        lambda y: named(y).astype("category"),
        lambda y: named(y).astype(pd.CategoricalDtype(["yes", "no", "never"], ordered=True)),
        lambda y: named(y).astype("string"),
        lambda y: named(y),
        lambda y: pd.array(y, dtype="Int64"),
        lambda y: pd.Index(named(y)),
        lambda y: y.tolist(),
        lambda y: named(y).tolist(),
        lambda y: y.set_axis(range(100, 160)).astype("Int64"),
    ],
)
def test_pandas_labels(frame, convert):
    X, y = frame
    reference = ImmaxClassifier(rho=[1.0, 2.0], alpha=0.1).fit(X, y)
    labels = convert(y)
    model = ImmaxClassifier(rho=[1.0, 2.0], alpha=0.1).fit(X, labels)
    np.testing.assert_array_equal(model.coef_, reference.coef_)
    assert model.score(X, labels) == reference.score(X, y) > 0.7
    assert (model.predict(X) == np.asarray(labels, dtype=object)).mean() > 0.7  # the same kind comes back
    assert model.margin_bound(X, labels) == reference.margin_bound(X, y)
    assert model.feature_names_in_.tolist() == ["u", "v"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        chosen = ImmaxClassifier(gammas=(0.0, 0.5), alpha=0.1, scoring="f1_macro", random_state=0).fit(X, labels)
    assert np.isfinite(chosen.cv_results_["mean_test_score"]).all()


@pytest.mark.parametrize(
    ("convert", "hole"),
    [
        (lambda y: y.astype("Int64"), pd.NA),
        (lambda y: y.astype("boolean"), pd.NA),
        (lambda y: named(y).astype("string"), pd.NA),
        (lambda y: named(y).astype("category"), np.nan),
        (lambda y: named(y), None),
        (lambda y: y.astype(float), np.nan),
    ],
)
def test_missing_labels_are_counted(frame, convert, hole):
    X, y = frame
    labels = convert(y)
    labels.iloc[[3, 7]] = hole
    model = ImmaxClassifier(rho=[1.0, 1.0], alpha=0.1)
    with pytest.raises(ValueError, match="2 missing label"):
        model.fit(X, labels)
    if hole is not pd.NA:
        with pytest.raises(ValueError, match="2 missing label"):
            model.fit(X, labels.tolist())


def test_mixed_labels_are_refused(frame):
    X, _ = frame
    with pytest.raises(TypeError, match="y mixes kinds of labels"):
        ImmaxClassifier(rho=[1.0, 1.0], alpha=0.1).fit(X, ["a", 1] * 30)
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        ImmaxClassifier(rho=[1.0, 1.0], alpha=0.1).fit(X, np.linspace(0, 1.5, 60))


# Sparse rows


def sparse_rows(long_indices):
    rng = np.random.default_rng(4)
    X = sp.random_array((2000, 50_000), density=2e-4, format="csr", rng=rng)
    if long_indices:
        X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return X, (X @ rng.normal(size=50_000) > 0).astype(int)


def test_sparse_with_long_indices():
    X, y = sparse_rows(True)
    tracemalloc.start()
    a = ImmaxClassifier(rho=[1.0, 1.0], alpha=0.01).fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 150e6  # dense rows would take 800 MB
    X32 = sp.csr_matrix(sparse_rows(False)[0])
    b = ImmaxClassifier(rho=[1.0, 1.0], alpha=0.01).fit(X32, y)
    assert np.abs(a.coef_ - b.coef_).max() < 1e-8
    assert a.score(X, y) > 0.9
    assert a.margin_bound() == pytest.approx(a.margin_bound(X, y))


@pytest.mark.parametrize("container", [sp.csr_matrix, sp.csr_array, sp.csc_array, sp.coo_array])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_sparse_equals_dense(container, n_classes):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 5)) * (rng.random((80, 5)) < 0.5)
    y = rng.integers(0, n_classes, 80)
    rho = "theory"
    a = ImmaxClassifier(rho=rho, alpha=0.01).fit(X, y)
    b = ImmaxClassifier(rho=rho, alpha=0.01).fit(container(X), y)
    np.testing.assert_allclose(a.coef_, b.coef_, atol=1e-8)
    np.testing.assert_allclose(a.decision_function(X), b.decision_function(container(X)), atol=1e-8)
    chosen = ImmaxClassifier(random_state=0, scoring="neg_log_loss").fit(container(X), y)
    assert np.isfinite(chosen.cv_results_["mean_test_score"]).all()


@pytest.mark.parametrize("settings_", [{"kernel": "rbf"}, {"hidden": (4,)}])
def test_sparse_rows_need_the_linear_model(settings_):
    X, y = sp.csr_array(np.eye(10)), np.arange(10) % 2
    name = next(iter(settings_))
    with pytest.raises(TypeError, match=rf"X is sparse, which {name}=.* linear model \(kernel=None and hidden=None\)"):
        ImmaxClassifier(rho=[1, 1], alpha=0.1, **settings_).fit(X, y)
