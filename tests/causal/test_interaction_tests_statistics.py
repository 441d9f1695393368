"""The three statistics against brute force over the definitions."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paperworks.causal import joint_statistic, lancaster_statistic, streitberg_statistic

STATISTICS = {"joint": joint_statistic, "lancaster": lancaster_statistic, "streitberg": streitberg_statistic}


def grams(d: int, n1: int, n2: int, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(d, n1)), rng.normal(size=(d, n2))
    return [np.exp(-(np.subtract.outer(a, b) ** 2) / 2) for a, b in zip(x, y, strict=True)]


def partitions(elements: list[int]) -> list[list[list[int]]]:
    if not elements:
        return [[]]
    found = []
    for smaller in partitions(elements[1:]):
        found.append([[elements[0]], *smaller])
        found += [[*smaller[:i], [elements[0], *smaller[i]], *smaller[i + 1 :]] for i in range(len(smaller))]
    return found


def signed_measure(kind: str, d: int) -> list[tuple[int, list[list[int]]]]:
    """The interaction as a weighted sum of products of margins, straight from its definition."""
    everything, alone = [list(range(d))], [[i] for i in range(d)]
    if kind == "joint":
        return [(1, everything), (-1, alone)]
    if kind == "streitberg":
        return [((-1) ** (len(p) - 1) * math.factorial(len(p) - 1), p) for p in partitions(list(range(d)))]
    terms = []
    for size in range(d + 1):
        for subset in itertools.combinations(range(d), size):
            rest = [[i] for i in range(d) if i not in subset]
            terms.append(((-1) ** (d - size), ([list(subset)] if subset else []) + rest))
    return terms


def functional(K: list[np.ndarray], weights: np.ndarray, kind: str) -> float:
    """<M(P1), M(P2)> with P1 weighted: one sum over all rows per pair of partitions, kernels not centred."""
    d, n2 = len(K), K[0].shape[1]
    flat = np.full(n2, 1 / n2)
    total = 0.0
    for (a, pi), (b, sigma) in itertools.product(signed_measure(kind, d), repeat=2):
        operands: list[object] = []
        for i, k in enumerate(K):
            r = next(j for j, block in enumerate(pi) if i in block)
            s = next(j for j, block in enumerate(sigma) if i in block)
            operands += [k, [r, 10 + s]]
        for j in range(len(pi)):
            operands += [weights, [j]]
        for j in range(len(sigma)):
            operands += [flat, [10 + j]]
        total += a * b * np.einsum(*operands, [], optimize="greedy")
    return float(total)


CASES = [(kind, d) for kind in STATISTICS for d in (2, 3, 4)] + [("joint", 5)]


@pytest.mark.parametrize(("kind", "d"), [*CASES, pytest.param("lancaster", 5, marks=pytest.mark.slow)])
def test_estimate_equals_the_sum_over_all_pairs_of_partitions(kind: str, d: int) -> None:
    K = grams(d, 4, 5)
    estimate, _ = STATISTICS[kind](K)
    assert estimate == pytest.approx(functional(K, np.full(4, 1 / 4), kind), abs=2e-15)


def test_streitberg_of_five_variables_equals_the_sum_over_52_by_52_partitions() -> None:
    K = grams(5, 4, 4)
    assert streitberg_statistic(K)[0] == pytest.approx(functional(K, np.full(4, 1 / 4), "streitberg"), abs=2e-14)


def check_influence(kind: str, d: int) -> None:
    K = grams(d, 4, 5, seed=1)
    even, step = np.full(4, 1 / 4), 1e-4
    psi = np.empty(4)
    for a in range(4):
        direction = np.eye(4)[a] - even
        ahead, behind = (functional(K, even + sign * step * direction, kind) for sign in (1, -1))
        psi[a] = (ahead - behind) / (2 * step)
    z = 2.0 * functional(K, even, kind) / psi.std(ddof=1)
    assert STATISTICS[kind](K)[1] == pytest.approx(z, rel=1e-6)


@pytest.mark.parametrize(
    ("kind", "d"), [(k, d) for k, d in CASES if (k, d) not in {("lancaster", 4), ("streitberg", 4)}]
)
def test_standard_error_is_the_numerical_influence_function(kind: str, d: int) -> None:
    check_influence(kind, d)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "d"), [("lancaster", 4), ("streitberg", 4), ("lancaster", 5), ("streitberg", 5)])
def test_standard_error_is_the_numerical_influence_function_of_more_variables(kind: str, d: int) -> None:
    check_influence(kind, d)


def test_streitberg_of_four_has_the_numerical_influence_function_of_cumulants() -> None:
    """The same check at a larger size, with the functional written by centred products."""
    n1, n2, d = 9, 7, 4
    K = grams(d, n1, n2, seed=2)
    pairs = [((0, 1), (2, 3)), ((0, 2), (1, 3)), ((0, 3), (1, 2))]

    def value(w: np.ndarray) -> float:
        v = np.full(n2, 1 / n2)
        A = [k - w @ k - (k @ v)[:, None] + w @ k @ v for k in K]
        full = np.prod(A, axis=0)
        total = w @ full @ v
        for p, q in pairs:
            left, right = A[p[0]] * A[p[1]], A[q[0]] * A[q[1]]
            total -= (w @ (left * (w @ right))) @ v  # two blocks, one cell
            total -= w @ ((left @ v) * (right @ v))  # one block, two cells
        for (p, q), (r, s) in itertools.product(pairs, repeat=2):
            blocks, cells = (p, q), (r, s)
            edges = [[np.ones((n1, n2))] * 2, [np.ones((n1, n2))] * 2]
            for i, j in itertools.product(range(2), repeat=2):
                shared = set(blocks[i]) & set(cells[j])
                edges[i][j] = np.prod([A[k] for k in shared], axis=0) if shared else np.ones((n1, n2))
            total += np.einsum(
                "ab,ac,db,dc,a,d,b,c->", edges[0][0], edges[0][1], edges[1][0], edges[1][1], w, w, v, v, optimize=True
            )
        return float(total)

    even, step = np.full(n1, 1 / n1), 1e-5
    psi = np.array(
        [(value(even + step * (e - even)) - value(even - step * (e - even))) / (2 * step) for e in np.eye(n1)]
    )
    estimate, z = streitberg_statistic(K)
    assert estimate == pytest.approx(value(even), rel=1e-10)
    assert z == pytest.approx(math.sqrt(n1) * estimate / psi.std(ddof=1), rel=1e-6)


def test_two_variables_give_the_mean_product_of_centred_kernels() -> None:
    K = grams(2, 30, 20)
    centred = [k - k.mean(0) - k.mean(1)[:, None] + k.mean() for k in K]
    h = (centred[0] * centred[1]).mean(1)
    for statistic in STATISTICS.values():
        estimate, z = statistic(K)
        assert estimate == pytest.approx(h.mean(), rel=1e-12)
        assert z == pytest.approx(math.sqrt(30) * h.mean() / h.std(ddof=1), rel=1e-10)


def test_three_variables_have_one_lancaster_and_streitberg_interaction() -> None:
    K = grams(3, 40, 40)
    np.testing.assert_allclose(lancaster_statistic(K), streitberg_statistic(K), rtol=1e-12)


def test_four_variables_have_two() -> None:
    K = grams(4, 40, 40)
    assert abs(lancaster_statistic(K)[1] - streitberg_statistic(K)[1]) > 1e-3


def test_linear_kernels_give_the_product_of_the_covariances() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 25)), rng.normal(size=(2, 35))
    estimate, _ = joint_statistic([np.outer(a, b) for a, b in zip(x, y, strict=True)])
    assert estimate == pytest.approx(np.cov(x, bias=True)[0, 1] * np.cov(y, bias=True)[0, 1], rel=1e-12)


@pytest.mark.parametrize("kind", STATISTICS)
@given(d=st.integers(2, 5), n1=st.integers(4, 12), n2=st.integers(4, 12), seed=st.integers(0, 10**6))
@settings(max_examples=15, deadline=None)
def test_invariances(kind: str, d: int, n1: int, n2: int, seed: int) -> None:
    statistic, rng = STATISTICS[kind], np.random.default_rng(seed)
    K = grams(d, n1, n2, seed)
    estimate, z = statistic(K)
    # Order of the variables, order of the rows inside a half, unit of a kernel.
    order, rows, columns = rng.permutation(d), rng.permutation(n1), rng.permutation(n2)
    units = rng.uniform(0.1, 10.0, size=d)
    changed = [K[i][np.ix_(rows, columns)] * units[i] for i in order]
    found, z_found = statistic(changed)
    size = np.prod([abs(k).max() for k in K])
    assert found / np.prod(units) == pytest.approx(estimate, rel=1e-9, abs=1e-14 * size)
    assert z_found == pytest.approx(z, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("kind", ["lancaster", "streitberg"])
def test_constants_along_rows_and_columns_are_centred_away(kind: str) -> None:
    K = grams(4, 20, 25)
    rng = np.random.default_rng(5)
    shifted = [k + rng.normal(size=(20, 1)) + rng.normal(size=25) for k in K]
    np.testing.assert_allclose(STATISTICS[kind](shifted), STATISTICS[kind](K), rtol=1e-9)


@pytest.mark.parametrize("kind", STATISTICS)
def test_the_input_is_not_changed(kind: str) -> None:
    K = grams(4, 6, 6)
    kept = [k.copy() for k in K]
    STATISTICS[kind](K)
    np.testing.assert_array_equal(K, kept)


@pytest.mark.parametrize("kind", STATISTICS)
def test_torch_tensors_give_the_same_numbers(kind: str) -> None:
    torch = pytest.importorskip("torch")
    K = grams(4, 30, 20)
    np.testing.assert_allclose(STATISTICS[kind]([torch.from_numpy(k) for k in K]), STATISTICS[kind](K), rtol=1e-11)


@pytest.mark.parametrize("kind", STATISTICS)
def test_bad_matrices_are_named(kind: str) -> None:
    statistic, K = STATISTICS[kind], grams(3, 5, 6)
    with pytest.raises(ValueError, match=r"K must hold .*got 1"):
        statistic(K[:1])
    with pytest.raises(ValueError, match=r"one shape .*\(5, 6\), \(5, 6\), \(6, 5\)"):
        statistic([K[0], K[1], K[2].T])
    with pytest.raises(ValueError, match=r"K\[1\] holds values that are NaN"):
        statistic([K[0], K[1] * np.nan, K[2]])
    for constant in (np.ones((5, 6)), np.repeat(K[1][:, :1], 6, axis=1), np.zeros((5, 6))):
        with pytest.raises(ValueError, match="constant"):
            statistic([K[0], constant])


@pytest.mark.parametrize("kind", STATISTICS)
def test_a_statistic_without_spread_is_an_error_not_a_huge_number(kind: str) -> None:
    # With two rows per half the centred features are +-x, and the products of two of them are all equal.
    with pytest.raises(ValueError, match="no spread"):
        STATISTICS[kind](grams(2, 2, 2, seed=8))


def test_streitberg_names_its_limit() -> None:
    with pytest.raises(ValueError, match="2 to 5 cross-Gram matrices, got 6"):
        streitberg_statistic(grams(6, 5, 5))
    assert math.isfinite(lancaster_statistic(grams(6, 5, 5))[1])
