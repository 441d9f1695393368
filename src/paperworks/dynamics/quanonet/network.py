"""The models: `QuanONet`, branch and trunk in one circuit, and `HEAQNN`, the plain circuit it is compared with."""

from __future__ import annotations

import math
import os
import zipfile
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from paperworks._checks import check_choice, check_integer, extra

with extra("torch"):
    import torch
    from torch import Tensor, nn

from paperworks.dynamics.quanonet import export
from paperworks.dynamics.quanonet.circuit import Stage, evolve, uniform_state
from paperworks.dynamics.quanonet.observables import expectation, pauli_diagonal, turn

__all__ = ["HEAQNN", "QuanONet"]

MAX_QUBITS = 14


def _angles(shape: torch.Size, generator: torch.Generator | None) -> Tensor:
    """Draw from U(−π, π) in float64, so that models of either precision begin alike."""
    device = None if generator is None else generator.device
    drawn = torch.rand(shape, dtype=torch.float64, generator=generator, device=device)
    return math.pi * (2 * drawn - 1)


class _Frequencies(nn.Module):
    """Angles w ⊙ tile(x) + b: the input is repeated cyclically over all encoding gates."""

    weight: Tensor
    bias: Tensor

    def __init__(self, in_features: int, depth: int, n: int, *, trainable: bool, scale: float, **like: Any) -> None:
        super().__init__()
        self.in_features, self.depth, self.n, self.scale = in_features, depth, n, scale
        for name in ("weight", "bias"):
            value = torch.empty(depth * n, **like)
            if trainable:
                self.register_parameter(name, nn.Parameter(value))
            else:
                self.register_buffer(name, value)

    def reset_parameters(self, bias_init: str, generator: torch.Generator | None) -> None:
        with torch.no_grad():
            self.weight.fill_(self.scale)
            if bias_init == "uniform" and isinstance(self.bias, nn.Parameter):
                self.bias.copy_(_angles(self.bias.shape, generator))
            else:
                self.bias.zero_()

    def forward(self, x: Tensor) -> Tensor:
        """Return angles (..., depth, n) of inputs (..., in_features)."""
        width = self.depth * self.n
        tiled = x.repeat(*[1] * (x.ndim - 1), -(-width // self.in_features))[..., :width]
        return (self.weight * tiled + self.bias).unflatten(-1, (self.depth, self.n))


class _Observable(nn.Module):
    """A Pauli sum with a spectrum, or a diagonal of one's own; a buffer, so that it moves with the model."""

    diagonal: Tensor

    def __init__(self, n: int, spectrum: tuple[float, float], pauli: str, hamiltonian: Any, like: Tensor) -> None:
        super().__init__()
        try:
            low, high = (float(value) for value in spectrum)
        except (TypeError, ValueError):
            raise ValueError(f"spectrum must be two numbers (low, high), got {spectrum!r}") from None
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise ValueError(f"spectrum must be finite with low < high, got {spectrum!r}")
        self.pauli = check_choice(pauli, "pauli", ("X", "Y", "Z"))
        self.spectrum = (low, high)
        self.is_pauli_sum = hamiltonian is None
        if hamiltonian is None:
            diagonal = pauli_diagonal(n, self.spectrum, like)
        else:
            if pauli != "Z":
                raise ValueError(f"pauli must be 'Z' where hamiltonian is given, got {pauli!r}")
            if torch.is_tensor(hamiltonian):
                hamiltonian = hamiltonian.detach().cpu().numpy()
            values = np.asarray(hamiltonian)
            if values.shape != (2**n,) or not np.issubdtype(values.dtype, np.number) or np.iscomplexobj(values):
                raise ValueError(f"hamiltonian must be {2**n} real numbers (2**num_qubits), got shape {values.shape}")
            if not np.isfinite(values).all():
                raise ValueError("hamiltonian must be finite, got NaN or infinite values")
            diagonal = torch.as_tensor(values, dtype=like.dtype, device=like.device).clone()
            self.spectrum = (float(values.min()), float(values.max()))
        self.register_buffer("diagonal", diagonal, persistent=False)

    def forward(self, states: Tensor) -> Tensor:
        return expectation(states, self.diagonal, self.pauli)


def _qubits(num_qubits: int) -> int:
    n = check_integer(num_qubits, "num_qubits", minimum=1)
    if n > MAX_QUBITS:
        memory = 8 * 2.0**n / 1e6
        raise ValueError(
            f"num_qubits must be at most {MAX_QUBITS}, got {n}: each state would take {memory:,.1f} MB in complex64, "
            "one for every sample and block"
        )
    return n


def _sizes(net_size: Sequence[int], names: tuple[str, ...]) -> tuple[int, ...]:
    if isinstance(net_size, str) or not isinstance(net_size, Sequence) or len(net_size) != len(names):
        raise ValueError(f"net_size must be ({', '.join(names)}), got {net_size!r}")
    return tuple(check_integer(v, f"net_size ({name})", minimum=1) for v, name in zip(net_size, names, strict=True))


def _like(dtype: torch.dtype | None, device: Any) -> dict[str, Any]:
    dtype = torch.get_default_dtype() if dtype is None else dtype
    if dtype not in (torch.float32, torch.float64):
        raise ValueError(f"dtype must be torch.float32 or torch.float64 (complex arithmetic), got {dtype}")
    return {"dtype": dtype, "device": device}


def _check_loads(depth: int, n: int, size: int, part: str) -> None:
    if depth * n < size:
        raise ValueError(
            f"net_size gives {depth} {part} blocks on {n} qubits, room for {depth * n} inputs, but {part}_size is "
            f"{size}: take at least {-(-size // n)} {part} blocks"
        )


def _inputs(value: Any, name: str, size: int, like: Tensor) -> Tensor:
    """Return input samples as a tensor (..., size) of the model's dtype and device."""
    if not torch.is_tensor(value):
        value = torch.as_tensor(np.asarray(value))
    if value.is_complex() or value.dtype == torch.bool:
        raise TypeError(f"{name} must be real numbers, got {value.dtype}")
    if value.ndim != 2 or value.shape[1] != size:
        raise ValueError(f"{name} must have the shape (samples, {size}), got {tuple(value.shape)}")
    value = value.to(dtype=like.dtype, device=like.device)
    if not torch.compiler.is_compiling() and not torch.isfinite(value).all():
        raise ValueError(f"{name} must be finite, got NaN or infinite values")
    return value


def _reset(model: QuanONet | HEAQNN, bias_init: str, generator: torch.Generator | None) -> None:
    """Draw all parameters: ansatz angles from U(−π, π), frequencies at `scale`, their biases as `bias_init` says."""
    with torch.no_grad():
        model.ansatz.copy_(_angles(model.ansatz.shape, generator))
        if model.bias is not None:
            model.bias.zero_()
    for part in model.children():
        if isinstance(part, _Frequencies):
            part.reset_parameters(bias_init, generator)


class QuanONet(nn.Module):
    """Quantum neural operator: one circuit that loads a query point, then an input function, and is measured once.

    The value of the output function G(u) at y is ``⟨ψ(u, y)| H |ψ(u, y)⟩ + bias``. The trunk blocks load y, the branch
    blocks u, each by RX rotations that are followed by layers of RY, RZ, RY and a ring of CNOTs. With
    `trainable_frequency` each rotation has a weight and a bias of its own (TF-QuanONet), else they share one constant.

    Parameters
    ----------
    branch_size : int
        Number m of sensors at which input functions are sampled.
    trunk_size : int, default 1
        Number of coordinates of a query point.
    num_qubits : int, default 5
        Number n of qubits, 1 to 14.
    net_size : tuple of int, default (20, 2, 10, 2)
        Branch blocks, layers in each, trunk blocks, layers in each. Blocks times qubits must not be fewer than inputs.
    trainable_frequency : bool, default True
        Learn weights and biases of the encoding.
    scale : float, default 0.1
        The weights' initial value, or the constant.
    spectrum : tuple of float, default (-5.0, 5.0)
        Smallest and greatest eigenvalue of the observable, a sum of Pauli matrices over the qubits.
    pauli : {"X", "Y", "Z"}, default "Z"
        Which Pauli matrix.
    hamiltonian : array-like of shape (2**num_qubits,), optional
        Diagonal of an observable of your own, qubit q being bit q of the index; takes the place of `spectrum`.
    bias : bool, default True
        Add a trainable number to the output.
    bias_init : {"uniform", "zeros"}, default "uniform"
        How the biases of the encoding begin: in U(−π, π) or at 0.
    adjoint : bool, default False
        Save memory in training by undoing the blocks in the backward pass instead of storing their states.
    dtype : torch.dtype, optional
        ``torch.float32`` (states in complex64) or ``torch.float64``; by default torch's default.
    device : torch.device or str, optional
        Where the parameters live.
    generator : torch.Generator, optional
        Source of the initial parameters.

    Attributes
    ----------
    ansatz : torch.nn.Parameter of shape (layers, 3, num_qubits)
        Angles of RY, RZ and RY, trunk layers first.
    branch_freq, trunk_freq : torch.nn.Module
        Encodings with `weight` and `bias` of shape (blocks * num_qubits,); parameters, or buffers if fixed.
    bias : torch.nn.Parameter or None
        The output bias.

    Raises
    ------
    ValueError
        If a size is out of range, too few blocks load all inputs, or the observable is not one.

    References
    ----------
    R. Wang and others, "QuanONet: Quantum Neural Operator with Application to Differential Equation", ICML 2025.
    Order of gates, encoding and observable follow the official code.

    Examples
    --------
    >>> import torch
    >>> from paperworks.dynamics import QuanONet
    >>> model = QuanONet(10, num_qubits=3, net_size=(4, 1, 2, 1), generator=torch.Generator().manual_seed(0))
    >>> u, y = torch.rand(7, 10), torch.rand(7, 1)
    >>> model(u, y).shape, model.forward_grid(u, y[:4]).shape
    (torch.Size([7]), torch.Size([7, 4]))
    """

    def __init__(
        self,
        branch_size: int,
        trunk_size: int = 1,
        *,
        num_qubits: int = 5,
        net_size: tuple[int, int, int, int] = (20, 2, 10, 2),
        trainable_frequency: bool = True,
        scale: float = 0.1,
        spectrum: tuple[float, float] = (-5.0, 5.0),
        pauli: str = "Z",
        hamiltonian: Any = None,
        bias: bool = True,
        bias_init: str = "uniform",
        adjoint: bool = False,
        dtype: torch.dtype | None = None,
        device: Any = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.branch_size = check_integer(branch_size, "branch_size", minimum=1)
        self.trunk_size = check_integer(trunk_size, "trunk_size", minimum=1)
        self.num_qubits = n = _qubits(num_qubits)
        names = ("branch blocks", "branch layers", "trunk blocks", "trunk layers")
        self.net_size = (b, b_layers, t, t_layers) = _sizes(net_size, names)
        _check_loads(b, n, self.branch_size, "branch")
        _check_loads(t, n, self.trunk_size, "trunk")
        check_choice(bias_init, "bias_init", ("uniform", "zeros"))
        like = _like(dtype, device)
        frequencies: dict[str, Any] = {"trainable": trainable_frequency, "scale": _scale(scale), **like}
        self.adjoint = adjoint
        self.ansatz = nn.Parameter(torch.empty(t * t_layers + b * b_layers, 3, n, **like))
        self.branch_freq = _Frequencies(self.branch_size, b, n, **frequencies)
        self.trunk_freq = _Frequencies(self.trunk_size, t, n, **frequencies)
        self.bias = nn.Parameter(torch.empty((), **like)) if bias else None
        self.observable = _Observable(n, spectrum, pauli, hamiltonian, self.ansatz)
        self.reset_parameters(bias_init, generator)

    def reset_parameters(self, bias_init: str = "uniform", generator: torch.Generator | None = None) -> None:
        """Draw all parameters anew.

        Parameters
        ----------
        bias_init : {"uniform", "zeros"}, default "uniform"
            How the biases of the encoding begin.
        generator : torch.Generator, optional
            Source of the random numbers.
        """
        _reset(self, bias_init, generator)

    def extra_repr(self) -> str:
        return f"branch_size={self.branch_size}, trunk_size={self.trunk_size}, net_size={self.net_size}"

    def _ansatz(self) -> tuple[Tensor, Tensor]:
        """Return the angles of the trunk's and the branch's layers, (blocks, layers, 3, n)."""
        b, b_layers, t, t_layers = self.net_size
        trunk, branch = self.ansatz.split([t * t_layers, b * b_layers])
        return trunk.unflatten(0, (t, t_layers)), branch.unflatten(0, (b, b_layers))

    def _stages(self, u: Tensor, y: Tensor) -> list[Stage]:
        trunk, branch = self._ansatz()
        return [Stage(self.trunk_freq(y), trunk), Stage(self.branch_freq(u), branch)]

    def _pairs(self, u: Any, y: Any) -> tuple[Tensor, Tensor]:
        u = _inputs(u, "u", self.branch_size, self.ansatz)
        y = _inputs(y, "y", self.trunk_size, self.ansatz)
        if len(u) != len(y):
            raise ValueError(
                f"u and y must have as many rows, got {len(u)} and {len(y)}; forward_grid pairs every function with "
                "every point"
            )
        return u, y

    def _frame_states(self, u: Any, y: Any) -> Tensor:
        u, y = self._pairs(u, y)
        start = uniform_state(self.num_qubits, len(u), self.ansatz)
        return evolve(self._stages(u, y), start, adjoint=self.adjoint)

    def forward(self, u: Tensor, y: Tensor) -> Tensor:
        """Return G(u)(y) of pairs.

        Parameters
        ----------
        u : torch.Tensor of shape (B, branch_size)
            Input functions at the sensors.
        y : torch.Tensor of shape (B, trunk_size)
            A query point for each function.

        Returns
        -------
        torch.Tensor of shape (B,)
            Values of the output functions.

        Raises
        ------
        ValueError
            If shapes do not fit or values are not finite.
        TypeError
            If an input is complex.
        """
        return self._measured(self._frame_states(u, y))

    def _measured(self, states: Tensor) -> Tensor:
        out = self.observable(states)
        return out if self.bias is None else out + self.bias

    def forward_grid(self, u: Tensor, y: Tensor) -> Tensor:
        """Return G(u)(y) of all functions at all points; faster than `forward` on all pairs.

        The trunk runs once per point and the branch once per function and trunk state, or once per basis state where
        points outnumber those.

        Parameters
        ----------
        u : torch.Tensor of shape (N, branch_size)
            Input functions at the sensors.
        y : torch.Tensor of shape (P, trunk_size)
            Query points.

        Returns
        -------
        torch.Tensor of shape (N, P)
            Values of the output functions.

        Raises
        ------
        ValueError
            If shapes do not fit or values are not finite.
        TypeError
            If an input is complex.
        """
        u = _inputs(u, "u", self.branch_size, self.ansatz)
        y = _inputs(y, "y", self.trunk_size, self.ansatz)
        n = self.num_qubits
        trunk, branch = self._ansatz()
        points = evolve([Stage(self.trunk_freq(y), trunk)], uniform_state(n, len(y), self.ansatz), adjoint=self.adjoint)
        few = len(y) <= 2**n
        start = points if few else torch.eye(2**n, dtype=points.dtype, device=points.device)
        angles = self.branch_freq(u)[:, None]
        states = evolve([Stage(angles, branch)], start.expand(len(u), *start.shape).contiguous(), adjoint=self.adjoint)
        return self._measured(states if few else points @ states)

    def states(self, u: Tensor, y: Tensor) -> Tensor:
        """Return the final states of pairs in the computational basis.

        Parameters
        ----------
        u : torch.Tensor of shape (B, branch_size)
            Input functions at the sensors.
        y : torch.Tensor of shape (B, trunk_size)
            A query point for each function.

        Returns
        -------
        torch.Tensor of shape (B, 2**num_qubits)
            Complex amplitudes, qubit q being bit q of the index.
        """
        return turn(self._frame_states(u, y))

    def to_pennylane(self, device: str = "default.qubit", shots: int | None = None) -> Callable[[Any, Any], Any]:
        """Return the same model as a PennyLane circuit.

        Parameters
        ----------
        device : str, default "default.qubit"
            Name of a PennyLane device.
        shots : int, optional
            Number of measurements; by default expectations are exact.

        Returns
        -------
        callable
            ``circuit(u, y)`` takes one function and one point, or as many rows of each, as tensors or arrays, and
            returns what `forward` does. It uses the model's parameters as they are when it is called.

        Raises
        ------
        ImportError
            If PennyLane is not installed.
        """
        return export.to_pennylane(self, device, shots)

    def qasm(self, u: Any, y: Any) -> str:
        """Return the circuit of one pair as OpenQASM 2.0, all qubits measured.

        Parameters
        ----------
        u : array-like of shape (branch_size,)
            An input function at the sensors.
        y : array-like of shape (trunk_size,)
            A query point.

        Returns
        -------
        str
            The program. Angles have 17 digits. For X and Y sums the qubits are turned before they are measured.
        """
        return export.qasm(self, u, y)

    def draw(self) -> str:
        """Return a drawing of the circuit in text: a line per qubit, repeated blocks drawn once.

        Returns
        -------
        str
            The drawing.
        """
        return export.draw(self)

    @classmethod
    def from_checkpoint(
        cls,
        path: str | os.PathLike[str],
        *,
        branch_size: int,
        trunk_size: int = 1,
        num_qubits: int = 5,
        net_size: tuple[int, int, int, int] = (20, 2, 10, 2),
        **options: Any,
    ) -> QuanONet:
        """Read a TF-QuanONet that the official code has saved.

        Parameters
        ----------
        path : str or path-like
            An ``.npz`` file with the arrays ``bias``, ``QuanONet.weight``, and ``weights`` and ``bias`` of
            ``branch_LinearLayer.Net2`` and ``trunk_LinearLayer.Net2``.
        branch_size, trunk_size, num_qubits, net_size
            The sizes of the saved model. The file does not hold them.
        **options
            Further arguments of `QuanONet`, for instance `spectrum`.

        Returns
        -------
        QuanONet
            The model.

        Raises
        ------
        ValueError
            If the file is not of this layout, or its arrays are not of these sizes.
        """
        model = cls(branch_size, trunk_size, num_qubits=num_qubits, net_size=net_size, **options)
        if model.bias is None or not isinstance(model.branch_freq.weight, nn.Parameter):
            raise ValueError("bias and trainable_frequency must be True: a saved model has both")
        targets: dict[str, Tensor] = {"bias": model.bias, "QuanONet.weight": model.ansatz}
        for part, module in (("branch", model.branch_freq), ("trunk", model.trunk_freq)):
            targets |= {f"{part}_LinearLayer.Net2.weights": module.weight, f"{part}_LinearLayer.Net2.bias": module.bias}
        try:
            with np.load(path, allow_pickle=False) as file:
                arrays = {name: np.asarray(file[name], dtype=float) for name in file.files if name in targets}
        except (zipfile.BadZipFile, ValueError) as error:
            raise ValueError(f"path must be an .npz file of numbers, {os.fspath(path)} is not: {error}") from None
        absent = sorted(set(targets) - set(arrays))
        if absent:
            raise ValueError(f"path must hold a saved TF-QuanONet, {os.fspath(path)} lacks {', '.join(absent)}")
        for name, target in targets.items():
            if arrays[name].size != target.numel():
                raise ValueError(
                    f"{name} in {os.fspath(path)} has {arrays[name].size} numbers, a model of num_qubits={num_qubits}, "
                    f"net_size={tuple(net_size)} needs {target.numel()}"
                )
            if not np.isfinite(arrays[name]).all():
                raise ValueError(f"{name} in {os.fspath(path)} holds NaN or infinite values")
        with torch.no_grad():
            for name, target in targets.items():
                target.copy_(torch.as_tensor(arrays[name]).reshape(target.shape))
        return model


def _scale(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"scale must be a finite number, got {value!r}")
    return float(value)


class HEAQNN(nn.Module):
    """Hardware-efficient circuit on the concatenated input, the baseline of `QuanONet`.

    One circuit of `depth` blocks loads (u, y) together; gates, encoding and observable are those of `QuanONet`.

    Parameters
    ----------
    branch_size : int
        Number m of sensors at which input functions are sampled.
    trunk_size : int, default 1
        Number of coordinates of a query point.
    num_qubits : int, default 5
        Number n of qubits, 1 to 14.
    net_size : tuple of int, default (32, 2)
        Blocks, and layers in each. Blocks times qubits must not be fewer than ``branch_size + trunk_size``.
    trainable_frequency : bool, default True
        Learn weights and biases of the encoding.
    scale : float, default 0.1
        The weights' initial value, or the constant.
    spectrum : tuple of float, default (-5.0, 5.0)
        Smallest and greatest eigenvalue of the observable.
    pauli : {"X", "Y", "Z"}, default "Z"
        Which Pauli matrix is summed over the qubits.
    hamiltonian : array-like of shape (2**num_qubits,), optional
        Diagonal of an observable of your own, qubit q being bit q of the index; takes the place of `spectrum`.
    bias : bool, default False
        Add a trainable number to the output. The official baseline has none; give it one for a fair comparison.
    bias_init : {"uniform", "zeros"}, default "uniform"
        How the biases of the encoding begin: in U(−π, π) or at 0.
    adjoint : bool, default False
        Save memory in training by undoing the blocks in the backward pass.
    dtype : torch.dtype, optional
        ``torch.float32`` or ``torch.float64``; by default torch's default.
    device : torch.device or str, optional
        Where the parameters live.
    generator : torch.Generator, optional
        Source of the initial parameters.

    Attributes
    ----------
    ansatz : torch.nn.Parameter of shape (layers, 3, num_qubits)
        Angles of RY, RZ and RY.
    freq : torch.nn.Module
        Encoding with `weight` and `bias` of shape (blocks * num_qubits,).
    bias : torch.nn.Parameter or None
        The output bias.

    Raises
    ------
    ValueError
        If a size is out of range, too few blocks load all inputs, or the observable is not one.

    References
    ----------
    R. Wang and others, "QuanONet: Quantum Neural Operator with Application to Differential Equation", ICML 2025.

    Examples
    --------
    >>> import torch
    >>> from paperworks.dynamics import HEAQNN
    >>> model = HEAQNN(10, num_qubits=3, net_size=(6, 1), generator=torch.Generator().manual_seed(0))
    >>> model(torch.rand(7, 10), torch.rand(7, 1)).shape
    torch.Size([7])
    """

    def __init__(
        self,
        branch_size: int,
        trunk_size: int = 1,
        *,
        num_qubits: int = 5,
        net_size: tuple[int, int] = (32, 2),
        trainable_frequency: bool = True,
        scale: float = 0.1,
        spectrum: tuple[float, float] = (-5.0, 5.0),
        pauli: str = "Z",
        hamiltonian: Any = None,
        bias: bool = False,
        bias_init: str = "uniform",
        adjoint: bool = False,
        dtype: torch.dtype | None = None,
        device: Any = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.branch_size = check_integer(branch_size, "branch_size", minimum=1)
        self.trunk_size = check_integer(trunk_size, "trunk_size", minimum=1)
        self.num_qubits = n = _qubits(num_qubits)
        self.net_size = (depth, layers) = _sizes(net_size, ("blocks", "layers"))
        inputs = self.branch_size + self.trunk_size
        if depth * n < inputs:
            raise ValueError(
                f"net_size gives {depth} blocks on {n} qubits, room for {depth * n} inputs, but branch_size + "
                f"trunk_size is {inputs}: take at least {-(-inputs // n)} blocks"
            )
        check_choice(bias_init, "bias_init", ("uniform", "zeros"))
        like = _like(dtype, device)
        self.adjoint = adjoint
        self.ansatz = nn.Parameter(torch.empty(depth * layers, 3, n, **like))
        self.freq = _Frequencies(inputs, depth, n, trainable=trainable_frequency, scale=_scale(scale), **like)
        self.bias = nn.Parameter(torch.empty((), **like)) if bias else None
        self.observable = _Observable(n, spectrum, pauli, hamiltonian, self.ansatz)
        self.reset_parameters(bias_init, generator)

    def reset_parameters(self, bias_init: str = "uniform", generator: torch.Generator | None = None) -> None:
        """Draw all parameters anew.

        Parameters
        ----------
        bias_init : {"uniform", "zeros"}, default "uniform"
            How the biases of the encoding begin.
        generator : torch.Generator, optional
            Source of the random numbers.
        """
        _reset(self, bias_init, generator)

    def extra_repr(self) -> str:
        return f"branch_size={self.branch_size}, trunk_size={self.trunk_size}, net_size={self.net_size}"

    def _stages(self, u: Tensor, y: Tensor) -> list[Stage]:
        return [Stage(self.freq(torch.cat([u, y], dim=1)), self.ansatz.unflatten(0, self.net_size))]

    def forward(self, u: Tensor, y: Tensor) -> Tensor:
        """Return the output of pairs.

        Parameters
        ----------
        u : torch.Tensor of shape (B, branch_size)
            Input functions at the sensors.
        y : torch.Tensor of shape (B, trunk_size)
            A query point for each function.

        Returns
        -------
        torch.Tensor of shape (B,)
            Values of the output functions.

        Raises
        ------
        ValueError
            If shapes do not fit or values are not finite.
        TypeError
            If an input is complex.
        """
        u = _inputs(u, "u", self.branch_size, self.ansatz)
        y = _inputs(y, "y", self.trunk_size, self.ansatz)
        if len(u) != len(y):
            raise ValueError(f"u and y must have as many rows, got {len(u)} and {len(y)}")
        start = uniform_state(self.num_qubits, len(u), self.ansatz)
        out = self.observable(evolve(self._stages(u, y), start, adjoint=self.adjoint))
        return out if self.bias is None else out + self.bias
