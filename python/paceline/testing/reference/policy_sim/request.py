"""A request: its row of the trace, and its state in the cluster."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from paceline.testing.reference.policy_sim.expression import SortKey
from paceline.testing.reference.refusal import Reason
from paceline.testing.reference.request import Request as Row

Place = Literal["queued", "running", "moving", "offered", "receiving", "gone"]
Memory = Literal["gpu", "cpu", "host", "source"]
REASONING, ANSWERING = 1, 2  # phases; 0 is before the first token


@dataclass(frozen=True, slots=True)
class TraceRequest(Row):
    """A row of the trace, with the columns that only policies read.

    Attributes
    ----------
    reasoning_tokens : int
        Output tokens before the answer, at most all of them.
    score : float
    tenant : int
    session : int or None
        The conversation that the request is a turn of.
    model : int or None
        The model that it names.
    adapter : int or None
        Its adapter.
    think : int or None
        Ticks from the answer to the turn before to the request; None: it does not wait for that.
    parents : tuple of int
        Rows of the requests for whose answers it waits, before its own.
    delay : int
        Ticks from the last of these answers to the request.
    not_before : int
        The earliest moment of a request that waits for an answer.
    numbers : tuple of float
        Further columns that expressions read, by their number.
    cancel_after : int or None
        Ticks from when it is sent until its client cancels it.
    cancel_tokens : int or None
        Output tokens after which its client cancels it.
    """

    reasoning_tokens: int = 0
    score: float = 0.0
    tenant: int = 0
    session: int | None = None
    model: int | None = None
    adapter: int | None = None
    think: int | None = None
    parents: tuple[int, ...] = ()
    delay: int = 0
    not_before: int = 0
    numbers: tuple[float, ...] = ()
    cancel_after: int | None = None
    cancel_tokens: int | None = None

    @property
    def last_token(self) -> int:
        """The output tokens with which it ends."""
        if self.cancel_tokens is None:
            return self.output_tokens
        return min(self.output_tokens, self.cancel_tokens)


@dataclass(slots=True)
class Spell:
    """A time out of the batch after the first admission: ``[start, end)``, and the phase at its start."""

    start: int
    phase: int
    end: int | None = None


@dataclass(slots=True)
class Transfer:
    """A migration: when the request left its instance, and when it arrived at the next."""

    left: int
    landed: int


@dataclass(slots=True, eq=False)
class Request:
    """A request in the cluster.

    Two requests are equal only if they are the same object, so that they can be keys. ``computed`` counts
    finished steps: the tokens of the running step are added as it ends.

    Attributes
    ----------
    index : int
        Row of the trace.
    spec : TraceRequest
        The row of the trace, with the moment at which it was sent as its arrival.
    number : int
        Its place in the order of arrival, by which ties are broken.
    generated, computed : int
        Output tokens generated; tokens of KV kept.
    blocks : list of int
        Blocks it holds, on the GPU or in the CPU's memory, in the order of its tokens.
    known : int
        Leading blocks on the GPU that are registered in the prefix cache.
    in_set : bool
        Whether it belongs to the decode set: it has decoded at every step with decodes since it joined. The
        prefix cache registers its blocks when it leaves the set.
    hit_tokens : int
        Tokens found in the prefix cache when it was first admitted.
    loaded_tokens, store_tokens, load_wait : int
        Tokens that were loaded from a tier for the first admission, and those of them that a store below it
        had; the time from when loads began until the request was admitted.
    acceptance_wait : int
        The time from its arrival, or its routing, until its target accepted it, if it was offered then.
    announced : bool
        Whether it was offered then, and waits for a step to be decided that sees it on its source.
    load : tuple of int or None
        When a load began, the tokens in the prefix cache, and those loaded; until the request is admitted.
    preemptions : int
    rejected : str or None
        Why it was rejected on arrival, or dropped later.
    cancelled, cause : int or None, {"timed out", "cancelled"} or None
        When its client cancelled it, and why.
    left : bool
        Whether it has left after that, or before it was sent to an instance.
    where, last : int or None
        Its instance (None before arrival, in transfer and when finished), and its last instance.
    place : {"queued", "running", "moving", "offered", "receiving", "gone"}
    memory : {"gpu", "cpu", "host", "source"} or None
        Where its KV is; ``host`` after a migration, ``source`` if it is offered. None if it has none.
    decoding : bool
        Whether it has generated a token since it last had no KV.
    queued_at, idle_from : int
        When it was last queued, and the steps that its instance had formed by then.
    admitted_at, attained : int
        When it was last admitted, and the time that it had run before that.
    scheduled : int or None
        Start of the first step that ran any of it.
    cached : int
        While a step is formed: tokens of its prompt in the prefix cache, if it is queued.
    position : int or None
        Its class.
    joined, joined_tokens : int
        When it entered its class, and the tokens it had generated by then.
    keys : tuple of float
        The keys of its class as last evaluated.
    token_times, token_starts : list of int
        When each token appeared, and the start of the step that computed it.
    prefill_steps : list of tuple of int
        Start and end of each step before its first token that computed tokens of it, or layers of them.
    spells : list of Spell
    transfers : list of Transfer
    drafts, yielded : int
        Drafts that are proposed for it, and tokens that its latest step yielded.
    pending : tuple of int or None
        Start and end of the step that yielded its next token, if that counts once the next step is decided.
    hidden, given_up : int
        Tokens that its latest step yielded, and tokens whose KV that step gave up, while a step is formed
        that was decided before and does not know.
    handover_wait, received_wait, first_decode : int
        Times of its hand-overs: from when it left until the first byte was sent, or its offer was withdrawn;
        from when its KV was received until it was admitted; the steps that admitted it.
    """

    index: int
    spec: TraceRequest
    number: int = 0
    generated: int = 0
    computed: int = 0
    blocks: list[int] = field(default_factory=list)
    known: int = 0
    cached: int = 0
    in_set: bool = False
    hit_tokens: int = 0
    loaded_tokens: int = 0
    store_tokens: int = 0
    load_wait: int = 0
    acceptance_wait: int = 0
    announced: bool = False
    load: tuple[int, int, int] | None = None
    preemptions: int = 0
    rejected: Reason | None = None
    cancelled: int | None = None
    cause: Literal["timed out", "cancelled"] | None = None
    left: bool = False
    where: int | None = None
    last: int | None = None
    place: Place = "gone"
    memory: Memory | None = None
    decoding: bool = False
    queued_at: int = 0
    idle_from: int = 0
    admitted_at: int = 0
    attained: int = 0
    scheduled: int | None = None
    position: int | None = None
    joined: int = 0
    joined_tokens: int = 0
    steps_run: int = 0
    level: int = 0
    level_from: int = 0
    joined_steps: int = 0
    left_out: bool = False
    keys: tuple[SortKey, ...] = ()
    token_times: list[int] = field(default_factory=list)
    token_starts: list[int] = field(default_factory=list)
    prefill_steps: list[tuple[int, int]] = field(default_factory=list)
    spells: list[Spell] = field(default_factory=list)
    transfers: list[Transfer] = field(default_factory=list)
    drafts: int = 0
    yielded: int = 0
    pending: tuple[int, int] | None = None
    hidden: int = 0
    given_up: int = 0
    handover_wait: int = 0
    received_wait: int = 0
    first_decode: int = 0

    @property
    def tokens(self) -> int:
        """Tokens known so far: the prompt and what has been generated."""
        return self.spec.prompt_tokens + self.generated

    @property
    def lacking(self) -> int:
        """Tokens to compute before its next output token, after one that does not count yet."""
        return self.tokens + (self.pending is not None) - self.computed

    @property
    def done(self) -> bool:
        """Whether the last output token has appeared."""
        return self.generated == self.spec.last_token

    @property
    def finished(self) -> bool:
        """Whether it has generated all its tokens, and was not cancelled."""
        return self.done and self.cancelled is None

    @property
    def dropped(self) -> bool:
        """Whether its instance dropped it, which could never admit it again."""
        return self.rejected is not None and self.last is not None

    @property
    def running(self) -> bool:
        """Whether it is in its instance's batch."""
        return self.place == "running"

    @property
    def idle(self) -> bool:
        """Whether it is queued, or was left out of the latest step."""
        return self.place == "queued" or self.left_out

    @property
    def phase(self) -> int:
        """0 before the first token, 1 while it reasons, 2 while it answers."""
        if self.generated == 0:
            return 0
        return REASONING if self.generated < self.spec.reasoning_tokens else ANSWERING

    @property
    def changes_phase(self) -> bool:
        """Whether it has both reasoning and answer tokens."""
        return 0 < self.spec.reasoning_tokens < self.spec.output_tokens

    @property
    def reasoning_end(self) -> int | None:
        """When its last reasoning token appeared."""
        last = self.spec.reasoning_tokens
        return self.token_times[last - 1] if 0 < last <= self.generated else None

    @property
    def answer_times(self) -> list[int]:
        """When each token of the answer appeared."""
        return self.token_times[self.spec.reasoning_tokens :]
