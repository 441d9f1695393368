"""Distributions that can't be closer to one reference without being farther from another, in closed form.

Several targets from one exponential family are given: client populations, years, expert priors, sensor models. Under
the KL divergence from a member to the targets the Pareto set is the set of mixtures of their natural parameters, under
the KL divergence from the targets to a member that of their expectation parameters. So fronts, barycentres, min-max
points and constrained choices are exact and take microseconds. A multi-objective variational autoencoder carries the
same idea to images: each set has its own Gaussian prior, and samples come from Pareto points between the priors.

Reference: X. Zhang, P. Li, Y. Yu, Y. Zhang, H. Zhao, Q. Zhang, "Multiobjective Distribution Matching", ICML 2025, PMLR
267:75413-75426. Use it for consensus and worst-group references within a family. Don't use it where targets are far
from any one member (several modes): forward members then cover the gaps, reverse ones may sit where no data is.

`MOVAE`, `fit_movae` and families of your own need torch; all else works without it.
"""

from typing import TYPE_CHECKING, Any

from .custom import ExponentialFamily
from .members import Front, Member, Solution
from .pareto import ParetoFamily

if TYPE_CHECKING:
    from .movae import MOVAE, fit_movae

__all__ = ["MOVAE", "ExponentialFamily", "Front", "Member", "ParetoFamily", "Solution", "fit_movae"]


def __getattr__(name: str) -> Any:
    if name in ("MOVAE", "fit_movae"):
        from . import movae

        return getattr(movae, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
