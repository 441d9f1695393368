"""Baselines beside the paper's two bandits, and all of them by name."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from paperworks._checks import check_integer

from .selectors import EXP3Spec, Selector, Tally, UCBSpec

__all__ = ["ALGORITHMS", "GreedySpec", "ThompsonSpec", "fixed_arm", "make_selector"]

ALGORITHMS = ("ucb", "exp3", "thompson", "greedy", "uniform")


class GreedySpec(Tally):
    """The arm with the best mean so far, after some rounds of each: a baseline without exploration.

    Parameters
    ----------
    n_arms : int
        Number of arms.
    max_draft : int
        Greatest draft length L over the arms; a round gains 1 to L + 1 tokens.
    warmup : int, default=2
        Rounds of each arm at the start.
    discount : float, default=1.0
        Factor of all counts in each round, for arms that drift; 1.0 forgets nothing.

    Raises
    ------
    ValueError
        If a number is out of range.

    References
    ----------
    Hou et al., "BanditSpec: Adaptive Speculative Decoding via Bandit Algorithms", ICML 2025. The published code selects
    speculation lengths this way: its bonus is the same for all arms.

    Examples
    --------
    >>> from paperworks.inference import GreedySpec
    >>> bandit = GreedySpec(2, max_draft=4)
    >>> for accepted in (5, 1, 3, 2):
    ...     bandit.update(bandit.select(), accepted)
    >>> bandit.select()
    0
    """

    def __init__(self, n_arms: int, *, max_draft: int, warmup: int = 2, discount: float = 1.0) -> None:
        super().__init__(n_arms, max_draft, discount)
        self.warmup = check_integer(warmup, "warmup", minimum=1)
        self._started = 0

    def select(self) -> int:
        """Return the arm of the next round.

        Returns
        -------
        int
            The arm, from 0.
        """
        if self._started < self.warmup * self.n_arms:
            return self._started % self.n_arms
        means = [s / n if n else math.inf for s, n in zip(self.sums, self.counts, strict=True)]
        return means.index(max(means))

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
        super().update(arm, accepted)
        self._started += 1


class ThompsonSpec(Tally):
    """Thompson sampling: the gains 1 ... L + 1 of each arm follow an unknown law with a Dirichlet prior.

    A law is drawn from each posterior, and the arm whose law has the largest mean is used. A baseline, not in the
    paper. A gain that is no integer counts for both neighbours in proportion.

    Parameters
    ----------
    n_arms : int
        Number of arms.
    max_draft : int
        Greatest draft length L over the arms; a round gains 1 to L + 1 tokens.
    random_state : int, numpy Generator or None, default=None
        Source of the draws.
    discount : float, default=1.0
        Factor of all counts in each round, for arms that drift; 1.0 forgets nothing.

    Raises
    ------
    ValueError
        If a number is out of range.

    References
    ----------
    W. R. Thompson, "On the likelihood that one unknown probability exceeds another", Biometrika 25, 1933.

    Examples
    --------
    >>> from paperworks.inference import ThompsonSpec
    >>> bandit = ThompsonSpec(2, max_draft=4, random_state=0)
    >>> for _ in range(50):
    ...     bandit.update(0, 1)
    ...     bandit.update(1, 4)
    >>> bandit.select()
    1
    """

    def __init__(self, n_arms: int, *, max_draft: int, random_state: Any = None, discount: float = 1.0) -> None:
        super().__init__(n_arms, max_draft, discount)
        self._rng = np.random.default_rng(random_state)
        # The prior weighs as much as two rounds, spread over the possible gains
        self._prior = 2.0 / (self.max_draft + 1)
        self._seen = np.zeros((self.n_arms, self.max_draft + 1))

    def select(self) -> int:
        """Draw the arm of the next round.

        Returns
        -------
        int
            The arm, from 0.
        """
        gammas = self._rng.standard_gamma(self._seen + self._prior)  # normalised rows are Dirichlet
        gains = np.arange(1, self.max_draft + 2)
        return int(np.argmax(gammas @ gains / gammas.sum(axis=1)))

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
        super().update(arm, accepted)
        if self.discount < 1.0:
            self._seen *= self.discount
        below = min(int(accepted), self.max_draft)
        self._seen[arm, below - 1] += 1.0 - (accepted - below)
        self._seen[arm, below] += accepted - below


class _UniformSpec(Tally):
    """Every arm with the same probability."""

    def __init__(self, n_arms: int, *, max_draft: int, random_state: Any = None) -> None:
        super().__init__(n_arms, max_draft, 1.0)
        self._rng = np.random.default_rng(random_state)

    def select(self) -> int:
        return int(self._rng.integers(self.n_arms))


class _FixedSpec(Tally):
    """Always the same arm."""

    def __init__(self, n_arms: int, *, max_draft: int, arm: int) -> None:
        super().__init__(n_arms, max_draft, 1.0)
        self.arm = arm

    def select(self) -> int:
        return self.arm


def fixed_arm(algorithm: str, n_arms: int) -> int | None:
    """Return i for ``"fixed:i"``, None for a bandit; raise for anything else."""
    if isinstance(algorithm, str):
        if algorithm in ALGORITHMS:
            return None
        name, _, number = algorithm.partition(":")
        if name == "fixed" and number.isdecimal() and int(number) < n_arms:
            return int(number)
    choices = ", ".join(map(repr, ALGORITHMS))
    raise ValueError(f"algorithm must be one of {choices} or 'fixed:i' with i in 0..{n_arms - 1}; got {algorithm!r}")


def make_selector(
    algorithm: str,
    n_arms: int,
    *,
    max_draft: int,
    delta: float = 0.1,
    scale: float = 0.3,
    discount: float = 1.0,
    random_state: Any = None,
) -> Selector:
    """Return a new bandit by its name in `BanditSpec`."""
    arm = fixed_arm(algorithm, n_arms)
    if arm is not None:
        return _FixedSpec(n_arms, max_draft=max_draft, arm=arm)
    if algorithm == "ucb":
        return UCBSpec(n_arms, max_draft=max_draft, delta=delta, scale=scale, discount=discount)
    if algorithm == "exp3":
        return EXP3Spec(n_arms, max_draft=max_draft, random_state=random_state, discount=discount)
    if algorithm == "thompson":
        return ThompsonSpec(n_arms, max_draft=max_draft, random_state=random_state, discount=discount)
    if algorithm == "greedy":
        return GreedySpec(n_arms, max_draft=max_draft, discount=discount)
    return _UniformSpec(n_arms, max_draft=max_draft, random_state=random_state)
