"""What is said between persons, policies and users: a situation, a recommendation, and feedback that follows later."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.intp]
Ranking = tuple[Integers, Floats, Floats]
"""Candidates that a policy calls feasible in ascending order, and for each its mean and its bonus."""


class Situation(NamedTuple):
    """One person before a pool of K candidates, features scaled to [0, 1].

    Parameters
    ----------
    x : ndarray of shape (D,)
        The person.
    targets : ndarray of shape (K, D)
        The candidates; the action that leads to candidate k is ``targets[k] - x``.
    acceptance : ndarray of shape (K,)
        Probability, as far as it is known, that the person carries the action out.
    feasible : ndarray of int of shape (n_feasible,)
        Candidates open to the person, in ascending order.
    score : float
        The classifier's probability that the person is favourable; only `TrustPolicy` reads it.
    target_scores : ndarray of shape (K,)
        The same for the candidates; only `TrustPolicy` reads it.

    Examples
    --------
    >>> import numpy as np
    >>> from paperworks.causal import NearestPolicy, Situation
    >>> pool = np.array([[0.9, 0.9], [0.2, 0.4]])
    >>> here = Situation(np.zeros(2), pool, np.array([0.1, 0.6]), np.array([0, 1]), 0.3, np.ones(2))
    >>> NearestPolicy().suggest(here)
    1
    """

    x: Floats
    targets: Floats
    acceptance: Floats
    feasible: Integers
    score: float
    target_scores: Floats


class Feedback(NamedTuple):
    """News of an earlier suggestion.

    Parameters
    ----------
    arm : int
        The candidate that was suggested.
    probability : float
        The acceptance that the policy saw when it suggested it.
    reward : float, default=1.0
        1 for an improvement; 0 adds nothing.
    number : int, default=-1
        Which call of `suggest` it belongs to, the first being 0; policies that look at persons need it.
    delay : int, default=0
        Round in which the news came, 1 being the round of the suggestion itself; 0 if unknown.

    Examples
    --------
    >>> from paperworks.causal import DelayedLinUCB, Feedback
    >>> bandit = DelayedLinUCB(2, timeout=3, alpha=1.0)
    >>> arm = bandit.select([0.5, 1.0], [0, 1])
    >>> bandit.update([Feedback(arm, 1.0)])
    >>> bandit.theta_.tolist()
    [0.0, 0.5]
    """

    arm: int
    probability: float
    reward: float = 1.0
    number: int = -1
    delay: int = 0


class Recommendation(NamedTuple):
    """What a person is told to change.

    Parameters
    ----------
    ticket : int
        Number of the recommendation, to be handed to `report`.
    action : ndarray or Series of shape (D,), or None
        The change of each feature in original units; exactly 0 where immutable. None if nothing is feasible.
    target : ndarray or Series of shape (D,), or None
        Where the change leads: a real row that the classifier finds favourable. None if nothing is feasible.
    candidate : int
        Number of the target in `candidates_`; -1 if nothing is feasible.
    cost : float
        Cost of the action.
    acceptance : float
        Probability that the person carries the action out.
    improvement : float
        Estimated probability that the action, carried out, makes things better; NaN for methods that do not learn it.
    feasible_count : int
        Number of candidates that the method calls feasible for this person.

    Examples
    --------
    >>> import numpy as np
    >>> from paperworks.causal import ImprovementRecourse
    >>> X = np.random.default_rng(0).random((200, 2))
    >>> recourse = ImprovementRecourse(random_state=0).fit(X, X[:, 0] > 0.5)
    >>> advice = recourse.recommend([0.2, 0.3])
    >>> bool(advice.target[0] > 0.5), recourse.report(advice.ticket)
    (True, None)
    """

    ticket: int
    action: Any
    target: Any
    candidate: int
    cost: float
    acceptance: float
    improvement: float
    feasible_count: int


class Policy(Protocol):
    """A rule that suggests candidates; `suggest` may use what `update` told before, and nothing else."""

    last_improvement_: float
    """Estimated probability of improvement of the last suggestion; NaN for a rule that does not estimate it."""

    def suggest(self, situation: Situation) -> int:
        """Return a feasible candidate, or -1 if there is none; opens a round, or joins the open one."""

    def update(self, feedback: Any = ()) -> None:
        """Close the round with the news that came in it."""

    def rank(self, situation: Situation) -> Ranking:
        """Return what `suggest` would compare, without changing anything."""
