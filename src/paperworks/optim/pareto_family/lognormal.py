"""Lognormal families: vectors whose logarithms are Gaussian."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats

from paperworks._checks import check_finite_array, extra

from .exponential import Family, Floats, Params
from .gaussians import DiagGaussian, Gaussian, SphericalGaussian, points_of

__all__ = ["DiagLogNormal", "LogNormal", "SphericalLogNormal"]


class _OfLogarithm(Family):
    """Turns a Gaussian family into that of exp(x); divergences are those of the Gaussians of log x."""

    name = "lognormal"

    def estimate(self: Any, samples: list[Any], wheres: list[str]) -> list[tuple[Any, ...]]:
        logs = [np.log(_positive(x, where)) for x, where in zip(samples, wheres, strict=True)]
        found: list[tuple[Any, ...]] = super().estimate(logs, wheres)
        return found

    def log_density(self, params: Params, x: Floats) -> Floats:
        x = points_of(x, params[0].shape[1])
        with np.errstate(divide="ignore"):
            logs = np.log(np.maximum(x, 0.0))
        inside = np.isfinite(logs).all(axis=1)
        value = np.full((len(params[0]), len(x)), -np.inf)
        value[:, inside] = super().log_density(params, logs[inside]) - logs[inside].sum(axis=1)
        return value

    def entropy(self, params: Params) -> Floats:
        value: Floats = super().entropy(params) + params[0].sum(axis=1)
        return value

    def draw(self, params: Params, n: int, rng: np.random.Generator) -> Floats:
        return np.exp(super().draw(params, n, rng))

    def mean(self, params: Params) -> Floats:
        cov: Floats = super().cov(params)
        return np.exp(params[0] + np.diagonal(cov, axis1=1, axis2=2) / 2)

    def cov(self, params: Params) -> Floats:
        mean = self.mean(params)
        cov: Floats = super().cov(params)
        return mean[:, :, None] * mean[:, None, :] * np.expm1(cov)

    def to_scipy(self, params: Params) -> Any:
        if params[0].size != 1:
            raise TypeError("scipy.stats has no lognormal distribution of more than one dimension")
        return stats.lognorm(s=float(np.sqrt(params[1].item())), scale=float(np.exp(params[0].item())))

    def to_torch(self, params: Params) -> Any:
        with extra("torch"):
            import torch
        normal = super().to_torch(params)
        return torch.distributions.TransformedDistribution(normal, torch.distributions.ExpTransform())


class LogNormal(_OfLogarithm, Gaussian):
    """Vectors whose logarithms are N(mean, cov)."""


class DiagLogNormal(_OfLogarithm, DiagGaussian):
    """Independent lognormal numbers."""


class SphericalLogNormal(_OfLogarithm, SphericalGaussian):
    """Independent lognormal numbers of one variance of the logarithm."""


def _positive(x: Any, where: str) -> Floats:
    rows = check_finite_array(x, where)
    if rows.size and rows.min() <= 0:
        raise ValueError(f"{where} must be > 0 for a lognormal family, got {rows.min():.6g}")
    return rows
