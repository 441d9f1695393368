"""The state-vector engine: data re-uploading circuits as batched matrix products.

A circuit is a list of blocks. A block loads angles by RX rotations on all qubits, then applies sub-layers of RY, RZ, RY
on every qubit and a ring of CNOTs. Three identities make it fast:

- RX(θ) on all qubits is diagonal between Hadamards, so loading data is one multiplication by phases. States are kept
  in the Hadamard frame between blocks.
- The sub-layers do not depend on the data: up to `DENSE_QUBITS` qubits, those of a block are one unitary matrix, the
  same for the whole batch.
- A ring of CNOTs is a permutation of basis states.

Basis states are numbered little-endian: qubit q is bit q of the index.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from paperworks._checks import extra

with extra("torch"):
    import torch
    from torch import Tensor

__all__ = ["DENSE_QUBITS", "Stage", "basis_signs", "evolve", "ring", "sublayer_gates", "uniform_state"]

DENSE_QUBITS = 6
"""Up to this many qubits a block is one dense matrix; beyond, two halves of the qubits are multiplied one after the
other, which needs 2^(n/2) instead of 2^n operations per amplitude."""


_PHASES_AT_ONCE = 2**22


class Stage(NamedTuple):
    """Consecutive blocks that load the same input."""

    angles: Tensor
    """RX angles, (B, depth, n), real."""
    ansatz: Tensor
    """Angles of the sub-layers, (depth, sublayers per block, 3, n), real."""


@lru_cache(maxsize=32)
def _signs(n: int) -> np.ndarray:
    bits = (np.arange(2**n)[None, :] >> np.arange(n)[:, None]) & 1
    return 1.0 - 2.0 * bits


def basis_signs(n: int, like: Tensor) -> Tensor:
    """Return the eigenvalues of Z on each qubit, (n, 2**n), +1 where its bit is 0."""
    return torch.as_tensor(_signs(n), dtype=like.dtype, device=like.device)


@lru_cache(maxsize=32)
def ring(n: int) -> np.ndarray:
    """Return where the ring of CNOTs takes its amplitudes from: ``after[i] = before[ring(n)[i]]``.

    The CNOTs act in the order q = 0..n-1, with target q and control (q + 1) mod n; one qubit has none.
    """
    source = np.arange(2**n)
    if n == 1:
        return source
    for q in range(n):
        control = (q + 1) % n
        flip = ((np.arange(2**n) >> control) & 1) << q
        source = source[np.arange(2**n) ^ flip]
    return source


def sublayer_gates(ansatz: Tensor) -> Tensor:
    """Return RY(γ) RZ(β) RY(α) for each sub-layer and qubit.

    Parameters
    ----------
    ansatz : torch.Tensor of shape (..., 3, n)
        The angles α, β, γ.

    Returns
    -------
    torch.Tensor of shape (..., n, 2, 2)
        Complex unitary matrices.
    """
    alpha, beta, gamma = (ansatz / 2).unbind(-2)
    plus, minus, cos, sin = alpha + gamma, alpha - gamma, torch.cos, torch.sin
    # RZ(β) = cos(β/2) − i sin(β/2) Z, and RY(γ) Z = Z RY(−γ): a turn by the sum and one by the difference.
    even, odd = cos(beta), sin(beta)
    first = torch.complex(even * cos(plus), -odd * cos(minus))
    second = torch.complex(-even * sin(plus), odd * sin(minus))
    return torch.stack([torch.stack([first, second], -1), torch.stack([-second.conj(), first.conj()], -1)], dim=-2)


def _kron(gates: Tensor) -> Tensor:
    """Return the product of gates (..., k, 2, 2) on k qubits, (..., 2**k, 2**k); the last qubit is the highest bit."""
    out = gates[..., 0, :, :]
    for q in range(1, gates.shape[-3]):
        out = torch.einsum("...ab,...ij->...aibj", gates[..., q, :, :], out)
        out = out.reshape(*out.shape[:-4], 2 ** (q + 1), 2 ** (q + 1))
    return out


@lru_cache(maxsize=32)
def _hadamards(n: int) -> np.ndarray:
    """Return the Hadamard gate on n qubits, (2**n, 2**n), real."""
    out = np.ones((1, 1))
    for _ in range(n):
        out = np.block([[out, out], [out, -out]]) / math.sqrt(2.0)
    return out


def uniform_state(n: int, batch: int, like: Tensor) -> Tensor:
    """Return |0...0> in the Hadamard frame, (batch, 2**n)."""
    dtype = torch.complex128 if like.dtype == torch.float64 else torch.complex64
    return torch.full((batch, 2**n), 2.0 ** (-n / 2), dtype=dtype, device=like.device)


def _phases(angles: Tensor, signs: Tensor) -> Tensor:
    """Return what RX(angles) on all qubits multiplies states by, (..., 2**n); angles are (..., n)."""
    phase = angles @ (-0.5 * signs)
    return torch.complex(torch.cos(phase), torch.sin(phase))


def _dense_blocks(ansatz: Tensor) -> Tensor:
    """Return the unitaries of blocks between Hadamard frames, (depth, 2**n, 2**n)."""
    n = ansatz.shape[-1]
    layers = _kron(sublayer_gates(ansatz))[:, :, torch.as_tensor(ring(n), device=ansatz.device)]
    hadamard = torch.as_tensor(_hadamards(n), dtype=layers.dtype, device=layers.device)
    out = layers[:, 0] @ hadamard
    for k in range(1, layers.shape[1]):
        out = layers[:, k] @ out
    return hadamard @ out


def _halves(n: int) -> tuple[int, int]:
    return n - n // 2, n // 2


def _both(states: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Apply `low` to the low half of the qubits and `high` to the high half."""
    split = states.reshape(*states.shape[:-1], high.shape[-1], low.shape[-1])
    return (high @ (split @ low.mT)).reshape(states.shape)


class _Dense:
    """Blocks as matrices."""

    def __init__(self, ansatz: Tensor) -> None:
        self.parameters = (_dense_blocks(ansatz),)

    @staticmethod
    def apply(states: Tensor, block: Tensor) -> Tensor:
        return states @ block.mT

    @staticmethod
    def undo(states: Tensor, block: Tensor) -> Tensor:
        return states @ block.conj()


class _Split:
    """Sub-layers as two half-size matrices each, for many qubits."""

    def __init__(self, ansatz: Tensor) -> None:
        low, _ = _halves(ansatz.shape[-1])
        gates = sublayer_gates(ansatz)
        self.parameters = (_kron(gates[..., :low, :, :]), _kron(gates[..., low:, :, :]))

    @staticmethod
    def _frame(states: Tensor, low: Tensor, high: Tensor) -> Tensor:
        sizes = (low.shape[-1], high.shape[-1])
        ours = [
            torch.as_tensor(_hadamards(size.bit_length() - 1), dtype=states.dtype, device=states.device)
            for size in sizes
        ]
        return _both(states, *ours)

    @staticmethod
    def apply(states: Tensor, low: Tensor, high: Tensor) -> Tensor:
        n = states.shape[-1].bit_length() - 1
        order = torch.as_tensor(ring(n), device=states.device)
        states = _Split._frame(states, low[0], high[0])
        for k in range(len(low)):
            states = _both(states, low[k], high[k])[..., order]
        return _Split._frame(states, low[0], high[0])

    @staticmethod
    def undo(states: Tensor, low: Tensor, high: Tensor) -> Tensor:
        n = states.shape[-1].bit_length() - 1
        back = torch.as_tensor(np.argsort(ring(n)), device=states.device)
        states = _Split._frame(states, low[0], high[0])
        for k in reversed(range(len(low))):
            states = _both(states[..., back], low[k].mH, high[k].mH)
        return _Split._frame(states, low[0], high[0])


def evolve(stages: Sequence[Stage], states: Tensor, *, adjoint: bool = False) -> Tensor:
    """Run stages of blocks on states.

    Parameters
    ----------
    stages : sequence of Stage
        The stages, first one first. Angles broadcast against the leading dimensions of `states`.
    states : torch.Tensor of shape (..., 2**n)
        Complex states in the Hadamard frame.
    adjoint : bool, default False
        Recompute the states in the backward pass by undoing the blocks instead of storing them: memory does not grow
        with the depth. Second derivatives are not available then.

    Returns
    -------
    torch.Tensor of shape (..., 2**n)
        The states after the last block, in the Hadamard frame.
    """
    for stage in stages:
        n = stage.angles.shape[-1]
        kind = _Dense(stage.ansatz) if n <= DENSE_QUBITS else _Split(stage.ansatz)
        signs = basis_signs(n, stage.angles)
        if adjoint:
            states = _Reversible.apply(kind, signs, states, stage.angles, *kind.parameters)
            continue
        # All phases in one go where they are few: there the number of operations counts, elsewhere memory.
        few = stage.angles.numel() // n * 2**n <= _PHASES_AT_ONCE
        loads = _phases(stage.angles, signs).unbind(-2) if few else stage.angles.unbind(-2)
        for load, *block in zip(loads, *(p.unbind(0) for p in kind.parameters), strict=True):
            states = kind.apply(states * (load if few else _phases(load, signs)), *block)
    return states


class _Reversible(torch.autograd.Function):
    """Blocks whose backward pass undoes them one by one: unitary matrices are inverted by their adjoints."""

    @staticmethod
    def forward(ctx, kind, signs, states, angles, *parameters):
        for k in range(angles.shape[-2]):
            states = kind.apply(states * _phases(angles[..., k, :], signs), *(p[k] for p in parameters))
        ctx.kind = kind
        ctx.save_for_backward(signs, states, angles, *parameters)
        return states

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient):
        signs, states, angles, *parameters = ctx.saved_tensors
        wanted = ctx.needs_input_grad[4:]
        angle_gradient = torch.zeros_like(angles)
        parameter_gradients = [torch.zeros_like(p) if w else None for p, w in zip(parameters, wanted, strict=True)]
        for k in reversed(range(angles.shape[-2])):
            mine = [p[k].detach().requires_grad_(w) for p, w in zip(parameters, wanted, strict=True)]
            loaded = ctx.kind.undo(states, *mine).detach().requires_grad_(True)
            with torch.enable_grad():
                out = ctx.kind.apply(loaded, *mine)
            inputs = [loaded, *(p for p in mine if p.requires_grad)]
            gradient, *found = torch.autograd.grad(out, inputs, gradient)
            for total, value in zip((g for g in parameter_gradients if g is not None), found, strict=True):
                total[k] = value
            # Phases: with z = e^{iφ}ψ the derivative by φ is Im(z̄ ∂z), and ∂ψ = e^{-iφ} ∂z.
            by_phase = (loaded.detach().conj() * gradient).imag
            by_angle = -0.5 * (by_phase @ signs.mT)
            angle_gradient[..., k, :] = by_angle.sum_to_size(angle_gradient[..., k, :].shape)
            back = _phases(-angles[..., k, :], signs)
            states, gradient = loaded.detach() * back, gradient * back
        states_gradient = gradient if ctx.needs_input_grad[2] else None
        angles_gradient = angle_gradient if ctx.needs_input_grad[3] else None
        return None, None, states_gradient, angles_gradient, *parameter_gradients
