"""Speed of choosing a cut-off beside a loop over cut-offs, plain or in NumPy, and beside mapie's p-values."""

from __future__ import annotations

import math
import warnings
from functools import partial

import numpy as np
from mapie.risk_control.methods import compute_hoeffding_bentkus_p_value
from numpy.typing import NDArray
from scipy import special, stats
from scipy.optimize import brentq

from benchmarks import Case
from paperworks.conformal import DistortionRiskControl
from paperworks.conformal.risk_control.bounds import _berk_jones

Floats = NDArray[np.float64]

BETA, ALPHA, Z = 0.75, 0.35, float(stats.norm.isf(0.05))


def scores(n: int, m: int) -> tuple[Floats, Floats]:
    """Return machine and human scores of n prompts with m candidates."""
    rng = np.random.default_rng(0)
    human = rng.beta(0.5, 3, size=(n, m))
    return np.clip(human + rng.normal(scale=0.2, size=human.shape), 0, 1), human


def tail_bound(losses: Floats) -> float:
    """Return the L bound of the mean of the worst quarter."""
    n = losses.size
    ordered = np.sort(losses)
    first = math.ceil(n * BETA) - 1
    excess = np.maximum(ordered, ordered[first]) - ordered[first]
    risk = ordered[first + 1 :].sum() / n / (1 - BETA) + ordered[first] * ((first + 1) / n - BETA) / (1 - BETA)
    return float(risk + Z * excess.std() / (1 - BETA) / math.sqrt(n))


def plain_loop(machine: Floats, human: Floats, lambdas: Floats) -> list[float]:
    """Go through cut-offs, prompts and candidates one by one, as the published scripts do."""
    rows = [list(zip(u.tolist(), v.tolist(), strict=True)) for u, v in zip(machine, human, strict=True)]
    return [
        tail_bound(np.array([max((v for u, v in row if u <= cut), default=0.0) for row in rows])) for cut in lambdas
    ]


def numpy_loop(machine: Floats, human: Floats, lambdas: Floats) -> list[float]:
    """Go through the cut-offs, with whole arrays inside."""
    return [tail_bound(np.where(machine <= cut, human, 0.0).max(axis=1)) for cut in lambdas]


def mapie_mean(machine: Floats, human: Floats, lambdas: Floats) -> Floats:
    """Return mapie's p-values for the mean at each cut-off."""
    means = np.array([np.where(machine <= cut, human, 0.0).max(axis=1).mean() for cut in lambdas])
    return compute_hoeffding_bentkus_p_value(means, len(machine), ALPHA)[:, 0]


def ours(risk: str, machine: Floats, human: Floats, lambdas: Floats) -> DistortionRiskControl:
    """Fit the control."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return DistortionRiskControl(risk, BETA, alpha=ALPHA, lambdas=lambdas).fit(machine, human)


def berk_jones_by_all_states(n: int, delta: float) -> Floats:
    """Solve for the Berk-Jones bounds with the binomial recursion over all states."""
    ranks = np.arange(1, n + 1)

    def probability(log_c: float) -> float:
        levels = special.betaincinv(ranks, n - ranks + 1, math.exp(log_c))
        state, before = np.array([1.0]), 0.0
        for i, level in enumerate(levels):
            after = np.zeros(i + 1)
            step = (level - before) / (1 - before)
            for j, mass in enumerate(state):
                counts = np.arange(i + 1 - j)
                after[j:] += mass * stats.binom.pmf(counts, n - j, step)
            state, before = after, level
        return float(state.sum())

    log_c = brentq(lambda x: probability(x) - (1 - delta), math.log(delta / n), math.log(delta), xtol=1e-9)
    return np.asarray(special.betaincinv(ranks, n - ranks + 1, math.exp(log_c)))


def cases() -> list[Case]:
    """Return the comparisons."""
    grid = np.linspace(0.021, 0.856, 1000)
    small, middle, large, flat = scores(600, 40), scores(2500, 40), scores(6000, 40), scores(100_000, 1)
    return [
        Case(
            "600 prompts x 40 candidates, 100 cut-offs",
            partial(ours, "cvar", *small, grid[::10]),
            partial(plain_loop, *small, grid[::10]),
            "loop over cut-offs, prompts and candidates",
        ),
        Case(
            "2,500 prompts x 40 candidates, 1,000 cut-offs",
            partial(ours, "cvar", *middle, grid),
            partial(numpy_loop, *middle, grid),
            "NumPy loop over cut-offs",
        ),
        Case(
            "6,000 prompts x 40 candidates, 1,000 cut-offs",
            partial(ours, "cvar", *large, grid),
            partial(numpy_loop, *large, grid),
            "NumPy loop over cut-offs",
        ),
        Case(
            "100,000 prompts x 1 candidate, 1,000 cut-offs",
            partial(ours, "cvar", *flat, grid),
            partial(numpy_loop, *flat, grid),
            "NumPy loop over cut-offs",
        ),
        Case(
            "the mean: 2,500 prompts x 40 candidates, 1,000 cut-offs",
            partial(ours, "mean", *middle, grid),
            partial(mapie_mean, *middle, grid),
            "mapie compute_hoeffding_bentkus_p_value on NumPy losses",
        ),
        Case(
            "Berk-Jones bounds, n = 60",
            partial(_berk_jones.__wrapped__, 60, 0.05),
            partial(berk_jones_by_all_states, 60, 0.05),
            "binomial recursion over all states",
        ),
    ]
