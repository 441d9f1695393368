"""Does a bandit over drafts need fewer rounds than any one draft, and is the text still that of the model alone?

Two parts. In the simulation the gains of each arm are truncated geometric, the paper's own model, so the rounds of a
bandit can be compared with those of the best arm. In the decoding part a small byte-level model, trained here on
Python's own sources and documentation, continues code, prose and repeated passages; its drafts are tables fitted to
code or to prose, a lookup in the text and, in the second set, a smaller model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from paperworks.bench.seeds import rng_for, seed_for
from paperworks.bench.study import Claim, Contender, Figure, Metric, Paper, Scale, Study

if TYPE_CHECKING:
    import numpy as np

# Acceptance probabilities of the arms and the draft length
_GEOMETRIC: dict[str, tuple[tuple[float, ...], int]] = {
    "geometric-apart": ((0.3, 0.5, 0.8), 4),
    "geometric-close": ((0.6, 0.7, 0.8), 8),
}
_BUNDLED = ("tables", "tables-and-model")
_DECODING = (*_BUNDLED, "alpaca")

# contender: (bandit, factor of the radius, memory)
_BANDITS = {
    "ucb": ("ucb", 0.3, "prompt"),
    "ucb-paper": ("ucb", 1.0, "prompt"),
    "ucb-session": ("ucb", 0.3, "session"),
    "exp3": ("exp3", 1.0, "prompt"),
    "greedy": ("greedy", 1.0, "prompt"),
    "uniform": ("uniform", 1.0, "prompt"),
    "fixed-1": ("fixed:0", 1.0, "prompt"),
    "fixed-2": ("fixed:1", 1.0, "prompt"),
    "fixed-3": ("fixed:2", 1.0, "prompt"),
    "fixed-4": ("fixed:3", 1.0, "prompt"),
}

# Modules and topics that are only asked about, never trained on
_HELD_OUT_CODE = ("textwrap", "shlex", "bisect", "fnmatch", "csv", "configparser")
_TRAINED_CODE = (
    "argparse", "ast", "calendar", "collections", "copy", "dataclasses", "datetime", "difflib", "enum", "fractions",
    "functools", "glob", "gzip", "inspect", "ipaddress", "locale", "logging", "optparse", "os", "pathlib", "pickle",
    "platform", "queue", "random", "shutil", "socket", "statistics", "string", "subprocess", "tarfile", "tempfile",
    "threading", "tokenize", "traceback", "typing", "uuid", "weakref", "zipfile",
)  # fmt: skip
_COPY_BYTES = 40


class Material(NamedTuple):
    """What the decoding part needs: the model, a smaller one, the tables' arms by name, and a source of prompts."""

    target: Any
    small: Any
    arms: Mapping[str, tuple[Any, ...]]
    prompts: Callable[[np.random.Generator, int], list[list[int]]]


def corpora() -> dict[str, tuple[bytes, bytes]]:
    """Return code and prose, each as the part that is trained on and the part that prompts come from."""
    import importlib.util
    from pathlib import Path
    from pydoc_data.topics import topics

    def source(module: str) -> bytes:
        spec = importlib.util.find_spec(module)
        origin = "" if spec is None or spec.origin is None else spec.origin
        return Path(origin).read_bytes() if origin.endswith(".py") else b""

    def long_lines(topic: str) -> set[str]:
        return {line for line in topics[topic].split("\n") if len(line) > 60}

    names = sorted(topics)
    held_out = names[::8]
    asked_about = set().union(*map(long_lines, held_out))
    # Some topics repeat parts of others
    trained_on = [name for name in names if name not in held_out and not long_lines(name) & asked_about]
    prose = {key: "\n".join(topics[name] for name in part).encode() for key, part in enumerate((trained_on, held_out))}
    return {
        "code": (b"\n".join(map(source, _TRAINED_CODE)), b"\n".join(map(source, _HELD_OUT_CODE))),
        "prose": (prose[0], prose[1]),
    }


def mixed_prompts(code: bytes, prose: bytes, rng: np.random.Generator, n: int, size: int) -> list[list[int]]:
    """Return prompts in turn from code, prose and passages that begin anew; they start at a line's start."""

    def cut(text: bytes, length: int) -> bytes:
        start = text.find(b"\n", int(rng.integers(len(text) - 4 * length))) + 1
        return text[start : start + length]

    prompts = []
    for i in range(n):
        if i % 3 < 2:
            prompts.append(cut((code, prose)[i % 3], size))
        else:
            passage = cut((code, prose)[i // 3 % 2], _COPY_BYTES)
            prompts.append(passage + b"\n\n" + passage + b"\n\n" + passage[:8])
    return [list(prompt) for prompt in prompts]


def train(hidden: int, layers: int, text: bytes, steps: int, seed: int) -> Any:
    """Train a byte-level model for some steps of 16 x 128 bytes."""
    import numpy as np
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=256,
        hidden_size=hidden,
        intermediate_size=3 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=4,
        max_position_embeddings=512,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=0,
    )
    rng = np.random.default_rng(seed)
    data = torch.from_numpy(np.frombuffer(text, dtype=np.uint8).astype(np.int64))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LlamaForCausalLM(config)
    rate = 3e-3
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01)
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = rate * min(1.0, (step + 1) / 20) * (1.0 - 0.9 * step / steps)
        starts = torch.from_numpy(rng.integers(len(data) - 128, size=16))
        batch = data[starts[:, None] + torch.arange(128)]
        loss = model(input_ids=batch, labels=batch, use_cache=False).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return model.eval()


@lru_cache(maxsize=2)
def trained(steps: int, table_bytes: int, prompt_bytes: int) -> Material:
    """Train the models and fit the tables, the same in every process."""
    from paperworks.inference import Arm, NGramDraft

    texts = corpora()
    # Code and prose in equal parts, whatever their lengths
    half = min(len(part) for part, _ in texts.values())
    both = b"".join(part[:half] for part, _ in texts.values())
    target = train(96, 2, both, steps, seed_for("target"))
    small = train(32, 1, both, steps, seed_for("small"))
    tables = {
        kind: Arm(table=NGramDraft(6).fit([list(part[:table_bytes])]), length=4, name=f"{kind} table")
        for kind, (part, _) in texts.items()
    }
    first = (tables["code"], tables["prose"], Arm(prompt_lookup=3, length=4))
    return Material(
        target,
        small,
        {"tables": first, "tables-and-model": (*first, Arm(draft=small, length=4))},
        lambda rng, n: mixed_prompts(texts["code"][1], texts["prose"][1], rng, n, prompt_bytes),
    )


def instruction_prompts(instructions: Sequence[str], tokenizer: Any) -> list[list[int]]:
    """Return instructions as the first turn of a chat, in tokens."""
    return [
        list(
            tokenizer.apply_chat_template(
                [{"role": "user", "content": text}], add_generation_prompt=True, tokenize=True, return_dict=False
            )
        )
        for text in instructions
    ]


@lru_cache(maxsize=1)
def pretrained(target: str, small: str) -> Material:
    """Load two models that share a vocabulary, and the instructions of Alpaca; needs the network and a GPU."""
    import pandas as pd
    import torch
    from huggingface_hub import hf_hub_download
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from paperworks.inference import Arm

    tokenizer = AutoTokenizer.from_pretrained(target)
    big, little = (
        AutoModelForCausalLM.from_pretrained(name, dtype=torch.bfloat16, device_map="auto").eval()
        for name in (target, small)
    )
    place = hf_hub_download(
        "tatsu-lab/alpaca", "data/train-00000-of-00001-a09b74b3ef9c3b56.parquet", repo_type="dataset"
    )
    table = pd.read_parquet(place)
    instructions = table.loc[table["input"] == "", "instruction"]
    arms = (
        Arm(prompt_lookup=3, length=4),
        Arm(prompt_lookup=3, length=10),
        Arm(draft=little, length=2),
        Arm(draft=little, length=5),
    )

    def prompts(rng: np.random.Generator, n: int) -> list[list[int]]:
        return instruction_prompts(instructions.sample(n, random_state=int(rng.integers(2**31))).tolist(), tokenizer)

    return Material(big, little, {"alpaca": arms}, prompts)


def simulated(contender: str, dataset: str, seed: int, lengths: Sequence[int], runs: int) -> dict[str, float]:
    """Return rounds over the best arm's rounds at three lengths of text, and how the ratio changes between them."""
    from paperworks.inference import expected_accepted, simulate_stopping_time
    from paperworks.inference.bandit_spec.baselines import make_selector

    probabilities, max_draft = _GEOMETRIC[dataset]
    n_arms = len(probabilities)
    means = [expected_accepted(p, max_draft) for p in probabilities]
    best = f"fixed:{means.index(max(means))}"
    bandit, radius, _ = _BANDITS[contender]
    if bandit.startswith("fixed") and int(bandit[-1]) >= n_arms:
        return {}

    def total(name: str, n_tokens: int) -> int:
        return sum(
            simulate_stopping_time(
                probabilities,
                max_draft,
                n_tokens,
                make_selector(
                    name,
                    n_arms,
                    max_draft=max_draft,
                    scale=radius,
                    random_state=rng_for("bandit", dataset, seed, n_tokens, run),
                ),
                rng_for("gains", dataset, seed, n_tokens, run),
            )
            for run in range(runs)
        )

    short, middle, long = (total(bandit, n) / total(best, n) for n in lengths)
    return {
        "ratio_short": short,
        "ratio_middle": middle,
        "ratio_long": long,
        "change_early": middle - short,
        "change_late": long - middle,
    }


def material(bundled: bool, scale: str) -> Material:
    """Return the models and drafts of a scale, trained here or pretrained."""
    settings = STUDY.scales[scale].settings
    if bundled:
        return trained(settings["steps"], settings["table_bytes"], settings["prompt_bytes"])
    return pretrained(settings["target"], settings["small"])


@lru_cache(maxsize=16)
def asked(bundled: bool, scale: str, seed: int) -> tuple[list[Any], list[Any]]:
    """Return the prompts of a seed and what the model alone makes of them."""
    import torch

    found, settings = material(bundled, scale), STUDY.scales[scale].settings
    target = found.target
    prompts = [
        torch.tensor([ids], device=target.device)
        for ids in found.prompts(rng_for("prompts", seed), settings["prompts"])
    ]
    n = settings["new_tokens"]
    return prompts, [target.generate(ids, max_new_tokens=n, do_sample=False) for ids in prompts]


def decoded(contender: str, dataset: str, seed: int, scale: str) -> dict[str, float]:
    """Continue the prompts and return tokens per target forward, identity with the model alone, and speed."""
    import time

    import torch
    import transformers

    from paperworks.inference import BanditSpec

    transformers.logging.set_verbosity_error()
    models = material(dataset in _BUNDLED, scale)
    target, small, arms = models.target, models.small, models.arms[dataset]
    options: dict[str, Any] = {"max_new_tokens": STUDY.scales[scale].settings["new_tokens"], "do_sample": False}
    if contender in _BANDITS:
        bandit, radius, memory = _BANDITS[contender]
        if bandit.startswith("fixed") and int(bandit[-1]) >= len(arms):
            return {}
        generate: Any = BanditSpec(
            target,
            arms,
            algorithm=bandit,
            scale=radius,
            memory=memory,
            random_state=seed_for("decoding", dataset, seed),
        ).generate
    else:
        generate = target.generate
        if contender == "generate-lookup":
            options |= {"prompt_lookup_num_tokens": 4, "max_matching_ngram_size": 3}
        elif contender.startswith("generate-assistant"):
            if not any(arm.draft is small for arm in arms):
                return {}
            options["assistant_model"] = small
            constant = contender == "generate-assistant-4"
            default = transformers.GenerationConfig()
            for name, value in (
                ("num_assistant_tokens", 4),
                ("num_assistant_tokens_schedule", "constant"),
                ("assistant_confidence_threshold", 0.0),
            ):
                setattr(small.generation_config, name, value if constant else getattr(default, name))

    prompts, alone = asked(dataset in _BUNDLED, scale, seed)
    generate(prompts[0], **{**options, "max_new_tokens": 4})  # warm-up
    forwards, same, new, seconds = 0, 0, 0, 0.0

    def count(*_: Any) -> None:
        nonlocal forwards
        forwards += 1

    hook = target.register_forward_pre_hook(count)
    try:
        for ids, expected in zip(prompts, alone, strict=True):
            start = time.perf_counter()
            text = generate(ids, **options)
            seconds += time.perf_counter() - start
            new += text.shape[1] - ids.shape[1]
            same += torch.equal(text, expected)
    finally:
        hook.remove()
    return {
        "tokens_per_forward": new / forwards,
        "forwards": float(forwards),
        "identical": same / len(prompts),
        "tokens_per_second": new / seconds,
    }


def trial(contender: str, dataset: str, seed: int, scale: str) -> Mapping[str, float]:
    """Simulate rounds, or decode prompts; metrics that a contender does not have are NaN."""
    settings = STUDY.scales[scale].settings
    found: dict[str, float] = {metric.name: math.nan for metric in STUDY.metrics}
    if dataset in _GEOMETRIC:
        if contender in _BANDITS and contender != "ucb-session":
            found |= simulated(contender, dataset, seed, settings["lengths"], settings["runs"])
        return found
    return found | decoded(contender, dataset, seed, scale)


STUDY = Study(
    slug="bandit-spec",
    family="inference",
    paper=Paper(
        title="BanditSpec: Adaptive Speculative Decoding via Bandit Algorithms",
        authors="Yunlong Hou, Fengzhuo Zhang, Cunxiao Du, Xuan Zhang, Jiachun Pan, Tianyu Pang, Chao Du, "
        "Vincent Y. F. Tan, Zhuoran Yang",
        venue="ICML 2025",
        url="https://arxiv.org/abs/2505.15141",
        code="https://github.com/sail-sg/BanditSpec",
    ),
    question=(
        "I generate with a transformers model and have several ways to draft: small models, tables, prompt lookup. "
        "Which one, for this text, without tuning and without changing what comes out?"
    ),
    datasets=(*_GEOMETRIC, *_DECODING),
    contenders=(
        Contender("ucb", role="method", source="Algorithm 4, radius times 0.3, anew for each prompt"),
        Contender("ucb-paper", role="method", source="Algorithm 4 with the paper's radius"),
        Contender("ucb-session", role="ablation", source="as ucb, but what earlier prompts taught is kept"),
        Contender("exp3", role="method", source="Algorithm 5"),
        Contender("greedy", role="ablation", source="best mean after two rounds of each arm"),
        Contender("uniform", role="ablation", source="arms at random"),
        Contender("fixed-1", role="peer", source="always the first arm: code table"),
        Contender("fixed-2", role="peer", source="always the second arm: prose table"),
        Contender("fixed-3", role="peer", source="always the third arm: prompt lookup"),
        Contender("fixed-4", role="peer", source="always the fourth arm, where there is one: small model"),
        Contender("generate", role="peer", source="transformers generate, without drafts"),
        Contender("generate-lookup", role="peer", source="transformers generate with prompt_lookup_num_tokens=4"),
        Contender(
            "generate-assistant", role="peer", source="transformers generate with assistant_model, library defaults"
        ),
        Contender(
            "generate-assistant-4",
            role="peer",
            source="transformers generate with assistant_model, always four drafted tokens as our arm",
        ),
    ),
    metrics=(
        Metric("ratio_short", better="lower", description="rounds over the best arm's, short texts (256 tokens)"),
        Metric("ratio_middle", better="lower", description="rounds over the best arm's, middle texts (1024 tokens)"),
        Metric("ratio_long", better="lower", description="rounds over the best arm's, long texts (4096 tokens)"),
        Metric("change_early", better="lower", description="ratio of middle texts minus ratio of short ones"),
        Metric("change_late", better="lower", description="ratio of long texts minus ratio of middle ones"),
        Metric("tokens_per_forward", better="higher", description="new tokens per forward of the model"),
        Metric("forwards", better="lower", description="forwards of the model"),
        Metric("identical", better="higher", description="share of texts equal to the model's own greedy ones"),
        Metric("tokens_per_second", better="higher", unit="1/s", description="new tokens per second", timing=True),
    ),
    claims=(
        *(
            Claim(
                f"simulation: UCB comes closer to the best arm from {texts} texts",
                metric=metric,
                subject="ucb",
                against=0.0,
                kind="better",
                datasets=tuple(_GEOMETRIC),
            )
            for texts, metric in (("short to middle", "change_early"), ("middle to long", "change_late"))
        ),
        *(
            Claim(
                f"simulation: {subject} needs fewer rounds than {against}, middle texts",
                metric="ratio_middle",
                subject=subject,
                against=against,
                kind="better",
                datasets=tuple(_GEOMETRIC),
            )
            for subject, against in (("ucb", "exp3"), ("ucb-paper", "exp3"), ("exp3", "uniform"))
        ),
        *(
            Claim(
                f"tables: UCB gains at least as many tokens per forward as {arm} alone",
                metric="tokens_per_forward",
                subject="ucb",
                against=arm,
                kind="not_worse",
                datasets=("tables",),
            )
            for arm in ("fixed-1", "fixed-2", "fixed-3")
        ),
        Claim(
            "tables and model: UCB gains at least as many tokens per forward as the small model alone",
            metric="tokens_per_forward",
            subject="ucb",
            against="fixed-4",
            kind="not_worse",
            datasets=("tables-and-model",),
        ),
        Claim(
            "every text is that of generate without drafts",
            metric="identical",
            subject="ucb",
            against="generate",
            kind="not_worse",
            datasets=_DECODING,
        ),
        *(
            Claim(
                f"UCB generates faster than {peer}",
                metric="tokens_per_second",
                subject="ucb",
                against=peer,
                kind="better",
                datasets=_DECODING if peer[9:10] != "a" else ("tables-and-model", "alpaca"),
            )
            for peer in ("generate", "generate-lookup", "generate-assistant", "generate-assistant-4")
        ),
    ),
    scales={
        "smoke": Scale(
            seeds=2,
            datasets=(*_GEOMETRIC, *_BUNDLED),
            settings={
                "lengths": (64, 128, 256),
                "runs": 5,
                "steps": 10,
                "table_bytes": 10_000,
                "prompt_bytes": 64,
                "prompts": 2,
                "new_tokens": 16,
            },
        ),
        "quick": Scale(
            seeds=6,
            datasets=(*_GEOMETRIC, *_BUNDLED),
            settings={
                "lengths": (256, 1024, 4096),
                "runs": 6,
                "steps": 300,
                "table_bytes": 100_000,
                "prompt_bytes": 64,
                "prompts": 3,
                "new_tokens": 48,
            },
        ),
        "paper": Scale(
            seeds=16,
            datasets=(*_GEOMETRIC, "alpaca"),
            settings={
                "lengths": (256, 1024, 4096),
                "runs": 100,
                "target": "meta-llama/Meta-Llama-3-8B-Instruct",
                "small": "meta-llama/Llama-3.2-1B-Instruct",
                "prompts": 20,
                "new_tokens": 512,
            },
        ),
    },
    trial=trial,
    extras=("hf",),
    figures=(
        *(
            Figure("tokens_per_forward", contender, "alpaca", value, "Table 1, LLaMA3-8B")
            for contender, value in (("generate", 1.0), ("generate-lookup", 1.53), ("exp3", 4.23), ("ucb-paper", 4.35))
        ),
        *(
            Figure("tokens_per_second", contender, "alpaca", value, "Table 1, LLaMA3-8B, one A100")
            for contender, value in (
                ("generate", 35.92),
                ("generate-lookup", 53.06),
                ("exp3", 120.38),
                ("ucb-paper", 125.78),
            )
        ),
    ),
    limits=(
        "All seeds share one trained model; a seed draws the prompts. The corpora are those of the running Python.",
        "The models of the quick scale have about 250,000 parameters: a forward costs little more than the Python code "
        "around it, so fewer forwards save less time than with models that people use.",
        "The paper's drafts are EAGLE-2, prompt lookup, REST and suffix trees; here they are tables, prompt lookup and "
        "smaller models, so its figures for tokens per forward are not comparable.",
        "Greedy decoding only; that sampling keeps the model's law is shown by tests.",
    ),
    keywords=(
        "speculative decoding",
        "assisted generation",
        "draft model",
        "prompt lookup",
        "faster text generation",
        "LLM inference latency",
        "multi-armed bandit",
    ),
)
