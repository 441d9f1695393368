"""How the common battery exercises the item response models."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from paperworks.evaluate import AdaptiveTest, AmortizedIRT, DifficultyConditionedGenerator, RaschModel
from tests.battery import Example

Floats = NDArray[np.float64]


def _answers() -> tuple[Floats, Floats]:
    rng = np.random.default_rng(0)
    content = rng.normal(size=(60, 3))
    logits = rng.normal(size=(30, 1)) - content @ [1.0, -0.5, 0.0]
    Y = (rng.random(logits.shape) < 1 / (1 + np.exp(-logits))).astype(float)
    Y[:10, :20] = np.nan
    return Y, content


def _use_rasch(model: RaschModel, dtype: str) -> Floats:
    Y, _ = _answers()
    model.fit(Y.astype(dtype))
    return np.concatenate([model.difficulty_, model.ability_, *model.score_ability(Y[:5].astype(dtype))])


def _use_amortized(model: AmortizedIRT, dtype: str) -> Floats:
    Y, content = _answers()
    model.fit(Y[:, :40].astype(dtype), content[:40].astype(dtype))
    return np.concatenate([model.difficulty_, model.ability_, model.predict_difficulty(content[40:].astype(dtype))])


def _use_test(test: AdaptiveTest, dtype: str) -> Floats:
    answers = np.random.default_rng(0).random(30).astype(dtype) < 0.6
    test = AdaptiveTest(
        test.difficulty.astype(dtype), exposure=test.exposure, max_items=test.max_items, random_state=test.random_state
    )
    return test.run(lambda item: bool(answers[item])).history_.to_numpy(dtype=float).ravel()


def _length(texts: list[str]) -> ArrayLike:
    return np.array([[len(text), text.count("e"), text.count(" ")] for text in texts], dtype=float)


def _make_generator(seed: int) -> DifficultyConditionedGenerator:
    Y, content = _answers()
    return DifficultyConditionedGenerator(None, None, AmortizedIRT(random_state=0).fit(Y, content), _length)


def _use_generator(writer: DifficultyConditionedGenerator, dtype: str) -> Floats:
    texts = ["Why?", "Where did the river end?", "Name three trees."]
    return writer.reward(texts, np.array([0.0, 1.0, -2.5], dtype=dtype))


EXAMPLES = {
    "RaschModel": Example(make=lambda seed: RaschModel(random_state=seed), use=_use_rasch),
    "AmortizedIRT": Example(make=lambda seed: AmortizedIRT(random_state=seed), use=_use_amortized),
    "AdaptiveTest": Example(
        make=lambda seed: AdaptiveTest(np.linspace(-2, 2, 30), exposure=3, max_items=12, random_state=seed),
        use=_use_test,
    ),
    "DifficultyConditionedGenerator": Example(make=_make_generator, use=_use_generator),
}
