"""The prompts of drawn sessions: how contexts grow, where they are compacted, and what they share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from paceline.errors import ConfigError
from paceline.synthesis.sessions import ContextLimit
from paceline.synthesis.turns import Drawn, Whole

__all__ = ["Contexts", "block_ids", "contexts"]

# An id has 19 bits of the seed, one that says whether its content is shared, and the numbers of the content
# and of the block in it.
_SALT_BITS, _OWNER_BITS, _PLACE_BITS = 19, 23, 20


@dataclass(frozen=True, slots=True)
class Contexts:
    """The prompts of sessions.

    Attributes
    ----------
    prompt, output
        Tokens by request.
    context
        By request: the number of the context that its prompt continues, from 0 within these.
    compacted
        By request: whether its context starts from a summary.
    kept
        By request: whether it comes before the end of its session.
    cut
        By request: whether its prompt was cut to the limit.
    """

    prompt: Whole
    output: Whole
    context: Whole
    compacted: npt.NDArray[np.bool_]
    kept: npt.NDArray[np.bool_]
    cut: npt.NDArray[np.bool_]


def contexts(drawn: Drawn, limit: ContextLimit | None) -> Contexts:
    """Return the prompts of sessions: each has the prompt and the answer before it, and what is new."""
    count = len(drawn.session)
    first = np.append(True, drawn.session[1:] != drawn.session[:-1])
    grown = drawn.new + np.where(first, drawn.shared[drawn.session], np.append(0, drawn.output[:-1]))
    total = np.cumsum(grown)
    start = np.flatnonzero(first)
    prompt = total - np.repeat(total[start] - grown[start], np.diff(np.append(start, count)))
    no = np.zeros(count, dtype=np.bool_)
    plain = Contexts(prompt, drawn.output, drawn.session.copy(), no, ~no, no)
    if limit is None or not (prompt + drawn.output > limit.tokens).any():
        return plain
    return _limited(drawn, first, limit)


def _limited(drawn: Drawn, first: npt.NDArray[np.bool_], limit: ContextLimit) -> Contexts:
    prompts, outputs, owners, compacted, kept, cuts = [], [], [], [], [], []
    most, compacts = limit.tokens, limit.then == "compact"
    context, total, over = -1, 0, False
    shared = drawn.shared[drawn.session].tolist()
    rows = zip(
        first.tolist(),
        shared,
        drawn.new.tolist(),
        drawn.output.tolist(),
        drawn.summary.tolist(),
        strict=True,
    )
    for starts, common, new, output, summary in rows:
        output = min(output, most - 1)
        if starts:
            context, over, prompt, fresh = context + 1, False, common + new, False
        else:
            prompt = total + new
            fresh = prompt + output > most
        if fresh and not compacts:
            over = True
        elif fresh:
            context, prompt = context + 1, common + summary + new
        cut = prompt + output > most and not over
        if cut:
            prompt = most - output
        total = prompt + output
        prompts.append(prompt)
        outputs.append(output)
        owners.append(context)
        compacted.append(fresh and compacts)
        kept.append(not over)
        cuts.append(cut)
    whole = [np.array(each, dtype=np.int64) for each in (prompts, outputs, owners)]
    flags = [np.array(each, dtype=np.bool_) for each in (compacted, kept, cuts)]
    return Contexts(whole[0], whole[1], whole[2], *flags)


def block_ids(salt: int, rows: Mapping[str, Whole], block_tokens: int) -> pl.Series:
    """Return an id for each full block of each prompt.

    Blocks within the shared prompt have ids of its group, the others those of the context.

    Parameters
    ----------
    salt
        Makes ids of another trace others.
    rows
        By request: ``prompt_tokens``, ``context``, ``group`` (-1: none), and ``shared`` tokens.
    block_tokens
        Tokens of a block.

    Raises
    ------
    ConfigError
        If there are more contexts, or a prompt has more blocks, than ids can number.
    """
    context, group = rows["context"], rows["group"]
    blocks = rows["prompt_tokens"] // block_tokens
    if len(blocks) and (blocks.max() >= 2**_PLACE_BITS or context.max() >= 2**_OWNER_BITS):
        raise ConfigError(
            f"prefix ids can number {2**_OWNER_BITS:,} contexts of {2**_PLACE_BITS:,} blocks, was "
            f"{context.max() + 1:,} contexts and {blocks.max():,} blocks; a larger block_tokens of "
            "SharedPrompts makes fewer blocks"
        )
    ends = np.cumsum(blocks)
    place = np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - blocks, blocks)
    common = np.repeat(np.where(group >= 0, rows["shared"] // block_tokens, 0), blocks)
    owner = np.where(place < common, np.repeat(group, blocks), np.repeat(context, blocks) + 2**_OWNER_BITS)
    ids = (owner.astype(np.uint64) << np.uint64(_PLACE_BITS)) + place.astype(np.uint64)
    ids += np.uint64(salt % 2**_SALT_BITS) << np.uint64(_OWNER_BITS + 1 + _PLACE_BITS)
    row = pl.Series("row", np.repeat(np.arange(len(blocks)), blocks), dtype=pl.Int64)
    lists = pl.DataFrame([row, pl.Series("prefix", ids)]).group_by("row", maintain_order=True).agg("prefix")
    every = pl.DataFrame({"row": pl.Series(np.arange(len(blocks)), dtype=pl.Int64)})
    found = every.join(lists, on="row", how="left", maintain_order="left")["prefix"]
    # A prompt without a whole block has no ids.
    return found.fill_null(pl.Series([[]], dtype=pl.List(pl.UInt64)))
