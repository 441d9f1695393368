"""Tests without permutations against permutation tests, and the Streitberg statistic against plain contractions."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from benchmarks import Case
from paperworks.causal import cross_gram, factorisation_test, joint_independence_test, streitberg_statistic
from paperworks.causal.interaction_tests.statistics import _partitions

Floats = NDArray[np.float64]


def hyppo_dhsic(x: Floats, permutations: int) -> Callable[[], float]:
    """Return hyppo's test as users call it."""
    from hyppo.d_variate import dHsic

    columns = [np.ascontiguousarray(column[:, None]) for column in x.T]

    def call() -> float:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return float(dHsic().test(*columns, reps=permutations)[1])

    return call


def grams(x: Floats) -> list[Floats]:
    """Return the Gaussian Gram matrices of all rows."""
    _, info = cross_gram(x, split="halves")
    return [np.exp(-(np.subtract.outer(c, c) ** 2) / (2 * s**2)) for c, s in zip(x.T, info["bandwidths"], strict=True)]


def permuted_dhsic(x: Floats, permutations: int) -> float:
    """Return the p-value of a permutation test that computes its Gram matrices once: faster than what is on offer."""

    def statistic(K: Sequence[Floats]) -> float:
        rows = [k.mean(axis=1) for k in K]
        means = math.prod(float(r.mean()) for r in rows)
        return float(math.prod(K[1:], start=K[0]).mean() + means - 2 * math.prod(rows[1:], start=rows[0]).mean())

    rng = np.random.default_rng(0)
    K = grams(x)
    observed, as_large = statistic(K), 1
    for _ in range(permutations):
        orders = [rng.permutation(len(x)) for _ in K[1:]]
        as_large += statistic([K[0], *(k[np.ix_(o, o)] for k, o in zip(K[1:], orders, strict=True))]) >= observed
    return as_large / (permutations + 1)


def permuted_streitberg(x: Floats, permutations: int) -> float:
    """Return the greatest p-value of one permutation test per split into two groups."""
    rng = np.random.default_rng(0)
    K = grams(x)
    observed, _ = streitberg_statistic(K)
    pvalues = []
    for split in range(1, 2 ** (len(K) - 1)):
        as_large = 1
        for _ in range(permutations):
            rows = rng.permutation(len(x))
            moved = [k[np.ix_(rows, rows)] if split >> i & 1 else k for i, k in enumerate(K)]
            as_large += streitberg_statistic(moved)[0] >= observed
        pvalues.append(as_large / (permutations + 1))
    return max(pvalues)


def plain_streitberg(K: Sequence[Floats]) -> float:
    """Return the Streitberg estimate, each pair of partitions contracted by einsum on its own."""
    n1, n2 = K[0].shape
    centred = [k - k.mean(axis=0) - k.mean(axis=1)[:, None] + k.mean() for k in K]
    without, _ = _partitions(len(K))
    total = 0.0
    for blocks, cells in itertools.product(without, repeat=2):
        operands: list[object] = []
        for i, k in enumerate(centred):
            r = next(j for j, block in enumerate(blocks) if i in block)
            s = next(j for j, cell in enumerate(cells) if i in cell)
            operands += [k, [r, 10 + s]]
        sign = -1 if (len(blocks) + len(cells)) % 2 else 1
        weight = sign * math.factorial(len(blocks) - 1) * math.factorial(len(cells) - 1)
        total += weight * np.einsum(*operands, [], optimize="greedy") / n1 ** len(blocks) / n2 ** len(cells)
    return total


def cases() -> list[Case]:
    """Return the comparisons."""
    rng = np.random.default_rng(0)
    x = {n: rng.normal(size=(n, 4)) for n in (200, 300, 400)}
    K, _ = cross_gram(rng.normal(size=(300, 5)), split="halves")
    return [
        Case(
            "joint independence, n = 200, d = 4",
            lambda: joint_independence_test(x[200], random_state=0),
            hyppo_dhsic(x[200], 1000),
            "hyppo dHsic, 1000 permutations",
        ),
        Case(
            "joint independence, n = 400, d = 4",
            lambda: joint_independence_test(x[400], random_state=0),
            hyppo_dhsic(x[400], 100),
            "hyppo dHsic, 100 permutations",
            note="(a tenth of the permutations that hyppo advises)",
        ),
        Case(
            "joint independence, n = 200, d = 4, against a quicker permutation test",
            lambda: joint_independence_test(x[200], random_state=0),
            lambda: permuted_dhsic(x[200], 1000),
            "own dHSIC, 1000 permutations of Gram matrices computed once",
        ),
        Case(
            "some factorisation, n = 300, d = 4",
            lambda: factorisation_test(x[300], random_state=0),
            lambda: permuted_streitberg(x[300], 20),
            "own Streitberg permutation tests, 20 for each of 7 splits",
            note="(500 permutations per split are usual)",
        ),
        Case(
            "Streitberg estimate, n = 300, d = 5",
            lambda: streitberg_statistic(K),
            lambda: plain_streitberg(K),
            "einsum pair by pair",
            note="(ours with its standard error)",
        ),
    ]
