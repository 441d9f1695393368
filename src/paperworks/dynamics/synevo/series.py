"""Domains as they come: arrays, data frames or xarray, with gaps; scaled, filled and cut into windows."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paperworks._checks import extra

with extra("torch"):
    import torch
    from torch import Tensor

__all__ = [
    "Scaler",
    "Series",
    "Windows",
    "at_same_times",
    "check_series",
    "errors",
    "gate_windows",
    "read_domain",
    "read_domains",
]

Floats = NDArray[np.float64]


def read_domain(value: Any, name: str, *, ndim: int = 3) -> Floats:
    """Return a domain as (T, N, F), or windows of one as (B, W, N, F); NaN marks what is missing."""
    where = f"domain {name!r}"
    if hasattr(value, "to_numpy") and not isinstance(value, np.ndarray):
        value = value.to_numpy()
    try:
        array = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise TypeError(f"{where} must hold numbers, got {type(value).__name__}") from None
    if array.ndim == ndim - 1:
        array = array[..., None]
    if array.ndim != ndim or 0 in array.shape[1:]:
        expected = "(time, nodes[, features])" if ndim == 3 else "(windows, time, nodes[, features])"
        raise ValueError(f"{where} must have the shape {expected}, got {array.shape}")
    if np.isinf(array).any():
        raise ValueError(f"{where} must not hold infinite values")
    return array


def read_domains(domains: Any, shortest: int) -> dict[str, Floats]:
    """Return the domains of a fit, all of the same nodes and features, none too short or with a dead node."""
    if not isinstance(domains, Mapping):
        raise TypeError(f"domains must be a mapping of names to series, got {type(domains).__name__}")
    if not domains:
        raise ValueError("domains must hold at least one series, got none")
    out = {str(name): read_domain(value, str(name)) for name, value in domains.items()}
    if len(out) < len(domains):
        raise ValueError(f"domains must have different names, got {list(domains)!r}")
    first, *others = out
    for name in others:
        if out[name].shape[1:] != out[first].shape[1:]:
            raise ValueError(
                f"domain {name!r} must have the nodes and features of {first!r}, {out[first].shape[1:]}, got "
                f"{out[name].shape[1:]}"
            )
    for name, array in out.items():
        check_series(array, name, shortest)
    return out


def check_series(array: Floats, name: str, shortest: int) -> None:
    """Refuse a series that is too short or has a node without any value."""
    if len(array) < shortest:
        raise ValueError(f"domain {name!r} must have at least {shortest} time steps, got {len(array)}")
    dead = np.flatnonzero(np.any(np.isnan(array).all(axis=0), axis=1))
    if dead.size:
        raise ValueError(f"domain {name!r} has no value at node {', '.join(map(str, dead))}")


@dataclass(frozen=True)
class Scaler:
    """Mean and standard deviation of each node and feature, (N, F)."""

    mean: Floats
    std: Floats

    @classmethod
    def of(cls, array: Floats, name: str) -> Scaler:
        """Return the scaler of a series; where it is constant the standard deviation counts as 1, with a warning."""
        mean, std = np.nanmean(array, axis=0), np.nanstd(array, axis=0)
        constant = std <= 1e-9 * np.maximum(np.abs(mean), 1e-300)
        if constant.any():
            nodes = ", ".join(map(str, np.flatnonzero(constant.any(axis=1))))
            warnings.warn(f"domain {name!r} is constant at node {nodes}", UserWarning, stacklevel=4)
        return cls(mean, np.where(constant, 1.0, std))

    def scale(self, array: Floats) -> Floats:
        """Return z-scores; missing values stay missing."""
        return (array - self.mean) / self.std

    def filled(self, array: Floats) -> Floats:
        """Return z-scores with gaps filled by the last value, or by 0, the mean, where there is none before."""
        z = self.scale(array)
        axis = z.ndim - 3
        gaps = np.isnan(z)
        if not gaps.any():
            return z
        shape = [1] * z.ndim
        shape[axis] = z.shape[axis]
        last = np.maximum.accumulate(np.where(gaps, 0, np.arange(z.shape[axis]).reshape(shape)), axis=axis)
        return np.nan_to_num(np.take_along_axis(z, last, axis=axis), nan=0.0)

    def restore(self, targets: Floats) -> Floats:
        """Return forecasts (..., N) of the first feature in original units."""
        return targets * self.std[:, 0] + self.mean[:, 0]


class Series:
    """A scaled domain as training data: windows are read where they stand, nothing is copied."""

    def __init__(self, array: Floats, scaler: Scaler, window: int, horizon: int, stride: int, device: Any) -> None:
        self.window, self.horizon = window, horizon
        self.inputs = torch.as_tensor(scaler.filled(array), dtype=torch.float32, device=device)
        self.targets = torch.as_tensor(scaler.scale(array)[..., 0], dtype=torch.float32, device=device)
        starts = torch.arange(0, len(array) - window - horizon + 1, stride, device=device)
        ahead = torch.arange(window, window + horizon, device=device)
        seen = ~torch.isnan(self.targets)
        self.starts = starts[seen[starts[:, None] + ahead].flatten(1).any(dim=1)]

    def __len__(self) -> int:
        return len(self.starts)

    def batch(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """Return inputs (B, W, N, F) and targets (B, H, N) of windows; missing targets are NaN."""
        start = self.starts[index][:, None]
        steps = torch.arange(self.window + self.horizon, device=start.device)
        return self.inputs[start + steps[: self.window]], self.targets[start + steps[self.window :]]


class Windows(NamedTuple):
    """Windows of a domain that the gate compares with those of others at the same times."""

    places: NDArray[np.int64]
    """How many half windows before the end of the series each one ends, (S,)."""
    values: Floats
    """Z-scored windows, (S, N, W F)."""


def gate_windows(array: Floats, scaler: Scaler, window: int, length: int | None = None) -> Windows:
    """Return windows half a window apart, counted from the end of a series of which `array` is the beginning."""
    z = scaler.filled(array)
    starts = np.arange((len(z) if length is None else length) - window, -1, -max(1, window // 2))
    places = np.flatnonzero(starts + window <= len(z))
    cut = z[starts[places][:, None] + np.arange(window)]
    return Windows(places, cut.transpose(0, 2, 1, 3).reshape(len(places), z.shape[1], -1))


def at_same_times(windows: Sequence[Windows]) -> list[Floats]:
    """Return the windows of the times that all of them have."""
    common = reduce(np.intersect1d, [w.places for w in windows])
    return [w.values[np.isin(w.places, common)] for w in windows]


def errors(found: Floats, truth: Floats, scale: Floats) -> dict[str, float]:
    """Return mean absolute, root mean squared and mean absolute percentage error where the truth is known.

    Zeros are values like any other, but the percentage leaves out targets below a thousandth of their node's `scale`.
    """
    known = ~np.isnan(truth)
    if not known.any():
        raise ValueError("X must hold at least one known target")
    gap = np.abs(found - truth)
    sizes = np.abs(truth)
    enough = known & (sizes >= 1e-3 * scale)
    percentage = float(np.mean(gap[enough] / sizes[enough])) if enough.any() else np.nan
    return {
        "mae": float(gap[known].mean()),
        "rmse": float(np.sqrt((gap[known] ** 2).mean())),
        "mape": percentage,
    }
