"""The study of Llumnix: its lengths, and what migration does to preemptions."""

from __future__ import annotations

import numpy as np
import pytest

from paceline.study import Work, run_study
from paceline.study.llumnix.setting import power_law


def test_lengths_follow_the_power_law_of_the_artifact() -> None:
    lengths = power_law(np.random.default_rng(0), 128, 100_000)
    # Ranks 1 to 255 weigh r**-2: the first has 1 / (pi**2 / 6 - 1 / 255.5), and is the least length.
    assert (lengths == lengths.min()).mean() == pytest.approx(1 / (np.pi**2 / 6 - 1 / 255.5), abs=0.005)
    # Twice the least, rounded up, has a quarter as many.
    second = np.unique(lengths)[1]
    assert (lengths == second).mean() == pytest.approx(0.609 / 4, abs=0.005)
    assert lengths.mean() == pytest.approx(128, abs=1)
    assert lengths.max() <= 6144


def test_migration_takes_the_preemptions_that_dispatch_leaves() -> None:
    frame = run_study("llumnix", Work(quick=True)).tables()["llumnix-above"].frame
    of = {system: rows for (system,), rows in frame.group_by("system")}
    preempted = {system: rows["preemptions"].to_numpy().sum() for system, rows in of.items()}
    assert preempted["Llumnix"] < 0.5 * preempted["INFaaS++"] < preempted["round robin"]
    assert of["Llumnix"]["TTFT mean (s)"].sum() < of["INFaaS++"]["TTFT mean (s)"].sum()
    assert of["Llumnix"]["migrations"].sum() > 0
