"""Ids of the blocks of sessions' prompts and answers, given as the turns are submitted."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from paceline._native import NO_NAME

__all__ = ["SessionBlocks"]

_SPAN: Final = 2**32
"""Ids of one conversation: more than it has blocks."""


class SessionBlocks:
    """Number the blocks of sessions: the prompt of a turn continues the turn before with its answer.

    A prompt that is shorter than the turn before with its answer starts another conversation, as in a trace
    whose prompts are shared by sessions.

    Parameters
    ----------
    block_tokens
        Tokens of one id.

    Examples
    --------
    >>> import numpy as np
    >>> blocks = SessionBlocks(block_tokens=4)
    >>> one, prompt, output = (np.array([value], dtype=np.uint32) for value in (0, 8, 8))
    >>> first = blocks.of(one, prompt, output)
    >>> first["prefix_ids"].tolist(), first["output_ids"].tolist()
    ([0, 1], [2, 3])
    >>> blocks.of(one, prompt + np.uint32(8), output)["prefix_ids"].tolist()
    [0, 1, 2, 3]
    """

    def __init__(self, block_tokens: int) -> None:
        self._block_tokens = block_tokens
        self._turns: dict[int, tuple[int, int]] = {}
        """By session: its conversation, and the tokens of the latest turn with its answer."""
        self._conversations = 0

    def of(
        self, sessions: NDArray[np.uint32], prompt: NDArray[np.uint32], output: NDArray[np.uint32]
    ) -> dict[str, Any]:
        """Return the ids of further requests, in order of submission, as the engine takes them."""
        total = prompt.astype(np.uint64) + output
        named = sessions != NO_NAME
        begins = np.zeros(len(sessions), dtype=np.uint64)
        begins[named] = [
            self._conversation(*turn) * _SPAN
            for turn in zip(
                sessions[named].tolist(), prompt[named].tolist(), total[named].tolist(), strict=True
            )
        ]
        full = np.where(named, prompt.astype(np.uint64) // self._block_tokens, 0)
        until = np.where(named, total // self._block_tokens, 0)
        return {
            "prefix_ends": np.cumsum(full, dtype=np.uint64),
            "prefix_ids": _ranges(begins, full),
            "prefix_block_tokens": self._block_tokens,
            "output_ends": np.cumsum(until - full, dtype=np.uint64),
            "output_ids": _ranges(begins + full, until - full),
        }

    def _conversation(self, session: int, prompt: int, total: int) -> int:
        """Return the conversation that a turn belongs to, and note the turn."""
        conversation, said = self._turns.get(session, (-1, 0))
        if conversation < 0 or prompt < said:
            conversation = self._conversations
            self._conversations += 1
        self._turns[session] = (conversation, total)
        return conversation


def _ranges(begins: NDArray[np.uint64], counts: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return whole numbers from each beginning on, so many of each, one after another."""
    ends = np.cumsum(counts, dtype=np.uint64)
    within = np.arange(int(ends[-1]) if len(ends) else 0, dtype=np.uint64)
    shifts: NDArray[np.uint64] = np.repeat(begins - (ends - counts), counts.astype(np.int64))
    return within + shifts
