"""Distortion risks and their upper bounds: closed forms, brute force, laws with a known risk."""

import itertools
import math
import warnings
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from paperworks.conformal import berk_jones_bounds, distortion_risk, distortion_ucb
from paperworks.conformal.risk_control.bounds import standard_error
from paperworks.conformal.risk_control.distortion import make_distortion

pytestmark = pytest.mark.filterwarnings("ignore:the bound is asymptotic")

RISKS = [("mean", 0.75), ("cvar", 0.0), ("cvar", 0.6), ("cvar", 0.75), ("var", 0.3), ("var", 0.9)]
samples = st.lists(st.floats(0, 1), min_size=2, max_size=40).map(np.array)
levels = st.floats(0.01, 0.99)


def dual_power(p: np.ndarray) -> np.ndarray:
    return 1 - (1 - p) ** 0.5


def dual_power_density(p: np.ndarray) -> np.ndarray:
    return 0.5 * (1 - p) ** -0.5


# --- the L-statistic ---------------------------------------------------------------------------------------------


def test_small_samples_by_hand() -> None:
    x = [3.0, 1.0, 4.0, 2.0]
    assert distortion_risk(x, risk="cvar", beta=0.5) == 3.5
    assert distortion_risk(x, risk="cvar", beta=0.6) == pytest.approx(3.625, abs=1e-12)
    assert distortion_risk(x, risk="mean") == 2.5
    assert distortion_risk(x, risk="var", beta=0.5) == 2.0
    assert distortion_risk([7.0], risk="cvar") == 7.0


def test_quantile_level_on_a_jump_is_not_lost_to_rounding() -> None:
    x = np.arange(1.0, 11.0)
    assert distortion_risk(x, risk="var", beta=0.7) == 7.0
    assert distortion_risk(x, risk="var", beta=1 - 0.3) == 7.0
    assert distortion_risk(x, risk="var", beta=0.1 + 0.2) == 3.0


def test_losses_that_are_mostly_zero() -> None:
    x = np.r_[np.zeros(95), np.ones(5)]
    assert distortion_risk(x, risk="cvar", beta=0.90) == pytest.approx(0.5)
    assert distortion_risk(x, risk="cvar", beta=0.75) == pytest.approx(0.2)
    assert distortion_risk(np.repeat(x, 3), risk="cvar", beta=0.90) == pytest.approx(0.5)
    assert distortion_risk(x, risk="var", beta=0.95) == 0.0
    assert distortion_risk(x, risk="var", beta=0.96) == 1.0


@given(samples, levels, st.floats(0.1, 5), st.floats(-3, 3))
def test_axioms(x: np.ndarray, beta: float, scale: float, shift: float) -> None:
    for risk in ("mean", "cvar", "var"):
        value = distortion_risk(x, risk=risk, beta=beta)
        assert x.min() - 1e-12 <= value <= x.max() + 1e-12
        assert distortion_risk(scale * x + shift, risk=risk, beta=beta) == pytest.approx(
            scale * value + shift, abs=1e-9
        )
        assert distortion_risk(np.minimum(x + 0.1 * x[::-1], 2), risk=risk, beta=beta) >= value - 1e-12
        assert distortion_risk(x[::-1], risk=risk, beta=beta) == value
        assert distortion_risk(np.repeat(x, 2), risk=risk, beta=beta) == pytest.approx(value, abs=1e-9)
    assert distortion_risk(x, risk="cvar", beta=0.0) == pytest.approx(x.mean(), abs=1e-12)
    assert distortion_risk(x, beta=beta) >= distortion_risk(x, risk="var", beta=beta) - 1e-12


@given(samples, levels)
def test_cvar_is_the_minimum_of_rockafellar_and_uryasev(x: np.ndarray, beta: float) -> None:
    minimum = min(c + np.maximum(x - c, 0).mean() / (1 - beta) for c in x)
    assert distortion_risk(x, beta=beta) == pytest.approx(minimum, abs=1e-9)


@given(samples, st.floats(0, 0.95))
def test_spectral_gives_cvar_back(x: np.ndarray, beta: float) -> None:
    expected = distortion_risk(x, beta=beta)
    by_cdf = distortion_risk(x, risk="spectral", cdf=lambda p: np.maximum(0, (p - beta) / (1 - beta)))
    by_psi = distortion_risk(x, risk="spectral", psi=lambda p: (p >= beta) / (1 - beta))
    assert by_cdf == pytest.approx(expected, abs=1e-12)
    assert by_psi == pytest.approx(expected, abs=5e-4)


def test_density_that_diverges_is_integrated() -> None:
    x = np.random.default_rng(0).random(50)
    expected = distortion_risk(x, risk="spectral", cdf=dual_power)
    assert distortion_risk(x, risk="spectral", psi=dual_power_density) == pytest.approx(expected, abs=1e-8)


def test_weights_on_quantile_levels() -> None:
    x = np.random.default_rng(0).random(30)
    mixed = distortion_risk(x, risk="spectral", cdf=lambda p: 0.25 * (p >= 0.5) + 0.75 * (p >= 0.9))
    parts = [distortion_risk(x, risk="var", beta=b) for b in (0.5, 0.9)]
    assert mixed == pytest.approx(0.25 * parts[0] + 0.75 * parts[1], abs=1e-12)


# --- the L bound -------------------------------------------------------------------------------------------------


def sigma_by_double_sum(x: np.ndarray, psi: np.ndarray) -> float:
    x, n = np.sort(x), len(x)
    f, gaps = np.arange(1, n) / n, np.diff(x)
    kernel = np.minimum.outer(f, f) - np.outer(f, f)
    return float((psi * gaps) @ kernel @ (psi * gaps))


@given(samples, st.floats(0, 0.9))
@settings(max_examples=50)
def test_sigma_is_the_double_integral(x: np.ndarray, beta: float) -> None:
    n = len(x)
    p = np.arange(1, n) / n
    for risk, psi in (("mean", np.ones(n - 1)), ("cvar", (p >= beta - 1e-12) / (1 - beta))):
        got = n * standard_error(make_distortion(risk, beta, None, None), n)(np.sort(x)[None])[0] ** 2
        assert got == pytest.approx(sigma_by_double_sum(x, psi), abs=1e-12)
    spectral = make_distortion("spectral", 0, dual_power_density, dual_power)
    got = n * standard_error(spectral, n)(np.sort(x)[None])[0] ** 2
    assert got == pytest.approx(sigma_by_double_sum(x, dual_power_density(p)), abs=1e-12)


@pytest.mark.parametrize("beta", [0.0, 0.5, 0.7, 0.9])
def test_l_bound_of_mean_and_cvar_in_closed_form(beta: float) -> None:
    x = np.random.default_rng(1).beta(0.5, 3, size=200)
    q = np.sort(x)[max(math.ceil(200 * beta - 1e-9), 1) - 1]
    sigma = np.maximum(x, q).std() / (1 - beta)
    expected = distortion_risk(x, beta=beta) + stats.norm.ppf(0.9) * sigma / math.sqrt(200)
    assert distortion_ucb(x, beta=beta, delta=0.1) == pytest.approx(expected, abs=1e-12)
    mean = x.mean() + stats.norm.ppf(0.9) * x.std() / math.sqrt(200)
    assert distortion_ucb(x, risk="mean", delta=0.1) == pytest.approx(mean, abs=1e-12)


def test_sigma_keeps_its_digits_far_from_zero() -> None:
    x = np.random.default_rng(1).random(100)
    near, far = (distortion_ucb(x + s, loss_bound=1e9) - distortion_risk(x + s) for s in (0.0, 1e6))
    assert far == pytest.approx(near, rel=1e-8)


def test_l_bound_of_a_cdf_alone_is_differenced() -> None:
    x = np.random.default_rng(2).random(300)
    with_density = distortion_ucb(x, risk="spectral", psi=dual_power_density, cdf=dual_power)
    assert distortion_ucb(x, risk="spectral", cdf=dual_power) == pytest.approx(with_density, abs=1e-5)
    assert with_density > distortion_risk(x, risk="spectral", cdf=dual_power) + 0.01


def test_l_refuses_weights_that_jump() -> None:
    x = np.linspace(0, 1, 100)
    with pytest.raises(ValueError, match="exact"):
        distortion_ucb(x, risk="var", method="L")
    with pytest.raises(ValueError, match="jumps"):
        distortion_ucb(x, risk="spectral", cdf=lambda p: 0.5 * p + 0.5 * (p >= 0.8))
    with pytest.raises(ValueError, match="jumps"):
        distortion_ucb(x, risk="spectral", cdf=lambda p: 0.5 * p + 0.5)
    steep = lambda p: np.clip((p - 0.5) * 200, 0, 1)  # noqa: E731
    assert distortion_ucb(x, risk="spectral", cdf=steep) > distortion_risk(x, risk="var", beta=0.5)


def test_bootstrap_agrees_with_l_where_both_apply() -> None:
    x = np.random.default_rng(3).beta(0.5, 3, size=400)
    for risk in ("mean", "cvar"):
        risk_hat = distortion_risk(x, risk=risk)
        margin = distortion_ucb(x, risk=risk) - risk_hat
        resampled = distortion_ucb(x, risk=risk, method="bootstrap", random_state=0) - risk_hat
        assert resampled == pytest.approx(margin, rel=0.12)


def test_bootstrap_margin_of_a_quantile_is_its_standard_error() -> None:
    """Uniform law: sd of the median is 1 / (2 sqrt(n)); dividing again by sqrt(n) would be 20 times too small."""
    margins = []
    for seed in range(40):
        x = np.random.default_rng(seed).random(400)
        bound = distortion_ucb(x, risk="var", beta=0.5, method="bootstrap", n_bootstrap=200, random_state=seed)
        margins.append(bound - distortion_risk(x, risk="var", beta=0.5))
    assert np.mean(margins) == pytest.approx(stats.norm.ppf(0.95) * 0.5 / 20, rel=0.15)


def test_bootstrap_is_repeatable() -> None:
    x = np.random.default_rng(3).random(50)
    first, again, other = (distortion_ucb(x, method="bootstrap", random_state=s) for s in (0, 0, 1))
    assert first == again != other


# --- exact -------------------------------------------------------------------------------------------------------


def test_exact_bound_is_the_right_order_statistic() -> None:
    x = np.arange(1, 13) / 20
    assert distortion_ucb(x, risk="var", beta=0.8, delta=0.1, method="exact") == x[-1]
    assert distortion_ucb(x[:10], risk="var", beta=0.8, delta=0.1, method="exact", loss_bound=2.0) == 2.0
    big = np.arange(1, 1001) / 1000
    rank = next(k for k in range(1, 1001) if stats.binom.cdf(k - 1, 1000, 0.9) >= 0.95)
    assert distortion_ucb(big, risk="var", beta=0.9, method="exact") == big[rank - 1]


@given(st.integers(1, 60), st.floats(0.02, 0.98), st.floats(0.01, 0.5))
def test_exact_bound_covers_by_the_binomial(n: int, beta: float, delta: float) -> None:
    bound = distortion_ucb(
        np.arange(1, n + 1) / (n + 1), risk="var", beta=beta, delta=delta, method="exact", loss_bound=2.0
    )
    rank = n + 1 if bound == 2.0 else round(bound * (n + 1))
    if rank <= n:
        assert stats.binom.sf(rank - 1, n, beta) <= delta * (1 + 1e-9)
    if rank > 1:
        assert stats.binom.sf(rank - 2, n, beta) > delta * (1 - 1e-9)


def test_exact_covers_a_law_with_ties() -> None:
    """Losses 0 or 1 with P(1) = 0.2: the 0.85 quantile is 1, which the bound must reach in 95 % of samples."""
    rng = np.random.default_rng(0)
    hits = [distortion_ucb(x, risk="var", beta=0.85, method="exact") == 1 for x in rng.binomial(1, 0.2, (400, 300))]
    assert stats.binomtest(sum(hits), 400, 0.95, alternative="less").pvalue > 1e-3


# --- bands -------------------------------------------------------------------------------------------------------


def band_bound(x: np.ndarray, lower: np.ndarray, psi: Callable[[np.ndarray], np.ndarray], bound: float) -> float:
    """Integrate the quantile function of the lower band numerically: an independent road to the same number."""
    x = np.sort(x)

    def quantile(p: float) -> float:
        above = np.flatnonzero(lower >= p)
        return float(x[above[0]]) if above.size else bound

    edges = [0.0, *lower, 1.0]
    return sum(
        quantile((a + b) / 2) * (psi(np.array([b]))[0] - psi(np.array([a]))[0])
        for a, b in itertools.pairwise(edges)
        if b > a
    )


@pytest.mark.parametrize("method", ["DKW", "BJ"])
@pytest.mark.parametrize("beta", [0.0, 0.5, 0.75])
def test_band_bounds_integrate_the_band(method: str, beta: float) -> None:
    x = np.random.default_rng(4).random(60)
    lower = np.maximum(np.arange(1, 61) / 60 - math.sqrt(math.log(20) / 120), 0)
    if method == "BJ":
        lower = berk_jones_bounds(60, 0.05)
    expected = band_bound(x, lower, lambda p: np.maximum(0, (p - beta) / (1 - beta)), 1.5)
    assert distortion_ucb(x, beta=beta, method=method, loss_bound=1.5) == pytest.approx(expected, abs=1e-12)
    reached = np.flatnonzero(lower >= 0.8)
    quantile = np.sort(x)[reached[0]] if reached.size else 1.5
    assert distortion_ucb(x, risk="var", beta=0.8, method=method, loss_bound=1.5) == pytest.approx(quantile)


def test_dkw_of_one_loss_is_the_bound() -> None:
    assert distortion_ucb([0.3], delta=math.exp(-2), method="DKW") == 1.0
    assert distortion_ucb([0.3], delta=math.exp(-2), risk="mean", method="DKW", loss_bound=4.0) == 4.0


def test_the_band_puts_the_missing_mass_on_the_loss_bound() -> None:
    x = np.full(100, 0.2)
    eps = math.sqrt(math.log(20) / 200)
    expected = 0.2 + 0.8 * eps / 0.25
    assert distortion_ucb(x, beta=0.75, method="DKW") == pytest.approx(expected, abs=1e-12)


def crossing_probability(lower: list[Fraction]) -> Fraction:
    """P(U_(i) >= l_i for all i) as the iterated integral n! int_{l_n}^1 ... int_{l_1}^{x_2}, by exact polynomials."""
    poly = [Fraction(1)]
    for level in lower:
        anti = [Fraction(0)] + [c / (k + 1) for k, c in enumerate(poly)]
        anti[0] = -sum(c * level**k for k, c in enumerate(anti))
        poly = anti
    return sum(poly) * math.factorial(len(lower))


@pytest.mark.parametrize("n", [1, 2, 3, 7, 20])
@pytest.mark.parametrize("delta", [0.01, 0.1, 0.7])
def test_berk_jones_level_is_exact(n: int, delta: float) -> None:
    lower = berk_jones_bounds(n, delta)
    assert float(crossing_probability([Fraction(float(v)) for v in lower])) == pytest.approx(1 - delta, abs=1e-9)
    tails = stats.beta.cdf(lower, np.arange(1, n + 1), np.arange(n, 0, -1))
    np.testing.assert_allclose(tails, tails[0], rtol=1e-9)


def test_berk_jones_of_one_is_delta() -> None:
    np.testing.assert_array_equal(berk_jones_bounds(1, 0.05), [0.05])
    a, b = berk_jones_bounds(2, 0.2)
    assert (1 - a) ** 2 - (b - a) ** 2 == pytest.approx(0.8, abs=1e-9)


@pytest.mark.parametrize(("n", "delta", "expected"), [(10, 0.1, 0.9014), (25, 0.05, 0.9503)])
def test_berk_jones_by_monte_carlo(n: int, delta: float, expected: float) -> None:
    uniforms = np.sort(np.random.default_rng(0).random((200_000, n)), axis=1)
    share = (uniforms >= berk_jones_bounds(n, delta)).all(axis=1).mean()
    assert share == pytest.approx(1 - delta, abs=0.0025)
    assert share == pytest.approx(expected, abs=0.0025)


@pytest.mark.slow
@pytest.mark.parametrize("n", [400, 6000])
def test_berk_jones_of_large_samples_by_monte_carlo(n: int) -> None:
    lower = berk_jones_bounds(n, 0.1)
    rng = np.random.default_rng(0)
    hits = [bool((np.sort(rng.random(n)) >= lower).all()) for _ in range(20_000)]
    assert np.mean(hits) == pytest.approx(0.9, abs=0.0085)


def test_berk_jones_at_extreme_levels() -> None:
    tiny = berk_jones_bounds(50, 1e-12)
    assert stats.beta.cdf(tiny[10], 11, 40) == pytest.approx(1e-12 / 50, rel=1e-6)
    lower = berk_jones_bounds(50, 1e-6)
    assert 1e-6 / 50 < stats.beta.cdf(lower[0], 1, 50) < 1e-6
    assert (np.diff(lower) > 0).all()
    lower[0] = 5.0
    assert berk_jones_bounds(50, 1e-6)[0] < 1e-6, "the cache must not be handed out"


# --- coverage ----------------------------------------------------------------------------------------------------


def true_cvar(beta: float) -> float:
    law = stats.beta(0.5, 3)
    return integrate.quad(law.ppf, beta, 1)[0] / (1 - beta)


TABLE = [
    (0.5, 200, 0.260, 0.935, 0.294, 0.417),
    (0.5, 1000, 0.260, 0.946, 0.275, 0.331),
    (0.75, 200, 0.384, 0.930, 0.430, 0.641),
    (0.75, 1000, 0.384, 0.945, 0.405, 0.503),
    (0.9, 200, 0.527, 0.914, 0.587, 0.964),
    (0.9, 1000, 0.527, 0.936, 0.555, 0.749),
]


@pytest.mark.parametrize(("beta", "n", "true", "coverage", "mean_l", "mean_dkw"), TABLE)
def test_coverage_and_width(beta: float, n: int, true: float, coverage: float, mean_l: float, mean_dkw: float) -> None:
    assert true_cvar(beta) == pytest.approx(true, abs=1e-3)
    x = np.random.default_rng(5).beta(0.5, 3, size=(2000, n))
    by_l = np.array([distortion_ucb(row, beta=beta) for row in x])
    assert np.mean(by_l >= true_cvar(beta)) == pytest.approx(coverage, abs=0.02)
    assert by_l.mean() == pytest.approx(mean_l, abs=0.003)
    by_dkw = np.array([distortion_ucb(row, beta=beta, method="DKW") for row in x[:300]])
    assert by_dkw.mean() == pytest.approx(mean_dkw, abs=0.005)
    assert (by_dkw >= true_cvar(beta)).all()


@pytest.mark.parametrize("law", ["beta", "few values"])
@pytest.mark.parametrize(("risk", "beta"), RISKS)
def test_bands_cover_at_any_sample_size(law: str, risk: str, beta: float) -> None:
    rng = np.random.default_rng(6)
    draw, population = {
        "beta": (lambda: rng.beta(0.5, 3, 12), stats.beta.ppf((np.arange(100_000) + 0.5) / 100_000, 0.5, 3)),
        "few values": (
            lambda: rng.choice([0.0, 0.5, 1.0], 12, p=[0.8, 0.15, 0.05]),
            np.repeat([0, 0.5, 1], [80, 15, 5]),
        ),
    }[law]
    true = distortion_risk(population, risk=risk, beta=beta)
    for method in ("DKW", "BJ"):
        hits = sum(
            distortion_ucb(draw(), risk=risk, beta=beta, delta=0.2, method=method) >= true - 1e-9 for _ in range(300)
        )
        assert stats.binomtest(hits, 300, 0.8, alternative="less").pvalue > 1e-3


# --- bad input ---------------------------------------------------------------------------------------------------

X = np.linspace(0, 1, 200)


@pytest.mark.parametrize(
    ("losses", "given", "message"),
    [
        ([], {}, "losses"),
        ([[1.0]], {}, "losses"),
        ([0.1, np.nan], {}, "losses"),
        ([0.3], {}, "at least 2"),
        (X, {"beta": 1.0}, "beta"),
        (X, {"beta": -0.1}, "beta"),
        (X, {"risk": "var", "beta": 0.0, "method": "exact"}, "beta"),
        (X, {"delta": 0.0}, "delta"),
        (X, {"delta": 1.0}, "delta"),
        (X, {"risk": "median"}, "risk"),
        (X, {"method": "hoeffding"}, "method"),
        (X, {"method": "exact"}, "exact"),
        (X, {"method": "DKW", "loss_bound": 0.9}, "maximum of 1"),
        (2 * X, {"method": "BJ"}, "maximum of 2"),
        (X - 0.5, {"method": "BJ"}, "minimum of -0.5"),
        (30 * X[:10], {"risk": "var", "beta": 0.9, "method": "exact"}, "loss_bound"),
        (X, {"loss_bound": -1.0}, "loss_bound"),
        (X, {"method": "bootstrap", "n_bootstrap": 1}, "n_bootstrap"),
        (X, {"psi": np.ones_like}, "spectral"),
        (X, {"risk": "spectral"}, "psi"),
        (X, {"risk": "spectral", "psi": lambda p: 2 * np.ones_like(p)}, "integrate to 1"),
        (X, {"risk": "spectral", "psi": lambda p: 4 * p - 1}, "negative"),
        (X, {"risk": "spectral", "psi": lambda p: np.full_like(p, np.nan)}, "finite"),
        (X, {"risk": "spectral", "psi": lambda p: 1.0}, "one number per level"),
        (X, {"risk": "spectral", "cdf": lambda p: 4 * p * (1 - p)}, "decrease"),
        (X, {"risk": "spectral", "cdf": lambda p: p / 2}, "to 1"),
        (X, {"risk": "spectral", "cdf": lambda p: p**4, "psi": np.ones_like}, "derivative"),
    ],
)
def test_bad_input_is_named(losses: object, given: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        distortion_ucb(losses, **given)


def test_wrong_types_are_named() -> None:
    with pytest.raises(TypeError, match="psi"):
        distortion_risk(X, risk="spectral", psi=3.0)
    with pytest.raises(TypeError, match="losses"):
        distortion_risk(["low", "high"])
    with pytest.raises(ValueError, match="n must"):
        berk_jones_bounds(0, 0.1)
    with pytest.raises(ValueError, match="delta"):
        berk_jones_bounds(5, 1.0)


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(
    ("n", "given", "message"),
    [
        (19, {"risk": "mean"}, "19 losses"),
        (119, {"beta": 0.75}, "29.8 losses in the tail"),
        (100, {"risk": "var", "beta": 0.8, "method": "bootstrap"}, "20.0 losses in the tail"),
    ],
)
def test_few_losses_warn(n: int, given: dict[str, object], message: str) -> None:
    with pytest.warns(UserWarning, match=message):
        distortion_ucb(X[:n], **given)


@pytest.mark.filterwarnings("error")
def test_enough_losses_do_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        distortion_ucb(X[:20], risk="mean")
        distortion_ucb(X[:120], beta=0.75)
        distortion_ucb(X[:10], method="BJ")
