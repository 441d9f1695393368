"""Names of families, and targets as a user gives them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from paperworks._checks import check_choice, check_finite_array

from .custom import Custom, ExponentialFamily
from .exponential import Family
from .gaussians import DiagGaussian, Gaussian, KnownCovGaussian, SphericalGaussian
from .iterated import Beta, Dirichlet, VonMises, Wishart
from .lognormal import DiagLogNormal, LogNormal, SphericalLogNormal
from .members import Member
from .product import Product
from .scalars import Bernoulli, Categorical, Exponential, Gamma, Poisson

__all__ = ["FAMILIES", "make_family", "read_targets"]

_COVARIANCES = ("full", "diag", "spherical")
_SHAPED: dict[str, tuple[type[Family], ...]] = {
    "gaussian": (Gaussian, DiagGaussian, SphericalGaussian),
    "lognormal": (LogNormal, DiagLogNormal, SphericalLogNormal),
}
_PLAIN: dict[str, type[Family]] = {
    family.name: family
    for family in (
        KnownCovGaussian,
        Categorical,
        Bernoulli,
        Poisson,
        Exponential,
        Gamma,
        Beta,
        Dirichlet,
        Wishart,
        VonMises,
    )
}
FAMILIES = (*_SHAPED, *_PLAIN)


def make_family(family: Any, covariance: str, tol: float, max_iter: int) -> Family:
    """Return the family of a name, of an `ExponentialFamily`, or the product of a tuple of them."""
    if isinstance(family, ExponentialFamily):
        return Custom(family, tol, max_iter)
    if isinstance(family, tuple):
        if not family:
            raise ValueError("family must name at least one block, got an empty tuple")
        return Product([make_family(block, covariance, tol, max_iter) for block in family], tol, max_iter)
    if not isinstance(family, str):
        raise TypeError(f"family must be a name, an ExponentialFamily or a tuple of them, got {family!r}")
    check_choice(family, "family", FAMILIES)
    shape = _COVARIANCES.index(check_choice(covariance, "covariance", _COVARIANCES))
    return (_SHAPED[family][shape] if family in _SHAPED else _PLAIN[family])(tol, max_iter)


def read_targets(targets: Any, y: ArrayLike | None) -> tuple[list[Any], list[str], Any]:
    """Return the targets as a list of tuples and arrays, a name for each, and the labels if there are any."""
    if y is not None:
        rows = check_finite_array(targets, "targets")
        labels = np.asarray(y)
        if labels.ndim != 1 or rows.ndim == 0 or len(labels) != len(rows):
            raise ValueError(f"y must hold one label for each row of targets, got shapes {labels.shape}, {rows.shape}")
        if labels.dtype.kind == "f" and np.isnan(labels).any():
            raise ValueError("y holds NaN")
        classes, index = np.unique(labels, return_inverse=True)
        found: list[Any] = [rows[index == i] for i in range(len(classes))]
        names = [f"targets of label {label!r}" for label in classes.tolist()]
    else:
        classes = None
        if not isinstance(targets, list | tuple) and not (isinstance(targets, np.ndarray) and targets.ndim == 3):
            raise TypeError(
                f"targets must be a list of tuples (parameters) or arrays (samples), got {type(targets).__name__}; for "
                "one array of rows give their labels as y"
            )
        found = [target.params if isinstance(target, Member) else target for target in targets]
        names = [f"targets[{i}]" for i in range(len(found))]
    if len(found) < 2:
        raise ValueError(f"targets must hold at least 2 targets, got {len(found)}")
    return found, names, classes
