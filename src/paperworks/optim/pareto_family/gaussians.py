"""Gaussian families with full, diagonal, spherical and known covariances.

Full covariances are handled in coordinates in which the targets' mean covariance is the identity. KL divergences don't
change under affine maps, and inverses of nearly singular covariances that share their small directions become harmless.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import linalg, stats
from scipy.linalg import lapack

from paperworks._checks import check_finite_array, extra

from .exponential import Family, Floats, Params, mix

__all__ = [
    "DiagGaussian",
    "Gaussian",
    "KnownCovGaussian",
    "SphericalGaussian",
    "covariance_matrix",
    "points_of",
]

_MAX_CONDITION = 1e12
_LOG_2PI = float(np.log(2 * np.pi))


def _vector(value: Floats, where: str) -> Floats:
    value = np.atleast_1d(value)
    if value.ndim != 1:
        raise ValueError(f"{where} must be a vector of shape (d,), got shape {value.shape}")
    return value


def covariance_matrix(value: Floats, d: int | None, where: str, reg: float = 0.0) -> Floats:
    """Return a symmetric positive definite matrix, with `reg` added to its diagonal, or raise an error."""
    value = np.atleast_2d(value)
    expected = (len(value), len(value)) if d is None else (d, d)
    if value.shape != expected:
        raise ValueError(f"{where} must have shape {expected}, got {value.shape}")
    skew = np.abs(value - value.T).max()
    if skew > 1e-8 * np.abs(value).max():
        raise ValueError(f"{where} must be symmetric, got entries that differ by {skew:.3g} from their mirror images")
    value = (value + value.T) / 2 + reg * np.eye(len(value))
    # The test is made on the correlation scale: entries of different units say nothing about definiteness.
    scale = np.sqrt(np.maximum(np.diag(value), np.finfo(float).tiny))
    smallest = float(np.linalg.eigvalsh(value / np.outer(scale, scale))[0])
    if np.diag(value).min() <= 0 or smallest <= 4 * len(value) * np.finfo(float).eps:
        raise ValueError(
            f"{where} must be positive definite, got a smallest eigenvalue of {np.linalg.eigvalsh(value)[0]:.3g}; "
            "`reg` adds to the diagonal"
        )
    return value


def _lower(matrices: Floats) -> Floats:
    """Lower triangles by rows."""
    rows, columns = np.tril_indices(matrices.shape[-1])
    return matrices[..., rows, columns]


def _rows(x: Any, where: str, n_min: int) -> Floats:
    rows = check_finite_array(x, where)
    rows = rows[:, None] if rows.ndim == 1 else rows
    if rows.ndim != 2:
        raise ValueError(f"{where} must be a sample of shape (n, d), got shape {rows.shape}")
    needed = max(n_min, 2) if n_min > 0 else rows.shape[1] + 1
    if len(rows) < needed:
        raise ValueError(
            f"{where} has {len(rows)} row(s); estimating its covariance in {rows.shape[1]} dimension(s) needs at "
            f"least {needed}"
        )
    return rows


class _Whitened(NamedTuple):
    """Gaussian targets in coordinates z with x = root z + shift."""

    root: Floats
    unroot: Floats
    shift: Floats
    mean: Floats
    cov: Floats
    precision: Floats
    log_det: Floats


class Gaussian(Family):
    """N(mean, cov); the inner form is mean, covariance, precision and log-determinant in whitened coordinates."""

    name = "gaussian"
    labels = ("mean", "cov")
    matrix = True

    def check(self, values: tuple[Any, ...], where: str, reg: float = 0.0) -> Params:
        mean, cov = self._unpack(values, where)
        mean = _vector(mean, f"{where}: mean")
        return mean, covariance_matrix(cov, len(mean), f"{where}: cov", reg)

    def estimate(self, samples: list[Any], wheres: list[str]) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = []
        for x, where in zip(samples, wheres, strict=True):
            rows = _rows(x, where, 0)
            found.append((rows.mean(axis=0), np.atleast_2d(np.cov(rows.T, bias=True))))
        return found

    def natural(self, params: Params) -> Floats:
        mean, cov = params
        precision = _inverse(cov)
        triangle = -_lower(precision)
        triangle[..., _diagonal_of_lower(mean.shape[1])] /= 2
        return np.concatenate([(precision @ mean[..., None])[..., 0], triangle], axis=1)

    def expectation(self, params: Params) -> Floats:
        mean, cov = params
        return np.concatenate([mean, _lower(cov + mean[:, :, None] * mean[:, None, :])], axis=1)

    def prepare(self, params: Params) -> _Whitened:
        mean, cov = params
        root = np.linalg.cholesky(cov.mean(axis=0))
        unroot = linalg.solve_triangular(root, np.eye(len(root)), lower=True)
        shift = mean.mean(axis=0)
        white = _congruence(unroot, cov)
        for i, values in enumerate(np.linalg.eigvalsh(white)):
            if values[0] * _MAX_CONDITION < values[-1]:
                raise ValueError(
                    f"targets[{i}]: cov is nearly singular beside the mean covariance of the targets (smallest and "
                    f"largest relative eigenvalue {values[0]:.3g} and {values[-1]:.3g}); `reg` adds to the diagonal"
                )
        return _Whitened(root, unroot, shift, (mean - shift) @ unroot.T, white, *_invert(white))

    def inner(self, prepared: _Whitened, params: Params) -> Params:
        mean, cov = params
        white = _congruence(prepared.unroot, cov)
        return (mean - prepared.shift) @ prepared.unroot.T, white, *_invert(white)

    def outer(self, prepared: _Whitened, inner: Params) -> Params:
        return inner[0] @ prepared.root.T + prepared.shift, _congruence(prepared.root, inner[1])

    def solve(self, prepared: _Whitened, weights: Floats, divergence: str) -> Params:
        if divergence == "reverse":
            precision = mix(weights, prepared.precision)
            cov, log_det = _invert(precision)
            pull = mix(weights, (prepared.precision @ prepared.mean[..., None])[..., 0])
            mean = (cov @ pull[..., None])[..., 0]
            return mean, cov, precision, -log_det
        mean = weights @ prepared.mean
        away = np.sqrt(weights)[..., None] * (prepared.mean - mean[:, None])
        cov = mix(weights, prepared.cov) + away.swapaxes(1, 2) @ away
        return mean, cov, *_invert(cov)

    def objectives(self, prepared: _Whitened, inner: Params, divergence: str) -> Floats:
        mean, cov, precision, log_det = inner
        n, d = mean.shape
        away = mean[:, None] - prepared.mean
        if divergence == "reverse":
            trace = cov.reshape(n, -1) @ prepared.precision.reshape(len(prepared.mean), -1).T
            stretch = np.stack([((a @ p) * a).sum(axis=1) for a, p in _by_target(away, prepared.precision)], axis=1)
            gap = prepared.log_det - log_det[:, None]
        else:
            trace = precision.reshape(n, -1) @ prepared.cov.reshape(len(prepared.mean), -1).T
            stretch = ((away @ precision) * away).sum(axis=2)
            gap = log_det[:, None] - prepared.log_det
        return np.maximum((trace + stretch - d + gap) / 2, 0.0)

    def gram(self, prepared: _Whitened, inner: Params, divergence: str) -> Floats:
        mean, cov, precision, _ = inner
        away = prepared.mean - mean[:, None]
        if divergence == "reverse":
            bend = (prepared.precision - precision[:, None]) @ cov[:, None]
            pull = (prepared.precision @ away[..., None])[..., 0]
            line = pull @ cov @ pull.swapaxes(1, 2)
        else:
            bend = (prepared.cov - cov[:, None] + away[..., :, None] * away[..., None, :]) @ precision[:, None]
            line = away @ precision @ away.swapaxes(1, 2)
        flat = bend.reshape(*bend.shape[:2], -1)
        other = bend.swapaxes(2, 3).reshape(flat.shape)
        return _symmetric(line + flat @ other.swapaxes(1, 2) / 2)

    def log_density(self, params: Params, x: Floats) -> Floats:
        mean, cov = params
        x = points_of(x, mean.shape[1])
        found = []
        for mu, root in zip(mean, np.linalg.cholesky(cov), strict=True):
            z = linalg.solve_triangular(root, (x - mu).T, lower=True)
            found.append(-(np.square(z).sum(axis=0) + _log_det(root) + len(mu) * _LOG_2PI) / 2)
        return np.array(found)

    def entropy(self, params: Params) -> Floats:
        mean, cov = params
        return (_log_det(np.linalg.cholesky(cov)) + mean.shape[1] * (1 + _LOG_2PI)) / 2

    def draw(self, params: Params, n: int, rng: np.random.Generator) -> Floats:
        mean, cov = params
        return mean + rng.standard_normal((n, len(mean))) @ np.linalg.cholesky(cov).T

    def mean(self, params: Params) -> Floats:
        return params[0]

    def cov(self, params: Params) -> Floats:
        return params[1]

    def to_scipy(self, params: Params) -> Any:
        return stats.multivariate_normal(params[0], params[1])

    def to_torch(self, params: Params) -> Any:
        with extra("torch"):
            import torch
        mean, cov = map(torch.as_tensor, params)
        return torch.distributions.MultivariateNormal(mean, cov)


class KnownCovGaussian(Gaussian):
    """N(mean, cov) with one covariance for all members: both mixtures average the means."""

    name = "gaussian_known_cov"

    def check_targets(self, params: Params, divergence: str, names: list[str]) -> None:
        for cov, name in zip(params[1], names, strict=True):
            if not np.allclose(cov, params[1][0], rtol=1e-8, atol=1e-12 * np.abs(params[1][0]).max()):
                raise ValueError(f"{name}: cov must be the same in all members of 'gaussian_known_cov'")

    def estimate(self, samples: list[Any], wheres: list[str]) -> list[tuple[Any, ...]]:
        rows = [_rows(x, where, 2) for x, where in zip(samples, wheres, strict=True)]
        if len({x.shape[1] for x in rows}) > 1:
            raise ValueError(f"targets have different dimensions: {[x.shape[1] for x in rows]}")
        pooled = np.concatenate([x - x.mean(axis=0) for x in rows])
        cov = pooled.T @ pooled / len(pooled)  # maximum likelihood of a shared covariance
        return [(x.mean(axis=0), cov) for x in rows]

    def natural(self, params: Params) -> Floats:
        mean, cov = params
        return np.linalg.solve(cov, mean[..., None])[..., 0]

    def expectation(self, params: Params) -> Floats:
        return params[0]

    def inner(self, prepared: _Whitened, params: Params) -> Params:
        found = super().inner(prepared, params)
        for cov in found[1]:
            if not np.allclose(cov, prepared.cov[0], atol=1e-6):
                raise ValueError("member: cov must be that of the targets in 'gaussian_known_cov'")
        return found

    def solve(self, prepared: _Whitened, weights: Floats, divergence: str) -> Params:
        shared = (prepared.cov[0], prepared.precision[0], prepared.log_det[0])
        return weights @ prepared.mean, *(np.broadcast_to(part, (len(weights), *part.shape)) for part in shared)

    def gram(self, prepared: _Whitened, inner: Params, divergence: str) -> Floats:
        away = prepared.mean - inner[0][:, None]
        return away @ prepared.precision[0] @ away.swapaxes(1, 2)


class DiagGaussian(Family):
    """Independent N(mean_k, variance_k)."""

    name = "gaussian"
    labels = ("mean", "variances")
    matrix = True

    def _variances(self, value: Floats, d: int, where: str) -> Floats:
        if np.shape(np.atleast_1d(value)) != (d,):
            raise ValueError(f"{where} must have shape {(d,)}, got {value.shape}")
        return np.atleast_1d(value)

    def check(self, values: tuple[Any, ...], where: str, reg: float = 0.0) -> Params:
        mean, variances = self._unpack(values, where)
        mean = _vector(mean, f"{where}: mean")
        place = f"{where}: {self.labels[1]}"
        variances = self._variances(variances, len(mean), place) + reg
        if variances.min() <= 0:
            raise ValueError(f"{place} must be > 0, got {variances.min():.6g}; `reg` adds to them")
        return mean, variances

    def estimate(self, samples: list[Any], wheres: list[str]) -> list[tuple[Any, ...]]:
        rows = [_rows(x, where, 2) for x, where in zip(samples, wheres, strict=True)]
        return [(x.mean(axis=0), self._pool(x.var(axis=0))) for x in rows]

    def _pool(self, per_axis: Floats) -> Floats:
        """Turn second moments per coordinate into the family's variances."""
        return per_axis

    def _spread(self, params: Params) -> Floats:
        """Variances per coordinate, (n, d)."""
        return params[1]

    def natural(self, params: Params) -> Floats:
        v = self._spread(params)
        return np.concatenate([params[0] / v, -0.5 / v], axis=1)

    def expectation(self, params: Params) -> Floats:
        return np.concatenate([params[0], self._spread(params) + params[0] ** 2], axis=1)

    def prepare(self, params: Params) -> Params:
        return params

    def solve(self, prepared: Params, weights: Floats, divergence: str) -> Params:
        means, variances = prepared
        if divergence == "reverse":
            precision = weights @ (1 / variances)
            pull = weights @ (means / self._spread(prepared))
            spread = self._spread((pull, 1 / precision))
            return pull * spread, 1 / precision
        mean = weights @ means
        away = np.square(means - mean[:, None])
        return mean, weights @ variances + self._pool((weights[..., None] * away).sum(axis=1))

    def objectives(self, prepared: Params, inner: Params, divergence: str) -> Floats:
        away = np.square(inner[0][:, None] - prepared[0])
        own, others = self._spread(inner)[:, None], self._spread(prepared)
        top, bottom = (own, others) if divergence == "reverse" else (others, own)
        ratio = top / bottom
        value: Floats = (ratio - 1 - np.log(ratio) + away / bottom).sum(axis=2) / 2
        return np.maximum(value, 0.0)

    def gram(self, prepared: Params, inner: Params, divergence: str) -> Floats:
        away = prepared[0] - inner[0][:, None]
        own, others = self._spread(inner)[:, None], self._spread(prepared)
        if divergence == "reverse":
            bend = own / others - 1
            line = away * np.sqrt(own) / others
        else:
            bend = (self._spread((away, self._pool(others - own + away**2)))) / own
            line = away / np.sqrt(own)
        return bend @ bend.swapaxes(1, 2) / 2 + line @ line.swapaxes(1, 2)

    def log_density(self, params: Params, x: Floats) -> Floats:
        mean, v = params[0][:, None], self._spread(params)[:, None]
        x = points_of(x, mean.shape[2])
        return -(np.square(x - mean) / v + np.log(v) + _LOG_2PI).sum(axis=2) / 2

    def entropy(self, params: Params) -> Floats:
        return (np.log(self._spread(params)) + 1 + _LOG_2PI).sum(axis=1) / 2

    def draw(self, params: Params, n: int, rng: np.random.Generator) -> Floats:
        return params[0] + rng.standard_normal((n, len(params[0]))) * np.sqrt(params[1])

    def mean(self, params: Params) -> Floats:
        return params[0]

    def cov(self, params: Params) -> Floats:
        return self._spread(params)[..., None] * np.eye(params[0].shape[1])

    def to_scipy(self, params: Params) -> Any:
        return stats.multivariate_normal(params[0], self.cov((params[0][None], params[1][None]))[0])

    def to_torch(self, params: Params) -> Any:
        with extra("torch"):
            import torch
        spread = np.broadcast_to(np.sqrt(params[1]), params[0].shape).copy()
        normal = torch.distributions.Normal(torch.as_tensor(params[0]), torch.as_tensor(spread))
        return torch.distributions.Independent(normal, 1)


class SphericalGaussian(DiagGaussian):
    """N(mean, variance I)."""

    labels = ("mean", "variance")

    def _variances(self, value: Floats, d: int, where: str) -> Floats:
        if value.size != 1:
            raise ValueError(f"{where} must be a single number, got shape {value.shape}")
        return value.reshape(())

    def _pool(self, per_axis: Floats) -> Floats:
        return per_axis.mean(axis=-1)

    def _spread(self, params: Params) -> Floats:
        return np.broadcast_to(params[1][..., None], params[0].shape)

    def natural(self, params: Params) -> Floats:
        return np.column_stack([params[0] / params[1][:, None], -0.5 / params[1]])

    def expectation(self, params: Params) -> Floats:
        mean, variance = params
        return np.column_stack([mean, mean.shape[1] * variance + np.square(mean).sum(axis=1)])


def points_of(x: Floats, d: int) -> Floats:
    x = x.reshape(-1, 1) if d == 1 and x.ndim < 2 else np.atleast_2d(x)
    if x.ndim != 2 or x.shape[1] != d:
        raise ValueError(f"x must have shape (n, {d}), got {x.shape}")
    return x


def _symmetric(matrices: Floats) -> Floats:
    return (matrices + matrices.swapaxes(-1, -2)) / 2


def _inverse(matrices: Floats) -> Floats:
    return _invert(matrices)[0]


def _invert(matrices: Floats) -> tuple[Floats, Floats]:
    """Inverses and log-determinants of a stack of positive definite matrices."""
    n, d = matrices.shape[:2]
    if d <= 16 and n >= 32:
        # Gauss-Jordan along the stack: stable without pivoting for these matrices, and free of calls per matrix.
        a = np.ascontiguousarray(np.moveaxis(matrices, 0, -1))
        log_det = np.zeros(n)
        for k in range(d):
            pivot, column = a[k, k].copy(), a[:, k].copy()
            log_det += np.log(pivot)
            row = a[k] / pivot
            a -= column[:, None] * row
            a[k], a[:, k] = row, -column / pivot
            a[k, k] = 1 / pivot
        return _symmetric(np.moveaxis(a, -1, 0)), log_det
    roots = np.linalg.cholesky(matrices)
    found = np.empty_like(matrices)
    for i in range(n):
        found[i] = lapack.dpotri(roots[i].T, lower=0)[0].T
    found = np.tril(found)
    return found + np.tril(found, -1).swapaxes(1, 2), _log_det(roots)


def _congruence(root: Floats, matrices: Floats) -> Floats:
    """Root M root^T for each M of a stack, in two products of tall matrices."""
    shape = matrices.shape
    half = (matrices.reshape(-1, shape[-1]) @ root.T).reshape(shape).swapaxes(1, 2)
    return _symmetric((half.reshape(-1, shape[-1]) @ root.T).reshape(shape))


def _log_det(roots: Floats) -> Floats:
    return 2 * np.log(np.diagonal(roots, axis1=-2, axis2=-1)).sum(axis=-1)


def _diagonal_of_lower(d: int) -> Any:
    steps = np.arange(d)
    return steps * (steps + 3) // 2


def _by_target(away: Floats, precision: Floats) -> Any:
    return ((away[:, i], precision[i]) for i in range(len(precision)))
