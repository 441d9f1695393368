"""Weights of targets: checks, lattices, and the concave maximisation behind min-max points and constraints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from paperworks._checks import check_finite_array

from .exponential import Floats

__all__ = ["Maximum", "check_weights", "lattice", "maximise", "quadratic_step"]


def check_weights(weights: Any, m: int) -> Floats:
    """Return weights of shape (m,) or (n, m), scaled to sum to 1 to the last digit."""
    found = check_finite_array(weights, "weights")
    if found.ndim not in (1, 2) or found.shape[-1] != m or found.size == 0:
        raise ValueError(f"weights must have shape ({m},) or (n, {m}) for {m} targets, got {found.shape}")
    if found.min() < 0:
        raise ValueError(f"weights must be >= 0, got {found.min():.6g}")
    total = found.sum(axis=-1, keepdims=True)
    worst = total.ravel()[np.abs(total - 1).argmax()]
    if abs(worst - 1) > 1e-8:
        raise ValueError(f"weights must sum to 1 within 1e-8, got a sum of {worst:.10g}")
    return found / total


def lattice(n: int, m: int) -> Floats:
    """Weights spread over the simplex.

    Equal steps for m = 2; for m = 3 the finest triangular lattice of at most n points; for more the vertices, the
    centre and n - m - 1 fixed draws from Dirichlet(1, ..., 1).
    """
    if m == 2:
        t = np.linspace(0.0, 1.0, n)
        return np.column_stack([1 - t, t])
    if m == 3:
        steps = int((np.sqrt(8 * n + 1) - 3) / 2)
        i, j = (axis.ravel() for axis in np.mgrid[: steps + 1, : steps + 1])
        keep = i + j <= steps
        return np.column_stack([i, j, steps - i - j])[keep] / steps
    rest = np.random.default_rng(0).dirichlet(np.ones(m), size=n - m - 1)
    return np.concatenate([np.eye(m), np.full((1, m), 1 / m), rest])


class Maximum(NamedTuple):
    """Where a concave function is greatest."""

    x: Floats
    gap: float
    """How far the value at x may lie below the greatest one."""
    converged: bool


Oracle = Callable[[Floats], tuple[float, Floats, Floats]]
"""``x -> value, gradient, minus the Hessian``."""


def maximise(oracle: Oracle, x: Floats, *, simplex: bool, tol: float, max_iter: int) -> Maximum:
    """Maximise a concave function over the simplex (or over x >= 0) by Newton steps on exact quadratic models.

    On the simplex the gap max(gradient) - x . gradient bounds the distance to the maximum; on the orthant the largest
    violation of the optimality conditions is taken in its place.
    """

    def gap(x: Floats, gradient: Floats) -> float:
        if simplex:
            return float(gradient.max() - x[x > 0] @ gradient[x > 0])
        return float(max(gradient.max(), 0.0) + abs(x[x > 0] @ gradient[x > 0]))

    value, gradient, curvature = oracle(x)
    left = gap(x, gradient)
    for _ in range(max_iter):
        if left <= tol * np.abs(gradient).max() + 1e-13:
            return Maximum(x, left, True)
        step = quadratic_step(x, gradient, curvature, simplex) - x
        slope = float(gradient @ step)
        length = 1.0
        while length > 1e-10:
            tried = np.maximum(x + length * step, 0.0)
            if simplex:
                tried /= tried.sum()
            new_value, new_gradient, new_curvature = oracle(tried)
            if np.isfinite(new_gradient).all() and np.isfinite(new_curvature).all():
                new_left = gap(tried, new_gradient)
                rounding = 1e-13 * (1 + abs(value))
                # Near the end values agree to the last digit, and the gap alone shows progress.
                if new_value >= value + 1e-4 * length * slope + rounding or (
                    new_value >= value - rounding and new_left < left
                ):
                    break
            length /= 2
        else:
            break
        x, value, gradient, curvature, left = tried, new_value, new_gradient, new_curvature, new_left
    return Maximum(x, left, bool(left <= tol * np.abs(gradient).max() + 1e-13))


def quadratic_step(x: Floats, gradient: Floats, curvature: Floats, simplex: bool) -> Floats:
    """Maximise ``gradient . y - (y - x) . curvature (y - x) / 2`` over y >= 0, with sum(y) = sum(x) on the simplex.

    A primal active-set method from the feasible x: solve on the free coordinates, stop at the first bound met, free
    the bound that pulls most.
    """
    m = len(x)
    scale = float(np.abs(gradient).max()) + float(np.trace(curvature)) / m
    curvature = curvature + (1e-13 * scale + 1e-300) * np.eye(m)
    y, free = x.copy(), x > 0
    for _ in range(20 * m + 20):
        own = np.flatnonzero(free)
        pull = gradient - curvature @ (y - x)
        if own.size > 0:
            system = curvature[np.ix_(own, own)]
            if simplex:
                edge = np.ones((own.size, 1))
                system = np.block([[system, edge], [edge.T, np.zeros((1, 1))]])
                move = np.linalg.lstsq(system, np.append(pull[own], 0.0), rcond=None)[0][:-1]
            else:
                move = np.linalg.lstsq(system, pull[own], rcond=None)[0]
            shrinking = move < 0
            room = np.full(own.size, np.inf)
            room[shrinking] = y[own][shrinking] / -move[shrinking]
            nearest = int(room.argmin())
            if room[nearest] < 1:
                y[own] = np.maximum(y[own] + room[nearest] * move, 0.0)
                y[own[nearest]] = 0.0
                free[own[nearest]] = False
                continue
            y[own] = np.maximum(y[own] + move, 0.0)
            pull = gradient - curvature @ (y - x)
        level = float(pull[own].mean()) if simplex and own.size else 0.0
        held = np.where(free, -np.inf, pull - level)
        if held.max() <= 1e-12 * scale:
            break
        free[int(held.argmax())] = True
    return y
