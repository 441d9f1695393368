"""The joint, Lancaster and Streitberg statistics of two half samples, from cross-Gram matrices alone.

With M(P) the interaction as a signed measure, the estimate is T = <M(P1), M(P2)> for the empirical laws P1, P2 of the
two halves, embedded by the kernels. Given the second half, T is a smooth functional of P1; psi is its empirical
influence function at the rows of the first half, and z = sqrt(n1) T / sd(psi) is standard normal where M(P) = 0.

Matrices may be NumPy arrays or torch tensors: only operators and methods that both have are used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["joint_statistic", "lancaster_statistic", "streitberg_statistic"]

Array = Any
"""A NumPy array or a torch tensor."""

Blocks = Callable[[], Iterable[Sequence[Array]]]
"""Called, it goes once through column blocks of the cross-Gram matrices: d arrays of shape (n1, width) at a time."""

MAX_STREITBERG = 5
"""The number of pairs of partitions grows like the square of the Bell numbers; five variables need 341 of them."""

_ROUNDING = 1e-12
"""A spread smaller than this part of the numbers it comes from is rounding."""


class Evaluation(NamedTuple):
    """An estimate and its standard error."""

    estimate: float
    stderr: float

    @property
    def statistic(self) -> float:
        """The estimate in standard errors."""
        return self.estimate / self.stderr


def evaluate(estimate: Array, influence: Array, scale: float) -> Evaluation:
    """Return the estimate with the standard error that its influence function gives.

    Parameters
    ----------
    estimate : float or 0-d array
        T.
    influence : array of shape (n1,)
        psi up to a constant.
    scale : float
        Size of the terms before they cancelled.
    """
    psi = influence - influence.mean()
    n1 = len(psi)
    stderr = math.sqrt(float(psi @ psi) / (n1 - 1) / n1)
    if not stderr > _ROUNDING * scale / math.sqrt(n1):
        raise ValueError(
            "the statistic has no spread over the rows of the first half (standard error 0): at least one kernel is "
            "constant on the data, through a constant variable or an unfit bandwidth"
        )
    return Evaluation(float(estimate), stderr)


def product(factors: Sequence[Array]) -> Array:
    """Return the elementwise product."""
    if len(factors) == 1:
        return factors[0]
    result = factors[0] * factors[1]
    for factor in factors[2:]:
        result *= factor
    return result


def products_of_others(factors: Sequence[Array]) -> list[Array]:
    """Return for each factor the elementwise product of all others; there must be two or more."""
    before, after = [factors[0]], [factors[-1]]
    for left, right in zip(factors[1:-1], factors[-2:0:-1], strict=True):
        before.append(before[-1] * left)
        after.append(after[-1] * right)
    after.reverse()
    inner = [b * a for b, a in zip(before[:-1], after[1:], strict=True)]
    return [after[0], *inner, before[-1]]


def joint(blocks: Blocks) -> Evaluation:
    """Evaluate the joint statistic: joint law minus the product of the margins, in O(d n1 n2) and one pass."""
    n2, columns_product = 0, 0.0
    w: Array = 0.0
    sums: list[Array] = []
    for grams in blocks():
        columns = [gram.mean(0) for gram in grams]  # c_i
        n2 += columns[0].shape[0]
        w = w + product(grams).sum(1)
        columns_product += float(product(columns).sum())
        found = [(gram.sum(1), gram @ other) for gram, other in zip(grams, products_of_others(columns), strict=True)]
        sums = [(r + s, u + t) for (r, u), (s, t) in zip(sums, found, strict=True)] if sums else found
    rows = [r / n2 for r, _ in sums]  # r_i
    means = [float(r.mean()) for r in rows]  # m_i
    raw, rows_product = w / n2, product(rows)
    w = raw - rows_product
    # The product of the estimated margins varies with the first half too; without it the error is about 20 % too large.
    margins = sum(u / n2 - r * other for (_, u), r, other in zip(sums, rows, products_of_others(means), strict=True))
    estimate = w.mean() - (columns_product / n2 - math.prod(means))
    return evaluate(estimate, w - margins, float(abs(raw).max()) + float(abs(rows_product).max()))


def centred(blocks: Blocks) -> Blocks:
    """Return the blocks with the mean embedding of each half taken off: row, column and grand means removed."""
    rows: list[Array] = []
    n2 = 0
    for grams in blocks():
        found = [gram.sum(1) for gram in grams]
        rows = [r + s for r, s in zip(rows, found, strict=True)] if rows else found
        n2 += grams[0].shape[1]
    rows = [r / n2 for r in rows]
    means = [r.mean() for r in rows]
    scales = [float(abs(r).max()) for r in rows]

    def go() -> Iterator[list[Array]]:
        energies = [0.0] * len(rows)
        for grams in blocks():
            block = []
            for i, (gram, r, mean) in enumerate(zip(grams, rows, means, strict=True)):
                columns = gram.mean(0)
                k = gram - r[:, None]
                k -= columns - mean
                flat = k.reshape(-1)
                energies[i] += float(flat @ flat)
                scales[i] = max(scales[i], float(abs(columns).max()))
                block.append(k)
            yield block
        for i, (energy, scale) in enumerate(zip(energies, scales, strict=True)):
            if not math.sqrt(energy / (len(rows[i]) * n2)) > _ROUNDING * scale:
                raise ValueError(
                    f"the kernel of variable {i} is constant over the rows of a half: the variable takes one value "
                    "there, or the bandwidth does not fit its unit"
                )

    return go


def lancaster(blocks: Blocks) -> Evaluation:
    """Evaluate the Lancaster statistic on centred blocks: the mean of the products of centred features, O(d n1 n2)."""
    n2 = 0
    h: Array = 0.0
    derivative: Array = 0.0
    for grams in blocks():
        n2 += grams[0].shape[1]
        others = products_of_others(grams)
        h = h + (others[0] * grams[0]).sum(1)
        # v_i[b], the mean over the first half of the other variables' product: the part of psi from centring.
        derivative = derivative + sum(k @ other.mean(0) for k, other in zip(grams, others, strict=True))
    h, derivative = h / n2, derivative / n2
    return evaluate(h.mean(), h - derivative, float(abs(h).max()) + float(abs(derivative).max()))


def streitberg(grams: Sequence[Array]) -> Evaluation:
    """Evaluate the Streitberg statistic on whole centred cross-Gram matrices: two to five variables."""
    networks = _Networks(grams)
    without, with_one = _partitions(len(grams))
    estimate: Array = 0.0
    influence: Array = 0.0
    for cells in without:
        networks.between_rows.clear()
        for blocks in without:
            weight = _coefficient(blocks) * _coefficient(cells)
            for i, block in enumerate(blocks):
                value = networks.contract((block, *blocks[:i], *blocks[i + 1 :]), cells)
                influence = influence + weight * value
            estimate = estimate + weight * value.mean()  # the same whichever block comes first
        # A singleton's own mean is zero, so it leaves T alone, but moving its mean does not.
        for blocks in with_one:
            influence = influence + _coefficient(blocks) * _coefficient(cells) * networks.contract(blocks, cells)
    everything = frozenset(range(len(grams)))
    scale = float(abs(networks.rows(everything, None)).max())
    return evaluate(estimate, influence, scale)


Block = frozenset[int]
Partition = tuple[Block, ...]


def _coefficient(blocks: Partition) -> int:
    """Return the weight of a partition in a cumulant: (-1)^(m-1) (m-1)! for m blocks."""
    m = len(blocks)
    return math.factorial(m - 1) * (1 if m % 2 else -1)


def _all_partitions(elements: tuple[int, ...]) -> Iterator[list[list[int]]]:
    if not elements:
        yield []
        return
    for smaller in _all_partitions(elements[1:]):
        yield [[elements[0]], *smaller]
        for i, block in enumerate(smaller):
            yield [*smaller[:i], [elements[0], *block], *smaller[i + 1 :]]


@lru_cache
def _partitions(d: int) -> tuple[tuple[Partition, ...], tuple[Partition, ...]]:
    """Return the partitions without a singleton, and those with exactly one, it first: all others vanish."""
    without, with_one = [], []
    for lists in _all_partitions(tuple(range(d))):
        blocks = tuple(sorted((frozenset(block) for block in lists), key=len))
        singletons = sum(len(block) == 1 for block in blocks)
        if singletons == 0:
            without.append(blocks)
        elif singletons == 1:
            with_one.append(blocks)
    return tuple(without), tuple(with_one)


class _Networks:
    """Contracts a partition of the first half with one of the second.

    Each block has an index of rows of the first half, each cell one of the second; a block and a cell that share
    variables are joined by the product of these variables' matrices. All indices are averaged except the first
    block's. Up to five variables there are at most two cells, and at most two further blocks.
    """

    def __init__(self, grams: Sequence[Array]) -> None:
        self.n1, self.n2 = grams[0].shape
        self.products = {frozenset((i,)): gram for i, gram in enumerate(grams)}
        self.row_means: dict[Block, Array] = {}
        self.column_means: dict[Block, Array] = {}
        self.between_rows: dict[tuple[Block, Block], Array] = {}
        self.between_columns: dict[tuple[Block, Block], Array] = {}

    def matrix(self, block: Block) -> Array:
        if block not in self.products:
            last = max(block)
            self.products[block] = self.matrix(block - {last}) * self.products[frozenset((last,))]
        return self.products[block]

    def columns(self, block: Block) -> Array:
        """Return the means over the first half."""
        if block not in self.column_means:
            self.column_means[block] = self.matrix(block).mean(0)
        return self.column_means[block]

    def rows(self, block: Block, weights: Array) -> Array:
        """Return the means over the second half, weighted."""
        if weights is not None:
            return self.matrix(block) @ weights / self.n2
        if block not in self.row_means:
            self.row_means[block] = self.matrix(block).mean(1)
        return self.row_means[block]

    def rows_product(self, one: Block, other: Block) -> Array:
        """Return the (n1, n1) matrix that joins two blocks through one cell."""
        if (one, other) not in self.between_rows:
            found = self.matrix(one) @ self.matrix(other).T / self.n2
            self.between_rows[one, other], self.between_rows[other, one] = found, found.T
        return self.between_rows[one, other]

    def columns_product(self, one: Block, other: Block) -> Array:
        """Return the (n2, n2) matrix that joins two cells through one block."""
        if (one, other) not in self.between_columns:
            found = self.matrix(one).T @ self.matrix(other) / self.n1
            self.between_columns[one, other], self.between_columns[other, one] = found, found.T
        return self.between_columns[one, other]

    def contract(self, blocks: Partition, cells: Partition) -> Array:
        """Return V(blocks, cells), shape (n1,)."""
        first, *rest = blocks
        # A block inside one cell is a weight on that cell's index.
        weights: list[Array] = [None] * len(cells)
        mixed = []
        for block in rest:
            home = [s for s, cell in enumerate(cells) if block <= cell]
            if home:
                column = self.columns(block)
                weights[home[0]] = column if weights[home[0]] is None else weights[home[0]] * column
            else:
                mixed.append(block)
        if len(cells) == 1:
            return self.rows(first, weights[0])
        one, two = (0, 1) if first & cells[0] else (1, 0)
        near, far = cells[one], cells[two]
        if first <= near:
            if not mixed:
                return self.rows(first, weights[one]) * weights[two].mean()
            reached = self._through(mixed, near, far, weights[two])
            return self.rows(first, reached if weights[one] is None else reached * weights[one])
        if not mixed:
            return self.rows(first & near, weights[one]) * self.rows(first & far, weights[two])
        # Up to five variables, a mixed block other than the first is then the only other block.
        (block,) = mixed
        joined = self.rows_product(first & near, block & near) * self.rows_product(first & far, block & far)
        return joined.mean(1)

    def _through(self, mixed: list[Block], near: Block, far: Block, weights: Array) -> Array:
        """Average over the mixed blocks and the far cell; what is left is a vector over the near cell's index."""
        if len(mixed) == 1:
            (block,) = mixed
            return self.matrix(block & near).T @ self.rows(block & far, weights) / self.n1
        joined = product([self.columns_product(block & near, block & far) for block in mixed])
        return joined.mean(1) if weights is None else joined @ weights / self.n2


def _checked(K: Sequence[ArrayLike], maximum: int | None = None) -> list[Array]:
    grams: list[Array] = [gram if hasattr(gram, "detach") else np.asarray(gram, dtype=np.float64) for gram in K]
    if len(grams) < 2 or (maximum is not None and len(grams) > maximum):
        bounds = "at least 2" if maximum is None else f"2 to {maximum}"
        raise ValueError(f"K must hold {bounds} cross-Gram matrices, got {len(grams)}")
    shapes = [tuple(gram.shape) for gram in grams]
    if len(shapes[0]) != 2 or min(shapes[0]) < 2 or len(set(shapes)) > 1:
        raise ValueError(f"K must hold matrices of one shape (n1, n2), n1 and n2 at least 2; got shapes {shapes}")
    for i, gram in enumerate(grams):
        if not math.isfinite(float(gram.sum())):
            raise ValueError(f"K[{i}] holds values that are NaN or infinite")
    return grams


def joint_statistic(K: Sequence[ArrayLike]) -> tuple[float, float]:
    """Return the joint-independence (dHSIC) statistic of cross-Gram matrices.

    Parameters
    ----------
    K : sequence of array-like of shape (n1, n2)
        One matrix per variable: kernel values between the rows of sample 1 and those of sample 2, not centred.

    Returns
    -------
    estimate : float
        Estimate of the squared norm of the embedding of "joint law minus product of the margins"; its expectation is
        0 if the variables are jointly independent, positive otherwise.
    statistic : float
        The estimate divided by its standard error; standard normal under joint independence.

    Raises
    ------
    ValueError
        If there are fewer than two matrices, their shapes differ, a value is not finite, or a kernel is constant.

    Notes
    -----
    Section 3 of the paper for the split and the limit; the variance is that of the empirical influence function, the
    terms of the estimated margins included.

    Examples
    --------
    >>> import numpy as np
    >>> from paperworks.causal import joint_statistic
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(200, 3))
    >>> x[:, 2] += x[:, 0] * x[:, 1]
    >>> K = [np.exp(-np.subtract.outer(v[:100], v[100:]) ** 2) for v in x.T]
    >>> estimate, statistic = joint_statistic(K)
    >>> bool(statistic > 3)
    True
    """
    grams = _checked(K)
    result = joint(lambda: [grams])
    return result.estimate, result.statistic


def lancaster_statistic(K: Sequence[ArrayLike]) -> tuple[float, float]:
    """Return the Lancaster-interaction statistic of cross-Gram matrices; the centring happens inside.

    Parameters
    ----------
    K : sequence of array-like of shape (n1, n2)
        One matrix per variable: kernel values between the rows of sample 1 and those of sample 2, not centred.

    Returns
    -------
    estimate : float
        Estimate of the squared norm of the mean product of centred features; its expectation is 0 if one variable is
        independent of all others.
    statistic : float
        The estimate divided by its standard error; standard normal where the interaction is zero.

    Raises
    ------
    ValueError
        If there are fewer than two matrices, their shapes differ, a value is not finite, or a kernel is constant.

    Notes
    -----
    For four and more variables this is *not* a test of "some factorisation": two dependent pairs that are independent
    of each other have a Lancaster interaction. Use `streitberg_statistic` for that.

    Examples
    --------
    >>> import numpy as np
    >>> from paperworks.causal import lancaster_statistic
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(200, 3))
    >>> x[:, 2] = np.sign(x[:, 0] * x[:, 1]) * abs(x[:, 2])
    >>> K = [np.exp(-np.subtract.outer(v[:100], v[100:]) ** 2) for v in x.T]
    >>> estimate, statistic = lancaster_statistic(K)
    >>> bool(statistic > 3)
    True
    """
    grams = _checked(K)
    result = lancaster(centred(lambda: [grams]))
    return result.estimate, result.statistic


def streitberg_statistic(K: Sequence[ArrayLike]) -> tuple[float, float]:
    """Return the Streitberg-interaction statistic of two to five cross-Gram matrices; the centring happens inside.

    Parameters
    ----------
    K : sequence of array-like of shape (n1, n2)
        One matrix per variable: kernel values between the rows of sample 1 and those of sample 2, not centred.

    Returns
    -------
    estimate : float
        Estimate of the squared norm of the joint cumulant of the features; its expectation is 0 if the variables split
        into two independent groups, whichever they are.
    statistic : float
        The estimate divided by its standard error; standard normal under any such split.

    Raises
    ------
    ValueError
        If there are fewer than two or more than five matrices, their shapes differ, a value is not finite, or a kernel
        is constant.

    Notes
    -----
    Up to three variables this equals `lancaster_statistic`. Time is O(n^2) up to three variables and O(n^3) from four
    on (6 matrix products for four variables, 50 for five).

    Examples
    --------
    >>> import numpy as np
    >>> from paperworks.causal import streitberg_statistic
    >>> rng = np.random.default_rng(0)
    >>> u = rng.random((300, 3))
    >>> x = np.c_[u, u.sum(axis=1) % 1]  # any three of the four are independent
    >>> K = [np.exp(-20 * np.subtract.outer(v[:150], v[150:]) ** 2) for v in x.T]
    >>> estimate, statistic = streitberg_statistic(K)
    >>> bool(statistic > 3)
    True
    """
    grams = _checked(K, maximum=MAX_STREITBERG)
    (block,) = centred(lambda: [grams])()
    result = streitberg(block)
    return result.estimate, result.statistic
