"""One replay of a case through the engine, with its outcome as plain Python values."""

from __future__ import annotations

import json
from functools import cached_property
from typing import Any

import msgspec
import numpy as np

from differential.timelines import timeline_of_engine
from paceline import _core
from search.case import Case

NEVER = 2**64 - 1
NOWHERE = 2**32 - 1
FINISHED, RUNNING, WAITING, NOT_ARRIVED, REJECTED, HELD, GAVE_UP, CANCELLED = range(8)
# Every column that the engine gives.
COLUMNS = tuple(one[0] for one in _core.COLUMNS)


class Replayed:
    """One replay of a case; ``columns`` stand for those of its requests, ``outcome`` for the replay.

    Raises
    ------
    PacelineError
        If the engine refuses the case.
    """

    def __init__(
        self,
        case: Case,
        *,
        leap: bool,
        record: bool,
        columns: dict[str, Any] | None = None,
        outcome: _core.Outcome | None = None,
    ) -> None:
        config = {**case.config, "leap": leap, "record_decisions": record}
        self.case, self.leap, self.record = case, leap, record
        given = case.columns() if columns is None else columns
        self.outcome = outcome or _core.replay(msgspec.json.encode(config), given, None)

    def column(self, name: str) -> list[Any]:
        values: list[Any] = self.outcome.columns[name].tolist()
        return values

    def counts(self, name: str) -> list[int]:
        """Return a column that is empty where all are 0."""
        return self.column(name) or [0] * len(self.outcome.columns["status"])

    @cached_property
    def sent(self) -> list[int]:
        """When each request was sent: `NEVER` where it has not been."""
        return self.column("arrival") or [row["arrival"] for row in self.case.requests]

    @cached_property
    def first_sent(self) -> list[int]:
        """When each request was sent for the first time."""
        return self.column("first_sent") or self.sent

    @cached_property
    def bytes_of_columns(self) -> dict[str, bytes]:
        return {name: self.outcome.columns[name].tobytes() for name in COLUMNS}

    @cached_property
    def timeline(self) -> tuple[int, list[int], list[dict[str, Any]]] | None:
        """The interval, the moments and the rows of all columns; None if the case is not sampled."""
        return None if self.outcome.timeline is None else timeline_of_engine(self.outcome, without=())

    @cached_property
    def stats(self) -> dict[str, Any]:
        # Integrals over time may need more than 64 bits, which msgspec does not read.
        found: dict[str, Any] = json.loads(self.outcome.stats)
        return found

    @cached_property
    def sketch(self) -> bytes:
        return bytes(self.outcome.itl.to_json())

    @cached_property
    def logs(self) -> list[bytes]:
        if not self.record:
            return []
        return [bytes(self.outcome.decisions(at)) for at in range(len(self.case.config["instances"]))]

    @cached_property
    def accounts(self) -> dict[str, bytes]:
        """Roles that changed and gauges; where decisions are recorded, steps, transfers and tier copies."""
        outcome = self.outcome
        found = {"flips": bytes(outcome.flips), "gauges": outcome.watched.tobytes()}
        if self.record:
            found["transfers"] = bytes(outcome.transfers()) + _bytes_of(outcome.transfer_columns())
            for at, instance in enumerate(self.case.config["instances"]):
                found[f"steps of instance {at}"] = _bytes_of(outcome.steps(at))
                if instance.get("tier"):
                    found[f"copies of instance {at}"] = bytes(outcome.tier(at))
        return found

    @cached_property
    def decisions(self) -> list[list[dict[str, Any]]]:
        return [msgspec.json.decode(log) for log in self.logs]


def _bytes_of(columns: dict[str, Any]) -> bytes:
    return b"".join(name.encode() + np.asarray(columns[name]).tobytes() for name in sorted(columns))
