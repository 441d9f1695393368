"""The bandit: the algorithm written out once more, pausing, causality, invariances, bad input."""

import math
import pickle
import subprocess
import sys
import warnings
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from paperworks.online import ChangePointBandit, glr_statistic

TWO = np.repeat([0.0, 1.5, 0.4], [4, 3, 5])


def noisy(means: np.ndarray, seed: int, sigma: float = 1.0) -> Callable[[int], float]:
    rng = np.random.default_rng(seed)
    return lambda arm: float(means[arm] + sigma * rng.normal())


def written_out(
    rewards: list[float], means: np.ndarray, n: int, exploration: str, delta: float
) -> tuple[list[int], list[int]]:
    """The algorithm in plain Python, from sums, all pairs anew at every step; returns the arms and the answer."""
    k, arms = len(means), []
    sums, counts, top = [0.0] * k, [0] * k, list(range(n))
    for t in range(len(rewards)):
        floor = max(1, math.sqrt(t)) if exploration == "sqrt" else max(2, math.sqrt(t) - k / 2)
        if min(counts) < floor:
            arm = counts.index(min(counts))
        else:
            inverse = {x: 1 / max(abs(sums[x] / counts[x] - sums[x + 1] / counts[x + 1]), 1e-9) ** 2 for x in top}
            share = [0.0] * k
            for x in top:
                share[x] += inverse[x] / (2 * sum(inverse.values()))
                share[x + 1] += inverse[x] / (2 * sum(inverse.values()))
            lag = [t * share[a] - counts[a] for a in range(k)]
            arm = max(range(k), key=lambda a: (round(lag[a], 9), -a))
        arms.append(arm)
        sums[arm] += means[arm] + rewards[t]
        counts[arm] += 1
        if min(counts) == 0:
            continue
        mean = [s / c for s, c in zip(sums, counts, strict=True)]
        top = sorted(sorted(range(k - 1), key=lambda x: (-abs(mean[x] - mean[x + 1]), x))[:n])
        w = [c * c / (c + 1) for c in counts]
        passed = [
            w[x] * w[x + 1] / (w[x] + w[x + 1]) * (mean[x] - mean[x + 1]) ** 2 / 2
            > math.log((k - 1) / delta) + 0.5 * math.log(1 + counts[x]) + 0.5 * math.log(1 + counts[x + 1])
            for x in top
        ]
        if all(passed):
            return arms, top
    raise AssertionError("not finished")


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("exploration", ["gk", "sqrt"])
@pytest.mark.parametrize("seed", range(4))
def test_equals_the_algorithm_written_out(n: int, exploration: str, seed: int) -> None:
    means = np.repeat([0.0, 2.0, 1.0, 2.5], [3, 1, 2, 4])  # arm 3 has a jump on both sides
    rewards = np.random.default_rng(seed).normal(size=4000).tolist()
    arms, answer = written_out(rewards, means, n, exploration, 0.05)
    bandit = ChangePointBandit(10, n, delta=0.05, exploration=exploration)
    for arm, reward in zip(arms, rewards, strict=False):
        assert not bandit.finished
        assert bandit.select() == bandit.select() == arm
        bandit.update(arm, means[arm] + reward)
    assert bandit.finished
    result = bandit.recommend()
    assert result.change_points.tolist() == answer
    assert result.converged
    assert len(set(arms)) == 10


def test_state_is_what_the_rewards_say() -> None:
    for threshold in ("mixture", "kk"):
        bandit = ChangePointBandit(12, 2, delta=0.1, sigma=1.3, threshold=threshold)
        seen: list[list[float]] = [[] for _ in range(12)]
        sampler = noisy(TWO, 0, 1.3)
        for _ in range(150):
            arm = bandit.select()
            seen[arm].append(sampler(arm))
            bandit.update(arm, seen[arm][-1])
        counts, means = np.array([len(s) for s in seen]), np.array([np.mean(s) for s in seen])
        np.testing.assert_array_equal(bandit.counts_, counts)
        np.testing.assert_allclose(bandit.means_, means, rtol=1e-12, atol=1e-14)
        assert bandit.n_samples_ == 150 == bandit.recommend().n_samples
        weights = counts**2 / (counts + 1) if threshold == "mixture" else counts
        np.testing.assert_allclose(bandit.statistics_, glr_statistic(weights, means, sigma=1.3))
        assert bandit.thresholds_.shape == (11,)
        if threshold == "mixture":
            logs = 0.5 * np.log(1 + counts)
            np.testing.assert_allclose(bandit.thresholds_, math.log(11 / 0.1) + logs[:-1] + logs[1:])


def test_result_speaks_of_coordinates() -> None:
    arms = np.linspace(300.0, 355.0, 12)
    result = ChangePointBandit(12, 2, arms=arms).run(noisy(TWO, 1))
    np.testing.assert_array_equal(result.change_points, [3, 6])
    np.testing.assert_array_equal(result.intervals, [[315.0, 320.0], [330.0, 335.0]])
    np.testing.assert_allclose(result.sizes, [1.5, -1.1], atol=0.9)
    assert result.sizes[0] > 0 > result.sizes[1]
    assert result.n_samples == result.counts.sum()


# --- pause, save, resume; the past alone -------------------------------------------------------------------------


@given(st.integers(0, 400), st.integers(1, 3), st.booleans())
@settings(max_examples=40, deadline=None)
def test_resumed_run_is_the_same_bit_for_bit(pause: int, n: int, unknown: bool) -> None:
    noise = np.random.default_rng(3).normal(size=600)
    bandit = ChangePointBandit(12, n, sigma=None if unknown else 1.0)
    twin = ChangePointBandit(12, n, sigma=None if unknown else 1.0)
    for t, value in enumerate(noise):
        if t == pause:
            twin = pickle.loads(pickle.dumps(twin))
        arm = bandit.select()
        assert twin.select() == arm
        bandit.update(arm, TWO[arm] + value)
        twin.update(arm, TWO[arm] + value)
        assert twin.finished == bandit.finished
    for first, second in zip(vars(bandit).values(), vars(twin).values(), strict=True):
        np.testing.assert_array_equal(first, second)
    for first, second in zip(bandit.recommend(), twin.recommend(), strict=True):
        assert np.asarray(first).tobytes() == np.asarray(second).tobytes()


def test_saved_run_goes_on_in_another_process(tmp_path: object) -> None:
    noise = np.random.default_rng(5).normal(size=2000)
    bandit = ChangePointBandit(12, 2)
    for value in noise[:50]:
        arm = bandit.select()
        bandit.update(arm, TWO[arm] + value)
    assert not bandit.finished
    (tmp_path / "bandit.pkl").write_bytes(pickle.dumps((bandit, noise, TWO)))
    code = (
        "import pickle, sys\n"
        "bandit, noise, means = pickle.load(open(sys.argv[1], 'rb'))\n"
        "while not bandit.finished:\n"
        "    arm = bandit.select(); bandit.update(arm, means[arm] + noise[bandit.n_samples_])\n"
        "print(bandit.n_samples_, bandit.means_.tobytes().hex(), bandit.recommend().change_points.tolist())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "bandit.pkl"], capture_output=True, text=True, check=True
    )
    while not bandit.finished:
        arm = bandit.select()
        bandit.update(arm, TWO[arm] + noise[bandit.n_samples_])
    expected = f"{bandit.n_samples_} {bandit.means_.tobytes().hex()} {bandit.recommend().change_points.tolist()}"
    assert done.stdout.strip() == expected


@given(st.integers(1, 200), st.integers(0, 1000))
@settings(max_examples=30, deadline=None)
def test_choices_depend_on_the_past_alone(t: int, seed: int) -> None:
    """Worlds that agree up to reward t lead to the same t + 1 choices, whatever comes later."""
    rng = np.random.default_rng(seed)
    first = rng.normal(size=260)
    second = np.r_[first[:t], 50 * rng.normal(size=260 - t)]
    paths = []
    for world in (first, second):
        bandit, path = ChangePointBandit(12, 2), []
        for value in world:
            path.append(bandit.select())
            bandit.update(path[-1], TWO[path[-1]] + value)
        paths.append(path)
    assert paths[0][: t + 1] == paths[1][: t + 1]


def test_one_measurement_per_choice() -> None:
    asked: list[int] = []
    sampler = noisy(TWO, 0)

    def measure(arm: int) -> float:
        asked.append(arm)
        return sampler(arm)

    result = ChangePointBandit(12, 2).run(measure)
    np.testing.assert_array_equal(np.bincount(asked, minlength=12), result.counts)


def test_interrupted_run_keeps_its_rewards() -> None:
    calls, sampler = [], noisy(TWO, 7)

    def fragile(arm: int) -> float:
        calls.append(arm)
        if len(calls) == 40:
            raise KeyboardInterrupt
        return sampler(arm)

    bandit = ChangePointBandit(12, 2)
    with pytest.raises(KeyboardInterrupt):
        bandit.run(fragile)
    assert bandit.n_samples_ == 39
    resumed = bandit.run(sampler)
    straight = ChangePointBandit(12, 2).run(noisy(TWO, 7))
    assert resumed.n_samples == straight.n_samples
    np.testing.assert_array_equal(resumed.sizes, straight.sizes)


def test_late_rewards_refine_sizes_and_leave_the_answer() -> None:
    bandit, sampler = ChangePointBandit(12, 1), noisy(TWO, 0)
    answer = bandit.run(sampler)
    for _ in range(200):
        bandit.update(0, 100.0)  # a jump after arm 0 that was not there
    late = bandit.recommend()
    assert late.converged
    np.testing.assert_array_equal(late.change_points, answer.change_points)
    assert late.n_samples == answer.n_samples + 200


def test_rewards_in_any_order() -> None:
    """All rewards told arm by arm, in reverse, give the counts, means and evidence of those told in turn."""
    rewards = np.random.default_rng(0).normal(TWO, 1.0, size=(4, 12))
    in_turn, by_arm = ChangePointBandit(12, 2), ChangePointBandit(12, 2)
    for row in rewards:
        for arm, value in enumerate(row):
            in_turn.update(arm, value)
    for arm in reversed(range(12)):
        assert not by_arm.finished
        for value in rewards[:, arm]:
            by_arm.update(arm, value)
    np.testing.assert_array_equal(in_turn.counts_, by_arm.counts_)
    np.testing.assert_array_equal(in_turn.statistics_, by_arm.statistics_)
    assert by_arm.select() == in_turn.select()


# --- invariances, noise of unknown size --------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize(("scale", "shift"), [(1e-12, 0.0), (4e6, 0.0), (1.0, 1e4), (256.0, -3.0)])
def test_unit_and_origin_are_irrelevant(n: int, scale: float, shift: float) -> None:
    noise = np.random.default_rng(1).normal(size=300)
    plain, other = ChangePointBandit(12, n), ChangePointBandit(12, n, sigma=scale)
    for value in noise:
        arm = plain.select()
        assert other.select() == arm
        plain.update(arm, TWO[arm] + value)
        other.update(arm, scale * (TWO[arm] + value) + shift)
        assert plain.finished == other.finished
    np.testing.assert_allclose(other.statistics_, plain.statistics_, rtol=1e-6, atol=1e-6)


def test_mirrored_arms_give_the_mirrored_answer() -> None:
    tables = np.random.default_rng(0).normal(TWO, 1.0, size=(20, 400, 12))
    for table in tables:
        results = []
        for world in (table, table[:, ::-1]):
            seen = np.zeros(12, dtype=int)

            def sampler(arm: int, world: np.ndarray = world, seen: np.ndarray = seen) -> float:
                seen[arm] += 1
                return world[seen[arm] - 1, arm]

            bandit = ChangePointBandit(12, 1)
            for _ in range(24):  # two rewards of each arm, whichever way round
                arm = bandit.select()
                bandit.update(arm, sampler(arm))
            early = bandit.statistics_
            results.append((early, bandit.run(sampler)))
        (first_early, first), (second_early, second) = results
        np.testing.assert_array_equal(first_early, second_early[::-1])
        np.testing.assert_array_equal(first.change_points, 10 - second.change_points)


@pytest.mark.parametrize("n", [1, 2])
def test_noiseless_rewards(n: int) -> None:
    result = ChangePointBandit(12, n).run(lambda arm: TWO[arm])
    assert result.change_points.tolist() == [[3], [3, 6]][n - 1]
    # One jump of 1.5: at n rewards of each arm the evidence is n^2 / (n + 1) / 4 * 1.5^2.
    if n == 1:
        need = next(m for m in range(1, 99) if m * m / (m + 1) / 4 * 2.25 > math.log(11 / 0.05) + math.log(1 + m))
        assert result.counts[[3, 4]].tolist() in ([need, need], [need, need - 1])


def test_unknown_sigma_is_an_upper_limit_from_five_rewards_each() -> None:
    bandit, sampler, seen = ChangePointBandit(12, 1, sigma=None, delta=0.1), noisy(TWO, 2, 0.2), np.zeros((12, 5))
    assert bandit.sigma_ == math.inf
    for t in range(60):
        arm = bandit.select()
        assert arm == t % 12
        seen[arm, t // 12] = sampler(arm)
        bandit.update(arm, seen[arm, t // 12])
        assert bandit.finished is False or t == 59
    variance = seen.var(axis=1, ddof=1).mean()
    assert bandit.sigma_ == pytest.approx(math.sqrt(variance * 48 / chi2.ppf(0.01, 48)))
    expected = math.log(11 / 0.09) + math.log(6)
    np.testing.assert_allclose(bandit.thresholds_, expected)
    result = bandit.run(sampler)
    np.testing.assert_array_equal(result.change_points, [3])


def test_unknown_sigma_costs_and_keeps_delta() -> None:
    means = np.repeat([0.0, 1.0], 5)
    samples = {None: [], 1.0: []}
    wrong = 0
    for sigma, found in samples.items():
        for seed in range(60):
            result = ChangePointBandit(10, sigma=sigma, delta=0.1).run(noisy(means, seed))
            found.append(result.n_samples)
            wrong += sigma is None and result.change_points.tolist() != [4]
    assert wrong <= 12
    assert 1.2 < np.mean(samples[None]) / np.mean(samples[1.0]) < 2.4  # about 1.34^2


def test_pilot_counts_five_rewards_of_each_arm_whatever_the_order() -> None:
    rewards = np.random.default_rng(0).normal(size=(8, 3))
    bandit = ChangePointBandit(3, sigma=None)
    for arm in (2, 0, 1):
        for value in rewards[: 8 if arm == 2 else 5, arm]:
            bandit.update(arm, value)
    variance = rewards[:5].var(axis=0, ddof=1).mean()
    assert bandit.sigma_ == pytest.approx(math.sqrt(variance * 12 / chi2.ppf(0.005, 12)))


def test_equal_rewards_cannot_tell_sigma() -> None:
    bandit = ChangePointBandit(2, sigma=None)
    for t in range(9):
        bandit.update(t % 2, 1.0)
    with pytest.raises(ValueError, match="give sigma"):
        bandit.update(1, 1.0)
    assert (bandit.n_samples_, bandit.counts_.tolist()) == (9, [5, 4])
    bandit.update(1, 1.5)
    assert 0 < bandit.sigma_ < math.inf


# --- when there is no certainty, and bad input -------------------------------------------------------------------


def test_fewer_changes_than_asked_for_do_not_finish() -> None:
    bandit = ChangePointBandit(6, 2)
    with pytest.warns(UserWarning, match="n_changes = 2 change point"):
        result = bandit.run(noisy(np.repeat([0.0, 3.0], 3), 0), max_samples=3000)
    assert (result.converged, result.n_samples) == (False, 3000)
    assert 2 in result.change_points
    with pytest.warns(UserWarning, match="3,000 samples"):
        assert bandit.run(noisy(TWO, 0), max_samples=3000).n_samples == 3000


def test_progress_is_printed_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    ChangePointBandit(12, 2).run(noisy(TWO, 0))
    assert capsys.readouterr().out == ""
    ChangePointBandit(12, 2).run(noisy(TWO, 0), verbose=1)
    assert "samples, largest jumps after arms" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"n_arms": 1}, ValueError, "n_arms must be at least 2, got 1"),
        ({"n_arms": 5.0}, TypeError, "n_arms must be an integer"),
        ({"n_changes": 0}, ValueError, "n_changes must be at least 1"),
        ({"n_changes": 5}, ValueError, "n_changes must be at most 4"),
        ({"delta": 0.0}, ValueError, "delta must lie strictly"),
        ({"delta": "5%"}, TypeError, "delta must be a number"),
        ({"sigma": 0.0}, ValueError, "sigma must be a finite number > 0"),
        ({"sigma": math.nan}, ValueError, "sigma must be a finite number > 0"),
        ({"exploration": "ucb"}, ValueError, "exploration must be one of 'gk', 'sqrt'"),
        ({"threshold": "best"}, ValueError, "threshold must be one of 'mixture'"),
        ({"objective": "all"}, ValueError, "objective must be one of 'any', 'exact'"),
        ({"arms": [1, 2, 3]}, ValueError, "arms must be 5 increasing coordinates"),
        ({"arms": [1, 2, 3, 3, 4]}, ValueError, "arms must be 5 increasing coordinates"),
        ({"arms": [1, 2, 3, math.nan, 4]}, ValueError, "arms holds 1 value"),
        ({"arms": list("abcde")}, TypeError, "arms must be numeric"),
    ],
)
def test_bad_arguments_are_named(arguments: dict[str, object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        ChangePointBandit(**{"n_arms": 5, **arguments})


@pytest.mark.parametrize(
    ("arm", "reward", "error", "message"),
    [
        (5, 0.0, ValueError, "arm must be at most 4, got 5"),
        (-1, 0.0, ValueError, "arm must be at least 0"),
        (1.0, 0.0, TypeError, "arm must be an integer"),
        (True, 0.0, TypeError, "arm must be an integer"),
        (1, math.nan, ValueError, "reward must be finite"),
        (1, math.inf, ValueError, "reward must be finite"),
        (1, 1e200, ValueError, "reward must be finite"),
        (1, "0.5", TypeError, "reward must be a number"),
        (1, None, TypeError, "reward must be a number"),
        (1, np.zeros(1), TypeError, "reward must be a number"),
        (1, 1j, TypeError, "reward must be a number"),
    ],
)
def test_bad_rewards_leave_the_bandit_as_it_was(
    arm: object, reward: object, error: type[Exception], message: str
) -> None:
    bandit = ChangePointBandit(5)
    for a in (0, 1, 2):
        bandit.update(a, 0.5)
    before = pickle.dumps(bandit)
    with pytest.raises(error, match=message):
        bandit.update(arm, reward)
    assert pickle.dumps(bandit) == before


def test_numbers_of_every_kind_are_rewards() -> None:
    bandit = ChangePointBandit(5)
    for value in (0.5, np.float32(0.5), np.array(0.5), Fraction(1, 2)):
        bandit.update(np.int64(3), value)
    assert (bandit.means_[3], bandit.counts_[3]) == (0.5, 4)
    bandit.update(0, True)
    bandit.update(0, np.bool_(False))
    assert bandit.means_[0] == 0.5


def test_recommendation_needs_every_arm_once() -> None:
    bandit = ChangePointBandit(4)
    for _ in range(500):  # overwhelming evidence, but arms 2 and 3 are unknown
        bandit.update(0, 0.0)
        bandit.update(1, 10.0)
    assert not bandit.finished
    with pytest.raises(ValueError, match=r"arms \[2, 3\] were not"):
        bandit.recommend()
    assert np.isfinite(bandit.statistics_).all()
    assert bandit.select() == 2


def test_bad_samplers_and_budgets_are_named() -> None:
    with pytest.raises(TypeError, match="sampler must be a function"):
        ChangePointBandit(4).run([1.0])
    with pytest.raises(ValueError, match="max_samples must be at least n_arms = 4"):
        ChangePointBandit(4).run(lambda arm: 0.0, max_samples=3)
    with pytest.raises(TypeError, match="reward must be a number"):
        ChangePointBandit(4).run(lambda arm: [0.0])
    with pytest.raises(ValueError, match="reward must be finite"):
        ChangePointBandit(4).run(lambda arm: math.nan)


def test_only_the_heuristic_warns() -> None:
    with pytest.warns(UserWarning, match="does not keep the error probability"):
        ChangePointBandit(4, threshold="heuristic")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ChangePointBandit(4, threshold="kk")
        bandit = ChangePointBandit(4, random_state=3)
        bandit.run(noisy(np.array([0.0, 0.0, 4.0, 4.0]), 0))
