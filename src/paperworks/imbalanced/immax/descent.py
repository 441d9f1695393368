"""Minimisers of the smooth objective: Newton's method for small problems, L-BFGS for the others."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
import scipy.optimize
from numpy.typing import NDArray

from .objective import Objective

__all__ = ["factorise", "lbfgs", "newton"]

Floats = NDArray[np.float64]


def newton(problem: Objective, theta: Floats, max_iter: int, tolerance: float) -> tuple[Floats, int, bool]:
    """Minimise by damped Newton steps.

    Parameters
    ----------
    problem : Objective
        What is minimised.
    theta : ndarray of float64, shape (n_rows, p)
        Where to start.
    max_iter : int
        Steps at most.
    tolerance : float
        Promised decrease, relative to 1 + the objective, at which the last full step is made.

    Returns
    -------
    ndarray of float64, shape (n_rows, p)
        The minimiser.
    int
        Steps made.
    bool
        Whether the tolerance was met.
    """
    value, gradient = problem.value_and_gradient(theta)
    for n_iter in range(1, max_iter + 1):
        factor = factorise(problem.hessian(theta))
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


def factorise(H: Floats) -> Any:
    """Return the Cholesky factor of a curvature matrix, lifted where rounding made it singular.

    Parameters
    ----------
    H : ndarray of float64, shape (size, size)
        Positive semidefinite up to rounding.

    Returns
    -------
    tuple
        The factor, for `scipy.linalg.cho_solve`.

    Raises
    ------
    FloatingPointError
        If the matrix holds NaN or infinity.
    """
    lift = 0.0
    for _ in range(20):
        try:
            return scipy.linalg.cho_factor(H + lift * np.eye(len(H)), lower=True)
        except scipy.linalg.LinAlgError:
            lift = max(10 * lift, 1e-12 * float(np.trace(H)) / len(H))
    raise FloatingPointError("the curvature of the objective isn't finite; scale the features and try a larger alpha")


def lbfgs(problem: Objective, theta: Floats, max_iter: int, tolerance: float) -> tuple[Floats, int, bool]:
    """Minimise by L-BFGS in whitened coordinates.

    Parameters
    ----------
    problem : Objective
        What is minimised.
    theta : ndarray of float64, shape (n_rows, p)
        Where to start.
    max_iter : int
        Steps at most.
    tolerance : float
        Largest entry of the gradient, in the plain coordinates, at which it stops.

    Returns
    -------
    ndarray of float64, shape (n_rows, p)
        The minimiser.
    int
        Steps made.
    bool
        Whether the tolerance was met.
    """
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
