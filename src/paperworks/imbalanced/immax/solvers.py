"""Linear scorers under the class-imbalanced surrogates: a penalised convex problem in one weight row per class.

With s_i = 1/rho_{y_i}, sample weights c_i of sum 1 and scores h = W x + b the problem is

    minimise  alpha * ||W||^2 + sum_i c_i * Psi(s_i * h(x_i), y_i)

over one row (two classes, z = w.x + b) or one row per class. The logistic surrogate and the smoothed hinge are one
function, ``mu * logsumexp((s h + offset) / mu) - (s h + offset)_y``: mu = 1 without offset is the logistic surrogate;
mu -> 0 with the offset 1 on the wrong classes is the hinge. Small problems are polished by Newton's method to machine
precision; others end with L-BFGS in coordinates whitened by the curvature at zero.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.optimize
import scipy.sparse as sp
from numpy.typing import NDArray

__all__ = ["LinearFitter", "LinearScorer"]

Floats = NDArray[np.float64]

LOOSE, TIGHT = 1e-4, 1e-6  # largest entry of the gradient where L-BFGS stops: while choosing, and in the final fit
_NEWTON_WORK = 4e9  # multiplications for one Hessian, above which Newton's method doesn't pay
_NEWTON_SIZE = 1500  # parameters up to which a Hessian is factorised at all (hinge)
_SMALL = 300  # parameters up to which smooth fits are polished, and the smoothing of the hinge goes down to 1e-6
_DENSE_ENTRIES = 4_000_000  # sparse input of up to this many cells (32 MB) is solved as a dense array
_WHITEN_SIZE = 1000  # features up to which L-BFGS is whitened with a full matrix, above with a diagonal
_RAMP_ROUNDS = 30  # convex-concave rounds at most


@dataclass(frozen=True)
class LinearScorer:
    """Scores ``h = X @ coef.T + intercept``, with one row for two classes.

    Parameters
    ----------
    coef : ndarray of float64, shape (1, n_features) or (n_classes, n_features)
        Weights.
    intercept : ndarray of float64, shape (1,) or (n_classes,)
        Intercepts.
    n_iter : int, default=0
        Iterations that the fit took.
    converged : bool, default=True
        Whether it ended before its limit.
    """

    coef: Floats
    intercept: Floats
    n_iter: int = 0
    converged: bool = True

    def scores(self, X: Any) -> Floats:
        """Return the scores of rows, of shape (n_samples,) for two classes and (n_samples, n_classes) otherwise.

        Parameters
        ----------
        X : array-like or sparse matrix, shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of float64
            The scores.
        """
        h = np.asarray(X @ self.coef.T) + self.intercept
        return h[:, 0] if len(self.intercept) == 1 else h


class LinearFitter:
    """Fits linear scorers to one sample for any margins, penalty and surrogate.

    Parameters
    ----------
    X : ndarray or csr matrix of float64, shape (n_samples, n_features)
        Rows.
    y : ndarray of int, shape (n_samples,)
        Class indices.
    sample_weight : ndarray of float64, shape (n_samples,)
        Positive weights.
    n_classes : int
        Number of classes, at least 2.
    fit_intercept : bool, default=True
        Whether an intercept is fitted; it isn't penalised.
    max_iter : int, default=500
        Iterations of one fit at most.
    """

    def __init__(
        self, X: Any, y: Any, sample_weight: Any, n_classes: int, *, fit_intercept: bool = True, max_iter: int = 500
    ) -> None:
        if sp.issparse(X) and X.shape[0] * X.shape[1] <= _DENSE_ENTRIES:
            X = X.toarray()
        self.X = X
        self.y = y
        self.c = np.asarray(sample_weight, dtype=np.float64) / np.sum(sample_weight)
        self.n_classes = n_classes
        self.n_rows = 1 if n_classes == 2 else n_classes
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.n_features = X.shape[1]
        self.index = np.arange(X.shape[0])
        self.sign = np.where(y == 1, 1.0, -1.0) if n_classes == 2 else None
        self.size = self.n_rows * (self.n_features + fit_intercept)
        self.newton = not sp.issparse(X) and self.size <= _NEWTON_SIZE and X.shape[0] * self.size**2 <= _NEWTON_WORK

    def fit(
        self,
        rho: Floats,
        alpha: float,
        *,
        surrogate: str = "logistic",
        offset: Floats | None = None,
        start: Any = None,
        loose: bool = False,
    ) -> LinearScorer:
        """Minimise the penalised mean surrogate.

        Parameters
        ----------
        rho : ndarray of float64, shape (n_classes,)
            Margins.
        alpha : float
            Penalty of ``||W||**2``, positive.
        surrogate : {"logistic", "sumexp", "hinge", "ramp"}, default="logistic"
            Function of the scaled margin.
        offset : ndarray of float64, shape (n_samples,) or (n_classes, n_samples), optional
            Constant added to the scaled scores (two classes: to the one score).
        start : LinearScorer, optional
            Where to start.
        loose : bool, default=False
            Stop early; meant for the choice among many fits.

        Returns
        -------
        LinearScorer
            The minimiser (of the ramp: a local one, reached from that of the hinge).
        """
        theta = np.zeros((self.n_rows, self.n_features + self.fit_intercept))
        if start is not None:
            theta[:, : self.n_features] = start.coef
            if self.fit_intercept:
                theta[:, -1] = start.intercept
        problem = _Problem(self, 1.0 / rho[self.y], alpha, surrogate == "sumexp", offset)
        if surrogate in ("logistic", "sumexp"):
            theta, n_iter, converged = self._minimise(problem, theta, loose)
        else:
            theta, n_iter, converged = self._hinge(problem, theta, loose)
            if surrogate == "ramp":
                theta, more, converged = self._ramp(problem, theta, loose)
                n_iter += more
        if self.fit_intercept:
            coef, intercept = theta[:, :-1].copy(), theta[:, -1].copy()
        else:
            coef, intercept = theta, np.zeros(self.n_rows)
        return LinearScorer(coef, intercept, n_iter, converged)

    def scores(self, theta: Floats) -> Floats:
        """Return the scores of the sample, of shape (n_rows, n_samples).

        Parameters
        ----------
        theta : ndarray of float64, shape (n_rows, n_features + fit_intercept)
            Weights, the intercept last.

        Returns
        -------
        ndarray of float64
            The scores.
        """
        W = theta[:, : self.n_features]
        h = np.ascontiguousarray((self.X @ W.T).T) if sp.issparse(self.X) else W @ self.X.T
        if self.fit_intercept:
            h += theta[:, -1:]
        return h

    def pull(self, G: Floats) -> Floats:
        """Return ``sum_i G[:, i] (x_i, 1)``, the gradient that belongs to a gradient in the scores.

        Parameters
        ----------
        G : ndarray of float64, shape (n_rows, n_samples)
            Gradient in the scores.

        Returns
        -------
        ndarray of float64, shape (n_rows, n_features + fit_intercept)
            Gradient in the weights.
        """
        out = np.empty((self.n_rows, self.n_features + self.fit_intercept))
        out[:, : self.n_features] = (self.X.T @ G.T).T if sp.issparse(self.X) else G @ self.X
        if self.fit_intercept:
            out[:, -1] = G.sum(axis=1)
        return out

    def _minimise(self, problem: _Problem, theta: Floats, loose: bool) -> tuple[Floats, int, bool]:
        if loose or not self.newton or self.size > _SMALL:
            return _lbfgs(problem, theta, self.max_iter, LOOSE if loose else TIGHT)
        theta, first, _ = _lbfgs(problem, theta, self.max_iter, TIGHT)
        theta, second, converged = _newton(problem, theta, self.max_iter - first, 1e-11)
        return theta, first + second, converged

    def _hinge(self, problem: _Problem, theta: Floats, loose: bool) -> tuple[Floats, int, bool]:
        """Shrink the smoothing of the kink; the objective is off by at most mu log K at the end."""
        if self.sign is not None:
            wrong = -self.sign
        else:
            wrong = np.ones((self.n_rows, len(self.y)))
            wrong[self.y, self.index] = 0.0
        base = problem.offset
        problem.offset = wrong if base is None else wrong + base
        ladder: tuple[float, ...]
        if loose or not self.newton:
            ladder, solve = (1.0, 0.1, 1e-2) if loose else (1.0, 0.1, 1e-2, 1e-3), _lbfgs
            accuracy = [LOOSE if loose else TIGHT] * len(ladder)
        else:
            ladder, solve = (1.0, 0.1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)[: 7 if self.size <= _SMALL else 5], _newton
            accuracy = [1e-2 * mu for mu in ladder[:-1]] + [1e-9 * ladder[-1]]
        n_iter, converged = 0, True
        for mu, tolerance in zip(ladder, accuracy, strict=True):
            problem.mu = mu
            theta, more, converged = solve(problem, theta, self.max_iter, tolerance)
            n_iter += more
        problem.offset = base
        return theta, n_iter, converged

    def _ramp(self, problem: _Problem, theta: Floats, loose: bool) -> tuple[Floats, int, bool]:
        """Convex-concave procedure: ramp = hinge(u) - max(0, -u), the second part linearised at the last solution."""
        n_iter, seen = 0, None
        for _ in range(_RAMP_ROUNDS):
            h = self.scores(theta) * problem.scale
            slope = np.zeros_like(h)
            if self.sign is not None:
                negative = self.sign * h[0] < 0
                slope[0, negative] = -self.sign[negative]
            else:
                own = h[self.y, self.index].copy()
                h[self.y, self.index] = -np.inf
                rival = h.argmax(axis=0)
                negative = own < h[rival, self.index]
                rows = self.index[negative]
                slope[rival[negative], rows] = 1.0
                slope[self.y[negative], rows] = -1.0
            if seen is not None and np.array_equal(slope, seen):
                problem.linear = None
                return theta, n_iter, True
            seen = slope
            problem.linear = slope * (self.c * problem.scale)
            theta, more, _ = self._hinge(problem, theta, loose)
            n_iter += more
        problem.linear = None
        return theta, n_iter, False


@dataclass
class _Problem:
    """The smooth objective ``alpha ||W||^2 + sum_i c_i Psi_i(scores) - <linear, scores>``."""

    fitter: LinearFitter
    scale: Floats
    alpha: float
    sumexp: bool
    offset: Floats | None = None
    mu: float = 1.0
    linear: Floats | None = None

    def _scaled(self, theta: Floats) -> tuple[Floats, Floats]:
        h = self.fitter.scores(theta)
        u = h * self.scale if self.linear is not None else np.multiply(h, self.scale, out=h)
        if self.offset is not None:
            u += self.offset
        return h, u

    def value_and_gradient(self, theta: Floats) -> tuple[float, Floats]:
        fit = self.fitter
        h, u = self._scaled(theta)
        cs = fit.c * self.scale
        if fit.sign is not None:
            v = fit.sign * u[0]
            if self.sumexp:
                e = np.exp(-v)
                value, slope = float(fit.c @ e), e
            else:
                value = self.mu * float(fit.c @ np.logaddexp(0.0, v / -self.mu))
                slope = _sigmoid(v / -self.mu)
            G = (-cs * fit.sign * slope)[None, :]
        else:
            own = u[fit.y, fit.index]
            if self.sumexp:
                u -= own
                G = np.exp(u, out=u)
                G[fit.y, fit.index] = 0.0
                total = G.sum(axis=0)
                value = float(fit.c @ total)
                G *= cs
                G[fit.y, fit.index] = -cs * total
            else:
                top = u.max(axis=0)
                u -= top
                if self.mu != 1.0:
                    u /= self.mu
                G = np.exp(u, out=u)
                total = G.sum(axis=0)
                value = float(fit.c @ (self.mu * np.log(total) + top - own))
                G *= cs / total
                G[fit.y, fit.index] -= cs
        if self.linear is not None:
            value -= float(np.vdot(self.linear, h))
            G = G - self.linear
        gradient = fit.pull(G)
        W = theta[:, : fit.n_features]
        gradient[:, : fit.n_features] += 2 * self.alpha * W
        return value + self.alpha * float(np.vdot(W, W)), gradient

    def hessian(self, theta: Floats) -> Floats:
        """Hessian, of shape (n_rows * p, n_rows * p), for dense X."""
        fit = self.fitter
        _, u = self._scaled(theta)
        weight = fit.c * self.scale**2
        X = np.column_stack((fit.X, np.ones(len(fit.y)))) if fit.fit_intercept else fit.X
        p = X.shape[1]
        H = np.zeros((fit.n_rows * p, fit.n_rows * p))
        if fit.sign is not None:
            v = fit.sign * u[0]
            curve = np.exp(-v) if self.sumexp else _sigmoid(v / self.mu) * _sigmoid(v / -self.mu) / self.mu
            H += (X.T * (weight * curve)) @ X
        else:
            own = u[fit.y, fit.index].copy()
            u -= own if self.sumexp else u.max(axis=0)
            P = np.exp(u / self.mu)
            if self.sumexp:
                P[fit.y, fit.index] = 0.0
            total = P.sum(axis=0)
            # softmax: (diag(p) - p p')/mu; sumexp with q and Q = sum q: diag(q) - q q'/Q + g g'/Q, g = q - Q e_y
            diagonal = P * weight if self.sumexp else P / total * (weight / self.mu)
            root = np.sqrt(weight / np.maximum(total, 1e-300)) if self.sumexp else np.sqrt(weight / self.mu) / total
            for k in range(fit.n_rows):
                block = slice(k * p, (k + 1) * p)
                H[block, block] = (X.T * diagonal[k]) @ X
            for rows in _blocks(len(fit.y), H.shape[0]):
                outer = ((P[:, rows] * root[rows]).T[:, :, None] * X[rows, None, :]).reshape(-1, H.shape[0])
                H -= outer.T @ outer
                if self.sumexp:
                    P[fit.y[rows], fit.index[rows]] = -total[rows]
                    outer = ((P[:, rows] * root[rows]).T[:, :, None] * X[rows, None, :]).reshape(-1, H.shape[0])
                    H += outer.T @ outer
        diagonal_index = np.arange(H.shape[0]).reshape(fit.n_rows, p)
        coefs = diagonal_index[:, : fit.n_features].ravel()
        H[coefs, coefs] += 2 * self.alpha
        if fit.fit_intercept:
            last = diagonal_index[:, -1]
            tiny = 1e-12 * float(weight.sum()) / self.mu
            H[last, last] += tiny
            if fit.n_rows > 1:  # a common shift of the intercepts changes nothing: pin their sum
                H[np.ix_(last, last)] += H[last, last].mean()
        return H

    def whitening(self) -> Floats:
        """Triangular M (or its diagonal) so that theta = V @ M has curvature near the identity at zero."""
        fit = self.fitter
        bend = 0.25 if fit.sign is not None else 1.0 / fit.n_classes
        weight = fit.c * self.scale**2 * (bend / self.mu)
        p = fit.n_features + fit.fit_intercept
        if sp.issparse(fit.X) or fit.n_features > _WHITEN_SIZE:
            squares = fit.X.multiply(fit.X) if sp.issparse(fit.X) else fit.X**2
            diagonal = np.empty(p)
            diagonal[: fit.n_features] = np.asarray(weight @ squares).ravel() + 2 * self.alpha
            if fit.fit_intercept:
                diagonal[-1] = weight.sum()
            return 1.0 / np.sqrt(diagonal)
        A = np.empty((p, p))
        weighted = fit.X.T * weight
        A[: fit.n_features, : fit.n_features] = weighted @ fit.X
        if fit.fit_intercept:
            A[-1, :-1] = A[:-1, -1] = weighted.sum(axis=1)
            A[-1, -1] = weight.sum()
        index = np.arange(fit.n_features)
        A[index, index] += 2 * self.alpha
        jitter = 1e-10 * np.trace(A) / p
        L = scipy.linalg.cholesky(A + jitter * np.eye(p), lower=True)
        M: Floats = scipy.linalg.solve_triangular(L, np.eye(p), lower=True)
        return M


def _newton(problem: _Problem, theta: Floats, max_iter: int, tolerance: float) -> tuple[Floats, int, bool]:
    """Damped Newton steps until the promised decrease is below `tolerance` (relative to 1 + the objective)."""
    value, gradient = problem.value_and_gradient(theta)
    for n_iter in range(1, max_iter + 1):
        factor = _factor(problem.hessian(theta))
        step = -scipy.linalg.cho_solve(factor, gradient.ravel()).reshape(theta.shape)
        slope = float(np.vdot(gradient, step))
        if slope > -tolerance * (1.0 + abs(value)):
            # quadratic convergence: where the model promises this little, the full step lands far closer still
            return theta + step, n_iter, True
        size = 1.0
        while True:
            new_value, new_gradient = problem.value_and_gradient(theta + size * step)
            if new_value <= value + 1e-4 * size * slope:
                break
            size *= 0.5
            if size < 1e-10:
                return theta, n_iter, True
        theta, value, gradient = theta + size * step, new_value, new_gradient
    return theta, max_iter, False


def _factor(H: Floats) -> Any:
    lift = 0.0
    for _ in range(20):
        try:
            return scipy.linalg.cho_factor(H + lift * np.eye(len(H)), lower=True)
        except scipy.linalg.LinAlgError:
            lift = max(10 * lift, 1e-12 * float(np.trace(H)) / len(H))
    raise FloatingPointError("the curvature of the objective isn't finite; scale the features and try a larger alpha")


def _lbfgs(problem: _Problem, theta: Floats, max_iter: int, tolerance: float) -> tuple[Floats, int, bool]:
    M = problem.whitening()
    shape = theta.shape
    worst = np.inf

    def plain(V: Floats) -> Floats:
        return V.reshape(shape) * M if M.ndim == 1 else V.reshape(shape) @ M

    def objective(V: Floats) -> tuple[float, Floats]:
        nonlocal worst
        value, gradient = problem.value_and_gradient(plain(V))
        worst = float(np.abs(gradient).max())
        return value, (gradient * M if M.ndim == 1 else gradient @ M.T).ravel()

    def stop(intermediate_result: Any) -> None:
        if worst <= tolerance:
            raise StopIteration

    if M.ndim == 1:
        start = theta / M
    elif theta.any():
        start = scipy.linalg.solve_triangular(M, theta.T, lower=True, trans="T").T
    else:
        start = theta
    result = scipy.optimize.minimize(
        objective,
        start.ravel(),
        jac=True,
        method="L-BFGS-B",
        callback=stop,
        options={"maxiter": max_iter, "gtol": 0.0, "ftol": 64 * np.finfo(float).eps, "maxls": 50, "maxcor": 20},
    )
    return plain(result.x), max(1, int(result.nit)), worst <= tolerance or result.success


def _sigmoid(x: Floats) -> Floats:
    out: Floats = 0.5 * (1.0 + np.tanh(0.5 * x))
    return out


def _blocks(n: int, width: int) -> Iterator[slice]:
    size = max(1, 2**22 // width)
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))
