"""What all exponential families share: coordinates, divergences between members, and mixtures in either coordinates.

A family has density h(x) exp(theta . T(x) - A(theta)). Every function here takes a *stack* of members: each parameter
is an array with a leading axis of length n. A family works with closed forms where it overrides a function, and with
theta, eta = E T(x), A and the Fisher matrix where it doesn't.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paperworks._checks import check_finite_array

__all__ = ["Family", "Floats", "Params", "Prepared", "mix", "take"]

Floats = NDArray[Any]  # float64, but for draws of counts
Params = tuple[Floats, ...]


class Prepared(NamedTuple):
    """The targets with what every solve needs of them."""

    params: Params
    natural: Floats
    expectation: Floats
    log_partition: Floats


def take(params: Params, index: Any) -> Params:
    """Return the members at `index` of a stack."""
    return tuple(part[index] for part in params)


def mix(weights: Floats, values: Floats) -> Floats:
    """Return the weighted sums of the targets' `values`, one for each row of `weights`."""
    return (weights @ values.reshape(len(values), -1)).reshape(len(weights), *values.shape[1:])


class Family(ABC):
    """An exponential family; subclasses say what its members are.

    Parameters
    ----------
    tol : float
        Where the Newton iterations of moment matching stop, relative to the moments.
    max_iter : int
        Greatest number of their steps.
    """

    name = ""
    labels: tuple[str, ...] = ()
    """Names of the parameters."""
    matrix = False
    """Whether the family has covariances, to which `reg` may be added."""

    def __init__(self, tol: float = 1e-10, max_iter: int = 50) -> None:
        self.tol = tol
        self.max_iter = max_iter

    # What a family says; products and Gaussians go other ways, a user's own has no samples

    @abstractmethod
    def check(self, values: tuple[Any, ...], where: str, reg: float = 0.0) -> Params:
        """Return the parameters of one member as arrays, or raise an error that begins with `where`."""

    def statistics(self, x: Floats) -> Floats:
        """T(x) of each row."""
        raise TypeError(f"the family {self.name!r} has no sufficient statistic")

    @abstractmethod
    def natural(self, params: Params) -> Floats:
        """Theta of each member, (n, p)."""

    @abstractmethod
    def expectation(self, params: Params) -> Floats:
        """Eta of each member, (n, p)."""

    def from_natural(self, theta: Floats) -> Params:
        """Return the members with these natural coordinates."""
        raise TypeError(f"the family {self.name!r} has no map from natural coordinates")

    def from_expectation(self, eta: Floats, start: Params | None = None) -> Params:
        """Return the members with these expectations; `start` is where an iteration may begin."""
        raise TypeError(f"the family {self.name!r} has no map from expectations")

    def log_partition(self, params: Params) -> Floats:
        """A(theta) of each member, (n,)."""
        raise TypeError(f"the family {self.name!r} has no log partition of its own")

    def fisher(self, params: Params) -> Floats:
        """Hessian of A, the covariance of T, of each member, (n, p, p)."""
        raise TypeError(f"the family {self.name!r} has no Fisher metric of its own")

    def log_base(self, x: Floats) -> Floats | float:
        """Log h(x) of each row."""
        return 0.0

    def expected_log_base(self, params: Params) -> Floats | float:
        """E log h(x) under each member."""
        return 0.0

    def draw(self, params: Params, n: int, rng: np.random.Generator) -> Floats:
        """Return `n` draws from one member (no leading axis)."""
        raise TypeError(f"the family {self.name!r} has no draws")

    def mean(self, params: Params) -> Floats:
        """Mean of x under each member."""
        raise AttributeError(f"members of {self.name!r} have no mean here")

    def cov(self, params: Params) -> Floats:
        """Covariance matrix of x under each member."""
        raise AttributeError(f"members of {self.name!r} have no covariance here")

    def to_scipy(self, params: Params) -> Any:
        """Return a frozen distribution of scipy for one member."""
        raise TypeError(f"scipy.stats has no distribution for {self.name!r}")

    def to_torch(self, params: Params) -> Any:
        """Return a distribution of torch for one member."""
        raise TypeError(f"torch.distributions has no distribution for {self.name!r}")

    # Samples

    def samples(self, x: Any, where: str) -> Floats:
        """Return a checked sample of the family."""
        raise TypeError(f"the family {self.name!r} has no samples")

    def estimate(self, samples: list[Any], wheres: list[str]) -> list[tuple[Any, ...]]:
        """Maximum likelihood of each sample: the member with the mean of T(x)."""
        found = []
        for x, where in zip(samples, wheres, strict=True):
            rows = self.samples(x, where)
            eta = self.statistics(rows).mean(axis=0)[None]
            try:
                found.append(take(self.from_expectation(eta), 0))
            except ValueError as error:
                raise ValueError(f"{where}: {error}") from error
        return found

    def log_density(self, params: Params, x: Floats) -> Floats:
        """Log density of rows under each member, (n, n_rows)."""
        value: Floats = self.natural(params) @ self.statistics(x).T
        return value - self.log_partition(params)[:, None] + self.log_base(x)

    def entropy(self, params: Params) -> Floats:
        """Differential (or discrete) entropy of each member in nats."""
        product = (self.natural(params) * self.expectation(params)).sum(axis=1)
        return np.asarray(self.log_partition(params) - product - self.expected_log_base(params))

    # Mixtures and divergences; `inner` is a form of the parameters in which they are computed

    def check_targets(self, params: Params, divergence: str, names: list[str]) -> None:  # noqa: B027
        """Raise ValueError if the targets don't fit each other under the divergence; most families fit always."""

    def prepare(self, params: Params) -> Any:
        """Return the targets in the form that the functions below take."""
        return Prepared(params, self.natural(params), self.expectation(params), self.log_partition(params))

    def inner(self, prepared: Any, params: Params) -> Params:
        """Return members in the form in which mixtures and divergences are computed."""
        return params

    def outer(self, prepared: Any, inner: Params) -> Params:
        """Undo `inner`."""
        return inner

    def solve(self, prepared: Any, weights: Floats, divergence: str) -> Params:
        """Mix theta (reverse) or eta (forward) of the targets, one inner member for each row of `weights`."""
        if divergence == "reverse":
            return self.from_natural(mix(weights, prepared.natural))
        start = tuple(mix(weights, part) for part in prepared.params)
        return self.from_expectation(mix(weights, prepared.expectation), start)

    def objectives(self, prepared: Any, inner: Params, divergence: str) -> Floats:
        """Divergences of inner members and targets, (n, m), as Bregman divergences of A."""
        own = self.log_partition(inner)[:, None]
        step = prepared.natural - self.natural(inner)[:, None]
        if divergence == "reverse":
            inside = (step * self.expectation(inner)[:, None]).sum(axis=2)
            return np.maximum(prepared.log_partition - own - inside, 0.0)
        inside = (step * prepared.expectation).sum(axis=2)
        return np.maximum(own - prepared.log_partition + inside, 0.0)

    def gram(self, prepared: Any, inner: Params, divergence: str) -> Floats:
        """Inner products of the directions to the targets in the Fisher metric of each inner member, (n, m, m)."""
        metric = self.fisher(inner)
        if divergence == "reverse":
            step = prepared.natural - self.natural(inner)[:, None]
            return step @ metric @ step.swapaxes(1, 2)
        step = prepared.expectation - self.expectation(inner)[:, None]
        return step @ np.linalg.solve(metric, step.swapaxes(1, 2))

    # Checks that several families use

    def _unpack(self, values: tuple[Any, ...], where: str) -> list[Floats]:
        if len(values) != len(self.labels):
            expected = f"({', '.join(self.labels)}{',' if len(self.labels) == 1 else ''})"
            raise ValueError(f"{where} of {self.name!r} must be a tuple {expected}, got {len(values)} value(s)")
        return [
            check_finite_array(value, f"{where}: {label}") for value, label in zip(values, self.labels, strict=True)
        ]


def number(value: Floats, name: str, *, positive: bool = True) -> Floats:
    """Return a single number as an array without axes."""
    if value.size != 1:
        raise ValueError(f"{name} must be a single number, got shape {value.shape}")
    value = value.reshape(())
    if positive and value <= 0:
        raise ValueError(f"{name} must be > 0, got {value.item()!r}")
    return value


def column(x: Any, where: str) -> Floats:
    """Return a sample of single numbers, given as (n,) or (n, 1), as (n,)."""
    rows = check_finite_array(x, where)
    if rows.ndim == 2 and rows.shape[1] == 1:
        rows = rows[:, 0]
    if rows.ndim != 1 or rows.size == 0:
        raise ValueError(f"{where} must be a sample of shape (n,) or (n, 1), got shape {rows.shape}")
    return rows
