"""Ski rental with a calibrated prediction (section 3 of the paper): the estimator that users hold."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from paperworks._checks import check_fraction, check_positive

from .calibration import (
    Bools,
    calibrate,
    check_both_classes,
    check_calibrator,
    check_equal_length,
    check_scores,
    fit_calibrator,
    max_calibration_error,
)
from .rules import check_not_negative, ski_rental_cost

__all__ = ["SkiRental"]

Floats = NDArray[np.float64]

_HELDOUT = "heldout"
_MIN_COUNT = 30


class SkiRental(BaseEstimator):
    """Rent by the unit of time or buy once, advised by the probability of a long need.

    A need of unknown duration Z costs 1 per unit of time while it is rented, or `buy_cost` once. A model gives a score
    for "it will last longer than `buy_cost`". The scores are calibrated, and the calibrated probability v sets the time
    to rent before buying: `buy_cost` itself up to ``v = (4 + 3 alpha) / 5``, above that
    ``buy_cost * sqrt((1 - v + alpha) / (v + alpha))``.

    Parameters
    ----------
    buy_cost : float
        Price of buying in the cost of renting for one unit of time, > 0: also the duration from which buying pays.
    calibrator : {"histogram", "isotonic", "platt"} or None, default="histogram"
        Map from scores to probabilities, learnt in `fit`. None takes the scores as probabilities; with a number as
        `alpha` the estimator then works unfitted.
    n_bins : int, default=20
        Bins of the histogram at most, see `HistogramCalibrator`, and of the estimate of `alpha`.
    alpha : float or "heldout", default=0.0
        Max calibration error that is allowed for, in [0, 1]. 0 is best on average, but buys at once where the
        probability is 1, without any limit to the loss if that is wrong. A larger number trades average for worst
        case, see `robustness_`; from 1/3 on the rule is to break even. With "heldout" the calibrator is fitted on one
        half of the data, drawn at random in each class, and its error measured on the other half.
    random_state : int, numpy.random.Generator or None, default=None
        Source of the halves.

    Attributes
    ----------
    calibrator_ : object or None
        The fitted calibrator, with a method ``transform``.
    alpha_ : float
        The max calibration error in use.
    mse_ : float
        Mean squared error of the calibrated probabilities, on the held-out half if `alpha` is "heldout".
    global_bound_ : float
        Bound on the expected competitive ratio (Theorem 3.1), from the mean probability and `mse_` of the same data.
    robustness_ : float
        Largest competitive ratio for any duration and score: ``1 + sqrt((1 + alpha_) / alpha_)`` below 1/3 (infinite
        at 0), else 2.
    classes_ : ndarray of shape (2,)
        ``[0, 1]``: lasts at most `buy_cost`, lasts longer.

    See Also
    --------
    conformal_rent_time : The rule for a conformal interval.
    binary_rent_time : The rule for a classifier's yes or no.

    Notes
    -----
    J. H. Shen, E. Vitercik, A. Wikum, "Algorithms with Calibrated Machine Learning Predictions", ICML 2025, Algorithm 1
    and Theorems 3.1, 3.3 and 3.4. With ``alpha = 0`` and calibrated scores the expected ratio is at most 1.8 for every
    probability, and no deterministic rule is better on all laws with the same probability.

    The paper prints ``1 + (1 + alpha) / alpha`` for the worst case; the root of that fraction is exact. The published
    code has ``sqrt((1 - v + alpha) / v + alpha)`` as rent time, another rule as soon as alpha is positive.

    A duration of 0 costs nothing, with or without foresight: its ratio is 1. Durations must be known to the end: leave
    out instances that still run, unless they have already lasted longer than `buy_cost`.

    Examples
    --------
    >>> import numpy as np
    >>> from paperworks.online import SkiRental
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.random(2000)
    >>> minutes = np.where(rng.random(2000) < 0.9 * scores, 90.0, 10.0)  # scores are too high
    >>> policy = SkiRental(buy_cost=30.0).fit(scores, minutes)
    >>> policy.rent_time([0.3, 0.99]).round(1)
    array([30. ,  6.9])
    >>> bool(-policy.score(scores, minutes) <= policy.global_bound_ < 2)
    True
    """

    def __init__(
        self,
        buy_cost: float,
        calibrator: str | None = "histogram",
        n_bins: int = 20,
        alpha: float | str = 0.0,
        random_state: Any = None,
    ) -> None:
        self.buy_cost = buy_cost
        self.calibrator = calibrator
        self.n_bins = n_bins
        self.alpha = alpha
        self.random_state = random_state

    def fit(self, scores: ArrayLike, durations: ArrayLike) -> SkiRental:
        """Calibrate on instances that the model has not seen.

        Parameters
        ----------
        scores : array-like of shape (m,)
            The model's scores for "lasts longer than `buy_cost`", in [0, 1].
        durations : array-like of shape (m,)
            How long the instances lasted, >= 0.

        Returns
        -------
        SkiRental
            The fitted estimator.

        Raises
        ------
        ValueError
            If a parameter is out of range, a score lies outside [0, 1], a duration is negative or not finite, the
            lengths differ, or all durations lie on one side of `buy_cost`.

        Warns
        -----
        UserWarning
            If there are too few instances for the bins, or to measure the calibration error.
        """
        price = check_positive(self.buy_cost, "buy_cost")
        check_calibrator(self.calibrator, self.n_bins)
        alpha = self._given_alpha()
        p, z = check_scores(scores, "scores"), check_not_negative(durations, "durations", ndim=1)
        check_equal_length(p, "scores", z, "durations")
        labels = z > price
        check_both_classes(labels, f"durations > buy_cost = {price:g}")

        first, second = np.ones(p.size, dtype=bool), np.ones(p.size, dtype=bool)
        if alpha is None and self.calibrator is not None:  # nothing is fitted without a calibrator: all data measure
            first = _half(labels, np.random.default_rng(self.random_state))
            second = ~first
        calibrator = fit_calibrator(self.calibrator, self.n_bins, p[first], labels[first])
        v, happened = p[second], labels[second]
        if calibrator is not None and v.size:
            v = np.clip(calibrator.transform(v), 0.0, 1.0)
        if alpha is None:
            alpha = self._measured_alpha(v, happened)

        self.calibrator_ = calibrator
        self.alpha_ = alpha
        self.mse_ = float(np.mean((v - happened) ** 2))
        # Theorem 3.1
        self.global_bound_ = float(1.0 + 2.0 * alpha + min(v.mean() + alpha, 2.0 * np.sqrt(self.mse_ + 3.0 * alpha)))
        self.robustness_ = _robustness(alpha)
        self.classes_ = np.array([0, 1])
        return self

    def rent_time(self, scores: ArrayLike) -> Floats:
        """Return the time to rent before buying (Algorithm 1).

        Parameters
        ----------
        scores : array-like of any shape
            Scores in [0, 1].

        Returns
        -------
        ndarray of the same shape
            Rent times in [0, `buy_cost`].

        Raises
        ------
        NotFittedError
            Before `fit`, unless `calibrator` is None and `alpha` a number.
        ValueError
            If a score lies outside [0, 1].
        """
        price = check_positive(self.buy_cost, "buy_cost")
        v, alpha = self._advice(scores)
        k = np.full(v.shape, price)
        early = v > (4.0 + 3.0 * alpha) / 5.0
        sure = v[early]
        k[early] = price * np.sqrt((1.0 - sure + alpha) / (sure + alpha))
        return k

    def bound(self, scores: ArrayLike) -> Floats:
        """Return the bound on the expected competitive ratio given the score (Theorem 3.3).

        Parameters
        ----------
        scores : array-like of any shape
            Scores in [0, 1].

        Returns
        -------
        ndarray of the same shape
            ``1 + 2 alpha + min(v + alpha, 2 sqrt((v + alpha) (1 - v + alpha)))`` for calibrated probabilities v.

        Raises
        ------
        NotFittedError
            Before `fit`, unless `calibrator` is None and `alpha` a number.
        ValueError
            If a score lies outside [0, 1].
        """
        v, alpha = self._advice(scores)
        expected = np.minimum(v + alpha, 2.0 * np.sqrt((v + alpha) * (1.0 - v + alpha)))
        return np.asarray(1.0 + 2.0 * alpha + expected)

    def cost(self, scores: ArrayLike, durations: ArrayLike) -> Floats:
        """Return what the rent times cost.

        Parameters
        ----------
        scores : array-like of any shape
            Scores in [0, 1].
        durations : array-like of the same shape
            How long the needs lasted, >= 0.

        Returns
        -------
        ndarray of the same shape
            Cost, in the cost of renting for a unit of time.

        Raises
        ------
        NotFittedError
            Before `fit`, unless `calibrator` is None and `alpha` a number.
        ValueError
            If a score lies outside [0, 1], a duration is negative, or the shapes differ.
        """
        z = check_not_negative(durations, "durations")
        k = self.rent_time(scores)
        check_equal_length(k, "scores", z, "durations")
        return ski_rental_cost(k, z, self.buy_cost)

    def competitive_ratio(self, scores: ArrayLike, durations: ArrayLike) -> Floats:
        """Return the cost over that of knowing the duration, ``min(duration, buy_cost)``.

        Parameters
        ----------
        scores : array-like of any shape
            Scores in [0, 1].
        durations : array-like of the same shape
            How long the needs lasted, >= 0.

        Returns
        -------
        ndarray of the same shape
            Ratios, at least 1; 1 where the duration is 0.

        Raises
        ------
        NotFittedError
            Before `fit`, unless `calibrator` is None and `alpha` a number.
        ValueError
            If a score lies outside [0, 1], a duration is negative, or the shapes differ.
        """
        cost = self.cost(scores, durations)
        best = np.minimum(check_not_negative(durations, "durations"), float(self.buy_cost))
        return np.divide(cost, best, out=np.ones_like(cost), where=best > 0)

    def score(self, scores: ArrayLike, durations: ArrayLike) -> float:
        """Return minus the mean competitive ratio.

        Parameters
        ----------
        scores : array-like of shape (n,)
            Scores in [0, 1].
        durations : array-like of shape (n,)
            How long the needs lasted, >= 0.

        Returns
        -------
        float
            At most -1; larger is better.

        Raises
        ------
        NotFittedError
            Before `fit`, unless `calibrator` is None and `alpha` a number.
        ValueError
            If a score lies outside [0, 1], a duration is negative, the shapes differ, or there is no instance.
        """
        ratios = self.competitive_ratio(scores, durations)
        if ratios.size == 0:
            raise ValueError("scores must hold at least one instance, got none")
        return -float(ratios.mean())

    def _given_alpha(self) -> float | None:
        """Return the number given as `alpha`, None for "heldout"."""
        if isinstance(self.alpha, str):
            if self.alpha != _HELDOUT:
                raise ValueError(f"alpha must be a number in [0, 1] or {_HELDOUT!r}, got {self.alpha!r}")
            return None
        return check_fraction(self.alpha, "alpha")

    def _measured_alpha(self, v: Floats, happened: Bools) -> float:
        alpha = max_calibration_error(v, happened, self.n_bins, _MIN_COUNT)
        if alpha == 0.0 and max_calibration_error(v, happened, self.n_bins, 1) > 0.0:
            warnings.warn(
                f"the {v.size} held-out instances have no bin of {_MIN_COUNT}, so that the calibration error can't be "
                "measured; alpha_ is 0",
                UserWarning,
                stacklevel=3,
            )
        return alpha

    def _advice(self, scores: ArrayLike) -> tuple[Floats, float]:
        """Return calibrated probabilities and the calibration error."""
        alpha = self._given_alpha()
        v = calibrate(self, check_scores(scores, "scores", ndim=None))
        if hasattr(self, "alpha_"):
            return v, self.alpha_
        if alpha is None:
            raise NotFittedError("alpha is measured in fit: call fit before using this SkiRental")
        return v, alpha


def _half(labels: Bools, rng: np.random.Generator) -> Bools:
    """Mark a random half of each class, the larger one if its size is odd."""
    chosen = np.zeros(labels.size, dtype=bool)
    for one in (False, True):
        members = rng.permutation(np.flatnonzero(labels == one))
        chosen[members[: (members.size + 1) // 2]] = True
    return chosen


def _robustness(alpha: float) -> float:
    """Return the worst ratio: probability 1 and a need that ends just after buying, from 1/3 on breaking even."""
    if alpha >= 1.0 / 3.0:
        return 2.0
    return float(1.0 + np.sqrt((1.0 + alpha) / alpha)) if alpha > 0.0 else float("inf")
