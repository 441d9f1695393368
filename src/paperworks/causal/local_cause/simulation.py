"""Data with hidden causes whose truth is known: graphs, samples, and the true relation of two variables."""

from __future__ import annotations

import gzip
import importlib.metadata
import re
from collections.abc import Collection, Hashable
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from paperworks._checks import check_choice, check_integer
from paperworks.causal.local_cause.orientation import close
from paperworks.causal.local_cause.pag import PartialGraph, read_relation

__all__ = ["bif_graph", "oracle_pag", "random_latent_sem", "true_relation"]

_NETWORKS = ("alarm", "mildew", "win95pts", "andes")


def bif_graph(name: str) -> nx.DiGraph:
    """Read the graph of a well-known Bayesian network from the files inside the package pgmpy.

    pgmpy itself is not imported, so it may be installed without its dependencies.

    Parameters
    ----------
    name : {"alarm", "mildew", "win95pts", "andes"}
        The network, of 37, 35, 76 or 223 variables.

    Returns
    -------
    networkx.DiGraph
        The directed acyclic graph; nodes are the variables' names.

    Raises
    ------
    ValueError
        If `name` is another one.
    ImportError
        If pgmpy is not installed, or its version does not hold the file.

    Examples
    --------
    >>> from paperworks.causal import bif_graph
    >>> graph = bif_graph("alarm")  # doctest: +SKIP
    >>> graph.number_of_nodes(), graph.number_of_edges()  # doctest: +SKIP
    (37, 46)
    """
    check_choice(name, "name", _NETWORKS)
    wanted = f"{name}.bif.gz"
    try:
        files = importlib.metadata.files("pgmpy") or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name == wanted:
            return _parse_bif(gzip.decompress(file.read_binary()).decode("utf-8", errors="replace"))
    raise ImportError(
        f"the graph {name!r} is read from the file {wanted} of pgmpy, which is not there; install it with: "
        "pip install --no-deps pgmpy==1.1.2",
        name="pgmpy",
    )


def _parse_bif(text: str) -> nx.DiGraph:
    graph = nx.DiGraph()
    graph.add_nodes_from(re.findall(r"^\s*variable\s+(\S+)", text, flags=re.MULTILINE))
    for child, parents in re.findall(r"^\s*probability\s*\(\s*([^|)\s]+)\s*\|([^)]*)\)", text, flags=re.MULTILINE):
        graph.add_edges_from((parent.strip(), child) for parent in parents.split(","))
    return graph


def random_latent_sem(
    graph: nx.DiGraph,
    n_latent: int,
    n_samples: int,
    random_state: int | np.random.Generator | None = None,
) -> tuple[pd.DataFrame, list[Any]]:
    """Draw data from a linear Gaussian model on a graph and hide some of its variables.

    Each variable is the sum of its parents, weighted by numbers drawn from [-1, -0.5] and [0.5, 1], and of standard
    normal noise. The hidden variables are drawn among those with at least two children, where hiding confounds.

    Parameters
    ----------
    graph : networkx.DiGraph
        A directed acyclic graph.
    n_latent : int
        Number of variables to hide.
    n_samples : int
        Number of rows.
    random_state : int, numpy.random.Generator or None, default=None
        Makes weights, hidden variables and noise repeatable.

    Returns
    -------
    data : pandas.DataFrame of shape (n_samples, n_observed)
        The observed variables, in the order of the graph's nodes.
    latents : list
        The hidden nodes.

    Raises
    ------
    ValueError
        If the graph has a cycle, or fewer than `n_latent` variables with two children.
    TypeError
        If `graph` is not a directed graph, or a number is not an integer.

    Examples
    --------
    >>> import networkx as nx
    >>> from paperworks.causal import random_latent_sem
    >>> graph = nx.DiGraph([("u", "a"), ("u", "b"), ("a", "c")])
    >>> data, latents = random_latent_sem(graph, 1, 100, random_state=0)
    >>> data.columns.tolist(), latents
    (['a', 'b', 'c'], ['u'])
    """
    _check_dag(graph, "graph")
    check_integer(n_latent, "n_latent", minimum=0)
    check_integer(n_samples, "n_samples", minimum=1)
    rng = np.random.default_rng(random_state)
    nodes = list(graph)
    causes = [v for v in nodes if graph.out_degree(v) >= 2]
    if len(causes) < n_latent:
        raise ValueError(f"n_latent must be at most {len(causes)}, the variables with two children; got {n_latent}")
    hidden = {causes[k] for k in rng.choice(len(causes), n_latent, replace=False)} if n_latent else set()
    column = {v: k for k, v in enumerate(nodes)}
    values = rng.normal(size=(n_samples, len(nodes)))
    for v in nx.topological_sort(graph):
        parents = [column[u] for u in graph.predecessors(v)]
        weights = rng.uniform(0.5, 1.0, len(parents)) * rng.choice([-1.0, 1.0], len(parents))
        values[:, column[v]] += values[:, parents] @ weights
    data = pd.DataFrame(values, columns=pd.Index(nodes, dtype=object))
    return data.drop(columns=list(hidden)), [v for v in nodes if v in hidden]


def _check_dag(graph: Any, name: str) -> None:
    if not isinstance(graph, nx.DiGraph):
        raise TypeError(f"{name} must be a networkx.DiGraph, got {type(graph).__name__}")
    if not nx.is_directed_acyclic_graph(graph):
        raise ValueError(f"{name} must have no directed cycle")


def true_relation(dag: nx.DiGraph, latents: Collection[Hashable], x: Hashable, y: Hashable) -> str:
    """Return what perfect knowledge of all independences would say about x as a cause of y.

    The complete PAG of the observed variables is built from the graph and read: no possibly directed path from x to y
    makes x an invariant non-ancestor, a directed one an explicit ancestor, two uncovered possibly directed paths whose
    first vertices are different and not adjacent an implicit one.

    Parameters
    ----------
    dag : networkx.DiGraph
        The causal graph over observed and hidden variables.
    latents : collection
        The hidden nodes.
    x, y : node
        Two observed nodes.

    Returns
    -------
    str
        ``"invariant_non_ancestor"``, ``"possible_ancestor"``, ``"explicit_invariant_ancestor"`` or
        ``"implicit_invariant_ancestor"``.

    Raises
    ------
    ValueError
        If the graph has a cycle, or `x` and `y` are not two different observed nodes.
    TypeError
        If `dag` is not a directed graph.

    Examples
    --------
    Without hidden variables in the graph, the data alone can't direct a chain; a collider can.

    >>> import networkx as nx
    >>> from paperworks.causal import true_relation
    >>> true_relation(nx.DiGraph([(0, 1), (1, 2)]), [], 0, 2)
    'possible_ancestor'
    >>> true_relation(nx.DiGraph([(0, 1), (2, 1), (1, 3)]), [], 1, 3)
    'explicit_invariant_ancestor'
    """
    _check_dag(dag, "dag")
    observed = [v for v in dag if v not in set(latents)]
    for name, value in (("x", x), ("y", y)):
        if value not in observed:
            raise ValueError(f"{name} must be an observed node of the graph, got {value!r}")
    if x == y:
        raise ValueError(f"x and y must be different nodes, got {x!r} twice")
    return read_relation(oracle_graph(dag, set(latents)), observed.index(x), observed.index(y))


def oracle_pag(dag: nx.DiGraph, latents: Collection[Hashable]) -> NDArray[np.int8]:
    """Return the complete PAG of a graph's observed nodes, in the graph's order, as an array of marks."""
    _check_dag(dag, "dag")
    return oracle_graph(dag, set(latents)).to_array()


def oracle_graph(dag: nx.DiGraph, latents: set[Hashable]) -> PartialGraph:
    """Two observed nodes are adjacent in the MAG unless their observed ancestors separate them."""
    ancestors: dict[Hashable, set[Hashable]] = {}
    for v in nx.topological_sort(dag):
        ancestors[v] = {v}.union(*(ancestors[u] for u in dag.predecessors(v)))
    observed = [v for v in dag if v not in latents]
    place = {v: k for k, v in enumerate(observed)}
    graph = PartialGraph(len(observed))
    for v in observed:
        for w in observed[place[v] + 1 :]:
            family = ancestors[v] | ancestors[w]
            if not _linked_through(dag, latents, family, v, w):
                graph.separate(place[v], place[w], sorted(place[u] for u in family - latents - {v, w}))
    for i in range(graph.n):
        for j in range(i + 1, graph.n):
            graph.connect(i, j)
    close(graph)
    return graph


def _linked_through(dag: nx.DiGraph, latents: set[Hashable], family: set[Hashable], v: Hashable, w: Hashable) -> bool:
    """Are v and w linked in the moral graph of their ancestors by a path whose inner nodes are all hidden?"""
    seen, todo = {v}, [v]
    while todo:
        u = todo.pop()
        around = set(dag.predecessors(u))
        for child in dag.successors(u):
            if child in family:
                around |= {child, *dag.predecessors(child)}
        if w in around:
            return True
        fresh = (around & latents) - seen
        seen |= fresh
        todo += fresh
    return False
