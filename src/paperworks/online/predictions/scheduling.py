"""Triage on one machine with calibrated predictions (section 4 of the paper)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from paperworks._checks import check_choice, check_integer, check_positive, check_probability_open

from .calibration import (
    calibrate,
    check_both_classes,
    check_calibrator,
    check_equal_length,
    check_labels,
    check_scores,
    fit_calibrator,
)

__all__ = ["JobScheduler", "Schedule", "ScheduleResult"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Schedule(NamedTuple):
    """The order in which jobs are begun, and how many of them are opened preemptively.

    Parameters
    ----------
    order : ndarray of int, shape (n,)
        Numbers of the jobs, the first one to begin first.
    n_preemptive : int
        The first so many jobs are opened; one that turns out not urgent is put aside until all of them were opened.

    Examples
    --------
    >>> from paperworks.online import JobScheduler
    >>> JobScheduler(theta=0.3, calibrator=None, random_state=0).schedule([0.2, 0.9, 0.6])
    Schedule(order=array([1, 2, 0]), n_preemptive=2)
    """

    order: Ints
    n_preemptive: int


class ScheduleResult(NamedTuple):
    """A schedule carried out on jobs whose urgency is known.

    Parameters
    ----------
    order : ndarray of int, shape (n,)
        Numbers of the jobs, the first one to begin first.
    n_preemptive : int
        Number of jobs opened preemptively.
    completion_times : ndarray of shape (n,)
        When each job is done, in the order in which the jobs were given; a job takes 1.
    cost : float
        Sum of weighted completion times.
    optimal_cost : float
        The same for a planner who knows which jobs are urgent.
    regret : float
        The difference, computed from `L`, `M` and `N` (equation 3), so without cancellation.
    L : int
        Pairs of opened jobs with one that is not urgent before an urgent one.
    M : int
        Pairs of opened jobs that are both not urgent.
    N : int
        Other pairs with a job that is not urgent before an urgent one.

    Examples
    --------
    >>> from paperworks.online import JobScheduler
    >>> result = JobScheduler(theta=0.25, weights=(1.0, 4.0), calibrator=None).run([0.9, 0.8, 0.1], [0, 1, 1])
    >>> result.n_preemptive, result.completion_times
    (2, array([2.  , 1.25, 3.  ]))
    >>> result.cost, result.optimal_cost, result.regret
    (19.0, 15.0, 4.0)
    """

    order: Ints
    n_preemptive: int
    completion_times: Floats
    cost: float
    optimal_cost: float
    regret: float
    L: int
    M: int
    N: int


class JobScheduler(BaseEstimator):
    """Order jobs of length 1 whose urgency shows only after a part of the work, advised by its probability.

    A job costs its completion time, times ``weights[1]`` if it is urgent and ``weights[0]`` if not. Jobs are taken by
    decreasing calibrated probability. Those above `threshold_` are opened; after a time `theta` it shows whether they
    are urgent, and what is not is put aside until all of them were opened. The others are done whole at the end.

    Parameters
    ----------
    theta : float
        Share of a job after which its urgency is seen, in (0, 1).
    weights : tuple of float, default=(0.1, 1.0)
        Cost of a unit of time for a job that is not urgent, and for one that is; ``0 < weights[0] < weights[1]``.
    calibrator : {"histogram", "isotonic", "platt"} or None, default="histogram"
        Map from scores to probabilities, learnt in `fit`. None takes the scores as probabilities, and the estimator
        then works unfitted.
    n_bins : int, default=20
        Bins of the histogram at most, see `HistogramCalibrator`.
    ties : {"random", "stable"}, default="random"
        Order of jobs with the same probability: at random, as the paper's bounds assume, or as they are given.
    random_state : int, numpy.random.Generator or None, default=None
        Source of the order of ties.

    Attributes
    ----------
    threshold_ : float
        Probability above which a job is opened; known before `fit`. Nothing is opened if it is 1 or more.
    calibrator_ : object or None
        The fitted calibrator, with a method ``transform``.
    classes_ : ndarray of shape (2,)
        ``[0, 1]``: not urgent, urgent.

    Notes
    -----
    J. H. Shen, E. Vitercik, A. Wikum, "Algorithms with Calibrated Machine Learning Predictions", ICML 2025, Algorithm
    3, equation 3 and Theorem 4.3; the threshold rule is that of Cho et al., "Scheduling with Predictions". The rule is
    not optimal: with a large ratio of the weights it can be better to open every job.

    The jobs put aside are finished before the jobs of low probability begin; if they waited to the very end, equation 3
    would not hold. In Theorem 4.3 the leading terms of L and N are those that a direct count gives; as printed they are
    the other way round.

    Examples
    --------
    >>> import numpy as np
    >>> from paperworks.online import JobScheduler
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.random(2000)
    >>> urgent = rng.random(2000) < scores**2  # scores are too high
    >>> scheduler = JobScheduler(theta=0.3, random_state=0).fit(scores, urgent)
    >>> round(scheduler.threshold_, 3)
    0.476
    >>> result = scheduler.run(scores[:100], urgent[:100])
    >>> result.n_preemptive, bool(0 < result.regret < result.optimal_cost)
    (37, True)
    """

    def __init__(
        self,
        theta: float,
        weights: tuple[float, float] = (0.1, 1.0),
        calibrator: str | None = "histogram",
        n_bins: int = 20,
        ties: str = "random",
        random_state: Any = None,
    ) -> None:
        self.theta = theta
        self.weights = weights
        self.calibrator = calibrator
        self.n_bins = n_bins
        self.ties = ties
        self.random_state = random_state

    @property
    def threshold_(self) -> float:
        """Probability above which a job is opened."""
        theta, low, high = self._problem()
        return theta / (1.0 - theta) * high / (high - low)

    def fit(self, scores: ArrayLike, priorities: ArrayLike) -> JobScheduler:
        """Calibrate on jobs that the model has not seen.

        Parameters
        ----------
        scores : array-like of shape (m,)
            The model's scores for "urgent", in [0, 1].
        priorities : array-like of shape (m,)
            1 for an urgent job, else 0. Jobs as they come: balanced classes would spoil the calibration.

        Returns
        -------
        JobScheduler
            The fitted estimator.

        Raises
        ------
        ValueError
            If a parameter is out of range, a score lies outside [0, 1], a priority is not 0 or 1, the lengths differ,
            or only one class is present.

        Warns
        -----
        UserWarning
            If there are too few jobs for the bins.
        """
        self._problem()
        check_calibrator(self.calibrator, self.n_bins)
        check_choice(self.ties, "ties", ("random", "stable"))
        p, y = check_scores(scores, "scores"), check_labels(priorities, "priorities")
        check_equal_length(p, "scores", y, "priorities")
        check_both_classes(y, "priorities")
        self.calibrator_ = fit_calibrator(self.calibrator, self.n_bins, p, y)
        self.classes_ = np.array([0, 1])
        return self

    def schedule(self, scores: ArrayLike) -> Schedule:
        """Order jobs (Algorithm 3).

        Parameters
        ----------
        scores : array-like of shape (n,)
            The model's scores for "urgent", in [0, 1].

        Returns
        -------
        Schedule
            The order, and how many of its first jobs are opened preemptively.

        Raises
        ------
        NotFittedError
            Before `fit`, unless `calibrator` is None.
        ValueError
            If a parameter is out of range or a score lies outside [0, 1].
        """
        threshold = self.threshold_
        ties = check_choice(self.ties, "ties", ("random", "stable"))
        p = calibrate(self, check_scores(scores, "scores"))
        if ties == "stable":
            order = np.argsort(-p, kind="stable")
        else:
            shuffled = np.random.default_rng(self.random_state).permutation(p.size)
            order = shuffled[np.argsort(-p[shuffled], kind="stable")]
        return Schedule(order, int((p > threshold).sum()))

    def run(self, scores: ArrayLike, priorities: ArrayLike) -> ScheduleResult:
        """Schedule jobs and say what it costs.

        Parameters
        ----------
        scores : array-like of shape (n,)
            The model's scores for "urgent", in [0, 1].
        priorities : array-like of shape (n,)
            1 for an urgent job, else 0.

        Returns
        -------
        ScheduleResult
            Order, completion times, cost, optimal cost, and the regret with the pairs that it consists of.

        Raises
        ------
        NotFittedError
            Before `fit`, unless `calibrator` is None.
        ValueError
            If a parameter is out of range, a score lies outside [0, 1], a priority is not 0 or 1, or the lengths
            differ.
        """
        theta, low_weight, high_weight = self._problem()
        p, urgent = check_scores(scores, "scores"), check_labels(priorities, "priorities")
        check_equal_length(p, "scores", urgent, "priorities")
        order, n1 = self.schedule(p)
        n = p.size
        y = urgent[order]
        highs = np.cumsum(y)  # urgent jobs up to and with each position
        lows = np.arange(1, n + 1) - highs
        h1 = int(highs[n1 - 1]) if n1 else 0
        l1 = n1 - h1

        done = np.arange(1.0, n + 1.0)  # whole jobs end at whole times
        opened, first = y[:n1], slice(0, n1)
        done[first] = np.where(
            opened,
            highs[first] + theta * lows[first],
            h1 + theta * l1 + (1.0 - theta) * lows[first],
        )
        completion = np.empty(n)
        completion[order] = done

        n_high = int(y.sum())
        n_low = n - n_high
        L = int(lows[first][opened].sum())
        M = l1 * (l1 - 1) // 2
        N = int(lows[y].sum()) - L
        high_first = n_high * (n_high + 1) // 2
        return ScheduleResult(
            order=order,
            n_preemptive=n1,
            completion_times=completion,
            cost=float(high_weight * done[y].sum() + low_weight * done[~y].sum()),
            optimal_cost=float(high_weight * high_first + low_weight * (n_low * n_high + n_low * (n_low + 1) // 2)),
            # Eq. 3
            regret=float(theta * (high_weight * L + low_weight * M) + (high_weight - low_weight) * N),
            L=L,
            M=M,
            N=N,
        )

    def expected_regret(self, scores: ArrayLike, n: int) -> float:
        """Return the bound on the expected regret of n jobs with calibrated scores (Theorem 4.3).

        Parameters
        ----------
        scores : array-like of shape (m,)
            A sample of scores: the n jobs are drawn from its empirical law.
        n : int
            Number of jobs, >= 0.

        Returns
        -------
        float
            ``theta w1 E[L] + theta w0 E[M] + (w1 - w0) E[N]`` with the bounds for E[L] and E[N], which are exact if
            the calibrated scores have two values with `threshold_` between them.

        Raises
        ------
        NotFittedError
            Before `fit`, unless `calibrator` is None.
        ValueError
            If a parameter is out of range, a score lies outside [0, 1], there is no score, or `n` is negative.
        """
        theta, low_weight, high_weight = self._problem()
        n_jobs = check_integer(n, "n", minimum=0)
        p = calibrate(self, check_scores(scores, "scores"))
        if p.size == 0:
            raise ValueError("scores must hold at least one score, got none")
        pairs = n_jobs * (n_jobs - 1) / 2
        L, M, N = expected_pairs(p, p > self.threshold_)
        return float(pairs * (theta * (high_weight * L + low_weight * M) + (high_weight - low_weight) * N))

    def _problem(self) -> tuple[float, float, float]:
        """Return theta and both weights."""
        theta = check_probability_open(self.theta, "theta")
        try:
            low, high = self.weights
        except (TypeError, ValueError):
            raise ValueError(f"weights must be two numbers (low, high), got {self.weights!r}") from None
        low, high = check_positive(low, "weights[0]"), check_positive(high, "weights[1]")
        if low >= high:
            raise ValueError(f"weights must increase, 0 < weights[0] < weights[1], got {self.weights!r}")
        return theta, low, high


def expected_pairs(p: Floats, above: NDArray[np.bool_]) -> tuple[float, float, float]:
    """Return the bounds of Theorem 4.3 for a single pair: probabilities of L, M and N.

    With rho the share of urgent jobs, e0 the share above the threshold of jobs that are not urgent and e1 the share
    below of the urgent ones: ``rho (1 - rho) e0 (1 - e1) - k1``, ``((1 - rho) e0)^2``, ``rho (1 - rho) (1 + e0) e1 -
    k2``, where k1 and k2 are ``share^2 variance`` of p above and below. All are written with products of means, so that
    nothing is divided by rho.
    """
    low_above = float(np.mean((1.0 - p) * above))  # (1 - rho) e0
    high_above = float(np.mean(p * above))  # rho (1 - e1)
    high_below = float(np.mean(p * ~above))  # rho e1
    low = float(np.mean(1.0 - p))
    k1, k2 = (float(np.mean(part) ** 2 * np.var(p[part])) if part.any() else 0.0 for part in (above, ~above))
    return high_above * low_above - k1, low_above**2, (low + low_above) * high_below - k2
