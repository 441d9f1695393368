"""An exponential family of the user's own: its log-partition function and statistics in torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from paperworks._checks import extra

from .exponential import Family, Floats, Params
from .iterated import match_moments

__all__ = ["Custom", "ExponentialFamily"]


class ExponentialFamily:
    """Exponential family given by its log-partition function and its statistics, both written in torch.

    Densities are exp(theta . T(x) - A(theta)) with respect to a base measure that is left to the caller. Moments are
    derivatives of A by automatic differentiation; they are inverted by damped Newton steps with the Fisher matrix.

    Parameters
    ----------
    log_partition : callable
        ``theta -> A(theta)``, from a float64 tensor of shape (p,) to a scalar tensor; smooth and strictly convex.
        It must work under `torch.func.vmap`, so it can't branch on values of theta.
    suff_stats : callable
        ``x -> T(x)``, from a tensor of rows, shape (n, ...), to a tensor of shape (n, p).
    domain : callable, optional
        ``theta -> bool tensor`` for a stack of shape (n, p): whether each theta is allowed. None allows every theta at
        which A is finite. The domain must be convex and open.

    Raises
    ------
    TypeError
        If one of the three is not callable.

    References
    ----------
    X. Zhang, P. Li, Y. Yu, Y. Zhang, H. Zhao, Q. Zhang, "Multiobjective Distribution Matching", ICML 2025.

    Examples
    --------
    >>> import torch
    >>> from paperworks.optim import ExponentialFamily, ParetoFamily
    >>> waiting = ExponentialFamily(lambda t: -torch.log(-t[0]), lambda x: x[:, None], lambda t: t[:, 0] < 0)
    >>> targets = [([-1.0],), ([-3.0],)]
    >>> ParetoFamily(waiting, divergence="reverse").fit(targets).solve([0.5, 0.5]).params[0].round(6)
    array([-2.])
    """

    def __init__(
        self,
        log_partition: Callable[[Any], Any],
        suff_stats: Callable[[Any], Any],
        domain: Callable[[Any], Any] | None = None,
    ) -> None:
        for value, name in ((log_partition, "log_partition"), (suff_stats, "suff_stats")):
            if not callable(value):
                raise TypeError(f"{name} must be callable, got {value!r}")
        if domain is not None and not callable(domain):
            raise TypeError(f"domain must be callable or None, got {domain!r}")
        self.log_partition = log_partition
        self.suff_stats = suff_stats
        self.domain = domain


class Custom(Family):
    """The family of an `ExponentialFamily`; the only parameter is theta."""

    name = "custom"
    labels = ("theta",)

    def __init__(self, given: ExponentialFamily, tol: float = 1e-10, max_iter: int = 50) -> None:
        super().__init__(tol, max_iter)
        self.given = given

    def _derivative(self, order: int, theta: Floats) -> Floats:
        """A (order 0), its gradient (1) or its Hessian (2) at each row of theta."""
        with extra("torch"):
            import torch
        function: Any = self.given.log_partition
        for derivative in (torch.func.grad, torch.func.jacfwd)[:order]:
            function = derivative(function)
        found: Floats = torch.func.vmap(function)(torch.as_tensor(theta, dtype=torch.float64)).detach().numpy()
        return found

    def _inside(self, theta: Floats) -> Any:
        with extra("torch"):
            import torch
        allowed: Any = np.isfinite(theta).all(axis=1)
        if self.given.domain is not None:
            rows = torch.as_tensor(theta, dtype=torch.float64)
            allowed &= np.asarray(self.given.domain(rows), dtype=bool).reshape(-1)
        if allowed.any():
            allowed[allowed] = np.isfinite(self._derivative(0, theta[allowed]))
        return allowed

    def check(self, values: tuple[Any, ...], where: str, reg: float = 0.0) -> Params:
        theta = np.atleast_1d(self._unpack(values, where)[0])
        if theta.ndim != 1 or not self._inside(theta[None])[0]:
            raise ValueError(f"{where}: theta must be a vector in the domain of the family, got {theta}")
        return (theta,)

    def estimate(self, samples: list[Any], wheres: list[str]) -> list[tuple[Any, ...]]:
        raise TypeError(f"{wheres[0]} must be a tuple (theta,): a family of your own takes no samples")

    def statistics(self, x: Floats) -> Floats:
        with extra("torch"):
            import torch
        found: Floats = torch.as_tensor(self.given.suff_stats(torch.as_tensor(x, dtype=torch.float64))).numpy()
        return found

    def natural(self, params: Params) -> Floats:
        return params[0]

    def expectation(self, params: Params) -> Floats:
        return self._derivative(1, params[0])

    def from_natural(self, theta: Floats) -> Params:
        return (theta,)

    def from_expectation(self, eta: Floats, start: Params | None = None) -> Params:
        assert start is not None  # mixtures begin at the mixture of the targets' theta
        found = match_moments(
            start[0],
            eta,
            lambda t: self._derivative(1, t),
            lambda t, error: np.linalg.solve(self._derivative(2, t), error[..., None])[..., 0],
            lambda t: self._derivative(0, t),
            self._inside,
            self.tol,
            self.max_iter,
        )
        return (found,)

    def log_partition(self, params: Params) -> Floats:
        return self._derivative(0, params[0])

    def fisher(self, params: Params) -> Floats:
        return self._derivative(2, params[0])

    def draw(self, params: Params, n: int, rng: np.random.Generator) -> Floats:
        raise TypeError("a family given by its log-partition function can't be sampled")
