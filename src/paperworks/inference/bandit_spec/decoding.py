"""Generation: the bandit chooses, the decoder decodes, transformers does all that surrounds it."""

from __future__ import annotations

import math
import time
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

import numpy as np

from paperworks._checks import check_choice, check_positive, extra

from .baselines import fixed_arm, make_selector
from .cached import CachedModel, cache_keyword, check_cache
from .drafts import Arm, as_arm
from .loop import Decoder, check_processors
from .selectors import Selector, check_delta

with extra("hf"):
    import torch
    from torch import LongTensor
    from transformers import GenerationConfig, LogitsProcessorList, PreTrainedModel
    from transformers.generation import GenerateDecoderOnlyOutput, StoppingCriteriaList
    from transformers.generation.stopping_criteria import StopStringCriteria
    from transformers.generation.streamers import BaseStreamer

__all__ = ["BanditSpec"]

REWARDS = ("tokens", "throughput", "cost")
MEMORIES = ("prompt", "session", "discount")
_SYNCED = "synced_gpus=True is not supported: each process would need as many rounds as the others"
FORGETTING = 0.98  # factor of all counts per round with memory="discount"


class BanditSpec:
    """Generate with several drafts at hand and let a bandit choose, round after round, which one drafts.

    Each round an arm drafts some tokens, one forward of the model verifies them all, and the bandit learns how many
    were gained. Greedy output is that of ``model.generate``; sampled output follows the same law (Proposition 3.1).
    One prompt at a time, decoder-only models with a dynamic cache.

    Parameters
    ----------
    model : transformers.PreTrainedModel
        The model whose text is wanted.
    arms : sequence of Arm, dict or PreTrainedModel
        What may draft; a dict holds the parameters of an `Arm`, a model stands for ``Arm(draft=model)``. Arms that
        share a draft model share its cache.
    algorithm : {"ucb", "exp3", "thompson", "greedy", "uniform"} or "fixed:i", default="ucb"
        The bandit, see `UCBSpec`, `EXP3Spec`, `ThompsonSpec` and `GreedySpec`; the last one always uses arm i.
    scale : float, default=0.3
        Factor of UCB's radius; 1.0 is the paper's, which explores too long for texts of a few hundred tokens.
    delta : float, default=0.1
        Level of UCB's radius, in (0, 1].
    reward : {"tokens", "throughput", "cost"}, default="tokens"
        What is maximised: tokens gained per round (the paper's), tokens per second of wall time (not repeatable), or
        tokens per ``1 + cost * drafted``, see `Arm`.
    memory : {"prompt", "session", "discount"}, default="prompt"
        Whether the bandit starts anew with each call (the paper's), remembers earlier calls until `reset`, or remembers
        them with counts shrunk by 0.98 in each round.
    random_state : int, numpy Generator or None, default=None
        Source of the bandit's draws and, without a `generator`, of the tokens'. An int makes every call alike.

    Attributes
    ----------
    stats_ : dict
        Of the last call: ``rounds`` (target forwards after the first), ``tokens`` (new ones), ``tokens_per_round``
        (without the first token, which costs no round; NaN without rounds), ``pulls`` and ``mean_accepted`` (rounds and
        mean gain of each arm, NaN if unused), ``history`` (arm, tokens, seconds of each round) and ``seconds``.

    Raises
    ------
    ValueError
        If an argument is out of range, there is no arm, vocabularies differ, or a model is no decoder.
    TypeError
        If a model or an arm has the wrong type.

    References
    ----------
    Hou et al., "BanditSpec: Adaptive Speculative Decoding via Bandit Algorithms", ICML 2025, Algorithms 2 and 3.

    Examples
    --------
    >>> import torch
    >>> from transformers import LlamaConfig, LlamaForCausalLM
    >>> from paperworks.inference import BanditSpec
    >>> config = LlamaConfig(vocab_size=50, hidden_size=16, intermediate_size=32, num_hidden_layers=1,
    ...                      num_attention_heads=2, pad_token_id=0)
    >>> model = LlamaForCausalLM(config).eval()
    >>> bandit = BanditSpec(model, [{"prompt_lookup": 3}, {"draft": model, "length": 2}], random_state=0)
    >>> prompt = torch.tensor([[5, 6, 7, 5, 6]])
    >>> text = bandit.generate(prompt, max_new_tokens=20, do_sample=False)
    >>> bool((text == model.generate(prompt, max_new_tokens=20, do_sample=False)).all())
    True
    >>> bandit.stats_["tokens"]
    20
    """

    def __init__(
        self,
        model: PreTrainedModel,
        arms: Sequence[Arm | dict[str, Any] | PreTrainedModel],
        *,
        algorithm: str = "ucb",
        scale: float = 0.3,
        delta: float = 0.1,
        reward: str = "tokens",
        memory: str = "prompt",
        random_state: Any = None,
    ) -> None:
        if isinstance(arms, Arm | dict | PreTrainedModel):
            raise TypeError(f"arms must be a sequence of arms, got one {type(arms).__name__}")
        self.model = model
        self.arms = tuple(as_arm(arm) for arm in arms)
        if not self.arms:
            raise ValueError("arms must hold at least one arm, got none")
        _check_decoder(model, "model")
        self._check_vocabularies(model)
        fixed_arm(algorithm, len(self.arms))
        self.algorithm = algorithm
        self.scale = check_positive(scale, "scale", zero_ok=True)
        self.delta = check_delta(delta)
        self.reward = check_choice(reward, "reward", REWARDS)
        self.memory = check_choice(memory, "memory", MEMORIES)
        self.random_state = random_state
        self.max_draft = max(1, max(arm.length for arm in self.arms))
        self._costs = [_cost(arm, model) for arm in self.arms]
        self.stats_: dict[str, Any] = {}
        self.reset()

    def reset(self) -> None:
        """Forget what earlier calls taught the bandit."""
        self._selector: Selector | None = None
        self._speeds: deque[float] = deque(maxlen=500)
        self._scaled: deque[float] = deque(maxlen=500)

    def generate(
        self,
        inputs: LongTensor | None = None,
        *,
        generation_config: GenerationConfig | None = None,
        logits_processor: LogitsProcessorList | None = None,
        stopping_criteria: StoppingCriteriaList | None = None,
        streamer: BaseStreamer | None = None,
        attention_mask: LongTensor | None = None,
        generator: torch.Generator | None = None,
        **kwargs: Any,
    ) -> LongTensor | GenerateDecoderOnlyOutput:
        """Generate as ``model.generate`` would, with drafts.

        Parameters
        ----------
        inputs : LongTensor of shape (1, n_prompt), optional
            The prompt; also as ``input_ids``.
        generation_config : GenerationConfig, optional
            Settings, as in transformers.
        logits_processor : LogitsProcessorList, optional
            Further processors of the logits, applied to the drafts as well.
        stopping_criteria : StoppingCriteriaList, optional
            Further criteria, asked after each token.
        streamer : BaseStreamer, optional
            Gets the prompt, then the tokens of each round.
        attention_mask : LongTensor of shape (1, n_prompt), optional
            Zeros where the prompt is padding.
        generator : torch.Generator, optional
            Source of the tokens' random numbers; by default a new one seeded by `random_state`.
        **kwargs : Any
            Whatever ``model.generate`` takes: ``max_new_tokens``, ``do_sample``, ``temperature``, ``stop_strings``
            (with ``tokenizer``), ``return_dict_in_generate``, ...

        Returns
        -------
        LongTensor of shape (1, n_prompt + n_new) or GenerateDecoderOnlyOutput
            Prompt and new tokens; the second with ``return_dict_in_generate=True``.

        Raises
        ------
        ValueError
            For several prompts, beams, a cache that is not dynamic, another kind of assistance, inputs other than
            tokens, outputs other than scores and logits, or a text longer than a draft model has positions.
        """
        if kwargs.get("assistant_model") is not None:
            raise ValueError("assistant_model can't be combined with arms; make it one: Arm(draft=assistant_model)")
        if kwargs.get("synced_gpus"):
            raise ValueError(_SYNCED)
        tokenizer, stops = kwargs.pop("tokenizer", None), kwargs.pop("stop_strings", None)
        if stops is not None:
            if tokenizer is None:
                raise ValueError("stop_strings needs the tokenizer: generate(..., tokenizer=tokenizer)")
            stopping_criteria = StoppingCriteriaList(
                [*(stopping_criteria or []), StopStringCriteria(tokenizer=tokenizer, stop_strings=stops)]
            )
        if attention_mask is not None:
            kwargs["attention_mask"] = attention_mask
        # `generate` keeps a streamer for itself when the decoding is custom, so it goes along here
        decode = partial(self, streamer=streamer, generator=generator)
        return self.model.generate(  # type: ignore[operator]
            inputs,
            generation_config=generation_config,
            logits_processor=logits_processor,
            stopping_criteria=stopping_criteria,
            streamer=streamer,
            custom_generate=decode,
            **kwargs,
        )

    def __call__(
        self,
        model: PreTrainedModel,
        input_ids: LongTensor,
        logits_processor: LogitsProcessorList,
        stopping_criteria: StoppingCriteriaList,
        generation_config: GenerationConfig,
        synced_gpus: bool = False,
        streamer: BaseStreamer | None = None,
        inputs_tensor: LongTensor | None = None,
        generator: torch.Generator | None = None,
        **model_kwargs: Any,
    ) -> LongTensor | GenerateDecoderOnlyOutput:
        """Decode; this is what ``model.generate(..., custom_generate=bandit)`` calls."""
        self._check_call(model, input_ids, logits_processor, generation_config, synced_gpus, model_kwargs)
        rng = np.random.default_rng(self.random_state)
        if generator is None:
            generator = torch.Generator().manual_seed(int(rng.integers(2**63)))
        elif self.random_state is None:  # one seed repeats all
            rng = np.random.default_rng(int(torch.randint(2**62, (), generator=generator, device=generator.device)))
        mask, cache = model_kwargs.get("attention_mask"), model_kwargs.get(cache_keyword(model_kwargs))
        asked = bool(generation_config.return_dict_in_generate)
        with _evaluating([model, *(arm.draft for arm in self.arms if arm.draft is not None)]), torch.inference_mode():
            decoder = Decoder(
                CachedModel(model, mask, cache),
                input_ids,
                logits_processor=logits_processor,
                stopping_criteria=stopping_criteria,
                max_length=generation_config.max_length,
                do_sample=generation_config.do_sample,
                generator=generator,
                mask=mask,
                keep_scores=asked and bool(generation_config.output_scores),
                keep_logits=asked and bool(generation_config.output_logits),
            )
            self._rounds(decoder, self._bandit(rng), streamer)
        n = len(decoder.text.tokens)
        # Copies made here are ordinary tensors
        sequences = cast(LongTensor, decoder.text.ids(0, n).clone())
        if streamer is not None:
            streamer.end()
        if not asked:
            return sequences
        kept: dict[str, Any] = {
            name: None if values is None else tuple(value.clone() for value in values)
            for name, values in (("scores", decoder.scores), ("logits", decoder.logits))
        }
        kept[cache_keyword(GenerateDecoderOnlyOutput.__dataclass_fields__)] = decoder.target.cache
        return GenerateDecoderOnlyOutput(sequences=sequences, **kept)

    def _rounds(self, decoder: Decoder, selector: Selector, streamer: BaseStreamer | None) -> None:
        history: list[tuple[int, int, float]] = []
        gains: list[list[int]] = [[] for _ in self.arms]
        began = time.perf_counter()
        prompt = len(decoder.text.tokens)
        taken = decoder.prefill()
        while True:
            if streamer is not None:
                streamer.put(torch.tensor(taken))
            if decoder.finished:
                break
            start = time.perf_counter()
            arm = selector.select()
            room = decoder.max_length - len(decoder.text.tokens) - 1
            taken, gained, drafted = decoder.round(self.arms[arm])
            seconds = time.perf_counter() - start
            # A gain that the end of the text has cut says nothing about the arm
            if len(taken) == gained and self.arms[arm].length <= room:
                selector.update(arm, self._gain(arm, gained, drafted, seconds))
            history.append((arm, len(taken), seconds))
            gains[arm].append(gained)
        new = len(decoder.text.tokens) - prompt
        self.stats_ = {
            "rounds": len(history),
            "tokens": new,
            "mean_accepted": [sum(g) / len(g) if g else math.nan for g in gains],
            "pulls": [len(g) for g in gains],
            "history": history,
            "tokens_per_round": (new - 1) / len(history) if history else math.nan,
            "seconds": time.perf_counter() - began,
        }

    def _gain(self, arm: int, gained: int, drafted: int, seconds: float) -> float:
        """Return the reward of a round on the scale 1 ... L + 1 that the bandits expect."""
        if self.reward == "tokens":
            return float(gained)
        if self.reward == "cost":
            rate = gained / (1.0 + self._costs[arm] * drafted)  # at most L + 1
            return 1.0 + self.max_draft * rate / (self.max_draft + 1.0)
        self._speeds.append(gained / max(seconds, 1e-9))
        # Unbounded, so measured against a high quantile of medians of three, which one odd round can't move
        recent = sorted([*self._speeds][-3:])
        self._scaled.append(recent[len(recent) // 2])
        return 1.0 + self.max_draft * min(1.0, self._speeds[-1] / float(np.quantile(self._scaled, 0.95)))

    def _bandit(self, rng: np.random.Generator) -> Selector:
        if self.memory == "prompt":
            self.reset()
        if self._selector is None:
            self._selector = make_selector(
                self.algorithm,
                len(self.arms),
                max_draft=self.max_draft,
                delta=self.delta,
                scale=self.scale,
                discount=FORGETTING if self.memory == "discount" else 1.0,
                random_state=rng,
            )
        return self._selector

    def _check_vocabularies(self, model: PreTrainedModel) -> None:
        size = _vocabulary(model)
        for i, arm in enumerate(self.arms):
            if arm.draft is not None:
                _check_decoder(arm.draft, f"the draft of arm {i}")
                if _vocabulary(arm.draft) != size:
                    raise ValueError(
                        f"the vocabulary of arm {i} ({arm.label}) has {_vocabulary(arm.draft)} tokens, "
                        f"that of the model {size}; they must be the same"
                    )
            if arm.table is not None and arm.table.max_token_ >= size:
                raise ValueError(
                    f"the table of arm {i} ({arm.label}) holds token {arm.table.max_token_}, "
                    f"the vocabulary of the model has {size} tokens"
                )

    def _check_call(
        self,
        model: PreTrainedModel,
        input_ids: LongTensor,
        logits_processor: LogitsProcessorList,
        config: GenerationConfig,
        synced_gpus: bool,
        given: dict[str, Any],
    ) -> None:
        if model is not self.model:
            _check_decoder(model, "model")
            self._check_vocabularies(model)
        mode = config.get_generation_mode()
        if mode not in ("greedy_search", "sample"):
            raise ValueError(
                f"BanditSpec decodes greedily or by sampling, with num_beams=1; got settings for {str(mode.value)!r}"
            )
        if input_ids.shape[0] != 1 or input_ids.shape[1] == 0:
            raise ValueError(
                "inputs must be one prompt of at least one token, shape (1, n); "
                f"got {tuple(input_ids.shape)} (num_return_sequences counts as several prompts)"
            )
        if synced_gpus:
            raise ValueError(_SYNCED)
        for name in ("output_attentions", "output_hidden_states"):
            if config.return_dict_in_generate and getattr(config, name):
                raise ValueError(f"{name}=True is not supported; scores and logits are")
        cache: Any = given.get(cache_keyword(given))
        check_cache(cache, model)
        if cache.get_seq_length() >= input_ids.shape[1]:
            raise ValueError(
                f"a given cache must hold fewer tokens than inputs, which must hold the whole text; got "
                f"{cache.get_seq_length()} and {input_ids.shape[1]}"
            )
        known = {"attention_mask", "position_ids", "cache_position", "logits_to_keep", "use_cache"}
        other = sorted(
            name
            for name, value in given.items()
            if value is not None and name not in known | {cache_keyword(given)} and not isinstance(value, bool)
        )
        if other:
            raise ValueError(f"BanditSpec takes token prompts only, got {', '.join(other)}")
        check_processors(logits_processor)
        for i, arm in enumerate(self.arms):
            if arm.draft is None or not arm.length:
                continue
            places = getattr(arm.draft.config.get_text_config(), "max_position_embeddings", None)
            if places is not None and places < config.max_length:
                raise ValueError(
                    f"the draft of arm {i} ({arm.label}) has {places} positions, "
                    f"but the text may grow to {config.max_length} tokens"
                )


def _vocabulary(model: PreTrainedModel) -> int:
    return int(model.config.get_text_config().vocab_size)


def _check_decoder(model: Any, name: str) -> None:
    if not isinstance(model, PreTrainedModel) or not model.can_generate():
        raise TypeError(f"{name} must be a transformers model that can generate, got {type(model).__name__}")
    if model.config.is_encoder_decoder:
        raise ValueError(f"{name} must be a decoder; {type(model).__name__} has an encoder")


def _cost(arm: Arm, model: PreTrainedModel) -> float:
    if arm.cost is not None:
        return arm.cost
    return 0.0 if arm.draft is None else arm.draft.num_parameters() / model.num_parameters()


@contextmanager
def _evaluating(models: Sequence[PreTrainedModel]) -> Iterator[None]:
    training = [model for model in models if model.training]
    if training:
        names = ", ".join(sorted({type(model).__name__ for model in training}))
        warnings.warn(f"{names} is in training mode; evaluation mode is used while generating", UserWarning, 3)
    try:
        for model in training:
            model.eval()
        yield
    finally:
        for model in training:
            model.train()
