"""The linear bandit against its full-matrix version, closed forms and worlds without noise."""

import copy
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paperworks.causal import DelayedLinUCB, Feedback, Situation
from paperworks.causal.recourse.linear_bandit import _share_in_time


class FullMatrix:
    """The bandit as the paper has it for any features: the inverse by Sherman and Morrison, one vector per arm."""

    def __init__(self, k: int, timeout: int, alpha: float, delta: float, bonus: str) -> None:
        self.k, self.m, self.alpha, self.delta, self.root = k, timeout, alpha, delta, bonus == "norm"
        self.inverse = np.eye(k) / alpha
        self.b, self.theta = np.zeros(k), np.zeros(k)
        self.pending: list[float] = []
        self.t = 0

    def select(self, p: np.ndarray, feasible: np.ndarray) -> int:
        self.t += 1
        f = math.sqrt(self.alpha) + math.sqrt(
            2 * math.log(1 / self.delta) + self.k * math.log((self.k * self.alpha + self.t) / (self.k * self.alpha))
        )
        kappa = 2 * f + sum(self.pending[-self.m :])
        if feasible.size == 0:
            self.pending.append(0.0)
            return -1
        best, choice, push = -math.inf, -1, 0.0
        for arm in feasible:
            phi = p[arm] * np.eye(self.k)[arm]
            u = phi @ self.inverse @ phi
            u = math.sqrt(u) if self.root else u
            value = self.theta @ phi + kappa * u
            if value > best:
                best, choice, push = value, int(arm), u
        phi = p[choice] * np.eye(self.k)[choice]
        self.inverse -= np.outer(self.inverse @ phi, phi @ self.inverse) / (1 + phi @ self.inverse @ phi)
        self.pending.append(push)
        return choice

    def update(self, feedback: list[tuple[int, float, float]]) -> None:
        for arm, p, reward in feedback:
            self.b += p * reward * np.eye(self.k)[arm]
        self.theta = self.inverse @ self.b


@pytest.mark.parametrize("bonus", ["squared", "norm"])
@pytest.mark.parametrize(("timeout", "alpha"), [(10, 20.0), (3, 1.0), (1, 0.3)])
def test_equals_the_full_matrix(bonus: str, timeout: int, alpha: float) -> None:
    rng = np.random.default_rng(3)
    k = 12
    ours = DelayedLinUCB(k, timeout=timeout, alpha=alpha, bonus=bonus)
    full = FullMatrix(k, timeout, alpha, 0.05, bonus)
    truth, due = rng.random(k), {}
    for t in range(200):
        p = rng.random(k)
        feasible = np.flatnonzero(rng.random(k) < (0.0 if t % 17 == 5 else 0.6))
        arm = ours.select(p, feasible)
        assert arm == full.select(p, feasible)
        if arm >= 0 and rng.random() < truth[arm] * p[arm]:
            due.setdefault(t + int(rng.integers(timeout)), []).append((arm, float(p[arm]), 1))
        news = due.pop(t, [])
        ours.update(news)
        full.update(news)
        np.testing.assert_allclose(ours.theta_, full.theta, rtol=0, atol=1e-12)
        np.testing.assert_allclose(1 / ours.precision_, np.diag(full.inverse), rtol=1e-12)
    assert ours.theta_.max() > 0.1


def situation(p: list[float], feasible: list[int] | None = None) -> Situation:
    k = len(p)
    arms = np.arange(k) if feasible is None else np.array(feasible, dtype=np.intp)
    return Situation(np.zeros(1), np.zeros((k, 1)), np.array(p, dtype=float), arms, 0.0, np.ones(k))


def test_first_round_takes_the_most_acceptable_of_the_feasible() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        p, feasible = rng.random(9), np.flatnonzero(rng.random(9) < 0.5)
        expected = feasible[np.argmax(p[feasible] ** 2)] if feasible.size else -1
        assert DelayedLinUCB(9, timeout=4).select(p, feasible) == expected
        mask = np.isin(np.arange(9), feasible)
        assert DelayedLinUCB(9, timeout=4).select(p, mask) == expected
        assert DelayedLinUCB(9, timeout=4).select(p, feasible[::-1]) == expected


def test_ties_go_to_the_lowest() -> None:
    assert DelayedLinUCB(4, timeout=1).select([0.1, 0.7, 0.7, 0.7], [3, 2, 1]) == 1


def test_first_width_in_closed_form() -> None:
    # K = 1, alpha = 1, delta = 0.05: f = 1 + sqrt(2 ln 20 + ln 2) = 3.58546; u = 1 for p = 1.
    bandit = DelayedLinUCB(1, timeout=1, alpha=1.0)
    _, mean, bonus = bandit.rank(situation([1.0]))
    assert mean == [0.0]
    assert bonus[0] == pytest.approx(2 * 3.58546, abs=2e-5)
    assert bonus[0] == pytest.approx(2 * (1 + math.sqrt(2 * math.log(20) + math.log(2))), rel=1e-14)


@pytest.mark.parametrize("bonus", ["squared", "norm"])
def test_window_holds_the_choices_of_the_last_rounds_only(bonus: str) -> None:
    m, alpha = 4, 2.0
    bandit = DelayedLinUCB(1, timeout=m, alpha=alpha, bonus=bonus)
    pushed, v = [], alpha
    for t in range(1, 12):
        f = math.sqrt(alpha) + math.sqrt(2 * math.log(20) + math.log((alpha + t) / alpha))
        u = 0.25 / v if bonus == "squared" else 0.5 / math.sqrt(v)
        kappa = 2 * f + sum(pushed[-m:])
        assert bandit.rank(situation([0.5]))[2][0] == pytest.approx(kappa * u, rel=1e-12)
        if t in (1, 2, 3, 9):
            assert bandit.select([0.5], [0]) == 0
            v += 0.25
            pushed.append(u)
        else:
            pushed.append(0.0)
        bandit.update()
    assert bandit.n_rounds_ == 11


@pytest.mark.parametrize(
    ("alpha", "bonus", "regret"),
    [(20.0, "squared", 28), (1.0, "squared", 280), (20.0, "norm", 868), (1.0, "norm", 952)],
)
@pytest.mark.parametrize("good", [range(6), range(14, 20), (1, 4, 9, 10, 15, 18)])
def test_regret_in_a_world_without_noise(alpha: float, bonus: str, regret: int, good: range) -> None:
    bandit = DelayedLinUCB(20, timeout=1, alpha=alpha, bonus=bonus)
    wrong = 0
    for _ in range(2000):
        arm = bandit.select(np.ones(20), np.arange(20))
        wrong += arm not in good
        bandit.update([(arm, 1.0, 1)] if arm in good else [])
    assert wrong == regret  # a uniform choice loses 1400


def test_persons_of_one_round_share_its_number_and_its_place_in_the_window() -> None:
    bandit = DelayedLinUCB(3, timeout=1, alpha=1.0)
    first = bandit.select([1.0, 0.5, 0.4], [0])
    second = bandit.select([1.0, 0.5, 0.4], [1])
    bandit.update([(first, 1.0, 1), (second, 0.5, 1)])
    assert bandit.n_rounds_ == 1
    np.testing.assert_allclose(bandit.theta_, [1 / 2, 0.5 / 1.25, 0.0])
    f = 1 + math.sqrt(2 * math.log(20) + 3 * math.log(5 / 3))
    u = 0.4**2
    assert bandit.rank(situation([1.0, 0.5, 0.4], [2]))[2][0] == pytest.approx((2 * f + 1.0 + 0.25) * u)
    bandit.update()
    assert bandit.rank(situation([1.0, 0.5, 0.4], [2]))[2][0] < (2 * f + 1.0 + 0.25) * u


def test_estimate_is_low_by_the_share_that_never_arrives_and_can_be_corrected() -> None:
    rng = np.random.default_rng(5)
    rate, m, theta = 0.2, 10, 0.7
    in_time = 1 - 0.8**m
    assert in_time == pytest.approx(0.893, abs=5e-4)
    found = {}
    for correct in (False, True):
        bandit, due = DelayedLinUCB(1, timeout=m, alpha=1e-6, correct_timeout=correct), {}
        for t in range(6000):
            bandit.select([1.0], [0])
            delay = int(rng.geometric(rate))
            if rng.random() < theta and delay <= m:
                due.setdefault(t + delay - 1, []).append(Feedback(0, 1.0, 1.0, t, delay))
            bandit.update(due.pop(t, []))
        found[correct] = bandit
    assert found[False].theta_[0] == pytest.approx(theta * in_time, abs=0.02)
    assert found[True].arrival_ == pytest.approx(in_time, abs=0.02)
    assert found[True].theta_[0] == pytest.approx(theta, abs=0.03)
    assert found[False].arrival_ == 1.0


@given(st.floats(0.08, 0.999), st.integers(2, 40))
@settings(max_examples=60, deadline=None)
def test_share_in_time_inverts_the_cut_geometric_mean(rate: float, m: int) -> None:
    d = np.arange(1, m + 1)
    law = rate * (1 - rate) ** (d - 1.0)
    share = law.sum()
    total = (d @ law) / share * 10**9
    expected = max(share, 0.5)
    assert _share_in_time(10**9, round(total), m) == pytest.approx(expected, abs=1e-4)


def test_share_in_time_needs_delays() -> None:
    assert _share_in_time(9, 80, 10) == 1.0
    assert _share_in_time(100, 100, 1) == 1.0
    assert _share_in_time(100, 100, 10) == 1.0  # all at once
    assert _share_in_time(100, 700, 10) == 0.5  # later than any geometric law has it


def test_reward_zero_adds_nothing_and_state_is_kept_bit_for_bit() -> None:
    bandit = DelayedLinUCB(5, timeout=3, alpha=1.0)
    rng = np.random.default_rng(0)
    for _ in range(20):
        arm = bandit.select(rng.random(5), np.arange(5))
        bandit.update([(arm, 0.3, 1)] if arm % 2 else [(arm, 0.3, 0)])
    assert (bandit.theta_[::2] == 0).all()
    assert (bandit.theta_[1::2] > 0).all()
    bandit.select(rng.random(5), [2])  # a round is open
    copies = [pickle.loads(pickle.dumps(bandit)), copy.deepcopy(bandit)]
    for _ in range(30):
        p = rng.random(5)
        bandit.update([(1, 0.1, 1)])
        arm = bandit.select(p, np.arange(5))
        for other in copies:
            other.update([(1, 0.1, 1)])
            assert other.select(p, np.arange(5)) == arm
            assert other.theta_.tobytes() == bandit.theta_.tobytes()
            assert other.precision_.tobytes() == bandit.precision_.tobytes()


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        ({"n_arms": 0}, ValueError, "n_arms"),
        ({"timeout": 0}, ValueError, "timeout"),
        ({"timeout": 2.5}, TypeError, "timeout"),
        ({"alpha": 0.0}, ValueError, "alpha"),
        ({"alpha": math.nan}, ValueError, "alpha"),
        ({"delta": 1.0}, ValueError, "delta"),
        ({"bonus": "cubed"}, ValueError, "bonus"),
    ],
)
def test_bad_parameters(change: dict, error: type, match: str) -> None:
    with pytest.raises(error, match=match):
        DelayedLinUCB(**{"n_arms": 3, "timeout": 2, **change})


@pytest.mark.parametrize(
    ("p", "feasible", "error", "match"),
    [
        ([0.1, 0.2], [0], ValueError, "3 values"),
        ([0.1, 0.2, 1.2], [0], ValueError, r"\[0, 1\]"),
        ([0.1, 0.2, math.nan], [0], ValueError, "NaN"),
        ([0.1, 0.2, 0.3], [3], ValueError, "feasible"),
        ([0.1, 0.2, 0.3], [-1], ValueError, "feasible"),
        ([0.1, 0.2, 0.3], [0.5], TypeError, "feasible"),
        ([0.1, 0.2, 0.3], [True, False], ValueError, "mask"),
    ],
)
def test_bad_rounds_change_nothing(p: list, feasible: list, error: type, match: str) -> None:
    bandit = DelayedLinUCB(3, timeout=2)
    before = pickle.dumps(bandit)
    with pytest.raises(error, match=match):
        bandit.select(p, feasible)
    assert pickle.dumps(bandit) == before


@pytest.mark.parametrize("item", [(3, 0.5, 1), (0, 1.5, 1), (0, 0.5, 2), (0, 0.5), "abc", (0.5, 0.5, 1)])
def test_bad_feedback_changes_nothing(item: tuple) -> None:
    bandit = DelayedLinUCB(3, timeout=2)
    before = pickle.dumps(bandit)
    with pytest.raises((ValueError, TypeError), match=r"feedback|arm"):
        bandit.update([(0, 0.5, 1), item])
    assert pickle.dumps(bandit) == before
