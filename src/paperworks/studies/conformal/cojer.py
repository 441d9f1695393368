"""Study of CoJER: does it keep the share of misses of a batch in check, and at which price in length?

Every trial splits one table at random into training, calibration and a batch of m test points, fits the models on the
training part, and asks one contender for intervals. All contenders of one data set and seed see the same split and the
same models. A data set ``<name>/m=500`` is the table ``<name>`` with batches of 500 points instead of the scale's 100;
a user's own table gives batches of 500 too, if it is large enough.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from paperworks.bench.seeds import rng_for, seed_for
from paperworks.bench.study import Claim, Contender, Metric, OwnData, Paper, Plot, Scale, Study

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

ALPHA = 0.1
DELTA = 0.1
TEST_SHARE = 0.33
CAL_SHARE = 0.33
MIN_ROWS = 60


class Split(NamedTuple):
    """One random split; features are encoded and standardised by the training rows."""

    X_train: Floats
    y_train: Floats
    X_cal: Floats
    y_cal: Floats
    X_test: Floats
    y_test: Floats


def make_split(dataset: str, seed: int, settings: Any) -> Split:
    """Load a table and split it: 33 % test rows (m of them are the batch), 33 % of the rest for calibration."""
    from sklearn.preprocessing import StandardScaler

    from paperworks.datasets import load, tabular_encoder

    own = dataset.startswith("file:")
    name, _, size = (dataset, "", "") if own else dataset.partition("/m=")
    table = load(name)
    n = len(table.y)
    if n < MIN_ROWS:
        raise ValueError(f"the study splits the table in three and needs at least {MIN_ROWS} rows, got {n}")
    m = int(size) if size else settings["m_own" if own else "m"]
    # Not by the place of an own file: moved elsewhere, it gives the same results.
    order = rng_for("cojer", "split", "own file" if own else name, n, m, seed).permutation(n)[: settings["max_rows"]]
    n_test = round(TEST_SHARE * len(order))
    n_cal = round(CAL_SHARE * (len(order) - n_test))
    train = order[n_test + n_cal :]
    encoder = tabular_encoder(table.X).fit(table.X.iloc[train])
    X, y = encoder.transform(table.X.iloc[order]), table.y.to_numpy(dtype=float)[order]
    parts = {
        "test": slice(0, min(m, n_test)),
        "cal": slice(n_test, n_test + n_cal),
        "train": slice(n_test + n_cal, None),
    }
    X = StandardScaler().fit(X[parts["train"]]).transform(X)
    return Split(*(array[parts[name]] for name in ("train", "cal", "test") for array in (X, y)))


def make_models(kind: str, seed: int) -> list[tuple[str, Any]]:
    """Return the unfitted models: three fast ones, or the five of the paper's code."""
    from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
    from sklearn.linear_model import LassoCV, Ridge
    from sklearn.neighbors import KNeighborsRegressor
    from sklearn.neural_network import MLPRegressor
    from sklearn.svm import SVR

    if kind == "fast":
        neighbours = KNeighborsRegressor(10, algorithm="brute")
        boosting = HistGradientBoostingRegressor(
            max_iter=20, max_leaf_nodes=8, learning_rate=0.3, early_stopping=False, random_state=seed
        )
        return [("ridge", Ridge()), ("knn", neighbours), ("boosting", boosting)]
    return [
        ("forest", RandomForestRegressor(random_state=seed)),
        ("lasso", LassoCV(random_state=seed)),
        ("mlp", MLPRegressor(random_state=seed)),
        ("svr", SVR()),
        ("knn", KNeighborsRegressor()),
    ]


def best_single(models: list[tuple[str, Any]], split: Split) -> tuple[str, Any]:
    """Return the fitted model whose kind has the least squared error when the last quarter of the training is held out.

    What a user of a single-model library would do; calibration and test rows stay unseen.
    """
    from sklearn.base import clone

    cut = 3 * len(split.y_train) // 4

    def error(model: Any) -> float:
        partly = clone(model).fit(split.X_train[:cut], split.y_train[:cut])
        return float(((partly.predict(split.X_train[cut:]) - split.y_train[cut:]) ** 2).mean())

    return min(models, key=lambda item: error(item[1]))


def calibrated(models: list[tuple[str, Any]], split: Split, seed: int, **parameters: Any) -> Any:
    """Return a CoJER over fitted models, calibrated."""
    from paperworks.conformal import CoJER

    cojer = CoJER(models, prefit=True, alpha=ALPHA, delta=DELTA, random_state=seed, **parameters)
    return cojer.fit(split.X_cal, split.y_cal)


def bonferroni(models: list[tuple[str, Any]], split: Split, seed: int) -> Floats:
    """Intersect the split conformal intervals of the models, each at level alpha over their number."""
    import numpy as np

    level = ALPHA / len(models)
    each = np.stack(
        [calibrated([model], split, seed, band="scp").predict_interval(split.X_test, alpha=level) for model in models]
    )
    intervals = np.column_stack([each[:, :, 0].max(axis=0), each[:, :, 1].min(axis=0)])
    intervals[intervals[:, 0] > intervals[:, 1]] = np.nan
    return intervals


def twice_average(models: list[tuple[str, Any]], split: Split, seed: int) -> Floats:
    """Keep the labels whose doubled mean p-value exceeds alpha, as CV+ does over its folds."""
    import numpy as np

    from paperworks.conformal import cojer_threshold
    from paperworks.conformal.cojer.aggregation import prediction_hulls, strictly_above

    t = cojer_threshold(len(split.y_cal), len(split.y_test), ALPHA, DELTA, band="scp")
    predictions = np.column_stack([model.predict(split.X_test) for _, model in models])
    residuals = np.sort([np.abs(split.y_cal - model.predict(split.X_cal)) for _, model in models], axis=1)
    return prediction_hulls(predictions, residuals, "arithmetic", strictly_above(t / 2))


@contextmanager
def untouched_global_stream() -> Iterator[None]:
    """Put NumPy's global random state back: mapie draws from it, though its result here doesn't depend on it."""
    import numpy as np

    state = np.random.get_state()  # noqa: NPY002
    try:
        yield
    finally:
        np.random.set_state(state)  # noqa: NPY002


def predict_intervals(contender: str, models: list[tuple[str, Any]], split: Split, seed: int) -> Floats:
    """Return the intervals of one contender for the batch, shape (m, 2)."""
    parameters: dict[str, dict[str, Any]] = {
        "cojer": {"band": "jer"},
        "cojer-exact": {"band": "exact"},
        "cojer-split": {"band": "exact", "calibration": "split"},
        "cojer-arithmetic": {"band": "jer", "aggregation": "arithmetic"},
        "scp": {"band": "scp"},
        "dkw": {"band": "dkw"},
    }
    if contender in parameters:
        intervals: Floats = calibrated(models, split, seed, **parameters[contender]).predict_interval(split.X_test)
        return intervals
    if contender == "bonferroni":
        return bonferroni(models, split, seed)
    if contender == "twice-average":
        return twice_average(models, split, seed)
    single = best_single(models, split)
    if contender == "cojer-single":
        intervals = calibrated([single], split, seed, band="jer").predict_interval(split.X_test)
        return intervals
    if contender == "mapie":
        from mapie.regression import SplitConformalRegressor

        mapie = SplitConformalRegressor(single[1], confidence_level=1 - ALPHA, prefit=True)
        with untouched_global_stream():
            intervals = mapie.conformalize(split.X_cal, split.y_cal).predict_interval(split.X_test)[1][:, :, 0]
        return intervals
    if contender == "crepes":
        from crepes import WrapRegressor

        wrapped = WrapRegressor(single[1])
        wrapped.calibrate(split.X_cal, split.y_cal)
        intervals = wrapped.predict_int(split.X_test, confidence=1 - ALPHA)
        return intervals
    raise ValueError(f"unknown contender {contender!r}")


def trial(contender: str, dataset: str, seed: int, scale: str) -> dict[str, float]:
    """Run one contender on one split of one table.

    Parameters
    ----------
    contender : str
        Name of a contender of the study.
    dataset : str
        Name of a data set of the study, or the reference of an own table.
    seed : int
        Number of the split.
    scale : str
        ``"smoke"``, ``"quick"`` or ``"paper"``.

    Returns
    -------
    dict of str to float
        The metrics. Lengths are infinite where a contender gives no finite interval.
    """
    import numpy as np

    from paperworks.conformal import false_coverage_proportion

    settings = STUDY.scales[scale].settings
    split = make_split(dataset, seed, settings)
    models = make_models(settings["models"], seed_for("cojer", "models", seed) % 2**31)
    with warnings.catch_warnings():
        # Infinite and empty sets are in the metrics; peers and models speak of iterations and versions.
        warnings.simplefilter("ignore")
        models = [(name, model.fit(split.X_train, split.y_train)) for name, model in models]
        threshold_seed = seed_for("cojer", "band", seed) % 2**31
        intervals = predict_intervals(contender, models, split, threshold_seed)
        reference = intervals if contender == "scp" else predict_intervals("scp", models, split, threshold_seed)
    fcp = false_coverage_proportion(intervals, split.y_test)
    length, base = (
        float(np.nan_to_num(ends[:, 1] - ends[:, 0], posinf=np.inf).mean()) for ends in (intervals, reference)
    )
    return {
        "controlled": float(fcp <= ALPHA + 1e-9),
        "fcp": fcp,
        "length": length,
        "relative_length": length / base if np.isfinite(base) and base > 0 else float("nan"),
    }


_OPENML = (*range(361072, 361075), *range(361076, 361083), *range(361084, 361089), 361279, 361280)

STUDY = Study(
    slug="cojer",
    family="conformal",
    paper=Paper(
        title="False Coverage Proportion Control for Conformal Prediction",
        authors="Alexandre Blain, Bertrand Thirion, Pierre Neuvial",
        venue="ICML 2025, PMLR 267:4471-4481",
        url="https://openreview.net/forum?id=H9vSxIhsuh",
        code="https://github.com/sanssouci-org/CoJER-paper",
    ),
    question="Can I promise that at most 10 % of this batch of intervals miss, and how much longer do they get?",
    datasets=(
        "diabetes",
        "friedman1",
        "friedman2",
        "friedman3",
        "friedman1/m=500",
        "friedman2/m=500",
        "friedman3/m=500",
        "fair",
        "star98",
        "randhie",
        *(f"openml-task:{task}" for task in _OPENML),
    ),
    contenders=(
        Contender("cojer", "method", "the paper: simultaneous band, harmonic aggregation of the models"),
        Contender("cojer-exact", "ablation", "paperworks: exact threshold for one alpha, band='exact'"),
        Contender("cojer-split", "ablation", "paperworks: exact for any models, band='exact', calibration='split'"),
        Contender("cojer-single", "ablation", "the paper's band on the single best model, no aggregation"),
        Contender("cojer-arithmetic", "ablation", "the paper's code: arithmetic mean of the p-values"),
        Contender("twice-average", "ablation", "the paper's code: twice the mean p-value at alpha, like CV+"),
        Contender("bonferroni", "ablation", "the paper's code: intersection of intervals at alpha over their number"),
        Contender("scp", "peer", "split conformal prediction with the same models and aggregation"),
        Contender("dkw", "peer", "Gazin, Blanchard and Roquain (2024), same models and aggregation"),
        Contender("mapie", "peer", "mapie.regression.SplitConformalRegressor, single best model", requires=("mapie",)),
        Contender("crepes", "peer", "crepes.WrapRegressor, single best model", requires=("crepes",)),
    ),
    metrics=(
        Metric("controlled", "higher", "share of splits", "1 if at most 10 % of the batch is missed, else 0"),
        Metric(
            "fcp",
            "lower",
            "share of the batch",
            "false coverage proportion: share of intervals that miss; empty ones do",
        ),
        Metric("length", "lower", "unit of the target", "mean length of the intervals; an empty one counts 0"),
        Metric("relative_length", "lower", "x split conformal", "mean length over that of scp on the same split"),
    ),
    claims=(
        Claim(
            "CoJER keeps the share of misses at or below 10 % in at least 90 % of the splits",
            metric="controlled",
            subject="cojer",
            against=1 - DELTA,
            kind="not_worse",
        ),
        Claim(
            "CoJER keeps the share of misses at or below 10 % more often than split conformal prediction",
            metric="controlled",
            subject="cojer",
            against="scp",
            kind="better",
        ),
        Claim(
            "CoJER's intervals are shorter than those of the DKW bound, where that bound is finite",
            metric="relative_length",
            subject="cojer",
            against="dkw",
            kind="better",
        ),
        Claim(
            "CoJER's intervals are at most 30 % longer than those of split conformal prediction",
            metric="length",
            subject="cojer",
            against="scp",
            kind="ratio",
            margin=1.3,
        ),
    ),
    scales={
        "smoke": Scale(
            seeds=3,
            datasets=("friedman1",),
            settings={"m": 50, "m_own": 50, "models": "fast", "max_rows": 300},
        ),
        "quick": Scale(
            seeds=16,
            datasets=("diabetes", "friedman1", "friedman2", "friedman1/m=500", "friedman2/m=500"),
            settings={"m": 100, "m_own": 500, "models": "fast", "max_rows": 2000},
        ),
        "paper": Scale(
            seeds=30,
            settings={"m": 100, "m_own": 500, "models": "paper", "max_rows": 20_000},
        ),
    },
    trial=trial,
    own_data=OwnData("table", "regression"),
    limits=(
        "The bound of cojer, cojer-exact and cojer-arithmetic is proven for models that rank labels alike; for models "
        "that contradict each other it is an assumption that this study tests. cojer-split needs none.",
        "mapie, crepes and cojer-single use the one model that is best on held-out training rows; others aggregate.",
        "Splits of one table share its rows, so their results are not fully independent. Tables of more rows than the "
        "scale takes (2,000 at quick, 20,000 at paper) are sampled anew for each seed.",
        "Where the DKW bound has no finite interval, its pairs are left out of the comparison of lengths.",
        "No table of figures of the paper could be read; none is held against these results.",
    ),
    plots=(Plot("spread", "fcp", "Share of each batch that the intervals miss", reference=0.1),),
    keywords=(
        "prediction intervals for many points at once",
        "uncertainty of a regression",
        "coverage guarantee for a batch",
        "false coverage proportion",
        "how many intervals will miss",
        "simultaneous prediction bands",
    ),
)
