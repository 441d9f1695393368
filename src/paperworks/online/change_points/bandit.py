"""The method itself, MCPI (Algorithm 2), as an object that is asked for the next arm and told rewards."""

from __future__ import annotations

import math
import numbers
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import chi2

from paperworks._checks import check_choice, check_finite_array, check_integer, check_positive, check_probability_open
from paperworks.online.change_points.stopping import THRESHOLDS, StoppingRule
from paperworks.online.change_points.theory import FLOOR, OBJECTIVES, pair_shares

__all__ = ["ChangePointBandit", "ChangePointResult"]

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]

EXPLORATIONS = ("gk", "sqrt")
PILOT = 5  # rewards of each arm from which an unknown sigma is estimated
LARGEST = 1e150  # squares of larger rewards are not finite


def forced_exploration(exploration: str, n_arms: int, n_samples: int) -> float:
    """Return the least number of rewards of every arm after `n_samples` rewards."""
    if exploration == "sqrt":
        return max(1.0, math.sqrt(n_samples))
    return max(2.0, math.sqrt(n_samples) - n_arms / 2)


def check_rule(threshold: Any, delta: Any) -> float:
    """Check the name of a threshold, warn of one without guarantee, and return `delta`."""
    if check_choice(threshold, "threshold", THRESHOLDS) == "heuristic":
        warnings.warn(
            "threshold='heuristic' does not keep the error probability delta; it is there for comparison only",
            UserWarning,
            stacklevel=3,
        )
    return check_probability_open(delta, "delta")


class ChangePointResult(NamedTuple):
    """What `ChangePointBandit` found.

    Parameters
    ----------
    change_points : ndarray of int of shape (n_changes,)
        The change points, ascending; x stands between arms x and x + 1.
    sizes : ndarray of shape (n_changes,)
        Estimated jumps, mean of arm x + 1 minus mean of arm x, in the unit of the rewards.
    intervals : ndarray of shape (n_changes, 2)
        Coordinates of arms x and x + 1, between which the mean jumps.
    n_samples : int
        Rewards seen.
    counts : ndarray of int of shape (n_arms,)
        Rewards seen of each arm.
    converged : bool
        True if the change points are certified: wrong with probability at most `delta`. If False, they are a guess.
    statistics : ndarray of shape (n_arms - 1,)
        Evidence for a jump at each place.

    Examples
    --------
    >>> from paperworks.online import ChangePointBandit
    >>> result = ChangePointBandit(4, sigma=0.1, arms=[10, 20, 30, 40]).run(lambda arm: float(arm >= 2))
    >>> result.change_points, result.intervals, result.sizes
    (array([1]), array([[20., 30.]]), array([1.]))
    """

    change_points: Ints
    sizes: Floats
    intervals: Floats
    n_samples: int
    counts: Ints
    converged: bool
    statistics: Floats


class ChangePointBandit:
    """Find where the mean of a noisy response jumps along ordered settings, in few measurements.

    Each setting is an arm. `select` says which arm to measure next, `update` takes the reward, and `finished` says when
    the jumps are certain enough. The next arm depends only on rewards seen so far. Nothing is drawn at random, and the
    object can be pickled at any moment: what is loaded goes on exactly as the original would.

    Parameters
    ----------
    n_arms : int
        Number of ordered settings, at least 2.
    n_changes : int, default=1
        How many change points to find. With fewer in truth the bandit does not finish.
    delta : float, default=0.05
        Greatest probability that a reported change point is none, in (0, 1).
    sigma : float or None, default=1.0
        Standard deviation of a reward about its mean, in the unit of the rewards. Rewards need not be normal if they
        are sub-Gaussian with this sigma; for rewards in [0, 1] take 0.5. With None, the first 5 rewards of each arm
        give an upper confidence limit, which costs more samples; this needs normal rewards with one variance.
    exploration : {"gk", "sqrt"}, default="gk"
        After t rewards every arm has at least max(2, sqrt(t) - n_arms / 2) of them, or sqrt(t) as in the paper.
    threshold : {"mixture", "kk", "heuristic"}, default="mixture"
        What the evidence must exceed. The first two keep `delta` at any time; ``"heuristic"`` does not (it may err in
        most runs) and warns.
    objective : {"any", "exact"}, default="any"
        Whether there may be more than `n_changes` change points. The procedure is the same for both; kept for the
        record.
    arms : array-like of shape (n_arms,) or None, default=None
        Increasing coordinates of the arms for the report; 0, 1, ... by default.
    random_state : int, Generator or None, default=None
        Not used, since nothing is random; kept for a common signature.

    Attributes
    ----------
    counts_ : ndarray of int of shape (n_arms,)
        Rewards seen of each arm.
    means_ : ndarray of shape (n_arms,)
        Their averages; 0 where none was seen.
    statistics_ : ndarray of shape (n_arms - 1,)
        Evidence for a jump at each place, as the stopping rule in use computes it; 0 while it cannot be computed.
    thresholds_ : ndarray of shape (n_arms - 1,)
        What the evidence must exceed.
    n_samples_ : int
        Rewards seen.
    sigma_ : float
        The sigma in use; infinite until an unknown one is estimated.
    finished : bool
        True from the first moment at which the evidence suffices. The change points found then stay the answer; later
        rewards still count for their sizes.

    Raises
    ------
    ValueError
        If an argument is out of range.
    TypeError
        If an argument has the wrong type.

    Notes
    -----
    The paper's exploration samples every arm equally often until t is about n_arms^2, which is most of a run; ``"gk"``
    has the same limit without that. Which arm comes next does not depend on `delta`.

    References
    ----------
    J. Lazzaro, C. Pike-Burke, "Fixed-Confidence Multiple Change Point Identification under Bandit Feedback", ICML 2025,
    Algorithm 2 (MCPI).

    Examples
    --------
    >>> import numpy as np
    >>> from paperworks.online import ChangePointBandit
    >>> rng = np.random.default_rng(0)
    >>> bandit = ChangePointBandit(20, delta=0.05, sigma=1.0)
    >>> while not bandit.finished:
    ...     arm = bandit.select()
    ...     bandit.update(arm, rng.normal(loc=2.0 if arm > 12 else 0.0))
    >>> bandit.recommend().change_points
    array([12])
    """

    def __init__(
        self,
        n_arms: int,
        n_changes: int = 1,
        *,
        delta: float = 0.05,
        sigma: float | None = 1.0,
        exploration: str = "gk",
        threshold: str = "mixture",
        objective: str = "any",
        arms: ArrayLike | None = None,
        random_state: int | np.random.Generator | None = None,
    ) -> None:
        self.n_arms = check_integer(n_arms, "n_arms", minimum=2)
        self.n_changes = check_integer(n_changes, "n_changes", minimum=1, maximum=self.n_arms - 1)
        self.exploration = check_choice(exploration, "exploration", EXPLORATIONS)
        self.objective = check_choice(objective, "objective", OBJECTIVES)
        self.sigma = None if sigma is None else check_positive(sigma, "sigma")
        self.arms = (
            np.arange(self.n_arms, dtype=np.float64) if arms is None else check_finite_array(arms, "arms").copy()
        )
        if self.arms.shape != (self.n_arms,) or (np.diff(self.arms) <= 0).any():
            raise ValueError(f"arms must be {self.n_arms} increasing coordinates, got {self.arms.tolist()}")
        self.delta = check_rule(threshold, delta)
        self.threshold = threshold
        self.random_state = random_state
        self.sigma_ = math.inf if self.sigma is None else self.sigma
        spent = 1.0 if self.sigma is not None else 0.9  # the rest of delta pays for the limit on sigma
        self._rule = StoppingRule(threshold, self.n_arms - 1, self.n_changes, spent * self.delta, self.sigma_)
        self._spread = np.zeros(self.n_arms)  # sums of squares about the mean, over the pilot rewards only
        self._counts = np.zeros(self.n_arms)
        self._means = np.zeros(self.n_arms)
        self._distances = np.zeros(self.n_arms - 1)
        self._unseen = self.n_arms
        self._best = np.arange(self.n_changes)
        self._answer: Ints | None = None
        self.n_samples_ = 0

    @property
    def counts_(self) -> Ints:
        """Rewards seen of each arm."""
        return self._counts.astype(np.intp)

    @property
    def means_(self) -> Floats:
        """Averages of the rewards of each arm, 0 where none was seen."""
        return self._means.copy()

    @property
    def statistics_(self) -> Floats:
        """Evidence for a jump at each place."""
        found = self._rule.statistic(self._counts[:-1], self._counts[1:], self._distances)
        return np.where((self._counts[:-1] > 0) & (self._counts[1:] > 0), found, 0.0)

    @property
    def thresholds_(self) -> Floats:
        """What the evidence for a jump at each place must exceed."""
        return np.asarray(self._rule.threshold(self._counts[:-1], self._counts[1:], self.n_samples_))

    @property
    def finished(self) -> bool:
        """True from the first moment at which the evidence suffices."""
        return self._answer is not None

    def select(self) -> int:
        """Return the arm to measure next.

        Returns
        -------
        int
            An arm in 0..n_arms-1; the same one until a reward arrives. Any other arm may be measured all the same.
        """
        least = int(self._counts.argmin())
        floor = forced_exploration(self.exploration, self.n_arms, self.n_samples_)
        if math.isinf(self.sigma_):
            floor = max(floor, PILOT)
        if self._counts[least] < floor:
            return least
        best = self._best
        if self.n_changes == 1:  # both arms of the pair have the share 1/2
            x = int(best[0])
            return x if self._counts.item(x) <= self._counts.item(x + 1) else x + 1
        shares = np.zeros(self.n_arms)
        for pair, share in zip(best, pair_shares(list(self._distances[best]), FLOOR * self.sigma_), strict=True):
            shares[pair] += share
            shares[pair + 1] += share
        return int(np.argmax(self.n_samples_ * shares - self._counts))

    def update(self, arm: int, reward: float) -> None:
        """Take a reward; rewards may come in any order and of any arm, several for one `select`.

        Parameters
        ----------
        arm : int
            The arm that was measured, in 0..n_arms-1.
        reward : float
            What was measured.

        Raises
        ------
        ValueError
            If `arm` is out of range, `reward` is not finite (or beyond 1e150), or with ``sigma=None`` the first rewards
            of every arm are equal. The bandit is then as before.
        TypeError
            If `arm` is not an integer or `reward` is not a number.
        """
        a = check_integer(arm, "arm", minimum=0, maximum=self.n_arms - 1)
        value = _check_reward(reward)
        n, old = self._counts.item(a) + 1.0, self._means.item(a)
        step = value - old
        mean = old + step / n
        if math.isinf(self.sigma_) and n <= PILOT:
            self._learn_sigma(a, n, step * (value - mean))
        if n == 1.0:
            self._unseen -= 1
        self._counts[a], self._means[a] = n, mean
        self.n_samples_ += 1
        if a > 0:
            self._distances[a - 1] = abs(mean - self._means.item(a - 1))
        if a < self.n_arms - 1:
            self._distances[a] = abs(mean - self._means.item(a + 1))
        if self._unseen == 0:
            self._rank()

    def _learn_sigma(self, arm: int, count: float, square: float) -> None:
        """Add to the variance within arms; when each arm has its pilot rewards, set the upper limit of sigma."""
        others = np.delete(self._counts, arm)
        if count == PILOT and (others >= PILOT).all():
            total = float(self._spread.sum() + square)
            if total <= 0.0:
                raise ValueError(
                    f"reward {PILOT} of every arm is there and those of each arm are equal: sigma can't be estimated; "
                    "give sigma"
                )
            freedom = (PILOT - 1) * self.n_arms
            self.sigma_ = math.sqrt(total / float(chi2.ppf(0.1 * self.delta, freedom)))
            self._rule = self._rule._replace(sigma=self.sigma_)
        self._spread[arm] += square

    def _rank(self) -> None:
        """Find the largest distances, and see whether the evidence for all of them suffices."""
        if self.n_changes == 1:
            self._best[0] = self._distances.argmax()
        else:
            self._best[:] = np.sort(np.argsort(-self._distances, kind="stable")[: self.n_changes])
        if self._answer is None and not math.isinf(self.sigma_) and all(map(self._certain, self._best.tolist())):
            self._answer = self._best.copy()

    def _certain(self, x: int) -> bool:
        left, right = self._counts.item(x), self._counts.item(x + 1)
        evidence = self._rule.statistic(left, right, self._distances.item(x))
        return bool(evidence > self._rule.threshold(left, right, self.n_samples_))

    def recommend(self) -> ChangePointResult:
        """Return the change points: certified ones if `finished`, else the best guess.

        Returns
        -------
        ChangePointResult
            Change points with their sizes and places.

        Raises
        ------
        ValueError
            If some arm has no reward yet.
        """
        if self._unseen:
            missing = np.flatnonzero(self._counts == 0).tolist()
            raise ValueError(f"every arm must be measured once before a recommendation, arms {missing} were not")
        points = self._best if self._answer is None else self._answer
        return ChangePointResult(
            points.copy(),
            self._means[points + 1] - self._means[points],
            np.column_stack([self.arms[points], self.arms[points + 1]]),
            self.n_samples_,
            self.counts_,
            self.finished,
            self.statistics_,
        )

    def run(
        self, sampler: Callable[[int], float], *, max_samples: int = 1_000_000, verbose: int = 0
    ) -> ChangePointResult:
        """Measure until finished, or until there are no samples left.

        Parameters
        ----------
        sampler : callable
            ``sampler(arm)`` measures an arm and returns the reward.
        max_samples : int, default=1_000_000
            Greatest number of rewards in all, those told before included.
        verbose : int, default=0
            With 1 or more, print a line each time the number of samples has doubled.

        Returns
        -------
        ChangePointResult
            As `recommend`; if ``converged`` is False the samples ran out.

        Raises
        ------
        ValueError
            If `max_samples` is smaller than the number of arms, or a reward is not finite.
        TypeError
            If `sampler` is not callable or returns something else than a number.

        Warns
        -----
        UserWarning
            If the samples run out.

        Notes
        -----
        After an interruption, by Ctrl-C or by an error of `sampler`, all rewards so far are kept; call `run` again.
        """
        if not callable(sampler):
            raise TypeError(f"sampler must be a function of an arm, got {type(sampler).__name__}")
        max_samples = check_integer(max_samples, "max_samples")
        if max_samples < self.n_arms:
            raise ValueError(f"max_samples must be at least n_arms = {self.n_arms}, got {max_samples}")
        report = max(2 * self.n_samples_, 64)
        while not self.finished and (self.n_samples_ < max_samples or self._unseen):
            arm = self.select()
            self.update(arm, sampler(arm))
            if verbose > 0 and self.n_samples_ >= report:
                print(f"{self.n_samples_:,} samples, largest jumps after arms {self._best.tolist()}")
                report *= 2
        if not self.finished:
            warnings.warn(
                f"no certainty about n_changes = {self.n_changes} change point(s) after {self.n_samples_:,} samples; "
                "there may be fewer, or their jumps are small",
                UserWarning,
                stacklevel=2,
            )
        return self.recommend()


def _check_reward(reward: Any) -> float:
    if isinstance(reward, np.ndarray) and reward.ndim == 0:
        reward = reward.item()
    if not isinstance(reward, float | int | np.bool_) and not isinstance(reward, numbers.Real):
        raise TypeError(f"reward must be a number, got {reward!r} of type {type(reward).__name__}")
    value = float(reward)
    if not abs(value) <= LARGEST:
        raise ValueError(f"reward must be finite and within +-{LARGEST:g}, got {value!r}")
    return value
