"""The order of a ranked queue: classes, keys within them, and when they are looked at anew."""

from __future__ import annotations

from typing import Any

from paceline.testing.reference.wire.expression import holds, timely, values
from paceline.testing.reference.wire.request import Job
from paceline.testing.reference.wire.scope import View


class Ranking:
    """Ranks requests by (class, keys, row of the trace); the smaller goes first.

    Parameters
    ----------
    order : dict
        ``classes`` (``when``, ``hold``, ``keys``), ``quantum`` and ``refresh``, as configured.
    """

    def __init__(self, order: dict[str, Any]) -> None:
        self.classes: list[dict[str, Any]] = order["classes"]
        self.quantum: int = order["quantum"]
        self.every_steps: int = order["refresh"]["steps"]
        self.every_ticks: int = order["refresh"]["ticks"]
        self._refreshes = self.every_steps > 0 or self.every_ticks > 0
        self._last_start = -1
        self._class_is_timely = any(timely(one["when"]) for one in self.classes)

    def rank(self, job: Job) -> tuple[int | None, tuple[float, ...], int]:
        """Return what a request is ordered by; two are never equal."""
        return job.position, job.keys, job.index

    def quanta(self, job: Job) -> int:
        """Quanta of tokens that a request has used up in its class."""
        return (job.generated - job.joined_tokens) // self.quantum if self.quantum else 0

    def enter(self, job: Job, view: View) -> None:
        """Rank a request that arrives or lands."""
        job.position = None
        self.place(job, view)
        self.look(job, view)

    def place(self, job: Job, view: View) -> bool:
        """Find a request's class anew; return whether it changed."""
        if job.position is not None and job.position < len(self.classes):
            hold = self.classes[job.position]["hold"]
            if hold and job.generated - job.joined_tokens < hold:
                return False
        last = len(self.classes)
        position = next((i for i in range(last) if holds(self.classes[i]["when"], view)), last)
        if position == job.position:
            return False
        job.position = position
        job.joined, job.joined_tokens = view.now, job.generated
        return True

    def look(self, job: Job, view: View) -> None:
        """Evaluate a request's keys."""
        job.keys = values(self._keys(job), view)

    def moved(self, job: Job, view: View) -> None:
        """Rank a request that was admitted or preempted."""
        self.place(job, view)
        self.look(job, view)

    def ran(self, job: Job, view: View) -> None:
        """Rank a request at the end of a step that ran it."""
        if self.place(job, view) or not self._refreshes:
            self.look(job, view)

    def start(self, views: list[tuple[Job, View]], now: int, steps: int) -> None:
        """Rank all requests at the start of a step, before which the instance took ``steps``."""
        refresh = self.every_steps > 0 and steps % self.every_steps == 0
        if self.every_ticks > 0:
            refresh |= now // self.every_ticks > self._last_start // self.every_ticks
        self._last_start = now
        for job, view in views:
            changed = self._class_is_timely and self.place(job, view)
            drifts = not self._refreshes and any(timely(key) for key in self._keys(job))
            if changed or drifts or refresh:
                self.look(job, view)

    def _keys(self, job: Job) -> list[dict[str, Any]]:
        assert job.position is not None
        return self.classes[job.position]["keys"] if job.position < len(self.classes) else []
