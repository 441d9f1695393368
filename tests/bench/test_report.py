"""Reports: what pages and the terminal say; that nothing hostile gets through and nothing is loaded from elsewhere."""

from __future__ import annotations

import io
import json
import math
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import altair as alt
import numpy as np
import pytest
from rich.console import Console

from paperworks.bench import catalog
from paperworks.bench.card import Card, all_cards, card_for, card_of
from paperworks.bench.report import terminal
from paperworks.bench.report.charts import IntervalRow, interval_chart, interval_specification
from paperworks.bench.report.site import build_site
from paperworks.bench.report.wording import claim_in_words, decimals_for, format_number
from paperworks.bench.store import Store, TrialRecord
from paperworks.bench.study import SCALES, Claim, Contender, Figure, Metric, OwnData, Paper, Scale, Study
from paperworks.bench.verdict import judge

HOSTILE = '<script>alert("1")</script> größe & co.csv'
VOID = {"meta", "link", "br", "img", "hr", "input"}

STUDY = Study(
    slug="made-up",
    family="tests",
    paper=Paper(
        "A <b>bold</b> title", "Ann Author", "A venue 2025", "https://example.org/paper", "javascript:alert(1)"
    ),
    question="Is ours better than what I use?",
    datasets=("wine", "iris"),
    contenders=(
        Contender("theirs", "peer", "a library", requires=("numpy",)),
        Contender("ours", "method", "section 3"),
        Contender("half of ours", "ablation", "section 4"),
    ),
    metrics=(Metric("accuracy", "higher"), Metric("loss", "lower", "nats")),
    claims=(
        Claim("Ours is more accurate", "accuracy", "ours", "theirs", "better"),
        Claim("Ours has at most half the loss", "loss", "ours", "theirs", "ratio", 0.5),
        Claim("Ours is at least 0.7 accurate", "accuracy", "ours", 0.7, "not_worse", 0.01),
    ),
    scales={name: Scale(8) for name in SCALES},
    trial=lambda contender, dataset, seed, scale: {},
    figures=(
        Figure("accuracy", "ours", "wine", 0.95, "Table 1"),
        Figure("accuracy", "ours", "a set that we do not run", 0.5, "Table 2"),
    ),
    own_data=OwnData("table", "classification"),
    limits=("It can't show <i>everything</i>.",),
)


def fill(
    store: Store,
    study: Study = STUDY,
    *,
    done: int = 8,
    status: Any = "done",
    arguments: Any = None,
    broken: bool = True,
) -> int:
    """Store a run with seeds 0..done-1 on wine and on an own file with a hostile name."""
    run = store.begin_run(
        study=study.slug,
        family=study.family,
        scale="quick",
        n_planned=48,
        version="0.1.0",
        commit="abc1234",
        machine={"host": "bench-01", "cores": 2},
        versions={"python": "3.11.7", "numpy": "2.4.6"},
        arguments=arguments or {"seeds": list(range(8))},
    )
    rng = np.random.default_rng(0)
    for dataset, label in (("wine", "wine"), ("file:/own.csv", HOSTILE)):
        for seed in range(done):
            for contender in study.contenders:
                ours = contender.name == "ours"
                metrics = {
                    "accuracy": 0.8 + 0.1 * ours + 0.01 * rng.normal(),
                    "loss": 0.2 if ours else 0.5 + 0.01 * rng.normal(),
                }
                failed = broken and contender.name == "half of ours" and dataset == "wine" and seed == 3
                if broken and contender.name == "half of ours" and seed == 4:
                    metrics["loss"] = math.inf if dataset == "wine" else math.nan
                store.record(
                    run,
                    TrialRecord(
                        f"{run}-{dataset}-{seed}-{contender.name}",
                        study.slug,
                        contender.name,
                        dataset,
                        label,
                        seed,
                        "quick",
                        "failed" if failed else "ok",
                        "ValueError: <img src=x onerror=alert(2)>\nmore" if failed else "",
                        {} if failed else metrics,
                        0.1,
                        0.1,
                        50.0,
                        "0.1.0",
                    ),
                )
    verdict = judge(study, store.results(run)).to_json() if status == "done" else None
    store.finish_run(run, status, verdict)
    return run


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "results.sqlite") as opened:
        yield opened


class Page(HTMLParser):
    """Collects what the tests ask about a page, and that its tags are balanced."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.headings: list[tuple[int, str]] = []
        self.text = ""
        self.rows: list[list[str]] = []
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)
        if re.fullmatch("h[1-6]", tag):
            self.headings.append((int(tag[1]), ""))
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data
        if any(re.fullmatch("h[1-6]", tag) for tag in self._open):
            level, text = self.headings[-1]
            self.headings[-1] = (level, text + data)
        if {"td", "th"} & set(self._open):
            self.rows[-1][-1] += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]

    def cells(self, *first: str) -> list[str]:
        """Return the first row that begins with these cells."""
        for row in self.rows:
            cells = [" ".join(cell.split()) for cell in row]
            if all(cell.startswith(wanted) for cell, wanted in zip(cells, first, strict=False)):
                return cells
        raise AssertionError(f"no row {first}")


def built(store: Store, out: Path, **more: Any) -> dict[str, Page]:
    index = build_site(store, out, **{"studies": {STUDY.slug: STUDY}, **more})
    assert index == out / "index.html"
    files = [index, *(out / "studies").iterdir()]
    return {path.stem: Page(path.read_text(encoding="utf-8")) for path in files}


# ------------------------------------------------------------------------------------------------------------- the page


def test_page_loads_its_own_two_files_only(store: Store, tmp_path: Path) -> None:
    fill(store)
    for name, page in built(store, tmp_path / "site").items():
        loaded = [
            value
            for tag, attributes in page.tags
            for key, value in attributes.items()
            if key in ("src", "href", "xlink:href", "action", "data", "srcset", "poster") and tag != "a"
        ]
        root = "" if name == "index" else "../"
        assert loaded == ["data:,", f"{root}style.css", f"{root}site.js"]
        assert not {"iframe", "object", "embed", "img", "style", "base"} & {tag for tag, _ in page.tags}
        assert not [key for _, attributes in page.tags for key in attributes if key.startswith("on")]
        links = [str(attributes["href"]) for attributes in page.all("a")]
        assert all(re.match(r"https?://|#|(\.\./)?index\.html|studies/", link) for link in links), links
    style = (tmp_path / "site" / "style.css").read_text(encoding="utf-8")
    assert "url(" not in style
    assert "@import" not in style
    script = (tmp_path / "site" / "site.js").read_text(encoding="utf-8")
    assert not re.findall(r"https?:|//\w|innerHTML|\beval\b|import", script)


def test_links_lead_somewhere(store: Store, tmp_path: Path) -> None:
    fill(store)
    pages = built(store, tmp_path / "site")
    for page in pages.values():
        ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
        assert len(ids) == len(set(ids))
        targets = [str(a["href"])[1:] for a in page.all("a") if str(a["href"]).startswith("#")]
        assert set(targets) <= set(ids)
        named = [a["aria-labelledby"] for _, a in page.tags if "aria-labelledby" in a]
        assert set(named) <= set(ids)
    assert (tmp_path / "site" / "studies" / "made-up.html").exists()
    assert "studies/made-up.html" in [a["href"] for a in pages["index"].all("a")]


def test_hostile_names_are_text(store: Store, tmp_path: Path) -> None:
    fill(store)
    page = built(store, tmp_path / "site")["made-up"]
    assert HOSTILE in page.text
    assert "A <b>bold</b> title" in page.text
    assert "<img src=x onerror=alert(2)>" in page.text
    assert "It can't show <i>everything</i>." in page.text
    assert "javascript:" not in json.dumps(page.tags)
    assert not {"b", "i"} & {tag for tag, _ in page.tags}


def test_headings_tables_and_charts_are_accessible(store: Store, tmp_path: Path) -> None:
    fill(store)
    for name, page in built(store, tmp_path / "site").items():
        assert page.all("html")[0]["lang"] == "en"
        levels = [level for level, _ in page.headings]
        assert levels[0] == 1
        assert levels.count(1) == 1
        assert all(later - earlier <= 1 for earlier, later in pairwise(levels))
        assert all(text.strip() for _, text in page.headings)
        assert all("scope" in attributes for attributes in page.all("th"))
        assert len(page.all("caption")) == len(page.all("table"))
        assert page.all("a")[0] == {"class": "skip", "href": "#main"}
        if name == "made-up":
            charts = page.all("svg")
            assert len(charts) == len(STUDY.claims)
            assert all(
                c["role"] == "img" and "The numbers are in the table below" in str(c["aria-label"]) for c in charts
            )
            assert len(page.all("title")) == 1 + len(charts)
            assert all(a["tabindex"] == "0" and a["aria-label"] for a in page.all("div") if a.get("class") == "scroll")


def test_colours_are_legible_in_light_and_dark() -> None:
    style = Path(terminal.__file__).parent / "templates" / "style.css"
    light, dark = re.findall(r":root \{(.*?)\}", style.read_text(encoding="utf-8"), flags=re.DOTALL)[:2]

    def luminance(colour: str) -> float:
        parts = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
        linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    for scheme in (light, dark):
        colours = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6});", scheme))
        on_tint = [(name, f"{name}-tint") for name in ("holds", "fails", "inconclusive")]
        on_paper = [(n, p) for n in ("ink", "soft", "link", "fails", "inconclusive") for p in ("paper", "raised")]
        for front, back in on_tint + on_paper:
            high, low = sorted((luminance(colours[front]), luminance(colours[back])), reverse=True)
            assert (high + 0.05) / (low + 0.05) >= 4.5, (front, back)


def test_page_says_what_the_run_found(store: Store, tmp_path: Path) -> None:
    run = fill(store)
    stored = store.run(run).verdict
    assert stored is not None
    page = built(store, tmp_path / "site")["made-up"]
    text = " ".join(page.text.split())
    assert "Is ours better than what I use?" in text
    assert "accuracy of ours is higher than that of theirs, over all data sets." in text
    assert "loss of ours is at most 0.5 times that of theirs" in text
    assert "accuracy of ours is at most 0.01 worse than 0.7" in text
    assert "Of 3 claims 3 hold. 48 trials, 1 of them failed. Scale quick" in text
    claim = stored["claims"][0]
    digits = decimals_for([claim["high"] - claim["low"]])
    assert f"{claim['estimate']:.{digits}f} [" in text
    assert "To the left of the dashed line the claim is true." in text  # a ratio that should be small
    assert "Table 1" in text
    assert page.cells("accuracy", "ours", "a set that we do not run")[4] == "not run"
    assert page.cells("theirs", "peer", "a library")[3] == "numpy 2.4.6"
    assert page.cells("ours", "method", "section 3")[3] == "paperworks 0.1.0"
    assert "abc1234" in text
    assert "bench-01" in text
    assert "paperworks run made-up --data FILE --target COLUMN" in text
    order = [row[0] for row in page.rows if len(row) == 4 and "/" not in row[0]]
    assert [cell.split()[0] for cell in order if "contender" not in cell][:3] == ["ours", "half", "theirs"]


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        ({"seeds": list(range(8)), "contenders": ["ours", "theirs", "half of ours"], "datasets": ["wine", "iris"]}, ""),
        ({"seeds": [0, 1, 2, 5], "timeout": 30.0}, " --seeds 0-2,5 --timeout 30"),
        ({"contenders": ["ours", "half of ours"], "left_out": ["theirs"]}, ""),
        ({"contenders": ["ours"], "datasets": ["iris"]}, " --contenders ours --datasets iris"),
        (
            {
                "own": {"ref": "file:/my%20data/gr%C3%B6%C3%9Fe.csv?target=y&drop=a&drop=b%20c&sha256=0"},
                "datasets": ["f"],
            },
            " --data '/my data/größe.csv' --target y --drop a --drop 'b c'",
        ),
    ],
)
def test_page_gives_the_command_that_repeats_the_run(
    store: Store, tmp_path: Path, arguments: dict[str, Any], command: str
) -> None:
    fill(store, done=1, arguments={"study": "module:paperworks.studies.tests.made_up", **arguments})
    text = built(store, tmp_path / "site")["made-up"].text
    assert f"\npaperworks run made-up --scale quick{command}\n" in text
    assert ("left out: numpy not installed" in text) == ("left_out" in arguments)


def test_pooled_row_is_the_verdict_and_each_data_set_has_its_own(store: Store, tmp_path: Path) -> None:
    run = fill(store)
    results = store.results(run).set_index(["contender", "dataset", "seed"]).sort_index()["accuracy"]
    page = built(store, tmp_path / "site")["made-up"]
    for label, dataset in (("wine", "wine"), (HOSTILE, "file:/own.csv")):
        mean = (results["ours", dataset] - results["theirs", dataset]).mean()
        shown = page.cells(label, f"{mean:.3f}"[:4])
        assert float(shown[1]) == pytest.approx(mean, abs=0.001)
        assert shown[3:] == ["8", "0"]
    assert page.cells("all data sets")[3] == "16"


def test_undefined_metrics_are_shown_with_their_reason(store: Store, tmp_path: Path) -> None:
    fill(store)
    page = built(store, tmp_path / "site")["made-up"]
    rows = [[" ".join(cell.split()) for cell in row] for row in page.rows if row and "half of ours ablation" in row[0]]
    assert len(rows) == 2
    assert "6 of 8: 1 infinite, 1 failed" in rows[0][2]
    assert "7 of 8: 1 failed" in rows[0][1]
    assert "1 failed" in rows[0][3]
    assert "7 of 8: 1 not a number" in rows[1][2]
    assert "*" not in "".join(rows[0])
    failed = page.cells("half of ours", "wine", "1")
    assert failed[3] == "failed: ValueError: <img src=x onerror=alert(2)>"
    assert failed[4] == "3"


def test_subject_without_any_result(store: Store, tmp_path: Path) -> None:
    always = replace(STUDY, claims=(Claim("It beats a number", "accuracy", "half of ours", 2.0, "better"),))
    run = store.begin_run(
        study="made-up", family="tests", scale="smoke", n_planned=2, version="0", commit="", machine={}, versions={},
        arguments={},
    )  # fmt: skip
    for seed in range(2):
        record = TrialRecord(
            f"x{seed}", "made-up", "half of ours", "wine", "wine", seed, "smoke", "timeout", "", {}, 1, 1, 1, "0"
        )
        store.record(run, record)
    store.finish_run(run, "done", judge(always, store.results(run)).to_json())
    page = built(store, tmp_path / "site", studies={"made-up": always})["made-up"]
    text = " ".join(page.text.split())
    assert "2 of 2 trials of half of ours failed" in text
    assert "there is no interval" in text
    assert "no value" in text  # in the chart
    assert page.cells("half of ours", "wine", "2")[3] == "timeout"


def test_interrupted_run_has_a_count_and_no_numbers(store: Store, tmp_path: Path) -> None:
    fill(store, done=2, status="interrupted")
    pages = built(store, tmp_path / "site")
    text = " ".join(pages["made-up"].text.split())
    assert "12 of 48 trials" in text
    assert "There is no verdict" in text
    assert "12 of 48 trials" in " ".join(pages["index"].text.split())
    assert not pages["made-up"].all("svg")
    assert "comparison" not in [a.get("id") for _, a in pages["made-up"].tags]
    assert "Ours is more accurate" in text
    assert not re.search(r"badge (holds|fails|inconclusive)", json.dumps(pages["made-up"].tags))


def test_newest_finished_run_is_shown_and_the_unfinished_one_is_said(store: Store, tmp_path: Path) -> None:
    fill(store)
    second = fill(store, broken=False)
    third = fill(store, done=1, status="interrupted")
    text = " ".join(built(store, tmp_path / "site")["made-up"].text.split())
    assert f"A newer run ({third}, " in text
    assert "6 of 48 trials. This page shows the last finished one." in text
    assert "failed" not in text.replace("of these failed", "")
    assert f"{second}, done, 48 of 48 trials" in text
    shown = build_site(store, tmp_path / "first", studies={STUDY.slug: STUDY}, run=1)
    assert shown == tmp_path / "first" / "studies" / "made-up.html"
    assert "Failed trials" in shown.read_text(encoding="utf-8")


def test_claims_are_shown_as_they_were_judged(store: Store, tmp_path: Path) -> None:
    fill(store)
    changed = replace(STUDY, claims=(Claim("Something new", "accuracy", "ours", "theirs", "better", 0.5),))
    text = built(store, tmp_path / "site", studies={"made-up": changed})["made-up"].text
    assert "Ours is more accurate" in text
    assert "Something new" not in text


def test_own_study_files_are_found_and_those_of_others_are_not_run(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = (
        "from paperworks.bench.study import *\n"
        "STUDY = Study(slug='made-up', family='tests', paper=Paper('t', 'a', 'v', 'u'), question='Whose is it?',\n"
        "datasets=('wine',), contenders=(Contender('ours', 'method', 's'),), metrics=(Metric('accuracy', 'higher'),),\n"
        "claims=(), scales={name: Scale(1) for name in SCALES}, trial=print)\n"
    )
    mine = tmp_path / "mine.py"
    mine.write_text(code, encoding="utf-8")
    fill(store, arguments={"study": f"file:{mine}"})
    build_site(store, tmp_path / "site")
    page = (tmp_path / "site" / "studies" / "made-up.html").read_text(encoding="utf-8")
    assert "Whose is it?" in page
    assert f"paperworks run {mine} --scale quick" in page

    monkeypatch.setattr("os.getuid", lambda: mine.stat().st_uid + 1)
    build_site(store, tmp_path / "other")
    assert not (tmp_path / "other" / "studies" / "made-up.html").exists()
    index = Page((tmp_path / "other" / "index.html").read_text(encoding="utf-8"))
    assert "made-up: run 1, done, 48 of 48 trials, verdict holds" in index.text


def test_speed_is_shown_where_it_was_measured(store: Store, tmp_path: Path) -> None:
    fill(store)
    case = {"name": "fit", "peer": "theirs", "ours_seconds": 0.5, "peer_seconds": 1.4, "ratio": 2.8, "ratio_low": 2.6}
    record = {"slug": "made-up", "machine": "2 cores", "date": "2025-07-13", "cases": [{**case, "ratio_high": 3.0}]}
    folder = tmp_path / "benchmarks"
    folder.mkdir()
    (folder / "made-up.json").write_text(json.dumps(record), encoding="utf-8")
    page = built(store, tmp_path / "site", benchmarks=folder)["made-up"]
    assert page.cells("fit", "theirs") == ["fit", "theirs", "0.5", "1.4", "2.80 [2.60, 3.00]", ""]
    (folder / "made-up.json").write_text(json.dumps({"cases": [case]}), encoding="utf-8")
    with pytest.raises(ValueError, match=r"made-up\.json is malformed.*ratio_high"):
        build_site(store, tmp_path / "site", studies={"made-up": STUDY}, benchmarks=folder)


def test_methods_without_results_have_a_page(store: Store, tmp_path: Path) -> None:
    card = replace(card_of(STUDY), import_line="from paperworks.tests import Ours", example=">>> 1 < 2\nTrue")
    build_site(store, tmp_path / "site", cards={"made-up": card}, studies=["made-up"])
    page = Page((tmp_path / "site" / "studies" / "made-up.html").read_text(encoding="utf-8"))
    assert "not run yet" in page.text
    assert ">>> 1 < 2\nTrue" in page.text
    assert "from paperworks.tests import Ours" in page.text
    assert "Ours is more accurate" in page.text


def test_empty_store_says_so(store: Store, tmp_path: Path) -> None:
    index = build_site(store, tmp_path / "site", studies=[])
    assert "Nothing is stored yet" in index.read_text(encoding="utf-8")


def test_other_files_of_the_folder_stay(store: Store, tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "notes.txt").write_text("mine")
    build_site(store, tmp_path / "site", studies=[])
    assert (tmp_path / "site" / "notes.txt").read_text() == "mine"


# ------------------------------------------------------------------------------------------------------------- charts

ROWS = [
    IntervalRow("a", 1.0, 0.5, 2.0),
    IntervalRow(HOSTILE * 3, math.nan, math.nan, math.nan),
    IntervalRow("all", 2.0, 1.5, 2.5, emphasis=True),
]


@pytest.mark.parametrize("log", [False, True])
def test_chart_is_plain_svg(log: bool) -> None:
    svg = interval_chart(
        ROWS, title="A <title>", description="What & why", axis="x", threshold=1.2, neutral=1.0, log=log
    )
    page = Page(svg)
    assert page.tags[0][0] == "svg"
    assert page.tags[0][1]["aria-label"] == "A <title>. What & why"
    assert {tag for tag, _ in page.tags} <= {"svg", "title", "desc", "g", "path", "line", "text"}
    assert not re.search(r"href|url\(|style=|on[a-z]+=|#010203", svg)
    assert svg.count("currentColor") > 10
    fills = {a.get("fill") for _, a in page.tags} | {a.get("stroke") for _, a in page.tags}
    assert fills <= {None, "none", "currentColor", "transparent"}
    assert "no value" in page.text


def test_chart_draws_numbers_where_they_belong() -> None:
    svg = interval_chart(ROWS, title="t", description="d", axis="x", threshold=0.5)
    marks = re.findall(r'<path [^>]*?transform="translate\(([\d.]+),([\d.]+)\)"[^>]*fill="currentColor"', svg)
    (x1, y1), (x2, y2) = [(float(x), float(y)) for x, y in marks]
    # the axis runs from 0.5 to 2.5 with 6 % to spare on both sides, over 420 pixels
    assert x1 == pytest.approx(420 * (1.0 - 0.38) / 2.24, abs=0.5)
    assert x2 == pytest.approx(420 * (2.0 - 0.38) / 2.24, abs=0.5)
    assert (y1 < 30, y2 > 60, y1 + y2) == (True, True, pytest.approx(90))  # first and last of three rows of 30


@pytest.mark.parametrize(
    "rows", [ROWS, ROWS[1:2], [IntervalRow("a", 1.0, 1.0, 1.0)], [IntervalRow("a", 0.0, -1.0, 1e-9)] * 40]
)
@pytest.mark.parametrize("log", [False, True])
def test_chart_is_valid_by_the_grammar(rows: list[IntervalRow], log: bool) -> None:
    alt.Chart.from_dict(interval_specification(rows, axis="x", threshold=1.0, neutral=0.0, log=log))
    assert "<svg" in interval_chart(rows, title="t", description="d", axis="x", threshold=1.0, neutral=0.0, log=log)


def test_chart_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="rows"):
        interval_chart([], title="t", description="d", axis="x")


# ----------------------------------------------------------------------------------------------------------- terminal


def printed(view: Any, width: int = 120) -> str:
    stream = io.StringIO()
    Console(file=stream, width=width, highlight=False).print(view)
    return stream.getvalue()


def test_comparison_in_the_terminal(store: Store) -> None:
    results = store.results(fill(store))
    text = printed(terminal.comparison_view(STUDY, results))
    lines = [line.split() for line in text.splitlines()]
    assert [line[0] for line in lines if line and line[0] in ("ours", "half", "theirs")] == [
        "ours",
        "half",
        "theirs",
    ] * 2
    ours = next(line for line in lines if line[:1] == ["ours"])
    mean = results[(results["contender"] == "ours") & (results["dataset"] == "wine")]["accuracy"].mean()
    assert float(ours[1]) == pytest.approx(mean, abs=0.001)
    assert ours[2] == "*"
    assert "(6/8)" in text
    assert "loss of half of ours on wine: 1 infinite, 1 failed; 6 of 8 trials are in the mean" in text
    assert HOSTILE in text


def test_names_are_not_markup() -> None:
    hostile = replace(
        STUDY, question="[red]really[/red]?", contenders=(Contender("[bold]", "method", "[/]"),), claims=()
    )
    assert "[red]really[/red]?" in printed(terminal.study_header(hostile, "quick"))
    assert "[bold]" in printed(terminal.card_view(card_of(hostile)))


def test_run_in_the_terminal(store: Store) -> None:
    run = store.run(fill(store, arguments={"left_out": ["theirs", "[gone]"]}))
    text = printed(terminal.run_view(run, store.results(run.id), STUDY, n_reused=5))
    for part in (
        "48 of 48 trials, 5 known before",
        'theirs: needs numpy (pip install "paperworks[peers]")',
        "[gone]: what it needs is not installed",
        "1 trial of 48 failed",
        "half of ours on wine, 1 trial failed: ValueError",
        "✓ holds  Ours is more accurate",
        "16 pairs, 95% bootstrap (BCa)",
    ):
        assert part in text
    gone = printed(terminal.run_view(run, store.results(run.id), None))
    assert "not on this machine" in gone
    assert "Ours is more accurate" in gone


def test_interrupted_run_in_the_terminal(store: Store) -> None:
    run = store.run(fill(store, done=2, status="interrupted"))
    text = printed(terminal.run_view(run, store.results(run.id), STUDY))
    assert "12 of 48 trials" in text
    assert "no verdict" in text
    assert "accuracy" not in text


def test_records_as_json(store: Store) -> None:
    run = store.run(fill(store))
    trials = [terminal.trial_to_json(trial) for trial in store.trials(run.id)]
    json.dumps({**terminal.run_to_json(run), "trials": trials}, allow_nan=False)
    undefined = [trial for trial in trials if trial["undefined"]]
    assert sorted(trial["undefined"]["loss"] for trial in undefined) == ["inf", "nan"]
    assert all(trial["metrics"]["loss"] is None and trial["metrics"]["accuracy"] > 0 for trial in undefined)


def test_progress_counts_failures_and_is_silent_without_a_terminal() -> None:
    stream = io.StringIO()
    with terminal.Progress(Console(file=stream)) as progress:
        outcome = SimpleNamespace(status="failed")
        progress.on_event(SimpleNamespace(kind="trial", n_done=1, n_total=4, message="", outcome=outcome))
    assert stream.getvalue() == ""
    with terminal.Progress(Console(file=stream, force_terminal=True, width=100)) as progress:
        progress.on_event(SimpleNamespace(kind="trial", n_done=1, n_total=4, message="", outcome=outcome))
    assert "1 failed" in stream.getvalue()
    assert "1/4" in stream.getvalue()


def test_lists_in_the_terminal() -> None:
    row = {"slug": "x", "family": "f", "verdict": None, "public_names": ["A", "B"], "extras": [], "paper": "[P]"}
    text = printed(terminal.methods_table([row, {**row, "slug": "y", "verdict": "fails"}]))
    assert "A, B" in text
    assert "✗ fails" in text
    assert "[P]" in text
    shown = printed(terminal.datasets_table([{"name": "wine", "shape": (178, 13), "available": True}]))
    assert all(text in shown for text in ("wine", "178, 13", "yes"))
    assert "wine" in printed(terminal.record_view({"name": "wine", "shape": (178, 14), "licence": None}))
    part = {"name": "torch", "installed": {}, "missing": ["torch"], "install": "pip install x"}
    state = {
        "paperworks": "0",
        "python": "3",
        "platform": "p",
        "cores": 2,
        "packages": {"numpy": "2"},
        "extras": [part],
    }
    shown = printed(terminal.doctor_view({**state, "backends": [], "store": {"url": "u", "ok": True, "message": "m"}}))
    assert "torch: pip install x" in shown


# ------------------------------------------------------------------------------------------------------- words, cards


@pytest.mark.parametrize(
    ("claim", "words"),
    [
        (
            Claim("s", "loss", "ours", "theirs", "better", 0.1),
            "loss of ours is lower than that of theirs by more than 0.1 nats",
        ),
        (Claim("s", "loss", "ours", 0.3, "not_worse"), "loss of ours is not worse than 0.3 nats"),
        (
            Claim("s", "accuracy", "ours", "theirs", "ratio", 1.5),
            "accuracy of ours is at least 1.5 times that of theirs",
        ),
    ],
)
def test_claims_in_words(claim: Claim, words: str) -> None:
    stored = judge(replace(STUDY, claims=(claim,)), _no_results()).to_json()["claims"][0]
    assert claim_in_words(stored, STUDY) == words


def _no_results() -> Any:
    import pandas as pd

    return pd.DataFrame(columns=["contender", "dataset", "dataset_label", "seed", "status", "error"])


@pytest.mark.parametrize(
    ("value", "decimals", "text"),
    [
        (0.0, 2, "0.00"),
        (1234.567, 1, "1234.6"),
        (3e9, 0, "3e+09"),
        (1e-7, 3, "1e-07"),
        (-math.inf, 2, "-∞"),
        (None, 2, "–"),
    ],
)
def test_numbers_in_words(value: float | None, decimals: int, text: str) -> None:
    assert format_number(value, decimals) == text


def test_card_of_an_own_study() -> None:
    card = card_of(STUDY)
    assert isinstance(card, Card)
    assert (card.slug, card.import_line, card.example) == ("made-up", "", "")
    assert json.loads(json.dumps(card.to_json()))["paper"]["authors"] == "Ann Author"
    with pytest.raises(LookupError, match="no-such-thing"):
        card_for("no-such-thing")


def test_cards_of_all_methods_say_how_to_use_them() -> None:
    cards = all_cards()
    assert set(cards) == {entry.study.slug for entry in catalog.entries()}
    for card in cards.values():
        assert card.import_line.startswith(f"from paperworks.{card.family} import {card.public_names[0]}")
        assert card.install.startswith("pip install")


# --------------------------------------------------------------------------------------------------------------- size


@pytest.mark.slow
def test_large_run_is_built(tmp_path: Path) -> None:
    import pandas as pd

    datasets = tuple(f"d{i}" for i in range(10))
    study = replace(STUDY, datasets=datasets, figures=())
    names = [contender.name for contender in study.contenders]
    index = pd.MultiIndex.from_product([names, datasets, range(3334)], names=["contender", "dataset", "seed"])
    results = index.to_frame(index=False)
    rng = np.random.default_rng(0)
    results = results.assign(dataset_label=results["dataset"], status="ok", error="", wall_seconds=1.0)
    results["accuracy"] = rng.normal(size=len(results)) + (results["contender"] == "ours")
    results["loss"] = rng.gamma(2.0, size=len(results))
    with Store(tmp_path / "small.sqlite") as small:
        run = replace(small.run(fill(small)), n_done=len(results), verdict=judge(study, results).to_json())
    stub: Any = SimpleNamespace(run=lambda number: run, runs=lambda: [run], results=lambda number: results)
    started = time.perf_counter()
    build_site(stub, tmp_path / "site", studies={"made-up": study})
    print(f"site of {len(results):,} trials: {time.perf_counter() - started:.2f} s")
    page = Page((tmp_path / "site" / "studies" / "made-up.html").read_text(encoding="utf-8"))
    assert page.cells("all data sets")[3] == "33340"
