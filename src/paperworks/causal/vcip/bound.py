"""The terms of the bound, one value per sequence."""

from __future__ import annotations

from paperworks._checks import extra

with extra("torch"):
    import torch
    from torch import Tensor
    from torch.distributions import Bernoulli
    from torch.nn import functional as F

__all__ = ["BetaLaw", "action_terms", "gaussian_kl", "policy_mode", "reconstruction", "step_term"]

STEP_CLAMP, ACTION_CLAMP = (0.01, 0.99), (0.1, 0.9)  # densities of the Beta law explode near 0 and 1
STEP_WEIGHT = 0.1


def gaussian_kl(mean_q: Tensor, log_var_q: Tensor, mean_p: Tensor, log_var_p: Tensor) -> Tensor:
    """Return KL(q || p) of Gaussians, entry by entry."""
    apart = (mean_q - mean_p).square() * torch.exp(-log_var_p)
    return 0.5 * (log_var_p - log_var_q + torch.expm1(log_var_q - log_var_p) + apart)


def reconstruction(predicted: Tensor, target: Tensor, scale: float | None) -> Tensor:
    """Return the mean squared error, or half the squared error in units of `scale`, summed over outcomes."""
    squares = (predicted - target).square()
    return squares.mean(dim=-1) if scale is None else 0.5 * squares.sum(dim=-1) / scale**2


class BetaLaw:
    """Beta laws of raw parameters whose last dimension holds all alphas, then all betas.

    Density and entropy share the log-gamma terms, which is twice as fast as `torch.distributions.Beta`.
    """

    def __init__(self, raw: Tensor, floor: float) -> None:
        self.alpha, self.beta = (F.softplus(raw) + floor).chunk(2, dim=-1)
        self.all = torch.stack([self.alpha, self.beta, self.alpha + self.beta])
        logs = torch.lgamma(self.all)
        self.log_constant = logs[2] - logs[0] - logs[1]

    def log_prob(self, x: Tensor) -> Tensor:
        return (self.alpha - 1) * torch.log(x) + (self.beta - 1) * torch.log1p(-x) + self.log_constant

    def entropy(self) -> Tensor:
        slopes = torch.digamma(self.all)
        return (
            (self.alpha + self.beta - 2) * slopes[2]
            - (self.alpha - 1) * slopes[0]
            - (self.beta - 1) * slopes[1]
            - self.log_constant
        )


def _bernoulli(logits: Tensor) -> Bernoulli:
    return Bernoulli(torch.sigmoid(logits).clamp(*ACTION_CLAMP), validate_args=False)


def step_term(raw: Tensor, actions: Tensor, binary: bool, bound: float, entropy_reg: float) -> Tensor:
    """Return the term that lowers the likelihood of each next action given the state before it.

    It stands for -log pi of the identity between the interventional and the observational bound. The likelihood is
    bounded from below for each sequence and step, not for the batch. Binary treatments have the sign of continuous
    ones here; in the authors' code theirs is the opposite, against the derivation.
    """
    law = _bernoulli(raw) if binary else BetaLaw(raw, 1e-3)
    given = actions if binary else actions.clamp(*STEP_CLAMP)
    likelihood = law.log_prob(given).mean(dim=2).clamp_min(bound).mean(dim=1)
    return STEP_WEIGHT * likelihood - entropy_reg * law.entropy().mean(dim=(1, 2))


def action_terms(raw: Tensor, actions: Tensor, binary: bool, point: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return -log p(a | history), and the rest of the action term: error of the point prediction less the entropy."""
    law = _bernoulli(raw) if binary else BetaLaw(raw, 0.1)
    unlikely = -law.log_prob(actions if binary else actions.clamp(*ACTION_CLAMP)).sum(dim=(1, 2))
    if point is None:
        return unlikely, torch.zeros_like(unlikely)
    if binary:
        error = F.binary_cross_entropy_with_logits(point, actions, reduction="none")
    else:
        error = (torch.sigmoid(point) - actions).square()
    return unlikely, (error - law.entropy()).mean(dim=(1, 2))


def policy_mode(raw: Tensor, binary: bool) -> Tensor:
    """Return the most likely actions, those of a Beta law within the range to which actions are clamped."""
    if binary:
        return (raw > 0).to(raw.dtype)
    low, high = ACTION_CLAMP
    law = BetaLaw(raw, 0.1)
    alpha, beta = law.alpha, law.beta
    inner = ((alpha - 1) / (alpha + beta - 2).clamp_min(1e-6)).clamp(low, high)
    return torch.where((alpha > 1) & (beta > 1), inner, torch.where(alpha >= beta, high, low))
