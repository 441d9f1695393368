"""The simulated world keeps its own rules, and its numbers are what they are called."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

from paperworks.causal import CostModel, RecourseSimulator, Situation
from paperworks.causal.recourse.simulator import COLUMNS

rng = np.random.default_rng(0)
N = 600
X = np.column_stack([rng.random((N, 3)), rng.integers(0, 2, N)])
TRUTH = 1 / (1 + np.exp(-12 * (X[:, 0] - 0.5)))
Y = (rng.random(N) < TRUTH).astype(int)
POLICIES = ("linucb", "bwo", "nearest", "trust", "random", "oracle")


def world(**parameters: object) -> RecourseSimulator:
    return RecourseSimulator(
        LogisticRegression(), X, Y, **{"n_rounds": 150, "random_state": 0, "n_estimators": 10, **parameters}
    )


class Recorder:
    """Passes everything on and keeps what it saw."""

    last_improvement_ = np.nan

    def __init__(self) -> None:
        self.seen: list[Situation] = []
        self.told: list[list] = []
        self.rng = np.random.default_rng(5)

    def suggest(self, situation: Situation) -> int:
        self.seen.append(situation)
        return int(self.rng.choice(situation.feasible)) if situation.feasible.size else -1

    def update(self, feedback: object = ()) -> None:
        self.told.append(list(feedback))


def test_columns_follow_from_the_stream() -> None:
    sim, recorder = world(immutable=[3]), Recorder()
    log = sim.run(recorder)
    assert tuple(log.columns) == COLUMNS
    assert len(log) == 150
    table = (X - X.min(axis=0)) / np.ptp(X, axis=0)
    model = CostModel("norm").fit(table)
    for t in range(150):
        k, person = log.candidate[t], sim.people_[sim.persons_[t]]
        scaled = (person - X.min(axis=0)) / np.ptp(X, axis=0)
        cost = model.cost(scaled, (sim.candidates_ - X.min(axis=0)) / np.ptp(X, axis=0))
        p = np.exp(-cost / 4)
        feasible = np.flatnonzero(sim.candidates_[:, 3] == person[3])
        assert recorder.seen[t].feasible.tolist() == feasible.tolist()
        np.testing.assert_allclose(recorder.seen[t].acceptance, p, rtol=1e-12)
        assert log.cost[t] == pytest.approx(cost[k])
        assert log.acceptance[t] == pytest.approx(p[k])
        assert log.improvement[t] == sim.improvement_[k]
        assert log.expected_reward[t] == pytest.approx(p[k] * sim.improvement_[k])
        assert log.regret[t] == pytest.approx((p * sim.improvement_)[feasible].max() - log.expected_reward[t])
        u = sim.uniforms_[t]
        assert log.reward[t] == (u[0] < p[k] and u[1] < sim.improvement_[k])


def test_successes_are_told_after_their_delay_once_or_never() -> None:
    sim, recorder = world(timeout=4), Recorder()
    log = sim.run(recorder)
    expected = {(t, t + d - 1, d) for t, d in enumerate(sim.delays_) if log.reward[t] and d <= 4 and t + d - 1 < 150}
    told = [(news.number, t, news.delay) for t, batch in enumerate(recorder.told) for news in batch]
    assert set(told) == expected
    assert len(told) == len(expected) > 20
    assert log.reward.sum() > len(told)
    for batch in recorder.told:
        for news in batch:
            assert news.arm == log.candidate[news.number]
            assert news.probability == recorder.seen[news.number].acceptance[news.arm]
            assert news.reward == 1.0


@pytest.mark.parametrize("policy", POLICIES)
def test_the_future_does_not_reach_the_past(policy: str) -> None:
    cut = 80
    sim = world(probability_noise=0.1, immutable=[3])
    base = sim.run(policy).drop(columns="seconds")
    other = copy.deepcopy(sim)
    order = np.random.default_rng(0).permutation(np.arange(cut, 150))
    for name in ("persons_", "uniforms_", "delays_"):
        values = getattr(other, name).copy()
        values[cut:] = values[order]
        setattr(other, name, values)
    changed = other.run(policy).drop(columns="seconds")
    pd.testing.assert_frame_equal(changed[:cut], base[:cut])
    assert not changed[cut:].equals(base[cut:])


def test_runs_repeat_themselves_and_survive_pickle() -> None:
    sim = world(probability_noise=0.2, n_rounds=50)
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    for policy in (*POLICIES, "gp"):
        if policy == "gp":
            sim = world(n_rounds=25)
        one, two, three = (s.run(policy).drop(columns="seconds") for s in (sim, sim, pickle.loads(pickle.dumps(sim))))
        pd.testing.assert_frame_equal(one, two)
        pd.testing.assert_frame_equal(one, three)
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002
    assert not world(random_state=1).run("nearest").equals(world().run("nearest"))


def test_learning_beats_not_learning_and_the_oracle_beats_all() -> None:
    """theta follows the first feature; the classifier's labels are turned where the second is high."""
    fooled = np.where(X[:, 1] > 0.6, 1, Y)
    sim = RecourseSimulator(
        LogisticRegression(), X, fooled, improvement=TRUTH, n_rounds=600, random_state=0, n_estimators=20, refit_every=5
    )
    logs = {policy: sim.run(policy) for policy in ("linucb", "bwo", "nearest", "random", "oracle")}
    mean = {policy: log.improvement.mean() for policy, log in logs.items()}
    assert mean["linucb"] > mean["nearest"] + 0.15
    assert mean["bwo"] > mean["nearest"] + 0.1
    assert logs["linucb"].expected_reward.mean() > logs["random"].expected_reward.mean()
    assert logs["oracle"].regret.abs().max() < 1e-12
    assert all(log.regret.min() > -1e-12 for log in logs.values())
    assert logs["linucb"].regret.sum() < logs["nearest"].regret.sum()


def test_parts_are_disjoint_and_labelled_as_said() -> None:
    sim = world()
    assert not set(sim.candidate_rows_) & set(sim.people_rows_)
    assert (sim.candidates_ == X[sim.candidate_rows_]).all()
    assert (Y[sim.people_rows_] == 0).all()
    assert (sim.estimator_.predict(sim.people_) == 0).all()
    assert (sim.estimator_.predict(sim.candidates_) == 1).all()
    assert len(world(max_candidates=7).candidates_) == 7
    noiseless = world(improvement_noise=0.0)
    assert noiseless.improvement_.tolist() == Y[noiseless.candidate_rows_].tolist()
    spread = sim.improvement_ - Y[sim.candidate_rows_]
    assert 0.02 < np.abs(spread).mean() < 0.08
    assert 0 <= sim.improvement_.min() <= sim.improvement_.max() <= 1
    known = world(improvement=TRUTH)
    assert known.improvement_.tolist() == TRUTH[known.candidate_rows_].tolist()


def test_delays_are_geometric_and_may_depend_on_the_group() -> None:
    delays = world(n_rounds=20_000).delays_
    for d in range(1, 6):
        assert np.mean(delays == d) == pytest.approx(0.2 * 0.8 ** (d - 1), abs=0.012)
    sim = world(n_rounds=20_000, delay=(0.5, 0.05), group=3)
    young = sim.people_[sim.persons_, 3] == 1
    assert sim.delays_[young].mean() == pytest.approx(2, abs=0.1)
    assert sim.delays_[~young].mean() == pytest.approx(20, abs=1)
    assert (world(delay=1.0).delays_ == 1).all()


def test_noise_on_the_acceptance_is_seen_by_the_policy_only() -> None:
    clean, noisy = Recorder(), Recorder()
    a, b = world().run(clean), world(probability_noise=0.25).run(noisy)
    shift = np.concatenate([n.acceptance - c.acceptance for n, c in zip(noisy.seen, clean.seen, strict=True)])
    assert 0.1 < shift.std() < 0.25
    assert min(s.acceptance.min() for s in noisy.seen) >= 0
    assert max(s.acceptance.max() for s in noisy.seen) <= 1
    pd.testing.assert_frame_equal(a.drop(columns="seconds"), b.drop(columns="seconds"))
    # The feedback brings back the acceptance that was seen, not the true one.
    for batch in noisy.told:
        for news in batch:
            assert news.probability == noisy.seen[news.number].acceptance[news.arm]
    assert world(probability_noise=0.25).run("oracle").regret.max() < 1e-12


def test_true_and_assumed_costs() -> None:
    table = (X - X.min(axis=0)) / np.ptp(X, axis=0)
    costs = {kind: CostModel(kind).fit(table) for kind in ("norm", "mps", "mahalanobis")}
    for parameters in ({"cost": "mps"}, {"cost": "group", "group": 3}, {"cost": "random"}):
        sim, recorder = world(**parameters), Recorder()
        log = sim.run(recorder)
        kinds = []
        for t, here in enumerate(recorder.seen):
            norm = costs["norm"].cost(here.x, here.targets)
            np.testing.assert_allclose(here.acceptance, np.exp(-norm / 4))
            found = {k: costs[k].cost(here.x, here.targets)[log.candidate[t]] for k in ("mps", "mahalanobis")}
            kind = min(found, key=lambda k: abs(found[k] - log.cost[t]))
            assert found[kind] == pytest.approx(log.cost[t])
            assert log.acceptance[t] == pytest.approx(np.exp(-log.cost[t] / (8 if kind == "mahalanobis" else 4)))
            kinds.append(kind)
        if parameters["cost"] == "mps":
            assert set(kinds) == {"mps"}
        elif parameters["cost"] == "group":
            young = sim.people_[sim.persons_, 3] == 1
            assert [k == "mps" for k in kinds] == young.tolist()
        else:
            assert 40 < kinds.count("mps") < 110


def test_classifier_that_learns_from_outcomes() -> None:
    sim, recorder = world(model_refit_every=25), Recorder()
    log = sim.run(recorder)
    sizes = [here.feasible.size for here in recorder.seen]
    assert len(set(sizes[:25])) == 1
    assert len(set(sizes)) > 1
    assert (sim.estimator_.predict(sim.candidates_) == 1).all()
    known = sim._refitted(log.candidate.tolist(), {n.number: True for b in recorder.told[:100] for n in b}, 100)
    told = {n.number for b in recorder.told[:100] for n in b}
    rows = [i for i in range(100) if i in told or i + 10 <= 100]
    again = LogisticRegression().fit(
        np.vstack([sim._train[0], sim.candidates_[log.candidate[rows]]]),
        np.concatenate([sim._train[1], [i in told for i in rows]]),
    )
    np.testing.assert_allclose(known.scores(sim.people_), again.predict_proba(sim.people_)[:, 1], atol=1e-6)


def test_frozen_classifier_and_frames() -> None:
    frame = pd.DataFrame(X, columns=["a", "b", "c", "young"])
    model = LogisticRegression().fit(frame, Y)
    sim = RecourseSimulator(
        FrozenEstimator(model), frame, Y, n_rounds=30, immutable=["young"], group="young", random_state=0
    )
    assert sim.estimator_.estimator is model
    log = sim.run("nearest")
    persons, targets = sim.people_[sim.persons_], sim.candidates_[log.candidate]
    assert (persons[:, 3] == targets[:, 3]).all()


def test_rounds_without_a_feasible_candidate() -> None:
    Z = X.copy()
    Z[:, 2] = np.arange(N)  # nobody equals anybody
    log = RecourseSimulator(LogisticRegression(), Z, Y, n_rounds=20, immutable=[2], random_state=0).run("linucb")
    assert (log.candidate == -1).all()
    assert not log[["regret", "reward", "expected_reward"]].to_numpy().any()
    assert log[["cost", "acceptance", "improvement"]].isna().all(axis=None)


@pytest.mark.parametrize(
    ("parameters", "error", "match"),
    [
        ({"n_rounds": 0}, ValueError, "n_rounds"),
        ({"timeout": 0}, ValueError, "timeout"),
        ({"delay": 0.0}, ValueError, "delay"),
        ({"delay": 1.5}, ValueError, "delay"),
        ({"delay": (0.1, 0.2)}, ValueError, "group"),
        ({"cost": "group"}, ValueError, "group"),
        ({"group": 0}, ValueError, "column of 0 and 1"),
        ({"cost": "l1"}, ValueError, "cost"),
        ({"assumed_cost": "group"}, ValueError, "assumed_cost"),
        ({"probability_noise": -1}, ValueError, "probability_noise"),
        ({"improvement": np.full(N, 2.0)}, ValueError, "improvement"),
        ({"improvement": np.ones(3)}, ValueError, "improvement"),
        ({"model_refit_every": 0}, ValueError, "model_refit_every"),
        ({"alpha": -1.0}, ValueError, "alpha"),
        ({"immutable": ["age"]}, ValueError, "'age'"),
    ],
)
def test_bad_parameters(parameters: dict, error: type, match: str) -> None:
    with pytest.raises(error, match=match):
        world(**parameters)


def test_bad_policies() -> None:
    class Wild(Recorder):
        def suggest(self, situation: Situation) -> int:
            return 10_000

    with pytest.raises(ValueError, match="not feasible"):
        world().run(Wild())
    with pytest.raises(ValueError, match="policy"):
        world().run("best")
    with pytest.raises(TypeError, match="policy"):
        world().run(3)
    with pytest.raises(ValueError, match="too few rows"):
        RecourseSimulator(None, X[:4], [0, 1, 0, 1])
