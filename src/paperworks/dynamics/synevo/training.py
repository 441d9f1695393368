"""Training on windows with gaps, and the gradient that the curriculum compares."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from paperworks._checks import extra
from paperworks.dynamics.synevo.series import Series

with extra("torch"):
    import torch
    from torch import Tensor, nn

__all__ = ["converge", "full_gradient", "masked_loss", "set_dropout", "train_epoch"]

_PATIENCE, _IMPROVEMENT, _MOST_EPOCHS = 5, 1e-3, 30


def masked_loss(found: Tensor, targets: Tensor, loss: str) -> tuple[Tensor, Tensor]:
    """Return the sum of the loss over known targets and their number; NaN targets take no part at all."""
    known = ~torch.isnan(targets)
    gap = (found - torch.where(known, targets, found.detach())) * known
    return (gap.abs() if loss == "mae" else gap**2).sum(), known.sum()


def set_dropout(model: nn.Module, p: float) -> int:
    """Set the probability of every dropout module; return how many there are."""
    modules = [m for m in model.modules() if isinstance(m, nn.modules.dropout._DropoutNd)]
    for module in modules:
        module.p = p
    return len(modules)


def train_epoch(model: nn.Module, data: Series, optimizer: torch.optim.Optimizer, batch_size: int, loss: str) -> float:
    """Go through all windows once in random order; return the mean training loss."""
    model.train()
    total, count = 0.0, 0
    for index in torch.randperm(len(data)).to(data.starts.device).split(batch_size):
        x, targets = data.batch(index)
        value, known = masked_loss(model(x), targets, loss)
        optimizer.zero_grad()
        (value / known).backward()
        optimizer.step()
        total, count = total + float(value.detach()), count + int(known)
    return total / count


def converge(model: nn.Module, data: Series, lr: float, weight_decay: float, batch_size: int, loss: str) -> None:
    """Train until the loss stops improving."""
    optimizer = torch.optim.Adam(model.parameters(), lr=lr, weight_decay=weight_decay)
    best, since = np.inf, 0
    for _ in range(_MOST_EPOCHS):
        value = train_epoch(model, data, optimizer, batch_size, loss)
        since = 0 if value < best * (1 - _IMPROVEMENT) else since + 1
        best = min(best, value)
        if since >= _PATIENCE:
            break


def full_gradient(model: nn.Module, data: Series, batch_size: int, loss: str) -> list[NDArray[np.float32]]:
    """Return the gradient of the mean loss over all windows in evaluation mode, one array per parameter."""
    model.eval()
    model.zero_grad()
    count = 0
    for index in torch.arange(len(data), device=data.starts.device).split(batch_size):
        x, targets = data.batch(index)
        value, known = masked_loss(model(x), targets, loss)
        value.backward()
        count += int(known)
    out = [
        (torch.zeros_like(p) if p.grad is None else p.grad / count).detach().cpu().numpy() for p in model.parameters()
    ]
    model.zero_grad()
    return out
