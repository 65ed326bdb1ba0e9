"""Dynamo's ``mooncake-delta``: Mooncake's rows in which a later turn has only what is new in its prompt.

The prompt of a later turn is that of the turn before, the answer to it, and the new part. Its
ids are those of the first prompt as far as that filled blocks, and ids of the session's own
from there on. If the first prompts of sessions share no block, there are no ids at all: the
sessions say what is shared, and then answers are found in the prefix cache, too.
Source: github.com/ai-dynamo/aisimulate, its page on traffic, and its test of a delta trace of
two turns.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import polars as pl

from paceline.errors import TraceError
from paceline.limits import Limits
from paceline.trace.detection import Recognised
from paceline.trace.formats.mooncake import parsed
from paceline.trace.formats.mooncake_rows import MooncakeRows, collect
from paceline.trace.formats.mooncake_turns import follow
from paceline.trace.parsed import Parsed
from paceline.trace.schema import TOKENS_LIMIT

__all__ = ["read_mooncake_delta"]


def read_mooncake_delta(found: Recognised, name: str) -> Parsed:
    """Read a trace whose later turns hold only what is new."""
    table = collect(found, name)
    waits = found.choices.waits(name, stamped=table.stamped)
    turns = follow(table)
    first: dict[str, int] = {}
    begins: list[int] = []
    spoken: dict[str, int | float] = {}
    prompt: list[int | float] = list(table.prompt)
    for row, session in enumerate(table.session):
        begins.append(row if session is None else first.setdefault(session, row))
        if session is not None:
            prompt[row] += spoken.get(session, 0)
            spoken[session] = prompt[row] + table.output[row]
    blocks = _blocks(table, begins, prompt, found.limits, name)
    whole = replace(table, prompt=prompt, blocks=blocks)
    return parsed(whole, turns, waits=waits)


def _blocks(
    table: MooncakeRows, begins: list[int], prompt: list[int | float], limits: Limits, name: str
) -> pl.Series | None:
    if table.blocks is None or not all(0 < tokens < TOKENS_LIMIT for tokens in prompt):
        return None  # the schema refuses such a prompt
    ids = table.blocks.to_list()
    seen = Counter(one for row, begin in enumerate(begins) if begin == row for one in dict.fromkeys(ids[row]))
    if not any(count > 1 for count in seen.values()) and all(table.session):
        return None
    size = table.block_tokens
    count = sum(int(tokens) // size for tokens in prompt)
    if count // 4 > limits.values:
        raise TraceError(
            f"{name}: ids of whole prompts {limits.over('values', f'{count // 4:,} times four')}"
        )
    whole = []
    for row, begin in enumerate(begins):
        if begin == row:
            whole.append(ids[row])
            continue
        kept = ids[begin][: int(table.prompt[begin]) // size]
        own = np.arange(len(kept), int(prompt[row]) // size, dtype=np.uint64)
        whole.append([*kept, *_mixed(np.uint64(begin), own).tolist()])
    return pl.Series("prefix", whole, dtype=pl.List(pl.UInt64))


def _mixed(session: np.uint64, blocks: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return an id for each block of a session: the finalizer of splitmix64 (Steele et al., OOPSLA 2014)."""
    with np.errstate(over="ignore"):
        word = (session << np.uint64(32)) + blocks + np.uint64(0x9E3779B97F4A7C15)
        word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return word ^ (word >> np.uint64(31))
