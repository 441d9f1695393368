"""The circuit engine against closed forms, explicit gates and PennyLane; the models' contracts."""

from __future__ import annotations

import itertools
import math
import pickle
from functools import reduce
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from paperworks.datasets import make_operator_data
from paperworks.dynamics import HEAQNN, QuanONet, QuanONetRegressor, depolarize, hamiltonian_spectrum

DOUBLE = {"dtype": torch.float64}


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def pairs(m: int, d: int, batch: int = 4, seed: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    drawn = 3 * torch.randn(batch, m + d, generator=generator(seed), dtype=torch.float64)
    return drawn[:, :m], drawn[:, m:]


def model_of(n: int, net_size=(2, 2, 3, 1), m: int = 2, d: int = 1, seed: int = 0, **options) -> QuanONet:
    return QuanONet(m, d, num_qubits=n, net_size=net_size, generator=generator(seed), **DOUBLE, **options)


PAULI = {
    "X": np.array([[0, 1], [1, 0]], dtype=complex),
    "Y": np.array([[0, -1j], [1j, 0]]),
    "Z": np.diag([1.0, -1.0]).astype(complex),
}


def on_qubit(gate: np.ndarray, q: int, n: int) -> np.ndarray:
    """The matrix of a gate on one qubit, qubit q being bit q of the index."""
    return reduce(np.kron, [gate if k == q else np.eye(2) for k in reversed(range(n))])


def rotation(name: str, angle: float, q: int, n: int) -> np.ndarray:
    half = angle / 2
    return on_qubit(math.cos(half) * np.eye(2) - 1j * math.sin(half) * PAULI[name], q, n)


def cnot(control: int, target: int, n: int) -> np.ndarray:
    off, on = np.diag([1.0, 0.0]), np.diag([0.0, 1.0])
    return on_qubit(off, control, n) + on_qubit(on, control, n) @ on_qubit(PAULI["X"], target, n)


def by_gates(model: QuanONet | HEAQNN, u: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, float]:
    """State and expectation of one pair, one gate matrix after the other, written from the definition."""
    n = model.num_qubits
    layers = iter(model.ansatz.detach().numpy())
    state = np.zeros(2**n, dtype=complex)
    state[0] = 1
    if isinstance(model, QuanONet):
        b, b_layers, t, t_layers = model.net_size
        parts = [(model.trunk_freq, y, t, t_layers), (model.branch_freq, u, b, b_layers)]
    else:
        parts = [(model.freq, np.concatenate([u, y]), *model.net_size)]
    for frequencies, x, depth, n_layers in parts:
        w, bias = frequencies.weight.detach().numpy(), frequencies.bias.detach().numpy()
        for block in range(depth):
            for q in range(n):
                k = block * n + q
                state = rotation("X", w[k] * x[k % len(x)] + bias[k], q, n) @ state
            for _ in range(n_layers):
                layer = next(layers)
                for name, angles in zip("YZY", layer, strict=True):
                    for q in range(n):
                        state = rotation(name, angles[q], q, n) @ state
                for q in range(n) if n > 1 else ():
                    state = cnot((q + 1) % n, q, n) @ state
    if model.observable.is_pauli_sum:
        low, high = model.observable.spectrum
        total = sum(on_qubit(PAULI[model.observable.pauli], q, n) for q in range(n))
        H = (low + high) / 2 * np.eye(2**n) + (high - low) / (2 * n) * total
    else:
        H = np.diag(model.observable.diagonal.numpy())
    return state, (state.conj() @ H @ state).real


# The circuit


def test_one_qubit_adds_the_angles() -> None:
    model = QuanONet(1, num_qubits=1, net_size=(1, 1, 1, 1), trainable_frequency=False, scale=1.0, **DOUBLE)
    torch.nn.init.zeros_(model.ansatz)
    u, y = pairs(1, 1, 50)
    torch.testing.assert_close(model(u, y), 5 * torch.cos(u + y)[:, 0], rtol=0, atol=1e-12)


@settings(max_examples=25, deadline=None)
@given(
    n=st.integers(1, 4),
    sizes=st.tuples(*[st.integers(1, 3)] * 4),
    pauli=st.sampled_from("XYZ"),
    spectrum=st.tuples(st.floats(-9, -1), st.floats(0, 9)),
    seed=st.integers(0, 99),
)
def test_engine_equals_gate_matrices(n, sizes, pauli, spectrum, seed) -> None:
    model = model_of(n, sizes, m=1, d=1, seed=seed, pauli=pauli, spectrum=spectrum, scale=0.7)
    torch.nn.init.constant_(model.bias, 0.3)
    u, y = pairs(1, 1, 2, seed)
    states = model.states(u, y).detach().numpy()
    values = model(u, y).detach().numpy()
    for k in range(2):
        state, value = by_gates(model, u[k].numpy(), y[k].numpy())
        np.testing.assert_allclose(states[k], state, atol=1e-12)
        assert values[k] == pytest.approx(value + 0.3, abs=1e-12)
        assert np.linalg.norm(states[k]) == pytest.approx(1, abs=1e-12)
        assert spectrum[0] - 1e-9 <= value <= spectrum[1] + 1e-9


@pytest.mark.parametrize("n", [7, 8])
def test_many_qubits_equal_gate_matrices(n) -> None:
    """Past six qubits the engine multiplies halves of the qubits one after the other."""
    h = torch.randn(2**n, generator=generator(3), dtype=torch.float64)
    for options in ({}, {"hamiltonian": h}, {"pauli": "Y"}):
        model = model_of(n, (1, 2, 1, 2), m=5, d=2, **options)
        u, y = pairs(5, 2, 2)
        state, value = by_gates(model, u[1].numpy(), y[1].numpy())
        np.testing.assert_allclose(model.states(u, y)[1].detach().numpy(), state, atol=1e-12)
        assert float(model(u, y)[1].detach()) == pytest.approx(value, abs=1e-11)


def test_baseline_equals_gate_matrices() -> None:
    model = HEAQNN(3, 2, num_qubits=3, net_size=(2, 2), generator=generator(), **DOUBLE)
    assert model.bias is None
    u, y = pairs(3, 2)
    want = [by_gates(model, a, b)[1] for a, b in zip(u.numpy(), y.numpy(), strict=True)]
    np.testing.assert_allclose(model(u, y).detach().numpy(), want, atol=1e-12)


def test_the_order_is_trunk_first() -> None:
    """With the layers' rows exchanged the output differs: the order of the parts is part of the model."""
    model = model_of(2, (1, 1, 1, 1), m=2, d=2)
    u, y = pairs(2, 2)
    swapped = model_of(2, (1, 1, 1, 1), m=2, d=2)
    swapped.ansatz.data = model.ansatz.data.flip(0)
    assert (model(u, y) - swapped(u, y)).abs().max() > 0.1


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_pennylane_agrees(n) -> None:
    pytest.importorskip("pennylane")
    h = torch.randn(2**n, generator=generator(3), dtype=torch.float64)  # not symmetric: shows the order of bits
    u, y = pairs(2, 1)
    for options in ({}, {"pauli": "X"}, {"pauli": "Y"}, {"hamiltonian": h}):
        model = model_of(n, (2, 1, 2, 2), **options)
        torch.nn.init.constant_(model.bias, 0.5)
        circuit = model.to_pennylane()
        torch.testing.assert_close(circuit(u, y), model(u, y), rtol=0, atol=1e-10)
        single = circuit(u[0].numpy(), y[0].numpy())
        assert isinstance(single, np.ndarray)
        assert float(single) == pytest.approx(float(model(u, y)[0]), abs=1e-10)


def test_shots_scatter_around_the_expectation() -> None:
    pytest.importorskip("pennylane")
    u, y = pairs(2, 1)
    model = model_of(2, (1, 1, 1, 1))
    found = np.array([float(model.to_pennylane(shots=2000)(u[0], y[0])) for _ in range(5)])
    assert np.ptp(found) > 0
    assert abs(found.mean() - float(model(u, y)[0])) < 5 * 5 / np.sqrt(10_000)


def test_qasm_is_the_same_circuit() -> None:
    model = model_of(2, (2, 1, 2, 2), pauli="Y")
    u, y = pairs(2, 1)
    text = model.qasm(u[0], y[0])
    lines = text.splitlines()
    gates = [line for line in lines if line.startswith(("rx", "ry", "rz", "cx"))]
    # four blocks of 2 RX; 2·1 + 2·2 layers of 6 rotations and 2 CNOTs
    assert len(gates) == 8 + 6 * 8
    state = np.zeros(4, dtype=complex)
    state[0] = 1
    for line in gates:
        name, _, places = line.rstrip(";").partition(" ")
        qubits = [int(p[2:-1]) for p in places.split(",")]
        if name == "cx":
            state = cnot(*qubits, 2) @ state
        else:
            state = rotation(name[1].upper(), float(name[3:-1]), qubits[0], 2) @ state
    np.testing.assert_allclose(state, model.states(u, y)[0].detach().numpy(), atol=1e-12)
    assert sum(line.startswith("measure") for line in lines) == 2
    assert [line for line in lines if line.startswith(("h ", "sdg "))] == [
        "sdg q[0];",
        "h q[0];",
        "sdg q[1];",
        "h q[1];",
    ]
    with pytest.raises(ValueError, match="one pair"):
        model.qasm(u, y)


def test_drawing_shows_the_parts() -> None:
    lines = model_of(3, (4, 2, 5, 1)).draw().splitlines()
    assert [line[:3] for line in lines] == ["q0:", "q1:", "q2:"]
    assert len({len(line) for line in lines}) == 1
    assert lines[0].index("[5×") < lines[0].index("[4×")
    assert "(1×" in lines[0]
    assert all(line.count("RZ") == 2 and line.endswith("⟨Z⟩") for line in lines)


# Gradients


def test_parameter_shift_equals_autograd() -> None:
    model = model_of(2, (1, 1, 1, 2))
    u, y = pairs(2, 1, 1)
    model(u, y).sum().backward()
    for index in itertools.product(*map(range, model.ansatz.shape)):
        values = []
        for shift in (math.pi / 2, -math.pi / 2):
            with torch.no_grad():
                model.ansatz[index] += shift
                values.append(float(model(u, y)))
                model.ansatz[index] -= shift
        assert (values[0] - values[1]) / 2 == pytest.approx(float(model.ansatz.grad[index]), abs=1e-7)


@pytest.mark.parametrize("n", [1, 3, 7])
def test_undoing_blocks_gives_the_same_gradients(n) -> None:
    plain, undone = (model_of(n, (3, 2, 4, 1), adjoint=adjoint) for adjoint in (False, True))
    u, y = pairs(2, 1)
    for model in (plain, undone):
        inputs = [value.clone().requires_grad_() for value in (u, y)]
        loss = model(*inputs).square().sum() + model.forward_grid(inputs[0], inputs[1][:3]).sin().sum()
        loss.backward()
        model.inputs = [value.grad for value in inputs]
    for one, other in zip(plain.parameters(), undone.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad, rtol=0, atol=1e-11)
    for one, other in zip(plain.inputs, undone.inputs, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-11)
    undone.ansatz.requires_grad_(False)  # frozen parts get none, the others the same
    undone.zero_grad()
    undone(u, y).square().sum().backward()
    assert undone.ansatz.grad is None
    assert undone.branch_freq.bias.grad.abs().max() > 0


def test_gradients_by_finite_differences() -> None:
    model = model_of(2, (1, 1, 1, 1)).requires_grad_(False)
    u, y = pairs(2, 1, 3)
    assert torch.autograd.gradcheck(model, (u.requires_grad_(), y.requires_grad_()))
    assert torch.autograd.gradgradcheck(model, (u, y))


# Structure


def test_output_is_a_trigonometric_polynomial_of_an_angle() -> None:
    model = model_of(3, (2, 2, 2, 2)).requires_grad_(False)
    u, y = pairs(2, 1, 1)

    def at(angle: float) -> float:
        model.branch_freq.bias[4] = angle
        return float(model(u, y))

    known = np.array([0.0, 1.0, 2.5])
    basis = np.column_stack([np.ones(3), np.cos(known), np.sin(known)])
    a, b, c = np.linalg.solve(basis, [at(angle) for angle in known])
    assert at(4.2) == pytest.approx(a + b * math.cos(4.2) + c * math.sin(4.2), abs=1e-10)
    assert at(4.2 + 2 * math.pi) == pytest.approx(at(4.2), abs=1e-10)
    assert math.hypot(b, c) > 1e-3


@settings(max_examples=15, deadline=None)
@given(n=st.sampled_from([1, 2, 3, 7]), functions=st.integers(1, 4), points=st.sampled_from([1, 2, 5, 9]))
def test_grid_is_all_pairs(n, functions, points) -> None:
    """On both sides of the number of basis states, where the way of computing changes."""
    model = model_of(n, (2, 1, 2, 1), d=2 if n > 1 else 1)
    u, _ = pairs(2, 1, functions)
    _, y = pairs(2, model.trunk_size, points, seed=5)
    want = model(u.repeat_interleave(points, 0), y.repeat(functions, 1)).reshape(functions, points)
    torch.testing.assert_close(model.forward_grid(u, y), want, rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    ("n", "net_size", "trainable", "want"),
    [(5, (20, 2, 10, 2), True, 1201), (3, (8, 2, 4, 2), True, 289), (3, (8, 2, 4, 2), False, 217)],
)
def test_number_of_parameters(n, net_size, trainable, want) -> None:
    model = QuanONet(10, num_qubits=n, net_size=net_size, trainable_frequency=trainable)
    assert sum(p.numel() for p in model.parameters()) == want


def test_fixed_frequencies_are_buffers() -> None:
    model = model_of(2, trainable_frequency=False, scale=0.4)
    assert dict(model.named_parameters()).keys() == {"ansatz", "bias"}
    assert (model.branch_freq.weight == 0.4).all()
    assert (model.branch_freq.bias == 0).all()
    assert {"branch_freq.weight", "trunk_freq.bias"} <= model.state_dict().keys()


def test_initial_values() -> None:
    model = QuanONet(10, generator=generator(4))
    assert model.ansatz.dtype == torch.float32
    for values in (model.ansatz.detach(), model.branch_freq.bias.detach()):
        assert values.abs().max() <= math.pi
        assert values.std() == pytest.approx(math.pi / math.sqrt(3), rel=0.15)
    assert (model.trunk_freq.weight == model.trunk_freq.weight[0]).all()
    assert float(model.bias) == 0
    assert (QuanONet(10, bias_init="zeros").branch_freq.bias == 0).all()
    again = QuanONet(10, generator=generator(4))
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True))


def test_single_precision_is_close_and_state_round_trips() -> None:
    model = model_of(5, (6, 2, 3, 2), m=10)
    u, y = pairs(10, 1, 20)
    single = QuanONet(10, net_size=(6, 2, 3, 2), dtype=torch.float32)
    single.load_state_dict(model.state_dict())
    found = single(u, y)
    assert found.dtype == torch.float32
    assert (found.double() - model(u, y)).abs().max() < 1e-4
    assert single.states(u, y).dtype == torch.complex64
    copy = pickle.loads(pickle.dumps(model))
    assert torch.equal(copy(u, y), model(u, y))
    moved = model_of(5, (6, 2, 3, 2), m=10).to(torch.float32)
    assert moved(u, y).dtype == torch.float32


def test_compiles() -> None:
    model = model_of(2, (2, 1, 1, 1))
    u, y = pairs(2, 1)
    torch.testing.assert_close(torch.compile(model, backend="aot_eager")(u, y), model(u, y), rtol=0, atol=1e-12)


def test_checkpoint_of_the_official_layout(tmp_path: Path) -> None:
    source = model_of(2, (5, 1, 5, 1), m=10)
    torch.nn.init.constant_(source.bias, -0.2)
    arrays = {"bias": source.bias, "QuanONet.weight": source.ansatz.reshape(-1)}
    for part, module in (("branch", source.branch_freq), ("trunk", source.trunk_freq)):
        arrays |= {f"{part}_LinearLayer.Net2.weights": module.weight, f"{part}_LinearLayer.Net2.bias": module.bias}
    arrays = {name: value.detach().numpy() for name, value in arrays.items()}
    np.savez(tmp_path / "model.npz", **arrays)
    sizes = {"branch_size": 10, "num_qubits": 2, "net_size": (5, 1, 5, 1), **DOUBLE}
    u, y = pairs(10, 1)
    assert torch.equal(QuanONet.from_checkpoint(tmp_path / "model.npz", **sizes)(u, y), source(u, y))
    with pytest.raises(ValueError, match=r"QuanONet.weight.*60 numbers.*needs 72"):
        QuanONet.from_checkpoint(tmp_path / "model.npz", **{**sizes, "net_size": (5, 1, 7, 1)})
    np.savez(tmp_path / "part.npz", bias=np.zeros(()))
    with pytest.raises(ValueError, match=r"lacks QuanONet\.weight"):
        QuanONet.from_checkpoint(tmp_path / "part.npz", **sizes)
    np.savez(tmp_path / "nan.npz", **{**arrays, "bias": np.full((), np.nan)})
    with pytest.raises(ValueError, match=r"bias .*NaN"):
        QuanONet.from_checkpoint(tmp_path / "nan.npz", **sizes)
    (tmp_path / "text.npz").write_text("no")
    with pytest.raises(ValueError, match="npz"):
        QuanONet.from_checkpoint(tmp_path / "text.npz", **sizes)
    np.savez(tmp_path / "objects.npz", **{**arrays, "bias": np.array([{}], dtype=object)})
    with pytest.raises(ValueError, match="npz"):
        QuanONet.from_checkpoint(tmp_path / "objects.npz", **sizes)


# Observables


def test_spectra() -> None:
    uniform = hamiltonian_spectrum(3, bound=2.0, generator=generator())
    np.testing.assert_allclose(np.sort(uniform), np.linspace(-2, 2, 8))
    few = hamiltonian_spectrum(3, rank=3, generator=generator())
    assert sorted(few.tolist()) == [-5, 0, 0, 0, 0, 0, 0, 5]
    single = hamiltonian_spectrum(2, "single")
    assert single.tolist() == [5, -5, -5, -5]
    model = model_of(2, hamiltonian=single)
    u, y = pairs(2, 1)
    want = 10 * model.states(u, y)[:, 0].abs() ** 2 - 5
    torch.testing.assert_close(model(u, y), want)


def test_depolarising_noise_layer_by_layer() -> None:
    """The closed form equals mixing the density matrix after each block of a one-qubit circuit."""
    model = QuanONet(1, num_qubits=1, net_size=(2, 1, 1, 1), generator=generator(), **DOUBLE)
    u, y = pairs(1, 1, 1)
    p, rho = 0.2, np.diag([1.0 + 0j, 0])
    model.requires_grad_(False)
    layers = iter(model.ansatz.numpy()[:, :, 0])
    for frequencies, x, k in ((model.trunk_freq, y, 0), (model.branch_freq, u, 0), (model.branch_freq, u, 1)):
        angle = float(frequencies.weight[k] * x[0, 0] + frequencies.bias[k])
        a, b, c = next(layers)
        U = rotation("Y", c, 0, 1) @ rotation("Z", b, 0, 1) @ rotation("Y", a, 0, 1) @ rotation("X", angle, 0, 1)
        rho = (1 - p) * U @ rho @ U.conj().T + p * np.eye(2) / 2
    want = 5 * (rho[0, 0] - rho[1, 1]).real
    assert float(depolarize(model(u, y), p, 3, 0.0)) == pytest.approx(want, abs=1e-12)


# Bad input


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_qubits": 0}, "num_qubits"),
        ({"num_qubits": 15}, r"num_qubits must be at most 14.*MB"),
        ({"net_size": (1, 1, 1, 1), "num_qubits": 2}, r"branch_size is 10: take at least 5 branch blocks"),
        ({"trunk_size": 4, "net_size": (5, 1, 1, 1), "num_qubits": 2}, r"trunk_size is 4: take at least 2 trunk"),
        ({"net_size": (5, 1)}, "net_size"),
        ({"net_size": (5, 0, 1, 1)}, r"net_size \(branch layers\)"),
        ({"spectrum": (2.0, 2.0)}, "spectrum"),
        ({"spectrum": (math.nan, 2.0)}, "spectrum"),
        ({"spectrum": 3}, "spectrum"),
        ({"hamiltonian": np.zeros(5)}, "hamiltonian must be 32"),
        ({"hamiltonian": np.full(32, np.inf)}, "hamiltonian must be finite"),
        ({"hamiltonian": np.zeros(32), "pauli": "X"}, "pauli"),
        ({"pauli": "W"}, "pauli"),
        ({"scale": math.inf}, "scale"),
        ({"bias_init": "ones"}, "bias_init"),
        ({"dtype": torch.float16}, "dtype"),
        ({"branch_size": 0}, "branch_size"),
    ],
)
def test_bad_sizes(options, message) -> None:
    with pytest.raises(ValueError, match=message):
        QuanONet(**{"branch_size": 10, **options})


def test_bad_inputs() -> None:
    model = model_of(2)
    u, y = pairs(2, 1)
    for method in (model, model.forward_grid):
        with pytest.raises(ValueError, match=r"u must have the shape \(samples, 2\)"):
            method(u[:, :1], y)
        with pytest.raises(ValueError, match="y must have the shape"):
            method(u, y[:, 0])
        with pytest.raises(ValueError, match="u must be finite"):
            method(u * math.nan, y)
        with pytest.raises(TypeError, match="real"):
            method(u.to(torch.complex64), y)
    with pytest.raises(ValueError, match="forward_grid"):
        model(u, y[:2])
    with pytest.raises(ValueError, match="as many rows"):
        HEAQNN(2, num_qubits=2, net_size=(2, 1))(u, y[:2])
    with pytest.raises(ValueError, match="take at least 6 blocks"):
        HEAQNN(10, 1, num_qubits=2, net_size=(5, 1))
    for arguments in ((1.0, -0.1, 1, 0.0), (1.0, 0.1, -1, 0.0), (1.0, 0.1, 1, math.nan)):
        with pytest.raises(ValueError, match=r"p|layers|center"):
            depolarize(*arguments)
    with pytest.raises(ValueError, match="rank"):
        hamiltonian_spectrum(2, "single", rank=2)
    with pytest.raises(ValueError, match="rank"):
        hamiltonian_spectrum(2, rank=5)


# The regressor


def test_regressor_learns_the_antiderivative() -> None:
    data = make_operator_data("Antideriv", 160, 8, 15, random_state=0)
    model = QuanONetRegressor(3, (6, 1, 3, 1), steps=500, batch_size=200, lr=0.05, random_state=0)
    model.fit(data.inputs[:120], data.targets[:120], data.points)
    error = np.linalg.norm(model.predict(data.inputs[120:]) - data.targets[120:]) / np.linalg.norm(data.targets[120:])
    assert error < 0.5
    assert model.history_[-50:].mean() < model.history_[:50].mean() / 4
    assert model.n_parameters_ == sum(p.numel() for p in model.model_.parameters())
    other = model.predict(data.inputs[:3], [0.05, 0.35])
    assert other.shape == (3, 2)
    np.testing.assert_allclose(other, model.predict(data.inputs[:3], [[0.05], [0.35]]))
    with pytest.raises(ValueError, match="y_points must have 1 columns"):
        model.predict(data.inputs, np.zeros((3, 2)))


def test_regressor_warns_of_targets_out_of_reach_and_refuses_mismatches() -> None:
    U = np.random.default_rng(0).normal(size=(20, 2))
    small = QuanONetRegressor(1, (2, 1, 1, 1), steps=2, random_state=0)
    with pytest.warns(UserWarning, match=r"20 of 40 targets lie outside \[-5, 5\]"):
        small.fit(U, np.column_stack([U[:, 0], np.full(20, 9.0)]))
    with pytest.raises(ValueError, match="y_points must have a row for each of the 2 columns"):
        QuanONetRegressor(1, (2, 1, 1, 1)).fit(U, U, [0.0, 0.5, 1.0])
    with pytest.raises(ValueError, match="recipe"):
        QuanONetRegressor(1, (2, 1, 1, 1), recipe="slow").fit(U, U)


def test_paper_recipe_keeps_the_best_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    from paperworks.dynamics.quanonet import regressor

    monkeypatch.setitem(regressor.PAPER, "epochs", 12)
    monkeypatch.setitem(regressor.PAPER, "lr", 0.3)  # so large that the error goes up and down
    U = np.random.default_rng(0).normal(size=(30, 2))
    model = QuanONetRegressor(1, (2, 1, 1, 1), recipe="paper", random_state=0).fit(U, np.tanh(U))
    assert model.history_.shape == (12,)
    assert model.history_.argmin() < 11
    error = ((model.predict(U) - np.tanh(U)) ** 2).mean()
    assert error < 2 * model.history_.min()


# Data


def test_generated_solutions() -> None:
    common = {"n_functions": 4, "n_sensors": 200, "random_state": 3}
    data = make_operator_data("antideriv", n_points=50, **common)
    from scipy.interpolate import CubicSpline

    want = [CubicSpline(data.sensors, row).antiderivative()(data.points[:, 0]) for row in data.inputs]
    np.testing.assert_allclose(data.targets, want, atol=1e-5)
    same = make_operator_data("Identity", n_points=200, **common)
    np.testing.assert_allclose(same.targets, same.inputs, atol=1e-10)
    linear = make_operator_data("Homogeneous", n_points=50, **common)
    want = [
        np.exp(x) * CubicSpline(linear.sensors, row * np.exp(-linear.sensors)).antiderivative()(x)
        for row, x in zip(linear.inputs, [linear.points[:, 0]] * 4, strict=True)
    ]
    np.testing.assert_allclose(linear.targets, want, atol=1e-5)


def test_nonlinear_solutions_satisfy_the_equation() -> None:
    data = make_operator_data("Nonlinear", 3, 401, 401, random_state=0)
    slope = np.gradient(data.targets, data.points[:, 0], axis=1, edge_order=2)
    np.testing.assert_allclose(slope, data.inputs - data.targets**3, atol=5e-3)
    assert np.abs(data.targets).max() > 0.1


def test_advection_is_an_exact_shift() -> None:
    data = make_operator_data("Advection", 5, 401, 100, random_state=0)
    np.testing.assert_allclose(data.inputs[:, 0], data.inputs[:, -1], atol=1e-6)  # periodic
    from scipy.interpolate import CubicSpline

    x, t = data.points.T
    want = [CubicSpline(data.sensors, row)((x - t) % 1) for row in data.inputs]
    np.testing.assert_allclose(data.targets, want, atol=1e-5)


def test_diffusion_equals_the_sine_series() -> None:
    data = make_operator_data("RDiffusion", 3, 2001, 60, random_state=1, reaction=0.0, diffusion=0.05)
    x, t = data.points.T
    grid = data.sensors
    k = np.arange(1, 400)
    modes = np.sin(np.pi * k[:, None] * grid)
    coefficients = 2 * np.trapezoid(data.inputs[:, None, :] * modes, grid, axis=-1)
    rate = 0.05 * (np.pi * k) ** 2
    growth = (1 - np.exp(-rate[:, None] * t)) / rate[:, None]
    want = coefficients @ (np.sin(np.pi * k[:, None] * x) * growth)
    np.testing.assert_allclose(data.targets, want, atol=1e-3)
    early = make_operator_data("RDiffusion", 3, 20, 60, random_state=1, reaction=0.0, diffusion=0.05, legacy_time=True)
    growth = (1 - np.exp(-rate[:, None] * t / 1.96)) / rate[:, None]
    np.testing.assert_allclose(early.targets, coefficients @ (np.sin(np.pi * k[:, None] * x) * growth), atol=1e-3)


def test_darcy_flow_of_harmonic_plus_parabola() -> None:
    """Δs = 10 inside and s = u on the boundary: s minus 5x² is harmonic, so its mean value property holds."""
    from paperworks.datasets.operators import _darcy

    grid = np.linspace(0, 1, 1025)
    corner = 4 * grid
    side, along = np.minimum(corner.astype(int), 3), corner - np.minimum(corner.astype(int), 3)
    x = np.choose(side, [along, np.ones_like(along), 1 - along, np.zeros_like(along)])
    y = np.choose(side, [np.zeros_like(along), along, np.ones_like(along), 1 - along])
    exact = lambda x, y: 2 * x**2 + 3 * y**2 + x * y - x  # noqa: E731
    points = np.random.default_rng(0).random((50, 2))
    np.testing.assert_allclose(_darcy(grid, exact(x, y)[None], points)[0], exact(*points.T), atol=2e-3)


def test_data_refuses_bad_arguments() -> None:
    for name, options, message in (
        ("wave", {}, "name"),
        ("Antideriv", {"n_functions": 0}, "n_functions"),
        ("Antideriv", {"length_scale": 0.0}, "length_scale"),
        ("RDiffusion", {"diffusion": -1.0}, "diffusion"),
        ("RDiffusion", {"reaction": math.nan}, "reaction"),
        ("RDiffusion", {"reaction": 1e4}, "reaction"),
    ):
        given = {"n_functions": 2, "n_sensors": 3, "n_points": 4, "random_state": 0, **options}
        with pytest.raises(ValueError, match=message), np.errstate(all="ignore"):
            make_operator_data(name, **given)
    with pytest.raises(TypeError, match="reaction"):
        make_operator_data("Advection", 2, 3, 4, reaction=0.1)
