"""How the common battery makes and uses the public classes of SynEVO."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch

from paperworks.dynamics import GraphWaveNet, SynEVO
from tests.battery import Example


def small(num_nodes: int, in_dim: int, horizon: int, adjacency: Any) -> GraphWaveNet:
    return GraphWaveNet(num_nodes, in_dim, horizon, adjacency, channels=4, blocks=1, layers=2, skip=8, end=8)


def domains(n_steps: int = 80, n_nodes: int = 3) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    base = np.sin(np.arange(n_steps)[:, None] / 4 + np.arange(n_nodes))
    return {name: 5 + (k + 1) * base + 0.3 * rng.normal(size=base.shape) for k, name in enumerate("abc")}


def make_net(seed: int) -> GraphWaveNet:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return GraphWaveNet(3, 2, 4, np.ones((3, 3)), channels=4, blocks=2, skip=8, end=8, dtype=torch.float64).eval()


def use_net(model: GraphWaveNet, dtype: str) -> np.ndarray:
    kind = getattr(torch, dtype)
    x = torch.rand(2, 9, 3, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(kind)
    return copy.deepcopy(model).to(kind)(x).detach().numpy()


def use_estimator(model: SynEVO, dtype: str) -> np.ndarray:
    given = {name: values.astype(dtype) for name, values in domains().items()}
    return model.fit(given).predict(given["b"][None, :6], "b")


EXAMPLES = {
    "GraphWaveNet": Example(make=make_net, use=use_net),
    "SynEVO": Example(
        make=lambda seed: SynEVO(small, window=6, horizon=2, epochs=1, cycles=1, random_state=seed),
        use=use_estimator,
        tolerance=0.02,  # float32 data leads training elsewhere by a little at each step
    ),
}
