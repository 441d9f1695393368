"""Speed of a local query beside learning the whole graph with causal-learn, and of its parts."""

from __future__ import annotations

import contextlib
import io
from functools import partial

import networkx as nx
import numpy as np
from causallearn.search.ConstraintBased.FCI import fci
from causallearn.utils.cit import CIT
from numpy.typing import NDArray

from benchmarks import Case
from paperworks.causal import LocalCause, bif_graph, random_latent_sem
from paperworks.causal.local_cause.ci_tests import FisherTester
from paperworks.causal.local_cause.learner import GaussianBlankets
from paperworks.causal.local_cause.simulation import oracle_graph

Floats = NDArray[np.float64]

ALPHA = 0.01


def query(values: Floats, x: int, y: int) -> str:
    """Learn around column x and answer for column y."""
    return LocalCause(alpha=ALPHA).fit(values, target=x).relation(y)


def typical_target(values: Floats) -> int:
    """Return the column whose fit needs the median number of tests."""
    tests = [LocalCause(alpha=ALPHA).fit(values, target=x).n_tests_ for x in range(values.shape[1])]
    return int(np.argsort(tests, kind="stable")[len(tests) // 2])


def every_pair(values: Floats) -> list[list[str]]:
    """Answer for every ordered pair of columns, each target learned afresh."""
    n = values.shape[1]
    return [LocalCause(alpha=ALPHA).fit(values, target=x).relations().tolist() for x in range(n)]


def whole_graph(values: Floats) -> Floats:
    """Learn the whole PAG with FCI, silently."""
    with contextlib.redirect_stdout(io.StringIO()):
        return fci(values, "fisherz", ALPHA, verbose=False, show_progress=False)[0].graph


def our_tests(corr: Floats, n: int, questions: list[tuple[int, int, tuple[int, ...]]]) -> list[float]:
    """Ask all questions."""
    tester = FisherTester(corr, n, ALPHA)
    return [tester.p(x, y, z) for x, y, z in questions]


def peer_tests(values: Floats, questions: list[tuple[int, int, tuple[int, ...]]]) -> list[float]:
    """Ask all questions with causal-learn's test."""
    test = CIT(values, "fisherz")
    return [test(x, y, z) for x, y, z in questions]


def our_blankets(corr: Floats, n: int) -> list[tuple[int, ...]]:
    """Find all Markov blankets."""
    blankets = GaussianBlankets(FisherTester(corr, n, ALPHA), corr, 0.0, 1e-4)
    return [blankets(x) for x in range(len(corr))]


def blanket_pair_by_pair(corr: Floats) -> list[float]:
    """Invert anew for each pair with column 0."""
    n = len(corr)
    found = []
    for y in range(1, n):
        order = [0, y, *(k for k in range(n) if k not in (0, y))]
        inverse = np.linalg.inv(corr[np.ix_(order, order)])
        found.append(-inverse[0, 1] / np.sqrt(inverse[0, 0] * inverse[1, 1]))
    return found


def truth_pair_by_pair(graph: nx.DiGraph, hidden: set[str]) -> int:
    """Ask networkx for each pair whether its observed ancestors separate it."""
    observed = [v for v in graph if v not in hidden]
    count = 0
    for i, v in enumerate(observed):
        for w in observed[i + 1 :]:
            given = ({v, w} | nx.ancestors(graph, v) | nx.ancestors(graph, w)) - hidden - {v, w}
            count += not nx.is_d_separator(graph, {v}, {w}, given)
    return count


def cases() -> list[Case]:
    """Return the comparisons."""
    made = {}
    for name, n_latent in (("alarm", 4), ("mildew", 4), ("andes", 10)):
        made[name] = random_latent_sem(bif_graph(name), n_latent, 1000, random_state=0)
    alarm, mildew, andes = (made[name][0].to_numpy() for name in ("alarm", "mildew", "andes"))
    corr = np.corrcoef(andes.T)
    rng = np.random.default_rng(0)
    questions = []
    for size in (0, 1, 2, 3):
        for _ in range(1000):
            x, y, *z = rng.choice(alarm.shape[1], size + 2, replace=False).tolist()
            questions.append((min(x, y), max(x, y), tuple(sorted(z))))
    return [
        Case(
            "one query, ALARM, 33 columns, 1,000 rows",
            partial(query, alarm, typical_target(alarm), 0),
            partial(whole_graph, alarm),
            "causal-learn fci",
        ),
        Case(
            "one query, MILDEW, 31 columns, 1,000 rows",
            partial(query, mildew, typical_target(mildew), 0),
            partial(whole_graph, mildew),
            "causal-learn fci",
        ),
        Case(
            "every ordered pair, ALARM",
            partial(every_pair, alarm),
            partial(whole_graph, alarm),
            "causal-learn fci",
            note="where a whole graph pays",
        ),
        Case(
            "4,000 Fisher z tests given 0 to 3 columns",
            partial(our_tests, np.corrcoef(alarm.T), len(alarm), questions),
            partial(peer_tests, alarm, questions),
            "causal-learn CIT fisherz",
        ),
        Case(
            "Markov blankets of 213 columns",
            partial(our_blankets, corr, len(andes)),
            partial(blanket_pair_by_pair, corr),
            "an inverse per pair",
            note="the peer does one column, ours all",
        ),
        Case(
            "oracle PAG of ALARM",
            partial(oracle_graph, bif_graph("alarm"), set(made["alarm"][1])),
            partial(truth_pair_by_pair, bif_graph("alarm"), set(made["alarm"][1])),
            "networkx d-separation",
            note="the peer finds adjacencies only",
        ),
    ]
