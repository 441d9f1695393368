"""Speed of scoring, training and simulation beside loops over people, candidates and days, as published code has."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks import Case
from paperworks.causal import VCIP, dose_curve, perturb_actions, tumour_cohort, tumour_rollout

Floats = NDArray[np.float64]

DEADLY, CAPACITY = np.pi / 6 * 13**3, np.pi / 6 * 30**3


def one_by_one(model: VCIP, past: dict[str, Floats], candidates: Floats, target: Floats) -> Floats:
    """Score each candidate of each person in a forward pass of its own, the history encoded again each time."""
    found = np.empty(candidates.shape[:2])
    for k, i in np.ndindex(*found.shape):
        own = {name: part[i : i + 1] for name, part in past.items()}
        found[k, i] = model.score(**own, candidates=candidates[k : k + 1, i : i + 1], target=target[i : i + 1])[0, 0]
    return found


def loop_rollout(params: dict[str, Floats], volume: Floats, actions: Floats) -> list[list[float]]:
    """Go through patients and days one by one; doses are computed beforehand."""
    dose = dose_curve(actions)
    paths = []
    for i in range(len(volume)):
        v, c, path = float(volume[i]), 0.0, []
        own = {name: float(values[i]) for name, values in params.items()}
        for chemo, radio in dose[i]:
            c = 0.5 * c + 5.0 * chemo
            r = 2.0 * radio
            growth = own["rho"] * np.log(CAPACITY / max(v, 1e-7))
            v = v * (1.0 + growth - own["beta_c"] * c - (own["alpha"] * r + own["beta"] * r**2))
            v = min(max(v, 0.0), DEADLY)
            path.append(v)
        paths.append(path)
    return paths


def separate_steps(model: VCIP, z0: Any, actions: Any, target: Any) -> Any:
    """Step prior and posterior as two LSTM modules, called anew at every step."""
    network = model.network_
    codes, _ = network.codes(actions)
    prior, posterior = MODULES
    z, states = z0, [None, None]
    means = []
    for s in range(actions.shape[1]):
        both = []
        for k, (module, head) in enumerate((prior, posterior)):
            parts = [z, codes[:, s]] + ([target] if k else [])
            out, states[k] = module(torch.cat(parts, dim=1)[:, None], states[k])
            both.append(head(torch.cat([out[:, 0], codes[:, s]], dim=1)))
        z = both[1][:, :16]
        means.append(torch.stack(both))
    return torch.stack(means)


def _modules() -> list[Any]:
    def head() -> Any:
        return torch.nn.Sequential(torch.nn.Linear(32, 16), torch.nn.ELU(), torch.nn.Linear(16, 32))

    return [(torch.nn.LSTM(32 + k, 16, 2, batch_first=True), head()) for k in (0, 1)]


MODULES = _modules()


def twin_steps(model: VCIP, z0: Any, actions: Any, target: Any) -> None:
    """Step both together, forward and backward, as the method does."""
    codes, _ = model.network_.codes(actions)
    _, means, log_vars = model.network_.transition(z0, codes, target)
    (means.sum() + log_vars.sum()).backward()


def apart(model: VCIP, z0: Any, actions: Any, target: Any) -> None:
    """Step them apart, forward and backward."""
    separate_steps(model, z0, actions, target).sum().backward()


def cases() -> list[Case]:
    """Return the comparisons."""
    warnings.simplefilter("ignore", UserWarning)
    cohort = tumour_cohort(100, gamma=4.0, random_state=0)
    model = VCIP(max_steps=10, random_state=0).fit(cohort.outcomes, cohort.actions, static=cohort.static)
    model.network_.requires_grad_(True)  # as in training
    past = {"outcomes": cohort.outcomes[:, :41], "actions": cohort.actions[:, :40], "static": cohort.static}
    candidates, target = perturb_actions(cohort.actions[:, 40:46], 100, random_state=0), cohort.outcomes[:, 46, 0]
    few = ({name: part[:10] for name, part in past.items()}, candidates[:20, :10], target[:10])
    big = tumour_cohort(1000, gamma=4.0, random_state=0)
    volume = big.outcomes[:, 0, 0]
    generator = torch.Generator().manual_seed(0)
    z0, a, y = (torch.rand(256, *shape, generator=generator) for shape in ((16,), (6, 2), (1,)))
    return [
        Case(
            "score 10 people x 20 candidates of 6 steps",
            partial(model.score, **few[0], candidates=few[1], target=few[2]),
            partial(one_by_one, model, *few),
            "one forward pass per person and candidate",
        ),
        Case(
            "simulate 1,000 patients x 60 days",
            partial(tumour_rollout, big.params, volume, np.zeros(1000), big.actions),
            partial(loop_rollout, big.params, volume, big.actions),
            "loop over patients and days",
        ),
        Case(
            "prior and posterior, batch 256, 6 steps, forward and backward",
            partial(twin_steps, model, z0, a, y),
            partial(apart, model, z0, a, y),
            "two nn.LSTM called at each step",
        ),
    ]
