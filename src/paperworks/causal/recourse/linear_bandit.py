"""Linear bandit with one direction per candidate and feedback that comes late or never."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from paperworks._checks import (
    check_choice,
    check_finite_array,
    check_fraction,
    check_integer,
    check_positive,
    check_probability_open,
)

from .protocol import Feedback, Floats, Integers, Ranking, Situation

MIN_DELAYS = 10
"""Delays that must have been seen before the share of feedback within the time-out is estimated."""


class DelayedLinUCB:
    """Choose among candidates by upper confidence bounds, with delayed and censored feedback.

    Candidate k has the features ``p_k e_k``, p_k being the acceptance, so the matrix of the linear bandit stays
    diagonal and a round costs O(K). With t = 1, 2, ... the number of the round and u_k = p_k^2 / v_k:

    - ``f_t = sqrt(alpha) + sqrt(2 ln(1 / delta) + K ln((K alpha + t) / (K alpha)))``,
    - ``kappa = 2 f_t +`` the sum of u at the choices of the last `timeout` rounds, whose feedback may be pending,
    - the choice maximises ``theta_k p_k + kappa u_k`` over the feasible candidates, ties going to the lowest.

    Every choice adds p_k^2 to v_k, but only successes that were told add p_k to b_k. So ``theta_ = b / v`` is biased
    low by the share of feedback that never arrives.

    Parameters
    ----------
    n_arms : int
        Number of candidates K.
    timeout : int
        Rounds after which feedback counts no more; length of the window of pending feedback.
    alpha : float, default=20.0
        Start of v. Not a mere ridge: with a small value the bonus swamps the estimates for long.
    delta : float, default=0.05
        Level of the confidence bounds, in (0, 1).
    bonus : {"squared", "norm"}, default="squared"
        ``"squared"`` uses u as above, as in the authors' code; ``"norm"`` uses its root in both places, as in the
        theory of linear bandits with delays.
    correct_timeout : bool, default=False
        Divide the estimates by an estimate of the share of feedback that arrives within the time-out. It fits a
        geometric law, cut at the time-out, to the delays of successes, and needs `Feedback` with its delay: at least
        10 of them, before which nothing is divided. The share is taken to be at least one half.

    Attributes
    ----------
    theta_ : ndarray of shape (n_arms,)
        Estimated probability of improvement of each candidate at the end of the last round.
    precision_ : ndarray of shape (n_arms,)
        The diagonal v.
    n_rounds_ : int
        Rounds closed so far.
    arrival_ : float
        Estimated share of feedback that arrives in time; 1 without `correct_timeout`.
    last_improvement_ : float
        `theta_` of the last suggestion; NaN before the first.

    Raises
    ------
    TypeError, ValueError
        If a parameter is not of its kind or outside its range.

    References
    ----------
    K. Kanamori et al., "Algorithmic Recourse for Long-Term Improvement", ICML 2025, contextual linear bandit;
    C. Vernade et al., "Linear bandits with stochastic delayed feedback", ICML 2020.

    Examples
    --------
    >>> from paperworks.causal import DelayedLinUCB
    >>> bandit = DelayedLinUCB(3, timeout=10)
    >>> bandit.select([0.2, 0.9, 0.5], [0, 2])
    2
    >>> bandit.update([(2, 0.5, 1)])
    >>> bandit.theta_.round(4).tolist()
    [0.0, 0.0, 0.0247]
    """

    def __init__(
        self,
        n_arms: int,
        *,
        timeout: int,
        alpha: float = 20.0,
        delta: float = 0.05,
        bonus: str = "squared",
        correct_timeout: bool = False,
    ) -> None:
        self.n_arms = check_integer(n_arms, "n_arms", minimum=1)
        self.timeout = check_integer(timeout, "timeout", minimum=1)
        self.alpha = check_positive(alpha, "alpha")
        self.delta = check_probability_open(delta, "delta")
        self.bonus = check_choice(bonus, "bonus", ("squared", "norm"))
        self.correct_timeout = bool(correct_timeout)
        self.theta_: Floats = np.zeros(self.n_arms)
        self.precision_: Floats = np.full(self.n_arms, self.alpha)
        self.n_rounds_ = 0
        self.arrival_ = 1.0
        self.last_improvement_ = math.nan
        self._told: Floats = np.zeros(self.n_arms)  # b
        self._window: deque[float] = deque(maxlen=self.timeout)
        self._current = 0.0  # sum of u in the open round
        self._delays = (0, 0)  # number and sum

    def select(self, probability: ArrayLike, feasible: ArrayLike) -> int:
        """Choose a candidate; this opens a round, or joins it if the last one was not closed by `update`.

        Parameters
        ----------
        probability : array-like of shape (n_arms,)
            Acceptance of each candidate by the person of this round, in [0, 1].
        feasible : array-like
            Candidates open to the person: integer numbers, or a boolean mask of shape (n_arms,).

        Returns
        -------
        int
            The candidate, or -1 if none is feasible.

        Raises
        ------
        TypeError, ValueError
            If an argument does not have its shape, its kind or its range; nothing has changed then.
        """
        p = check_finite_array(probability, "probability", ndim=1)
        if p.size != self.n_arms:
            raise ValueError(f"probability must have {self.n_arms} values, got {p.size}")
        if p.min() < 0.0 or p.max() > 1.0:
            raise ValueError(f"probability must lie in [0, 1], got values from {p.min():g} to {p.max():g}")
        return self._choose(p, self._numbers(feasible))

    def suggest(self, situation: Situation) -> int:
        """Choose a candidate for a person, as `select` does.

        Parameters
        ----------
        situation : Situation
            The person and the candidates.

        Returns
        -------
        int
            The candidate, or -1 if none is feasible.
        """
        return self._choose(situation.acceptance, situation.feasible)

    def rank(self, situation: Situation) -> Ranking:
        """Return what `suggest` would compare, without changing anything.

        Parameters
        ----------
        situation : Situation
            The person and the candidates.

        Returns
        -------
        tuple of ndarray
            Feasible candidates in ascending order, for each its mean ``theta p`` and its bonus ``kappa u``.
        """
        p = situation.acceptance[situation.feasible]
        mean, kappa, u = self._index(p, situation.feasible)
        return situation.feasible, mean, kappa * u

    def update(self, feedback: Iterable[Any] = ()) -> None:
        """Close the round with the feedback that came in it.

        Parameters
        ----------
        feedback : iterable of (arm, probability, reward) or Feedback, default=()
            The news, with the probability that was given to `select` then; a reward of 0 adds nothing. Without an
            open round an idle one is counted.

        Raises
        ------
        TypeError, ValueError
            If an item does not have its kind or its range; nothing has changed then.
        """
        news = [self._checked(item) for item in feedback]
        for item in news:
            self._told[item.arm] += item.probability * item.reward
            if self.correct_timeout and item.reward > 0 and 1 <= item.delay <= self.timeout:
                self._delays = (self._delays[0] + 1, self._delays[1] + item.delay)
        self._window.append(self._current)
        self._current = 0.0
        self.n_rounds_ += 1
        if self.correct_timeout and news:
            self.arrival_ = _share_in_time(*self._delays, self.timeout)
        self.theta_ = self._told / self.precision_
        if self.arrival_ < 1.0:
            self.theta_ /= self.arrival_

    def _index(self, p: Floats, arms: Integers) -> tuple[Floats, float, Floats]:
        k_alpha = self.n_arms * self.alpha
        spread = 2.0 * math.log(1.0 / self.delta) + self.n_arms * math.log1p((self.n_rounds_ + 1) / k_alpha)
        kappa = 2.0 * (math.sqrt(self.alpha) + math.sqrt(spread)) + sum(self._window) + self._current
        u = p * p / self.precision_[arms]
        return self.theta_[arms] * p, kappa, u if self.bonus == "squared" else np.sqrt(u)

    def _choose(self, probability: Floats, arms: Integers) -> int:
        if arms.size == 0:
            self.last_improvement_ = math.nan
            return -1
        p = probability[arms]
        mean, kappa, u = self._index(p, arms)
        best = int(np.argmax(mean + kappa * u))
        arm = int(arms[best])
        self._current += float(u[best])
        self.precision_[arm] += p[best] * p[best]
        self.last_improvement_ = float(self.theta_[arm])
        return arm

    def _numbers(self, feasible: ArrayLike) -> Integers:
        given = np.asarray(feasible)
        if given.ndim != 1:
            raise ValueError(f"feasible must have one dimension, got shape {given.shape}")
        if given.dtype == bool:
            if given.size != self.n_arms:
                raise ValueError(f"feasible as a mask must have {self.n_arms} values, got {given.size}")
            return np.flatnonzero(given)
        if given.size == 0:
            return np.empty(0, dtype=np.intp)
        if given.dtype.kind not in "iu":
            raise TypeError(f"feasible must hold integers or booleans, got dtype {given.dtype}")
        if given.min() < 0 or given.max() >= self.n_arms:
            raise ValueError(
                f"feasible must hold numbers from 0 to {self.n_arms - 1}, got {given.min()}..{given.max()}"
            )
        ascending = bool((given[1:] > given[:-1]).all())
        return (given if ascending else np.unique(given)).astype(np.intp)

    def _checked(self, item: Any) -> Feedback:
        if not isinstance(item, tuple | list) or not 3 <= len(item) <= 5:
            raise TypeError(f"feedback must hold (arm, probability, reward), got {item!r}")
        news = Feedback(*item)
        return news._replace(
            arm=check_integer(news.arm, "feedback arm", minimum=0, maximum=self.n_arms - 1),
            probability=check_fraction(news.probability, "feedback probability"),
            reward=check_fraction(news.reward, "feedback reward"),
        )


def _share_in_time(count: int, total: int, timeout: int) -> float:
    """Return P(d <= timeout) of the geometric law whose mean, cut at the time-out, is the mean of the delays seen."""
    if count < MIN_DELAYS or timeout == 1:
        return 1.0
    mean = total / count

    def excess(rate: float) -> float:
        late = math.exp(timeout * math.log1p(-rate))
        return 1.0 / rate - timeout * late / (1.0 - late) - mean

    # The mean of the cut law falls from (timeout + 1) / 2 to 1 as the rate rises from 0 to 1.
    lowest = 1.0 - 0.5 ** (1.0 / timeout)  # half of the feedback arrives in time
    highest = 1.0 - 1e-12
    if excess(lowest) <= 0.0:
        return 0.5
    if excess(highest) >= 0.0:
        return 1.0
    rate = brentq(excess, lowest, highest, xtol=1e-12)
    return -math.expm1(timeout * math.log1p(-rate))
