"""Margins, the margin loss and the class-sensitive complexity against closed forms and brute force."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

pytest.importorskip("torch")

from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from paperworks.imbalanced import class_margin_loss, class_sensitive_rademacher, optimal_margins


def test_reference_margins():
    rho = optimal_margins([400, 50, 7], [2, 1.5, 3], total=3)
    np.testing.assert_allclose(rho, [1.71140516, 0.70636692, 0.58222792], atol=1e-8)
    np.testing.assert_allclose(optimal_margins([8, 1]), [2 / 3, 1 / 3])


@settings(max_examples=100, deadline=None)
@given(
    classes=st.lists(st.tuples(st.integers(1, 10**7), st.floats(1e-3, 1e3)), min_size=2, max_size=8),
    total=st.floats(1e-3, 1e3),
)
def test_margins_satisfy_the_optimality_conditions(classes, total):
    m, r = np.array(classes).T
    rho = optimal_margins(m, r, total=total)
    np.testing.assert_allclose(rho.sum(), total)
    slopes = m * r**2 / rho**3
    np.testing.assert_allclose(slopes, slopes[0], rtol=1e-9)

    # moving margin from one class to another never helps
    def objective(v):
        return float(np.sum(m * r**2 / v**2))

    moved = rho.copy()
    shift = 0.1 * min(rho[0], rho[1])
    moved[0] += shift
    moved[1] -= shift
    assert objective(rho) <= objective(moved) * (1 + 1e-12)


def test_bad_margins():
    with pytest.raises(ValueError, match="got 2 radii for 3 counts"):
        optimal_margins([1, 2, 3], [1, 1])
    with pytest.raises(ValueError, match=r"radii must be positive, got 0.0 for class index 1"):
        optimal_margins([1, 2], [1, 0])
    with pytest.raises(ValueError, match="counts must be positive"):
        optimal_margins([0, 2])
    with pytest.raises(ValueError, match="total must be a finite number > 0"):
        optimal_margins([1, 2], total=0)
    with pytest.raises(ValueError, match="counts must have one entry for each of at least 2 classes, got 1"):
        optimal_margins([4])


def test_margin_loss_is_the_ramp():
    u = np.linspace(-2, 3, 101)
    y = np.arange(101) % 2
    rho = np.array([0.5, 2.0])
    loss = class_margin_loss(u, y, rho)
    np.testing.assert_allclose(loss, [min(1, max(0, 1 - v / rho[k])) for v, k in zip(u, y, strict=True)])
    assert (loss >= (u <= 0)).all()
    with pytest.raises(ValueError, match=r"y must lie in 0..1"):
        class_margin_loss([0.0], [2], rho)
    with pytest.raises(TypeError, match="integer type, got dtype float64"):
        class_margin_loss([0.0], [1.0], rho)
    with pytest.raises(ValueError, match="margins holds 1 value"):
        class_margin_loss([math.nan], [1], rho)


def by_all_signs(X, y, rho, bound):
    m, copies = len(X), 1 if len(rho) == 2 else len(rho)
    scaled = X / np.asarray(rho)[y][:, None]
    total = 0.0
    for signs in itertools.product((-1, 1), repeat=m * copies):
        total += np.linalg.norm(np.array(signs).reshape(copies, m) @ scaled)
    return bound / m * total / 2 ** (m * copies)


@pytest.mark.parametrize(
    ("m", "rho"), [(7, [0.5, 2.0]), (1, [1.0, 3.0]), (3, [0.5, 1.0, 2.0]), (2, [1.0, 2.0, 0.3, 1.0])]
)
def test_exact_complexity_by_brute_force(m, rho):
    rng = np.random.default_rng(m)
    X, y = rng.normal(size=(m, 3)), rng.integers(0, len(rho), m)
    exact = class_sensitive_rademacher(X, y, rho, 1.7, method="exact")
    np.testing.assert_allclose(exact, by_all_signs(X, y, rho, 1.7), rtol=1e-12)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), m=st.integers(1, 10), n_classes=st.integers(2, 3), c=st.floats(0.1, 10))
def test_order_and_scaling_of_the_complexities(seed, m, n_classes, c):
    rng = np.random.default_rng(seed)
    m = m if n_classes == 2 else min(m, 5)
    X, y, rho = rng.normal(size=(m, 2)), rng.integers(0, n_classes, m), rng.uniform(0.2, 2, n_classes)
    exact, bound, radius = (
        class_sensitive_rademacher(X, y, rho, 1.0, method=method) for method in ("exact", "bound", "radius")
    )
    assert 0 < exact <= bound * (1 + 1e-12)
    assert bound <= radius * (1 + 1e-12)
    for method, value in (("exact", exact), ("bound", bound), ("radius", radius)):
        np.testing.assert_allclose(class_sensitive_rademacher(X, y, c * rho, 1.0, method=method), value / c)
        np.testing.assert_allclose(class_sensitive_rademacher(X, y, rho, c, method=method), value * c)


def test_equal_margins_give_the_standard_complexity():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(9, 2)), rng.integers(0, 2, 9)
    signs = np.array(list(itertools.product((-1, 1), repeat=9)))
    standard = np.linalg.norm(signs @ X, axis=1).mean() / 9
    np.testing.assert_allclose(class_sensitive_rademacher(X, y, [0.4, 0.4], 1.0, method="exact"), standard / 0.4)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_monte_carlo_approaches_the_exact_value(n_classes):
    rng = np.random.default_rng(1)
    X, y, rho = rng.normal(size=(6, 4)), rng.integers(0, n_classes, 6), np.linspace(0.5, 1.5, n_classes)
    exact = class_sensitive_rademacher(X, y, rho, 2.0, method="exact")
    drawn = class_sensitive_rademacher(X, y, rho, 2.0, method="monte-carlo", n_draws=40_000, random_state=0)
    assert drawn != exact
    np.testing.assert_allclose(drawn, exact, rtol=0.02)
    again = class_sensitive_rademacher(X, y, rho, 2.0, method="monte-carlo", n_draws=40_000, random_state=0)
    assert again == drawn


def test_bad_complexity():
    X, y = np.ones((21, 2)), np.zeros(21, dtype=int)
    with pytest.raises(ValueError, match="at most 20 signs, got 21 rows = 21"):
        class_sensitive_rademacher(X, y, [1, 1], 1.0, method="exact")
    with pytest.raises(ValueError, match="got 7 rows x 3 classes = 21"):
        class_sensitive_rademacher(X[:7], y[:7], [1, 1, 1], 1.0, method="exact")
    for bad in (0, -1, math.nan):
        with pytest.raises(ValueError, match="norm_bound must be a finite number > 0"):
            class_sensitive_rademacher(X, y, [1, 1], bad)
    with pytest.raises(ValueError, match="method must be one of"):
        class_sensitive_rademacher(X, y, [1, 1], 1.0, method="upper")
    with pytest.raises(ValueError, match="at least one row"):
        class_sensitive_rademacher(np.empty((0, 2)), [], [1, 1], 1.0)
    with pytest.raises(ValueError, match=r"y must have shape \(21,\)"):
        class_sensitive_rademacher(X, y[:3], [1, 1], 1.0)
    with pytest.raises(ValueError, match="n_draws must be at least 1"):
        class_sensitive_rademacher(X, y, [1, 1], 1.0, method="monte-carlo", n_draws=0)


# Which decisions a surrogate leads to, with exact expectations and free scores


def minimiser(eta, weights=(1.0, 1.0), rho=(1.0, 1.0)):
    """Minimiser over h of E[w_y log(1 + exp(-y h / rho_y))] with P(y = +1) = eta; pairs are (negative, positive)."""

    def risk(h):
        positive = eta * weights[1] * np.logaddexp(0, -h / rho[1])
        return positive + (1 - eta) * weights[0] * np.logaddexp(0, h / rho[0])

    return minimize_scalar(risk, bounds=(-50, 50), method="bounded", options={"xatol": 1e-10}).x


def ramp_minimiser(eta, rho):
    grid = np.linspace(-5, 5, 4001)
    m = len(grid)
    loss = eta * class_margin_loss(grid, np.ones(m, int), rho) + (1 - eta) * class_margin_loss(
        -grid, np.zeros(m, int), rho
    )
    return grid[loss.argmin()]


def test_two_atoms():
    atoms = (0.45, 0.2)
    assert [minimiser(eta) > 0 for eta in atoms] == [False, False]  # cross-entropy: the Bayes rule
    assert [minimiser(eta, weights=(1, 5)) > 0 for eta in atoms] == [True, True]  # weights turn both
    assert [minimiser(eta, rho=(2.0, 1.0)) > 0 for eta in atoms] == [True, False]  # threshold 1/3
    for rho in ([1, 1], [2, 1], [0.2, 3], [3, 0.2]):
        assert [ramp_minimiser(eta, rho) > 0 for eta in atoms] == [False, False]


@settings(max_examples=50, deadline=None)
@given(eta=st.floats(0.05, 0.95), negative=st.floats(0.3, 3), positive=st.floats(0.3, 3))
def test_threshold_of_the_logistic_surrogate(eta, negative, positive):
    threshold = positive / (positive + negative)
    if abs(eta - threshold) < 1e-3:
        return
    assert (minimiser(eta, rho=(negative, positive)) > 0) == (eta > threshold)


@settings(max_examples=50, deadline=None)
@given(eta=st.floats(0.05, 0.95), negative=st.floats(0.3, 2), positive=st.floats(0.3, 2))
def test_the_ramp_is_consistent_for_all_margins(eta, negative, positive):
    if abs(eta - 0.5) < 0.02:
        return
    assert (ramp_minimiser(eta, [negative, positive]) > 0) == (eta > 0.5)
