"""How PASCAL's paper is read where it leaves a choice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from paceline._arguments import typed_fields
from paceline.errors import PolicyError

__all__ = ["PascalReading"]


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields(PolicyError)
class PascalReading:
    """The choices that PASCAL's paper leaves open; docs/studies/pascal.md says what each changes.

    Parameters
    ----------
    demote_by
        What is counted to demote a reasoning request: section IV-C says the size of the KV cache, V-A
        reasoning tokens.
    turn
        Order of requests with equal quanta: by when they ``joined`` the queue, or by ``arrival``.
    recount
        Whether quanta are counted anew when the answer begins. A demoted request is in that queue
        already, and keeps its count.
    prefill_as
        Whether prefill counts as ``reasoning`` (footnote 2) or ranks ``first``, before it.
    room
        Tokens of the answer that an instance must be able to hold, above its watermark, to have room for
        a request; None: one quantum. With 0 it is enough that the request itself leaves the watermark
        free, which is vLLM's own test for a swap-in.
    on_pace
        When the answers of an instance are on pace. ``every_buffer``: each of them has tokens left in its
        pacer. ``mean_interval``: the recent mean time between tokens is at most PASCAL's ``tpot``.
    footprint
        What Algorithm 1 compares: KV of ``gpu_and_cpu``, as the paper defines it, or the GPU's alone.

    Raises
    ------
    PolicyError
        If ``room`` is negative.

    Examples
    --------
    >>> PascalReading(room=0).demote_by
    'kv_tokens'
    """

    demote_by: Literal["kv_tokens", "generated_tokens"] = "kv_tokens"
    turn: Literal["joined", "arrival"] = "joined"
    recount: bool = True
    prefill_as: Literal["reasoning", "first"] = "reasoning"
    room: int | None = None
    on_pace: Literal["every_buffer", "mean_interval"] = "every_buffer"
    footprint: Literal["gpu_and_cpu", "gpu"] = "gpu_and_cpu"

    def __post_init__(self) -> None:
        if self.room is not None and self.room < 0:
            raise PolicyError(f"room of a PascalReading must be 0 or more tokens, was {self.room}")
