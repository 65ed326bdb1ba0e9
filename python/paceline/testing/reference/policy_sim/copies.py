"""Copies between the GPU and a tier, and what a step and a request do with the tier."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Literal

from paceline.testing.reference.policy_sim.chunks import Access
from paceline.testing.reference.policy_sim.request import Request

Kind = Literal["store", "load", "sync"]


@dataclass(slots=True, eq=False)
class Use:
    """What the tier keeps of a request.

    Attributes
    ----------
    access : Access
    next_chunk : int
        The next chunk to store.
    blocks : list of int
        Its blocks as of its latest step.
    jobs : list of Job
        Its copies whose end has not been reported.
    seen : bool
        Whether a step has seen that its load has ended.
    fetched : set of int
        The places of its chunks that were read from a store below the tier for it.
    """

    access: Access = field(default_factory=Access)
    next_chunk: int = 0
    blocks: list[int] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)
    seen: bool = False
    fetched: set[int] = field(default_factory=set)


@dataclass(slots=True, eq=False)
class Job:
    """A copy between the GPU and the tier.

    Attributes
    ----------
    number : int
    kind : {"store", "load", "sync"}
    request : Request or None
        None for blocks that no request holds.
    use : Use
        What the tier keeps of the request.
    keys : list
        The chunks.
    blocks : list of int
        The blocks of the GPU.
    made : int
        Start of the step that decided it.
    begins, ends : int or None
        When its link copies it.
    reported : int or None
        When the scheduler learned of its end.
    """

    number: int
    kind: Kind
    request: Request | None
    use: Use
    keys: list[Hashable]
    blocks: list[int]
    made: int
    begins: int | None = None
    ends: int | None = None
    reported: int | None = None


@dataclass(slots=True)
class Actions:
    """What a step does with the tier, in the words of the decision logs."""

    start: int
    begins: int = 0
    looks: int = 0  # when it looks for copies that have ended
    hits: list[tuple[Request, int, int]] = field(default_factory=list)
    put_off: list[Request] = field(default_factory=list)
    loads: list[Job] = field(default_factory=list)
    stores: list[Job] = field(default_factory=list)
    flushed: list[Job] = field(default_factory=list)
    reported: list[Job] = field(default_factory=list)
    loading: list[Request] = field(default_factory=list)
    chunks: int = 0
    evicted: int = 0
    refused: int = 0
    before: dict[Request, int] = field(default_factory=dict)  # tokens computed before the step
    allocated: set[int] = field(default_factory=set)
    sync_tokens: int = 0
    span: int = 0  # of the loads that overlap with it

    @property
    def idle(self) -> bool:
        """Whether the step makes and reports no job, and waits for none."""
        return not (self.loads or self.stores or self.flushed or self.reported)
