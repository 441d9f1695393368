"""Acceptance: which drafted tokens stay, so that the text follows the target's law exactly."""

from __future__ import annotations

import math

from paperworks._checks import extra

with extra("hf"):
    import torch
    from torch import Tensor

__all__ = ["draw", "speculative_accept"]

_NO_TOKEN = "the target's logits must allow at least one token at each position and hold no NaN"


def draw(probabilities: Tensor, uniform: Tensor) -> Tensor:
    """Return the token whose interval of the distribution function holds `uniform`; weights need not sum to 1."""
    edges = probabilities.double().cumsum(-1)
    total = edges[-1:]
    # Below the total even after rounding, so that a token of weight 0 is never drawn
    place = torch.minimum(uniform.double() * total, torch.nextafter(total, torch.zeros_like(total)))
    return torch.searchsorted(edges, place, right=True).clamp(max=len(edges) - 1)


def uniforms(n: int, device: torch.device, generator: torch.Generator | None) -> Tensor:
    """Return `n` uniform numbers on `device`, drawn where the generator lives."""
    where = generator.device if generator is not None else device
    return torch.rand(n, dtype=torch.float64, device=where, generator=generator).to(device)


def speculative_accept(
    target_logits: Tensor,
    draft_ids: Tensor,
    draft_probs: Tensor | None = None,
    do_sample: bool = False,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Accept a prefix of the drafted tokens and add one of the target's own.

    Greedy: the longest prefix equal to the target's most likely tokens, then its most likely token. Sampling: token x
    stays with probability min(1, P(x) / Q(x)); at the first rejection a token comes from the positive part of P - Q,
    after the last acceptance from P. Both give the law that the target alone gives (Proposition 3.1).

    Parameters
    ----------
    target_logits : Tensor of shape (n_drafted + 1, vocabulary)
        The target's logits, after logits processors, at each drafted position and the one behind them.
    draft_ids : LongTensor of shape (n_drafted,)
        The drafted tokens; may be empty.
    draft_probs : Tensor of shape (n_drafted, vocabulary), optional
        The law each token was drawn from. Default: the tokens were not drawn, Q is a point mass.
    do_sample : bool, default=False
        Whether to sample.
    generator : torch.Generator, optional
        Source of the random numbers; by default torch's own.

    Returns
    -------
    LongTensor of shape (n_gained,)
        Between 1 and n_drafted + 1 tokens.

    Raises
    ------
    ValueError
        If shapes disagree, a token is outside the vocabulary, or the logits of a position are NaN or all -infinity.

    References
    ----------
    Hou et al., "BanditSpec: Adaptive Speculative Decoding via Bandit Algorithms", ICML 2025, Algorithm 3.

    Examples
    --------
    >>> import torch
    >>> from paperworks.inference import speculative_accept
    >>> logits = torch.eye(4)[[2, 3, 0]]  # the target would say 2, 3, 0
    >>> speculative_accept(logits, torch.tensor([2, 1]))
    tensor([2, 3])
    """
    if target_logits.ndim != 2 or draft_ids.ndim != 1 or len(target_logits) != len(draft_ids) + 1:
        raise ValueError(
            "target_logits must have shape (n_drafted + 1, vocabulary) and draft_ids (n_drafted,), "
            f"got {tuple(target_logits.shape)} and {tuple(draft_ids.shape)}"
        )
    n, vocabulary = len(draft_ids), target_logits.shape[1]
    if draft_probs is not None and draft_probs.shape != (n, vocabulary):
        raise ValueError(f"draft_probs must have shape {(n, vocabulary)}, got {tuple(draft_probs.shape)}")
    device = target_logits.device
    draft_ids = draft_ids.to(device)
    if n and not bool(((draft_ids >= 0) & (draft_ids < vocabulary)).all()):
        raise ValueError(f"draft_ids must lie in [0, {vocabulary - 1}], got {draft_ids.tolist()}")
    if not do_sample:
        return torch.tensor(greedy_accept(target_logits, draft_ids.tolist()), device=device)
    return torch.tensor(sampled_accept(target_logits, draft_ids, draft_probs, generator), device=device)


def greedy_accept(target_logits: Tensor, drafted: list[int]) -> list[int]:
    """Return the tokens gained by greedy acceptance."""
    peaks, choices = target_logits.max(dim=-1)
    best = choices.tolist()
    n = 0
    while n < len(drafted) and drafted[n] == best[n]:
        n += 1
    if not all(peak > -math.inf for peak in peaks[: n + 1].tolist()):  # NaN compares false
        raise ValueError(_NO_TOKEN)
    return best[: n + 1]


def sampled_accept(
    target_logits: Tensor, draft_ids: Tensor, draft_probs: Tensor | None, generator: torch.Generator | None
) -> list[int]:
    """Return the tokens gained by rejection sampling, with one transfer from the device."""
    n, device = len(draft_ids), target_logits.device
    p = torch.softmax(target_logits.float(), dim=-1)
    u = uniforms(n + 1, device, generator)
    if n == 0:
        kept, weights = torch.zeros((), dtype=torch.long, device=device), p[0]
    else:
        rows = torch.arange(n, device=device)
        px = p[rows, draft_ids]
        if draft_probs is None:  # Q is a point mass: q(x) = 1, and [P - Q]+ is P without x
            qx: Tensor | float = 1.0
        else:
            q = draft_probs.to(device).float()
            qx = q[rows, draft_ids]
        # u < P / Q without the division; P = 0 never passes
        kept = (u[:n] * qx < px).long().cumprod(0).sum()
        if draft_probs is None:
            rest = p[:n].scatter(1, draft_ids[:, None], 0.0)
        else:
            rest = (p[:n] - q).clamp(min=0.0)
        # P = Q up to rounding: a rejection has probability 0, P itself is the limit
        rest = torch.where(rest.sum(-1, keepdim=True) > 0.0, rest, p[:n])
        weights = torch.cat([rest, p[n:]]).index_select(0, kept[None])[0]
    token = draw(weights, u[n:])
    valid = torch.isfinite(p.sum(-1)).long().cumprod(0).index_select(0, kept[None])
    *drafted, own, count, usable = torch.cat([draft_ids, token, kept[None], valid]).tolist()
    if not usable:
        raise ValueError(_NO_TOKEN)
    return [*drafted[:count], own]
