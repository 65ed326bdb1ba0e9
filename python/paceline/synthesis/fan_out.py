"""Subagents: sessions that a session starts, and whose ends it waits for."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from paceline.synthesis.sessions import Sessions
from paceline.synthesis.stable import Floats
from paceline.synthesis.streams import Stream

__all__ = ["FanOut", "ids_and_parents", "waited"]

_MAIN = -1


class FanOut:
    """Draws the subagents of sessions, in the order of their requests.

    Parameters
    ----------
    recipe
        The sessions, whose tools start subagents.
    seed
        Of the streams.
    """

    __slots__ = ("_recipe", "_streams")

    def __init__(self, recipe: Sessions, seed: int) -> None:
        names = ("starts", "count", "steps", "task", "tokens", "output", "gap")
        self._recipe = recipe
        self._streams = {name: Stream(seed, f"subagents {name}") for name in names}

    def inserted(self, rows: dict[str, Any], contexts: int) -> tuple[dict[str, Any], int]:
        """Return rows with those of subagents before the requests that wait for them, and all contexts."""
        tools = self._recipe.tools
        rows = rows | {"agent": np.full(len(rows["session"]), _MAIN)}
        if tools is None or tools.subagents is None:
            return rows, contexts
        recipe, streams = tools.subagents, self._streams
        starts = streams["starts"].uniforms(len(rows["session"])) < recipe.share
        at = np.flatnonzero(starts & ~rows["user"] & ~rows["first"])
        agents = recipe.count.tokens(streams["count"].uniforms(len(at))).astype(np.int64)
        before = np.repeat(at, agents)  # the request that waits, by subagent
        steps = recipe.steps.tokens(streams["steps"].uniforms(len(before))).astype(np.int64)
        row = np.repeat(before, steps)
        agent = np.repeat(np.arange(len(before)), steps)
        first = np.append(True, agent[1:] != agent[:-1])[: len(agent)]
        new = tools.tokens.tokens(streams["tokens"].uniforms(len(row))).astype(np.int64)
        new[first] = recipe.tokens.tokens(streams["task"].uniforms(len(before)))
        new[first] += recipe.shared_tokens
        output = self._recipe.tokens.output.tokens(streams["output"].uniforms(len(row))).astype(np.int64)
        gap = tools.delay.seconds(streams["gap"].uniforms(len(row)))
        gap = np.rint(np.where(first, 0.0, gap) * 1e9) / 1e9
        grown = new + np.where(first, 0, np.append(0, output[:-1])[: len(row)])
        own = {
            "session": rows["session"][row],
            "prompt_tokens": _within(grown, first),
            "output_tokens": output,
            "first": first,
            "gap": gap,
            "user": np.zeros(len(row), dtype=np.bool_),
            "compacted": np.zeros(len(row), dtype=np.bool_),
            "cut": np.zeros(len(row), dtype=np.bool_),
            "context": contexts + agent,
            "tenant": rows["tenant"][row],
            "group": np.full(len(row), self.group),
            "shared": np.full(len(row), recipe.shared_tokens),
            "agent": agent,
        }
        place = np.argsort(np.concatenate([np.arange(len(rows["session"])) * 2 + 1, row * 2]), kind="stable")
        return {name: np.concatenate([rows[name], own[name]])[place] for name in rows}, contexts + len(before)

    @property
    def group(self) -> int:
        """The number of the subagents' shared prompt, after those of the sessions."""
        shared = self._recipe.shared
        if shared is None:
            return -1
        tenants = self._recipe.tenants.count if self._recipe.tenants and shared.by_tenant else 1
        return shared.groups * tenants


def _within(values: Any, first: Any) -> Any:  # noqa: ANN401 - of whole numbers or seconds
    """Return the sums of values since the last of `first`."""
    total = np.cumsum(values)
    own = np.flatnonzero(first)
    if not len(own):
        return total
    return total - np.repeat(total[own] - values[own], np.diff(np.append(own, len(first))))


def waited(rows: dict[str, Any]) -> Floats:
    """Return the sum of the waits before each request in its session, those of subagents included."""
    main = rows["agent"] == _MAIN
    if main.all():
        found: Floats = _within(rows["gap"], rows["first"])
        return found
    turn = np.cumsum(main) - 1  # the request of the session before, or itself
    inside = np.where(main, 0.0, _within(rows["gap"], rows["first"]))
    span = np.zeros(int(main.sum()))
    np.maximum.at(span, turn[~main], inside[~main])
    gap = rows["gap"][main].copy()
    starts = rows["first"][main]
    gap[1:] += np.where(starts[1:], 0.0, span[:-1])
    total: Floats = _within(gap, starts)[turn] + inside
    return total


def ids_and_parents(rows: dict[str, Any]) -> dict[str, pl.Series]:
    """Return ``request_id``, ``parents`` and ``delay`` of subagents and of requests that wait for them."""
    main = rows["agent"] == _MAIN
    count = len(main)
    started = np.append(True, rows["session"][1:] != rows["session"][:-1])
    number = _within(np.ones(count, dtype=np.int64), started) - 1
    names = pl.DataFrame({"session": rows["session"], "number": number}).select(
        pl.format("{}.{}", "session", "number")
    )
    turn = np.cumsum(main) - 1
    of_turn = np.flatnonzero(main)
    last = ~main & np.append((rows["agent"][1:] != rows["agent"][:-1]), True)
    begins = ~main & rows["first"]
    ends = np.flatnonzero(last)
    after = turn[ends] + 1  # the request that waits for a subagent, if the rows go on to it
    ends, after = ends[after < len(of_turn)], after[after < len(of_turn)]
    child = np.concatenate([np.flatnonzero(begins), of_turn[after]])
    parent = np.concatenate([of_turn[turn[begins]], ends])
    pairs = pl.DataFrame({"child": child, "parent": names.to_series().gather(parent)})
    lists = pairs.group_by("child", maintain_order=True).agg("parent")
    given = pl.DataFrame({"child": np.arange(count)}).join(
        lists, on="child", how="left", maintain_order="left"
    )
    parents = given.get_column("parent").fill_null(pl.Series([[]], dtype=pl.List(pl.String)))
    delay = pl.Series("delay", np.where(begins, 0.0, rows["gap"]))
    delay = pl.select(pl.when(parents.list.len() > 0).then(delay).alias("delay")).to_series()
    return {"request_id": names.to_series(), "parents": parents, "delay": delay}
