"""The hinge and the ramp, which have kinks: a primal-dual interior point method, and smoothing for large problems.

The hinge of row i is ``max_k a_ik`` over the classes, with ``a_ik = [k != y_i] + s_i (h_k - h_y)``. As a quadratic
program: minimise ``alpha ||W||^2 + sum_i c_i xi_i`` subject to ``t_ik = xi_i - a_ik >= 0``, with multipliers
``lambda_ik >= 0`` of sum c_i over k. Eliminating t, xi and lambda from a Newton step on the conditions
``lambda_ik t_ik = mu`` leaves one linear system of the shape of the softmax Hessian.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from .descent import factorise, lbfgs
from .objective import Objective

__all__ = ["interior_point", "minimise_hinge", "minimise_ramp"]

Floats = NDArray[np.float64]

_GAP = 1e-12  # duality gap, relative to 1 + the objective, where the interior point method stops
_GAP_OK = 1e-7  # a gap that still counts as converged if rounding stops it earlier
_STATIONARY = 1e-5  # largest entry of the gradient of the Lagrangian at the end
_ROUNDS = 30  # convex-concave rounds at most
_LADDER = (1.0, 0.1, 1e-2, 1e-3)  # smoothing of large problems, the last one left out while choosing


def _wrong(fitter: Any) -> Floats:
    """The offset that turns the softmax form into the smoothed hinge: 1 on all classes but the true one."""
    if fitter.sign is not None:
        signs: Floats = -fitter.sign
        return signs
    wrong = np.ones((fitter.n_rows, len(fitter.y)))
    wrong[fitter.y, fitter.index] = 0.0
    return wrong


class _State(NamedTuple):
    """Where an interior point step starts: d = lambda / t, its sum per row, the pull of penalty and linear term."""

    t: Floats
    lam: Floats
    d: Floats
    total: Floats
    pull: Floats
    factor: Any


def interior_point(problem: Objective, max_iter: int) -> tuple[Floats, int, bool]:
    """Minimise the penalised mean hinge, with the linear term of `problem`, by Mehrotra's predictor and corrector.

    Parameters
    ----------
    problem : Objective
        Its offset holds the 1 of the wrong classes.
    max_iter : int
        Steps at most.

    Returns
    -------
    ndarray of float64, shape (n_rows, p)
        The minimiser.
    int
        Steps made.
    bool
        Whether the duality gap closed.
    """
    fit, s = problem.fitter, problem.scale
    c: Floats = fit.c
    shift = np.zeros(1) if problem.offset is None else problem.offset
    binary = fit.sign is not None

    def spread(h: Floats) -> Floats:
        """Scores to a_ik without its constant."""
        if binary:
            v = -fit.sign * h[0]
            return np.stack((np.zeros_like(v), v))
        return h - h[fit.y, fit.index]

    def gather(v: Floats) -> Floats:
        """Transpose of `spread` and of the scores."""
        if binary:
            pulled: Floats = fit.pull((-fit.sign * s * v[1])[None, :])
            return pulled
        G = s * v
        G[fit.y, fit.index] -= G.sum(axis=0)
        pulled = fit.pull(G)
        return pulled

    def direction(target: Floats, state: _State) -> tuple[Floats, Floats, Floats, Floats]:
        """Newton step for the conditions lambda t = target: moves of theta, xi, t and lambda."""
        over = target / state.t
        q = (over.sum(axis=0) - c) / state.total
        rhs = -(state.pull + gather(over - state.d * q))
        step: Floats = scipy.linalg.cho_solve(state.factor, rhs.ravel()).reshape(rhs.shape)
        da = spread(fit.scores(step) * s)
        dxi = q + (state.d * da).sum(axis=0) / state.total
        dt = dxi - da
        return step, dxi, dt, over - state.lam - state.d * dt

    theta = np.zeros((fit.n_rows, fit.n_features + fit.fit_intercept))
    fixed = np.zeros_like(theta) if problem.linear is None else fit.pull(problem.linear)
    a = spread(np.broadcast_to(np.atleast_2d(shift), (fit.n_rows, len(c))))
    xi = a.max(axis=0) + 1.0
    t, lam = xi - a, np.broadcast_to(c / len(a), a.shape).copy()
    gap = float(np.vdot(lam, t))
    for n_iter in range(1, max_iter + 1):
        penalty = 2 * problem.alpha * theta
        if fit.fit_intercept:
            penalty[:, -1] = 0.0
        d = lam / t
        D = d.sum(axis=0)
        if binary:
            matrix = problem.gram((s**2 * d[0] * d[1] / D)[None, :])
        else:
            matrix = problem.gram(s**2 * d, s * d / np.sqrt(D))
        state = _State(t, lam, d, D, penalty - fixed, factorise(matrix))
        _, _, dt, dlam = direction(np.zeros_like(t), state)
        size = _longest(t, dt, lam, dlam)
        promised = float(np.vdot(lam + size * dlam, t + size * dt))
        mu = gap / t.size * max(promised / gap, 0.0) ** 3
        step, dxi, dt, dlam = direction(mu - dt * dlam, state)
        size = min(1.0, 0.995 * _longest(t, dt, lam, dlam))
        theta = theta + size * step
        xi, t, lam = xi + size * dxi, t + size * dt, lam + size * dlam
        new_gap = float(np.vdot(lam, t))
        scale = 1.0 + abs(float(c @ xi))
        residual = float(np.abs(_stationarity(problem, theta, fixed, gather(lam))).max())
        if new_gap <= _GAP * scale:
            return theta, n_iter, residual <= _STATIONARY
        if size < 1e-6 or not np.isfinite(new_gap):
            return theta, n_iter, new_gap <= _GAP_OK * scale and residual <= _STATIONARY
        gap = new_gap
    return theta, max_iter, gap <= _GAP_OK


def _stationarity(problem: Objective, theta: Floats, fixed: Floats, gathered: Floats) -> Floats:
    gradient = gathered - fixed
    n_features = problem.fitter.n_features
    gradient[:, :n_features] += 2 * problem.alpha * theta[:, :n_features]
    return gradient


def _longest(t: Floats, dt: Floats, lam: Floats, dlam: Floats) -> float:
    """Largest step up to 1 / 0.995 that keeps t and lambda non-negative."""
    with np.errstate(divide="ignore", invalid="ignore"):
        limits = [np.min(np.where(move < 0, -value / move, np.inf)) for value, move in ((t, dt), (lam, dlam))]
    return float(min(1.0 / 0.995, *limits))


def minimise_hinge(
    problem: Objective, theta: Floats, max_iter: int, *, exact: bool, accuracy: float, rungs: int = len(_LADDER)
) -> tuple[Floats, int, bool]:
    """Minimise the penalised mean hinge.

    Parameters
    ----------
    problem : Objective
        The problem, with the offset of the user.
    theta : ndarray of float64, shape (n_rows, p)
        Where smoothing starts.
    max_iter : int
        Iterations of one minimisation at most.
    exact : bool
        Interior point method; otherwise smoothing, which is off by at most ``mu log K`` in the objective.
    accuracy : float
        Gradient at which each smoothed problem is left.
    rungs : int, default=4
        How far mu goes down among 1, 0.1, 0.01 and 0.001.

    Returns
    -------
    ndarray of float64, shape (n_rows, p)
        The minimiser.
    int
        Iterations made.
    bool
        Whether it converged.
    """
    base = problem.offset
    wrong = _wrong(problem.fitter)
    problem.offset = wrong if base is None else wrong + base
    n_iter, converged = 0, True
    if exact:
        theta, n_iter, converged = interior_point(problem, max_iter)
    else:
        for mu in _LADDER[:rungs]:
            problem.mu = mu
            theta, more, converged = lbfgs(problem, theta, max_iter, accuracy)
            n_iter += more
    problem.offset, problem.mu = base, 1.0
    return theta, n_iter, converged


def minimise_ramp(problem: Objective, theta: Floats, max_iter: int, **how: Any) -> tuple[Floats, int, bool]:
    """Go from the hinge's minimiser to a local one of the ramp by the convex-concave procedure.

    The ramp is ``hinge(u) - max(0, -u)``; in every round the second part is replaced by its tangent at the last
    solution, which leaves a hinge problem with a linear term. The objective never rises.

    Parameters
    ----------
    problem : Objective
        The problem.
    theta : ndarray of float64, shape (n_rows, p)
        Minimiser of the hinge.
    max_iter : int
        Iterations of one minimisation at most.
    **how : Any
        Further arguments of `minimise_hinge`.

    Returns
    -------
    ndarray of float64, shape (n_rows, p)
        The minimiser.
    int
        Iterations made.
    bool
        Whether the rows beyond the ramp settled.
    """
    fit = problem.fitter
    n_iter, seen, settled = 0, None, False
    for _ in range(_ROUNDS):
        h = fit.scores(theta)
        slope = np.zeros_like(h)
        if fit.sign is not None:
            negative = fit.sign * h[0] < 0
            slope[0, negative] = -fit.sign[negative]
        else:
            own = h[fit.y, fit.index].copy()
            h[fit.y, fit.index] = -np.inf
            rival = h.argmax(axis=0)
            negative = own < h[rival, fit.index]
            rows = fit.index[negative]
            slope[rival[negative], rows] = 1.0
            slope[fit.y[negative], rows] = -1.0
        settled = seen is not None and np.array_equal(slope, seen)
        if settled or (seen is None and not negative.any()):
            settled = True
            break
        seen = slope
        problem.linear = slope * (fit.c * problem.scale)
        theta, more, _ = minimise_hinge(problem, theta, max_iter, **how)
        n_iter += more
    problem.linear = None
    return theta, n_iter, settled
