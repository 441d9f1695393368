"""Conditional independence tests, each question asked and counted once.

Fisher's z for Gaussian data works on the correlation matrix alone; the G-test on counts; any function is accepted.
"""

from __future__ import annotations

import itertools
import math
import warnings
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import chi2

from paperworks._checks import check_finite_array, check_integer

__all__ = ["FisherTester", "FunctionTester", "GTester", "Tester", "fisher_z", "g_test"]

Floats = NDArray[np.float64]

_CLIP = 1.0 - 1e-7
_SMALL = 1e-12
"""A variable whose remaining variance (of 1) is below this is determined by the others."""
_MAX_SUBSETS = 4096


def fisher_z(corr: ArrayLike, n: int, x: int, y: int, z: Sequence[int] = ()) -> float:
    """Return the p-value of Fisher's z test of x and y being independent given z.

    With r the partial correlation, 0.5 log((1 + r) / (1 - r)) sqrt(n - len(z) - 3) is compared with a standard
    normal, on both sides.

    Parameters
    ----------
    corr : array-like of shape (n_features, n_features)
        Correlation matrix.
    n : int
        Number of samples it was computed from.
    x, y : int
        Column numbers.
    z : sequence of int, default=()
        Column numbers of the conditioning set.

    Returns
    -------
    float
        The p-value, in [0, 1]. It is 1 if z determines x or y.

    Raises
    ------
    ValueError
        If `corr` is not a square matrix of finite numbers, a column number is out of range or repeated, or
        ``n - len(z) - 3 < 1``.
    TypeError
        If a column number or `n` is not an integer.

    Examples
    --------
    >>> from paperworks.causal import fisher_z
    >>> chain = [[1.0, 0.5, 0.25], [0.5, 1.0, 0.5], [0.25, 0.5, 1.0]]
    >>> fisher_z(chain, 500, 0, 2) < 1e-6, fisher_z(chain, 500, 0, 2, [1])
    (True, 1.0)
    """
    matrix = check_finite_array(corr, "corr", ndim=2)
    if matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"corr must be square, got shape {matrix.shape}")
    a, b, given = _check_question(len(matrix), x, y, z)
    check_integer(n, "n", minimum=len(given) + 4)
    return _fisher_p(_partial_correlation(matrix, a, b, given), n - len(given) - 3)


def _check_question(n: int, x: int, y: int, z: Sequence[int]) -> tuple[int, int, tuple[int, ...]]:
    a, b = (check_integer(v, name, minimum=0, maximum=n - 1) for v, name in ((x, "x"), (y, "y")))
    given = tuple(check_integer(v, "a member of z", minimum=0, maximum=n - 1) for v in z)
    if a == b or a in given or b in given or len(set(given)) < len(given):
        raise ValueError(f"x, y and the members of z must be different columns, got x={a}, y={b}, z={list(given)}")
    return a, b, given


def _fisher_p(r: float, dof: float) -> float:
    r = min(abs(r), _CLIP)
    return math.erfc(math.atanh(r) * math.sqrt(dof / 2.0))


def _partial_correlation(corr: Any, x: int, y: int, z: Sequence[int]) -> float:
    """Return the correlation of x and y after z is taken out of both, by elimination."""
    if not z:
        return float(corr[x][y])
    if len(z) == 1:  # the case that occurs most often, written out
        k = z[0]
        xk, yk = corr[x][k], corr[y][k]
        vx, vy = 1.0 - xk * xk, 1.0 - yk * yk
        if vx <= _SMALL or vy <= _SMALL:
            return 0.0
        return float((corr[x][y] - xk * yk) / math.sqrt(vx * vy))
    names = [*z, x, y]
    m = len(names)
    left = [[float(corr[i][j]) for j in names[k:]] for k, i in enumerate(names)]  # upper triangles, row by row
    for k in range(m - 2):
        row = left[k]
        pivot = row[0]
        if pivot <= _SMALL:  # already determined by the variables before it
            continue
        for i in range(1, m - k):
            factor = row[i] / pivot
            if factor:
                target = left[k + i]
                for j in range(i, m - k):
                    target[j - i] -= factor * row[j]
    vx, xy, vy = left[m - 2][0], left[m - 2][1], left[m - 1][0]
    return xy / math.sqrt(vx * vy) if vx > _SMALL and vy > _SMALL else 0.0


def g_test(data: ArrayLike, x: int, y: int, z: Sequence[int] = ()) -> float:
    """Return the p-value of the G-test of x and y being independent given z, for discrete data.

    G = 2 sum O log(O / E) over the strata of z, with as many degrees of freedom as the sum over strata of
    (non-empty rows - 1)(non-empty columns - 1).

    Parameters
    ----------
    data : array-like of shape (n_samples, n_features)
        Codes of the categories: any finite numbers.
    x, y : int
        Column numbers.
    z : sequence of int, default=()
        Column numbers of the conditioning set.

    Returns
    -------
    float
        The p-value, in [0, 1]; 1 if there are no degrees of freedom.

    Raises
    ------
    ValueError
        If `data` is not 2-D, empty or not finite, or a column number is out of range or repeated.
    TypeError
        If `data` is not numeric or a column number is not an integer.

    Examples
    --------
    >>> import numpy as np
    >>> from paperworks.causal import g_test
    >>> rng = np.random.default_rng(0)
    >>> a = rng.integers(2, size=500)
    >>> data = np.c_[a, np.where(rng.random(500) < 0.1, 1 - a, a), rng.integers(3, size=500)]
    >>> g_test(data, 0, 1) < 1e-6, g_test(data, 0, 2) > 0.05
    (True, True)
    """
    table = check_finite_array(data, "data", ndim=2)
    if not len(table):
        raise ValueError("data must hold at least one row, got none")
    a, b, given = _check_question(table.shape[1], x, y, z)
    codes = {k: np.unique(table[:, k], return_inverse=True)[1] for k in (a, b, *given)}
    return _g_p(codes, a, b, given)


def _g_p(codes: Any, x: int, y: int, z: Sequence[int]) -> float:
    strata = np.zeros(len(codes[x]), dtype=np.int64)
    for k in z:
        strata = np.unique(strata * (codes[k].max() + 1) + codes[k], return_inverse=True)[1]
    rows, columns, n_strata = codes[x].max() + 1, codes[y].max() + 1, strata.max() + 1
    cells = (strata * rows + codes[x]) * columns + codes[y]
    counts = np.bincount(cells, minlength=n_strata * rows * columns).reshape(n_strata, rows, columns)
    by_row, by_column = counts.sum(axis=2), counts.sum(axis=1)
    dof = int((((by_row > 0).sum(axis=1) - 1) * ((by_column > 0).sum(axis=1) - 1)).sum())
    if dof == 0:
        return 1.0
    s, i, j = np.nonzero(counts)
    observed = counts[s, i, j]
    ratio = observed * by_row.sum(axis=1)[s] / (by_row[s, i] * by_column[s, j])
    return float(chi2.sf(max(2.0 * float(observed @ np.log(ratio)), 0.0), dof))


class Tester(ABC):
    """Asks each question (x, y | z) once, remembers the answers and counts them by stage.

    Subclasses give ``compute(x, y, z)``, a p-value, for x < y and sorted z.
    """

    max_given: float = math.inf
    """The largest conditioning set that the data can bear."""

    def __init__(self, alpha: float, *, cache: bool = True) -> None:
        self.alpha = alpha
        self.cache = cache
        self.known: dict[tuple[int, ...], float] = {}
        self.counts: Counter[str] = Counter(markov_blanket=0, skeleton=0, decision=0)
        self.stage = "skeleton"

    @abstractmethod
    def compute(self, x: int, y: int, z: Sequence[int]) -> float:
        """Return the p-value of one test."""

    def p(self, x: int, y: int, z: Sequence[int]) -> float:
        """Return the p-value of x and y given z (sorted); a new question is counted."""
        key = (x, y, *z) if x < y else (y, x, *z)
        value = self.known.get(key)
        if value is None:
            value = self.compute(key[0], key[1], key[2:])
            self.counts[self.stage] += 1
            if self.cache:
                self.known[key] = value
        return value

    def independent(self, x: int, y: int, z: Sequence[int]) -> bool:
        """Are x and y independent given z?"""
        return self.p(x, y, z) > self.alpha

    def cut(self, z: Sequence[int]) -> tuple[int, ...]:
        """Return z sorted, shortened with a warning to what the data can bear (the first variables stay)."""
        given = tuple(sorted(z))
        if len(given) > self.max_given:
            warnings.warn(
                f"a conditioning set of {len(given)} variables was cut to {int(self.max_given)}, the most that the "
                "number of samples allows; take more samples or fewer columns",
                UserWarning,
                stacklevel=2,
            )
            given = given[: int(self.max_given)]
        return given

    def separator(self, x: int, y: int, candidates: Sequence[int], size: int) -> tuple[int, ...] | None:
        """Return the first set of `size` candidates (sorted) that separates x and y."""
        if size > self.max_given:
            return None
        for z in itertools.combinations(candidates, size):
            if self.p(x, y, z) > self.alpha:
                return z
        return None

    def smallest_separator(self, x: int, y: int, candidates: Sequence[int]) -> tuple[int, ...] | None:
        """Return the smallest subset of the candidates that separates x and y; None if there is none."""
        given = sorted(candidates)
        spent = 0
        for size in range(len(given) + 1):
            spent += math.comb(len(given), size)
            if spent > _MAX_SUBSETS:
                warnings.warn(
                    f"{len(given)} candidates have too many subsets; separating sets of at most {size - 1} were tried",
                    UserWarning,
                    stacklevel=2,
                )
                break
            z = self.separator(x, y, given, size)
            if z is not None:
                return z
        return None


class FisherTester(Tester):
    """Fisher's z on a correlation matrix."""

    def __init__(self, corr: Floats, n_samples: int, alpha: float, *, cache: bool = True) -> None:
        super().__init__(alpha, cache=cache)
        self.corr: list[list[float]] = corr.tolist()
        self.n_samples = n_samples
        self.max_given = n_samples - 4

    def compute(self, x: int, y: int, z: Sequence[int]) -> float:
        """Return the p-value of one test."""
        return _fisher_p(_partial_correlation(self.corr, x, y, z), self.n_samples - len(z) - 3)


class GTester(Tester):
    """The G-test on codes."""

    def __init__(self, data: Floats, alpha: float, *, cache: bool = True) -> None:
        super().__init__(alpha, cache=cache)
        self.codes = [np.unique(column, return_inverse=True)[1] for column in data.T]

    def compute(self, x: int, y: int, z: Sequence[int]) -> float:
        """Return the p-value of one test."""
        return _g_p(self.codes, x, y, z)


class FunctionTester(Tester):
    """A test given as a function of column numbers."""

    def __init__(self, function: Callable[[int, int, tuple[int, ...]], float], alpha: float, *, cache: bool = True):
        super().__init__(alpha, cache=cache)
        self.function = function

    def compute(self, x: int, y: int, z: Sequence[int]) -> float:
        """Return the p-value of one test, checked."""
        value = self.function(x, y, tuple(z))
        try:
            p = float(value)
        except (TypeError, ValueError):
            p = math.nan
        if not 0.0 <= p <= 1.0:
            raise ValueError(f"ci_test must return a p-value in [0, 1], got {value!r} for x={x}, y={y}, z={list(z)}")
        return p
