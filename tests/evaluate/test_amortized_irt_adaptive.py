"""Adaptive tests: choice of items, the state of a test, estimates, simulation."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.special import expit
from scipy.stats import norm

from paperworks.evaluate import AdaptiveTest, RaschModel, empirical_reliability

banks = st.lists(st.floats(-5, 5), min_size=1, max_size=12)


def test_reliability_of_hand_made_vectors() -> None:
    assert empirical_reliability([-1, 0, 1], [0.5, 0.5, 0.5]) == pytest.approx(1 / 1.25)
    assert empirical_reliability([0, 2], [1.0, 0.0]) == pytest.approx(2 / 2.5)
    assert empirical_reliability([3, 3, 3], [1, 1, 1]) == 0.0
    assert empirical_reliability([1, 2], [0, 0]) == 1.0


@pytest.mark.parametrize(("theta", "se"), [([1.0], [1.0]), ([1, 2], [1]), ([1, np.inf], [1, 1]), ([1, 2], [1, -1])])
def test_bad_vectors_are_refused(theta: list[float], se: list[float]) -> None:
    with pytest.raises(ValueError, match=r"theta|se"):
        empirical_reliability(theta, se)


@settings(max_examples=40, deadline=None)
@given(banks, st.floats(-4, 4))
def test_the_first_item_has_the_greatest_information(bank: list[float], mean: float) -> None:
    p = expit(mean - np.array(bank))
    information = p * (1 - p)
    chosen = AdaptiveTest(bank, prior=(mean, 1.0)).next_item()
    assert information[chosen] >= information.max() - 1e-12
    assert information.max() <= 0.25


def test_ties_go_to_the_lowest_index() -> None:
    assert AdaptiveTest([1.0, 0.5, 0.5, -0.5]).next_item() == 1
    test = AdaptiveTest([-1.0, 0.0, 0.0, 1.0])
    first = test.next_item()
    test.update(first, 1)
    second = test.next_item()
    test.update(second, 0)
    assert (first, second) == (1, 2)


@settings(max_examples=25, deadline=None)
@given(banks, st.lists(st.booleans(), min_size=12, max_size=12))
def test_every_item_is_asked_once(bank: list[float], answers: list[bool]) -> None:
    test = AdaptiveTest(bank).run(lambda item: answers[item])
    assert sorted(test.history_["item"]) == list(range(len(bank)))
    assert test.done
    with pytest.raises(RuntimeError, match="all"):
        test.next_item()


def test_a_second_report_changes_nothing() -> None:
    test = AdaptiveTest(difficulty=[-1.0, 0.0, 0.0, 1.0])
    item = test.next_item()
    test.update(item, 1)
    theta = test.theta_
    with pytest.raises(ValueError, match=f"item {item} was answered before"):
        test.update(item, 1)
    assert test.theta_ == theta
    assert len(test.history_) == 1
    asked = [item]
    while not test.done:
        item = test.next_item()
        asked.append(item)
        test.update(item, 0)
    assert sorted(asked) == [0, 1, 2, 3]
    with pytest.raises(RuntimeError, match="over"):
        test.next_item()


@pytest.mark.parametrize(
    ("item", "response", "message"),
    [
        (4, 1, "0 to 3; got 4"),
        (-1, 1, "got -1"),
        (1.0, 1, "got 1.0"),
        (True, 1, "got True"),
        (0, 2, "response must be 0 or 1, got 2"),
        (0, float("nan"), "response"),
        (0, "1", "response"),
        (0, [1], "response"),
        (0, None, "response"),
    ],
)
def test_bad_reports_are_named_and_change_nothing(item: Any, response: Any, message: str) -> None:
    test = AdaptiveTest([-1.0, 0.0, 0.5, 1.0])
    with pytest.raises(ValueError, match=message):
        test.update(item, response)
    assert test.history_.empty
    assert (test.theta_, test.se_) == (0.0, 1.0)


def test_the_proposal_stays_until_it_is_answered() -> None:
    test = AdaptiveTest(np.linspace(-2, 2, 40), selection="random", random_state=0)
    first = test.next_item()
    assert all(test.next_item() == first for _ in range(10))
    other = (first + 1) % 40
    test.update(other, 1)  # an answer one has anyway
    assert test.history_["item"].tolist() == [other]
    assert test.next_item() != other


def test_stopping_rules() -> None:
    bank = np.linspace(-3, 3, 200)
    assert len(AdaptiveTest(bank, max_items=7).run(lambda _: 1).history_) == 7
    test = AdaptiveTest(bank, target_se=0.4).run(lambda item: bank[item] < 0.3)
    path = test.history_["se"]
    assert path.iloc[-1] <= 0.4 < path.iloc[-2]
    with pytest.raises(RuntimeError, match="target_se"):
        test.next_item()


def test_before_any_answer_the_prior_speaks() -> None:
    for estimator in ("map", "eap"):
        test = AdaptiveTest([0.0, 1.0], prior=(0.7, 2.0), estimator=estimator)  # type: ignore[arg-type]
        assert (test.theta_, test.se_) == (0.7, 2.0)


def test_estimates_by_direct_optimisation_and_integration() -> None:
    rng = np.random.default_rng(0)
    bank = rng.normal(size=15)
    answers = rng.random(15) < 0.6

    def density(t: float) -> float:
        return float(np.prod(np.where(answers, expit(t - bank), expit(bank - t))) * norm.pdf(t, 0.5, 1.5))

    found = {
        name: AdaptiveTest(bank, prior=(0.5, 1.5), estimator=name).run(lambda j: bool(answers[j]))  # type: ignore[arg-type]
        for name in ("map", "eap", "ml")
    }
    assert found["map"].theta_ == pytest.approx(minimize_scalar(lambda t: -np.log(density(t))).x, abs=1e-5)
    p = expit(found["map"].theta_ - bank)
    assert found["map"].se_ == pytest.approx(((p * (1 - p)).sum() + 1.5**-2) ** -0.5)
    total = quad(density, -15, 15)[0]
    mean = quad(lambda t: t * density(t), -15, 15)[0] / total
    assert found["eap"].theta_ == pytest.approx(mean, abs=1e-5)
    square = quad(lambda t: t**2 * density(t), -15, 15)[0] / total
    assert found["eap"].se_ == pytest.approx(np.sqrt(square - mean**2), abs=1e-4)
    assert expit(found["ml"].theta_ - bank).sum() == pytest.approx(answers.sum(), abs=1e-6)


def test_the_same_answers_give_the_same_ability_as_a_calibration() -> None:
    model = RaschModel().fit((np.random.default_rng(0).random((80, 12)) < 0.55).astype(float))
    answers = np.array([1, 0] * 6)
    for estimator in ("map", "eap"):
        test = AdaptiveTest(model.difficulty_, prior=(0.0, model.scale_), estimator=estimator)  # type: ignore[arg-type]
        test.run(lambda item: answers[item])
        ability, se = model.score_ability(answers[None], estimator=estimator)  # type: ignore[arg-type]
        assert test.theta_ == pytest.approx(ability[0], abs=1e-6)
        assert test.se_ == pytest.approx(se[0], abs=1e-6)


def test_maximum_likelihood_walks_outwards_until_answers_differ() -> None:
    bank = np.array([0.0, -2.0, 2.0, 1.0, 3.0])
    test = AdaptiveTest(bank, estimator="ml")
    assert test.se_ == np.inf
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        test.update(test.next_item(), 1)
        assert (test.theta_, test.se_) == (np.inf, np.inf)
        assert test.next_item() == 4  # the hardest
        test.update(4, 0)
    assert np.isfinite([test.theta_, test.se_]).all()


def test_uncertain_items_are_avoided() -> None:
    bank = np.array([0.0, 0.05, 0.9])
    assert AdaptiveTest(bank).next_item() == 0
    assert AdaptiveTest(bank, difficulty_std=[2.0, 0.1, 0.1]).next_item() == 1
    assert AdaptiveTest(bank, difficulty_std=1.0).next_item() == 0
    # By integration: where the mean information is equal, a step to either side decides.
    wide = quad(lambda b: expit(b) * expit(-b) * norm.pdf(b, 0.0, 1.0), -15, 15)[0]
    distance = 2 * np.arccosh(1 / np.sqrt(4 * wide))  # of a well-known item with the same information
    for shift, chosen in ((-0.05, 1), (0.05, 0)):
        assert AdaptiveTest([0.0, distance + shift], difficulty_std=[1.0, 0.0]).next_item() == chosen


def test_exposure_spreads_over_the_best() -> None:
    bank = np.linspace(0, 5, 30)
    first = {AdaptiveTest(bank, exposure=4, random_state=seed).next_item() for seed in range(60)}
    assert first == {0, 1, 2, 3}
    test = AdaptiveTest([0.0, 1.0], exposure=5, random_state=0).run(lambda _: 1)
    assert sorted(test.history_["item"]) == [0, 1]


def test_a_test_can_be_saved_and_resumed() -> None:
    bank = np.linspace(-2, 2, 30)
    test = AdaptiveTest(bank, exposure=3, random_state=5)
    for _ in range(4):
        test.update(test.next_item(), 1)
    copy = pickle.loads(pickle.dumps(test))
    assert copy.run(lambda j: j % 2).history_.equals(test.run(lambda j: j % 2).history_)


def test_half_the_items_of_a_random_test_reach_the_same_reliability() -> None:
    needed: dict[str, list[int]] = {"fisher": [], "random": []}
    for seed in range(5):
        rng = np.random.default_rng(seed)
        bank, abilities = rng.normal(1.5, np.sqrt(2), size=1000), rng.normal(size=60)
        for selection, counts in needed.items():
            found = AdaptiveTest.simulate(
                bank,
                abilities,
                n_items=250,
                selection=selection,  # type: ignore[arg-type]
                random_state=seed,
            )
            assert found["reliability"].max() >= 0.95
            counts.append(int(np.argmax(found["reliability"] >= 0.95)) + 1)
    ratios = np.array(needed["fisher"]) / np.array(needed["random"])
    assert ratios.mean() <= 0.6
    assert 40 < np.mean(needed["fisher"]) < 90


@pytest.mark.parametrize("estimator", ["map", "eap"])
def test_simulated_abilities_converge(estimator: Any) -> None:
    rng = np.random.default_rng(1)
    abilities = rng.normal(size=300)
    found = AdaptiveTest.simulate(
        rng.normal(size=400), abilities, n_items=120, selection="random", estimator=estimator, random_state=0
    )
    assert found["theta"].shape == found["se"].shape == (120, 300)
    assert found["reliability"][-1] > found["reliability"][20] > found["reliability"][2]
    np.testing.assert_allclose(found["rmse"], np.sqrt(((found["theta"] - abilities) ** 2).mean(axis=1)))
    assert found["rmse"][-1] == pytest.approx(np.sqrt((found["se"][-1] ** 2).mean()), rel=0.12)
    assert found["reliability"][-1] == pytest.approx(empirical_reliability(found["theta"][-1], found["se"][-1]))
    assert abs(np.corrcoef(found["theta"][-1], abilities)[0, 1] ** 2 - found["reliability"][-1]) < 0.05


def test_maximum_likelihood_in_simulation_is_infinite_before_it_is_known() -> None:
    found = AdaptiveTest.simulate(np.zeros(60), np.zeros(20), n_items=60, estimator="ml", random_state=0)
    assert found["reliability"][0] == 0.0
    assert found["rmse"][0] == np.inf
    assert np.isfinite(found["rmse"][-1])
    assert not any(np.isnan(values).any() for values in found.values())


def test_unknown_true_difficulties_cost_accuracy() -> None:
    rng = np.random.default_rng(2)
    bank, abilities = rng.normal(size=300), rng.normal(size=200)
    known, unknown = (
        AdaptiveTest.simulate(bank, abilities, n_items=60, difficulty_std=std, random_state=0)["rmse"][-1]
        for std in (None, 1.5)
    )
    assert unknown > 1.15 * known


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"difficulty": []}, "at least one item"),
        ({"difficulty": [0.0, np.nan]}, "difficulty"),
        ({"difficulty": [[0.0]]}, "dimension"),
        ({"difficulty": [0.0], "prior": (0.0, 0.0)}, "prior"),
        ({"difficulty": [0.0], "prior": 1.0}, "prior"),
        ({"difficulty": [0.0], "estimator": "wle"}, "estimator"),
        ({"difficulty": [0.0], "selection": "kl"}, "selection"),
        ({"difficulty": [0.0], "exposure": 0}, "exposure"),
        ({"difficulty": [0.0], "max_items": 0}, "max_items"),
        ({"difficulty": [0.0], "target_se": -1.0}, "target_se"),
        ({"difficulty": [0.0], "difficulty_std": -0.1}, "difficulty_std"),
        ({"difficulty": [0.0], "difficulty_std": [0.1, 0.2]}, "difficulty_std"),
    ],
)
def test_bad_parameters_are_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AdaptiveTest(**arguments)
    if "max_items" not in arguments and "target_se" not in arguments:
        with pytest.raises(ValueError, match=message):
            AdaptiveTest.simulate(**arguments, abilities=[0.0, 1.0], n_items=1)


def test_bad_simulations_are_named() -> None:
    with pytest.raises(ValueError, match="n_items must be at most 2"):
        AdaptiveTest.simulate([0.0, 1.0], [0.0, 1.0], n_items=3)
    with pytest.raises(ValueError, match="abilities"):
        AdaptiveTest.simulate([0.0, 1.0], [0.0], n_items=1)
