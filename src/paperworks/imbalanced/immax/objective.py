"""The penalised mean surrogate of a linear scorer: value, gradient, curvature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray

__all__ = ["Objective", "sigmoid"]

Floats = NDArray[np.float64]

_WHITEN_SIZE = 1000  # features up to which the whitening is a full matrix, above a diagonal


@dataclass
class Objective:
    """The smooth objective ``alpha ||W||^2 + sum_i c_i Psi_i(scores) - <linear, scores>``.

    Parameters
    ----------
    fitter : LinearFitter
        The sample.
    scale : ndarray of float64, shape (n_samples,)
        ``1 / rho`` of each row's class.
    alpha : float
        Penalty.
    sumexp : bool
        Whether Psi is the sum of exponentials; otherwise the softmax form of the solvers' module.
    offset : ndarray of float64, optional
        Added to the scaled scores.
    mu : float, default=1.0
        Smoothing of the softmax form.
    linear : ndarray of float64, shape (n_rows, n_samples), optional
        Coefficients of a linear term in the scores, subtracted.
    """

    fitter: Any
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
        """Return the objective and its gradient.

        Parameters
        ----------
        theta : ndarray of float64, shape (n_rows, p)
            Weights, the intercept last.

        Returns
        -------
        float
            The value.
        ndarray of float64, shape (n_rows, p)
            The gradient.
        """
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
                slope = sigmoid(v / -self.mu)
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
        """Return the second derivative; for dense X.

        Parameters
        ----------
        theta : ndarray of float64, shape (n_rows, p)
            Weights.

        Returns
        -------
        ndarray of float64, shape (n_rows * p, n_rows * p)
            The Hessian.
        """
        fit = self.fitter
        _, u = self._scaled(theta)
        weight = fit.c * self.scale**2
        if fit.sign is not None:
            v = fit.sign * u[0]
            curve = np.exp(-v) if self.sumexp else sigmoid(v / self.mu) * sigmoid(v / -self.mu) / self.mu
            return self.gram((weight * curve)[None, :])
        own = u[fit.y, fit.index].copy()
        u -= own if self.sumexp else u.max(axis=0)
        P = np.exp(u / self.mu)
        if not self.sumexp:  # (diag(p) - p p') / mu
            P /= P.sum(axis=0)
            return self.gram(P * (weight / self.mu), P * np.sqrt(weight / self.mu))
        # with q the exponentials and Q their sum: diag(q) - q q'/Q + g g'/Q, where g = q - Q e_y
        P[fit.y, fit.index] = 0.0
        total = P.sum(axis=0)
        root = np.sqrt(weight / np.maximum(total, 1e-300))
        plus = P.copy()
        plus[fit.y, fit.index] = -total
        return self.gram(P * weight, P * root, plus * root)

    def gram(self, diagonal: Floats, minus: Floats | None = None, plus: Floats | None = None) -> Floats:
        """Return ``sum_i (diag(d_i) - m_i m_i' + p_i p_i') kron x_i x_i'`` with the penalty's curvature added.

        Parameters
        ----------
        diagonal, minus, plus : ndarray of float64, shape (n_rows, n_samples)
            The vectors d_i, m_i and p_i; the last two may be None.

        Returns
        -------
        ndarray of float64, shape (n_rows * p, n_rows * p)
            The matrix, regular even where a common shift of the intercepts changes nothing.
        """
        fit = self.fitter
        X = np.column_stack((fit.X, np.ones(len(fit.y)))) if fit.fit_intercept else fit.X
        p = X.shape[1]
        size = fit.n_rows * p
        H = np.zeros((size, size))
        for k in range(fit.n_rows):
            block = slice(k * p, (k + 1) * p)
            H[block, block] = (X.T * diagonal[k]) @ X
        rows_at_once = max(1, 2**22 // size)
        for start in range(0, len(fit.y), rows_at_once):
            rows = slice(start, start + rows_at_once)
            for vectors, add in ((minus, -1.0), (plus, 1.0)):
                if vectors is not None:
                    outer = (vectors[:, rows].T[:, :, None] * X[rows, None, :]).reshape(-1, size)
                    H += add * (outer.T @ outer)
        index = np.arange(size).reshape(fit.n_rows, p)
        coefs = index[:, : fit.n_features].ravel()
        H[coefs, coefs] += 2 * self.alpha
        if fit.fit_intercept:
            last = index[:, -1]
            H[last, last] += 1e-12 * float(diagonal.sum()) + 1e-300
            if fit.n_rows > 1:  # a common shift of the intercepts changes nothing: pin their sum
                H[np.ix_(last, last)] += H[last, last].mean()
        return H

    def whitening(self) -> Floats:
        """Return M, triangular (or its diagonal), so that theta = V @ M has curvature near the identity at zero.

        Returns
        -------
        ndarray of float64, shape (p, p) or (p,)
            The matrix.
        """
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


def sigmoid(x: Floats) -> Floats:
    """Return ``1 / (1 + exp(-x))`` without overflow.

    Parameters
    ----------
    x : ndarray of float64
        Any values.

    Returns
    -------
    ndarray of float64
        Values in [0, 1].
    """
    out: Floats = 0.5 * (1.0 + np.tanh(0.5 * x))
    return out
