"""Regular two-level fractions, the hand-made designs that random dosages are compared with."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from paperworks._checks import check_integer

__all__ = ["half_fraction"]

# Added columns as products of the free ones, which are lettered a, b, c, ...
_GENERATORS = {(5, 5): ("abcd",), (8, 5): ("abcd", "abef")}


def half_fraction(p: int, resolution: int) -> NDArray[np.int64]:
    """Return a regular fraction of the 2^p combinations of p treatments.

    The first treatments run through all combinations; each other one is on where the product of some of them, coded
    -1 and +1, is +1.

    Parameters
    ----------
    p : int
        Number of treatments: 5 (a half, 16 units) or 8 (a quarter, 64 units).
    resolution : int
        Resolution of the fraction: 5, where main effects and pairs are not confounded with each other.

    Returns
    -------
    ndarray of shape (n_units, p)
        The combinations, 0 and 1; the first treatment varies fastest.

    Raises
    ------
    ValueError
        If there is no built-in fraction of that size and resolution.

    References
    ----------
    G. E. P. Box, J. S. Hunter, "The 2^(k-p) fractional factorial designs", Technometrics 3, 1961. The generators are
    those of the experiments of arXiv:2506.03363, section 6.

    Examples
    --------
    >>> from paperworks.causal import half_fraction
    >>> half_fraction(5, 5)[:3]
    array([[0, 0, 0, 0, 1],
           [1, 0, 0, 0, 0],
           [0, 1, 0, 0, 0]])
    """
    key = (check_integer(p, "p"), check_integer(resolution, "resolution"))
    if key not in _GENERATORS:
        known = ", ".join(map(str, _GENERATORS))
        raise ValueError(f"there are fractions for (p, resolution) in {known}; got {key}")
    generators = _GENERATORS[key]
    free = p - len(generators)
    on = (np.arange(2**free)[:, np.newaxis] >> np.arange(free)) & 1
    added = [(2 * on[:, [ord(letter) - ord("a") for letter in word]] - 1).prod(axis=1) > 0 for word in generators]
    return np.column_stack([on, *added]).astype(np.int64)
