"""Scorers that are PyTorch modules, trained on pairs of batches."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paperworks._checks import extra

from .linear import Samples, reference, shares
from .pairs import pair_sum
from .risks import weighted_risk

with extra("torch"):
    import torch
    from torch import nn

__all__ = ["Trained", "perceptron", "scores_of", "train"]

Floats = NDArray[np.float64]

_PATIENCE = 10
_POSITIVES = 128  # positives of a step; all of them if there are fewer


class Trained(NamedTuple):
    """A trained module and its curves, one number per epoch."""

    module: Any
    losses: list[float]
    held_out: list[float]
    best_epoch: int
    """Number of epochs after which the module was taken."""


def perceptron(n_features: int, hidden: tuple[int, ...], seed: int, device: Any) -> Any:
    """Return a perceptron with ReLU layers; its initial weights depend on the seed only."""
    generator = torch.Generator().manual_seed(seed)
    layers: list[nn.Module] = []
    widths = (n_features, *hidden, 1)
    for i, (n_in, n_out) in enumerate(itertools.pairwise(widths)):
        layer = nn.utils.skip_init(
            nn.Linear, n_in, n_out, bias=i < len(hidden)
        )  # the AUC doesn't see a shift of the scores
        bound = 1.0 / math.sqrt(n_in)
        with torch.no_grad():
            for parameter in layer.parameters():
                parameter.copy_((2 * torch.rand(parameter.shape, generator=generator) - 1) * bound)
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1]).to(device)


def train(
    module: Any,
    samples: Samples,
    held_out: Samples | None,
    *,
    mix: float,
    held_out_mix: float,
    loss: str | Callable[[Any], Any],
    lr: float,
    decay: float,
    n_epochs: int,
    batch_size: int,
    patience: bool,
    seed: int,
    device: Any,
    report: Callable[[int, float], None] | None = None,
) -> Trained:
    """Train a module by Adam and keep the epoch with the lowest zero-one risk on the held-out samples."""
    rng = np.random.default_rng(seed)
    pos, unl, target = (_tensor(x, module, device) for x in samples[:3])
    v = shares(samples.weight_pos) * len(samples.weight_pos)
    w = shares(samples.weight_unl) * len(samples.weight_unl)
    n_pos, n_unl, n_target = len(pos), len(unl), len(target)
    optimizer = torch.optim.Adam(module.parameters(), lr=lr, weight_decay=decay)
    n_steps = max(1, math.ceil((n_unl if mix > 0 else n_target) / batch_size))
    losses: list[float] = []
    curve: list[float] = []
    best, best_state = 0, copy.deepcopy(module.state_dict())
    with _seeded(seed):
        for epoch in range(n_epochs):
            module.train()
            total = 0.0
            orders = (_batches(n, batch_size, n_steps, rng) for n in (n_unl, n_target))
            for rows_unl, rows_target in zip(*orders, strict=True):
                rows_pos = np.arange(n_pos) if n_pos <= _POSITIVES else rng.permutation(n_pos)[:_POSITIVES]
                parts, weights = [pos[rows_pos]], []
                if mix > 0:
                    parts.append(unl[rows_unl])
                    weights.append(mix * w[rows_unl] / len(rows_unl))
                if mix < 1:
                    parts.append(target[rows_target])
                    weights.append(np.full(len(rows_target), (1.0 - mix) / len(rows_target)))
                scores = _scores(module, torch.cat(parts))
                k = len(rows_pos)
                risk = weighted_risk(scores[:k], scores[k:], v[rows_pos] / k, np.concatenate(weights), loss)
                optimizer.zero_grad()
                risk.backward()
                optimizer.step()
                total += float(risk.detach())
            losses.append(total / n_steps)
            if report is not None:
                report(epoch, losses[-1])
            if held_out is None:
                continue
            curve.append(_zero_one(module, held_out, held_out_mix, device))
            if curve[-1] < min(curve[:-1], default=math.inf):
                best, best_state = epoch + 1, copy.deepcopy(module.state_dict())
            elif patience and epoch + 1 - best >= _PATIENCE:
                break
    if held_out is None:
        best = len(losses)
    else:
        module.load_state_dict(best_state)
    module.eval()
    return Trained(module, losses, curve, best)


def scores_of(module: Any, X: Any, device: Any) -> Floats:
    """Return the scores of rows, float64, in evaluation mode and in blocks."""
    module.eval()
    rows = _tensor(X, module, device)
    with torch.no_grad():
        parts = [_scores(module, block).to("cpu", torch.float64) for block in rows.split(8192)]
    scores: Floats = torch.cat(parts).numpy()
    return scores


def _zero_one(module: Any, samples: Samples, mix: float, device: Any) -> float:
    rows, w = reference(samples, mix)
    v = shares(samples.weight_pos)
    return pair_sum("zero_one", scores_of(module, samples.pos, device), scores_of(module, rows, device), v, w).value


def _scores(module: Any, rows: Any) -> Any:
    scores = module(rows)
    if not isinstance(scores, torch.Tensor) or tuple(scores.shape) not in ((len(rows),), (len(rows), 1)):
        came = tuple(scores.shape) if isinstance(scores, torch.Tensor) else type(scores).__name__
        raise ValueError(f"base must map (B, ...) to (B,) or (B, 1); for B={len(rows)} it returned {came}")
    if not bool(scores.detach().isfinite().all()):
        raise ValueError("base returned scores that are NaN or infinite; scale X or lower lr")
    return scores.reshape(len(rows))


def _tensor(X: Any, module: Any, device: Any) -> Any:
    first = next(module.parameters(), None)
    dtype = torch.float32 if first is None else first.dtype
    return torch.as_tensor(np.asarray(X)).to(device=device, dtype=dtype)


def _batches(n: int, size: int, n_steps: int, rng: np.random.Generator) -> list[NDArray[np.int64]]:
    """Cut shuffled rows into `n_steps` batches, going round as often as needed."""
    size = min(size, n)
    order = np.concatenate([rng.permutation(n) for _ in range(math.ceil(n_steps * size / n))])
    return [order[i * size : (i + 1) * size] for i in range(n_steps)]


class _seeded:
    """Dropout and the like follow the seed, and the caller's stream is put back."""

    def __init__(self, seed: int) -> None:
        self.fork = torch.random.fork_rng()
        self.seed = seed

    def __enter__(self) -> None:
        self.fork.__enter__()
        torch.manual_seed(self.seed)

    def __exit__(self, *error: Any) -> None:
        self.fork.__exit__(*error)
