"""Variables with their kernels, the split into two halves, and the cross-Gram matrices between the halves."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from paperworks._checks import check_choice, check_integer, check_positive, extra
from paperworks._numerics.kernels import laplace_gram, median_distance, rbf_gram
from paperworks.causal.interaction_tests.statistics import Array, Blocks, product

__all__ = ["cross_gram"]

KernelFunction = Callable[[Any, Any], ArrayLike]
Kernel = str | KernelFunction

NAMED_KERNELS = ("rbf", "laplace", "linear", "delta")
_SCALED = ("rbf", "laplace")
MIN_HALF = 8

_BLOCK_ENTRIES = 2**17
"""Entries of one matrix in a column block: small enough for the cache, and for the memory at any number of rows."""


@dataclass(frozen=True)
class Variable:
    """One variable: its rows, its kernel, and its bandwidth where the kernel has one."""

    label: str
    values: NDArray[Any]
    """Rows of floats (n, p), of codes (n,) for the delta kernel, or as they came, (n, p), for a callable."""
    kernel: Kernel
    bandwidth: float | None

    def is_constant_over(self, rows: NDArray[np.intp]) -> bool:
        """Tell whether the variable takes one value on these rows; a callable's values can't be compared."""
        if callable(self.kernel):
            return False
        taken = self.values[rows]
        return bool((taken == taken[0]).all())

    def gram(self, rows1: NDArray[np.intp], rows2: NDArray[np.intp], device: Any = None) -> Array:
        """Return the kernel values between two sets of rows, shape (len(rows1), len(rows2))."""
        a, b = self.values[rows1], self.values[rows2]
        if callable(self.kernel):
            gram = np.array(self.kernel(a, b), dtype=np.float64)
            if gram.shape != (len(a), len(b)) or not np.isfinite(gram).all():
                raise ValueError(
                    f"the kernel of {self.label} must give finite values of shape {(len(a), len(b))}, "
                    f"got shape {gram.shape}" + ("" if np.isfinite(gram).all() else " with NaN or infinite values")
                )
            return gram if device is None else _on_device(gram, device)
        if device is not None:
            return self._gram_on_device(a, b, device)
        if self.kernel == "delta":
            return np.equal.outer(a, b).astype(np.float64)
        if self.kernel == "linear":
            return a @ b.T
        assert self.bandwidth is not None
        return (rbf_gram if self.kernel == "rbf" else laplace_gram)(a, b, self.bandwidth)

    def _gram_on_device(self, a: NDArray[Any], b: NDArray[Any], device: Any) -> Array:
        with extra("torch"):
            import torch

        if self.kernel == "delta":
            return (_on_device(a, device)[:, None] == _on_device(b, device)).to(torch.float64)
        if self.kernel == "linear":
            return _on_device(a, device) @ _on_device(b, device).T
        left, right = (_on_device(half / self.bandwidth, device) for half in (a, b))
        # The expanded square that cdist takes by itself for many rows would lose digits to an offset.
        distances = torch.cdist(left, right, compute_mode="donot_use_mm_for_euclid_dist")
        return torch.exp(-distances.square() / 2 if self.kernel == "rbf" else -distances)


def _on_device(array: NDArray[Any], device: Any) -> Array:
    with extra("torch"):
        import torch

    return torch.as_tensor(array, device=device)


def prepare(X: Any, kernel: Any, bandwidth: Any) -> list[Variable]:
    """Return the variables of `X`, checked, each with its kernel and bandwidth."""
    labels, columns = _columns(X)
    lengths = [len(column) for column in columns]
    if len(set(lengths)) > 1:
        raise ValueError(f"X must hold variables of equal length, got lengths {lengths}")
    if columns and lengths[0] < 2 * MIN_HALF:
        raise ValueError(f"X must have at least {2 * MIN_HALF} rows, {MIN_HALF} per half; got {lengths[0]}")
    d = len(columns)
    kernels = _one_per_variable(kernel, "kernel", d)
    for i, given in enumerate(kernels):
        if not callable(given):
            check_choice(given, f"kernel of {labels[i]}", NAMED_KERNELS)
    bandwidths = _one_per_variable(bandwidth, "bandwidth", d)
    for i, given in enumerate(bandwidths):
        if isinstance(given, str):
            check_choice(given, f"bandwidth of {labels[i]}", ("median",))
        else:
            check_positive(given, f"bandwidth of {labels[i]}")
    return [
        _variable(label, column, given, width)
        for label, column, given, width in zip(labels, columns, kernels, bandwidths, strict=True)
    ]


def _columns(X: Any) -> tuple[list[str], list[Any]]:
    if sparse.issparse(X):
        raise TypeError(f"X must be dense, got a sparse {type(X).__name__}; use X.toarray()")
    if isinstance(X, pd.DataFrame):
        labels = [f"variable {i} ({name!r})" for i, name in enumerate(X.columns)]
        return labels, [X.iloc[:, i] for i in range(X.shape[1])]
    if isinstance(X, list | tuple):
        columns = [_detached(column) for column in X]
    else:
        table = np.asarray(_detached(X))
        if table.ndim != 2:
            raise ValueError(f"X must be a table (rows, variables) or a list of variables, got shape {table.shape}")
        columns = list(table.T)
    for i, column in enumerate(columns):
        if np.ndim(column) not in (1, 2):
            raise ValueError(f"variable {i} of X must have one or two dimensions, got shape {np.shape(column)}")
    return [f"variable {i}" for i in range(len(columns))], columns


def _detached(array: Any) -> Any:
    return array.detach().cpu().numpy() if hasattr(array, "detach") else array


def _one_per_variable(given: Any, name: str, d: int) -> list[Any]:
    if not isinstance(given, list | tuple | np.ndarray):
        return [given] * d
    if len(given) != d:
        raise ValueError(f"{name} must be one value or one per variable, got {len(given)} for {d} variables")
    return list(given)


def _variable(label: str, column: Any, kernel: Kernel, bandwidth: Any) -> Variable:
    if callable(kernel):
        raw = np.asarray(column)
        if raw.dtype.kind in "fc" and not np.isfinite(raw).all():
            raise ValueError(f"{label} of X holds values that are NaN or infinite")
        return Variable(label, raw.reshape(len(raw), -1), kernel, None)
    values = _codes(column, label) if kernel == "delta" else _numbers(column, label)
    if (values == values[0]).all():
        raise ValueError(f"{label} of X is constant; there is nothing to test about it")
    if kernel not in _SCALED:
        return Variable(label, values, kernel, None)
    return Variable(label, values, kernel, median_distance(values) if isinstance(bandwidth, str) else float(bandwidth))


def _numbers(column: Any, label: str) -> NDArray[np.float64]:
    expected = "numeric; for categories use kernel='delta' for it"
    if isinstance(column, pd.Series | pd.DataFrame):
        kinds = [column.dtype] if isinstance(column, pd.Series) else list(column.dtypes)
        if all(pd.api.types.is_numeric_dtype(kind) and not pd.api.types.is_complex_dtype(kind) for kind in kinds):
            column = column.to_numpy(dtype=np.float64, na_value=np.nan)
    array = np.asarray(column)
    if array.dtype.kind == "O":
        wrong = [v for v in array.ravel() if not (v is None or v is pd.NA or isinstance(v, numbers.Real | np.bool_))]
        if wrong:
            raise TypeError(f"{label} of X must be {expected}; got {wrong[0]!r} of type {type(wrong[0]).__name__}")
        array = np.where(pd.isna(array), np.nan, array)
    elif array.dtype.kind not in "biuf":
        raise TypeError(f"{label} of X must be {expected}; got dtype {array.dtype}")
    values = array.astype(np.float64).reshape(len(array), -1)
    bad = ~np.isfinite(values)
    if bad.any():
        row = int(bad.any(axis=1).argmax())
        raise ValueError(
            f"{label} of X holds {int(bad.sum())} value(s) that are NaN or infinite, the first in row {row}"
        )
    return values


def _codes(column: Any, label: str) -> NDArray[np.intp]:
    """Return one integer per distinct row, so that any type with equality serves as a category."""
    table = pd.DataFrame(column) if np.ndim(column) == 2 else pd.Series(column).to_frame()
    codes = np.column_stack([pd.factorize(table.iloc[:, j])[0] for j in range(table.shape[1])])
    if (codes < 0).any():
        row = int((codes < 0).any(axis=1).argmax())
        raise ValueError(f"{label} of X has missing values, the first in row {row}")
    return np.unique(codes, axis=0, return_inverse=True)[1].reshape(-1)


def generator(random_state: Any) -> np.random.Generator:
    """Return a generator for a seed, a generator or a legacy RandomState."""
    if random_state is None or isinstance(random_state, np.random.Generator):
        return np.random.default_rng(random_state)
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31))
    try:
        return np.random.default_rng(check_integer(random_state, "random_state", minimum=0))
    except TypeError as error:
        raise TypeError(f"random_state must be None, an integer or a NumPy generator, got {random_state!r}") from error


def split_rows(split: Any, n: int, rng: np.random.Generator) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the row numbers of the two samples."""
    if isinstance(split, str):
        check_choice(split, "split", ("random", "halves"))
        rows = rng.permutation(n) if split == "random" else np.arange(n)
        return rows[: n // 2], rows[n // 2 : 2 * (n // 2)]
    mask = np.asarray(_detached(split))
    if mask.dtype != np.bool_ or mask.shape != (n,):
        raise ValueError(
            f"split must be 'random', 'halves' or a boolean mask of {n} rows, got "
            f"{mask.dtype} values of shape {mask.shape}"
        )
    if not MIN_HALF <= mask.sum() <= n - MIN_HALF:
        raise ValueError(f"split must leave at least {MIN_HALF} rows on each side, got {mask.sum()} of {n} marked")
    return np.flatnonzero(mask), np.flatnonzero(~mask)


def check_both_halves(variables: Sequence[Variable], rows1: NDArray[np.intp], rows2: NDArray[np.intp]) -> None:
    """Raise if a variable takes a single value in one half: the statistic is zero there, whatever the law."""
    for variable in variables:
        for half, rows in ((1, rows1), (2, rows2)):
            if variable.is_constant_over(rows):
                raise ValueError(
                    f"{variable.label} of X takes a single value in sample {half} of the split: its other values are "
                    "too rare; give a split that puts some into each sample, or more rows"
                )


def gram_blocks(
    variables: Sequence[Variable],
    rows1: NDArray[np.intp],
    rows2: NDArray[np.intp],
    *,
    groups: Sequence[Sequence[int]] | None = None,
    width: int | None = None,
    device: Any = None,
) -> Blocks:
    """Return column blocks of the cross-Gram matrices, computed as they are needed.

    Parameters
    ----------
    variables : sequence of Variable
        The variables.
    rows1, rows2 : ndarray of int
        Rows of the two samples.
    groups : sequence of sequences of int, optional
        Variables whose kernels are multiplied into one; default is one group per variable.
    width : int, optional
        Columns per block; default is what fits the cache.
    device : torch.device or str, optional
        Where to compute, with torch; default is NumPy.
    """
    n2 = len(rows2)
    step = width or max(16, math.ceil(_BLOCK_ENTRIES / len(rows1)))
    sets = groups or [[i] for i in range(len(variables))]
    # A callable may look at the whole sample, so it is called once for all columns.
    given = {i: v.gram(rows1, rows2, device) for i, v in enumerate(variables) if callable(v.kernel)}

    def go() -> Iterator[list[Array]]:
        for start in range(0, n2, step):
            part = slice(start, start + step)
            grams = [
                given[i][:, part] if i in given else v.gram(rows1, rows2[part], device) for i, v in enumerate(variables)
            ]
            yield [product([grams[i] for i in members]) for members in sets]

    return go


def cross_gram(
    X: Any,
    *,
    kernel: Kernel | Sequence[Kernel] = "rbf",
    bandwidth: str | float | Sequence[str | float] = "median",
    split: str | ArrayLike = "random",
    random_state: int | np.random.Generator | np.random.RandomState | None = None,
    device: Any = None,
) -> tuple[list[Array], dict[str, Any]]:
    """Split the rows in two and return the kernel values between the halves, one matrix per variable.

    Parameters
    ----------
    X : array-like of shape (n, d), DataFrame, or list of d arrays of shape (n,) or (n, p_i)
        The variables: columns of a table, or arrays of equal length. Torch tensors are taken too.
    kernel : {"rbf", "laplace", "linear", "delta"}, callable, or a list with one per variable, default="rbf"
        ``rbf`` is ``exp(-|x - y|^2 / (2 s^2))``, ``laplace`` ``exp(-|x - y| / s)``, ``linear`` the scalar product,
        ``delta`` 1 for equal values and 0 otherwise (for categories of any type). A callable gets two arrays of rows as
        they came, shapes (n1, p) and (n2, p), and returns (n1, n2) values of a positive definite kernel.
    bandwidth : "median", float, or a list with one per variable, default="median"
        Length scale s of the ``rbf`` and ``laplace`` kernels, in the unit of the variable; by default the median of its
        non-zero distances (of at most 1000 rows), the same for both halves.
    split : {"random", "halves"} or boolean mask of shape (n,), default="random"
        How sample 1 and sample 2 are chosen: by a random permutation, as the first and second half of the rows, or as
        the marked rows and the others. For an odd number of rows one is left out, but by a mask none.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the random split.
    device : torch device, optional
        If given, the matrices are computed and returned as torch tensors of float64 there.

    Returns
    -------
    K : list of d arrays of shape (n1, n2)
        Kernel values, not centred.
    info : dict
        ``rows1`` and ``rows2`` (row numbers of the samples) and ``bandwidths`` (a tuple, None for kernels without).

    Raises
    ------
    TypeError
        If a variable is not numeric under a numeric kernel, or `X` is sparse.
    ValueError
        If there are fewer than 16 rows, lengths differ, a value is NaN or infinite, a variable is constant (in a half),
        a bandwidth is not positive, or a mask has the wrong length or leaves fewer than 8 rows on a side.

    Examples
    --------
    >>> import numpy as np
    >>> from paperworks.causal import cross_gram
    >>> x = np.arange(20.0)
    >>> K, info = cross_gram([x, x % 3], kernel=["rbf", "delta"], split="halves")
    >>> [k.shape for k in K], info["bandwidths"]
    ([(10, 10), (10, 10)], (6.0, None))
    """
    variables = prepare(X, kernel, bandwidth)
    if not variables:
        raise ValueError("X must hold at least one variable, got none")
    rows1, rows2 = split_rows(split, len(variables[0].values), generator(random_state))
    check_both_halves(variables, rows1, rows2)
    info = {"rows1": rows1, "rows2": rows2, "bandwidths": tuple(v.bandwidth for v in variables)}
    return [v.gram(rows1, rows2, device) for v in variables], info
