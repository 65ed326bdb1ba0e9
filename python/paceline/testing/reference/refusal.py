"""Requests that an instance rejects on arrival because it could never finish them."""

from __future__ import annotations

from typing import Literal

from paceline.testing.reference.blocks import blocks_for
from paceline.testing.reference.request import Request

Reason = Literal["max_model_len", "blocks", "max_num_batched_tokens", "policy", "model"]


def refuse(
    request: Request,
    *,
    max_model_len: int | None,
    block_size: int,
    blocks: int,
    largest_prefill: int | None = None,
    slots: int = 0,
    load_slots: int = 0,
) -> Reason | None:
    """Return why a request can never finish, or None if it can.

    Parameters
    ----------
    request : Request
    max_model_len : int or None
        Most tokens of a prompt and its output together.
    block_size, blocks : int
        Tokens in a block, and the blocks that one sequence can hold at most.
    slots : int
        Slots past its last token that it may need, as far as the longest sequence has them.
    load_slots : int
        Slots past its last token that must be free before its prefix is loaded, even past the longest
        sequence.
    largest_prefill : int or None
        Most tokens one step can prefill, where prompts are not cut into chunks.

    Returns
    -------
    {"max_model_len", "blocks", "max_num_batched_tokens"} or None

    Examples
    --------
    >>> request = Request(arrival=0, prompt_tokens=33, output_tokens=16)
    >>> refuse(request, max_model_len=None, block_size=16, blocks=3)     # 48 tokens have KV
    >>> refuse(request, max_model_len=None, block_size=16, blocks=2)
    'blocks'
    >>> refuse(request, max_model_len=48, block_size=16, blocks=3)
    'max_model_len'
    """
    total = request.prompt_tokens + request.output_tokens
    longest = total - 1  # the last token is never the input of a step, so it needs no KV
    if max_model_len is not None and total > max_model_len:
        return "max_model_len"
    if slots:
        longest = max(min(longest + slots, max_model_len or longest + slots), longest)
    longest = max(longest, total - 1 + load_slots)
    if blocks_for(longest, block_size) > blocks:
        return "blocks"
    if largest_prefill is not None and request.prompt_tokens > largest_prefill:
        return "max_num_batched_tokens"
    return None
