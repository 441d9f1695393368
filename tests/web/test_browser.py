"""The site in a real browser: what people see and do, and that nothing is asked of any other machine."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.web.conftest import TABLE

sync_api = pytest.importorskip("playwright.sync_api")
CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")

SHOTS = Path(__file__).parents[2] / "screenshots"
PAGES = (
    "/",
    "/methods/shift-auc",
    "/methods/immax",
    "/find?q=rare+classes",
    "/runs",
    "/data",
    "/compare?before=1&after=2",
)


@pytest.fixture(scope="session")
def address(filled: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    home = tmp_path_factory.mktemp("home")
    env = {**os.environ, "XDG_DATA_HOME": str(home), "HOME": str(home)}
    command = [
        sys.executable,
        "-m",
        "paperworks.cli",
        "serve",
        "--store",
        str(filled),
        "--port",
        str(port),
        "--jobs",
        "1",
    ]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as server:
        place = f"http://127.0.0.1:{port}"
        for _ in range(300):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield place
        server.terminate()
        server.wait(timeout=60)


@pytest.fixture(scope="session")
def browser() -> Iterator[sync_api.Browser]:
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield opened
        opened.close()


class Watched:
    """A page that remembers what it asked for and what went wrong."""

    def __init__(self, browser: sync_api.Browser, address: str, **options: object) -> None:
        self.context = browser.new_context(base_url=address, **options)
        self.page = self.context.new_page()
        self.asked: list[str] = []
        self.wrong: list[str] = []
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on(
            "console", lambda message: self.wrong.append(message.text) if message.type in ("error", "warning") else None
        )
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))

    def _heard(self, message: sync_api.ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.wrong.append(message.text)

    def close(self, address: str, *, refusals: int = 0) -> None:
        foreign = [url for url in self.asked if not url.startswith((f"{address}/", "data:"))]
        self.context.close()
        assert foreign == []
        problems = [text for text in self.wrong if not (refusals and "status of 4" in text)]
        assert problems == []


def shot(page: sync_api.Page, name: str) -> None:
    SHOTS.mkdir(exist_ok=True)
    page.screenshot(path=SHOTS / f"{name}.png", full_page=True)


def test_search_and_filters_are_in_the_address(browser, address) -> None:
    watched = Watched(browser, address)
    page = watched.page
    page.goto("/")
    everything = page.locator("#methods > li:visible").count()
    assert everything >= 7
    page.get_by_label("Search", exact=True).fill("imbalanced margin")
    assert page.locator("#methods > li:visible h2").all_inner_texts() == ["immax"]
    assert page.url.endswith("?q=imbalanced+margin")
    assert f"1 of {everything} methods" in page.locator("#shown").inner_text()
    page.get_by_label("Search", exact=True).fill("")
    page.get_by_label("Family", exact=True).select_option("causal")
    causal = page.locator("#methods > li:visible h2").all_inner_texts()
    assert "factorial-design" in causal
    assert "immax" not in causal
    page.get_by_label("Order", exact=True).select_option("name")
    page.reload()
    assert page.locator("#methods > li:visible h2").all_inner_texts() == sorted(causal)
    page.get_by_label("Search", exact=True).fill("no such thing")
    assert "nothing matches" in page.locator("#shown").inner_text()
    page.goto("/?verdict=none")
    assert "factorial-design" not in page.locator("#methods > li:visible h2").all_inner_texts()
    shot(page, "index-filtered")
    watched.close(address)


def test_a_method_is_found_by_its_problem_with_the_keyboard(browser, address) -> None:
    watched = Watched(browser, address)
    page = watched.page
    page.goto("/")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.get_by_label("What is your problem?").focus()
    page.keyboard.type("rare classes are ignored")
    page.keyboard.press("Enter")
    page.wait_for_url("**/find?q=rare*")
    page.get_by_role("link", name="immax").click()
    page.wait_for_url("**/methods/immax")
    assert page.get_by_role("heading", level=1).inner_text() == "immax"
    watched.close(address)


def test_a_method_page_shows_charts_with_their_numbers(browser, address) -> None:
    watched = Watched(browser, address)
    page = watched.page
    page.goto("/methods/shift-auc")
    charts = page.locator("svg[role=img]")
    assert charts.count() >= 3
    for i in range(charts.count()):
        assert len(charts.nth(i).get_attribute("aria-label")) > 20
        box = charts.nth(i).bounding_box()
        assert box["width"] > 200
        assert box["height"] > 30
    table = page.locator("article.claim details").first
    table.locator("summary").click()
    assert table.locator("table tbody tr").count() >= 1
    shot(page, "method")
    watched.close(address)


def test_a_run_on_an_uploaded_file_is_watched_to_its_end(browser, address, tmp_path) -> None:
    file = tmp_path / "shop.csv"
    file.write_text(TABLE, encoding="utf-8")
    watched = Watched(browser, address)
    page = watched.page
    page.goto("/data")
    page.get_by_label(re.compile("^File:")).set_input_files(file)
    page.get_by_role("button", name="Read the file").click()
    page.wait_for_url("**/data/*")
    assert page.get_by_role("heading", level=1).inner_text() == "shop.csv"
    assert "60 rows, 3 columns" in page.locator("main").inner_text()
    shot(page, "upload")
    page.get_by_label("Method", exact=True).select_option("shift-auc")
    page.get_by_label(re.compile("^Target")).select_option("sold")
    page.get_by_label("Size", exact=True).select_option("smoke")
    page.get_by_role("button", name="Run", exact=True).click()
    page.wait_for_url("**/runs/*", timeout=60_000)
    shot(page, "run-live")
    page.wait_for_selector("text=What the paper claims, and what we found", timeout=180_000)
    assert "shop.csv (sold)" in page.locator("main").inner_text()
    shot(page, "run-done")
    watched.close(address)


def test_a_refused_file_is_explained(browser, address, tmp_path) -> None:
    file = tmp_path / "torn.csv"
    file.write_text("a,b\n1,2\n3,4,5\n", encoding="utf-8")
    watched = Watched(browser, address)
    page = watched.page
    page.goto("/data")
    page.get_by_label(re.compile("^File:")).set_input_files(file)
    page.get_by_role("button", name="Read the file").click()
    text = page.get_by_role("alert").inner_text()
    assert "torn.csv" in text
    assert "3" in text
    shot(page, "refused")
    watched.close(address, refusals=1)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_pages_fit_and_are_accessible(browser, address, scheme: str, width: int) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    watched = Watched(browser, address, color_scheme=scheme, viewport={"width": width, "height": 800})
    page = watched.page
    for path in PAGES:
        page.goto(path)
        wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, f"{path} is {wide} px too wide"
        found = axe.run(page).response["violations"]
        serious = [
            (item["id"], item["nodes"][0]["html"][:200]) for item in found if item["impact"] in ("serious", "critical")
        ]
        assert serious == [], path
        name = re.sub(r"[^a-z]+", "-", path.lower()).strip("-") or "index"
        shot(page, f"{name}-{scheme}-{width}")
    watched.close(address)
