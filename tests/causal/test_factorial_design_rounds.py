"""Dosages under constraints, rounds, estimates, state and bad input."""

import json
import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paperworks.causal import FactorialDesign, half_fraction
from paperworks.causal.factorial_design import dosages


def seen(p: int = 5, order: int = 2, n: int = 30, dose: float = 0.5, **options) -> FactorialDesign:
    """Return a design after a round of pure noise."""
    design = FactorialDesign(p, order, random_state=0, **options)
    return design.update(design.assign(np.full(p, dose), n), np.random.default_rng(1).normal(size=n))


# One round


@pytest.mark.parametrize(
    ("p", "order", "dose", "criterion"), [(8, 1, 0.25, 14 + 1 / 3), (8, 2, 0.25, 92 + 1 / 9), (6, 3, 1 / 3, 71.0)]
)
def test_equal_dosages_are_best_under_a_supply_limit(p: int, order: int, dose: float, criterion: float) -> None:
    design = FactorialDesign(p, order)
    best = design.passive(supply=2.0)
    np.testing.assert_allclose(best, dose, rtol=1e-12)
    assert design.criterion(best) == pytest.approx(criterion, rel=1e-12)
    for share in np.random.default_rng(0).dirichlet(np.full(p, 3.0), size=300):
        assert design.criterion(np.minimum(2.0 * share, 1.0)) >= criterion - 1e-9


def test_without_scarcity_half_is_best() -> None:
    design = FactorialDesign(5, 2)
    for limits in ({}, {"supply": 2.5}, {"supply": 100.0}, {"upper": 0.5}, {"upper": 1.0, "supply": 2.6}):
        assert (design.passive(**limits) == 0.5).all()
    np.testing.assert_array_equal(design.passive(upper=[0.1, 0.2, 0.6, 1, 1]), [0.1, 0.2, 0.5, 0.5, 0.5])


@settings(deadline=None)
@given(
    st.lists(st.floats(0.05, 1.0), min_size=2, max_size=6),
    st.floats(0.2, 2.5),
    st.integers(1, 3),
    st.integers(0, 1000),
)
def test_level_is_optimal_under_caps_and_supply(caps: list[float], supply: float, order: int, seed: int) -> None:
    p = len(caps)
    design = FactorialDesign(p, min(order, p))
    best = design.passive(supply=supply, upper=caps)
    assert (best <= np.array(caps) + 1e-12).all()
    assert best.sum() <= supply * (1 + 1e-12)
    rng = np.random.default_rng(seed)
    for _ in range(30):
        other = np.clip(best + rng.normal(scale=rng.choice([0.01, 0.1]), size=p), 1e-4, caps)
        other *= min(1.0, supply / other.sum())
        assert design.criterion(other) >= design.criterion(best) * (1 - 1e-12)


def test_level_agrees_with_a_general_solver() -> None:
    from paperworks.causal.factorial_design.criteria import closed_form

    caps = np.array([0.1, 0.9, 0.3, 0.9, 0.9])
    start = np.full(5, 0.02)
    found = dosages.descend(
        lambda d: closed_form(d, 2), [start], upper=caps, supply=1.2, solver="slsqp", report=lambda line: None
    )
    np.testing.assert_allclose(found, dosages.level(caps, 1.2), atol=1e-4)
    np.testing.assert_allclose(dosages.level(caps, 1.2), [0.1, 0.275, 0.275, 0.275, 0.275], rtol=1e-12)


def test_weights_move_a_scarce_supply_to_what_counts() -> None:
    design = FactorialDesign(4, 2)
    weights = np.array([1.0 if 0 in term else 0.01 for term in design.terms_])
    dose = design.passive(supply=0.8, weights=weights)
    assert dose.sum() <= 0.8 + 1e-9
    assert dose[0] > dose[1:].max() + 0.02
    assert design.criterion(dose, weights) < design.criterion(np.full(4, 0.2), weights)
    np.testing.assert_allclose(dose[1:], dose[1:].mean(), atol=1e-3)


def test_limit_on_the_number_of_treatments() -> None:
    design = FactorialDesign(5, 2)
    np.testing.assert_array_equal(design.passive(max_treatments=2), [0.5, 0.5, 0, 0, 0])
    weights = np.array([float(3 in term) + float(1 in term) for term in design.terms_])
    np.testing.assert_array_equal(design.passive(max_treatments=2, weights=weights), [0, 0.5, 0, 0.5, 0])
    np.testing.assert_array_equal(design.passive(max_treatments=9, upper=0.4), np.full(5, 0.4))


def test_coefficients_fold_onto_the_treatments_used() -> None:
    """With treatments left out (x = -1), S absorbs (-1)^|S' minus D| beta_S' of all S' that meet D in S."""
    full, part = FactorialDesign(4, 2, random_state=0), FactorialDesign(2, 2, estimator="ols")
    beta = np.random.default_rng(0).normal(size=full.n_terms_)
    given_ = full.assign(full.passive(max_treatments=2), 50)
    part.update(given_[:, :2], full.features(given_) @ beta).fit()
    folded = [
        sum(
            (-1) ** len(set(t) - {0, 1}) * b
            for t, b in zip(full.terms_, beta, strict=True)
            if set(t) & {0, 1} == set(s)
        )
        for s in part.terms_
    ]
    np.testing.assert_allclose(part.coef_, folded, atol=1e-10)


def test_error_of_half_is_within_the_stated_factor() -> None:
    """Corollary 4.3: at most (2 K sigma^2 + 1) / n; no design of n units has less than K sigma^2 / n."""
    design = FactorialDesign(6, 2, random_state=0)
    K, n = design.n_terms_, 400
    traces = []
    for _ in range(20):
        Z = design.features(design.assign(design.passive(), n))
        traces.append(np.trace(np.linalg.inv(Z.T @ Z)))
    assert K / n < np.mean(traces) < (2 * K + 1) / n
    assert np.mean(traces) == pytest.approx(K / (n - K - 1), rel=0.03)  # as for Gaussian features


# Emulation


def test_product_law_is_emulated_exactly() -> None:
    x = np.array([[a, b, c] for a in (0, 1) for b in (0, 1) for c in (0, 1)])
    d = np.array([0.2, 0.5, 0.9])
    q = np.where(x == 1, d, 1 - d).prod(axis=1)
    design = FactorialDesign(3, 1)
    np.testing.assert_allclose(design.emulate(x, 7 * q), d, rtol=1e-12)
    assert design.emulation_gap(x, q) == pytest.approx(0.0, abs=1e-12)


@given(st.lists(st.floats(0.01, 1.0), min_size=8, max_size=8), st.lists(st.floats(0.05, 0.95), min_size=3, max_size=3))
def test_emulation_minimises_the_divergence(weights: list[float], other: list[float]) -> None:
    x = np.array([[a, b, c] for a in (0, 1) for b in (0, 1) for c in (0, 1)])
    q = np.array(weights) / sum(weights)
    design = FactorialDesign(3, 1)

    def divergence(dose: np.ndarray) -> float:
        return float(q @ np.log(q / np.where(x == 1, dose, 1 - dose).prod(axis=1)))

    gap = design.emulation_gap(np.r_[x, x], np.r_[0.25 * q, 0.75 * q])
    assert divergence(design.emulate(x, q)) == pytest.approx(gap, abs=1e-12)
    assert gap <= divergence(np.array(other)) + 1e-12


# Rounds


@pytest.mark.parametrize("objective", ["a", "min_eig"])
@pytest.mark.parametrize("limits", [{}, {"upper": 0.4}, {"supply": 1.5}, {"supply": 1.5, "upper": [0.2, 1, 1, 1, 1]}])
def test_proposal_is_feasible_and_never_worse_than_passive(objective: str, limits: dict) -> None:
    design = seen(n=12, dose=0.35, objective=objective)
    dose = design.propose(10, **limits)
    assert (dose > 0).all()
    assert (dose <= np.asarray(limits.get("upper", 1.0)) + 1e-12).all()
    assert dose.sum() <= limits.get("supply", np.inf) + 1e-9
    assert design.acquisition(dose, 10) <= design.acquisition(design.passive(**limits), 10) + 1e-12


def test_proposal_is_a_minimum_that_random_search_does_not_beat() -> None:
    design = seen(n=25, dose=0.3)
    dose = design.propose(10)
    best, gradient = design.acquisition(dose, 10, return_gradient=True)
    inside = (dose > 1e-5) & (dose < 1 - 1e-5)
    assert np.abs(gradient[inside]).max() < 1e-4 * best
    assert best < 0.99 * design.acquisition(np.full(5, 0.5), 10)
    rng = np.random.default_rng(0)
    assert all(design.acquisition(d, 10) > best for d in rng.random((500, 5)))


def test_proposal_makes_up_for_what_was_rare() -> None:
    """Treatment 0 was always given: it must be left out more often than given now."""
    design = FactorialDesign(3, 1, random_state=0)
    past = design.assign(np.array([1.0, 0.5, 0.5]), 40)
    dose = design.update(past, np.zeros(40)).propose(40)
    assert dose[0] < 0.3
    np.testing.assert_allclose(dose[1:], 0.5, atol=0.1)


def test_symmetric_past_keeps_half() -> None:
    design = FactorialDesign(5, 2, random_state=3)
    design.update(half_fraction(5, 5), np.zeros(16))
    np.testing.assert_array_equal(design.propose(16), np.full(5, 0.5))


def test_first_round_is_passive() -> None:
    design = FactorialDesign(4, 2)
    np.testing.assert_array_equal(design.propose(10), np.full(4, 0.5))
    np.testing.assert_allclose(design.propose(10, supply=1.0), np.full(4, 0.25))


@pytest.mark.parametrize("dose", [0.0, 0.5, 1.0])
def test_singular_past_is_survived(dose: float) -> None:
    design = FactorialDesign(4, 2, random_state=0)
    design.update(design.assign(np.full(4, dose), 2), np.zeros(2))
    assert np.isfinite(design.acquisition(np.zeros(4), 5))
    proposal = design.propose(5)
    assert ((proposal >= 1e-6) & (proposal <= 1 - 1e-6)).all()


def test_a_precise_round_counts_like_more_units() -> None:
    """Four units of noise sigma inform as much as one of noise sigma / 2."""
    once, four = FactorialDesign(3, 1), FactorialDesign(3, 1)
    x = half_fraction(5, 5)[:, :3]
    y = np.arange(16.0)
    once.update(x, y, noise_std=0.5)
    for _ in range(4):
        four.update(x, y)
    np.testing.assert_allclose(once.gram_, four.gram_)
    np.testing.assert_allclose(once.fit().coef_, four.fit().coef_)
    np.testing.assert_allclose(once.coef_std_, four.coef_std_)


def test_solvers_agree_and_report(capsys: pytest.CaptureFixture) -> None:
    by_box, by_sqp = seen(n=25, dose=0.3, verbose=1), seen(n=25, dose=0.3, solver="slsqp")
    np.testing.assert_allclose(by_box.propose(10), by_sqp.propose(10), atol=1e-3)
    assert capsys.readouterr().out.count("start ") >= 6


# Estimates


def simulated(n: int = 80, sigma: float = 0.3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = (rng.random((n, 4)) < 0.5).astype(int)
    beta = rng.uniform(-1, 1, 11)
    return x, FactorialDesign(4, 2).features(x) @ beta + sigma * rng.normal(size=n), beta


def test_least_squares_is_that_of_numpy_over_rounds_of_any_size() -> None:
    x, y, beta = simulated()
    design = FactorialDesign(4, 2, estimator="ols", noise_std=None)
    design.update(x[:13], y[:13]).update(x[13:], y[13:]).fit()
    Z = design.features(x)
    expected, rss, *_ = np.linalg.lstsq(Z, y)
    np.testing.assert_allclose(design.coef_, expected, rtol=1e-8)
    assert design.noise_std_ == pytest.approx(np.sqrt(rss[0] / (80 - 11)), rel=1e-8)
    std = design.noise_std_ * np.sqrt(np.diag(np.linalg.inv(Z.T @ Z)))
    np.testing.assert_allclose(design.coef_std_, std, rtol=1e-8)
    np.testing.assert_allclose(design.predict(x), Z @ expected, rtol=1e-8)
    assert (np.abs(design.coef_ - beta) < 5 * std).all()


def test_ridge_penalties() -> None:
    x, y, _ = simulated()
    ols = FactorialDesign(4, 2, estimator="ols", noise_std=0.3).update(x, y).fit()
    near = FactorialDesign(4, 2, ridge=1e-9, noise_std=0.3).update(x, y).fit()
    np.testing.assert_allclose(near.coef_, ols.coef_, rtol=1e-8)
    bound = FactorialDesign(4, 2, coef_bound=2.0, noise_std=0.3).update(x, y).fit()
    assert bound.lambda_ == pytest.approx(0.09 * 11 / 4)
    paper = FactorialDesign(4, 2, coef_bound=2.0, noise_std=0.3, ridge="paper").update(x, y).fit()
    values = np.linalg.eigvalsh(paper.gram_)
    assert paper.lambda_ == pytest.approx(0.09 * values.sum() / (4 * values[0]))
    single = FactorialDesign(4, 2, coef_bound=2.0, ridge="paper").update(x[:3], y[:3]).fit()
    assert single.lambda_ == pytest.approx(11 / 4)
    direct = np.linalg.solve(bound.gram_ + bound.lambda_ * np.eye(11), bound.features(x).T @ y)
    np.testing.assert_allclose(bound.coef_, direct, rtol=1e-8)
    std = 0.3 * np.sqrt(np.diag(np.linalg.inv(bound.gram_ + bound.lambda_ * np.eye(11))))
    np.testing.assert_allclose(bound.coef_std_, std, rtol=1e-8)


def test_likeliest_penalty_is_that_of_the_marginal_density() -> None:
    from scipy.stats import multivariate_normal

    x, y, _ = simulated(n=15, sigma=1.0)
    design = FactorialDesign(4, 2).update(x, y).fit()
    Z = design.features(x)
    grid = np.logspace(-4, 6, 201)
    density = [multivariate_normal(cov=np.eye(15) + Z @ Z.T / penalty).logpdf(y) for penalty in grid]
    assert design.lambda_ == pytest.approx(grid[np.argmax(density)])
    assert grid[0] < design.lambda_ < grid[-1]
    noise = FactorialDesign(4, 2).update(x, np.zeros(15)).fit()
    assert noise.lambda_ == pytest.approx(1e6)


def test_truncation_switches_exactly_at_the_bound() -> None:
    x, y, _ = simulated()
    ols = FactorialDesign(4, 2, estimator="ols", noise_std=1.0).update(x, y).fit()
    edge = np.sqrt(np.trace(np.linalg.inv(ols.gram_)))
    kept = FactorialDesign(4, 2, estimator="truncated", coef_bound=edge * (1 + 1e-9)).update(x, y).fit()
    cut = FactorialDesign(4, 2, estimator="truncated", coef_bound=edge * (1 - 1e-9)).update(x, y).fit()
    np.testing.assert_allclose(kept.coef_, ols.coef_)
    assert not kept.truncated_
    assert cut.truncated_
    assert (cut.coef_ == 0).all()
    assert np.isnan(cut.coef_std_).all()
    assert FactorialDesign(4, 2, estimator="truncated", coef_bound=1e9).fit().truncated_
    assert FactorialDesign(4, 2, estimator="truncated", coef_bound=1e9).update(x[:5], y[:5]).fit().truncated_


def test_data_without_noise_are_recovered() -> None:
    x, y, beta = simulated(sigma=0.0)
    np.testing.assert_allclose(FactorialDesign(4, 2, noise_std=None).update(x, y).fit().coef_, beta, atol=1e-6)


def test_errors_spread_as_the_trace_says() -> None:
    """E ||error||^2 = sigma^2 E tr (Z'Z)^{-1}, with the units drawn anew each time."""
    rng = np.random.default_rng(0)
    errors, traces = [], []
    design = FactorialDesign(4, 2, random_state=0)
    for _ in range(4000):
        Z = design.features(design.assign(np.full(4, 0.5), 60))
        inverse = np.linalg.inv(Z.T @ Z)
        errors.append(((inverse @ (Z.T @ (2.0 * rng.normal(size=60)))) ** 2).sum())
        traces.append(4.0 * np.trace(inverse))
    assert np.mean(errors) == pytest.approx(np.mean(traces), rel=0.02)


def test_table_of_effects_has_the_spread_of_effects() -> None:
    x, _, beta = simulated()
    frame = pd.DataFrame(x, columns=["a", "b", "c", "d"])
    rng = np.random.default_rng(5)
    signal = FactorialDesign(4, 2).features(x) @ beta
    tables = [
        FactorialDesign(4, 2, estimator="ols").update(frame, signal + rng.normal(size=80)).fit().effects()
        for _ in range(400)
    ]
    assert tables[0]["term"].tolist()[:6] == [(), ("a",), ("b",), ("c",), ("d",), ("a", "b")]
    effects = np.array([table["effect"] for table in tables])
    np.testing.assert_allclose(effects.std(axis=0, ddof=1), tables[0]["stderr"], rtol=0.15)
    np.testing.assert_allclose(tables[0]["effect"], FactorialDesign(4, 2).effects_from_coef(tables[0]["coef"]))


# Frames, streams and state


def test_columns_are_matched_by_name() -> None:
    x, y, _ = simulated()
    frame = pd.DataFrame(x, columns=["a", "b", "c", "d"]).astype(bool)
    design = FactorialDesign(4, 2).update(frame[:40], y[:40]).update(frame[40:][["d", "c", "b", "a"]], y[40:]).fit()
    np.testing.assert_allclose(design.coef_, FactorialDesign(4, 2).update(x, y).fit().coef_, rtol=1e-10)
    np.testing.assert_allclose(design.predict(frame[["c", "a", "b", "d"]]), design.predict(x))
    with pytest.raises(ValueError, match="must have the columns"):
        design.predict(frame.rename(columns={"a": "z"}))
    with pytest.raises(ValueError, match="'a' more than once"):
        design.predict(frame.rename(columns={"b": "a"}))


@pytest.mark.parametrize("through", ["json", "pickle"])
def test_a_design_goes_on_where_it_stopped(through: str) -> None:
    design = seen()
    design.fit()
    design.assign(np.full(5, 0.5), 3)
    if through == "json":
        copy = FactorialDesign.from_state(json.loads(json.dumps(design.state())))
    else:
        copy = pickle.loads(pickle.dumps(design))
    np.testing.assert_array_equal(copy.coef_, design.coef_)
    np.testing.assert_array_equal(copy.propose(9), design.propose(9))
    np.testing.assert_array_equal(copy.assign(np.full(5, 0.5), 9), design.assign(np.full(5, 0.5), 9))
    assert copy.rounds_ == design.rounds_
    assert copy.n_units_ == 30


def test_streams() -> None:
    dose = np.array([0.1, 0.5, 0.9])
    design = FactorialDesign(3, 1, random_state=0)
    drawn = design.assign(dose, 20_000)
    np.testing.assert_allclose(drawn.mean(axis=0), dose, atol=0.02)
    np.testing.assert_allclose(np.corrcoef(drawn.T), np.eye(3), atol=0.03)
    assert (design.assign(dose, 50) != drawn[:50]).any()
    np.testing.assert_array_equal(FactorialDesign(3, 1, random_state=0).assign(dose, 20_000), drawn)
    first, second = (FactorialDesign(3, 1, random_state=np.random.default_rng(4)).assign(dose, 50) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert set(FactorialDesign(2, 1).assign([0.0, 1.0], 9)[:, 0]) == {0}
    assert set(FactorialDesign(2, 1).assign([0.0, 1.0], 9)[:, 1]) == {1}


# Bad input


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: FactorialDesign(3, 0), "order must be at least 1"),
        (lambda: FactorialDesign(3, 4), "order must be at most 3"),
        (lambda: FactorialDesign(0), "n_treatments"),
        (lambda: FactorialDesign(3, estimator="lasso"), "estimator"),
        (lambda: FactorialDesign(3, estimator="truncated"), "coef_bound"),
        (lambda: FactorialDesign(3, ridge="paper"), "coef_bound"),
        (lambda: FactorialDesign(3, ridge=0.0), "ridge"),
        (lambda: FactorialDesign(3, noise_std=-1.0), "noise_std"),
        (lambda: FactorialDesign(3).criterion([0.5, 0.5, 1.1]), r"dose must lie in \[0, 1\], got 1.1"),
        (lambda: FactorialDesign(3).criterion([0.5, 0.5]), "dose must have 3 values, got 2"),
        (lambda: FactorialDesign(3).criterion([0.5, 0.5, np.nan]), "dose holds 1"),
        (lambda: FactorialDesign(3).criterion([0.5] * 3, [1.0]), "weights must have one value per term, 7, got 1"),
        (lambda: FactorialDesign(3).criterion([0.5] * 3, [-1.0] * 7), "weights must not be negative"),
        (lambda: FactorialDesign(3).features([[-1, 1, 1]]), "treatments must be 0 or 1, got -1 in row 0, column 0"),
        (lambda: FactorialDesign(3).features(np.zeros((2, 4))), r"shape \(n >= 1, 3\), got \(2, 4\)"),
        (lambda: FactorialDesign(3).features(np.zeros((0, 3))), "n >= 1"),
        (lambda: FactorialDesign(3).update(np.zeros((2, 3)), [1.0]), "y must have one value per unit, got 1 for 2"),
        (lambda: FactorialDesign(3).update(np.zeros((2, 3)), [1.0, np.nan]), "y holds 1"),
        (lambda: FactorialDesign(3, noise_std=None).update(np.zeros((1, 3)), [1.0], noise_std=2.0), "constructor"),
        (lambda: FactorialDesign(3).passive(supply=0.0), "supply"),
        (lambda: FactorialDesign(3).passive(supply=1.0, max_treatments=2), "supply or max_treatments"),
        (lambda: FactorialDesign(3).passive(max_treatments=0), "max_treatments"),
        (lambda: FactorialDesign(3).passive(upper=0.0), "upper"),
        (lambda: FactorialDesign(3).passive(upper=[0.1, 0.2]), "upper"),
        (lambda: FactorialDesign(3).propose(0), "n_units must be at least 1"),
        (lambda: FactorialDesign(3).acquisition([0.5] * 3, 0), "n_units"),
        (lambda: FactorialDesign(3).assign([0.5] * 3, 0), "n_units"),
        (lambda: FactorialDesign(3, solver="lbfgs").propose(4, supply=1.0), "supply"),
        (lambda: FactorialDesign(3).predict([[0, 0, 1]]), "fit"),
        (lambda: FactorialDesign(3).effects(), "fit"),
        (lambda: FactorialDesign(3).fit(), "ridge or coef_bound"),
        (lambda: FactorialDesign(3, noise_std=None).update(np.zeros((7, 3)), np.zeros(7)).fit(), "more units"),
        (lambda: FactorialDesign(3).effects_from_coef([1.0]), "coef must have 7"),
        (lambda: FactorialDesign(3).emulate(np.eye(3), [1.0]), "one value per combination"),
        (lambda: FactorialDesign(3).emulate(np.eye(3), np.zeros(3)), "weights"),
        (lambda: FactorialDesign.from_state({}), "state"),
    ],
)
def test_bad_input_is_named(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_least_squares_on_too_few_units_says_rank() -> None:
    with pytest.raises(np.linalg.LinAlgError, match="rank 2, least squares needs 7"):
        FactorialDesign(3, estimator="ols").update([[0, 0, 0], [1, 1, 0]], [1.0, 2.0]).fit()
