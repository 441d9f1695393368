"""Closed forms against numerical minimisation, and what the geometry of the front promises, in every family."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate
from scipy.optimize import minimize, minimize_scalar

from paperworks.optim import ParetoFamily
from paperworks.optim.pareto_family.hypervolume import volume_of_points
from tests.optim.pareto_family_cases import CASES

BOTH = pytest.mark.parametrize("divergence", ["reverse", "forward"])
ALL = pytest.mark.parametrize("name", CASES)
WEIGHTS = np.array([0.2, 0.5, 0.3])


def close(a: Any, b: Any, rtol: float = 1e-7, atol: float = 1e-9) -> None:
    for left, right in zip(a, b, strict=True):
        np.testing.assert_allclose(left, right, rtol=rtol, atol=atol)


@ALL
@BOTH
def test_closed_form_is_the_numerical_minimum(name: str, divergence: str) -> None:
    case = CASES[name]
    pareto = case.fitted(divergence)

    def weighted(v: np.ndarray) -> float:
        return float(WEIGHTS @ pareto.objectives(case.unpack(v)))

    start = np.random.default_rng(0).normal(scale=0.3, size=case.size)
    found = minimize(weighted, start, method="Nelder-Mead", options={"maxiter": 4000, "maxfev": 4000, "xatol": 1e-9})
    found = minimize(weighted, found.x, method="BFGS", options={"gtol": 1e-9})
    point = pareto.solve(WEIGHTS)
    close(point.params, pareto._as_member(case.unpack(found.x)).params, rtol=2e-5, atol=2e-5)
    assert WEIGHTS @ pareto.objectives(point) <= found.fun + 1e-12


TORCH_KNOWS = [name for name in CASES if name not in ("wishart", "circle", "sphere", "product")]


@pytest.mark.parametrize("name", TORCH_KNOWS)
def test_objectives_are_the_divergences_of_torch(name: str) -> None:
    torch = pytest.importorskip("torch")
    for divergence in ("reverse", "forward"):
        pareto = CASES[name].fitted(divergence)
        point = pareto.solve([0.6, 0.1, 0.3])
        expected = []
        for target in pareto.targets_:
            pair = [point.to_torch(), target.to_torch()]
            expected.append(torch.distributions.kl_divergence(*(pair if divergence == "reverse" else pair[::-1])))
        np.testing.assert_allclose(pareto.objectives(point), expected, rtol=1e-9)


@pytest.mark.parametrize("name", ["wishart", "circle", "sphere"])
def test_objectives_are_the_divergences_of_scipy_densities(name: str) -> None:
    pareto = CASES[name].fitted("reverse")
    point = pareto.solve(WEIGHTS)
    x = point.sample(2_000 if name == "wishart" else 100_000, random_state=0)
    rows = np.moveaxis(x, 0, -1) if name == "wishart" else x
    gaps = np.array([point.to_scipy().logpdf(rows) - t.to_scipy().logpdf(rows) for t in pareto.targets_])
    error = gaps.std(axis=1) / np.sqrt(len(x))
    assert (np.abs(gaps.mean(axis=1) - pareto.objectives(point)) < 4.5 * error).all()
    few = rows[..., :50] if name == "wishart" else rows[:50]
    np.testing.assert_allclose(point.logpdf(x[:50]), point.to_scipy().logpdf(few))


@ALL
@BOTH
def test_vertices_are_the_targets(name: str, divergence: str) -> None:
    pareto = CASES[name].fitted(divergence)
    front = pareto.front(weights=np.eye(3))
    for i, target in enumerate(pareto.targets_):
        close(front.members[i].params, target.params, rtol=0, atol=0)
        assert front.objectives[i, i] == 0
        np.testing.assert_allclose(pareto.objectives(target)[i], 0, atol=1e-12)
    off = front.objectives[~np.eye(3, dtype=bool)]
    assert (off > 1e-3).all()


@ALL
@BOTH
def test_members_lie_in_the_hull_of_the_right_coordinates(name: str, divergence: str) -> None:
    pareto = CASES[name].fitted(divergence)
    weights = np.random.default_rng(1).dirichlet(np.ones(3), size=20)
    members = pareto.solve(weights)
    got = members.natural if divergence == "reverse" else members.expectation
    corners = pareto.natural_ if divergence == "reverse" else pareto.expectation_
    np.testing.assert_allclose(got, weights @ corners, rtol=1e-8, atol=1e-8)
    close(pareto.solve(weights[3]).params, members[3].params)


@ALL
@BOTH
def test_weights_of_undoes_solve(name: str, divergence: str) -> None:
    pareto = CASES[name].fitted(divergence)
    for weights in (WEIGHTS, np.array([0.0, 0.4, 0.6]), np.array([1.0, 0.0, 0.0])):
        point = pareto.solve(weights)
        found, residual = pareto.weights_of(point, return_residual=True)
        assert residual < 1e-6
        np.testing.assert_allclose(pareto.objectives(pareto.solve(found)), pareto.objectives(point), atol=1e-6)
        if pareto.natural_.shape[1] >= 2 and name != "product":
            np.testing.assert_allclose(found, weights, atol=1e-5)
        assert pareto.is_optimal(point)


@ALL
@BOTH
def test_nothing_dominates_the_front_and_random_members_are_dominated(name: str, divergence: str) -> None:
    case = CASES[name]
    pareto = case.fitted(divergence)
    front = pareto.front(66)
    rng = np.random.default_rng(2)
    inside = 0
    for _ in range(30):
        member = case.unpack(rng.normal(scale=1.0, size=case.size))
        values = pareto.objectives(member)
        assert (values - front.objectives).max(axis=1).min() > -1e-9
        better = pareto.dominating(member)
        gain = (better.objectives - values).max()
        assert better.converged
        assert gain <= 1e-9
        inside += gain > -1e-6
        assert pareto.is_optimal(member) == (gain >= -1e-6)
    if case.size > 2:
        assert inside < 30


@ALL
@BOTH
def test_centre_equalises_and_beats_a_grid(name: str, divergence: str) -> None:
    pareto = CASES[name].fitted(divergence)
    centre = pareto.minimax()
    assert centre.converged
    worst = centre.objectives.max()
    np.testing.assert_allclose(centre.objectives[centre.weights > 1e-6], worst, rtol=1e-7)
    assert worst <= pareto.front(500).objectives.max(axis=1).min() + 1e-9
    scaled = pareto.minimax(scale=[1.0, 2.0, 0.5], offset=[0.1, 0.0, -0.2])
    values = scaled.objectives / [1.0, 2.0, 0.5] + [0.1, 0.0, -0.2]
    np.testing.assert_allclose(values[scaled.weights > 1e-6], values.max(), rtol=1e-7)
    grid = pareto.front(500).objectives / [1.0, 2.0, 0.5] + [0.1, 0.0, -0.2]
    assert values.max() <= grid.max(axis=1).min() + 1e-9
    ray = pareto.ray([3.0, 1.0, 1.0])
    shares = ray.objectives / [3.0, 1.0, 1.0]
    np.testing.assert_allclose(shares[ray.weights > 1e-6], shares.max(), rtol=1e-7)


@ALL
@BOTH
def test_bounds_are_kept_at_the_least_cost(name: str, divergence: str) -> None:
    pareto = CASES[name].fitted(divergence)
    point = pareto.solve(WEIGHTS)
    f = pareto.objectives(point)
    found = pareto.epsilon(1, [f[0], 123.0, f[2]])
    assert found.converged
    assert (found.objectives[[0, 2]] <= f[[0, 2]] * (1 + 1e-7) + 1e-9).all()
    np.testing.assert_allclose(found.objectives[1], f[1], rtol=1e-5)
    loose = pareto.epsilon(0, np.full(3, 1e6))
    np.testing.assert_allclose(loose.objectives[0], 0, atol=1e-9)
    with pytest.raises(ValueError, match="grow by a factor of at least") as caught:
        pareto.epsilon(1, [1e-4, 1.0, 1e-4])
    factor = float(str(caught.value).rpartition(" ")[2])
    two = pareto.epsilon(1, [1e-4 * factor * 1.001, 1.0, 1e-4 * factor * 1.001])
    assert max(two.objectives[[0, 2]]) <= 1e-4 * factor * 1.002


@ALL
@BOTH
def test_front_slope_and_convexity(name: str, divergence: str) -> None:
    case = CASES[name]
    pareto = ParetoFamily(**case.options, divergence=divergence).fit(case.targets[:2])
    t = np.linspace(0, 1, 41)
    f = pareto.front(41).objectives
    assert (np.diff(f[:, 0]) > 0).all()
    assert (np.diff(f[:, 1]) < 0).all()
    steps = np.diff(f, axis=0)
    assert (np.diff(steps[:, 1] / steps[:, 0]) > 0).all()
    for at in (0.2, 0.5, 0.8):
        h = 1e-4
        ends = pareto.front(weights=[[1 - at - h, at + h], [1 - at + h, at - h]]).objectives
        rise = ends[0] - ends[1]
        np.testing.assert_allclose(rise[1] / rise[0], -(1 - at) / at, rtol=1e-5)
    assert t[pareto.front(41).weights[:, 1].argmax()] == 1


PARTITIONED = ["poisson", "exponential", "gamma", "beta", "dirichlet", "wishart", "circle", "sphere"]


@pytest.mark.parametrize("name", PARTITIONED)
def test_weighted_objectives_are_the_jensen_gap(name: str) -> None:
    for divergence in ("reverse", "forward"):
        pareto = CASES[name].fitted(divergence)
        point = pareto.solve(WEIGHTS)
        values = [member.family.log_partition(member._stack)[0] for member in (*pareto.targets_, point)]
        if divergence == "forward":  # the conjugate A* = theta . eta - A
            pairs = zip((*pareto.targets_, point), values, strict=True)
            values = [member.natural @ member.expectation - a for member, a in pairs]
        gap = WEIGHTS @ values[:3] - values[3]
        np.testing.assert_allclose(WEIGHTS @ pareto.objectives(point), gap, rtol=1e-12, atol=1e-12)


def test_weighted_objectives_are_the_jensen_gap_of_gaussians() -> None:
    def log_partition(mean: np.ndarray, cov: np.ndarray) -> float:
        return float(mean @ np.linalg.solve(cov, mean) + np.linalg.slogdet(2 * np.pi * cov)[1]) / 2

    def negative_entropy(mean: np.ndarray, cov: np.ndarray) -> float:
        return float(-np.linalg.slogdet(2 * np.pi * np.e * cov)[1]) / 2

    for divergence, function in (("reverse", log_partition), ("forward", negative_entropy)):
        pareto = CASES["gaussian-full"].fitted(divergence)
        point = pareto.solve(WEIGHTS)
        gap = WEIGHTS @ [function(*target.params) for target in pareto.targets_] - function(*point.params)
        np.testing.assert_allclose(WEIGHTS @ pareto.objectives(point), gap, rtol=1e-12, atol=1e-12)


# Gaussian closed forms


@given(st.floats(0, 1))
def test_two_unit_gaussians(t: float) -> None:
    for divergence in ("reverse", "forward"):
        pareto = ParetoFamily(divergence=divergence).fit([(0.0, 1.0), (2.0, 1.0)])
        point = pareto.solve([1 - t, t])
        np.testing.assert_allclose(point.mean, [2 * t], atol=1e-12)
        if divergence == "reverse":
            np.testing.assert_allclose(point.cov, [[1.0]], atol=1e-12)
            np.testing.assert_allclose(pareto.objectives(point), [2 * t**2, 2 * (1 - t) ** 2], atol=1e-12)
        else:  # the projection of the mixture is wider: it covers both
            np.testing.assert_allclose(point.cov, [[1 + 4 * t * (1 - t)]], atol=1e-12)


def test_two_unit_gaussians_of_known_covariance_agree_both_ways() -> None:
    for divergence in ("reverse", "forward"):
        pareto = ParetoFamily("gaussian_known_cov", divergence=divergence).fit([(0.0, 1.0), (2.0, 1.0)])
        centre = pareto.minimax()
        np.testing.assert_allclose(centre.objectives, [0.5, 0.5], atol=1e-10)
        front = pareto.front(11)
        t = front.weights[:, 1]
        np.testing.assert_allclose(front.objectives, np.column_stack([2 * t**2, 2 * (1 - t) ** 2]), atol=1e-12)


@given(st.floats(0, 1), st.floats(0.1, 10))
def test_two_centred_gaussians(t: float, s: float) -> None:
    targets = [(0.0, 1.0), (0.0, s * s)]
    reverse = ParetoFamily(divergence="reverse").fit(targets).solve([1 - t, t])
    forward = ParetoFamily(divergence="forward").fit(targets).solve([1 - t, t])
    np.testing.assert_allclose(1 / reverse.cov, [[1 - t + t / s**2]], rtol=1e-10)
    np.testing.assert_allclose(forward.cov, [[1 - t + t * s**2]], rtol=1e-10)


def spd(rng: np.random.Generator, d: int) -> np.ndarray:
    root = rng.normal(size=(d, d + 2))
    return root @ root.T / d


def test_affine_maps_change_nothing() -> None:
    rng = np.random.default_rng(3)
    targets = [(rng.normal(size=4), spd(rng, 4)) for _ in range(3)]
    member = (rng.normal(size=4), spd(rng, 4))
    B, c = np.diag([1e3, 1.0, 1e-3, 1e5]) @ rng.normal(size=(4, 4)), rng.normal(size=4)

    def moved(pair: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        cov = B @ pair[1] @ B.T
        return B @ pair[0] + c, (cov + cov.T) / 2

    for divergence in ("reverse", "forward"):
        plain = ParetoFamily(divergence=divergence).fit(targets)
        mapped = ParetoFamily(divergence=divergence).fit([moved(t) for t in targets])
        np.testing.assert_allclose(mapped.objectives(moved(member)), plain.objectives(member), rtol=1e-6)
        np.testing.assert_allclose(mapped.front(21).objectives, plain.front(21).objectives, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(mapped.minimax().weights, plain.minimax().weights, atol=1e-6)


def test_forward_covers_and_reverse_averages_precisions() -> None:
    rng = np.random.default_rng(4)
    targets = [(rng.normal(size=3), spd(rng, 3)) for _ in range(3)]
    forward = ParetoFamily(divergence="forward").fit(targets).solve(WEIGHTS)
    reverse = ParetoFamily(divergence="reverse").fit(targets).solve(WEIGHTS)
    mean_cov = sum(w * cov for w, (_, cov) in zip(WEIGHTS, targets, strict=True))
    assert np.linalg.eigvalsh(forward.cov - mean_cov)[0] > 0
    precision = sum(w * np.linalg.inv(cov) for w, (_, cov) in zip(WEIGHTS, targets, strict=True))
    np.testing.assert_allclose(np.linalg.inv(reverse.cov), precision, rtol=1e-9)


def test_averaged_covariances_are_dominated_under_the_reverse_divergence() -> None:
    rng = np.random.default_rng(5)
    targets = [(rng.normal(size=2), spd(rng, 2)) for _ in range(2)]
    pareto = ParetoFamily().fit(targets)
    average = tuple(np.mean(parts, axis=0) for parts in zip(*targets, strict=True))
    gain = (pareto.dominating(average).objectives - pareto.objectives(average)).max()
    assert gain < -1e-3
    assert not pareto.is_optimal(average)
    _, residual = pareto.weights_of(average, return_residual=True)
    assert residual > 1e-2


def test_diagonal_family_is_never_below_the_full_one_forward() -> None:
    case = CASES["gaussian-diag"]
    diagonal = case.fitted("forward").front(45)
    dense = ParetoFamily(divergence="forward").fit([(m, np.diag(v)) for m, v in case.targets]).front(45)
    sums = [(front.weights * front.objectives).sum(axis=1) for front in (diagonal, dense)]
    assert (sums[0] - sums[1] > -1e-12).all()
    assert (sums[0] - sums[1]).max() > 1e-2


def test_weighted_divergences_from_any_density_split_exactly() -> None:
    """For every q the weighted sum is KL(q || p_lambda) + g(lambda): the reverse point is best among all densities."""
    case = CASES["gaussian-full"]
    pareto = case.fitted("reverse")
    point = pareto.solve(WEIGHTS)
    g = WEIGHTS @ pareto.objectives(point)
    q = ([0.3, -0.7], [[0.8, 0.2], [0.2, 1.7]])
    from_point = ParetoFamily().fit([point, pareto.targets_[0]]).objectives(q)[0]
    np.testing.assert_allclose(WEIGHTS @ pareto.objectives(q), from_point + g, rtol=1e-12)
    # a density of no family: uniform on a square, where KL differences need no entropy
    x = np.random.default_rng(6).uniform(-1, 1, size=(1000, 2))
    gaps = WEIGHTS @ np.array([target.logpdf(x) for target in pareto.targets_]) - point.logpdf(x)
    np.testing.assert_allclose(gaps, -g, rtol=1e-9)  # constant, so the identity holds row by row


def test_reverse_centre_of_two_bernoullis_is_their_chernoff_information() -> None:
    a, b = 0.9, 0.25

    def log_sum(t: float) -> float:
        return float(np.log(a ** (1 - t) * b**t + (1 - a) ** (1 - t) * (1 - b) ** t))

    chernoff = -minimize_scalar(log_sum, bounds=(0, 1), method="bounded", options={"xatol": 1e-12}).fun
    centre = ParetoFamily("bernoulli").fit([(a,), (b,)]).minimax()
    np.testing.assert_allclose(centre.objectives, chernoff, rtol=1e-9)
    grid = -min(log_sum(t) for t in np.linspace(0, 1, 2001))
    assert abs(grid - chernoff) < 1e-6


def test_bregman_barycentres_are_those_of_the_moments() -> None:
    """Forward barycentre of samples of equal size = maximum likelihood on all rows together."""
    rng = np.random.default_rng(7)
    samples = [rng.normal(size=(50, 3)) @ rng.normal(size=(3, 3)) + i for i in range(3)]
    pareto = ParetoFamily(divergence="forward").fit(samples)
    pooled = np.concatenate(samples)
    centre = pareto.solve(np.full(3, 1 / 3))
    np.testing.assert_allclose(centre.mean, pooled.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(centre.cov, np.cov(pooled.T, bias=True), atol=1e-10)


def test_entropies_as_offsets_minimise_the_worst_cross_entropy() -> None:
    pareto = CASES["gaussian-diag"].fitted("forward")
    entropy = np.array([target.entropy() for target in pareto.targets_])
    best = pareto.minimax(offset=entropy)
    rng = np.random.default_rng(8)
    x = [target.sample(20_000, rng) for target in pareto.targets_]
    nll = np.array([-best.member.logpdf(rows).mean() for rows in x])
    np.testing.assert_allclose(nll, best.objectives + entropy, atol=0.1)
    assert nll.max() < min(max(-m.logpdf(rows).mean() for rows in x) for m in pareto.front(45).members) + 0.05


# Hypervolume


def test_area_against_the_integral_of_the_closed_form() -> None:
    pareto = ParetoFamily("gaussian_known_cov").fit([(0.0, 1.0), (2.0, 1.0)])
    # f_2 = (sqrt 2 - sqrt f_1)^2: integrate its complement
    for r in ([2.0, 2.0], [3.0, 1.0], [0.7, 5.0]):
        start = (np.sqrt(2) - np.sqrt(min(r[1], 2.0))) ** 2
        expected = integrate.quad(lambda x, r=r: r[1] - max(np.sqrt(2) - np.sqrt(x), 0.0) ** 2, start, r[0], limit=500)[
            0
        ]
        np.testing.assert_allclose(pareto.hypervolume(r), expected, rtol=1e-7)


@pytest.mark.parametrize("name", ["gaussian-full", "gamma", "categorical", "circle"])
@BOTH
def test_area_against_many_points(name: str, divergence: str) -> None:
    case = CASES[name]
    pareto = ParetoFamily(**case.options, divergence=divergence).fit(case.targets[:2])
    f = pareto.front(20_001).objectives
    reference = f.max(axis=0) * [0.6, 1.3]
    x = np.append(f[:, 0], max(reference[0], f[-1, 0]))
    y = np.append(f[:, 1], f[-1, 1])
    keep = np.clip(x, None, reference[0])
    height = np.clip(reference[1] - y, 0, None)
    area = float((np.diff(keep) * (height[1:] + height[:-1]) / 2).sum())
    np.testing.assert_allclose(pareto.hypervolume(reference), area, rtol=1e-5)


def test_volume_of_three_targets() -> None:
    pareto = CASES["gaussian-full"].fitted("reverse")
    reference = np.array([5.0, 4.0, 6.0])
    front = pareto.front(500).objectives
    draws = np.random.default_rng(9).uniform(size=(20_000, 3)) * reference
    hit = np.zeros(len(draws), dtype=bool)
    for point in front:
        hit |= (point <= draws).all(axis=1)
    volume = pareto.hypervolume(reference)
    share = hit.mean()
    error = np.sqrt(share * (1 - share) / len(draws)) * reference.prod()
    assert abs(volume - share * reference.prod()) < 4 * error
    assert 0 < volume < reference.prod()
    with pytest.raises(ValueError, match="reference must be dominated"):
        pareto.hypervolume([1e-3, 1e-3, 1e-3])


def test_volume_of_two_boxes_in_four_dimensions() -> None:
    boxes = np.array([[0.0, 1.0, 0.5, 0.2], [1.0, 0.0, 0.5, 0.2]])
    # union of two boxes: (2 * 1 + 1 * 2 - 1 * 1) in the first two axes, times 0.5 and 0.8
    assert volume_of_points(boxes, np.array([2.0, 2.0, 1.0, 1.0])) == pytest.approx((2 + 2 - 1) * 0.5 * 0.8)


@given(st.lists(st.floats(0.05, 1), min_size=5, max_size=5), st.lists(st.floats(0.05, 1), min_size=5, max_size=5))
def test_many_targets(a: list[float], b: list[float]) -> None:
    """More targets than dimensions: weights aren't unique, objectives are."""
    pareto = ParetoFamily("gamma").fit(list(zip(a, b, strict=True)))
    centre = pareto.minimax()
    assert centre.converged
    worst = centre.objectives.max()
    assert worst <= pareto.front(40).objectives.max(axis=1).min() + 1e-9
    assert (centre.objectives[centre.weights > 1e-5] > worst - 1e-6 * max(worst, 1e-6)).all()
