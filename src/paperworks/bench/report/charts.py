"""Charts as inline SVG: no script, no network, readable in light and dark and in black and white."""

from __future__ import annotations

import json
import math
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

__all__ = [
    "AXIS",
    "INK",
    "WIDTH",
    "IntervalRow",
    "framed",
    "inline_svg",
    "interval_chart",
    "interval_specification",
    "shortened",
]

_SVG = "http://www.w3.org/2000/svg"
INK = "#010203"  # stands for currentColor, which the chart grammar does not know
_FONT = "system-ui, -apple-system, Segoe UI, Roboto, Helvetica Neue, Arial, sans-serif"
_KEPT = {
    "d", "x", "y", "x2", "y2", "width", "height", "transform", "fill", "fill-opacity", "stroke", "stroke-width",
    "stroke-dasharray", "stroke-opacity", "opacity", "text-anchor", "font-family", "font-size", "font-weight",
}  # fmt: skip
AXIS = {"tickCount": 5, "gridOpacity": 0.14, "labelFlush": False}
"""What all axes of numbers share."""
WIDTH = 420
"""Width of the plots in pixels."""
_LABEL = 30
_PLAIN = {"shape": "circle", "size": 55, "line": 1.5}

ET.register_namespace("", _SVG)


@dataclass(frozen=True)
class IntervalRow:
    """One line of an interval chart."""

    label: str
    estimate: float
    low: float
    high: float
    emphasis: bool = False
    """Drawn as a diamond with a heavier line, for the one row that sums up the others."""


def interval_chart(
    rows: Sequence[IntervalRow],
    *,
    title: str,
    description: str,
    axis: str,
    threshold: float | None = None,
    neutral: float | None = None,
    log: bool = False,
) -> str:
    """Draw estimates with their intervals, one below the other.

    Parameters
    ----------
    rows : sequence of IntervalRow
        From top to bottom. A row whose numbers are not finite keeps its place and shows a dash.
    title, description : str
        Alternative text.
    axis : str
        Name of the quantity, under the axis.
    threshold : float, optional
        Where the verdict turns: a dashed line.
    neutral : float, optional
        Where both sides are equal: a thin line.
    log : bool, default False
        Whether the axis is logarithmic; numbers must then be positive.

    Returns
    -------
    str
        An ``<svg>`` element in the colour of the surrounding text, without scripts, styles or references.

    Raises
    ------
    ValueError
        If `rows` is empty.
    """
    if not rows:
        raise ValueError("rows must not be empty")
    import vl_convert

    specification = interval_specification(rows, axis=axis, threshold=threshold, neutral=neutral, log=log)
    return inline_svg(vl_convert.vegalite_to_svg(specification), title, description)


def interval_specification(
    rows: Sequence[IntervalRow], *, axis: str, threshold: float | None, neutral: float | None, log: bool
) -> dict[str, Any]:
    """Return the chart as a Vega-Lite specification; see `interval_chart`."""

    def drawable(value: float) -> bool:
        return math.isfinite(value) and (value > 0 or not log)

    labels = [shortened(row.label) for row in rows]
    values: list[dict[str, Any]] = []
    empty: list[dict[str, Any]] = []
    for i, row in enumerate(rows):
        if drawable(row.estimate) and drawable(row.low) and drawable(row.high):
            look = {"shape": "diamond", "size": 130, "line": 3} if row.emphasis else _PLAIN
            values.append({"row": i, "estimate": row.estimate, "low": row.low, "high": row.high, **look})
        else:
            empty.append({"row": i})
    lines = [
        {"at": value, **look}
        for value, look in ((neutral, {"dash": [1, 0], "ink": 0.35}), (threshold, {"dash": [5, 4], "ink": 0.8}))
        if value is not None and drawable(value)
    ]
    shown = [v[k] for v in values for k in ("low", "high")] + [line["at"] for line in lines]
    low, high = _padded(min(shown, default=1.0 if log else 0.0), max(shown, default=1.0), log)

    scale = {"domain": [low, high], "nice": False, "zero": False, "type": "log" if log else "linear"}
    x = {
        "type": "quantitative",
        "scale": scale,
        "axis": {"title": axis, "titlePadding": 10, "titleLimit": 520, **AXIS},
    }
    y_axis = {"labelExpr": f"{json.dumps(labels)}[datum.value]", "labelLimit": 0, "ticks": False, "domain": False}
    y = {
        "field": "row",
        "type": "ordinal",
        "title": None,
        "scale": {"domain": list(range(len(rows))), "padding": 0.4},
        "axis": {**y_axis, "labelPadding": 10},
    }

    def as_it_is(field: str, kind: str) -> dict[str, Any]:
        return {"field": field, "type": kind, "scale": None}

    layers: list[dict[str, Any]] = [
        {
            "data": {"values": values},
            "mark": {"type": "rule", "color": INK},
            "encoding": {
                "x": {"field": "low", **x},
                "x2": {"field": "high"},
                "y": y,
                "strokeWidth": as_it_is("line", "quantitative"),
            },
        },
        {
            "data": {"values": values},
            "mark": {"type": "point", "color": INK, "fill": INK, "opacity": 1},
            "encoding": {
                "x": {"field": "estimate", **x},
                "y": y,
                "shape": as_it_is("shape", "nominal"),
                "size": as_it_is("size", "quantitative"),
            },
        },
        {
            "data": {"values": lines},
            "mark": {"type": "rule", "color": INK, "strokeWidth": 1.25},
            "encoding": {
                "x": {"field": "at", **x},
                "strokeDash": as_it_is("dash", "nominal"),
                "opacity": as_it_is("ink", "quantitative"),
            },
        },
    ]
    if empty:
        middle = math.sqrt(low * high) if log else (low + high) / 2
        layers.append(
            {
                "data": {"values": [{**row, "at": middle} for row in empty]},
                "mark": {"type": "text", "text": "no value", "color": INK, "fontSize": 12, "opacity": 0.8},
                "encoding": {"x": {"field": "at", **x}, "y": y},
            }
        )
    return framed(layers, 30 * len(rows), labels)


def framed(layers: list[dict[str, Any]], height: int, labels: Sequence[str], right: int = 24) -> dict[str, Any]:
    """Return a Vega-Lite specification with the look that all charts share.

    Parameters
    ----------
    layers : list of dict
        What is drawn.
    height : int
        Height of the plot in pixels.
    labels : sequence of str
        Texts to the left of it, for which room is left.
    right : int, default 24
        Room to the right, in pixels.
    """
    # The font of the reader may be wider than the one measured here: leave room for it.
    room = 12 + 1.5 * max((len(label) for label in labels), default=8)
    ink = dict.fromkeys(("labelColor", "titleColor", "domainColor", "tickColor", "gridColor"), INK)
    sizes = {"labelFontSize": 13, "titleFontSize": 13, "titleFontWeight": "normal"}
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "background": "transparent",
        "width": WIDTH,
        "height": height,
        "padding": {"left": room, "right": right, "top": 8, "bottom": 8},
        "layer": layers,
        "config": {
            "font": _FONT,
            "view": {"stroke": None},
            "axis": {**ink, **sizes, "domainOpacity": 0.5, "tickOpacity": 0.5},
        },
    }


def _padded(low: float, high: float, log: bool) -> tuple[float, float]:
    if log:
        pad = max((math.log(high) - math.log(low)) * 0.06, 0.02)
        return low * math.exp(-pad), high * math.exp(pad)
    pad = (high - low) * 0.06 or max(abs(high) * 0.1, 1e-12)
    return low - pad, high + pad


def shortened(label: str) -> str:
    """Cut a long label in its middle: names of files differ at their end."""
    label = " ".join(label.split())
    if len(label) <= _LABEL:
        return label
    half = (_LABEL - 1) // 2
    return f"{label[:half]}…{label[-half:]}"


def inline_svg(svg: str, title: str, description: str) -> str:
    """Keep what draws, in the page's own colour, and say what it shows."""
    root = ET.fromstring(svg)
    for element in list(root):
        if element.tag == f"{{{_SVG}}}rect":
            root.remove(element)
    for parent in root.iter():
        for child in list(parent):
            if child.tag == f"{{{_SVG}}}path" and child.get("class") in ("background", "foreground"):
                parent.remove(child)
    for element in root.iter():
        kept = {name: "currentColor" if value == INK else value for name, value in element.attrib.items()}
        element.attrib.clear()
        element.attrib.update({name: value for name, value in kept.items() if name in _KEPT})
    size = ET.fromstring(svg).attrib
    root.attrib.clear()
    root.attrib.update(
        {"viewBox": size["viewBox"], "width": size["width"], "height": size["height"], "role": "img"}
        | {"aria-label": f"{title}. {description}", "class": "chart"}
    )
    for name, text in (("desc", description), ("title", title)):
        element = ET.Element(f"{{{_SVG}}}{name}")
        element.text = text
        root.insert(0, element)
    return ET.tostring(root, encoding="unicode")
