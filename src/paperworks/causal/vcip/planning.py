"""Search for the actions of the smallest score: by gradient for doses, by flips for yes and no."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paperworks._checks import check_integer, check_positive, extra

with extra("torch"):
    import torch
    from torch import Tensor

__all__ = ["Plan", "by_flips", "by_gradient", "by_sampling", "check_bounds", "cost_function"]

Score = Callable[[Tensor], Tensor]
"""Actions (m, n, n_steps, n_actions) to scores (m, n)."""

LR = 0.05  # the authors' code takes 0.01, which in 100 steps hardly leaves the starts
LARGEST_LIST = 4096


class Plan(NamedTuple):
    """Planned actions.

    Parameters
    ----------
    actions : ndarray of float64, shape (n, n_steps, n_actions)
        The actions.
    score : ndarray of float64, shape (n,)
        Their scores without the cost, smaller is better; after closed-loop planning those of the last step.
    outcome : ndarray of float64, shape (n, n_outcomes), or None
        Predicted outcome after the last action, in raw units; None from a model that predicts none.

    Examples
    --------
    >>> from paperworks.causal import OutcomeSearch, tumour_cohort
    >>> cohort = tumour_cohort(20, gamma=4.0, length=30, random_state=0)
    >>> model = OutcomeSearch(horizon=3, max_steps=5, random_state=0).fit(cohort.outcomes, cohort.actions)
    >>> plan = model.plan(cohort.outcomes[:2], cohort.actions[:2], target=[0.0, 0.0], n_iter=5)
    >>> plan.actions.shape, plan.outcome.shape
    ((2, 3, 2), (2, 1))
    """

    actions: NDArray[np.float64]
    score: NDArray[np.float64]
    outcome: NDArray[np.float64] | None


def check_bounds(bounds: Any, n_actions: int) -> tuple[Tensor, Tensor]:
    """Return lower and upper bounds, (n_actions,)."""
    try:
        low, high = (np.broadcast_to(np.asarray(b, dtype=np.float64), (n_actions,)) for b in bounds)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"bounds must be a pair (low, high) of numbers or of {n_actions} numbers each, got {bounds!r}"
        ) from error
    if not ((low >= 0) & (low < high) & (high <= 1)).all():
        raise ValueError(f"bounds must satisfy 0 <= low < high <= 1, got {bounds!r}")
    return torch.tensor(low.copy(), dtype=torch.float32), torch.tensor(high.copy(), dtype=torch.float32)


def cost_function(cost: Any, n_actions: int) -> Score:
    """Return the cost of actions: nothing, a price per unit, or the caller's function of (m, n_steps, n_actions)."""
    if cost is None:
        return lambda actions: actions.new_zeros(actions.shape[:2])
    if callable(cost):

        def called(actions: Tensor) -> Tensor:
            found = cost(actions.flatten(0, 1))
            if not isinstance(found, Tensor) or found.shape != (actions.shape[0] * actions.shape[1],):
                raise ValueError("cost must map a tensor (m, n_steps, n_actions) to a tensor (m,)")
            if not bool(torch.isfinite(found).all()):
                raise ValueError("cost must be finite, got NaN or infinity")
            return found.view(actions.shape[:2])

        return called
    prices = [check_positive(price, "cost", zero_ok=True) for price in np.ravel(cost).tolist()]
    if len(prices) not in (1, n_actions):
        raise ValueError(f"cost must be a number, {n_actions} numbers or a function, got {cost!r}")
    return lambda actions: (actions * actions.new_tensor(prices)).sum(dim=(2, 3))


class _Best:
    """The best actions of each person so far."""

    def __init__(self) -> None:
        self.actions: Any = None
        self.value: Any = None

    def offer(self, actions: Tensor, value: Tensor) -> None:
        value, which = value.detach().min(dim=0)
        found = actions.detach()[which, torch.arange(len(which))]
        if self.value is None:
            self.actions, self.value = found.clone(), value
            return
        better = value < self.value
        self.actions = torch.where(better[:, None, None], found, self.actions)
        self.value = torch.where(better, value, self.value)


def by_gradient(score: Score, starts: Tensor, low: Tensor, high: Tensor, n_iter: int) -> Tensor:
    """Descend with Adam from `starts` (m, n, n_steps, n_actions) in the logits of the box; return the best visited."""
    span = high - low
    logits = torch.logit(((starts - low) / span).clamp(0.01, 0.99)).requires_grad_()
    optimiser = torch.optim.Adam([logits], lr=LR)
    best = _Best()
    for step in range(n_iter + 1):
        actions = low + span * torch.sigmoid(logits)
        value = score(actions)
        best.offer(actions, value)
        if step < n_iter:
            (logits.grad,) = torch.autograd.grad(value.sum(), [logits])
            optimiser.step()
    return best.actions


def by_sampling(score: Score, starts: Tensor, low: Tensor, high: Tensor, n_iter: int, generator: Any) -> Tensor:
    """Score the starts and as many uniform draws `n_iter` times; return the best."""
    best = _Best()
    with torch.no_grad():
        actions = torch.minimum(torch.maximum(starts, low), high)
        best.offer(actions, score(actions))
        for _ in range(n_iter):
            actions = low + (high - low) * torch.rand(starts.shape, generator=generator).to(starts)
            best.offer(actions, score(actions))
    return best.actions


def by_flips(score: Score, starts: Tensor, n_iter: int) -> Tensor:
    """Binary actions: all sequences if there are few; else flip the entry that helps most, until none does."""
    _, n, n_steps, n_actions = starts.shape
    size = n_steps * n_actions
    best = _Best()
    with torch.no_grad():
        if 2**size <= LARGEST_LIST:
            codes = torch.arange(2**size, device=starts.device)
            for chunk in codes.split(256):
                bits = (chunk[:, None] >> torch.arange(size, device=starts.device)) & 1
                actions = bits.to(starts.dtype).view(-1, 1, n_steps, n_actions).expand(-1, n, -1, -1)
                best.offer(actions, score(actions))
            return best.actions
        flips = torch.eye(size, device=starts.device).view(size, 1, n_steps, n_actions)
        for start in starts:
            current, value = start, score(start[None])[0]
            for _ in range(n_iter):
                neighbours = (current - flips).abs()
                lowest, which = score(neighbours).min(dim=0)
                better = lowest < value
                if not bool(better.any()):
                    break
                moved = neighbours[which, torch.arange(n)]
                current = torch.where(better[:, None, None], moved, current)
                value = torch.where(better, lowest, value)
            best.offer(current[None], value[None])
    return best.actions


def check_search(n_iter: Any, restarts: Any) -> tuple[int, int]:
    """Return the checked sizes of the search."""
    return check_integer(n_iter, "n_iter", minimum=1), check_integer(restarts, "restarts", minimum=1)
