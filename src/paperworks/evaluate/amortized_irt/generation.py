"""Texts: their embeddings as item features, and new questions of a wanted difficulty (section 3.5)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from paperworks._checks import check_choice, check_finite_array, check_integer, check_positive, extra

from .amortized import AmortizedIRT

__all__ = ["DifficultyConditionedGenerator", "embed_texts"]

Floats = NDArray[np.float64]


def embed_texts(
    texts: Sequence[str], model: Any, pooling: Literal["last", "mean"] = "last", batch_size: int = 8
) -> NDArray[np.float32]:
    """Embed texts with the last hidden layer of a language model.

    Parameters
    ----------
    texts : sequence of str
        What to embed, none empty.
    model : str or tuple of (model, tokenizer)
        Name or folder of a `transformers` model, or a loaded pair: ``model(input_ids=..., attention_mask=...)`` returns
        an object with ``last_hidden_state``, ``tokenizer(texts)["input_ids"]`` one list of numbers per text.
    pooling : {"last", "mean"}, default="last"
        The last token's vector (the paper's choice, for causal models) or the mean over tokens.
    batch_size : int, default=8
        Texts at a time.

    Returns
    -------
    ndarray of shape (n_texts, width)
        Features for `AmortizedIRT`.

    Raises
    ------
    ValueError
        If there is no text, one has no token, or an option is unknown.
    ImportError
        If torch, or for a name `transformers`, is not installed.

    Examples
    --------
    >>> import torch
    >>> from types import SimpleNamespace
    >>> from paperworks.evaluate import embed_texts
    >>> letters = torch.nn.Embedding(128, 3)
    >>> def model(input_ids, attention_mask):
    ...     return SimpleNamespace(last_hidden_state=letters(input_ids))
    >>> def tokenizer(texts):
    ...     return {"input_ids": [[ord(letter) for letter in text] for text in texts]}
    >>> embed_texts(["2 + 2?", "7 * 8?", "Why?"], (model, tokenizer)).shape
    (3, 3)
    """
    check_choice(pooling, "pooling", ("last", "mean"))
    check_integer(batch_size, "batch_size", minimum=1)
    texts = _check_texts(texts)
    if not texts:
        raise ValueError("texts must hold at least one text, got none")
    with extra("hf"):
        import torch
    if isinstance(model, str):
        with extra("hf"):
            from transformers import AutoModel, AutoTokenizer
        model, tokenizer = AutoModel.from_pretrained(model), AutoTokenizer.from_pretrained(model)
        model.eval()
    else:
        model, tokenizer = model
    place = getattr(model, "device", None)
    pieces = []
    for low in range(0, len(texts), batch_size):
        tokens = [
            torch.as_tensor(ids, dtype=torch.long) for ids in tokenizer(texts[low : low + batch_size])["input_ids"]
        ]
        lengths = torch.tensor([len(ids) for ids in tokens], device=place)
        if int(lengths.min()) == 0:
            raise ValueError(f"the tokenizer finds no token in {texts[low + int(lengths.argmin())]!r}")
        padded = torch.nn.utils.rnn.pad_sequence(tokens, batch_first=True).to(place)
        mask = (torch.arange(padded.shape[1], device=place) < lengths[:, None]).long()
        with torch.no_grad():
            hidden = model(input_ids=padded, attention_mask=mask).last_hidden_state.float()
        if pooling == "last":
            vectors = hidden[torch.arange(len(tokens), device=hidden.device), lengths.to(hidden.device) - 1]
        else:
            share = (mask / lengths[:, None]).to(hidden.device)
            vectors = torch.einsum("ntd,nt->nd", hidden, share)
        pieces.append(vectors.cpu().numpy().astype(np.float32, copy=False))
    return np.concatenate(pieces)


class DifficultyConditionedGenerator:
    """Writes questions of a wanted difficulty with a causal language model.

    Candidates are sampled, embedded and judged by `AmortizedIRT`; those nearest to the wanted difficulty stay.
    Fine-tune the model on `sft_dataset` first, so that it has seen what the number in the request means, or train it
    further with `reward`; sampling and keeping is the rejection form of the same reward.

    Parameters
    ----------
    model : object
        Causal language model with ``generate``, as `transformers` makes them. Only `generate` uses it.
    tokenizer : object
        Its tokenizer.
    amortized : AmortizedIRT
        Fitted model that predicts difficulties from embeddings.
    embed : callable
        ``embed(texts) -> array of shape (n_texts, n_features)``, the embedding that `amortized` was fitted on.
    device : str or torch.device, optional
        Where the request is put; the model's own device by default.
    generator : torch.Generator, optional
        Source of the sampling; by default torch's global one.

    Raises
    ------
    NotFittedError
        If `amortized` is not fitted.
    TypeError
        If `embed` can't be called.

    See Also
    --------
    AmortizedIRT : Predicts the difficulties.

    References
    ----------
    .. [1] Truong, Tu, Liang, Li and Koyejo, "Reliable and Efficient Amortized Model-based Evaluation", ICML 2025.

    Examples
    --------
    >>> import numpy as np
    >>> from paperworks.evaluate import AmortizedIRT, DifficultyConditionedGenerator
    >>> rng = np.random.default_rng(0)
    >>> length = rng.integers(1, 9, size=200)                   # longer questions are harder here
    >>> Y = rng.random((30, 200)) < 1 / (1 + np.exp(length - 5.0 - rng.normal(size=(30, 1))))
    >>> amortized = AmortizedIRT(random_state=0).fit(Y, length[:, None].astype(float))
    >>> def embed(texts):
    ...     return [[len(text.split())] for text in texts]
    >>> writer = DifficultyConditionedGenerator(None, None, amortized, embed)
    >>> easy, hard = writer.reward(["Why?", "Why did nobody come to see it today?"], [-4.0, -4.0])
    >>> bool(easy > hard)
    True
    >>> writer.sft_dataset(["Why?"], [-4.0], "short questions")[0]["messages"][1]
    {'role': 'assistant', 'content': 'Why?'}
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        amortized: AmortizedIRT,
        embed: Callable[[list[str]], ArrayLike],
        *,
        device: Any = None,
        generator: Any = None,
    ) -> None:
        check_is_fitted(amortized, "predictor_")
        if not callable(embed):
            raise TypeError(f"embed must be a function of a list of texts, got {embed!r}")
        self.model = model
        self.tokenizer = tokenizer
        self.amortized = amortized
        self.embed = embed
        self.device = device
        self.generator = generator

    def sft_dataset(
        self, texts: Sequence[str], difficulties: ArrayLike, claim: str = "questions"
    ) -> list[dict[str, list[dict[str, str]]]]:
        """Build chat examples for supervised fine-tuning.

        Parameters
        ----------
        texts : sequence of str
            Questions.
        difficulties : array-like of shape (n_texts,)
            Their difficulties, which the requests state with two decimals.
        claim : str, default="questions"
            What the bank holds, in a few words; give the same to `generate`.

        Returns
        -------
        list of dict
            ``{"messages": [request, question]}`` each, the form that `trl` and ``datasets.Dataset.from_list`` take.

        Raises
        ------
        ValueError
            If the lengths differ, or a difficulty is not finite.
        """
        texts = _check_texts(texts)
        values = check_finite_array(difficulties, "difficulties", ndim=1)
        if len(values) != len(texts):
            raise ValueError(f"difficulties must hold one number per text, {len(texts)}; got {len(values)}")
        return [
            {"messages": [_request(value, claim), {"role": "assistant", "content": text}]}
            for text, value in zip(texts, values.tolist(), strict=True)
        ]

    def reward(self, texts: Sequence[str], targets: ArrayLike) -> Floats:
        """Return minus the distance between predicted and wanted difficulty.

        Parameters
        ----------
        texts : sequence of str
            Questions.
        targets : array-like of shape (n_texts,) or float
            Wanted difficulties.

        Returns
        -------
        ndarray of shape (n_texts,)
            Rewards, at most 0, for PPO or GRPO.

        Raises
        ------
        ValueError
            If the lengths differ, or a target is not finite.
        """
        texts = _check_texts(texts)
        wanted = check_finite_array(targets, "targets")
        if wanted.shape not in ((), (len(texts),)):
            raise ValueError(f"targets must be one number or one per text, {len(texts)}; got shape {wanted.shape}")
        return -np.abs(self._difficulty(texts) - wanted)

    def generate(
        self,
        target: float,
        n: int,
        best_of: int = 16,
        *,
        claim: str = "questions",
        max_new_tokens: int = 256,
        temperature: float = 1.0,
        batch_size: int = 16,
    ) -> pd.DataFrame:
        """Write questions near a wanted difficulty.

        Parameters
        ----------
        target : float
            Wanted difficulty.
        n : int
            Number of questions.
        best_of : int, default=16
            Candidates per question: the `n` of ``n * best_of`` nearest to `target` are kept.
        claim : str, default="questions"
            What the bank holds, as given to `sft_dataset`.
        max_new_tokens : int, default=256
            Greatest length of a candidate.
        temperature : float, default=1.0
            Temperature of the sampling.
        batch_size : int, default=16
            Candidates at a time.

        Returns
        -------
        DataFrame of shape (n, 2)
            ``text`` and predicted ``difficulty``, the nearest first; fewer rows if the candidates that are neither
            empty nor said twice are fewer.

        Raises
        ------
        ValueError
            If `target` is not finite, or a number is out of range.
        ImportError
            If torch is not installed.
        """
        wanted = float(check_finite_array(target, "target", ndim=0))
        check_integer(n, "n", minimum=1)
        check_integer(best_of, "best_of", minimum=1)
        check_integer(max_new_tokens, "max_new_tokens", minimum=1)
        check_integer(batch_size, "batch_size", minimum=1)
        check_positive(temperature, "temperature")
        with extra("hf"):
            import torch
        encoded = self._encode(_request(wanted, claim))
        tokens = torch.as_tensor([encoded], dtype=torch.long)
        tokens = tokens.to(self.device if self.device is not None else getattr(self.model, "device", None))
        drawn: list[str] = []
        state = torch.random.get_rng_state() if self.generator is not None else None
        try:
            if self.generator is not None:
                # `generate` knows the global source only: seed that, and put it back afterwards.
                torch.manual_seed(int(torch.randint(2**62, (), generator=self.generator, device=self.generator.device)))
            while len(drawn) < n * best_of:
                count = min(batch_size, n * best_of - len(drawn))
                with torch.no_grad():
                    out = self.model.generate(
                        input_ids=tokens.expand(count, -1),
                        attention_mask=torch.ones_like(tokens).expand(count, -1),
                        do_sample=True,
                        temperature=temperature,
                        max_new_tokens=max_new_tokens,
                        pad_token_id=self._pad(),
                    )
                new = out[:, tokens.shape[1] :].tolist()
                drawn += [self.tokenizer.decode(row, skip_special_tokens=True).strip() for row in new]
        finally:
            if state is not None:
                torch.random.set_rng_state(state)
        texts = [text for text in dict.fromkeys(drawn) if text]
        difficulty = self._difficulty(texts) if texts else np.empty(0)
        nearest = np.argsort(np.abs(difficulty - wanted), kind="stable")[:n]
        return pd.DataFrame({"text": [texts[i] for i in nearest], "difficulty": difficulty[nearest]})

    def _difficulty(self, texts: list[str]) -> Floats:
        predicted = self.amortized.predict_difficulty(self.embed(texts))
        if len(predicted) != len(texts):
            raise ValueError(f"embed must return one row per text, {len(texts)}; got {len(predicted)}")
        return np.asarray(predicted, dtype=np.float64)

    def _encode(self, message: dict[str, str]) -> list[int]:
        if getattr(self.tokenizer, "chat_template", None):
            text = self.tokenizer.apply_chat_template([message], add_generation_prompt=True, tokenize=False)
            return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])
        return list(self.tokenizer(message["content"] + "\n\n")["input_ids"])

    def _pad(self) -> int | None:
        for name in ("pad_token_id", "eos_token_id"):
            token: int | None = getattr(self.tokenizer, name, None)
            if token is not None:
                return token
        return None


def _request(difficulty: float, claim: str) -> dict[str, str]:
    content = (
        f"Write one new item for a bank of {claim}. Its difficulty on the bank's scale, where 0 suits the average "
        f"taker and larger is harder, shall be {difficulty:.2f}. Answer with the item alone."
    )
    return {"role": "user", "content": content}


def _check_texts(texts: Sequence[str]) -> list[str]:
    if isinstance(texts, str):
        raise TypeError("texts must be a sequence of texts, got a single one")
    listed = list(texts)
    for text in listed:
        if not isinstance(text, str):
            raise TypeError(f"texts must hold texts, got {text!r}")
    return listed
