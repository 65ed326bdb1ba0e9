"""The demonstration prints the figures of its result."""

from __future__ import annotations

import io

from rich.console import Console

from paceline import demo


def test_the_demo_prints_the_percentiles_and_the_attainment_of_its_result() -> None:
    screen = io.StringIO()
    result = demo.main(requests=2_000, console=Console(file=screen, width=120))
    printed = screen.getvalue()

    ttft = result.requests["ttft"].quantile(0.5, interpolation="linear")
    assert ttft is not None
    assert f"{1000 * ttft:,.1f} ms" in printed
    assert f"{result.attainment(demo.OBJECTIVES):.1%} of the requests" in printed
    assert f"{result.requests['output_tokens'].sum():,} tokens" in printed
    for metric in ("TTFT", "TPOT", "E2E"):
        assert metric in printed


def test_everything_in_the_demo_is_finished() -> None:
    result = demo.main(requests=500, console=Console(file=io.StringIO()))
    assert (result.requests["status"] == "finished").all()
    assert (result.requests["generated_tokens"] == result.requests["output_tokens"]).all()
