"""Triage: the identity by simulation of every job, the bounds by Monte Carlo, bad input."""

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

from paperworks.online import JobScheduler
from paperworks.online.predictions.scheduling import expected_pairs


def plain(theta: float = 0.3, weights: tuple[float, float] = (0.1, 1.0), **given: object) -> JobScheduler:
    return JobScheduler(theta, weights, calibrator=None, **given)


def simulate(order: list[int], n1: int, y: list[int], theta: float) -> dict[int, float]:
    """A clock and a pile, job by job."""
    clock, pile, done = 0.0, [], {}
    for job in order[:n1]:
        clock += theta
        if y[job]:
            clock += 1 - theta
            done[job] = clock
        else:
            pile.append(job)
    for job in pile:
        clock += 1 - theta
        done[job] = clock
    for job in order[n1:]:
        clock += 1
        done[job] = clock
    return done


def least_cost(y: list[int], weights: tuple[float, float]) -> float:
    return sum(place * weights[urgent] for place, urgent in enumerate(sorted(y, reverse=True), 1))


jobs = st.lists(st.tuples(st.sampled_from([0.0, 0.2, 0.35, 0.5, 0.8, 1.0]), st.integers(0, 1)), max_size=8)


@given(jobs, st.floats(0.02, 0.98), st.floats(0.05, 2), st.floats(0.05, 3), st.sampled_from(["random", "stable"]))
@settings(max_examples=300)
def test_identity_by_simulation(
    given: list[tuple[float, int]], theta: float, low: float, more: float, ties: str
) -> None:
    p, y = [s for s, _ in given], [u for _, u in given]
    weights = (low, low + more)
    result = plain(theta, weights, ties=ties, random_state=0).run(p, y)
    order = result.order.tolist()
    threshold = theta / (1 - theta) * weights[1] / (weights[1] - weights[0])
    assert sorted(order) == list(range(len(p)))
    assert all(p[a] >= p[b] for a, b in pairwise(order))
    assert result.n_preemptive == sum(s > threshold for s in p)
    done = simulate(order, result.n_preemptive, y, theta)
    np.testing.assert_allclose(result.completion_times, [done[j] for j in range(len(p))], atol=1e-12)
    cost = sum(weights[y[job]] * time for job, time in done.items())
    assert result.cost == pytest.approx(cost, abs=1e-10)
    assert result.optimal_cost == pytest.approx(least_cost(y, weights), abs=1e-10)

    n1 = result.n_preemptive
    pairs = [(i, y[order[i]], y[order[j]], j) for i, j in combinations(range(len(p)), 2)]
    L = sum(j < n1 and (a, b) == (0, 1) for _, a, b, j in pairs)
    M = sum(j < n1 and (a, b) == (0, 0) for _, a, b, j in pairs)
    N = sum((a, b) == (0, 1) for _, a, b, _ in pairs) - L
    assert (result.L, result.M, result.N) == (L, M, N)
    assert result.regret == pytest.approx(theta * weights[1] * L + theta * low * M + more * N, abs=1e-10)
    assert result.regret == pytest.approx(cost - least_cost(y, weights), abs=1e-9)


def test_waiting_to_the_very_end_breaks_the_identity() -> None:
    p, y, theta, weights = [0.9, 0.8, 0.1], [0, 1, 0], 0.25, (1.0, 4.0)
    result = plain(theta, weights).run(p, y)
    assert result.regret == pytest.approx(result.cost - result.optimal_cost)
    late = {1: 1.25, 2: 2.25, 0: 3.0}  # the one put aside comes after the one of low probability
    assert sum(weights[y[j]] * t for j, t in late.items()) - result.optimal_cost != pytest.approx(result.regret)


@given(st.integers(0, 1000))
def test_names_of_jobs_do_not_matter(seed: int) -> None:
    rng = np.random.default_rng(seed)
    p, y = rng.random(40), rng.integers(0, 2, 40)
    shuffle = rng.permutation(40)
    first, second = plain().run(p, y), plain().run(p[shuffle], y[shuffle])
    np.testing.assert_allclose(second.completion_times, first.completion_times[shuffle], atol=1e-12)
    np.testing.assert_array_equal(shuffle[second.order], first.order)
    assert (second.L, second.M, second.N) == (first.L, first.M, first.N)


@pytest.mark.parametrize("urgent", [0, 1])
def test_all_jobs_alike(urgent: int) -> None:
    p = np.random.default_rng(0).random(50)
    result = plain(0.2, (1.0, 2.0)).run(p, np.full(50, urgent))
    opened = int((p > 0.5).sum())
    assert result.n_preemptive == opened
    assert (result.L, result.N) == (0, 0)
    pairs = opened * (opened - 1) // 2
    np.testing.assert_equal(result.M, pairs if urgent == 0 else 0)
    assert result.regret == pytest.approx(0.2 * 1.0 * result.M)


def test_a_threshold_above_one_opens_nothing() -> None:
    rng = np.random.default_rng(0)
    p, y = rng.random(50), rng.integers(0, 2, 50)
    scheduler = plain(0.6, (1.0, 2.0))
    assert scheduler.threshold_ == pytest.approx(3)
    result = scheduler.run(p, y)
    assert (result.n_preemptive, result.L, result.M) == (0, 0, 0)
    assert result.regret == pytest.approx(result.N) == pytest.approx(result.cost - result.optimal_cost)


def test_a_probability_at_the_threshold_is_not_opened() -> None:
    scheduler = plain(0.25, (1.0, 2.0))
    assert scheduler.schedule([scheduler.threshold_, np.nextafter(scheduler.threshold_, 1)]).n_preemptive == 1


def test_no_jobs() -> None:
    result = plain().run([], [])
    assert (result.cost, result.optimal_cost, result.regret, result.n_preemptive) == (0, 0, 0, 0)
    assert result.order.size == result.completion_times.size == 0
    rng = np.random.default_rng(0)
    fitted = JobScheduler(0.3, n_bins=4).fit(rng.random(200), rng.integers(0, 2, 200))
    assert fitted.run([], []).cost == 0


def test_ties_are_broken_at_random_or_by_place() -> None:
    p = np.full(20, 0.5)
    np.testing.assert_array_equal(plain(ties="stable").schedule(p).order, np.arange(20))
    first = plain(random_state=0).schedule(p).order
    np.testing.assert_array_equal(first, plain(random_state=0).schedule(p).order)
    assert first.tolist() != plain(random_state=1).schedule(p).order.tolist()
    rng = np.random.default_rng(0)
    heads = [plain(random_state=rng).schedule([0.9, 0.5, 0.5, 0.5, 0.1]).order.tolist() for _ in range(3000)]
    assert {(h[0], h[-1]) for h in heads} == {(0, 4)}
    np.testing.assert_allclose(np.bincount([h[1] for h in heads])[1:4] / 3000, 1 / 3, atol=0.04)


def counts(p: np.ndarray, threshold: float, rng: np.random.Generator) -> np.ndarray:
    """L, M and N of many lists of jobs with calibrated p, shape (3, n_lists), apart from the class."""
    y = rng.random(p.shape) < p
    order = np.lexsort((rng.random(p.shape), -p), axis=1)
    p, y = np.take_along_axis(p, order, 1), np.take_along_axis(y, order, 1)
    opened = p > threshold
    lows_before = np.cumsum(~y, axis=1)
    L = (lows_before * (y & opened)).sum(axis=1)
    l1 = (~y & opened).sum(axis=1)
    return np.array([L, l1 * (l1 - 1) / 2, (lows_before * y).sum(axis=1) - L])


@pytest.mark.parametrize(
    ("law", "values"),
    [([0.3, 0.4, 0.3], [0.2, 0.6, 0.9]), ([0.6, 0.1, 0.3], [0.2, 0.3, 0.9]), ([0.5, 0.5], [0.3, 0.8])],
)
def test_theorem_4_3_by_monte_carlo(law: list[float], values: list[float]) -> None:
    n, draws = 6, 200_000
    threshold = 0.476
    rng = np.random.default_rng(0)
    found = counts(rng.choice(values, size=(draws, n), p=law), threshold, rng)
    mean, error = found.mean(axis=1), 4 * found.std(axis=1) / np.sqrt(draws)
    sample = np.repeat(values, np.round(1000 * np.array(law)).astype(int))
    L, M, N = (n * (n - 1) / 2 * pair for pair in expected_pairs(sample, sample > threshold))
    assert mean[1] == pytest.approx(M, rel=0.01)
    assert mean[0] <= L + error[0]
    assert mean[2] <= N + error[2]
    if len(values) == 2:
        assert mean[0] == pytest.approx(L, abs=error[0])
        assert mean[2] == pytest.approx(N, abs=error[2])
        # as printed, with the leading terms of L and N exchanged, it would be wrong
        assert abs(mean[0] - N) > 10 * error[0]
    else:
        assert max(L - mean[0], N - mean[2]) > 0.05  # a bound, not an equality
    scheduler = plain(0.3)
    assert scheduler.threshold_ == pytest.approx(threshold, abs=1e-3)
    assert scheduler.expected_regret(sample, n) == pytest.approx(0.3 * L + 0.03 * M + 0.9 * N)


def test_expected_regret_from_its_definition() -> None:
    """With rho, the error rates and the variances of the blocks written out."""
    rng = np.random.default_rng(0)
    p = rng.beta(1, 2, 500)
    for theta in (0.1, 0.3, 0.45):
        scheduler = plain(theta, (0.2, 0.9))
        above = p > scheduler.threshold_
        rho = p.mean()
        e0, e1 = np.mean((1 - p) * above) / (1 - rho), np.mean(p * ~above) / rho
        k1 = above.mean() ** 2 * p[above].var() if above.any() else 0
        k2 = (~above).mean() ** 2 * p[~above].var()
        L = rho * (1 - rho) * e0 * (1 - e1) - k1
        M = (1 - rho) ** 2 * e0**2
        N = rho * (1 - rho) * (1 + e0) * e1 - k2
        expected = 4950 * (theta * 0.9 * L + theta * 0.2 * M + 0.7 * N)
        assert scheduler.expected_regret(p, 100) == pytest.approx(expected)
        lists = [rng.choice(p, 100) for _ in range(300)]
        mean = np.mean([scheduler.run(jobs, rng.random(100) < jobs).regret for jobs in lists])
        assert mean < 1.03 * expected
        assert mean > 0.5 * expected
    assert plain().expected_regret([0.0, 0.0], 10) == 0
    assert plain().expected_regret([1.0], 10) == 0
    assert plain().expected_regret(p, 0) == plain().expected_regret(p, 1) == 0


def test_calibration_is_used() -> None:
    rng = np.random.default_rng(0)
    scores = rng.random(5000)
    urgent = rng.random(5000) < scores**3
    fitted = JobScheduler(0.3, n_bins=10).fit(scores, urgent)
    p = fitted.calibrator_.transform(scores)
    assert fitted.schedule(scores[:200]).n_preemptive == np.sum(p[:200] > fitted.threshold_)
    assert fitted.schedule(scores[:200]).n_preemptive < plain().schedule(scores[:200]).n_preemptive
    assert fitted.expected_regret(scores, 50) == pytest.approx(plain().expected_regret(p, 50))


def test_millions_of_pairs_are_counted() -> None:
    n = 100_000
    result = plain(0.01, (1.0, 2.0)).run(np.linspace(1, 0.5, n), np.arange(n) >= n // 2)
    assert result.n_preemptive == n
    half = n // 2
    expected = (half**2, half * (half - 1) // 2, 0)
    np.testing.assert_equal((result.L, result.M, result.N), expected)
    assert result.regret == pytest.approx(result.cost - result.optimal_cost, rel=1e-9)


def test_one_class_only_is_named() -> None:
    scheduler = JobScheduler(theta=0.3)
    with pytest.raises(ValueError, match=r"all 200 sample\(s\) are of class 1"):
        scheduler.fit(np.linspace(0.1, 0.9, 200), np.ones(200, int))
    assert not hasattr(scheduler, "calibrator_")
    urgent = np.zeros(200, int)
    urgent[150] = 1
    with pytest.warns(UserWarning, match="too few"):
        scheduler.fit(np.linspace(0.1, 0.9, 200), urgent)
    p = scheduler.calibrator_.transform(np.linspace(0, 1, 50))
    assert ((p >= 0) & (p <= 1)).all()


@pytest.mark.parametrize(
    ("change", "scores", "priorities", "named"),
    [
        ({"theta": 0}, [0.5, 0.6], [0, 1], "theta"),
        ({"theta": 1.0}, [0.5, 0.6], [0, 1], "theta"),
        ({"weights": (1.0, 1.0)}, [0.5, 0.6], [0, 1], "weights must increase"),
        ({"weights": (0.0, 1.0)}, [0.5, 0.6], [0, 1], r"weights\[0\]"),
        ({"weights": (0.1, np.inf)}, [0.5, 0.6], [0, 1], r"weights\[1\]"),
        ({"weights": 1.0}, [0.5, 0.6], [0, 1], "weights must be two"),
        ({"ties": "first"}, [0.5, 0.6], [0, 1], "ties"),
        ({"calibrator": "none"}, [0.5, 0.6], [0, 1], "calibrator"),
        ({"n_bins": 0}, [0.5, 0.6], [0, 1], "n_bins"),
        ({}, [0.5, 1.6], [0, 1], "scores"),
        ({}, [0.5, np.nan], [0, 1], "scores"),
        ({}, [0.5, 0.6], [0, 0.5], "priorities must be 0 or 1, got 0.5"),
        ({}, [0.5, 0.6], [0, 1, 1], "scores and priorities"),
        ({}, [], [], "got none"),
    ],
)
def test_bad_input_is_named(change: dict[str, object], scores: list[float], priorities: list[int], named: str) -> None:
    scheduler = JobScheduler(**{"theta": 0.3, **change})
    with pytest.raises(ValueError, match=named):
        scheduler.fit(scores, priorities)
    assert not [name for name in vars(scheduler) if name.endswith("_")]
    if scores and "n_bins" not in change:
        with pytest.raises(ValueError, match=named):
            JobScheduler(**{"theta": 0.3, "calibrator": None, **change}).run(scores, priorities)


def test_use_before_fit_is_said() -> None:
    scheduler = JobScheduler(0.3)
    assert 0 < scheduler.threshold_ < 1
    for call in (
        lambda: scheduler.schedule([0.5]),
        lambda: scheduler.run([0.5], [1]),
        lambda: scheduler.expected_regret([0.5], 3),
    ):
        with pytest.raises(NotFittedError):
            call()
    with pytest.raises(ValueError, match="n must be"):
        plain().expected_regret([0.5], -1)
    with pytest.raises(ValueError, match="at least one score"):
        plain().expected_regret([], 3)
