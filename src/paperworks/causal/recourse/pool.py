"""The candidates, and which of them are open to a person at what cost."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import IsolationForest

from paperworks._checks import check_finite_array

from .costs import CostModel
from .protocol import Floats, Integers, Situation

Bools = NDArray[np.bool_]


class Pool:
    """K candidates, with what is known of them before anybody comes.

    `scale` and `offset` map features to [0, 1]; a constant feature has the scale 0. `usable` says which candidates may
    be recommended to anybody.
    """

    def __init__(
        self,
        rows: Floats,
        *,
        scale: Floats,
        offset: Floats,
        cost_model: CostModel,
        immutable: Integers,
        acceptance: Callable[[Floats, int], Any] | None,
        usable: Bools,
        scores: Floats,
    ) -> None:
        self.rows, self.usable, self.scores = rows, usable, scores
        self.scale, self.offset, self.immutable = scale, offset, immutable
        self.cost_model, self.acceptance = cost_model, acceptance
        self.targets = self.scaled(rows)
        self._embedded = cost_model.embed(self.targets)
        self._fixed = rows[:, immutable]

    def scaled(self, rows: Floats) -> Floats:
        """Return rows with their features in [0, 1], as far as they lie in the range of the data."""
        return np.asarray(rows * self.scale + self.offset)

    def situation(self, person: Floats, score: float) -> tuple[Situation, Floats]:
        """Return the situation of a person in original units, and the cost of each candidate."""
        x = self.scaled(person)
        cost = self.cost_model.distance(self.cost_model.embed(x), self._embedded)
        feasible = np.flatnonzero(self.usable & (self._fixed == person[self.immutable]).all(axis=1))
        return Situation(x, self.targets, self.accepted(cost), feasible, score, self.scores), cost

    def accepted(self, cost: Floats) -> Floats:
        """Return the probability that an action of each cost is carried out."""
        n_features = self.rows.shape[1]
        if self.acceptance is None:
            return acceptance_of(cost, self.cost_model.kind, n_features)
        given = check_finite_array(self.acceptance(cost, n_features), "acceptance(cost, D)")
        if given.shape != cost.shape:
            raise ValueError(f"acceptance must return one probability per cost, {cost.shape}, got shape {given.shape}")
        if given.min() < 0.0 or given.max() > 1.0:
            raise ValueError(f"acceptance must return probabilities, got {given.min():g} to {given.max():g}")
        return given


def acceptance_of(cost: Floats, kind: str, n_features: int) -> Floats:
    """Return exp(-nu cost) with nu = 1 / D, or 1 / (2 D) for the Mahalanobis cost."""
    return np.asarray(np.exp(cost * (-(0.5 if kind == "mahalanobis" else 1.0) / n_features)))


def plausible(positives: Floats, rows: Floats, limit: float | None, seed: int) -> Bools:
    """Return which rows have an outlier score of at most `limit` under a forest fitted to positive rows."""
    if limit is None or limit >= 1.0 or math.isinf(limit):  # scores are at most 1
        return np.ones(len(rows), dtype=bool)
    forest = IsolationForest(random_state=seed).fit(positives)
    return np.asarray(-forest.score_samples(rows) <= limit)
