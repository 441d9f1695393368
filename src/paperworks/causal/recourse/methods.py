"""Policies by the names under which the estimator and the simulator know them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .gaussian_process import GPUCB
from .linear_bandit import DelayedLinUCB
from .policies import ForestUCB, NearestPolicy, RandomPolicy, TrustPolicy

METHODS = ("linucb", "bwo", "gp", "nearest", "trust", "random")

LEARNING = ("linucb", "bwo", "gp")
"""Methods that feedback and the number of the round change."""

_PARAMETERS = {
    "linucb": ("timeout", "alpha", "delta", "bonus", "correct_timeout"),
    "bwo": ("timeout", "n_estimators", "sample_ratio", "gamma", "refit_every"),
    "gp": ("timeout", "gamma", "refit_every"),
}


def make_policy(method: str, n_arms: int, settings: Mapping[str, Any], seed: int) -> Any:
    """Return a policy without experience; `TrustPolicy` comes unfitted."""
    given = {name: settings[name] for name in _PARAMETERS.get(method, ())}
    if method == "linucb":
        return DelayedLinUCB(n_arms, **given)
    if method == "nearest":
        return NearestPolicy()
    kinds: dict[str, Any] = {"bwo": ForestUCB, "gp": GPUCB, "trust": TrustPolicy, "random": RandomPolicy}
    return kinds[method](random_state=seed, **given)


def check_settings(settings: Mapping[str, Any]) -> None:
    """Check the parameters of all policies, also of those that are not used."""
    for method in _PARAMETERS:
        make_policy(method, 1, settings, 0)
