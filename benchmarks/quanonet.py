"""Speed of the state-vector engine beside PennyLane's, forward and backward, and of the grid beside all pairs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from benchmarks import Case
from paperworks.dynamics import QuanONet


def backward(function: Callable[..., Any], *inputs: Any) -> None:
    """Run forward and backward."""
    function(*inputs).sum().backward()


def all_pairs(model: QuanONet, u: Any, y: Any) -> Any:
    """Evaluate every function at every point as pairs."""
    return model(u.repeat_interleave(len(y), 0), y.repeat(len(u), 1)).view(len(u), len(y))


def loop(function: Callable[..., Any], u: Any, y: Any) -> Any:
    """Call a circuit once per pair, as the official PennyLane backend does."""
    return torch.stack([function(one, other) for one, other in zip(u, y, strict=True)])


def cases() -> list[Case]:
    """Return the comparisons."""
    generator = torch.Generator().manual_seed(0)
    model = QuanONet(10, dtype=torch.float64, generator=generator)
    u, y = (torch.rand(100, k, generator=generator, dtype=torch.float64) for k in (10, 1))
    single = QuanONet(10, dtype=torch.float32, generator=generator).requires_grad_(False)
    many, points = torch.rand(50, 10, generator=generator), torch.rand(100, 1, generator=generator)
    circuit = model.to_pennylane()
    return [
        Case(
            "5 qubits, (20, 2, 10, 2), batch 100, forward and backward",
            partial(backward, model, u, y),
            partial(backward, circuit, u, y),
            "PennyLane default.qubit, broadcast",
        ),
        Case(
            "the same circuit, 3 pairs forward",
            partial(model, u[:3], y[:3]),
            partial(loop, circuit, u[:3], y[:3]),
            "PennyLane, one pair at a time",
        ),
        Case(
            "50 functions at 100 points",
            partial(single.forward_grid, many, points),
            partial(all_pairs, single, many, points),
            "this engine on all pairs",
        ),
    ]
