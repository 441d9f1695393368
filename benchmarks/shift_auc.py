"""Pair risks against autograd on the matrix of pairs, and the linear fit against the same objective by autograd."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize

from benchmarks import Case
from paperworks.imbalanced import ShiftAUCClassifier, auc_risk_pu

__all__ = ["cases"]

_LOSSES: dict[str, Callable[[Any], Any]] = {
    "sigmoid": lambda z: torch.sigmoid(-z),
    "squared": lambda z: (1.0 - z) ** 2 / 2,
    "hinge": lambda z: torch.relu(1.0 - z),
}


def _matrix_risk(a: Any, b: Any, v: Any, w: Any, loss: str) -> Any:
    pairs = _LOSSES[loss](a[:, None] - b[None])
    return (v[:, None] * w[None] * pairs).sum() / (v.sum() * w.sum())


def _risk(loss: str, n_pos: int, n_unl: int, spread: float = 1.0) -> Case:
    rng = np.random.default_rng(0)
    v, w = rng.uniform(0, 2, n_pos), rng.uniform(0, 2, n_unl)
    a, b = (torch.from_numpy(spread * rng.normal(size=n)).requires_grad_() for n in (n_pos, n_unl))
    v_tensor, w_tensor = torch.from_numpy(v), torch.from_numpy(w)

    def ours() -> None:
        a.grad = b.grad = None
        auc_risk_pu(a, b, v, w, loss=loss).backward()

    def peer() -> None:
        a.grad = b.grad = None
        _matrix_risk(a, b, v_tensor, w_tensor, loss).backward()

    return Case(
        f"{loss} risk, value and gradient, {n_pos} x {n_unl} pairs, scores of spread {spread:g}",
        ours,
        peer,
        "torch autograd on the matrix of pairs",
        "no pairs held" if spread < 10 else "pairs in blocks: too wide for interpolation",
    )


def _fit() -> Case:
    rng = np.random.default_rng(1)
    n_pos, n_unl, d = 150, 600, 64
    X, target = rng.normal(size=(n_pos + n_unl, d)), rng.normal(size=(n_unl, d)) + 0.2
    s = np.repeat([1, 0], [n_pos, n_unl])
    X[s == 1, :8] += 0.5
    alpha = 1e-3
    ours = ShiftAUCClassifier(base="linear", alpha=alpha, ratio=lambda rows: np.ones(len(rows)))
    pos, unl, tgt = (torch.from_numpy(x) for x in (X[s == 1], X[s == 0], target))
    ones = torch.ones(n_unl, dtype=torch.float64)

    def objective(theta: Any) -> tuple[float, Any]:
        t = torch.from_numpy(theta).requires_grad_()
        risks = [_matrix_risk(pos @ t, x @ t, ones[:n_pos], ones, "sigmoid") for x in (unl, tgt)]
        value = 0.5 * (risks[0] + risks[1]) + alpha * (t @ t)
        value.backward()
        return float(value.detach()), t.grad.numpy()

    start = X[s == 1].mean(axis=0) - 0.5 * (X[s == 0].mean(axis=0) + target.mean(axis=0))
    start *= 0.1 / np.linalg.norm(start)
    options = {"maxiter": 300, "gtol": 1e-6, "ftol": 1e-10}
    return Case(
        f"linear fit, {n_pos} positives, {n_unl} + {n_unl} unlabelled, {d} columns",
        lambda: ours.fit(X, s, target),
        lambda: minimize(objective, start, jac=True, method="L-BFGS-B", options=options),
        "the same objective, start and tolerance by torch autograd and L-BFGS",
    )


def cases() -> list[Case]:
    """Return the comparisons, with their data made."""
    return [
        _risk("sigmoid", 1000, 20_000),
        _risk("sigmoid", 1000, 20_000, 100.0),
        _risk("squared", 1000, 20_000),
        _risk("hinge", 1000, 20_000),
        _risk("sigmoid", 100, 500),
        _fit(),
    ]
