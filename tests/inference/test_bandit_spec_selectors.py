"""The bandits by hand-computed numbers, their laws by simulation, and the truncated geometric model of a round."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("transformers")

from paperworks.inference import (
    EXP3Spec,
    GreedySpec,
    ThompsonSpec,
    UCBSpec,
    expected_accepted,
    simulate_stopping_time,
)
from paperworks.inference.bandit_spec.baselines import make_selector

# --- UCB -----------------------------------------------------------------------------------------------------------


def test_first_each_arm_once_in_order() -> None:
    bandit = UCBSpec(4, max_draft=3)
    for arm in range(4):
        assert bandit.select() == arm
        assert np.isinf(bandit.index()[arm:]).all()
        bandit.update(arm, 1 + arm)
    assert np.isfinite(bandit.index()).all()
    assert bandit.select() == 3


def test_index_by_hand() -> None:
    bandit = UCBSpec(2, max_draft=4, delta=0.1)
    bandit.update(0, 5)
    bandit.update(1, 2)
    radius = 2 * math.sqrt(2 * (1 + 2 * math.log(2 * 4 * math.sqrt(2) / 0.1)))
    assert radius == pytest.approx(9.146, abs=5e-4)
    np.testing.assert_allclose(bandit.index(), [5 + radius, 2 + radius], atol=1e-12)
    third = UCBSpec(2, max_draft=4, delta=0.1, scale=0.3)
    third.update(0, 5)
    third.update(1, 2)
    np.testing.assert_allclose(third.index(), [5 + 0.3 * radius, 2 + 0.3 * radius], atol=1e-12)


@given(st.lists(st.tuples(st.integers(0, 2), st.floats(1, 6)), min_size=1, max_size=30), st.floats(0.01, 1))
def test_index_is_equation_five(rounds: list[tuple[int, float]], delta: float) -> None:
    bandit = UCBSpec(3, max_draft=5, delta=delta)
    for arm, accepted in rounds:
        bandit.update(arm, accepted)
    for arm, found in enumerate(bandit.index()):
        gains = [a for i, a in rounds if i == arm]
        n, t = len(gains), len(rounds)
        if not gains:
            assert found == math.inf
            continue
        inside = 1 + 2 * math.log(3 * t**2 * math.sqrt(1 + n) / delta)
        expected = np.mean(gains) + 5 / 2 * math.sqrt((1 + n) / n**2 * inside)
        assert found == pytest.approx(expected, rel=1e-12)


def test_ties_go_to_the_lowest_arm() -> None:
    bandit = UCBSpec(3, max_draft=2)
    for arm in range(3):
        bandit.update(arm, 2)
    assert bandit.select() == 0


def test_forgetting_returns_to_an_arm_that_became_better() -> None:
    def late_share(discount: float) -> float:
        bandit = UCBSpec(2, max_draft=4, scale=0.05, discount=discount)
        late = 0
        for t in range(1000):
            arm = bandit.select()
            late += arm == 1 and t >= 700
            bandit.update(arm, (4 if t < 600 else 2) if arm == 0 else 3)
        return late / 300

    assert late_share(0.98) > 0.8 > 0.2 > late_share(1.0)


# --- EXP3, Thompson, greedy ----------------------------------------------------------------------------------------


def test_exp3_by_hand() -> None:
    bandit = EXP3Spec(2, max_draft=4, random_state=0)
    np.testing.assert_array_equal(bandit.probabilities(), [0.5, 0.5])
    bandit.update(0, 1)  # loss 1 over probability 1/2: 2
    first = 1 / (1 + math.exp(2 * math.sqrt(math.log(2) / 4)))
    np.testing.assert_allclose(bandit.probabilities(), [first, 1 - first], atol=1e-12)
    np.testing.assert_allclose(bandit.probabilities(), [0.3031, 0.6969], atol=5e-5)
    bandit.update(1, 3)  # loss 1/2 over the probability of this round, not of the next
    eta = math.sqrt(math.log(2) / 6)
    weights = np.exp([-eta * 2, -eta * 0.5 / (1 - first)])
    np.testing.assert_allclose(bandit.probabilities(), weights / weights.sum(), atol=1e-12)


def test_exp3_draws_with_its_probabilities() -> None:
    bandit = EXP3Spec(3, max_draft=4, random_state=1)
    for arm, accepted in ((0, 1), (1, 3), (2, 5), (0, 2)):
        bandit.update(arm, accepted)
    shares = np.bincount([bandit.select() for _ in range(20_000)], minlength=3) / 20_000
    np.testing.assert_allclose(shares, bandit.probabilities(), atol=0.015)
    assert np.ptp(bandit.probabilities()) > 0.1


def test_exp3_survives_endless_losses() -> None:
    bandit = EXP3Spec(2, max_draft=4, random_state=0)
    for _ in range(3000):
        bandit.update(0, 1)
    assert np.isfinite(bandit.probabilities()).all()
    assert bandit.probabilities()[0] < 0.01


def test_thompson_follows_its_posterior() -> None:
    """One arm seen at 1 twice, the other never: compare with draws from the two Dirichlet laws."""
    bandit = ThompsonSpec(2, max_draft=1, random_state=0)
    bandit.update(0, 1)
    bandit.update(0, 1)
    rng = np.random.default_rng(1)
    first, second = rng.beta(1, 3, 100_000), rng.beta(1, 1, 100_000)  # probabilities of a gain of 2
    shares = np.mean([bandit.select() for _ in range(20_000)])
    assert shares == pytest.approx(np.mean(second > first), abs=0.015)


def test_thompson_splits_a_gain_between_integers() -> None:
    halves, wholes = (ThompsonSpec(1, max_draft=4, random_state=0) for _ in range(2))
    halves.update(0, 2.5)
    halves.update(0, 2.5)
    wholes.update(0, 2)
    wholes.update(0, 3)
    np.testing.assert_allclose(halves._seen, wholes._seen)
    halves.update(0, 5)
    assert halves._seen[0, 4] == 1


def test_greedy_warms_up_and_then_keeps_the_best() -> None:
    bandit = GreedySpec(3, max_draft=4, warmup=2)
    gains = [[2, 1], [3, 3], [1, 4]]
    chosen = []
    for t in range(6):
        chosen.append(bandit.select())
        bandit.update(chosen[-1], gains[chosen[-1]][t // 3])
    assert chosen == [0, 1, 2, 0, 1, 2]
    assert bandit.select() == 1
    for _ in range(5):
        bandit.update(1, 1)
    assert bandit.select() == 2


@pytest.mark.parametrize("name", ["ucb", "exp3", "thompson", "greedy", "uniform"])
def test_bandits_find_the_best_arm(name: str) -> None:
    bandit = make_selector(name, 3, max_draft=4, random_state=0)
    rounds = simulate_stopping_time([0.3, 0.5, 0.8], 4, 4000, bandit, random_state=1)
    ratio = rounds / (4000 / expected_accepted(0.8, 4))
    assert (ratio > 1.3) == (name == "uniform")
    fixed = make_selector("fixed:2", 3, max_draft=4)
    assert simulate_stopping_time([0.3, 0.5, 0.8], 4, 4000, fixed, random_state=1) < rounds


# --- the model of a round ------------------------------------------------------------------------------------------


def test_mean_gain_by_closed_form_and_simulation() -> None:
    p = np.array([0.1, 0.5, 0.9])
    np.testing.assert_allclose(expected_accepted(p, 4), (1 - p**5) / (1 - p), rtol=1e-13)
    assert expected_accepted(0.7, 0) == 1.0
    assert expected_accepted(1.0, 6) == 7.0
    assert expected_accepted(1 - 1e-12, 6) == pytest.approx(7.0)
    for value in p:
        rounds = simulate_stopping_time([value], 4, 40_000, UCBSpec(1, max_draft=4), random_state=0)
        assert 40_000 / rounds == pytest.approx(expected_accepted(value, 4), rel=0.03)


class Recorder:
    max_draft = 3

    def __init__(self) -> None:
        self.gains: list[float] = []

    def select(self) -> int:
        return 0

    def update(self, arm: int, accepted: float) -> None:
        self.gains.append(accepted)


def test_gains_are_truncated_geometric() -> None:
    recorder = Recorder()
    simulate_stopping_time([0.6], 3, 40_000, recorder, random_state=0)
    shares = np.bincount(recorder.gains, minlength=5)[1:] / len(recorder.gains)
    np.testing.assert_allclose(shares, [0.4, 0.24, 0.144, 0.216], atol=0.01)


@given(st.floats(0, 1), st.integers(1, 8), st.integers(1, 200))
def test_rounds_lie_between_their_bounds(p: float, length: int, n: int) -> None:
    rounds = simulate_stopping_time([p], length, n, UCBSpec(1, max_draft=length), random_state=0)
    assert math.ceil(n / (length + 1)) <= rounds <= n
    assert p > 0 or rounds == n


# scale of the radius, from the specification's table: (acceptance, L, tokens) -> ratio of rounds to the best arm's
TABLE = [
    ((0.3, 0.5, 0.8), 4, 256, {"ucb:1.0": 1.18, "ucb:0.3": 1.05, "exp3": 1.23, "uniform": 1.50}),
    ((0.3, 0.5, 0.8), 4, 1024, {"ucb:1.0": 1.09, "ucb:0.3": 1.02, "exp3": 1.12, "uniform": 1.51}),
    ((0.6, 0.7, 0.8), 8, 256, {"ucb:1.0": 1.22, "ucb:0.3": 1.12, "exp3": 1.23, "uniform": 1.30}),
]


@pytest.mark.parametrize(("arms", "length", "n", "expected"), TABLE)
def test_ratio_to_the_best_arm(arms: tuple[float, ...], length: int, n: int, expected: dict[str, float]) -> None:
    def mean(name: str) -> float:
        name, _, scale = name.partition(":") if name.startswith("ucb") else (name, "", "")
        totals = [
            simulate_stopping_time(
                arms,
                length,
                n,
                make_selector(name, 3, max_draft=length, scale=float(scale or 1), random_state=run),
                random_state=100 + run,
            )
            for run in range(60)
        ]
        return float(np.mean(totals))

    best = mean("fixed:2")
    for name, ratio in expected.items():
        assert mean(name) / best == pytest.approx(ratio, abs=0.05)


# --- bad input -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [UCBSpec, EXP3Spec, ThompsonSpec, GreedySpec])
def test_bad_rounds_are_named(kind: type) -> None:
    bandit = kind(2, max_draft=4)
    for arm in (-1, 2):
        with pytest.raises(ValueError, match="arm must lie in"):
            bandit.update(arm, 2)
    for accepted in (0.9, 5.1, math.nan):
        with pytest.raises(ValueError, match="accepted must lie in"):
            bandit.update(0, accepted)
    bandit.update(0, 5)
    assert sum(bandit.counts) == 1
    for sizes in ({"n_arms": 0, "max_draft": 4}, {"n_arms": 2, "max_draft": 0}):
        with pytest.raises(ValueError, match=r"n_arms|max_draft"):
            kind(**sizes)
    with pytest.raises(ValueError, match="discount"):
        kind(2, max_draft=4, discount=1.5)


def test_bad_numbers_are_named() -> None:
    for delta in (0.0, 1.1, math.nan):
        with pytest.raises(ValueError, match="delta"):
            UCBSpec(2, max_draft=4, delta=delta)
    with pytest.raises(ValueError, match="scale"):
        UCBSpec(2, max_draft=4, scale=-0.1)
    with pytest.raises(ValueError, match="warmup"):
        GreedySpec(2, max_draft=4, warmup=0)
    with pytest.raises(ValueError, match="p must lie"):
        expected_accepted([0.5, 1.2], 3)
    with pytest.raises(ValueError, match="length"):
        expected_accepted(0.5, -1)
    with pytest.raises(ValueError, match="accept_probs"):
        simulate_stopping_time([1.5], 3, 10, UCBSpec(1, max_draft=3))
    with pytest.raises(ValueError, match="n_tokens"):
        simulate_stopping_time([0.5], 3, 0, UCBSpec(1, max_draft=3))
    with pytest.raises(ValueError, match="chose arm 1"):
        simulate_stopping_time([0.5], 3, 50, UCBSpec(2, max_draft=3))
