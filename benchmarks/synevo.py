"""Speed of the backbone beside a Graph WaveNet of plain 2-d convolutions, as published code has it."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks import Case
from paperworks.dynamics import GraphWaveNet

CHANNELS, SKIP, END, BLOCKS, LAYERS = 32, 256, 512, 4, 2


class Conv2dWaveNet(nn.Module):
    """Channels first; the graph's powers are applied one after the other in each layer, skips are kept in full."""

    def __init__(self, n: int, horizon: int, transitions: list[Tensor]) -> None:
        super().__init__()
        self.transitions = transitions
        self.sources, self.targets = (nn.Parameter(torch.randn(n, 10)) for _ in range(2))
        self.enter = nn.Conv2d(1, CHANNELS, 1)
        self.dilations = [2**k for _ in range(BLOCKS) for k in range(LAYERS)]
        self.field = 1 + sum(self.dilations)
        wide = (2 * len(transitions) + 3) * CHANNELS
        make = nn.ModuleList
        self.filters = make(nn.Conv2d(CHANNELS, CHANNELS, (1, 2), dilation=d) for d in self.dilations)
        self.gates = make(nn.Conv2d(CHANNELS, CHANNELS, (1, 2), dilation=d) for d in self.dilations)
        self.mixes = make(nn.Conv2d(wide, CHANNELS, 1) for _ in self.dilations)
        self.skips = make(nn.Conv2d(CHANNELS, SKIP, 1) for _ in self.dilations)
        self.end = nn.Sequential(nn.ReLU(), nn.Conv2d(SKIP, END, 1), nn.ReLU(), nn.Conv2d(END, horizon, 1))

    def forward(self, x: Tensor) -> Tensor:
        x = nn.functional.pad(x.permute(0, 3, 2, 1), (max(self.field - x.shape[1], 0), 0))
        x = self.enter(x)
        skip: Any = 0
        for filters, gates, mix, to_skip in zip(self.filters, self.gates, self.mixes, self.skips, strict=True):
            learnt = torch.softmax(torch.relu(self.sources @ self.targets.mT), dim=1)
            h = torch.tanh(filters(x)) * torch.sigmoid(gates(x))
            spread = [h]
            for matrix in (*self.transitions, learnt):
                power = h
                for _ in range(2):
                    power = torch.einsum("ncvl,wv->ncwl", power, matrix).contiguous()
                    spread.append(power)
            h = nn.functional.dropout(mix(torch.cat(spread, dim=1)), 0.3, self.training)
            now = to_skip(h)
            skip = now if isinstance(skip, int) else now + skip[..., -now.shape[-1] :]
            x = h + x[..., -h.shape[-1] :]
        return self.end(skip)[..., -1]


def step(model: nn.Module, x: Tensor) -> None:
    """Run forward and backward."""
    model(x).abs().mean().backward()


def cases() -> list[Case]:
    """Return the comparisons."""
    torch.manual_seed(0)
    n = 100
    adjacency = np.random.default_rng(0).random((n, n))
    ways = [torch.as_tensor(a / a.sum(axis=1, keepdims=True), dtype=torch.float32) for a in (adjacency, adjacency.T)]
    x = torch.rand(32, 12, n, 1)
    return [
        Case(
            "100 nodes, batch 32, 12 to 12 steps, forward and backward",
            partial(step, GraphWaveNet(n, adjacency=adjacency), x),
            partial(step, Conv2dWaveNet(n, 12, ways), x),
            "Graph WaveNet of Conv2d",
        )
    ]
