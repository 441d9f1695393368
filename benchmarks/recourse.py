"""Speed of recourse policies beside dense linear algebra, scikit-learn's forest and dice_ml."""

from __future__ import annotations

import contextlib
import io
from functools import partial
from typing import Any

import dice_ml
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import gaussian_kde
from sklearn.ensemble import ExtraTreesRegressor, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

from benchmarks import Case
from paperworks.causal import CostModel, DelayedLinUCB, ImprovementRecourse, RecourseSimulator
from paperworks.causal.recourse.surrogates import Leaves

Floats = NDArray[np.float64]

K, D, ROUNDS = 200, 13, 1000


def population(n: int) -> tuple[Floats, NDArray[np.int64]]:
    """Return a table of 13 features and labels that follow their sum."""
    rng = np.random.default_rng(0)
    X = rng.random((n, D))
    return X, (X.sum(axis=1) + rng.normal(size=n) > D / 2).astype(np.int64)


class Percentiles:
    """Percentile curves for `np.interp`, one feature at a time."""

    def __init__(self, X: Floats) -> None:
        self.curves = []
        for column in X.T:
            grid = np.linspace(*np.quantile(column, [0.001, 0.999]), 100)
            mass = np.cumsum(gaussian_kde(column)(grid))
            self.curves.append((grid, np.clip(mass / mass[-1], 1e-6, 1 - 1e-6)))

    def cost(self, x: Floats, targets: Floats) -> Floats:
        """Return the largest shift of each target."""
        shifts = [
            np.abs(np.interp(targets[:, d], *curve) - np.interp(x[d], *curve)) for d, curve in enumerate(self.curves)
        ]
        return np.max(shifts, axis=0)


def stream() -> tuple[Floats, Floats, Floats]:
    """Return persons, targets and the uniform numbers behind rewards."""
    rng = np.random.default_rng(1)
    return rng.random((ROUNDS, D)), rng.random((K, D)), rng.random(ROUNDS)


def ours(model: CostModel) -> Floats:
    """Run the bandit for all rounds, costs included."""
    persons, targets, luck = stream()
    placed = model.embed(targets)
    bandit, everything = DelayedLinUCB(K, timeout=10), np.arange(K)
    for x, u in zip(persons, luck, strict=True):
        p = np.exp(-model.distance(model.embed(x), placed) / D)
        arm = bandit.select(p, everything)
        bandit.update([(arm, float(p[arm]), 1)] if u < targets[arm, 0] * p[arm] else [])
    return bandit.theta_


def dense(percentiles: Percentiles | None) -> Floats:
    """Run the same bandit with a full K x K matrix and costs computed anew for all candidates."""
    persons, targets, luck = stream()
    inverse, b, theta, window = np.eye(K) / 20.0, np.zeros(K), np.zeros(K), [0.0] * 10
    for t, (x, u) in enumerate(zip(persons, luck, strict=True), start=1):
        cost = np.abs(targets - x).sum(axis=1) if percentiles is None else percentiles.cost(x, targets)
        p = np.exp(-cost / D)
        f = np.sqrt(20.0) + np.sqrt(2 * np.log(20.0) + K * np.log((20.0 * K + t) / (20.0 * K)))
        spread = p * p * np.diag(inverse)
        arm = int(np.argmax(theta * p + (2 * f + sum(window[-10:])) * spread))
        window.append(float(spread[arm]))
        phi = np.zeros(K)
        phi[arm] = p[arm]
        turned = inverse @ phi
        inverse -= np.outer(turned, turned) / (1 + phi @ turned)
        if u < targets[arm, 0] * p[arm]:
            b += phi
        theta = inverse @ b
    return theta


def our_forest(X: Floats, y: Floats) -> Any:
    """Grow 50 trees and ask them for mean and variance of 200 rows."""
    return Leaves.grow(X, y, 50, max(len(X) // 4, 1), np.random.default_rng(0)).moments(X[:K])


def peer_forest(X: Floats, y: Floats) -> Any:
    """Do the same with scikit-learn's forest."""
    forest = ExtraTreesRegressor(50, bootstrap=True, max_samples=max(len(X) // 4, 1), random_state=0).fit(X, y)
    leaves = forest.apply(X[:K])
    trees = [tree.tree_ for tree in forest.estimators_]
    values = np.array([tree.value[leaf, 0, 0] for tree, leaf in zip(trees, leaves.T, strict=True)])
    squares = np.array([tree.impurity[leaf] for tree, leaf in zip(trees, leaves.T, strict=True)]) + values**2
    return values.mean(axis=0), squares.mean(axis=0) - values.mean(axis=0) ** 2


def advise(recourse: ImprovementRecourse, persons: Floats) -> int:
    """Recommend to each person."""
    return sum(recourse.recommend(x).candidate for x in persons)


def ask(explainer: Any, persons: pd.DataFrame) -> Any:
    """Ask dice_ml for the nearest row for each person."""
    with contextlib.redirect_stderr(io.StringIO()):
        return explainer.generate_counterfactuals(
            persons, total_CFs=1, desired_class=1, posthoc_sparsity_param=None, verbose=False
        )


def dice(model: Any, pool: pd.DataFrame) -> Any:
    """Return the explainer over the same candidates."""
    data = dice_ml.Data(dataframe=pool.assign(_y=1), continuous_features=list(pool.columns), outcome_name="_y")
    return dice_ml.Dice(data, dice_ml.Model(model=model, backend="sklearn"), method="kdtree")


def cases() -> list[Case]:
    """Return the comparisons."""
    X, y = population(2000)
    mps, norm, percentiles = CostModel("mps").fit(X), CostModel("norm").fit(X), Percentiles(X)
    rng = np.random.default_rng(2)
    pairs = [rng.random((n, 2 * D)) for n in (100, 1000)]
    hits = [(rows[:, 0] > 0.5).astype(float) for rows in pairs]
    frame = pd.DataFrame(X, columns=[f"x{d}" for d in range(D)])
    model = RandomForestClassifier(50, random_state=0).fit(frame, y)
    recourse = ImprovementRecourse(FrozenEstimator(model), random_state=0).fit(frame, y)
    rejected = frame[model.predict(frame) == 0].head(20)
    world = RecourseSimulator(LogisticRegression(), X, y, n_rounds=ROUNDS, random_state=0)
    return [
        Case("1,000 rounds, 200 candidates, norm", partial(ours, norm), partial(dense, None), "full-matrix LinUCB"),
        Case(
            "1,000 rounds, 200 candidates, percentile cost",
            partial(ours, mps),
            partial(dense, percentiles),
            "full-matrix LinUCB, np.interp for each feature and candidate",
        ),
        Case(
            "1,000 simulated rounds, all told",
            partial(world.run, "linucb"),
            partial(dense, None),
            "full-matrix LinUCB, policy alone",
        ),
        Case(
            "forest on 100 rows",
            partial(our_forest, pairs[0], hits[0]),
            partial(peer_forest, pairs[0], hits[0]),
            "ExtraTreesRegressor",
        ),
        Case(
            "forest on 1,000 rows",
            partial(our_forest, pairs[1], hits[1]),
            partial(peer_forest, pairs[1], hits[1]),
            "ExtraTreesRegressor",
        ),
        Case(
            "advice for 20 persons, random forest of 50",
            partial(advise, recourse, rejected.to_numpy()),
            partial(ask, dice(model, recourse.candidates()), rejected),
            "dice_ml kdtree, same candidates",
        ),
    ]
