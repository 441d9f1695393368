"""A causal language model with its key-value cache: feed tokens, take logits, go back."""

from __future__ import annotations

import inspect
from typing import Any

from paperworks._checks import extra

with extra("hf"):
    import torch
    from torch import Tensor
    from transformers import DynamicCache

__all__ = ["CachedModel", "cache_keyword", "check_cache"]


def cache_keyword(parameters: Any) -> str:
    """Return what this release of transformers calls a cache among these names."""
    return "cache" if "cache" in parameters else "past_key_values"


def check_cache(cache: Any, model: Any) -> None:
    """Raise unless the cache can be cut back after a rejected draft, as far as that is known before the first token."""
    if not isinstance(cache, DynamicCache):
        raise ValueError(
            "assisted decoding needs a dynamic cache (use_cache=True and no cache_implementation), "
            f"got {type(cache).__name__}"
        )
    linear = list(getattr(cache, "is_linear", ()))
    if linear and all(linear):
        raise ValueError(f"the cache of {type(model).__name__} is a running state, which a draft can't take back")


class CachedModel:
    """One model, one cache; `length` tokens of the text are in it.

    Parameters
    ----------
    model : transformers.PreTrainedModel
        A decoder-only model.
    mask : Tensor of shape (1, n_prompt) or None
        Attention mask of the prompt; None means all ones.
    cache : transformers.DynamicCache, optional
        A cache to use instead of a new one.
    """

    def __init__(self, model: Any, mask: Tensor | None = None, cache: Any = None) -> None:
        self.model = model
        self.device = model.device
        parameters = inspect.signature(model.forward).parameters
        self._keyword = cache_keyword(parameters)
        self._keeps = "logits_to_keep" in parameters
        self._mask = None if mask is None else mask.to(self.device)
        self._places = "position_ids" in parameters
        self.cache = DynamicCache(config=model.config.get_text_config(decoder=True)) if cache is None else cache
        check_cache(self.cache, model)
        if hasattr(self.cache, "activate_past_recording"):
            self.cache.activate_past_recording()
        self.length = int(self.cache.get_seq_length())
        self._checked = False

    def forward(self, ids: Tensor, keep: int) -> Tensor:
        """Feed the next tokens, shape (1, n), and return the logits of the last `keep` positions, (keep, V)."""
        ids = ids.to(self.device)
        given: dict[str, Any] = {self._keyword: self.cache, "use_cache": True}
        if self._keeps:
            given["logits_to_keep"] = keep
        if self._mask is not None:
            given |= self._padded(self._mask, ids.shape[1])
        output = self.model(ids, **given)
        self.length += ids.shape[1]
        if not self._checked:  # some layers know only now whether they can go back
            self._checked = True
            if not getattr(self.cache, "is_croppable", True):
                raise ValueError(f"the cache of {type(self.model).__name__} can't be cut back, as drafts need")
        return output.logits[0, -keep:]

    def _padded(self, mask: Tensor, n: int) -> dict[str, Tensor]:
        missing = self.length + n - mask.shape[1]
        if missing > 0:
            mask = self._mask = torch.cat([mask, mask.new_ones(1, missing)], dim=1)
        mask = mask[:, : self.length + n]
        given = {"attention_mask": mask}
        if self._places:
            given["position_ids"] = (mask.long().cumsum(-1) - 1).clamp(min=0)[:, -n:]
        return given

    def crop(self, length: int) -> None:
        """Forget all but the first `length` tokens; to be called after each block, even if nothing goes."""
        self.cache.crop(length - self.length)
        self.length = length
