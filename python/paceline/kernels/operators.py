"""Attention made up of operators that were measured apart.

Vidur and AISimulate measured prompts and decodes in kernels of their own. A step that does both is then the
sum of the two: what the one launches, the other cannot use.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from paceline.kernels.grid import Grid, check_points

__all__ = ["causal_points", "mixed_grid"]

#: Prompt tokens, histories and requests at which operators measured apart are added up.
CHUNKS = (16, 32, 64, 128, 256, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384)
HISTORIES = (0, 512, 2048, 8192, 32768)


def mixed_grid(prefill: Grid, decode: Grid) -> Grid:
    """Return the table of steps that prefill and decode, as the sum of both kernels.

    Parameters
    ----------
    prefill, decode
        The tables of steps that do only one of them.
    """
    tokens, history = prefill.axes[0], prefill.axes[1]
    requests, context = decode.axes[2], decode.axes[3]
    check_points([len(tokens), len(history), len(requests), len(context)], "attention")
    first = prefill.seconds.reshape(len(tokens), len(history), 1, 1)
    second = decode.seconds.reshape(1, 1, len(requests), len(context))
    return Grid((tokens, history, requests, context), np.asarray(first + second))


def causal_points(
    whole: Callable[[float], float], *, longest: int, chunks: Sequence[int] = CHUNKS
) -> list[tuple[int, int, int, int, float]]:
    """Return prompts after a history, where only whole prompts were measured.

    A chunk of ``p`` tokens after ``h`` others takes what a prompt of ``h + p`` takes more than one of ``h``:
    the same (query, key) pairs. Chunks that leave no room for a history are left out, as nothing would say
    how they grow with it.

    Parameters
    ----------
    whole
        Seconds of a prompt by its tokens.
    longest
        The longest prompt that was measured.
    chunks
        Chunks to give.
    """
    room = longest - HISTORIES[1]
    return [
        (chunk, history, 0, 0, max(whole(history + chunk) - (whole(history) if history else 0.0), 0.0))
        for chunk in chunks
        if chunk <= room or chunk == chunks[0]
        for history in HISTORIES
        if history + chunk <= longest
    ]
