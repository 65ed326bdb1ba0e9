"""The progress of a sweep."""

from __future__ import annotations

import time
from dataclasses import dataclass

__all__ = ["SweepProgress", "Watch"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepProgress:
    """How far a sweep is.

    Attributes
    ----------
    done
        Points that have a row now, those kept and those failed included.
    kept
        Points that were finished before the sweep began.
    failed
        Points that failed.
    total
        Points of the grid.
    left_s
        Seconds until the end, from the mean time of the points replayed so far; None before the first.
    """

    done: int
    kept: int
    failed: int
    total: int
    left_s: float | None


class Watch:
    """Counts the points of a sweep, and estimates the time left."""

    def __init__(self, total: int) -> None:
        self._start = time.monotonic()
        self._total = total
        self._done = self._kept = self._failed = 0

    def count(self, *, kept: bool, failed: bool) -> SweepProgress:
        """Count a point, and return how far the sweep is."""
        self._done += 1
        self._kept += kept
        self._failed += failed
        replayed = self._done - self._kept
        each = (time.monotonic() - self._start) / replayed if replayed else None
        return SweepProgress(
            done=self._done,
            kept=self._kept,
            failed=self._failed,
            total=self._total,
            left_s=None if each is None else each * (self._total - self._done),
        )
