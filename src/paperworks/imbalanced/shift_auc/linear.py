"""The linear scorer: the mixed AUC risk of all pairs by L-BFGS."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import minimize

from .pairs import pair_sum

__all__ = ["Samples", "fit_linear", "folds", "held_out_risk", "reference", "shares"]

Floats = NDArray[np.float64]

_START = 0.1  # norm of the first direction: the sigmoid loss is flat at zero and saturates far from it


class Samples(NamedTuple):
    """Positives, unlabelled training rows and target rows, with the weights of the first two."""

    pos: Any
    unl: Any
    target: Any
    weight_pos: Floats
    weight_unl: Floats


def shares(weights: Floats) -> Floats:
    """Return weights that sum to 1; equal ones where a fold got none but zeros."""
    total = float(weights.sum())
    return weights / total if total > 0 else np.full(len(weights), 1.0 / len(weights))


def reference(samples: Samples, mix: float) -> tuple[Any, Floats]:
    """Return the rows that positives are ranked above, and their weights, which sum to 1.

    The mixed objective is one sum over pairs: its reference is the unlabelled sample with share `mix` and the target
    sample with the rest. A sample with share 0 is left out, so that it can't touch the result.
    """
    parts = []
    if mix > 0:
        parts.append((samples.unl, mix * shares(samples.weight_unl)))
    if mix < 1:
        n_target = samples.target.shape[0]
        parts.append((samples.target, np.full(n_target, (1.0 - mix) / n_target)))
    rows = [part[0] for part in parts]
    stacked = sp.vstack(rows, format="csr") if sp.issparse(rows[0]) else np.concatenate(rows)
    return stacked, np.concatenate([part[1] for part in parts])


def fit_linear(samples: Samples, *, mix: float, alpha: float, loss: str) -> tuple[Floats, list[float]]:
    """Minimise the mixed risk plus ``alpha * |theta|^2`` over linear scores; return theta and the objective's path."""
    rows, w = reference(samples, mix)
    v = shares(samples.weight_pos)
    n_pos = samples.pos.shape[0]
    X = sp.vstack((samples.pos, rows), format="csr") if sp.issparse(rows) else np.concatenate((samples.pos, rows))
    path: list[float] = []

    def objective(theta: Floats) -> tuple[float, Floats]:
        scores = X @ theta
        found = pair_sum(loss, scores[:n_pos], scores[n_pos:], v, w)
        gradient = X.T @ np.concatenate((found.by_a, found.by_b)) + 2.0 * alpha * theta
        return found.value + alpha * float(theta @ theta), gradient

    start = np.asarray(samples.pos.T @ v - rows.T @ w).ravel()
    norm = float(np.linalg.norm(start))
    start = start * (_START / norm) if norm > 0 else np.full(len(start), _START / np.sqrt(len(start)))
    path.append(objective(start)[0])
    solution = minimize(
        objective,
        start,
        jac=True,
        method="L-BFGS-B",
        callback=lambda intermediate_result: path.append(float(intermediate_result.fun)),
        options={"maxiter": 300, "gtol": 1e-6, "ftol": 1e-10},
    )
    return solution.x, path


def folds(samples: Samples, seed: int, n_folds: int = 3) -> list[tuple[Samples, Samples]]:
    """Cut each of the three samples into folds; return the rows outside and inside of each."""
    smallest = min(x.shape[0] for x in samples[:3])
    n_folds = min(n_folds, smallest)
    if n_folds < 2:
        raise ValueError(f"a choice on held-out rows needs at least 2 rows in each sample, the smallest has {smallest}")
    rng = np.random.default_rng(seed)
    labels = [rng.permutation(np.arange(x.shape[0]) % n_folds) for x in samples[:3]]
    found = []
    for k in range(n_folds):
        sides = []
        for masks in ([x != k for x in labels], [x == k for x in labels]):
            pos, unl, target = (x[mask] for x, mask in zip(samples[:3], masks, strict=True))
            sides.append(Samples(pos, unl, target, samples.weight_pos[masks[0]], samples.weight_unl[masks[1]]))
        found.append((sides[0], sides[1]))
    return found


def held_out_risk(theta: Floats, samples: Samples, mix: float) -> float:
    """Return the mixed risk of linear scores with the zero-one loss."""
    rows, w = reference(samples, mix)
    return pair_sum("zero_one", samples.pos @ theta, rows @ theta, shares(samples.weight_pos), w).value
