"""The pair risks against double loops, closed forms, and the identities they rest on."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from paperworks.imbalanced import auc_risk_positive, auc_risk_pu

CLOSED = {
    "sigmoid": lambda z: 1 / (1 + math.exp(z)),
    "logistic": lambda z: math.log(1 + math.exp(-z)),
    "squared": lambda z: (1 - z) ** 2 / 2,
    "hinge": lambda z: max(0.0, 1 - z),
    "ramp": lambda z: min(1.0, max(0.0, (1 - z) / 2)),
    "zero_one": lambda z: 1.0 if z < 0 else 0.5 if z == 0 else 0.0,
}
SMOOTH = ["sigmoid", "logistic", "squared", "hinge", "ramp"]


def by_loops(a, b, v, w, loss, normalise):
    total = sum(v[i] * w[j] * CLOSED[loss](a[i] - b[j]) for i in range(len(a)) for j in range(len(b)))
    return total / (np.sum(v) * np.sum(w) if normalise else len(a) * len(b))


def draw(seed, n=7, m=11):
    rng = np.random.default_rng(seed)
    a, b = 2 * rng.normal(size=n) + 0.5, 2 * rng.normal(size=m)
    b[0] = a[0]  # a tie
    return a, b, rng.uniform(0, 3, n), rng.uniform(0, 3, m)


@pytest.mark.parametrize("loss", CLOSED)
@pytest.mark.parametrize("normalise", [True, False])
@pytest.mark.parametrize("chunk", [None, 2])
@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_equals_the_double_loop(loss, normalise, chunk, backend):
    a, b, v, w = draw(0)
    x, y = a, b
    if backend == "torch":
        torch = pytest.importorskip("torch")
        x, y = torch.from_numpy(a), torch.from_numpy(b)
    one = np.ones
    kwargs = {"loss": loss, "normalise": normalise, "chunk": chunk}
    for found, expected in (
        (auc_risk_pu(x, y, v, w, **kwargs), by_loops(a, b, v, w, loss, normalise)),
        (auc_risk_pu(x, y, **kwargs), by_loops(a, b, one(7), one(11), loss, normalise)),
        (auc_risk_positive(x, y, v, **kwargs), by_loops(a, b, v, one(11), loss, normalise)),
        (auc_risk_positive(x, y, **kwargs), by_loops(a, b, one(7), one(11), loss, normalise)),
    ):
        assert float(found) == pytest.approx(expected, rel=1e-12, abs=1e-14)
        assert isinstance(found, float) if backend == "numpy" else found.shape == ()


@pytest.mark.parametrize("loss", CLOSED)
@pytest.mark.parametrize("spread", [0.01, 1.0, 4.0, 300.0])
@pytest.mark.parametrize("sizes", [(700, 900), (900, 700), (3, 2000)])
def test_the_fast_sums_equal_the_pairs(loss, spread, sizes):
    """Large samples take sorts, moments and Chebyshev nodes; `chunk` takes pairs."""
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(1)
    v, w = (rng.uniform(0, 3, n) for n in sizes)
    found = []
    for chunk in (None, 100):
        rng = np.random.default_rng(2)
        a, b = (torch.from_numpy(spread * rng.normal(size=n) + 1).requires_grad_() for n in sizes)
        risk = auc_risk_pu(a, b, v, w, loss=loss, chunk=chunk)
        risk.backward()
        found.append([risk.detach().numpy(), a.grad.numpy(), b.grad.numpy()])
    for fast, slow in zip(*found, strict=True):
        np.testing.assert_allclose(fast, slow, rtol=1e-11, atol=1e-12 * max(np.abs(slow).max(), 1e-4))


@pytest.mark.parametrize("loss", SMOOTH)
def test_gradients_equal_differences(loss):
    torch = pytest.importorskip("torch")
    a, b, v, w = draw(3)
    b = b + 0.123  # no kink within the step
    x, y = torch.from_numpy(a).requires_grad_(), torch.from_numpy(b).requires_grad_()
    assert torch.autograd.gradcheck(lambda x, y: auc_risk_pu(x, y, v, w, loss=loss, normalise=False), (x, y))
    assert torch.autograd.gradcheck(lambda x, y: auc_risk_positive(x, y, v, loss=loss), (x, y))


def test_own_losses():
    torch = pytest.importorskip("torch")
    a, b, v, w = draw(4)
    expected = auc_risk_pu(a, b, v, w)
    assert auc_risk_pu(a, b, v, w, loss=lambda z: 1 / (1 + np.exp(z)), chunk=2) == pytest.approx(expected, rel=1e-12)
    grads = []
    for loss in ("sigmoid", lambda z: torch.sigmoid(-z)):
        x = torch.from_numpy(a.copy()).requires_grad_()
        auc_risk_pu(x, torch.from_numpy(b), v, w, loss=loss, prior=0.3).backward()
        grads.append(x.grad.numpy())
    np.testing.assert_allclose(*grads, rtol=1e-12)
    with pytest.raises(ValueError, match="loss"):
        auc_risk_pu(a, b, loss=lambda z: z.sum())


def test_zero_one_is_one_minus_auc():
    rng = np.random.default_rng(5)
    y, scores = rng.random(300) < 0.3, rng.integers(0, 20, 300).astype(float)
    risk = auc_risk_pu(scores[y], scores[~y], loss="zero_one")
    assert risk == pytest.approx(1 - roc_auc_score(y, scores), rel=1e-12)


@given(st.lists(st.floats(-30, 30), min_size=1, max_size=40))
@settings(max_examples=50, deadline=None)
def test_a_sample_against_itself_is_one_half(scores):
    for loss in ("sigmoid", "ramp", "zero_one"):
        assert auc_risk_pu(scores, scores, loss=loss) == pytest.approx(0.5, rel=1e-12)


def test_prior_gives_the_risk_against_negatives():
    """A mixture in exact proportions: Q = (1 - pi) R + pi/2, so the prior recovers R."""
    rng = np.random.default_rng(6)
    pos, neg = rng.normal(1, 1, 3), rng.normal(0, 1, 7)
    mixture = np.concatenate((pos, neg))
    for loss in ("sigmoid", "ramp", "zero_one"):
        direct = auc_risk_pu(pos, neg, loss=loss)
        assert auc_risk_pu(pos, mixture, loss=loss) == pytest.approx(0.7 * direct + 0.15, rel=1e-12)
        assert auc_risk_positive(pos, mixture, loss=loss, prior=0.3) == pytest.approx(direct, rel=1e-12, abs=1e-15)


@given(st.integers(0, 10_000))
@settings(max_examples=30, deadline=None)
def test_both_estimators_are_unbiased(seed):
    """Four atoms with known laws: expectations over them are weighted sums with the laws in the place of samples."""
    rng = np.random.default_rng(seed)
    p_train, p_target, scores = rng.dirichlet(np.ones(4)), rng.dirichlet(np.ones(4)), rng.normal(size=4)
    eta = rng.uniform(0.05, 0.95, 4)  # p(y = 1 | x), the same in both domains
    w = p_target / p_train
    pi_train, pi_target = p_train @ eta, p_target @ eta
    pos_train, pos_target, neg_target = p_train * eta / pi_train, p_target * eta / pi_target, p_target * (1 - eta)
    loss = np.array([[CLOSED["sigmoid"](s - t) for t in scores] for s in scores])
    truth = pos_target @ loss @ p_target
    mean_w = pos_train @ w
    assert mean_w == pytest.approx(pi_target / pi_train)
    # n^2 times an unnormalised mean over atoms, weighted by law times ratio, is the expectation
    q1 = 16 * auc_risk_pu(scores, scores, pos_train * w, p_train * w, normalise=False) / mean_w
    q2 = 16 * auc_risk_pu(scores, scores, pos_train * w, p_target, normalise=False) / mean_w
    assert q1 == pytest.approx(truth, rel=1e-12)
    assert q2 == pytest.approx(truth, rel=1e-12)
    risk = pos_target @ loss @ (neg_target / (1 - pi_target))
    assert (q2 - pi_target / 2) / (1 - pi_target) == pytest.approx(risk, rel=1e-9)


@pytest.mark.parametrize("loss", CLOSED)
def test_invariance(loss):
    a, b, v, w = draw(7)
    base = auc_risk_pu(a, b, v, w, loss=loss)
    assert auc_risk_pu(a, b, 5 * v, w / 9, loss=loss) == pytest.approx(base, rel=1e-12)
    assert auc_risk_pu(a + 64, b + 64, v, w, loss=loss) == pytest.approx(base, rel=1e-11)
    order = np.random.default_rng(0).permutation(len(b))
    assert auc_risk_pu(a, b[order], v, w[order], loss=loss) == pytest.approx(base, rel=1e-12)
    one = auc_risk_positive(a[:1], b, v[:1], loss=loss)
    assert one == pytest.approx(np.mean([CLOSED[loss](a[0] - t) for t in b]), rel=1e-12)


def test_half_precision_scores_and_extreme_scores():
    torch = pytest.importorskip("torch")
    a = torch.tensor([1.0, 0.5], dtype=torch.bfloat16, requires_grad=True)
    risk = auc_risk_positive(a, torch.tensor([0.0, 2.0], dtype=torch.bfloat16))
    risk.backward()
    assert risk.dtype == a.grad.dtype == torch.bfloat16
    assert float(risk.detach()) == pytest.approx(auc_risk_positive([1.0, 0.5], [0.0, 2.0]), rel=1e-2)
    for loss in SMOOTH:
        assert np.isfinite(auc_risk_pu([1e4, -1e4], [0.0, 1e4], loss=loss))
    assert auc_risk_pu([-1e4], [1e4], loss="logistic") == pytest.approx(2e4)


@pytest.mark.parametrize("loss", ["sigmoid", "logistic", "hinge", "ramp", "squared", "zero_one"])
@pytest.mark.parametrize("spread", [1.0, 500.0])
def test_the_matrix_of_pairs_is_never_held(loss, spread):
    rng = np.random.default_rng(8)
    a, b = spread * rng.normal(size=1500), spread * rng.normal(size=2500)  # 30 MB of pairs
    auc_risk_pu(a[:50], b[:50], loss=loss)
    tracemalloc.start()
    auc_risk_pu(a, b, loss=loss)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8e6


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"weight_pos": [1.0, -1.0]}, "weight_pos must not be negative"),
        ({"weight_pos": [1.0, np.nan]}, "weight_pos"),
        ({"weight_pos": [0.0, 0.0]}, "weight_pos must not be all zero"),
        ({"weight_unl": [1.0]}, "weight_unl must have 3"),
        ({"loss": "exponential"}, "loss must be one of"),
        ({"prior": 1.0}, "prior"),
        ({"prior": 0.2, "loss": "logistic"}, "prior needs a loss"),
        ({"prior": 0.2, "loss": lambda z: z**2}, "prior needs a loss"),
        ({"score_pos": []}, "score_pos must hold"),
        ({"score_unl": [np.inf, 0.0, 1.0]}, "score_unl"),
        ({"score_unl": [[0.0, 1.0, 2.0]]}, "score_unl"),
        ({"chunk": 0}, "chunk"),
    ],
)
def test_bad_input_is_named(change, match):
    with pytest.raises(ValueError, match=match):
        auc_risk_pu(**{"score_pos": [1.0, 2.0], "score_unl": [0.0, 1.0, 2.0], **change})


def test_tensors_and_arrays_do_not_mix():
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match="score_target"):
        auc_risk_positive(torch.zeros(2), np.zeros(2))
    with pytest.raises(ValueError, match="score_pos"):
        auc_risk_positive(torch.tensor([float("nan")]), torch.zeros(2))
    with pytest.raises(ValueError, match="score_pos must be a 1-d tensor of floats"):
        auc_risk_positive(torch.zeros(2, dtype=torch.int64), torch.zeros(2))
