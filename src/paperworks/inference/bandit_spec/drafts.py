"""Arms: where drafted tokens come from. Tables and lookups in the text need no model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from paperworks._checks import check_integer, check_positive, extra

with extra("hf"):
    from transformers import PreTrainedModel

__all__ = ["MAX_LENGTH", "Arm", "Lookup", "NGramDraft", "as_arm"]

MAX_LENGTH = 64


class NGramDraft(BaseEstimator):
    """A table of continuations: after each context of up to ``order - 1`` tokens, the token that followed most often.

    Drafting looks up the longest context known and feeds the answer back. It costs microseconds, so it pays wherever
    texts resemble the ones it was fitted on.

    Parameters
    ----------
    order : int, default=4
        Tokens of the longest n-gram counted, context and continuation together; at least 1.

    Attributes
    ----------
    table_ : dict
        From a context, a tuple of at most ``order - 1`` tokens, to its most frequent continuation (the smallest token
        on ties).
    max_token_ : int
        The largest token seen.

    Examples
    --------
    >>> from paperworks.inference import NGramDraft
    >>> draft = NGramDraft(order=3).fit([[1, 2, 3, 1, 2, 3], [2, 4]])
    >>> draft.propose([9, 1, 2], 4)
    [3, 1, 2, 3]
    """

    def __init__(self, order: int = 4) -> None:
        self.order = order

    def fit(self, sequences: Iterable[Sequence[int]]) -> NGramDraft:
        """Count n-grams; none spans two sequences.

        Parameters
        ----------
        sequences : iterable of sequences of int
            Texts as lists, arrays or tensors of token numbers.

        Returns
        -------
        NGramDraft
            The fitted table.

        Raises
        ------
        ValueError
            If `order` is below 1, a token is negative, or there is no token at all.
        TypeError
            If a token is no integer.
        """
        order = check_integer(self.order, "order", minimum=1)
        texts = [_tokens(text) for text in sequences]
        if not any(texts):
            raise ValueError("sequences must hold at least one token, got none")
        table: dict[tuple[int, ...], int] = {}
        for size in range(1, order + 1):
            counts: Counter[tuple[int, ...]] = Counter()
            for text in texts:
                counts.update(zip(*(text[start:] for start in range(size)), strict=False))
            # Ascending by (count, -token): the last to be written is the most frequent, the smallest among equals
            for gram, _ in sorted(counts.items(), key=lambda item: (item[1], -item[0][-1])):
                table[gram[:-1]] = gram[-1]
        self.table_ = table
        self.max_token_ = max(max(text) for text in texts if text)
        return self

    def propose(self, prefix: Sequence[int], length: int) -> list[int]:
        """Draft a continuation.

        Parameters
        ----------
        prefix : sequence of int
            The text so far; may be empty.
        length : int
            Number of tokens wanted.

        Returns
        -------
        list of int
            `length` tokens.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If the table was not fitted.
        ValueError
            If `length` is negative.
        """
        check_is_fitted(self, "table_")
        check_integer(length, "length", minimum=0)
        reach, table = self.order - 1, self.table_
        context = tuple(int(token) for token in prefix[-reach:]) if reach else ()
        drafted: list[int] = []
        for _ in range(length):
            known = context
            while known not in table:
                known = known[1:]
            drafted.append(table[known])
            context = (*context, drafted[-1])[-reach:] if reach else ()
        return drafted


def _tokens(text: Any) -> list[int]:
    tokens = text.tolist() if hasattr(text, "tolist") else list(text)
    for token in tokens:
        if isinstance(token, bool) or not hasattr(token, "__index__"):
            raise TypeError(f"sequences must hold lists of integers, got {token!r} of type {type(token).__name__}")
    tokens = [int(token) for token in tokens]
    if tokens and min(tokens) < 0:
        raise ValueError(f"sequences must hold token numbers >= 0, got {min(tokens)}")
    return tokens


class Lookup:
    """What followed the latest occurrence of the text's last n-gram, the longest n first.

    Each n-gram's latest end is kept in a dictionary that grows with the text, so a proposal takes constant time.
    """

    def __init__(self, max_ngram: int) -> None:
        self.max_ngram = max_ngram
        self._ends: list[dict[tuple[int, ...], int]] = [{} for _ in range(max_ngram)]
        self._seen = 0

    def propose(self, prefix: Sequence[int], length: int) -> list[int]:
        """Return `length` tokens, or none if even the last token is new. The text must begin as in earlier calls."""
        # An n-gram enters once the token after it is there, so the end of the text never finds itself
        for end in range(max(self._seen, 1), len(prefix)):
            for n in range(1, min(self.max_ngram, end) + 1):
                self._ends[n - 1][tuple(prefix[end - n : end])] = end
        self._seen = max(self._seen, len(prefix))
        for n in range(min(self.max_ngram, len(prefix)), 0, -1):
            start = self._ends[n - 1].get(tuple(prefix[-n:]))
            if start is not None:
                period = len(prefix) - start  # a copy that reaches the end of the text goes on with itself
                return [prefix[start + i % period] for i in range(length)]
        return []


@dataclass(frozen=True, eq=False)
class Arm:
    """One configuration of speculative decoding: a draft and how many tokens it drafts per round.

    Exactly one of `draft`, `prompt_lookup` and `table` is given, or, with ``length=0``, possibly none: plain decoding.

    Parameters
    ----------
    draft : transformers.PreTrainedModel, optional
        A smaller model with the same vocabulary, on any device.
    length : int, default=4
        Tokens drafted per round, 0 to 64.
    prompt_lookup : int, optional
        Copy what followed the latest occurrence of the text's last n-gram, with n up to this number.
    table : NGramDraft, optional
        A fitted table of continuations.
    cost : float, optional
        Seconds of one drafted token over seconds of one target forward, for ``reward="cost"``. Default: the ratio of
        the numbers of parameters for a model, else 0.
    name : str, optional
        Name in messages; by default the kind of the draft.

    Raises
    ------
    ValueError
        If the arm has no draft or several, or a number is out of range.
    TypeError
        If a draft has the wrong type.

    Examples
    --------
    >>> from paperworks.inference import Arm
    >>> Arm(prompt_lookup=3, length=8).label
    'prompt lookup 3 x 8'
    """

    draft: PreTrainedModel | None = None
    length: int = 4
    prompt_lookup: int | None = None
    table: NGramDraft | None = None
    cost: float | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        check_integer(self.length, "length", minimum=0, maximum=MAX_LENGTH)
        kinds = [kind for kind in ("draft", "prompt_lookup", "table") if getattr(self, kind) is not None]
        if len(kinds) > 1 or (not kinds and self.length):
            raise ValueError(
                "an arm must have exactly one of draft, prompt_lookup and table, or length=0 for plain decoding; "
                f"got {' and '.join(kinds) or 'none'} with length={self.length}"
            )
        if self.draft is not None and not isinstance(self.draft, PreTrainedModel):
            raise TypeError(f"draft must be a transformers PreTrainedModel, got {type(self.draft).__name__}")
        if self.prompt_lookup is not None:
            check_integer(self.prompt_lookup, "prompt_lookup", minimum=1)
        if self.table is not None:
            if not isinstance(self.table, NGramDraft):
                raise TypeError(f"table must be an NGramDraft, got {type(self.table).__name__}")
            check_is_fitted(self.table, "table_")
        if self.cost is not None:
            check_positive(self.cost, "cost", zero_ok=True)

    @property
    def label(self) -> str:
        """Name of the arm, for messages."""
        if self.name is not None:
            return self.name
        if not self.length:
            return "plain"
        if self.draft is not None:
            return f"{type(self.draft).__name__} x {self.length}"
        return f"prompt lookup {self.prompt_lookup} x {self.length}" if self.prompt_lookup else f"table x {self.length}"


def as_arm(arm: Any) -> Arm:
    """Return an `Arm` from an `Arm`, a dict of its parameters or a draft model."""
    if isinstance(arm, Arm):
        return arm
    if isinstance(arm, PreTrainedModel):
        return Arm(draft=arm)
    if isinstance(arm, dict):
        unknown = sorted(set(arm) - set(Arm.__dataclass_fields__))
        if unknown:
            raise ValueError(f"an arm has {', '.join(Arm.__dataclass_fields__)}; got {', '.join(map(repr, unknown))}")
        return Arm(**arm)
    raise TypeError(f"each arm must be an Arm, a dict or a PreTrainedModel, got {type(arm).__name__}")
