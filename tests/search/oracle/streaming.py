"""A replay of a trace that is given in chunks is the replay of the trace, in whatever chunks it is given."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np

from paceline import _core
from search.case import Case
from search.oracle import outside
from search.oracle.failure import Failure
from search.oracle.leaping import same
from search.oracle.replayed import COLUMNS, Replayed

Column = np.ndarray[Any, Any]


def covers(case: Case) -> bool:
    """Whether a case can be streamed: its requests wait for nothing, and nothing needs the whole trace."""
    tiers = any(one.get("tier") for one in case.config["instances"])
    routing = case.config["routing"]
    return not (tiers or routing.get("books") or routing.get("watch")) and outside.comes_in_slices(case)


def broken(replayed: Replayed, number: int) -> Iterator[Failure]:
    """Give the requests of a replay in drawn chunks, and compare the outcomes bit by bit.

    In every second case each chunk is given to a replay that resumes from the state of the one before.
    """
    case, source = replayed.case, random.Random(number)
    resumes = source.random() < 0.5
    coded = outside.Coded(case)
    config = {**case.config, "leap": replayed.leap, "record_decisions": False}
    text = msgspec.json.encode(config)
    engine = _core.Stream(text, coded.empty())
    parts = []
    for start, end in _chunks(len(case.requests), source):
        engine.extend(coded.of(case.requests[start:end]))
        engine.advance()
        parts.append(engine.take_ended(source.choice((1, 1, 3))))
        if resumes:
            engine = _core.Stream.resume(text, coded.empty(), engine.checkpoint())
    engine.extend(None)
    engine.advance()
    parts.append(engine.take_ended(1))
    outcome = _Joined(engine.outcome(), parts)
    streamed = Replayed(case, leap=replayed.leap, record=False, outcome=outcome)  # type: ignore[arg-type]
    for name in COLUMNS:
        # A column that is 0 for all requests of a part may be left out of it.
        if not replayed.outcome.columns[name].any() and not outcome.columns[name].any():
            replayed.bytes_of_columns[name] = streamed.bytes_of_columns[name] = b""
    yield from same("stream: the replay of what was given in chunks", replayed, streamed)


def _chunks(rows: int, source: random.Random) -> Iterator[tuple[int, int]]:
    """Yield the bounds of chunks of one size, or of different ones."""
    size, start = source.choice((1, 2, 7, None)), 0
    while start < rows:
        end = min(rows, start + (size or source.randrange(1, 6)))
        yield start, end
        start = end


class _Joined:
    """An outcome whose columns were taken in parts."""

    def __init__(self, outcome: _core.Outcome, parts: list[dict[str, Any]]) -> None:
        self._outcome = outcome
        some = [part for part in parts if part["status"].size] or parts[:1]
        sizes = [part["status"].size for part in some]
        self.columns = {name: _joined([part[name] for part in some], sizes) for name in COLUMNS}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._outcome, name)


def _joined(parts: list[Column], sizes: list[int]) -> Column:
    """Join parts of a column; one that is left out of a part, and not of all, is 0 there."""
    if not any(part.size for part in parts):
        return parts[0]
    return np.concatenate(
        [part if part.size else np.zeros(rows, part.dtype) for part, rows in zip(parts, sizes, strict=True)]
    )
