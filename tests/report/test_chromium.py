"""Reports in a real browser: a headless Chromium without a network.

Skipped where there is no Chromium: make test-report installs Debian's where root may.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import paceline
from paceline.report import write_report
from unit.report.cases import EVIL, Sampled, replayed

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: make test-report")

SLO = paceline.SLO(ttft=1.0, e2e=6.0)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # Chromium's sandbox does not start for root, as which containers run tests.
        flags = ["--no-sandbox"] if os.getuid() == 0 else []
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield started
        started.close()


def compared() -> paceline.Comparison:
    """Compare two policies on a trace, one with a name that would run if it were not escaped."""
    trace = paceline.synthesize("azure-conv", requests=60, rate=8.0, seed=1)
    cluster = paceline.Cluster([paceline.Instance(model="llama-3.1-8b", gpu="h100-sxm")])
    both = {"two instances": paceline.policies.vllm(), EVIL: paceline.policies.sarathi()}
    return paceline.compare(trace, cluster, both, slo=SLO, draws=50, warmup_s=1.0)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    arrivals = [0.2 * place for place in range(60)]
    first = replayed(arrivals, [1 + place % 7 for place in range(60)], instances=2, name=EVIL)
    second = replayed(arrivals, [1 + place % 7 for place in range(60)], name=EVIL)
    curve = [
        {"rate": rate, "gpu_rate": rate, "attainment": 1.0 / rate, "passes": rate < 2}
        for rate in (1.0, 2.0, 4.0)
    ]
    return write_report(
        {"two instances": Sampled(first, [EVIL, "b"]), EVIL: second},
        tmp_path_factory.mktemp("report") / "report.html",
        slo=SLO,
        capacities={EVIL: {"curve": curve, "target": 0.9}},
        comparison=compared(),
    )


class Opened:
    """A page, and what it said and asked for while it was open."""

    def __init__(self, browser: Any, path: Path, **options: Any) -> None:
        self.context = browser.new_context(offline=True, viewport={"width": 1280, "height": 900}, **options)
        self.page = self.context.new_page()
        self.said: list[str] = []
        self.requested: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("dialog", lambda dialog: self.said.append(f"dialog: {dialog.message}"))
        self.page.on("request", lambda request: self.requested.append(request.url))
        self.page.goto(path.as_uri())
        self.page.wait_for_selector("html[data-charts=drawn]", timeout=120_000)

    def select(self, tab: str) -> None:
        self.page.get_by_role("tab", name=tab, exact=True).click()


@pytest.fixture
def opened(browser: Any, report: Path) -> Iterator[Opened]:
    page = Opened(browser, report)
    yield page
    page.context.close()


def test_it_opens_without_a_word_on_the_console_and_without_a_request(opened: Opened, report: Path) -> None:
    assert opened.said == []
    assert opened.requested == [report.as_uri()]


def test_every_chart_draws(opened: Opened) -> None:
    drawn = opened.page.evaluate(
        """() => Array.from(document.querySelectorAll(".chart")).map((chart) => ({
            spec: chart.dataset.spec,
            marks: chart.querySelectorAll(
                chart.dataset.spec.startsWith("spec-comparison")
                    ? "svg .mark-symbol path[d]"
                    : "svg :is(.mark-line, .mark-rect, .mark-area) path[d]"
            ).length,
        }))"""
    )
    assert len(drawn) > 30
    assert [each["spec"] for each in drawn if each["marks"] == 0] == []


def test_tabs_show_one_section_by_pointer_and_by_keyboard(opened: Opened) -> None:
    page = opened.page

    def shown() -> list[str]:
        found: list[str] = page.evaluate(
            "() => Array.from(document.querySelectorAll('main > :not([hidden])')).map((each) => each.id)"
        )
        return found

    assert shown() == ["summary"]
    opened.select("Latency")
    assert shown() == ["latency"]
    page.keyboard.press("ArrowRight")
    assert shown() == ["length"]
    page.keyboard.press("End")
    assert shown() == ["inputs"]
    page.keyboard.press("ArrowRight")
    assert shown() == ["summary"]
    page.keyboard.press("ArrowLeft")
    assert shown() == ["inputs"]
    assert page.evaluate("() => document.activeElement.id") == "tab-inputs"
    assert page.url.endswith("#inputs")


def test_a_link_to_a_section_opens_it(browser: Any, report: Path) -> None:
    context = browser.new_context(offline=True)
    page = context.new_page()
    page.goto(report.as_uri() + "#time")
    page.wait_for_selector("#time .chart.drawn")
    assert page.get_attribute("#tab-time", "aria-selected") == "true"
    context.close()


def test_a_tooltip_names_the_point_under_the_pointer(opened: Opened) -> None:
    opened.select("Latency")
    box = opened.page.locator("#latency .chart svg").first.bounding_box()
    opened.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    opened.page.mouse.move(box["x"] + box["width"] / 2 + 3, box["y"] + box["height"] / 2 + 3)
    tip = opened.page.wait_for_selector("#vg-tooltip-element.visible", timeout=10_000)
    text = tip.inner_text()
    assert "TTFT (s)" in text
    assert "share of requests" in text
    assert "two instances" in text or EVIL in text
    assert "undefined" not in text


def test_names_from_traces_are_text(opened: Opened) -> None:
    assert EVIL in opened.page.inner_text("h1")
    # A legend's name is text within a drawing.
    legends = opened.page.evaluate(
        "() => Array.from(document.querySelectorAll('#time .role-legend-label text'), (t) => t.textContent)"
    )
    assert EVIL in legends
    assert opened.page.evaluate("() => document.querySelectorAll('svg script, main script').length") == 0


def test_a_table_opens_by_keyboard(opened: Opened) -> None:
    opened.select("Latency")
    summary = opened.page.locator("#latency summary").first
    summary.focus()
    opened.page.keyboard.press("Enter")
    assert opened.page.locator("#latency details[open] table").first.is_visible()


@pytest.mark.parametrize(
    ("scheme", "paper", "first"),
    [("light", "rgb(255, 255, 255)", "rgb(0, 114, 178)"), ("dark", "rgb(20, 24, 31)", "rgb(61, 155, 224)")],
)
def test_page_and_charts_follow_the_scheme(
    browser: Any, report: Path, scheme: str, paper: str, first: str
) -> None:
    opened = Opened(browser, report, color_scheme=scheme)
    opened.select("Latency")
    assert opened.page.evaluate("() => getComputedStyle(document.body).backgroundColor") == paper
    line = opened.page.locator("#latency .chart svg .mark-line path").first
    assert line.evaluate("(path) => getComputedStyle(path).stroke") == first
    opened.context.close()


def test_print_shows_every_section_in_print_colours(browser: Any, report: Path) -> None:
    opened = Opened(browser, report, color_scheme="dark")
    opened.page.emulate_media(media="print", color_scheme="dark")
    hidden = opened.page.evaluate(
        "() => Array.from(document.querySelectorAll('main > section')).filter((s) => !s.offsetHeight).length"
    )
    assert hidden == 0
    assert (
        opened.page.evaluate("() => getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    )
    assert not opened.page.is_visible("nav")
    opened.context.close()


def test_without_scripts_the_tables_are_there(browser: Any, report: Path) -> None:
    context = browser.new_context(offline=True, java_script_enabled=False)
    page = context.new_page()
    page.goto(report.as_uri())
    for section in ("summary", "balance"):
        assert page.locator(f"#{section} :not(details) > .scroll table").first.is_visible()
    context.close()


def test_a_narrow_window_has_no_sideways_scroll(browser: Any, report: Path) -> None:
    context = browser.new_context(offline=True, viewport={"width": 400, "height": 800})
    page = context.new_page()
    page.goto(report.as_uri() + "#latency")
    page.wait_for_selector("html[data-charts=drawn]", timeout=120_000)
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 400
    context.close()
