"""What the admission of a request would need."""

from __future__ import annotations

from dataclasses import dataclass

from paceline.testing.reference.policy_sim.step import Part


@dataclass(frozen=True, slots=True)
class Offer:
    """What the admission of a request would need now.

    Attributes
    ----------
    tokens : int
        Tokens that it computes in this step.
    room : int
        Tokens that blocks are allocated for.
    new : int
        Blocks that must be free, beside the blocks of its cached prefix that no request holds.
    hits : list of int
        The blocks of its cached prefix.
    whole : bool
        Whether it gets as many tokens as it needs in this step.
    part : str
    loaded : int
        Tokens after the cached prefix that a tier has.
    waits : bool
        Whether the request waits until they are loaded, and computes nothing in this step.
    """

    tokens: int
    room: int
    new: int
    hits: list[int]
    whole: bool
    part: Part
    loaded: int = 0
    waits: bool = False
