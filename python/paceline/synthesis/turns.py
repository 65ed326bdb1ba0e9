"""The requests of sessions as they are drawn: what starts each, and what it adds to the context."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from paceline.synthesis.populations import chosen
from paceline.synthesis.sessions import Sessions
from paceline.synthesis.stable import Floats
from paceline.synthesis.streams import Stream

__all__ = ["Drawn", "batches"]

Whole = npt.NDArray[np.int64]

_SESSIONS = 256
"""Sessions that are drawn at a time. Streams are read in their order, so that it changes nothing."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """Sessions, and their requests in order.

    Attributes
    ----------
    tenant, group
        By session: the number of its tenant, and of its shared prompt (-1: it has none).
    shared
        By session: tokens of its shared prompt.
    session
        By request: its session, from 0 for the first of these.
    user
        By request: whether a message of the user starts it.
    new, output, summary
        By request: tokens that it adds to the context, tokens of its answer, and tokens of a summary, if its
        context is compacted.
    gap
        By request: seconds from the answer before; of the first of a session, 0.
    """

    tenant: Whole
    group: Whole
    shared: Whole
    session: Whole
    user: npt.NDArray[np.bool_]
    new: Whole
    output: Whole
    summary: Whole
    gap: Floats


def batches(recipe: Sessions, seed: int) -> Iterator[Drawn]:
    """Draw sessions without end, a batch at a time."""
    names = ("turns", "places", "first", "tokens", "output", "gap", "summary", "tenant", "group", "shares")
    streams = {name: Stream(seed, f"sessions {name}") for name in names}
    lengths = _shared_lengths(recipe, seed)
    while True:
        tenant, group = _members(recipe, streams)
        session, user = _triggers(recipe, streams)
        count = len(session)
        first = np.append(True, session[1:] != session[:-1])
        u = streams["tokens"].uniforms(count)
        new = recipe.tokens.later.tokens(u).astype(np.int64)
        waits = streams["gap"].uniforms(count)
        gap = recipe.think_time.seconds(waits)
        if recipe.tools is not None:
            new = np.where(user, new, recipe.tools.tokens.tokens(u))
            gap = np.where(user, gap, recipe.tools.delay.seconds(waits))
        new[first] = recipe.tokens.first.tokens(streams["first"].uniforms(_SESSIONS))
        gap[first] = 0.0
        if recipe.idle_cap_s is not None:
            np.minimum(gap, float(recipe.idle_cap_s), out=gap)
        summary = np.zeros(count, dtype=np.int64)
        if recipe.limit is not None:
            summary[:] = recipe.limit.summary.tokens(streams["summary"].uniforms(count))
        yield Drawn(
            tenant=tenant,
            group=group,
            shared=np.where(group >= 0, lengths[group], 0),
            session=session,
            user=user,
            new=new,
            output=recipe.tokens.output.tokens(streams["output"].uniforms(count)).astype(np.int64),
            summary=summary,
            gap=np.rint(gap * 1e9) / 1e9,
        )


def _shared_lengths(recipe: Sessions, seed: int) -> Whole:
    """Return the tokens of each group's shared prompt."""
    if recipe.shared is None:
        return np.zeros(1, dtype=np.int64)
    tenants = recipe.tenants.count if recipe.tenants is not None and recipe.shared.by_tenant else 1
    u = Stream(seed, "sessions shared").uniforms(recipe.shared.groups * tenants)
    return recipe.shared.tokens.tokens(u).astype(np.int64)


def _members(recipe: Sessions, streams: dict[str, Stream]) -> tuple[Whole, Whole]:
    """Draw the tenants of sessions and the groups of their shared prompts."""
    tenant = np.zeros(_SESSIONS, dtype=np.int64)
    if recipe.tenants is not None:
        u = streams["tenant"].uniforms(_SESSIONS)
        tenant = chosen(u, recipe.tenants.count, recipe.tenants.skew)
    if recipe.shared is None:
        return tenant, np.full(_SESSIONS, -1, dtype=np.int64)
    group = chosen(streams["group"].uniforms(_SESSIONS), recipe.shared.groups, recipe.shared.skew)
    if recipe.shared.by_tenant:
        group += tenant * recipe.shared.groups
    alone = streams["shares"].uniforms(_SESSIONS) >= recipe.shared.share
    return tenant, np.where(alone, -1, group)


def _triggers(recipe: Sessions, streams: dict[str, Stream]) -> tuple[Whole, npt.NDArray[np.bool_]]:
    """Draw the requests of sessions: the session of each, and whether the user starts it.

    The tool steps of a session are cut at random places into those that follow each message.
    """
    u = streams["turns"].uniforms(_SESSIONS)
    turns = recipe.turns.tokens(u).astype(np.int64)
    steps = np.zeros(_SESSIONS, dtype=np.int64)
    if recipe.tools is not None:
        steps = recipe.tools.steps.tokens(u).astype(np.int64) - 1
    session = np.repeat(np.arange(_SESSIONS), turns + steps)
    user = np.zeros(len(session), dtype=np.bool_)
    starts = np.cumsum(turns + steps) - (turns + steps)
    user[starts] = True
    later = np.repeat(np.arange(_SESSIONS), turns - 1)
    room = steps[later]
    places = streams["places"].uniforms(len(later)) * (room + 1)
    before = np.minimum(places.astype(np.int64), room)
    order = np.lexsort((before, later))
    rank = np.arange(len(later)) - np.repeat(np.cumsum(turns - 1) - (turns - 1), turns - 1)
    user[starts[later] + before[order] + rank + 1] = True
    return session, user
