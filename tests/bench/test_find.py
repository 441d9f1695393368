"""Finding a method by its problem: questions as people put them, with the method that answers each."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paperworks.bench import catalog
from paperworks.bench.find import Finder, finder, stem

QUESTIONS = {
    "cojer": (
        "I predict house prices for a whole list and want to promise how many intervals will be wrong",
        "prediction intervals with a guarantee for this batch of test points",
        "conformal prediction gives me too many misses in some batches",
        "how do I control the false coverage proportion",
    ),
    "risk-control": (
        "my chatbot sometimes says toxic things, where do I put the filter threshold",
        "keep the worst answers of a language model acceptable with high confidence",
        "bound the conditional value at risk of generated text",
        "human ratings are costly but I have an automatic scorer for all outputs",
    ),
    "immax": (
        "one of my classes has only a few examples and the classifier never predicts it",
        "training on long-tailed labels",
        "is there something better than class weights or SMOTE for imbalanced data",
        "loss function with margins for rare classes",
    ),
    "shift-auc": (
        "my test customers differ from the labelled ones",
        "I only have positive and unlabelled examples and the deployment distribution is different",
        "ranking patients of another hospital with a model trained here",
        "maximise AUC under covariate shift",
    ),
    "amortized-irt": (
        "evaluating my language model on the whole benchmark is too expensive",
        "every model answered different questions, how do I rank them",
        "which test items should I ask next",
        "estimate how hard a new question is before anybody answered it",
    ),
    "interaction-tests": (
        "are these four variables jointly independent",
        "test whether three signals interact although each pair looks independent",
        "fast alternative to permutation tests for kernel independence",
        "does a group of variables factorise",
    ),
    "factorial-design": (
        "which combinations of drugs should I try next with few experiments",
        "design an experiment with many treatments and their interactions",
        "how to dose gene perturbations to learn joint effects",
        "screening of factors when supply is limited",
    ),
    "local-cause": (
        "does smoking cause this outcome when some confounders were never measured",
        "is X an ancestor of Y in the causal graph",
        "causal discovery for one variable of interest only, with latent confounders",
        "learning the whole causal graph with FCI is too slow",
    ),
    "quanonet": (
        "can a quantum circuit learn the solution operator of a differential equation",
        "variational circuit with few qubits instead of a DeepONet",
    ),
    "synevo": (
        "forecast traffic on a sensor network for a new city with little history",
        "one spatiotemporal model for several sources, zero-shot on a new one",
    ),
    "vcip": (
        "which treatments over the next weeks bring this patient to a target value",
        "plan a sequence of interventions from observational records",
        "counterfactual outcomes over time under a treatment plan",
        "tumour treatment planning from longitudinal data",
    ),
    "recourse": (
        "what should a rejected loan applicant change to really improve",
        "actionable advice for people with a bad score",
        "counterfactual explanations that improve the true outcome and not just the prediction",
        "feedback on recommended actions arrives late",
    ),
    "change-points": (
        "find where the response jumps with as few measurements as possible",
        "adaptive sampling to locate a threshold or change point",
        "piecewise constant bandit with fixed confidence",
        "at which dose does the effect suddenly start",
    ),
    "predictions": (
        "rent or buy when I do not know how long I will need it",
        "scheduling jobs with machine learned durations",
        "use calibrated probabilities in an online algorithm",
        "when to shut down an idle cloud server",
    ),
    "pareto-family": (
        "a distribution that is close to several others at the same time",
        "Pareto front between probability distributions",
        "trade off KL divergences to several targets",
        "barycentre of Gaussians",
    ),
    "bandit-spec": (
        "make text generation of my language model faster without changing its output",
        "speculative decoding with the right draft length",
        "which draft model should I use for assisted generation",
        "lower latency of LLM inference",
    ),
    "correlation": (
        "cluster items from pairwise similar and dissimilar judgements without choosing the number of clusters",
        "deduplicate records when some pairs must stay together and some apart",
        "must-link and cannot-link constraints on a signed graph",
        "entity resolution with a bound on how far from optimal I am",
    ),
}
PRESENT = {entry.study.slug for entry in catalog.entries()}
ASKED = [(question, slug) for slug, questions in QUESTIONS.items() for question in questions]
NOTHING_FITS = ("bake a chocolate cake", "zebra stripes", "repair my bicycle", "weather tomorrow in Lisbon", "xyzzy")


def test_nine_of_ten_questions_find_their_method_among_the_first_three() -> None:
    assert len(ASKED) >= 60
    asked = [(question, slug) for question, slug in ASKED if slug in PRESENT]
    missed = [(q, slug, [m.slug for m in finder().find(q, 3)]) for q, slug in asked]
    missed = [item for item in missed if item[1] not in item[2]]
    assert len(missed) <= 0.1 * len(asked), missed


@pytest.mark.parametrize("problem", NOTHING_FITS)
def test_what_nothing_fits_gets_an_honest_answer(problem: str) -> None:
    assert finder().find(problem) == []


def test_reasons_are_words_of_the_problem() -> None:
    for question, slug in ASKED:
        for match in finder().find(question, 3):
            assert 0 < match.score <= 1 + 1e-12
            assert match.because, (question, slug)
            spoken = {stem(word.strip(",.?").lower()) for word in question.replace("-", " ").split()}
            assert {stem(word) for word in match.because} <= spoken


def test_scores_fall_and_the_list_is_as_long_as_asked() -> None:
    matches = finder().find("test of independence for rare classes under shift with intervals", 4)
    assert len(matches) == 4
    assert [m.score for m in matches] == sorted((m.score for m in matches), reverse=True)


@given(st.text(max_size=200))
def test_any_text_is_answered_or_refused(problem: str) -> None:
    if re.search("[a-z][a-z0-9]", problem.lower()):
        assert len(finder().find(problem, 3)) <= 3
    else:
        with pytest.raises(ValueError, match="at least one word"):
            finder().find(problem, 3)


def test_a_word_that_only_one_method_has_decides() -> None:
    small = Finder({"a": [("apples and pears", 1.0)], "b": [("pears and plums", 1.0)]})
    assert [m.slug for m in small.find("plums")] == ["b"]
    assert next(m.slug for m in small.find("pears and apples")) == "a"
    assert small.find("cherries") == []
    assert Finder({}).find("cherries") == []
