"""Item difficulties from responses: closed-form composite, marginal maximum likelihood by EM, joint likelihood."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from .likelihood import SMALLEST_SCALE, Items, Posterior, ability_posterior, best_prior, gauss_hermite, item_sums, mode
from .responses import Responses

__all__ = ["Calibration", "composite_difficulty", "difficulty_step", "fit_joint", "fit_marginal"]

Floats = NDArray[np.float64]

SLOPE_SD = 0.5
"""Standard deviation of the logarithm of an item's discrimination under its lognormal prior."""
_LONGEST_LEAP = 3.0
_FARTHEST = 300.0
"""Difficulties beyond this overflow; only items that everybody has right, without a prior to speak of, come near."""


class Calibration(NamedTuple):
    """What a calibration found."""

    items: Items
    scale: float
    posterior: Posterior
    n_iter: int
    converged: bool
    objectives: tuple[float, ...] = ()
    """Penalised log marginal likelihood at the beginning of every EM step that was kept."""


def composite_difficulty(share_right: Floats) -> Floats:
    """Return the difficulty at which abilities of N(0, 1) give the share of right answers, E sigmoid(theta - b).

    Newton's method on one equation per distinct share, in (0, 1); 41 Gauss-Hermite nodes (section 3.1, composite).
    """
    share, back = np.unique(share_right, return_inverse=True)
    x, w = gauss_hermite(41)
    logit = np.log(share) - np.log1p(-share)
    # E sigmoid lies between sigmoid(-b) shrunk to 1/2 and sigmoid(1/2 - |b|), which brackets the root.
    b = -logit * np.sqrt(1.0 + np.pi / 8.0)
    low, high = -np.abs(logit) * 2.0 - 4.0, np.abs(logit) * 2.0 + 4.0
    for _ in range(100):
        p = expit(x - b[:, None])
        excess = p @ w - share
        low, high = np.where(excess > 0, b, low), np.where(excess < 0, b, high)
        with np.errstate(divide="ignore", invalid="ignore"):
            moved = b + np.where(excess == 0, 0.0, excess / ((p * (1.0 - p)) @ w))
        outside = ~((moved > low) & (moved < high)) & (excess != 0)
        moved[outside] = (low[outside] + high[outside]) / 2.0
        step, b = np.abs(moved - b).max(), moved
        if step < 1e-12 * (1.0 + np.abs(b).max()):
            break
    return b[back.reshape(-1)]


def difficulty_step(
    responses: Responses,
    nodes: Floats,
    weights: Floats,
    difficulty: Floats,
    prior_mean: Floats | float,
    prior_var: float,
    *,
    n_steps: int = 2,
    tol: float = 0.05,
) -> Floats:
    """Improve the difficulties by Newton steps, cut to 2, for fixed abilities; done when a step is below `tol`."""
    b = difficulty
    for _ in range(n_steps):
        expected, information = item_sums(responses, nodes, weights, Items(b))[:2]
        slope = expected - responses.right_per_item - (b - prior_mean) / prior_var
        step = np.clip(slope / (information + 1.0 / prior_var), -2.0, 2.0)
        b = b + step
        if np.abs(step).max() < tol:
            break
    return b


def _slope_step(responses: Responses, posterior: Posterior, items: Items, prior_var: float) -> Items:
    """Improve difficulties and log discriminations by one step of Fisher scoring per item."""
    b, a = items
    assert a is not None
    sums = item_sums(responses, posterior.nodes, posterior.weights, items)
    s0, v0, s1, v1, v2 = sums
    assert s1 is not None
    assert v1 is not None
    assert v2 is not None
    right, log_a = responses.right_per_item, np.log(a)
    right_theta = responses.right_matrix.T @ posterior.mean
    slope_b = -a * (right - s0) - (b - b.mean()) / prior_var
    slope_a = a * (right_theta - s1 - b * (right - s0)) - log_a / SLOPE_SD**2
    i_bb = a**2 * v0 + 1.0 / prior_var
    i_ab = -(a**2) * (v1 - b * v0)
    i_aa = a**2 * (v2 - 2.0 * b * v1 + b**2 * v0) + 1.0 / SLOPE_SD**2
    det = i_aa * i_bb - i_ab**2
    step_b = np.clip((i_aa * slope_b - i_ab * slope_a) / det, -2.0, 2.0)
    step_a = np.clip((i_bb * slope_a - i_ab * slope_b) / det, -0.5, 0.5)
    return Items(b + step_b, a * np.exp(step_a))


def _best_unit(items: Items, prior_var: float) -> float:
    """Return the factor for abilities and difficulties, its inverse for slopes, that the priors like best.

    The likelihood is the same in every unit; without this the unit creeps. Newton's method on a convex function of the
    factor's logarithm.
    """
    assert items.slope is not None
    logs, spread = np.log(items.slope), items.difficulty - items.difficulty.mean()
    pull, n = float(spread @ spread) / prior_var, len(logs) / SLOPE_SD**2
    log_factor, target = 0.0, float(logs.sum()) / SLOPE_SD**2
    for _ in range(50):
        weight = pull * np.exp(2.0 * log_factor)
        step = (target - n * log_factor - weight) / (n + 2.0 * weight)
        log_factor += float(np.clip(step, -0.5, 0.5))
        if abs(step) < 1e-12:
            break
    return float(np.exp(log_factor))


class _Marginal:
    """One EM step of the marginal likelihood, on a vector of difficulties, log scale and log discriminations."""

    def __init__(
        self, responses: Responses, n_quadrature: int, prior_var: float, estimate_scale: bool, discrimination: bool
    ) -> None:
        self.responses = responses
        self.n_quadrature = n_quadrature
        self.prior_var = prior_var
        self.estimate_scale = estimate_scale
        self.discrimination = discrimination
        self.centre = np.zeros(responses.shape[0])

    def pack(self, items: Items, scale: float) -> Floats:
        logs = [] if items.slope is None else [np.log(items.slope)]
        return np.concatenate([items.difficulty, [np.log(scale)], *logs])

    def unpack(self, state: Floats) -> tuple[Items, float]:
        n = self.responses.shape[1]
        slope = np.exp(state[n + 1 :]) if self.discrimination else None
        return Items(np.clip(state[:n], -_FARTHEST, _FARTHEST), slope), float(
            np.exp(np.clip(state[n], np.log(SMALLEST_SCALE), 20.0))
        )

    def posterior(self, items: Items, scale: float) -> Posterior:
        found = ability_posterior(self.responses, items, 0.0, scale, self.n_quadrature, self.centre)
        self.centre = found.centre
        return found

    def objective(self, items: Items, posterior: Posterior) -> float:
        spread = items.difficulty - items.difficulty.mean()
        value = float(posterior.loglik.sum() - spread @ spread / (2.0 * self.prior_var))
        if items.slope is not None:
            logs = np.log(items.slope)
            value -= float(logs @ logs) / (2.0 * SLOPE_SD**2)
        return value

    def step(self, state: Floats) -> tuple[Floats, float]:
        """Return the next state and the objective at `state`."""
        items, scale = self.unpack(state)
        posterior = self.posterior(items, scale)
        objective = self.objective(items, posterior)
        # The best prior first; its mean moves into the difficulties.
        before = posterior.centre
        posterior, scale = best_prior(posterior, scale, self.estimate_scale)
        b = items.difficulty - float((before - posterior.centre).mean())
        self.centre, nodes = posterior.centre, posterior.nodes
        if items.slope is None:
            b = difficulty_step(self.responses, nodes, posterior.weights, b, b.mean(), self.prior_var)
            return self.pack(Items(b), scale), objective
        new = _slope_step(self.responses, posterior, Items(b, items.slope), self.prior_var)
        if self.estimate_scale:
            factor = _best_unit(new, self.prior_var)
            assert new.slope is not None
            new, scale = Items(new.difficulty * factor, new.slope / factor), scale * factor
            self.centre = self.centre * factor
        return self.pack(new, scale), objective


def fit_marginal(
    responses: Responses,
    *,
    n_quadrature: int,
    prior_var: float,
    estimate_scale: bool,
    discrimination: bool,
    max_iter: int,
    tol: float,
    accelerate: bool,
    verbose: int = 0,
) -> Calibration:
    """Maximise the penalised marginal likelihood by EM, leaping ahead (SQUAREM) where the objective allows."""
    em = _Marginal(responses, n_quadrature, prior_var, estimate_scale, discrimination)
    n = responses.shape[1]
    share = (responses.right_per_item + 0.5) / (responses.per_item + 1.0)
    b = composite_difficulty(share)
    state = em.pack(Items(b, np.ones(n) if discrimination else None), 1.0)
    objectives: list[float] = []
    n_iter, converged = 0, False

    def advance(before: Floats) -> tuple[Floats, float, bool]:
        nonlocal n_iter
        after, objective = em.step(before)
        n_iter += 1
        if verbose:
            print(f"EM step {n_iter}: penalised log-likelihood {objective:.6f}")
        change = after - before
        change[n] = np.exp(after[n]) - np.exp(before[n])
        return after, objective, bool(np.abs(change).max() < tol)

    while n_iter < max_iter and not converged:
        one, objective, converged = advance(state)
        objectives.append(objective)
        if converged or n_iter == max_iter or not accelerate:
            state = one
            continue
        two, objective, converged = advance(one)
        objectives.append(objective)
        speed, bend = one - state, two - 2.0 * one + state
        length = -float(np.linalg.norm(speed)) / max(float(np.linalg.norm(bend)), 1e-300)
        state, before = two, state
        if converged or n_iter >= max_iter or length > -1.0:
            continue
        leap = before - 2.0 * length * speed + length**2 * bend
        far = float(np.abs(leap - two).max())
        if far > _LONGEST_LEAP:  # where the objective is almost flat, extrapolation would leave all bounds
            leap = two + (leap - two) * (_LONGEST_LEAP / far)
        centre = em.centre
        landed, at_leap, arrived = advance(leap)
        if at_leap >= objective:
            state, converged = landed, arrived
            objectives.append(at_leap)
        else:
            em.centre = centre

    items, scale = em.unpack(state)
    posterior = em.posterior(items, scale)
    shift = float(posterior.mean.mean())  # of the order of tol
    items = Items(items.difficulty - shift, items.slope)
    posterior = posterior._replace(centre=posterior.centre - shift, nodes=posterior.nodes - shift)
    return Calibration(items, scale, posterior, n_iter, converged, tuple(objectives))


def fit_joint(
    responses: Responses, *, prior_var: float, max_iter: int, tol: float
) -> tuple[Items, Floats, Floats, int, bool]:
    """Maximise the likelihood over abilities and difficulties alike, both with a normal penalty of `prior_var`.

    Returns
    -------
    tuple
        Items, abilities, their standard errors, number of rounds, whether they sufficed.
    """
    share = (responses.right_per_item + 0.5) / (responses.per_item + 1.0)
    b, theta = composite_difficulty(share), np.zeros(responses.shape[0])
    ones = np.ones((responses.shape[0], 1))
    information = np.ones(len(theta))
    for n_iter in range(1, max_iter + 1):
        theta, information = mode(responses, Items(b), 0.0, 1.0 / prior_var, theta, tol=1e-3)
        shift = theta.mean()
        theta = theta - shift
        new = difficulty_step(responses, theta[:, None], ones, b - shift, (b - shift).mean(), prior_var)
        change, b = np.abs(new - b).max(), new
        if change < tol:
            return Items(b), theta, information**-0.5, n_iter, True
    return Items(b), theta, information**-0.5, max_iter, False
