"""Prediction sets of several models against exact arithmetic on every breakpoint."""

from fractions import Fraction
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paperworks.conformal import false_coverage_proportion
from paperworks.conformal.cojer.aggregation import (
    AGGREGATIONS,
    aggregate,
    conformal_ranks,
    prediction_hulls,
    prediction_unions,
    strictly_above,
)


def accepts(y: Fraction, f: list[int], residuals: np.ndarray, aggregation: str, t: int) -> bool:
    """Whether agg(R(y)) > t, in exact arithmetic."""
    ranks = [1 + sum(abs(y - c) <= int(r) for r in row) for c, row in zip(f, residuals, strict=True)]
    M = len(ranks)
    if aggregation == "harmonic":
        return M / sum(Fraction(1, r) for r in ranks) > t
    if aggregation == "arithmetic":
        return Fraction(sum(ranks), M) > t
    if aggregation == "geometric":
        return prod(ranks) > t**M
    position = Fraction(3, 10) * (M - 1)
    low = int(position)
    ranks.sort()
    upper = ranks[min(low + 1, M - 1)]
    return (ranks[low] + (position - low) * (upper - ranks[low])) / Fraction(3, 10) > t


def true_pieces(f: list[int], residuals: np.ndarray, aggregation: str, t: int) -> list[tuple[float, float]]:
    """Pieces of the set, by looking at every breakpoint and every gap."""
    points = sorted(
        {Fraction(c + s * int(r)) for c, row in zip(f, residuals, strict=True) for r in row for s in (-1, 1)}
    )
    if accepts(points[-1] + 1, f, residuals, aggregation, t):
        return [(-np.inf, np.inf)]
    pieces: list[list[float]] = []
    joined = False
    for i, y in enumerate(points):
        if accepts(y, f, residuals, aggregation, t):
            if joined:
                pieces[-1][1] = float(y)
            else:
                pieces.append([float(y), float(y)])
            joined = i + 1 < len(points) and accepts((y + points[i + 1]) / 2, f, residuals, aggregation, t)
        else:
            joined = False
    return [tuple(piece) for piece in pieces]


@st.composite
def problems(draw, max_models: int = 4):
    M, n = draw(st.integers(1, max_models)), draw(st.integers(1, 9))
    spread = draw(st.sampled_from([0, 3, 15, 40]))
    f = draw(st.lists(st.integers(-spread, spread), min_size=M, max_size=M))
    rows = draw(st.lists(st.lists(st.integers(0, 12), min_size=n, max_size=n), min_size=M, max_size=M))
    return f, np.sort(np.array(rows, dtype=float), axis=1), draw(st.sampled_from(AGGREGATIONS)), draw(st.integers(0, n))


@settings(deadline=None, max_examples=400)
@given(problem=problems())
def test_hull_and_union_are_exact(problem):
    f, residuals, aggregation, t = problem
    expected = true_pieces(f, residuals, aggregation, t)
    predictions = np.array([f], dtype=float)
    (hull,) = prediction_hulls(predictions, residuals, aggregation, strictly_above(t))
    (union,) = prediction_unions(predictions, residuals, aggregation, strictly_above(t))
    assert union.shape == (len(expected), 2)
    np.testing.assert_array_equal(union, np.array(expected).reshape(-1, 2))
    if expected:
        assert tuple(hull) == (expected[0][0], expected[-1][1])
    else:
        assert np.isnan(hull).all()


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
@pytest.mark.parametrize("spread", [0.1, 1.0, 4.0])
def test_batches_agree_with_single_points_and_unions(aggregation, spread):
    rng = np.random.default_rng(0)
    n, M, m = 60, 3, 40
    residuals = np.sort(np.abs(rng.normal(size=(M, n))), axis=1)
    predictions = spread * rng.normal(size=(m, M))
    level = strictly_above(7)
    hulls = prediction_hulls(predictions, residuals, aggregation, level)
    unions = prediction_unions(predictions, residuals, aggregation, level)
    for f, hull, union in zip(predictions, hulls, unions, strict=True):
        np.testing.assert_array_equal(prediction_hulls(f[None], residuals, aggregation, level)[0], hull)
        if len(union):
            np.testing.assert_allclose([union[0, 0], union[-1, 1]], hull, rtol=1e-12)
            assert (union[:, 0] <= union[:, 1]).all()
            assert (union[1:, 0] > union[:-1, 1]).all()
        else:
            assert np.isnan(hull).all()
    if spread == 4.0 and aggregation == "harmonic":
        assert any(len(union) == 0 for union in unions)
    # Dense labels: members of the set lie in its pieces, others do not.
    y = np.linspace(-12, 12, 2001)
    for f, union in zip(predictions[:10], unions[:10], strict=True):
        member = aggregate(conformal_ranks(y[:, None], f, residuals), aggregation) > level
        inside = ((union[:, 0] <= y[:, None]) & (y[:, None] <= union[:, 1])).any(axis=1)
        np.testing.assert_array_equal(member, inside)


def test_one_model_is_prediction_plus_minus_an_order_statistic():
    rng = np.random.default_rng(1)
    residuals = np.sort(rng.exponential(size=(1, 99)), axis=1)
    f = rng.normal(size=(20, 1))
    for t in (1, 10, 99):
        hulls = prediction_hulls(f, residuals, "harmonic", strictly_above(t))
        half_width = residuals[0, 99 - t]  # the (n+1-t)-th smallest
        np.testing.assert_array_equal(hulls, np.column_stack([f - half_width, f + half_width]))


@pytest.mark.parametrize("aggregation", ["harmonic", "arithmetic", "geometric"])
@pytest.mark.parametrize("n_models", [2, 3, 5, 7])
def test_identical_models_are_one_model(aggregation, n_models):
    # Among them three equal p-values of 2/201, whose harmonic mean exceeds 2/201 in double precision.
    rng = np.random.default_rng(2)
    residuals = np.sort(rng.exponential(size=(1, 200)), axis=1)
    f = 100 * rng.normal(size=(50, 1))
    for t in (1, 2, 3, 20, 67, 200):
        single = prediction_hulls(f, residuals, aggregation, strictly_above(t))
        several = prediction_hulls(
            np.tile(f, n_models), np.tile(residuals, (n_models, 1)), aggregation, strictly_above(t)
        )
        np.testing.assert_array_equal(several, single)


def test_far_from_zero():
    # |(f + r) - f| exceeds r by rounding for about a quarter of such numbers.
    rng = np.random.default_rng(3)
    residuals = np.sort(rng.exponential(size=(1, 200)), axis=1)
    f = 1e6 * rng.normal(size=(200, 1))
    single = prediction_hulls(f, residuals, "harmonic", strictly_above(15))
    several = prediction_hulls(np.tile(f, 3), np.tile(residuals, (3, 1)), "harmonic", strictly_above(15))
    np.testing.assert_array_equal(several, single)


def test_translation_and_scale():
    rng = np.random.default_rng(4)
    residuals = np.sort(rng.exponential(size=(3, 50)), axis=1)
    f = rng.normal(size=(30, 3))
    base = prediction_hulls(f, residuals, "harmonic", strictly_above(5))
    np.testing.assert_array_equal(prediction_hulls(4 * f, 4 * residuals, "harmonic", strictly_above(5)), 4 * base)
    moved = prediction_hulls(f + 7.0, residuals, "harmonic", strictly_above(5))
    np.testing.assert_allclose(moved, base + 7.0, rtol=1e-12)
    mirrored = prediction_hulls(-f, residuals, "harmonic", strictly_above(5))
    np.testing.assert_array_equal(mirrored, -base[:, ::-1])


def test_models_far_apart_have_an_empty_set():
    hull = prediction_hulls(np.array([[0.0, 100.0]]), np.array([[1.0, 2.0, 3.0]] * 2), "harmonic", strictly_above(2))
    assert np.isnan(hull).all()


def test_blocks(monkeypatch):
    rng = np.random.default_rng(5)
    residuals = np.sort(rng.exponential(size=(2, 30)), axis=1)
    f = rng.normal(size=(50, 2))
    whole = prediction_hulls(f, residuals, "harmonic", strictly_above(3))
    monkeypatch.setattr("paperworks.conformal.cojer.aggregation._BLOCK", 7)
    np.testing.assert_array_equal(prediction_hulls(f, residuals, "harmonic", strictly_above(3)), whole)


@given(
    ranks=st.lists(st.integers(1, 500), min_size=1, max_size=6),
    aggregation=st.sampled_from(AGGREGATIONS),
    factor=st.integers(1, 5),
)
def test_aggregates(ranks, aggregation, factor):
    value = float(aggregate(np.array(ranks), aggregation))
    by_definition = {
        "harmonic": len(ranks) / sum(1 / r for r in ranks),
        "arithmetic": sum(ranks) / len(ranks),
        "geometric": prod(ranks) ** (1 / len(ranks)),
        "quantile": np.quantile(ranks, 0.3) / 0.3,
    }
    assert value == pytest.approx(by_definition[aggregation], rel=1e-9)
    # Homogeneous: what holds for ranks holds for p-values.
    assert aggregate(factor * np.array(ranks), aggregation) == pytest.approx(factor * value, rel=1e-9)


class TestFalseCoverageProportion:
    def test_closed_intervals(self):
        assert false_coverage_proportion([[0, 1], [0, 1], [0, 1], [0, 1]], [0, 1, 1.001, -0.001]) == 0.5

    def test_empty_and_infinite(self):
        assert false_coverage_proportion([[np.nan, np.nan], [-np.inf, np.inf]], [0.0, 1e300]) == 0.5

    def test_unions(self):
        unions = [np.array([[0, 1], [2, 3]]), np.empty((0, 2)), np.array([[0, 1], [2, 3]]), np.array([[5.0, 5.0]])]
        assert false_coverage_proportion(unions, [2.5, 0.0, 1.5, 5.0]) == 0.5

    @given(st.lists(st.booleans(), min_size=1, max_size=20))
    def test_counts(self, hits):
        assert false_coverage_proportion([[0, 1]] * len(hits), [0.5 if hit else 2.0 for hit in hits]) == pytest.approx(
            1 - sum(hits) / len(hits)
        )

    @pytest.mark.parametrize(
        ("intervals", "y", "message"),
        [
            ([], [], "at least one"),
            ([[0, 1]], [0, 1], "same length"),
            ([[0, 1]], [np.nan], "NaN"),
            ([[0, 1, 2]], [0.5], r"shape \(m, 2\)"),
        ],
    )
    def test_bad_input(self, intervals, y, message):
        with pytest.raises(ValueError, match=message):
            false_coverage_proportion(intervals, y)
