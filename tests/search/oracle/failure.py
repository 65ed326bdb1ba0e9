"""A failure: a promise that a case breaks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Failure:
    """A promise that a case breaks.

    Attributes
    ----------
    kind : str
        The promise; the same for all cases that break it the same way.
    detail : str
        The values that were found.
    """

    kind: str
    detail: str
