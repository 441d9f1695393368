"""A tumour under chemotherapy and radiotherapy, whose outcome under any treatments is known.

The volume follows a Gompertz law with a log-cell-kill term for the drug in the blood and a linear-quadratic term for
radiation. The observed doses depend on the recent diameter, so the records are confounded over time, the more so the
larger `gamma`.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.interpolate import CubicSpline
from scipy.special import expit
from scipy.stats import truncnorm
from sklearn.utils import check_random_state

from paperworks._checks import check_finite_array, check_integer, check_positive

__all__ = ["Cohort", "dose_curve", "tumour_cohort", "tumour_rollout"]

Floats = NDArray[np.float64]

PARAMETERS = ("alpha", "beta", "beta_c", "rho")

# stage: patients, then mean, deviation and bounds of a truncated normal law (bounds in cm, the law is of the logarithm)
_STAGES = (
    (1432, 1.72, 4.70, 0.3, 5.0),
    (128, 1.96, 1.63, 0.3, 13.0),
    (1306, 1.91, 9.40, 0.3, 13.0),
    (7248, 2.76, 6.87, 0.3, 13.0),
    (12840, 3.86, 8.82, 0.3, 13.0),
)
_ALPHA, _RHO = (0.0398, 0.168), (7e-5, 7.23e-3)  # mean and deviation
_CORRELATION = 0.87
_CHEMO = (0.028, 0.0007)
_LARGEST = 13.0  # cm, diameter
_WINDOW = 15  # days over which the policy averages the diameter
_FLOOR = 1e-7  # cm3, inside the logarithm


def _volume(diameter: Any) -> Any:
    return np.pi / 6.0 * np.asarray(diameter, dtype=np.float64) ** 3


def _diameter(volume: Any) -> Any:
    return np.cbrt(6.0 / np.pi * np.asarray(volume, dtype=np.float64))


DEADLY = float(_volume(_LARGEST))
CAPACITY = float(_volume(30.0))


@cache
def _spline() -> CubicSpline:
    return CubicSpline([0.0, 0.4, 0.7, 1.0], [0.0, 0.2, 0.85, 1.0], bc_type="clamped")


class Cohort(NamedTuple):
    """Simulated patients.

    Parameters
    ----------
    outcomes : ndarray of float64, shape (n, length + 1, 1)
        Volumes in cm³; ``outcomes[:, t]`` is seen before ``actions[:, t]`` is given.
    actions : ndarray of float64, shape (n, length, 2)
        Doses of chemotherapy and radiotherapy in [0, 1].
    static : ndarray of float64, shape (n, 1)
        Type of the patient, standardised.
    params : dict of str to ndarray of float64, shape (n,)
        ``alpha``, ``beta``, ``beta_c`` and ``rho`` of each patient, as `tumour_rollout` takes them.
    chemo : ndarray of float64, shape (n, length + 1)
        Drug in the blood before each action: ``chemo[:, t]`` belongs to ``actions[:, t]``, 0 at first.

    Examples
    --------
    >>> from paperworks.causal import tumour_cohort
    >>> cohort = tumour_cohort(5, gamma=4.0, length=30, random_state=0)
    >>> cohort.outcomes.shape, cohort.actions.shape, cohort.chemo.shape
    ((5, 31, 1), (5, 30, 2), (5, 31))
    """

    outcomes: Floats
    actions: Floats
    static: Floats
    params: dict[str, Floats]
    chemo: Floats


def dose_curve(x: ArrayLike) -> Floats:
    """Return the part of the full dose that an action stands for.

    A clamped cubic spline through (0, 0), (0.4, 0.2), (0.7, 0.85) and (1, 1). It isn't monotone: near 0.08 it dips to
    -0.0014, and near 1 it exceeds 1 by 4e-5.

    Parameters
    ----------
    x : array-like
        Actions in [0, 1].

    Returns
    -------
    ndarray of float64
        Doses, of the shape of `x`.

    Raises
    ------
    ValueError
        If a value is not finite or lies outside [0, 1].

    Examples
    --------
    >>> from paperworks.causal import dose_curve
    >>> dose_curve([0.4, 0.5, 0.7, 1.0]).round(7).tolist()
    [0.2, 0.4106125, 0.85, 1.0]
    """
    return _dose(check_unit(check_finite_array(x, "x"), "x"))


def _dose(x: Floats) -> Floats:
    return np.asarray(_spline()(x), dtype=np.float64)


def check_unit(array: Floats, name: str) -> Floats:
    """Return `array` if all its values lie in [0, 1]."""
    if array.size and (array.min() < 0.0 or array.max() > 1.0):
        raise ValueError(f"{name} must lie in [0, 1], got values from {array.min():g} to {array.max():g}")
    return array


def _step(
    volume: Floats, chemo: Floats, chemo_dose: Floats, radio_dose: Floats, params: dict[str, Floats], noise: Any
) -> tuple[Floats, Floats]:
    """One day: the drug halves and is topped up, then the tumour grows or shrinks."""
    chemo = 0.5 * chemo + 5.0 * chemo_dose
    radio = 2.0 * radio_dose
    growth = params["rho"] * np.log(CAPACITY / np.maximum(volume, _FLOOR))
    kill = params["beta_c"] * chemo + params["alpha"] * radio + params["beta"] * radio**2
    return np.clip(volume * (1.0 + growth - kill + noise), 0.0, DEADLY), chemo


def tumour_rollout(
    params: dict[str, Any], volume: ArrayLike, chemo: ArrayLike, actions: ArrayLike, noise: ArrayLike | None = None
) -> Floats:
    """Return the volumes that follow given treatments, exactly.

    Parameters
    ----------
    params : dict of str to array-like of shape (n,)
        ``alpha``, ``beta``, ``beta_c`` and ``rho``, as in `Cohort.params`.
    volume : array-like of shape (n,)
        Volumes in cm³ before the first action.
    chemo : array-like of shape (n,)
        Drug in the blood before the first action.
    actions : array-like of shape (n, n_steps, 2)
        Chemotherapy and radiotherapy in [0, 1].
    noise : array-like of shape (n, n_steps), optional
        Daily relative disturbance; none by default.

    Returns
    -------
    ndarray of float64, shape (n, n_steps)
        Volumes in cm³ after each action, between 0 and that of a diameter of 13 cm.

    Raises
    ------
    ValueError
        If a parameter is missing, a shape doesn't fit, a value isn't finite, an action lies outside [0, 1] or a volume
        or amount is negative.

    Examples
    --------
    >>> import numpy as np
    >>> from paperworks.causal import tumour_cohort, tumour_rollout
    >>> cohort = tumour_cohort(3, gamma=4.0, length=30, random_state=0)
    >>> plan = np.full((3, 6, 2), 0.9)
    >>> now = cohort.outcomes[:, 20, 0]
    >>> later = tumour_rollout(cohort.params, now, cohort.chemo[:, 20], plan)
    >>> bool((later[:, -1] < now).all())
    True
    """
    planned = check_unit(check_finite_array(actions, "actions", ndim=3), "actions")
    n, n_steps, width = planned.shape
    if width != 2:
        raise ValueError(f"actions must have shape (n, n_steps, 2), got {planned.shape}")
    given = {}
    missing = [name for name in PARAMETERS if name not in params]
    if missing:
        raise ValueError(f"params must hold {', '.join(PARAMETERS)}; missing: {', '.join(missing)}")
    for name in PARAMETERS:
        given[name] = _vector(params[name], f"params[{name!r}]", n)
    now, drug = _vector(volume, "volume", n), _vector(chemo, "chemo", n)
    if (now < 0).any() or (drug < -0.05).any():  # the dose curve dips below 0, so the drug may, a little
        raise ValueError("volume and chemo must not be negative")
    disturbance = np.zeros((n, n_steps)) if noise is None else check_finite_array(noise, "noise", ndim=2)
    if disturbance.shape != (n, n_steps):
        raise ValueError(f"noise must have shape {(n, n_steps)}, got {disturbance.shape}")
    dose = _dose(planned)
    volumes = np.empty((n, n_steps))
    for t in range(n_steps):
        now, drug = _step(now, drug, dose[:, t, 0], dose[:, t, 1], given, disturbance[:, t])
        volumes[:, t] = now
    return volumes


def _vector(value: Any, name: str, n: int) -> Floats:
    array = check_finite_array(value, name, ndim=1)
    if array.shape != (n,):
        raise ValueError(f"{name} must have shape ({n},), one value per row of actions; got {array.shape}")
    return array


def tumour_cohort(n: int, *, gamma: float, length: int = 60, random_state: Any = None) -> Cohort:
    """Simulate patients whose doses depend on the recent size of the tumour.

    Nobody leaves: a volume is clipped at 0 and at that of a diameter of 13 cm, where the original simulator ends a
    record and pads it.

    Parameters
    ----------
    n : int
        Number of patients.
    gamma : float
        Strength of the confounding, at least 0; 0 is a randomised trial.
    length : int, default=60
        Number of daily treatments.
    random_state : int, RandomState instance or None, default=None
        Source of patients, doses and noise.

    Returns
    -------
    Cohort
        Records, parameters and drug levels.

    Raises
    ------
    ValueError
        If `n` or `length` is below 1, or `gamma` is negative or not finite.
    TypeError
        If one of them is not a number.

    Examples
    --------
    >>> from paperworks.causal import tumour_cohort
    >>> cohort = tumour_cohort(200, gamma=4.0, random_state=0)
    >>> bool(cohort.actions[cohort.outcomes[:, :-1, 0] > 500].mean() > cohort.actions.mean())
    True
    """
    n, length = check_integer(n, "n", minimum=1), check_integer(length, "length", minimum=1)
    slope = check_positive(gamma, "gamma", zero_ok=True) / _LARGEST
    rng = check_random_state(random_state)
    alpha, rho = _growth_and_response(n, rng)
    kind = rng.randint(1, 4, size=n)
    alpha = alpha + 0.1 * _ALPHA[0] * (kind == 1)
    beta_c = truncnorm.ppf(rng.uniform(size=n), -_CHEMO[0] / _CHEMO[1], np.inf, *_CHEMO) + 0.1 * _CHEMO[0] * (kind == 3)
    params = {"alpha": alpha, "beta": alpha / 10.0, "beta_c": beta_c, "rho": rho}

    volumes, drug = np.empty((n, length + 1)), np.zeros((n, length + 1))
    actions = np.empty((n, length, 2))
    volumes[:, 0] = _volume(_first_diameters(n, rng))
    noise = rng.normal(scale=0.01, size=(n, length))
    total = np.zeros(n)  # of the diameters of the last days
    diameters = np.empty((n, length))
    for t in range(length):
        diameters[:, t] = _diameter(volumes[:, t])
        total += diameters[:, t] - (diameters[:, t - _WINDOW] if t >= _WINDOW else 0.0)
        p = expit(slope * (total / min(t + 1, _WINDOW) - _LARGEST / 2.0))
        actions[:, t] = rng.beta(2.0 * p[:, None], 2.0 - 2.0 * p[:, None], size=(n, 2))
        dose = _dose(actions[:, t])
        volumes[:, t + 1], drug[:, t + 1] = _step(
            volumes[:, t], drug[:, t], dose[:, 0], dose[:, 1], params, noise[:, t]
        )
    static = (kind[:, None] - 2.0) / np.sqrt(2.0 / 3.0)
    return Cohort(volumes[:, :, None], actions, static, params, drug)


def _growth_and_response(n: int, rng: Any) -> tuple[Floats, Floats]:
    """Radiation response and growth rate: correlated normal draws, kept where both are positive."""
    alpha, rho = np.empty(0), np.empty(0)
    while alpha.size < n:
        z = rng.normal(size=(2, 4 * n))
        first = _ALPHA[0] + _ALPHA[1] * z[0]
        second = _RHO[0] + _RHO[1] * (_CORRELATION * z[0] + np.sqrt(1.0 - _CORRELATION**2) * z[1])
        kept = (first > 0) & (second > 0)
        alpha, rho = np.r_[alpha, first[kept]], np.r_[rho, second[kept]]
    return alpha[:n], rho[:n]


def _first_diameters(n: int, rng: Any) -> Floats:
    count, mu, sigma, low, high = np.array(_STAGES).T
    stage = rng.choice(len(count), size=n, p=count / count.sum())
    mu, sigma, low, high = mu[stage], sigma[stage], np.log(low[stage]), np.log(high[stage])
    return np.exp(truncnorm.ppf(rng.uniform(size=n), (low - mu) / sigma, (high - mu) / sigma, loc=mu, scale=sigma))
