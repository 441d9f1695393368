"""Bounds, shares and thresholds: closed forms, brute force, and the error of the stopping rule without any jump."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, optimize
from scipy.special import zeta

from paperworks.online import allocation, glr_statistic, lower_bound
from paperworks.online.change_points.stopping import StoppingRule, deviation_constant


def step(n_arms: int, *jumps: tuple[int, float]) -> np.ndarray:
    means = np.zeros(n_arms)
    for x, size in jumps:
        means[x + 1 :] += size
    return means


# --- statistic and thresholds ------------------------------------------------------------------------------------


@given(st.lists(st.integers(1, 50), min_size=2, max_size=6), st.integers(0, 10_000), st.floats(0.1, 5))
def test_statistic_is_the_likelihood_ratio(counts: list[int], seed: int, sigma: float) -> None:
    means = np.random.default_rng(seed).normal(size=len(counts))
    found = glr_statistic(counts, means, sigma=sigma)
    for x in range(len(counts) - 1):
        n, m = np.array(counts[x : x + 2]), means[x : x + 2]
        pooled = (n * m).sum() / n.sum()
        assert found[x] == pytest.approx((n * (m - pooled) ** 2).sum() / (2 * sigma**2), rel=1e-9, abs=1e-12)


def test_statistic_without_rewards_is_zero() -> None:
    np.testing.assert_array_equal(glr_statistic([0, 3, 0], [9.0, 1.0, 2.0], sigma=1.0), 0.0)


@pytest.mark.parametrize("sigma", [1.0, 0.3])
def test_mixture_is_the_integral_over_normal_means(sigma: float) -> None:
    """The evidence minus the threshold is the least log mixture over the common mean, minus log(pairs / delta)."""
    rng = np.random.default_rng(0)
    samples = [rng.normal(0.0, sigma, 7), rng.normal(2 * sigma, sigma, 4)]

    def log_mixture(mean: float) -> float:
        total = 0.0
        for sample in samples:
            s, n = (sample - mean).sum(), sample.size

            def integrand(shift: float, s: float = s, n: int = n) -> float:
                density = math.exp(-0.5 * (shift / sigma) ** 2) / (sigma * math.sqrt(2 * math.pi))
                return math.exp((shift * s - n * shift**2 / 2) / sigma**2) * density

            total += math.log(integrate.quad(integrand, -30 * sigma, 30 * sigma, points=[s / (n + 1)])[0])
        return total

    least = optimize.minimize_scalar(log_mixture, bounds=(-sigma, 3 * sigma), method="bounded").fun
    rule = StoppingRule("mixture", 9, 1, 0.1, sigma)
    distance = abs(samples[0].mean() - samples[1].mean())
    margin = rule.statistic(7.0, 4.0, distance) - rule.threshold(7.0, 4.0, 11)
    assert margin == pytest.approx(least - math.log(9 / 0.1), abs=1e-6)


@pytest.mark.parametrize("kind", ["mixture", "kk"])
def test_radius_is_where_evidence_meets_the_threshold(kind: str) -> None:
    rule = StoppingRule(kind, 19, 2, 0.05, 0.7)
    radius = rule.radius(12.0, 30.0, 100)
    assert rule.statistic(12.0, 30.0, radius) == pytest.approx(rule.threshold(12.0, 30.0, 100))


def test_deviation_constant_by_a_grid_and_the_common_approximation_is_too_small() -> None:
    s = np.linspace(0.5001, 0.9999, 200_001)
    g = 2 * s - 2 * s * np.log(4 * s) + np.log(zeta(2 * s)) - 0.5 * np.log(1 - s)
    for x in (0.5, 2.25, 4.0, 12.0):
        assert deviation_constant(x) == pytest.approx(((g + x) / s).min(), abs=1e-6)
    assert deviation_constant(2.25) > 2.25 + math.log(1 + 2.25) + 0.4  # 10 arms, delta = 0.1


def test_threshold_formulas() -> None:
    left, right = np.array([1.0, 8.0]), np.array([2.0, 50.0])
    mixture = StoppingRule("mixture", 9, 2, 0.1, 1.0).threshold(left, right, 61)
    np.testing.assert_allclose(mixture, math.log(90) + 0.5 * np.log(1 + left) + 0.5 * np.log(1 + right))
    kk = StoppingRule("kk", 9, 2, 0.1, 1.0).threshold(left, right, 61)
    logs = np.log(4 + np.log(left)) + np.log(4 + np.log(right))
    np.testing.assert_allclose(kk, 2 * deviation_constant(0.5 * math.log(90)) + 2 * logs)
    heuristic = StoppingRule("heuristic", 9, 2, 0.1, 1.0).threshold(left, right, 61)
    np.testing.assert_allclose(heuristic, math.log((1 + math.log(61)) * 2 / 0.1))


def test_false_alarms_without_any_jump() -> None:
    """2,000 runs of five equal arms, 5,000 rewards in turn each: does any pair ever pass its threshold?"""
    delta, alarms = 0.1, dict.fromkeys(("mixture", "kk", "heuristic"), 0)
    n = np.arange(1.0, 1001.0)[:, None]
    for part in range(20):
        rewards = np.random.default_rng(part).normal(size=(100, 1000, 5))
        means = rewards.cumsum(axis=1) / n
        for kind in alarms:
            rule = StoppingRule(kind, 4, 1, delta, 1.0)
            evidence = rule.statistic(n, n, np.abs(np.diff(means, axis=2)))
            threshold = rule.threshold(n, n, 5) if kind != "heuristic" else np.log((1 + np.log(5 * n)) / delta)
            alarms[kind] += int((evidence > threshold).any(axis=(1, 2)).sum())
    limit = 2000 * delta + 3 * math.sqrt(2000 * delta * (1 - delta))
    assert 0 < alarms["mixture"] <= limit
    assert alarms["kk"] <= limit
    assert alarms["heuristic"] > limit


# --- lower bounds ------------------------------------------------------------------------------------------------


def test_lower_bounds_by_hand() -> None:
    log = math.log(2.5)
    assert lower_bound(step(10, (4, 1.0)), delta=0.1) == pytest.approx(8 * log)
    assert lower_bound(step(10, (4, 1.0)), delta=0.1) == pytest.approx(7.330, abs=5e-4)
    assert lower_bound(step(20, (7, 0.5)), delta=0.1) == pytest.approx(29.32, abs=5e-3)
    two = step(20, (5, 1.0), (13, -0.7))
    assert lower_bound(two, 2, delta=0.1) == pytest.approx(22.29, abs=5e-3)
    assert lower_bound(two, 2, delta=0.1, objective="exact") == pytest.approx(22.29 / 2, abs=5e-3)
    assert lower_bound(two, 1, delta=0.1) == pytest.approx(7.330, abs=5e-4)  # the largest only
    assert lower_bound(two, 1, delta=0.1, objective="exact") == lower_bound(two, 2, delta=0.1, objective="exact")
    one = step(10, (4, 1.0))
    assert (
        lower_bound(one, delta=0.01, objective="exact")
        == lower_bound(one, delta=0.01)
        == pytest.approx(25.75, abs=0.01)
    )
    assert lower_bound(one, sigma=3.0, delta=0.1) == pytest.approx(72 * log)
    assert lower_bound(one, delta=0.25) == lower_bound(one, delta=0.9) == 0.0


def test_bound_is_what_the_best_shares_need() -> None:
    """One jump: log(1 / 4 delta) over the information per sample of equal halves, w (1 - w) jump^2 / 2 at w = 1/2."""
    means = step(8, (3, 0.4))
    w = allocation(means, [3])
    information = w[3] * w[4] / (w[3] + w[4]) * 0.4**2 / 2
    assert lower_bound(means, delta=0.01) == pytest.approx(math.log(25) / information)


# --- shares ------------------------------------------------------------------------------------------------------


def value(w: np.ndarray, means: np.ndarray, points: list[int]) -> float:
    x = np.array(points)
    with np.errstate(invalid="ignore"):
        return float(np.nan_to_num(w[x] * w[x + 1] / (w[x] + w[x + 1]) * np.diff(means)[x] ** 2).min())


def test_shares_by_hand() -> None:
    np.testing.assert_allclose(allocation(step(5, (2, 3.0)), [2]), [0, 0, 0.5, 0.5, 0])
    means = np.array([0.0, 1.0, 3.0])
    formula, best = allocation(means, [0, 1]), allocation(means, [1, 0], exact=True)
    np.testing.assert_allclose(formula, [0.4, 0.5, 0.1])
    np.testing.assert_allclose(best, [0.464, 0.469, 0.067], atol=5e-4)
    assert value(formula, means, [0, 1]) == pytest.approx(0.2222, abs=1e-4)
    assert value(best, means, [0, 1]) == pytest.approx(0.2333, abs=1e-4)


def test_half_the_jump_needs_four_times_the_share() -> None:
    for exact in (False, True):
        full = allocation(step(9, (1, 1.0), (6, 0.8)), [1, 6], exact)
        half = allocation(step(9, (1, 1.0), (6, 0.4)), [1, 6], exact)
        assert (half[6] / half[1]) / (full[6] / full[1]) == pytest.approx(4.0)


jump_lists = st.lists(st.sampled_from([0.0, 0.1, -0.3, 0.5, 1.0, -2.0, 7.0]), min_size=1, max_size=7)


@given(jump_lists.filter(any), st.integers(0, 1000))
@settings(max_examples=60)
def test_exact_shares_beat_all_others(jumps: list[float], seed: int) -> None:
    means = np.r_[0.0, np.cumsum(jumps)]
    points = [x for x, jump in enumerate(jumps) if jump]
    best, formula = allocation(means, points, exact=True), allocation(means, points)
    assert best.sum() == pytest.approx(1.0)
    assert formula.sum() == pytest.approx(1.0)
    top = value(best, means, points)
    assert top >= value(formula, means, points) * (1 - 1e-6)
    if not any(b - a == 1 for a, b in itertools.pairwise(points)):
        np.testing.assert_allclose(best, formula, atol=1e-12)
    rng = np.random.default_rng(seed)
    others = [best * np.exp(scale * rng.normal(size=best.size)) for scale in (0.001, 0.01, 0.1, 1.0) for _ in range(20)]
    assert top >= max(value(w / w.sum(), means, points) for w in others) * (1 - 1e-6)


def test_exact_shares_on_a_long_chain_are_optimal_by_duality() -> None:
    """Any v >= 0 bounds the total weight from below by sum 2 sqrt(v_{i-1} + v_i) - sum v_i jump_i^2."""
    jumps = np.random.default_rng(0).uniform(0.3, 3.0, 60)
    means = np.r_[0.0, np.cumsum(jumps)]
    w = allocation(means, np.arange(60), exact=True)
    total = 1.0 / value(w, means, list(range(60)))
    found = optimize.minimize(
        lambda v: v @ jumps**2 - 2 * np.sqrt(np.convolve(v, [1, 1])).sum(),
        4 / jumps**4 / 2,
        bounds=[(1e-12, None)] * 60,
        method="L-BFGS-B",
        options={"maxfun": 200_000},
    )
    assert -found.fun <= total * (1 + 1e-9)
    assert total == pytest.approx(-found.fun, rel=1e-3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: lower_bound([1.0]), "means must hold at least 2 arms"),
        (lambda: lower_bound([0.0, np.nan]), "means holds 1 value"),
        (lambda: lower_bound([0, 1], 2), r"at least 2 change point\(s\), got 1"),
        (lambda: lower_bound([1, 1], objective="exact"), r"at least 1 change point\(s\), got 0"),
        (lambda: lower_bound([0, 1], objective="all"), "objective must be one of 'any', 'exact'"),
        (lambda: lower_bound([0, 1], sigma=0.0), "sigma must be a finite number > 0"),
        (lambda: lower_bound([0, 1], delta=1.0), "delta must lie strictly between 0 and 1"),
        (lambda: allocation([0, 1], []), "change_points must be a non-empty list"),
        (lambda: allocation([0, 1], [1]), r"different numbers in 0\.\.0"),
        (lambda: allocation([0, 1, 2], [1, 1]), r"different numbers in 0\.\.1"),
        (lambda: allocation([0, 1, 1], [0, 1]), r"do not change at change_points \[1\]"),
        (lambda: glr_statistic([1], [0.0, 1.0], sigma=1.0), "counts must be 2 numbers >= 0"),
        (lambda: glr_statistic([1, -1], [0.0, 1.0], sigma=1.0), "counts must be 2 numbers >= 0"),
    ],
)
def test_bad_input_is_named(call: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_wrong_types_are_named() -> None:
    with pytest.raises(TypeError, match="change_points must be integers"):
        allocation([0, 1], [0.0])
    with pytest.raises(TypeError, match="n_changes must be an integer"):
        lower_bound([0, 1], 1.0)
    with pytest.raises(TypeError, match="means must be numeric"):
        lower_bound(["a", "b"])
