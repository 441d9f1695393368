"""One text being decoded: the tokens so far, the caches, and one speculative round after another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from paperworks._checks import extra

from .cached import CachedModel
from .drafts import Arm, Lookup
from .verify import draw, greedy_accept, sampled_accept, uniforms

with extra("hf"):
    import torch
    from torch import LongTensor, Tensor
    from transformers import LogitsProcessorList
    from transformers.generation import logits_process as processors
    from transformers.generation.stopping_criteria import EosTokenCriteria, MaxLengthCriteria, StoppingCriteriaList

__all__ = ["Decoder", "check_processors"]

# Each row of scores is changed by itself, whatever the text: several positions at once are the same as one by one.
_ROW_WISE = tuple(
    getattr(processors, name)
    for name in (
        "TemperatureLogitsWarper",
        "TopKLogitsWarper",
        "TopPLogitsWarper",
        "MinPLogitsWarper",
        "TypicalLogitsWarper",
        "EpsilonLogitsWarper",
        "EtaLogitsWarper",
    )
)
# These keep a state that advances with each call, which a rejected draft can't take back.
_STATEFUL = (
    processors.UnbatchedClassifierFreeGuidanceLogitsProcessor,
    processors.SynthIDTextWatermarkLogitsProcessor,
)


def check_processors(logits_processor: LogitsProcessorList) -> None:
    """Raise for logits processors whose state can't be taken back when a draft is rejected."""
    for processor in logits_processor:
        if isinstance(processor, _STATEFUL):
            raise ValueError(
                f"{type(processor).__name__} keeps a state that a rejected draft can't take back; "
                "use model.generate for it"
            )


class Text:
    """The text so far, as a list for lookups and as a tensor for models; drafts are staged behind its end."""

    def __init__(self, ids: Tensor, room: int) -> None:
        self.tokens: list[int] = ids[0].tolist()
        self._buffer = torch.cat([ids, ids.new_zeros(1, room)], dim=1)

    def stage(self, place: int, tokens: Tensor) -> None:
        """Write drafted tokens `place` positions behind the end."""
        start = len(self.tokens) + place
        if start + len(tokens) > self._buffer.shape[1]:
            self._buffer = torch.cat([self._buffer, torch.zeros_like(self._buffer)], dim=1)
        self._buffer[0, start : start + len(tokens)] = tokens

    def append(self, token: int) -> None:
        """Add one token for good."""
        if len(self.tokens) == self._buffer.shape[1]:
            self._buffer = torch.cat([self._buffer, torch.zeros_like(self._buffer)], dim=1)
        self._buffer[0, len(self.tokens)] = token
        self.tokens.append(token)

    def ids(self, start: int, stop: int) -> LongTensor:
        """Return positions start to stop, staged ones included, with shape (1, stop - start)."""
        return cast(LongTensor, self._buffer[:, start:stop])


class Decoder:
    """Decodes one text. Each round drafts with the arm it is told to use and verifies with one target forward."""

    def __init__(
        self,
        target: CachedModel,
        ids: Tensor,
        *,
        logits_processor: LogitsProcessorList,
        stopping_criteria: StoppingCriteriaList,
        max_length: int,
        do_sample: bool,
        generator: torch.Generator | None,
        mask: Tensor | None,
        keep_scores: bool = False,
        keep_logits: bool = False,
    ) -> None:
        self.target, self.mask = target, mask
        self.n_prompt = ids.shape[1]
        self.text = Text(ids, min(max_length - ids.shape[1], 1024) + 1)
        self.processors = logits_processor
        self.row_wise = all(type(processor) in _ROW_WISE for processor in logits_processor)
        self.do_sample, self.generator = do_sample, generator
        self.ends: set[int] = set()
        self.max_length = max_length
        self.criteria = StoppingCriteriaList()
        for criterion in stopping_criteria:
            # The two usual ones are read off here; the others are asked after every token, as `generate` does
            if type(criterion) is EosTokenCriteria:
                self.ends.update(criterion.eos_token_id.tolist())
            elif type(criterion) is MaxLengthCriteria:
                self.max_length = min(self.max_length, criterion.max_length)
            else:
                self.criteria.append(criterion)
        self.scores: list[Tensor] | None = [] if keep_scores else None
        self.logits: list[Tensor] | None = [] if keep_logits else None
        self.finished = False
        self._drafts: dict[int, CachedModel] = {}
        self._lookups: dict[int, Lookup] = {}

    def prefill(self) -> list[int]:
        """Feed the prompt and return the first new token."""
        logits = self.target.forward(self.text.ids(self.target.length, len(self.text.tokens)), 1)
        self.target.crop(self.target.length)
        return self._take(self._judge(logits, None, None))

    def round(self, arm: Arm) -> tuple[list[int], int, int]:
        """Run one round; return the new tokens, how many were gained before any cut, and how many were drafted."""
        text, target = self.text, self.target
        n = len(text.tokens)
        gamma = min(arm.length, self.max_length - n - 1)
        drafted, probabilities = self._propose(arm, gamma) if gamma > 0 else (None, None)
        count = 0 if drafted is None else len(drafted)
        logits = target.forward(text.ids(n - 1, n + count), count + 1)
        gained = self._judge(logits, drafted, probabilities)
        target.crop(n - 1 + len(gained))
        if arm.draft is not None and (cached := self._drafts.get(id(arm.draft))) is not None and count:
            # What it was fed beyond the text is right as far as the draft was accepted
            cached.crop(min(cached.length, n - 1 + len(gained)))
        return self._take(gained), len(gained), count

    def _propose(self, arm: Arm, gamma: int) -> tuple[Tensor | None, Tensor | None]:
        if arm.draft is not None:
            return self._draft(arm.draft, gamma)
        if arm.table is not None:
            proposal = arm.table.propose(self.text.tokens, gamma)
        else:
            if id(arm) not in self._lookups:
                self._lookups[id(arm)] = Lookup(arm.prompt_lookup or 1)
            proposal = self._lookups[id(arm)].propose(self.text.tokens, gamma)
        if not proposal:
            return None, None
        drafted = torch.tensor(proposal, device=self.target.device)
        self.text.stage(0, drafted)
        return drafted, None

    def _draft(self, model: Any, gamma: int) -> tuple[Tensor, Tensor | None]:
        """Draft with a model: one forward catches up with the text, then token by token."""
        cached = self._drafts.get(id(model))
        if cached is None:
            cached = self._drafts[id(model)] = CachedModel(model, self.mask)
        text, device = self.text, self.target.device
        n = len(text.tokens)
        given: Tensor = text.ids(cached.length, n)
        u = uniforms(gamma, device, self.generator) if self.do_sample else None
        probabilities = []
        for j in range(gamma):
            # On the target's device, where processors keep their tensors
            row = cached.forward(given, 1).to(device=device, dtype=torch.float32)
            if self.processors:
                row = self.processors(text.ids(0, n + j), row)
            if u is None:
                token = row.argmax(dim=-1)
            else:
                probabilities.append(torch.softmax(row, dim=-1))
                token = draw(probabilities[-1][0], u[j : j + 1])
            text.stage(j, token)
            given = token[None]
        return text.ids(n, n + gamma)[0], torch.cat(probabilities) if probabilities else None

    def _judge(self, logits: Tensor, drafted: Tensor | None, probabilities: Tensor | None) -> list[int]:
        """Return the tokens gained; each position is judged with the text that would have stood before it."""
        text = self.text
        n = len(text.tokens)
        rows = logits.to(device=text.ids(0, 1).device, dtype=torch.float32)
        if drafted is None:
            drafted = text.ids(n, n)[0]
        if self.row_wise:
            scores = self.processors(text.ids(0, n), rows) if self.processors else rows
            gained = self._accept(scores, drafted, probabilities)
            judged = [scores]
        else:
            gained, judged = [], []
            for j in range(len(rows)):
                # Past the first rejection no such text exists, so no processor is asked about it
                judged.append(self.processors(text.ids(0, n + j), rows[j : j + 1].clone()))
                if j == len(drafted):
                    gained += self._accept(judged[-1], drafted[:0], None)
                    break
                q = None if probabilities is None else probabilities[j : j + 1]
                got = self._accept(judged[-1].expand(2, -1), drafted[j : j + 1], q)
                gained.append(got[0])
                if len(got) == 1:
                    break
        if self.scores is not None:
            self.scores += torch.cat(judged).split(1)[: len(gained)]
        if self.logits is not None:
            self.logits += rows.split(1)[: len(gained)]
        return gained

    def _accept(self, scores: Tensor, drafted: Tensor, probabilities: Tensor | None) -> list[int]:
        if self.do_sample:
            return sampled_accept(scores, drafted, probabilities, self.generator)
        return greedy_accept(scores, drafted.tolist())

    def _take(self, gained: Sequence[int]) -> list[int]:
        """Append tokens up to the first at which the text ends."""
        text, taken = self.text, []
        for token in gained:
            text.append(token)
            taken.append(token)
            if token in self.ends or len(text.tokens) >= self.max_length or self._met():
                self.finished = True
                break
        if (excess := len(gained) - len(taken)) > 0:
            for kept in (self.scores, self.logits):
                if kept is not None:
                    del kept[-excess:]
        return taken

    def _met(self) -> bool:
        if not self.criteria:
            return False
        n = len(self.text.tokens)
        scores = None if self.scores is None else tuple(self.scores[: n - self.n_prompt])
        return bool(self.criteria(self.text.ids(0, n), scores).all())
