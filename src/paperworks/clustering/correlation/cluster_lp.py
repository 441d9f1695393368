"""The constrained cluster linear program, by column generation with a bound that is valid at any time.

    LP = (all plus weight) - max sum_S s(S) z_S   with  sum over S containing u of z_S = 1,  z >= 0,

over the legal sets S, where s(S) is plus minus minus weight inside S. A master program holds some sets; its duals y
price the others. A clustering has at most m clusters, so with r an upper bound on s(S) - sum of y over S for every
legal set, the value is at least (all plus weight) - (sum of y + m max(0, r)): true for any y, solved master or not.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from paperworks._checks import check_choice, check_positive
from paperworks.clustering._graphs import read_graph, read_pairs

from .canonical import canonical_lp, pivot, solve
from .pricing import Pricer, enumerate_sets, grow
from .problem import Bools, Floats, Instance, Ints, make_instance
from .search import improve

__all__ = ["PRICING", "ClusterSolution", "cluster_lp", "solve_cluster_lp"]

PRICING = ("auto", "enumerate", "mip", "heuristic")
ENUMERATE_UP_TO = 14


class ClusterSolution(NamedTuple):
    """What is known of the cluster linear program."""

    bound: float
    """Proven lower bound on its value."""
    value: float
    """Value of the solution z, an upper bound on the optimal value."""
    sets: Bools
    """(n_sets, m) sets with z > 0."""
    z: Floats
    """(n_sets,) weights of the sets."""
    status: str
    """``optimal``, ``bound`` or ``time_limit``."""
    n_columns: int

    @property
    def x(self) -> Floats:
        """(m, m) distances: 1 - weight of the sets that hold both."""
        member = self.sets.astype(np.float64)
        x = np.clip(1.0 - (member.T * self.z) @ member, 0.0, 1.0)
        np.fill_diagonal(x, 0.0)
        return x


def cluster_lp(
    instance: Instance,
    starts: list[Ints],
    floor: float,
    *,
    pricing: str = "auto",
    tol: float = 1e-7,
    deadline: float = np.inf,
    report: Callable[[str], None] | None = None,
) -> ClusterSolution:
    """Solve the cluster program.

    `starts` are legal clusterings whose clusters are the first columns; `floor` is a bound proven before, as that of
    the canonical program. The loop ends when the master meets the bound, since nothing can lie between them.
    """
    m = instance.m
    scale = instance.scale
    if pricing == "auto":
        pricing = "enumerate" if m <= ENUMERATE_UP_TO else "mip"
    pool = _first_columns(instance, starts)
    known = {row.tobytes() for row in np.packbits(pool, axis=1)}
    everything = enumerate_sets(instance.W + np.diag(instance.inner), instance.H) if pricing == "enumerate" else None
    pricer = Pricer(instance.W, instance.H, deadline)
    bound, status = floor, "time_limit"
    best = min(starts, key=instance.cost)
    same = best[:, None] == best[None, :]
    center = instance.inner + (instance.W * same).sum(axis=1) / 2.0
    z, value = np.ones(int(best.max()) + 1), instance.cost(best)
    chosen = _clusters_of(best)
    while time.monotonic() < deadline:
        gains = _values(instance, pool)
        result = solve(-gains / scale, deadline, A_eq=pool.T.astype(np.float64), b_eq=np.ones(m))
        if result is None:
            status = "time_limit" if time.monotonic() >= deadline else "bound"
            break
        y = -np.asarray(result.eqlin.marginals) * scale
        value = instance.total_plus - float(gains @ result.x)
        support = result.x > 1e-9
        chosen, z = pool[support], result.x[support]
        if report is not None:
            report(f"cluster LP: {len(pool)} sets, value {value:.6g}, bound {bound:.6g}")
        if value <= bound + tol * max(1.0, abs(bound)):
            status = "optimal"
            break
        y = (
            _central_duals(pool, gains / scale, float(gains @ result.x) / scale, center / scale, y / scale, deadline)
            * scale
        )
        linear = instance.inner - y
        if everything is not None:
            fresh, r = everything.best(y, 3 * m, tol)
        else:
            fresh = grow(instance.W, linear, instance.H, tol * scale)
            r = np.inf
            if not len(fresh):
                if pricing == "heuristic":
                    status = "bound"
                    break
                center = y
                fresh, r = pricer.best(linear, tol * scale)
        if np.isfinite(r):
            bound = max(bound, instance.total_plus - (float(y.sum()) + m * max(0.0, r)))
        codes = np.packbits(fresh, axis=1)
        new = [k for k, code in enumerate(codes) if code.tobytes() not in known]
        if r <= tol * scale:
            status = "optimal"
            bound = max(bound, min(value, instance.total_plus - float(y.sum())) - m * max(0.0, r))
            break
        if not new:
            status = "bound" if time.monotonic() < deadline else "time_limit"
            break
        known.update(codes[k].tobytes() for k in new)
        pool = _purged(pool, gains - pool @ y, support, 30 * m + 200)
        pool = np.concatenate([pool, fresh[new]])
    return ClusterSolution(max(0.0, min(bound, value)), value, chosen, z, status, len(pool))


def _central_duals(pool: Bools, gains: Floats, value: float, center: Floats, plain: Floats, deadline: float) -> Floats:
    """Return optimal duals near `center`: the least greatest deviation, then small ones.

    The master has few sets in its support and many optimal duals. Those that a simplex method returns lie at corners,
    where one node carries a cluster's whole value and many sets seem to gain; those in the middle need few rounds.
    """
    m = center.size
    eye, none = sparse.eye_array(m), None
    ones = sparse.csr_array(np.ones((1, m)))
    above = sparse.csr_array(pool.astype(np.float64))
    most = sparse.csr_array(np.ones((m, 1)))
    result = solve(
        np.concatenate([np.zeros(m), np.full(2 * m, 1.0 / m), [5.0]]),
        deadline,
        A_ub=sparse.block_array([[-above, none, none, none], [none, eye, eye, -most]], format="csr"),
        b_ub=np.concatenate([1e-9 - gains, np.zeros(m)]),
        A_eq=sparse.block_array([[ones, none, none, none], [eye, -eye, eye, sparse.csr_array((m, 1))]], format="csr"),
        b_eq=np.concatenate([[value], center]),
        bounds=[(None, None)] * m + [(0, None)] * (2 * m + 1),
    )
    return plain if result is None else np.asarray(result.x[:m])


def _first_columns(instance: Instance, starts: list[Ints]) -> Bools:
    m = instance.m
    heads, tails = np.nonzero(np.triu((instance.W > 0) & ~instance.H, 1))
    pairs = np.zeros((heads.size, m), dtype=bool)
    pairs[np.arange(heads.size), heads] = pairs[np.arange(heads.size), tails] = True
    parts = [np.eye(m, dtype=bool), pairs, *(_clusters_of(labels) for labels in starts)]
    return np.unique(np.concatenate(parts), axis=0)


def _clusters_of(labels: Ints) -> Bools:
    return labels[None, :] == np.unique(labels)[:, None]


def _values(instance: Instance, sets: Bools) -> Floats:
    """Return s(S) for each set."""
    member = sets.astype(np.float64)
    return np.asarray(((member @ instance.W) * member).sum(axis=1) / 2.0 + member @ instance.inner)


def _purged(pool: Bools, reduced: Floats, support: Bools, limit: int) -> Bools:
    """Keep at most about `limit` sets: the support, single nodes, and those that are closest to entering."""
    if len(pool) <= limit:
        return pool
    reduced = np.where(support | (pool.sum(axis=1) == 1), np.inf, reduced)
    return pool[np.sort(np.argsort(-reduced, kind="stable")[: limit // 2])]


def solve_cluster_lp(
    X: Any,
    must_link: Any = None,
    cannot_link: Any = None,
    *,
    pricing: str = "auto",
    tol: float = 1e-7,
    time_limit: float = 60.0,
    weights: bool = False,
) -> tuple[float, list[tuple[tuple[int, ...], float]], Floats, str]:
    """Solve the constrained cluster linear program (section 3 of the paper) by column generation.

    Parameters
    ----------
    X : array of shape (n, n), sparse matrix, networkx.Graph or list of edges
        The plus pairs, as in `ConstrainedCorrelationClustering`.
    must_link, cannot_link : array-like of shape (r, 2), optional
        Pairs that are certain.
    pricing : {"auto", "enumerate", "mip", "heuristic"}, default="auto"
        How new sets are found: all legal sets are looked at, or local search and, where it finds none, a mixed-integer
        program that proves that there is none, or local search alone. "auto" enumerates up to 14 supernodes and takes
        the mixed-integer program above.
    tol : float, default=1e-7
        Tolerance, relative to the largest weight.
    time_limit : float, default=60.0
        Seconds after which the bound proven so far is returned.
    weights : bool, default=False
        Take the entries of `X` as signed weights.

    Returns
    -------
    lower_bound : float
        Proven lower bound on the cost of every legal clustering; the value of the program if `status` is "optimal".
    sets : list of (tuple of int, float)
        Sets of nodes with their weight z > 0.
    x : ndarray of shape (n, n)
        Distances: 1 - weight of the sets that hold both nodes.
    status : {"optimal", "bound", "time_limit"}
        Whether the program was solved, stopped without proof, or ran out of time.

    Raises
    ------
    ValueError
        If an argument is malformed or the constraints contradict each other.

    Examples
    --------
    >>> from paperworks.clustering import solve_cluster_lp
    >>> bound, sets, x, status = solve_cluster_lp([(0, 1), (0, 2), (0, 3), (0, 4)])
    >>> round(bound, 6), status
    (3.0, 'optimal')
    """
    deadline = time.monotonic() + check_positive(time_limit, "time_limit")
    check_choice(pricing, "pricing", PRICING)
    check_positive(tol, "tol")
    graph = read_graph(X, weighted=weights)
    must, cannot = read_pairs(must_link, graph, "must_link"), read_pairs(cannot_link, graph, "cannot_link")
    instance = make_instance(graph, must, cannot, weights=weights)
    canonical = canonical_lp(instance, tol=tol, deadline=deadline)
    starts = [improve(instance), pivot(instance, canonical.x)]
    answer = cluster_lp(instance, starts, canonical.bound, pricing=pricing, tol=tol, deadline=deadline)
    return answer.bound, expanded(instance, answer), answer.x[np.ix_(instance.group, instance.group)], answer.status


def expanded(instance: Instance, answer: ClusterSolution) -> list[tuple[tuple[int, ...], float]]:
    """Return the sets of a solution as tuples of original nodes."""
    return [
        (tuple(np.flatnonzero(row[instance.group]).tolist()), float(weight))
        for row, weight in zip(answer.sets, answer.z, strict=True)
    ]
