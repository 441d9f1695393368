"""The tumour simulator against its equations, and the measures of a ranking."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from paperworks.causal import (
    dose_curve,
    ground_truth_percentile,
    perturb_actions,
    rank_correlation,
    tumour_cohort,
    tumour_rollout,
)

DEADLY, CAPACITY = math.pi / 6 * 13**3, math.pi / 6 * 30**3


def one_patient(params: dict, v: float, c: float, actions: np.ndarray, noise: np.ndarray) -> list[float]:
    volumes = []
    for (drug, radio), e in zip(actions, noise, strict=True):
        c = c / 2 + 5 * float(dose_curve(drug))
        r = 2 * float(dose_curve(radio))
        growth = params["rho"] * math.log(CAPACITY / max(v, 1e-7))
        v = v * (1 + growth - params["beta_c"] * c - (params["alpha"] * r + params["beta"] * r * r) + e)
        v = min(max(v, 0.0), DEADLY)
        volumes.append(v)
    return volumes


def test_dose_curve_is_the_clamped_spline() -> None:
    np.testing.assert_allclose(dose_curve([0, 0.4, 0.7, 1]), [0, 0.2, 0.85, 1], atol=1e-12)
    np.testing.assert_allclose(dose_curve([0.1, 0.5]), [-0.0012019, 0.4106125], atol=1e-7)
    x = np.linspace(0, 1, 100_001)
    y = dose_curve(x)
    assert y.min() == pytest.approx(-0.0014, abs=1e-4)
    assert x[y.argmin()] == pytest.approx(0.084, abs=0.001)
    assert y.max() - 1 == pytest.approx(4e-5, abs=1e-5)
    assert np.diff(y)[[0, -1]] == pytest.approx([0, 0], abs=1e-8), "flat at both ends"


@given(st.integers(0, 1000), st.integers(1, 8), st.booleans())
def test_rollout_follows_the_equations(seed: int, n_steps: int, noisy: bool) -> None:
    rng = np.random.default_rng(seed)
    n = 3
    params = {
        "alpha": rng.uniform(0, 0.3, n),
        "beta": rng.uniform(0, 0.03, n),
        "beta_c": rng.uniform(0, 0.06, n),
        "rho": rng.uniform(0, 0.02, n),
    }
    volume, chemo = rng.choice([0.0, 1e-9, 0.5, 40.0, DEADLY], n), rng.uniform(0, 9, n)
    actions, noise = rng.random((n, n_steps, 2)), rng.normal(scale=0.3, size=(n, n_steps)) * noisy
    found = tumour_rollout(params, volume, chemo, actions, noise if noisy else None)
    for i in range(n):
        own = {name: float(value[i]) for name, value in params.items()}
        np.testing.assert_allclose(
            found[i], one_patient(own, volume[i], chemo[i], actions[i], noise[i]), rtol=1e-9, atol=1e-12
        )


def test_untreated_tumours_grow_and_the_drug_halves() -> None:
    params = {
        name: np.array([value]) for name, value in {"alpha": 0.1, "beta": 0.01, "beta_c": 0.03, "rho": 0.02}.items()
    }
    path = tumour_rollout(params, [1.0], [0.0], np.zeros((1, 2000, 2)))[0]
    assert (np.diff(path) >= 0).all()
    assert path[-1] == pytest.approx(DEADLY)
    # The kill of each day shows the drug: with no growth v falls by beta_c C, and C by half.
    params["rho"] = np.zeros(1)
    path = np.r_[1.0, tumour_rollout(params, [1.0], [8.0], np.zeros((1, 6, 2)))[0]]
    np.testing.assert_allclose((1 - path[1:] / path[:-1]) / 0.03, 8.0 / 2.0 ** np.arange(1, 7), rtol=1e-12)


def test_cohort_is_a_rollout_of_its_own_actions_with_the_declared_noise() -> None:
    cohort = tumour_cohort(400, gamma=4.0, length=40, random_state=0)
    v, n = cohort.outcomes[:, :, 0], 400
    noise = np.zeros((n, 40))
    for t in range(40):
        quiet = tumour_rollout(cohort.params, v[:, t], cohort.chemo[:, t], cohort.actions[:, t : t + 1])[:, 0]
        inside = (v[:, t] > 1e-6) & (quiet > 1e-6) & (v[:, t + 1] < DEADLY) & (v[:, t + 1] > 0) & (quiet < DEADLY)
        noise[inside, t] = (v[inside, t + 1] - quiet[inside]) / v[inside, t]
    drawn = noise[noise != 0]
    assert stats.kstest(drawn, stats.norm(scale=0.01).cdf).pvalue > 1e-3
    start, rows = 17, np.flatnonzero((noise != 0).all(axis=1))
    assert len(rows) > 100
    own = {name: value[rows] for name, value in cohort.params.items()}
    again = tumour_rollout(
        own, v[rows, start], cohort.chemo[rows, start], cohort.actions[rows, start:], noise[rows, start:]
    )
    np.testing.assert_allclose(again, v[rows, start + 1 :], rtol=1e-7)
    assert (cohort.chemo[:, 0] == 0).all()


@pytest.mark.parametrize("gamma", [0.0, 4.0])
def test_doses_follow_the_recent_diameter(gamma: float) -> None:
    cohort = tumour_cohort(300, gamma=gamma, length=30, random_state=1)
    diameter = np.cbrt(6 / math.pi * cohort.outcomes[:, :, 0])
    uniform = []
    for t in range(30):
        mean = diameter[:, max(0, t - 14) : t + 1].mean(axis=1)
        p = 1 / (1 + np.exp(-gamma / 13 * (mean - 6.5)))
        uniform.append(stats.beta.cdf(cohort.actions[:, t], 2 * p[:, None], 2 - 2 * p[:, None]))
    assert stats.kstest(np.ravel(uniform), "uniform").pvalue > 1e-3


def test_patients_have_the_declared_laws() -> None:
    cohort = tumour_cohort(20_000, gamma=0.0, length=1, random_state=2)
    kinds, counts = np.unique(cohort.static.round(6), return_counts=True)
    np.testing.assert_allclose(kinds, np.array([-1, 0, 1]) / np.sqrt(2 / 3), atol=1e-5)
    assert (np.abs(counts / 20_000 - 1 / 3) < 0.02).all()
    kind = np.searchsorted(kinds, cohort.static[:, 0].round(6)) + 1
    p = cohort.params
    np.testing.assert_allclose(p["beta"], p["alpha"] / 10)
    alpha, beta_c = p["alpha"] - 0.00398 * (kind == 1), p["beta_c"] - 0.0028 * (kind == 3)
    assert min(alpha.min(), p["rho"].min()) > 0
    assert beta_c.mean() == pytest.approx(0.028, abs=3e-5)
    assert beta_c.std() == pytest.approx(0.0007, rel=0.03)
    rng = np.random.default_rng(3)
    cross = 0.87 * 0.168 * 7.23e-3
    draws = rng.multivariate_normal([0.0398, 7e-5], [[0.168**2, cross], [cross, 7.23e-3**2]], size=400_000)
    draws = draws[(draws > 0).all(axis=1)]
    assert stats.ks_2samp(alpha, draws[:, 0]).pvalue > 1e-3
    assert stats.ks_2samp(p["rho"], draws[:, 1]).pvalue > 1e-3
    assert np.corrcoef(alpha, p["rho"])[0, 1] == pytest.approx(np.corrcoef(draws.T)[0, 1], abs=0.02)
    first = np.cbrt(6 / math.pi * cohort.outcomes[:, 0, 0])
    assert 0.3 - 1e-9 <= first.min() < 0.5
    assert 12 < first.max() <= 13 + 1e-9
    # Share above 5 cm: from every stage but I, by the truncated laws.
    share = 0.0
    laws = [(128, 1.96, 1.63), (1306, 1.91, 9.40), (7248, 2.76, 6.87), (12840, 3.86, 8.82)]
    for count, mu, sigma in laws:
        low, mid, high = stats.norm.cdf((np.log([0.3, 5, 13]) - mu) / sigma)
        share += count / 22_954 * (high - mid) / (high - low)
    assert (first > 5).mean() == pytest.approx(share, abs=0.012)


def test_a_cohort_is_repeatable() -> None:
    first, again, other = (tumour_cohort(5, gamma=1.0, length=10, random_state=s) for s in (0, 0, 1))
    np.testing.assert_array_equal(first.outcomes, again.outcomes)
    assert (first.outcomes != other.outcomes).any()


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"params": {"alpha": [0.1]}}, "missing: beta, beta_c, rho"),
        ({"volume": [1.0, 2.0]}, "volume must have shape"),
        ({"volume": [-1.0]}, "negative"),
        ({"chemo": [np.nan]}, "chemo holds"),
        ({"actions": np.full((1, 2, 2), 1.1)}, r"actions must lie in \[0, 1\]"),
        ({"actions": np.zeros((1, 2, 3))}, "actions must have shape"),
        ({"noise": np.zeros((1, 3))}, "noise must have shape"),
    ],
)
def test_bad_rollouts_are_named(change: dict, match: str) -> None:
    params = {name: [0.01] for name in ("alpha", "beta", "beta_c", "rho")}
    given = {"params": params, "volume": [1.0], "chemo": [0.0], "actions": np.zeros((1, 2, 2))} | change
    with pytest.raises(ValueError, match=match):
        tumour_rollout(**given)


def test_bad_cohorts_are_named() -> None:
    with pytest.raises(ValueError, match="gamma"):
        tumour_cohort(3, gamma=-1.0)
    with pytest.raises(ValueError, match="n must"):
        tumour_cohort(0, gamma=1.0)
    with pytest.raises(ValueError, match="length"):
        tumour_cohort(3, gamma=1.0, length=0)
    with pytest.raises(ValueError, match="x must lie"):
        dose_curve([1.2])


# --- candidates and measures -------------------------------------------------------------------------------------


def test_candidates_are_random_then_altered_then_observed() -> None:
    observed = np.random.default_rng(0).random((50, 6, 2))
    found = perturb_actions(observed, 100, random_state=0)
    assert found.shape == (100, 50, 6, 2)
    np.testing.assert_array_equal(found[-1], observed)
    assert 0 <= found.min() < 0.01 < 0.99 < found.max() <= 1
    assert stats.kstest(found[:80].ravel(), "uniform").pvalue > 1e-3
    changed = found[80:99] != observed
    assert changed.mean() == pytest.approx(0.5, abs=0.01)
    assert (found[:80] != observed).all()
    moved = (found[80:99] - observed)[changed]
    start = np.broadcast_to(observed, changed.shape)[changed]
    assert (moved[start < 0.3] > 0).all()
    assert (moved[start > 0.7] < 0).all()
    middle = moved[(start > 0.3) & (start < 0.7)]
    assert (middle > 0).mean() == pytest.approx(0.5, abs=0.03)
    assert 0.3 <= np.abs(moved[start < 0.3]).min() < np.abs(moved[start < 0.3]).max() <= 0.7
    np.testing.assert_array_equal(found, perturb_actions(observed, 100, random_state=0))


def test_binary_candidates_are_coins_and_flips() -> None:
    observed = (np.random.default_rng(0).random((200, 5, 2)) < 0.1).astype(float)
    found = perturb_actions(observed, 41, treatment="binary", random_state=0)
    assert set(np.unique(found)) == {0.0, 1.0}
    assert found[:20].mean() == pytest.approx(0.5, abs=0.01)
    assert (found[20:40] != observed).mean() == pytest.approx(0.2, abs=0.01)
    np.testing.assert_array_equal(found[-1], observed)
    assert len(perturb_actions(observed, 2, treatment="binary")) == 2


@given(st.lists(st.integers(0, 6), min_size=2, max_size=12), st.integers(0, 11))
def test_percentile_by_counting(scores: list[int], index: int) -> None:
    index %= len(scores)
    better = sum(s < scores[index] for s in scores)
    assert ground_truth_percentile(scores, index) == pytest.approx(1 - better / (len(scores) - 1))
    both = ground_truth_percentile(np.c_[scores, scores[::-1]], index)
    assert both[0] == ground_truth_percentile(scores, index)


def test_percentile_of_the_best_and_the_worst() -> None:
    scores = np.arange(10.0)
    assert (ground_truth_percentile(scores, 0), ground_truth_percentile(scores, -1)) == (1.0, 0.0)


@given(st.integers(0, 1000), st.integers(3, 12))
def test_rank_correlation_equals_scipy(seed: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    scores, losses = rng.integers(0, 9, (k, 4)) + np.arange(k)[:, None] * 0.5, rng.random((k, 4))
    expected = [stats.spearmanr(s, t).statistic for s, t in zip(scores.T, losses.T, strict=True)]
    np.testing.assert_allclose(rank_correlation(scores, losses), expected, atol=1e-12)
    assert rank_correlation(scores[:, 0], losses[:, 0]) == pytest.approx(expected[0])


def test_rank_correlation_of_a_constant_warns() -> None:
    with pytest.warns(UserWarning, match="1 column"):
        found = rank_correlation(np.c_[[1, 1, 1], [1, 2, 3]], np.c_[[1, 2, 3], [1, 2, 3]])
    assert np.isnan(found[0])
    assert found[1] == pytest.approx(1.0)


def test_bad_candidates_are_named() -> None:
    with pytest.raises(ValueError, match="k must"):
        perturb_actions(np.zeros((1, 2, 2)), 1)
    with pytest.raises(ValueError, match="0 or 1"):
        perturb_actions(np.full((1, 2, 2), 0.5), 3, treatment="binary")
    with pytest.raises(ValueError, match="treatment"):
        perturb_actions(np.zeros((1, 2, 2)), 3, treatment="dose")
    with pytest.raises(ValueError, match="index"):
        ground_truth_percentile([1.0, 2.0], 2)
    with pytest.raises(ValueError, match="scores must have shape"):
        ground_truth_percentile([1.0], 0)
    with pytest.raises(ValueError, match="scores holds"):
        ground_truth_percentile([1.0, np.nan], 0)
    with pytest.raises(ValueError, match="losses must have the shape"):
        rank_correlation([1.0, 2.0], [1.0, 2.0, 3.0])
