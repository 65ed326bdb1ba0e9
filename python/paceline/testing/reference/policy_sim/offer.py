"""What the admission of a request would need, and how far it is padded."""

from __future__ import annotations

from dataclasses import dataclass

from paceline.testing.reference.policy_sim.request import Request
from paceline.testing.reference.policy_sim.state import State
from paceline.testing.reference.policy_sim.step import Part, Step


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


def padding_of(state: State, request: Request, step: Step, hit: int) -> int:
    """Return the drafts that pad a request with one token to compute to the width of a decode.

    A step that continues a prompt is not uniform anyway. A lone request is padded only if it has KV.
    """
    speculation = state.settings.speculation
    resumed = [part for part in step.parts.values() if part in ("decode", "chunk")]
    if request.tokens - hit != 1 or "chunk" in resumed or not (resumed or hit):
        return 0
    padded = 1 + speculation.padding
    return speculation.padding if speculation.fits(hit, padded) == padded else 0
