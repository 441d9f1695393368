"""What is measured at the end: sums of Pauli matrices, diagonal observables, and depolarising noise in closed form."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from paperworks._checks import check_choice, check_fraction, check_integer, check_positive, extra

with extra("torch"):
    import torch
    from torch import Tensor

from paperworks.dynamics.quanonet.circuit import basis_signs

__all__ = ["depolarize", "expectation", "hamiltonian_spectrum", "pauli_diagonal"]

_Values = TypeVar("_Values", Tensor, Any)


def pauli_diagonal(n: int, spectrum: tuple[float, float], like: Tensor) -> Tensor:
    """Return the diagonal of (lo + hi)/2 I + (hi − lo)/(2n) Σ_q Z_q, (2**n,)."""
    low, high = spectrum
    return (low + high) / 2 + (high - low) / (2 * n) * basis_signs(n, like).sum(dim=0)


def hamiltonian_spectrum(
    num_qubits: int,
    kind: str = "uniform",
    rank: int | None = None,
    bound: float = 5.0,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Return the diagonal of an observable with a chosen spectrum.

    Parameters
    ----------
    num_qubits : int
        Number n of qubits, 1 to 14.
    kind : {"uniform", "single"}, default "uniform"
        ``"uniform"`` spreads `rank` values evenly over [-bound, bound], on basis states drawn at random; the others
        get 0. ``"single"`` is `bound` on basis state 0 and `-bound` elsewhere.
    rank : int, optional
        How many basis states get a value, 1 to 2**n; by default all.
    bound : float, default 5.0
        Greatest absolute value.
    generator : torch.Generator, optional
        Source of the random order.

    Returns
    -------
    torch.Tensor of shape (2**num_qubits,)
        The eigenvalues in float64, qubit q being bit q of the index; for `QuanONet(hamiltonian=...)`.

    Raises
    ------
    ValueError
        If an argument is out of range, or `rank` is given with ``kind="single"``.

    Examples
    --------
    >>> from paperworks.dynamics import hamiltonian_spectrum
    >>> hamiltonian_spectrum(2, "single").tolist()
    [5.0, -5.0, -5.0, -5.0]
    >>> sorted(hamiltonian_spectrum(2, rank=3, bound=1.0).tolist())
    [-1.0, 0.0, 0.0, 1.0]
    """
    size = 2 ** check_integer(num_qubits, "num_qubits", minimum=1, maximum=14)
    bound = check_positive(bound, "bound")
    if check_choice(kind, "kind", ("uniform", "single")) == "single":
        if rank is not None:
            raise ValueError(f"rank must be None with kind='single', got {rank!r}")
        out = torch.full((size,), -bound, dtype=torch.float64)
        out[0] = bound
        return out
    rank = size if rank is None else check_integer(rank, "rank", minimum=1, maximum=size)
    out = torch.zeros(size, dtype=torch.float64)
    out[torch.randperm(size, generator=generator)[:rank]] = torch.linspace(-bound, bound, rank, dtype=torch.float64)
    return out


def expectation(states: Tensor, diagonal: Tensor, pauli: str) -> Tensor:
    """Return ⟨ψ|H|ψ⟩ of states (..., 2**n) given in the Hadamard frame.

    The diagonal of H belongs to the eigenbasis of `pauli` on each qubit. For X that basis is the frame itself.
    """
    n = states.shape[-1].bit_length() - 1
    if pauli != "X":
        states = turn(states)
    if pauli == "Y":
        # Y = S X S†: undo S, which multiplies by i for each bit that is 1, then change to the basis of X.
        ones = (n - basis_signs(n, diagonal).sum(dim=0)) / 2
        states = turn(states * torch.exp(-0.5j * np.pi * ones).to(states.dtype))
    return (states.real**2 + states.imag**2) @ diagonal


def turn(states: Tensor) -> Tensor:
    """Apply the Hadamard gate to all qubits of states (..., 2**n): a fast Walsh–Hadamard transform."""
    size = states.shape[-1]
    n = size.bit_length() - 1
    for q in range(n):
        pairs = states.reshape(*states.shape[:-1], size >> (q + 1), 2, 1 << q)
        zero, one = pairs.unbind(-2)
        states = torch.stack([zero + one, zero - one], dim=-2).reshape(states.shape)
    return states * 2.0 ** (-n / 2)


def depolarize(G: _Values, p: float, layers: int, center: float) -> _Values:
    """Return expectations after depolarising noise, exactly.

    A channel that replaces the state by the maximally mixed one with probability `p`, after each of `layers` layers,
    commutes with unitary layers, so that all noise acts at the end: ``(1 - p)**layers * (G - center) + center``.

    Parameters
    ----------
    G : torch.Tensor or numpy.ndarray or float
        Noiseless outputs of a model, any shape.
    p : float
        Probability in [0, 1].
    layers : int
        Number of noisy layers.
    center : float
        Output of the mixed state: trace of the observable / 2**n, plus the output bias.

    Returns
    -------
    torch.Tensor or numpy.ndarray or float
        Noisy outputs, like `G`.

    Raises
    ------
    ValueError
        If `p` or `layers` is out of range, or `center` is not finite.

    Examples
    --------
    >>> from paperworks.dynamics import depolarize
    >>> depolarize(4.0, 0.5, layers=2, center=0.0)
    1.0
    """
    kept = (1.0 - check_fraction(p, "p")) ** check_integer(layers, "layers", minimum=0)
    if not np.isfinite(center):
        raise ValueError(f"center must be a finite number, got {center!r}")
    return kept * (G - center) + center
