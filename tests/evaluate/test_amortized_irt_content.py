"""Difficulties from content, and the generator that uses them."""

from __future__ import annotations

import sys
import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.ensemble import RandomForestRegressor
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import Ridge

from paperworks.evaluate import AmortizedIRT, DifficultyConditionedGenerator, RaschModel, embed_texts
from paperworks.evaluate.amortized_irt import predictors
from paperworks.evaluate.amortized_irt.likelihood import Items, ability_posterior
from paperworks.evaluate.amortized_irt.predictors import LinearPredictor, NetworkPredictor
from paperworks.evaluate.amortized_irt.responses import read_responses

Floats = NDArray[np.float64]


def bank(
    n_takers: int = 40, n_items: int = 250, tau: float = 0.0, seed: int = 0, n_features: int = 4
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return content, difficulties, abilities and answers."""
    rng = np.random.default_rng(seed)
    content = rng.normal(size=(n_items, n_features))
    difficulty = content[:, 0] - 0.7 * content[:, 1] + 0.5 + tau * rng.normal(size=n_items)
    ability = rng.normal(size=n_takers)
    Y = (rng.random((n_takers, n_items)) < expit(ability[:, None] - difficulty)).astype(float)
    return content, difficulty, ability, Y


def test_unseen_items_and_abilities_are_recovered() -> None:
    content, difficulty, ability, Y = bank()
    Y[np.random.default_rng(1).random(Y.shape) < 0.3] = np.nan
    model = AmortizedIRT(random_state=0).fit(Y[:, :150], content[:150])
    predicted = model.predict_difficulty(content[150:])
    assert np.corrcoef(predicted, difficulty[150:])[0, 1] > 0.98
    assert np.polyfit(difficulty[150:], predicted, 1)[0] == pytest.approx(1.0, abs=0.1)
    assert np.corrcoef(model.ability_, ability)[0, 1] > 0.97
    assert abs(model.ability_.mean()) < 1e-12
    assert model.residual_std_ < 0.35


def test_joint_fit_is_the_maximum_of_the_penalised_marginal_likelihood() -> None:
    content, _, _, Y = bank(20, 30, seed=3, n_features=2)
    alpha = 0.05
    model = AmortizedIRT(alpha=alpha, residual=False, tol=1e-9, max_iter=500, n_quadrature=21).fit(Y, content)
    standard = (content - content.mean(axis=0)) / content.std(axis=0)
    responses = read_responses(Y)

    def objective(parameters: Floats) -> float:
        w, c, scale = parameters[:2], parameters[2], np.exp(parameters[3])
        posterior = ability_posterior(responses, Items(standard @ w + c), 0.0, scale, 41, tol=1e-8)
        return -float(posterior.loglik.sum() / Y.size - alpha * (w @ w) / 2)

    best = minimize(objective, np.zeros(4), method="BFGS", options={"gtol": 1e-7}).x
    np.testing.assert_allclose(model.predict_difficulty(content), standard @ best[:2] + best[2], atol=1e-3)
    assert model.scale_ == pytest.approx(np.exp(best[3]), abs=1e-3)


def test_one_feature_per_item_without_penalty_is_a_calibration() -> None:
    _, _, _, Y = bank(60, 12, seed=5)
    Y[np.random.default_rng(0).random(Y.shape) < 0.2] = np.nan
    amortized = AmortizedIRT(alpha=1e-10, residual=False, tol=1e-7, max_iter=2000).fit(Y, np.eye(12))
    free = RaschModel(prior_var=1e9, tol=1e-8).fit(Y)
    np.testing.assert_allclose(amortized.difficulty_, free.difficulty_, atol=1e-3)
    np.testing.assert_allclose(amortized.ability_, free.ability_, atol=1e-3)


def test_the_penalty_shrinks_to_one_common_difficulty() -> None:
    content, _, _, Y = bank()
    spread = [np.ptp(AmortizedIRT(alpha=a, residual=False).fit(Y, content).difficulty_) for a in (1e-4, 0.1, 1e6)]
    assert spread[0] > spread[1] > spread[2]
    assert spread[2] < 1e-4


def test_residuals_are_measured_and_shrink_towards_the_map() -> None:
    content, difficulty, _, Y = bank(60, 600, tau=0.8, seed=2)
    model = AmortizedIRT(random_state=0).fit(Y[:, :500], content[:500])
    assert model.residual_std_ == pytest.approx(0.8, abs=0.15)
    predicted, std = model.predict_difficulty(content[500:], return_std=True)
    np.testing.assert_array_equal(std, model.residual_std_)
    covered = np.abs(predicted - difficulty[500:] - (predicted - difficulty[500:]).mean()) < 1.645 * std
    assert 0.8 < covered.mean() < 0.98
    with pytest.warns(UserWarning, match="2 item"):
        own = RaschModel(prior_var=1e9).fit(Y[:, :500]).difficulty_
    g = model.predict_difficulty(content[:500])
    between = (model.difficulty_ - g) * (own - g) > 0
    assert between.mean() > 0.97
    error = [np.corrcoef(b, difficulty[:500])[0, 1] for b in (g, own, model.difficulty_)]
    assert error[2] > max(error[:2]) + 0.01


def test_without_residual_difficulties_are_the_map() -> None:
    content, _, _, Y = bank(tau=0.8)
    model = AmortizedIRT(residual=False, random_state=0).fit(Y, content)
    np.testing.assert_allclose(model.difficulty_, model.predict_difficulty(content), atol=1e-10)
    assert model.residual_std_ == 0.0


@pytest.mark.parametrize("fit_mode", ["joint", "two_stage"])
@pytest.mark.parametrize("predictor", ["rbf", "mlp"])
def test_curved_maps_find_what_a_linear_one_cannot(predictor: str, fit_mode: Any) -> None:
    rng = np.random.default_rng(0)
    content = rng.uniform(-2, 2, size=(300, 2))
    difficulty = content[:, 0] ** 2 - 1.5 + content[:, 1] / 2
    Y = (rng.random((50, 300)) < expit(rng.normal(size=(50, 1)) - difficulty)).astype(float)
    found = {}
    for kind in ("linear", predictor):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = AmortizedIRT(kind, fit_mode=fit_mode, random_state=0).fit(Y[:, :220], content[:220])
        found[kind] = np.corrcoef(model.predict_difficulty(content[220:]), difficulty[220:])[0, 1]
    assert found["linear"] < 0.7
    assert found[predictor] > 0.95


def test_two_stage_takes_any_regressor() -> None:
    content, difficulty, _, Y = bank(tau=0.3)
    forest = RandomForestRegressor(30, random_state=0)
    model = AmortizedIRT(forest, fit_mode="two_stage", random_state=0).fit(Y[:, :200], content[:200])
    assert np.corrcoef(model.predict_difficulty(content[200:]), difficulty[200:])[0, 1] > 0.8
    assert np.isnan(model.alpha_)
    assert not hasattr(forest, "estimators_")
    ridge = AmortizedIRT(Ridge(0.0), fit_mode="two_stage", residual=False).fit(Y, content)
    linear = AmortizedIRT("linear", fit_mode="two_stage", residual=False, alpha=0.0).fit(Y, content)
    np.testing.assert_allclose(ridge.difficulty_, linear.difficulty_, atol=1e-8)


def test_new_takers_are_scored_on_new_and_on_old_items() -> None:
    content, difficulty, _, Y = bank()
    model = AmortizedIRT(random_state=0).fit(Y[:, :150], content[:150])
    rng = np.random.default_rng(9)
    ability = rng.normal(size=50)
    new = (rng.random((50, 250)) < expit(ability[:, None] - difficulty)).astype(float)
    by_content, se = model.score_ability(new[:, 150:], content[150:])
    by_calibration, _ = model.score_ability(new[:, :150])
    for found in (by_content, by_calibration):
        assert np.corrcoef(found, ability)[0, 1] > 0.95
    assert 0.7 < np.mean(np.abs(by_content - ability + ability.mean() - by_content.mean()) < 1.645 * se) <= 1.0
    proba = model.predict_proba(content[150:])
    np.testing.assert_allclose(
        proba, expit(model.ability_[:, None] - model.predict_difficulty(content[150:])), atol=1e-12
    )
    np.testing.assert_allclose(model.predict_proba(), expit(model.ability_[:, None] - model.difficulty_), atol=1e-12)


def test_wide_features_are_solved_by_iteration_to_the_same_map(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    features, target, weight = rng.normal(size=(80, 120)), rng.normal(size=80), rng.random(80) + 0.1
    dense = LinearPredictor(features)
    expected = dense.update(target, weight, 3.0)
    new = rng.normal(size=(5, 120))
    monkeypatch.setattr(predictors, "_DENSE_OPERATIONS", 0.0)
    iterated = LinearPredictor(features)
    np.testing.assert_allclose(iterated.update(target, weight, 3.0), expected, atol=1e-5)
    np.testing.assert_allclose(iterated.predict(new), dense.predict(new), atol=1e-5)


def test_weighted_ridge_is_stationary() -> None:
    rng = np.random.default_rng(1)
    features, target, weight = rng.normal(size=(60, 3)) * [1, 5, 0.1], rng.normal(size=60), rng.random(60)
    predictor = LinearPredictor(features)
    g = predictor.update(target, weight, 2.0)
    assert predictor.basis is not None
    pull = weight * (target - g)
    standard = predictor.scaler.transform(features)
    assert abs(pull.sum()) < 1e-10
    np.testing.assert_allclose(standard.T @ pull, 2.0 * (predictor.basis.T @ predictor.weights), atol=1e-10)
    np.testing.assert_allclose(predictor.predict(features), g, atol=1e-12)


def test_the_network_descends_along_its_gradient() -> None:
    rng = np.random.default_rng(2)
    features = rng.normal(size=(200, 3))
    target = np.sin(features[:, 0] * 2) + features[:, 1]
    network = NetworkPredictor(features, 0, n_steps=300)
    g = network.update(target, np.ones(200), 1e-3)
    assert np.mean((g - target) ** 2) < 0.01 * target.var()
    np.testing.assert_allclose(network.predict(features), g, atol=1e-10)


def test_constant_features_carry_nothing() -> None:
    content, _, _, Y = bank()
    padded = np.hstack([content, np.full((len(content), 1), 7.0)])
    for predictor in ("linear", "rbf"):
        first, second = (
            AmortizedIRT(predictor, random_state=0, alpha=0.01).fit(Y, features).predict_difficulty(features)
            for features in (padded[:, :4], padded)
        )
        np.testing.assert_allclose(first, second, atol=1e-6 if predictor == "linear" else 0.2)
    nothing = AmortizedIRT(random_state=0).fit(Y, np.ones((len(content), 2)))
    assert np.ptp(nothing.predict_difficulty(np.ones((3, 2)))) == 0.0


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"predictor": "forest"}, ValueError, "predictor"),
        ({"predictor": 3}, TypeError, "predictor"),
        ({"predictor": Ridge()}, ValueError, "two_stage"),
        ({"fit_mode": "both"}, ValueError, "fit_mode"),
        ({"alpha": -1.0}, ValueError, "alpha"),
        ({"alpha": "auto"}, ValueError, "alpha"),
        ({"n_quadrature": 3}, ValueError, "n_quadrature"),
    ],
)
def test_bad_parameters_are_named(parameters: dict[str, Any], error: type[Exception], message: str) -> None:
    content, _, _, Y = bank(10, 20)
    with pytest.raises(error, match=message):
        AmortizedIRT(**parameters).fit(Y, content)


def test_bad_features_are_named() -> None:
    content, _, _, Y = bank(10, 20)
    with pytest.raises(ValueError, match=r"one row per item, 20; got shape \(19, 4\)"):
        AmortizedIRT().fit(Y, content[:19])
    broken = content.copy()
    broken[3, 1] = np.nan
    with pytest.raises(ValueError, match=r"item_features holds 1 value.*\(3, 1\)"):
        AmortizedIRT().fit(Y, broken)
    model = AmortizedIRT(alpha=0.1).fit(Y, content)
    with pytest.raises(ValueError, match=r"4 column\(s\), got shape \(20, 3\)"):
        model.predict_difficulty(content[:, :3])
    with pytest.raises(ValueError, match="one column per item"):
        model.score_ability(Y[:, :5], content[:6])
    with pytest.raises(NotFittedError):
        AmortizedIRT().predict_difficulty(content)


def test_too_few_alternations_are_announced() -> None:
    content, _, _, Y = bank()
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        AmortizedIRT(max_iter=1, alpha=0.01, residual=False).fit(Y, content)


# Texts


def hashed(texts: list[str]) -> ArrayLike:
    """A bag of letters: difficulty can be read off it."""
    return np.array([[text.count(letter) for letter in "abcdefgh "] + [len(text)] for text in texts], dtype=float)


@pytest.fixture(scope="module")
def amortized() -> AmortizedIRT:
    rng = np.random.default_rng(0)
    texts = ["".join(rng.choice(list("abcdefgh "), size=rng.integers(1, 40))) for _ in range(200)]
    difficulty = np.array([len(text) / 10 - 2 for text in texts])
    Y = (rng.random((40, 200)) < expit(rng.normal(size=(40, 1)) - difficulty)).astype(float)
    return AmortizedIRT(random_state=0).fit(Y, hashed(texts))


def test_reward_is_minus_the_distance(amortized: AmortizedIRT) -> None:
    writer = DifficultyConditionedGenerator(None, None, amortized, hashed)
    texts = ["a", "abc abc abc", "hhhh" * 8]
    difficulty = amortized.predict_difficulty(hashed(texts))
    np.testing.assert_allclose(writer.reward(texts, difficulty), 0.0, atol=1e-12)
    np.testing.assert_allclose(writer.reward(texts, 1.5), -np.abs(difficulty - 1.5))
    with pytest.raises(ValueError, match="targets"):
        writer.reward(texts, [1.0, 2.0])
    with pytest.raises(TypeError, match="single"):
        writer.reward("abc", 1.0)  # type: ignore[arg-type]
    with pytest.raises(NotFittedError):
        DifficultyConditionedGenerator(None, None, AmortizedIRT(), hashed)
    with pytest.raises(TypeError, match="embed"):
        DifficultyConditionedGenerator(None, None, amortized, "embed")  # type: ignore[arg-type]


def test_chat_examples_state_the_difficulty(amortized: AmortizedIRT) -> None:
    writer = DifficultyConditionedGenerator(None, None, amortized, hashed)
    examples = writer.sft_dataset(["What is 2 + 2?", "Prove it."], [-1.2345, 3.0], "sums")
    assert [m["role"] for m in examples[0]["messages"]] == ["user", "assistant"]
    assert "-1.23" in examples[0]["messages"][0]["content"]
    assert "sums" in examples[0]["messages"][0]["content"]
    assert "3.00" in examples[1]["messages"][0]["content"]
    assert examples[1]["messages"][1]["content"] == "Prove it."
    with pytest.raises(ValueError, match="one number per text"):
        writer.sft_dataset(["a"], [1.0, 2.0])


class Letters:
    """A tokenizer of single letters."""

    eos_token_id = 0
    chat_template = None

    def __call__(self, texts: Any, **_: Any) -> dict[str, Any]:
        def encode(text: str) -> list[int]:
            return [min(ord(letter), 127) for letter in text]

        return {"input_ids": encode(texts) if isinstance(texts, str) else [encode(text) for text in texts]}

    def decode(self, ids: list[int], skip_special_tokens: bool = True) -> str:
        return "".join(chr(ord("a") + i % 8) for i in ids if i)


class ChatLetters(Letters):
    chat_template = "{{ messages }}"

    def apply_chat_template(self, messages: list[dict[str, str]], **_: Any) -> str:
        return "<" + messages[0]["content"] + ">"


def tiny_model(kind: str, seed: int = 0) -> Any:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(
        vocab_size=128, n_positions=512, n_embd=16, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0
    )
    state = torch.random.get_rng_state()
    torch.manual_seed(seed)
    model = (transformers.GPT2LMHeadModel if kind == "writer" else transformers.GPT2Model)(config).eval()
    torch.random.set_rng_state(state)
    return model


@pytest.mark.parametrize("tokenizer", [Letters(), ChatLetters()])
def test_generated_questions_come_near_the_target(amortized: AmortizedIRT, tokenizer: Letters) -> None:
    torch = pytest.importorskip("torch")
    model = tiny_model("writer")

    def write(target: float, best_of: int) -> Any:
        source = torch.Generator().manual_seed(3)
        writer = DifficultyConditionedGenerator(model, tokenizer, amortized, hashed, generator=source)
        return writer.generate(target, 3, best_of=best_of, max_new_tokens=30, batch_size=8)

    before = torch.random.get_rng_state()
    many, few = write(1.0, 12), write(1.0, 1)
    assert torch.equal(before, torch.random.get_rng_state())
    assert len(many) == len(few) == 3
    np.testing.assert_allclose(many["difficulty"], amortized.predict_difficulty(hashed(many["text"].tolist())))
    distance = np.abs(many["difficulty"] - 1.0)
    assert distance.is_monotonic_increasing
    assert distance.mean() < np.abs(few["difficulty"] - 1.0).mean()
    assert write(1.0, 12).equals(many)
    with pytest.raises(ValueError, match="best_of"):
        write(1.0, 0)
    with pytest.raises(ValueError, match="target"):
        write(float("nan"), 2)


@pytest.mark.parametrize("pooling", ["last", "mean"])
def test_embeddings_do_not_depend_on_the_batch(pooling: Any) -> None:
    torch = pytest.importorskip("torch")
    model = tiny_model("reader")
    texts = ["a", "a longer question, with more letters", "why?"]
    together = embed_texts(texts, (model, Letters()), pooling, batch_size=3)
    alone = np.vstack([embed_texts([text], (model, Letters()), pooling) for text in texts])
    np.testing.assert_allclose(together, alone, atol=1e-5)
    assert together.dtype == np.float32
    assert together.shape == (3, 16)
    ids = torch.tensor(Letters()(["why?"])["input_ids"])
    with torch.no_grad():
        hidden = model(input_ids=ids).last_hidden_state[0].numpy()
    np.testing.assert_allclose(together[2], hidden[-1] if pooling == "last" else hidden.mean(axis=0), atol=1e-5)


def test_bad_texts_are_named() -> None:
    pytest.importorskip("torch")
    pair = (lambda **_: SimpleNamespace(last_hidden_state=None), Letters())
    with pytest.raises(ValueError, match="pooling"):
        embed_texts(["a"], pair, "first")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least one text"):
        embed_texts([], pair)
    with pytest.raises(ValueError, match="no token in ''"):
        embed_texts(["a", ""], pair)
    with pytest.raises(TypeError, match="got 3"):
        embed_texts(["a", 3], pair)  # type: ignore[list-item]


def test_a_named_model_without_transformers_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ImportError, match=r"paperworks\[hf\]"):
        embed_texts(["a"], "some/model")
