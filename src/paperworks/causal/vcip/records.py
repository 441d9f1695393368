"""Checks records of people over time and gives them one shape: gaps filled, lengths known, outcomes standardised."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paperworks._checks import check_finite_array

from .candidates import check_actions

__all__ = ["Records", "Scaling", "check_candidates", "check_records", "check_target"]

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


class Records(NamedTuple):
    """People over time.

    `outcomes` (n, T + 1, dy) and `covariates` (n, T + 1, dx) carry the last seen value forward where nothing was seen
    (NaN before the first), `actions` (n, T, da) hold 0 where they aren't known, `static` is (n, ds); `seen` (n, T + 1)
    says at which steps the outcome was recorded, `known` (n, T) which actions are known, `last` (n,) where each record
    ends: at its last seen outcome. `gaps` says whether anything is missing before the ends.
    """

    outcomes: Floats
    actions: Floats
    covariates: Floats
    static: Floats
    seen: Bools
    known: Bools
    last: NDArray[np.int64]

    @property
    def gaps(self) -> bool:
        inside = np.arange(self.seen.shape[1]) <= self.last[:, None]
        return bool((inside & ~self.seen).any() or (inside[:, 1:] & ~self.known).any())

    def take(self, rows: Any) -> Records:
        return Records(*(part[rows] for part in self))

    def extended(self, action: Floats, outcome: Floats) -> Records:
        """Append one action (n, da) and the outcome after it (n, dy) to each record, at its own end."""
        n, parts = len(self.last), tuple[NDArray[Any], ...](self)
        rows, end = np.arange(n), self.last

        def longer(array: NDArray[Any]) -> NDArray[Any]:
            return np.concatenate([array, np.zeros((n, 1, *array.shape[2:]), dtype=array.dtype)], axis=1)

        outcomes, actions, covariates, _, seen, known, _ = (longer(a) if a.ndim > 1 else a for a in parts)
        actions[rows, end], known[rows, end] = action, True
        outcomes[rows, end + 1], seen[rows, end + 1] = outcome, True
        covariates[rows, end + 1] = covariates[rows, end]
        return Records(outcomes, actions, covariates, self.static, seen, known, end + 1)


def _numbers(value: Any, name: str, shape: str, ndim: int) -> Floats:
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must be numeric of shape {shape}: {error}") from error
    if array.ndim != ndim:
        raise ValueError(f"{name} must have shape {shape}, got {array.shape}")
    return array


def check_records(outcomes: Any, actions: Any, covariates: Any, static: Any, mask: Any, treatment: str) -> Records:
    """Return checked records; the arguments are those of `VCIP.fit`."""
    y = np.asarray(outcomes)
    y = _numbers(y[:, :, None] if y.ndim == 2 else y, "outcomes", "(n, T + 1) or (n, T + 1, n_outcomes)", 3)
    a = _numbers(actions, "actions", "(n, T, n_actions)", 3)
    n, steps = y.shape[:2]
    if n == 0 or y.shape[2] == 0 or a.shape[2] == 0:
        raise ValueError(f"outcomes and actions must not be empty, got shapes {y.shape} and {a.shape}")
    if a.shape[:2] != (n, steps - 1):
        raise ValueError(
            f"actions must have shape ({n}, {steps - 1}, n_actions): one step fewer than outcomes, whose step t is "
            f"seen before action t; got {a.shape}"
        )
    x = np.empty((n, steps, 0)) if covariates is None else _numbers(covariates, "covariates", "(n, T + 1, dx)", 3)
    if x.shape[:2] != (n, steps):
        raise ValueError(f"covariates must have shape ({n}, {steps}, n_covariates), got {x.shape}")
    fixed = np.empty((n, 0)) if static is None else check_finite_array(static, "static", ndim=2)
    if len(fixed) != n:
        raise ValueError(f"static must have one row per person, {n}; got {len(fixed)}")
    seen = np.ones((n, steps), dtype=bool) if mask is None else _check_mask(mask, (n, steps))
    for array, name in ((y, "outcomes"), (x, "covariates")):
        bad = ~np.isfinite(array).all(axis=2) & seen
        if bad.any():
            hint = "; give mask, False where nothing was recorded" if mask is None else " where mask is True"
            raise ValueError(f"{name} hold NaN or infinity at (person, step) {_first(bad)}{hint}")
    last = steps - 1 - seen[:, ::-1].argmax(axis=1)
    inside = np.arange(steps - 1) < last[:, None]
    finite = np.isfinite(a).all(axis=2)
    bad = inside & ~finite & (seen[:, :-1] | np.isinf(a).any(axis=2))
    if bad.any():
        raise ValueError(
            f"actions hold NaN or infinity at (person, step) {_first(bad)}; an unknown action is allowed only where "
            "mask is False"
        )
    known = inside & finite
    a[~known] = 0.0
    check_actions(a, "actions", treatment)
    return Records(_carried(y, seen), a, _carried(x, seen), fixed, seen, known, last)


def _check_mask(mask: Any, shape: tuple[int, int]) -> Bools:
    array = np.asarray(mask)
    if array.shape != shape:
        raise ValueError(f"mask must have shape {shape}, one entry per person and outcome; got {array.shape}")
    if not np.isin(array, (0, 1)).all():
        raise ValueError("mask must be boolean: True where the outcome was recorded")
    array = array.astype(bool)
    empty = np.flatnonzero(~array.any(axis=1))
    if empty.size:
        raise ValueError(f"mask leaves nothing of {empty.size} person(s), the first in row {empty[0]}")
    return array


def _first(bad: Bools) -> tuple[int, ...]:
    return tuple(int(i) for i in np.argwhere(bad)[0])


def _carried(values: Floats, seen: Bools) -> Floats:
    """Repeat the last seen value where nothing was seen; NaN before the first."""
    steps = np.where(seen, np.arange(seen.shape[1]), -1)
    source = np.maximum.accumulate(steps, axis=1)
    filled = np.take_along_axis(values, np.maximum(source, 0)[:, :, None], axis=1)
    filled[source < 0] = np.nan
    return filled


def check_candidates(candidates: Any, n: int, n_actions: int, horizon: int, treatment: str) -> Floats:
    """Return candidates of shape (k, n, n_steps, n_actions), n_steps at most `horizon`."""
    array = check_finite_array(candidates, "candidates", ndim=4)
    if array.shape[0] == 0 or array.shape[1] != n or array.shape[3] != n_actions:
        raise ValueError(f"candidates must have shape (k, {n}, n_steps, {n_actions}), got {array.shape}")
    if not 1 <= array.shape[2] <= horizon:
        raise ValueError(f"candidates must have 1 to {horizon} steps (the horizon of the fit), got {array.shape[2]}")
    return check_actions(array, "candidates", treatment)


def check_target(target: Any, n: int, n_outcomes: int) -> Floats:
    """Return the target with shape (n, n_outcomes)."""
    array = check_finite_array(target, "target")
    if array.ndim == 1 and n_outcomes == 1:
        array = array[:, None]
    if array.shape != (n, n_outcomes):
        expected = f"({n},) or ({n}, 1)" if n_outcomes == 1 else f"({n}, {n_outcomes})"
        raise ValueError(f"target must have shape {expected}, got {array.shape}")
    return array


class Scaling(NamedTuple):
    """Means and scales of outcomes, covariates and static features; `gaps` adds an input that says what was seen."""

    outcome_mean: Floats
    outcome_scale: Floats
    covariate_mean: Floats
    covariate_scale: Floats
    static_mean: Floats
    static_scale: Floats
    gaps: bool
    n_actions: int

    @classmethod
    def of(cls, records: Records) -> Scaling:
        """Take them from the recorded values."""
        values = records.outcomes[records.seen]
        mean, scale = values.mean(axis=0), values.std(axis=0)
        if (scale <= 1e-12 * np.maximum(np.abs(mean), 1e-300)).any():
            column = int(np.argmin(scale))
            raise ValueError(f"outcomes must vary; outcome {column} is always {mean[column]:g}")
        x = records.covariates[records.seen]
        return cls(mean, scale, *_scales(x), *_scales(records.static), records.gaps, records.actions.shape[2])

    @property
    def n_inputs(self) -> int:
        """Width of the history's inputs."""
        sizes = (self.outcome_mean.size, self.covariate_mean.size, self.static_mean.size)
        return sum(sizes) + self.n_actions + 2 * self.gaps

    def outcomes(self, values: Floats) -> Floats:
        """Standardise outcomes; 0 where nothing was seen yet."""
        return np.nan_to_num((values - self.outcome_mean) / self.outcome_scale, nan=0.0)

    def inputs(self, records: Records) -> Floats:
        """Return what the history network reads, (n, T + 1, n_inputs): static, outcome, last action, covariates."""
        n, steps = records.seen.shape
        before = np.zeros((n, steps, self.n_actions))
        before[:, 1:] = records.actions
        fixed = np.broadcast_to(
            ((records.static - self.static_mean) / self.static_scale)[:, None], (n, steps, self.static_mean.size)
        )
        x = np.nan_to_num((records.covariates - self.covariate_mean) / self.covariate_scale, nan=0.0)
        parts = [fixed, self.outcomes(records.outcomes), before, x]
        if self.gaps:
            known = np.ones((n, steps))
            known[:, 1:] = records.known
            parts += [records.seen[:, :, None].astype(np.float64), known[:, :, None]]
        return np.concatenate(parts, axis=2)


def _scales(values: Floats) -> tuple[Floats, Floats]:
    if values.shape[-1] == 0:
        return np.empty(0), np.empty(0)
    scale = values.std(axis=0)
    return values.mean(axis=0), np.where(scale > 0, scale, 1.0)
