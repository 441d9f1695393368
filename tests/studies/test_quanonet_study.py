"""The study's contenders at the smallest scale, and its judges."""

import math

import numpy as np
import pytest

from paperworks.studies.dynamics import quanonet as study


def test_every_contender_runs_and_repeats() -> None:
    for contender in study.STUDY.contenders:
        first, again = (dict(study.trial(contender.name, "Antideriv", 0, "smoke")) for _ in range(2))
        assert set(first) == {metric.name for metric in study.STUDY.metrics}
        assert first["relative_l2"] == again["relative_l2"] > 0
        assert math.isfinite(first["mse"])
        assert math.isnan(first["step_ms"]) == (contender.name == "ridge")


def test_contenders_have_as_many_parameters() -> None:
    settings = study.STUDY.scales["quick"].settings
    count = {
        name: sum(p.numel() for p in study.circuit(name, settings, 10, 1, 0).parameters()) for name in study.SCALES_OF
    }
    assert count["tf"] == count["tf-s1"] == count["tf-heaqnn"] == 289
    assert count["fixed"] == count["fixed-s1"] == count["heaqnn"] == 217
    assert abs(sum(p.numel() for p in study.deeponet(10, 1, 289, 0).parameters()) - 289) < 15
    other = study.circuit("tf", settings, 10, 1, 1).ansatz
    assert not (other == study.circuit("tf", settings, 10, 1, 0).ansatz).any()


def test_ridge_learns_a_linear_operator_of_low_degree() -> None:
    rng = np.random.default_rng(0)
    points = np.linspace(0, 1, 30)[:, None]
    U, maps = rng.normal(size=(80, 4)), rng.normal(size=(4, 3))
    truth = U @ maps @ np.hstack([np.ones_like(points), points, points**2]).T
    found, _ = study.ridge((U[:60], truth[:60], points), U[60:])
    assert study.relative_error(found, truth[60:]) < 1e-3
    assert study.relative_error(np.zeros(3), np.ones(3)) == pytest.approx(1)


def test_grids_of_pairs_agree() -> None:
    U, _, _, _, points = study.problem("Antideriv", 0, "smoke")
    settings = study.STUDY.scales["smoke"].settings
    model = study.circuit("tf-heaqnn", settings, U.shape[1], 1, 0)
    import torch

    u, y = (torch.as_tensor(a, dtype=torch.float32) for a in (U[:3], points))
    found = study.on_grid(model, U[:3], points)
    assert found[2, 7] == pytest.approx(float(model(u[2:3], y[7:8]).detach()), abs=1e-5)
