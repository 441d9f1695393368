"""What the policies that learn from (person, action) pairs have in common: their records, their index, their trees."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import sklearn
from numpy.typing import NDArray
from sklearn.tree import ExtraTreeRegressor

from paperworks._checks import check_fraction, check_integer

from .protocol import Feedback, Floats, Integers, Situation


class Records:
    """Every past suggestion as a row (person, action) with target 0, which becomes 1 when its success is told."""

    def __init__(self, timeout: int, refit_every: int) -> None:
        self.timeout, self.refit_every = timeout, refit_every
        self.n_rounds = 0
        self.n_successes = 0
        self._rows: Floats = np.empty((0, 0))
        self._targets: Floats = np.empty(0)
        self._size = 0
        self._row_of: dict[int, int] = {}
        self._arm_of: list[int] = []
        self._since_fit = math.inf
        self._rows_at_fit = 0
        self._news = False

    @property
    def rows(self) -> Floats:
        return self._rows[: self._size]

    @property
    def targets(self) -> Floats:
        return self._targets[: self._size]

    def add(self, situation: Situation, arm: int) -> None:
        """Record a suggestion; one without a candidate takes a number but no row."""
        number = len(self._arm_of)
        self._arm_of.append(arm)
        if arm < 0:
            return
        row = pairs(situation, np.array([arm]))
        if self._size == len(self._rows):
            grown = max(2 * self._size, 64)
            rows, targets = np.zeros((grown, row.shape[1])), np.zeros(grown)
            if self._size:
                rows[: self._size], targets[: self._size] = self.rows, self.targets
            self._rows, self._targets = rows, targets
        self._rows[self._size] = row
        self._row_of[number] = self._size
        self._size += 1

    def close(self, feedback: Iterable[Any]) -> None:
        """Close the round with its feedback."""
        for row, reward in [self._checked(item) for item in feedback]:
            if reward > 0.0:  # a failure is what the row says already
                self.n_successes += 1
                self._news = True
                self._targets[row] = reward
        self.n_rounds += 1
        self._since_fit += 1

    def due(self) -> bool:
        """Tell whether the surrogate must be fitted: on news, or when it is stale."""
        if self.n_successes == 0 or self._since_fit < self.refit_every:
            return False
        return self._news or (self._since_fit >= self.timeout and self._size > self._rows_at_fit)

    def fitted(self) -> None:
        """Note that the surrogate was fitted to all rows."""
        self._since_fit, self._news, self._rows_at_fit = 0, False, self._size

    def _checked(self, item: Any) -> tuple[int, float]:
        if not isinstance(item, Feedback):
            raise TypeError(f"feedback must hold Feedback with its number, got {item!r}")
        number = check_integer(item.number, "feedback number")
        if number not in self._row_of or self._arm_of[number] != item.arm:
            raise ValueError(f"feedback must belong to a suggestion; none with number {number} suggested {item.arm}")
        reward = check_fraction(item.reward, "feedback reward")
        return self._row_of[number], reward


def pairs(situation: Situation, arms: Integers) -> Floats:
    """Return the rows (person, action) of candidates, shape (n, 2 D)."""
    actions = situation.targets[arms] - situation.x
    return np.hstack([np.broadcast_to(situation.x, actions.shape), actions])


def confidence_width(n_rounds: int, gamma: float) -> float:
    """Return the factor of sigma in round t = n_rounds + 1, the root of gamma^t ln(t + 1) / (t + 1)."""
    t = n_rounds + 1
    return math.sqrt(gamma**t * math.log(t + 1.0) / (t + 1.0))


class Leaves:
    """A forest of extremely randomised regression trees, kept as the means and second moments of its leaves."""

    def __init__(self, trees: Iterable[Any]) -> None:
        self._trees = [tree.tree_ for tree in trees]
        self._means = [tree.value[:, 0, 0].copy() for tree in self._trees]
        self._squares = [tree.impurity + mean**2 for tree, mean in zip(self._trees, self._means, strict=True)]

    @classmethod
    def grow(
        cls, rows: Floats, targets: Floats, n_trees: int, n_samples: int, rng: np.random.Generator, leaf: int = 1
    ) -> Leaves:
        """Grow each tree on a bootstrap sample of `n_samples` rows.

        This is `ExtraTreesRegressor` with bootstrap, without the checks that it makes anew for each of its trees and
        that take most of its time on a few hundred rows.
        """
        single = np.ascontiguousarray(rows, dtype=np.float32)
        samples = rng.integers(len(rows), size=(n_trees, n_samples))
        source = np.random.RandomState(rng.integers(2**31))
        with sklearn.config_context(skip_parameter_validation=True, assume_finite=True):
            return cls(
                ExtraTreeRegressor(max_features=1.0, min_samples_leaf=leaf, random_state=source).fit(
                    single[sample], targets[sample], check_input=False
                )
                for sample in samples
            )

    def moments(self, rows: Floats) -> tuple[Floats, Floats]:
        """Return mean and variance of the mixture of the laws of the leaves that each row falls into."""
        single: NDArray[np.float32] = np.ascontiguousarray(rows, dtype=np.float32)
        mean, square = np.zeros(len(rows)), np.zeros(len(rows))
        for tree, means, squares in zip(self._trees, self._means, self._squares, strict=True):
            leaf = tree.apply(single)
            mean += means[leaf]
            square += squares[leaf]
        mean /= len(self._trees)
        square /= len(self._trees)
        return mean, np.maximum(square - mean**2, 0.0)
