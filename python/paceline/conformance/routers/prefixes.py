"""The blocks of a log's prompts and outputs, as columns of a trace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np

from paceline.conformance.routers.bounds import Block, Request
from paceline.errors import TraceError

__all__ = ["PrefixRequest", "prefix_columns"]


class PrefixRequest(Request):
    """A request, with the ids of the blocks of its prompt and of those that its output fills."""

    blocks: list[Block]
    tail_block: Block | None = None
    out_blocks: list[Block] = msgspec.field(default_factory=list)


def prefix_columns(
    requests: Sequence[PrefixRequest], block_tokens: int, spelled: Callable[[int], int] = int
) -> dict[str, Any]:
    """Return the columns of the requests' blocks; ``spelled`` gives the id that stands for a block.

    Raises
    ------
    TraceError
        If a prompt has more or fewer blocks than its tokens fill.
    """
    prompts = []
    for at, request in enumerate(requests):
        full, tail = divmod(request.prompt_tokens, block_tokens)
        if len(request.blocks) != full or (request.tail_block is None) != (tail == 0):
            raise TraceError(
                f"request {at}: blocks must be the {full} full blocks of {request.prompt_tokens} tokens"
                f"{' and a tail_block' if tail else ' without a tail_block'}, was {len(request.blocks)} and "
                f"tail_block {request.tail_block}"
            )
        ids = [*request.blocks, *([] if request.tail_block is None else [request.tail_block])]
        prompts.append([spelled(each) for each in ids])
    outputs = [[spelled(each) for each in request.out_blocks] for request in requests]
    return {
        "prefix_ends": _ends(prompts),
        "prefix_ids": _flat(prompts),
        "prefix_block_tokens": block_tokens,
        "output_ends": _ends(outputs),
        "output_ids": _flat(outputs),
    }


def _ends(lists: Sequence[Sequence[int]]) -> np.ndarray[Any, np.dtype[np.uint64]]:
    return np.cumsum([len(each) for each in lists], dtype=np.uint64)


def _flat(lists: Sequence[Sequence[int]]) -> np.ndarray[Any, np.dtype[np.uint64]]:
    return np.array([each for part in lists for each in part], dtype=np.uint64)
