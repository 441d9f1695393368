"""How the common battery makes and uses the public classes of QuanONet."""

from __future__ import annotations

import copy

import numpy as np
import torch

from paperworks.dynamics import HEAQNN, QuanONet, QuanONetRegressor
from tests.battery import Example


def _options(seed: int) -> dict:
    return {"num_qubits": 2, "dtype": torch.float64, "generator": torch.Generator().manual_seed(seed)}


def use_module(model: QuanONet | HEAQNN, dtype: str) -> np.ndarray:
    kind = getattr(torch, dtype)
    drawn = torch.rand(6, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(kind)
    return copy.deepcopy(model).to(kind)(drawn[:, :4], drawn[:, 4:]).detach().numpy()


def use_regressor(model: QuanONetRegressor, dtype: str) -> np.ndarray:
    U = np.random.default_rng(0).normal(size=(40, 3)).astype(dtype)
    return model.fit(U, np.cumsum(U, axis=1) / 3).predict(U[:5])


EXAMPLES = {
    "QuanONet": Example(make=lambda seed: QuanONet(4, net_size=(3, 1, 2, 2), **_options(seed)), use=use_module),
    "HEAQNN": Example(make=lambda seed: HEAQNN(4, net_size=(3, 2), bias=True, **_options(seed)), use=use_module),
    "QuanONetRegressor": Example(
        make=lambda seed: QuanONetRegressor(2, (13, 1, 2, 1), steps=20, batch_size=50, random_state=seed),
        use=use_regressor,
    ),
}
