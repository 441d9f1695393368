"""The autoencoder's loss by hand, its priors, and what its Pareto points decode to."""

from __future__ import annotations

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from paperworks.optim import MOVAE, ParetoFamily, fit_movae  # noqa: E402


def model_with_priors(covariance: str = "full", **options: object) -> MOVAE:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = MOVAE(3, 6, latent_dim=4, hidden=(8,), covariance=covariance, dtype=torch.float64, **options)
        with torch.no_grad():
            model.prior_mean.normal_()
            model.prior_root.normal_(std=0.4)
    return model


def bars(n: int, seed: int) -> list[np.ndarray]:
    """Two sets of 4 x 4 images: noisy rows, noisy columns."""
    rng = np.random.default_rng(seed)
    found = []
    for axis in (0, 1):
        images = np.zeros((n, 4, 4))
        for image in images:
            which = rng.integers(4)
            image[(which, slice(None)) if axis == 0 else (slice(None), which)] = 1.0
        found.append(np.clip(images + rng.normal(scale=0.05, size=images.shape), 0, 1).reshape(n, 16))
    return found


@pytest.mark.parametrize("covariance", ["full", "diag"])
def test_divergences_are_those_of_torch(covariance: str) -> None:
    model = model_with_priors(covariance)
    x = torch.rand(5, 6, dtype=torch.float64)
    mean, log_variance = model.encode(x)
    prior_mean, root = model.prior()
    for i in range(3):
        p = torch.distributions.MultivariateNormal(prior_mean[i], scale_tril=root[i])
        for k in range(5):
            q = torch.distributions.MultivariateNormal(mean[k], torch.diag(log_variance[k].exp()))
            expected = torch.distributions.kl_divergence(q, p)
            torch.testing.assert_close(model.divergences(mean, log_variance)[k, i], expected)


@pytest.mark.parametrize("likelihood", ["bernoulli", "gaussian"])
def test_loss_by_hand(likelihood: str) -> None:
    model = model_with_priors(likelihood=likelihood, beta=0.7, rho=0.1)
    x = torch.rand(5, 6, dtype=torch.float64)
    target = torch.tensor([2, 0, 0, 2, 2])
    got = model.loss(x, target, torch.Generator().manual_seed(3))
    noise = torch.randn(5, 4, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    mean, log_variance = model.encode(x)
    out = model.decode(mean + (log_variance / 2).exp() * noise)
    if likelihood == "bernoulli":
        lost = -(x * out.log() + (1 - x) * (1 - out).log()).sum(dim=1)
    else:
        lost = -torch.distributions.Normal(out, 1.0).log_prob(x).sum(dim=1)
    rows = lost + 0.7 * model.divergences(mean, log_variance)[torch.arange(5), target]
    prior_mean, root = model.prior()
    standard = torch.distributions.MultivariateNormal(torch.zeros(4).double(), torch.eye(4).double())
    anchor = sum(
        torch.distributions.kl_divergence(torch.distributions.MultivariateNormal(m, scale_tril=r), standard)
        for m, r in zip(prior_mean, root, strict=True)
    )
    torch.testing.assert_close(got, rows[target == 0].mean() + rows[target == 2].mean() + 0.1 * anchor)


def test_conditional_regulariser_splits_at_the_pareto_point() -> None:
    """Sum of weighted divergences = divergence from the reverse Pareto point + g(lambda), for every encoding."""
    model = model_with_priors()
    weights = np.array([0.2, 0.3, 0.5])
    pareto = model.pareto("reverse")
    point = pareto.solve(weights)
    g = weights @ pareto.objectives(point)
    with torch.no_grad():
        mean, log_variance = model.encode(torch.rand(4, 6, dtype=torch.float64))
        left = model.divergences(mean, log_variance).numpy() @ weights
    for k in range(4):
        q = (mean[k].numpy(), np.diag(log_variance[k].exp().numpy()))
        from_point = ParetoFamily().fit([point, pareto.targets_[0]]).objectives(q)[0]
        np.testing.assert_allclose(left[k], from_point + g, rtol=1e-9)


def test_conditional_loss_at_a_vertex_is_the_loss_of_that_set() -> None:
    model = model_with_priors(rho=0.0)
    x = torch.rand(5, 6, dtype=torch.float64)
    weights = torch.eye(3, dtype=torch.float64)[torch.ones(5, dtype=torch.int64)]
    draws = [torch.Generator().manual_seed(1) for _ in range(2)]
    alone = model.loss(x, torch.ones(5, dtype=torch.int64), draws[0])
    torch.testing.assert_close(model.conditional_loss(x, weights, draws[1]), alone)


@pytest.mark.parametrize("covariance", ["full", "diag"])
def test_refitted_priors_have_the_moments_of_the_encodings(covariance: str) -> None:
    model = model_with_priors(covariance)
    sets = [np.random.default_rng(i).random((30, 6)) for i in range(3)]
    model.refit_priors(sets)
    for target, x in zip(model.pareto().targets_, sets, strict=True):
        with torch.no_grad():
            mean, log_variance = (part.numpy() for part in model.encode(torch.as_tensor(x)))
        cov = np.cov(mean.T, bias=True) + np.diag(np.exp(log_variance).mean(axis=0))
        np.testing.assert_allclose(target.mean, mean.mean(axis=0))
        np.testing.assert_allclose(target.cov, cov if covariance == "full" else np.diag(np.diag(cov)), atol=1e-12)


def test_samples_come_from_the_pareto_point() -> None:
    model = model_with_priors(likelihood="gaussian")
    model.decoder = torch.nn.Sequential(torch.nn.Linear(4, 6, bias=False, dtype=torch.float64))
    A = model.decoder[0].weight.detach().numpy()
    for divergence in ("reverse", "forward"):
        point = model.pareto(divergence).solve([0.1, 0.6, 0.3])
        x = model.sample([0.1, 0.6, 0.3], 40_000, divergence, torch.Generator().manual_seed(0)).numpy()
        np.testing.assert_allclose(x.mean(axis=0), A @ point.mean, atol=0.05)
        np.testing.assert_allclose(np.cov(x.T), A @ point.cov @ A.T, atol=0.1)


@pytest.mark.parametrize("conditional", [False, True])
def test_weights_move_decoded_samples_from_one_set_to_the_other(conditional: bool) -> None:
    sets = bars(160, 0)
    before = torch.get_rng_state()
    options = {"epochs": 150, "batch_size": 80, "lr": 3e-3, "latent_dim": 4, "hidden": (32,), "beta": 0.5}
    model = fit_movae(sets, conditional=conditional, random_state=0, **options)
    assert torch.equal(before, torch.get_rng_state())
    again = fit_movae(sets, conditional=conditional, random_state=0, **options)
    for a, b in zip(model.parameters(), again.parameters(), strict=True):
        assert torch.equal(a, b)
    for divergence in ("reverse", "forward"):
        column_like = []
        for t in (0.0, 0.5, 1.0):
            images = model.sample([1 - t, t], 400, divergence, torch.Generator().manual_seed(1)).reshape(-1, 4, 4)
            # spread over column means less spread over row means: below 0 for rows, above for columns
            column_like.append(float((images.mean(dim=1).var(dim=1) - images.mean(dim=2).var(dim=1)).mean()))
        assert column_like[0] < column_like[1] < column_like[2]
        assert column_like[0] < -0.02
        assert column_like[2] > 0.02


def test_training_lowers_the_loss_and_prints_when_asked(capsys: pytest.CaptureFixture[str]) -> None:
    sets = bars(60, 1)
    fit_movae(sets, epochs=40, latent_dim=2, hidden=(16,), verbose=20, random_state=1)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["epoch 20", "epoch 40"]
    values = [float(line.split()[-1]) for line in lines]
    assert values[1] < values[0] < 2 * 16 * math.log(2) + 5
    fit_movae(sets, epochs=1, hidden=(4,), random_state=1)
    assert capsys.readouterr().out == ""


def test_sets_of_different_sizes_and_state_dict() -> None:
    rows, columns = bars(40, 2)
    model = fit_movae([rows, columns[:7]], epochs=3, batch_size=16, latent_dim=2, hidden=(8,), random_state=0)
    copy = MOVAE(2, 16, latent_dim=2, hidden=(8,))
    copy.load_state_dict(model.state_dict())
    a, b = (m.sample([0.3, 0.7], 5, generator=torch.Generator().manual_seed(0)) for m in (model, copy))
    assert torch.equal(a, b)
    assert not model.training


def test_bad_input_is_named() -> None:
    good = np.full((4, 6), 0.5)
    model = model_with_priors()
    x = torch.rand(4, 6, dtype=torch.float64)
    for call, message in (
        (lambda: MOVAE(1, 6), "n_targets must be at least 2"),
        (lambda: MOVAE(2, 6, beta=-1.0), "beta must be"),
        (lambda: MOVAE(2, 6, covariance="tied"), "covariance must be one of"),
        (lambda: MOVAE(2, 6, likelihood="poisson"), "likelihood must be one of"),
        (lambda: fit_movae([good]), "at least 2 arrays"),
        (lambda: fit_movae([good, np.ones((4, 5))]), r"datasets\[1\] must have shape \(n, 6\)"),
        (lambda: fit_movae([good, good + 1]), r"datasets\[1\] must lie in \[0, 1\]"),
        (lambda: fit_movae([good, good * np.nan]), r"datasets\[1\] holds 24 value"),
        (lambda: fit_movae([good, good], epochs=0), "epochs must be at least 1"),
        (lambda: fit_movae([good, good], lr=0.0), "lr must be"),
        (lambda: model.loss(x, torch.tensor([0, 1, 2, 3])), "from 0 to 2"),
        (lambda: model.loss(x, torch.tensor([0, 1])), r"target must have shape \(4,\)"),
        (lambda: model.loss(x + 1, torch.tensor([0, 1, 2, 0])), r"x must lie in \[0, 1\]"),
        (lambda: model.loss(x[:, :5], torch.tensor([0, 1, 2, 0])), r"x must have shape \(n, 6\)"),
        (lambda: model.loss(x * torch.nan, torch.tensor([0, 1, 2, 0])), "NaN"),
        (lambda: model.conditional_loss(x, torch.ones(4, 2)), r"weights must have shape \(4, 3\)"),
        (lambda: model.sample([0.5, 0.4, 0.0], 3), "sum to 1"),
        (lambda: model.sample([1.0, 0.0, 0.0], 0), "n must be at least 1"),
        (lambda: model.sample([1.0, 0.0, 0.0], 3, "kl"), "divergence must be one of"),
        (lambda: model.refit_priors([good]), "must hold 3 sets"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
