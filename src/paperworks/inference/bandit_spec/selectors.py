"""The bandits: which arm the next round uses, learnt from the tokens that earlier rounds gained."""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from paperworks._checks import check_integer, check_positive

__all__ = [
    "EXP3Spec",
    "Selector",
    "Tally",
    "UCBSpec",
    "check_delta",
]


class Selector(Protocol):
    """What a decoding loop asks of a bandit."""

    max_draft: int

    def select(self) -> int:
        """Return the arm of the next round."""
        ...

    def update(self, arm: int, accepted: float) -> None:
        """Tell what the round gained."""
        ...


def check_delta(delta: Any) -> float:
    value = check_positive(delta, "delta")
    if value > 1.0:
        raise ValueError(f"delta must lie in (0, 1], got {delta!r}")
    return value


class Tally:
    """Rounds and gained tokens of each arm; the checks that all bandits share."""

    def __init__(self, n_arms: int, max_draft: int, discount: float) -> None:
        self.n_arms = check_integer(n_arms, "n_arms", minimum=1)
        self.max_draft = check_integer(max_draft, "max_draft", minimum=1)
        self.discount = check_positive(discount, "discount")
        if self.discount > 1.0:
            raise ValueError(f"discount must lie in (0, 1], got {discount!r}")
        self.counts = [0.0] * self.n_arms
        self.sums = [0.0] * self.n_arms

    def update(self, arm: int, accepted: float) -> None:
        """Count one round of an arm.

        Parameters
        ----------
        arm : int
            The arm that was used, from 0.
        accepted : float
            Tokens the round gained, in [1, max_draft + 1].

        Raises
        ------
        ValueError
            If `arm` does not exist or `accepted` is out of range.
        """
        self._check(arm, accepted)
        if self.discount < 1.0:
            self.counts = [self.discount * n for n in self.counts]
            self.sums = [self.discount * s for s in self.sums]
        self.counts[arm] += 1.0
        self.sums[arm] += accepted

    def _check(self, arm: int, accepted: float) -> None:
        if not 0 <= arm < self.n_arms:
            raise ValueError(f"arm must lie in [0, {self.n_arms - 1}], got {arm!r}")
        if not 1.0 <= accepted <= self.max_draft + 1.0:  # a NaN fails too
            raise ValueError(f"accepted must lie in [1, max_draft + 1] = [1, {self.max_draft + 1}], got {accepted!r}")

    def _fewest(self, rounds: float = 0.0) -> int | None:
        """Return the first arm among those used least, if that is at most `rounds` times."""
        least = min(self.counts)
        return self.counts.index(least) if least <= rounds else None


class UCBSpec(Tally):
    """Upper confidence bounds on the tokens a round gains: the paper's Algorithm 4.

    Each arm is used once; then comes the arm with the largest mean plus radius (lowest number on ties). The radius
    (eqs. 5 to 7) holds for rounds that depend on each other, as long as the conditional mean stays the same.

    Parameters
    ----------
    n_arms : int
        Number of arms K.
    max_draft : int
        Greatest draft length L over the arms; a round gains 1 to L + 1 tokens.
    delta : float, default=0.1
        Allowed probability, in (0, 1], that some confidence interval is wrong.
    scale : float, default=1.0
        Factor of the radius. 1.0 is the paper's, which explores long; about 0.3 needs fewer rounds on texts of a few
        hundred tokens.
    discount : float, default=1.0
        Factor of all counts in each round, for arms that drift; 1.0 forgets nothing.

    Raises
    ------
    ValueError
        If a number is out of range.

    References
    ----------
    Hou et al., "BanditSpec: Adaptive Speculative Decoding via Bandit Algorithms", ICML 2025, Algorithm 4.

    Examples
    --------
    >>> from paperworks.inference import UCBSpec
    >>> bandit = UCBSpec(2, max_draft=4)
    >>> for accepted in (5, 1):
    ...     bandit.update(bandit.select(), accepted)
    >>> bandit.index().round(3)
    array([14.146, 10.146])
    >>> bandit.select()
    0
    """

    def __init__(
        self, n_arms: int, *, max_draft: int, delta: float = 0.1, scale: float = 1.0, discount: float = 1.0
    ) -> None:
        super().__init__(n_arms, max_draft, discount)
        self.delta = check_delta(delta)
        self.scale = check_positive(scale, "scale", zero_ok=True)

    def select(self) -> int:
        """Return the arm of the next round.

        Returns
        -------
        int
            The arm, from 0.
        """
        new = self._fewest()
        if new is not None:
            return new
        index = self._index()
        return index.index(max(index))

    def index(self) -> NDArray[np.float64]:
        """Return the mean plus the radius of each arm.

        Returns
        -------
        ndarray of shape (n_arms,)
            The index in tokens; infinite for an arm that was not used yet.
        """
        return np.array(self._index())

    def _index(self) -> list[float]:
        t = max(sum(self.counts), 1.0)  # discounted, the first round alone may weigh less
        within = math.log(self.n_arms * t * t / self.delta)
        index = []
        for n, total in zip(self.counts, self.sums, strict=True):
            if n == 0.0:
                index.append(math.inf)
                continue
            # Eqs. 5-7 with log(K t^2 sqrt(1 + n) / delta) taken apart
            log = within + 0.5 * math.log1p(n)
            radius = 0.5 * self.max_draft * math.sqrt((1.0 + n) * (1.0 + 2.0 * log)) / n
            index.append(total / n + self.scale * radius)
        return index


class EXP3Spec(Tally):
    """Exponential weights on estimated losses: the paper's Algorithm 5, for gains that follow no law.

    The loss of a round is (L + 1 - Y) / L for Y tokens gained; divided by the probability with which the arm was
    chosen it estimates the losses of all arms. Arms are drawn with probabilities proportional to
    exp(-eta_t * summed losses), eta_t = sqrt(log K / (t K)).

    Parameters
    ----------
    n_arms : int
        Number of arms K.
    max_draft : int
        Greatest draft length L over the arms; a round gains 1 to L + 1 tokens.
    random_state : int, numpy Generator or None, default=None
        Source of the draws.
    discount : float, default=1.0
        Factor of the summed losses in each round, for arms that drift; 1.0 forgets nothing.

    Raises
    ------
    ValueError
        If a number is out of range.

    References
    ----------
    Hou et al., "BanditSpec: Adaptive Speculative Decoding via Bandit Algorithms", ICML 2025, Algorithm 5.

    Examples
    --------
    >>> from paperworks.inference import EXP3Spec
    >>> bandit = EXP3Spec(2, max_draft=4, random_state=0)
    >>> bandit.update(0, 1)
    >>> bandit.probabilities().round(4)
    array([0.3031, 0.6969])
    """

    def __init__(self, n_arms: int, *, max_draft: int, random_state: Any = None, discount: float = 1.0) -> None:
        super().__init__(n_arms, max_draft, discount)
        self._rng = np.random.default_rng(random_state)
        self._losses = [0.0] * self.n_arms
        self._round = 1

    def probabilities(self) -> NDArray[np.float64]:
        """Return the probability of each arm in the next round.

        Returns
        -------
        ndarray of shape (n_arms,)
            Probabilities that sum to 1.
        """
        return np.array(self._probabilities())

    def _probabilities(self) -> list[float]:
        eta = math.sqrt(math.log(self.n_arms) / (self._round * self.n_arms))
        least = min(self._losses)
        weights = [math.exp(-eta * (loss - least)) for loss in self._losses]
        total = sum(weights)
        return [w / total for w in weights]

    def select(self) -> int:
        """Draw the arm of the next round.

        Returns
        -------
        int
            The arm, from 0.
        """
        u = self._rng.random()
        for arm, p in enumerate(self._probabilities()):
            u -= p
            if u < 0.0:
                return arm
        return self.n_arms - 1

    def update(self, arm: int, accepted: float) -> None:
        """Count one round of an arm; the loss is divided by the probability that the arm had in this round.

        Parameters
        ----------
        arm : int
            The arm that was used, from 0.
        accepted : float
            Tokens the round gained, in [1, max_draft + 1].

        Raises
        ------
        ValueError
            If `arm` does not exist or `accepted` is out of range.
        """
        super().update(arm, accepted)
        p = max(self._probabilities()[arm], 1e-300)  # an arm forced against all odds
        if self.discount < 1.0:
            self._losses = [self.discount * loss for loss in self._losses]
        self._losses[arm] += (self.max_draft + 1.0 - accepted) / (self.max_draft * p)
        self._round += 1
