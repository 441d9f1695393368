import numpy as np
import torch
from numpy.typing import NDArray
from transformers import LlamaConfig, LlamaForCausalLM

from paperworks.inference import Arm, BanditSpec, EXP3Spec, GreedySpec, NGramDraft, ThompsonSpec, UCBSpec
from tests.battery import Example

PROBABILITIES = (0.3, 0.7, 0.5)


def model() -> LlamaForCausalLM:
    config = LlamaConfig(
        vocab_size=20,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        pad_token_id=0,
        eos_token_id=None,
        initializer_range=0.3,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return LlamaForCausalLM(config).eval()


def bandit(seed: int) -> BanditSpec:
    return BanditSpec(model(), [{"prompt_lookup": 3}, {"length": 0}], algorithm="exp3", random_state=seed)


def use_bandit(spec: BanditSpec, dtype: str) -> NDArray[np.float64]:
    prompt = torch.tensor([[5, 6, 7, 5, 6]])
    greedy = spec.generate(prompt, max_new_tokens=20, do_sample=False)
    sampled = spec.generate(prompt, max_new_tokens=20, do_sample=True)
    return torch.cat([greedy, sampled]).double().numpy()


def use_selector(selector: UCBSpec | EXP3Spec | ThompsonSpec | GreedySpec, dtype: str) -> NDArray[np.float64]:
    """Play on from where a fresh bandit is; the object itself must not change, or a second use would differ."""
    import copy

    played, rng = copy.deepcopy(selector), np.random.default_rng(0)
    chosen = []
    for _ in range(60):
        chosen.append(played.select())
        played.update(chosen[-1], 1 + rng.binomial(4, PROBABILITIES[chosen[-1]]))
    return np.array(chosen, dtype=float)


def use_table(table: NGramDraft, dtype: str) -> NDArray[np.float64]:
    text = np.random.default_rng(0).integers(4, size=200)
    return np.array(table.fit([text]).propose([1, 2], 30), dtype=float)


def use_arm(arm: Arm, dtype: str) -> NDArray[np.float64]:
    assert arm.table is not None
    return np.array([arm.length, *arm.table.propose([1, 2], 9)], dtype=float)


EXAMPLES = {
    "Arm": Example(make=lambda seed: Arm(table=NGramDraft(3).fit([[1, 2, 3, 1, 4]]), length=seed), use=use_arm),
    "BanditSpec": Example(make=bandit, use=use_bandit),
    "EXP3Spec": Example(make=lambda seed: EXP3Spec(3, max_draft=4, random_state=seed), use=use_selector),
    "GreedySpec": Example(make=lambda seed: GreedySpec(3, max_draft=4), use=use_selector),
    "NGramDraft": Example(make=lambda seed: NGramDraft(order=3), use=use_table),
    "ThompsonSpec": Example(make=lambda seed: ThompsonSpec(3, max_draft=4, random_state=seed), use=use_selector),
    "UCBSpec": Example(make=lambda seed: UCBSpec(3, max_draft=4, scale=0.3), use=use_selector),
}
