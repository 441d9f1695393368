"""Samples, members, families of one's own, and what bad input says."""

from __future__ import annotations

import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import special, stats
from sklearn.base import clone

from paperworks.optim import ExponentialFamily, Member, ParetoFamily
from paperworks.optim.pareto_family.simplex import quadratic_step
from tests.optim.pareto_family_cases import CASES

TWO = [(0.0, 1.0), (2.0, 1.0)]


# Samples


@pytest.mark.parametrize("name", [name for name in CASES if name != "product"])
def test_large_samples_give_the_targets_back(name: str) -> None:
    case = CASES[name]
    given = case.fitted("forward")
    n = 2_000 if name == "wishart" else 20_000
    samples = [target.sample(n, random_state=i) for i, target in enumerate(given.targets_)]
    found = ParetoFamily(**case.options, divergence="forward").fit(samples)
    for member, target in zip(found.targets_, given.targets_, strict=True):
        for part, own in zip(member.params, target.params, strict=True):
            np.testing.assert_allclose(part, own, rtol=0.15, atol=0.05)


@pytest.mark.parametrize("name", ["gamma", "beta", "dirichlet", "wishart", "circle", "sphere", "poisson"])
def test_estimates_match_the_moments_of_the_sample(name: str) -> None:
    case = CASES[name]
    samples = [target.sample(200, random_state=3) for target in case.fitted("forward").targets_]
    found = ParetoFamily(**case.options, divergence="forward").fit(samples)
    for member, x in zip(found.targets_, samples, strict=True):
        moments = member.family.statistics(x).mean(axis=0)
        np.testing.assert_allclose(member.expectation, moments, rtol=1e-8, atol=1e-8)
        # no member of the family explains the sample better
        rng = np.random.default_rng(4)
        for _ in range(10):
            other = ParetoFamily(**case.options).fit([case.unpack(rng.normal(size=case.size)), case.targets[0]])
            assert member.logpdf(x).sum() >= other.targets_[0].logpdf(x).sum() - 1e-9


def test_gaussian_samples_divide_by_n() -> None:
    x = np.random.default_rng(0).normal(size=(30, 2))
    full = ParetoFamily(reg=0.5).fit([x, x + 1])
    np.testing.assert_allclose(full.targets_[0].cov, np.cov(x.T, bias=True) + 0.5 * np.eye(2))
    shared = ParetoFamily("gaussian_known_cov").fit([x, 1 - x])
    np.testing.assert_allclose(shared.targets_[1].cov, np.cov(x.T, bias=True))


def test_labels_name_the_targets() -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 2)) + np.repeat([0, 3, 7], 20)[:, None]
    y = np.repeat(["c", "a", "b"], 20)
    order = rng.permutation(60)
    found = ParetoFamily(covariance="diag").fit(pd.DataFrame(X).iloc[order], pd.Series(y[order]))
    assert found.classes_.tolist() == ["a", "b", "c"]
    for target, mean in zip(found.targets_, (3, 7, 0), strict=True):
        assert abs(target.mean[0] - mean) < 1


def test_refitting_forgets_labels() -> None:
    model = ParetoFamily(covariance="diag").fit(np.arange(8.0)[:, None] ** 2, [0, 0, 0, 0, 1, 1, 1, 1])
    assert model.classes_.tolist() == [0, 1]
    assert not hasattr(model.fit([(0.0, 1.0), (1.0, 1.0)]), "classes_")


def test_parameters_and_samples_may_be_mixed() -> None:
    rows = np.random.default_rng(0).normal(size=500)
    model = ParetoFamily().fit([rows, (3.0, 1.0), ParetoFamily().fit(TWO).targets_[1]])
    assert model.n_targets_ == 3
    np.testing.assert_allclose(model.targets_[0].mean, rows.mean())
    np.testing.assert_allclose(model.targets_[2].mean, 2.0)


# Members


@pytest.mark.parametrize("name", list(CASES))
def test_moments_of_members_are_those_of_their_draws(name: str) -> None:
    member = CASES[name].fitted("reverse").solve([0.3, 0.3, 0.4])
    if name == "product":
        assert [len(part) for part in member.sample(5, random_state=0)] == [5, 5]
        return
    n = 4_000 if name == "wishart" else 40_000
    x = np.asarray(member.sample(n, random_state=0), dtype=float)
    assert x.shape[0] == n
    np.testing.assert_array_equal(x, member.sample(n, random_state=0))
    scale = x.std(axis=0) + 1e-12
    assert (np.abs(x.mean(axis=0) - member.mean) < 5 * scale / np.sqrt(n)).all()
    if name != "wishart":
        cov = np.atleast_2d(np.cov(x.T, bias=True))
        np.testing.assert_allclose(cov, member.cov, rtol=0.15, atol=0.02 * np.abs(cov).max())
    if name == "wishart":
        x = x[:2000]
    log_density = member.logpdf(x)
    error = log_density.std() / np.sqrt(len(x))
    assert abs(-log_density.mean() - member.entropy()) < 5 * error + 1e-12


@pytest.mark.parametrize("name", [n for n in CASES if n not in ("product", "wishart")])
def test_densities_agree_with_scipy_and_torch(name: str) -> None:
    torch = pytest.importorskip("torch")
    member = CASES[name].fitted("forward").solve([0.3, 0.3, 0.4])
    x = member.sample(40, random_state=1)
    expected: Any = None
    if not name.startswith("lognormal"):
        frozen = member.to_scipy()
        rows = x.T if name == "dirichlet" else x
        if name in ("categorical", "bernoulli", "poisson"):
            expected = frozen.logpmf(rows)
        else:
            expected = frozen.logpdf(rows)
        np.testing.assert_allclose(member.logpdf(x), expected, rtol=1e-9, atol=1e-9)
    if name != "sphere":
        rows = np.arctan2(x[:, 1], x[:, 0]) if name == "circle" else x
        expected = member.to_torch().log_prob(torch.as_tensor(rows, dtype=torch.float64)).numpy()
        tolerance = 1e-6 if name == "circle" else 1e-9  # torch approximates its Bessel functions
        np.testing.assert_allclose(member.logpdf(x), expected, rtol=tolerance, atol=tolerance)


def test_densities_vanish_outside_the_support() -> None:
    outside = {"gamma": -1.0, "beta": 1.5, "exponential": -0.1, "poisson": 0.5, "categorical": 7, "bernoulli": 0.5}
    for name, x in outside.items():
        assert CASES[name].fitted("reverse").targets_[0].logpdf([x]) == -np.inf
    assert CASES["dirichlet"].fitted("reverse").targets_[0].logpdf([[0.5, 0.6, -0.1]]) == -np.inf
    assert CASES["lognormal-full"].fitted("reverse").targets_[0].logpdf([[0.5, -1.0]]) == -np.inf
    one = ParetoFamily("lognormal").fit(TWO).targets_[1]
    np.testing.assert_allclose(one.logpdf([3.0]), one.to_scipy().logpdf(3.0))
    np.testing.assert_allclose(one.mean, one.to_scipy().mean())


def test_batches_are_stacks() -> None:
    batch = ParetoFamily().fit(TWO).solve([[1.0, 0.0], [0.25, 0.75]])
    assert len(batch) == 2
    assert batch.cov.shape == (2, 1, 1)
    assert batch.logpdf([0.0, 1.0, 2.0]).shape == (2, 3)
    assert batch.sample(4, random_state=0).shape == (2, 4, 1)
    np.testing.assert_allclose([member.mean[0] for member in batch], [0.0, 1.5])
    assert batch[[1]].batched
    assert "2 members" in repr(batch)
    assert "mean=[1.5]" in repr(batch[1])
    with pytest.raises(ValueError, match="index it first"):
        batch.to_scipy()
    with pytest.raises(ValueError, match="index it first"):
        ParetoFamily().fit(TWO).weights_of(batch)
    with pytest.raises(TypeError, match="indexed"):
        batch[0][0]
    with pytest.raises(TypeError, match="length"):
        len(batch[0])
    assert bool(batch[0])


# Zeros


def test_zero_cells() -> None:
    targets = [([0.5, 0.5, 0.0],), ([0.2, 0.3, 0.5],)]
    with pytest.raises(ValueError, match=r"targets\[0\]: cell 2 has probability 0 there .* supports differ"):
        ParetoFamily("categorical").fit(targets)
    forward = ParetoFamily("categorical", divergence="forward").fit(targets)
    centre = forward.minimax()
    assert centre.converged
    np.testing.assert_allclose(centre.objectives[0], centre.objectives[1], rtol=1e-8)
    assert np.isfinite(forward.solve([0.5, 0.5]).natural).all()
    assert forward.front(5).objectives[0, 1] == np.inf
    assert not np.isnan(forward.front(5).objectives).any()
    assert not forward.is_optimal(([0.0, 1.0, 0.0],))
    assert np.isfinite(forward.dominating(([0.0, 1.0, 0.0],)).objectives).all()
    both = ParetoFamily("categorical").fit([([0.5, 0.5, 0.0],), ([0.1, 0.9, 0.0],)])
    point = both.solve([0.5, 0.5])
    root = np.sqrt([0.05, 0.45])
    np.testing.assert_allclose(point.params[0], [*(root / root.sum()), 0.0])
    assert not np.isnan(both.natural_).any()
    with pytest.raises(ValueError, match="supports differ"):
        ParetoFamily("bernoulli").fit([(0.0,), (0.5,)])


# Numerical pitfalls


def test_narrow_gammas_have_a_limit() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wide = ParetoFamily("gamma", divergence="forward").fit([(1e9, 1e9), (2e9, 2e9)]).solve([0.5, 0.5])
    np.testing.assert_allclose(wide.mean, 1.0, rtol=1e-12)
    np.testing.assert_allclose(wide.params[0], 4e9 / 3, rtol=1e-6)  # 1/k is averaged where means agree
    with pytest.warns(RuntimeWarning, match="Gaussian limit"):
        narrow = ParetoFamily("gamma", divergence="forward").fit([(1e17, 1e17), (2e17, 2e17)]).solve([0.5, 0.5])
    assert np.isfinite(narrow.params).all()


def test_shared_small_directions_do_no_harm() -> None:
    """Near-singular covariances along the same line: as exact as in good coordinates."""
    root = np.array([[1.0, 0.0], [1.0, 1e-5]])
    pairs = [([0.0, 0.0], [1.0, 2.0]), ([1.0, -1.0], [3.0, 0.5])]
    bad = ParetoFamily().fit([(root @ m, root @ np.diag(v) @ root.T) for m, v in pairs])
    good = ParetoFamily(covariance="diag").fit(pairs)
    np.testing.assert_allclose(bad.front(11).objectives, good.front(11).objectives, rtol=1e-4, atol=1e-6)
    with pytest.raises(ValueError, match=r"targets\[1\]: cov is nearly singular beside"):
        ParetoFamily().fit([(np.zeros(2), np.eye(2)), (np.zeros(2), np.diag([1.0, 1e-14]))])


def test_large_concentrations_and_opposite_directions() -> None:
    tight = ParetoFamily("vonmises", divergence="forward").fit([(0.0, 2000.0), (0.1, 900.0)])
    point = tight.solve([0.5, 0.5])
    np.testing.assert_allclose(point.expectation, tight.expectation_.mean(axis=0), rtol=1e-10)
    frozen = stats.vonmises(point.params[1], loc=np.arctan2(*point.params[0][::-1]))
    np.testing.assert_allclose(point.logpdf([0.05]), frozen.logpdf(0.05), rtol=1e-9)
    opposite = ParetoFamily("vonmises").fit([([1.0, 0.0], 2.0), ([-1.0, 0.0], 2.0)]).solve([0.5, 0.5])
    np.testing.assert_allclose(opposite.params[1], 0.0, atol=1e-12)
    np.testing.assert_allclose(opposite.logpdf([1.0]), -np.log(2 * np.pi))
    assert opposite.sample(3, random_state=0).shape == (3, 2)


def test_quadratic_step_beats_a_grid() -> None:
    rng = np.random.default_rng(5)
    i, j = np.mgrid[:101, :101] / 100
    grid = np.column_stack([i.ravel(), j.ravel(), 1 - i.ravel() - j.ravel()])
    grid = grid[grid[:, 2] > -1e-12]
    for _ in range(30):
        root, g = rng.normal(size=(3, 3)), 3 * rng.normal(size=3)
        H, x = root @ root.T, rng.dirichlet(np.ones(3))

        def model(y: np.ndarray, H: np.ndarray = H, g: np.ndarray = g, x: np.ndarray = x) -> np.ndarray:
            return y @ g - (((y - x) @ H) * (y - x)).sum(axis=-1) / 2

        best = quadratic_step(x, g, H, True)
        assert best.min() >= 0
        np.testing.assert_allclose(best.sum(), 1)
        assert model(best) >= model(grid).max() - 1e-9


# Families of one's own


def test_own_family_agrees_with_the_built_in() -> None:
    torch = pytest.importorskip("torch")

    def log_partition(t: Any) -> Any:  # gamma: theta = (-rate, shape)
        return torch.lgamma(t[1]) - t[1] * torch.log(-t[0])

    def statistics(x: Any) -> Any:
        return torch.stack([x, torch.log(x)], dim=1)

    own = ExponentialFamily(log_partition, statistics, lambda t: (t[:, 0] < 0) & (t[:, 1] > 0))
    params = [(0.7, 2.0), (3.0, 1.0), (9.0, 0.5)]
    for divergence in ("reverse", "forward"):
        mine = ParetoFamily(own, divergence=divergence).fit([([-rate, shape],) for shape, rate in params])
        known = ParetoFamily("gamma", divergence=divergence).fit(params)
        np.testing.assert_allclose(mine.front(21).objectives, known.front(21).objectives, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(mine.minimax().weights, known.minimax().weights, atol=1e-6)
        x = [0.5, 2.0]
        np.testing.assert_allclose(
            mine.solve([0.2, 0.2, 0.6]).logpdf(x) - np.log(x), known.solve([0.2, 0.2, 0.6]).logpdf(x), rtol=1e-8
        )
    with pytest.raises(ValueError, match=r"targets\[1\]: theta must be a vector in the domain"):
        ParetoFamily(own).fit([([-1.0, 1.0],), ([1.0, 1.0],)])
    with pytest.raises(TypeError, match="takes no samples"):
        ParetoFamily(own).fit([np.ones(3), np.ones(4)])
    with pytest.raises(TypeError, match="can't be sampled"):
        mine.targets_[0].sample(2)
    with pytest.raises(TypeError, match="log_partition must be callable"):
        ExponentialFamily(3, statistics)


def test_products_add_the_blocks() -> None:
    product = CASES["product"].fitted("forward")
    blocks = [
        ParetoFamily("gamma", divergence="forward").fit([t[0] for t in CASES["product"].targets]),
        ParetoFamily("poisson", divergence="forward").fit([t[1] for t in CASES["product"].targets]),
    ]
    weights = np.random.default_rng(0).dirichlet(np.ones(3), 7)
    expected = sum(block.front(weights=weights).objectives for block in blocks)
    np.testing.assert_allclose(product.front(weights=weights).objectives, expected)
    x, y = [0.5, 2.0], [1, 4]
    parts = [block.solve(weights).logpdf(rows) for block, rows in zip(blocks, (x, y), strict=True)]
    np.testing.assert_allclose(product.solve(weights).logpdf((x, y)), sum(parts))
    with pytest.raises(TypeError, match="takes no samples"):
        ParetoFamily(("gamma", "poisson")).fit([np.ones(3), np.ones(3)])


# Bad input


GOOD = ([0.0, 0.0], [[1.0, 0.0], [0.0, 1.0]])


@pytest.mark.parametrize(
    ("options", "targets", "message"),
    [
        ({}, [GOOD], "at least 2 targets, got 1"),
        ({}, [GOOD, (0.0, 1.0)], "same dimensions"),
        ({}, [GOOD, ([0.0, 0.0], [[1.0, 0.5], [0.0, 1.0]])], r"targets\[1\]: cov must be symmetric"),
        ({}, [GOOD, ([0.0, 0.0], [[1.0, 2.0], [2.0, 1.0]])], r"targets\[1\]: cov must be positive definite"),
        ({}, [GOOD, ([0.0, 0.0], [[1.0, 1.0], [1.0, 1.0]])], r"positive definite.*`reg`"),
        ({}, [GOOD, ([0.0, 0.0], [1.0, 1.0])], r"targets\[1\]: cov must have shape"),
        ({}, [GOOD, ([0.0, np.nan], np.eye(2))], r"targets\[1\]: mean holds 1 value.*NaN"),
        ({}, [GOOD, ([0.0, 0.0],)], r"must be a tuple \(mean, cov\), got 1"),
        ({}, [GOOD, np.zeros((2, 2))], r"targets\[1\] has 2 row\(s\).*at least 3"),
        ({}, [GOOD, np.full((9, 2), np.inf)], r"targets\[1\] holds 18 value.*NaN or infinite"),
        ({"covariance": "diag"}, [([0.0], [1.0]), ([0.0], [0.0])], r"targets\[1\]: variances must be > 0"),
        ({"covariance": "spherical"}, [([0.0], 1.0), ([0.0], [1.0, 2.0])], "single number"),
        ({"family": "gaussian_known_cov"}, [(0.0, 1.0), (0.0, 2.0)], r"targets\[1\]: cov must be the same"),
        ({"family": "poisson"}, [(1.0,), (-1.0,)], r"targets\[1\]: rate must be > 0, got -1"),
        ({"family": "gamma"}, [(1.0, 1.0), (0.0, 1.0)], r"targets\[1\]: shape must be > 0"),
        ({"family": "gamma"}, [np.array([1.0, 2.0]), np.array([3.0, 3.0])], "two different values"),
        ({"family": "gamma"}, [np.array([1.0, 2.0]), np.array([3.0, -3.0])], "strictly between 0 and inf"),
        ({"family": "beta"}, [(1.0, 1.0), (1.0, -1.0)], r"targets\[1\]: b must be > 0"),
        ({"family": "dirichlet"}, [([1.0, 1.0],), ([1.0, 0.0],)], r"targets\[1\]: alpha must be"),
        ({"family": "categorical"}, [([0.5, 0.6],), ([0.5, 0.5],)], r"targets\[0\]: p must hold probabilities"),
        ({"family": "bernoulli"}, [(0.5,), (1.5,)], r"targets\[1\]: p must lie in \[0, 1\]"),
        ({"family": "wishart"}, [(3.0, np.eye(2)), (1.0, np.eye(2))], "df must be > d - 1 = 1"),
        ({"family": "vonmises"}, [(0.0, 1.0), ([1.0, 1.0], 1.0)], "unit vector"),
        ({"family": "vonmises"}, [(0.0, 1.0), (0.0, -1.0)], "concentration must be >= 0"),
        ({"family": "lognormal"}, [np.ones((5, 1)), -np.ones((5, 1))], r"targets\[1\] must be > 0"),
        ({"family": "cauchy"}, TWO, "family must be one of"),
        ({"family": ()}, TWO, "at least one block"),
        ({"divergence": "kl"}, TWO, "divergence must be one of"),
        ({"covariance": "tied"}, TWO, "covariance must be one of"),
        ({"reg": -1.0}, TWO, "reg must be"),
        ({"reg": 1.0, "family": "poisson"}, [(1.0,), (2.0,)], "reg applies to Gaussian families only"),
        ({"tol": 0.0}, TWO, "tol must be"),
        ({"max_iter": 0}, TWO, "max_iter must be at least 1"),
    ],
)
def test_bad_targets_are_named(options: dict[str, Any], targets: list[Any], message: str) -> None:
    model = ParetoFamily(**options)
    with pytest.raises(ValueError, match=message):
        model.fit(targets)
    assert not hasattr(model, "targets_")


def test_wrong_types_are_named() -> None:
    with pytest.raises(TypeError, match="family must be a name"):
        ParetoFamily(3).fit(TWO)
    with pytest.raises(TypeError, match="labels as y"):
        ParetoFamily().fit(np.zeros((5, 2)))
    with pytest.raises(TypeError, match="must be numeric"):
        ParetoFamily().fit([("a", 1.0), (0.0, 1.0)])
    with pytest.raises(ValueError, match="one label for each row"):
        ParetoFamily().fit(np.zeros((5, 2)), [0, 1])


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([0.5, 0.4], "sum to 1 within 1e-8, got a sum of 0.9"),
        ([1.5, -0.5], "weights must be >= 0, got -0.5"),
        ([1.0], r"shape \(2,\) or \(n, 2\)"),
        ([np.nan, 1.0], "NaN"),
        ([[[0.5, 0.5]]], "shape"),
        (np.empty((0, 2)), "shape"),
    ],
)
def test_bad_weights_are_named(weights: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ParetoFamily().fit(TWO).solve(weights)


def test_bad_calls_are_named() -> None:
    model = ParetoFamily().fit(TWO)
    for call, message in (
        (lambda: model.minimax(scale=[1.0, 0.0]), "scale must be > 0"),
        (lambda: model.minimax(offset=[1.0]), r"offset must have shape \(2,\)"),
        (lambda: model.ray([1.0, -1.0]), "direction must be > 0"),
        (lambda: model.epsilon(2, [1.0, 1.0]), "minimise must be at most 1"),
        (lambda: model.epsilon(0, [1.0, 0.0]), "bounds must be > 0"),
        (lambda: model.epsilon(0, [1.0]), "bounds must have shape"),
        (lambda: model.front(1), "n must be at least 2"),
        (lambda: model.objectives(([0.0, 0.0], np.eye(2))), "family and dimension"),
        (lambda: model.objectives(ParetoFamily("gamma").fit([(1.0, 1.0), (2.0, 1.0)]).targets_[0]), "family"),
        (lambda: model.is_optimal((0.0, 1.0), tol=-1.0), "tol must be"),
        (lambda: model.targets_[0].sample(0), "n must be at least 1"),
        (lambda: model.targets_[0].logpdf([np.nan]), "x holds NaN"),
        (lambda: model.targets_[0].logpdf([[1.0, 2.0]]), r"x must have shape \(n, 1\)"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(TypeError, match="Member or a tuple"):
        model.objectives([0.0, 1.0])
    shared = ParetoFamily("gaussian_known_cov").fit(TWO)
    with pytest.raises(ValueError, match="cov must be that of the targets"):
        shared.objectives((0.0, 2.0))


def test_identical_targets_are_one_point() -> None:
    model = ParetoFamily().fit([(1.0, 2.0), (1.0, 2.0)])
    centre = model.minimax()
    assert centre.converged
    np.testing.assert_allclose(centre.objectives, 0, atol=1e-12)
    assert model.is_optimal((1.0, 2.0))
    assert not model.is_optimal((1.1, 2.0))
    np.testing.assert_allclose(model.hypervolume([2.0, 3.0]), 6.0)


def test_parameters_survive_cloning_and_fit_leaves_input_alone() -> None:
    cov = np.array([[1.0, 0.2], [0.2, 1.0]])
    before = cov.copy()
    model = clone(ParetoFamily("gaussian", reg=0.1, divergence="forward")).fit([([0.0, 0.0], cov), ([1.0, 1.0], cov)])
    np.testing.assert_array_equal(cov, before)
    np.testing.assert_allclose(model.targets_[0].cov, cov + 0.1 * np.eye(2))
    target = model.solve([1.0, 0.0])
    target.params[0][...] = 99.0
    np.testing.assert_allclose(model.solve([1.0, 0.0]).mean, 0.0)


def test_expectations_of_the_named_statistics() -> None:
    """The order of coordinates is part of the interface."""
    gauss = ParetoFamily().fit([([1.0, 2.0], [[2.0, 0.5], [0.5, 1.0]]), GOOD]).targets_[0]
    np.testing.assert_allclose(gauss.expectation, [1, 2, 3, 2.5, 5])
    precision = np.linalg.inv([[2.0, 0.5], [0.5, 1.0]])
    linear = precision @ [1.0, 2.0]
    bend = [-precision[0, 0] / 2, -precision[1, 0], -precision[1, 1] / 2]
    np.testing.assert_allclose(gauss.natural, [*linear, *bend], atol=1e-12)
    gamma = ParetoFamily("gamma").fit([(3.0, 2.0), (1.0, 1.0)]).targets_[0]
    np.testing.assert_allclose(gamma.natural, [-2.0, 3.0])
    np.testing.assert_allclose(gamma.expectation, [1.5, special.digamma(3.0) - np.log(2.0)])
    cells = ParetoFamily("categorical").fit([([0.2, 0.3, 0.5],), ([0.4, 0.3, 0.3],)]).targets_[0]
    np.testing.assert_allclose(cells.natural, np.log([0.4, 0.6]))
    np.testing.assert_allclose(cells.expectation, [0.2, 0.3])
    ball = ParetoFamily(covariance="spherical").fit([([1.0, 2.0], 3.0), ([0.0, 0.0], 1.0)]).targets_[0]
    np.testing.assert_allclose(ball.expectation, [1, 2, 11])
    assert isinstance(ball, Member)


def test_core_works_without_torch() -> None:
    code = (
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] == 'torch': raise ModuleNotFoundError(name, name='torch')\n"
        "sys.meta_path.insert(0, Absent())\n"
        "from paperworks.optim import ParetoFamily, ExponentialFamily\n"
        "print(ParetoFamily('gamma', divergence='forward').fit([(1., 1.), (3., 1.)]).minimax().converged)\n"
        "try:\n    from paperworks.optim import MOVAE\nexcept ImportError as e: print(e)\n"
        "try:\n    ParetoFamily(ExponentialFamily(abs, abs)).fit([(1.,), (2.,)])\nexcept ImportError as e: print(e)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("True")
    assert done.stdout.count('pip install "paperworks[torch]"') == 2
