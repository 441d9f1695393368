"""Coefficients from the Gram matrix Z'Z and the moments Z'y: least squares, truncated least squares and ridge."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Data(NamedTuple):
    """Sufficient statistics of all units; rows of noisier rounds are scaled down, so that all have the same noise."""

    gram: Floats
    """Z'Z, shape (K, K)."""
    moments: Floats
    """Z'y, shape (K,)."""
    square: float
    """y'y."""
    n_units: int


class Spectrum(NamedTuple):
    """Eigenvalues (ascending) and eigenvectors of the Gram matrix, and its numerical rank."""

    values: Floats
    vectors: Floats
    rank: int


def spectrum(gram: Floats) -> Spectrum:
    """Decompose the Gram matrix; eigenvalues within rounding of zero become zero."""
    values, vectors = scipy.linalg.eigh(gram)
    zero = values <= 1e-12 * max(values[-1], 0.0)
    return Spectrum(np.where(zero, 0.0, values), vectors, int((~zero).sum()))


def residual_std(data: Data, parts: Spectrum) -> float:
    """Return the noise as least squares leaves it: the root of (y'y - b'Z'y) / (n - rank)."""
    kept = parts.values > 0
    projected = (parts.vectors.T @ data.moments)[kept]
    left = data.square - float((projected**2 / parts.values[kept]).sum())
    return float(np.sqrt(max(left, 0.0) / (data.n_units - parts.rank)))


def likeliest_ridge(data: Data, parts: Spectrum, sigma: float) -> float:
    """Return the lambda of a log grid, sigma^2 times 1e-4 .. 1e6, with the greatest marginal likelihood.

    Coefficients are N(0, sigma^2 / lambda) there. Twice the negative log likelihood is, up to a constant, the sum of
    log(1 + g / lambda) over the eigenvalues g, minus z^2 / (sigma^2 (g + lambda)) with z the rotated moments.
    """
    grid = sigma**2 * np.logspace(-4, 6, 201)[:, np.newaxis]
    rotated = (parts.vectors.T @ data.moments) ** 2
    deviance = np.log1p(parts.values / grid).sum(axis=1) - (rotated / (parts.values + grid)).sum(axis=1) / sigma**2
    return float(grid[np.argmin(deviance), 0])


def solve(data: Data, parts: Spectrum, ridge: float) -> tuple[Floats, Floats]:
    """Return (Z'Z + lambda I)^{-1} Z'y and a root R of the inverse, R R' = (Z'Z + lambda I)^{-1}."""
    root = parts.vectors / np.sqrt(parts.values + ridge)
    return root @ (root.T @ data.moments), root
