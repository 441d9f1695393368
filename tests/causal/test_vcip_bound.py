"""The terms of the bound by closed forms, and the networks by plain stepping."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.distributions import Beta, Normal, kl_divergence
from torch.nn import functional as F

from paperworks.causal.vcip.bound import action_terms, gaussian_kl, policy_mode, reconstruction, step_term
from paperworks.causal.vcip.networks import Sizes, TwinTransition, VariationalNetwork, Window

OPTIONS = {
    "lambdas": {"reg": 1.0, "kl": 1.0, "step": 1.0, "action": 1.0, "hy": 1.0},
    "likelihood_scale": None,
    "step_bound": -10.0,
    "entropy_reg": 1.0,
    "kl_reduction": "mean",
    "n_samples": 10,
}


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def network(options: dict | None = None, **change: int) -> VariationalNetwork:
    sizes = Sizes(6, 1, 2, 5, 7, 2, False)._replace(**change)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        return VariationalNetwork(sizes, OPTIONS | (options or {})).double()


@given(st.floats(-5, 5), st.floats(-4, 4), st.floats(-5, 5), st.floats(-4, 4))
def test_kl_equals_torch(mq: float, vq: float, mp: float, vp: float) -> None:
    a, b, c, d = (torch.tensor(x, dtype=torch.float64) for x in (mq, vq, mp, vp))
    expected = kl_divergence(Normal(a, (b / 2).exp()), Normal(c, (d / 2).exp()))
    assert float(gaussian_kl(a, b, c, d)) == pytest.approx(float(expected), rel=1e-9, abs=1e-12)


def test_bound_is_tight_for_the_true_posterior_of_a_linear_gaussian_chain() -> None:
    # z1 ~ N(0.8 z0 + a1, 0.3), z2 ~ N(0.8 z1 + a2, 0.3), y ~ N(z2, 0.5): variances.
    z0, a, s2, r2, y = 0.4, (0.7, -0.2), 0.3, 0.5, 1.9
    mean2, var2 = 0.8 * (0.8 * z0 + a[0]) + a[1], 0.64 * s2 + s2
    exact = -0.5 * math.log(2 * math.pi * (var2 + r2)) - (y - mean2) ** 2 / (2 * (var2 + r2))
    # Posterior of z1 given y, and of z2 given z1 and y.
    prior1 = 0.8 * z0 + a[0]
    gain = s2 * 0.8 / (0.64 * s2 + s2 + r2)
    m1, v1 = prior1 + gain * (y - 0.8 * prior1 - a[1]), s2 - gain * 0.8 * s2
    nodes, weights = np.polynomial.hermite_e.hermegauss(30)
    z1 = torch.tensor(m1 + math.sqrt(v1) * nodes)
    w = torch.tensor(weights / weights.sum())
    p2 = 0.8 * z1 + a[1]
    m2, v2 = p2 + s2 / (s2 + r2) * (y - p2), s2 * r2 / (s2 + r2)
    logs = [torch.tensor(math.log(v), dtype=torch.float64) for v in (v1, v2, s2)]
    kl1 = gaussian_kl(*(torch.tensor(x, dtype=torch.float64) for x in (m1, math.log(v1), prior1, math.log(s2))))
    kl2 = (w * gaussian_kl(m2, logs[1], p2, logs[2])).sum()
    noise = torch.tensor(nodes)
    z2 = m2[:, None] + math.sqrt(v2) * noise
    error = reconstruction(z2[..., None], torch.full_like(z2, y)[..., None], math.sqrt(r2))
    fit = -0.5 * math.log(2 * math.pi * r2) - (w[:, None] * w * error).sum()
    assert float(fit - kl1 - kl2) == pytest.approx(exact, abs=1e-10)
    worse = gaussian_kl(m2 + 0.1, logs[1], p2, logs[2])
    assert float((w * worse).sum()) != pytest.approx(float(kl2), abs=1e-3)


def test_error_is_the_mean_square_or_the_gaussian_exponent() -> None:
    y, m = torch.tensor([[1.0, 2.0]]), torch.tensor([[0.0, 4.0]])
    assert reconstruction(m, y, None).tolist() == [2.5]
    assert reconstruction(m, y, 2.0).tolist() == [0.625]


def test_step_term_by_hand() -> None:
    raw, actions = torch.randn(3, 4, 4, generator=seeded(0)).double(), torch.rand(3, 4, 2, generator=seeded(1)).double()
    actions[0, 0, 0], actions[1, 1, 1] = 0.0, 1.0
    law = Beta(F.softplus(raw[..., :2]) + 1e-3, F.softplus(raw[..., 2:]) + 1e-3)
    entropy = law.entropy().mean(dim=(1, 2))
    likelihood = law.log_prob(actions.clamp(0.01, 0.99)).mean(dim=2)
    found = step_term(raw, actions, False, -100.0, 0.7)
    torch.testing.assert_close(found, 0.1 * likelihood.mean(dim=1) - 0.7 * entropy)
    floor = float(likelihood.median())
    bounded = step_term(raw, actions, False, floor, 0.7)
    torch.testing.assert_close(bounded, 0.1 * likelihood.clamp_min(floor).mean(dim=1) - 0.7 * entropy)
    assert (bounded > found + 1e-6).any()


def test_binary_step_term_lowers_the_likelihood_too() -> None:
    # The authors' code has the other sign for binary treatments, against the derivation.
    likely = step_term(torch.tensor([[[1.0]]]), torch.tensor([[[1.0]]]), True, -10.0, 0.0)
    unlikely = step_term(torch.tensor([[[1.0]]]), torch.tensor([[[0.0]]]), True, -10.0, 0.0)
    p = 1 / (1 + math.exp(-1))
    assert float(likely) == pytest.approx(0.1 * math.log(p), rel=1e-5)
    assert float(unlikely) == pytest.approx(0.1 * math.log(1 - p), rel=1e-5)
    assert likely > unlikely


def test_action_terms_by_hand() -> None:
    raw, actions = torch.randn(3, 4, 4, generator=seeded(0)).double(), torch.rand(3, 4, 2, generator=seeded(1)).double()
    point = torch.randn(3, 4, 2, generator=seeded(2)).double()
    law = Beta(F.softplus(raw[..., :2]) + 0.1, F.softplus(raw[..., 2:]) + 0.1)
    unlikely, rest = action_terms(raw, actions, False, point)
    torch.testing.assert_close(unlikely, -law.log_prob(actions.clamp(0.1, 0.9)).sum(dim=(1, 2)))
    torch.testing.assert_close(rest, ((point.sigmoid() - actions) ** 2 - law.entropy()).mean(dim=(1, 2)))
    coins = (actions > 0.5).double()
    unlikely, rest = action_terms(raw[..., :2], coins, True, point)
    p = raw[..., :2].sigmoid().clamp(0.1, 0.9)
    torch.testing.assert_close(unlikely, -(coins * p.log() + (1 - coins) * (1 - p).log()).sum(dim=(1, 2)))
    q, entropy = point.sigmoid(), -(p * p.log() + (1 - p) * (1 - p).log())
    cross = -(coins * q.log() + (1 - coins) * (1 - q).log())
    torch.testing.assert_close(rest, (cross - entropy).mean(dim=(1, 2)))
    assert unlikely.max() <= -8 * math.log(0.1)


def test_policy_mode_is_the_best_point_of_a_grid() -> None:
    raw = 3 * torch.randn(60, 1, 2, generator=seeded(0)).double()
    grid = torch.linspace(0.1, 0.9, 801).double()
    density = action_terms(raw.repeat(801, 1, 1), grid.repeat_interleave(60)[:, None, None], False)[0].view(801, 60)
    np.testing.assert_allclose(policy_mode(raw, False)[:, 0, 0], grid[density.argmin(dim=0)], atol=1.1e-3)
    assert policy_mode(torch.tensor([-0.1, 0.2]), True).tolist() == [0.0, 1.0]


@pytest.mark.parametrize("with_target", [True, False])
def test_transition_equals_stepping_two_lstms(with_target: bool) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        twin = TwinTransition(Sizes(6, 2, 2, 5, 7, 3, False)).double()
    z0, codes, y = (
        torch.randn(*shape, generator=seeded(i)).double() for i, shape in enumerate([(4, 5), (4, 6, 7), (4, 2)])
    )
    noise = torch.randn(4, 6, 5, generator=seeded(9)).double() if with_target else None
    states, means, log_vars = twin(z0, codes, y if with_target else None, noise)

    def reorder(weight: torch.Tensor) -> torch.Tensor:  # columns f, i, o, g to rows i, f, g, o as torch has them
        f, i, o, g = weight.chunk(4, dim=-1)
        return torch.cat([i, f, g, o], dim=-1).T

    memory = [[(torch.zeros(4, 7).double(),) * 2 for _ in range(3)] for _ in range(2)]
    z = z0
    for s in range(6):
        laws = []
        for kind in range(2):
            gates = twin.code(codes[:, s])[:, kind * 28 : (kind + 1) * 28]
            if kind == 1 and with_target:
                gates = gates + twin.target(y)
            x = torch.cat([z, gates], dim=1)  # gates enter through an identity
            for layer in range(3):
                weight = twin.first[kind] if layer == 0 else twin.deeper[layer - 1, kind]
                width = 5 if layer == 0 else 7
                w_in = torch.cat([weight[:width], torch.eye(28).double()]) if layer == 0 else weight[:width]
                bias = torch.zeros(28).double() if layer == 0 else twin.deeper_bias[layer - 1, kind, 0]
                h, c = torch._VF.lstm_cell(
                    x,
                    memory[kind][layer],
                    reorder(w_in).contiguous(),
                    reorder(weight[width:]).contiguous(),
                    reorder(bias[None])[:, 0].contiguous(),
                    torch.zeros(28).double(),
                )
                memory[kind][layer] = (h, c)
                x = h
            inner = F.elu(x @ twin.head_in[kind] + twin.code_head(codes[:, s])[:, kind * 7 : kind * 7 + 7])
            laws.append(inner @ twin.head_out[kind] + twin.head_bias[kind])
        z = laws[1 if with_target else 0][:, :5]
        if with_target:
            z = z + noise[:, s] * torch.exp(0.5 * laws[1][:, 5:])
        torch.testing.assert_close(states[:, s], z)
        for kind in range(2):
            torch.testing.assert_close(means[kind, :, s], laws[kind][:, :5])
            torch.testing.assert_close(log_vars[kind, :, s], laws[kind][:, 5:])


def test_terms_have_the_declared_parts() -> None:
    net = network()
    z0, a, y = torch.randn(4, 5).double(), torch.rand(4, 3, 2).double(), torch.randn(4, 1).double()
    found = net.terms(z0, a, y)
    remaining, code = net.codes(a)
    torch.testing.assert_close(remaining[:, 1], net.codes(a[:, 1:])[0][:, 0]), "r_s sums up a_s to the last action"
    assert (remaining[:, 1] != net.codes(torch.cat([a[:, :1], 1 - a[:, 1:]], dim=1))[0][:, 1]).any()
    z, means, log_vars = net.transition(z0, remaining, y)
    kl = sum(
        kl_divergence(
            Normal(means[1, :, s], (log_vars[1, :, s] / 2).exp()), Normal(means[0, :, s], (log_vars[0, :, s] / 2).exp())
        )
        for s in range(3)
    )
    torch.testing.assert_close(found["kl"], kl.sum(dim=1) / 3)
    torch.testing.assert_close(found["reg"], (net.decoder(torch.cat([z[:, -1], code], dim=1)) - y).square()[:, 0])
    torch.testing.assert_close(found["step"], step_term(net.step_policy(z[:, :2]), a[:, 1:], False, -10.0, 1.0))
    law, point = net.policy(z0, a)
    torch.testing.assert_close(found["action"], sum(action_terms(law, a, False, point)))
    assert (net.terms(z0, a[:, :1], y)["step"] == 0).all(), "no next action, no step term"


def test_policy_sees_only_actions_before() -> None:
    net = network()
    z0, a = torch.randn(2, 5).double(), torch.rand(2, 4, 2).double()
    changed = a.clone()
    changed[:, 2] = 1 - changed[:, 2]
    before, after = net.policy(z0, a)[0], net.policy(z0, changed)[0]
    torch.testing.assert_close(before[:, :3], after[:, :3])
    assert (before[:, 3] != after[:, 3]).all()


def test_gradient_of_the_actions_by_finite_differences_with_the_decoders_code_held() -> None:
    net = network({"likelihood_scale": 0.3})
    z0, y = torch.randn(2, 5, generator=seeded(0)).double(), torch.randn(2, 1, generator=seeded(1)).double()
    a = (0.2 + 0.6 * torch.rand(2, 4, 2, generator=seeded(2)).double()).requires_grad_()
    code = net.codes(a)[1].detach()

    def value(actions: torch.Tensor, whole: torch.Tensor | None) -> float:
        return float(sum(term.sum() for term in net.terms(z0, actions, y, whole_code=whole).values()))

    sum(term.sum() for term in net.terms(z0, a, y).values()).backward()
    held, through = torch.zeros_like(a), torch.zeros_like(a)
    with torch.no_grad():
        for place in np.ndindex(*a.shape):
            step = torch.zeros_like(a)
            step[place] = 1e-5
            held[place] = (value(a + step, code) - value(a - step, code)) / 2e-5
            through[place] = (value(a + step, None) - value(a - step, None)) / 2e-5
    assert float((a.grad - held).norm() / held.norm()) < 1e-4
    assert float((a.grad - through).norm() / through.norm()) > 1e-4, "no gradient flows through the decoder's code"


def test_ablation_depends_on_no_behaviour_head() -> None:
    weights = OPTIONS["lambdas"] | {"step": 0.0, "action": 0.0}
    net, full = network({"lambdas": weights}), network()
    z0, a, y = torch.randn(4, 5).double(), torch.rand(4, 3, 2).double(), torch.randn(4, 1).double()
    before, whole = net.scores(z0, y, a, y), full.scores(z0, y, a, y)
    torch.testing.assert_close(before, sum(net.terms(z0, a, y)[name] for name in ("reg", "kl")))
    torch.testing.assert_close(whole, sum(net.terms(z0, a, y).values()))
    with torch.no_grad():
        for module in (net.policy, net.step_policy, full.policy, full.step_policy):
            for parameter in module.parameters():
                parameter.add_(1.0)
    torch.testing.assert_close(net.scores(z0, y, a, y), before)
    assert (full.scores(z0, y, a, y) != whole).all()


def window(batch: int, h: int, n_steps: int, seed: int = 0) -> Window:
    g = seeded(seed)
    return Window(
        torch.randn(batch, h + 1, 6, generator=g).double(),
        torch.randn(batch, h + 1 + n_steps, 1, generator=g).double(),
        torch.rand(batch, h + 1 + n_steps, generator=g) < 0.7,
        torch.rand(batch, h + n_steps, 2, generator=g).double(),
        torch.rand(batch, h + n_steps, generator=g) < 0.8,
    )


def test_training_loss_is_the_weighted_sum_with_the_history_term() -> None:
    weights = {"reg": 0.5, "kl": 2.0, "step": 3.0, "action": 0.25, "hy": 7.0}
    net, w = network({"lambdas": weights}), window(4, 5, 3)
    z = net.history(w.inputs)
    terms = net.terms(z[:, -1], w.actions[:, 5:], w.outcomes[:, -1])
    expected = sum(weights[name] * term.mean() for name, term in terms.items())
    errors = [
        (net.next_outcome(torch.cat([z[i, t], w.actions[i, t]])).item() - float(w.outcomes[i, t + 1])) ** 2
        for i in range(4)
        for t in range(5)
        if w.seen[i, t + 1] and w.known[i, t]
    ]
    assert net.loss(w, None).item() == pytest.approx(expected.item() + 7.0 * np.mean(errors), rel=1e-9)
    summed = network({"lambdas": weights, "kl_reduction": "batch_sum"})
    assert (summed.loss(w, None) - net.loss(w, None)).item() == pytest.approx(
        2.0 * 3 * terms["kl"].mean().item(), rel=1e-6
    )


def test_one_draw_stands_for_the_mean_of_many() -> None:
    net = network({"n_samples": 10, "lambdas": dict.fromkeys(OPTIONS["lambdas"], 0.0) | {"reg": 1.0}})
    z0, codes, y = torch.zeros(20_000, 5).double(), torch.zeros(20_000, 1, 7).double(), torch.zeros(20_000, 1).double()
    noise = torch.randn(20_000, 1, 5, generator=seeded(3)).double() / math.sqrt(10)
    z, means, log_vars = net.transition(z0, codes, y, noise)
    np.testing.assert_allclose(
        z[:, 0].std(dim=0).detach(), (log_vars[1, 0, 0] / 2).exp().detach() / math.sqrt(10), rtol=0.03
    )
    np.testing.assert_allclose(z[:, 0].mean(dim=0).detach(), means[1, 0, 0].detach(), atol=0.02)
    w = window(8, 4, 3)
    assert net.loss(w, seeded(0)).item() != net.loss(w, None).item()
