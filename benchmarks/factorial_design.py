"""Speed of proposing dosages beside SLSQP with finite differences, and of the closed form beside matrices."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from benchmarks import Case
from paperworks.causal import FactorialDesign

Floats = NDArray[np.float64]


def after_a_round(p: int, order: int, n: int) -> FactorialDesign:
    """Return a design that has seen n units of noise."""
    design = FactorialDesign(p, order, n_starts=2, random_state=0)
    return design.update(design.assign(np.full(p, 0.5), n), np.random.default_rng(0).normal(size=n))


def mean_matrix(dose: Floats, terms: list[tuple[int, ...]]) -> Floats:
    """Return Sigma(d) by membership of the terms: products over symmetric differences, by logarithms and signs."""
    member = np.zeros((len(terms), dose.size))
    for row, term in enumerate(terms):
        member[row, list(term)] = 1.0
    m = 2.0 * dose - 1.0
    m = np.where(m == 0.0, 1e-100, m)
    logs, signs = np.log(np.abs(m)), (m < 0).astype(float)

    def over_differences(values: Floats) -> Floats:
        alone = member @ values
        return alone[:, np.newaxis] + alone - 2.0 * (member * values) @ member.T

    return np.exp(over_differences(logs)) * (1.0 - 2.0 * (over_differences(signs) % 2))


def by_finite_differences(design: FactorialDesign, n: int, starts: int) -> Floats:
    """Minimise tr (Sigma + past)^{-1} by SLSQP with numerical gradients, as the paper describes."""
    terms, past = design.terms_, design.gram_ / n
    rng = np.random.default_rng(0)

    def value(dose: Floats) -> float:
        return float(np.trace(np.linalg.inv(mean_matrix(dose, terms) + past)))

    p = design.n_treatments
    points = [np.full(p, 0.5), *rng.uniform(0.2, 0.8, (starts - 1, p))]
    found = [minimize(value, point, method="SLSQP", bounds=[(1e-6, 1 - 1e-6)] * p) for point in points]
    return np.asarray(min(found, key=lambda result: result.fun).x)


def trace_by_matrix(dose: Floats, terms: list[tuple[int, ...]]) -> float:
    """Return tr Sigma(d)^{-1} by forming and inverting the matrix."""
    return float(np.trace(np.linalg.inv(mean_matrix(dose, terms))))


def cases() -> list[Case]:
    """Return the comparisons."""
    rows = []
    for p, n in ((10, 75), (15, 75)):
        design = after_a_round(p, 2, n)
        rows.append(
            Case(
                f"propose, p = {p}, order 2, 2 starts",
                partial(design.propose, n),
                partial(by_finite_differences, design, n, 2),
                "SciPy SLSQP with finite differences",
            )
        )
    design, dose = FactorialDesign(15, 3), np.random.default_rng(1).uniform(0.2, 0.8, 15)
    rows.append(
        Case(
            "criterion, p = 15, order 3",
            partial(design.criterion, dose),
            partial(trace_by_matrix, dose, design.terms_),
            "NumPy, matrix formed and inverted",
        )
    )
    return rows
