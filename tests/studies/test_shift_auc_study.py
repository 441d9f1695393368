"""The study of the shifted AUC: its draws have the declared laws, and every contender runs."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from paperworks.bench.catalog import missing_distributions
from paperworks.studies.imbalanced import shift_auc as study

STUDY = study.STUDY
INSTALLED = [c.name for c in STUDY.contenders if not missing_distributions(c.requires)]
SETTINGS = STUDY.scales["quick"].settings


def test_the_declaration_needs_no_heavy_import():
    code = (
        "import sys, paperworks.studies.imbalanced.shift_auc; "
        "print(sorted({'torch', 'sklearn', 'pandas', 'pulearn'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("contender", INSTALLED)
def test_smoke(contender):
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    metrics = study.trial(contender, "gaussian-groups", 0, "smoke")
    assert set(metrics) == {m.name for m in STUDY.metrics}
    assert 0 < metrics["auc"] < 1
    assert np.isfinite(metrics["effective-positives"]) == (
        contender in ("shift-auc", "shift-auc-cv", "mix-1", "mix-0", "true-weights")
    )
    study.problem_of.cache_clear()
    study.weights_of.cache_clear()
    np.testing.assert_equal(study.trial(contender, "gaussian-groups", 0, "smoke"), metrics)
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002


def test_unweighted_contenders_rank_gaussian_groups_backwards():
    auc = {c: study.trial(c, "gaussian-groups", 3, "quick")["auc"] for c in ("true-weights", "unweighted-pu")}
    assert auc["unweighted-pu"] < 0.4 < 0.6 < auc["true-weights"]
    assert study.trial("supervised-target", "gaussian-groups", 3, "quick")["auc"] > auc["true-weights"]


def test_grouped_images_follow_their_law():
    X, y, group = study.images("digits")
    for shift, share in ((True, 0.1), (False, 0.9)):
        problem = study.image_problem("digits", 1, shift, SETTINGS)
        sizes = [len(x) for x in (problem.pos, problem.unl, problem.target, problem.X_test)]
        assert sizes == [150, 600, 600, 1500]
        assert problem.y_test.mean() == pytest.approx(0.2, abs=0.04)
        known = {x.tobytes(): (label, g) for x, label, g in zip(X, y, group, strict=True)}
        laws = {name: [known[x.tobytes()] for x in getattr(problem, name)] for name in ("pos", "unl", "target")}
        assert all(label == 1 for label, _ in laws["pos"])
        assert np.mean([g for _, g in laws["unl"]]) == pytest.approx(0.9, abs=0.05)
        assert np.mean([g for _, g in laws["target"]]) == pytest.approx(share, abs=0.05)
        assert [label for label, _ in laws["target"]] == problem.target_labels.tolist()
        seen = {x.tobytes() for x in (*problem.pos, *problem.unl)}
        assert not seen & {x.tobytes() for x in problem.target}
        assert not (seen | {x.tobytes() for x in problem.target}) & {x.tobytes() for x in problem.X_test}
        # weighting the training rows gives the target's shares: the mean weight is 1
        assert problem.true_unl.mean() == pytest.approx(1.0, abs=0.25 if shift else 1e-12)


def test_tables_move_along_their_first_component():
    problem = study.table_problem("breast-cancer-tilted", 0, SETTINGS)
    rows = np.column_stack((problem.unl, np.ones(len(problem.unl))))
    slope, *_ = np.linalg.lstsq(rows, np.log(problem.true_unl))
    np.testing.assert_allclose(rows @ slope, np.log(problem.true_unl), atol=1e-8)
    train, target = problem.unl @ slope[:-1], problem.target @ slope[:-1]
    assert target.mean() - train.mean() > train.std()


def test_own_tables(monkeypatch):
    rng = np.random.default_rng(0)
    y = np.array(["often"] * 150 + ["seldom"] * 40)
    frame = pd.DataFrame({"größe": rng.normal(size=190) + (y == "seldom"), "farbe": rng.choice(["rot", "blau"], 190)})
    frame.loc[3, "größe"] = np.nan

    class Table:
        X = frame
        y = None

    Table.y = pd.Series(y)
    monkeypatch.setattr("paperworks.datasets.load", lambda name: Table)
    for contender in INSTALLED:
        assert 0 < study.trial(contender, "file:/own.csv?target=y", 0, "smoke")["auc"] <= 1
    Table.y = pd.Series(["a"] * 190)
    study.problem_of.cache_clear()
    with pytest.raises(ValueError, match="at least 2 classes"):
        study.trial("shift-auc", "file:/own.csv?target=y", 0, "smoke")
    Table.y = pd.Series(["a"] * 187 + ["b"] * 3)
    with pytest.raises(ValueError, match="at least 6 rows"):
        study.trial("shift-auc", "file:/own.csv?target=y", 0, "smoke")
    study.problem_of.cache_clear()
    study.weights_of.cache_clear()
