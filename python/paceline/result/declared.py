"""The columns of requests: those that the engine declares, and those that follow from them.

The engine declares each of its columns once, with its kind, the replays that have it and its definition
(`rust/core/src/metrics/columns.rs`). The schema of results, the engine's array under each name, the
definitions and the page of columns come from that.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from paceline import _core

__all__ = ["DEFINITIONS", "ENGINE", "KIND", "Declared", "named"]


class Declared(NamedTuple):
    """The engine's declaration of a column.

    Attributes
    ----------
    name
        The column.
    kind
        ``moment``, ``gap`` or ``part`` in ticks, ``count``, ``place`` (an instance), ``quality``, ``status``
        or ``reason``.
    when
        The replays that have it: ``always``, or where the trace ``reasons``, requests may move (``moves``),
        a pace is given (``paced``; ``asked`` with a target for the first token), a router ``holds``, requests
        are scored before they are routed (``predicts``), are sent as others end (``reacts``), or have more
        than 0 of it (``used``). In others it is empty.
    definition
        A sentence or two.
    """

    name: str
    kind: str
    when: str
    definition: str


ENGINE: Final = tuple(Declared(*one) for one in _core.COLUMNS)
"""The engine's columns, in order."""

KIND: Final = {one.name: one.kind for one in ENGINE}
"""The kind of each of the engine's columns."""


def named(*kinds: str) -> tuple[str, ...]:
    """Return the engine's columns of some kinds, in order."""
    return tuple(one.name for one in ENGINE if one.kind in kinds)


_FOLLOWING: Final = {
    "arrival": "When it arrived, in seconds from the trace's start.",
    "queueing": "`scheduled - arrival`.",
    "ttft": "`first_token - arrival`.",
    "ttfat": "`first_answer - reasoning_end`.",
    "tpot": "`(finish - first_token) / (output_tokens - 1)`; null with one token.",
    "e2e": "`finish - arrival`.",
    "normalized_latency": "`e2e / output_tokens`, as in the Orca and vLLM papers.",
    "executed": "The rest of `e2e` without the other parts: it ran, or paused for prefills.",
    "blocked": "Before the first step that ran it: `queueing`; null if it is unfinished.",
    "blocking": "From `reasoning_end` to `answer_started`, less transfer; null without either.",
    "prompt_tokens": "Tokens of its prompt.",
    "output_tokens": "Tokens of its output.",
}
"""Definitions of the columns that follow from the trace and the engine's columns."""

DEFINITIONS: Final = {**{one.name: one.definition for one in ENGINE}, **_FOLLOWING}
"""The definition of each column."""
