"""A request of the trace, and how far one has come.

Times are integers in a unit of the caller's choice (nanoseconds in the decision logs, ticks
in the engine): the reference adds and compares them and does nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Request:
    """What a trace says of one request.

    Attributes
    ----------
    arrival : int
        When it reaches the router.
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
    """A request on its way through one instance.

    Two sequences are equal only where they are the same object, so that they can be keys.

    Attributes
    ----------
    index : int
        Position of the request in the trace.
    request : Request
    generated : int
        Output tokens yielded so far; a preemption does not take them back.
    computed : int
        Tokens whose KV is in the cache, or will be once the running step ends.
    blocks : list of int
        Blocks it holds, in the order of its tokens.
    preemptions : int
        How often it lost its place.
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
