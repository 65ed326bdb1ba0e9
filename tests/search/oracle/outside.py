"""A replay that is driven from outside is the replay of what was submitted, in whatever slices it runs."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from paceline import _core
from paceline.simulation.columns import without_rows
from paceline.simulation.turns import SessionBlocks
from search.case import Case
from search.oracle.failure import Failure
from search.oracle.leaping import same
from search.oracle.replayed import Replayed

Rows = Sequence[dict[str, Any]]


def covers(case: Case) -> bool:
    """Whether a case can be submitted from outside: its requests wait for nothing, and time has no end.

    Sessions are submitted as ids of full blocks. Where the hash of a block covers the token after it, they
    say more: the first token of a block that is not full.
    """
    return case.config["until"] is None and comes_in_slices(case)


def comes_in_slices(case: Case) -> bool:
    """Whether the requests of a case can be given in slices: they wait for nothing; see `covers`."""
    speculation = [one.get("speculation") or {} for one in case.config["instances"]]
    if any(one.get("hash_lookahead") for one in speculation) and not case.prefix_block_tokens:
        return False
    waits = {"think_ticks", "parent_ends"} & set(case.columns())
    return bool(case.requests) and case.config.get("clients") is None and not waits and _in_order(case)


def _in_order(case: Case) -> bool:
    """Whether sessions are numbered as they come, which is how a simulation numbers them."""
    codes = [row["session"] for row in case.requests if row.get("session") is not None]
    return all(code <= max(codes[:at], default=-1) + 1 for at, code in enumerate(codes))


def broken(replayed: Replayed, number: int) -> Iterator[Failure]:
    """Submit the requests of a replay in drawn slices, and compare the outcomes bit by bit."""
    case, source = replayed.case, random.Random(number)
    coded = Coded(case)
    config = {**case.config, "leap": replayed.leap, "record_decisions": replayed.record}
    engine = _core.Simulation(msgspec.json.encode(config), coded.empty())
    end = replayed.stats["end_ticks"]
    for batch, pause in _slices(case.requests, end, source):
        engine.submit(coded.of(batch))
        if pause is not None:
            engine.run_until(pause)
            engine.state()
            engine.events()
        while coded.submitted == len(case.requests) and engine.now() < end and source.random() < 0.7:
            if engine.step() is None:
                break
    submitted = Replayed(case, leap=replayed.leap, record=replayed.record, outcome=engine.finish())
    # In a replay that sends requests as its trace says, the engine leaves their arrivals out.
    assert submitted.column("arrival") == [row["arrival"] for row in case.requests]
    submitted.bytes_of_columns["arrival"] = b""
    yield from same("simulation: the replay of what was submitted", replayed, submitted)


def _slices(rows: Rows, end_ticks: int, source: random.Random) -> Iterator[tuple[Rows, int | None]]:
    """Yield batches of rows, and how far to run after each, at most to the next row or the end; None: not."""
    cuts = sorted(source.sample(range(1, len(rows) + 1), min(len(rows), source.randrange(5))))
    for start, end in zip([0, *cuts], [*cuts, len(rows)], strict=True):
        later = [row["arrival"] for row in rows[end:]]
        last = min(later) if later else end_ticks
        pause = source.choice((None, last, source.randrange(last + 1)))
        yield rows[start:end], pause


class Coded:
    """The columns of batches, with what sessions share as ids."""

    def __init__(self, case: Case) -> None:
        self._case = case
        sizes = [instance["block_tokens"] for instance in case.config["instances"]]
        self._turns = SessionBlocks(math.gcd(*sizes))
        self.submitted = 0

    def empty(self) -> dict[str, Any]:
        """Return the columns without rows."""
        one = self._case.requests[:1]
        coded = Coded(self._case).of(one)
        return {name: without_rows(value) for name, value in coded.items()}

    def of(self, rows: Rows) -> dict[str, Any]:
        """Return the columns of further rows."""
        self.submitted += len(rows)
        if not rows:
            return self.empty()
        columns = replace(self._case, requests=list(rows)).columns()
        if "session" in columns and "prefix_ids" not in columns:
            lengths = columns["prompt_tokens"], columns["output_tokens"]
            columns.update(self._turns.of(columns["session"], *lengths))
        return columns
