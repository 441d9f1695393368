"""QuanONet: a quantum circuit that learns an operator, from functions to functions.

A trunk of encoding blocks loads the query point y, a branch loads the input function u at its sensors, and one
observable is measured: the output is a quadratic form in the trunk's state, so 2^n numbers combine to 4^n products.
With trainable frequencies (TF-QuanONet) each encoding gate learns its own scale and shift.

Use it to study circuits of few parameters that could run on hardware: the gates are RX, RY, RZ, CNOT. Where parameters
are free, a DeepONet or a Fourier neural operator is the better choice. The models here run on a batched state-vector
engine in torch; `QuanONet.to_pennylane` takes them elsewhere.

Reference: R. Wang and others, "QuanONet: Quantum Neural Operator with Application to Differential Equation", ICML 2025.
"""

from .network import HEAQNN, QuanONet
from .observables import depolarize, hamiltonian_spectrum
from .regressor import QuanONetRegressor

__all__ = ["HEAQNN", "QuanONet", "QuanONetRegressor", "depolarize", "hamiltonian_spectrum"]
