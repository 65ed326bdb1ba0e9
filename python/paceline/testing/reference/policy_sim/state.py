"""The state of an instance's scheduler between steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from paceline.testing.reference.policy_sim.expression import Scope
from paceline.testing.reference.policy_sim.handover import Incoming
from paceline.testing.reference.policy_sim.host_copies import HostCopies
from paceline.testing.reference.policy_sim.memory import Memory
from paceline.testing.reference.policy_sim.queue import Queue
from paceline.testing.reference.policy_sim.ranking import Ranking
from paceline.testing.reference.policy_sim.request import Request
from paceline.testing.reference.policy_sim.reserve import Reserve
from paceline.testing.reference.policy_sim.settings import Settings
from paceline.testing.reference.policy_sim.step import Step
from paceline.testing.reference.policy_sim.tier import Tier
from paceline.testing.reference.policy_sim.tree_memory import TreeMemory


@dataclass(slots=True)
class State:
    """The requests of one instance, and the settings that they are scheduled by.

    Attributes
    ----------
    settings : Settings
    memory : Memory
    queue : Queue
        Requests that are not in the batch.
    ranking : Ranking or None
        The order of all requests, if requests are ranked.
    scope : callable
        Returns what an expression sees of the instance and of a request, at a moment.
    incoming : Incoming
        Requests that are handed over to the instance and have not been admitted.
    running : list of Request
        Requests in the batch, in the order of admission.
    rows : list of Request
        Requests that decode, in the order of the batch's rows, where the prefix cache is a tree.
    formed : int
        Steps decided so far.
    started : int or None
        Start of the latest step; None if no step is decided ahead.
    unreceived_steps : int
        Steps without a prompt since arrivals were received; 0: the next step receives them.
    copied_out, copied_in : int
        Blocks copied that have not been charged to a step yet.
    batch : dict of Request to int
        The prefills that run by groups of layers, and the tokens of each.
    group, groups : int
        The group that the batch ran in last, and the number of groups.
    before : list of Request
        The running requests of the latest step, where steps are decided ahead.
    in_flight : list of Request
        The requests that the latest step ran, where steps are decided ahead.
    ended : list of Request
        Requests that have ended since; the next decision still counts them as running.
    unseen : list of Request
        Requests that yielded tokens in the latest step, which the next decision does not know.
    results : list of Request
        Requests that the latest step ran, in the order in which its results are processed.
    counted : list of Request
        Requests of which the latest step yielded a token that counted once the next one was decided.
    ended_late : list of Request
        Those of them that have ended, and that the instance has not let go yet.
    deferred : list of Request or of blocks with their request
        Finished requests, and blocks that another instance has read, in the order of these events: the next
        decision still counts them as held.
    computed : list of Request
        Requests whose prompts are through with the latest step, and are not in the prefix tree yet.
    dropped : list of Request
        Requests that can never be admitted, and that the instance has not removed yet.
    loaded : list of int
        Adapters in the GPU's memory, the one that was used the longest ago first.
    loads : int
        Adapters loaded that have not been charged to a step yet.
    tier : Tier or None
        The chunks in the host's memory, if the instance keeps any there.
    copies : HostCopies or None
        The copies of a prefix tree, if the host's memory has it, too.
    reserve : Reserve or None
        What admissions leave for outputs to come.
    under_way : callable
        Returns the steps of the batches in a pipeline, but for the one that is formed.
    asked : frozenset of str
        The rules that are asked whether requests leave as their phases end.
    steps_held : int
        Steps that held prompts back since the rule for them let some pass.
    held_together : bool
        Whether instances that step together hold prompts back in the next step.
    wakes : int or None
        When to try again to form a step without another event.
    """

    settings: Settings
    memory: Memory
    queue: Queue
    ranking: Ranking | None
    scope: Callable[[int, Request | None], Scope]
    incoming: Incoming
    running: list[Request] = field(default_factory=list)
    rows: list[Request] = field(default_factory=list)
    formed: int = 0
    started: int | None = None
    unreceived_steps: int = 0
    copied_out: int = 0
    copied_in: int = 0
    batch: dict[Request, int] = field(default_factory=dict)
    group: int = 0
    groups: int = 1
    before: list[Request] = field(default_factory=list)
    in_flight: list[Request] = field(default_factory=list)
    ended: list[Request] = field(default_factory=list)
    unseen: list[Request] = field(default_factory=list)
    results: list[Request] = field(default_factory=list)
    counted: list[Request] = field(default_factory=list)
    ended_late: list[Request] = field(default_factory=list)
    deferred: list[Request | tuple[list[int], Request]] = field(default_factory=list)
    computed: list[Request] = field(default_factory=list)
    dropped: list[Request] = field(default_factory=list)
    loaded: list[int] = field(default_factory=list)
    loads: int = 0
    tier: Tier | None = None
    copies: HostCopies | None = None
    reserve: Reserve | None = None
    under_way: Callable[[], list[Step]] = list
    asked: frozenset[str] = frozenset()
    steps_held: int = 0
    held_together: bool = False
    wakes: int | None = None

    @property
    def admitted(self) -> int:
        """Requests in the batch, as far as the scheduler knows."""
        return len(self.running) + sum(one not in self.running for one in self.ended)

    @property
    def continuing(self) -> list[Request]:
        """Requests in the batch that have not ended."""
        return [one for one in self.running if one not in self.ended]

    @property
    def watermark(self) -> int:
        """Blocks that an admission leaves free."""
        applies = self.settings.watermark_when_idle or self.admitted > 0
        return self.settings.watermark_blocks if applies else 0

    @property
    def spare(self) -> int:
        """Blocks that must be free to schedule a running request, even if it needs none."""
        return int(self.settings.spare_block)

    @property
    def resumes_as_accepted(self) -> bool:
        """Whether swapped-out requests resume before others are accepted, beside a reserve for both."""
        return self.reserve is not None and self.incoming.reserve is not None

    @property
    def swapped_to_accept(self) -> list[Request]:
        """Requests that resume so."""
        return self.queue.swapped if self.resumes_as_accepted else []

    def seats_taken(self, step: Step, *, count_decodes: bool, without: list[Request] | None = None) -> int:
        """Return the taken seats: of all running requests, or of this step's prefills."""
        gone = without or []
        if count_decodes:
            return self.admitted - len(gone)
        return sum(request not in gone for request in step.prefills)

    def begin_pass(self, *, seated: bool) -> None:
        """Sort the queue before admissions; it is a pass if a seat is free or a prompt continues."""
        passes = seated or any(not one.decoding for one in self.continuing)
        if passes:
            self.memory.begin_pass(self.queue.in_order, sorts=self.queue.sorts)
        # Beside a tree, only what passes over the queue sorts it.
        if passes or not isinstance(self.memory, TreeMemory):
            self.queue.sort()

    def sees(self, moment: int) -> bool:
        """Whether the step that is formed sees what happened at a moment."""
        return not self.settings.schedule_ahead or self.started is None or moment <= self.started

    def enqueue(self, request: Request, now: int) -> None:
        """Note that a request is queued from now on."""
        request.place = "queued"
        request.queued_at, request.idle_from = now, self.formed

    def enter_ranking(self, request: Request, now: int) -> None:
        """Rank a request that comes to the queue; the numbers of its groups may be lifted before."""
        if self.ranking is not None:
            accumulators = self.ranking.accumulators
            accumulators.now = now
            accumulators.open(request)
            accumulators.lift(request, self.queue.waiting)
            self.ranking.enter(request, self.scope(now, request))

    def rank(self, request: Request, now: int) -> None:
        """Rank a request that was admitted or preempted, if requests are ranked."""
        if self.ranking is not None:
            self.ranking.moved(request, self.scope(now, request))
