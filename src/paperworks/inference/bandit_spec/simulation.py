"""The paper's model of a round: truncated geometric gains, and how many rounds a text takes under it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from paperworks._checks import check_finite_array, check_integer

from .selectors import Selector

__all__ = ["expected_accepted", "simulate_stopping_time"]


def expected_accepted(p: ArrayLike, length: int) -> Any:
    """Return the mean number of tokens a round gains if each drafted token is accepted with probability `p`.

    The truncated geometric law of eq. 10: P(Y = y) = p^(y-1) (1 - p) for y <= L and p^L for L + 1, whose mean is
    (1 - p^(L+1)) / (1 - p).

    Parameters
    ----------
    p : array-like
        Acceptance probabilities in [0, 1].
    length : int
        Draft length L, at least 0.

    Returns
    -------
    float or ndarray
        Mean gains in [1, L + 1], of the shape of `p`.

    Raises
    ------
    ValueError
        If a probability or the length is out of range.

    References
    ----------
    Hou et al., "BanditSpec: Adaptive Speculative Decoding via Bandit Algorithms", ICML 2025, eq. 10.

    Examples
    --------
    >>> from paperworks.inference import expected_accepted
    >>> expected_accepted([0.0, 0.5, 1.0], 4)
    array([1.    , 1.9375, 5.    ])
    """
    probabilities = check_finite_array(p, "p")
    if ((probabilities < 0.0) | (probabilities > 1.0)).any():
        raise ValueError(f"p must lie in [0, 1], got values from {probabilities.min()} to {probabilities.max()}")
    powers = probabilities[..., None] ** np.arange(check_integer(length, "length", minimum=0) + 1)
    mean = powers.sum(axis=-1)
    return mean if probabilities.ndim else float(mean)


def simulate_stopping_time(
    accept_probs: Sequence[float] | NDArray[np.float64],
    max_draft: int,
    n_tokens: int,
    selector: Selector,
    random_state: Any = None,
) -> int:
    """Count the rounds a bandit needs for a text if the gains of each arm are truncated geometric.

    Parameters
    ----------
    accept_probs : array-like of shape (n_arms,)
        Probability with which a drafted token of each arm is accepted, in [0, 1].
    max_draft : int
        Draft length L of all arms.
    n_tokens : int
        Length of the text in tokens, at least 1.
    selector : object with ``select()`` and ``update(arm, accepted)``
        The bandit; it keeps what it learns.
    random_state : int, numpy Generator or None, default=None
        Source of the gains.

    Returns
    -------
    int
        Rounds until at least `n_tokens` tokens are gained, between n_tokens / (L + 1) and n_tokens.

    Raises
    ------
    ValueError
        If a number is out of range or the bandit chooses an arm that does not exist.

    References
    ----------
    Hou et al., "BanditSpec: Adaptive Speculative Decoding via Bandit Algorithms", ICML 2025, section 4 and eq. 10.

    Examples
    --------
    >>> from paperworks.inference import UCBSpec, simulate_stopping_time
    >>> simulate_stopping_time([1.0], 4, 50, UCBSpec(1, max_draft=4))
    10
    """
    probabilities = check_finite_array(accept_probs, "accept_probs", ndim=1)
    if not probabilities.size or ((probabilities < 0.0) | (probabilities > 1.0)).any():
        raise ValueError(f"accept_probs must hold probabilities in [0, 1], at least one; got {accept_probs!r}")
    length = check_integer(max_draft, "max_draft", minimum=1)
    left = check_integer(n_tokens, "n_tokens", minimum=1)
    # P(Y > y) = p^y, so Y - 1 is the exponential variable -log U over -log p, rounded down and cut at L
    exponential = np.random.default_rng(random_state).exponential(size=left).tolist()
    with np.errstate(divide="ignore"):
        rates = (-np.log(probabilities)).tolist()
    rounds = 0
    while left > 0:
        arm = selector.select()
        if not 0 <= arm < len(rates):
            raise ValueError(f"the selector chose arm {arm}, but accept_probs has {len(rates)} arm(s)")
        e, rate = exponential[rounds], rates[arm]
        gained = length + 1 if e >= length * rate else 1 + int(e / rate)
        selector.update(arm, gained)
        left -= gained
        rounds += 1
    return rounds
