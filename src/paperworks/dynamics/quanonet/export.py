"""The circuit for other tools: PennyLane (and through it hardware), OpenQASM, and a drawing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from paperworks._checks import check_integer, extra

with extra("torch"):
    import torch
    from torch import Tensor

if TYPE_CHECKING:
    from paperworks.dynamics.quanonet.network import QuanONet

__all__ = ["draw", "qasm", "to_pennylane"]


def _gates(model: QuanONet, u: Tensor, y: Tensor) -> Iterator[tuple[str, tuple[int, ...], Tensor | None]]:
    """Yield name, qubits and angle of each gate in order; angles are (B,), or () in the layers."""
    n = model.num_qubits
    for stage in model._stages(u, y):
        for k in range(stage.ansatz.shape[0]):
            for q in range(n):
                yield "RX", (q,), stage.angles[:, k, q]
            for layer in stage.ansatz[k]:
                for name, angles in zip(("RY", "RZ", "RY"), layer, strict=True):
                    for q in range(n):
                        yield name, (q,), angles[q]
                if n > 1:
                    for q in range(n):
                        yield "CNOT", ((q + 1) % n, q), None


def to_pennylane(model: QuanONet, device: str, shots: int | None) -> Callable[[Any, Any], Any]:
    """Return ``circuit(u, y)``, the model on a PennyLane device; see `QuanONet.to_pennylane`."""
    with extra("quantum"):
        import pennylane as qml

    if shots is not None:
        shots = check_integer(shots, "shots", minimum=1)
    n = model.num_qubits
    observable = model.observable
    pauli = {"X": qml.X, "Y": qml.Y, "Z": qml.Z}[observable.pauli]
    # Wire 0 is the most significant bit in PennyLane: in reversed order qubit q is bit q.
    matrix = np.diag(observable.diagonal.detach().cpu().numpy())

    def measure() -> Any:
        if observable.is_pauli_sum:
            return [qml.expval(pauli(q)) for q in range(n)]
        return qml.expval(qml.Hermitian(matrix, wires=range(n - 1, -1, -1)))

    def body(u: Tensor, y: Tensor) -> Any:
        for name, qubits, angle in _gates(model, u, y):
            if angle is None:
                qml.CNOT(wires=qubits)
            else:
                getattr(qml, name)(angle[0] if angle.ndim and len(angle) == 1 else angle, wires=qubits)
        return measure()

    node = qml.QNode(body, qml.device(device, wires=n), interface="torch")
    if shots is not None:
        node = qml.set_shots(node, shots=shots)

    def circuit(u: Any, y: Any) -> Any:
        given = torch.is_tensor(u) or torch.is_tensor(y)
        u, y = (value if torch.is_tensor(value) else torch.as_tensor(np.asarray(value)) for value in (u, y))
        single = u.ndim == 1 and y.ndim == 1
        u, y = model._pairs(*(torch.atleast_2d(value) for value in (u, y)))
        found = node(u, y)
        if observable.is_pauli_sum:
            low, high = observable.spectrum
            terms = torch.stack([value.reshape(-1) for value in found])
            found = (low + high) / 2 + (high - low) / (2 * n) * terms.sum(dim=0)
        out = found.reshape(-1)
        out = out if model.bias is None else out + model.bias
        out = out[0] if single else out
        return out if given else out.detach().cpu().numpy()

    return circuit


def qasm(model: QuanONet, u: Any, y: Any) -> str:
    """Return the circuit of one pair as OpenQASM 2.0; see `QuanONet.qasm`."""
    rows = [value.detach().cpu() if torch.is_tensor(value) else torch.as_tensor(np.asarray(value)) for value in (u, y)]
    u, y = model._pairs(*(torch.atleast_2d(row) for row in rows))
    if len(u) != 1:
        raise ValueError(f"u and y must be one pair, got {len(u)} rows")
    n = model.num_qubits
    lines = ["OPENQASM 2.0;", 'include "qelib1.inc";', f"qreg q[{n}];", f"creg c[{n}];"]
    with torch.no_grad():
        for name, qubits, angle in _gates(model, u, y):
            places = ",".join(f"q[{q}]" for q in qubits)
            lines.append(f"cx {places};" if angle is None else f"{name.lower()}({float(angle):.17g}) {places};")
    turns = {"X": ("h",), "Y": ("sdg", "h"), "Z": ()}[model.observable.pauli]
    lines += [f"{name} q[{q}];" for q in range(n) for name in turns]
    lines += [f"measure q[{q}] -> c[{q}];" for q in range(n)]
    return "\n".join(lines) + "\n"


def draw(model: QuanONet) -> str:
    """Return a drawing in text; see `QuanONet.draw`."""
    n, (b, b_layers, t, t_layers) = model.num_qubits, model.net_size
    columns: list[list[str]] = [[f"q{q}: " for q in range(n)]]

    def add(cells: list[str]) -> None:
        width = max(map(len, cells))
        columns.append([f"─{cell.center(width, '─')}─" for cell in cells])

    for name, blocks, layers in (("y", t, t_layers), ("u", b, b_layers)):
        columns.append([f"─[{blocks}×" if q == 0 else "─" * (3 + len(str(blocks))) for q in range(n)])
        add([f"RX({name})"] * n)
        columns.append([f"─({layers}×" if q == 0 else "─" * (3 + len(str(layers))) for q in range(n)])
        for gate in ("RY", "RZ", "RY"):
            add([gate] * n)
        if n > 1:
            for q in range(n):
                add(["⊕" if k == q else "●" if k == (q + 1) % n else "─" for k in range(n)])
        columns.append([")─" if q == 0 else "──" for q in range(n)])
        columns.append(["]─" if q == 0 else "──" for q in range(n)])
    ends = f"⟨{model.observable.pauli}⟩" if model.observable.is_pauli_sum else "⟨H⟩"
    columns.append([f"─ {ends}"] * n)
    return "\n".join("".join(column[q] for column in columns) for q in range(n))
