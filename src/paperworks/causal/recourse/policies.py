"""Policies beside the linear bandit: the forest, and the rules that learn nothing from outcomes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from paperworks._checks import check_finite_array, check_fraction, check_integer, check_positive

from .inputs import as_generator
from .protocol import Feedback, Floats, Integers, Ranking, Situation
from .surrogates import Leaves, Records, confidence_width, pairs


class ForestUCB:
    """Bayesian optimisation over person and action, with a forest as the surrogate ("bwo").

    A forest of extremely randomised trees, each grown on a small bootstrap sample, predicts success of the pair
    (person, action). Every past suggestion counts as a failure until its success is told. With mean mu and variance
    sigma^2 of the mixture of the leaves' laws, the choice maximises
    ``mu + sqrt(gamma^t ln(t + 1) / (t + 1)) sigma`` over the feasible candidates in round t = 1, 2, ...; ties go to
    the lowest. No cost of actions is needed. Until the first success, and where no tree gives any feasible candidate
    a chance, a feasible candidate is drawn at random.

    Targets are 0 or 1, so sigma^2 = mu (1 - mu) whatever the trees are.

    Parameters
    ----------
    timeout : int, default=10
        Rounds after which the forest is fitted anew even without news, as failures bring none.
    n_estimators : int, default=50
        Number of trees.
    sample_ratio : float, default=4.0
        Each tree sees a bootstrap sample of ``1 / sample_ratio`` of the rows; at least 1.
    gamma : float, default=1.0
        Base of the decay of exploration, in (0, 1].
    refit_every : int, default=1
        Least number of rounds between two fits; news wait for the next fit.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None, default=None
        Makes trees and random choices repeatable.

    Attributes
    ----------
    last_improvement_ : float
        mu of the last suggestion; 0 while nothing has succeeded, NaN before the first suggestion.
    n_rounds_ : int
        Rounds closed so far.

    Raises
    ------
    TypeError, ValueError
        If a parameter is not of its kind or outside its range.

    References
    ----------
    K. Kanamori et al., "Algorithmic Recourse for Long-Term Improvement", ICML 2025, contextual Bayesian optimisation
    (BwO-UCB).

    Examples
    --------
    >>> import numpy as np
    >>> from paperworks.causal import Feedback, ForestUCB, Situation
    >>> pool = np.array([[0.9, 0.9], [0.2, 0.4]])
    >>> here = Situation(np.zeros(2), pool, np.ones(2), np.array([0, 1]), 0.3, np.ones(2))
    >>> policy = ForestUCB(random_state=0)
    >>> for number in range(40):
    ...     arm = policy.suggest(here)
    ...     policy.update([Feedback(arm, 1.0, number=number)] if arm == 1 else [])
    >>> policy.suggest(here)
    1
    """

    def __init__(
        self,
        *,
        timeout: int = 10,
        n_estimators: int = 50,
        sample_ratio: float = 4.0,
        gamma: float = 1.0,
        refit_every: int = 1,
        random_state: Any = None,
    ) -> None:
        self.n_estimators = check_integer(n_estimators, "n_estimators", minimum=1)
        self.sample_ratio = check_positive(sample_ratio, "sample_ratio")
        if self.sample_ratio < 1.0:
            raise ValueError(f"sample_ratio must be at least 1, got {sample_ratio!r}")
        self.gamma = check_gamma(gamma)
        self._records = Records(
            check_integer(timeout, "timeout", minimum=1), check_integer(refit_every, "refit_every", minimum=1)
        )
        self._rng = as_generator(random_state)
        self._leaves: Leaves | None = None
        self.last_improvement_ = math.nan

    @property
    def n_rounds_(self) -> int:
        """Rounds closed so far."""
        return self._records.n_rounds

    def suggest(self, situation: Situation) -> int:
        """Choose a candidate for a person; this opens a round, or joins the open one.

        Parameters
        ----------
        situation : Situation
            The person and the candidates.

        Returns
        -------
        int
            The candidate, or -1 if none is feasible.
        """
        arm, self.last_improvement_ = choose(self.rank(situation), self._rng)
        self._records.add(situation, arm)
        return arm

    def rank(self, situation: Situation) -> Ranking:
        """Return what `suggest` would compare, without changing anything.

        Parameters
        ----------
        situation : Situation
            The person and the candidates.

        Returns
        -------
        tuple of ndarray
            Feasible candidates in ascending order, for each its mean mu and its bonus.
        """
        arms = situation.feasible
        if self._leaves is None or arms.size == 0:
            return arms, np.zeros(arms.size), np.zeros(arms.size)
        mean, variance = self._leaves.moments(pairs(situation, arms))
        return arms, mean, confidence_width(self._records.n_rounds, self.gamma) * np.sqrt(variance)

    def update(self, feedback: Iterable[Feedback] = ()) -> None:
        """Close the round with the successes that came in it, and fit the forest anew if that is due.

        Parameters
        ----------
        feedback : iterable of Feedback, default=()
            The news, each with the number of its suggestion; a reward of 0 adds nothing.

        Raises
        ------
        TypeError, ValueError
            If an item belongs to no suggestion; nothing has changed then.
        """
        records = self._records
        records.close(feedback)
        if records.due():
            n_samples = max(round(len(records.rows) / self.sample_ratio), 1)
            self._leaves = Leaves.grow(records.rows, records.targets, self.n_estimators, n_samples, self._rng)
            records.fitted()


class NearestPolicy:
    """Recommend the candidate that the person is most likely to accept: the nearest plausible counterfactual.

    Attributes
    ----------
    last_improvement_ : float
        NaN: this rule estimates no improvement.

    References
    ----------
    K. Kanamori et al., "Algorithmic Recourse for Long-Term Improvement", ICML 2025, baseline ProtoAR.

    Examples
    --------
    >>> import numpy as np
    >>> from paperworks.causal import NearestPolicy, Situation
    >>> pool = np.array([[0.9, 0.9], [0.2, 0.4]])
    >>> NearestPolicy().suggest(Situation(np.zeros(2), pool, np.array([0.1, 0.6]), np.array([0]), 0.3, np.ones(2)))
    0
    """

    last_improvement_ = math.nan

    def suggest(self, situation: Situation) -> int:
        """Choose a candidate for a person.

        Parameters
        ----------
        situation : Situation
            The person and the candidates.

        Returns
        -------
        int
            The candidate, ties going to the lowest, or -1 if none is feasible.
        """
        arms, mean, _ = self.rank(situation)
        return int(arms[np.argmax(mean)]) if arms.size else -1

    def rank(self, situation: Situation) -> Ranking:
        """Return the feasible candidates with their acceptance.

        Parameters
        ----------
        situation : Situation
            The person and the candidates.

        Returns
        -------
        tuple of ndarray
            Feasible candidates in ascending order, for each its acceptance, and zeros.
        """
        arms = self.allowed(situation)
        return arms, situation.acceptance[arms], np.zeros(arms.size)

    def allowed(self, situation: Situation) -> Integers:
        """Return the candidates that this rule may recommend.

        Parameters
        ----------
        situation : Situation
            The person and the candidates.

        Returns
        -------
        ndarray of int
            Their numbers in ascending order.
        """
        return situation.feasible

    def update(self, feedback: Iterable[Any] = ()) -> None:
        """Close the round; the news change nothing.

        Parameters
        ----------
        feedback : iterable, default=()
            Ignored.
        """


class TrustPolicy(NearestPolicy):
    """Recommend the nearest candidate for which a second model confirms what the classifier says of the pair.

    A forest g learns on random pairs of rows whether their labels agree. A candidate x' is open to the person x if
    ``|g(x, x') - (h h' + (1 - h)(1 - h'))|`` is at most its `quantile` over pairs with different labels, h and h'
    being the classifier's probabilities. The quantile is taken on rows that neither model has seen: on its own
    training pairs g is too sure of itself.

    Parameters
    ----------
    n_pairs : int, default=10_000
        Random pairs for the second model, and as many for the quantile.
    quantile : float, default=0.3
        Level of the quantile, in [0, 1].
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None, default=None
        Makes pairs and trees repeatable.

    Attributes
    ----------
    threshold_ : float
        Largest disagreement allowed.
    last_improvement_ : float
        NaN: this rule estimates no improvement.

    References
    ----------
    K. Kanamori et al., "Algorithmic Recourse for Long-Term Improvement", ICML 2025, baseline TAP.

    Examples
    --------
    >>> import numpy as np
    >>> from paperworks.causal import Situation, TrustPolicy
    >>> X = np.random.default_rng(0).random((200, 2))
    >>> policy = TrustPolicy(n_pairs=500, random_state=0)
    >>> _ = policy.fit(X[:100], X[:100, 0] > 0.5, X[100:], X[100:, 0] > 0.5, X[100:, 0])
    >>> pool = np.array([[0.9, 0.2], [0.2, 0.2]])
    >>> here = Situation(np.array([0.1, 0.2]), pool, np.array([0.4, 0.9]), np.arange(2), 0.1, np.array([0.9, 0.9]))
    >>> policy.suggest(here)
    0
    """

    def __init__(self, *, n_pairs: int = 10_000, quantile: float = 0.3, random_state: Any = None) -> None:
        self.n_pairs = check_integer(n_pairs, "n_pairs", minimum=1)
        self.quantile = check_fraction(quantile, "quantile")
        self.random_state = random_state

    def fit(
        self, X: ArrayLike, y: ArrayLike, X_held: ArrayLike, y_held: ArrayLike, scores_held: ArrayLike
    ) -> TrustPolicy:
        """Fit the second model and take the quantile.

        Parameters
        ----------
        X : array-like of shape (n_samples, D)
            Rows for the second model, scaled to [0, 1].
        y : array-like of shape (n_samples,)
            Their labels, 0 or 1.
        X_held : array-like of shape (n_held, D)
            Rows that neither the classifier nor the second model has seen.
        y_held : array-like of shape (n_held,)
            Their labels; both must occur.
        scores_held : array-like of shape (n_held,)
            The classifier's probabilities of label 1 for them.

        Returns
        -------
        TrustPolicy
            The fitted policy.

        Raises
        ------
        ValueError
            If shapes differ, values are not finite, or `y_held` has one label only.
        """
        rows, held = check_finite_array(X, "X", ndim=2), check_finite_array(X_held, "X_held", ndim=2)
        labels, held_labels = check_finite_array(y, "y", ndim=1), check_finite_array(y_held, "y_held", ndim=1)
        scores = check_finite_array(scores_held, "scores_held", ndim=1)
        if not (len(rows) == len(labels) and len(held) == len(held_labels) == len(scores)):
            raise ValueError("X and y must have as many rows, and so must X_held, y_held and scores_held")
        if np.unique(held_labels).size < 2:
            raise ValueError(f"y_held must hold both labels, got only {held_labels[:1].tolist()}")
        rng = as_generator(self.random_state)
        i, j = rng.integers(len(rows), size=(2, self.n_pairs))
        agree = (labels[i] == labels[j]).astype(np.float64)
        self._second = Leaves.grow(np.hstack([rows[i], rows[j]]), agree, 50, self.n_pairs, rng, leaf=5)
        # Pairs with different labels: one row of each label, in either order.
        good, bad = np.flatnonzero(held_labels == held_labels.max()), np.flatnonzero(held_labels != held_labels.max())
        i, j = rng.choice(good, self.n_pairs), rng.choice(bad, self.n_pairs)
        turned = rng.random(self.n_pairs) < 0.5
        i, j = np.where(turned, j, i), np.where(turned, i, j)
        differences = self._disagreement(held[i], held[j], scores[i], scores[j])
        self.threshold_ = float(np.quantile(differences, self.quantile))
        return self

    def allowed(self, situation: Situation) -> Integers:
        """Return the feasible candidates on which both models agree.

        Parameters
        ----------
        situation : Situation
            The person and the candidates.

        Returns
        -------
        ndarray of int
            Their numbers in ascending order.
        """
        arms = situation.feasible
        if arms.size == 0:
            return arms
        targets = situation.targets[arms]
        person = np.broadcast_to(situation.x, targets.shape)
        gap = self._disagreement(person, targets, situation.score, situation.target_scores[arms])
        return arms[gap <= self.threshold_]

    def _disagreement(self, first: Floats, second: Floats, h: Any, h_second: Any) -> Floats:
        same, _ = self._second.moments(np.hstack([first, second]))
        return np.abs(same - (h * h_second + (1.0 - h) * (1.0 - h_second)))


class RandomPolicy(NearestPolicy):
    """Recommend a feasible candidate at random."""

    def __init__(self, random_state: Any = None) -> None:
        self._rng = as_generator(random_state)

    def suggest(self, situation: Situation) -> int:
        """Draw a feasible candidate, or return -1."""
        arms = situation.feasible
        return int(arms[self._rng.integers(arms.size)]) if arms.size else -1

    def rank(self, situation: Situation) -> Ranking:
        """Return the feasible candidates, all alike."""
        arms = situation.feasible
        return arms, np.zeros(arms.size), np.zeros(arms.size)


def choose(ranking: Ranking, rng: np.random.Generator) -> tuple[int, float]:
    """Return the best candidate and its mean; one at random if none has a chance, -1 if there is none."""
    arms, mean, bonus = ranking
    if arms.size == 0:
        return -1, math.nan
    best = int(np.argmax(mean + bonus)) if mean.max() > 0.0 else int(rng.integers(arms.size))
    return int(arms[best]), float(mean[best])


def check_gamma(gamma: Any) -> float:
    """Return `gamma` if it lies in (0, 1]."""
    number = check_positive(gamma, "gamma")
    if number > 1.0:
        raise ValueError(f"gamma must lie in (0, 1], got {gamma!r}")
    return number
