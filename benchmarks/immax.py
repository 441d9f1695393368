"""IMMAX against cross-entropy of torch and logistic regression of scikit-learn."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV

from benchmarks import Case
from paperworks.imbalanced import ImmaxClassifier, ImmaxLoss

__all__ = ["cases"]


def _loss(dtype: torch.dtype) -> Case:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(8192, 1000, generator=generator, dtype=dtype).requires_grad_()
    target = torch.randint(0, 1000, (8192,), generator=generator)
    loss = ImmaxLoss(torch.rand(1000, generator=generator, dtype=torch.float64) + 0.5)

    def step(of: Any) -> None:
        logits.grad = None
        of(logits, target).backward()

    return Case(
        f"loss, forward and backward, 8192 x 1000, {str(dtype).removeprefix('torch.')}",
        lambda: step(loss),
        lambda: step(F.cross_entropy),
        "torch.nn.functional.cross_entropy",
        "backward applies the factor of the rows together with the upstream gradient",
    )


def _fit(n_samples: int, n_features: int, n_classes: int, alpha: float) -> Case:
    X, y = make_classification(
        n_samples,
        n_features,
        n_informative=30,
        n_classes=n_classes,
        n_clusters_per_class=1,
        random_state=0,
    )
    ours = ImmaxClassifier(rho=np.ones(n_classes), alpha=alpha)
    # the same objective; our fit ends at a gradient of 1e-6
    peer = LogisticRegression(C=1 / (2 * n_samples * alpha), tol=1e-6, max_iter=1000)
    return Case(
        f"linear fit, {n_samples} x {n_features}, {n_classes} classes",
        lambda: ours.fit(X, y),
        lambda: peer.fit(X, y),
        "sklearn LogisticRegression(lbfgs), same objective and tolerance",
        "L-BFGS in coordinates whitened by the curvature at zero",
    )


def _choice(n_samples: int) -> Case:
    X, y = make_classification(
        n_samples,
        30,
        n_informative=15,
        n_classes=5,
        n_clusters_per_class=1,
        weights=[0.5, 0.25, 0.15, 0.07],
        random_state=0,
    )
    ours = ImmaxClassifier(random_state=0)  # 5 exponents x 3 penalties x 3 folds, and four more fits
    alphas = np.geomspace(1e-4, 1e-2, 15)
    settings: dict[str, Any] = {"Cs": 1 / (2 * n_samples * 2 / 3 * alphas), "cv": 3, "max_iter": 1000}
    peer = LogisticRegressionCV(**settings)  # 15 penalties x 3 folds, and one more fit

    def fit_peer() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.simplefilter("ignore", FutureWarning)
            peer.fit(X, y)

    return Case(
        f"choice among 15 settings on 3 folds, {n_samples} x 30, 5 classes",
        lambda: ours.fit(X, y),
        fit_peer,
        "sklearn LogisticRegressionCV, as many fits",
        "warm starts along exponents and penalties",
    )


def cases() -> list[Case]:
    """Return the comparisons, with their data made."""
    return [
        _loss(torch.float32),
        _loss(torch.float64),
        _fit(50_000, 100, 10, 1e-3),
        _fit(50_000, 100, 2, 1e-3),
        _choice(2000),
    ]
