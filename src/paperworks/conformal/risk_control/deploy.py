"""Deployment: draw until a candidate passes, else abstain."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from paperworks._checks import check_integer, extra

from .control import DistortionRiskControl

__all__ = ["GuardedGenerator"]


class GuardedGenerator:
    """A generator that shows only candidates below a calibrated cut-off, and abstains if it finds none.

    Parameters
    ----------
    generate : callable or str
        ``generate(prompt) -> text`` draws one candidate; or the name or folder of a `transformers` text-generation
        model, which is sampled with its own settings (needs ``paperworks[hf]``).
    score : callable
        ``score([text, ...]) -> array`` of machine scores, the scorer used in calibration. For a `transformers`
        classifier: ``lambda texts: [found["score"] for found in classifier(texts)]``.
    control : DistortionRiskControl
        A fitted control.
    max_tries : int, default=40
        Draws per prompt at most.

    Raises
    ------
    NotFittedError
        If `control` is not fitted.
    TypeError
        If `generate` or `score` can't be called.
    ValueError
        If `max_tries` < 1, or a score is NaN or comes in the wrong number.
    ImportError
        If `generate` names a model and `transformers` is not installed.

    Warns
    -----
    UserWarning
        If `max_tries` exceeds the candidates per prompt in calibration: the certificate speaks of the greatest loss
        among that many candidates, and later draws are not among them.

    Examples
    --------
    >>> import numpy as np
    >>> from paperworks.conformal import DistortionRiskControl, GuardedGenerator
    >>> scores = np.random.default_rng(0).random((200, 5))
    >>> control = DistortionRiskControl("mean", alpha=0.4).fit(scores, scores)
    >>> drafts = iter(["!" * 90, "!" * 20])
    >>> guard = GuardedGenerator(lambda prompt: next(drafts), lambda texts: [len(t) / 100 for t in texts], control, 5)
    >>> guard("Shout at me")
    ('!!!!!!!!!!!!!!!!!!!!', 2)
    """

    def __init__(
        self,
        generate: Callable[[str], str] | str,
        score: Callable[[list[str]], ArrayLike],
        control: DistortionRiskControl,
        max_tries: int = 40,
    ) -> None:
        if not isinstance(generate, str) and not callable(generate):
            raise TypeError(f"generate must be a function or the name of a model, got {generate!r}")
        if not callable(score):
            raise TypeError(f"score must be a function of a list of texts, got {score!r}")
        check_is_fitted(control, "lambda_")
        self.max_tries = check_integer(max_tries, "max_tries", minimum=1)
        if max_tries > control.n_candidates_:
            warnings.warn(
                f"max_tries = {max_tries} exceeds the {control.n_candidates_} candidates that each calibration prompt "
                "had; draws beyond them are outside the certificate",
                UserWarning,
                stacklevel=2,
            )
        self.generate = _TextModel(generate) if isinstance(generate, str) else generate
        self.score = score
        self.control = control

    def __call__(self, prompt: str) -> tuple[str | None, int]:
        """Return the first candidate that passes and the number of draws.

        Parameters
        ----------
        prompt : str
            What to answer.

        Returns
        -------
        text : str or None
            The candidate; None if none of `max_tries` passed.
        n_tries : int
            Draws made.
        """
        for n_tries in range(1, self.max_tries + 1):
            text = self.generate(prompt)
            scores = np.asarray(self.score([text]), dtype=np.float64)
            if scores.size != 1 or np.isnan(scores).any():
                raise ValueError(f"score must return one number per text, none NaN; got {scores!r} for one text")
            if scores.item() <= self.control.lambda_:
                return text, n_tries
        return None, self.max_tries


class _TextModel:
    def __init__(self, name: str) -> None:
        with extra("hf"):
            from transformers import pipeline
        self.pipeline: Any = pipeline("text-generation", model=name)

    def __call__(self, prompt: str) -> str:
        return str(self.pipeline(prompt, do_sample=True, return_full_text=False)[0]["generated_text"])
