"""The study of constrained cuts: its pairs, its peers, and every contender at the smallest scale."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from scipy.linalg import eigh

from paperworks.studies.clustering import constrained_cut as study

STUDY = study.STUDY
SETTINGS = STUDY.scales["smoke"].settings


def test_the_declaration_needs_no_heavy_import():
    code = (
        "import sys, paperworks.studies.clustering.constrained_cut; "
        "print(sorted({'sklearn', 'scipy', 'networkx', 'pandas'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("contender", [c.name for c in STUDY.contenders])
@pytest.mark.parametrize("dataset", STUDY.scales["smoke"].datasets)
def test_smoke(contender, dataset):
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    metrics = study.trial(contender, dataset, 0, "smoke")
    assert set(metrics) == {m.name for m in STUDY.metrics}
    again = study.trial(contender, dataset, 0, "smoke")
    for name in ("ari", "slack"):
        np.testing.assert_equal(again[name], metrics[name])
    if dataset == study.SMALL:
        assert np.isnan(metrics["ari"])
        assert metrics["slack"] >= 1.0 - 1e-9 if contender == "potential" else np.isnan(metrics["slack"])
    elif np.isfinite(metrics["ari"]):
        assert -0.6 <= metrics["ari"] <= 1
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002


def test_pairs_are_as_many_as_said_and_the_same_for_all():
    for count in study.COUNTS:
        X, y, must, cannot = study._table(f"wine/{count}", 3, SETTINGS)
        assert len(must) + len(cannot) == count
        assert (y[must[:, 0]] == y[must[:, 1]]).all()
        assert (y[cannot[:, 0]] != y[cannot[:, 1]]).all()
        again = study._table(f"wine/{count}", 3, SETTINGS)
        np.testing.assert_array_equal(must, again[2])
        np.testing.assert_array_equal(X, again[0])


def test_cop_kmeans_keeps_constraints_and_finds_blobs():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(30, 2)), rng.normal(size=(30, 2)) + 8])
    must, cannot = np.array([[0, 1], [1, 2], [30, 31]]), np.array([[0, 30], [5, 40]])
    labels = study._cop_kmeans(X, 2, must, cannot, rng)
    assert len(set(labels[:30])) == len(set(labels[30:])) == 1
    forced = study._cop_kmeans(X, 2, np.empty((0, 2), int), np.array([[0, 1]]), rng)
    assert forced[0] != forced[1]


def test_the_signed_laplacian_separates_an_easy_pair():
    G, H, y = study._graphs("sbm-0.13", 0, {"n": 300})
    signed, halves = study._signed(G, H), study._halves(G.toarray(), 0)
    assert abs(np.corrcoef(signed, y)[0, 1]) > 0.9
    assert signed.sum() == halves.sum() == 150
    degree = np.diag(G.toarray().sum(axis=1))
    fiedler = eigh(degree - G.toarray(), degree, subset_by_index=[1, 1])[1][:, 0]
    assert abs(np.corrcoef(halves, fiedler > np.median(fiedler))[0, 1]) == pytest.approx(1.0)
