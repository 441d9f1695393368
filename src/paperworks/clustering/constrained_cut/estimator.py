"""The estimator: reads both graphs, solves the eigenproblem, rounds, and says how good the cut is."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.cluster import KMeans
from sklearn.neighbors import NearestNeighbors
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from paperworks._checks import check_choice, check_integer, check_positive
from paperworks._numerics.kernels import squared_distances
from paperworks.clustering._graphs import Graph
from paperworks.clustering.constrained_cut.bounds import Bounds, bounds_of
from paperworks.clustering.constrained_cut.cuts import Labels, best_sweep, check_min_fraction, ratio_of
from paperworks.clustering.constrained_cut.inputs import dissimilarity, joined, pair_matrix, read_both
from paperworks.clustering.constrained_cut.problem import Floats, Problem, components, degrees, read_similarities
from paperworks.clustering.constrained_cut.spectrum import Pencil, grounded, neutral_pairs, potential_pairs

__all__ = ["ConstrainedSpectralCut"]

_FAINT = 1e-3  # background where H alone does not reach every node or is not connected
_UNEVEN = 1e4


class ConstrainedSpectralCut(ClusterMixin, BaseEstimator):
    """Spectral clustering of a similarity graph under a graph of dissimilarities or pair constraints.

    Minimises the cut of G (similarity, with must-link pairs added) over the cut of H (dissimilarity or cannot-link
    pairs, with a background that makes the problem the normalised cut where nothing is known).

    Parameters
    ----------
    n_clusters : int, default=2
        Number of clusters, from 2 to the number of nodes.
    affinity : {"nearest_neighbors", "rbf", "precomputed"} or callable, default="nearest_neighbors"
        How G is made from `X`: the symmetric graph of nearest neighbours, whose pieces are joined by their shortest
        edges at weight 1/2; a dense Gaussian kernel, which pair constraints hardly move; `X` is G; or a function of `X`
        that returns the (n, n) weights.
    gamma : float or "median", default="median"
        Factor in exp(-gamma ||x - y||^2); 1 over the median squared distance.
    n_neighbors : int, default=10
        Neighbours of each point.
    must_link_weight, cannot_link_weight : float or "auto", default="auto"
        Weight that a pair adds to G or H; the mean degree of the similarity graph.
    background : float or "auto", default="auto"
        Factor b of the dense part b d d^T / vol(G) of H. "auto": 1 if H is made from pairs; if `H` is given, 0 if it is
        connected, else 0.001.
    self_loops : {"potential", "neutral"}, default="potential"
        What the loops that even out the degrees do: act as a potential, which keeps the vector off single nodes and
        reproduces the paper's experiments, or nothing, as in the paper's theory.
    loop_weight : float or "auto", default="auto"
        Weight of the negative loop of the neutral problem, which does not change the result; a fortieth of H's mean
        degree.
    loop_vertex : int or "auto", default="auto"
        Its node; the one with the largest degree in H.
    assign : {"sweep", "median", "sign", "kmeans"}, default="sweep"
        How two clusters are read off the vector: the split of the sorted entries with the least ratio, entries above
        the median, positive entries (of the neutral vector: above its mean by degrees in H), or k-means.
    min_fraction : float, default=0.1
        Least share of the nodes on either side of a sweep, in [0, 0.5). On noisy graphs the least ratio of all is often
        that of a single node.
    multiway : {"kmeans", "recursive"}, default="kmeans"
        For more than two clusters: k-means on the eigenvectors, or splitting again and again the part whose best split
        has the least ratio.
    eigen_solver : {"auto", "dense", "arpack", "lobpcg"}, default="auto"
        "auto" is dense up to 1,500 nodes, then ARPACK with one sparse factorisation. "lobpcg" needs no factorisation
        and uses an algebraic multigrid if `pyamg` is installed.
    random_state : int, RandomState or None, default=None
        For k-means and the start of iterative solvers.
    n_jobs : int or None, default=None
        Threads of the search for neighbours.

    Attributes
    ----------
    labels_ : ndarray of shape (n,)
        Cluster of each node, 0 to n_clusters - 1.
    cut_ratio_ : float or ndarray of shape (n_clusters,)
        w_G / w_H of the result, with the weights of pairs and background; for more than two clusters that of each
        against the rest.
    unrestricted_cut_ratio_ : float
        Least ratio of the sweep without `min_fraction` (two clusters; NaN otherwise).
    eigenvalues_ : ndarray of shape (k,)
        Ascending, of the problem that was solved; the first is 0 in the neutral one.
    eigenvectors_ : ndarray of shape (n, k)
        Their vectors; the first entry that is not zero is positive.
    scale_ : float
        c_0, the least d_H / d_G.
    lower_bound_, upper_bound_, cheeger_bound_ : float
        No cut into two has a ratio below the first; some cut has one below the second, which is at most the third (the
        bound of the theorem). Computed when they are first read.
    satisfied_ : dict
        Shares of the "must" and "cannot" pairs that the labels respect; NaN without such pairs.
    affinity_matrix_, constraint_matrix_ : csr_array of shape (n, n)
        G with the must-link weights, and H with the cannot-link weights but without background.
    background_ : float
        The factor of the background.
    loop_vertex_, loop_weight_ : int, float
        Node and weight of the negative loop.
    n_features_in_ : int
        Columns of `X`, if it holds features.

    References
    ----------
    J. S. Fabila-Carrasco, H. Sun, "Signed Laplacians for Constrained Graph Clustering", ICML 2025: section 3 (ratio and
    theorem), section 4 (negative loop). The reading of the self-loops as a potential, the background for pairs, the
    rounding with a smallest share and more than two clusters are not from the paper.

    Examples
    --------
    >>> import numpy as np
    >>> from paperworks.clustering import ConstrainedSpectralCut
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(60, 2)) * [2, 1]  # one blob, longer than wide
    >>> top, bottom = np.flatnonzero(X[:, 1] > 0.7), np.flatnonzero(X[:, 1] < 0.3)
    >>> pairs = [(u, v) for u in top for v in bottom]  # but above and below are known to differ
    >>> labels = ConstrainedSpectralCut(random_state=0).fit(X, cannot_link=pairs).labels_
    >>> bool((labels[top] == labels[top[0]]).all() and (labels[bottom] != labels[top[0]]).all())
    True
    """

    def __init__(
        self,
        n_clusters: int = 2,
        *,
        affinity: str | Callable[[Any], ArrayLike] = "nearest_neighbors",
        gamma: float | Literal["median"] = "median",
        n_neighbors: int = 10,
        must_link_weight: float | Literal["auto"] = "auto",
        cannot_link_weight: float | Literal["auto"] = "auto",
        background: float | Literal["auto"] = "auto",
        self_loops: Literal["potential", "neutral"] = "potential",
        loop_weight: float | Literal["auto"] = "auto",
        loop_vertex: int | Literal["auto"] = "auto",
        assign: Literal["sweep", "median", "sign", "kmeans"] = "sweep",
        min_fraction: float = 0.1,
        multiway: Literal["kmeans", "recursive"] = "kmeans",
        eigen_solver: Literal["auto", "dense", "arpack", "lobpcg"] = "auto",
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.affinity = affinity
        self.gamma = gamma
        self.n_neighbors = n_neighbors
        self.must_link_weight = must_link_weight
        self.cannot_link_weight = cannot_link_weight
        self.background = background
        self.self_loops = self_loops
        self.loop_weight = loop_weight
        self.loop_vertex = loop_vertex
        self.assign = assign
        self.min_fraction = min_fraction
        self.multiway = multiway
        self.eigen_solver = eigen_solver
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(
        self, X: Any, y: Any = None, *, H: Any = None, must_link: Any = None, cannot_link: Any = None
    ) -> ConstrainedSpectralCut:
        """Cut the graph.

        Parameters
        ----------
        X : array-like of shape (n, n_features), or graph
            Features; with ``affinity="precomputed"`` the graph G of non-negative weights as array, sparse matrix,
            networkx.Graph or list of edge tuples.
        y : None
            Ignored.
        H : graph, optional
            Dissimilarities between the same nodes, non-negative, in any of these forms.
        must_link, cannot_link : array-like of shape (r, 2), optional
            Pairs of node numbers, or names if the graph has names.

        Returns
        -------
        ConstrainedSpectralCut
            The fitted estimator.

        Raises
        ------
        ValueError
            If a graph is not square, symmetric and non-negative or G and H differ in size, a node has no edge in G, a
            pair is out of range, of a node with itself, or in both lists, or a parameter is out of range; if H leaves a
            node without weight and `background` is 0.
        TypeError
            If a graph is directed.
        """
        rng = check_random_state(self.random_state)
        self._check_parameters()
        graph = self._similarity(X)
        n = graph.n_nodes
        if n < 3:
            raise ValueError(f"X must hold at least 3 nodes (n_samples), got n_samples = {n}")
        k = check_integer(self.n_clusters, "n_clusters", minimum=2)
        if k > n:
            raise ValueError(f"n_clusters must be at most the number of nodes ({n}), got {k}")
        must, cannot = read_both(must_link, cannot_link, graph)
        self._loop_at = self._check_loop(n)
        problem = self._problem(graph, H, must, cannot)
        self._problem_ = problem
        self._bounds: Bounds | None = None
        self.scale_ = problem.scale
        if H is not None or len(cannot):
            _warn_uneven(problem)
        weight = None if self.loop_weight == "auto" else check_positive(self.loop_weight, "loop_weight")
        self.loop_weight_, nodes = grounded(problem, weight, self._loop_at)
        self.loop_vertex_ = int(nodes[np.argmax(problem.d_H[nodes])]) if self._loop_at is None else self._loop_at
        pencil = self._solve(problem, min(max(k, 2), n), nodes, rng)
        self.eigenvalues_, self.eigenvectors_ = pencil
        count, pieces = components(problem.G)
        self.unrestricted_cut_ratio_ = math.nan
        if count > 1:
            warnings.warn(
                f"the graph G is disconnected ({count} components): no component is split before all are apart",
                UserWarning,
                stacklevel=2,
            )
            self.labels_ = self._from_pieces(problem, pieces, count, k, rng)
        elif k == 2:
            self.labels_ = self._split(problem, pencil, rng)
        elif self.multiway == "recursive":
            self.labels_ = self._recursive(problem, np.zeros(n, dtype=np.int64), k, rng)
        else:
            self.labels_ = _by_kmeans(self._coordinates(pencil, k), k, rng)
        self.cut_ratio_ = ratio_of(problem, self.labels_)
        self.satisfied_ = {
            "must": _share(self.labels_[must[:, 0]] == self.labels_[must[:, 1]]),
            "cannot": _share(self.labels_[cannot[:, 0]] != self.labels_[cannot[:, 1]]),
        }
        return self

    def _check_parameters(self) -> None:
        if not callable(self.affinity):
            check_choice(self.affinity, "affinity", ("nearest_neighbors", "rbf", "precomputed"))
        check_choice(self.self_loops, "self_loops", ("potential", "neutral"))
        check_choice(self.assign, "assign", ("sweep", "median", "sign", "kmeans"))
        check_choice(self.multiway, "multiway", ("kmeans", "recursive"))
        check_choice(self.eigen_solver, "eigen_solver", ("auto", "dense", "arpack", "lobpcg"))
        check_min_fraction(self.min_fraction)
        check_integer(self.n_neighbors, "n_neighbors", minimum=1)
        for name in ("must_link_weight", "cannot_link_weight"):
            if getattr(self, name) != "auto":
                check_positive(getattr(self, name), name)
        if self.background != "auto":
            check_positive(self.background, "background", zero_ok=True)
        if self.gamma != "median":
            check_positive(self.gamma, "gamma")

    def _check_loop(self, n: int) -> int | None:
        if self.loop_vertex == "auto":
            return None
        return check_integer(self.loop_vertex, "loop_vertex", minimum=0, maximum=n - 1)

    def _similarity(self, X: Any) -> Graph:
        if self.affinity == "precomputed":
            return read_similarities(X, "X")
        rows = validate_data(self, X, dtype=np.float64, ensure_min_samples=2)
        if callable(self.affinity):
            graph = read_similarities(np.asarray(self.affinity(X)), "affinity(X)")
            if graph.n_nodes != len(rows):
                raise ValueError(f"affinity(X) must have one node per row ({len(rows)}), got {graph.n_nodes}")
            return graph
        if self.affinity == "rbf":
            apart = squared_distances(rows, rows)
            middle = float(np.median(apart[np.triu_indices(len(rows), 1)])) or 1.0
            weights = np.exp(-apart * (1 / middle if self.gamma == "median" else self.gamma))
            np.fill_diagonal(weights, 0.0)
            return Graph(sparse.csr_array(0.5 * (weights + weights.T)), None, True)
        k = min(self.n_neighbors, len(rows) - 1)
        found = NearestNeighbors(n_neighbors=k, n_jobs=self.n_jobs).fit(rows).kneighbors_graph(mode="connectivity")
        return Graph(joined(sparse.csr_array(0.5 * (found + found.T)), rows), None, False)

    def _problem(self, graph: Graph, H: Any, must: NDArray[np.int64], cannot: NDArray[np.int64]) -> Problem:
        n = graph.n_nodes
        usual = float(degrees(graph.weights).mean())
        weights = {
            name: usual if value == "auto" else float(value)
            for name, value in (("must", self.must_link_weight), ("cannot", self.cannot_link_weight))
        }
        G = sparse.csr_array(graph.weights + pair_matrix(must, weights["must"], n))
        d_G = degrees(G)
        bare = np.flatnonzero(d_G <= 0)
        if bare.size:
            raise ValueError(f"node {graph.name(int(bare[0]))!r} has no edge in X and no must-link: it can't be placed")
        dissimilar = dissimilarity(H, graph) if H is not None else sparse.csr_array((n, n))
        dissimilar = sparse.csr_array(dissimilar + pair_matrix(cannot, weights["cannot"], n))
        if self.background == "auto":
            enough = (degrees(dissimilar) > 0).all() and components(dissimilar)[0] == 1
            self.background_ = 1.0 if H is None else 0.0 if enough else _FAINT
        else:
            self.background_ = float(self.background)
        problem = Problem(G, dissimilar, d_G * math.sqrt(self.background_ / d_G.sum()))
        self.affinity_matrix_, self.constraint_matrix_ = G, dissimilar
        if self.background_ == 0:
            alone = np.flatnonzero(degrees(dissimilar) <= 0)
            if dissimilar.nnz == 0:
                raise ValueError("H is empty and background is 0: there is nothing that should be apart")
            if alone.size:
                name = graph.name(int(alone[0]))
                raise ValueError(f"node {name!r} has no weight in H and background is 0: give a background")
        return problem

    def _solve(self, problem: Problem, k: int, nodes: NDArray[np.int64], rng: np.random.RandomState) -> Pencil:
        k = min(k, problem.n - 1)
        if self.self_loops == "potential":
            return potential_pairs(problem, k, solver=self.eigen_solver, rng=rng)
        return neutral_pairs(problem, k, weight=self.loop_weight_, nodes=nodes, solver=self.eigen_solver, rng=rng)

    def _coordinates(self, pencil: Pencil, k: int) -> Floats:
        """Return what separates k clusters: without the constant vector in the neutral problem."""
        return pencil.vectors[:, :k] if self.self_loops == "potential" else pencil.vectors[:, 1:k]

    def _split(self, problem: Problem, pencil: Pencil, rng: np.random.RandomState) -> Labels:
        """Round a vector to two clusters."""
        f = pencil.vectors[:, 0 if self.self_loops == "potential" else 1]
        swept, _, self.unrestricted_cut_ratio_ = best_sweep(problem, f, self.min_fraction)
        if self.assign == "sweep":
            return swept
        if self.assign == "kmeans":
            return _by_kmeans(f[:, None], 2, rng)
        # The neutral vector is known up to a shift only (the negative loop makes it 0 at one node): centre it.
        middle = 0.0 if self.self_loops == "potential" else float(problem.d_H @ f / problem.d_H.sum())
        labels = (f > (np.median(f) if self.assign == "median" else middle)).astype(np.int64)
        return labels if 0 < labels.sum() < problem.n else swept

    def _recursive(self, problem: Problem, labels: Labels, k: int, rng: np.random.RandomState) -> Labels:
        """Split the part with the least ratio until there are k parts."""
        labels = labels.copy()
        offers: dict[int, tuple[float, Labels]] = {}
        while (count := int(labels.max()) + 1) < k:
            for part in range(count):
                if part not in offers:
                    offers[part] = self._offer(problem, np.flatnonzero(labels == part), rng)
            chosen = min(offers, key=lambda part: (offers[part][0], part))
            nodes = np.flatnonzero(labels == chosen)
            labels[nodes[offers.pop(chosen)[1] == 1]] = count
        return labels

    def _offer(self, problem: Problem, nodes: NDArray[np.int64], rng: np.random.RandomState) -> tuple[float, Labels]:
        """Return the ratio and the labels of the best split of a part; infinite if it can't be split."""
        if len(nodes) < 2:
            return math.inf, np.zeros(len(nodes), dtype=np.int64)
        part = problem.part(nodes)
        count, pieces = components(part.G)
        if count > 1:
            sides = (pieces > 0).astype(np.int64)
            return 0.0, sides
        if len(nodes) == 2:
            sides = np.array([0, 1])
            return float(ratio_of(part, sides)), sides
        if (part.d_H <= 0).any() or not part.is_connected_apart():
            d = part.d_G
            part = part._replace(r=np.hypot(part.r, d * math.sqrt(_FAINT / d.sum())))
        loop, at = grounded(part, None, None)
        if self.self_loops == "potential":
            pencil = potential_pairs(part, 1, solver=self.eigen_solver, rng=rng)
            f = pencil.vectors[:, 0]
        else:
            pencil = neutral_pairs(part, 2, weight=loop, nodes=at, solver=self.eigen_solver, rng=rng)
            f = pencil.vectors[:, 1]
        sides, ratio, _ = best_sweep(part, f, self.min_fraction)
        return ratio, sides

    def _from_pieces(self, problem: Problem, pieces: Labels, count: int, k: int, rng: np.random.RandomState) -> Labels:
        """Group components into k clusters, or split them further if there are too few."""
        if count <= k:
            return self._recursive(problem, pieces, k, rng)
        groups = [[size, i, [i]] for i, size in enumerate(np.bincount(pieces))]
        while len(groups) > k:  # the two smallest together
            groups.sort(key=lambda group: (group[0], group[1]))
            first, second, *rest = groups
            groups = [*rest, [first[0] + second[0], min(first[1], second[1]), [*first[2], *second[2]]]]
        groups.sort(key=lambda group: min(group[2]))
        cluster = np.empty(count, dtype=np.int64)
        for label, (_, _, members) in enumerate(groups):
            cluster[members] = label
        labels: Labels = cluster[pieces]
        return labels

    def _certificate(self) -> Bounds:
        check_is_fitted(self, "labels_")
        if self._bounds is None:
            pencil = Pencil(self.eigenvalues_, self.eigenvectors_) if self.self_loops == "neutral" else None
            rng = np.random.RandomState(0)
            self._bounds = bounds_of(self._problem_, pencil, solver=self.eigen_solver, rng=rng)
        return self._bounds

    @property
    def lower_bound_(self) -> float:
        """No cut into two has a ratio below this."""
        return self._certificate().lower

    @property
    def upper_bound_(self) -> float:
        """Some cut into two has a ratio at most this."""
        return self._certificate().upper

    @property
    def cheeger_bound_(self) -> float:
        """The bound of the theorem, at least `upper_bound_`."""
        return self._certificate().cheeger

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.affinity == "precomputed"
        return tags


def _by_kmeans(points: Floats, k: int, rng: np.random.RandomState) -> Labels:
    """Return k clusters, none of them empty, numbered by their first node."""
    labels = KMeans(k, n_init=10, random_state=rng).fit(points).labels_.astype(np.int64)
    while len(np.unique(labels)) < k:  # equal points: give single nodes of the largest cluster to the empty ones
        empty = next(c for c in range(k) if not (labels == c).any())
        largest = int(np.argmax(np.bincount(labels, minlength=k)))
        labels[np.flatnonzero(labels == largest)[-1]] = empty
    _, first = np.unique(labels, return_index=True)
    order = np.empty(k, dtype=np.int64)
    order[labels[np.sort(first)]] = np.arange(k)
    return order[labels]


def _share(kept: NDArray[np.bool_]) -> float:
    return float(kept.mean()) if kept.size else math.nan


def _warn_uneven(problem: Problem) -> None:
    shares = problem.d_H / problem.d_G
    if shares.max() > _UNEVEN * shares.min():
        warnings.warn(
            f"the degrees of H and G are very uneven (d_H / d_G from {shares.min():.2g} to {shares.max():.2g}): "
            "a larger background evens them out",
            UserWarning,
            stacklevel=3,
        )
