"""Pairs of functions related by a differential equation, drawn at random: data for operator learning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paperworks._checks import check_choice, check_integer, check_positive

__all__ = ["OPERATORS", "OperatorData", "make_operator_data"]

Floats = NDArray[np.float64]

OPERATORS = ("Antideriv", "Homogeneous", "Nonlinear", "Identity", "Advection", "RDiffusion", "Darcy")

_GRID = 1024
"""Intervals of the grid on which input functions are drawn; the ODE solver takes steps of two."""

_LEGACY_END = 1 / 1.96
"""Where the time axis called [0, 1] ends in the data of the official code."""


@dataclass(frozen=True)
class OperatorData:
    """Input functions at sensors and output functions at query points."""

    name: str
    inputs: Floats
    """Input functions at the sensors, (n_functions, n_sensors)."""
    sensors: Floats
    """Places of the sensors in [0, 1], (n_sensors,)."""
    points: Floats
    """Query points, shared by all functions, (n_points, n_coordinates): x, or x and t, or x and y."""
    targets: Floats
    """Output functions at the query points, (n_functions, n_points)."""


def make_operator_data(
    name: str,
    n_functions: int,
    n_sensors: int,
    n_points: int,
    length_scale: float = 0.2,
    random_state: Any = None,
    **parameters: Any,
) -> OperatorData:
    """Draw input functions and solve a differential equation for each.

    Input functions u are Gaussian processes on [0, 1] with the squared exponential kernel of variance 1.

    Parameters
    ----------
    name : str
        Which equation; upper or lower case. With query points evenly spaced over [0, 1] and s(0) = 0: ``"Antideriv"``
        (s' = u), ``"Homogeneous"`` (s' = s + u), ``"Nonlinear"`` (s' = -s³ + u), and ``"Identity"`` (s = u). With query
        points uniform in the unit square: ``"Advection"`` (s_t + s_x = 0, periodic, s = u at t = 0), ``"RDiffusion"``
        (s_t = D s_xx + k s² + u(x), s = 0 at both ends and at t = 0), ``"Darcy"`` (0.1 Δs = 1 inside, s = u around the
        boundary, counterclockwise from the origin).
    n_functions : int
        Number of functions.
    n_sensors : int
        Number of sensors, evenly spaced over [0, 1].
    n_points : int
        Number of query points.
    length_scale : float, default 0.2
        Length scale of the Gaussian process. For advection and Darcy flow the process is periodic, with that scale
        at short distances.
    random_state : int, numpy.random.Generator or None, default None
        Seed of the functions and the query points.
    **parameters
        For reaction-diffusion: `diffusion` (D, default 0.01), `reaction` (k, default 0.01), and `legacy_time` (default
        False): compress the time axis as the data of the official code does, where t = 1 is really 0.51.

    Returns
    -------
    OperatorData
        Inputs, sensors, points and targets.

    Raises
    ------
    ValueError
        If an argument is out of range.
    TypeError
        If a parameter is unknown.

    Examples
    --------
    >>> from paperworks.datasets import make_operator_data
    >>> data = make_operator_data("Nonlinear", n_functions=5, n_sensors=10, n_points=20, random_state=0)
    >>> data.inputs.shape, data.points.shape, data.targets.shape
    ((5, 10), (20, 1), (5, 20))
    """
    if isinstance(name, str):
        name = {known.lower(): known for known in OPERATORS}.get(name.lower(), name)
    check_choice(name, "name", OPERATORS)
    n_functions = check_integer(n_functions, "n_functions", minimum=1)
    n_sensors = check_integer(n_sensors, "n_sensors", minimum=1)
    n_points = check_integer(n_points, "n_points", minimum=1)
    length_scale = check_positive(length_scale, "length_scale")
    if parameters and name != "RDiffusion":
        raise TypeError(f"{name} takes no further parameters, got {', '.join(sorted(parameters))}")
    rng = np.random.default_rng(random_state)
    grid = np.linspace(0.0, 1.0, _GRID + 1)
    u = _processes(rng, grid, n_functions, length_scale, periodic=name in ("Advection", "Darcy"))
    sensors = np.linspace(0.0, 1.0, n_sensors)
    if name in ("Antideriv", "Homogeneous", "Nonlinear", "Identity"):
        points = np.linspace(0.0, 1.0, n_points)[:, None]
        targets = _rows_at(grid, u, points[:, 0]) if name == "Identity" else _solve_ode(name, grid, u, points[:, 0])
    else:
        points = rng.random((n_points, 2))
        if name == "Advection":
            targets = _rows_at(grid, u, (points[:, 0] - points[:, 1]) % 1.0)
        elif name == "Darcy":
            targets = _darcy(grid, u, points)
        else:
            targets = _reaction_diffusion(grid, u, points, **parameters)
    return OperatorData(name, _rows_at(grid, u, sensors), sensors, points, targets)


def _processes(rng: np.random.Generator, grid: Floats, n: int, length_scale: float, *, periodic: bool) -> Floats:
    gap = grid[:, None] - grid[None, :]
    if periodic:
        kernel = np.exp(-((np.sin(np.pi * gap) / (np.pi * length_scale)) ** 2) / 2)
    else:
        kernel = np.exp(-((gap / length_scale) ** 2) / 2)
    # Eigenvectors instead of Cholesky factors: a smooth kernel is singular to rounding.
    values, vectors = np.linalg.eigh(kernel)
    kept = values > values[-1] * 1e-12
    draws: Floats = rng.standard_normal((n, np.count_nonzero(kept))) @ (vectors[:, kept] * np.sqrt(values[kept])).T
    return draws


def _rows_at(grid: Floats, rows: Floats, at: Floats) -> Floats:
    """Interpolate every row at the same places."""
    from scipy.interpolate import CubicSpline

    out: Floats = CubicSpline(grid, rows, axis=1)(at)
    return out


def _solve_ode(name: str, grid: Floats, u: Floats, at: Floats) -> Floats:
    """Runge and Kutta's fourth order; steps of two grid intervals have the input at their middle."""

    def slope(s: Floats, forcing: Floats) -> Floats:
        if name == "Antideriv":
            return forcing
        return s + forcing if name == "Homogeneous" else forcing - s**3

    h = grid[2] - grid[0]
    out = np.zeros((len(u), len(grid) // 2 + 1))
    for k in range(out.shape[1] - 1):
        s, (left, middle, right) = out[:, k], u.T[2 * k : 2 * k + 3]
        k1 = slope(s, left)
        k2 = slope(s + h / 2 * k1, middle)
        k3 = slope(s + h / 2 * k2, middle)
        k4 = slope(s + h * k3, right)
        out[:, k + 1] = s + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return _rows_at(grid[::2], out, at)


def _reaction_diffusion(
    grid: Floats, u: Floats, points: Floats, diffusion: float = 0.01, reaction: float = 0.01, legacy_time: bool = False
) -> Floats:
    """Crank–Nicolson for the diffusion, Adams–Bashforth for the reaction, on 256 intervals and 400 steps."""
    from scipy.interpolate import RegularGridInterpolator
    from scipy.linalg import solve_banded

    diffusion = check_positive(diffusion, "diffusion")
    if isinstance(reaction, bool) or not isinstance(reaction, int | float) or not np.isfinite(reaction):
        raise ValueError(f"reaction must be a finite number, got {reaction!r}")
    x, source = grid[::4], u[:, ::4].T[1:-1]
    times = np.linspace(0.0, _LEGACY_END if legacy_time else 1.0, 401)
    dt, r = times[1], diffusion * times[1] / (2 * (x[1] - x[0]) ** 2)
    inner = len(x) - 2
    bands = np.array([np.full(inner, -r), np.full(inner, 1 + 2 * r), np.full(inner, -r)])
    path = np.zeros((len(times), len(x), len(u)))
    before = np.zeros_like(source)
    for k in range(len(times) - 1):
        s = path[k, 1:-1]
        now = reaction * s**2
        kept = (1 - 2 * r) * s + r * (path[k, :-2] + path[k, 2:])
        force = source + (now if k == 0 else 1.5 * now - 0.5 * before)
        path[k + 1, 1:-1] = solve_banded((1, 1), bands, kept + dt * force, check_finite=False)
        before = now
    if not np.isfinite(path).all():
        raise ValueError(f"reaction={reaction!r} lets solutions grow without bound before t = 1: take a smaller one")
    read = RegularGridInterpolator((times / times[-1], x), path)
    out: Floats = read(points[:, ::-1]).T
    return out


def _darcy(grid: Floats, u: Floats, points: Floats) -> Floats:
    """Five-point differences on 64 x 64 intervals, one sparse factorisation for all functions."""
    import scipy.sparse as sp
    from scipy.interpolate import RegularGridInterpolator
    from scipy.sparse.linalg import splu

    m = 64
    x = np.linspace(0.0, 1.0, m + 1)
    field = np.zeros((m + 1, m + 1, len(u)))
    # Around the square: bottom, right, top, left; a quarter of [0, 1] each.
    field[:, 0] = _rows_at(grid, u, x / 4).T
    field[-1, :] = _rows_at(grid, u, (1 + x) / 4).T
    field[:, -1] = _rows_at(grid, u, (3 - x) / 4).T
    field[0, :] = _rows_at(grid, u, (4 - x) / 4).T
    one = sp.diags_array([np.full(m - 2, -1.0), np.full(m - 1, 2.0), np.full(m - 2, -1.0)], offsets=[-1, 0, 1])
    eye = sp.eye_array(m - 1)
    laplace = splu((sp.kron(one, eye) + sp.kron(eye, one)).tocsc())
    known = np.full((m - 1, m - 1, len(u)), -((1 / m) ** 2) / 0.1)  # 0.1 Δs = 1
    known[0] += field[0, 1:-1]
    known[-1] += field[-1, 1:-1]
    known[:, 0] += field[1:-1, 0]
    known[:, -1] += field[1:-1, -1]
    field[1:-1, 1:-1] = laplace.solve(known.reshape(-1, len(u))).reshape(known.shape)
    out: Floats = RegularGridInterpolator((x, x), field)(points).T
    return out
