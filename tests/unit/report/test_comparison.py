"""Comparisons in reports and notebooks: intervals, warm-up, method, and names as text."""

from __future__ import annotations

from pathlib import Path

import pytest

import paceline
from paceline import SLO, Affine, Cluster, ConfigError, Instance, Trace, policies
from paceline.report import write_report
from paceline.report.sections.comparison import comparison_document, comparison_section
from unit.report.cases import EVIL, replayed

CLUSTER = Cluster([Instance(cost=Affine(step_s=0.5), num_blocks=1000)])


def found(traces: int = 1) -> paceline.Comparison:
    drawn = [
        Trace.from_columns(
            arrival=[0.1 * place * (1 + index) for place in range(40)],
            prompt_tokens=[8] * 40,
            output_tokens=[1 + (place + index) % 5 for place in range(40)],
            name=EVIL,
        )
        for index in range(traces)
    ]
    both = {"base": policies.vllm(), EVIL: policies.vllm(max_num_seqs=2)}
    return paceline.compare(
        drawn[0] if traces == 1 else drawn, CLUSTER, both, slo=SLO(ttft=1.0), warmup_s=1.05, draws=50
    )


def test_a_report_has_the_intervals_the_method_and_the_warm_up(tmp_path: Path) -> None:
    comparison = found()
    text = comparison.report(tmp_path / "r.html").read_text(encoding="utf-8")
    assert "Intervals: 95%, bootstrap over 10 blocks of consecutive requests, 50 draws." in text
    assert (
        "Warm-up: the 11 requests that arrive in the first 1.05 s are replayed, and not judged here" in text
    )
    assert "29 requests are judged." in text
    assert EVIL not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text


def test_each_figure_is_in_the_table_with_its_interval() -> None:
    comparison = found(traces=3)
    section = comparison_section(comparison.to_dict())
    assert section is not None
    assert "of 3 traces; the other tabs show the first trace" in " ".join(section.text)
    assert "Student's t over 3 traces" in section.text[0]
    ratios, shares, whole = section.figures
    assert (ratios.title, shares.title) == ("Latencies: ratio to base", "Shares: difference to base")
    assert len(whole.table.rows) == comparison.table.height
    row = next(row for row in whole.table.rows if row[:2] == ("TTFT p99", EVIL))
    (made,) = comparison.table.filter(policy=EVIL, metric="ttft", figure="p99").rows(named=True)
    assert float(row[5]) == pytest.approx(made["ratio"], rel=1e-3)
    assert float(row[6]) == pytest.approx(made["ratio_low"], rel=1e-3)
    assert float(row[8]) == pytest.approx(made["better"], abs=1e-3)
    drawn = ratios.chart.to_dict()  # type: ignore[union-attr]  # checked against Vega-Lite's schema
    assert drawn["layer"][1]["encoding"]["x"]["scale"]["type"] == "log"
    assert drawn["layer"][1]["encoding"]["color"]["scale"]["domain"] == ["base", EVIL]


def test_a_ratio_that_a_logarithm_cannot_show_stays_in_the_table() -> None:
    document = found().to_dict()
    for each in document["table"]:
        if each["metric"] == "ttft" and each["ratio"] is not None:
            each["ratio_low"] = 0.0
    section = comparison_section(document)
    assert section is not None
    assert not any("TTFT" in row[0] for row in section.figures[0].table.rows)
    assert any("TTFT" in row[0] for row in section.figures[-1].table.rows)


def test_without_a_warm_up_it_says_so() -> None:
    document = found().to_dict() | {"warmup_s": 0.0, "warmup_requests": [0]}
    section = comparison_section(document)
    assert section is not None
    assert section.text[1].startswith("Warm-up: nothing is cut.")


@pytest.mark.parametrize("given", [{}, {"table": []}, 3, {"table": [{"policy": "a"}]}, [1]])
def test_what_is_no_comparison_is_refused(given: object, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"comparison must be what paceline\.compare"):
        comparison_document(given)
    with pytest.raises(ConfigError, match=r"comparison must be what"):
        write_report({"a": replayed([0.0], [1])}, tmp_path / "r.html", comparison=given)


def test_a_notebook_shows_intervals_and_escapes_names() -> None:
    card = found()._repr_html_()
    assert EVIL not in card
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in card
    for words in (
        "bootstrap over 10 blocks",
        "of the first 1.05 s are not judged",
        "ttft p99, base",
        "baseline",
    ):
        assert words in card
