"""How the common battery makes and uses the public classes of IMMAX."""

from __future__ import annotations

import numpy as np
import torch

from paperworks.imbalanced import ImmaxClassifier, ImmaxLoss
from tests.battery import Example


def classify(classifier: ImmaxClassifier, dtype: str) -> np.ndarray:
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], [60, 25, 8])
    X = rng.normal(size=(len(y), 4)) + 1.5 * np.eye(4)[y]
    return classifier.fit(X.astype(dtype), y).decision_function(X.astype(dtype))


def lose(loss: ImmaxLoss, dtype: str) -> np.ndarray:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(64, 3, generator=generator, dtype=torch.float64).to(getattr(torch, dtype)).requires_grad_()
    target = torch.randint(0, 3, (64,), generator=generator)
    loss(logits, target).backward()
    return logits.grad.numpy().astype(float)


EXAMPLES = {
    "ImmaxClassifier": Example(
        make=lambda seed: ImmaxClassifier(gammas=(0.0, 1 / 3), alpha=1e-2, random_state=seed),
        use=classify,
    ),
    "ImmaxLoss": Example(make=lambda seed: ImmaxLoss([0.5 + seed, 1.0, 2.0]), use=lose),
}
