"""Costs against their definitions and what they must be invariant to."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import gaussian_kde

from paperworks.causal import CostModel

rng = np.random.default_rng(0)
X = np.column_stack([rng.normal(size=300), rng.exponential(size=300), rng.integers(0, 2, 300), np.full(300, 2.0)])


def by_definition(x: np.ndarray, target: np.ndarray) -> float:
    shifts = [0.0]
    for d in range(3):
        grid = np.linspace(*np.quantile(X[:, d], [0.001, 0.999]), 100)
        density = gaussian_kde(X[:, d])(grid)
        curve = np.clip(np.cumsum(density) / density.sum(), 1e-6, 1 - 1e-6)
        shifts.append(abs(np.interp(target[d], grid, curve) - np.interp(x[d], grid, curve)))
    return max(shifts)


def test_percentile_shift_by_definition() -> None:
    model = CostModel("mps").fit(X)
    others = np.random.default_rng(1).normal(scale=3, size=(40, 4))  # also beyond the grid
    for x in (X[0], np.array([0.3, 0.4, 0.6, 1.0]), np.array([-99.0, 99.0, 0.5, 2.0])):
        np.testing.assert_allclose(model.cost(x, others), [by_definition(x, t) for t in others], atol=1e-9)


@pytest.mark.parametrize("kind", ["norm", "mps", "mahalanobis"])
def test_zero_action_costs_nothing_and_costs_are_symmetric(kind: str) -> None:
    model = CostModel(kind).fit(X)
    assert (model.cost(X[5], X[[5, 5]]) == 0).all()
    np.testing.assert_allclose(model.cost(X[0], X[:20])[7], model.cost(X[7], X[:20])[0], rtol=1e-12)
    assert model.cost(X[0], X[1:]).min() >= 0
    assert model.cost(X[0], X).max() > 0.5


@given(st.integers(0, 2), st.floats(0, 4), st.floats(0, 4), st.sampled_from([-1.0, 1.0]))
@settings(max_examples=60, deadline=None)
def test_larger_changes_of_a_feature_cost_no_less(d: int, a: float, b: float, sign: float) -> None:
    for kind in ("norm", "mps", "mahalanobis"):
        model = MODELS[kind]
        action = np.zeros((2, 4))
        action[:, d] = sign * np.sort([a, b])
        small, large = model.cost(X[3], X[3] + action)
        assert small <= large + 1e-12
        assert kind != "mps" or large <= 1


MODELS = {kind: CostModel(kind).fit(X) for kind in ("norm", "mps", "mahalanobis")}


def test_norm_is_the_sum_of_changes() -> None:
    assert MODELS["norm"].cost([0, 0, 0, 0], [[1, -2, 0.5, 0]]).tolist() == [3.5]


def test_mahalanobis_is_invariant_to_affine_maps_and_survives_a_singular_covariance() -> None:
    Z = X[:, :3]
    mixing, shift = np.array([[2.0, 1, 0], [0, 3, 1], [1, 0, 0.1]]), np.array([5.0, -3, 9])
    plain = CostModel("mahalanobis").fit(Z).cost(Z[0], Z)
    np.testing.assert_allclose(
        CostModel("mahalanobis").fit(Z @ mixing + shift).cost(Z[0] @ mixing + shift, Z @ mixing + shift),
        plain,
        rtol=1e-8,
    )
    inverse = np.linalg.inv(np.cov(Z, rowvar=False))
    np.testing.assert_allclose(plain[1] ** 2, (Z[1] - Z[0]) @ inverse @ (Z[1] - Z[0]), rtol=1e-10)
    double = np.column_stack([Z, Z[:, 0] + Z[:, 1]])
    np.testing.assert_allclose(CostModel("mahalanobis").fit(double).cost(double[0], double), plain, rtol=1e-6)


def test_percentiles_do_not_depend_on_units() -> None:
    scaled = X * [1e-9, 1e9, 3, 1] + [0, 5, -2, 4]
    np.testing.assert_allclose(
        CostModel("mps").fit(scaled).cost(scaled[0], scaled), MODELS["mps"].cost(X[0], X), atol=1e-7
    )


def test_nearly_constant_feature_still_counts() -> None:
    Z = np.zeros((5000, 1))
    Z[17] = 1.0
    found = CostModel("mps").fit(Z).cost([0.0], [[0.0], [1.0]])
    assert found[0] == 0
    assert 0 < found[1] <= 1


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: CostModel("manhattan").fit(X), "kind"),
        (lambda: CostModel().fit(X[:1]), "at least 2 rows"),
        (lambda: CostModel().fit(np.where(X > 1, np.nan, X)), "NaN"),
        (lambda: CostModel().cost(X[0], X), "not fitted"),
        (lambda: MODELS["mps"].cost(X[0, :2], X), "4 features"),
        (lambda: MODELS["mps"].cost(X[0], X[:, :2]), "targets must have 4"),
        (lambda: MODELS["mps"].cost(X[0], X[0]), "targets"),
    ],
)
def test_bad_input(call: object, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        call()
