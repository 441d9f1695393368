"""How alike two domains are, and whether a new one may join the container (equations 12 to 15)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from paperworks._checks import check_positive, extra

with extra("torch"):
    import torch
    from torch import Tensor

__all__ = ["contrastive_loss", "domain_distance", "synapse_gate", "train_extractor"]

_STEPS, _RATE, _PAIRS = 300, 1e-2, 64


def domain_distance(A: Any, B: Any) -> float:
    """Return the mean squared difference of two domains, window by window.

    For windows that are z-scored it is ``2 (1 - correlation)``. Windows must not be averaged before.

    Parameters
    ----------
    A, B : array-like or torch.Tensor of shape (windows, ...)
        Windows of the same times, or their embeddings, one row each.

    Returns
    -------
    float
        The distance, at least 0.

    Raises
    ------
    ValueError
        If shapes differ, there is no window, or values are not finite.

    Examples
    --------
    >>> from paperworks.dynamics import domain_distance
    >>> domain_distance([[1.0, -1.0]], [[-1.0, 1.0]])
    4.0
    """
    a, b = (np.asarray(v.detach().cpu() if torch.is_tensor(v) else v, dtype=float) for v in (A, B))
    if a.shape != b.shape or a.size == 0:
        raise ValueError(f"A and B must have the same shape and at least one window, got {a.shape} and {b.shape}")
    distance = float(np.mean((a - b) ** 2))
    if not np.isfinite(distance):
        raise ValueError("A and B must be finite, got NaN or infinite values")
    return distance


def contrastive_loss(Ei: Tensor, Ej: Tensor, same: Tensor, margin: float) -> Tensor:
    """Return the contrastive loss of pairs: distance for pairs of one domain, what lacks to `margin` for others.

    Parameters
    ----------
    Ei, Ej : torch.Tensor of shape (pairs, ...)
        Embeddings; the distance D is the mean squared difference over all but the first axis.
    same : torch.Tensor of shape (pairs,)
        1 or True where both are of one domain.
    margin : float
        Distance beyond which different domains cost nothing.

    Returns
    -------
    torch.Tensor
        Mean over the pairs of ``same D + (1 - same) max(0, margin - D)`` (equation 13).

    Raises
    ------
    ValueError
        If shapes do not fit or `margin` is not positive.

    Examples
    --------
    >>> import torch
    >>> from paperworks.dynamics import contrastive_loss
    >>> zero = torch.zeros(2, 3)
    >>> float(contrastive_loss(zero, zero, torch.tensor([1, 0]), margin=1.0))
    0.5
    """
    check_positive(margin, "margin")
    if Ei.shape != Ej.shape or same.shape != Ei.shape[:1] or not len(Ei):
        raise ValueError(
            f"Ei, Ej must have one shape (pairs, ...) and same the shape (pairs,), got {tuple(Ei.shape)}, "
            f"{tuple(Ej.shape)} and {tuple(same.shape)}"
        )
    distance = ((Ei - Ej) ** 2).flatten(1).mean(dim=1) if Ei.ndim > 1 else (Ei - Ej) ** 2
    alike = same.to(distance.dtype)
    return (alike * distance + (1 - alike) * torch.relu(margin - distance)).mean()


def synapse_gate(distances: Sequence[float] | Mapping[str, float], kappa: float) -> bool:
    """Tell whether a domain with these distances to the known ones may join them: the smallest is below `kappa`.

    Parameters
    ----------
    distances : sequence or mapping of float
        Distance to each known domain.
    kappa : float
        Threshold, above 0.

    Returns
    -------
    bool
        True if the domain is related (equation 14); a distance of 0, the same data, is.

    Raises
    ------
    ValueError
        If there is no distance, one is negative or not finite, or `kappa` is not positive.

    Examples
    --------
    >>> from paperworks.dynamics import synapse_gate
    >>> synapse_gate({"north": 1.9, "south": 0.4}, kappa=0.5), synapse_gate([1.9], kappa=0.5)
    (True, False)
    """
    check_positive(kappa, "kappa")
    values = list(distances.values()) if isinstance(distances, Mapping) else list(distances)
    if not values:
        raise ValueError("distances must not be empty")
    values = [check_positive(value, "distances", zero_ok=True) for value in values]
    return min(values) < kappa


def train_extractor(
    windows: Tensor, embed_dim: int, margin: float, generator: torch.Generator, start: Tensor | None = None
) -> Tensor:
    """Learn the projection W_g with orthonormal rows, (embed_dim, W F), from windows (domains, S, N, W F).

    Positive pairs are windows of one domain at most two places apart, which overlap or touch; negative ones are windows
    of one time in two domains. Orthonormal rows keep the loss from being won by scaling.
    """
    n_domains, n_windows, _, width = windows.shape
    free = torch.randn(width, embed_dim, generator=generator).to(windows) if start is None else start.mT.clone()
    if n_domains == 1 or n_windows == 0:
        return _orthonormal(free)
    free.requires_grad_()
    optimizer = torch.optim.Adam([free], lr=_RATE)
    half = _PAIRS // 2
    same = torch.arange(_PAIRS) < half

    def draw(high: int) -> Tensor:
        return torch.randint(high, (half,), generator=generator)

    for _ in range(_STEPS):
        domain, other = draw(n_domains), draw(n_domains - 1)
        i, gap = draw(n_windows), draw(5) - 2
        one = windows[domain, i]
        near = windows[domain, (i + gap).clamp(0, n_windows - 1)]
        apart = windows[(domain + 1 + other) % n_domains, i]
        weight = _orthonormal(free).mT
        loss = contrastive_loss(torch.cat([one, one]) @ weight, torch.cat([near, apart]) @ weight, same, margin)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return _orthonormal(free.detach())


def _orthonormal(free: Tensor) -> Tensor:
    """Return the rows of the QR factor of `free`, (columns, rows), with signs that make the factor unique."""
    q, r = torch.linalg.qr(free)
    return (q * torch.sign(torch.diagonal(r))).mT
