"""Kernel Gram matrices between two samples, and the median heuristic for their bandwidth."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist, pdist

__all__ = ["laplace_gram", "median_distance", "rbf_gram", "squared_distances"]

Floats = NDArray[np.float64]

_WIDE = 24
"""From this many columns on, one matrix product beats the plain sum of squares."""


def squared_distances(a: Floats, b: Floats) -> Floats:
    """Return the squared Euclidean distances between the rows of two samples.

    Parameters
    ----------
    a : ndarray of shape (n_a, n_columns)
        First sample.
    b : ndarray of shape (n_b, n_columns)
        Second sample.

    Returns
    -------
    ndarray of shape (n_a, n_b)
        A new array; never negative.

    Notes
    -----
    Wide samples are shifted to their common mean first, so that the expanded square loses no digits to an offset.

    Examples
    --------
    >>> import numpy as np
    >>> from paperworks._numerics.kernels import squared_distances
    >>> squared_distances(np.array([[0.0], [3.0]]), np.array([[1.0]]))
    array([[1.],
           [4.]])
    """
    if a.shape[1] == 1:
        difference = np.subtract(a, b[:, 0])
        return np.square(difference, out=difference)
    if a.shape[1] < _WIDE:
        distances: Floats = cdist(a, b, "sqeuclidean")
        return distances
    centre = (a.mean(axis=0) + b.mean(axis=0)) / 2.0
    a, b = a - centre, b - centre
    squares = a @ b.T
    squares *= -2.0
    squares += np.einsum("ij,ij->i", a, a)[:, None]
    squares += np.einsum("ij,ij->i", b, b)
    return np.maximum(squares, 0.0, out=squares)


def rbf_gram(a: Floats, b: Floats, bandwidth: float) -> Floats:
    """Return the Gaussian kernel ``exp(-|x - y|^2 / (2 bandwidth^2))`` between the rows of two samples.

    Parameters
    ----------
    a : ndarray of shape (n_a, n_columns)
        First sample.
    b : ndarray of shape (n_b, n_columns)
        Second sample.
    bandwidth : float
        Length scale, positive, in the unit of the columns.

    Returns
    -------
    ndarray of shape (n_a, n_b)
        Values in [0, 1].

    Examples
    --------
    >>> import numpy as np
    >>> from paperworks._numerics.kernels import rbf_gram
    >>> rbf_gram(np.array([[0.0]]), np.array([[0.0], [2.0]]), bandwidth=2.0).round(4)
    array([[1.    , 0.6065]])
    """
    # The samples are scaled, not the squares: tiny and huge units neither underflow nor overflow.
    exponent = squared_distances(a / bandwidth, b / bandwidth)
    exponent *= -0.5
    return np.exp(exponent, out=exponent)


def laplace_gram(a: Floats, b: Floats, bandwidth: float) -> Floats:
    """Return the Laplace kernel ``exp(-|x - y| / bandwidth)`` between the rows of two samples.

    Parameters
    ----------
    a : ndarray of shape (n_a, n_columns)
        First sample.
    b : ndarray of shape (n_b, n_columns)
        Second sample.
    bandwidth : float
        Length scale, positive, in the unit of the columns.

    Returns
    -------
    ndarray of shape (n_a, n_b)
        Values in [0, 1].

    Examples
    --------
    >>> import numpy as np
    >>> from paperworks._numerics.kernels import laplace_gram
    >>> laplace_gram(np.array([[0.0]]), np.array([[0.0], [2.0]]), bandwidth=2.0).round(4)
    array([[1.    , 0.3679]])
    """
    exponent = squared_distances(a / bandwidth, b / bandwidth)
    np.sqrt(exponent, out=exponent)
    np.negative(exponent, out=exponent)
    return np.exp(exponent, out=exponent)


def median_distance(x: Any, *, max_rows: int = 1000) -> float:
    """Return the median of the non-zero Euclidean distances between rows: the usual bandwidth of a kernel.

    Zero distances are left out, because a column that holds one value in most rows (rainfall, counts) would otherwise
    get the bandwidth zero.

    Parameters
    ----------
    x : ndarray of shape (n_rows, n_columns)
        The sample, finite.
    max_rows : int, default=1000
        Of a longer sample, this many rows are used; they are drawn without replacement by a fixed seed, so that the
        result depends on `x` alone.

    Returns
    -------
    float
        A positive number, in the unit of the columns.

    Raises
    ------
    ValueError
        If all rows are equal.

    Examples
    --------
    >>> import numpy as np
    >>> from paperworks._numerics.kernels import median_distance
    >>> median_distance(np.array([[0.0], [0.0], [0.0], [0.0], [2.0], [3.0]]))
    2.0
    """
    x = np.asarray(x, dtype=np.float64)
    if x.ndim != 2:
        raise ValueError(f"x must have two dimensions, got shape {x.shape}")
    rows = x
    if len(x) > max_rows:
        rows = x[np.sort(np.random.default_rng(0).choice(len(x), max_rows, replace=False))]
    distances = _distances(rows)
    if distances.size == 0 and len(rows) < len(x):
        # The rows drawn are all equal: look at distinct ones.
        distances = _distances(np.unique(x, axis=0)[:max_rows])
    if distances.size == 0:
        raise ValueError("all rows are equal: there is no distance to take the median of")
    return float(np.median(distances))


def _distances(rows: Floats) -> Floats:
    """Return the non-zero distances between rows; rows of tiny or huge numbers neither underflow nor overflow."""
    distances: Floats
    if rows.shape[1] == 1:
        distances = pdist(rows, "cityblock")
    else:
        scale = float(np.ptp(rows, axis=0).max(initial=0.0))
        distances = pdist(rows / scale) * scale if scale > 0.0 else np.empty(0)
    return distances[distances > 0.0]
