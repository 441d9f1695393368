"""How the common battery makes and uses the public classes."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from paperworks.optim import MOVAE, ExponentialFamily, Front, Member, ParetoFamily, Solution
from tests.battery import Example

TARGETS = [([0.0, 0.0], [[1.0, 0.3], [0.3, 2.0]]), ([2.0, 1.0], [[0.5, 0.0], [0.0, 1.0]])]


def use_pareto(pareto: ParetoFamily, dtype: str) -> NDArray[np.float64]:
    rng = np.random.default_rng(0)
    samples = [(rng.normal(size=(50, 2)) + i).astype(dtype) for i in range(3)]
    pareto.fit(samples)
    return np.concatenate([pareto.front(10).objectives.ravel(), pareto.minimax().objectives])


def use_member(member: Member, dtype: str) -> NDArray[np.float64]:
    x = np.linspace(-1, 1, 8).reshape(4, 2).astype(dtype)
    return np.concatenate([member.logpdf(x), member.sample(3, random_state=0).ravel(), member.natural])


def use_solution(solution: Solution, dtype: str) -> NDArray[np.float64]:
    return np.concatenate([solution.weights, solution.objectives.astype(dtype), use_member(solution.member, dtype)])


def use_front(front: Front, dtype: str) -> NDArray[np.float64]:
    return np.concatenate([front.objectives.ravel().astype(dtype), front.members.cov.ravel()])


def log_partition(theta: torch.Tensor) -> torch.Tensor:
    return -torch.log(-theta[0])


def statistics(x: torch.Tensor) -> torch.Tensor:
    return x[:, None]


def negative(theta: torch.Tensor) -> torch.Tensor:
    return theta[:, 0] < 0


def use_family(family: ExponentialFamily, dtype: str) -> NDArray[np.float64]:
    targets = [(np.array([-1.0], dtype=dtype),), (np.array([-3.0], dtype=dtype),)]
    return ParetoFamily(family, divergence="forward").fit(targets).front(5).objectives


def use_movae(model: MOVAE, dtype: str) -> NDArray[np.float64]:
    model = model.to(getattr(torch, dtype))
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(6, 5, generator=generator, dtype=torch.float64).to(getattr(torch, dtype))
    with torch.no_grad():
        mean, log_variance = model.encode(x)
        found = torch.cat([model.decode(mean), model.divergences(mean, log_variance)], dim=1)
    return found.double().numpy()


def make_movae(seed: int) -> MOVAE:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = MOVAE(2, 5, latent_dim=3, hidden=(6,))
        for prior in (model.prior_mean, model.prior_root):
            torch.nn.init.normal_(prior, std=0.3)
    return model


EXAMPLES = {
    "ParetoFamily": Example(make=lambda seed: ParetoFamily(divergence="forward", reg=0.01), use=use_pareto),
    "Member": Example(make=lambda seed: ParetoFamily().fit(TARGETS).solve([0.3, 0.7]), use=use_member),
    "Solution": Example(make=lambda seed: ParetoFamily().fit(TARGETS).minimax(), use=use_solution),
    "Front": Example(make=lambda seed: ParetoFamily().fit(TARGETS).front(7), use=use_front),
    "ExponentialFamily": Example(
        make=lambda seed: ExponentialFamily(log_partition, statistics, negative), use=use_family
    ),
    "MOVAE": Example(make=make_movae, use=use_movae),
}
