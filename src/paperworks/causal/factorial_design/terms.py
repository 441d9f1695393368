"""The terms of a polynomial of order k in p treatments: sets of at most k treatments, by size, then lexicographically.

Sets of one size s are rows of an integer array of shape (C(p, s), s). Everything else (positions of sets, products,
symmetric differences) is arithmetic on such arrays.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import chain, combinations
from typing import NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

Ints = NDArray[np.int32]

_BITS = 62  # a set of up to this many treatments fits into the bits of a signed 64-bit integer


def count_terms(p: int, order: int) -> int:
    """Return K, the number of sets of at most `order` of `p` treatments."""
    return sum(math.comb(p, size) for size in range(order + 1))


@lru_cache(maxsize=32)
def sets_of_size(p: int, size: int) -> Ints:
    """Return all sets of `size` of `p` treatments as sorted rows, lexicographically; read-only."""
    n = math.comb(p, size)
    flat = chain.from_iterable(combinations(range(p), size))
    sets = np.fromiter(flat, dtype=np.int32, count=n * size).reshape(n, size)
    sets.flags.writeable = False
    return sets


def positions(p: int, sets: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return the position of each sorted row of `sets` among all terms."""
    size = sets.shape[1]
    # choose[n, r] = C(n, r), by summing columns of Pascal's triangle.
    choose = np.zeros((p + 1, size + 1), dtype=np.int64)
    choose[:, 0] = 1
    for r in range(1, size + 1):
        choose[1:, r] = np.cumsum(choose[:-1, r - 1])
    rank = np.full(len(sets), count_terms(p, size) - 1, dtype=np.int64)
    for j in range(size):  # leave out all sets that come later
        rank -= choose[p - 1 - sets[:, j], size - j]
    return rank


@lru_cache(maxsize=32)
def _parents(p: int, size: int) -> NDArray[np.int64]:
    """Return for each set of `size` the position, among the sets one smaller, of the set without its last member."""
    return positions(p, sets_of_size(p, size)[:, :-1]) - (count_terms(p, size - 2) if size > 1 else 0)


def monomials(x: NDArray[np.int8], order: int) -> NDArray[np.int8]:
    """Return phi_S(x) = prod_{i in S} x_i of shape (n, K) for `x` of -1 and +1, shape (n, p)."""
    n, p = x.shape
    blocks = [np.ones((n, 1), dtype=np.int8)]
    for size in range(1, order + 1):
        blocks.append(blocks[-1][:, _parents(p, size)] * x[:, sets_of_size(p, size)[:, -1]])
    return np.concatenate(blocks, axis=1)


@lru_cache(maxsize=4)
def effect_matrix(p: int, order: int) -> scipy.sparse.csr_array:
    """Return the (K, K) matrix that turns coefficients of the -1/+1 coding into effects of the 0/1 coding.

    The effect of a set T is 2^|T| times the sum over the sets S that contain T of (-1)^(|S|-|T|) beta_S, the inverse of
    Eq. 2 of the paper.
    """
    rows, columns, values = [], [], []
    for size in range(order + 1):
        sets = sets_of_size(p, size)
        column = count_terms(p, size - 1) + np.arange(len(sets)) if size else np.zeros(1, dtype=np.int64)
        for inner in range(size + 1):
            for kept in combinations(range(size), inner):
                rows.append(positions(p, sets[:, list(kept)]))
                columns.append(column)
                values.append(np.full(len(sets), 2.0**inner * (-1.0) ** (size - inner)))
    n = count_terms(p, order)
    triple = (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns)))
    return scipy.sparse.coo_array(triple, shape=(n, n)).tocsr()


class Differences(NamedTuple):
    """The symmetric differences of all pairs of terms."""

    pair: Ints
    """Shape (K, K): which distinct difference a pair of terms has, as a position in the concatenated `sets`."""
    sets: tuple[Ints, ...]
    """The distinct differences: all sets of 0, 1, ..., min(2 order, p) treatments."""


@lru_cache(maxsize=2)
def differences(p: int, order: int) -> Differences:
    """Return the symmetric differences of all pairs of terms."""
    sets = tuple(sets_of_size(p, size) for size in range(min(2 * order, p) + 1))
    if p <= _BITS:
        code = np.left_shift(np.int64(1), np.arange(p, dtype=np.int64))
    else:
        # Random codes take the part of bits: the code of a difference is the exclusive or of the codes all the same.
        code = np.random.default_rng(0).integers(1, 2**62, size=p)
    keys = np.concatenate([np.bitwise_xor.reduce(code[block], axis=1) for block in sets])
    by_key = np.argsort(keys)
    ordered = keys[by_key]
    if (ordered[1:] == ordered[:-1]).any():
        raise ArithmeticError(f"two sets of {p} treatments share a code; this can't be worked with")
    terms = keys[: count_terms(p, order)]
    index = np.empty((terms.size, terms.size), dtype=np.int32)
    for row, term in enumerate(terms):
        index[row] = by_key[np.searchsorted(ordered, term ^ terms)]
    return Differences(index, sets)
