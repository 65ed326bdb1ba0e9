"""A recipe for sessions: chats and agents, whose requests follow the answers before them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from paceline import _check
from paceline._arguments import typed_fields
from paceline._check import said
from paceline.errors import ConfigError
from paceline.synthesis.arrivals import Arrivals, Poisson
from paceline.synthesis.durations import Durations, FixedTime
from paceline.synthesis.lengths import Constant, Lengths
from paceline.synthesis.numbers import check_rate
from paceline.synthesis.populations import SharedPrompts, Tenants

__all__ = ["ContextLimit", "Sessions", "Subagents", "ToolLoop", "TurnTokens"]


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields()
class TurnTokens:
    """The tokens of the turns of a session.

    Attributes
    ----------
    first
        Tokens of the first prompt, beyond the shared one.
    later
        Tokens that a later message of the user adds to the context.
    output
        Tokens of an answer.
    """

    first: Lengths
    later: Lengths
    output: Lengths


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields()
class Subagents:
    """Tools that are agents: each has a session of its own, and the request after them waits for all.

    The trace has ``request_id``, ``parents`` and ``delay``. A subagent's answers, results of tools and their
    delays are drawn as those of the session; a limit of the context does not hold for it.

    Attributes
    ----------
    share
        The part of the tool steps that start subagents, from 0 to 1.
    count
        Subagents at a time.
    steps
        Requests of a subagent.
    tokens
        Tokens of its task: of its first prompt, beyond `shared_tokens`.
    shared_tokens
        Tokens of the prompt that all subagents share, if the sessions share prompts; else they are its own.
    """

    share: float
    count: Lengths
    steps: Lengths
    tokens: Lengths
    shared_tokens: int = 0

    def __post_init__(self) -> None:
        if not (_check.is_number(self.share) and 0 <= self.share <= 1):
            raise ConfigError(f"share of Subagents must be from 0 to 1, was {said(self.share)}")
        _check.count("shared_tokens of Subagents", self.shared_tokens, least=0, most=2**29)


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields()
class ToolLoop:
    """Requests that follow a tool's result, and not a message of the user.

    Attributes
    ----------
    steps
        One more than the requests of a session that follow tools: 1 is none. The counts of messages and of
        steps rise together: the session with the median of one has the median of the other. The steps are
        divided among the messages of the session at random places.
    tokens
        Tokens of a tool's result, which are added to the context.
    delay
        Seconds from an answer to the request with the tool's result.
    subagents
        The subagents that some tools are; None: none is.
    """

    steps: Lengths
    tokens: Lengths
    delay: Durations
    subagents: Subagents | None = None


@dataclass(frozen=True, slots=True)
@typed_fields()
class ContextLimit:
    """The context that a session may have, and how it goes on there.

    Attributes
    ----------
    tokens
        The most tokens of a prompt with its answer, at least 2.
    then
        ``"compact"``: the next prompt has the shared prompt, a summary and the new tokens, and no more of the
        turns before. The column ``compacted`` says which prompts are such. ``"end"``: the session ends before
        the request that would exceed the limit; the trace counts what is left out (`Trace.dropped`).
    summary
        Tokens of the summary.
    """

    tokens: int
    then: Literal["compact", "end"] = field(default="compact", kw_only=True)
    summary: Lengths = field(default_factory=lambda: Constant(1024), kw_only=True)

    def __post_init__(self) -> None:
        _check.count("tokens of a ContextLimit", self.tokens, least=2, most=2**30 - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields()
class Sessions:
    """How the sessions of a synthesized trace start, and what their requests are.

    A session is a conversation with a model. The prompt of each of its requests has the prompt and the answer
    before it and new tokens, from the user or from a tool, and arrives some time after that answer
    (``think_time``). `synthesize` draws from it a trace with ``session``, ``think_time``, ``trigger``
    (``"user"`` or ``"tool"``: what the new tokens come from) and, where prompts are shared, ``prefix``.

    Attributes
    ----------
    name
        What the trace will be called.
    arrivals, rate
        The process by which sessions start, and how many a second; None makes `synthesize` ask.
    turns
        Messages of the user in a session, at least 1.
    tokens
        The tokens of the turns.
    think_time
        Seconds from an answer to the user's next message.
    tools
        Requests between them, which follow tools; None: there are none.
    shared
        The prompts that sessions share; None: they share none, and the trace has no ``prefix``.
    limit
        The limit of the context; None: prompts grow without one.
    tenants
        The tenants of the sessions; None: the trace has no tenants.
    idle_cap_s
        Longest time from an answer to the next request, in seconds; None: as drawn. AgentX replays with 10 s.
    source
        Where the numbers come from, and what is assumed beyond it.

    Examples
    --------
    >>> from paceline.synthesis import Constant, FixedTime, Sessions, TurnTokens, synthesize
    >>> chat = Sessions(
    ...     turns=Constant(3),
    ...     tokens=TurnTokens(first=Constant(500), later=Constant(50), output=Constant(100)),
    ...     think_time=FixedTime(8.0),
    ... )
    >>> trace = synthesize(chat, sessions=1, rate=1.0, seed=1)
    >>> trace.frame.select("prompt_tokens", "output_tokens", "think_time", "session").rows()
    [(500, 100, None, '1-0'), (650, 100, 8.0, '1-0'), (800, 100, 8.0, '1-0')]
    """

    name: str = "sessions"
    arrivals: Arrivals = field(default_factory=Poisson)
    rate: float | None = None
    turns: Lengths
    tokens: TurnTokens
    think_time: Durations = field(default_factory=lambda: FixedTime(0.0))
    tools: ToolLoop | None = None
    shared: SharedPrompts | None = None
    limit: ContextLimit | None = None
    tenants: Tenants | None = None
    idle_cap_s: float | None = None
    source: str = ""

    def __post_init__(self) -> None:
        if self.rate is not None:
            check_rate(self.rate)
        if self.idle_cap_s is not None and not (_check.is_number(self.idle_cap_s) and self.idle_cap_s >= 0):
            raise ConfigError(f"idle_cap_s must be seconds, at least 0, was {said(self.idle_cap_s)}")
        if self.shared is not None and self.shared.by_tenant and self.tenants is None:
            raise ConfigError("SharedPrompts by_tenant need tenants: tenants=Tenants(20)")
