"""The Gaussian process in place of the forest: slower by orders of magnitude, smoother, for a few hundred rounds."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.spatial.distance import cdist
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import Hyperparameter, Kernel

from paperworks._checks import check_integer

from .inputs import as_generator
from .policies import check_gamma, choose
from .protocol import Feedback, Floats, Ranking, Situation
from .surrogates import Records, confidence_width, pairs

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(32)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()


class PairKernel(Kernel):
    """Product of a Gaussian kernel on the first half of the features and one on the second half."""

    def __init__(self, length_person: float = 1.0, length_action: float = 1.0) -> None:
        self.length_person, self.length_action = length_person, length_action

    @property
    def hyperparameter_length_person(self) -> Hyperparameter:
        """Length scale of the person."""
        return Hyperparameter("length_person", "numeric", (1e-2, 1e2))

    @property
    def hyperparameter_length_action(self) -> Hyperparameter:
        """Length scale of the action."""
        return Hyperparameter("length_action", "numeric", (1e-2, 1e2))

    def __call__(self, X: Any, Y: Any = None, eval_gradient: bool = False) -> Any:
        """Return the kernel between rows, and its gradient in the logarithms of the length scales."""
        X = np.atleast_2d(X)
        Y = X if Y is None else np.atleast_2d(Y)
        half = X.shape[1] // 2
        person = cdist(X[:, :half], Y[:, :half], "sqeuclidean") / self.length_person**2
        action = cdist(X[:, half:], Y[:, half:], "sqeuclidean") / self.length_action**2
        gram = np.exp(-0.5 * (person + action))
        if not eval_gradient:
            return gram
        # Hyperparameters are in alphabetical order: action, person.
        return gram, np.dstack([gram * action, gram * person])

    def diag(self, X: Any) -> Floats:
        """Return the diagonal: ones."""
        return np.ones(len(X))

    def is_stationary(self) -> bool:
        """Return True."""
        return True


class GPUCB:
    """Bayesian optimisation over person and action with Gaussian process classification ("gp").

    As `ForestUCB`, with a Gaussian process under the Laplace approximation and the kernel
    ``RBF(person) RBF(action)`` in place of the forest. mu and sigma are the mean and the standard deviation of the
    probability of success under the posterior. Length scales are 1 at first and optimised, from 1, every
    `optimise_every` rounds. Until both a success and a failure are on record, a feasible candidate is drawn at random.
    A fit takes time in proportion to the cube of the number of suggestions. Where successes are rare, the likeliest
    length scales are so long that all candidates look alike, and little is learned; the forest does better there.

    Parameters
    ----------
    timeout : int, default=10
        Rounds after which the process is fitted anew even without news.
    gamma : float, default=1.0
        Base of the decay of exploration, in (0, 1].
    refit_every : int, default=1
        Least number of rounds between two fits.
    optimise_every : int, default=10
        Least number of rounds between two optimisations of the length scales.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None, default=None
        Makes random choices repeatable.

    Attributes
    ----------
    last_improvement_ : float
        mu of the last suggestion; 0 before the first fit, NaN before the first suggestion.
    n_rounds_ : int
        Rounds closed so far.

    Raises
    ------
    TypeError, ValueError
        If a parameter is not of its kind or outside its range.

    References
    ----------
    K. Kanamori et al., "Algorithmic Recourse for Long-Term Improvement", ICML 2025, contextual Bayesian optimisation
    (CGP-UCB).

    Examples
    --------
    >>> import numpy as np
    >>> from paperworks.causal import Feedback, GPUCB, Situation
    >>> pool = np.array([[0.9, 0.9], [0.2, 0.4]])
    >>> here = Situation(np.zeros(2), pool, np.ones(2), np.array([0, 1]), 0.3, np.ones(2))
    >>> policy = GPUCB(random_state=0)
    >>> for number in range(30):
    ...     arm = policy.suggest(here)
    ...     policy.update([Feedback(arm, 1.0, number=number)] if arm == 1 else [])
    >>> policy.suggest(here)
    1
    """

    def __init__(
        self,
        *,
        timeout: int = 10,
        gamma: float = 1.0,
        refit_every: int = 1,
        optimise_every: int = 10,
        random_state: Any = None,
    ) -> None:
        self.gamma = check_gamma(gamma)
        self.optimise_every = check_integer(optimise_every, "optimise_every", minimum=1)
        self._records = Records(
            check_integer(timeout, "timeout", minimum=1), check_integer(refit_every, "refit_every", minimum=1)
        )
        self._rng = as_generator(random_state)
        self._kernel = PairKernel()
        self._optimised_at = 0
        self._fitted: tuple[Floats, Floats, Floats, Floats] | None = None
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
        if self._fitted is None or arms.size == 0:
            return arms, np.zeros(arms.size), np.zeros(arms.size)
        rows, pull, root, lower = self._fitted
        # Laplace approximation: mean k' (y - pi), variance 1 - |L^-1 W^1/2 k|^2 of the latent function.
        cross = self._kernel(rows, pairs(situation, arms))
        latent = pull @ cross
        solved = solve_triangular(lower, root[:, None] * cross, lower=True)
        spread = np.sqrt(np.maximum(1.0 - (solved**2).sum(axis=0), 0.0))
        probability = expit(latent[:, None] + spread[:, None] * _NODES)
        mean = probability @ _WEIGHTS
        variance = (probability - mean[:, None]) ** 2 @ _WEIGHTS
        return arms, mean, confidence_width(self._records.n_rounds, self.gamma) * np.sqrt(variance)

    def update(self, feedback: Iterable[Feedback] = ()) -> None:
        """Close the round with the successes that came in it, and fit the process anew if that is due.

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
        labels = records.targets > 0
        if not records.due() or labels.all():
            return
        optimise = records.n_rounds - self._optimised_at >= self.optimise_every
        # Each optimisation starts from 1: at the upper bound of a length scale the likelihood is flat, a trap.
        kernel, optimiser = (PairKernel(), "fmin_l_bfgs_b") if optimise else (self._kernel, None)
        model = GaussianProcessClassifier(kernel, optimizer=optimiser)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # a length scale at its bound
            model.fit(records.rows, labels)
        inner = model.base_estimator_
        self._kernel = inner.kernel_
        self._fitted = (inner.X_train_, inner.y_train_ - inner.pi_, inner.W_sr_, inner.L_)
        if optimise:
            self._optimised_at = records.n_rounds
        records.fitted()
