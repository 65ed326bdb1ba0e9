"""Charts and cards for notebooks, and charts in a terminal."""

from __future__ import annotations

import sys
from html.parser import HTMLParser

import pytest

import paceline
from paceline import policies
from paceline.errors import ConfigError, ResultError
from paceline.report import libraries
from paceline.report.terminal import can_draw, terminal_charts
from paceline.showing.card import card
from unit.report.cases import EVIL, replayed

RESULT = replayed([0.0, 0.5, 1.0], [3, 4, 5], name=EVIL)


@pytest.mark.parametrize("method", ["cdf", "tail", "hist", "by_length", "over_time"])
@pytest.mark.parametrize("metric", ["ttft", "e2e"])
def test_a_plot_is_a_chart_that_keeps_the_schema(method: str, metric: str) -> None:
    spec = getattr(RESULT.plot, method)(metric).to_dict(validate=True)
    assert spec["config"]["range"]["category"][0] == "#0072B2"


def test_plots_of_other_quantities() -> None:
    assert RESULT.plot.cdf("itl").to_dict()
    assert RESULT.plot.by_length("tpot", "output_tokens").to_dict()
    for what in ("arrivals", "finished", "tokens", "in_flight", "waiting"):
        assert RESULT.plot.over_time(what).to_dict()


def test_a_chart_of_many_requests_is_as_small_as_one_of_few() -> None:
    many = replayed([0.01 * place for place in range(20_000)], [3] * 20_000)
    assert len(many.plot.cdf("ttft").to_json()) < 100_000


def test_wrong_plots_are_refused() -> None:
    with pytest.raises(ResultError, match=r"metric must be one of ttft, .* was 'latency'"):
        RESULT.plot.cdf("latency")
    with pytest.raises(ResultError, match=r"metric must be one of .* was 'itl'"):
        RESULT.plot.hist("itl")
    with pytest.raises(ResultError, match="bins must be between 1 and 1,000, was 0"):
        RESULT.plot.hist("ttft", bins=0)
    with pytest.raises(ResultError, match="length must be one of prompt_tokens, output_tokens, was 'tokens'"):
        RESULT.plot.by_length("ttft", "tokens")
    with pytest.raises(ResultError, match="no request has a ttfat"):
        RESULT.plot.cdf("ttfat")


def test_without_altair_the_message_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    libraries.altair.cache_clear()
    monkeypatch.setitem(sys.modules, "altair", None)
    with pytest.raises(ConfigError, match=r"charts need Altair, .* pip install 'paceline\[report\]'"):
        RESULT.plot.cdf("ttft")
    libraries.altair.cache_clear()


def tags(text: str) -> set[str]:
    found: set[str] = set()

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            found.add(tag)

    Reader().feed(text)
    return found


def test_cards_escape_what_they_show() -> None:
    allowed = {"div", "b", "table", "thead", "tbody", "tr", "th", "td", "details", "summary", "pre"}
    cluster = paceline.Cluster([paceline.Instance(model="llama-3.1-8b", gpu="h100-sxm")] * 3)
    policy = policies.vllm()
    for text in (
        RESULT._repr_html_(),
        cluster._repr_html_(),
        policy._repr_html_(),
        card(EVIL, [(EVIL, EVIL)], head=[EVIL], rows=[[EVIL]], texts=[(EVIL, EVIL)]),
    ):
        assert tags(text) <= allowed
    assert "&lt;script&gt;" in RESULT._repr_html_()
    assert "llama-3.1-8b" in cluster._repr_html_()
    assert "on_arrival" in policy._repr_html_()


def test_a_policy_with_a_function_has_a_card() -> None:
    policy = paceline.Policy(
        name="mine", scheduler=policies.vllm().scheduler, on_arrival=lambda req, instances: 0
    )
    assert "Policy mine" in policy._repr_html_()


def test_charts_in_a_terminal_keep_to_its_width() -> None:
    charts = terminal_charts(RESULT, width=60)
    assert [text.split("\n")[0].strip().split(":")[0] for text in charts] == [
        "TTFT",
        "E2E",
        "Requests in flight by seconds",
    ]
    assert max(len(line) for text in charts for line in text.split("\n")) <= 60
    assert not any("\x1b" in text for text in charts)


def test_a_terminal_without_the_characters_is_recognized() -> None:
    assert can_draw("utf-8")
    assert not can_draw("ascii")
    assert not can_draw("latin-1")
    assert not can_draw(None)


def test_a_chart_in_a_notebook_loads_nothing() -> None:
    shown = RESULT.plot.cdf("ttft").properties(width=300)._repr_mimebundle_()
    assert "text/html" not in shown
    assert shown["image/svg+xml"].startswith("<svg")
    assert "http" not in shown["image/svg+xml"].replace("http://www.w3.org/", "")
    assert next(iter(shown)).startswith("application/vnd.vegalite.v")
