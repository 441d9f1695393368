"""The study's corpora, prompts and models, and its trials at the smallest scale."""

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from paperworks.inference import expected_accepted  # noqa: E402
from paperworks.studies.inference import bandit_spec as study  # noqa: E402

NAMES = [metric.name for metric in study.STUDY.metrics]
DECODING = {"tokens_per_forward", "forwards", "identical", "tokens_per_second"}


def defined(contender: str, dataset: str) -> bool:
    """Tell where a contender has something to do."""
    if dataset in study._GEOMETRIC:
        return not contender.startswith("generate") and contender not in ("ucb-session", "fixed-4")
    return dataset != "tables" or not (contender.startswith("generate-assistant") or contender == "fixed-4")


@pytest.mark.parametrize("dataset", study.STUDY.scales["smoke"].datasets)
def test_every_contender_runs(dataset: str) -> None:
    for contender in study.STUDY.contenders:
        metrics = study.trial(contender.name, dataset, 0, "smoke")
        assert list(metrics) == NAMES
        expected = DECODING if dataset in study._BUNDLED else set(NAMES) - DECODING
        finite = {name for name, value in metrics.items() if math.isfinite(value)}
        assert finite == (expected if defined(contender.name, dataset) else set()), contender.name
        if "identical" in finite:
            assert metrics["identical"] == 1.0
            assert (metrics["tokens_per_forward"] == 1.0) == (contender.name == "generate")
            assert metrics["tokens_per_forward"] * metrics["forwards"] == 32  # two prompts, 16 tokens each


@pytest.mark.parametrize(("contender", "dataset"), [("exp3", "geometric-close"), ("exp3", "tables-and-model")])
def test_trials_repeat(contender: str, dataset: str) -> None:
    first, again, other = (
        {
            name: value
            for name, value in study.trial(contender, dataset, seed, "smoke").items()
            if name[:8] != "tokens_p"
        }
        for seed in (0, 0, 1)
    )
    np.testing.assert_equal(first, again)
    assert dataset in study._BUNDLED or first["ratio_long"] != other["ratio_long"]


def test_simulation_compares_with_the_best_arm() -> None:
    found = study.simulated("fixed-3", "geometric-apart", 0, (64, 128, 256), 3)
    assert found["ratio_short"] == found["ratio_middle"] == found["ratio_long"] == 1.0
    worst = study.simulated("fixed-1", "geometric-apart", 0, (1000, 2000, 4000), 5)
    assert worst["ratio_long"] == pytest.approx(expected_accepted(0.8, 4) / expected_accepted(0.3, 4), rel=0.05)
    assert worst["change_early"] == worst["ratio_middle"] - worst["ratio_short"]
    assert worst["change_late"] == worst["ratio_long"] - worst["ratio_middle"]


def test_prompts_were_not_trained_on() -> None:
    for trained_on, asked_about in study.corpora().values():
        assert min(len(trained_on), len(asked_about)) > 30_000
        lines = [line for line in asked_about.split(b"\n") if len(line) > 60]
        shared = sum(line in trained_on for line in lines)
        assert shared < 0.02 * len(lines)


def test_prompts_come_in_turn_and_copies_repeat() -> None:
    code, prose = b"\n".join([b"x" * 30] * 50), b"\n".join([b"y" * 30] * 50)
    prompts = [bytes(p) for p in study.mixed_prompts(code, prose, np.random.default_rng(0), 6, 64)]
    assert [set(p) - {10} for p in prompts] == [{120}, {121}, {120}, {120}, {121}, {121}]
    assert [len(p) for p in prompts[:2]] == [64, 64]
    own = study.corpora()
    copy = bytes(study.mixed_prompts(own["code"][1], own["prose"][1], np.random.default_rng(0), 3, 64)[2])
    passage = copy[:40]
    assert copy == passage + b"\n\n" + passage + b"\n\n" + passage[:8]


def test_training_learns_and_repeats() -> None:
    text = b"the cat sat on the mat. " * 60
    model, again = (study.train(32, 1, text, 40, 0) for _ in range(2))
    batch = torch.tensor([list(text[:100])])
    with torch.no_grad():
        loss = model(input_ids=batch, labels=batch).loss
        assert loss == again(input_ids=batch, labels=batch).loss
    assert loss < 0.6 * math.log(256)
    assert not model.training


def test_chat_prompts() -> None:
    class Tokenizer:
        def apply_chat_template(self, turns: list[dict[str, str]], **given: object) -> list[int]:
            assert given == {"add_generation_prompt": True, "tokenize": True, "return_dict": False}
            return [1, *map(ord, turns[0]["content"]), 2]

    assert study.instruction_prompts(["ab", "c"], Tokenizer()) == [[1, 97, 98, 2], [1, 99, 2]]
