"""Draws the pictures that a study declares (`paperworks.bench.study.Plot`) and gives the numbers in them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from paperworks.bench.report.charts import AXIS, INK, WIDTH, framed, inline_svg, shortened
from paperworks.bench.report.wording import format_number, plural
from paperworks.bench.study import Plot, Study
from paperworks.bench.verdict import mean_interval
from paperworks.bench.verdict.pairs import metric_values
from paperworks.bench.verdict.tables import ordered

__all__ = ["Picture", "draw"]

Box = tuple[float, float, float, float]
"""Left, top, right and bottom in pixels."""

_HEIGHT = 320
_LOG_SPAN = 30.0
_SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
_DASHES = ([1, 0], [6, 3], [2, 3], [8, 3, 2, 3])


@dataclass(frozen=True)
class Picture:
    """A drawn plot with its numbers."""

    title: str
    caption: str
    svg: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def draw(plot: Plot, study: Study, results: pd.DataFrame) -> Picture | None:
    """Draw a plot of the results of a run.

    Parameters
    ----------
    plot : Plot
        What to draw.
    study : Study
        Its study.
    results : DataFrame
        As in `paperworks.bench.verdict.judge`. Trials that failed, or have no finite value, are left out.

    Returns
    -------
    Picture or None
        None if no trial has a value.
    """
    rows = results[results["status"] == "ok"]
    wanted = tuple(plot.at) or plot.datasets
    # In a spread or a tradeoff, data of the user stand for those of the study.
    if plot.kind == "curve" or (wanted and rows["dataset"].isin(wanted).any()):
        rows = rows[rows["dataset"].isin(wanted)]
    if plot.contenders:
        rows = rows[rows["contender"].isin(plot.contenders)]
    table = pd.DataFrame({"contender": rows["contender"], "dataset": rows["dataset"]})
    table["y"] = metric_values(rows, plot.metric)
    if plot.kind == "tradeoff":
        table["x"] = metric_values(rows, plot.against)
    table = table.replace([np.inf, -np.inf], np.nan).dropna()
    names = ordered(table["contender"], [contender.name for contender in study.contenders])
    if not names:
        return None
    units = {metric.name: f"{metric.name} ({metric.unit})" if metric.unit else metric.name for metric in study.metrics}
    if plot.kind == "spread":
        return _spread(plot, table, names, units[plot.metric])
    if plot.kind == "tradeoff":
        return _tradeoff(plot, table, names, units[plot.against], units[plot.metric])
    return _curve(plot, table, names, units[plot.metric])


def _spread(plot: Plot, table: pd.DataFrame, names: Sequence[str], unit: str) -> Picture:
    levels = (0.05, 0.25, 0.5, 0.75, 0.95)
    groups = table.groupby("contender")["y"]
    quantiles = {name: [float(q) for q in groups.get_group(name).quantile(list(levels))] for name in names}
    means = {name: float(groups.get_group(name).mean()) for name in names}
    values = [
        {"row": i, "low": q[0], "q1": q[1], "q3": q[3], "high": q[4], "mean": means[name]}
        for i, (name, q) in enumerate(quantiles.items())
    ]
    x = {"type": "quantitative", "scale": {"zero": False, "nice": True}, "axis": {**AXIS, "title": unit}}
    y = _rows(names)
    thin, thick = {"type": "rule", "strokeWidth": 1.2}, {"type": "rule", "strokeWidth": 6, "opacity": 0.45}
    dot = {"type": "point", "shape": "diamond", "fill": INK, "size": 90, "opacity": 1}
    layers: list[dict[str, Any]] = [
        _layer(values, thin, x={"field": "low", **x}, x2={"field": "high"}, y=y),
        _layer(values, thick, x={"field": "q1", **x}, x2={"field": "q3"}, y=y),
        _layer(values, dot, x={"field": "mean", **x}, y=y),
    ]
    if plot.reference is not None:
        layers.append(_layer([{"at": plot.reference}], _dashed(), x={"field": "at", **x}))
    rows = []
    for name in names:
        numbers = [format_number(value) for value in (means[name], *quantiles[name])]
        rows.append((name, str(len(groups.get_group(name))), *numbers))
    caption = "Diamond: mean. Thick line: the middle half of the trials. Thin line: from the 5 % to the 95 % quantile."
    columns = ("contender", "trials", "mean", "5 %", "25 %", "median", "75 %", "95 %")
    return _picture(plot, layers, 30 * len(names), caption, names, columns, rows)


def _tradeoff(plot: Plot, table: pd.DataFrame, names: Sequence[str], x_unit: str, y_unit: str) -> Picture:
    means = table.groupby("contender")[["x", "y"]].mean().loc[list(names)]
    values = [{"x": float(x), "y": float(y), "label": name} for name, x, y in means.itertuples()]
    x_axis, x_place = _axis([v["x"] for v in values])
    y_axis, y_place = _axis([v["y"] for v in values] + ([plot.reference] if plot.reference is not None else []))
    x = {"field": "x", "type": "quantitative", "scale": x_axis, "axis": {**AXIS, "title": x_unit}}
    y = {"field": "y", "type": "quantitative", "scale": y_axis, "axis": {**AXIS, "title": y_unit}}
    places = [(WIDTH * x_place(v["x"]), _HEIGHT * (1 - y_place(v["y"]))) for v in values]
    layers = [_layer(values, {"type": "point", "shape": "circle", "fill": INK, "size": 60, "opacity": 1}, x=x, y=y)]
    for value, (align, dx, dy) in zip(values, _label_places([v["label"] for v in values], places), strict=True):
        mark = {"type": "text", "align": align, "dx": dx, "dy": dy, "fontSize": 12}
        layers.append(_layer([value], mark, x=x, y=y, text={"field": "label"}))
    if plot.reference is not None:
        layers.append(_layer([{"y": plot.reference}], _dashed(), y=y))
    rows = [(name, format_number(float(a)), format_number(float(b))) for name, a, b in means.itertuples()]
    caption = "A point is the mean over the trials of one contender."
    return _picture(plot, layers, _HEIGHT, caption, (), ("contender", x_unit, y_unit), rows)


def _curve(plot: Plot, table: pd.DataFrame, names: Sequence[str], unit: str) -> Picture:
    points: list[dict[str, Any]] = []
    for (name, dataset), part in table.groupby(["contender", "dataset"], sort=False)["y"]:
        interval = mean_interval(part.to_numpy())
        i = list(names).index(str(name))
        look = {"shape": _SHAPES[i % len(_SHAPES)], "dash": _DASHES[i % len(_DASHES)]}
        at = {"x": float(plot.at[str(dataset)]), "y": interval.estimate, "low": interval.low, "high": interval.high}
        points.append({"name": name, **at, **look})
    points.sort(key=lambda point: (list(names).index(point["name"]), point["x"]))
    x = {"field": "x", "type": "quantitative", "scale": {"zero": False, "nice": True}}
    x["axis"] = {**AXIS, "title": plot.against}
    axis = {"type": "quantitative", "scale": {"zero": False, "nice": True}, "axis": {**AXIS, "title": unit}}
    y = {"field": "y", **axis}
    last = [[point for point in points if point["name"] == name][-1] for name in names]
    label = {"type": "text", "align": "left", "dx": 8, "color": INK, "fontSize": 12}
    shape, dash = ({"field": name, "type": "nominal", "scale": None} for name in ("shape", "dash"))
    bar = {"type": "rule", "opacity": 0.5}
    layers = [
        _layer(points, {"type": "line"}, x=x, y=y, detail={"field": "name"}, strokeDash=dash),
        _layer(points, bar, x=x, y={"field": "low", **axis}, y2={"field": "high"}),
        _layer(points, {"type": "point", "fill": INK, "opacity": 1}, x=x, y=y, shape=shape),
        _layer(last, label, x=x, y=y, text={"field": "name"}),
    ]
    if plot.reference is not None:
        layers.append(_layer([{"y": plot.reference}], _dashed(), y=y))
    rows = []
    for point in points:
        numbers = [format_number(point[key]) for key in ("y", "low", "high")]
        rows.append((str(point["name"]), f"{point['x']:g}", numbers[0], f"[{numbers[1]}, {numbers[2]}]"))
    caption = "Means over the trials with their 95 % intervals."
    return _picture(plot, layers, _HEIGHT, caption, (), ("contender", plot.against, unit, "95 % interval"), rows)


def _axis(values: Sequence[float]) -> tuple[dict[str, Any], Callable[[float], float]]:
    """Return a scale with room around the values, logarithmic if they span much, and the place of a value in [0, 1]."""
    low, high = min(values), max(values)
    log = low > 0 and high / low > _LOG_SPAN
    a, b = (math.log(low), math.log(high)) if log else (low, high)
    room = 0.08 * (b - a) or 0.5 * abs(b) or 1.0
    a, b = a - room, b + room
    domain = [math.exp(a), math.exp(b)] if log else [a, b]
    scale = {"type": "log" if log else "linear", "domain": domain, "nice": False, "zero": False}
    return scale, lambda value: ((math.log(value) if log else value) - a) / (b - a)


def _label_places(labels: Sequence[str], points: Sequence[tuple[float, float]]) -> list[tuple[str, int, int]]:
    """Return alignment and offsets of each label so that it covers no point and no other label, as far as can be."""
    taken = [(x - 5, y - 5, x + 5, y + 5) for x, y in points]
    offsets = (0, -11, 11, -22, 22, -33, 33)
    tries = [(align, dx, dy) for dy in offsets for align, dx in (("left", 9), ("right", -9))]
    chosen = []
    for label, (x, y) in zip(labels, points, strict=True):

        def box(place: tuple[str, int, int], x: float = x, y: float = y, width: float = 6.6 * len(label)) -> Box:
            align, dx, dy = place
            left = x + dx if align == "left" else x + dx - width
            return left, y + dy - 7, left + width, y + dy + 7

        def cost(place: tuple[str, int, int], box: Callable[..., Box] = box) -> float:
            outside = max(0.0, -box(place)[0] - 40)
            return outside + sum(_overlap(box(place), other) for other in taken)

        best = min(tries, key=cost)
        taken.append(box(best))
        chosen.append(best)
    return chosen


def _overlap(a: Box, b: Box) -> float:
    return max(0.0, min(a[2], b[2]) - max(a[0], b[0])) * max(0.0, min(a[3], b[3]) - max(a[1], b[1]))


def _rows(names: Sequence[str]) -> dict[str, Any]:
    labels = [shortened(name) for name in names]
    axis = {"labelExpr": f"{json.dumps(labels)}[datum.value]", "labelLimit": 0, "labelPadding": 10}
    axis |= {"ticks": False, "domain": False}
    scale = {"domain": list(range(len(names))), "padding": 0.4}
    return {"field": "row", "type": "ordinal", "title": None, "scale": scale, "axis": axis}


def _layer(values: list[dict[str, Any]], mark: dict[str, Any], **encoding: Any) -> dict[str, Any]:
    return {"data": {"values": values}, "mark": {"color": INK, **mark}, "encoding": encoding}


def _dashed() -> dict[str, Any]:
    return {"type": "rule", "strokeDash": [5, 4], "strokeWidth": 1.25, "opacity": 0.8}


def _picture(
    plot: Plot,
    layers: list[dict[str, Any]],
    height: int,
    caption: str,
    names: Sequence[str],
    columns: tuple[str, ...],
    rows: Sequence[tuple[str, ...]],
) -> Picture:
    import vl_convert

    specification = framed(layers, height, [shortened(name) for name in names], right=24 if names else 130)
    if plot.reference is not None:
        caption += f" Dashed: {format_number(plot.reference, 3 if not float(plot.reference).is_integer() else 0)}."
    said = "; ".join(f"{row[0]} {row[2]}" for row in rows)
    text = f"{plural(len(rows), 'row')} of numbers are in the table below: {said[:300]}"
    svg = inline_svg(vl_convert.vegalite_to_svg(specification), plot.title, text)
    return Picture(plot.title, caption, svg, columns, tuple(rows))
