"""A fitted `SynEVO` as one file of tensors and plain values, in which nothing can be executed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from paperworks._checks import extra
from paperworks.dynamics.synevo.series import Scaler, Windows

with extra("torch"):
    import torch

if TYPE_CHECKING:
    from paperworks.dynamics.synevo.estimator import SynEVO

__all__ = ["read", "restore", "write"]

_PLAIN = (
    "n_nodes_",
    "n_features_",
    "seed_",
    "order_",
    "bench_",
    "gradient_sums_",
    "lengths_",
    "d_max_",
    "dropout_",
    "weight_decay_",
    "kappa_",
    "gate_",
    "history_",
    "extractors_",
)
"""Fitted attributes that are kept as they are; the others are arrays and become tensors."""


def write(model: SynEVO, path: str | os.PathLike[str]) -> None:
    """Write the file whole or not at all."""
    params = {name: value for name, value in model.get_params().items() if name not in ("backbone", "callback")}
    if not isinstance(params["random_state"], int | None):
        params["random_state"] = None
    frame = model.distances_
    content = {
        "params": params,
        "own_backbone": not isinstance(model.backbone, str),
        "plain": {name: getattr(model, name) for name in _PLAIN},
        "scalers_": {n: (torch.as_tensor(s.mean), torch.as_tensor(s.std)) for n, s in model.scalers_.items()},
        "windows_": {n: tuple(torch.as_tensor(part) for part in w) for n, w in model.windows_.items()},
        "embeddings_": {n: torch.as_tensor(e) for n, e in model.embeddings_.items()},
        "distances_": (list(frame.index), torch.as_tensor(frame.to_numpy(dtype=float))),
        "adjacency_": _tensor(model.adjacency_),
        "bench_gradient_": _tensor(model.bench_gradient_),
        "model": model.model_.state_dict(),
        "branches": {name: branch.state_dict() for name, branch in model.branches_.items()},
    }
    part = f"{os.fspath(path)}.part"
    try:
        torch.save(content, part)
        os.replace(part, path)
    finally:
        if os.path.exists(part):
            os.remove(part)


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the content of a file."""
    content: dict[str, Any] = torch.load(path, weights_only=True, map_location="cpu")
    return content


def restore(model: SynEVO, content: dict[str, Any]) -> None:
    """Set the fitted attributes of a model, its networks apart."""
    for name, value in content["plain"].items():
        setattr(model, name, value)
    model.scalers_ = {n: Scaler(mean.numpy(), std.numpy()) for n, (mean, std) in content["scalers_"].items()}
    model.windows_ = {n: Windows(*(part.numpy() for part in parts)) for n, parts in content["windows_"].items()}
    model.embeddings_ = {n: value.numpy() for n, value in content["embeddings_"].items()}
    names, distances = content["distances_"]
    model.distances_ = pd.DataFrame(distances.numpy(), index=names, columns=names)
    model.adjacency_ = _array(content["adjacency_"])
    model.bench_gradient_ = _array(content["bench_gradient_"])


def _tensor(value: np.ndarray | None) -> Any:
    return None if value is None else torch.as_tensor(value)


def _array(value: Any) -> np.ndarray | None:
    return None if value is None else value.numpy()
