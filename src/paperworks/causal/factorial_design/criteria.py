"""How good a dosage is: the closed form of one round, and the acquisition of later rounds, each with its gradient.

With m_i = 2 d_i - 1, the expected Gram matrix per unit is Sigma(d), with the product of the m_i over the symmetric
difference of S and S' at (S, S') (Eq. 5). The error of least squares over n units is about
sigma^2 tr Sigma(d)^{-1} / n.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from paperworks.causal.factorial_design.terms import count_terms, differences, positions, sets_of_size

Floats = NDArray[np.float64]

JITTER = 1e-10
"""Part of the mean diagonal that is added to a matrix that has no Cholesky factor."""


def closed_form(dose: Floats, order: int) -> tuple[float, Floats]:
    """Return tr Sigma(d)^{-1} and its gradient in O(p order^2).

    Sigma(d) is the Gram matrix of the monomials under the law of one unit. The products of the standardised treatments
    (x_i - m_i) / sqrt(1 - m_i^2) are orthonormal there; the trace is the sum of all their squared coefficients in the
    monomials, which factorises over treatments: it is e_0(a) + ... + e_k(a), with the elementary symmetric polynomials
    e_j of a_i = (1 + m_i^2) / (1 - m_i^2). The sums have positive terms only, so that nothing cancels.
    """
    p = dose.size
    q = dose * (1.0 - dose)
    if (q == 0.0).any():
        return np.inf, np.full(p, np.nan)
    with np.errstate(all="ignore"):  # at dosages as small as 1e-200 the gradient is not finite
        a = 0.5 / q - 1.0
        # before[j, i] = e_j(a_0 .. a_{i-1}), after[j, i] = e_j(a_i .. a_{p-1})
        before, after = np.zeros((order + 1, p + 1)), np.zeros((order + 1, p + 1))
        before[0] = after[0] = 1.0
        for j in range(1, order + 1):
            before[j, 1:] = np.cumsum(a * before[j - 1, :-1])
            after[j, :-1] = np.cumsum((a * after[j - 1, 1:])[::-1])[::-1]
        slope = np.zeros(p)  # d/da_i: e_0 + ... + e_{k-1} of the others
        for j in range(order):
            for left in range(j + 1):
                slope += before[left, :-1] * after[j - left, 1:]
        value = float(before[:, -1].sum())
        gradient = slope * (-0.5 * (1.0 - 2.0 * dose) / q**2)
    return (np.inf if np.isnan(value) else value), gradient


def weighted_form(dose: Floats, order: int, weights: Floats) -> tuple[float, Floats]:
    """Return tr(diag(w) Sigma(d)^{-1}) and its gradient, for one weight a term.

    The sum over T of prod_{i in T} 1/(1 - m_i^2) times the sum over S within T of w_S prod_{T minus S} m_i^2.
    """
    p = dose.size
    q = dose * (1.0 - dose)
    if (q == 0.0).any():
        return np.inf, np.full(p, np.nan)
    inside = 0.25 / q  # 1 / (1 - m^2)
    outside = inside - 1.0  # m^2 / (1 - m^2), with the same derivative
    value, slope = float(weights[0]), np.zeros(p)
    for size in range(1, order + 1):
        sets = sets_of_size(p, size)
        for inner in range(size + 1):
            for kept in combinations(range(size), inner):
                weight = weights[positions(p, sets[:, list(kept)])]
                factors = np.where(np.isin(np.arange(size), kept), inside[sets], outside[sets])
                value += float(weight @ factors.prod(axis=1))
                for j in range(size):
                    others = np.delete(factors, j, axis=1).prod(axis=1)
                    slope += np.bincount(sets[:, j], weights=weight * others, minlength=p)
    return value, slope * (-0.25 * (1.0 - 2.0 * dose) / q**2)


def information(dose: Floats, order: int) -> Floats:
    """Return Sigma(d) of shape (K, K), Eq. 5."""
    index, sets = differences(dose.size, order)
    m = 2.0 * dose - 1.0
    return np.concatenate([m[block].prod(axis=1) for block in sets])[index]


@dataclass(frozen=True)
class Acquisition:
    """What a dosage of the next round would leave to be desired, given the past (Eq. 7); called with a dosage.

    With M = scale Sigma(d) + past, this is tr M^{-1} for the objective "a", and minus the smallest eigenvalue of M for
    "min_eig"; each is to be minimised.
    """

    order: int
    past: Floats
    """Gram matrix of the past units divided by the number of units to come, shape (K, K)."""
    scale: float = 1.0
    objective: Literal["a", "min_eig"] = "a"

    def __call__(self, dose: Floats) -> tuple[float, Floats]:
        """Return the value and its gradient at a dosage of shape (p,)."""
        p = dose.size
        index, sets = differences(p, self.order)
        m = 2.0 * dose - 1.0
        factors = [m[block] for block in sets]
        matrix = self.scale * np.concatenate([f.prod(axis=1) for f in factors])[index]
        matrix += self.past
        value, pull = _inverse_trace(matrix) if self.objective == "a" else _smallest_eigenvalue(matrix)
        # Entries with the same symmetric difference u have the same derivative, that of prod_{i in u} m_i.
        total = np.bincount(index.ravel(), weights=pull.ravel(), minlength=sum(map(len, sets)))
        gradient, first = np.zeros(p), 0
        for block, factor in zip(sets, factors, strict=True):
            weight: Floats = total[first : first + len(block)].astype(np.float64)
            first += len(block)
            for j in range(block.shape[1]):
                others = weight
                for i in range(block.shape[1]):
                    if i != j:
                        others = others * factor[:, i]
                gradient += np.bincount(block[:, j], weights=others, minlength=p)
        return value, -2.0 * self.scale * gradient


def _inverse_trace(matrix: Floats) -> tuple[float, Floats]:
    """Return tr M^{-1} and M^{-2}."""
    factor, failed = scipy.linalg.lapack.dpotrf(matrix, lower=1, clean=0)
    if failed:
        matrix = matrix + JITTER * np.trace(matrix) / len(matrix) * np.eye(len(matrix))
        factor, failed = scipy.linalg.lapack.dpotrf(matrix, lower=1, clean=0)
        if failed:
            raise np.linalg.LinAlgError("the information of the past units and the dosage has no Cholesky factor")
    inverse, _ = scipy.linalg.lapack.dpotri(factor, lower=1)
    inverse = np.tril(inverse) + np.tril(inverse, -1).T
    return float(np.trace(inverse)), inverse @ inverse.T


def _smallest_eigenvalue(matrix: Floats) -> tuple[float, Floats]:
    """Return minus the smallest eigenvalue and the mean of v v' over its eigenspace."""
    size = len(matrix)
    for wanted in (4, size) if size > 50 else (size,):  # few eigenvectors do, unless more are equal
        values, vectors = scipy.linalg.eigh(matrix, subset_by_index=[0, wanted - 1])
        same = values <= values[0] + 1e-9 * np.trace(matrix) / size
        if not same.all():
            break
    space = vectors[:, same]
    return -float(values[0]), space @ space.T / same.sum()


def weight_per_treatment(p: int, order: int, weights: Floats) -> Floats:
    """Return for each treatment the sum of the weights of the terms that contain it."""
    total = np.zeros(p)
    for size in range(1, order + 1):
        sets = sets_of_size(p, size)
        weight = weights[count_terms(p, size - 1) :][: len(sets)]
        for j in range(size):
            total += np.bincount(sets[:, j], weights=weight, minlength=p)
    return total
