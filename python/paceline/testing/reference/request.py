"""A request of the trace, and its state on an instance.

Times are integers in a unit of the caller's choice (nanoseconds in the decision logs, ticks
in the engine): the reference only adds and compares them.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Request:
    """A row of the trace.

    Attributes
    ----------
    arrival : int
        Time at which it reaches the router.
    prompt_tokens, output_tokens : int
        Lengths in tokens, both at least 1.
    priority : int
        Smaller is better; read by the priority policy alone.
    prefix : tuple of int
        Ids of the leading full blocks of the prompt, in blocks of the engine's size. Two
        prompts share a block exactly where their ids agree from the start up to it.
    """

    arrival: int
    prompt_tokens: int
    output_tokens: int
    priority: int = 0
    prefix: tuple[int, ...] = ()


@dataclass(slots=True, eq=False)
class Sequence:
    """A request on one instance.

    Two sequences are equal only if they are the same object, so that they can be keys.

    Attributes
    ----------
    index : int
        Position of the request in the trace.
    request : Request
    generated : int
        Output tokens generated so far; a preemption keeps them.
    computed : int
        Tokens of KV in the cache, those of the running step included.
    blocks : list of int
        Blocks it holds, in the order of its tokens.
    preemptions : int
        Times it was preempted.
    hit_tokens : int
        Tokens found in the prefix cache when it was first admitted.
    scheduled : int or None
        Start of the first step that ran any of it.
    token_times : list of int
        When each output token appeared.
    """

    index: int
    request: Request
    generated: int = 0
    computed: int = 0
    blocks: list[int] = field(default_factory=list)
    preemptions: int = 0
    hit_tokens: int = 0
    scheduled: int | None = None
    token_times: list[int] = field(default_factory=list)

    @property
    def tokens(self) -> int:
        """Tokens known so far: the prompt and what has been generated."""
        return self.request.prompt_tokens + self.generated

    @property
    def done(self) -> bool:
        """Whether the last output token has appeared."""
        return self.generated == self.request.output_tokens


@dataclass(frozen=True, slots=True)
class Entry:
    """One sequence's share of a step: how many tokens, and how many were computed before."""

    sequence: Sequence
    tokens: int
    before: int
