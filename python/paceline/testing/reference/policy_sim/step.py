"""A step, while it is formed and after."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from paceline.testing.reference.policy_sim.request import Request

Part = Literal["decode", "chunk", "admitted", "swapped_in_decode", "swapped_in_chunk", "landed"]


@dataclass(slots=True)
class Step:
    """The requests that a step runs, and those that were preempted for it.

    Attributes
    ----------
    start : int
    left : int
        Tokens left of its budget.
    budget : int
        All tokens of its budget.
    threshold : int
        Tokens above which a prefill is long; 0: none is.
    chunk_unit : int
        Tokens of which a chunk is a whole multiple, unless it ends its prompt.
    charge_unit : int
        Tokens of which a multiple is charged for a chunk of a prompt.
    longest_chunk : int or None
        The most tokens of one prefill; None: no limit.
    tokens : dict of Request to int
        Tokens that each request computes.
    parts : dict of Request to str
        How each request was scheduled.
    charges : dict of Request to int
        Tokens of the budget that each request used.
    admitted : list of Request
        Requests admitted from the queue.
    handed_over : list of Request
        Requests admitted with KV that was received.
    preempted : list of Request
        Victims, in order.
    requeue_after : list of Request
        Victims that are queued again after the step is formed.
    blocks_out, blocks_in : int
        Blocks copied to the CPU's memory and back.
    loads : int
        Adapters loaded.
    waits : int
        Ticks until its forward pass begins, in which copies to and from a tier end.
    host : int
        Blocks in the host's memory once it was decided, where a prefix tree is there.
    host_loads : dict of Request to int
        Tokens that its admissions load from there.
    grown : dict of Request to int
        Blocks that it gives to running requests.
    drafts : dict of Request to int
        The drafts among the tokens of each request that has any.
    verified : dict of Request to tuple of int
        The accepted drafts of each request, and the tokens that it yields; -1 and 0 if it yields none.
    input_slots : int
        Tokens of the budget that each scheduled request takes beside its own.
    before : dict of Request to int
        Tokens that count as computed before, of each request.
    order : list of Request
        The running requests, in the order of admission.
    discarded : list of Request
        Requests that had ended before, whose tokens are discarded.
    decided : int or None
        When it was decided, where steps are decided ahead.
    free_before, reserved : int
        Blocks that were free before it was decided, and tokens that its prefills reserve of them.
    decodes_reached : bool
        Whether the stage that schedules decodes was reached.
    received_alone : bool
        Whether it admits no requests but those whose KV has been received.
    group : tuple of int or None
        The group of layers that its prefills run in, and how many groups there are; None: all layers.
    layers : tuple of int
        Layers that run its prefills, and layers in all.
    free_blocks, held_blocks : int
        Blocks after the step was decided.
    ended : int or None
        When it ended, if it has.
    """

    start: int
    left: int
    budget: int = 0
    threshold: int = 0
    longest_chunk: int | None = None
    chunk_unit: int = 1
    charge_unit: int = 1
    tokens: dict[Request, int] = field(default_factory=dict)
    parts: dict[Request, Part] = field(default_factory=dict)
    charges: dict[Request, int] = field(default_factory=dict)
    admitted: list[Request] = field(default_factory=list)
    handed_over: list[Request] = field(default_factory=list)
    preempted: list[Request] = field(default_factory=list)
    requeue_after: list[Request] = field(default_factory=list)
    blocks_out: int = 0
    blocks_in: int = 0
    loads: int = 0
    waits: int = 0
    host: int = 0
    host_loads: dict[Request, int] = field(default_factory=dict)
    grown: dict[Request, int] = field(default_factory=dict)
    drafts: dict[Request, int] = field(default_factory=dict)
    verified: dict[Request, tuple[int, int]] = field(default_factory=dict)
    input_slots: int = 0
    before: dict[Request, int] = field(default_factory=dict)
    order: list[Request] = field(default_factory=list)
    discarded: list[Request] = field(default_factory=list)
    decided: int | None = None
    free_before: int = 0
    reserved: int = 0
    decodes_reached: bool = False
    received_alone: bool = False
    group: tuple[int, int] | None = None
    layers: tuple[int, int] = (1, 1)
    free_blocks: int = 0
    held_blocks: int = 0
    ended: int | None = None

    @property
    def room(self) -> int:
        """Tokens that the next request may compute."""
        return self.left - self.input_slots

    @property
    def prefills(self) -> list[Request]:
        """Requests that compute a prompt, or what was lost of a sequence."""
        return [request for request in self.tokens if not request.decoding]

    @property
    def decodes(self) -> list[Request]:
        """Requests that compute their latest token and generate the next one."""
        return [request for request in self.tokens if request.decoding]

    @property
    def last_group(self) -> bool:
        """Whether its prefills run in the last group of layers."""
        return self.group is None or self.group[0] + 1 == self.group[1]

    def cut(self, tokens: int) -> int:
        """Return a prefill's tokens, cut to the longest chunk."""
        return tokens if self.longest_chunk is None else self.cut_to(tokens, self.longest_chunk)

    def cut_to(self, tokens: int, most: int) -> int:
        """Return a prefill's tokens, of which ``most`` may be computed: a chunk is whole units."""
        return tokens if tokens <= most else most - most % self.chunk_unit

    def cut_first(self, tokens: int, most: int) -> int:
        """Return a first chunk's tokens, of which ``most`` may be computed."""
        fits = self.charge(tokens) <= most
        return self.cut_to(tokens, most) if fits or self.charge_unit == 1 else most - most % self.charge_unit

    def charge(self, tokens: int) -> int:
        """Return the tokens of the budget that a chunk of a prompt takes."""
        return -(-tokens // self.charge_unit) * self.charge_unit

    def add(self, request: Request, tokens: int, part: Part, *, charged: bool = True) -> None:
        """Schedule ``tokens`` of a request."""
        self.tokens[request] = tokens
        self.before[request] = request.computed + request.given_up
        self.parts[request] = part
        drafts = tokens - request.lacking
        if drafts > 0:
            self.drafts[request] = drafts
        self.charges[request] = tokens + self.input_slots if charged else 0
        rest = self.charge(tokens) - tokens if charged and part in ("admitted", "chunk") else 0
        self.left -= min(self.charges[request] + rest, self.left)

    def drop(self, request: Request, *, refund: bool) -> int:
        """Remove a request, and return the tokens that it was to compute beside its drafts."""
        charge = self.charges.pop(request, 0)
        self.left += charge if refund else 0
        self.parts.pop(request, None)
        return self.tokens.pop(request, 0) - self.drafts.pop(request, 0)

    def after(self, request: Request) -> int:
        """Return the tokens that count as computed of a request once the step has ended."""
        return self.before.get(request, request.computed) + self.tokens[request]

    def row(self) -> list[Any]:
        """Return the step as a row of decisions, its requests in the order of admission."""
        return [
            self.start,
            [
                [one.index, self.tokens[one], self.after(one) - self.tokens[one]]
                for one in self.order
                if one in self.tokens
            ],
            [request.index for request in self.preempted],
            [self.blocks_out, self.blocks_in],
            self.free_blocks,
        ]

    def place_of(self, request: Request) -> int:
        """Return the place of a request after the step, where decodes come before prefills."""
        places = {
            "swapped_in_decode": 1,
            "landed": 1,
            "swapped_in_chunk": 2,
            "decode": 3,
            "chunk": 4,
            "admitted": 5,
        }
        return places[self.parts[request]] if request in self.parts else 0
