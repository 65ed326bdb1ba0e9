"""The mechanisms of a case: those in its configuration, those that had an effect, those that decided.

Nearly all mechanisms are drawn, and have an effect, in one of fifty cases or more. Some occur in one of a few
hundred: single orders of three stages; single fields that only rules about two instances may read (``pair``),
of which there are dozens; and rules that decide only together with several others. `refund` and `seated` need
a step whose tokens or seats are used up beside a preemption, `unknown_first` a cache full of both kinds of
blocks, and `refresh`, `quantum` and `hold` two requests that change their order meanwhile.
"""

from search.mechanisms.drawn import drawn
from search.mechanisms.exercised import exercised
from search.mechanisms.telling import telling

__all__ = ["drawn", "exercised", "telling"]
