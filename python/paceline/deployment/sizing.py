"""The limits of an instance that follow from its GPU and its KV blocks, by vLLM's rules."""

from __future__ import annotations

from typing import Literal

from paceline.errors import ConfigError, FitError
from paceline.hardware import Gpu
from paceline.model import Model

__all__ = ["default_batching", "longest_sequence"]

_GIB = 2**30


def default_batching(gpu: Gpu | None) -> tuple[int, int]:
    """Return vLLM's defaults of ``max_num_batched_tokens`` and ``max_num_seqs`` on a GPU.

    As of vLLM 0.33, API server: 16,384 and 1,024 from 160 GiB of memory; 8,192 and 1,024 from 70 GiB, except
    on an A100; 2,048 and 256 on other GPUs, and if the GPU is not known.
    """
    if gpu is None or gpu.memory_bytes < 70 * _GIB or "a100" in gpu.device.lower():
        return 2048, 256
    return (16384, 1024) if gpu.memory_bytes >= 160 * _GIB else (8192, 1024)


def longest_sequence(
    wanted: int | Literal["auto"] | None,
    *,
    model: Model | None,
    blocks: int,
    block_tokens: int,
    state_blocks: int = 0,
) -> int | None:
    """Return the longest sequence that an instance accepts, in tokens; None: no limit.

    Parameters
    ----------
    wanted
        ``max_model_len`` of the instance.
    model
        The model, if it is known.
    blocks
        Usable KV blocks, the null block aside.
    block_tokens
        Tokens in a block.
    state_blocks
        Blocks that a request holds beside those of its tokens.

    Raises
    ------
    ConfigError
        If it is more than the model's positions.
    FitError
        If one sequence of that length does not fit, at which vLLM refuses to start.
    """
    fits = max(0, blocks - state_blocks) * block_tokens
    limit = model.max_positions if model is not None else None
    if wanted == "auto":
        return fits if limit is None else min(limit, fits)
    tokens = limit if wanted is None else wanted
    if limit is not None and tokens is not None and tokens > limit:
        raise ConfigError(
            f"max_model_len must be at most the {limit} positions of {model.name if model else ''}, "
            f"was {tokens}"
        )
    if tokens is not None and tokens > fits:
        states = f" beside {state_blocks} of states" if state_blocks else ""
        source = " (the model's own)" if wanted is None else ""
        raise FitError(
            f"max_model_len must be at most {fits}, which is what {blocks} usable blocks of "
            f'{block_tokens} tokens hold{states}, was {tokens}{source}; max_model_len="auto" takes what fits'
        )
    return tokens
