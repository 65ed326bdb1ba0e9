"""What a case says, what of it was seen to happen, and what of it makes a difference.

Nearly all mechanisms are drawn, and are at work, in one of fifty cases or more. Some cannot be, and are in
one of a few hundred: single orders of three stages, and single fields that only rules about two instances may
look at (``pair``), of which there are dozens; and rules that decide only where several others meet. `refund`
and `seated` need a step whose tokens or seats are used up beside a preemption, `unknown_first` a cache full
of both kinds of blocks, and `refresh`, `quantum` and `hold` two requests that change places meanwhile.
"""

from search.mechanisms.drawn import drawn
from search.mechanisms.exercised import exercised
from search.mechanisms.telling import telling

__all__ = ["drawn", "exercised", "telling"]
