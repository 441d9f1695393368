"""Candidate treatments around an observed one, and how well scores rank them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata
from sklearn.utils import check_random_state

from paperworks._checks import check_choice, check_finite_array, check_integer

from .simulator import check_unit

__all__ = ["ground_truth_percentile", "perturb_actions", "rank_correlation"]

Floats = NDArray[np.float64]

TREATMENTS = ("continuous", "binary")


def check_actions(array: Floats, name: str, treatment: str) -> Floats:
    """Return `array` if its values are treatments of the kind."""
    if treatment == "binary":
        wrong = ~np.isin(array, (0.0, 1.0))
        if wrong.any():
            raise ValueError(f"{name} must be 0 or 1 for binary treatments, got {array[wrong][0]:g}")
        return array
    return check_unit(array, name)


def perturb_actions(actions: ArrayLike, k: int, *, treatment: str = "continuous", random_state: Any = None) -> Floats:
    """Return random sequences, altered copies of the observed one, and the observed one itself.

    Of the ``k - 1`` others a fifth (at least one) are copies. For continuous treatments each entry of a copy is moved
    with probability 1/2 by U(0.3, 0.7): up from below 0.3, down from above 0.7, either way otherwise, clipped to
    [0, 1]; random sequences are uniform. For binary treatments half are fair coins and half are copies of which each
    entry is flipped with probability 0.2.

    Parameters
    ----------
    actions : array-like of shape (n, n_steps, n_actions)
        Observed treatments.
    k : int
        Number of candidates, at least 2.
    treatment : {"continuous", "binary"}, default="continuous"
        Kind of treatments.
    random_state : int, RandomState instance or None, default=None
        Source of the draws.

    Returns
    -------
    ndarray of float64, shape (k, n, n_steps, n_actions)
        Random sequences first, then the copies, the observed sequence last.

    Raises
    ------
    ValueError
        If `actions` has another shape or values outside the range of the treatments, or `k` is below 2.

    Examples
    --------
    >>> import numpy as np
    >>> from paperworks.causal import perturb_actions
    >>> observed = np.full((4, 6, 2), 0.5)
    >>> candidates = perturb_actions(observed, 100, random_state=0)
    >>> candidates.shape, bool((candidates[-1] == observed).all())
    ((100, 4, 6, 2), True)
    """
    kind = check_choice(treatment, "treatment", TREATMENTS)
    observed = check_actions(check_finite_array(actions, "actions", ndim=3), "actions", kind)
    others = check_integer(k, "k", minimum=2) - 1
    rng = check_random_state(random_state)
    copies = max(1, int(others * (0.5 if kind == "binary" else 0.2)))
    free, near = (others - copies, *observed.shape), (copies, *observed.shape)
    if kind == "binary":
        drawn = (rng.uniform(size=free) < 0.5).astype(np.float64)
        changed = np.where(rng.uniform(size=near) < 0.2, 1.0 - observed, observed)
    else:
        drawn = rng.uniform(size=free)
        either = np.where(rng.uniform(size=near) < 0.5, 1.0, -1.0)
        direction = np.where(observed < 0.3, 1.0, np.where(observed > 0.7, -1.0, either))
        moved = np.clip(observed + direction * rng.uniform(0.3, 0.7, size=near), 0.0, 1.0)
        changed = np.where(rng.uniform(size=near) < 0.5, moved, observed)
    return np.concatenate([drawn, changed, observed[None]])


def _scores(value: Any, name: str) -> Floats:
    array = check_finite_array(value, name)
    if array.ndim not in (1, 2) or len(array) < 2:
        raise ValueError(f"{name} must have shape (k,) or (k, n) with k >= 2, got {array.shape}")
    return array


def ground_truth_percentile(scores: ArrayLike, index: int) -> Any:
    """Return the share of other candidates that don't score better than the true one.

    With rank 1 + the number of strictly smaller scores it is ``(k - rank) / (k - 1)``: 1 for the smallest score, 0 for
    the largest. Ties count for the true candidate.

    Parameters
    ----------
    scores : array-like of shape (k,) or (k, n)
        Scores of the candidates, smaller is better.
    index : int
        Which candidate is the true one; -1 is the last.

    Returns
    -------
    float or ndarray of float64, shape (n,)
        The percentile, in [0, 1].

    Raises
    ------
    ValueError
        If `scores` has another shape or isn't finite, or there is no candidate `index`.

    Examples
    --------
    >>> from paperworks.causal import ground_truth_percentile
    >>> ground_truth_percentile([3.0, 1.0, 2.0, 0.5, 0.7], index=-1)
    0.75
    """
    table = _scores(scores, "scores")
    place = check_integer(index, "index", minimum=-len(table), maximum=len(table) - 1)
    better = (table < table[place]).sum(axis=0)
    percentile = (len(table) - 1 - better) / (len(table) - 1)
    return float(percentile) if table.ndim == 1 else percentile


def rank_correlation(scores: ArrayLike, losses: ArrayLike) -> Any:
    """Return Spearman's correlation of scores with true losses, over the candidates.

    Parameters
    ----------
    scores : array-like of shape (k,) or (k, n)
        Scores of the candidates, smaller is better.
    losses : array-like of the same shape
        Their true losses.

    Returns
    -------
    float or ndarray of float64, shape (n,)
        The correlation, in [-1, 1]; NaN, with a warning, where all scores or all losses are equal.

    Raises
    ------
    ValueError
        If the shapes differ or a value isn't finite.

    Warns
    -----
    UserWarning
        If a correlation is not defined.

    Examples
    --------
    >>> from paperworks.causal import rank_correlation
    >>> rank_correlation([1.0, 2.0, 3.0, 4.0], [10.0, 20.0, 40.0, 30.0])
    0.8
    """
    first, second = _scores(scores, "scores"), _scores(losses, "losses")
    if first.shape != second.shape:
        raise ValueError(f"losses must have the shape of scores, {first.shape}; got {second.shape}")
    a, b = (rankdata(table, axis=0) - (len(table) + 1) / 2.0 for table in (first, second))
    scale = np.sqrt((a**2).sum(axis=0) * (b**2).sum(axis=0))
    flat = scale == 0
    if flat.any():
        what = int(flat.sum()) if first.ndim == 2 else 1
        warnings.warn(f"all scores or all losses are equal in {what} column(s): no rank correlation", stacklevel=2)
    correlation = np.where(flat, np.nan, (a * b).sum(axis=0) / np.where(flat, 1.0, scale))
    return float(correlation) if first.ndim == 1 else correlation
