"""How close to the optimum do constrained clusterings of pairwise judgements come, and are the certain pairs kept?

Every data set is a graph of plus pairs with pairs that are certain. All contenders cluster the same graph under the
same constraints; their costs are divided by one proven lower bound, that of the cluster program.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from paperworks.bench.seeds import rng_for, seed_for
from paperworks.bench.study import Claim, Contender, Metric, OwnData, Paper, Scale, Study

if TYPE_CHECKING:
    import numpy as np

    Floats = np.ndarray[Any, np.dtype[np.float64]]
    Ints = np.ndarray[Any, np.dtype[np.int64]]

# name: (nodes, groups, share of flipped signs, constraints)
_PLANTED = {
    "planted-12-20-4": (12, 3, 0.2, 4),
    **{
        f"planted-{n}-{noise}-{count}": (n, 5, noise / 100, count)
        for n in (40, 60, 80)
        for noise in (10, 20, 30)
        for count in (0, 20, 60)
    },
}
_POINTS = {"iris-60": ("iris", 60), "iris": ("iris", 150), "wine": ("wine", 178), "digits-150": ("digits", 150)}
_QUICK = (
    "planted-12-20-4",
    "planted-40-10-0",
    "planted-40-10-20",
    "planted-40-20-0",
    "planted-40-20-20",
    "karate",
    "iris-60",
    "names-60",
)
DATASETS = (
    *_PLANTED,
    "signs-30",
    "karate",
    "les-miserables",
    "southern-women",
    "football",
    *_POINTS,
    "names-60",
)

# contender: the steps of one run of the method that it keeps, of which the cheapest clustering counts
_STEPS = {
    "constrained-cc": (),
    "no-polish": ("local", "penalised", "rounded", "mixed"),
    "no-mix": ("local", "penalised", "rounded"),
    "no-penalty": ("local", "rounded"),
    "local-only": ("local",),
    "pivot-lp": ("pivot",),
}

NAMES = (
    "catherine", "elisabeth", "alexander", "francesca", "gabriella", "christoph", "jonathan", "margarete", "nathaniel",
    "rosalinde", "sebastian", "theodora", "valentina", "wilhelmina", "zachariah",
)  # fmt: skip


class Problem(NamedTuple):
    """A graph, its constraints, and what is known of it."""

    plus: Ints
    """(n, n) 1 for a plus pair."""
    must: Ints
    cannot: Ints
    truth: Ints | None
    points: Floats | None


# Data


def constraints(truth: Ints, count: int, rng: np.random.Generator, wrong: int = 0) -> tuple[Ints, Ints]:
    """Draw half of `count` pairs from one group and half from two; `wrong` of the latter split a group instead."""
    import numpy as np
    from scipy import sparse
    from scipy.sparse.csgraph import connected_components

    n = len(truth)
    rows, columns = np.triu_indices(n, 1)
    same = truth[rows] == truth[columns]

    def pick(where: Any, size: int) -> Ints:
        pool = np.flatnonzero(where)
        chosen = rng.choice(pool, size=min(size, pool.size), replace=False)
        return np.column_stack([rows[chosen], columns[chosen]])

    must = pick(same, count // 2)
    joined = sparse.csr_array((np.ones(len(must)), (must[:, 0], must[:, 1])), shape=(n, n))
    group = connected_components(joined, directed=False)[1]
    false = pick(same & (group[rows] != group[columns]), wrong)
    return must, np.concatenate([pick(~same, count - count // 2 - wrong), false])


def misspelt(name: str, rng: np.random.Generator) -> str:
    """Swap, drop or double one or two letters."""
    letters = list(name)
    for _ in range(int(rng.integers(1, 3))):
        i = int(rng.integers(1, len(letters) - 1))
        kind = int(rng.integers(3))
        if kind == 0:
            letters[i], letters[i - 1] = letters[i - 1], letters[i]
        elif kind == 1:
            del letters[i]
        else:
            letters.insert(i, letters[i])
    return "".join(letters)


def jaro(a: str, b: str) -> float:
    """Return the Jaro similarity: shared letters at nearby places, less for those in another order."""
    reach = max(max(len(a), len(b)) // 2 - 1, 0)
    taken, left = [False] * len(b), []
    for i, letter in enumerate(a):
        for j in range(max(0, i - reach), min(len(b), i + reach + 1)):
            if not taken[j] and b[j] == letter:
                taken[j] = True
                left.append(letter)
                break
    if not left:
        return 0.0
    right = [letter for letter, hit in zip(b, taken, strict=True) if hit]
    swapped = sum(x != y for x, y in zip(left, right, strict=True)) / 2
    m = len(left)
    return (m / len(a) + m / len(b) + (m - swapped) / m) / 3


def of_points(name: str, size: int, rng: np.random.Generator) -> tuple[Ints, Ints, Floats]:
    """Join rows of a table whose squared distance is at most half of the median one."""
    import numpy as np
    from scipy.spatial.distance import pdist, squareform
    from sklearn.preprocessing import StandardScaler

    from paperworks.datasets import load, tabular_encoder

    table = load(name)
    rows = rng.permutation(len(table.y))[:size]
    X = table.X.iloc[rows]
    points = StandardScaler().fit_transform(tabular_encoder(table.X).fit_transform(X))
    truth = np.unique(np.asarray(table.y.iloc[rows].astype(str), dtype=object), return_inverse=True)[1]
    squared = pdist(points, "sqeuclidean")
    plus = squareform((squared <= 0.5 * np.median(squared)).astype(np.int64))
    return plus, truth, points


@lru_cache(maxsize=64)
def problem(dataset: str, seed: int) -> Problem:
    """Return one instance, the same for all contenders."""
    import networkx as nx
    import numpy as np

    from paperworks.clustering import plant_instance

    rng = rng_for("instance", dataset, seed)
    points, truth = None, None
    count, wrong = 12, 0
    if dataset in _PLANTED:
        n, k, noise, count = _PLANTED[dataset]
        plus, _, _, truth = plant_instance(n, k, noise, random_state=seed_for("planted", n, round(100 * noise), seed))
        wrong = round(0.05 * count)
    elif dataset == "signs-30":
        plus = np.triu(rng.random((30, 30)) < 0.5, 1).astype(np.int64)
        plus += plus.T
    elif dataset == "names-60":
        people = rng.integers(len(NAMES), size=60)
        texts = [misspelt(NAMES[person], rng) for person in people]
        truth = people.astype(np.int64)
        plus = np.array([[int(i != j and jaro(a, b) > 0.8) for j, b in enumerate(texts)] for i, a in enumerate(texts)])
    elif dataset in ("karate", "les-miserables", "southern-women", "football"):
        if dataset == "karate":
            graph = nx.karate_club_graph()
            truth = np.array([int(club == "Officer") for _, club in graph.nodes(data="club")])
        elif dataset == "les-miserables":
            graph = nx.les_miserables_graph()
        elif dataset == "southern-women":
            both = nx.davis_southern_women_graph()
            shared = nx.bipartite.weighted_projected_graph(both, both.graph["top"])
            graph = nx.Graph()
            graph.add_nodes_from(shared)
            graph.add_edges_from((u, v) for u, v, w in shared.edges(data="weight") if w >= 3)
        else:
            graph = nx.planted_partition_graph(12, 10, 0.7, 0.04, seed=seed_for("football", seed))
            truth = np.repeat(np.arange(12), 10)
        plus = nx.to_numpy_array(graph, weight=None, dtype=np.int64)
    else:
        name, size = _POINTS.get(dataset, (dataset, 80))
        plus, truth, points = of_points(name, size, rng)
        count = 20
    if truth is None:
        none = np.empty((0, 2), dtype=np.int64)
        return Problem(plus, none, none, None, points)
    must, cannot = constraints(truth, count, rng, wrong)
    return Problem(plus, must, cannot, truth, points)


# Contenders


@lru_cache(maxsize=64)
def solved(dataset: str, seed: int, time_limit: float) -> Any:
    """Fit the method; its ablations, the pivot and everybody's lower bound come from this one fit."""
    import warnings

    from sklearn.exceptions import ConvergenceWarning

    from paperworks.clustering import ConstrainedCorrelationClustering

    given = problem(dataset, seed)
    model = ConstrainedCorrelationClustering(
        lp="cluster", time_limit=time_limit, random_state=seed_for("rounding", dataset, seed)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(given.plus, must_link=given.must, cannot_link=given.cannot)


def components(given: Problem) -> tuple[Ints, Any]:
    """Return the groups of must-linked nodes, and whether two groups must stay apart."""
    import numpy as np
    from scipy import sparse
    from scipy.sparse.csgraph import connected_components

    n = len(given.plus)
    links = sparse.csr_array((np.ones(len(given.must)), (given.must[:, 0], given.must[:, 1])), shape=(n, n))
    k, group = connected_components(links, directed=False)
    hostile = np.zeros((k, k), dtype=bool)
    for a, b in group[given.cannot]:
        hostile[a, b] = hostile[b, a] = True
    return group, hostile


def union_find(given: Problem) -> Ints:
    """Join the ends of every plus pair and must-link; nothing keeps cannot-links apart."""
    import numpy as np
    from scipy import sparse
    from scipy.sparse.csgraph import connected_components

    joined = sparse.csr_array(given.plus + 0.0).tolil()
    joined[given.must[:, 0], given.must[:, 1]] = 1.0
    return connected_components(joined.tocsr(), directed=False)[1].astype(np.int64)


def random_pivot(given: Problem, rng: np.random.Generator) -> Ints:
    """Take a random group of must-linked nodes and the groups that mostly agree with it and with nobody's bans."""
    import numpy as np

    group, hostile = components(given)
    member = np.eye(group.max() + 1, dtype=np.int64)[group]
    net = member.T @ (2 * given.plus - 1) @ member
    out = np.full(len(net), -1, dtype=np.int64)
    for pivot in rng.permutation(len(net)):
        if out[pivot] < 0:
            cluster = [pivot]
            for other in np.flatnonzero((out < 0) & (net[pivot] > 0)):
                if other != pivot and not hostile[other, cluster].any():
                    cluster.append(other)
            out[cluster] = pivot
    return out[group]


def cop_kmeans(given: Problem, seed: int) -> Ints:
    """Run COP-KMeans with the true number of clusters.

    It draws from NumPy's global state, and its import turns underflow into an error; both are put back.
    """
    import numpy as np

    with np.errstate():
        from active_semi_clustering.exceptions import ClusteringNotFoundException, EmptyClustersException
        from active_semi_clustering.semi_supervised.pairwise_constraints import COPKMeans

    assert given.truth is not None
    state = np.random.get_state()  # noqa: NPY002
    try:
        for attempt in range(20):
            np.random.seed(seed_for("cop-kmeans", seed, attempt))  # noqa: NPY002
            model = COPKMeans(n_clusters=int(given.truth.max()) + 1)
            try:
                model.fit(given.points, ml=given.must.tolist(), cl=given.cannot.tolist())
            except (ClusteringNotFoundException, EmptyClustersException):
                continue
            return np.asarray(model.labels_)
    finally:
        np.random.set_state(state)  # noqa: NPY002
    raise RuntimeError("COP-KMeans found no clustering that keeps the constraints in 20 starts")


def cluster(contender: str, dataset: str, seed: int, model: Any) -> Ints | None:
    """Return a contender's labels, None where it can't run."""
    from paperworks.clustering import exact_correlation_clustering

    given = problem(dataset, seed)
    if contender in _STEPS:
        steps = _STEPS[contender]
        if not steps:
            return model.labels_
        return model.candidate_labels_[min(steps, key=model.candidates_.__getitem__)]
    if contender == "union-find":
        return union_find(given)
    if contender == "pivot-random":
        return random_pivot(given, rng_for("pivot", dataset, seed))
    if contender == "exact":
        return exact_correlation_clustering(given.plus, given.must, given.cannot)[0] if len(given.plus) <= 12 else None
    return None if given.points is None else cop_kmeans(given, seed)


def trial(contender: str, dataset: str, seed: int, scale: str) -> Mapping[str, float]:
    """Cluster one instance and hold the cost against the cluster program's bound."""
    from sklearn.metrics import adjusted_rand_score

    from paperworks.clustering import check_constraints, clustering_cost, solve_canonical_lp

    given = problem(dataset, seed)
    model = solved(dataset, seed, STUDY.scales[scale].settings["time_limit"])
    labels = cluster(contender, dataset, seed, model)
    metrics = {metric.name: float("nan") for metric in STUDY.metrics}
    if labels is None:
        return metrics
    cost, bound = clustering_cost(given.plus, labels), model.lower_bound_
    broken = check_constraints(labels, given.must, given.cannot)
    metrics |= {
        "ratio": cost / bound if bound > 0 else 1.0 + cost,
        "cost": float(cost),
        "violated": float(broken),
        "legal": float(broken == 0),
    }
    if given.truth is not None:
        metrics["ari"] = float(adjusted_rand_score(given.truth, labels))
    if contender == "constrained-cc":
        canonical = solve_canonical_lp(given.plus, given.must, given.cannot)[0]
        metrics["solved"] = float(model.status_ == "optimal")
        metrics["bound_ratio"] = bound / canonical if canonical > 0 else 1.0 + bound
    return metrics


STUDY = Study(
    slug="correlation",
    family="clustering",
    paper=Paper(
        title="Towards Better-than-2 Approximation for Constrained Correlation Clustering",
        authors="Andreas Kalavas, Evangelos Kipouridis, Nithin Varma",
        venue="ICML 2025, PMLR 267:28721-28734",
        url="https://openreview.net/forum?id=MkCnPNOLMk",
    ),
    question=(
        "I have noisy same/different judgements and some pairs that are certain, and I don't know the number of "
        "clusters. Which clustering contradicts the fewest judgements, and how far can it be from the best?"
    ),
    datasets=DATASETS,
    contenders=(
        Contender("constrained-cc", role="method", source="Algorithms 1 to 4 on the cluster program, then moves"),
        Contender("no-polish", role="ablation", source="without moves of nodes, merges and splits"),
        Contender("no-mix", role="ablation", source="the cheapest of both searches and the rounding"),
        Contender("no-penalty", role="ablation", source="the cheapest of the first search and the rounding"),
        Contender("local-only", role="ablation", source="Algorithm 1 alone, factor 2"),
        Contender(
            "pivot-lp", role="peer", source="van Zuylen and Williamson: pivots on the canonical program, factor 3"
        ),
        Contender("pivot-random", role="peer", source="random pivots with contraction and bans, no program"),
        Contender("union-find", role="peer", source="scipy: connected components of plus pairs and must-links"),
        Contender(
            "cop-kmeans",
            role="peer",
            source="active-semi-supervised-clustering: COPKMeans, true number of clusters, where there are vectors",
            requires=("active-semi-supervised-clustering",),
        ),
        Contender("exact", role="peer", source="dynamic program over subsets, up to 12 nodes"),
    ),
    metrics=(
        Metric("ratio", better="lower", description="cost divided by the bound of the cluster program"),
        Metric("cost", better="lower", description="plus pairs across clusters and minus pairs inside"),
        Metric("violated", better="lower", description="constraints that are broken"),
        Metric("legal", better="higher", description="1 if no constraint is broken"),
        Metric("ari", better="higher", description="adjusted Rand index to the true groups"),
        Metric("solved", better="higher", description="1 if the cluster program was solved, 0 if only bounded"),
        Metric("bound_ratio", better="higher", description="bound of the cluster program over the canonical one's"),
    ),
    claims=(
        Claim(
            "costs at most 1.92 times the bound",
            metric="ratio",
            subject="constrained-cc",
            against=1.92,
            kind="not_worse",
        ),
        Claim(
            "a smaller ratio to the bound than pivots on the canonical program",
            metric="ratio",
            subject="constrained-cc",
            against="pivot-lp",
            kind="better",
        ),
        Claim(
            "no constraint is broken, as far as two dozen trials can show it: in 4 of 5",
            metric="legal",
            subject="constrained-cc",
            against=1.0,
            kind="not_worse",
            margin=0.2,
        ),
        Claim(
            "the bound is above that of the canonical program on a part of the instances",
            metric="bound_ratio",
            subject="constrained-cc",
            against=1.0,
            kind="better",
        ),
    ),
    scales={
        "smoke": Scale(seeds=2, datasets=("planted-12-20-4",), settings={"time_limit": 60.0}),
        "quick": Scale(seeds=3, datasets=_QUICK, settings={"time_limit": 300.0}),
        "paper": Scale(seeds=10, settings={"time_limit": 60.0}),
    },
    trial=trial,
    own_data=OwnData("table", "classification"),
    limits=(
        "The paper has no experiments; its factor is a worst case that no experiment can show.",
        "The factor holds for a solved cluster program. The paper has withdrawn its own solver, and whether it can be "
        "nearly solved in polynomial time is open; here column generation solves it on small instances.",
        "Data sets and noise are ours. At 30 % noise the program is often only bounded within its minute.",
        "COP-KMeans sees vectors and the true number of clusters, the others neither. The package's version does not "
        "hold must-links with members of its cluster 0, so a few of them are broken.",
    ),
    keywords=(
        "deduplication",
        "entity resolution",
        "record linkage",
        "must-link",
        "cannot-link",
        "unknown number of clusters",
        "cluster editing",
        "semi-supervised clustering",
    ),
)
