"""Volume between a front and a reference point."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import bisect

from .exponential import Floats

__all__ = ["area_of_curve", "volume_of_points"]


def area_of_curve(curve: Callable[[Floats], Floats], reference: Floats) -> float:
    """Area dominated by the front of two targets, by Gauss-Legendre quadrature.

    ``curve(t)`` gives the objectives (n, 2) at weights (1 - t, t). With g = (1 - t) f_1 + t f_2 one has
    f_1 = g - t g' and f_2 = g + (1 - t) g', so that integrating by parts leaves values of f alone.
    """

    def first_below(i: int) -> float:
        """Weight of target i from which on f_i is at most its reference."""

        def excess(weight: float) -> float:
            t = weight if i == 1 else 1 - weight
            return float(np.minimum(curve(np.array([t]))[0, i], 1e300) - reference[i])

        return 0.0 if excess(0.0) <= 0 else float(bisect(excess, 0.0, 1.0, xtol=1e-15, rtol=1e-15))

    start, end = first_below(1), 1 - first_below(0)
    ends = curve(np.array([start, end]))
    # Left of the curve nothing is dominated; right of its end everything above f_2 there is.
    area = (reference[0] - ends[1, 0]) * (reference[1] - ends[1, 1]) + reference[1] * (ends[1, 0] - ends[0, 0])

    def edge(t: float, f: Floats) -> float:
        slope = f[1] - f[0]
        return -t * f[1] * slope + t * (1 - t) * slope**2 / 2 if t > 0 else 0.0

    below, nodes = np.inf, 32
    while nodes <= 4096:
        x, w = np.polynomial.legendre.leggauss(min(nodes, 64))
        pieces = np.linspace(start, end, max(nodes // 64, 1) + 1)
        width = np.diff(pieces)
        t = (pieces[:-1, None] + width[:, None] * (x + 1) / 2).ravel()
        w = (width[:, None] * w / 2).ravel()
        f = curve(t)
        slope = f[:, 1] - f[:, 0]
        new = edge(end, ends[1]) - edge(start, ends[0]) + float(w @ (slope * f[:, 1] - slope**2 * (1 - 2 * t) / 2))
        if abs(new - below) <= 1e-12 * max(abs(area), 1e-300):
            return float(area - new)
        below, nodes = new, nodes * 2
    return float(area - below)


def volume_of_points(points: Floats, reference: Floats) -> float:
    """Volume dominated by points, exactly, by slicing along the last objective."""
    points = points[(points < reference).all(axis=1)]
    if len(points) == 0:
        return 0.0
    if len(reference) == 2:
        order = np.lexsort((points[:, 1], points[:, 0]))
        x, y = points[order].T
        lowest = np.minimum.accumulate(np.append(reference[1], y))
        return float(((reference[0] - x) * (lowest[:-1] - lowest[1:])).sum())
    order = points[:, -1].argsort(kind="stable")
    points = points[order]
    heights = np.diff(np.append(points[:, -1], reference[-1]))
    below = [volume_of_points(points[: i + 1, :-1], reference[:-1]) for i in range(len(points))]
    return float(heights @ below)
