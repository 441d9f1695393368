"""The tests of joint independence and factorisation as a user calls them."""

import itertools
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from scipy import sparse, stats

from paperworks.causal import (
    cross_gram,
    factorisation_test,
    interaction_scan,
    joint_independence_test,
    joint_statistic,
    lancaster_statistic,
    streitberg_statistic,
)
from paperworks.causal.interaction_tests import samples, scan

Law = Callable[[int, np.random.Generator], np.ndarray]


def independent(n: int, rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(n, 4))


def two_pairs(n: int, rng: np.random.Generator) -> np.ndarray:
    cov = np.kron(np.eye(2), [[1.0, 0.9], [0.9, 1.0]])
    return rng.multivariate_normal(np.zeros(4), cov, n) + 0.1 * rng.normal(size=(n, 4))


def one_and_three(n: int, rng: np.random.Generator) -> np.ndarray:
    cov = np.eye(4)
    cov[1:, 1:] += 0.9 * (1 - np.eye(3))
    return rng.multivariate_normal(np.zeros(4), cov, n) + 0.1 * rng.normal(size=(n, 4))


def one_and_xor(n: int, rng: np.random.Generator) -> np.ndarray:
    u = rng.random((n, 3))
    return np.c_[u, (u[:, 1] + u[:, 2]) % 1]


def xor(n: int, rng: np.random.Generator, d: int = 4, q: float = 1.0) -> np.ndarray:
    u = rng.random((n, d - 1))
    return np.c_[u, np.where(rng.random(n) < q, u.sum(axis=1) % 1, rng.random(n))]


# What the tests find


def test_xor_of_three_is_found_and_every_pair_looks_independent() -> None:
    samples_ = [xor(200, np.random.default_rng(seed), d=3) for seed in range(20)]
    assert max(factorisation_test(X, random_state=0).pvalue for X in samples_) < 1e-4
    assert max(joint_independence_test(X, random_state=0).pvalue for X in samples_) < 1e-4
    for pair in itertools.combinations(range(3), 2):
        assert np.median([joint_independence_test(X[:, pair], random_state=0).pvalue for X in samples_]) > 0.01


def test_xor_of_four_is_found_where_all_triples_are_independent() -> None:
    X = xor(300, np.random.default_rng(0), q=0.8)
    assert factorisation_test(X, random_state=0).pvalue < 1e-4
    assert interaction_scan(X, order=3, random_state=0)["pvalue_adjusted"].min() > 0.05


def test_two_pairs_factorise_for_streitberg_but_not_for_lancaster() -> None:
    X = two_pairs(300, np.random.default_rng(0))
    assert factorisation_test(X, random_state=0).pvalue > 0.05
    assert factorisation_test(X, interaction="lancaster", random_state=0).pvalue < 1e-6
    assert factorisation_test(X, [[0, 1], [2, 3]], random_state=0).pvalue > 0.05
    assert factorisation_test(X, [[0, 2], [1, 3]], random_state=0).pvalue < 1e-6
    assert joint_independence_test(X, random_state=0).pvalue < 1e-6


NULLS = [
    (independent, "joint"),
    (independent, "lancaster"),
    (independent, "streitberg"),
    (two_pairs, "streitberg"),
    (two_pairs, "partition"),
    (one_and_three, "lancaster"),
    (one_and_three, "streitberg"),
    (one_and_xor, "lancaster"),
    (one_and_xor, "streitberg"),
]


def pvalue(kind: str, X: np.ndarray) -> float:
    if kind == "joint":
        return joint_independence_test(X, split="halves").pvalue
    if kind == "partition":
        return factorisation_test(X, [[0, 1], [2, 3]], split="halves").pvalue
    return factorisation_test(X, interaction=kind, split="halves").pvalue


@pytest.mark.slow
@pytest.mark.parametrize("n", [100, 200])
@pytest.mark.parametrize(("law", "kind"), NULLS)
def test_size_is_between_three_and_seven_percent(law: Law, kind: str, n: int) -> None:
    rejected = [pvalue(kind, law(n, np.random.default_rng([n, seed]))) < 0.05 for seed in range(4000)]
    assert 0.03 <= np.mean(rejected) <= 0.07


@pytest.mark.slow
@pytest.mark.parametrize("d", [2, 3, 4, 5])
def test_size_of_the_joint_test_by_number_of_variables(d: int) -> None:
    rng = np.random.default_rng(d)
    rejected = [joint_independence_test(rng.normal(size=(100, d)), split="halves").pvalue < 0.05 for _ in range(1500)]
    assert 0.03 <= np.mean(rejected) <= 0.07


def test_pvalues_are_uniform_under_joint_independence() -> None:
    rng = np.random.default_rng(0)
    found = [joint_independence_test(rng.normal(size=(200, 3)), split="halves").pvalue for _ in range(500)]
    assert stats.kstest(found, "uniform").pvalue > 0.001


@pytest.mark.parametrize("interaction", ["lancaster", "streitberg"])
def test_size_is_not_far_off_in_a_short_simulation(interaction: str) -> None:
    found = [pvalue(interaction, one_and_xor(100, np.random.default_rng(seed))) for seed in range(200)]
    assert 0.01 <= np.mean(np.less(found, 0.05)) <= 0.12


def test_a_column_that_is_zero_most_of_the_time() -> None:
    found = []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        rain = np.where(rng.random(200) < 0.8, 0.0, rng.gamma(2.0, size=200))
        result = joint_independence_test(np.c_[rain, rng.normal(size=(200, 2))], random_state=seed)
        assert min(result.bandwidths) > 0
        assert np.isfinite([result.statistic, result.pvalue, result.estimate, result.stderr]).all()
        found.append(result.pvalue)
    assert stats.kstest(found, "uniform").pvalue > 0.001


# Reading and combining


def test_the_result_says_how_it_came_about() -> None:
    X = xor(101, np.random.default_rng(0))
    K, info = cross_gram(X, random_state=3)
    assert [k.shape for k in K] == [(50, 50)] * 4
    assert len(set(info["rows1"]) | set(info["rows2"])) == 100
    for kind, statistic in (
        ("joint", joint_statistic),
        ("lancaster", lancaster_statistic),
        ("streitberg", streitberg_statistic),
    ):
        result = (
            joint_independence_test(X, random_state=3)
            if kind == "joint"
            else factorisation_test(X, interaction=kind, random_state=3)
        )
        estimate, z = statistic(K)
        assert result.kind == kind
        assert (result.n1, result.n2) == (50, 50)
        assert result.bandwidths == info["bandwidths"]
        assert result.estimate == pytest.approx(estimate, rel=1e-10)
        assert result.statistic == pytest.approx(z, rel=1e-10)
        assert result.stderr == pytest.approx(estimate / z, rel=1e-10)
        assert result.pvalue == pytest.approx(stats.norm.sf(z), rel=1e-10)
        assert result.split_pvalues == (result.pvalue,)


def test_reference_t_is_the_more_careful_one() -> None:
    X = xor(40, np.random.default_rng(0))
    normal, t = (factorisation_test(X, random_state=0, reference=r) for r in ("normal", "t"))
    assert t.pvalue == pytest.approx(stats.t.sf(normal.statistic, 19), rel=1e-9)
    assert t.pvalue > normal.pvalue


@pytest.mark.parametrize("n_splits", [4, 5])
def test_several_splits_combine_to_twice_the_median(n_splits: int) -> None:
    X = xor(60, np.random.default_rng(1))
    result = factorisation_test(X, n_splits=n_splits, random_state=0)
    assert len(set(result.split_pvalues)) == n_splits
    assert result.pvalue == pytest.approx(min(1.0, 2 * np.median(result.split_pvalues)))
    lower = sorted(result.split_pvalues)[(n_splits - 1) // 2]
    assert stats.norm.sf(result.statistic) == pytest.approx(lower, rel=1e-9)
    assert factorisation_test(X, random_state=0).pvalue == result.split_pvalues[0]


def test_a_statistic_may_be_negative() -> None:
    rng = np.random.default_rng(0)
    found = [joint_independence_test(rng.normal(size=(60, 3)), random_state=0) for _ in range(40)]
    assert min(r.estimate for r in found) < 0
    assert all((r.pvalue > 0.5) == (r.estimate < 0) for r in found)


def test_split_by_halves_and_by_mask() -> None:
    X = xor(50, np.random.default_rng(2))
    halves = joint_independence_test(X, split="halves")
    assert halves == joint_independence_test(X, split=np.arange(50) < 25)
    assert halves == joint_independence_test(X, split="halves", random_state=9)
    unequal = joint_independence_test(X, split=np.arange(50) < 20)
    assert (unequal.n1, unequal.n2) == (20, 30)
    within = np.r_[np.random.default_rng(0).permutation(25), 25 + np.random.default_rng(1).permutation(25)]
    assert joint_independence_test(X[within], split="halves").statistic == pytest.approx(halves.statistic, rel=1e-9)


def test_random_state_decides_and_the_global_state_is_left_alone() -> None:
    X = xor(60, np.random.default_rng(2))
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    first, again, other = (joint_independence_test(X, random_state=s) for s in (0, 0, 1))
    assert first == again
    assert first != other
    assert joint_independence_test(X, random_state=np.random.default_rng(0)) == first
    assert joint_independence_test(X, random_state=np.random.RandomState(0)).pvalue > 0
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002
    with pytest.raises(TypeError, match="random_state must be None, an integer or a NumPy generator, got 'seven'"):
        joint_independence_test(X, random_state="seven")


@pytest.mark.parametrize("kind", ["joint", "lancaster", "partition"])
def test_blocks_of_columns_give_what_whole_matrices_give(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    X = xor(90, np.random.default_rng(0))
    whole = pvalue(kind, X)
    monkeypatch.setattr(samples, "_BLOCK_ENTRIES", 1)  # blocks of the least width, the last one narrower
    assert pvalue(kind, X) == pytest.approx(whole, rel=1e-8)


@pytest.mark.slow
def test_ten_thousand_rows_fit_in_little_memory() -> None:
    import tracemalloc

    X = np.random.default_rng(0).normal(size=(10_000, 4))
    tracemalloc.start()
    joint_independence_test(X, random_state=0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100e6


# Kernels and types


def test_kernels_are_their_formulas() -> None:
    rng = np.random.default_rng(0)
    X = [rng.normal(size=40), rng.normal(size=(40, 3)), rng.integers(0, 3, 40), rng.normal(size=40)]

    def cosine(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.cos(a - b.T)

    K, info = cross_gram(X, kernel=["rbf", "laplace", "delta", cosine], bandwidth=[0.7, 2.0, 1.0, 1.0], split="halves")
    a, b = [x[:20] for x in X], [x[20:] for x in X]
    np.testing.assert_allclose(K[0], np.exp(-(np.subtract.outer(a[0], b[0]) ** 2) / (2 * 0.49)), rtol=1e-12)
    far = np.linalg.norm(a[1][:, None] - b[1], axis=2)
    np.testing.assert_allclose(K[1], np.exp(-far / 2.0), rtol=1e-12)
    np.testing.assert_array_equal(K[2], a[2][:, None] == b[2])
    np.testing.assert_allclose(K[3], np.cos(np.subtract.outer(a[3], b[3])))
    assert info["bandwidths"] == (0.7, 2.0, None, None)
    (linear,), _ = cross_gram([X[1]], kernel="linear", split="halves")
    np.testing.assert_allclose(linear, a[1] @ b[1].T)


def test_units_do_not_matter_with_the_median_bandwidth() -> None:
    X = xor(80, np.random.default_rng(0))
    scaled = X * [1e-150, 1.0, 1e6, 1e100] + [0.0, 0.0, 1e6, 0.0]
    expected = factorisation_test(X, random_state=0).statistic
    assert factorisation_test(scaled, random_state=0).statistic == pytest.approx(expected, rel=1e-5)


def test_partition_is_the_joint_test_of_product_kernels() -> None:
    X = xor(80, np.random.default_rng(0))
    K, _ = cross_gram(X, random_state=0)
    _, z = joint_statistic([K[2] * K[0], K[1], K[3]])
    result = factorisation_test(X, [[2, 0], [3], [1]], random_state=0)
    assert result.kind == "factorisation"
    assert result.statistic == pytest.approx(z, rel=1e-9)
    alone = factorisation_test(X, [[0], [1], [2], [3]], random_state=0)
    assert alone.statistic == pytest.approx(joint_independence_test(X, random_state=0).statistic, rel=1e-12)


def test_categories_of_any_type_count_by_equality() -> None:
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 3, size=(120, 2))
    X = np.c_[codes, (codes.sum(axis=1)) % 3]
    expected = joint_independence_test(X, kernel="delta", random_state=0)
    assert expected.bandwidths == (None, None, None)
    assert expected.pvalue < 1e-6
    names = np.array(["low", "mid", "high"])
    frame = pd.DataFrame(
        {
            "text": names[X[:, 0]].astype(object),
            "category": pd.Categorical(names[X[:, 1]]),
            "date": pd.to_datetime("2026-01-01") + pd.to_timedelta(X[:, 2], unit="D"),
        }
    )
    assert joint_independence_test(frame, kernel="delta", random_state=0) == expected
    rows = [np.c_[X[:, 0], X[:, 0]], X[:, 1], names[X[:, 2]]]  # equal rows of a wide variable are one category
    assert joint_independence_test(rows, kernel="delta", random_state=0) == expected


def test_frames_lists_tensors_and_small_types_agree() -> None:
    torch = pytest.importorskip("torch")
    X = np.random.default_rng(0).integers(0, 9, size=(60, 3)).astype(float)
    expected = joint_independence_test(X, random_state=0)
    frame = pd.DataFrame(X, columns=["a", "b", "a"])
    for same in (
        X.astype(np.float32),
        X.astype(np.int8),
        list(X.T),
        [X[:, [0]], X[:, 1], list(X[:, 2])],
        frame,
        frame.set_axis(["a", "b", "c"], axis=1).convert_dtypes(),
        frame.astype(object),
        torch.from_numpy(X),
        list(torch.from_numpy(X).requires_grad_().T),
    ):
        assert joint_independence_test(same, random_state=0) == expected


def test_a_torch_device_gives_the_same_numbers() -> None:
    pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    X = [rng.normal(size=80) + 1e5, rng.normal(size=(80, 3)), rng.integers(0, 4, 80), rng.normal(size=80)]
    kernel = ["rbf", "laplace", "delta", lambda a, b: np.cos(a - b.T)]
    for call in (
        joint_independence_test,
        factorisation_test,
        lambda X, **given: factorisation_test(X, interaction="lancaster", **given),
        lambda X, **given: factorisation_test(X, [[0, 1], [2, 3]], **given),
    ):
        numpy, torch = (call(X, kernel=kernel, random_state=0, device=device) for device in (None, "cpu"))
        np.testing.assert_allclose(torch[:4], numpy[:4], rtol=1e-8)
    linear = [
        joint_independence_test(X[1:], kernel="linear", random_state=0, device=d).statistic for d in (None, "cpu")
    ]
    assert linear[0] == pytest.approx(linear[1], rel=1e-9)


def test_a_callable_sees_all_rows_at_once_and_as_they_came(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples, "_BLOCK_ENTRIES", 1)
    seen = []

    def first_letter(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        seen.append((a.shape, b.shape))
        return np.array([[x[0] == y[0] for y in b[:, 0]] for x in a[:, 0]])

    words = np.random.default_rng(0).choice(["ash", "ant", "bee", "bat"], size=(100, 2))
    result = joint_independence_test([words[:, 0], words[:, 1]], kernel=first_letter, random_state=0)
    assert seen == [((50, 1), (50, 1))] * 2
    initials = [np.char.array(words[:, j]).ljust(1).astype("U1") for j in range(2)]
    expected = joint_independence_test(initials, kernel="delta", random_state=0)
    assert result.statistic == pytest.approx(expected.statistic, rel=1e-9)


# Scan


@pytest.mark.parametrize(("order", "interaction"), [(2, "streitberg"), (3, "lancaster"), (3, "streitberg")])
@pytest.mark.parametrize("kept", [True, False])
def test_scan_tests_each_subset(order: int, interaction: str, kept: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not kept:
        monkeypatch.setattr(scan, "_KEPT_BYTES", 0)
    X = pd.DataFrame(xor(80, np.random.default_rng(0)), columns=list("zyxw"))
    found = interaction_scan(X, order, interaction=interaction, random_state=4, n_splits=2, correction=None, n_jobs=2)
    assert found["variables"].tolist() == list(itertools.combinations("zyxw", order))
    for row in found.itertuples():
        single = (
            joint_independence_test(X[list(row.variables)], n_splits=2, random_state=4)
            if order == 2
            else factorisation_test(X[list(row.variables)], interaction=interaction, n_splits=2, random_state=4)
        )
        assert row.statistic == pytest.approx(single.statistic, rel=1e-8)
        assert row.pvalue == row.pvalue_adjusted == pytest.approx(single.pvalue, rel=1e-7)


def test_scan_names_columns_by_number_without_a_frame() -> None:
    found = interaction_scan(list(xor(60, np.random.default_rng(0)).T), 4, random_state=0)
    assert found["variables"].tolist() == [(0, 1, 2, 3)]
    assert found["pvalue"].iloc[0] == factorisation_test(xor(60, np.random.default_rng(0)), random_state=0).pvalue


def test_scan_adjusts_for_the_number_of_subsets() -> None:
    X = xor(100, np.random.default_rng(0), d=5)
    raw = interaction_scan(X, 2, correction=None, random_state=0)["pvalue"].to_numpy()
    adjusted = {
        c: interaction_scan(X, 2, correction=c, random_state=0)["pvalue_adjusted"].to_numpy()
        for c in ("holm", "bonferroni", "bh", "by")
    }
    m = len(raw)
    np.testing.assert_allclose(adjusted["bonferroni"], np.minimum(1, raw * m))
    for j, p in enumerate(raw):
        smaller = [(m - np.sum(raw < other)) * other for other in raw if other <= p]
        assert adjusted["holm"][j] == pytest.approx(min(1.0, max(smaller)))
        larger = [m * other / np.sum(raw <= other) for other in raw if other >= p]
        assert adjusted["bh"][j] == pytest.approx(min(1.0, min(larger)))
        assert adjusted["by"][j] == pytest.approx(min(1.0, min(larger) * np.sum(1 / np.arange(1, m + 1))))


def test_scan_shows_its_progress_only_when_asked(capsys: pytest.CaptureFixture[str]) -> None:
    X = xor(40, np.random.default_rng(0))
    interaction_scan(X, 2, random_state=0)
    assert capsys.readouterr().out == ""
    interaction_scan(X, 2, random_state=0, verbose=1)
    assert "split 1 of 1" in capsys.readouterr().out


# Bad input

GOOD = np.random.default_rng(0).normal(size=(40, 3))


def with_value(value: float) -> np.ndarray:
    X = GOOD.copy()
    X[5, 1] = value
    return X


@pytest.mark.parametrize(
    ("X", "given", "error", "message"),
    [
        (GOOD[:, :1], {}, ValueError, "at least 2 variables .*got 1"),
        (GOOD[:15], {}, ValueError, "at least 16 rows, 8 per half; got 15"),
        (GOOD[:0], {}, ValueError, "at least 16 rows, 8 per half; got 0"),
        (GOOD[:, 0], {}, ValueError, r"X must be a table .*got shape \(40,\)"),
        ([GOOD[:, 0], GOOD[:30, 1]], {}, ValueError, r"equal length, got lengths \[40, 30\]"),
        ([GOOD[:, 0], np.zeros((40, 2, 2))], {}, ValueError, r"variable 1 of X .*got shape \(40, 2, 2\)"),
        ([], {}, ValueError, "at least 2 variables .*got 0"),
        (with_value(np.nan), {}, ValueError, "variable 1 of X holds 1 value.* NaN or infinite, the first in row 5"),
        (with_value(-np.inf), {}, ValueError, "variable 1 of X holds 1 value"),
        (with_value(np.nan), {"kernel": "delta"}, ValueError, "variable 1 of X has missing values, the first in row 5"),
        (with_value(np.nan), {"kernel": np.dot}, ValueError, "variable 1 of X holds values that are NaN"),
        (pd.DataFrame({"a": GOOD[:, 0], "b": [None] + [1, 2, 3] * 13}), {}, ValueError, r"variable 1 \('b'\) of X"),
        (pd.DataFrame({"a": GOOD[:, 0], "b": ["x"] * 40}), {}, TypeError, r"variable 1 \('b'\) of X must be numeric"),
        (pd.DataFrame({"a": GOOD[:, 0], "b": pd.Categorical(["x"] * 40)}), {}, TypeError, r"variable 1 \('b'\)"),
        (pd.DataFrame({"a": GOOD[:, 0], "b": pd.date_range("2026", periods=40)}), {}, TypeError, r"variable 1 \('b'\)"),
        (np.full((40, 2), "1.5"), {}, TypeError, "variable 0 of X must be numeric; .*delta"),
        (GOOD * 1j, {}, TypeError, "variable 0 of X must be numeric"),
        (sparse.csr_array(GOOD), {}, TypeError, "X must be dense"),
        (np.c_[GOOD, np.full(40, 7.0)], {}, ValueError, "variable 3 of X is constant"),
        (np.c_[GOOD, np.full(40, 7.0)], {"kernel": "delta"}, ValueError, "variable 3 of X is constant"),
        (GOOD, {"kernel": "gauss"}, ValueError, "kernel of variable 0 must be one of 'rbf'.*'gauss'"),
        (GOOD, {"kernel": ["rbf", "rbf"]}, ValueError, "kernel must be one value or one per variable, got 2 for 3"),
        (GOOD, {"kernel": lambda a, b: np.zeros(3)}, ValueError, r"kernel of variable 0 must give .*got shape \(3,\)"),
        (GOOD, {"kernel": lambda a, b: a @ b.T * np.nan}, ValueError, "kernel of variable 0 must give finite"),
        (GOOD, {"kernel": lambda a, b: np.ones((20, 20))}, ValueError, "constant"),
        (GOOD, {"bandwidth": 0.0}, ValueError, "bandwidth of variable 0 must be a finite number > 0, got 0.0"),
        (GOOD, {"bandwidth": [1.0, -1.0, 1.0]}, ValueError, "bandwidth of variable 1 must be .*-1.0"),
        (GOOD, {"bandwidth": [1.0]}, ValueError, "bandwidth must be one value or one per variable, got 1 for 3"),
        (GOOD, {"bandwidth": "mean"}, ValueError, "bandwidth of variable 0 must be one of 'median'"),
        (GOOD, {"bandwidth": 1e-9}, ValueError, "bandwidth"),
        (GOOD, {"bandwidth": 1e12}, ValueError, "bandwidth"),
        (GOOD, {"split": "thirds"}, ValueError, "split must be one of 'random', 'halves'"),
        (GOOD, {"split": np.ones(39, bool)}, ValueError, r"boolean mask of 40 rows, got bool values of shape \(39,\)"),
        (GOOD, {"split": np.arange(40)}, ValueError, "boolean mask of 40 rows, got int64"),
        (GOOD, {"split": np.arange(40) < 7}, ValueError, "at least 8 rows on each side, got 7 of 40"),
        (GOOD, {"split": "halves", "n_splits": 2}, ValueError, "n_splits > 1 needs split='random'"),
        (GOOD, {"n_splits": 0}, ValueError, "n_splits must be at least 1, got 0"),
        (GOOD, {"reference": "chi2"}, ValueError, "reference must be one of 'normal', 't'"),
    ],
)
def test_bad_input_is_named(X: object, given: dict, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        joint_independence_test(X, random_state=0, **given)


@pytest.mark.parametrize(
    ("X", "partition", "given", "message"),
    [
        (GOOD[:, :2], None, {}, "at least 3 variables .*got 2"),
        (np.c_[GOOD, GOOD + 1], None, {}, "at most 5 variables, got 6"),
        (GOOD, None, {"interaction": "joint"}, "interaction must be one of 'streitberg', 'lancaster'"),
        (GOOD, [[0, 1, 2]], {}, "at least two blocks"),
        (GOOD, [[0, 1]], {}, r"cover 0, ..., 2 once each, got \[\[0, 1\]\]"),
        (GOOD, [[0, 1], [1, 2]], {}, "once each"),
        (GOOD, [[0, 1], [2, 3]], {}, "once each"),
        (GOOD, [[0, 1, 2], []], {}, "once each"),
        (GOOD, [0, 1, 2], {}, "partition must be a sequence of blocks"),
        (GOOD, [["a"], ["b", "c"]], {}, "partition must be a sequence of blocks"),
    ],
)
def test_bad_factorisations_are_named(X: np.ndarray, partition: object, given: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        factorisation_test(X, partition, random_state=0, **given)


@pytest.mark.parametrize(
    ("X", "given", "message"),
    [
        (GOOD, {"order": 4}, "order must be at most 3, got 4"),
        (GOOD, {"order": 1}, "order must be at least 2, got 1"),
        (np.c_[GOOD, GOOD + 1], {"order": 6}, "order must be at most 5 for Streitberg"),
        (GOOD, {"correction": "none"}, "correction must be one of 'holm'"),
        (GOOD, {"interaction": "joint"}, "interaction must be one of"),
        (GOOD[:, :1], {"order": 2}, "at least 2 variables, got 1"),
    ],
)
def test_bad_scans_are_named(X: np.ndarray, given: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        interaction_scan(X, random_state=0, **given)


def test_a_variable_constant_in_one_half_is_named() -> None:
    X = GOOD.copy()
    X[:, 2] = np.arange(40) < 3
    with pytest.raises(ValueError, match="variable 2 of X takes a single value in sample 2"):
        joint_independence_test(X, split="halves")
    assert joint_independence_test(X, split=np.arange(40) % 2 == 0).pvalue > 0
    with pytest.raises(ValueError, match="at least one variable, got none"):
        cross_gram([])
