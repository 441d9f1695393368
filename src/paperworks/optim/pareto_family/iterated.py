"""Families whose moments are matched by iteration: Dirichlet and beta, Wishart, von Mises-Fisher."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special, stats
from sklearn.exceptions import ConvergenceWarning

from paperworks._checks import extra

from .exponential import Family, Floats, Params, number
from .gaussians import covariance_matrix
from .scalars import positive_samples, rows_of

__all__ = ["Beta", "Dirichlet", "VonMises", "Wishart", "match_moments"]


def match_moments(
    theta: Floats,
    eta: Floats,
    moments: Callable[[Floats], Floats],
    newton_step: Callable[[Floats, Floats], Floats],
    log_partition: Callable[[Floats], Floats],
    inside: Callable[[Floats], Any],
    tol: float,
    max_iter: int,
) -> Floats:
    """Maximise theta . eta - A(theta) row by row with damped Newton steps that stay in the domain.

    Warns (`ConvergenceWarning`) if some row's moments are off by more than `tol`, relative to eta, at the end.
    """
    theta = theta.copy()
    scale = tol * (1 + np.abs(eta).max(axis=1))
    for _ in range(max_iter):
        error = eta - moments(theta)
        rows = np.flatnonzero(~(np.abs(error).max(axis=1) <= scale))
        if rows.size == 0:
            # One more step squares the error, down to rounding.
            polished = theta + newton_step(theta, error)
            return np.where(inside(polished)[:, None], polished, theta)
        now, aim = theta[rows], eta[rows]
        step = newton_step(now, error[rows])
        slope = (step * error[rows]).sum(axis=1)
        value = (now * aim).sum(axis=1) - log_partition(now)
        length = np.ones(len(rows))
        for _ in range(50):
            tried = now + length[:, None] * step
            allowed = inside(tried)
            reached = np.full(len(rows), -np.inf)
            reached[allowed] = (tried[allowed] * aim[allowed]).sum(axis=1) - log_partition(tried[allowed])
            good = reached >= value + 1e-4 * length * slope - 1e-13 * (1 + np.abs(value))
            if good.all():
                break
            length = np.where(good, length, length / 2)
        theta[rows[good]] = tried[good]
    worst = np.abs(eta - moments(theta)).max(axis=1)
    if not (worst <= scale).all():
        warnings.warn(
            f"moments of {int((~(worst <= scale)).sum())} member(s) are off by up to {worst.max():.3g} after "
            f"max_iter={max_iter} steps",
            ConvergenceWarning,
            stacklevel=2,
        )
    return theta


class Dirichlet(Family):
    """Positive vectors that sum to 1, with density proportional to the product of x_j^(alpha_j - 1)."""

    name = "dirichlet"
    labels: tuple[str, ...] = ("alpha",)

    def alpha(self, params: Params) -> Floats:
        """Exponents, (n, k)."""
        return params[0]

    def of_alpha(self, alpha: Floats) -> Params:
        """Undo `alpha`."""
        return (alpha,)

    def check(self, values: tuple[Any, ...], where: str, reg: float = 0.0) -> Params:
        (alpha,) = self._unpack(values, where)
        if alpha.ndim != 1 or alpha.size < 2 or alpha.min() <= 0:
            raise ValueError(f"{where}: alpha must be a vector of at least two numbers > 0, got {alpha}")
        return (alpha,)

    def samples(self, x: Any, where: str) -> Floats:
        rows = rows_of(x, where, 2)
        if rows.min() <= 0 or np.abs(rows.sum(axis=1) - 1).max() > 1e-6:
            raise ValueError(f"{where} must hold rows of numbers > 0 that sum to 1")
        return rows

    def statistics(self, x: Floats) -> Floats:
        return np.log(np.maximum(np.atleast_2d(x), 1e-300))

    def natural(self, params: Params) -> Floats:
        return self.alpha(params)

    def expectation(self, params: Params) -> Floats:
        alpha = self.alpha(params)
        value: Floats = special.digamma(alpha) - special.digamma(alpha.sum(axis=1, keepdims=True))
        return value

    def from_natural(self, theta: Floats) -> Params:
        return self.of_alpha(theta)

    def from_expectation(self, eta: Floats, start: Params | None = None) -> Params:
        if (np.exp(eta).sum(axis=1) >= 1 - 1e-14).any():
            raise ValueError("mean logarithms belong to no member of the family: all rows of a sample are the same")
        if start is None:
            alpha = np.ones_like(eta)
            for _ in range(20):  # fixed point of psi(alpha) = eta + psi(sum alpha), with a rough inverse of psi
                aim = eta + special.digamma(alpha.sum(axis=1, keepdims=True))
                alpha = np.where(aim >= -2.22, np.exp(aim) + 0.5, -1 / np.minimum(aim - special.digamma(1.0), -0.1))
        else:
            alpha = self.alpha(start)
        found = match_moments(
            alpha,
            eta,
            lambda a: self.expectation(self.of_alpha(a)),
            _dirichlet_step,
            lambda a: self.log_partition(self.of_alpha(a)),
            lambda a: (a > 0).all(axis=1),
            self.tol,
            self.max_iter,
        )
        return self.of_alpha(found)

    def log_partition(self, params: Params) -> Floats:
        alpha = self.alpha(params)
        value: Floats = special.gammaln(alpha).sum(axis=1) - special.gammaln(alpha.sum(axis=1))
        return value

    def fisher(self, params: Params) -> Floats:
        alpha = self.alpha(params)
        spread = special.zeta(2, alpha)[..., None] * np.eye(alpha.shape[1])
        return spread - special.zeta(2, alpha.sum(axis=1))[:, None, None]

    def log_density(self, params: Params, x: Floats) -> Floats:
        x = np.atleast_2d(x)
        if x.shape[1] != self.alpha(params).shape[1]:
            raise ValueError(f"x must have shape (n, {self.alpha(params).shape[1]}), got {x.shape}")
        inside = (x > 0).all(axis=1) & (np.abs(x.sum(axis=1) - 1) < 1e-8)
        logs = np.log(np.where(inside[:, None], x, 1.0))
        value = (self.alpha(params) - 1) @ logs.T - self.log_partition(params)[:, None]
        return np.where(inside, value, -np.inf)

    def expected_log_base(self, params: Params) -> Floats:
        return -self.expectation(params).sum(axis=1)

    def draw(self, params: Params, n: int, rng: np.random.Generator) -> Floats:
        return rng.dirichlet(params[0], size=n)

    def mean(self, params: Params) -> Floats:
        alpha = self.alpha(params)
        return alpha / alpha.sum(axis=1, keepdims=True)

    def cov(self, params: Params) -> Floats:
        mean = Dirichlet.mean(self, params)
        total = self.alpha(params).sum(axis=1)[:, None, None]
        return (mean[..., None] * np.eye(mean.shape[1]) - mean[:, :, None] * mean[:, None, :]) / (total + 1)

    def to_scipy(self, params: Params) -> Any:
        return stats.dirichlet(params[0])

    def to_torch(self, params: Params) -> Any:
        with extra("torch"):
            import torch
        return torch.distributions.Dirichlet(torch.as_tensor(params[0]))


def _dirichlet_step(alpha: Floats, error: Floats) -> Floats:
    """Inverse Fisher matrix, a diagonal less a rank-one matrix, times the error."""
    own, total = special.zeta(2, alpha), special.zeta(2, alpha.sum(axis=1, keepdims=True))
    pull = (error / own).sum(axis=1, keepdims=True) * total / (1 - total * (1 / own).sum(axis=1, keepdims=True))
    value: Floats = (error + pull) / own
    return value


class Beta(Dirichlet):
    """Numbers in (0, 1) with density proportional to x^(a - 1) (1 - x)^(b - 1)."""

    name = "beta"
    labels = ("a", "b")

    def alpha(self, params: Params) -> Floats:
        return np.stack(params, axis=1)

    def of_alpha(self, alpha: Floats) -> Params:
        return alpha[:, 0], alpha[:, 1]

    def check(self, values: tuple[Any, ...], where: str, reg: float = 0.0) -> Params:
        a, b = self._unpack(values, where)
        return number(a, f"{where}: a"), number(b, f"{where}: b")

    def samples(self, x: Any, where: str) -> Floats:
        return positive_samples(x, where, upper=1.0)

    def statistics(self, x: Floats) -> Floats:
        x = np.asarray(x, dtype=float).reshape(-1)
        return np.column_stack([np.log(x), np.log1p(-x)])

    def log_density(self, params: Params, x: Floats) -> Floats:
        x = np.asarray(x, dtype=float).reshape(-1)
        inside = (x > 0) & (x < 1)
        value = (self.alpha(params) - 1) @ self.statistics(np.where(inside, x, 0.5)).T
        return np.where(inside, value - self.log_partition(params)[:, None], -np.inf)

    def draw(self, params: Params, n: int, rng: np.random.Generator) -> Floats:
        return rng.beta(params[0], params[1], size=n)

    def mean(self, params: Params) -> Floats:
        return params[0] / (params[0] + params[1])

    def cov(self, params: Params) -> Floats:
        return super().cov(params)[:, :1, :1]

    def to_scipy(self, params: Params) -> Any:
        return stats.beta(params[0].item(), params[1].item())

    def to_torch(self, params: Params) -> Any:
        with extra("torch"):
            import torch
        return torch.distributions.Beta(torch.as_tensor(params[0]), torch.as_tensor(params[1]))


class Wishart(Family):
    """Random covariance matrices with df degrees of freedom and mean df * scale."""

    name = "wishart"
    labels = ("df", "scale")

    def check(self, values: tuple[Any, ...], where: str, reg: float = 0.0) -> Params:
        df, scale = self._unpack(values, where)
        scale = covariance_matrix(scale, None, f"{where}: scale")
        df = number(df, f"{where}: df")
        if df <= len(scale) - 1:
            raise ValueError(f"{where}: df must be > d - 1 = {len(scale) - 1}, got {df.item()!r}")
        return df, scale

    def samples(self, x: Any, where: str) -> Floats:
        rows = rows_of(x, where, 3)
        for i, matrix in enumerate(rows):
            covariance_matrix(matrix, rows.shape[1], f"{where}[{i}]")
        return rows

    def statistics(self, x: Floats) -> Floats:
        rows, columns = np.tril_indices(x.shape[-1])
        return np.column_stack([np.linalg.slogdet(x)[1], x[:, rows, columns]])

    def natural(self, params: Params) -> Floats:
        df, scale = params
        rows, columns = np.tril_indices(scale.shape[-1])
        triangle = -np.linalg.inv(scale)[:, rows, columns]
        return np.column_stack([df / 2, np.where(rows == columns, triangle / 2, triangle)])

    def expectation(self, params: Params) -> Floats:
        df, scale = params
        rows, columns = np.tril_indices(scale.shape[-1])
        log_det = _halves(special.digamma, df, scale.shape[-1]) + scale.shape[-1] * np.log(2)
        return np.column_stack(
            [log_det + np.linalg.slogdet(scale)[1], df[:, None] * scale[:, rows, columns]],
        )

    def from_natural(self, theta: Floats) -> Params:
        precision = -_full(theta[:, 1:])
        precision += precision * np.eye(precision.shape[-1])  # the diagonal is halved in theta
        return 2 * theta[:, 0], np.linalg.inv(precision)

    def from_expectation(self, eta: Floats, start: Params | None = None) -> Params:
        mean = _full(eta[:, 1:])
        d = mean.shape[-1]
        s = np.linalg.slogdet(mean)[1] - eta[:, 0]
        if not (s > 0).all():
            raise ValueError("moments belong to no Wishart distribution: all matrices of a sample are the same")
        # Newton for log phi(df) = log s in log(df - d + 1), in which the equation is nearly linear at both ends;
        # phi(df) = d log(df / 2) - sum_i psi((df - i) / 2).
        over = np.log(d * (d + 1) / (2 * s))
        for _ in range(self.max_iter):
            df = np.exp(over) + d - 1
            phi = d * np.log(df / 2) - _halves(special.digamma, df, d)
            slope = d / df - _halves(lambda x: special.zeta(2, x), df, d) / 2
            step = (np.log(phi) - np.log(s)) * phi / (slope * np.exp(over))
            over = over - np.clip(step, -2, 2)
            if (np.abs(step) <= 1e-14 * np.maximum(1, np.abs(over))).all():
                break
        df = np.exp(over) + d - 1
        return df, mean / df[:, None, None]

    def log_partition(self, params: Params) -> Floats:
        df, scale = params
        d = scale.shape[-1]
        value: Floats = special.multigammaln(df / 2, d) + df / 2 * (d * np.log(2) + np.linalg.slogdet(scale)[1])
        return value

    def fisher(self, params: Params) -> Floats:
        df, scale = params
        d = scale.shape[-1]
        r, c = np.tril_indices(d)
        found = np.empty((len(df), 1 + len(r), 1 + len(r)))
        found[:, 0, 0] = _halves(lambda x: special.zeta(2, x), df, d)
        found[:, 0, 1:] = found[:, 1:, 0] = 2 * scale[:, r, c]
        pairs = scale[:, r[:, None], r] * scale[:, c[:, None], c] + scale[:, r[:, None], c] * scale[:, c[:, None], r]
        found[:, 1:, 1:] = df[:, None, None] * pairs
        return found

    def log_base(self, x: Floats) -> Floats:
        value: Floats = -(x.shape[-1] + 1) / 2 * np.linalg.slogdet(x)[1]
        return value

    def log_density(self, params: Params, x: Floats) -> Floats:
        x = x[None] if x.ndim == 2 else x
        if x.shape[1:] != params[1].shape[1:]:
            raise ValueError(f"x must have shape (n, {', '.join(map(str, params[1].shape[1:]))}), got {x.shape}")
        inside = np.linalg.eigvalsh(x)[:, 0] > 0
        value = np.full((len(params[0]), len(x)), -np.inf)
        value[:, inside] = super().log_density(params, x[inside])
        return value

    def expected_log_base(self, params: Params) -> Floats:
        return -(params[1].shape[-1] + 1) / 2 * self.expectation(params)[:, 0]

    def draw(self, params: Params, n: int, rng: np.random.Generator) -> Floats:
        d = len(params[1])
        drawn: Floats = stats.wishart(params[0].item(), params[1]).rvs(n, random_state=rng)
        return drawn.reshape(n, d, d)

    def mean(self, params: Params) -> Floats:
        return params[0][:, None, None] * params[1]

    def to_scipy(self, params: Params) -> Any:
        return stats.wishart(params[0].item(), params[1])

    def to_torch(self, params: Params) -> Any:
        with extra("torch"):
            import torch
        return torch.distributions.Wishart(torch.as_tensor(params[0]), torch.as_tensor(params[1]))


def _halves(function: Callable[[Floats], Floats], df: Floats, d: int) -> Floats:
    """Sum of function((df - i) / 2) over i = 0, ..., d - 1."""
    return function((df[:, None] - np.arange(d)) / 2).sum(axis=1)


def _full(triangles: Floats) -> Floats:
    """Symmetric matrices from lower triangles by rows."""
    d = int((np.sqrt(8 * triangles.shape[1] + 1) - 1) / 2)
    rows, columns = np.tril_indices(d)
    found = np.empty((len(triangles), d, d))
    found[:, rows, columns] = found[:, columns, rows] = triangles
    return found


class VonMises(Family):
    """Unit vectors around a direction (von Mises on the circle, von Mises-Fisher beyond)."""

    name = "vonmises"
    labels = ("direction", "concentration")

    def check(self, values: tuple[Any, ...], where: str, reg: float = 0.0) -> Params:
        direction, kappa = self._unpack(values, where)
        if direction.ndim == 0:  # an angle on the circle, in radians
            direction = np.array([np.cos(direction), np.sin(direction)])
        length = float(np.linalg.norm(direction))
        if direction.ndim != 1 or direction.size < 2 or abs(length - 1) > 1e-6:
            raise ValueError(f"{where}: direction must be an angle or a unit vector of shape (d,), got {direction}")
        kappa = number(kappa, f"{where}: concentration", positive=False)
        if kappa < 0:
            raise ValueError(f"{where}: concentration must be >= 0, got {kappa.item()!r}")
        return direction / length, kappa

    def samples(self, x: Any, where: str) -> Floats:
        rows = np.asarray(x, dtype=float)
        if rows.ndim == 1:
            rows = np.column_stack([np.cos(rows), np.sin(rows)])
        rows = rows_of(rows, where, 2)
        if np.abs(np.linalg.norm(rows, axis=1) - 1).max() > 1e-6:
            raise ValueError(f"{where} must hold angles or unit vectors")
        return rows

    def statistics(self, x: Floats) -> Floats:
        return x

    def natural(self, params: Params) -> Floats:
        return params[0] * params[1][:, None]

    def expectation(self, params: Params) -> Floats:
        direction, kappa = params
        return direction * _resultant(kappa, direction.shape[1])[:, None]

    def from_natural(self, theta: Floats) -> Params:
        return _polar(theta)

    def from_expectation(self, eta: Floats, start: Params | None = None) -> Params:
        direction, length = _polar(eta)
        d = eta.shape[1]
        if not (length < 1 - 1e-14).all():
            raise ValueError("the mean has length 1: all directions of a sample are the same")
        kappa = length * (d - length**2) / (1 - length**2)
        for _ in range(self.max_iter):
            error = _resultant(kappa, d) - length
            step = error / _resultant_slope(kappa, d)
            kappa = np.maximum(kappa - step, kappa / 2)
            if (np.abs(step) <= 1e-13 * (1 + kappa)).all():
                break
        return direction, kappa

    def log_partition(self, params: Params) -> Floats:
        direction, kappa = params
        v = direction.shape[1] / 2 - 1
        small = kappa < 500
        low = np.log(special.hyp0f1(v + 1, np.where(small, kappa, 0.0) ** 2 / 4)) - special.gammaln(v + 1)
        far = np.where(small, 1e3, kappa)
        high = np.log(special.ive(v, far)) + far - v * np.log(far / 2)
        value: Floats = np.where(small, low, high) + (v + 1) * np.log(2 * np.pi) - v * np.log(2)
        return value

    def fisher(self, params: Params) -> Floats:
        direction, kappa = params
        d = direction.shape[1]
        along = direction[:, :, None] * direction[:, None, :]
        across = np.where(kappa > 1e-8, _resultant(kappa, d) / np.maximum(kappa, 1e-8), 1 / d)
        return _resultant_slope(kappa, d)[:, None, None] * along + across[:, None, None] * (np.eye(d) - along)

    def log_density(self, params: Params, x: Floats) -> Floats:
        x = np.asarray(x, dtype=float)
        if params[0].shape[1] == 2 and x.ndim < 2 and x.shape != (2,):
            x = np.column_stack([np.cos(x), np.sin(x)])
        return super().log_density(params, np.atleast_2d(x))

    def draw(self, params: Params, n: int, rng: np.random.Generator) -> Floats:
        if params[1] == 0:
            drawn = rng.standard_normal((n, len(params[0])))
            return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
        rows: Floats = stats.vonmises_fisher(params[0], params[1].item()).rvs(n, random_state=rng)
        return rows.reshape(n, -1)

    def mean(self, params: Params) -> Floats:
        return self.expectation(params)

    def cov(self, params: Params) -> Floats:
        return self.fisher(params)

    def to_scipy(self, params: Params) -> Any:
        return stats.vonmises_fisher(params[0], params[1].item())

    def to_torch(self, params: Params) -> Any:
        with extra("torch"):
            import torch
        if len(params[0]) != 2:
            raise TypeError("torch.distributions has von Mises distributions on the circle only")
        angle = torch.as_tensor(np.arctan2(params[0][1], params[0][0]))
        return torch.distributions.VonMises(angle, torch.as_tensor(params[1]))


def _polar(vectors: Floats) -> tuple[Floats, Floats]:
    """Directions and lengths; the zero vector gets the first axis."""
    length = np.linalg.norm(vectors, axis=1)
    first = np.eye(vectors.shape[1])[0]
    return np.where(length[:, None] > 0, vectors / np.where(length > 0, length, 1.0)[:, None], first), length


def _resultant(kappa: Floats, d: int) -> Floats:
    """Length of the mean, the ratio of the Bessel functions of orders d / 2 and d / 2 - 1."""
    small = kappa < 500
    low = np.where(small, kappa, 0.0)
    ratio = special.hyp0f1(d / 2 + 1, low**2 / 4) / special.hyp0f1(d / 2, low**2 / 4)
    far = np.where(small, 1e3, kappa)
    value: Floats = np.where(small, low / d * ratio, special.ive(d / 2, far) / special.ive(d / 2 - 1, far))
    return value


def _resultant_slope(kappa: Floats, d: int) -> Floats:
    r = _resultant(kappa, d)
    across = np.where(kappa > 1e-8, r / np.maximum(kappa, 1e-8), 1 / d)
    value: Floats = np.maximum(1 - r**2 - (d - 1) * across, 1e-300)
    return value
