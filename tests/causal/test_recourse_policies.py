"""Forest, Gaussian process and fixed rules on situations whose right answer is known."""

import copy
import math
import pickle

import numpy as np
import pytest
from scipy.special import expit
from sklearn.gaussian_process import GaussianProcessClassifier

from paperworks.causal import GPUCB, Feedback, ForestUCB, NearestPolicy, Situation, TrustPolicy
from paperworks.causal.recourse.gaussian_process import PairKernel
from paperworks.causal.recourse.policies import RandomPolicy
from paperworks.causal.recourse.surrogates import Leaves

rng = np.random.default_rng(0)
TARGETS = rng.random((10, 3))


def situation(number: int, feasible: object = None) -> Situation:
    x = np.random.default_rng(number).random(3)
    arms = np.arange(10) if feasible is None else np.array(feasible, dtype=np.intp)
    return Situation(x, TARGETS, np.exp(-np.abs(TARGETS - x).mean(axis=1)), arms, 0.2, np.full(10, 0.9))


def serve(policy: object, n: int, good: set[int], start: int = 0, delay: int = 1) -> list[int]:
    """Serve persons; suggestions of good candidates succeed, told `delay` rounds later."""
    choices, due = [], {}
    for number in range(start, start + n):
        arm = policy.suggest(situation(number))
        choices.append(arm)
        if arm in good:
            due.setdefault(number + delay - 1, []).append(Feedback(arm, 1.0, 1.0, number, delay))
        policy.update(due.pop(number, []))
    return choices


@pytest.mark.parametrize("kind", [ForestUCB, GPUCB])
@pytest.mark.parametrize("seed", [0, 1])
def test_learns_what_succeeds(kind: type, seed: int) -> None:
    good = np.flatnonzero(TARGETS[:, 0] > 0.5)
    assert good.size == 6
    policy = kind(random_state=seed)
    choices = serve(policy, 70, set(good), delay=3)
    assert np.isin(choices[-20:], good).mean() > 0.9
    assert policy.n_rounds_ == 70
    assert 0 < policy.last_improvement_ <= 1


@pytest.mark.parametrize("kind", [ForestUCB, GPUCB])
def test_candidates_never_tried_are_judged_by_their_features(kind: type) -> None:
    policy = kind(random_state=0)
    for number in range(60):
        arm = policy.suggest(situation(number, [number % 10]))
        policy.update([Feedback(arm, 1.0, 1.0, number, 1)] if TARGETS[arm, 0] > 0.5 else [])
    new = situation(99)._replace(targets=np.array([[0.95, 0.5, 0.5], [0.05, 0.5, 0.5]]), feasible=np.arange(2))
    mean = policy.rank(new)[1]
    assert mean[0] > mean[1] + 0.3


@pytest.mark.parametrize("kind", [ForestUCB, GPUCB])
def test_draws_at_random_until_the_first_success(kind: type) -> None:
    policy = kind(random_state=1)
    assert math.isnan(policy.last_improvement_)
    choices = []
    for number in range(200):
        choices.append(policy.suggest(situation(number, [1, 4, 7])))
        arms, mean, bonus = policy.rank(situation(number, [1, 4, 7]))
        assert arms.tolist() == [1, 4, 7]
        assert not mean.any()
        assert not bonus.any()
        policy.update()
    counts = np.bincount(choices, minlength=10)
    assert counts.sum() == counts[[1, 4, 7]].sum() == 200
    assert counts[[1, 4, 7]].min() > 40


def test_bonus_of_the_forest_in_closed_form() -> None:
    policy = ForestUCB(random_state=0, gamma=0.97)
    serve(policy, 40, {2, 5, 6})
    t = 41
    _, mean, bonus = policy.rank(situation(99))
    assert 0 < mean.max() < 1
    factor = math.sqrt(0.97**t * math.log(t + 1) / (t + 1))
    np.testing.assert_allclose(bonus, factor * np.sqrt(mean * (1 - mean)), atol=1e-12)


def test_moments_are_those_of_the_mixture_of_leaves() -> None:
    source = np.random.default_rng(1)
    rows, targets = source.random((120, 4)), source.random(120)
    leaves = Leaves.grow(rows, targets, 30, 60, np.random.default_rng(2), leaf=5)
    single = rows.astype(np.float32)
    mean, variance = leaves.moments(rows[:20])
    draws = []
    for tree in leaves._trees:
        at = tree.apply(single[:20])
        centre, spread = tree.value[at, 0, 0], np.sqrt(tree.impurity[at])
        # A leaf's law has the mean and the variance of its targets; two points say as much.
        draws.append(centre + spread * np.where(source.random((4000, 20)) < 0.5, 1, -1))
    sample = np.concatenate(draws)
    np.testing.assert_allclose(mean, sample.mean(axis=0), atol=0.005)
    np.testing.assert_allclose(variance, sample.var(axis=0), rtol=0.03)
    assert variance.min() > 0.01
    binary = Leaves.grow(rows, (targets > 0.5).astype(float), 30, 60, np.random.default_rng(2))
    mean, variance = binary.moments(rows)
    np.testing.assert_allclose(variance, mean * (1 - mean), atol=1e-12)


def test_trees_see_bootstrap_samples_and_their_leaves_are_means() -> None:
    rows = np.arange(40.0)[:, None]
    one = Leaves.grow(rows, rows[:, 0], 400, 1, np.random.default_rng(0))
    assert one.moments(rows)[0].std() < 1e-9  # a single row: the same value everywhere
    assert one.moments(rows)[0][0] == pytest.approx(19.5, abs=2.5)
    full = Leaves.grow(rows, rows[:, 0], 200, 40, np.random.default_rng(0))
    np.testing.assert_allclose(full.moments(rows)[0], rows[:, 0], atol=1.5)


def test_forest_that_saw_only_a_lucky_success_is_fitted_again_when_stale() -> None:
    """Failures bring no news; without the stale refit one candidate would be recommended for ever."""
    policy = ForestUCB(random_state=0, timeout=5)
    first = policy.suggest(situation(0))
    policy.update([Feedback(first, 1.0, 1.0, 0, 1)])
    assert (policy.rank(situation(1))[1] == 1.0).all()
    choices = serve(policy, 40, set(), start=1)
    assert choices[:5] == [0] * 5  # ties go to the lowest until the fit is stale
    assert len(set(choices[5:])) > 2


def test_forest_without_hope_draws_at_random() -> None:
    policy = ForestUCB(random_state=3, n_estimators=1, sample_ratio=50.0)
    choices = serve(policy, 1, set(range(10))) + serve(policy, 150, set(), start=1)
    assert len(set(choices[20:])) > 5
    assert policy.rank(situation(0))[1].max() == 0.0


def test_refits_are_as_rare_as_asked_and_news_wait() -> None:
    fits = []
    policy = ForestUCB(random_state=0, refit_every=4)
    before = None
    for number in range(30):
        arm = policy.suggest(situation(number))
        policy.update([Feedback(arm, 1.0, 1.0, number, 1)])
        if policy._leaves is not before:
            fits.append(number)
            before = policy._leaves
    assert fits == list(range(0, 30, 4))


@pytest.mark.parametrize("kind", [ForestUCB, GPUCB])
def test_nothing_feasible_counts_as_a_round(kind: type) -> None:
    policy = kind(random_state=0)
    assert policy.suggest(situation(0, [])) == -1
    policy.update()
    arm = policy.suggest(situation(1))
    policy.update([Feedback(arm, 1.0, 1.0, 1, 1)])  # the second call of suggest
    assert policy.n_rounds_ == 2
    with pytest.raises(ValueError, match="number 0"):
        policy.update([Feedback(arm, 1.0, 1.0, 0, 1)])


@pytest.mark.parametrize("kind", [ForestUCB, GPUCB])
def test_state_is_kept_bit_for_bit(kind: type) -> None:
    policy = kind(random_state=0)
    serve(policy, 25, {2, 5})
    policy.suggest(situation(25))
    stored = pickle.dumps(policy)
    copies = [pickle.loads(stored), copy.deepcopy(policy)]
    for other in (policy, *copies):
        other.update()
    expected = serve(policy, 25, {2, 5}, start=26)
    ranking = [part.tobytes() for part in policy.rank(situation(99))]
    for other in copies:
        assert serve(other, 25, {2, 5}, start=26) == expected
        assert [part.tobytes() for part in other.rank(situation(99))] == ranking
    assert len(set(expected)) > 1


def test_kernel_and_its_gradient() -> None:
    rows = rng.random((7, 6))
    kernel = PairKernel(0.7, 1.3)
    expected = [
        [math.exp(-(np.sum((a[:3] - b[:3]) ** 2) / 0.98 + np.sum((a[3:] - b[3:]) ** 2) / 3.38)) for b in rows]
        for a in rows
    ]
    gram, gradient = kernel(rows, eval_gradient=True)
    np.testing.assert_allclose(gram, expected, rtol=1e-12)
    np.testing.assert_allclose(np.diag(gram), kernel.diag(rows))
    for i in range(2):
        step = np.zeros(2)
        step[i] = 1e-6
        numeric = (
            kernel.clone_with_theta(kernel.theta + step)(rows) - kernel.clone_with_theta(kernel.theta - step)(rows)
        ) / 2e-6
        np.testing.assert_allclose(gradient[:, :, i], numeric, atol=1e-8)


def test_gaussian_process_moments_are_those_of_the_posterior() -> None:
    policy = GPUCB(random_state=0)
    serve(policy, 30, set(np.flatnonzero(TARGETS[:, 0] > 0.5)))
    policy.suggest(situation(30, [2]))
    policy.update([Feedback(2, 1.0, 1.0, 30, 1)])  # news, so that the fit is of all rows
    records = policy._records
    _, mean, bonus = policy.rank(situation(99))
    model = GaussianProcessClassifier(policy._kernel, optimizer=None).fit(records.rows, records.targets > 0)
    here = situation(99)
    pairs = np.hstack([np.broadcast_to(here.x, TARGETS.shape), TARGETS - here.x])
    np.testing.assert_allclose(mean, model.predict_proba(pairs)[:, 1], atol=0.01)  # which approximates the integral
    latent, variance = model.latent_mean_and_variance(pairs)
    draws = expit(latent + np.sqrt(variance) * np.random.default_rng(0).normal(size=(200_000, 1)))
    np.testing.assert_allclose(mean, draws.mean(axis=0), atol=0.003)
    np.testing.assert_allclose(bonus, math.sqrt(math.log(33) / 33) * draws.std(axis=0), atol=0.003)
    assert np.ptp(mean) > 0.05
    assert policy._kernel != PairKernel()  # the length scales were optimised


def test_nearest_takes_the_most_acceptable_feasible_candidate() -> None:
    policy = NearestPolicy()
    for number in range(20):
        here = situation(number, [1, 3, 8])
        arm = policy.suggest(here)
        assert here.acceptance[arm] == here.acceptance[[1, 3, 8]].max()
        policy.update()
    tie = situation(0, [4, 6])._replace(acceptance=np.full(10, 0.5))
    assert policy.suggest(tie) == 4
    assert policy.suggest(situation(0, [])) == -1


def test_random_policy_covers_the_feasible() -> None:
    policy = RandomPolicy(0)
    assert {policy.suggest(situation(n, [1, 3, 8])) for n in range(60)} == {1, 3, 8}
    assert policy.suggest(situation(0, [])) == -1


def trust(quantile: float = 0.3) -> TrustPolicy:
    """Labels follow the first feature; the classifier believes in the second."""
    source = np.random.default_rng(4)
    X = source.random((600, 3))
    y = X[:, 0] > 0.5
    scores = 0.7 * X[:, 1] + 0.3 * X[:, 0]
    return TrustPolicy(n_pairs=4000, quantile=quantile, random_state=0).fit(
        X[:300], y[:300], X[300:], y[300:], scores[300:]
    )


def test_trust_refuses_candidates_that_only_fool_the_classifier() -> None:
    person = np.array([0.1, 0.1, 0.5])
    fooling, real = [0.1, 0.9, 0.5], [0.9, 0.9, 0.5]
    here = Situation(person, np.array([fooling, real]), np.array([0.9, 0.7]), np.arange(2), 0.1, np.array([0.9, 0.9]))
    policy = trust()
    assert NearestPolicy().suggest(here) == 0
    assert policy.suggest(here) == 1
    assert policy.rank(here)[0].tolist() == [1]
    assert policy.suggest(here._replace(feasible=np.array([0]))) == -1
    assert policy.suggest(here._replace(feasible=np.array([], dtype=np.intp))) == -1


def test_trust_threshold_is_the_quantile_over_pairs_with_different_labels() -> None:
    levels = [trust(q).threshold_ for q in (0.1, 0.3, 0.9)]
    assert levels == sorted(levels)
    source = np.random.default_rng(8)
    X = source.random((5000, 3))
    good, bad = X[X[:, 0] > 0.5], X[X[:, 0] <= 0.5]
    i, j = source.integers(len(good), size=4000), source.integers(len(bad), size=4000)
    h, k = (0.7 * part[:, 1] + 0.3 * part[:, 0] for part in (good[i], bad[j]))
    gap = trust()._disagreement(good[i], bad[j], h, k)
    assert np.mean(gap <= levels[1]) == pytest.approx(0.3, abs=0.05)


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: ForestUCB(sample_ratio=0.5), ValueError, "sample_ratio"),
        (lambda: ForestUCB(gamma=1.5), ValueError, "gamma"),
        (lambda: ForestUCB(gamma=0.0), ValueError, "gamma"),
        (lambda: ForestUCB(n_estimators=0), ValueError, "n_estimators"),
        (lambda: ForestUCB(refit_every=0), ValueError, "refit_every"),
        (lambda: ForestUCB(timeout=0), ValueError, "timeout"),
        (lambda: ForestUCB(random_state="x"), TypeError, "random_state"),
        (lambda: GPUCB(optimise_every=0), ValueError, "optimise_every"),
        (lambda: GPUCB().update([(0, 1.0, 1)]), TypeError, "feedback"),
        (lambda: ForestUCB().update([Feedback(0, 1.0)]), ValueError, "number -1"),
        (lambda: TrustPolicy(quantile=2), ValueError, "quantile"),
        (lambda: TrustPolicy().fit(TARGETS, np.ones(9), TARGETS, np.ones(10), np.ones(10)), ValueError, "rows"),
        (lambda: TrustPolicy().fit(TARGETS, np.ones(10), TARGETS, np.ones(10), np.ones(10)), ValueError, "both labels"),
    ],
)
def test_bad_input(call: object, error: type, match: str) -> None:
    with pytest.raises(error, match=match):
        call()
