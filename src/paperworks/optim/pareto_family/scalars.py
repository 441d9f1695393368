"""Families of counts, cells and positive numbers: categorical, Bernoulli, Poisson, exponential, gamma."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy import special, stats

from paperworks._checks import check_finite_array, extra

from .exponential import Family, Floats, Params, column, mix, number

__all__ = ["Bernoulli", "Categorical", "Exponential", "Gamma", "Poisson"]

_LARGEST_SHAPE = 1e15


class Categorical(Family):
    """Cells 0, ..., k - 1 with probabilities p; zeros are allowed where the divergence is finite with them."""

    name = "categorical"
    labels = ("p",)

    def cells(self, params: Params) -> Floats:
        """Probabilities of all cells, (n, k)."""
        return params[0]

    def of_cells(self, cells: Floats) -> Params:
        """Undo `cells`."""
        return (cells,)

    def check(self, values: tuple[Any, ...], where: str, reg: float = 0.0) -> Params:
        (p,) = self._unpack(values, where)
        if p.ndim != 1 or p.size < 2:
            raise ValueError(f"{where}: p must have shape (k,) with k >= 2, got {p.shape}")
        if p.min() < 0 or abs(p.sum() - 1) > 1e-8:
            raise ValueError(
                f"{where}: p must hold probabilities >= 0 that sum to 1, got a smallest of {p.min():.6g} and a sum of "
                f"{p.sum():.10g}"
            )
        return (p / p.sum(),)

    def check_targets(self, params: Params, divergence: str, names: list[str]) -> None:
        zero = self.cells(params) == 0
        mixed = zero.any(axis=0) & ~zero.all(axis=0)
        if divergence == "reverse" and mixed.any():
            cell = int(np.flatnonzero(mixed)[0])
            who = names[int(np.flatnonzero(zero[:, cell])[0])]
            raise ValueError(
                f"{who}: cell {cell} has probability 0 there but not in all targets, so their supports differ and "
                "the geometric mean would empty the cell; smooth the probabilities or use divergence='forward'"
            )

    def samples(self, x: Any, where: str) -> Floats:
        rows = column(x, where)
        if (rows != np.round(rows)).any() or rows.min() < 0:
            raise ValueError(f"{where} must hold cell numbers 0, 1, 2, ..., got {rows[rows != np.abs(np.round(rows))]}")
        return rows

    def estimate(self, samples: list[Any], wheres: list[str]) -> list[tuple[Any, ...]]:
        rows = [self.samples(x, where).astype(int) for x, where in zip(samples, wheres, strict=True)]
        k = max(2, 1 + max(int(x.max()) for x in rows))
        return [(np.bincount(x, minlength=k) / len(x),) for x in rows]

    def natural(self, params: Params) -> Floats:
        p = self.cells(params)
        with np.errstate(divide="ignore", invalid="ignore"):
            theta = np.log(p[:, :-1]) - np.log(p[:, -1:])
        return np.where(p[:, :-1] == 0, -np.inf, theta)

    def expectation(self, params: Params) -> Floats:
        return self.cells(params)[:, :-1]

    def prepare(self, params: Params) -> tuple[Floats, Floats]:
        p = self.cells(params)
        return p, np.log(np.where(p > 0, p, 1.0))

    def inner(self, prepared: tuple[Floats, Floats], params: Params) -> Params:
        return (self.cells(params),)

    def outer(self, prepared: tuple[Floats, Floats], inner: Params) -> Params:
        return self.of_cells(inner[0])

    def solve(self, prepared: tuple[Floats, Floats], weights: Floats, divergence: str) -> Params:
        p, log_p = prepared
        if divergence == "forward":
            return (weights @ p,)
        log_q = np.where((p > 0).all(axis=0), weights @ log_p, -np.inf)
        return (special.softmax(log_q, axis=1),)

    def objectives(self, prepared: tuple[Floats, Floats], inner: Params, divergence: str) -> Floats:
        own, others = inner[0][:, None], prepared[0][None]
        top, bottom = (own, others) if divergence == "reverse" else (others, own)
        return np.maximum(special.kl_div(top, bottom).sum(axis=2), 0.0)

    def gram(self, prepared: tuple[Floats, Floats], inner: Params, divergence: str) -> Floats:
        own = inner[0][:, None]
        full = own > 0
        root = np.sqrt(own)
        if divergence == "reverse":
            step = np.where(full, prepared[1] - np.log(np.where(full, own, 1.0)), 0.0)
            step = step - (own * step).sum(axis=2, keepdims=True)
            line = step * root
        else:
            # A cell that is empty here alone is infinitely far; a huge finite weight keeps the algebra alive.
            line = (prepared[0] - own) / np.maximum(root, 1e-15)
        return line @ line.swapaxes(1, 2)

    def log_density(self, params: Params, x: Floats) -> Floats:
        p = self.cells(params)
        cell = np.asarray(x, dtype=float).reshape(-1)
        known = (cell == np.round(cell)) & (cell >= 0) & (cell < p.shape[1])
        with np.errstate(divide="ignore"):
            return np.where(known, np.log(p[:, np.where(known, cell, 0).astype(int)]), -np.inf)

    def entropy(self, params: Params) -> Floats:
        value: Floats = special.entr(self.cells(params)).sum(axis=1)
        return value

    def draw(self, params: Params, n: int, rng: np.random.Generator) -> Floats:
        p = self.cells((params[0][None],))[0]
        return rng.choice(len(p), size=n, p=p)

    def mean(self, params: Params) -> Floats:
        p = self.cells(params)
        return p @ np.arange(p.shape[1])

    def cov(self, params: Params) -> Floats:
        p = self.cells(params)
        return (p @ np.arange(p.shape[1]) ** 2.0 - self.mean(params) ** 2)[:, None, None]

    def to_scipy(self, params: Params) -> Any:
        return stats.rv_discrete(values=(np.arange(len(params[0])), params[0]))

    def to_torch(self, params: Params) -> Any:
        with extra("torch"):
            import torch
        return torch.distributions.Categorical(torch.as_tensor(params[0]))


class Bernoulli(Categorical):
    """One with probability p."""

    name = "bernoulli"

    def cells(self, params: Params) -> Floats:
        return np.stack([1 - params[0], params[0]], axis=1)

    def of_cells(self, cells: Floats) -> Params:
        return (cells[:, 1],)

    def check(self, values: tuple[Any, ...], where: str, reg: float = 0.0) -> Params:
        p = number(self._unpack(values, where)[0], f"{where}: p", positive=False)
        if not 0 <= p <= 1:
            raise ValueError(f"{where}: p must lie in [0, 1], got {p.item()!r}")
        return (p,)

    def estimate(self, samples: list[Any], wheres: list[str]) -> list[tuple[Any, ...]]:
        rows = [self.samples(x, where) for x, where in zip(samples, wheres, strict=True)]
        for x, where in zip(rows, wheres, strict=True):
            if x.max() > 1:
                raise ValueError(f"{where} must hold zeros and ones, got {x.max():g}")
        return [(x.mean(),) for x in rows]

    def natural(self, params: Params) -> Floats:
        return special.logit(params[0])[:, None]

    def expectation(self, params: Params) -> Floats:
        return params[0][:, None]

    def to_scipy(self, params: Params) -> Any:
        return stats.bernoulli(params[0].item())

    def to_torch(self, params: Params) -> Any:
        with extra("torch"):
            import torch
        return torch.distributions.Bernoulli(torch.as_tensor(params[0]))


class _OneRate(Family):
    """Families with a single positive rate."""

    labels = ("rate",)

    def check(self, values: tuple[Any, ...], where: str, reg: float = 0.0) -> Params:
        return (number(self._unpack(values, where)[0], f"{where}: rate"),)

    def statistics(self, x: Floats) -> Floats:
        return np.asarray(x, dtype=float).reshape(-1, 1)

    def mean(self, params: Params) -> Floats:
        return self.expectation(params)[:, 0]

    def cov(self, params: Params) -> Floats:
        return self.fisher(params)


class Poisson(_OneRate):
    """Counts with the given rate."""

    name = "poisson"

    def samples(self, x: Any, where: str) -> Floats:
        rows = column(x, where)
        if rows.min() < 0 or (rows != np.round(rows)).any():
            raise ValueError(f"{where} must hold counts 0, 1, 2, ..., got values like {rows.min():g}")
        return rows

    def natural(self, params: Params) -> Floats:
        return np.log(params[0])[:, None]

    def expectation(self, params: Params) -> Floats:
        return params[0][:, None]

    def from_natural(self, theta: Floats) -> Params:
        return (np.exp(theta[:, 0]),)

    def from_expectation(self, eta: Floats, start: Params | None = None) -> Params:
        return (eta[:, 0],)

    def log_partition(self, params: Params) -> Floats:
        return params[0]

    def fisher(self, params: Params) -> Floats:
        return params[0][:, None, None]

    def objectives(self, prepared: Any, inner: Params, divergence: str) -> Floats:
        own, others = inner[0][:, None], prepared.params[0]
        value: Floats = special.kl_div(own, others) if divergence == "reverse" else special.kl_div(others, own)
        return value

    def log_base(self, x: Floats) -> Floats:
        x = np.asarray(x, dtype=float).reshape(-1)
        whole = (x == np.round(x)) & (x >= 0)
        return np.where(whole, -special.gammaln(np.where(whole, x, 0) + 1), -np.inf)

    def entropy(self, params: Params) -> Floats:
        value: Floats = stats.poisson(params[0]).entropy()
        return value

    def draw(self, params: Params, n: int, rng: np.random.Generator) -> Floats:
        return rng.poisson(params[0], size=n)

    def to_scipy(self, params: Params) -> Any:
        return stats.poisson(params[0].item())

    def to_torch(self, params: Params) -> Any:
        with extra("torch"):
            import torch
        return torch.distributions.Poisson(torch.as_tensor(params[0]))


def positive_samples(x: Any, where: str, *, upper: float = np.inf) -> Floats:
    """Return a sample of numbers in (0, upper)."""
    rows = column(x, where)
    if rows.min() <= 0 or rows.max() >= upper:
        raise ValueError(f"{where} must lie strictly between 0 and {upper}, got {rows.min():.6g} to {rows.max():.6g}")
    return rows


class Exponential(_OneRate):
    """Waiting times with the given rate."""

    name = "exponential"

    def samples(self, x: Any, where: str) -> Floats:
        return positive_samples(x, where)

    def natural(self, params: Params) -> Floats:
        return -params[0][:, None]

    def expectation(self, params: Params) -> Floats:
        return 1 / params[0][:, None]

    def from_natural(self, theta: Floats) -> Params:
        return (-theta[:, 0],)

    def from_expectation(self, eta: Floats, start: Params | None = None) -> Params:
        return (1 / eta[:, 0],)

    def log_partition(self, params: Params) -> Floats:
        return -np.log(params[0])

    def fisher(self, params: Params) -> Floats:
        return params[0][:, None, None] ** -2.0

    def objectives(self, prepared: Any, inner: Params, divergence: str) -> Floats:
        own, others = inner[0][:, None], prepared.params[0]
        ratio = others / own if divergence == "reverse" else own / others
        return np.maximum(ratio - 1 - np.log(ratio), 0.0)

    def log_base(self, x: Floats) -> Floats:
        return np.where(np.asarray(x).reshape(-1) >= 0, 0.0, -np.inf)

    def draw(self, params: Params, n: int, rng: np.random.Generator) -> Floats:
        return rng.exponential(1 / params[0], size=n)

    def to_scipy(self, params: Params) -> Any:
        return stats.expon(scale=1 / params[0].item())

    def to_torch(self, params: Params) -> Any:
        with extra("torch"):
            import torch
        return torch.distributions.Exponential(torch.as_tensor(params[0]))


class Gamma(Family):
    """Positive numbers with density proportional to x^(shape - 1) exp(-rate x)."""

    name = "gamma"
    labels = ("shape", "rate")

    def check(self, values: tuple[Any, ...], where: str, reg: float = 0.0) -> Params:
        shape, rate = self._unpack(values, where)
        return number(shape, f"{where}: shape"), number(rate, f"{where}: rate")

    def samples(self, x: Any, where: str) -> Floats:
        rows = positive_samples(x, where)
        if np.ptp(rows) == 0:
            raise ValueError(f"{where} must hold at least two different values: the shape would be infinite")
        return rows

    def statistics(self, x: Floats) -> Floats:
        x = np.asarray(x, dtype=float).reshape(-1)
        with np.errstate(divide="ignore"):
            return np.column_stack([x, np.log(np.maximum(x, 0.0))])

    def natural(self, params: Params) -> Floats:
        return np.column_stack([-params[1], params[0]])

    def expectation(self, params: Params) -> Floats:
        return np.column_stack([params[0] / params[1], special.digamma(params[0]) - np.log(params[1])])

    def from_natural(self, theta: Floats) -> Params:
        return theta[:, 1], -theta[:, 0]

    def from_expectation(self, eta: Floats, start: Params | None = None) -> Params:
        return self._matched(eta[:, 0], np.log(eta[:, 0]) - eta[:, 1])

    def solve(self, prepared: Any, weights: Floats, divergence: str) -> Params:
        if divergence == "reverse":
            return mix(weights, prepared.params[0]), mix(weights, prepared.params[1])
        shape, rate = prepared.params
        mean = weights @ (shape / rate)
        # log E x - E log x as a Jensen gap of the means and the mean of log k - psi(k): both exact for large shapes.
        gap = np.log1p((weights * (shape / rate / mean[:, None] - 1)).sum(axis=1))
        relative = np.log(shape / rate / mean[:, None])
        return self._matched(mean, gap - (weights * relative).sum(axis=1) + weights @ log_minus_digamma(shape))

    def _matched(self, mean: Floats, s: Floats) -> Params:
        """Solve log k - psi(k) = s; the rate follows from the mean."""
        small = s < 0.5 / _LARGEST_SHAPE
        if small.any():
            warnings.warn(
                f"{int(small.sum())} gamma member(s) are so narrow that log E x and E log x agree to the last digit; "
                f"their shape is set to {_LARGEST_SHAPE:g}, the nearly Gaussian limit",
                RuntimeWarning,
                stacklevel=2,
            )
            s = np.maximum(s, 0.5 / _LARGEST_SHAPE)
        k = (3 - s + np.sqrt((s - 3) ** 2 + 24 * s)) / (12 * s)
        for _ in range(self.max_iter):
            # Newton in 1/k, in which the equation is nearly linear.
            error = log_minus_digamma(k) - s
            if (np.abs(error) <= 1e-15 * s).all():
                break
            slope = 1 / k - special.zeta(2, k)
            step = np.where(k < 1e7, error / (k * k * np.where(k < 1e7, slope, -1.0)), -2 * error)
            new = 1 / (1 / k + step)
            done = np.abs(new - k) <= 1e-14 * k
            k = np.where(new > 0, new, k / 2)
            if done.all():
                break
        return k, k / mean

    def log_partition(self, params: Params) -> Floats:
        value: Floats = special.gammaln(params[0]) - params[0] * np.log(params[1])
        return value

    def fisher(self, params: Params) -> Floats:
        shape, rate = params
        found = np.empty((len(shape), 2, 2))
        found[:, 0, 0] = shape / rate**2
        found[:, 0, 1] = found[:, 1, 0] = 1 / rate
        found[:, 1, 1] = special.zeta(2, shape)
        return found

    def objectives(self, prepared: Any, inner: Params, divergence: str) -> Floats:
        own = tuple(part[:, None] for part in inner)
        (k0, r0), (k1, r1) = (own, prepared.params) if divergence == "reverse" else (prepared.params, own)
        value = (k0 - k1) * special.digamma(k0) - special.gammaln(k0) + special.gammaln(k1)
        return np.maximum(value + k1 * np.log(r0 / r1) + k0 * (r1 - r0) / r0, 0.0)

    def log_base(self, x: Floats) -> Floats:
        x = np.asarray(x, dtype=float).reshape(-1)
        inside = x > 0
        return np.where(inside, -np.log(np.where(inside, x, 1.0)), -np.inf)

    def log_density(self, params: Params, x: Floats) -> Floats:
        x = np.asarray(x, dtype=float).reshape(-1)
        inside = x > 0
        value = super().log_density(params, np.where(inside, x, 1.0))
        return np.where(inside, value, -np.inf)

    def expected_log_base(self, params: Params) -> Floats:
        return -self.expectation(params)[:, 1]

    def draw(self, params: Params, n: int, rng: np.random.Generator) -> Floats:
        return rng.gamma(params[0], 1 / params[1], size=n)

    def mean(self, params: Params) -> Floats:
        return params[0] / params[1]

    def cov(self, params: Params) -> Floats:
        return (params[0] / params[1] ** 2)[:, None, None]

    def to_scipy(self, params: Params) -> Any:
        return stats.gamma(params[0].item(), scale=1 / params[1].item())

    def to_torch(self, params: Params) -> Any:
        with extra("torch"):
            import torch
        return torch.distributions.Gamma(torch.as_tensor(params[0]), torch.as_tensor(params[1]))


def log_minus_digamma(k: Floats) -> Floats:
    """Log k - psi(k) without cancellation for large k."""
    k = np.asarray(k, dtype=float)
    large = k > 1e3
    far = np.where(large, k, 1e3)
    tail = 1 / (2 * far) + 1 / (12 * far**2) - 1 / (120 * far**4)
    near = np.where(large, 1.0, k)
    return np.where(large, tail, np.log(near) - special.digamma(near))


def rows_of(x: Any, where: str, ndim: int) -> Floats:
    """Return a sample with `ndim` axes and at least one row."""
    rows = check_finite_array(x, where, ndim=ndim)
    if len(rows) == 0:
        raise ValueError(f"{where} must hold at least one row, got none")
    return rows
