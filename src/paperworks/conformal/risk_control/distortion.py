"""Distortion risks: weighted averages of quantiles, R(F) = int F^{-1}(p) dPsi(p) with a distribution function Psi."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from paperworks._checks import check_choice, check_finite_array, check_fraction, check_probability_open

__all__ = [
    "LEVEL_TOLERANCE",
    "RISKS",
    "Curve",
    "Distortion",
    "RowStatistic",
    "check_losses",
    "distortion_risk",
    "make_distortion",
    "weighted_rows",
]

Floats = NDArray[np.float64]
Curve = Callable[[Floats], Floats]
"""A function of quantile levels, array to array."""
RowStatistic = Callable[[Floats], Floats]
"""Takes sorted samples as rows, shape (m, n), and returns a number for each, shape (m,)."""

RISKS = ("mean", "cvar", "var", "spectral")

LEVEL_TOLERANCE = 1e-12
"""Levels are compared up to this: 0.7 * 10 exceeds 7 in double precision."""

_CELLS = 1 << 17
_TOTAL_TOLERANCE = 1e-3
_JUMP = 1e-3
_STEP = 1e-5


@dataclass(frozen=True)
class Distortion:
    """A distortion risk, by the distribution function Psi of its weight and the density psi if there is one."""

    cdf: Curve
    density: Curve | None
    """None where Psi jumps."""
    tail: float = 1.0
    """Share of the losses that decide the risk, 1 where all do."""
    quantile: float | None = None
    """The level, if the risk is a single quantile."""
    symmetric: bool = False
    """Whether all order statistics weigh the same, so that samples need no sorting."""

    def weights(self, levels: Floats) -> Floats:
        """Return Psi(l_i) - Psi(l_{i-1}) of nondecreasing levels l_1, l_2, ..., with Psi(l_0) = 0."""
        return np.diff(self.cdf(levels), prepend=0.0)

    def statistic(self, n: int) -> RowStatistic:
        """Return the L-statistic of n losses as a function of sorted samples, shape (m, n) to (m,)."""
        return weighted_rows(self.weights(np.arange(1, n + 1) / n))


def weighted_rows(weights: Floats) -> RowStatistic:
    """Return the function that sums sorted samples, one per row, with `weights`; what weighs nothing isn't read."""
    support = np.flatnonzero(weights)
    first = int(support[0]) if support.size else weights.size
    return lambda rows: rows[:, first:] @ weights[first:]


def make_distortion(risk: str, beta: float, psi: Curve | None, cdf: Curve | None) -> Distortion:
    """Return the risk named by the arguments of `distortion_risk`, after checking them."""
    check_choice(risk, "risk", RISKS)
    if risk != "spectral":
        given = [name for name, value in (("psi", psi), ("cdf", cdf)) if value is not None]
        if given:
            raise ValueError(f"{' and '.join(given)} belong(s) to risk='spectral', got risk={risk!r}")
    if risk == "mean":
        return Distortion(cdf=lambda p: p, density=np.ones_like, symmetric=True)
    if risk == "cvar":
        level = check_fraction(beta, "beta")
        if level == 1.0:
            raise ValueError("beta must lie in [0, 1) for risk='cvar', got 1")
        return Distortion(
            cdf=lambda p: np.where(p >= 1.0, 1.0, np.maximum(p - level, 0.0) / (1.0 - level)),
            density=lambda p: np.where(p >= level - LEVEL_TOLERANCE, 1.0 / (1.0 - level), 0.0),
            tail=1.0 - level,
        )
    if risk == "var":
        level = check_probability_open(beta, "beta")
        return Distortion(
            cdf=lambda p: (p >= level - LEVEL_TOLERANCE).astype(np.float64),
            density=None,
            tail=1.0 - level,
            quantile=level,
        )
    return _spectral(psi, cdf)


def _spectral(psi: Curve | None, cdf: Curve | None) -> Distortion:
    for name, value in (("psi", psi), ("cdf", cdf)):
        if value is not None and not callable(value):
            raise TypeError(f"{name} must be a function of an array of levels, got {value!r}")
    if psi is None and cdf is None:
        raise ValueError("risk='spectral' needs psi (a density on (0, 1)) or cdf (its distribution function), got none")
    integrated = _integrate(psi) if psi is not None else None
    if cdf is None:
        assert psi is not None
        assert integrated is not None
        return Distortion(cdf=integrated, density=_checked(psi, "psi"))
    curve = _checked(cdf, "cdf")
    grid = np.linspace(0.0, 1.0, 10_001)
    values = curve(grid)
    falls = np.flatnonzero(np.diff(values) < -LEVEL_TOLERANCE)
    if falls.size:
        raise ValueError(f"cdf must not decrease, but it falls after level {grid[falls[0]]:.4f}")
    if values[0] < -LEVEL_TOLERANCE or abs(values[-1] - 1.0) > 1e-9:
        raise ValueError(f"cdf must go from at least 0 to 1, got {values[0]:.6g} at 0 and {values[-1]:.6g} at 1")
    if psi is not None:
        assert integrated is not None
        gap = np.abs(integrated(grid) - values)
        if gap.max() > _TOTAL_TOLERANCE:
            where = grid[gap.argmax()]
            raise ValueError(
                f"psi must be the derivative of cdf, but its integral is off by {gap.max():.3g} at {where}"
            )
        return Distortion(cdf=curve, density=_checked(psi, "psi"))
    return Distortion(cdf=curve, density=None if _jumps(curve, grid, values) else _differenced(curve))


def _checked(curve: Curve, name: str) -> Curve:
    """Return `curve` with its values checked: one finite number per level."""

    def evaluate(levels: Floats) -> Floats:
        values = np.asarray(curve(levels), dtype=np.float64)
        if values.shape != levels.shape:
            raise ValueError(f"{name} must return one number per level, got shape {values.shape} for {levels.shape}")
        if not np.isfinite(values).all():
            raise ValueError(f"{name} must be finite on (0, 1), got {values[~np.isfinite(values)][0]}")
        return values

    return evaluate


def _integrate(psi: Curve) -> Curve:
    """Return Psi(p) = int_0^p psi by the midpoint rule on a grid that is dense at both ends, where psi may diverge."""
    t = np.arange(_CELLS + 1) / _CELLS
    nodes = t * t * (3.0 - 2.0 * t)
    middle = (np.arange(_CELLS) + 0.5) / _CELLS
    levels = middle * middle * (3.0 - 2.0 * middle)
    density = _checked(psi, "psi")(levels)
    if density.min() < 0:
        where = middle[density.argmin()]
        raise ValueError(
            f"psi must not be negative, got {density.min():.6g} at level {where * where * (3 - 2 * where)}"
        )
    mass = np.concatenate([[0.0], np.cumsum(density * 6.0 * middle * (1.0 - middle) / _CELLS)])
    total = mass[-1]
    if abs(total - 1.0) > _TOTAL_TOLERANCE:
        raise ValueError(f"psi must integrate to 1 over (0, 1) within {_TOTAL_TOLERANCE}, got {total:.6g}")
    mass /= total
    return lambda levels: np.interp(levels, nodes, mass)


def _differenced(cdf: Curve) -> Curve:
    def density(levels: Floats) -> Floats:
        above, below = np.minimum(levels + _STEP, 1.0), np.maximum(levels - _STEP, 0.0)
        slope: Floats = np.maximum(cdf(above) - cdf(below), 0.0) / (above - below)
        return slope

    return density


def _jumps(cdf: Curve, grid: Floats, values: Floats) -> bool:
    """Tell whether Psi has a jump: a rise that stays while the cell around it is halved again and again."""
    if values[0] > _JUMP:
        return True
    cells = np.flatnonzero(np.diff(values) > _JUMP)
    low, high = grid[cells], grid[cells + 1]
    for _ in range(24):
        middle = (low + high) / 2
        in_upper = cdf(high) - cdf(middle) > cdf(middle) - cdf(low)
        low, high = np.where(in_upper, middle, low), np.where(in_upper, high, middle)
    return bool((cdf(high) - cdf(low) > _JUMP).any())


def distortion_risk(
    losses: ArrayLike,
    *,
    risk: str = "cvar",
    beta: float = 0.75,
    psi: Curve | None = None,
    cdf: Curve | None = None,
) -> float:
    """Return the distortion risk of a sample: its L-statistic.

    Parameters
    ----------
    losses : array-like of shape (n,)
        Finite losses, at least one, in any order.
    risk : {"cvar", "mean", "var", "spectral"}, default="cvar"
        Mean of the worst share ``1 - beta``, mean, the quantile at `beta`, or the risk given by `psi` or `cdf`.
    beta : float, default=0.75
        Level of "cvar", in [0, 1), or "var", in (0, 1); unused otherwise.
    psi : callable, optional
        Weight of each quantile level for "spectral": takes an array of levels in (0, 1), returns as many values >= 0,
        and integrates to 1.
    cdf : callable, optional
        The distribution function Psi of the weight, for "spectral"; may jump, as for an average of a few quantiles.

    Returns
    -------
    float
        ``sum_i [Psi(i/n) - Psi((i-1)/n)] X_(i)`` over the sorted losses, in their unit.

    Raises
    ------
    ValueError
        If the losses are empty, not one-dimensional or not finite, `beta` is out of range, `psi` is negative or does
        not integrate to 1, or `cdf` decreases or does not reach 1.

    Notes
    -----
    Section 2 of arXiv 2502.20285. Ties need no care: repeating every loss changes nothing.

    Examples
    --------
    >>> from paperworks.conformal import distortion_risk
    >>> distortion_risk([1, 2, 3, 4], risk="cvar", beta=0.5)
    3.5
    >>> distortion_risk([1, 2, 3, 4], risk="spectral", cdf=lambda p: 0.5 * (p >= 0.5) + 0.5 * (p >= 0.9))
    3.0
    """
    distortion = make_distortion(risk, beta, psi, cdf)
    sample = np.sort(check_losses(losses))
    return float(distortion.statistic(sample.size)(sample[None, :])[0])


def check_losses(losses: ArrayLike) -> Floats:
    """Return the losses as a finite, non-empty vector."""
    sample = check_finite_array(losses, "losses", ndim=1)
    if sample.size == 0:
        raise ValueError("losses must hold at least one value, got none")
    return sample
