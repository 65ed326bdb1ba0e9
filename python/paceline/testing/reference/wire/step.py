"""A step: in the making, then decided."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from paceline.testing.reference.wire.request import Job


@dataclass(slots=True)
class Step:
    """What one step runs, and who gave way for it.

    Attributes
    ----------
    start : int
    left : int
        Tokens that are left of its budget.
    tokens : dict of Job to int
        What each of its requests computes.
    admitted : list of Job
        Those that came in.
    preempted : list of Job
        Those that gave way, in order.
    blocks_out, blocks_in : int
        Copied to the CPU's memory and back.
    free_blocks : int
        Once it was decided.
    decodes : bool
        Whether any request in it goes on after its prompt.
    """

    start: int
    left: int
    tokens: dict[Job, int] = field(default_factory=dict)
    admitted: list[Job] = field(default_factory=list)
    preempted: list[Job] = field(default_factory=list)
    blocks_out: int = 0
    blocks_in: int = 0
    free_blocks: int = 0
    decodes: bool = False

    def add(self, job: Job, tokens: int) -> None:
        """Have a request compute ``tokens``."""
        self.tokens[job] = tokens
        self.left -= tokens

    def drop(self, job: Job) -> None:
        """Take a request out again; its tokens go back to the budget."""
        self.left += self.tokens.pop(job, 0)

    def row(self, order: list[Job]) -> list[Any]:
        """Return the step as a row of decisions, its requests in the order of admission."""
        return [
            self.start,
            [[job.index, self.tokens[job], job.computed] for job in order if job in self.tokens],
            [job.index for job in self.preempted],
            [self.blocks_out, self.blocks_in],
            self.free_blocks,
        ]
