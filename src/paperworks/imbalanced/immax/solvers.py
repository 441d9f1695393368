"""Linear scorers under the class-imbalanced surrogates: a penalised convex problem in one weight row per class.

With s_i = 1/rho_{y_i}, sample weights c_i of sum 1 and scores h = W x + b the problem is

    minimise  alpha * ||W||^2 + sum_i c_i * Psi(s_i * h(x_i), y_i)

over one row (two classes, z = w.x + b) or one row per class. The logistic surrogate and the smoothed hinge are one
function, ``mu * logsumexp((s h + offset) / mu) - (s h + offset)_y``: mu = 1 without offset is the logistic surrogate;
mu -> 0 with the offset 1 on the wrong classes is the hinge. Smooth problems are solved by L-BFGS in coordinates
whitened by the curvature at zero, small ones then polished by Newton's method to machine precision.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .descent import lbfgs, newton
from .hinge import minimise_hinge, minimise_ramp
from .objective import Objective

__all__ = ["LinearFitter", "LinearScorer"]

Floats = NDArray[np.float64]

LOOSE, TIGHT = 1e-4, 1e-6  # largest entry of the gradient where L-BFGS stops: while choosing, and in the final fit
_MATRIX_WORK = 4e9  # multiplications for one curvature matrix, above which it doesn't pay
_MATRIX_SIZE = 1500  # parameters up to which a curvature matrix is factorised (hinge)
_SMALL = 300  # parameters up to which it costs little: smooth fits are polished, the hinge is exact while choosing
_DENSE_ENTRIES = 4_000_000  # sparse input of up to this many cells (32 MB) is solved as a dense array


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
        self.large = self.size > _SMALL
        self.matrix = not sp.issparse(X) and self.size <= _MATRIX_SIZE and X.shape[0] * self.size**2 <= _MATRIX_WORK

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
        problem = Objective(self, 1.0 / rho[self.y], alpha, surrogate == "sumexp", offset)
        if surrogate in ("logistic", "sumexp"):
            theta, n_iter, converged = self._minimise(problem, theta, loose)
        else:
            exact = self.matrix and not (self.large and loose)
            how: dict[str, Any] = {"exact": exact, "accuracy": LOOSE if loose else TIGHT, "rungs": 3 if loose else 4}
            theta, n_iter, converged = minimise_hinge(problem, theta, self.max_iter, **how)
            if surrogate == "ramp":
                theta, more, converged = minimise_ramp(problem, theta, self.max_iter, **how)
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

    def _minimise(self, problem: Objective, theta: Floats, loose: bool) -> tuple[Floats, int, bool]:
        if loose or not self.matrix or self.large:
            return lbfgs(problem, theta, self.max_iter, LOOSE if loose else TIGHT)
        theta, first, _ = lbfgs(problem, theta, self.max_iter, TIGHT)
        theta, second, converged = newton(problem, theta, self.max_iter - first, 1e-11)
        return theta, first + second, converged
