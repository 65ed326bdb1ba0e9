"""Drawing a trace of sessions."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import polars as pl

from paceline.synthesis.contexts import Contexts, block_ids, contexts
from paceline.synthesis.fan_out import FanOut, ids_and_parents, waited
from paceline.synthesis.sessions import Sessions
from paceline.synthesis.turns import Drawn, batches

__all__ = ["draw_sessions"]


def draw_sessions(
    recipe: Sessions, seed: int, rate: float, *, sessions: int | None, requests: int | None
) -> tuple[pl.DataFrame, dict[str, int], str]:
    """Draw so many sessions, or so many requests of as many sessions as it takes.

    Returns
    -------
    frame
        The rows of the trace, in the order of sessions.
    left_out
        Requests that are left out, by reason.
    said
        What else happened, for the trace's source.
    """
    parts: list[dict[str, Any]] = []
    fan_out = FanOut(recipe, seed)
    done = rows = contexts_before = ended = 0
    for drawn in batches(recipe, seed):
        found = contexts(drawn, recipe.limit)
        part = _columns(drawn, found)
        size = int(drawn.session[-1]) + 1
        if sessions is not None:
            size = min(size, sessions - done)
        within = part["session"] < size
        ended += int((within & ~found.kept).sum())
        within &= found.kept
        part = {name: column[within] for name, column in part.items()}
        part, numbered = fan_out.inserted(part, int(found.context.max()) + 1)
        if requests is not None and rows + len(part["session"]) >= requests:
            part = {name: column[: requests - rows] for name, column in part.items()}
            size = int(part["session"][-1]) + 1
        rows += len(part["session"])
        part["session"] = part["session"] + done
        part["context"] = part["context"] + contexts_before
        parts.append(part)
        done, contexts_before = done + size, contexts_before + numbered
        if done == sessions or rows == requests:
            break
    merged = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    said = [f"{merged[name].sum()} {what}" for name, what in _SAID.items() if merged[name].any()]
    left_out = {"request beyond the context limit": ended} if ended else {}
    return _frame(recipe, seed, rate, merged), left_out, ", ".join(said)


_SAID = {"compacted": "contexts compacted", "cut": "prompts cut to the context limit"}


def _columns(drawn: Drawn, found: Contexts) -> dict[str, Any]:
    """Return what becomes of drawn sessions, a row for each request."""
    first = np.append(True, drawn.session[1:] != drawn.session[:-1])
    return {
        "session": drawn.session,
        "prompt_tokens": found.prompt,
        "output_tokens": found.output,
        "first": first,
        "gap": drawn.gap,
        "user": drawn.user,
        "compacted": found.compacted,
        "cut": found.cut,
        "context": found.context,
        "tenant": drawn.tenant[drawn.session],
        "group": drawn.group[drawn.session],
        "shared": drawn.shared[drawn.session],
    }


def _frame(recipe: Sessions, seed: int, rate: float, rows: dict[str, Any]) -> pl.DataFrame:
    session, main = rows["session"], rows["agent"] < 0
    starts = recipe.arrivals.times(int(session[-1]) + 1, rate, seed)
    name = pl.format("{}-{}", pl.lit(str(seed)), "session")
    frame = pl.DataFrame(
        {
            # A turn that follows an answer arrives then; its row stands where the waits before it add up to.
            "arrival": np.rint((starts[session] + waited(rows)) * 1e9) / 1e9,
            "prompt_tokens": rows["prompt_tokens"],
            "output_tokens": rows["output_tokens"],
            "session": session,
            "think_time": rows["gap"],
            "trigger": np.where(rows["user"], "user", np.where(main, "tool", "subagent")),
        }
    ).with_columns(
        pl.when(pl.Series(rows["first"])).then(None).otherwise(pl.col("think_time")).alias("think_time"),
        pl.when(pl.Series(main))
        .then(name)
        .otherwise(pl.format("{}/{}", name, pl.Series(rows["context"])))
        .alias("session"),
    )
    if not main.all():
        frame = frame.with_columns(
            column.alias(name) for name, column in ids_and_parents(rows).items()
        ).with_columns(pl.format("{}-{}", pl.lit(str(seed)), "request_id").alias("request_id"))
        frame = frame.with_columns(
            pl.col("parents").list.eval(pl.format("{}-{}", pl.lit(str(seed)), pl.element()))
        )
    if recipe.limit is not None and recipe.limit.then == "compact":
        frame = frame.with_columns(pl.Series("compacted", rows["compacted"]))
    if recipe.tenants is not None:
        frame = frame.with_columns(pl.format("tenant-{}", pl.Series(rows["tenant"])).alias("tenant"))
    if recipe.shared is not None:
        salt = int.from_bytes(hashlib.sha256(f"{recipe.name} {seed}".encode()).digest()[:4], "little")
        ids = block_ids(salt, rows, recipe.shared.block_tokens)
        frame = frame.with_columns(ids)
    return frame
