"""The order in which domains are learnt, and how strongly each is regularised, from gradients (equations 5 to 11)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paperworks._checks import check_choice, check_positive

__all__ = ["curriculum_order", "elastic_factors"]

MAX_DROPOUT = 0.9


def _flat(gradient: Any, name: str) -> NDArray[np.float64]:
    parts = gradient if isinstance(gradient, list | tuple) else [gradient]
    flat = np.concatenate([np.asarray(part, dtype=float).ravel() for part in parts]) if parts else np.empty(0)
    if not flat.size or not np.isfinite(flat).all():
        raise ValueError(f"gradients[{name!r}] must be finite and not empty")
    return flat


def curriculum_order(gradients: Mapping[str, Any]) -> tuple[list[str], dict[str, float], str]:
    """Order domains by how far their gradients are from those of the easiest one.

    The bench is the domain whose gradient is smallest in norm, the best learnt one. The others follow by the distance
    of their gradients to that of the bench (equations 5 to 7).

    Parameters
    ----------
    gradients : mapping of str to array or list of arrays
        Gradient of each domain's final training loss, flat or by layer; all of the same length.

    Returns
    -------
    order : list of str
        Names, bench first, then by length; ties by name.
    lengths : dict
        Distance to the gradient of the bench, by name.
    bench : str
        The easiest domain.

    Raises
    ------
    ValueError
        If there is no domain, or gradients are empty, of different lengths or not finite.

    Examples
    --------
    >>> from paperworks.dynamics import curriculum_order
    >>> curriculum_order({"far": [3.0, 4.0], "near": [0.5, 0.0], "easy": [0.0, 0.0]})
    (['easy', 'near', 'far'], {'far': 5.0, 'near': 0.5, 'easy': 0.0}, 'easy')
    """
    if not gradients:
        raise ValueError("gradients must hold at least one domain, got none")
    flat = {name: _flat(gradient, name) for name, gradient in gradients.items()}
    if len({len(g) for g in flat.values()}) > 1:
        raise ValueError(f"gradients must have the same length, got { ({n: len(g) for n, g in flat.items()}) }")
    bench = min(flat, key=lambda name: (float(flat[name] @ flat[name]), name))
    lengths = {name: float(np.linalg.norm(g - flat[bench])) for name, g in flat.items()}
    order = sorted(flat, key=lambda name: (name != bench, lengths[name], name))
    return order, lengths, bench


def elastic_factors(
    lengths: Mapping[str, float], p0: float, lambda0: float, d_max: float | None = None, scale: str = "raw"
) -> tuple[dict[str, float], dict[str, float]]:
    """Return the dropout and the weight decay of each domain: strong for easy domains, none for the hardest.

    With l the length and d_max the greatest one, both are their base value times ``1 - exp(l - d_max)`` (equations 8
    to 11).

    Parameters
    ----------
    lengths : mapping of str to float
        Distances from `curriculum_order`, at least 0.
    p0 : float
        Base dropout, in (0, 1]. No domain gets more than 0.9.
    lambda0 : float
        Base weight decay, in (0, 1).
    d_max : float, optional
        Greatest length; by default that of `lengths`. Greater lengths count as this one; 0 means no regularisation.
    scale : {"raw", "relative"}, default "raw"
        ``"raw"`` is the formula, in which lengths have the unit of a gradient. ``"relative"`` measures them in thirds
        of `d_max`, so that factors spread over [0, 0.95] whatever the loss's unit.

    Returns
    -------
    dropout : dict
        Dropout by name.
    weight_decay : dict
        Weight decay by name.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> from paperworks.dynamics import elastic_factors
    >>> dropout, _ = elastic_factors({"easy": 0.0, "hard": 3.0}, p0=0.5, lambda0=0.05)
    >>> round(dropout["easy"], 4), dropout["hard"]
    (0.4751, 0.0)
    """
    if not 0 < p0 <= 1:
        raise ValueError(f"p0 must lie in (0, 1], got {p0!r}")
    if not 0 < lambda0 < 1:
        raise ValueError(f"lambda0 must lie in (0, 1), got {lambda0!r}")
    check_choice(scale, "scale", ("raw", "relative"))
    for name, length in lengths.items():
        check_positive(length, f"lengths[{name!r}]", zero_ok=True)
    if d_max is None:
        d_max = max(lengths.values(), default=0.0)
    d_max = check_positive(d_max, "d_max", zero_ok=True)
    unit = d_max / 3 if scale == "relative" else 1.0
    factors = dict.fromkeys(lengths, 0.0)
    if d_max > 0:
        factors = {name: abs(float(np.expm1((min(l, d_max) - d_max) / unit))) for name, l in lengths.items()}
    dropout = {name: min(float(p0 * f), MAX_DROPOUT) for name, f in factors.items()}
    return dropout, {name: float(lambda0 * f) for name, f in factors.items()}
