import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from paperworks.causal import (
    GPUCB,
    CostModel,
    DelayedLinUCB,
    Feedback,
    ForestUCB,
    ImprovementRecourse,
    NearestPolicy,
    Recommendation,
    RecourseSimulator,
    Situation,
    TrustPolicy,
)
from tests.battery import Example

Floats = NDArray[np.float64]


def table(dtype: str = "float64", n: int = 240) -> tuple[NDArray[np.floating], NDArray[np.int64]]:
    """Labels follow the first two features; values are multiples of 1/64, the same in both precisions."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 65, size=(n, 4)) / 64
    X[:, 3] = rng.integers(0, 2, size=n)
    y = (X[:, 0] + X[:, 1] + 0.2 * rng.normal(size=n) > 1).astype(np.int64)
    return X.astype(dtype), y


def situations(dtype: str, n: int = 25) -> list[Situation]:
    rng = np.random.default_rng(1)
    targets = (rng.integers(0, 65, size=(8, 3)) / 64).astype(dtype)
    persons = (rng.integers(0, 65, size=(n, 3)) / 64).astype(dtype)
    scores = targets.mean(axis=1)
    return [
        Situation(x, targets, np.exp(-np.abs(targets - x).mean(axis=1)), np.arange(8), float(x.mean()), scores)
        for x in persons
    ]


def follow(policy: object, dtype: str) -> Floats:
    """Serve all persons; even candidates improve at once."""
    choices = []
    for number, here in enumerate(situations(dtype)):
        arm = policy.suggest(here)
        choices.append(arm)
        policy.update([Feedback(arm, float(here.acceptance[arm]), 1.0, number, 1)] if arm % 2 == 0 else [])
    arms, mean, bonus = policy.rank(situations(dtype)[0])
    return np.concatenate([choices, arms, mean, bonus])


class Fresh:
    """A policy that remembers is used from its first round on, whenever it is used."""

    def __init__(self, policy: object) -> None:
        self.policy = policy


def use_fresh(holder: Fresh, dtype: str) -> Floats:
    import copy

    return follow(copy.deepcopy(holder.policy), dtype)


def use_trust(policy: TrustPolicy, dtype: str) -> Floats:
    X, y = table(dtype)
    policy.fit(X[:120, :3], y[:120], X[120:, :3], y[120:], X[120:, :2].mean(axis=1))
    return np.concatenate([follow(policy, dtype), [policy.threshold_]])


def use_recourse(recourse: ImprovementRecourse, dtype: str) -> Floats:
    X, y = table(dtype)
    recourse.fit(X[:200], y[:200])
    for x in X[200:][recourse.estimator_.predict(X[200:]) == 0]:
        advice = recourse.recommend(x)
        if advice.candidate % 2 == 0:
            recourse.report(advice.ticket)
    history = recourse.history_
    return np.concatenate([history.candidate, history.cost, recourse.explain(np.zeros(4)).value])


def use_simulator(world: RecourseSimulator, dtype: str) -> Floats:
    return world.run("linucb").drop(columns="seconds").sum().to_numpy()


def use_costs(model: CostModel, dtype: str) -> Floats:
    X, _ = table(dtype)
    return model.fit(X).cost(X[0], X)


EXAMPLES = {
    "CostModel": Example(make=lambda seed: CostModel("mps"), use=use_costs),
    "DelayedLinUCB": Example(make=lambda seed: Fresh(DelayedLinUCB(8, timeout=5, alpha=2.0)), use=use_fresh),
    "Feedback": Example(
        make=lambda seed: Feedback(2, 0.5), use=lambda news, dtype: np.asarray(news, dtype=dtype).astype(float)
    ),
    "ForestUCB": Example(make=lambda seed: Fresh(ForestUCB(n_estimators=10, random_state=seed)), use=use_fresh),
    "GPUCB": Example(make=lambda seed: Fresh(GPUCB(random_state=seed, optimise_every=8)), use=use_fresh),
    "ImprovementRecourse": Example(
        make=lambda seed: ImprovementRecourse(LogisticRegression(), immutable=[3], alpha=2.0, random_state=seed),
        use=use_recourse,
    ),
    "NearestPolicy": Example(make=lambda seed: NearestPolicy(), use=follow),
    "Recommendation": Example(
        make=lambda seed: Recommendation(0, np.array([0.25]), np.array([0.5]), 3, 0.25, 0.75, 0.5, 9),
        use=lambda advice, dtype: np.concatenate([advice.action, advice.target, advice[3:]]).astype(dtype),
    ),
    "RecourseSimulator": Example(
        make=lambda seed: RecourseSimulator(LogisticRegression(), *table(), n_rounds=60, random_state=seed),
        use=use_simulator,
    ),
    "Situation": Example(
        make=lambda seed: situations("float64")[seed],
        use=lambda here, dtype: here.acceptance.astype(dtype).astype(float),
    ),
    "TrustPolicy": Example(make=lambda seed: TrustPolicy(n_pairs=400, random_state=seed), use=use_trust),
}
