"""Terms, information, closed forms and gradients against enumeration and finite differences."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paperworks.causal import FactorialDesign, half_fraction
from paperworks.causal.factorial_design import criteria, terms

Array = np.ndarray


def combinations_of(p: int) -> Array:
    return np.array(list(itertools.product([0, 1], repeat=p)))


def slope(function, dose: Array, step: float = 1e-5) -> Array:
    """Central differences of fourth order."""
    steps = np.eye(dose.size) * step
    return (
        np.array(
            [
                (8 * (function(dose + s) - function(dose - s)) - function(dose + 2 * s) + function(dose - 2 * s)) / 12
                for s in steps
            ]
        )
        / step
    )


@st.composite
def designs(draw) -> tuple[FactorialDesign, Array]:
    p = draw(st.integers(1, 6))
    order = draw(st.integers(1, p))
    dose = np.array(draw(st.lists(st.floats(0.02, 0.98), min_size=p, max_size=p)))
    return FactorialDesign(p, order), dose


@settings(deadline=None, max_examples=50)
@given(designs())
def test_terms_are_all_small_sets_by_size_then_lexicographic(case: tuple[FactorialDesign, Array]) -> None:
    design, _ = case
    p, k = design.n_treatments, design.order
    assert design.terms_ == [s for size in range(k + 1) for s in itertools.combinations(range(p), size)]
    assert design.n_terms_ == len(design.terms_)
    x = combinations_of(p)
    products = np.array([[np.prod([2 * row[i] - 1 for i in s]) for s in design.terms_] for row in x])
    np.testing.assert_array_equal(design.features(x), products)


@settings(deadline=None, max_examples=50)
@given(designs())
def test_information_is_the_mean_over_all_combinations(case: tuple[FactorialDesign, Array]) -> None:
    design, dose = case
    x = combinations_of(dose.size)
    probability = np.where(x == 1, dose, 1 - dose).prod(axis=1)
    Z = design.features(x)
    np.testing.assert_allclose(design.information(dose), Z.T @ (probability[:, None] * Z), atol=1e-12)
    np.testing.assert_array_equal(design.information(np.full(dose.size, 0.5)), np.eye(design.n_terms_))


@settings(deadline=None)
@given(designs(), st.integers(0, 10**6))
def test_closed_forms_are_the_trace_of_the_inverse(case: tuple[FactorialDesign, Array], seed: int) -> None:
    design, dose = case
    inverse = np.diag(np.linalg.inv(design.information(dose)))
    weights = np.random.default_rng(seed).random(design.n_terms_)
    assert design.criterion(dose) == pytest.approx(inverse.sum(), rel=1e-7)
    assert design.criterion(dose, weights) == pytest.approx(weights @ inverse, rel=1e-7)
    assert design.criterion(dose, np.ones(design.n_terms_)) == pytest.approx(design.criterion(dose), rel=1e-12)


def test_closed_form_to_twelve_digits_and_its_least_value() -> None:
    design = FactorialDesign(6, 3)
    for dose in np.random.default_rng(0).uniform(0.2, 0.8, (20, 6)):
        assert design.criterion(dose) == pytest.approx(np.trace(np.linalg.inv(design.information(dose))), rel=1e-12)
        assert design.criterion(dose) > design.n_terms_
    assert design.criterion(np.full(6, 0.5)) == design.n_terms_ == 42


def check_slope(function, dose: Array) -> None:
    value, gradient = function(dose)
    numeric = slope(lambda d: function(d)[0], dose)
    np.testing.assert_allclose(numeric, gradient, atol=1e-8 * value, rtol=1e-7)


@settings(deadline=None, max_examples=20)
@given(designs(), st.integers(0, 10**6))
def test_gradients_of_the_closed_forms(case: tuple[FactorialDesign, Array], seed: int) -> None:
    design, dose = case
    dose = 0.1 + 0.8 * dose
    k = design.order
    weights = np.random.default_rng(seed).random(design.n_terms_)
    check_slope(lambda d: criteria.closed_form(d, k), dose)
    check_slope(lambda d: criteria.weighted_form(d, k, weights), dose)


@pytest.mark.parametrize("dose", [0.0, 1.0])
@pytest.mark.parametrize("order", [1, 3])
def test_criterion_is_infinite_where_a_treatment_does_not_vary(dose: float, order: int) -> None:
    given_dose = np.array([dose, 0.5, 0.3, dose])
    design = FactorialDesign(4, order)
    assert design.criterion(given_dose) == np.inf
    assert design.criterion(given_dose, np.ones(design.n_terms_)) == np.inf
    assert np.isfinite(design.criterion([1e-9, 0.5, 0.3, 0.5]))
    assert design.criterion([1e-200, 1e-200, 1e-200, 0.5]) > 1e190


def test_ten_thousand_treatments() -> None:
    design = FactorialDesign(10_000, 3)
    K = 1 + 10_000 + 49_995_000 + 166_616_670_000
    assert design.n_terms_ == K
    assert design.criterion(np.full(10_000, 0.5)) == pytest.approx(K, rel=1e-12)
    a = 0.5 / (0.2 * 0.8) - 1
    expected = 1 + 10_000 * a + 49_995_000 * a**2 + 166_616_670_000 * a**3
    assert design.criterion(np.full(10_000, 0.2)) == pytest.approx(expected, rel=1e-12)
    assert (design.passive() == 0.5).all()
    for call in (
        lambda: design.information(np.full(10_000, 0.5)),
        lambda: design.acquisition(np.full(10_000, 0.5), 10),
        lambda: design.propose(10),
        lambda: design.update(np.zeros((1, 10_000)), [1.0]),
        lambda: design.terms_,
    ):
        with pytest.raises(ValueError, match="criterion"):
            call()


@pytest.mark.parametrize(("p", "dose"), [(2, 0.3), (5, 0.1), (8, 0.5), (9, 0.77)])
def test_smallest_eigenvalue_at_equal_dosages(p: int, dose: float) -> None:
    c = 1 - (2 * dose - 1) ** 2
    b = c + 1 + p * (1 - c)
    found = np.linalg.eigvalsh(FactorialDesign(p, 1).information(np.full(p, dose)))[0]
    assert found == pytest.approx((b - np.sqrt(b * b - 4 * c)) / 2, rel=1e-10)
    design = FactorialDesign(p, 1, objective="min_eig")
    assert design.acquisition(np.full(p, dose), 5) == pytest.approx(-found, rel=1e-10)


@pytest.mark.parametrize("objective", ["a", "min_eig"])
@pytest.mark.parametrize(("p", "order"), [(3, 3), (6, 2), (70, 1)])
def test_gradient_of_the_acquisition(objective: str, p: int, order: int) -> None:
    rng = np.random.default_rng(p)
    design = FactorialDesign(p, order, objective=objective, noise_std=2.0, random_state=0)
    design.update(design.assign(np.full(p, 0.5), 20), rng.normal(size=20))
    for dose in rng.uniform(0.2, 0.8, (3, p)):
        value, gradient = design.acquisition(dose, 7, noise_std=3.0, return_gradient=True)
        assert value == design.acquisition(dose, 7, noise_std=3.0)
        numeric = slope(lambda d: design.acquisition(d, 7, noise_std=3.0), dose, 1e-4)
        np.testing.assert_allclose(numeric, gradient, atol=1e-8 * max(abs(value), 1.0), rtol=1e-6)


@settings(deadline=None)
@given(designs(), st.integers(1, 30))
def test_acquisition_is_equation_7(case: tuple[FactorialDesign, Array], n: int) -> None:
    design, dose = case
    assert design.acquisition(dose, n) == pytest.approx(design.criterion(dose), rel=1e-6)
    past = design.assign(np.full(dose.size, 0.5), 12)
    design.update(past, np.zeros(12)).update(past[:5], np.zeros(5), noise_std=0.5)
    gram = design.features(past).T @ design.features(past) + 4 * design.features(past[:5]).T @ design.features(past[:5])
    np.testing.assert_allclose(design.gram_, gram)
    expected = np.trace(np.linalg.inv(design.information(dose) / 9 + gram / n))
    assert design.acquisition(dose, n, noise_std=3.0) == pytest.approx(expected, rel=1e-5)
    assert design.expected_error(dose, n) == pytest.approx(design.acquisition(dose, n) / n)


def test_information_beyond_the_bits_of_an_integer() -> None:
    p = 64
    dose = np.random.default_rng(0).random(p)
    found = FactorialDesign(p, 2).information(dose)
    m = 2 * dose - 1
    sets = FactorialDesign(p, 2).terms_
    for i, j in np.random.default_rng(1).integers(len(sets), size=(300, 2)):
        expected = np.prod([m[t] for t in set(sets[i]) ^ set(sets[j])])
        assert found[i, j] == pytest.approx(expected, rel=1e-12)


@settings(deadline=None, max_examples=50)
@given(designs(), st.integers(0, 10**6))
def test_effects_describe_the_same_function(case: tuple[FactorialDesign, Array], seed: int) -> None:
    design, dose = case
    beta = np.random.default_rng(seed).normal(size=design.n_terms_)
    effects = design.effects_from_coef(beta)
    x = combinations_of(dose.size)
    on = np.array([[np.prod([row[i] for i in s]) for s in design.terms_] for row in x])
    np.testing.assert_allclose(on @ effects, design.features(x) @ beta, atol=1e-9)
    # Eq. 2, the way back.
    back = [
        sum(a / 2 ** len(t) for t, a in zip(design.terms_, effects, strict=True) if set(s) <= set(t))
        for s in design.terms_
    ]
    np.testing.assert_allclose(back, beta, atol=1e-9)


def test_positions_of_sets() -> None:
    everything = [s for size in range(4) for s in itertools.combinations(range(7), size)]
    for number, one in enumerate(everything):
        assert terms.positions(7, np.array([one], dtype=np.int32).reshape(1, -1)) == number


@pytest.mark.parametrize(("p", "n", "words"), [(5, 16, ["abcd"]), (8, 64, ["abcd", "abef"])])
def test_fractions_are_orthogonal_up_to_pairs(p: int, n: int, words: list[str]) -> None:
    fraction = half_fraction(p, 5)
    assert fraction.shape == (n, p)
    Z = FactorialDesign(p, 2).features(fraction)
    np.testing.assert_array_equal(Z.T @ Z, n * np.eye(Z.shape[1]))
    pydoe = pytest.importorskip("pydoe")
    free = " ".join("abcdef"[: p - len(words)])
    theirs = (pydoe.fracfact(f"{free} {' '.join(words)}") > 0).astype(int)
    assert set(map(tuple, theirs)) == set(map(tuple, fraction))


def test_unknown_fraction() -> None:
    with pytest.raises(ValueError, match=r"\(5, 5\), \(8, 5\)"):
        half_fraction(6, 4)
