"""The quick run of the study of layered prefill, made once for all tests of a process."""

from __future__ import annotations

from functools import cache

from paceline.study import Study, Work, run_study

Progress = list[tuple[int, int]]


@cache
def layered_prefill() -> tuple[Study, Progress]:
    """Return the study, and the progress that it reported: replays done, and replays in all."""
    said: Progress = []
    work = Work(quick=True, report=lambda _, done, total: said.append((done, total)))
    return run_study("layered-prefill", work), said
