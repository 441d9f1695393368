"""Pictures of results: the numbers in them are those of the trials, and nothing hostile gets through."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from paperworks.bench.report.plots import draw
from paperworks.bench.study import Plot, StudyError
from tests.bench.test_report import HOSTILE, STUDY


def results(n: int = 12) -> pd.DataFrame:
    rows = []
    for contender in ("theirs", "ours", "half of ours"):
        for dataset in ("wine", "iris"):
            rng = np.random.default_rng(len(contender) + len(dataset))
            for seed in range(n):
                row = {"contender": contender, "dataset": dataset, "dataset_label": dataset, "seed": seed, "error": ""}
                numbers = {"accuracy": rng.random(), "loss": 10 ** rng.normal(), "wall_seconds": 0.1}
                rows.append({**row, "status": "ok", **numbers})
    return pd.DataFrame(rows)


def test_spread_shows_mean_and_quantiles_of_the_trials() -> None:
    frame = results()
    picture = draw(Plot("spread", "accuracy", "Accuracy", reference=0.5), STUDY, frame)
    assert [row[0] for row in picture.rows] == ["theirs", "ours", "half of ours"]
    for name, n, mean, *quantiles in picture.rows:
        values = frame.loc[frame["contender"] == name, "accuracy"]
        assert int(n) == 24
        assert float(mean) == pytest.approx(values.mean(), abs=6e-4)
        expected = values.quantile([0.05, 0.25, 0.5, 0.75, 0.95])
        assert [float(q) for q in quantiles] == pytest.approx(list(expected), abs=6e-4)
    assert "Dashed: 0.500" in picture.caption
    assert ET.fromstring(picture.svg).get("role") == "img"


def test_data_sets_and_contenders_can_be_chosen_and_bad_trials_are_left_out() -> None:
    frame = results()
    frame.loc[frame.index[0], "status"] = "failed"
    frame.loc[frame.index[1], "accuracy"] = math.nan
    frame.loc[frame.index[2], "accuracy"] = math.inf
    plot = Plot("spread", "accuracy", "Accuracy", datasets=("wine",), contenders=("theirs", "ours"))
    picture = draw(plot, STUDY, frame)
    assert [row[:2] for row in picture.rows] == [("theirs", "9"), ("ours", "12")]
    assert draw(plot, STUDY, frame.assign(status="failed")) is None


def test_tradeoff_sets_two_means_against_each_other() -> None:
    frame = results()
    picture = draw(Plot("tradeoff", "accuracy", "Cost", against="loss"), STUDY, frame)
    assert picture.columns == ("contender", "loss (nats)", "accuracy")
    means = frame.groupby("contender")[["loss", "accuracy"]].mean()
    for name, loss, accuracy in picture.rows:
        assert float(loss) == pytest.approx(means.loc[name, "loss"], abs=6e-4)
        assert float(accuracy) == pytest.approx(means.loc[name, "accuracy"], abs=6e-4)
    texts = [element.text for element in ET.fromstring(picture.svg).iter() if element.tag.endswith("text")]
    assert {"theirs", "ours", "half of ours"} <= set(texts)


def test_a_curve_follows_the_number_of_the_data_sets() -> None:
    frame = results()
    picture = draw(Plot("curve", "loss", "Growth", against="rows", at={"wine": 178, "iris": 150}), STUDY, frame)
    assert [row[:2] for row in picture.rows] == [
        (name, x) for name in ("theirs", "ours", "half of ours") for x in ("150", "178")
    ]
    for name, x, mean, _ in picture.rows:
        dataset = {"150": "iris", "178": "wine"}[x]
        part = frame[(frame["contender"] == name) & (frame["dataset"] == dataset)]
        assert float(mean) == pytest.approx(part["loss"].mean(), abs=6e-4)


def test_data_sets_outside_a_plot() -> None:
    frame = results().replace({"wine": "own file", "iris": "another"})
    assert (
        draw(Plot("curve", "loss", "Growth", against="rows", at={"wine": 178.0, "iris": 150.0}), STUDY, frame) is None
    )
    assert len(draw(Plot("spread", "loss", "Losses", datasets=("wine",)), STUDY, frame).rows) == 3


@pytest.mark.parametrize("kind", ["spread", "tradeoff"])
def test_hostile_names_and_extreme_values_are_drawn_as_text(kind) -> None:
    frame = results().replace({"ours": HOSTILE})
    frame["loss"] *= 1e12
    contenders = tuple(replace(c, name=HOSTILE) if c.name == "ours" else c for c in STUDY.contenders)
    study = replace(STUDY, contenders=contenders, claims=(), figures=())
    against = "accuracy" if kind == "tradeoff" else ""
    picture = draw(Plot(kind, "loss", HOSTILE, against=against), study, frame)
    root = ET.fromstring(picture.svg)
    assert not [element for element in root.iter() if element.tag.endswith(("script", "style", "image"))]
    assert not [name for element in root.iter() for name in element.attrib if name.startswith("on") or "href" in name]


@pytest.mark.parametrize(
    ("plot", "said"),
    [
        (lambda: Plot("pie", "loss", "x"), "kind"),
        (lambda: Plot("spread", "loss", ""), "title"),
        (lambda: Plot("spread", "loss", "x", against="accuracy"), "against"),
        (lambda: Plot("curve", "loss", "x", against="rows"), "at"),
        (lambda: replace(STUDY, plots=(Plot("spread", "speed", "x"),)), "unknown metrics speed"),
        (lambda: replace(STUDY, plots=(Plot("spread", "loss", "x", datasets=("mars",)),)), "unknown datasets mars"),
        (lambda: replace(STUDY, plots=(Plot("spread", "loss", "x", contenders=("you",)),)), "unknown contenders you"),
        (lambda: replace(STUDY, plots=(Plot("tradeoff", "loss", "x", against="y"),)), "unknown metrics y"),
    ],
)
def test_malformed_plots_are_refused(plot, said) -> None:
    with pytest.raises(StudyError, match=said):
        plot()
