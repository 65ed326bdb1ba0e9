"""What did not hold of a case."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Failure:
    """A promise that a case breaks.

    Attributes
    ----------
    kind : str
        Which promise: the same for all cases that break it the same way.
    detail : str
        What was found, with its values.
    """

    kind: str
    detail: str
