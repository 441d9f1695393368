"""Many runs at once: the same as one by one, errors below delta, the cost of each contender."""

import math
import warnings

import numpy as np
import pytest

from paperworks.online import ChangePointBandit, allocation, lower_bound, simulate
from paperworks.online.change_points.contenders import CONTENDERS
from paperworks.online.change_points.simulation import _generators, _Noise, _play
from paperworks.online.change_points.stopping import StoppingRule


def step(n_arms: int, *jumps: tuple[int, float]) -> np.ndarray:
    means = np.zeros(n_arms)
    for x, size in jumps:
        means[x + 1 :] += size
    return means


ENVIRONMENTS = {
    "E1": (step(10, (4, 1.0)), 1),
    "E2": (step(20, (11, 0.5)), 1),
    "E3": (step(20, (5, 1.0), (13, -0.7)), 2),
    "E4": (step(50, (20, 1.0)), 1),
}


def noise_of(run: int, n_runs: int, seed: int, length: int) -> list[float]:
    noise = _Noise(_generators(seed, n_runs), 1.0)
    return [float(noise.next()[run]) for _ in range(length)]


# --- the same as one run at a time -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("means", "n", "threshold"),
    [
        (step(10, (4, 1.0)), 1, "mixture"),
        (step(2, (0, 0.7)), 1, "mixture"),
        (step(9, (0, 1.5), (7, -2.0)), 2, "mixture"),
        (step(7, (2, 1.5), (3, -2.0), (4, 1.0)), 3, "kk"),
        (step(7, (0, 2.0), (1, 2.0), (2, -2.0), (4, 2.0), (5, 2.0)), 5, "mixture"),
        (step(10, (4, 1.0)), 1, "heuristic"),
    ],
)
@pytest.mark.filterwarnings("ignore:threshold='heuristic'")
def test_runs_are_those_of_the_bandit(means: np.ndarray, n: int, threshold: str) -> None:
    """Row by row: the bandit, told one reward at a time, stops at the same sample with the same answer."""
    runs = simulate(means, n_changes=n, threshold=threshold, delta=0.1, n_runs=40, random_state=3)
    assert runs.tau.nunique() > 10
    for run in (0, 1, 7, 20, 39):
        row = runs.iloc[run]
        bandit = ChangePointBandit(means.size, n, delta=0.1, threshold=threshold)
        for value in noise_of(run, 40, 3, row.tau):
            assert not bandit.finished
            arm = bandit.select()
            bandit.update(arm, means[arm] + value)
        assert bandit.finished
        assert tuple(bandit.recommend().change_points) == row.change_points
        true = set(np.flatnonzero(np.diff(means)))
        assert row.correct == (set(row.change_points) <= true)


def one_by_one(contender: str, means: np.ndarray, noise: list[float], delta: float) -> tuple[int, tuple[int, ...]]:
    """Rivals for one jump, one run, in plain Python."""
    k = means.size
    sums, counts = np.zeros(k), np.zeros(k)

    def margin(a: int, b: int, pairs: int) -> float:
        if counts[a] * counts[b] == 0:
            return -math.inf
        w = [counts[i] ** 2 / (counts[i] + 1) for i in (a, b)]
        gap = sums[a] / counts[a] - sums[b] / counts[b]
        logs = 0.5 * math.log(1 + counts[a]) + 0.5 * math.log(1 + counts[b])
        return w[0] * w[1] / (w[0] + w[1]) * gap**2 / 2 - math.log(pairs / delta) - logs

    low, high, waiting, weakest = 0, k - 1, [], (0, 1)
    for t, value in enumerate(noise):
        if contender == "uniform":
            arm = t % k
        elif contender == "bisect":
            arm = (low, (low + high) // 2, high)[t % 3]
        elif t < k:
            arm = t
        else:
            if not waiting:
                waiting = list(weakest)
            arm = waiting.pop(0)
        sums[arm] += means[arm] + value
        counts[arm] += 1
        if contender == "bisect":
            middle = (low + high) // 2
            if margin(low, middle, k * (k - 1) // 2) > 0:
                high = middle
            elif margin(middle, high, k * (k - 1) // 2) > 0:
                low = middle
            if high - low == 1:
                return t + 1, (low,)
        elif t + 1 < k:
            continue
        elif contender == "uniform":
            best = int(np.abs(np.diff(sums / counts)).argmax())
            if margin(best, best + 1, k - 1) > 0:
                return t + 1, (best,)
        else:
            order = np.argsort(sums / counts)
            cut = int(np.diff((sums / counts)[order]).argmax())
            pairs = [tuple(sorted((int(a), int(b)))) for a in order[: cut + 1] for b in order[cut + 1 :]]
            weakest = min(pairs, key=lambda pair: margin(*pair, k * (k - 1) // 2))
            if margin(*weakest, k * (k - 1) // 2) > 0:
                group = np.isin(np.arange(k), order[: cut + 1])
                return t + 1, tuple(np.flatnonzero(np.diff(group.astype(int))).tolist())
    raise AssertionError("not finished")


@pytest.mark.parametrize("contender", ["uniform", "bisect", "clustering"])
def test_rivals_are_those_written_out(contender: str) -> None:
    means = step(8, (2, 1.3))
    runs = simulate(means, contender, delta=0.1, n_runs=12, random_state=1)
    for run in range(12):
        expected = one_by_one(contender, means, noise_of(run, 12, 1, 4000), 0.1)
        assert (runs.tau[run], runs.change_points[run]) == expected


def test_more_runs_leave_the_first_ones_alone() -> None:
    few = simulate(step(10, (4, 1.0)), n_runs=5, random_state=11)
    many = simulate(step(10, (4, 1.0)), n_runs=60, random_state=11)
    assert few.equals(many.head(5))
    assert not many.equals(simulate(step(10, (4, 1.0)), n_runs=60, random_state=12))
    generator = np.random.default_rng(11)
    assert simulate(step(10, (4, 1.0)), n_runs=60, random_state=generator).equals(many)
    assert not simulate(step(10, (4, 1.0)), n_runs=60, random_state=generator).equals(many)


def test_stricter_delta_only_prolongs_a_run() -> None:
    """The arms chosen do not depend on delta, so a run at a small delta is a longer one at a large delta."""
    taus = [simulate(ENVIRONMENTS["E3"][0], n_changes=2, delta=d, n_runs=50, random_state=0).tau for d in (0.1, 1e-3)]
    assert (taus[0] <= taus[1]).all()
    assert (taus[0] < taus[1]).mean() > 0.9


# --- error and cost ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(ENVIRONMENTS))
def test_error_below_delta_and_fewer_samples_than_uniform(name: str) -> None:
    means, n = ENVIRONMENTS[name]
    delta = 0.1
    runs = simulate(means, n_changes=n, delta=delta, n_runs=300, random_state=0)
    uniform = simulate(means, "uniform", n_changes=n, delta=delta, n_runs=60, random_state=0)
    assert runs.converged.all()
    assert 1 - runs.correct.mean() <= delta
    ratio = uniform.tau.mean() / runs.tau.mean()
    assert 1.7 < ratio < 8
    assert runs.tau.mean() > lower_bound(means, n, delta=delta)


def test_mean_samples_of_a_known_setting() -> None:
    """Mean samples for 10 arms, a jump of 1, delta = 0.1, from a separate simulation: 126, 181 and 345."""
    means = step(10, (4, 1.0))
    for contender, expected in {"mcpi": 126, "mcpi-sqrt": 181, "uniform": 345}.items():
        tau = simulate(means, contender, delta=0.1, n_runs=400, random_state=0).tau
        assert tau.mean() == pytest.approx(expected, rel=0.08)


def test_paper_exploration_is_uniform_at_first() -> None:
    """After about n_arms^2 rewards with sqrt(t) each, every arm has nearly the same number."""
    bandit, rng = ChangePointBandit(20, exploration="sqrt"), np.random.default_rng(0)
    for _ in range(380):
        arm = bandit.select()
        bandit.update(arm, (arm > 8) + rng.normal())
    assert np.ptp(bandit.counts_) <= 2


def test_the_heuristic_threshold_errs_more_than_delta() -> None:
    with pytest.warns(UserWarning, match="does not keep"):
        runs = simulate(step(20, (11, 0.5)), threshold="heuristic", delta=0.1, n_runs=100, random_state=0)
    assert 1 - runs.correct.mean() > 0.3


def test_any_reports_true_jumps_and_the_largest_as_gaps_widen() -> None:
    shares = []
    for sizes in ((0.9, 1.0, 1.1), (0.5, 1.0, 2.0), (0.1, 1.5, 3.0)):
        means = step(12, *zip((2, 5, 8), sizes, strict=True))
        runs = simulate(means, n_changes=2, delta=0.1, n_runs=150, random_state=0)
        assert 1 - runs.correct.mean() <= 0.1
        shares.append((runs.change_points == (5, 8)).mean())
    assert shares == sorted(shares)
    assert shares[-1] > 0.98
    assert shares[0] < 0.8


def test_oracle_tracks_its_shares() -> None:
    means = step(10, (1, 1.0), (2, 0.6), (7, -0.5))
    shares = allocation(means, [1, 2, 7])
    runs = CONTENDERS["oracle"](means, 5, StoppingRule("mixture", 9, 3, 1e-300, 1.0))
    _play(runs, _Noise(_generators(0, 5), 1.0), 2000)
    assert np.abs(runs.counts / 2000 - shares).max() < 10 / 2000


def test_elimination_with_this_stopping_rule_is_uniform() -> None:
    """Before a pair may leave, the evidence for n_changes others suffices: the rule changes nothing."""
    for name in ("E1", "E3"):
        means, n = ENVIRONMENTS[name]
        found = [simulate(means, c, n_changes=n, n_runs=40, random_state=0) for c in ("uniform", "elimination")]
        assert found[0].equals(found[1])


def test_knowing_more_costs_less() -> None:
    means, n = ENVIRONMENTS["E3"]
    tau = {
        c: simulate(means, c, n_changes=n, n_runs=60, random_state=0).tau.mean() for c in ("oracle", "mcpi", "uniform")
    }
    assert tau["oracle"] < tau["mcpi"] < tau["uniform"]


def test_bisect_and_clustering_are_right_but_dearer() -> None:
    means = step(12, (3, 1.5))
    mcpi = simulate(means, n_runs=60, random_state=0)
    for contender in ("bisect", "clustering"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a run of bisect that takes the wrong half never stops
            runs = simulate(means, contender, n_runs=60, max_samples=5000, random_state=0)
        assert (runs.converged & ~runs.correct).mean() <= 0.05
        assert runs.correct.mean() > 0.9
        assert runs.tau.median() > mcpi.tau.median()
    two = simulate(step(9, (2, 2.0), (5, -1.0)), "clustering", n_changes=2, n_runs=20, random_state=0)
    assert (two.change_points == (2, 5)).mean() > 0.9
    pair = simulate([0.0, 1.0], "bisect", n_runs=20, random_state=0)
    assert (pair.change_points == (0,)).all()


# --- given up, bad input -----------------------------------------------------------------------------------------


def test_runs_that_are_given_up() -> None:
    with pytest.warns(UserWarning, match="20 of 20 runs of 'mcpi' with n_changes = 2 were given up after 500 samples"):
        runs = simulate(step(6, (2, 3.0)), n_changes=2, n_runs=20, max_samples=500, random_state=0)
    assert (runs.tau == 500).all()
    assert not runs.converged.any()
    assert not runs.correct.any()
    assert all(2 in points for points in runs.change_points)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"means": [0.0]}, "means must hold at least 2 arms"),
        ({"means": [0.0, np.inf]}, "means holds 1 value"),
        ({"contender": "best"}, "contender must be one of 'mcpi'"),
        ({"n_changes": 3}, "n_changes must be at most 2"),
        ({"sigma": -1.0}, "sigma must be a finite number > 0"),
        ({"delta": 0}, "delta must lie strictly"),
        ({"threshold": "none"}, "threshold must be one of"),
        ({"n_runs": 0}, "n_runs must be at least 1"),
        ({"max_samples": 2}, "max_samples must be at least the number of arms, 3, got 2"),
        ({"random_state": -1}, "random_state must be at least 0"),
        ({"contender": "oracle", "n_changes": 2}, r"needs means with 2 change point\(s\), got 1"),
        ({"contender": "bisect", "n_changes": 2}, "needs n_changes=1 and means with one change point"),
        ({"contender": "bisect", "means": [0.0, 1.0, 2.0]}, "needs n_changes=1 and means with one change point"),
    ],
)
def test_bad_arguments_are_named(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        simulate(**{"means": [0.0, 1.0, 1.0], **arguments})
