"""The method and its rivals for many runs at once: row r of every array belongs to run r.

All runs have seen the same number of rewards, so one pass of whole-array operations moves each of them by one reward.
A contender chooses arms from the counts and means of the past, then is shown the rewards; it holds nothing else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paperworks.online.change_points.bandit import forced_exploration
from paperworks.online.change_points.stopping import StoppingRule
from paperworks.online.change_points.theory import FLOOR, pair_shares

__all__ = ["CONTENDERS", "Runs"]

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]
Mask = NDArray[np.bool_]


class Runs(ABC):
    """Counts and means of all runs; the contenders below add how to choose arms and when to stop."""

    row_arrays: tuple[str, ...] = ("counts", "means")

    def __init__(self, truth: Floats, n_runs: int, rule: StoppingRule) -> None:
        self.truth, self.rule = truth, rule
        self.n_arms = truth.size
        self.n_samples = 0
        self.counts = np.zeros((n_runs, self.n_arms))
        self.means = np.zeros((n_runs, self.n_arms))
        self._index()

    def _index(self) -> None:
        self.n_runs = len(self.counts)
        self.base = np.arange(self.n_runs) * self.n_arms  # where each run starts in a flattened array

    @abstractmethod
    def select(self) -> Ints:
        """Return the next arm of each run."""

    @abstractmethod
    def stopped(self) -> Mask:
        """Return which runs have seen enough."""

    @abstractmethod
    def answer(self, run: int) -> Ints:
        """Return the change points that a run would report now."""

    def record(self, arms: Ints, rewards: Floats) -> None:
        """Take one reward of each run."""
        place = self.base + arms
        n = self.counts.take(place) + 1.0
        old = self.means.take(place)
        mean = old + (rewards - old) / n
        self.counts.put(place, n)
        self.means.put(place, mean)
        self.n_samples += 1
        self.moved(arms, mean)

    def moved(self, arms: Ints, means: Floats) -> None:  # noqa: B027
        """Bring up to date what depends on the mean of the arms just seen."""

    def keep(self, kept: Mask) -> None:
        """Forget all runs but those marked."""
        for name in self.row_arrays:
            setattr(self, name, getattr(self, name)[kept])
        self._index()

    def least_seen(self) -> tuple[Ints, Floats]:
        """Return the arm with the fewest rewards and their number."""
        arms = self.counts.argmin(axis=1)
        return arms, self.counts.take(self.base + arms)


class _Pairs(Runs):
    """Contenders that report the largest distances of neighbours, once the evidence for each of them suffices."""

    row_arrays = (*Runs.row_arrays, "distances", "best")

    def __init__(self, truth: Floats, n_runs: int, rule: StoppingRule) -> None:
        super().__init__(truth, n_runs, rule)
        self.distances = np.full((n_runs, self.n_arms), -1.0)  # the last column is no pair and stays -1
        self.distances[:, :-1] = 0.0
        self.best = np.zeros((n_runs, rule.n_changes), dtype=np.intp)

    def moved(self, arms: Ints, means: Floats) -> None:
        place = self.base + arms
        last = self.n_arms - 1
        right = np.abs(means - self.means.take(place + 1, mode="clip"))
        self.distances.put(place, np.where(arms == last, -1.0, right))
        left = np.abs(means - self.means.take(place - 1, mode="clip"))
        inner = arms > 0
        if inner.all():
            self.distances.put(place - 1, left)
        else:
            self.distances.put(place[inner] - 1, left[inner])

    def stopped(self) -> Mask:
        if self.n_samples < self.n_arms:
            return np.zeros(self.n_runs, dtype=bool)
        self.best = self.largest(self.distances)
        return self.certain(self.best)

    def largest(self, distances: Floats) -> Ints:
        """Return the places of the largest distances of each run, ascending; ties to the left."""
        if self.rule.n_changes == 1:
            return distances.argmax(axis=1)[:, None]
        if self.rule.n_changes > 4:
            order = np.argsort(-distances, axis=1, kind="stable")
            return np.sort(order[:, : self.rule.n_changes], axis=1)
        found, taken = [], []
        for _ in range(self.rule.n_changes):
            place = self.base + distances.argmax(axis=1)
            found.append(place - self.base)
            taken.append((place, distances.take(place)))
            distances.put(place, -2.0)
        for place, value in taken:
            distances.put(place, value)
        return np.sort(np.stack(found, axis=1), axis=1)

    def certain(self, pairs: Ints) -> Mask:
        """Return the runs in which the evidence for all of their `pairs` suffices."""
        place = self.base[:, None] + pairs
        left, right = self.counts.take(place), self.counts.take(place + 1)
        evidence = self.rule.statistic(left, right, self.distances.take(place))
        enough = evidence > self.rule.threshold(left, right, self.n_samples)
        return enough[:, 0] if enough.shape[1] == 1 else enough.all(axis=1)

    def answer(self, run: int) -> Ints:
        return self.best[run]


class _Mcpi(_Pairs):
    """The method: the rule of `ChangePointBandit`."""

    exploration = "gk"

    def select(self) -> Ints:
        least, fewest = self.least_seen()
        floor = forced_exploration(self.exploration, self.n_arms, self.n_samples)
        explore = fewest < floor
        if explore.all():
            return least
        return np.where(explore, least, self._track())

    def _track(self) -> Ints:
        """Return the arm that lags furthest behind its share; it is an arm of a pair, for others lag by less than 0."""
        best = self.best
        if best.shape[1] == 1:
            x = best[:, 0]
            place = self.base + x
            return x + (self.counts.take(place) > self.counts.take(place + 1))
        place = self.base[:, None] + best
        distances = [self.distances.take(column) for column in place.T]
        shares = np.zeros_like(self.counts)
        for column, share in zip(place.T, pair_shares(distances, FLOOR * self.rule.sigma), strict=True):
            shares.put(column, shares.take(column) + share)
            shares.put(column + 1, shares.take(column + 1) + share)
        # Columns x_1, x_1 + 1, x_2, ... ascend, so that ties go to the left.
        candidates = np.stack([place, place + 1], axis=2).reshape(self.n_runs, -1)
        lag = self.n_samples * shares.take(candidates) - self.counts.take(candidates)
        return candidates.take(np.arange(self.n_runs) * candidates.shape[1] + lag.argmax(axis=1)) - self.base


class _McpiSqrt(_Mcpi):
    """The method with the paper's forced exploration."""

    exploration = "sqrt"


class _Uniform(_Pairs):
    """Every arm in turn, with the method's stopping rule."""

    def select(self) -> Ints:
        return np.full(self.n_runs, self.n_samples % self.n_arms)


class _Oracle(_Pairs):
    """Knows where the largest jumps are, gives them their best shares, and only has to confirm them."""

    def __init__(self, truth: Floats, n_runs: int, rule: StoppingRule) -> None:
        super().__init__(truth, n_runs, rule)
        jumps = np.abs(np.diff(truth))
        self.known = np.sort(np.argsort(-jumps, kind="stable")[: rule.n_changes])
        self.shares = np.zeros(self.n_arms)
        for x, share in zip(self.known, pair_shares(list(jumps[self.known]), FLOOR * rule.sigma), strict=True):
            self.shares[x] += share
            self.shares[x + 1] += share

    def select(self) -> Ints:
        if self.n_samples < self.n_arms:
            return np.full(self.n_runs, self.n_samples)
        return (self.n_samples * self.shares - self.counts).argmax(axis=1)

    def stopped(self) -> Mask:
        if self.n_samples < self.n_arms:
            return np.zeros(self.n_runs, dtype=bool)
        self.best = np.broadcast_to(self.known, (self.n_runs, self.known.size))
        return self.certain(self.best)


class _Elimination(_Pairs):
    """Arms of the pairs still in question in turn; a pair leaves when its distance is surely not among the largest.

    For a pair to leave, `n_changes` others must have distances above their radii, but then the run is over: with the
    method's stopping rule this is "uniform".
    """

    row_arrays = (*_Pairs.row_arrays, "alive", "last")

    def __init__(self, truth: Floats, n_runs: int, rule: StoppingRule) -> None:
        super().__init__(truth, n_runs, rule)
        self.alive = np.ones((n_runs, self.n_arms), dtype=bool)
        self.alive[:, -1] = False  # no pair
        self.last = np.full(n_runs, -1, dtype=np.intp)

    def select(self) -> Ints:
        wanted = self.alive.copy()
        wanted[:, 1:] |= self.alive[:, :-1]
        later = wanted & (np.arange(self.n_arms) > self.last[:, None])
        self.last = np.where(later.any(axis=1), later.argmax(axis=1), wanted.argmax(axis=1))
        return self.last

    def stopped(self) -> Mask:
        if self.n_samples < self.n_arms:
            return np.zeros(self.n_runs, dtype=bool)
        radius = self.rule.radius(self.counts[:, :-1], self.counts[:, 1:], self.n_samples)
        alive, distances = self.alive[:, :-1], self.distances[:, :-1]
        lower = np.where(alive, distances - radius, -np.inf)
        n = self.rule.n_changes
        bar = lower.max(axis=1) if n == 1 else -np.partition(-lower, n - 1, axis=1)[:, n - 1]
        alive &= distances + radius >= bar[:, None]
        self.best = self.largest(np.where(self.alive, self.distances, -1.0))
        return self.certain(self.best)


class _Bisect(Runs):
    """Halving, for exactly one jump: compare both ends with the middle until one half surely holds the jump."""

    row_arrays = (*Runs.row_arrays, "low", "high")

    def __init__(self, truth: Floats, n_runs: int, rule: StoppingRule) -> None:
        k = truth.size
        super().__init__(truth, n_runs, rule._replace(n_pairs=k * (k - 1) // 2))
        self.low = np.zeros(n_runs, dtype=np.intp)
        self.high = np.full(n_runs, k - 1, dtype=np.intp)

    def select(self) -> Ints:
        turn = self.n_samples % 3 if self.n_arms > 2 else 2 * (self.n_samples % 2)  # two arms have no middle
        return (self.low, (self.low + self.high) // 2, self.high)[turn]

    def stopped(self) -> Mask:
        middle = (self.low + self.high) // 2
        left, right = self._margin(self.low, middle), self._margin(middle, self.high)
        go_left = (left > 0) & (left >= right)
        go_right = (right > 0) & ~go_left
        self.high = np.where(go_left, middle, self.high)
        self.low = np.where(go_right, middle, self.low)
        if self.n_arms == 2:
            return right > 0
        return self.high - self.low == 1

    def _margin(self, first: Ints, second: Ints) -> Floats:
        """Return by how much the evidence exceeds the threshold, negative for arms without rewards."""
        a, b = self.base + first, self.base + second
        n_a, n_b = self.counts.take(a), self.counts.take(b)
        evidence = self.rule.statistic(n_a, n_b, np.abs(self.means.take(a) - self.means.take(b)))
        return evidence - self.rule.threshold(n_a, n_b, self.n_samples)

    def answer(self, run: int) -> Ints:
        if self.high[run] - self.low[run] == 1:
            return self.low[run : run + 1]
        seen = np.flatnonzero(self.counts[run])
        steps = np.abs(np.diff(self.means[run, seen]))
        return seen[[int(steps.argmax())]] if steps.size else self.low[run : run + 1]


class _Clustering(Runs):
    """Groups of arms with equal means, as bandits for clustering see it: the order of the arms is not used."""

    row_arrays = (*Runs.row_arrays, "margins", "open", "groups", "pair", "waiting")

    def __init__(self, truth: Floats, n_runs: int, rule: StoppingRule) -> None:
        k = truth.size
        super().__init__(truth, n_runs, rule._replace(n_pairs=k * (k - 1) // 2))
        self.margins = np.full((n_runs, k, k), np.inf)  # evidence beyond the threshold, of all pairs
        self.open = self.margins.copy()  # the same of pairs in different groups
        self.groups = np.zeros((n_runs, k), dtype=np.int8)
        self.pair = np.zeros((n_runs, 2), dtype=np.intp)
        self.waiting = np.full(n_runs, -1, dtype=np.intp)  # the second arm of a pair whose first was just seen

    def select(self) -> Ints:
        if self.n_samples < self.n_arms:
            return np.full(self.n_runs, self.n_samples)
        second = self.waiting >= 0
        arms = np.where(second, self.waiting, self.pair[:, 0])
        self.waiting = np.where(second, -1, self.pair[:, 1])
        return arms

    def moved(self, arms: Ints, means: Floats) -> None:
        rows = np.arange(self.n_runs)
        own = self.counts.take(self.base + arms)[:, None]
        evidence = self.rule.statistic(own, self.counts, np.abs(means[:, None] - self.means))
        # The heuristic threshold is the same for all pairs and moves with time: `stopped` takes it off.
        threshold = 0.0 if self.rule.kind == "heuristic" else self.rule.threshold(own, self.counts, self.n_samples)
        margin = evidence - threshold
        self.margins[rows, arms] = self.margins[rows, :, arms] = margin
        apart = np.where(self.groups != self.groups.take(self.base + arms)[:, None], margin, np.inf)
        self.open[rows, arms] = self.open[rows, :, arms] = apart

    def stopped(self) -> Mask:
        if self.n_samples < self.n_arms:
            return np.zeros(self.n_runs, dtype=bool)
        n, rows = self.rule.n_changes, np.arange(self.n_runs)
        ordered = np.sort(self.means, axis=1)
        gaps = np.diff(ordered, axis=1)
        cuts = gaps.argmax(axis=1)[:, None] if n == 1 else np.argsort(-gaps, axis=1, kind="stable")[:, :n]
        groups = np.zeros((self.n_runs, self.n_arms), dtype=np.int8)
        for cut in cuts.T:
            groups += self.means > ordered[rows, cut][:, None]
        changed = np.flatnonzero((groups != self.groups).any(axis=1))
        self.groups = groups
        apart = groups[changed, :, None] != groups[changed, None, :]
        self.open[changed] = np.where(apart, self.margins[changed], np.inf)
        flat = self.open.reshape(self.n_runs, -1)
        weakest = flat.argmin(axis=1)
        self.pair = np.stack(np.divmod(weakest, self.n_arms), axis=1)
        least = flat[rows, weakest]
        bar = self.rule.threshold(1.0, 1.0, self.n_samples) if self.rule.kind == "heuristic" else 0.0
        return (least > bar) & np.isfinite(least)

    def answer(self, run: int) -> Ints:
        return np.flatnonzero(np.diff(self.groups[run].astype(np.intp)))


CONTENDERS: dict[str, Any] = {
    "mcpi": _Mcpi,
    "mcpi-sqrt": _McpiSqrt,
    "uniform": _Uniform,
    "oracle": _Oracle,
    "elimination": _Elimination,
    "bisect": _Bisect,
    "clustering": _Clustering,
}
