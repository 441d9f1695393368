"""The best dosage: for one round in closed form where possible, for later rounds by gradients from several starts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import LinearConstraint, minimize

Floats = NDArray[np.float64]

EDGE = 1e-6
"""Least distance of a dosage that is searched for from 0 and 1, where Sigma(d) is singular."""


def level(upper: Floats, supply: float | None) -> Floats:
    """Return the dosage that minimises tr Sigma(d)^{-1} with d <= `upper` and sum d <= `supply`, for every order.

    It is min(t, upper, 1/2) for one level t: 1/2 where nothing is scarce, supply / p under a limit on the sum alone.
    (log a_i is convex in d_i, for a_i as in `closed_form`; each product of the a_i, being the exponential of a convex
    function, is convex too; so is their sum. For two treatments the slopes at a common level are the same, and steeper
    at a lower dosage, which are the conditions of a minimum.)
    """
    most = np.minimum(upper, 0.5)
    if supply is None or most.sum() <= supply:
        return most
    # The sum of min(t, most) is piecewise linear in t: find the piece on which it reaches the supply.
    ordered = np.sort(most)
    filled = np.concatenate([[0.0], np.cumsum(ordered)])[:-1] + ordered * np.arange(ordered.size, 0, -1)
    piece = int(np.searchsorted(filled, supply))
    below = ordered[:piece].sum()
    return np.minimum((supply - below) / (ordered.size - piece), most)


def descend(
    function: Callable[[Floats], tuple[float, Floats]],
    starts: Sequence[Floats],
    *,
    upper: Floats,
    supply: float | None,
    solver: Literal["lbfgs", "slsqp"],
    report: Callable[[str], None],
    polish: int = 100,
) -> Floats:
    """Return the best dosage found from several starts; each gets 15 iterations, the best is then polished.

    Parameters
    ----------
    function : callable
        Returns value and gradient at a dosage.
    starts : sequence of ndarray of shape (p,)
        Feasible dosages; the first is kept unless another is better by more than rounding.
    upper : ndarray of shape (p,)
        Greatest dosages.
    supply : float or None
        Greatest sum of the dosages.
    solver : {"lbfgs", "slsqp"}
        Method of `scipy.optimize.minimize`; a supply needs "slsqp".
    report : callable
        Is told one line per start.
    polish : int, default=100
        Greatest number of iterations of the polishing.

    Returns
    -------
    ndarray of shape (p,)
        The dosage.
    """
    edge = EDGE if supply is None else min(EDGE, supply / (2 * upper.size))
    lower = np.minimum(edge, upper / 2)
    bounds = np.column_stack([lower, np.maximum(np.minimum(upper, 1.0 - EDGE), lower)])

    def run(start: Floats, iterations: int) -> tuple[float, Floats]:
        start = np.clip(start, *bounds.T)
        if solver == "lbfgs":
            options = {"maxiter": iterations, "maxfun": 2 * iterations, "gtol": 1e-6, "ftol": 1e-13}
            dose = minimize(function, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options).x
        else:
            limits = [] if supply is None else [LinearConstraint(np.ones((1, upper.size)), -np.inf, supply)]
            options = {"maxiter": iterations, "ftol": 1e-13}
            dose = minimize(
                function, start, jac=True, method="SLSQP", bounds=bounds, constraints=limits, options=options
            ).x
        dose = np.clip(dose, *bounds.T)
        if supply is not None and dose.sum() > supply:
            dose = dose * (supply / dose.sum())
        return function(dose)[0], dose

    best, best_dose = function(starts[0])[0], starts[0]
    found = []
    for number, start in enumerate(starts):
        found.append(run(start, 15))
        report(f"start {number + 1} of {len(starts)}: {found[-1][0]:.6g}, at the first start {best:.6g}")
    value, dose = run(min(found, key=lambda pair: pair[0])[1], polish)
    report(f"polished: {value:.6g}")
    return dose if value < best - 1e-9 * max(abs(best), 1.0) else best_dose
