"""The parts of SynEVO against hand-made cases, the backbone's structure, and the estimator's contract."""

from __future__ import annotations

import copy
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

from paperworks.dynamics import (
    GraphWaveNet,
    SynEVO,
    contrastive_loss,
    curriculum_order,
    domain_distance,
    elastic_factors,
    synapse_gate,
)
from paperworks.dynamics.synevo.series import Scaler, Series, at_same_times, errors, gate_windows
from paperworks.dynamics.synevo.training import full_gradient, masked_loss
from tests.dynamics.examples_synevo import domains, small

QUICK = {"window": 6, "horizon": 2, "epochs": 1, "cycles": 1, "random_state": 0}


@pytest.fixture(scope="module")
def fitted() -> SynEVO:
    return SynEVO(small, **QUICK).fit(domains())


# Curriculum


def test_order_of_hand_made_gradients() -> None:
    gradients = {
        "c": [np.array([3.0, 0.0]), np.array([4.0])],
        "b": [np.array([0.0, 1.0]), np.array([0.0])],
        "a": [np.array([0.0, -1.0]), np.array([0.0])],
        "d": [np.array([0.0, 3.0]), np.array([0.0])],
    }
    order, lengths, bench = curriculum_order(gradients)
    assert bench == "a"  # as small as b: ties by name
    assert order == ["a", "b", "d", "c"]
    assert lengths == pytest.approx({"a": 0.0, "b": 2.0, "d": 4.0, "c": math.sqrt(9 + 1 + 16)})
    same = {name: [1.0, 2.0] for name in "zyx"}
    assert curriculum_order(same) == (["x", "y", "z"], {"z": 0.0, "y": 0.0, "x": 0.0}, "x")


@settings(max_examples=40, deadline=None)
@given(
    lengths=st.dictionaries(st.text("abcdef", min_size=1, max_size=2), st.floats(0, 50), min_size=1, max_size=6),
    p0=st.floats(0.01, 1),
    lambda0=st.floats(0.01, 0.99),
    scale=st.sampled_from(["raw", "relative"]),
)
def test_factors_fall_from_easy_to_hard(lengths, p0, lambda0, scale) -> None:
    dropout, decay = elastic_factors(lengths, p0, lambda0, scale=scale)
    hardest = max(lengths, key=lambda n: lengths[n])
    assert dropout[hardest] == decay[hardest] == 0
    names = sorted(lengths, key=lambda n: lengths[n])
    for values, top in ((dropout, min(p0, 0.9)), (decay, lambda0)):
        ordered = [values[n] for n in names]
        assert ordered == sorted(ordered, reverse=True)
        assert 0 <= ordered[-1] <= ordered[0] <= top


def test_factors_are_the_formula() -> None:
    lengths = {"easy": 0.0, "middle": 1.0, "hard": 2.0}
    dropout, decay = elastic_factors(lengths, 0.5, 0.05)
    assert dropout["easy"] == pytest.approx(0.5 * (1 - math.exp(-2)))
    assert decay["middle"] == pytest.approx(0.05 * (1 - math.exp(-1)))
    relative, _ = elastic_factors({n: 1e-6 * v for n, v in lengths.items()}, 0.5, 0.05, scale="relative")
    assert relative["easy"] == pytest.approx(0.5 * (1 - math.exp(-3)))
    assert elastic_factors({"new": 9.0}, 0.5, 0.05, d_max=2.0)[0] == {"new": 0.0}
    assert elastic_factors({"a": 0.0, "b": 0.0}, 0.5, 0.05) == ({"a": 0.0, "b": 0.0}, {"a": 0.0, "b": 0.0})
    assert elastic_factors({"a": 0.0, "b": 99.0}, 1.0, 0.5)[0]["a"] == 0.9


# Gate


def test_contrastive_loss_by_hand() -> None:
    zero, far = torch.zeros(1, 2, 3), torch.full((1, 2, 3), 5.0)
    alike, different = torch.tensor([1]), torch.tensor([0])
    assert float(contrastive_loss(zero, zero, alike, 1.5)) == 0
    assert float(contrastive_loss(zero, zero, different, 1.5)) == 1.5
    assert float(contrastive_loss(zero, far, different, 1.5)) == 0
    assert float(contrastive_loss(zero, far, alike, 1.5)) == 25
    a, b = (torch.randn(4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(k)) for k in (0, 1))
    same = torch.tensor([True, False, True, False])
    assert torch.autograd.gradcheck(
        lambda x, y: contrastive_loss(x, y, same, 9.0), (a.requires_grad_(), b.requires_grad_())
    )


def test_gate() -> None:
    assert synapse_gate({"a": 0.49}, 0.5)
    assert not synapse_gate([0.5, 0.9], 0.5)
    assert synapse_gate([0.0], 0.5)
    for distances, kappa in (([], 1.0), ([-0.1], 1.0), ([math.nan], 1.0), ([0.1], 0.0)):
        with pytest.raises(ValueError, match=r"distances|kappa"):
            synapse_gate(distances, kappa)


def test_distance_of_scaled_windows_is_twice_one_minus_correlation() -> None:
    rng = np.random.default_rng(0)
    a = rng.normal(size=(4000, 3, 1))
    b = 0.6 * a + 0.8 * rng.normal(size=a.shape)
    scaled = [gate_windows(x, Scaler.of(x, "x"), 6).values for x in (a, b)]
    assert domain_distance(*scaled) == pytest.approx(2 * (1 - 0.6), abs=0.05)
    with pytest.raises(ValueError, match="same shape"):
        domain_distance(scaled[0], scaled[1][1:])
    with pytest.raises(ValueError, match="finite"):
        domain_distance([[np.nan]], [[1.0]])


def test_windows_of_the_gate_are_aligned_in_time() -> None:
    clock = np.arange(50.0)[:, None, None]
    same = Scaler(np.zeros((1, 1)), np.ones((1, 1)))
    long, short = gate_windows(clock, same, 6), gate_windows(clock[13:], same, 6)
    one, other = at_same_times([long, short])
    np.testing.assert_array_equal(one, other)
    assert len(one) == len(short.places) == 11
    begun = gate_windows(clock[:20], same, 6, length=50)  # only the first 20 steps are used
    one, other = at_same_times([long, begun])
    np.testing.assert_array_equal(one, other)
    assert one.max() <= 19
    assert len(one) == 5


def test_extractor_has_orthonormal_rows_and_tells_domains_apart(fitted: SynEVO) -> None:
    weight = fitted.extractors_["container"].numpy()
    np.testing.assert_allclose(weight @ weight.T, np.eye(len(weight)), atol=1e-4)
    assert weight.shape == (6, 6)
    assert {name: e.shape[-1] for name, e in fitted.embeddings_.items()} == dict.fromkeys("abc", 6)


# Backbone


def net(adjacency=None, n: int = 5, **options) -> GraphWaveNet:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        sizes = {"channels": 4, "blocks": 2, "layers": 2, "skip": 8, "end": 8, "dtype": torch.float64}
        return GraphWaveNet(n, 2, 3, adjacency, **(sizes | options)).eval()


def windows(length: int, n: int = 5) -> torch.Tensor:
    return torch.randn(4, length, n, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_permuting_nodes_permutes_forecasts() -> None:
    adjacency = np.random.default_rng(0).random((5, 5))
    order = torch.tensor([3, 0, 4, 1, 2])
    plain, turned = net(adjacency), net(adjacency[order][:, order])
    with torch.no_grad():
        turned.sources.copy_(plain.sources[order])
        turned.targets.copy_(plain.targets[order])
    x = windows(9)
    torch.testing.assert_close(turned(x[:, :, order]), plain(x)[:, :, order])
    assert not torch.allclose(plain(x[:, :, order]), plain(x)[:, :, order])


def test_receptive_field_is_exact() -> None:
    model = net()
    assert model.receptive_field == 1 + 2 * (1 + 2)
    x = windows(12)
    changed = x.clone()
    changed[:, : 12 - 7] += 100
    torch.testing.assert_close(model(changed), model(x))
    changed[:, 12 - 7] += 1
    assert (model(changed) - model(x)).abs().max() > 1e-6
    padded = torch.cat([torch.zeros(4, 3, 5, 2, dtype=torch.float64), x[:, :4]], dim=1)
    torch.testing.assert_close(model(x[:, :4]), model(padded))


def test_graph_convolution_follows_the_edges() -> None:
    """Without a learnt graph, nodes further than two edges a layer are not seen; without any graph, none are."""
    chain = np.diag(np.ones(7), 1)  # 0 -> 1 -> ... -> 7
    model = net(chain, 8, adaptive=False, blocks=1, layers=1)
    x = windows(2, 8).requires_grad_()
    model(x)[:, :, 3].sum().backward()
    reached = x.grad.abs().sum(dim=(0, 1, 3)) > 0
    assert reached.tolist() == [False, True, True, True, True, True, False, False]
    alone = net(adaptive=False)
    x = windows(9).requires_grad_()
    alone(x)[:, :, 3].sum().backward()
    assert (x.grad.abs().sum(dim=(0, 1, 3)) > 0).tolist() == [False, False, False, True, False]


def test_backbone_refuses_bad_input() -> None:
    for adjacency, message in (
        (np.ones((4, 5)), "shape"),
        (-np.ones((5, 5)), "negative"),
        (np.full((5, 5), np.nan), "adj"),
    ):
        with pytest.raises(ValueError, match=message):
            net(adjacency)
    with pytest.raises(ValueError, match="x must have the shape"):
        net()(windows(9)[..., :1])
    with pytest.raises(ValueError, match="channels"):
        net(channels=0)


def test_masked_loss_ignores_missing_targets_exactly() -> None:
    targets = torch.tensor([[1.0, math.nan, 3.0]])
    found = torch.tensor([[2.0, 50.0, 5.0]], requires_grad=True)
    for loss, want in (("mae", 3.0), ("mse", 5.0)):
        total, known = masked_loss(found, targets, loss)
        assert (float(total), int(known)) == (want, 2)
        (gradient,) = torch.autograd.grad(total, found)
        assert gradient[0, 1] == 0
        assert torch.isfinite(gradient).all()


def test_full_gradient_is_that_of_the_mean_loss() -> None:
    rng = np.random.default_rng(0)
    array = rng.normal(size=(30, 3, 1))
    array[5:9, 1] = np.nan
    data = Series(array, Scaler.of(array, "a"), 6, 2, 1, "cpu")
    model = small(3, 1, 2, None)
    found = full_gradient(model, data, batch_size=7, loss="mse")
    x, targets = data.batch(torch.arange(len(data)))
    known = ~torch.isnan(targets)
    ((model.eval()(x) - targets)[known] ** 2).mean().backward()
    for one, parameter in zip(found, model.parameters(), strict=True):
        np.testing.assert_allclose(one, 0 if parameter.grad is None else parameter.grad, atol=1e-5)


# Series


def test_gaps_are_filled_by_the_last_value_then_the_mean() -> None:
    array = np.array([np.nan, 2.0, np.nan, np.nan, 6.0])[:, None, None]
    filled = Scaler.of(array, "a").filled(array)[:, 0, 0]
    np.testing.assert_allclose(filled, [0, -1, -1, -1, 1])
    batch = np.stack([array, array[::-1]])
    np.testing.assert_allclose(Scaler.of(array, "a").filled(batch)[1, :, 0, 0], [1, 1, 1, -1, -1])


def test_errors_count_zeros_but_not_in_the_percentage() -> None:
    truth, found = np.array([[0.0, 2.0, np.nan, 4.0]]), np.array([[1.0, 1.0, 9.0, 4.0]])
    got = errors(found, truth, np.ones(4))
    assert got == pytest.approx({"mae": 2 / 3, "rmse": math.sqrt(2 / 3), "mape": 0.25})
    with pytest.raises(ValueError, match="known target"):
        errors(found, np.full((1, 4), np.nan), np.ones(4))


# The estimator


def test_regularisation_is_applied() -> None:
    seen: dict[str, tuple[set, set]] = {}

    def watch(domain, cycle, epoch, model, optimizer, loss) -> None:
        drop = {m.p for m in model.modules() if isinstance(m, torch.nn.Dropout)}
        seen[domain] = (drop, {group["weight_decay"] for group in optimizer.param_groups})

    model = SynEVO(small, **QUICK, callback=watch).fit(domains())
    assert seen == {n: ({model.dropout_[n]}, {model.weight_decay_[n]}) for n in "abc"}
    assert model.order_[0] == model.bench_
    hardest = max(model.lengths_, key=lambda n: model.lengths_[n])
    assert model.dropout_[hardest] == 0
    assert max(model.dropout_.values()) == pytest.approx(0.5 * (1 - math.exp(-3)))
    assert model.gradient_sums_[model.bench_] == min(model.gradient_sums_.values())
    static = SynEVO(small, **QUICK, elastic=False, reorder=None, callback=watch).fit(domains())
    assert seen == dict.fromkeys("abc", ({0.1}, {0.001}))
    assert (static.order_, static.bench_, static.lengths_) == (["a", "b", "c"], None, {})


def test_orders() -> None:
    easy = SynEVO(small, **QUICK).fit(domains()).order_
    assert SynEVO(small, **QUICK, reorder="hard_first").fit(domains()).order_ == easy[::-1]
    assert SynEVO(small, **QUICK, reorder=None).fit(domains()).order_ == ["a", "b", "c"]
    drawn = SynEVO(small, **QUICK, reorder="random", elastic=False).fit(domains()).order_
    assert sorted(drawn) == ["a", "b", "c"]


def test_identical_domains() -> None:
    series = domains()["a"]
    model = SynEVO(small, **QUICK).fit({"two": series, "one": series})
    assert model.lengths_ == {"one": 0.0, "two": 0.0}
    assert model.order_ == ["one", "two"]
    assert model.distances_.loc["one", "two"] == 0
    assert model.kappa_ == 0.5
    assert model.dropout_ == {"one": 0.0, "two": 0.0}


def test_related_joins_and_unrelated_leaves_the_container_untouched(fitted: SynEVO) -> None:
    model = copy.deepcopy(fitted)
    before = copy.deepcopy(model.model_.state_dict())
    rng = np.random.default_rng(1)
    model.adapt("noise", rng.normal(size=(80, 3)))
    assert model.gate_ == {"noise": False}
    assert all(torch.equal(before[k], v) for k, v in model.model_.state_dict().items())
    assert set(model.branches_) == {"noise"}
    assert "noise" not in model.order_
    model.adapt("near", domains()["b"] + 0.1 * rng.normal(size=(80, 3)))
    assert model.gate_["near"]
    assert model.order_[-1] == "near"
    assert any(not torch.equal(before[k], v) for k, v in model.model_.state_dict().items())
    assert model.d_max_ >= model.lengths_["near"]
    assert model.distances_.loc["near", "b"] < 0.5 < model.distances_.loc["noise", "b"]
    window = domains()["a"][None, :6]
    assert not np.allclose(model.predict(window, "noise"), model.predict(window, "a"))
    assert set(model.extractors_) == {"container", "noise"}
    everything = SynEVO(small, **QUICK, gate=False).fit(domains()).adapt("noise", rng.normal(size=(80, 3)))
    assert everything.gate_ == {"noise": True}


def test_zero_shot_trains_nothing_and_few_shot_sees_the_first_windows_only(fitted: SynEVO) -> None:
    before = copy.deepcopy(fitted.model_.state_dict())
    series = domains()["c"] * 3 + 50
    zero = copy.deepcopy(fitted).adapt("zero", series, epochs=0)
    assert all(torch.equal(before[k], v) for k, v in zero.model_.state_dict().items())
    assert -zero.score(series, "zero") < 3 * series.std()
    with pytest.warns(UserWarning, match="untrained"):
        copy.deepcopy(fitted).adapt("noise", np.random.default_rng(0).normal(size=(80, 3)), epochs=0)
    changed = series.copy()
    changed[30:] = -1000 + np.random.default_rng(1).normal(size=changed[30:].shape)
    used = 30 - 6 - 2 + 1
    one, other = (copy.deepcopy(fitted).adapt("few", x, few_shot=used) for x in (series, changed))
    np.testing.assert_array_equal(one.predict(series[None, :6], "few"), other.predict(series[None, :6], "few"))
    assert one.distances_.loc["few", "c"] == pytest.approx(other.distances_.loc["few", "c"])
    assert one.distances_.loc["few", "c"] < 0.3
    fewer = copy.deepcopy(fitted).adapt("few", series, few_shot=3)
    assert not np.allclose(fewer.predict(series[None, :6], "few"), one.predict(series[None, :6], "few"))


def test_it_learns() -> None:
    """Better than the naive last value and than the mean on a related domain that it has not been trained on."""
    rng = np.random.default_rng(0)
    base = np.sin(np.arange(400)[:, None] / 3 + np.arange(3))
    made = {n: base * (k + 1) + 0.05 * rng.normal(size=base.shape) for k, n in enumerate(["a", "b", "new"])}
    options = QUICK | {"epochs": 8, "window": 8}
    model = SynEVO(small, **options, lr=5e-3, curriculum_lr=5e-3).fit({n: made[n] for n in "ab"})
    new = made["new"]
    error = -model.adapt("new", new, few_shot=20, epochs=0).score(new, "new")
    last = np.abs(new[2:] - new[:-2]).mean()
    assert error < 0.7 * last
    assert error < 0.5 * np.abs(new - new.mean(axis=0)).mean()
    losses = [entry["loss"] for entry in model.history_ if entry["domain"] == model.order_[0]]
    assert losses[-1] < losses[0]


def test_zeros_gaps_and_dead_nodes() -> None:
    rng = np.random.default_rng(0)
    T, N = 260, 3
    a = np.maximum(0, np.sin(np.arange(T)[:, None] / 6) + 0.1 * rng.normal(size=(T, N)))
    b = a + 0.05 * rng.normal(size=(T, N))
    b[50:60, 1] = np.nan
    model = SynEVO(small, **QUICK).fit({"a": a, "b": b})
    scores = [model.score(a, "a", "mae"), model.score(a, "a", "mape"), model.score(b, "b", "mae")]
    assert np.isfinite(scores).all()
    assert -scores[1] < 10
    dead = a.copy()
    dead[:, 2] = np.nan
    with pytest.raises(ValueError, match="'dead' has no value at node 2"):
        SynEVO(small, **QUICK).fit({"a": a, "dead": dead})
    gap = a[None, :6].copy()
    gap[0, 3:, 1] = np.nan
    assert np.isfinite(model.predict(gap, "a")).all()
    flat = a.copy()
    flat[:, 0] = 4.0
    with pytest.warns(UserWarning, match="'flat' is constant at node 0"):
        SynEVO(small, **QUICK).fit({"flat": flat})


def test_frames_and_features(fitted: SynEVO) -> None:
    frames = {name: pd.DataFrame(values, columns=["x", "y", "z"]) for name, values in domains().items()}
    window = domains()["a"][None, :6]
    same = SynEVO(small, **QUICK).fit(frames)
    np.testing.assert_array_equal(same.predict(window, "a"), fitted.predict(window, "a"))
    xarray = pytest.importorskip("xarray")
    arrays = {name: xarray.DataArray(values, dims=("time", "node")) for name, values in domains().items()}
    np.testing.assert_array_equal(SynEVO(small, **QUICK).fit(arrays).predict(window, "a"), fitted.predict(window, "a"))
    wide = {name: np.stack([values, values**2], axis=-1) for name, values in domains().items()}
    model = SynEVO(small, **QUICK).fit(wide)
    assert model.predict(wide["a"][None, :6], "a").shape == (1, 2, 3)
    with pytest.raises(ValueError, match="X_window"):
        model.predict(window, "a")


def test_domain_of_a_window_is_found_by_its_mean(fitted: SynEVO) -> None:
    model = copy.deepcopy(fitted).adapt("high", domains()["b"] + 100, epochs=0)
    window = domains()["b"][None, :6] + 100
    np.testing.assert_array_equal(model.predict(window), model.predict(window, "high"))
    assert model.score(domains()["b"] + 100) == model.score(domains()["b"] + 100, "high")
    frame = model.evaluate({"a": domains()["a"], "high": domains()["b"] + 100})
    assert list(frame.columns) == ["mae", "rmse", "mape"]
    assert frame.loc["a", "mae"] == -model.score(domains()["a"], "a")
    assert model.predict(np.empty((0, 6, 3)), "a").shape == (0, 2, 3)


def test_save_and_load(fitted: SynEVO, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    model = copy.deepcopy(fitted).adapt("noise", rng.normal(size=(80, 3)))
    model.save(tmp_path / "model.pt")
    assert [p.name for p in tmp_path.iterdir()] == ["model.pt"]
    back = SynEVO.load(tmp_path / "model.pt", backbone=small)
    window = domains()["a"][None, :6]
    for name in ("a", "noise"):
        np.testing.assert_array_equal(back.predict(window, name), model.predict(window, name))
    pd.testing.assert_frame_equal(back.distances_, model.distances_)
    assert back.get_params() == model.get_params()
    near = domains()["b"] + 0.1 * rng.normal(size=(80, 3))
    one, other = back.adapt("near", near), model.adapt("near", near)
    np.testing.assert_array_equal(one.predict(window, "near"), other.predict(window, "near"))
    with pytest.raises(ValueError, match="backbone"):
        SynEVO.load(tmp_path / "model.pt")


def test_default_backbone_round_trips(tmp_path: Path) -> None:
    given = {name: values[:40] for name, values in domains().items() if name != "c"}
    model = SynEVO(**QUICK, curriculum_lr=1e-3, reorder=None, elastic=False).fit(given, np.ones((3, 3)))
    assert isinstance(model.model_, GraphWaveNet)
    model.save(tmp_path / "model.pt")
    window = given["a"][None, :6]
    np.testing.assert_array_equal(SynEVO.load(tmp_path / "model.pt").predict(window, "a"), model.predict(window, "a"))


def test_torch_stream_is_put_back() -> None:
    before = torch.random.get_rng_state()
    SynEVO(small, **QUICK).fit(domains())
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"p0": 0.0}, "p0"),
        ({"p0": 1.1}, "p0"),
        ({"lambda0": 1.0}, "lambda0"),
        ({"kappa": 0.0}, "kappa"),
        ({"kappa": math.nan}, "kappa"),
        ({"cycles": 0}, "cycles"),
        ({"window": 0}, "window"),
        ({"gate_space": "other"}, "gate_space"),
        ({"reorder": "easy"}, "reorder"),
        ({"loss": "huber"}, "loss"),
        ({"backbone": "gru"}, "backbone"),
        ({"elastic_scale": "own"}, "scale"),
        ({"lr": -1.0}, "lr"),
    ],
)
def test_bad_parameters(options, message) -> None:
    with pytest.raises(ValueError, match=message):
        SynEVO(**({"backbone": small, **QUICK} | options)).fit(domains())


def test_bad_domains(fitted: SynEVO) -> None:
    good = domains()
    cases = (
        ({}, ValueError, "at least one"),
        ([good["a"]], TypeError, "mapping"),
        ({"a": good["a"], "b": good["a"][:, :2]}, ValueError, "'b' must have the nodes"),
        ({"a": good["a"][:17]}, ValueError, "'a' must have at least 18 time steps, got 17"),
        ({"a": good["a"][:, 0]}, ValueError, "shape"),
        ({"a": np.full((80, 3), np.inf)}, ValueError, "infinite"),
        ({"a": np.full((80, 3), "x")}, TypeError, "numbers"),
        ({"a": good["a"], 1: good["b"], "1": good["c"]}, ValueError, "different names"),
    )
    for given_domains, kind, message in cases:
        with pytest.raises(kind, match=message):
            SynEVO(small, **QUICK).fit(given_domains)
    for adjacency in (np.ones((2, 2)), -np.ones((3, 3)), np.full((3, 3), np.nan)):
        with pytest.raises(ValueError, match="adjacency"):
            SynEVO(small, **QUICK).fit(good, adjacency)
    with pytest.raises(ValueError, match="kappa"):
        SynEVO(small, **QUICK, gate_space="embedding").fit({"a": good["a"]})
    for call in (
        lambda m: m.predict(good["a"][None, :6]),
        lambda m: m.adapt("x", good["a"]),
        lambda m: m.score(good["a"]),
    ):
        with pytest.raises(NotFittedError):
            call(SynEVO(small))
    model = copy.deepcopy(fitted)
    with pytest.raises(KeyError, match="known are a, b, c"):
        model.predict(good["a"][None, :6], "z")
    with pytest.raises(ValueError, match="'a' is known"):
        model.adapt("a", good["a"])
    with pytest.raises(ValueError, match="few_shot"):
        model.adapt("few", good["a"][:10], few_shot=50)
    with pytest.raises(ValueError, match="nodes and features"):
        model.adapt("few", good["a"][:, :2])
    with pytest.raises(ValueError, match="metric"):
        model.score(good["a"], "a", "mse")
    with pytest.warns(UserWarning, match="no dropout"):
        SynEVO(lambda n, f, h, a: _Plain(n, h), **QUICK).fit(good)


class _Plain(torch.nn.Module):
    def __init__(self, n: int, h: int) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(6, h)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x[..., 0].transpose(1, 2)).transpose(1, 2)


def test_embedding_gate() -> None:
    model = SynEVO(small, **QUICK, gate_space="embedding", kappa=0.3).fit(domains())
    assert model.kappa_ == 0.3
    model.adapt("near", domains()["b"] + 0.01)
    assert model.gate_["near"]
    auto = SynEVO(small, **QUICK, gate_space="embedding").fit(domains())
    nearest = auto.distances_.replace(0.0, np.inf).min(axis=1).max()
    assert auto.kappa_ == pytest.approx(1.5 * nearest)
