"""The study of Sarathi-Serve's capacity."""

from __future__ import annotations

import polars as pl
import pytest

from paceline.study import Work, run_study
from paceline.study.sarathi.steps import longer


def test_sarathi_serves_more_than_schedulers_that_run_prompts_whole() -> None:
    # Where a prompt runs whole, decodes wait for it: the strict bound is missed at a lower rate.
    frame = run_study("sarathi", Work(quick=True)).tables()["sarathi"].frame
    strict = frame.filter(frame["P99 TBT"].is_in(["0.1 s", "0.2 s"]))
    assert strict.height == 2
    assert (strict["over vLLM"] > 1.2).all()
    assert (strict["Sarathi-Serve"] > strict["Orca"]).all()


def test_longer_steps_take_the_time_that_is_said_and_lower_what_is_served() -> None:
    frame = longer(Work(quick=True)).filter(pl.col("model") == "Yi-34B")
    own, more = (
        frame.row(by_predicate=pl.col("steps") == what, named=True)
        for what in ("as in the study", "19 ms more a step, 1 ms a request")
    )
    assert more["1 decode, ms"] - own["1 decode, ms"] == pytest.approx(19 + 1)
    assert more["128 decodes, ms"] - own["128 decodes, ms"] == pytest.approx(19 + 128)
    assert more["prompt of 512, ms"] - own["prompt of 512, ms"] == pytest.approx(19 + 1)
    assert more["vLLM"] < own["vLLM"]
    assert more["Sarathi-Serve"] < own["Sarathi-Serve"]
