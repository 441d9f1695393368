"""The generalised eigenproblems of the two Laplacians, dense for small graphs and sparse for large ones.

With self-loops of weight (d_H - c0 d_G) / 2 both graphs have the same degrees. In theory such loops are neutral: they
change neither cuts nor quadratic forms. Put on the diagonal of an adjacency matrix they act as a potential instead,
which keeps eigenvectors from sitting on single nodes. Both forms are solved here.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh, lobpcg, splu
from sklearn.exceptions import ConvergenceWarning

from paperworks.clustering.constrained_cut.problem import Floats, Problem, components, laplacian

__all__ = ["DENSE", "Pencil", "grounded", "neutral_pairs", "potential_pairs", "second_normalised"]

DENSE = 1500
"""Up to this many nodes, matrices are dense."""
_DENSE_FALLBACK = 4000
_TINY = 1e-8
_TOLERANCE = 1e-9


class Pencil(NamedTuple):
    """Eigenvalues in ascending order and their vectors, of shape (n, k)."""

    values: Floats
    vectors: Floats


def grounded(problem: Problem, weight: float | None, vertex: int | None) -> tuple[float, NDArray[np.int64]]:
    """Return weight and nodes of the negative loops: one per component of H (section 4; one is enough if connected)."""
    d_H = problem.d_H
    count, labels = problem.apart_components()
    nodes = np.array([np.flatnonzero(labels == c)[np.argmax(d_H[labels == c])] for c in range(count)])
    if vertex is not None:
        nodes[labels[vertex]] = vertex
    return float(d_H.mean()) / 40 if weight is None else weight, nodes


def neutral_pairs(
    problem: Problem, k: int, *, weight: float, nodes: NDArray[np.int64], solver: str, rng: np.random.RandomState
) -> Pencil:
    """Solve c0 L_G x = lambda L_H x for the k smallest values; the constant vector comes first, with value 0.

    A negative loop makes L_H positive definite. For a connected H this is exact: every other eigenvector vanishes at
    the loop's node, so neither the weight nor the node matters.
    """
    n, c0 = problem.n, problem.scale
    L = c0 * laplacian(problem.G)
    loops = np.zeros(n)
    loops[nodes] = 4 * weight
    if _is_dense(n, solver):
        found = scipy.linalg.eigh(L.toarray(), problem.apart_dense() + np.diag(loops), subset_by_index=[0, k - 1])
        return _signed(*found)
    ground = sparse.csr_array(problem.apart() + sparse.diags_array(loops))
    r = problem.r
    M = LinearOperator((n, n), matvec=lambda x: ground @ x - r * (r @ x), dtype=np.float64)
    shift = 1e-3 * float((c0 * problem.d_G).mean() / problem.d_H.mean())
    start = rng.uniform(-1, 1, n)
    try:
        if solver == "lobpcg":
            raise ArpackError(-9999)
        factor = _factor(L + shift * ground)
        solved = factor.solve(r)
        gain = shift / (1.0 - shift * float(r @ solved))  # Sherman and Morrison, for the dense part of H
        inverse = LinearOperator(
            (n, n), matvec=lambda x: (y := factor.solve(x)) + gain * solved * float(r @ y), dtype=np.float64
        )
        found = eigsh(L, k, M=M, sigma=-shift, OPinv=inverse, which="LM", v0=start, tol=_TOLERANCE)
        order = np.argsort(found[0])
        return _signed(found[0][order], found[1][:, order])
    except (ArpackError, RuntimeError, MemoryError):
        found = _by_lobpcg(L, M, k, rng, largest=False)
        return found if found is not None else neutral_dense(problem, k, loops)


def neutral_dense(problem: Problem, k: int, loops: Floats) -> Pencil:
    """Return the solution by dense matrices."""
    L = problem.scale * laplacian(problem.G).toarray()
    return _signed(*scipy.linalg.eigh(L, problem.apart_dense() + np.diag(loops), subset_by_index=[0, k - 1]))


def potential_pairs(problem: Problem, k: int, *, solver: str, rng: np.random.RandomState) -> Pencil:
    """Solve (c0 L_G + P) x = lambda L_H x for the k smallest values, P = (d_H - c0 d_G) / 2 on the diagonal.

    The left matrix is positive definite, so the reversed pencil is solved for its largest values; nothing is grounded.
    """
    n = problem.n
    potential = np.maximum(0.5 * (problem.d_H - problem.scale * problem.d_G), 0.0)
    count, labels = components(problem.G)
    bare = np.bincount(labels, potential, count) <= 0
    potential[bare[labels]] += _TINY * float(problem.d_H.mean())
    L = sparse.csr_array(problem.scale * laplacian(problem.G) + sparse.diags_array(potential))
    if _is_dense(n, solver):
        mu, vectors = scipy.linalg.eigh(problem.apart_dense(), L.toarray(), subset_by_index=[n - k, n - 1])
        return _reversed(mu, vectors)
    apart, r = problem.apart(), problem.r
    A = LinearOperator((n, n), matvec=lambda x: apart @ x - r * (r @ x), dtype=np.float64)
    try:
        if solver == "lobpcg":
            raise ArpackError(-9999)
        factor = _factor(L)
        inverse = LinearOperator((n, n), matvec=factor.solve, dtype=np.float64)
        mu, vectors = eigsh(A, k, M=L, Minv=inverse, which="LA", v0=rng.uniform(-1, 1, n), tol=_TOLERANCE)
        order = np.argsort(mu)
        return _reversed(mu[order], vectors[:, order])
    except (ArpackError, RuntimeError, MemoryError):
        found = _by_lobpcg(A, L, k, rng, largest=True)
        return _reversed(*found) if found is not None else potential_dense(problem, L, k)


def potential_dense(problem: Problem, L: sparse.csr_array, k: int) -> Pencil:
    """Return the solution by dense matrices."""
    n = problem.n
    return _reversed(*scipy.linalg.eigh(problem.apart_dense(), L.toarray(), subset_by_index=[n - k, n - 1]))


def second_normalised(problem: Problem, *, solver: str, rng: np.random.RandomState) -> float:
    """Return the second eigenvalue of the normalised Laplacian of H."""
    n, d = problem.n, problem.d_H
    if (d <= 0).any():
        return 0.0
    root = 1 / np.sqrt(d)
    if _is_dense(n, solver):
        matrix = root[:, None] * problem.apart_dense() * root
        return max(float(scipy.linalg.eigvalsh(matrix, subset_by_index=[1, 1])[0]), 0.0)
    apart, r = problem.apart(), problem.r

    def flipped(x: Floats) -> Floats:  # 2 I minus the matrix: its largest values are found without a factorisation
        y = root * np.ravel(x)
        return 2.0 * np.ravel(x) - root * (apart @ y - r * (r @ y))

    operator = LinearOperator((n, n), matvec=flipped, dtype=np.float64)
    values = eigsh(operator, 2, which="LA", v0=rng.uniform(-1, 1, n), return_eigenvectors=False)
    return max(2.0 - float(np.min(values)), 0.0)


def _by_lobpcg(A: Any, B: Any, k: int, rng: np.random.RandomState, *, largest: bool) -> Pencil | None:
    """Solve A x = lambda B x without a factorisation; None if that has failed and dense matrices are small enough."""
    n = A.shape[0]
    front = None
    if not largest:
        try:
            from pyamg import smoothed_aggregation_solver

            front = smoothed_aggregation_solver(sparse.csr_matrix(A + _TINY * sparse.eye_array(n))).aspreconditioner()
        except ImportError:
            diagonal = A.diagonal() + 1e-12 * A.diagonal().max()
            front = sparse.diags_array(1 / diagonal)
    left, right = (_blockwise(matrix, n) for matrix in (A, B))
    start = rng.uniform(-1, 1, (n, min(k + 2, n)))
    if not largest:
        start[:, 0] = 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        values, vectors = lobpcg(left, start, B=right, M=front, largest=largest, tol=1e-8, maxiter=1000)
    order = np.argsort(values)
    order = order[-k:] if largest else order[:k]
    values, vectors = values[order], vectors[:, order]
    residual = np.abs(left @ vectors - (right @ vectors) * values).max()
    if not np.isfinite(residual) or residual > 1e-4 * np.abs(left @ vectors).max(initial=1e-12):
        if n <= _DENSE_FALLBACK:
            return None
        warnings.warn("the eigenvectors have not converged; the labels may be rough", ConvergenceWarning, stacklevel=3)
    return _signed(values, vectors)


def _blockwise(matrix: Any, n: int) -> LinearOperator:
    """Return a matrix or operator that takes one vector or several."""

    def times(X: Floats) -> Floats:
        return np.column_stack([matrix @ x for x in np.reshape(X, (n, -1)).T])

    return LinearOperator((n, n), matvec=lambda x: matrix @ np.ravel(x), matmat=times, dtype=np.float64)


def _factor(matrix: Any) -> Any:
    """Return the factors of a symmetric positive definite matrix."""
    symmetric = {"SymmetricMode": True}
    return splu(sparse.csc_array(matrix), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=symmetric)


def _is_dense(n: int, solver: str) -> bool:
    return solver == "dense" or (solver == "auto" and n <= DENSE) or n <= 12


def _reversed(mu: Floats, vectors: Floats) -> Pencil:
    values = np.where(mu > 0, 1 / np.where(mu > 0, mu, 1.0), np.inf)
    return _signed(values[::-1], vectors[:, ::-1])


def _signed(values: Floats, vectors: Floats) -> Pencil:
    """Let the first entry of each vector that is not zero be positive."""
    large = np.abs(vectors) > 1e-9 * np.abs(vectors).max(axis=0)
    first = vectors[np.argmax(large, axis=0), np.arange(vectors.shape[1])]
    return Pencil(np.asarray(values, dtype=np.float64), vectors * np.where(first < 0, -1.0, 1.0))
