import doctest

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from paperworks._numerics import kernels
from paperworks._numerics.kernels import laplace_gram, median_distance, rbf_gram, squared_distances


def loop(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.array([[((x - y) ** 2).sum() for y in b] for x in a])


def test_doctests_run() -> None:
    assert doctest.testmod(kernels).failed == 0


@pytest.mark.parametrize("n_columns", [1, 2, 23, 24, 60])
def test_squared_distances_equal_the_double_loop(n_columns: int) -> None:
    rng = np.random.default_rng(n_columns)
    a, b = rng.normal(size=(7, n_columns)), rng.normal(size=(5, n_columns))
    np.testing.assert_allclose(squared_distances(a, b), loop(a, b), rtol=1e-12)


@pytest.mark.parametrize("n_columns", [1, 5, 40])
def test_an_offset_costs_no_digits(n_columns: int) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 9, (6, n_columns)).astype(float), rng.integers(0, 9, (4, n_columns)).astype(float)
    np.testing.assert_allclose(squared_distances(a + 1e8, b + 1e8), loop(a, b), atol=1e-5)
    assert squared_distances(a + 1e8, a + 1e8).min() >= 0


def test_grams_are_the_closed_forms_and_leave_their_input_alone() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(6, 3)), rng.normal(size=(4, 3))
    kept = a.copy(), b.copy()
    np.testing.assert_allclose(rbf_gram(a, b, 1.7), np.exp(-loop(a, b) / (2 * 1.7**2)), rtol=1e-12)
    np.testing.assert_allclose(laplace_gram(a, b, 1.7), np.exp(-np.sqrt(loop(a, b)) / 1.7), rtol=1e-12)
    np.testing.assert_array_equal(a, kept[0])
    np.testing.assert_array_equal(b, kept[1])


@pytest.mark.parametrize("gram", [rbf_gram, laplace_gram])
def test_a_gram_on_one_sample_is_positive_semidefinite(gram) -> None:
    x = np.random.default_rng(2).normal(size=(30, 2))
    k = gram(x, x, median_distance(x))
    np.testing.assert_allclose(k, k.T, atol=1e-15)
    np.testing.assert_allclose(np.diag(k), 1.0)
    assert np.linalg.eigvalsh(k).min() > -1e-12


@given(arrays(float, st.tuples(st.integers(2, 9), st.integers(1, 3)), elements=st.integers(-3, 3).map(float)))
@settings(max_examples=100, deadline=None)
def test_median_distance_is_the_median_of_the_non_zero_distances(x: np.ndarray) -> None:
    pairs = [np.linalg.norm(x[i] - x[j]) for i in range(len(x)) for j in range(i)]
    pairs = [p for p in pairs if p > 0]
    if pairs:
        assert median_distance(x) == pytest.approx(np.median(pairs), rel=1e-12)
    else:
        with pytest.raises(ValueError, match="all rows are equal"):
            median_distance(x)


@pytest.mark.parametrize("unit", [1e-200, 1e-30, 1e30, 1e200])
@pytest.mark.parametrize("n_columns", [1, 3])
def test_units_do_not_matter(unit: float, n_columns: int) -> None:
    x = np.random.default_rng(3).normal(size=(40, n_columns))
    s = median_distance(x)
    assert median_distance(x * unit) == pytest.approx(s * unit, rel=1e-12)
    np.testing.assert_allclose(rbf_gram(x * unit, x * unit, s * unit), rbf_gram(x, x, s), rtol=1e-10)


def test_long_samples_are_subsampled_the_same_way_each_time() -> None:
    x = np.random.default_rng(4).normal(size=(5000, 1))
    assert median_distance(x) == median_distance(x)
    exact = np.median(np.abs(x[:2000] - x[:2000].T)[np.triu_indices(2000, 1)])
    assert median_distance(x) == pytest.approx(exact, rel=0.05)


def test_a_rare_value_in_a_long_column_still_gives_a_distance() -> None:
    x = np.zeros((100_000, 1))
    x[77] = 3.0
    assert median_distance(x) == 3.0


def test_median_distance_names_a_wrong_shape() -> None:
    with pytest.raises(ValueError, match=r"two dimensions, got shape \(3,\)"):
        median_distance(np.arange(3.0))
