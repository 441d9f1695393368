"""Is one question about a cause answered as well, and much faster, by looking around it than by learning the graph?

A trial draws data from a linear Gaussian model on the graph of a known network, some of whose variables are hidden, and
asks about a few pairs (X, Y): as many of each kind of true answer as there are. Explicit and implicit ancestors count
as one kind. What is true is read off the complete PAG of the observed variables.

A query of a local method is a fresh fit for X and one answer; a query of a method that learns the whole graph costs
that graph, which the other queries of the trial then share.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from paperworks.bench.seeds import rng_for, seed_for
from paperworks.bench.study import Claim, Contender, Metric, OwnData, Paper, Plot, Scale, Study

if TYPE_CHECKING:
    import networkx as nx
    import numpy as np
    import pandas as pd

ALPHA = 0.01
LATENTS = {"alarm": 4, "mildew": 4, "win95pts": 6, "andes": 10}
KINDS = ("non-ancestor", "possible", "ancestor")


class Task(NamedTuple):
    """Data, pairs of column numbers to ask about, and the true kind of each (None on a table of unknown truth)."""

    data: pd.DataFrame
    pairs: list[tuple[int, int]]
    truth: list[int] | None


def trial(contender: str, dataset: str, seed: int, scale: str) -> Mapping[str, float]:
    """Answer all queries of one data set; tests and seconds are those of a single query."""
    task = draw(dataset, seed, scale)
    kinds, tests, seconds = ANSWERS[contender](task)
    wf1 = math.nan if task.truth is None else weighted_f1(task.truth, kinds)
    return {"wf1": wf1, "n_tests": tests, "seconds": seconds}


def weighted_f1(truth: list[int], found: list[int]) -> float:
    """Return 2 WP WR / (WP + WR), WP and WR the precision and recall of the kinds weighted by their frequency."""
    from sklearn.metrics import precision_score, recall_score

    precision = float(precision_score(truth, found, average="weighted", zero_division=0))
    recall = float(recall_score(truth, found, average="weighted", zero_division=0))
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


@lru_cache(maxsize=4)
def draw(dataset: str, seed: int, scale: str) -> Task:
    """Return one data set with its queries, the same for all contenders."""
    import numpy as np

    from paperworks.causal import random_latent_sem
    from paperworks.causal.local_cause.pag import RELATIONS, read_relation
    from paperworks.causal.local_cause.simulation import oracle_graph

    settings = STUDY.scales[scale].settings
    rng = rng_for("queries", dataset, seed)
    if dataset not in LATENTS:
        data = own_table(dataset, seed)
        columns = [rng.choice(data.shape[1], 2, replace=False) for _ in range(3 * settings["queries_per_kind"])]
        return Task(data, [(int(x), int(y)) for x, y in columns], None)
    graph = network(dataset, settings["n_nodes"])
    n_latent = min(LATENTS[dataset], settings["n_nodes"] // 6)
    n_samples = settings["n"][seed % len(settings["n"])]
    data, latents = random_latent_sem(graph, n_latent, n_samples, seed_for("data", dataset, seed))
    pag = oracle_graph(graph, set(latents))
    kind_of = {relation: min(k, 2) for k, relation in enumerate(RELATIONS)}
    n = data.shape[1]
    kinds = np.array([[kind_of[read_relation(pag, x, y)] if x != y else -1 for y in range(n)] for x in range(n)])
    pairs: list[tuple[int, int]] = []
    for kind in range(len(KINDS)):
        there = np.argwhere(kinds == kind)
        pairs += [(int(x), int(y)) for x, y in rng.permutation(there)[: settings["queries_per_kind"]]]
    return Task(data, pairs, [int(kinds[x, y]) for x, y in pairs])


def network(name: str, n_nodes: int) -> nx.DiGraph:
    """Return a network's graph, or the part of it around its busiest node if that has more than `n_nodes`."""
    import networkx as nx

    from paperworks.causal import bif_graph
    from paperworks.datasets import DataError

    try:
        graph = bif_graph(name)
    except ImportError as error:
        raise DataError(str(error)) from error
    centre = max(graph, key=graph.degree)
    near = [centre, *(v for _, v in nx.bfs_edges(graph.to_undirected(), centre))][:n_nodes]
    kept = nx.DiGraph()
    kept.add_nodes_from(v for v in graph if v in set(near))
    kept.add_edges_from((u, v) for u, v in graph.edges if u in kept and v in kept)
    return kept


def own_table(dataset: str, seed: int) -> pd.DataFrame:
    """Return the numeric columns of a user's table that vary, with nine of ten rows."""
    from paperworks.datasets import DataError, load

    table = load(dataset).X.select_dtypes("number").dropna(axis="index")
    table = table.loc[:, table.nunique() > 1].sample(frac=0.9, random_state=seed_for("rows", dataset, seed))
    if table.shape[1] < 3 or len(table) < 50:
        raise DataError(
            f"the study needs at least 3 numeric columns that vary and 50 rows without missing cells, got "
            f"{table.shape[1]} and {len(table)}"
        )
    return table


Answer = tuple[list[int], float, float]


def _local(rule: str) -> Callable[[Task], Answer]:
    def answer(task: Task) -> Answer:
        return _query_by_query(task, lambda model, y: (_kind(model.relation(y)), model.n_tests_), rule=rule)

    return answer


def _query_by_query(task: Task, ask: Callable[[Any, int], tuple[int, int]], **settings: Any) -> Answer:
    """Return the kinds found, and the mean number of tests and of seconds of a fresh fit and its answer."""
    import time
    import warnings

    from paperworks.causal import LocalCause

    values = task.data.to_numpy(dtype=float)
    kinds, tests = [], 0
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a search cut short is part of what is measured
        for x, y in task.pairs:
            kind, count = ask(LocalCause(alpha=ALPHA, **settings).fit(values, target=x), y)
            kinds.append(kind)
            tests += count
    spent = time.perf_counter() - start
    return kinds, tests / len(task.pairs), spent / len(task.pairs)


def _kind(relation: str) -> int:
    from paperworks.causal.local_cause.pag import RELATIONS

    return min(RELATIONS.index(relation), 2)


def _sufficient(task: Task) -> Answer:
    """Read the same local graph as if nothing were hidden: parents and undirected neighbours only."""
    import numpy as np

    from paperworks.causal import PagMark, fisher_z

    values = task.data.to_numpy(dtype=float)
    corr = np.corrcoef(values.T)

    def ask(model: Any, y: int) -> tuple[int, int]:
        x, pag = model.target_, model.pag_
        if pag[x, y]:
            return {PagMark.ARROW: 0, PagMark.CIRCLE: 1, PagMark.TAIL: 2}[PagMark(pag[y, x])], model.n_tests_
        parents = {int(v) for v in np.flatnonzero(pag[:, x] == PagMark.ARROW)}
        asked = [parents, parents | set(model.circle_neighbours_), *(parents | set(c) for c in model.cliques_)]
        free = [fisher_z(corr, len(values), x, y, sorted(z)) > ALPHA for z in asked]
        kind = 0 if free[0] else 2 if not free[1] else 1 if any(free[2:]) else 2
        return kind, model.n_tests_ + len(asked)

    return _query_by_query(task, ask)


def _correlated(task: Task) -> Answer:
    """Call everything that correlates with X a possible effect of it."""
    import time

    import numpy as np

    from paperworks.causal import fisher_z

    start = time.perf_counter()
    kinds = []
    for x, y in task.pairs:
        r = np.corrcoef(task.data.iloc[:, [x, y]].to_numpy(dtype=float).T)
        kinds.append(int(fisher_z(r, len(task.data), 0, 1) <= ALPHA))
    return kinds, 1.0, (time.perf_counter() - start) / len(task.pairs)


def _peer(algorithm: str) -> Callable[[Task], Answer]:
    def answer(task: Task) -> Answer:
        import time

        import numpy as np

        from paperworks.causal.local_cause.pag import PartialGraph, read_relation

        values = task.data.to_numpy(dtype=float)
        start = time.perf_counter()
        found, tests = _learn_whole_graph(algorithm, values)
        spent = time.perf_counter() - start
        # causal-learn holds the mark at i of the edge i - j in [i, j]: -1 tail, 1 arrow, 2 circle.
        marks = np.select([found.T == 2, found.T == 1, found.T == -1], [1, 2, 3], 0)
        undirected = (marks == 3) & (marks.T == 3)
        pag = PartialGraph.from_array(np.where(undirected, 1, marks))
        return [_kind(read_relation(pag, x, y)) for x, y in task.pairs], tests, spent

    return answer


def _learn_whole_graph(algorithm: str, values: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the graph that causal-learn finds and the number of different tests that it made."""
    import contextlib
    import io

    import numpy as np
    from causallearn.search.ConstraintBased.FCI import fci
    from causallearn.search.ConstraintBased.PC import pc
    from causallearn.utils import cit

    made: list[Any] = []

    class Counted(cit.FisherZ):
        def __init__(self, data: np.ndarray, **kwargs: Any) -> None:
            super().__init__(data, **kwargs)
            made.append(self)

    cit.register_ci_test("counted_fisherz", Counted)
    with contextlib.redirect_stdout(io.StringIO()):  # rule R9 prints whatever is asked
        if algorithm == "fci":
            graph = fci(values, "counted_fisherz", ALPHA, verbose=False, show_progress=False)[0]
        else:
            graph = pc(values, ALPHA, "counted_fisherz", show_progress=False).G
    tests = sum(isinstance(p, float) for test in made for p in test.pvalue_cache.values())
    return np.asarray(graph.graph), float(tests)


ANSWERS: dict[str, Callable[[Task], Answer]] = {
    "local-cause": _local("corrected"),
    "local-cause-printed": _local("paper"),
    "local-sufficient": _sufficient,
    "fci": _peer("fci"),
    "pc": _peer("pc"),
    "correlation": _correlated,
}

STUDY = Study(
    slug="local-cause",
    family="causal",
    paper=Paper(
        title="Local Identifying Causal Relations in the Presence of Latent Variables",
        authors="Zheng Li, Zeyu Liu, Feng Xie, Hao Zhang, Chunchen Liu, Zhi Geng",
        venue="ICML 2025",
        url="https://openreview.net/forum?id=O6q2BHK1BL",
        code="https://github.com/zhengli0060/LocICR",
    ),
    question="Does X cause Y? I have a table of observations, and something unmeasured may drive both.",
    datasets=tuple(LATENTS),
    contenders=(
        Contender("local-cause", role="method", source="LocalCause, corrected rule"),
        Contender("local-cause-printed", role="ablation", source="LocalCause, Theorems 1-4 as printed"),
        Contender("local-sufficient", role="ablation", source="LocalCause read as if nothing were hidden"),
        Contender(
            "fci",
            role="peer",
            source="causallearn.search.ConstraintBased.FCI.fci, possibly directed paths",
            requires=("causal-learn",),
        ),
        Contender(
            "pc",
            role="peer",
            source="causallearn.search.ConstraintBased.PC.pc, possibly directed paths",
            requires=("causal-learn",),
        ),
        Contender("correlation", role="ablation", source="whatever correlates is a possible effect"),
    ),
    metrics=(
        Metric("wf1", better="higher", description="weighted F1 of non-ancestor, possible ancestor, ancestor"),
        Metric("n_tests", better="lower", description="different independence tests that a query needs"),
        Metric("seconds", better="lower", unit="s", description="seconds that a query takes", timing=True),
    ),
    claims=(
        Claim(
            "answers are not worse than those of FCI",
            metric="wf1",
            subject="local-cause",
            against="fci",
            kind="not_worse",
            margin=0.02,
            datasets=tuple(LATENTS),
        ),
        Claim(
            "a query needs less than half of FCI's tests",
            metric="n_tests",
            subject="local-cause",
            against="fci",
            kind="ratio",
            margin=0.5,
        ),
        Claim(
            "a query takes at most a fifth of FCI's time",
            metric="seconds",
            subject="local-cause",
            against="fci",
            kind="ratio",
            margin=0.2,
        ),
    ),
    scales={
        "smoke": Scale(seeds=6, datasets=("alarm",), settings={"n": (500,), "n_nodes": 14, "queries_per_kind": 2}),
        "quick": Scale(
            seeds=12, datasets=("alarm", "mildew"), settings={"n": (1000,), "n_nodes": 1000, "queries_per_kind": 4}
        ),
        "paper": Scale(seeds=400, settings={"n": (500, 1000, 3000, 5000), "n_nodes": 1000, "queries_per_kind": 4}),
    },
    trial=trial,
    own_data=OwnData(kind="table", task="none"),
    plots=(Plot("tradeoff", metric="wf1", against="n_tests", title="Right answers against tests that a query needs"),),
    limits=(
        "Queries are drawn evenly over the kinds of true answers; drawn at random, most pairs are non-ancestors.",
        "A query of FCI or PC is charged the whole graph; who asks many questions of one table learns it once.",
        "On a table of your own the truth is unknown: only tests and seconds are compared.",
        "The data are linear and Gaussian, as in the paper; the hidden variables have at least two children.",
    ),
    keywords=("causal discovery", "hidden confounder", "latent confounder", "partial ancestral graph", "root cause"),
)
