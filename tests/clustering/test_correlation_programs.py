"""Programs, bounds, searches and roundings against brute force that shares no code with them."""

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from paperworks.clustering import (
    check_constraints,
    clustering_cost,
    exact_correlation_clustering,
    local_search,
    pivot_mix,
    plant_instance,
    solve_canonical_lp,
    solve_cluster_lp,
)
from paperworks.clustering._graphs import read_graph
from paperworks.clustering.correlation.canonical import canonical_lp, packing_bound, pivot
from paperworks.clustering.correlation.pricing import Pricer, enumerate_sets, grow
from paperworks.clustering.correlation.problem import make_instance
from paperworks.clustering.correlation.rounding import draw
from paperworks.clustering.correlation.search import improve, neighbourhoods, set_search

NONE = np.empty((0, 2), dtype=np.int64)


def partitions(n: int) -> Iterator[list[int]]:
    """All set partitions as restricted growth strings."""

    def extend(head: list[int], top: int) -> Iterator[list[int]]:
        if len(head) == n:
            yield head
            return
        for label in range(top + 2):
            yield from extend([*head, label], max(top, label))

    yield from extend([0], 0)


def cost_of(W, labels) -> float:
    """Pairs that the labels contradict, one by one; W holds signed weights."""
    return sum(
        abs(W[i, j]) for i, j in itertools.combinations(range(len(W)), 2) if (W[i, j] > 0) != (labels[i] == labels[j])
    )


def best_cost(W, must, cannot) -> float:
    return min(
        cost_of(W, labels)
        for labels in partitions(len(W))
        if all(labels[a] == labels[b] for a, b in must) and all(labels[a] != labels[b] for a, b in cannot)
    )


def problem(n: int, seed: int, *, weighted: bool = False):
    """A random graph with random constraints that do not contradict each other."""
    rng = np.random.default_rng(seed)
    signs = np.where(rng.random((n, n)) < rng.uniform(0.2, 0.8), 1.0, -1.0)
    if weighted:
        signs *= rng.choice([0.0, 0.5, 1.0, 2.25, 7.0], size=(n, n))
    W = np.triu(signs, 1)
    W += W.T
    group = rng.integers(max(2, n // 2), size=n)
    pairs = list(itertools.combinations(range(n), 2))
    rng.shuffle(pairs)
    chosen = pairs[: rng.integers(0, n // 2 + 1)]
    must = [(int(a), int(b)) for a, b in chosen if group[a] == group[b]]
    cannot = [(int(b), int(a)) for a, b in chosen if group[a] != group[b]]
    return W, must, cannot


def adjacency(W):
    return (W > 0).astype(int)


def dense_canonical(W, must, cannot) -> float:
    """The canonical program with all triangles at once."""
    n = len(W)
    number = {pair: k for k, pair in enumerate(itertools.combinations(range(n), 2))}
    index = lambda a, b: number[min(a, b), max(a, b)]  # noqa: E731
    rows = []
    for u, v, w in itertools.permutations(range(n), 3):
        if u < w:
            row = np.zeros(len(number))
            row[index(u, w)], row[index(u, v)], row[index(v, w)] = 1, -1, -1
            rows.append(row)
    bounds = [(0.0, 1.0)] * len(number)
    for a, b in must:
        bounds[index(a, b)] = (0.0, 0.0)
    for a, b in cannot:
        bounds[index(a, b)] = (1.0, 1.0)
    cost = np.array([W[pair] for pair in number])
    result = linprog(cost, A_ub=np.array(rows), b_ub=np.zeros(len(rows)), bounds=bounds)
    return result.fun - cost[cost < 0].sum()


def dense_cluster(W, must, cannot) -> float:
    """The cluster program over all legal sets of the original nodes, without contraction."""
    n = len(W)
    sets, value = [], []
    for code in range(1, 2**n):
        inside = [(code >> i) & 1 for i in range(n)]
        if any(inside[a] != inside[b] for a, b in must) or any(inside[a] and inside[b] for a, b in cannot):
            continue
        sets.append(inside)
        value.append(sum(W[i, j] for i, j in itertools.combinations(range(n), 2) if inside[i] and inside[j]))
    result = linprog(-np.array(value), A_eq=np.array(sets, float).T, b_eq=np.ones(n))
    return np.triu(np.where(W > 0, W, 0)).sum() + result.fun


@given(st.integers(2, 7), st.integers(0, 10**6), st.booleans())
@settings(max_examples=40, deadline=None)
def test_bounds_bracket_the_optimum(n: int, seed: int, weighted: bool) -> None:
    W, must, cannot = problem(n, seed, weighted=weighted)
    X = W if weighted else adjacency(W)
    best = best_cost(W, must, cannot)
    canonical, _ = solve_canonical_lp(X, must, cannot, weights=weighted)
    bound, sets, x, status = solve_cluster_lp(X, must, cannot, weights=weighted)
    tol = 1e-6 * max(1.0, np.abs(W).max())
    assert status == "optimal"
    assert canonical <= bound + tol
    assert bound <= best + tol
    if n > 2:
        assert canonical == pytest.approx(dense_canonical(W, must, cannot), abs=tol)
    assert bound == pytest.approx(dense_cluster(W, must, cannot), abs=tol)
    graph = read_graph(X, weighted=weighted)
    pairs = (np.array(p, dtype=np.int64).reshape(-1, 2) for p in (must, cannot))
    instance = make_instance(graph, *pairs, weights=weighted)
    assert packing_bound(instance)[0] <= canonical + tol
    # z is a solution, and x says what z says
    member = np.zeros((len(sets), n))
    for k, (nodes, _) in enumerate(sets):
        member[k, list(nodes)] = 1
    z = np.array([weight for _, weight in sets])
    np.testing.assert_allclose(z @ member, 1, atol=1e-7)
    np.testing.assert_allclose(x, 1 - (member.T * z) @ member - np.diag(1 - z @ member), atol=1e-7)
    paid = np.where(W > 0, x, 0) * W + np.where(W < 0, 1 - x, 0) * -W
    assert np.triu(paid, 1).sum() == pytest.approx(bound, abs=tol)
    labels, cost = exact_correlation_clustering(X, must, cannot, weights=weighted)
    assert cost == pytest.approx(best)
    assert cost_of(W, labels) == pytest.approx(best)
    assert check_constraints(labels, must, cannot) == 0


@given(st.integers(3, 8), st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_relaxed_pricing_agrees_with_enumeration(n: int, seed: int) -> None:
    """The relaxation bounds all gains from above, the integer program attains the greatest, local search is below."""
    rng = np.random.default_rng(seed)
    W, _, cannot = problem(n, seed, weighted=True)
    hostile = np.zeros((n, n), dtype=bool)
    for a, b in cannot:
        hostile[a, b] = hostile[b, a] = True
    linear = rng.normal(scale=2.0, size=n)
    everything = enumerate_sets(W + np.diag(linear), hostile)
    brute = max(
        sum(W[i, j] for i, j in itertools.combinations(S, 2)) + linear[list(S)].sum()
        for r in range(1, n + 1)
        for S in itertools.combinations(range(n), r)
        if not hostile[np.ix_(S, S)].any()
    )
    assert everything.value.max() == pytest.approx(brute)
    found, bound = Pricer(W, hostile, np.inf).best(linear, 1e-7)
    assert bound >= brute - 1e-6
    if brute > 1e-6:
        gains = [sum(W[i, j] for i, j in itertools.combinations(np.flatnonzero(S), 2)) + linear[S].sum() for S in found]
        assert max(gains) >= brute / 1.31 - 1e-6
        assert not any(hostile[np.ix_(S, S)].any() for S in found)
    else:
        assert bound <= 1e-6
        assert len(found) == 0
    for S in grow(W, linear, hostile, 1e-9):
        assert not hostile[np.ix_(S, S)].any()
        assert (
            0 < sum(W[i, j] for i, j in itertools.combinations(np.flatnonzero(S), 2)) + linear[S].sum() <= brute + 1e-9
        )


@pytest.mark.parametrize(("n", "noise", "seed"), [(16, 0.3, 0), (18, 0.25, 1)])
def test_integer_pricing_and_enumeration_give_one_value(n: int, noise: float, seed: int) -> None:
    X, must, cannot, _ = plant_instance(n, 4, noise, 3, 3, seed)
    by_mip = solve_cluster_lp(X, must, cannot, pricing="mip")
    by_sets = solve_cluster_lp(X, must, cannot, pricing="enumerate")
    assert by_mip[3] == by_sets[3] == "optimal"
    assert by_mip[0] == pytest.approx(by_sets[0], abs=1e-5)
    by_search = solve_cluster_lp(X, must, cannot, pricing="heuristic")
    assert by_search[0] <= by_sets[0] + 1e-6


def test_bound_is_valid_whenever_the_clock_stops() -> None:
    X, must, cannot, _ = plant_instance(24, 4, 0.25, 4, 4, 3)
    best, _, _, status = solve_cluster_lp(X, must, cannot)
    assert status == "optimal"
    for limit in (1e-6, 0.01, 0.05, 0.2):
        bound = solve_cluster_lp(X, must, cannot, time_limit=limit)[0]
        assert 0 <= bound <= best + 1e-6


@given(st.integers(4, 12), st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_local_optimum_keeps_the_inequality_of_the_paper(n: int, seed: int) -> None:
    """cost(L) <= 2 LP - LP(minus part) - sum of x over the pairs that L gets wrong (section 3.4)."""
    W, must, cannot = problem(n, seed)
    X = adjacency(W)
    value, sets, x, _ = solve_cluster_lp(X, must, cannot)
    instance = make_instance(read_graph(X), *(np.array(p, dtype=np.int64).reshape(-1, 2) for p in (must, cannot)))
    labels = local_search(X, [nodes for nodes, _ in sets], instance.group)
    assert check_constraints(labels, must, cannot) == 0
    same = labels[:, None] == labels
    upper = np.triu(np.ones((n, n), dtype=bool), 1)
    wrong = upper & ((W > 0) != same)
    minus_part = (1 - x)[upper & (W < 0)].sum()
    assert wrong.sum() == clustering_cost(X, labels)
    assert wrong.sum() <= 2 * value - minus_part - x[wrong].sum() + 1e-5
    # no set of the family improves the result, by counting
    for nodes, _ in sets:
        moved = labels.copy()
        moved[list(nodes)] = n
        assert cost_of(W, moved) >= cost_of(W, labels)


def test_penalty_counts_cut_plus_pairs_twice() -> None:
    for seed in range(20):
        W, _, _ = problem(7, seed)
        X, rng = adjacency(W), np.random.default_rng(seed)
        L, start = rng.integers(3, size=7), np.arange(7)
        sets = [np.flatnonzero(rng.random(7) < 0.5) for _ in range(12)]
        sets = [S for S in sets if S.size]

        def penalised(labels, W=W, L=L) -> float:
            twice = sum(
                1
                for i, j in itertools.combinations(range(7), 2)
                if W[i, j] > 0 and L[i] != L[j] and labels[i] != labels[j]
            )
            return cost_of(W, labels) + twice

        found = local_search(X, sets, start, penalty_labels=L)
        assert penalised(found) <= penalised(start)
        for S in sets:
            moved = found.copy()
            moved[S] = 99
            assert penalised(moved) >= penalised(found)


def test_rounding_separates_with_the_probability_of_the_paper() -> None:
    X, _, _, _ = plant_instance(9, 2, 0.5, random_state=12)
    _, sets, _, _ = solve_cluster_lp(X)
    mixed = [(S, z) for S, z in sets if 0.01 < z < 0.99]
    if not mixed:  # an integral solution would show nothing: average it with single nodes
        sets = [(S, z / 2) for S, z in sets] + [((i,), 0.5) for i in range(9)]
    member = np.zeros((len(sets), 9), dtype=bool)
    for k, (nodes, _) in enumerate(sets):
        member[k, list(nodes)] = True
    z = np.array([weight for _, weight in sets])
    x = 1 - (member.T * z) @ member
    labels = draw(member, z, 20_000, np.random.RandomState(0))
    apart = (labels[:, :, None] != labels[:, None, :]).mean(axis=0)
    expected = 2 * x / (1 + x)
    np.fill_diagonal(expected, 0)
    assert np.ptp(expected[np.triu_indices(9, 1)]) > 0.1
    np.testing.assert_allclose(apart, expected, atol=0.015)


@given(st.lists(st.tuples(*[st.integers(0, 3)] * 3), min_size=1, max_size=14))
def test_mix(triples: list[tuple[int, int, int]]) -> None:
    three = np.array(triples).T
    mixed = pivot_mix(*three)
    for i, j in itertools.combinations(range(len(mixed)), 2):
        shared = int((three[:, i] == three[:, j]).sum())
        if mixed[i] == mixed[j]:
            assert shared >= 1
        if shared == 3:
            assert mixed[i] == mixed[j]
    # the largest class comes out with all that differ from it once
    classes, count = np.unique(three, axis=1, return_counts=True)
    if (count == count.max()).sum() == 1:
        largest = classes[:, [count.argmax()]]
        near = (three != largest).sum(axis=0) <= 1
        assert len(set(mixed[near])) == 1
        assert not set(mixed[near]) & set(mixed[~near])


def test_mix_by_hand() -> None:
    # classes 000 (2 nodes), 001, 011: the first takes 001; 011 differs twice and stays alone
    np.testing.assert_array_equal(pivot_mix([0, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 1]), [0, 0, 0, 1])


@given(st.integers(3, 9), st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_pivot_costs_at_most_three_times_its_program(n: int, seed: int) -> None:
    W, must, cannot = problem(n, seed)
    pairs = (np.array(p, dtype=np.int64).reshape(-1, 2) for p in (must, cannot))
    instance = make_instance(read_graph(adjacency(W)), *pairs)
    answer = canonical_lp(instance)
    labels = instance.expand(pivot(instance, answer.x))
    assert answer.solved
    assert check_constraints(labels, must, cannot) == 0
    assert cost_of(W, labels) <= 3 * answer.bound + 1e-5


def test_pivot_keeps_hostile_nodes_at_one_half_apart() -> None:
    """Centre 0 with two plus neighbours that must stay apart: both lie at 1/2 in a solution that is symmetric."""
    instance = make_instance(read_graph([(0, 1), (0, 2)]), NONE, np.array([[1, 2]]))
    x = np.array([[0, 0.5, 0.5], [0.5, 0, 1], [0.5, 1, 0]])
    labels = pivot(instance, x)
    assert labels[1] != labels[2]
    # an unsolved program may put hostile nodes together; the pivot may not
    assert len(set(pivot(instance, np.zeros((3, 3)))[1:])) == 2


@given(st.integers(2, 8), st.integers(0, 10**6), st.booleans())
@settings(max_examples=40, deadline=None)
def test_heuristics_are_legal_and_counted_right(n: int, seed: int, weighted: bool) -> None:
    W, must, cannot = problem(n, seed, weighted=weighted)
    X = W if weighted else adjacency(W)
    pairs = (np.array(p, dtype=np.int64).reshape(-1, 2) for p in (must, cannot))
    instance = make_instance(read_graph(X, weighted=weighted), *pairs, weights=weighted)
    family = neighbourhoods(instance)
    assert not (((family @ instance.hostile) * family).sum() > 0)
    for labels in (improve(instance), set_search(instance, family, np.arange(instance.m))):
        assert check_constraints(labels[instance.group], must, cannot) == 0
        assert instance.cost(labels) == pytest.approx(cost_of(W, labels[instance.group]))


@given(st.integers(2, 8), st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_no_move_or_merge_improves_a_refined_clustering(n: int, seed: int) -> None:
    W, must, cannot = problem(n, seed)
    pairs = (np.array(p, dtype=np.int64).reshape(-1, 2) for p in (must, cannot))
    instance = make_instance(read_graph(adjacency(W)), *pairs)
    labels = improve(instance)
    cost = instance.cost(labels)
    k = int(labels.max()) + 1
    nodes = np.arange(instance.m)
    moves = [np.where(nodes == a, to, labels) for a in nodes for to in range(k + 1)]
    merges = [np.where(labels == a, b, labels) for a, b in itertools.combinations(range(k), 2)]
    for trial in moves + merges:
        if check_constraints(trial[instance.group], must, cannot) == 0:
            assert instance.cost(trial) >= cost


def test_dynamic_program_needs_a_small_problem() -> None:
    with pytest.raises(ValueError, match="max_n = 5"):
        exact_correlation_clustering(np.zeros((6, 6)), max_n=5)
    labels, cost = exact_correlation_clustering(np.zeros((6, 6)), [(0, 5)], max_n=5)
    assert cost == 1
    assert labels[0] == labels[5]


@pytest.mark.slow
def test_all_set_partitions_of_nine_nodes() -> None:
    assert sum(1 for _ in partitions(9)) == 21147
    for seed in range(5):
        W, must, cannot = problem(9, seed)
        best = best_cost(W, must, cannot)
        assert exact_correlation_clustering(adjacency(W), must, cannot)[1] == best
        assert solve_cluster_lp(adjacency(W), must, cannot)[0] <= best + 1e-6
