"""The networks: history, actions, latent transition, behaviour policy, and the two plain ones of the baselines."""

from __future__ import annotations

from typing import Any, NamedTuple

from paperworks._checks import extra

with extra("torch"):
    import torch
    from torch import Tensor, nn
    from torch.nn import functional as F

from .bound import action_terms, gaussian_kl, reconstruction, step_term

__all__ = ["BehaviourNetwork", "OutcomeNetwork", "Sizes", "VariationalNetwork", "Window"]

LOG_VAR = (-12.0, 6.0)  # log-variances are kept here


class Sizes(NamedTuple):
    """Widths of the networks."""

    n_inputs: int
    n_outcomes: int
    n_actions: int
    latent: int
    hidden: int
    n_layers: int
    binary: bool


class Window(NamedTuple):
    """A batch of histories of one length, the actions planned after them, and what came of it.

    `inputs` (B, h + 1, n_inputs), `outcomes` (B, h + 1 + n_steps, dy) standardised, `seen` (B, h + 1 + n_steps),
    `actions` (B, h + n_steps, da), `known` (B, h + n_steps).
    """

    inputs: Tensor
    outcomes: Tensor
    seen: Tensor
    actions: Tensor
    known: Tensor

    @property
    def h(self) -> int:
        return self.inputs.shape[1] - 1

    @property
    def now(self) -> Tensor:
        return self.outcomes[:, self.h]

    @property
    def target(self) -> Tensor:
        return self.outcomes[:, -1]

    @property
    def plan(self) -> Tensor:
        return self.actions[:, self.h :]


def head(n_in: int, hidden: int, n_out: int) -> nn.Sequential:
    """One hidden layer of ELUs."""
    return nn.Sequential(nn.Linear(n_in, hidden), nn.ELU(), nn.Linear(hidden, n_out))


class HistoryEncoder(nn.Module):
    """An LSTM over the history; its state at each step becomes a latent state."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.lstm = nn.LSTM(sizes.n_inputs, sizes.hidden, sizes.n_layers, batch_first=True)
        self.head = head(sizes.hidden, sizes.hidden, sizes.latent)

    def forward(self, inputs: Tensor) -> Tensor:
        states: Tensor = self.head(self.lstm(inputs)[0])
        return states


class Policy(nn.Module):
    """The behaviour: law of each planned action given the history and the actions before it."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.binary = sizes.binary
        width = sizes.n_actions * (1 if sizes.binary else 2)
        self.lstm = nn.LSTM(sizes.n_actions + sizes.latent, sizes.hidden, batch_first=True)
        self.law = head(sizes.hidden, sizes.hidden, width)
        self.point = head(sizes.hidden, sizes.hidden, sizes.n_actions)

    def forward(self, z0: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Return the raw parameters of each law, (B, n_steps, .), and the logits of a point prediction."""
        before = torch.cat([torch.zeros_like(actions[:, :1]), actions[:, :-1]], dim=1)
        states, _ = self.lstm(torch.cat([before, z0[:, None].expand(-1, actions.shape[1], -1)], dim=2))
        return self.law(states), self.point(states)


class TwinTransition(nn.Module):
    """Prior and posterior of the next latent state: two LSTMs that are stepped together.

    The prior reads the state before and the code of the remaining actions, the posterior the target as well. Their
    weights lie side by side, index 0 for the prior, so that each step is one batched product per layer.
    """

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        h, d = sizes.hidden, sizes.latent
        self.hidden, self.latent, self.n_layers = h, d, sizes.n_layers
        self.code = nn.Linear(h, 2 * 4 * h)  # what the code of the actions adds to the gates, with the biases
        self.target = nn.Linear(sizes.n_outcomes, 4 * h, bias=False)
        self.first = nn.Parameter(torch.empty(2, d + h, 4 * h))
        self.deeper = nn.Parameter(torch.empty(sizes.n_layers - 1, 2, 2 * h, 4 * h))
        self.deeper_bias = nn.Parameter(torch.empty(sizes.n_layers - 1, 2, 1, 4 * h))
        self.code_head = nn.Linear(h, 2 * h)
        self.head_in = nn.Parameter(torch.empty(2, h, h))
        self.head_out = nn.Parameter(torch.empty(2, h, 2 * d))
        self.head_bias = nn.Parameter(torch.empty(2, 1, 2 * d))
        bound = h**-0.5
        for parameter in (self.first, self.deeper, self.deeper_bias, self.head_in, self.head_out, self.head_bias):
            nn.init.uniform_(parameter, -bound, bound)

    def forward(
        self, z0: Tensor, codes: Tensor, target: Tensor | None, noise: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Step through the plan.

        Parameters: `z0` (B, d), `codes` (B, n_steps, hidden), `target` (B, dy), `noise` (B, n_steps, d) to add to the
        posterior means in its standard deviations. Without a target the prior mean is followed instead.

        Returns the states (B, n_steps, d), and means and log-variances (2, B, n_steps, d) of prior and posterior.
        """
        batch, n_steps, _ = codes.shape
        into_gates = self.code(codes).view(batch, n_steps, 2, -1).permute(1, 2, 0, 3)  # (n_steps, 2, B, 4h)
        if target is not None:
            extra_gates = self.target(target)
            into_gates = torch.stack([into_gates[:, 0], into_gates[:, 1] + extra_gates], dim=1)
        into_head = self.code_head(codes).view(batch, n_steps, 2, -1).permute(1, 2, 0, 3)
        zero = codes.new_zeros(2, batch, self.hidden)
        memory = [(zero, zero)] * self.n_layers
        followed = 0 if target is None else 1
        z, states, means, log_vars = z0, [], [], []
        # unbind, split and chunk: their gradients are one concatenation, where each slice would fill a tensor of zeros
        for s, (gates_s, head_s) in enumerate(zip(into_gates.unbind(), into_head.unbind(), strict=True)):
            gates = torch.baddbmm(gates_s, torch.cat([z.expand(2, -1, -1), memory[0][0]], dim=2), self.first)
            memory[0] = _cell(gates, memory[0][1])
            for layer in range(1, self.n_layers):
                both = torch.cat([memory[layer - 1][0], memory[layer][0]], dim=2)
                gates = torch.baddbmm(self.deeper_bias[layer - 1], both, self.deeper[layer - 1])
                memory[layer] = _cell(gates, memory[layer][1])
            inner = F.elu(torch.baddbmm(head_s, memory[-1][0], self.head_in))
            mean, log_var = torch.baddbmm(self.head_bias, inner, self.head_out).chunk(2, dim=2)
            log_var = log_var.clamp(*LOG_VAR)
            z = mean[followed]
            if noise is not None:
                z = z + noise[:, s] * torch.exp(0.5 * log_var[followed])
            means.append(mean)
            log_vars.append(log_var)
            states.append(z)
        return torch.stack(states, dim=1), torch.stack(means, dim=2), torch.stack(log_vars, dim=2)


def _cell(gates: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    h = c.shape[-1]
    valves, proposed = gates.split([3 * h, h], dim=-1)
    forget, write, show = torch.sigmoid(valves).chunk(3, dim=-1)
    c = torch.addcmul(forget * c, write, torch.tanh(proposed))
    return show * torch.tanh(c), c


class VariationalNetwork(nn.Module):
    """VCIP: history, twin transition, decoder, and the behaviour heads of the loss."""

    def __init__(self, sizes: Sizes, loss: dict[str, Any]) -> None:
        super().__init__()
        self.sizes, self.options = sizes, loss
        d, h, da, dy = sizes.latent, sizes.hidden, sizes.n_actions, sizes.n_outcomes
        self.history = HistoryEncoder(sizes)
        self.forward_code = nn.LSTM(da, h, batch_first=True)
        self.reverse_code = nn.LSTM(da, h, batch_first=True)
        self.transition = TwinTransition(sizes)
        self.decoder = head(d + h, h, dy)
        self.next_outcome = head(d + da, h, dy)
        self.policy = Policy(sizes)
        self.step_policy = head(d, h, da * (1 if sizes.binary else 2))

    def codes(self, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Return r_s, which sums up a_s to the last action, and the decoder's code, through which no gradient flows."""
        remaining = self.reverse_code(actions.flip(1))[0].flip(1)
        return remaining, self.forward_code(actions.detach())[1][0][-1]

    def terms(
        self,
        z0: Tensor,
        actions: Tensor,
        target: Tensor,
        noise: Tensor | None = None,
        whole_code: Tensor | None = None,
        every: bool = True,
    ) -> dict[str, Tensor]:
        """Return the terms of the loss, one value per sequence; those of weight 0 only with `every`.

        `whole_code` replaces the decoder's code of the actions.
        """
        weights = self.options["lambdas"]
        remaining, code = self.codes(actions)
        z, means, log_vars = self.transition(z0, remaining, target, noise)
        predicted = self.decoder(torch.cat([z[:, -1], code if whole_code is None else whole_code], dim=1))
        found = {
            "reg": reconstruction(predicted, target, self.options["likelihood_scale"]),
            "kl": gaussian_kl(means[1], log_vars[1], means[0], log_vars[0]).sum(dim=2).mean(dim=1),
        }
        if every or weights["step"]:
            if actions.shape[1] > 1:
                law = self.step_policy(z[:, :-1])
                found["step"] = step_term(
                    law,
                    actions[:, 1:],
                    self.sizes.binary,
                    self.options["step_bound"],
                    self.options["entropy_reg"],
                )
            else:
                found["step"] = torch.zeros_like(found["reg"])
        if every or weights["action"]:
            law, point = self.policy(z0, actions)
            unlikely, rest = action_terms(law, actions, self.sizes.binary, point)
            found["action"] = unlikely + rest
        return found

    def loss(self, window: Window, generator: torch.Generator | None) -> Tensor:
        """Return the training loss of a batch; posterior samples need a generator, without one the mean is taken."""
        weights, plan = self.options["lambdas"], window.plan
        states = self.history(window.inputs)
        noise = None
        if generator is not None:
            # The mean of m draws has the law of one draw with 1 / m of the variance.
            shape = (*plan.shape[:2], self.sizes.latent)
            noise = torch.randn(shape, generator=generator, device=plan.device) / self.options["n_samples"] ** 0.5
        found = self.terms(states[:, -1], plan, window.target, noise, every=False)
        factor = len(plan) if self.options["kl_reduction"] == "batch_sum" else 1
        total = sum(weights[name] * (factor if name == "kl" else 1) * term.mean() for name, term in found.items())
        if weights["hy"] and window.h:
            ahead = self.next_outcome(torch.cat([states[:, :-1], window.actions[:, : window.h]], dim=2))
            usable = (window.seen[:, 1 : window.h + 1] & window.known[:, : window.h]).to(ahead.dtype)
            squares = (ahead - window.outcomes[:, 1 : window.h + 1]).square().mean(dim=2)
            total = total + weights["hy"] * (squares * usable).sum() / usable.sum().clamp_min(1.0)
        return total

    def scores(self, z0: Tensor, now: Tensor, actions: Tensor, target: Tensor) -> Tensor:
        """Return the loss of each sequence at the posterior means."""
        weights = self.options["lambdas"]
        found = self.terms(z0, actions, target, every=False)
        return sum((weights[name] * term for name, term in found.items()), torch.zeros_like(target[:, 0]))

    def outcome(self, z0: Tensor, now: Tensor, actions: Tensor) -> Tensor:
        """Return the outcome after the last action along the prior means: the target plays no part."""
        remaining, code = self.codes(actions)
        z, _, _ = self.transition(z0, remaining, None)
        predicted: Tensor = self.decoder(torch.cat([z[:, -1], code], dim=1))
        return predicted

    def after(self, z0: Tensor, now: Tensor, action: Tensor) -> Tensor:
        """Return the next outcome after one action."""
        predicted: Tensor = self.next_outcome(torch.cat([z0, action], dim=1))
        return predicted


class OutcomeNetwork(nn.Module):
    """Direct prediction of the outcomes that follow planned actions: an LSTM that adds up changes.

    With `balance` the history may not tell which action comes next: a policy reads it through a reversed gradient.
    """

    def __init__(self, sizes: Sizes, balance: float) -> None:
        super().__init__()
        self.sizes, self.balance = sizes, balance
        self.history = HistoryEncoder(sizes)
        self.start = nn.Linear(sizes.latent, sizes.hidden)
        self.lstm = nn.LSTM(sizes.n_actions + sizes.latent, sizes.hidden, batch_first=True)
        self.change = head(sizes.hidden, sizes.hidden, sizes.n_outcomes)
        self.policy = head(sizes.latent, sizes.hidden, sizes.n_actions * (1 if sizes.binary else 2))

    def path(self, z0: Tensor, now: Tensor, actions: Tensor) -> Tensor:
        """Return the predicted outcomes after each action."""
        first = torch.tanh(self.start(z0))[None]
        inputs = torch.cat([actions, z0[:, None].expand(-1, actions.shape[1], -1)], dim=2)
        states, _ = self.lstm(inputs, (first, torch.zeros_like(first)))
        return now[:, None] + self.change(states).cumsum(dim=1)

    def loss(self, window: Window, generator: torch.Generator | None) -> Tensor:
        """Return the mean squared error over all planned steps."""
        z0 = self.history(window.inputs)[:, -1]
        squares = (self.path(z0, window.now, window.plan) - window.outcomes[:, window.h + 1 :]).square().mean(dim=2)
        usable = window.seen[:, window.h + 1 :].to(squares.dtype)
        total = (squares * usable).sum() / usable.sum()
        if self.balance and generator is not None:
            reversed_ = z0.detach() - self.balance * (z0 - z0.detach())
            law = self.policy(reversed_)[:, None]
            total = total + action_terms(law, window.plan[:, :1], self.sizes.binary)[0].mean()
        return total

    def scores(self, z0: Tensor, now: Tensor, actions: Tensor, target: Tensor) -> Tensor:
        """Return the squared distance of the predicted outcome from the target."""
        return (self.outcome(z0, now, actions) - target).square().mean(dim=1)

    def outcome(self, z0: Tensor, now: Tensor, actions: Tensor) -> Tensor:
        """Return the outcome after the last action."""
        return self.path(z0, now, actions)[:, -1]

    def after(self, z0: Tensor, now: Tensor, action: Tensor) -> Tensor:
        """Return the next outcome after one action."""
        return self.path(z0, now, action[:, None])[:, -1]


class BehaviourNetwork(nn.Module):
    """The behaviour policy alone."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.sizes = sizes
        self.history = HistoryEncoder(sizes)
        self.policy = Policy(sizes)

    def loss(self, window: Window, generator: torch.Generator | None) -> Tensor:
        """Return the mean negative log-likelihood of the planned actions."""
        return self.scores(self.history(window.inputs)[:, -1], window.now, window.plan, window.target).mean()

    def scores(self, z0: Tensor, now: Tensor, actions: Tensor, target: Tensor) -> Tensor:
        """Return the negative log-likelihood of each sequence."""
        law, _ = self.policy(z0, actions)
        return action_terms(law, actions, self.sizes.binary)[0]
