"""Speed of closed-form Pareto fronts beside searches for them and beside iterated barycentres."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray
from ot.gaussian import bures_wasserstein_barycenter
from scipy import special
from scipy.optimize import brentq

from benchmarks import Case
from paperworks.optim import ParetoFamily
from paperworks.studies.optim.pareto_family import fitted, front_points

Floats = NDArray[np.float64]


def gaussians(d: int, m: int) -> list[tuple[Floats, Floats]]:
    """Return m Gaussian targets in d dimensions."""
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(m, d, d + 2))
    return list(zip(rng.normal(size=(m, d)), factors @ factors.swapaxes(1, 2) / d, strict=True))


def front_in_a_loop(targets: list[tuple[Floats, Floats]], weights: Floats) -> Floats:
    """Mix natural parameters weight by weight with dense inverses, and take the KL divergences one by one."""
    precisions = [np.linalg.inv(cov) for _, cov in targets]
    values = []
    for row in weights:
        precision = sum(w * p for w, p in zip(row, precisions, strict=True))
        cov = np.linalg.inv(precision)
        pull = sum(w * p @ mean for w, p, (mean, _) in zip(row, precisions, targets, strict=True))
        mean = cov @ pull
        for (other, other_cov), p in zip(targets, precisions, strict=True):
            away = mean - other
            gap = np.linalg.slogdet(other_cov)[1] - np.linalg.slogdet(cov)[1]
            values.append((np.trace(p @ cov) + away @ p @ away - len(away) + gap) / 2)
    return np.reshape(values, weights.shape)


def wasserstein(targets: list[tuple[Floats, Floats]], weights: Floats) -> list[Floats]:
    """Return POT's barycentres, weight by weight."""
    means, covs = (np.stack(parts) for parts in zip(*targets, strict=True))
    return [bures_wasserstein_barycenter(means, covs, weights=row)[1] for row in weights]


def gammas_by_root(targets: list[tuple[float, float]], weights: Floats) -> Floats:
    """Match moments of gamma mixtures with scipy's root finder, weight by weight."""
    shape, rate = np.array(targets).T
    logs = special.digamma(shape) - np.log(rate)
    found = []
    for row in weights:
        s = np.log(row @ (shape / rate)) - row @ logs
        found.append(brentq(lambda k, s=s: np.log(k) - special.digamma(k) - s, 1e-3, 1e6))
    return np.array(found)


def cases() -> list[Case]:
    """Return the comparisons."""
    small, middle, large = gaussians(2, 2), gaussians(10, 3), gaussians(100, 3)
    gammas = [(2.0, 1.0), (5.0, 3.0), (0.3, 0.2)]
    weights = np.random.default_rng(0).dirichlet(np.ones(3), 10_000)
    ten, hundred = ParetoFamily().fit(middle), ParetoFamily().fit(large)
    forward = ParetoFamily("gamma", divergence="forward").fit(gammas)
    settings = {"population": 100, "generations": 200}
    return [
        Case(
            "front of 2 Gaussians, d = 2: 1,001 points",
            lambda: fitted("gaussian-2d", 0).front(1001),
            partial(front_points, "nsga2", "gaussian-2d", 0, settings),
            "pymoo NSGA-II, 100 x 200",
        ),
        Case(
            "21 weights of 2 Gaussians, d = 2",
            lambda: fitted("gaussian-2d", 0).front(21),
            partial(front_points, "weighted-sum-bfgs", "gaussian-2d", 0, {"n_sums": 21}),
            "scipy BFGS of weighted sums",
        ),
        Case(
            "barycentres of 2 Gaussians, d = 2: 100 weights",
            partial(ParetoFamily().fit(small).front, 100),
            partial(wasserstein, small, np.column_stack([np.linspace(0, 1, 100), np.linspace(1, 0, 100)])),
            "ot.gaussian.bures_wasserstein_barycenter",
            "another barycentre, by iteration",
        ),
        Case(
            "front of 3 Gaussians, d = 10: 1,000 points",
            partial(ten.front, 1000),
            partial(front_in_a_loop, middle, ten.front(1000).weights),
            "NumPy loop over the closed form",
        ),
        Case(
            "front of 3 Gaussians, d = 100: 100 points",
            partial(hundred.front, 100),
            partial(front_in_a_loop, large, hundred.front(100).weights),
            "NumPy loop over the closed form",
        ),
        Case(
            "forward mixtures of 3 gammas, 10,000 weights",
            partial(forward.solve, weights),
            partial(gammas_by_root, gammas, weights),
            "scipy.optimize.brentq in a loop",
        ),
    ]
