"""Targets in every family, with an unconstrained parametrisation of its members."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, softmax

from paperworks.optim import ParetoFamily

Vector = np.ndarray


class Case(NamedTuple):
    options: dict[str, Any]
    targets: list[tuple[Any, ...]]
    unpack: Callable[[Vector], tuple[Any, ...]]
    size: int
    """Length of the vector that `unpack` takes."""

    def fitted(self, divergence: str) -> ParetoFamily:
        return ParetoFamily(**self.options, divergence=divergence).fit(self.targets)


def full(v: Vector) -> tuple[Vector, Vector]:
    root = np.array([[np.exp(v[2]), 0.0], [v[3], np.exp(v[4])]])
    return v[:2], root @ root.T


def sphere(v: Vector) -> tuple[Vector, float]:
    length = float(np.linalg.norm(v))
    return v / length, length


_COV = [[2.0, 0.3], [0.3, 0.5]]
_FULL = [
    ([0.0, 1.0], [[1.0, 0.4], [0.4, 2.0]]),
    ([2.0, -1.0], [[3.0, -0.5], [-0.5, 0.4]]),
    ([-1.0, 0.5], [[0.5, 0.1], [0.1, 0.6]]),
]
_DIAG = [([0.0, 1.0], [1.0, 2.0]), ([2.0, -1.0], [3.0, 0.4]), ([-1.0, 0.5], [0.5, 0.6])]
_ROUND = [([0.0, 1.0], 1.0), ([2.0, -1.0], 3.0), ([-1.0, 0.5], 0.3)]


def gaussian(name: str, shape: str) -> Case:
    targets, unpack, size = {
        "full": (_FULL, full, 5),
        "diag": (_DIAG, lambda v: (v[:2], np.exp(v[2:])), 4),
        "spherical": (_ROUND, lambda v: (v[:2], np.exp(v[2])), 3),
    }[shape]
    return Case({"family": name, "covariance": shape}, targets, unpack, size)


CASES = {
    **{f"gaussian-{shape}": gaussian("gaussian", shape) for shape in ("full", "diag", "spherical")},
    **{f"lognormal-{shape}": gaussian("lognormal", shape) for shape in ("full", "diag", "spherical")},
    "known-cov": Case(
        {"family": "gaussian_known_cov"},
        [([0.0, 1.0], _COV), ([2.0, -1.0], _COV), ([-1.0, 0.5], _COV)],
        lambda v: (v, _COV),
        2,
    ),
    "categorical": Case(
        {"family": "categorical"},
        [([0.7, 0.2, 0.1],), ([0.1, 0.3, 0.6],), ([0.2, 0.5, 0.3],)],
        lambda v: (softmax(np.append(v, 0.0)),),
        2,
    ),
    "bernoulli": Case({"family": "bernoulli"}, [(0.9,), (0.3,), (0.05,)], lambda v: (expit(v[0]),), 1),
    "poisson": Case({"family": "poisson"}, [(0.5,), (3.0,), (11.0,)], lambda v: (np.exp(v[0]),), 1),
    "exponential": Case({"family": "exponential"}, [(0.5,), (3.0,), (11.0,)], lambda v: (np.exp(v[0]),), 1),
    "gamma": Case({"family": "gamma"}, [(0.7, 2.0), (3.0, 1.0), (9.0, 0.5)], lambda v: (np.exp(v[0]), np.exp(v[1])), 2),
    "beta": Case({"family": "beta"}, [(0.7, 2.0), (3.0, 1.0), (9.0, 5.0)], lambda v: (np.exp(v[0]), np.exp(v[1])), 2),
    "dirichlet": Case(
        {"family": "dirichlet"},
        [([0.7, 2.0, 1.0],), ([3.0, 1.0, 5.0],), ([9.0, 5.0, 4.0],)],
        lambda v: (np.exp(v),),
        3,
    ),
    "wishart": Case(
        {"family": "wishart"},
        [(4.0, [[1.0, 0.4], [0.4, 2.0]]), (9.0, [[3.0, -0.5], [-0.5, 0.4]]), (2.5, [[0.5, 0.1], [0.1, 0.6]])],
        lambda v: (1 + np.exp(v[0]), full(np.concatenate([[0, 0], v[1:]]))[1]),
        4,
    ),
    "circle": Case({"family": "vonmises"}, [(0.3, 2.0), (2.0, 5.0), (1.0, 0.4)], sphere, 2),
    "sphere": Case(
        {"family": "vonmises"},
        [([1.0, 0.0, 0.0], 2.0), ([0.0, 0.6, 0.8], 7.0), ([0.0, 1.0, 0.0], 0.5)],
        sphere,
        3,
    ),
    "product": Case(
        {"family": ("gamma", "poisson")},
        [((0.7, 2.0), (3.0,)), ((3.0, 1.0), (1.0,)), ((9.0, 0.5), (8.0,))],
        lambda v: tuple(np.exp(v)),
        3,
    ),
}
