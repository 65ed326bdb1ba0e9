"""The page: everything of a result in one file, escaped, with charts that keep Vega-Lite's schema."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import paceline
from paceline.errors import ConfigError, ResultError
from paceline.report import write_report
from paceline.report.figure import Section
from paceline.report.libraries import altair
from paceline.report.replayed import runs_of
from paceline.report.writing import page_of, sections_of
from unit.report.cases import EVIL, Sampled, replayed

SLO = paceline.SLO(ttft=1.0, e2e=3.0)


class Page(HTMLParser):
    """The elements of a page: their attributes, and the texts of scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.words: list[str] = []
        self._script: dict[str, str | None] | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._script = dict(attrs) if tag == "script" else None

    def handle_endtag(self, tag: str) -> None:
        if tag == "script":
            self._script = None

    def handle_data(self, data: str) -> None:
        if self._script is not None:
            self.scripts.append((self._script, data))
        else:
            self.words.append(data)

    @property
    def run(self) -> list[str]:
        return [text for attributes, text in self.scripts if attributes.get("type") is None]

    @property
    def documents(self) -> dict[str, Any]:
        return {
            str(attributes["id"]): json.loads(text)
            for attributes, text in self.scripts
            if attributes.get("type") == "application/json"
        }


def sections(*arguments: Any) -> list[Section]:
    """Return the sections of a report, made as `page_of` makes them: charts are checked as a whole only."""
    with altair().utils.schemapi.debug_mode(False):
        return sections_of(*arguments)


@cache
def evil_page() -> Page:
    result = replayed([0.0, 0.5, 1.0], [3, 4, 5], name=EVIL)
    sampled = Sampled(result, [EVIL, "</script><img src=x onerror=alert(1)>"])
    text = page_of({EVIL: sampled, '"&amp;\u2028': result}, slo=SLO, title=EVIL)
    return Page(text)


def test_names_are_text_wherever_they_stand() -> None:
    page = evil_page()
    assert {tag for tag, _ in page.elements} <= {
        *("html", "head", "meta", "title", "link", "style", "body", "a", "header", "h1", "h2", "h3", "p"),
        *("dl", "div", "dt", "dd", "small", "aside", "ul", "li", "noscript", "nav", "main", "section"),
        *("figure", "figcaption", "details", "summary", "table", "thead", "tbody", "tr", "th", "td", "pre"),
        *("script", "footer"),
    }
    assert not [name for _, attributes in page.elements for name in attributes if name.startswith("on")]
    assert EVIL in "".join(page.words)
    # The two scripts of the page are its own; tenants are in the data of charts.
    assert len(page.run) == 2
    assert not any("alert(1)" in text for text in page.run)
    assert EVIL in json.dumps(page.documents)


def test_json_in_a_script_element_has_nothing_that_could_end_it() -> None:
    for attributes, text in evil_page().scripts:
        if attributes.get("type") == "application/json":
            assert not set("<>&\u2028\u2029") & set(text)


def test_the_policy_of_the_page_names_its_scripts_and_allows_no_network() -> None:
    page = evil_page()
    policy = next(
        str(of["content"]) for _, of in page.elements if of.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy.startswith("default-src 'none'; ")
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in page.run]
    allowed = " ".join(f"'sha256-{each}'" for each in hashes)
    assert f"script-src {allowed};" in policy
    assert "unsafe-eval" not in policy


def test_nothing_is_loaded() -> None:
    page = evil_page()
    for tag, attributes in page.elements:
        assert "src" not in attributes, tag
        assert (attributes.get("href") or "#").startswith(("#", "data:")), tag


def test_every_chart_has_a_table_and_a_specification() -> None:
    result = replayed([0.0, 0.5, 1.0], [3, 4, 5])
    figures = [figure for part in sections(runs_of({"a": result}), SLO, {}) for figure in part.figures]
    assert sum(figure.chart is not None for figure in figures) > 20
    assert all(figure.table.rows for figure in figures)
    page = Page(page_of({"a": result}, slo=SLO))
    wanted = [attributes["data-spec"] for _, attributes in page.elements if "data-spec" in attributes]
    assert set(wanted) <= page.documents.keys()
    assert len(wanted) == len(set(wanted)) == sum(figure.chart is not None for figure in figures)


def test_charts_keep_the_schema_of_vega_lite() -> None:
    names = [f"t{place}" for place in range(3)]
    runs = runs_of({"a": Sampled(replayed([0.0, 0.5], [3, 4]), names), "b": replayed([0.0, 0.5], [2, 1])})
    capacity = {
        "x": {"curve": [{"rate": 1.0, "gpu_rate": 1.0, "attainment": 0.9, "passes": True}], "target": 0.9}
    }
    charts = [
        figure.chart
        for section in sections(runs, SLO, capacity)
        for figure in section.figures
        if figure.chart is not None
    ]
    assert len(charts) > 30
    for chart in charts:
        # Altair raises where a part is none of the schema's.
        assert chart.to_dict(validate=True)


def test_a_comparison_says_how_far_each_is_from_the_first() -> None:
    # Twice the tokens a request: E2E 1 and 2 s.
    text = page_of({"short": replayed([0.0], [2]), "long": replayed([0.0], [4])})
    assert "2.000 (+100.0%)" in text
    assert "The runs replayed different requests" in text


def test_limits_of_what_a_report_shows_are_said() -> None:
    stopped = replayed([0.0, 1.0], [9, 9], until=2.0)
    page = page_of({"a": stopped})
    assert "2 of 2 requests had not finished" in page
    assert "was not sampled" in page
    assert "was not sampled" not in page_of({"a": Sampled(stopped)})


@pytest.mark.parametrize(
    "result",
    [
        replayed([0.0], [1]),
        replayed([0.0], [5000]),
        replayed([0.0, 9.0], [2, 2], until=0.1),
        replayed([0.0], [3], instances=40),
    ],
    ids=["one token", "all rejected", "nothing finished", "many instances"],
)
def test_a_result_with_little_in_it_has_a_report(result: paceline.Result) -> None:
    page = Page(page_of({"a": result}, slo=SLO))
    assert page.documents


def test_the_report_of_the_same_results_is_the_same_bytes(tmp_path: Path) -> None:
    result = replayed([0.0, 0.5], [3, 4])
    first, second = (result.report(tmp_path / name, slo=SLO) for name in ("a.html", "b.html"))
    assert first.read_bytes() == second.read_bytes()


def test_a_report_grows_little_with_its_requests() -> None:
    few, many = (replayed([0.01 * place for place in range(n)], [3] * n) for n in (2_000, 20_000))
    assert len(page_of({"a": many})) < 1.2 * len(page_of({"a": few})) < 5_000_000


def test_wrong_requests_for_a_report_are_refused(tmp_path: Path) -> None:
    result = replayed([0.0], [2])
    with pytest.raises(ConfigError, match="between 1 and 8 results, had 0"):
        write_report({}, tmp_path / "x.html")
    with pytest.raises(ConfigError, match="between 1 and 8 results, had 9"):
        write_report({str(place): result for place in range(9)}, tmp_path / "x.html")
    with pytest.raises(ConfigError, match="'replay' is there twice"):
        result.report(tmp_path / "x.html", against={"replay": result})
    with pytest.raises(ResultError, match="must be a file, was a directory"):
        result.report(tmp_path)
    with pytest.raises(ResultError, match="could not be written: No such file"):
        result.report(tmp_path / "none" / "x.html")
    with pytest.raises(ConfigError, match=re.escape("capacity 'x' must be what paceline.capacity() returns")):
        result.report(tmp_path / "x.html", capacities={"x": 3})
    assert not list(tmp_path.iterdir())


def test_a_capacity_has_its_curve_in_the_report() -> None:
    result = replayed([0.0, 1.0, 2.0, 3.0], [2, 2, 2, 2])
    trace = paceline.Trace.from_columns(arrival=range(40), prompt_tokens=[8] * 40, output_tokens=[4] * 40)
    cluster = paceline.Cluster([paceline.Instance(cost=paceline.Affine(step_s=0.5), num_blocks=64)])
    found = paceline.capacity(trace, cluster, paceline.policies.vllm(), SLO, 0.9, tolerance=0.05)
    for given in (found, json.loads(found.to_json())):
        page = Page(page_of({"a": result}, capacities={"search": given}))
        assert "spec-capacity-2-1" in page.documents
        assert "Attainment by rate" in page.words
