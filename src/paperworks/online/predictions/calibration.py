"""Calibrated probabilities: histogram, isotonic and logistic maps from scores, and how far one is off."""

from __future__ import annotations

import warnings
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from paperworks._checks import check_choice, check_finite_array, check_integer

__all__ = ["HistogramCalibrator", "max_calibration_error"]

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

CALIBRATORS = ("histogram", "isotonic", "platt")
MIN_LABELS = 25
_ROUNDING = 1e-9


class Calibrator(Protocol):
    """A fitted map from scores to probabilities."""

    def transform(self, scores: Any) -> Any:
        """Map scores of shape (n,)."""
        ...


def check_scores(value: Any, name: str, *, ndim: int | None = 1) -> Floats:
    """Return probabilities as float64; what rounding has put outside [0, 1] is clipped, the rest is refused."""
    plain = isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.size > 0 and ndim in (None, value.ndim)
    if plain and value.min() >= 0.0 and value.max() <= 1.0:  # two passes over memory; NaN passes neither
        fine: Floats = value.astype(np.float64, copy=False)
        return fine
    scores = check_finite_array(value, name, ndim=ndim)
    bad = (scores < -_ROUNDING) | (scores > 1.0 + _ROUNDING)
    if bad.any():
        raise ValueError(
            f"{name} must be probabilities in [0, 1], got {int(bad.sum())} value(s) outside, "
            f"the first {float(scores[bad].flat[0])!r}"
        )
    return np.asarray(np.clip(scores, 0.0, 1.0))


def check_labels(value: Any, name: str) -> Bools:
    """Return labels 0 and 1 as booleans."""
    if isinstance(value, np.ndarray) and value.dtype == np.bool_ and value.ndim == 1:
        return value
    labels = check_finite_array(value, name, ndim=1)
    bad = (labels != 0.0) & (labels != 1.0)
    if bad.any():
        raise ValueError(f"{name} must be 0 or 1, got {float(labels[bad][0])!r}")
    return labels == 1.0


def check_equal_length(first: Any, first_name: str, second: Any, second_name: str) -> None:
    """Refuse arrays of different shape."""
    if first.shape != second.shape:
        raise ValueError(
            f"{first_name} and {second_name} must be equally long, got shapes {first.shape} and {second.shape}"
        )


def check_both_classes(labels: Bools, what: str) -> None:
    """Refuse labels of one class, which no calibrator can learn from."""
    n_positive = int(labels.sum())
    if labels.size == 0:
        raise ValueError(f"{what} must hold at least one label of each class, got none")
    if n_positive in (0, labels.size):
        raise ValueError(
            f"{what} must hold both classes, 0 and 1; all {labels.size} sample(s) are of class {int(n_positive > 0)}"
        )


def bin_edges(scores: Floats, n_bins: int, min_labels: int) -> Floats:
    """Return the edges of bins of about equal mass that never split equal scores, each of at least `min_labels`.

    A score with at most `n_bins` different values gets a bin for each value. Otherwise a cut inside a run of equal
    scores moves to the end of the run. Bins are ``[edge_j, edge_(j + 1))``, the last one closed.
    """
    ordered = np.sort(scores)
    ends = np.flatnonzero(np.diff(ordered)) + 1  # a cut at rank r separates ordered[r - 1] and ordered[r]
    if ends.size < n_bins:
        cuts = ends
    else:
        ranks = np.rint(np.arange(1, n_bins) * (scores.size / n_bins)).astype(np.int64)
        places = np.searchsorted(ends, ranks)
        cuts = np.unique(ends[places[places < ends.size]])
    kept: list[int] = []
    for cut in cuts.tolist():  # at most n_bins of them; a small bin joins its left neighbour, the first one its right
        if cut - (kept[-1] if kept else 0) >= min_labels:
            kept.append(cut)
        elif kept:
            kept[-1] = cut
    if kept and scores.size - kept[-1] < min_labels:
        kept.pop()
    left, right = ordered[np.array(kept, dtype=np.int64) - 1], ordered[np.array(kept, dtype=np.int64)]
    middle = left + (right - left) / 2.0
    inner = np.where(middle > left, middle, right)  # two neighbouring floats have no middle
    return np.concatenate([[0.0], inner[inner < 1.0], [1.0]])


def bin_of(scores: Floats, edges: Floats) -> NDArray[np.int64]:
    """Return the number of the bin of each score."""
    found: NDArray[np.int64] = np.searchsorted(edges[1:-1], scores, side="right")
    return found


class HistogramCalibrator(BaseEstimator):
    """Calibrated probabilities by bins of equal mass: the value of a bin is the share of ones in it.

    Parameters
    ----------
    n_bins : int, default=20
        Number of bins at most. Each holds at least 25 labels: with fewer than ``25 * n_bins`` labels there are fewer
        bins, and a warning.

    Attributes
    ----------
    bin_edges_ : ndarray of shape (n_bins_found + 1,)
        Strictly increasing edges from 0 to 1; bins are ``[edge_j, edge_(j + 1))``, the last one closed.
    bin_values_ : ndarray of shape (n_bins_found,)
        Share of ones in each bin; it need not increase.
    bin_counts_ : ndarray of int, shape (n_bins_found,)
        Number of labels in each bin.

    Notes
    -----
    Section 2 of the paper: on the data that it was fitted on, the calibration error is 0 by construction, so that it
    can only be measured on others, see `max_calibration_error`. Equal scores are never split, and a score with at most
    `n_bins` different values has a bin for each value that occurs 25 times.

    Examples
    --------
    >>> import numpy as np
    >>> from paperworks.online import HistogramCalibrator
    >>> scores = np.repeat([0.0, 1.0], 50)
    >>> labels = np.concatenate([np.repeat([0, 1], [40, 10]), np.repeat([0, 1], [5, 45])])
    >>> calibrator = HistogramCalibrator(n_bins=2).fit(scores, labels)
    >>> calibrator.transform([0.0, 0.3, 1.0])
    array([0.2, 0.2, 0.9])
    """

    def __init__(self, n_bins: int = 20) -> None:
        self.n_bins = n_bins

    def fit(self, scores: ArrayLike, labels: ArrayLike) -> HistogramCalibrator:
        """Learn the bins.

        Parameters
        ----------
        scores : array-like of shape (m,)
            Scores in [0, 1].
        labels : array-like of shape (m,)
            What happened, 0 or 1.

        Returns
        -------
        HistogramCalibrator
            The fitted calibrator.

        Raises
        ------
        ValueError
            If `n_bins` is below 1, a score lies outside [0, 1], a label is not 0 or 1, the lengths differ, or only one
            class is present.

        Warns
        -----
        UserWarning
            If there are too few labels for `n_bins` bins.
        """
        n_bins = check_integer(self.n_bins, "n_bins", minimum=1)
        p, y = check_scores(scores, "scores"), check_labels(labels, "labels")
        check_equal_length(p, "scores", y, "labels")
        check_both_classes(y, "labels")
        if p.size < MIN_LABELS * n_bins:
            fewer = max(1, p.size // MIN_LABELS)
            warnings.warn(
                f"{p.size} labels are too few for {n_bins} bins of {MIN_LABELS}; {fewer} bin(s) are used",
                UserWarning,
                stacklevel=2,
            )
            n_bins = fewer
        edges = bin_edges(p, n_bins, MIN_LABELS)
        place = bin_of(p, edges)
        counts = np.bincount(place, minlength=edges.size - 1)
        self.bin_edges_ = edges
        self.bin_values_ = np.bincount(place, weights=y, minlength=edges.size - 1) / counts
        self.bin_counts_ = counts
        return self

    def transform(self, scores: ArrayLike) -> Floats:
        """Return calibrated probabilities.

        Parameters
        ----------
        scores : array-like of any shape
            Scores in [0, 1].

        Returns
        -------
        ndarray of the same shape
            Share of ones in the bin of each score.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If a score lies outside [0, 1].
        """
        check_is_fitted(self)
        place = bin_of(check_scores(scores, "scores", ndim=None), self.bin_edges_)
        return np.asarray(self.bin_values_[place])


class PlattCalibrator:
    """Logistic regression on the logit of the score, without penalty."""

    def fit(self, scores: Floats, labels: Bools) -> PlattCalibrator:
        """Learn slope and intercept."""
        from sklearn.linear_model import LogisticRegression

        # Unpenalised; with labels that the score separates the slope grows until the solver stops.
        self.model_ = LogisticRegression(C=np.inf, max_iter=1000).fit(self._logit(scores), labels)
        return self

    def transform(self, scores: Floats) -> Floats:
        """Return the fitted probabilities."""
        fitted: Floats = self.model_.predict_proba(self._logit(scores))[:, 1]
        return fitted

    @staticmethod
    def _logit(scores: Floats) -> Floats:
        p = np.clip(scores, 1e-6, 1.0 - 1e-6)
        return np.log(p / (1.0 - p))[:, None]


def fit_calibrator(kind: str | None, n_bins: int, scores: Floats, labels: Bools) -> Calibrator | None:
    """Fit one of `CALIBRATORS`, or nothing for None."""
    if kind is None:
        return None
    if kind == "histogram":
        return HistogramCalibrator(n_bins).fit(scores, labels)
    if kind == "platt":
        return PlattCalibrator().fit(scores, labels)
    from sklearn.isotonic import IsotonicRegression

    isotonic = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip")
    fitted: Calibrator = isotonic.fit(scores, labels)
    return fitted


def check_calibrator(kind: Any, n_bins: Any) -> None:
    """Check the two parameters that both estimators have."""
    if kind is not None:
        check_choice(kind, "calibrator", CALIBRATORS)
    check_integer(n_bins, "n_bins", minimum=1)


def calibrate(estimator: Any, scores: Floats) -> Floats:
    """Return calibrated probabilities in [0, 1] by what `estimator` has fitted; scores as given where it has nothing.

    Raises `NotFittedError` if the estimator has a calibrator that isn't fitted.
    """
    check_calibrator(estimator.calibrator, estimator.n_bins)
    if estimator.calibrator is None:
        return scores
    check_is_fitted(estimator, "calibrator_")
    if scores.size == 0:
        return scores
    # Isotonic regression and rounding may leave [0, 1] by 1e-12.
    values: Floats = np.clip(estimator.calibrator_.transform(scores.ravel()), 0.0, 1.0).reshape(scores.shape)
    return values


def max_calibration_error(p: ArrayLike, y: ArrayLike, n_bins: int, min_count: int = 30) -> float:
    """Return the largest gap between predicted and observed share of ones over bins of equal mass.

    Parameters
    ----------
    p : array-like of shape (m,)
        Predicted probabilities, in [0, 1].
    y : array-like of shape (m,)
        What happened, 0 or 1.
    n_bins : int
        Number of bins at most; with at most that many different probabilities there is a bin for each.
    min_count : int, default=30
        Bins with fewer samples are left out.

    Returns
    -------
    float
        The largest ``|mean of p - mean of y|`` of a bin; 0 if no bin has `min_count` samples.

    Raises
    ------
    ValueError
        If a probability lies outside [0, 1], a label is not 0 or 1, the lengths differ, or a number is below 1.

    Notes
    -----
    Definition 2.2 of the paper, with bins where the law of p is continuous. Measure it on data that the calibrator has
    not seen: on those it was fitted on, it is 0 for a histogram. An estimate from bins is a maximum of noisy numbers
    and tends to be too large.

    Examples
    --------
    >>> from paperworks.online import max_calibration_error
    >>> max_calibration_error([0.25] * 40 + [0.75] * 40, [0, 0, 0, 1] * 10 + [0, 1] * 20, n_bins=2)
    0.25
    """
    check_integer(n_bins, "n_bins", minimum=1)
    check_integer(min_count, "min_count", minimum=1)
    predicted, happened = check_scores(p, "p"), check_labels(y, "y")
    check_equal_length(predicted, "p", happened, "y")
    if predicted.size == 0:
        return 0.0
    edges = bin_edges(predicted, n_bins, 1)
    place = bin_of(predicted, edges)
    counts = np.bincount(place, minlength=edges.size - 1)
    gaps = np.abs(np.bincount(place, weights=predicted - happened, minlength=edges.size - 1))
    large = counts >= min_count
    return float(np.max(gaps[large] / counts[large], initial=0.0))
