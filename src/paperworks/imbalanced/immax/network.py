"""Neural scorers under the class-imbalanced surrogates, trained by full-batch Adam."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paperworks._checks import check_integer, extra

with extra("torch"):
    import torch
    from torch import nn

from .loss import ImmaxLoss

__all__ = ["NetworkFitter", "NetworkScorer"]

_STEP_SIZE = 1e-2
_PATIENCE, _IMPROVEMENT = 20, 1e-5  # epochs without a relative gain of this size, after which training has converged


class NetworkScorer:
    """A trained module with its device.

    Parameters
    ----------
    module : torch.nn.Module
        Maps (n_samples, n_features) to (n_samples, n_classes).
    device : torch.device
        Where it lives.
    n_iter : int
        Epochs trained.
    converged : bool
        Whether training stopped before `max_iter`.
    """

    def __init__(self, module: nn.Module, device: torch.device, n_iter: int, converged: bool) -> None:
        self.module = module
        self.device = device
        self.n_iter = n_iter
        self.converged = converged

    def scores(self, X: Any) -> NDArray[np.float64]:
        """Return the logits of rows, or their difference for two classes.

        Parameters
        ----------
        X : ndarray of float, shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of float64, shape (n_samples,) or (n_samples, n_classes)
            The scores.
        """
        self.module.eval()
        with torch.no_grad():
            rows = torch.as_tensor(np.asarray(X), dtype=torch.float32, device=self.device)
            logits: NDArray[np.float64] = self.module(rows).double().cpu().numpy()
        return logits[:, 1] - logits[:, 0] if logits.shape[1] == 2 else logits


class NetworkFitter:
    """Trains modules on one sample for any margins, penalty and surrogate; torch's global generator is left as it was.

    Parameters
    ----------
    X : ndarray of float64, shape (n_samples, n_features)
        Rows.
    y : ndarray of int, shape (n_samples,)
        Class indices.
    sample_weight : ndarray of float64, shape (n_samples,)
        Positive weights.
    n_classes : int
        Number of classes.
    hidden : tuple of int or callable
        Widths of the hidden layers (ReLU), or ``(n_features, n_classes) -> module``.
    max_iter : int
        Epochs at most.
    device : str, torch.device or None
        None is the CPU.
    seed : int
        Seed of the initial weights.
    """

    def __init__(
        self, X: Any, y: Any, sample_weight: Any, n_classes: int, *, hidden: Any, max_iter: int, device: Any, seed: int
    ) -> None:
        self.device = torch.device("cpu" if device is None else device)
        self.X = torch.as_tensor(X, dtype=torch.float32, device=self.device)
        self.y = torch.as_tensor(y, dtype=torch.long, device=self.device)
        weight = np.asarray(sample_weight, dtype=np.float64)
        self.c = torch.as_tensor(weight / weight.sum(), dtype=torch.float32, device=self.device)
        self.n_classes = n_classes
        self.build = hidden if callable(hidden) else _perceptron(hidden)
        self.max_iter = max_iter
        self.seed = seed

    large = False
    """Whether to save time on fits that only the temperature needs; networks are always trained to the end."""

    def fit(
        self, rho: Any, alpha: float, *, surrogate: str = "logistic", start: Any = None, loose: bool = False
    ) -> NetworkScorer:
        """Train from the seed's initial weights.

        Parameters
        ----------
        rho : ndarray of float64, shape (n_classes,)
            Margins.
        alpha : float
            Penalty ``alpha * ||W||**2`` on everything but vectors (biases); Adam's weight decay is its gradient.
        surrogate : {"logistic", "sumexp", "hinge", "ramp"}, default="logistic"
            Function of the scaled margin.
        start : object, optional
            Not used: every training starts from the same weights.
        loose : bool, default=False
            Not used: choosing and final training are the same.

        Returns
        -------
        NetworkScorer
            The trained scorer.

        Raises
        ------
        ValueError
            If the module's output has another shape than (n_samples, n_classes), or the training diverges.
        """
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(self.seed)
            module = self.build(self.X.shape[1], self.n_classes)
            if not isinstance(module, nn.Module):
                raise TypeError(f"hidden must build a torch.nn.Module, got {type(module).__name__}")
            return self._train(module.to(self.device, torch.float32), rho, alpha, surrogate)

    def _train(self, module: nn.Module, rho: Any, alpha: float, surrogate: Any) -> NetworkScorer:
        criterion = ImmaxLoss(rho, surrogate=surrogate, reduction="none").to(self.device)
        weights = [p for p in module.parameters() if p.ndim > 1]
        biases = [p for p in module.parameters() if p.ndim <= 1]
        groups: list[dict[str, Any]] = [{"params": weights, "weight_decay": 2 * alpha}, {"params": biases}]
        optimiser = torch.optim.Adam(groups, lr=_STEP_SIZE)
        best, since = float("inf"), 0
        module.train()
        for epoch in range(1, self.max_iter + 1):
            optimiser.zero_grad()
            logits = module(self.X)
            expected = (len(self.X), self.n_classes)
            if tuple(logits.shape) != expected:
                raise ValueError(
                    f"hidden must build a module with output of shape {expected}, got {tuple(logits.shape)}"
                )
            mean = (self.c * criterion(logits, self.y)).sum()
            objective = float(mean.detach()) + alpha * sum(float(p.detach().square().sum()) for p in weights)
            if not np.isfinite(objective):
                raise ValueError(f"training diverged at epoch {epoch}; scale the features or use a larger alpha")
            since = 0 if objective < best * (1 - _IMPROVEMENT) else since + 1
            best = min(best, objective)
            if since >= _PATIENCE:
                return NetworkScorer(module, self.device, epoch, True)
            mean.backward()
            optimiser.step()
        return NetworkScorer(module, self.device, self.max_iter, False)


def _perceptron(widths: Any) -> Callable[[int, int], nn.Module]:
    if not isinstance(widths, tuple | list):
        raise TypeError(f"hidden must be a tuple of widths or a function, got {widths!r}")
    sizes = [check_integer(width, "hidden", minimum=1) for width in widths]

    def build(n_features: int, n_classes: int) -> nn.Module:
        layers: list[nn.Module] = []
        for n_in, n_out in pairwise([n_features, *sizes]):
            layers += [nn.Linear(n_in, n_out), nn.ReLU()]
        return nn.Sequential(*layers, nn.Linear([n_features, *sizes][-1], n_classes))

    return build
