"""The class-imbalanced margin loss for torch against its closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from paperworks.imbalanced import ImmaxLoss  # noqa: E402

SURROGATES = ("logistic", "sumexp", "hinge", "ramp")
RHO = [0.113, 0.371, 1.0, 2.9, 7.77]


def batch(seed=0, shape=(64, 5), dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(*shape, generator=generator, dtype=dtype)
    target = torch.randint(0, shape[1], (shape[0], *shape[2:]), generator=generator)
    return logits, target


def rowwise(logits, target, rho, surrogate):
    """The definition, row by row and class by class."""
    out = []
    for h, y in zip(logits.tolist(), target.tolist(), strict=True):
        gaps = [(h[k] - h[y]) / rho[y] for k in range(len(h)) if k != y]
        hinge = max(0.0, 1 + max(gaps))
        value = {
            "logistic": math.log1p(sum(math.exp(g) for g in gaps)),
            "sumexp": sum(math.exp(g) for g in gaps),
            "hinge": hinge,
            "ramp": min(1.0, hinge),
        }[surrogate]
        out.append(value)
    return torch.tensor(out, dtype=torch.float64)


@pytest.mark.parametrize("surrogate", SURROGATES)
def test_equals_the_definition(surrogate):
    logits, target = batch()
    rho = [0.5, 2.0, 1.0, 0.7, 1.3]
    loss = ImmaxLoss(rho, surrogate=surrogate, reduction="none")
    torch.testing.assert_close(loss(logits, target), rowwise(logits, target, rho, surrogate))


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("temperature", [1.0, 2.5])
def test_equal_margins_are_cross_entropy_at_a_temperature(temperature, large):
    logits, target = batch(shape=(700, 100) if large else (64, 5))  # above 2**16 logits the own backward is taken
    loss = ImmaxLoss([temperature] * logits.shape[1])
    a, b = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    ours, theirs = loss(a, target), F.cross_entropy(b / temperature, target)
    ours.backward()
    theirs.backward()
    torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(a.grad, b.grad)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_large_batches_equal_the_plain_formula(reduction):
    generator = torch.Generator().manual_seed(1)
    logits, target = batch(shape=(1031, 300))
    rho = torch.rand(300, generator=generator, dtype=torch.float64) + 0.1
    weight = torch.rand(300, generator=generator, dtype=torch.float64)
    upstream = torch.rand(1031, generator=generator, dtype=torch.float64)
    grads = []
    for of in (
        ImmaxLoss(rho, reduction=reduction, weight=weight),
        lambda h, y: F.cross_entropy(h / rho[y][:, None], y, reduction=reduction, weight=weight),
    ):
        h = logits.clone().requires_grad_()
        value = of(h, target)
        (value * upstream).sum().backward()
        grads.append((value.detach(), h.grad))
    torch.testing.assert_close(grads[0], grads[1])


def test_large_batches_may_be_strided():
    logits, target = batch(shape=(300, 700))
    loss = ImmaxLoss(np.linspace(0.5, 2, 300))
    strided = logits.T  # (700, 300), column-major
    target = torch.arange(700) % 300
    torch.testing.assert_close(loss(strided, target), loss(strided.contiguous(), target))


def test_second_derivatives_of_large_batches():
    logits, target = batch(shape=(400, 200))
    rho = torch.linspace(0.5, 2.0, 200, dtype=torch.float64)
    direction = torch.randn(logits.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    products = []
    for of in (ImmaxLoss(rho), lambda h, y: F.cross_entropy(h / rho[y][:, None], y)):
        h = logits.clone().requires_grad_()
        (grad,) = torch.autograd.grad(of(h, target), h, create_graph=True)
        products.append(torch.autograd.grad((grad * direction).sum(), h)[0])
    torch.testing.assert_close(products[0], products[1])


@pytest.mark.parametrize("surrogate", SURROGATES)
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_two_logits_equal_one_score(surrogate, smoothing):
    if smoothing and surrogate != "logistic":
        return
    loss = ImmaxLoss([0.4, 1.7], surrogate=surrogate, reduction="none", label_smoothing=smoothing)
    z = torch.linspace(-3, 3, 41, dtype=torch.float64)
    y = torch.arange(41) % 2
    two = loss(torch.stack((torch.zeros_like(z), z), 1), y)
    torch.testing.assert_close(loss(z, y), two)
    torch.testing.assert_close(loss(z[:, None], y), two)
    torch.testing.assert_close(loss(z[:, None], y[:, None]), two)
    torch.testing.assert_close(loss(z, y.bool()), two)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), n_classes=st.integers(2, 6), scale=st.floats(0.1, 10))
def test_order_of_the_surrogates(seed, n_classes, scale):
    logits, target = batch(seed, (16, n_classes))
    logits = logits * scale
    rho = np.random.default_rng(seed).uniform(0.2, 3, n_classes)
    value = {s: ImmaxLoss(rho, surrogate=s, reduction="none")(logits, target) for s in SURROGATES}
    rival = logits.scatter(1, target[:, None], -math.inf).amax(1)
    wrong = (logits.gather(1, target[:, None])[:, 0] <= rival).double()
    tiny = 1e-9
    assert (wrong <= value["ramp"] + tiny).all()
    assert (value["ramp"] <= value["hinge"] + tiny).all()
    assert (wrong <= value["logistic"] / math.log(2) + tiny).all()
    assert (wrong <= value["sumexp"] + tiny).all()
    assert (value["logistic"] <= value["sumexp"] + tiny).all()  # log(1 + x) <= x


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), shift=st.floats(-50, 50), surrogate=st.sampled_from(SURROGATES))
def test_shift_and_permutation_of_the_classes(seed, shift, surrogate):
    logits, target = batch(seed, (12, 4))
    rng = np.random.default_rng(seed)
    rho = rng.uniform(0.2, 3, 4)
    plain = ImmaxLoss(rho, surrogate=surrogate)(logits, target)
    torch.testing.assert_close(ImmaxLoss(rho, surrogate=surrogate)(logits + shift, target), plain)
    order = rng.permutation(4)
    position = torch.as_tensor(np.argsort(order))
    moved = ImmaxLoss(rho[order], surrogate=surrogate)(logits[:, order], position[target])
    torch.testing.assert_close(moved, plain)


@pytest.mark.parametrize("surrogate", ["logistic", "sumexp"])
@pytest.mark.parametrize("shape", [(6, 4), (3, 4, 2)])
def test_gradcheck(surrogate, shape):
    logits, target = batch(5, shape)
    loss = ImmaxLoss([0.5, 1.5, 1.0, 0.8], surrogate=surrogate, weight=[1.0, 2.0, 0.5, 1.0])
    assert torch.autograd.gradcheck(lambda h: loss(h, target), logits.requires_grad_())
    assert torch.autograd.gradgradcheck(lambda h: loss(h, target), logits)


def test_gradient_of_large_batches():
    generator = torch.Generator().manual_seed(0)
    loss = ImmaxLoss(np.linspace(0.3, 3, 350), reduction="sum")
    logits, target = batch(2, (190, 350))
    direction = torch.randn(logits.shape, generator=generator, dtype=torch.float64)
    logits.requires_grad_()
    (grad,) = torch.autograd.grad(loss(logits, target), logits)
    step = 1e-5
    with torch.no_grad():
        slope = (loss(logits + step * direction, target) - loss(logits - step * direction, target)) / (2 * step)
    torch.testing.assert_close((grad * direction).sum(), slope, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("surrogate", SURROGATES)
def test_extra_dimensions_are_rows(surrogate):
    logits, target = batch(3, (4, 5, 3, 2))
    loss = ImmaxLoss(RHO, surrogate=surrogate, weight=[1, 2, 3, 4, 5])
    flat = logits.permute(0, 2, 3, 1).reshape(-1, 5)
    torch.testing.assert_close(loss(logits, target), loss(flat, target.reshape(-1)))


def test_reductions_weights_and_smoothing_follow_cross_entropy():
    logits, target = batch()
    rho, weight = torch.tensor(RHO, dtype=torch.float64), torch.tensor([1.0, 2.0, 0.5, 3.0, 0.0], dtype=torch.float64)
    scaled = logits / rho[target][:, None]
    for reduction in ("mean", "sum", "none"):
        for smoothing in (0.0, 0.1):
            settings = {"reduction": reduction, "label_smoothing": smoothing}
            ours = ImmaxLoss(rho, weight=weight, **settings)(logits, target)
            torch.testing.assert_close(ours, F.cross_entropy(scaled, target, weight=weight, **settings))
    hinge = ImmaxLoss(rho, surrogate="hinge", reduction="none")(logits, target)
    mean = ImmaxLoss(rho, surrogate="hinge", weight=weight)(logits, target)
    torch.testing.assert_close(mean, (weight[target] * hinge).sum() / weight[target].sum())


def test_is_neither_vector_scaling_nor_logit_adjustment():
    """Vector scaling multiplies each logit by its own class's factor; here the true class scales the whole row."""
    logits, target = batch()
    rho = torch.tensor(RHO, dtype=torch.float64)
    ours = ImmaxLoss(rho, reduction="none")(logits, target)
    scaling = F.cross_entropy(logits / rho, target, reduction="none")
    adjusted = F.cross_entropy(logits + rho.log(), target, reduction="none")
    assert (ours - scaling).abs().max() > 0.1
    assert (ours - adjusted).abs().max() > 0.1


def test_from_counts():
    counts = [400, 50, 7]
    loss = ImmaxLoss.from_counts(counts, gamma=-0.25, scale=2.0, surrogate="hinge")
    rho = loss.rho.numpy()
    np.testing.assert_allclose(np.exp(np.log(rho).mean()), 2.0)
    np.testing.assert_allclose(rho[0] / rho[2], (400 / 7) ** -0.25)
    assert loss.surrogate == "hinge"
    np.testing.assert_allclose(ImmaxLoss.from_counts(counts, gamma=0).rho, 1.0)


# Half precision, moves and saving


def test_half_precision_keeps_the_margins():
    logits, target = batch(0, (256, 5), torch.float32)
    loss = ImmaxLoss(RHO, weight=[0.3, 1, 1, 1, 0.7])
    reference = loss(logits, target)
    loss.to(torch.bfloat16)
    assert loss.rho.dtype == loss.weight.dtype == torch.float64
    assert loss.rho.tolist() == RHO
    torch.testing.assert_close(loss(logits, target), reference, rtol=1e-6, atol=0)
    low = loss(logits.to(torch.bfloat16), target)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        auto = ImmaxLoss(RHO, weight=[0.3, 1, 1, 1, 0.7])(logits, target)
        layer = ImmaxLoss(RHO, weight=[0.3, 1, 1, 1, 0.7])(torch.nn.functional.linear(logits, torch.eye(5)), target)
    for value in (low, auto, layer):
        assert value.dtype == torch.float32
        assert torch.isfinite(value)
        torch.testing.assert_close(value, reference, rtol=1e-2, atol=0)


@pytest.mark.parametrize("cast", ["half", "float", "bfloat16", "double"])
def test_no_cast_rounds_even_inside_of_another_module(cast):
    model = torch.nn.ModuleDict({"head": torch.nn.Linear(3, 5), "loss": ImmaxLoss(RHO)})
    getattr(model, cast)()
    assert model["loss"].rho.tolist() == RHO
    assert model["head"].weight.dtype == {
        "half": torch.float16, "float": torch.float32, "bfloat16": torch.bfloat16, "double": torch.float64
    }[cast]  # fmt: skip


def test_moves_between_devices():
    loss = ImmaxLoss(RHO, weight=[1.0] * 5).to("meta")
    assert loss.rho.is_meta
    assert loss.weight.is_meta
    assert loss.rho.dtype == torch.float64
    back = loss.to_empty(device="cpu")
    back.load_state_dict(ImmaxLoss(RHO, weight=[2.0] * 5).state_dict())
    assert back.rho.tolist() == RHO
    assert back.weight.tolist() == [2.0] * 5


def test_state_dict_round_trip():
    loss = ImmaxLoss(RHO)
    other = ImmaxLoss([1.0] * 5).to(torch.bfloat16)
    other.load_state_dict(loss.state_dict())
    assert other.rho.tolist() == RHO
    logits, target = batch()
    torch.testing.assert_close(other(logits, target), loss(logits, target), rtol=0, atol=0)


@pytest.mark.slow
@pytest.mark.parametrize("surrogate", SURROGATES)
def test_compiles_without_graph_breaks(surrogate):
    logits, target = batch(0, (700, 100), torch.float32)
    loss = ImmaxLoss(np.linspace(0.5, 2, 100), surrogate=surrogate)
    compiled = torch.compile(loss, fullgraph=True)
    a, b = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    compiled(a, target).backward()
    loss(b, target).backward()
    torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-7)


def test_gradient_as_a_function():
    logits, target = batch(0, (700, 100))
    loss = ImmaxLoss(np.linspace(0.5, 2, 100))
    h = logits.clone().requires_grad_()
    loss(h, target).backward()
    torch.testing.assert_close(torch.func.grad(loss)(logits, target), h.grad)


# Extreme and bad input


def test_extreme_logits_stay_finite_and_nan_passes_through():
    loss = ImmaxLoss([0.5, 1.0, 2.0], reduction="none")
    logits = torch.tensor([[1e4, -1e4, 0.0], [0.0, -math.inf, 1.0], [math.nan, 0.0, 0.0]])
    value = loss(logits, torch.tensor([1, 0, 1]))
    assert value[0] == 2e4
    torch.testing.assert_close(value[1], torch.tensor(math.log1p(math.exp(2.0))))
    assert value[2].isnan()
    score = ImmaxLoss([0.5, 1.0], reduction="none")(torch.tensor([1e4, -1e4]), torch.tensor([0, 0]))
    assert score.tolist() == [2e4, 0.0]


@pytest.mark.parametrize(
    ("rho", "message"),
    [
        ([1.0, 0.0], "positive, got 0.0 for class index 1"),
        ([1.0, -2.0], "positive"),
        ([1.0, math.nan], "rho holds 1 value"),
        ([1.0, math.inf], "rho holds 1 value"),
        ([1.0], "at least 2 classes, got 1"),
        ([], "at least 2 classes, got 0"),
        ([[1.0, 2.0]], r"rho must have 1 dimension\(s\), got shape \(1, 2\)"),
    ],
)
def test_bad_rho(rho, message):
    with pytest.raises(ValueError, match=message):
        ImmaxLoss(rho)


def test_bad_settings():
    with pytest.raises(ValueError, match=r"surrogate must be one of .*'squared'"):
        ImmaxLoss([1, 1], surrogate="squared")
    with pytest.raises(ValueError, match="reduction must be one of"):
        ImmaxLoss([1, 1], reduction="median")
    with pytest.raises(ValueError, match="label_smoothing > 0 needs surrogate='logistic', got 'hinge'"):
        ImmaxLoss([1, 1], surrogate="hinge", label_smoothing=0.1)
    with pytest.raises(ValueError, match="3 weights for 2 rho"):
        ImmaxLoss([1, 1], weight=[1, 1, 1])
    with pytest.raises(ValueError, match="weight must be non-negative"):
        ImmaxLoss([1, 1], weight=[1, -1])
    with pytest.raises(ValueError, match="counts must be positive"):
        ImmaxLoss.from_counts([3, 0])
    with pytest.raises(ValueError, match="scale must be a finite number > 0"):
        ImmaxLoss.from_counts([3, 2], scale=-1.0)


def test_bad_input():
    loss = ImmaxLoss([1.0, 2.0, 3.0])
    logits = torch.zeros(4, 3)
    with pytest.raises(TypeError, match=r"target must hold class indices of an integer type, got torch.float32"):
        loss(logits, torch.zeros(4))
    with pytest.raises(TypeError, match=r"input must be a floating point tensor, got torch.int64"):
        loss(logits.long(), torch.zeros(4, dtype=torch.long))
    for bad in (3, -1, -100):
        with pytest.raises(ValueError, match=rf"target must lie in 0..2, got {bad}"):
            loss(logits, torch.tensor([0, 1, bad, 2]))
    with pytest.raises(ValueError, match="input has 4 classes in dimension 1, but rho has 3 entries"):
        loss(torch.zeros(3, 4), torch.zeros(3, dtype=torch.long))
    with pytest.raises(ValueError, match="is binary, but rho has 3 entries"):
        loss(torch.zeros(3), torch.zeros(3, dtype=torch.long))
    with pytest.raises(ValueError, match=r"target must have shape \(4,\), got \(3,\)"):
        loss(logits, torch.zeros(3, dtype=torch.long))
