"""Rent or buy: the rule minimises its bound, bounds hold where the law is known, peers' rules, bad input."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from sklearn.exceptions import NotFittedError

from paperworks.online import (
    SkiRental,
    binary_rent_time,
    conformal_rent_time,
    max_calibration_error,
    ski_rental_cost,
)

B = 30.0


def plain(alpha: float = 0.0, buy_cost: float = B) -> SkiRental:
    return SkiRental(buy_cost, calibrator=None, alpha=alpha)


def eq2(k: float, v: float, alpha: float) -> float:
    """The bound that the rent time minimises, with b = 1 and k < 1."""
    return 1 + 2 * alpha + (v + alpha) * k + (1 - v + alpha) / k


def sample(m: int = 2000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Scores that are too high, and durations on both sides of B."""
    rng = np.random.default_rng(seed)
    scores = rng.random(m)
    return scores, np.where(rng.random(m) < 0.9 * scores**2, 3 * B, B / 2) * rng.uniform(0.9, 1.1, m)


# --- cost --------------------------------------------------------------------------------------------------------


@given(st.floats(0, 100), st.floats(0, 100), st.floats(0.1, 100))
def test_cost_is_that_of_the_story(k: float, z: float, b: float) -> None:
    paid = z if z <= k else k + b  # the need ends while renting, or it is bought at k
    assert ski_rental_cost(k, z, b) == paid
    assert paid >= min(z, b)


def test_cost_broadcasts() -> None:
    np.testing.assert_array_equal(ski_rental_cost([[1.0], [5.0]], [0, 1, 2, 9], 4), [[0, 1, 5, 5], [0, 1, 2, 9]])


# --- the rule ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.0, 0.02, 0.1, 0.3])
def test_rent_time_minimises_equation_2(alpha: float) -> None:
    switch = (4 + 3 * alpha) / 5
    for v in np.linspace(switch, 1, 12)[1:-1]:
        best = minimize_scalar(eq2, bounds=(1e-9, 1), args=(v, alpha), method="bounded", options={"xatol": 1e-12})
        k = float(plain(alpha).rent_time(v)) / B
        assert k == pytest.approx(best.x, abs=1e-6)
        assert eq2(k, v, alpha) == pytest.approx(float(plain(alpha).bound(v)), abs=1e-12)
        assert best.fun < 1 + 3 * alpha + v  # better than breaking even


@given(st.floats(0, 0.33))
def test_both_branches_of_the_bound_meet_at_the_switch(alpha: float) -> None:
    v = (4 + 3 * alpha) / 5
    assert v + alpha == pytest.approx(2 * np.sqrt((v + alpha) * (1 - v + alpha)), abs=1e-12)
    assert plain(alpha).rent_time(v - 1e-9) == B
    assert plain(alpha).rent_time(min(v + 1e-9, 1.0)) == pytest.approx(B / 2, abs=1e-6)


@given(st.floats(0, 1), st.floats(0, 0.5), st.floats(0.01, 100))
def test_rent_time_scales_with_the_price(v: float, alpha: float, c: float) -> None:
    assert plain(alpha, c * B).rent_time(v) == pytest.approx(c * float(plain(alpha).rent_time(v)), rel=1e-12)


def test_ends_and_switch_without_calibration_error() -> None:
    np.testing.assert_array_equal(plain().rent_time([0, 0.5, 0.8, 1]), [B, B, B, 0])
    np.testing.assert_array_equal(plain().cost([1, 1, 1], [0, 1e-9, 500]), [0, B, B])
    np.testing.assert_array_equal(plain().competitive_ratio([1, 1, 0], [0, 500, 500]), [1, 1, 2])
    assert float(plain().bound(np.linspace(0, 1, 1001)).max()) == pytest.approx(1.8)
    assert plain().bound(1.0) == 1.0


def test_shapes_follow_the_scores() -> None:
    assert plain().rent_time(0.9).shape == ()
    assert plain().rent_time(np.full((2, 3), 0.9)).shape == (2, 3)
    assert plain().rent_time([]).shape == (0,)
    fitted = SkiRental(B, n_bins=5).fit(*sample())
    table = np.random.default_rng(1).random((4, 5))
    np.testing.assert_array_equal(fitted.rent_time(table).ravel(), fitted.rent_time(table.ravel()))


# --- the bounds --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.0, 0.05])
def test_theorem_3_3_where_the_law_is_known(alpha: float) -> None:
    """Given v the need is long with probability v -+ alpha; short needs are as bad as they can be."""
    v = np.linspace(0.01, 0.99, 50)
    k = plain(alpha).rent_time(v)
    z_short = np.where(k < B, k * (1 + 1e-9), B / 2)
    for p in (np.clip(v + alpha, 0, 1), np.clip(v - alpha, 0, 1), v):
        expected = p * plain(alpha).competitive_ratio(v, np.full(50, 3 * B)) + (1 - p) * plain(alpha).competitive_ratio(
            v, z_short
        )
        assert (expected <= plain(alpha).bound(v) + 1e-6).all()
    if alpha == 0:
        np.testing.assert_allclose(expected, plain().bound(v), atol=1e-6)  # nothing is given away
    rng = np.random.default_rng(0)
    long = rng.random((50, 20_000)) < v[:, None]
    simulated = [-plain(alpha).score(np.full(20_000, v[i]), np.where(long[i], 3 * B, z_short[i])) for i in range(50)]
    noise = 4 * np.maximum(1, B / np.maximum(k, 1e-9)) * np.sqrt(v * (1 - v) / 20_000)
    assert (np.array(simulated) <= plain(alpha).bound(v) + noise).all()


@pytest.mark.parametrize(("alpha", "worst"), [(0.05, 5.58258), (0.1, 4.31662), (0.3, 3.08167), (0.34, 2.0)])
def test_robustness_is_the_worst_ratio(alpha: float, worst: float) -> None:
    scores = np.append(np.linspace(0, 1, 401), 1.0)
    rule = plain(alpha)
    k = rule.rent_time(scores)
    after = k * (1 + 1e-9) + 1e-12
    durations = np.concatenate([np.tile(np.linspace(0, 3 * B, 200), (scores.size, 1)).T, after[None]])
    ratios = rule.competitive_ratio(np.tile(scores, (201, 1)), durations)
    assert ratios.max() == pytest.approx(worst, abs=1e-4)
    fitted = SkiRental(B, alpha=alpha).fit(*sample())
    assert fitted.robustness_ == pytest.approx(worst, abs=1e-5)
    if alpha < 1 / 3:
        place = np.unravel_index(ratios.argmax(), ratios.shape)
        assert (scores[place[1]], place[0]) == (1.0, 200)  # v = 1, just after buying
        assert worst < 1 + (1 + alpha) / alpha - 0.5  # the expression without the root is valid but loose


def test_robustness_at_the_ends() -> None:
    assert SkiRental(B).fit(*sample()).robustness_ == np.inf
    for alpha in (1 / 3, 0.5, 1.0):
        fitted = SkiRental(B, alpha=alpha).fit(*sample())
        assert fitted.robustness_ == 2.0
        np.testing.assert_array_equal(fitted.rent_time(np.linspace(0, 1, 11)), B)


@pytest.mark.parametrize("calibrator", ["histogram", "isotonic", "platt"])
def test_global_bound_and_lemma_3_5(calibrator: str) -> None:
    rule = SkiRental(B, calibrator).fit(*sample())
    scores, durations = sample(20_000, seed=1)
    assert 1 < -rule.score(scores, durations) < rule.global_bound_ + 0.02 < 2
    v = np.clip(rule.calibrator_.transform(scores), 0, 1)
    happened = durations > B
    alpha = max_calibration_error(v, happened, 20)
    assert np.mean(v * (1 - v)) <= np.mean((v - happened) ** 2) + alpha
    fitted_on = sample()
    p = np.clip(rule.calibrator_.transform(fitted_on[0]), 0, 1)
    eta = np.mean((p - (fitted_on[1] > B)) ** 2)
    assert rule.mse_ == pytest.approx(eta, rel=1e-12)
    assert rule.global_bound_ == pytest.approx(1 + min(p.mean(), 2 * np.sqrt(eta)))


def test_lower_bound_of_theorem_3_4() -> None:
    """No rent time does better than the bound on the worst law that has the same probability of a long need."""
    for v in (0.3, 0.7, 0.85, 0.95):
        rent = np.concatenate([np.linspace(0, 1, 2001), [1.5, 3.0]])
        # the adversary: long needs are very long, short ones end just after buying (or at once, if k is beyond b)
        short = np.where(rent < 1, rent + 1e-9, 0.5)
        best = np.minimum(short, 1)
        ratios = v * (rent + 1) + (1 - v) * ski_rental_cost(rent, short, 1.0) / best
        assert ratios.min() >= float(plain().bound(v)) - 1e-3
        assert ratios.min() == pytest.approx(float(plain().bound(v)), abs=1e-3)


def test_calibration_pays_on_overconfident_scores() -> None:
    def overconfident(m: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(seed)
        truth = rng.beta(2, 1, m)
        odds = (truth / (1 - truth)) ** 3
        return odds / (1 + odds), np.where(rng.random(m) < truth, 3 * B, B / 10)

    test = overconfident(20_000, 1)
    calibrated = -SkiRental(B).fit(*overconfident(4000, 0)).score(*test)
    break_even = np.mean(ski_rental_cost(B, test[1], B) / np.minimum(test[1], B))
    assert calibrated < min(-plain().score(*test), break_even) - 0.02


# --- fit ---------------------------------------------------------------------------------------------------------


def test_heldout_alpha_is_measured_on_the_other_half() -> None:
    scores, durations = sample(1001)
    rule = SkiRental(B, n_bins=10, alpha="heldout", random_state=3).fit(scores, durations)
    assert rule.calibrator_.bin_counts_.sum() == 501
    assert 0 < rule.alpha_ < 0.3
    assert rule.alpha_ == SkiRental(B, n_bins=10, alpha="heldout", random_state=3).fit(scores, durations).alpha_
    assert rule.alpha_ != SkiRental(B, n_bins=10, alpha="heldout", random_state=4).fit(scores, durations).alpha_
    v = rule.calibrator_.transform(scores)
    on_its_own = max_calibration_error(
        SkiRental(B, n_bins=10).fit(scores, durations).calibrator_.transform(scores), durations > B, 10
    )
    assert on_its_own < 1e-12  # measured where it was fitted, the error is nothing
    expected = np.where(v <= (4 + 3 * rule.alpha_) / 5, B, B * np.sqrt((1 - v + rule.alpha_) / (v + rule.alpha_)))
    np.testing.assert_allclose(rule.rent_time(scores), expected)
    without = SkiRental(B, None, n_bins=10, alpha="heldout").fit(scores, durations)
    assert without.alpha_ == max_calibration_error(scores, durations > B, 10)


def test_too_few_to_measure_is_said() -> None:
    scores, durations = sample(80)
    with pytest.warns(UserWarning, match="can't be measured"):
        rule = SkiRental(B, "platt", alpha="heldout", random_state=0).fit(scores, durations)
    assert rule.alpha_ == 0


@pytest.mark.parametrize("calibrator", ["histogram", "isotonic", "platt"])
@pytest.mark.parametrize("alpha", [0.0, "heldout"])
@pytest.mark.filterwarnings("ignore:.*labels are too few", "ignore:.*can't be measured")
def test_one_of_each_class_is_enough(calibrator: str, alpha: float | str) -> None:
    scores = np.linspace(0.1, 0.9, 60)
    durations = np.full(60, 5.0)
    durations[40] = 500.0
    rule = SkiRental(B, calibrator, alpha=alpha, random_state=0).fit(scores, durations)
    np.testing.assert_array_equal(rule.classes_, [0, 1])
    probabilities = rule.bound(np.linspace(0, 1, 50))
    assert np.isfinite(probabilities).all()
    assert (rule.rent_time(np.linspace(0, 1, 50)) <= B).all()


@pytest.mark.parametrize(("duration", "which"), [(5.0, 0), (5000.0, 1)])
def test_one_class_only_is_named(duration: float, which: int) -> None:
    rule = SkiRental(buy_cost=1000.0)
    with pytest.raises(ValueError, match=rf"all 200 sample\(s\) are of class {which}"):
        rule.fit(np.linspace(0.1, 0.9, 200), np.full(200, duration))
    assert not [name for name in vars(rule) if name.endswith("_")]


def test_unfitted_is_said() -> None:
    for rule in (SkiRental(B), SkiRental(B, calibrator=None, alpha="heldout")):
        for call in (rule.rent_time, rule.bound):
            with pytest.raises(NotFittedError):
                call([0.5])
        with pytest.raises(NotFittedError):
            rule.score([0.5], [1.0])


@pytest.mark.parametrize(
    ("change", "scores", "durations", "named"),
    [
        ({"buy_cost": 0}, [0.5, 0.5], [1, 50], "buy_cost"),
        ({"buy_cost": np.inf}, [0.5, 0.5], [1, 50], "buy_cost"),
        ({"alpha": 1.1}, [0.5, 0.5], [1, 50], "alpha"),
        ({"alpha": -0.1}, [0.5, 0.5], [1, 50], "alpha"),
        ({"alpha": "held"}, [0.5, 0.5], [1, 50], "alpha"),
        ({"calibrator": "beta"}, [0.5, 0.5], [1, 50], "calibrator"),
        ({"n_bins": 0}, [0.5, 0.5], [1, 50], "n_bins"),
        ({}, [0.5, 1.2], [1, 50], "scores .* 1.2"),
        ({}, [0.5, np.nan], [1, 50], "scores .* NaN"),
        ({}, [0.5, 0.5], [-1, 50], "durations"),
        ({}, [0.5, 0.5], [np.nan, 50], "durations"),
        ({}, [0.5, 0.5, 0.5], [1, 50], "scores and durations must be equally long"),
        ({}, [[0.5, 0.5]], [1, 50], "scores must have 1"),
        ({}, [], [], "at least one"),
    ],
)
def test_bad_input_is_named(change: dict[str, object], scores: list[float], durations: list[float], named: str) -> None:
    rule = SkiRental(**{"buy_cost": B, **change})
    with pytest.raises(ValueError, match=named):
        rule.fit(scores, durations)
    assert not [name for name in vars(rule) if name.endswith("_")]


def test_bad_input_of_the_other_methods() -> None:
    for call, named in (
        (lambda: plain().rent_time([-0.1]), "scores"),
        (lambda: plain().cost([0.5], [-1]), "durations"),
        (lambda: plain().cost([0.5], [1, 2]), "equally long"),
        (lambda: plain().score([], []), "at least one"),
        (lambda: plain(2.0).rent_time([0.5]), "alpha"),
        (lambda: SkiRental(-1, None).bound([0.5]) and SkiRental(-1, None).rent_time([0.5]), "buy_cost"),
        (lambda: ski_rental_cost(1, -1, 1), "z must"),
        (lambda: ski_rental_cost(-1, 1, 1), "k must"),
        (lambda: ski_rental_cost(1, 1, 0), "b must"),
        (lambda: ski_rental_cost([1, 2], [1, 2, 3], 1), "k and z"),
    ):
        with pytest.raises(ValueError, match=named):
            call()
    with pytest.raises(TypeError, match="scores"):
        plain().rent_time(["high"])
    np.testing.assert_array_equal(plain().rent_time([1 + 1e-12, -1e-12]), [0, B])


# --- the rules of others -----------------------------------------------------------------------------------------


def test_binary_rule() -> None:
    np.testing.assert_allclose(binary_rent_time([True, False, True], error_rate=0.09, buy_cost=10), [3, 10, 3])
    np.testing.assert_array_equal(binary_rent_time([1, 0], error_rate=0, buy_cost=10), [0, 10])
    for bad, named in (({"pred": [2]}, "pred"), ({"error_rate": 1.5}, "error_rate"), ({"buy_cost": -1}, "buy_cost")):
        with pytest.raises(ValueError, match=named):
            binary_rent_time(**{"pred": [1], "error_rate": 0.1, "buy_cost": 1, **bad})


def interval_ratio(k: np.ndarray, low: float, high: float, delta: float) -> np.ndarray:
    """Worst expected ratio of rent times k with b = 1: adversarial inside the interval, and outside of it."""
    inside = np.concatenate([np.linspace(low, high, 400), k[(k >= low) & (k < high)] + 1e-9])
    anywhere = np.concatenate([np.linspace(1e-3, 4, 400), k + 1e-9])

    def worst(z: np.ndarray) -> np.ndarray:
        table = ski_rental_cost(k[:, None], z[None], 1.0) / np.minimum(z, 1.0)
        return table.max(axis=1)

    return (1 - delta) * worst(inside) + delta * worst(anywhere)


@pytest.mark.parametrize("delta", [0.02, 0.1, 0.3, 0.45])
@pytest.mark.parametrize(
    ("low", "high"), [(0.1, 0.8), (0.3, 1.0), (0.5, 1.1), (0.8, 1.4), (0.9, 1.9), (0.2, 3.0), (1.2, 2.0), (2.0, 2.5)]
)
def test_conformal_rule_is_the_best_for_its_interval(low: float, high: float, delta: float) -> None:
    """By brute force over rent times: no other has a smaller worst case."""
    rule = float(conformal_rent_time(low, high, delta=delta, buy_cost=1.0))
    grid = np.append(np.linspace(0.002, max(1.0, high), 800), rule)
    ratios = interval_ratio(grid, low, high, delta)
    assert ratios[-1] <= ratios.min() + 0.01
    assert rule * B == pytest.approx(conformal_rent_time(low * B, high * B, delta=delta, buy_cost=B))


def test_conformal_rule_by_its_cases() -> None:
    def rule(low: float, high: float, delta: float) -> float:
        return float(conformal_rent_time(low, high, delta=delta, buy_cost=1.0))

    assert rule(0.2, 1.0, 0.1) == 1
    assert rule(1.5, 2.0, 0.1) == pytest.approx(1 / 3)
    assert rule(1.5, 2.0, 0.6) == 1
    assert rule(0.5, 2.0, 0.1) == 1
    assert rule(0.9, 1.9, 0.02) == pytest.approx(0.9 * np.sqrt(0.02 / (0.9 * 0.98)))
    assert rule(0.9, 1.9, 0.02) != pytest.approx(0.9 * np.sqrt(0.02 / 0.9 * 0.98))  # the published code
    assert rule(0.5, 1.2, 0.1) == 1.2
    assert rule(1e-320, 2.0, 0.1) == 1
    np.testing.assert_array_equal(conformal_rent_time([0.5, 0.2], 1.2, delta=0.1, buy_cost=1.0), [1.2, 1.2])


def test_conformal_rule_names_bad_input() -> None:
    for low, high, delta, named in (
        (0.0, 1.0, 0.1, "clip it at a small positive number"),
        (2.0, 1.0, 0.1, "lower must be at most upper, got 2.0 > 1.0"),
        (np.nan, 1.0, 0.1, "lower"),
        (0.5, 1.0, 0.0, "delta"),
        (0.5, 1.0, 1.0, "delta"),
        ([0.5, 0.6], [1.0, 1.0, 1.0], 0.1, "lower and upper"),
    ):
        with pytest.raises(ValueError, match=re.escape(named)):
            conformal_rent_time(low, high, delta=delta, buy_cost=1.0)


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5])
def test_theorem_3_7_intervals_that_must_hold_both_points_fall_back(share: float) -> None:
    """Short with probability 1 - a, four times as long with a: an interval of smaller miss probability says nothing."""
    z = np.array([B / 2, 2 * B])
    law = np.array([1 - share, share])
    for delta in (0.01, share - 0.01):
        k = conformal_rent_time(B / 2, 2 * B, delta=delta, buy_cost=B)
        assert k == B
        assert law @ (ski_rental_cost(k, z, B) / np.minimum(z, B)) == pytest.approx(1 + share)
    # a prediction that sees most of it: right with probability 1 - e
    for e in (0.0, 0.02):
        posterior = np.array([share * e, share * (1 - e)])
        posterior /= posterior + np.array([(1 - share) * (1 - e), (1 - share) * e])
        joint = law[:, None] * np.array([[1 - e, e], [e, 1 - e]])  # by duration and prediction
        ratios = plain().competitive_ratio(np.tile(posterior, (2, 1)), np.tile(z[:, None], (1, 2)))
        found = (joint * ratios).sum()
        assert found == 1 if e == 0 else 1 < found < 1 + share
