"""Speed of many runs at once beside one run after the other, and of one question and answer beside mabwiser's."""

from __future__ import annotations

import math
import warnings
from functools import partial

import numpy as np
from mabwiser.mab import MAB, LearningPolicy
from numpy.typing import NDArray

from benchmarks import Case
from paperworks.online import ChangePointBandit, simulate

Floats = NDArray[np.float64]


def step(n_arms: int, *jumps: tuple[int, float]) -> Floats:
    """Return a step function."""
    means = np.zeros(n_arms)
    for x, size in jumps:
        means[x + 1 :] += size
    return means


def numpy_runs(means: Floats, n: int, delta: float, n_runs: int) -> list[int]:
    """Run after run of the method, all arms anew in NumPy at every pull, as a script would do it."""
    rng = np.random.default_rng(0)
    k, taus = means.size, []
    for _ in range(n_runs):
        counts, averages = np.zeros(k), np.zeros(k)
        for t in range(1_000_000):
            distance = np.abs(np.diff(averages))
            best = np.argsort(-distance, kind="stable")[:n]
            w = counts**2 / (counts + 1)
            evidence = w[best] * w[best + 1] / np.maximum(w[best] + w[best + 1], 1e-300) * distance[best] ** 2 / 2
            logs = 0.5 * np.log((1 + counts[best]) * (1 + counts[best + 1]))
            if counts.min() > 0 and (evidence > math.log((k - 1) / delta) + logs).all():
                taus.append(t)
                break
            arm = int(counts.argmin())
            if counts[arm] >= max(2.0, math.sqrt(t) - k / 2):
                inverse = np.maximum(distance[best], 1e-9) ** -2.0
                share = np.zeros(k)
                np.add.at(share, best, inverse)
                np.add.at(share, best + 1, inverse)
                arm = int(np.argmax(t * share / share.sum() - counts))
            counts[arm] += 1
            averages[arm] += (means[arm] + rng.normal() - averages[arm]) / counts[arm]
    return taus


def together(means: Floats, n: int, delta: float, n_runs: int) -> object:
    """Simulate the runs at once."""
    return simulate(means, n_changes=n, delta=delta, n_runs=n_runs, random_state=0)


def ask_and_tell(rewards: list[float]) -> None:
    """Ask for an arm and tell its reward, one after the other."""
    bandit = ChangePointBandit(50)
    for reward in rewards:
        bandit.update(bandit.select(), reward)


def mabwiser_ask_and_tell(rewards: list[float]) -> None:
    """Do the same with UCB1."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bandit = MAB(list(range(50)), LearningPolicy.UCB1(alpha=1.0), seed=0)
        bandit.fit(list(range(50)), rewards[:50])
        for reward in rewards:
            bandit.partial_fit([bandit.predict()], [reward])


def cases() -> list[Case]:
    """Return the comparisons."""
    one, two = step(50, (21, 1.0)), step(20, (5, 1.0), (13, -0.7))
    rewards = np.random.default_rng(0).normal(size=1000).tolist()
    loop = "NumPy loop, one run after the other"
    return [
        Case(
            "100 runs, 50 arms, one jump",
            partial(together, one, 1, 0.01, 100),
            partial(numpy_runs, one, 1, 0.01, 100),
            loop,
        ),
        Case(
            "40 runs, 20 arms, two jumps",
            partial(together, two, 2, 0.1, 40),
            partial(numpy_runs, two, 2, 0.1, 40),
            loop,
        ),
        Case(
            "1,000 times ask and tell, 50 arms",
            partial(ask_and_tell, rewards),
            partial(mabwiser_ask_and_tell, rewards),
            "mabwiser UCB1 predict and partial_fit",
        ),
    ]
