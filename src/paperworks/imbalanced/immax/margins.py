"""Confidence margins, the margin loss of the theory, and the class-sensitive Rademacher complexity."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paperworks._checks import check_choice, check_finite_array, check_integer, check_positive

__all__ = [
    "check_rho",
    "class_margin_loss",
    "class_sensitive_rademacher",
    "geomean",
    "optimal_margins",
    "rho_from_counts",
]

Floats = NDArray[np.float64]
_EXACT_LIMIT = 20  # signs that "exact" enumerates at most


def check_rho(rho: Any, n_classes: int | None = None) -> Floats:
    """Return `rho` as a float64 vector of positive finite margins, one per class.

    Parameters
    ----------
    rho : array-like of float, shape (n_classes,)
        Confidence margins.
    n_classes : int, optional
        Length that `rho` must have; at least 2 if not given.

    Returns
    -------
    ndarray of float64, shape (n_classes,)
        The margins.

    Raises
    ------
    ValueError
        If a margin isn't positive and finite, or the length is wrong.
    """
    margins = check_finite_array(rho, "rho", ndim=1)
    if n_classes is not None and len(margins) != n_classes:
        raise ValueError(f"rho must have one margin per class: got {len(margins)} margins for {n_classes} classes")
    if len(margins) < 2:
        raise ValueError(f"rho must have one margin for each of at least 2 classes, got {len(margins)}")
    if (margins <= 0).any():
        raise ValueError(f"rho must be positive, got {margins.min()} for class index {int(margins.argmin())}")
    return margins


def geomean(rho: Floats) -> float:
    """Return the geometric mean of margins, the gauge of the scores.

    Parameters
    ----------
    rho : ndarray of float64, shape (n_classes,)
        Positive margins.

    Returns
    -------
    float
        The geometric mean.
    """
    return float(np.exp(np.log(rho).mean()))


def _check_counts(counts: Any) -> Floats:
    values = check_finite_array(counts, "counts", ndim=1)
    if len(values) < 2:
        raise ValueError(f"counts must have one entry for each of at least 2 classes, got {len(values)}")
    if (values <= 0).any():
        raise ValueError(f"counts must be positive, got {values.min()} for class index {int(values.argmin())}")
    return values


def rho_from_counts(counts: Any, gamma: float, scale: float = 1.0) -> Floats:
    """Return the exponent family ``rho_k = scale * (m_k / geomean(m))**gamma``.

    Parameters
    ----------
    counts : array-like of float, shape (n_classes,)
        Rows of each class, positive.
    gamma : float
        Exponent.
    scale : float, default=1.0
        Geometric mean of the margins.

    Returns
    -------
    ndarray of float64, shape (n_classes,)
        The margins.
    """
    log_counts = np.log(_check_counts(counts))
    rho: Floats = scale * np.exp(float(gamma) * (log_counts - log_counts.mean()))
    return rho


def optimal_margins(counts: Any, radii: Any = None, *, total: float = 1.0) -> Floats:
    """Return the margins that are optimal in the separable case.

    They minimise ``sum_k m_k r_k**2 / rho_k**2`` (the class-sensitive complexity of linear scorers) subject to
    ``sum_k rho_k = total``, which gives ``rho_k`` proportional to ``m_k**(1/3) * r_k**(2/3)``: the larger class gets
    the larger margin, the opposite direction of LDAM.

    Parameters
    ----------
    counts : array-like of float, shape (n_classes,)
        Rows of each class, m_k > 0.
    radii : array-like of float, shape (n_classes,), optional
        Largest norm of a row of each class, r_k > 0; equal radii if not given.
    total : float, default=1.0
        Sum of the margins.

    Returns
    -------
    ndarray of float64, shape (n_classes,)
        The margins.

    Raises
    ------
    ValueError
        If a count, a radius or `total` isn't positive, or the lengths differ.

    References
    ----------
    Derived from the class-sensitive Rademacher complexity of C. Cortes, A. Mao, M. Mohri, Y. Zhong, "Balancing the
    Scales", ICML 2025.

    Examples
    --------
    >>> from paperworks.imbalanced import optimal_margins
    >>> optimal_margins([800, 100])
    array([0.66666667, 0.33333333])
    """
    m = _check_counts(counts)
    r = np.ones_like(m) if radii is None else check_finite_array(radii, "radii", ndim=1)
    if len(r) != len(m):
        raise ValueError(f"radii must have one entry per class: got {len(r)} radii for {len(m)} counts")
    if (r <= 0).any():
        raise ValueError(f"radii must be positive, got {r.min()} for class index {int(r.argmin())}")
    log_rho = np.log(m) / 3 + 2 * np.log(r) / 3
    rho: Floats = np.exp(log_rho - log_rho.max())
    rho *= check_positive(total, "total") / rho.sum()
    return rho


def _check_indices(y: Any, n_rows: int, n_classes: int) -> NDArray[np.int64]:
    labels = np.asarray(y)
    if labels.ndim != 1 or len(labels) != n_rows:
        raise ValueError(f"y must have shape ({n_rows},), got {labels.shape}")
    if labels.dtype.kind not in "iub":
        raise TypeError(f"y must hold class indices of an integer type, got dtype {labels.dtype}")
    if n_rows and (labels.min() < 0 or labels.max() >= n_classes):
        raise ValueError(
            f"y must lie in 0..{n_classes - 1} (rho has {n_classes} entries), got {labels.min()}..{labels.max()}"
        )
    indices: NDArray[np.int64] = labels.astype(np.int64)
    return indices


def class_margin_loss(margins: Any, y: Any, rho: Any) -> Floats:
    """Return the class-imbalanced margin loss of each row: the ramp ``min(1, max(0, 1 - margin / rho[y]))``.

    Parameters
    ----------
    margins : array-like of float, shape (n_samples,)
        Margins ``h(x, y) - max_{y' != y} h(x, y')``; for two classes with one score, ``+h`` or ``-h``.
    y : array-like of int, shape (n_samples,)
        Class indices 0..K-1.
    rho : array-like of float, shape (n_classes,)
        Confidence margins.

    Returns
    -------
    ndarray of float64, shape (n_samples,)
        Losses in [0, 1], at least the 0/1 loss.

    Raises
    ------
    ValueError
        If shapes don't fit, a margin is NaN or infinite, or an index is out of range.
    TypeError
        If `y` isn't of an integer type.

    References
    ----------
    C. Cortes, A. Mao, M. Mohri, Y. Zhong, "Balancing the Scales", ICML 2025: the class-imbalanced margin loss.

    Examples
    --------
    >>> from paperworks.imbalanced import class_margin_loss
    >>> class_margin_loss([0.5, 0.5, -1.0], [0, 1, 1], [1.0, 0.25])
    array([0.5, 0. , 1. ])
    """
    rho = check_rho(rho)
    u = check_finite_array(margins, "margins", ndim=1)
    loss: Floats = np.clip(1.0 - u / rho[_check_indices(y, len(u), len(rho))], 0.0, 1.0)
    return loss


def class_sensitive_rademacher(
    X: Any,
    y: Any,
    rho: Any,
    norm_bound: float,
    *,
    method: str = "bound",
    n_draws: int = 1000,
    random_state: Any = None,
) -> float:
    """Return the class-sensitive Rademacher complexity of linear scorers of bounded norm, or an upper bound on it.

    For two classes the scorers are ``w.x`` with ``||w|| <= norm_bound`` and the complexity is
    ``norm_bound / m * E || sum_i sigma_i x_i / rho[y_i] ||``. For K > 2 they are K x d matrices of bounded Frobenius
    norm, with one sign per row and class.

    Parameters
    ----------
    X : array-like of float, shape (n_samples, n_features)
        The sample.
    y : array-like of int, shape (n_samples,)
        Class indices 0..K-1.
    rho : array-like of float, shape (n_classes,)
        Confidence margins.
    norm_bound : float
        Bound on the norm, positive.
    method : {"bound", "radius", "exact", "monte-carlo"}, default="bound"
        ``"bound"``: ``norm_bound / m * sqrt(sum_i ||x_i||**2 / rho[y_i]**2)`` (Jensen). ``"radius"``: with the largest
        norm of each class in place of the norms. Both have the factor sqrt(K) for K > 2. ``"exact"``: all signs,
        at most 20 of them (m for two classes, m K otherwise). ``"monte-carlo"``: the mean over drawn signs.
    n_draws : int, default=1000
        Draws of ``"monte-carlo"``.
    random_state : int, RandomState instance or None, default=None
        Source of the drawn signs.

    Returns
    -------
    float
        The complexity; exact <= "bound" <= "radius".

    Raises
    ------
    ValueError
        If `norm_bound` isn't positive, a method is unknown, there are no rows or too many for ``"exact"``.

    References
    ----------
    C. Cortes, A. Mao, M. Mohri, Y. Zhong, "Balancing the Scales", ICML 2025: class-sensitive Rademacher complexity.

    Examples
    --------
    >>> from paperworks.imbalanced import class_sensitive_rademacher
    >>> X = [[3.0, 0.0], [0.0, 4.0]]
    >>> class_sensitive_rademacher(X, [0, 1], [1.0, 1.0], norm_bound=2.0)
    5.0
    >>> class_sensitive_rademacher(X, [0, 1], [1.0, 1.0], norm_bound=2.0, method="exact")
    5.0
    """
    from sklearn.utils import check_random_state

    check_choice(method, "method", ("bound", "radius", "exact", "monte-carlo"))
    bound = check_positive(norm_bound, "norm_bound")
    rho = check_rho(rho)
    X = check_finite_array(X, "X", ndim=2)
    n_rows, n_classes = len(X), len(rho)
    if n_rows == 0:
        raise ValueError("X must have at least one row, got none")
    labels = _check_indices(y, n_rows, n_classes)
    copies = 1 if n_classes == 2 else n_classes  # sign vectors per sample: one weight vector or one per class
    if method == "radius":
        norms = np.linalg.norm(X, axis=1)
        radii = np.zeros(n_classes)
        np.maximum.at(radii, labels, norms)
        return bound / n_rows * math.sqrt(copies * float(np.sum((radii / rho)[labels] ** 2)))
    scaled = X / rho[labels][:, None]
    if method == "bound":
        return bound / n_rows * math.sqrt(copies * float(np.sum(scaled**2)))
    if method == "exact":
        if n_rows * copies > _EXACT_LIMIT:
            what = f"{n_rows} rows" if copies == 1 else f"{n_rows} rows x {copies} classes"
            raise ValueError(f"method 'exact' takes at most {_EXACT_LIMIT} signs, got {what} = {n_rows * copies}")
        squares = _all_squared_norms(scaled)
        total = squares
        for _ in range(copies - 1):
            total = np.add.outer(total, squares).ravel()
        return bound / n_rows * float(np.sqrt(total).mean())
    rng = check_random_state(random_state)
    draws = check_integer(n_draws, "n_draws", minimum=1)
    block = max(1, 2**22 // (n_rows * copies))
    sums = 0.0
    for start in range(0, draws, block):
        size = min(block, draws - start)
        signs = 2.0 * rng.randint(0, 2, size=(size * copies, n_rows)) - 1.0
        squares = np.sum((signs @ scaled) ** 2, axis=1).reshape(size, copies)
        sums += float(np.sqrt(squares.sum(axis=1)).sum())
    return bound / n_rows * sums / draws


def _all_squared_norms(rows: Floats) -> Floats:
    """Squared norms of ``sum_i s_i rows_i`` over all signs; the first sign is fixed, since -s has the norm of s."""
    first, second = np.array_split(rows, 2)
    left = _signed_sums(first[1:]) + first[0]
    right = _signed_sums(second)
    squares = np.sum(left**2, axis=1)[:, None] + 2 * left @ right.T + np.sum(right**2, axis=1)
    flat: Floats = np.maximum(squares, 0.0).ravel()
    return flat


def _signed_sums(rows: Floats) -> Floats:
    sums = np.zeros((1, rows.shape[1]))
    for row in rows:
        sums = np.concatenate((sums + row, sums - row))
    return sums
