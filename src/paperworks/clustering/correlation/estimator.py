"""The estimator: constraints and a graph in, a clustering and its certificate out."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from scipy import sparse
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from paperworks._checks import check_choice, check_integer, check_positive
from paperworks.clustering._graphs import Graph, read_graph, read_pairs

from .canonical import MARGIN, canonical_lp, packing_bound, pivot
from .cluster_lp import PRICING, ClusterSolution, cluster_lp, expanded
from .problem import Bools, Floats, Instance, Ints, make_instance
from .rounding import draw, pivot_mix, round_and_choose
from .search import improve, legal, membership, neighbourhoods, penalised, refine, set_search

__all__ = ["Certificate", "ConstrainedCorrelationClustering"]

CLUSTER_UP_TO, CANONICAL_UP_TO = 120, 350
BLOCK = 8_000_000  # similarities held at once


class Certificate(NamedTuple):
    """How far a clustering can be from the optimum.

    Parameters
    ----------
    cost : float
        Cost of the clustering.
    lower_bound : float
        No legal clustering costs less.
    ratio : float
        ``cost / lower_bound``; 1 if both are 0, infinite if only the bound is.
    source : {"cluster", "canonical", "packing"}
        Where the bound comes from: a linear program, or a packing of bad triangles.

    Examples
    --------
    >>> from paperworks.clustering import ConstrainedCorrelationClustering
    >>> ConstrainedCorrelationClustering().fit([(0, 1), (1, 2)]).certificate_
    Certificate(cost=1, lower_bound=1.0, ratio=1.0, source='cluster')
    """

    cost: float
    lower_bound: float
    ratio: float
    source: str


class ConstrainedCorrelationClustering(ClusterMixin, BaseEstimator):
    """Cluster by pairwise judgements, some of which are certain, without a number of clusters.

    Each pair of nodes is a plus pair (should be together) or a minus pair (should be apart). The cost of a clustering
    is the number of plus pairs across clusters and minus pairs inside them. Must-links and cannot-links always hold.
    The cluster linear program gives a lower bound on the optimal cost and the sets from which two local searches, a
    rounding and a mix of the three make a clustering (Kalavas, Kipouridis and Varma, ICML 2025, Algorithms 1 to 4),
    which costs at most 1.92 times the program's value.

    Parameters
    ----------
    lp : {"auto", "cluster", "canonical", "none"}, default="auto"
        The program that is solved: the cluster program; the canonical one with triangle inequalities, rounded by
        pivots (factor 3); or none, only local search. "auto" takes them in this order up to 120 and up to 350 nodes
        (groups of must-linked nodes count once) and beyond.
    affinity : "precomputed", "cosine" or callable, default="precomputed"
        "precomputed": `X` is the graph. Otherwise a pair is a plus pair if its similarity is at least `threshold`:
        cosine similarity of the rows of `X`, or ``affinity(X)``, an (n, n) array.
    threshold : float, default=0.5
        Least similarity of a plus pair; not used with "precomputed".
    weights : bool, default=False
        Take the numbers as weights: w > 0 is a plus pair of weight w, w < 0 a minus pair of weight -w, and 0, like an
        absent pair, is indifferent. With an affinity the weight is similarity - `threshold`. The factors of the paper
        are then not promised; the lower bound is as valid.
    n_rounds : int, default=50
        Number of roundings.
    mix : bool, default=True
        Run the second search, the rounding and the mix. Without them the first search alone promises the factor 2.
    polish : bool, default=True
        Improve the result by moves of nodes, merges and splits; also try these from single nodes.
    tol : float, default=1e-7
        Tolerance of the programs, relative to the largest weight.
    pricing : {"auto", "enumerate", "mip", "heuristic"}, default="auto"
        How sets for the cluster program are found, see `solve_cluster_lp`.
    time_limit : float, default=60.0
        Seconds, looked at between steps. The best clustering so far is returned, with the bound proven so far.
    random_state : int, RandomState or None, default=None
        Seed of the roundings.
    n_jobs : int, optional
        Threads that compute cosine similarities.
    verbose : int, default=0
        Print the progress of the cluster program if positive.

    Attributes
    ----------
    labels_ : ndarray of shape (n,)
        Cluster of each node, numbered in order of appearance.
    n_clusters_ : int
        Number of clusters.
    cost_ : int or float
        Cost of the clustering; a float with `weights`.
    certificate_ : Certificate
        Cost, a valid lower bound and their ratio. Without a linear program, or if time ran out before one gave a
        bound, the bound comes from a packing of bad triangles.
    lower_bound_ : float or None
        The bound of the linear program, not rounded up; `lp_value_` if `status_` is "optimal". None for ``lp="none"``.
    gap_ : float or None
        ``cost_ / lower_bound_ - 1``; 0 if both are 0, infinite if only the bound is.
    guarantee_ : {"1.92", "2", "3", None}
        Factor to the linear program that theory promises for this run: "1.92" needs the solved cluster program, "2"
        is that of ``mix=False``, "3" needs the solved canonical program.
    lp_value_ : float or None
        Value of the program; None if it was not solved.
    lp_solution_ : list of (tuple of int, float) or None
        Sets with their weight z > 0, of the last cluster program.
    x_ : ndarray of shape (n, n) or None
        Distances of the program.
    candidates_ : dict
        Cost of each clustering that was made: "local", "penalised", "rounded", "mixed", "pivot", "polished".
    candidate_labels_ : dict
        Labels of each of them.
    status_ : {"optimal", "bound", "time_limit", "heuristic"}
        The program was solved, stopped with a bound only, ran out of time, or was not used.
    n_columns_ : int
        Sets in the last master program.
    timings_ : dict
        Seconds by step.
    node_names_ : list
        Names of the nodes in the order of `labels_`.

    Notes
    -----
    The paper assumes a nearly optimal solution of the cluster program and has withdrawn its own solver; whether one
    exists in polynomial time is open. Here column generation solves it, for as long as that is quick. The last step of
    the paper keeps its factor since `polish` can only lower the cost.

    References
    ----------
    A. Kalavas, E. Kipouridis, N. Varma, "Towards Better-than-2 Approximation for Constrained Correlation Clustering",
    ICML 2025, PMLR 267:28721-28734.

    Examples
    --------
    >>> from paperworks.clustering import ConstrainedCorrelationClustering
    >>> pairs = [("ann", "anne"), ("anne", "anna"), ("bob", "rob"), ("anna", "bob")]
    >>> certain = {"must_link": [("ann", "anna")], "cannot_link": [("anna", "bob")]}
    >>> model = ConstrainedCorrelationClustering().fit(pairs, **certain)
    >>> model.labels_, model.cost_, model.lower_bound_
    (array([0, 0, 0, 1, 1]), 2, 2.0)
    """

    def __init__(
        self,
        *,
        lp: str = "auto",
        affinity: str | Callable[[Any], Any] = "precomputed",
        threshold: float = 0.5,
        weights: bool = False,
        n_rounds: int = 50,
        mix: bool = True,
        polish: bool = True,
        tol: float = 1e-7,
        pricing: str = "auto",
        time_limit: float = 60.0,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.lp = lp
        self.affinity = affinity
        self.threshold = threshold
        self.weights = weights
        self.n_rounds = n_rounds
        self.mix = mix
        self.polish = polish
        self.tol = tol
        self.pricing = pricing
        self.time_limit = time_limit
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        """Say that `X` is a matrix of pairs unless an affinity makes it."""
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.affinity == "precomputed"
        tags.input_tags.sparse = True
        return tags

    def fit(
        self, X: Any, y: Any = None, *, must_link: Any = None, cannot_link: Any = None
    ) -> ConstrainedCorrelationClustering:
        """Cluster.

        Parameters
        ----------
        X : array of shape (n, n), DataFrame, sparse matrix, networkx.Graph or list of edges; or (n, d) features
            The plus pairs: a symmetric matrix of 0 and 1, of False and True, or of -1 and 1 (its diagonal is ignored),
            a graph, or a list of tuples ``(u, v)``. A pair that a sparse matrix, a graph or a list does not hold is a
            minus pair (indifferent with `weights`). Edge attributes of a graph are read with `weights` only. With an
            affinity, features.
        y : None
            Ignored.
        must_link, cannot_link : array-like of shape (r, 2), list of pairs or DataFrame with two columns, optional
            Pairs that are certain, by node numbers, or by names where `X` is a graph or a list of edges. Pairs of a
            node with itself in `must_link` and repeated pairs are ignored.

        Returns
        -------
        ConstrainedCorrelationClustering
            The fitted estimator.

        Raises
        ------
        ValueError
            If an argument is malformed, or the constraints contradict each other; the message shows the chain.
        TypeError
            If the graph is directed, or pairs name nodes of an array.
        """
        start = time.monotonic()
        check_choice(self.lp, "lp", ("auto", "cluster", "canonical", "none"))
        check_choice(self.pricing, "pricing", PRICING)
        n_rounds = check_integer(self.n_rounds, "n_rounds", minimum=1)
        check_positive(self.tol, "tol")
        deadline = start + check_positive(self.time_limit, "time_limit")
        rng = check_random_state(self.random_state)
        graph = self._graph(X)
        instance = make_instance(
            graph,
            read_pairs(must_link, graph, "must_link"),
            read_pairs(cannot_link, graph, "cannot_link"),
            weights=self.weights,
        )
        mode = self.lp
        if mode == "auto":
            mode = (
                "cluster" if instance.m <= CLUSTER_UP_TO else "canonical" if instance.m <= CANONICAL_UP_TO else "none"
            )
        run = _Run(instance, deadline)
        if mode == "cluster":
            run.cluster(self.pricing, self.tol, self.verbose, self.mix, n_rounds, rng)
        elif mode == "canonical":
            run.canonical(self.tol)
        else:
            run.heuristic()
        if self.polish:
            run.polish()
        self._store(run, graph, mode)
        run.clock("other", start)
        return self

    def _graph(self, X: Any) -> Graph:
        """Read `X`, or make a graph of features."""
        if isinstance(self.affinity, str):
            check_choice(self.affinity, "affinity", ("precomputed", "cosine"))
        elif not callable(self.affinity):
            raise TypeError(f"affinity must be 'precomputed', 'cosine' or a function, got {self.affinity!r}")
        if self.affinity == "precomputed":
            graph = read_graph(X, weighted=self.weights)
            self.n_features_in_ = graph.n_nodes
            return graph
        threshold = self.threshold
        if isinstance(threshold, bool) or not isinstance(threshold, int | float | np.number) or np.isnan(threshold):
            raise ValueError(f"threshold must be a number, got {threshold!r}")
        if callable(self.affinity):
            similarity = read_graph(self.affinity(X), "affinity(X)", weighted=True)
            # pairs that are not stored have similarity 0, which the threshold may reach
            return _thresholded([similarity.weights.toarray()], float(threshold), self.weights)
        features = validate_data(self, X, accept_sparse="csr", dtype=np.float64)
        return _thresholded(_cosines(features, self.n_jobs), float(threshold), self.weights)

    def _store(self, run: _Run, graph: Graph, mode: str) -> None:
        instance = run.instance
        name = min(run.found, key=lambda key: run.cost_of(run.found[key]))
        labels = run.found[name]
        cost = run.cost_of(labels)
        whole = not self.weights
        self.labels_ = instance.expand(labels)
        self.n_clusters_ = int(self.labels_.max()) + 1
        self.cost_: float = round(cost) if whole else cost
        self.candidates_ = {
            key: round(run.cost_of(value)) if whole else run.cost_of(value)
            for key, value in run.found.items()
            if key != "greedy"
        }
        self.candidate_labels_ = {key: instance.expand(run.found[key]) for key in self.candidates_}
        self.status_ = run.status
        bound = run.bound
        if bound is not None:
            if whole and 0.0 < np.ceil(bound) - bound < 1e-4:
                bound = float(np.ceil(bound))  # costs are whole numbers: this closes rounding errors only
            bound = float(min(bound, cost))
        self.lower_bound_ = bound
        self.gap_ = None if bound is None else _ratio(cost, bound) - 1.0
        self.lp_value_ = bound if run.status == "optimal" else None
        self.guarantee_ = None if self.weights else run.guarantee
        self.lp_solution_ = None if run.solution is None else expanded(instance, run.solution)
        self.x_ = None if run.x is None else run.x[np.ix_(instance.group, instance.group)]
        self.n_columns_ = 0 if run.solution is None else run.solution.n_columns
        self.timings_ = run.timings
        names: list[Hashable] = list(range(graph.n_nodes)) if graph.names is None else list(graph.names)
        self.node_names_ = names
        if bound is not None and (bound > 0 or run.status == "optimal"):
            source, proven = mode, bound
        else:
            source, proven = "packing", min(packing_bound(instance)[0], cost)
        self.certificate_ = Certificate(self.cost_, float(proven), _ratio(cost, float(proven)), source)
        if time.monotonic() >= run.deadline:
            warnings.warn(
                f"time_limit of {self.time_limit} s reached; the clustering is legal and costs at most "
                f"{self.certificate_.ratio:.4g} times the optimum",
                ConvergenceWarning,
                stacklevel=3,
            )


class _Run:
    """The steps of one fit and what they found; clusterings are of supernodes."""

    def __init__(self, instance: Instance, deadline: float) -> None:
        self.instance, self.deadline = instance, deadline
        self.found: dict[str, Ints] = {}
        self.bound: float | None = None
        self.guarantee: str | None = None
        self.solution: ClusterSolution | None = None
        self.x: Floats | None = None
        self.status = "heuristic"
        self.timings: dict[str, float] = {}
        self.singles = np.arange(instance.m)

    def clock(self, step: str, start: float) -> None:
        """Note the seconds since `start` that no other step has."""
        spent = time.monotonic() - start
        self.timings[step] = spent - (sum(self.timings.values()) if step == "other" else 0.0)

    def cost_of(self, labels: Ints) -> float:
        """Return the cost of a clustering of supernodes."""
        return self.instance.cost(labels)

    def canonical(self, tol: float) -> None:
        """Solve the canonical program, round it by pivots and search over the pivot's clusters."""
        self._solve_canonical(tol)
        start = time.monotonic()
        sets = [np.flatnonzero(self.found["pivot"] == k) for k in range(int(self.found["pivot"].max()) + 1)]
        sets += [np.flatnonzero(row) for row in _near_sets(self.instance, self.x)]
        family = membership(sets, self.instance.m)
        self.found["local"] = set_search(self.instance, family, self.singles, deadline=self.deadline)
        self.clock("search", start)

    def _solve_canonical(self, tol: float) -> None:
        start = time.monotonic()
        answer = canonical_lp(self.instance, tol=tol, deadline=self.deadline)
        self.bound, self.x = answer.bound, answer.x
        self.status = "optimal" if answer.solved else "time_limit" if time.monotonic() >= self.deadline else "bound"
        self.clock("canonical", start)
        start = time.monotonic()
        self.found["pivot"] = pivot(self.instance, answer.x)
        if answer.solved:
            self.guarantee = "3"
        self.clock("pivot", start)

    def cluster(
        self, pricing: str, tol: float, verbose: int, mix: bool, n_rounds: int, rng: np.random.RandomState
    ) -> None:
        """Solve the cluster program and run Algorithms 1 to 4 on its sets."""
        instance = self.instance
        start = time.monotonic()
        self.found["greedy"] = improve(instance, self.deadline)
        self.clock("start", start)
        self._solve_canonical(tol)
        start = time.monotonic()
        report = (lambda line: print(line, flush=True)) if verbose > 0 else None
        answer = cluster_lp(
            instance,
            [self.found["greedy"], self.found["pivot"]],
            self.bound or 0.0,
            pricing=pricing,
            tol=tol,
            deadline=self.deadline,
            report=report,
        )
        self.solution, self.bound, self.status, self.x = answer, answer.bound, answer.status, answer.x
        if answer.status == "optimal":
            self.guarantee = "1.92" if mix else "2"
        self.clock("cluster", start)
        start = time.monotonic()
        family = sparse.csr_array(answer.sets, dtype=np.float64)
        # After the deadline no search starts; roundings still give a clustering.
        local = self.found["local"] = set_search(instance, family, self.singles, deadline=self.deadline)
        if mix:
            signed = penalised(instance, local)
            second = self.found["penalised"] = set_search(
                instance, family, self.singles, signed=signed, deadline=self.deadline
            )
            drawn = draw(answer.sets, answer.z, n_rounds, rng)
            self.found["rounded"], base = round_and_choose(instance, drawn, local, second)
            group = instance.group
            mixed = pivot_mix(local[group], second[group], base[group])
            self.found["mixed"] = mixed[np.unique(group, return_index=True)[1]]
        self.clock("search", start)

    def heuristic(self) -> None:
        """Search over plus neighbourhoods."""
        start = time.monotonic()
        family = neighbourhoods(self.instance, self.deadline)
        self.found["local"] = set_search(self.instance, family, self.singles, deadline=self.deadline)
        self.clock("search", start)

    def polish(self) -> None:
        """Improve the best clustering found, and one from single nodes."""
        start = time.monotonic()
        best = min(self.found.values(), key=self.cost_of)
        ends = [refine(self.instance, best, self.deadline)]
        if "greedy" not in self.found:
            ends.append(improve(self.instance, self.deadline))
        self.found["polished"] = min(ends, key=self.cost_of)
        self.found.pop("greedy", None)
        self.clock("polish", start)


def _near_sets(instance: Instance, x: Floats | None) -> Bools:
    """Return for each supernode those nearer than 1/2, as the pivot would take them with all nodes left."""
    near = np.zeros((instance.m, instance.m), dtype=bool) if x is None else x < 0.5 - MARGIN
    np.fill_diagonal(near, True)
    return near[legal(near, instance.H)]


def _ratio(cost: float, bound: float) -> float:
    if bound > 0:
        return cost / bound
    return 1.0 if cost == 0 else float("inf")


def _cosines(features: Any, n_jobs: int | None) -> list[Floats]:
    """Return cosine similarities in blocks of rows; a row of zeros has similarity 0 to all."""
    if sparse.issparse(features):
        norm = np.sqrt(np.asarray(features.multiply(features).sum(axis=1)).ravel())
    else:
        norm = np.sqrt(np.square(features).sum(axis=1))
    scale = np.divide(1.0, norm, out=np.zeros_like(norm), where=norm > 0)
    unit = (
        sparse.csr_array(sparse.diags_array(scale) @ features)
        if sparse.issparse(features)
        else features * scale[:, None]
    )
    n = len(norm)
    step = max(1, BLOCK // n)

    def block(a: int) -> Floats:
        product = unit[a : a + step] @ unit.T
        return np.asarray(product.toarray() if sparse.issparse(product) else product)

    return list(Parallel(n_jobs=n_jobs, prefer="threads")(delayed(block)(a) for a in range(0, n, step)))


def _thresholded(blocks: list[Floats], threshold: float, weights: bool) -> Graph:
    """Make the graph of similarities given in blocks of rows; pairs are read above the diagonal only."""
    parts, start = [], 0
    n = blocks[0].shape[1]
    for block in blocks:
        above = np.arange(n) > np.arange(start, start + len(block))[:, None]
        # rounding must not separate a similarity of exactly the threshold from it
        kept = above if weights else above & (block >= threshold - 1e-12)
        rows, columns = np.nonzero(kept)
        value = block[rows, columns] - threshold if weights else np.ones(rows.size)
        parts.append((value, rows + start, columns))
        start += len(block)
    value, rows, columns = (np.concatenate(part) for part in zip(*parts, strict=True))
    half = sparse.csr_array((value, (rows, columns)), shape=(n, n))
    half.eliminate_zeros()
    whole = sparse.csr_array(half + half.T)
    whole.sort_indices()
    return Graph(whole, None, False)
