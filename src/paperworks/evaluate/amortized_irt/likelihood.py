"""Sums over observed cells, posterior modes and adaptive quadrature of the abilities.

Every sum runs over the observed cells alone, a few thousand at a time; no array of nodes x takers x items is built.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from numpy.typing import NDArray
from scipy.special import logsumexp

from .responses import _CHUNK, Responses

__all__ = [
    "Items",
    "Posterior",
    "ability_posterior",
    "best_prior",
    "gauss_hermite",
    "item_sums",
    "mode",
    "predictive_loglik",
]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

SMALLEST_SCALE = 1e-6
_LARGEST = 340.0
"""Abilities and difficulties are cut here where they enter an exponential, so that a product of two stays finite."""


class Items(NamedTuple):
    """Parameters of the items."""

    difficulty: Floats
    slope: Floats | None = None
    """Discrimination of each item; None is 1 for all."""


class Posterior(NamedTuple):
    """Abilities of M takers on Q nodes each."""

    centre: Floats
    """Posterior modes, shape (M,)."""
    nodes: Floats
    """Shape (M, Q)."""
    weights: Floats
    """Posterior probabilities of the nodes, shape (M, Q)."""
    loglik: Floats
    """Log marginal likelihood of each taker's responses, shape (M,)."""

    @property
    def mean(self) -> Floats:
        """Posterior means (EAP)."""
        return np.einsum("iq,iq->i", self.weights, self.nodes)

    @property
    def sd(self) -> Floats:
        """Posterior standard deviations."""
        deviations = self.nodes - self.mean[:, None]
        return np.sqrt(np.einsum("iq,iq,iq->i", self.weights, deviations, deviations))


@lru_cache(maxsize=16)
def gauss_hermite(n: int) -> tuple[Floats, Floats]:
    """Return nodes and weights of the standard normal law (probabilists' rule, weights sum to 1)."""
    nodes, weights = hermegauss(n)
    weights = weights / weights.sum()
    for array in (nodes, weights):
        array.setflags(write=False)
    return nodes, weights


def _exp(values: Floats) -> Floats:
    return np.exp(np.clip(values, -_LARGEST, _LARGEST))


class _Odds:
    """Odds of a right answer, exp(slope (theta - b)), for pieces of the cells, shape (Q, n_cells).

    Without slopes they are products of exp(theta) and exp(-b), which saves one exponential per cell and node.
    """

    def __init__(self, theta: Floats, items: Items) -> None:
        self.slope, self.difficulty = items.slope, items.difficulty
        self.columns = np.ascontiguousarray((theta if items.slope is not None else _exp(theta)).T)
        self.easiness = None if items.slope is not None else _exp(-items.difficulty)

    def _of(self, theta: Floats, item: NDArray[np.int32]) -> Floats:
        if self.easiness is not None:
            return (
                theta * self.easiness[item] if theta.shape[1] == 1 else np.multiply(theta, self.easiness[item], theta)
            )
        assert self.slope is not None
        return _exp(self.slope[item] * (theta - self.difficulty[item]))

    def of_cells(self, item: NDArray[np.int32], taker: NDArray[np.int32]) -> Floats:
        """Return the odds of cells in any order."""
        return self._of(np.take(self.columns, taker, axis=1), item)

    def of_takers(self, item: NDArray[np.int32], first: int, counts: Integers) -> Floats:
        """Return the odds of cells in the order of takers, `counts` of each from taker `first` on."""
        theta = self.columns[:, first : first + len(counts)]
        return self._of(theta if len(counts) == 1 else np.repeat(theta, counts, axis=1), item)


def _taker_pieces(responses: Responses, odds: _Odds) -> Iterator[tuple[Floats, NDArray[np.int32], Integers, Integers]]:
    """Yield the odds of each piece (Q, n), its items, the takers in it and where their cells begin."""
    for cells, first, last in responses.blocks():
        item = responses.item[cells]
        if not len(item):
            continue
        if first == last:
            yield odds.of_takers(item, first, np.array([len(item)])), item, np.array([first]), np.array([0])
            continue
        counts = responses.per_taker[first : last + 1]
        takers = first + np.flatnonzero(counts)
        begin = responses.starts[takers] - responses.starts[first]
        yield odds.of_takers(item, first, counts), item, takers, begin


def _wrong_loglik(responses: Responses, nodes: Floats, items: Items) -> Floats:
    """Return sum_j log(1 + odds) over each taker's cells, at each of its nodes, shape (M, Q)."""
    total = np.zeros(nodes.shape)
    for x, _, takers, begin in _taker_pieces(responses, _Odds(nodes, items)):
        x += 1.0
        np.log(x, out=x)
        total[takers] += np.add.reduceat(x, begin, axis=1).T
    return total


def slopes_and_information(responses: Responses, theta: Floats, items: Items) -> tuple[Floats, Floats]:
    """Return sum_j a_j p_ij and the Fisher information sum_j a_j^2 p_ij (1 - p_ij) at one ability per taker."""
    expected, information = np.zeros(len(theta)), np.zeros(len(theta))
    for x, item, takers, begin in _taker_pieces(responses, _Odds(theta[:, None], items)):
        p = x / (1.0 + x)
        slope = 1.0 if items.slope is None else items.slope[item]
        expected[takers] += np.add.reduceat(p * slope, begin, axis=1)[0]
        information[takers] += np.add.reduceat(p * slope**2 / (1.0 + x), begin, axis=1)[0]
    return expected, information


def score_sums(responses: Responses, items: Items) -> tuple[Floats, Floats]:
    """Return sum_j a_j y_ij and sum_j a_j b_j y_ij of each taker."""
    slope = np.ones(responses.shape[1]) if items.slope is None else items.slope
    right = responses.right_matrix
    return right @ slope, right @ (slope * items.difficulty)


def mode(
    responses: Responses,
    items: Items,
    mean: float,
    precision: float,
    start: Floats,
    *,
    tol: float = 1e-10,
    max_iter: int = 100,
) -> tuple[Floats, Floats]:
    """Return the abilities of greatest posterior density and their information, the prior's included.

    Newton steps cut to 1. The slope falls in the ability, so each evaluation also brackets the mode; a step that leaves
    the bracket is replaced by its middle. `precision` 0 gives maximum likelihood, whose mode must exist.
    """
    theta = start.copy()
    low, high = np.full(len(theta), -np.inf), np.full(len(theta), np.inf)
    scored = score_sums(responses, items)[0]
    for iteration in range(max_iter + 1):
        expected, information = slopes_and_information(responses, theta, items)
        information += precision
        if iteration == max_iter:
            break
        slope = scored - expected - precision * (theta - mean)
        low, high = np.where(slope > 0, theta, low), np.where(slope < 0, theta, high)
        step = np.clip(slope / np.maximum(information, 1e-300), -1.0, 1.0)
        moved = theta + step
        outside = (moved < low) | (moved > high)
        moved[outside] = (low[outside] + high[outside]) / 2.0
        done = np.abs(moved - theta) * np.sqrt(information) < tol
        theta = moved
        if done.all():
            break
    return theta, information


def ability_posterior(
    responses: Responses,
    items: Items,
    mean: float,
    sd: float,
    n_quadrature: int,
    start: Floats | None = None,
    *,
    tol: float = 1e-3,
) -> Posterior:
    """Return the posterior of every taker on Gauss-Hermite nodes around its mode (section 3.1 of the method, E step).

    `tol`, in posterior standard deviations, is how well the modes are found; they only place the nodes.
    """
    start = np.full(responses.shape[0], mean) if start is None else start
    centre, information = mode(responses, items, mean, sd**-2, start, tol=tol)
    spread = information**-0.5
    x, w = gauss_hermite(n_quadrature)
    nodes = centre[:, None] + spread[:, None] * x
    scored, base = score_sums(responses, items)
    logs = nodes * scored[:, None] - base[:, None] - _wrong_loglik(responses, nodes, items)
    # The normal density of the prior over that of the rule; the factors sqrt(2 pi) cancel.
    logs += np.log(w) + x**2 / 2.0 - 0.5 * ((nodes - mean) / sd) ** 2 + np.log(spread / sd)[:, None]
    loglik = logsumexp(logs, axis=1)
    return Posterior(centre, nodes, np.exp(logs - loglik[:, None]), loglik)


def best_prior(posterior: Posterior, scale: float, estimate_scale: bool) -> tuple[Posterior, float]:
    """Move the prior to the mean and scale of greatest marginal likelihood, and its mean back to 0.

    The likelihood at the nodes does not depend on the prior, so a new prior only reweights them. Newton's method on the
    logarithm of the scale; EM's own steps would creep towards a small scale. The mean that is taken off the nodes
    belongs to the difficulties too.

    Returns
    -------
    tuple
        The posterior under the new prior, with nodes and centres less its mean, and the new scale.
    """
    nodes = posterior.nodes
    with np.errstate(divide="ignore"):
        logs = np.log(posterior.weights) + 0.5 * (nodes / scale) ** 2
    mean, first = 0.0, scale
    for _ in range(50):
        z = (nodes - mean) / scale
        weights = logs - 0.5 * z**2
        weights -= weights.max(axis=1, keepdims=True)
        np.exp(weights, out=weights)
        weights /= weights.sum(axis=1, keepdims=True)
        moved = mean + scale * float((weights * z).sum() / len(z))
        log_step = 0.0
        if estimate_scale:
            z = (nodes - moved) / scale
            square = np.einsum("iq,iq,iq->i", weights, z, z)
            slope = float(square.mean()) - 1.0
            curvature = float((np.einsum("iq,iq->i", weights, z**4) - square**2).mean() - 2.0 * square.mean())
            log_step = float(np.clip(_log_scale_step(slope, curvature), -0.5, 0.5))
        change = abs(moved - mean) / scale + abs(log_step)
        # The nodes were placed for the first scale: stay near it, the next placing goes on.
        mean, scale = moved, float(np.clip(scale * np.exp(log_step), max(0.5 * first, SMALLEST_SCALE), 2.0 * first))
        if change < 1e-10:
            break
    return posterior._replace(centre=posterior.centre - mean, nodes=nodes - mean, weights=weights), scale


def _log_scale_step(slope: float, curvature: float) -> float:
    """Return a step of the log scale from the derivatives of the log-likelihood in it."""
    if curvature < -1e-2:
        return -slope / curvature
    # Flat in the logarithm: Newton in the variance, whose best value may be 0.
    in_variance = curvature - 2.0 * slope
    if in_variance < 0.0:
        return 0.5 * float(np.log(max(1.0 - 2.0 * slope / in_variance, 1e-12)))
    return -0.5 if slope < 0.0 else 0.5 * float(np.log1p(slope))


class ItemSums(NamedTuple):
    """Posterior sums over the takers that an item was given to, each of shape (N,)."""

    expected: Floats
    """sum of p"""
    information: Floats
    """sum of p (1 - p)"""
    theta_expected: Floats | None = None
    """sum of theta p"""
    theta_information: Floats | None = None
    """sum of theta p (1 - p)"""
    theta2_information: Floats | None = None
    """sum of theta^2 p (1 - p)"""


def item_sums(responses: Responses, nodes: Floats, weights: Floats, items: Items) -> ItemSums:
    """Return the sums that a Newton step of the items needs; those with theta only for items with slopes."""
    odds = _Odds(nodes, items)
    probability, theta = np.ascontiguousarray(weights.T), np.ascontiguousarray(nodes.T)
    takers, numbers = responses.by_item
    sums = np.zeros((2 if items.slope is None else 5, responses.shape[1]))
    for low in range(0, len(takers), _CHUNK):
        taker, item = takers[low : low + _CHUNK], numbers[low : low + _CHUNK]
        wrong = odds.of_cells(item, taker)
        wrong += 1.0
        np.reciprocal(wrong, out=wrong)
        weight = np.take(probability, taker, axis=1)
        mean_wrong = np.einsum("qn,qn->n", weight, wrong)
        cells = [1.0 - mean_wrong, mean_wrong - np.einsum("qn,qn,qn->n", weight, wrong, wrong)]
        if items.slope is not None:
            right = 1.0 - wrong
            for power in (1, 2):
                weight *= np.take(theta, taker, axis=1)
                if power == 1:
                    cells.append(np.einsum("qn,qn->n", weight, right))
                cells.append(np.einsum("qn,qn,qn->n", weight, right, wrong))
        first = item[0]
        for total, values in zip(sums, cells, strict=True):
            total[first : item[-1] + 1] += np.bincount(item - first, values)
    return ItemSums(*sums)


def predictive_loglik(responses: Responses, nodes: Floats, weights: Floats, items: Items) -> Floats:
    """Return the log predictive probability of each observed cell, in the order of the cells."""
    odds = _Odds(nodes, items)
    probability = np.ascontiguousarray(weights.T)
    out = np.empty(responses.n_cells)
    for low in range(0, responses.n_cells, _CHUNK):
        cells = slice(low, low + _CHUNK)
        taker = responses.taker[cells]
        x = odds.of_cells(responses.item[cells], taker)
        answer = np.where(responses.right[cells], x, 1.0) / (1.0 + x)
        out[cells] = np.log(np.einsum("qn,qn->n", np.take(probability, taker, axis=1), answer))
    return out
