"""What an action costs."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import gaussian_kde

from paperworks._checks import check_choice, check_finite_array

from .protocol import Floats

COSTS = ("norm", "mps", "mahalanobis")
N_GRID = 100


class CostModel:
    """Cost of the action that leads from one point to another.

    Parameters
    ----------
    kind : {"norm", "mps", "mahalanobis"}, default="norm"
        ``"norm"`` is the sum of absolute changes. ``"mps"`` is the largest shift in percentiles of any feature, each
        percentile function being that of a Gaussian kernel density on 100 grid points between the 0.1 % and the
        99.9 % quantile, clipped to [1e-6, 1 - 1e-6], linear between grid points and constant outside; a constant
        feature contributes 0. ``"mahalanobis"`` is the square root of ``a' pinv(cov) a`` for the action a.

    Attributes
    ----------
    n_features_in_ : int
        Number of features D seen in `fit`.

    References
    ----------
    K. Kanamori et al., "Algorithmic Recourse for Long-Term Improvement", ICML 2025, costs of the experiments.

    Examples
    --------
    >>> import numpy as np
    >>> from paperworks.causal import CostModel
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> CostModel("norm").fit(X).cost([0.0, 0.0], [[1.0, -2.0], [0.0, 0.0]]).tolist()
    [3.0, 0.0]
    """

    def __init__(self, kind: str = "norm") -> None:
        self.kind = kind

    def fit(self, X: ArrayLike) -> CostModel:
        """Learn percentiles or the covariance.

        Parameters
        ----------
        X : array-like of shape (n_samples, D)
            Rows of the population.

        Returns
        -------
        CostModel
            The fitted model.

        Raises
        ------
        ValueError
            If `kind` is unknown, or X has fewer than 2 rows, no column, or a value that is not finite.
        """
        check_choice(self.kind, "kind", COSTS)
        rows = check_finite_array(X, "X", ndim=2)
        if rows.shape[0] < 2 or rows.shape[1] < 1:
            raise ValueError(f"X must have at least 2 rows and 1 column, got shape {rows.shape}")
        if self.kind == "mps":
            self._start, self._step, self._curves = _percentile_curves(rows)
        elif self.kind == "mahalanobis":
            # pinv(cov) = root root'
            values, vectors = np.linalg.eigh(np.atleast_2d(np.cov(rows, rowvar=False)))
            kept = values > values.max() * len(values) * np.finfo(float).eps
            self._root = vectors[:, kept] / np.sqrt(values[kept])
        self.n_features_in_ = rows.shape[1]
        return self

    def cost(self, x: ArrayLike, targets: ArrayLike) -> Floats:
        """Return the cost of going from x to each target.

        Parameters
        ----------
        x : array-like of shape (D,)
            Where the person stands.
        targets : array-like of shape (K, D)
            Where the actions lead.

        Returns
        -------
        ndarray of shape (K,)
            Costs >= 0; at most 1 for ``"mps"``.

        Raises
        ------
        ValueError
            If the model is not fitted, a shape does not fit, or a value is not finite.
        """
        if not hasattr(self, "n_features_in_"):
            raise ValueError("this CostModel is not fitted; call fit first")
        here, there = check_finite_array(x, "x", ndim=1), check_finite_array(targets, "targets", ndim=2)
        for value, name in ((here, "x"), (there, "targets")):
            if value.shape[-1] != self.n_features_in_:
                raise ValueError(f"{name} must have {self.n_features_in_} features, got {value.shape[-1]}")
        return self.distance(self.embed(here), self.embed(there))

    def embed(self, rows: Floats) -> Floats:
        """Map points to their percentiles if those count; candidates are mapped once, persons as they come.

        Parameters
        ----------
        rows : ndarray of shape (..., D)
            Points.

        Returns
        -------
        ndarray of shape (..., D)
            The mapped points.
        """
        # Column by column in memory: distances reduce over the few features of many candidates.
        if self.kind != "mps":
            return np.asfortranarray(rows)
        place = np.clip((rows - self._start) / self._step, 0.0, N_GRID - 1.0)
        left = np.minimum(place.astype(np.intp), N_GRID - 2)
        column = np.arange(self._curves.shape[0])
        low, high = self._curves[column, left], self._curves[column, left + 1]
        return np.asfortranarray(low + (place - left) * (high - low))

    def distance(self, point: Floats, points: Floats) -> Floats:
        """Return the cost of going from a mapped point to mapped points.

        Parameters
        ----------
        point : ndarray of shape (..., D)
            From where; broadcast against `points`.
        points : ndarray of shape (..., D)
            To where.

        Returns
        -------
        ndarray of shape (...,)
            Costs.
        """
        shift = points - point
        if self.kind == "mahalanobis":
            turned = shift @ self._root  # of the difference, so that no change costs exactly 0
            return np.asarray(np.sqrt((turned * turned).sum(axis=-1)))
        np.abs(shift, out=shift)
        return np.asarray(shift.sum(axis=-1) if self.kind == "norm" else shift.max(axis=-1))


def _percentile_curves(rows: Floats) -> tuple[Floats, Floats, Floats]:
    """Return for each feature where its grid starts, its spacing, and the percentiles on it."""
    n_features = rows.shape[1]
    start, step, curves = np.zeros(n_features), np.ones(n_features), np.zeros((n_features, N_GRID))
    for d, column in enumerate(rows.T):
        low, high = np.quantile(column, [0.001, 0.999])
        if high <= low:  # all but a few rows are equal
            low, high = column.min(), column.max()
        if high <= low:
            continue
        # A kernel density does not depend on the unit; in units of the range it stays clear of under- and overflow.
        grid = np.linspace(0.0, 1.0, N_GRID)
        mass = np.cumsum(gaussian_kde((column - low) / (high - low))(grid))
        start[d], step[d] = low, (high - low) / (N_GRID - 1)
        curves[d] = np.clip(mass / mass[-1], 1e-6, 1.0 - 1e-6)
    return start, step, curves
