"""An instance's scheduler: a list of stages that form a step, one step at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from paceline.testing.reference.policy_sim.acceptance import accept_formed
from paceline.testing.reference.policy_sim.admission import admit, has_gathered, swap_in
from paceline.testing.reference.policy_sim.async_arrivals import (
    catch_up,
    count_pending,
    detach,
    end_decision,
    forget_outcome,
    hold_token,
    insert_chunks,
    insert_computed,
    may_hold,
    may_lose,
    note_step,
    recall_ended,
    receive,
    receive_all,
)
from paceline.testing.reference.policy_sim.contents import Contents
from paceline.testing.reference.policy_sim.expression import Scope, holds
from paceline.testing.reference.policy_sim.handover import Incoming
from paceline.testing.reference.policy_sim.host_copies import HostCopies
from paceline.testing.reference.policy_sim.hosted_memory import HostedMemory, memory_of
from paceline.testing.reference.policy_sim.joining import leave_adapter, step_limits
from paceline.testing.reference.policy_sim.layers import advance_layers
from paceline.testing.reference.policy_sim.loading import cancel_load
from paceline.testing.reference.policy_sim.preemption import requeue_late_victims
from paceline.testing.reference.policy_sim.prompt_batch import has_prompt, holds_prompts
from paceline.testing.reference.policy_sim.queue import Queue
from paceline.testing.reference.policy_sim.ranking import Ranking
from paceline.testing.reference.policy_sim.request import Request
from paceline.testing.reference.policy_sim.reserve import Reserve
from paceline.testing.reference.policy_sim.reserving import (
    blocks_of_decodes,
    end_round,
    end_step,
    open_reserve,
)
from paceline.testing.reference.policy_sim.resume import ResumeRules, resume, resume_prefills
from paceline.testing.reference.policy_sim.selection import select
from paceline.testing.reference.policy_sim.settings import Settings
from paceline.testing.reference.policy_sim.state import State
from paceline.testing.reference.policy_sim.step import Step
from paceline.testing.reference.policy_sim.stuck import Stuck
from paceline.testing.reference.policy_sim.tier import Tier
from paceline.testing.reference.policy_sim.tree_memory import TreeMemory

_MOST_ROUNDS = 1000  # each one preempts requests that ran: a batch of a small case has far fewer


class Scheduler:
    """The scheduler of one instance, and all its requests.

    Parameters
    ----------
    config : dict
        The instance, as the engine's configuration spells it.
    scope : callable
        Returns what an expression sees of the instance and of a request, at a moment.
    contents : Contents or None
        What the blocks of the trace's requests hold, where prefixes are cached.
    incoming : Incoming or None
        How requests that are handed over are accepted; None: none is.
    """

    def __init__(
        self,
        config: dict[str, Any],
        scope: Callable[[int, Request | None], Scope],
        contents: Contents | None = None,
        incoming: Incoming | None = None,
    ) -> None:
        self.settings = settings = Settings.of(config)
        self.memory = memory_of(config, settings, contents)
        self.ranking = Ranking(settings.order) if settings.ranked else None
        queue = Queue(settings, self.memory, self.ranking)
        self.state = State(settings, self.memory, queue, self.ranking, scope, incoming or Incoming())
        if settings.output_reserve is not None:
            self.state.reserve = Reserve(settings.output_reserve)
        if isinstance(self.memory, HostedMemory):
            self.state.copies = HostCopies(config["tier"], self.memory)
        elif config.get("tier"):
            self.state.tier = Tier(
                config["tier"],
                self.memory,
                queue.loading,
                drops_last=settings.speculation.drops_last_block,
                ahead=settings.schedule_ahead,
            )

    @property
    def running(self) -> list[Request]:
        """Requests in the batch, in the order of admission."""
        return self.state.running

    @property
    def queue(self) -> list[Request]:
        """Requests that are not in the batch, without those whose KV is elsewhere."""
        queued = self.state.queue.requests
        return queued + [request for request in self.state.incoming.received if request not in queued]

    @property
    def _loading(self) -> list[Request]:
        """Queued requests that have blocks, as chunks are loaded into them."""
        return [] if self.state.tier is None else self.state.tier.loading

    @property
    def waiting_blocks(self) -> int:
        """Blocks that the admissions of all queued requests need, and the offers to be accepted."""
        offered = [handover.request for handover in self.state.incoming.offered]
        waiting = [request for request in self.queue if request not in self._loading]
        return sum(self.blocks_of(request) for request in waiting + offered)

    @property
    def formed(self) -> int:
        """Steps that it has decided."""
        return self.state.formed

    def quanta(self, request: Request) -> int:
        """Quanta of tokens that a request has used up in its class."""
        return self.ranking.quanta(request) if self.ranking else 0

    # -- called by the instance ----------------------------------------------------------

    def add(self, request: Request, now: int) -> None:
        """Queue a request that arrives or has migrated here."""
        self.state.enqueue(request, now)
        queue = self.state.queue
        late = self.settings.holds_arrivals or request.announced
        (queue.unknown if late else queue.waiting).append(request)
        request.position, request.joined, request.level = None, now, 0
        self.state.enter_ranking(request, now)
        if (tier := self.state.tier or self.state.copies) is not None:
            tier.joined.append(request)

    def form(self, now: int) -> Step | None:
        """Decide the next step; None if no request can run."""
        state, ahead, self.state.wakes = self.state, self.settings.schedule_ahead, None
        if self.ranking is not None:
            self.ranking.accumulators.now = now
        if state.tier is not None and not state.tier.wake(now):
            state.wakes = state.tier.ends
            return None
        receive(state)
        if ahead:
            recall_ended(state)
        if self.ranking is not None:
            self.ranking.promote(self.running + state.queue.waiting, state.scope, now, state.formed)
        for _ in range(_MOST_ROUNDS):
            if state.copies is not None:
                state.copies.open(now, now if state.started is None or not ahead else state.started)
            step = self._open(now)
            if state.tier is not None:
                state.tier.open(now)
            self._run_stages(step)
            end_round(state, step)
            requeue_late_victims(state, step)
            fewer = state.incoming.forget_finished(now, state.swapped_to_accept)
            if step.tokens:
                return self._settle(step)
            unseen = (catch_up(state) if ahead else receive_all(state)) or fewer
            if state.tier is not None:
                step.free_blocks = self.memory.free
                again, state.wakes = state.tier.pass_step(step)
                if again:
                    continue
                if state.tier.ends is not None:
                    return None
            if state.copies is not None and not unseen:
                if state.copies.has_more(now):
                    continue
                state.wakes = state.copies.wakes
            # With batches under way, the next one is formed once this one has had its place.
            if state.under_way():
                return None
            # All running requests were preempted. That takes no time, and the next round has their blocks.
            if not step.preempted and not unseen:
                there = state.running or self.queue or state.incoming.offered or state.incoming.receiving
                if state.reserve is not None and not there and state.wakes is None:
                    state.reserve.reset()
                return None
        raise Stuck(f"at {now}: requests are preempted again and again, and none runs")

    def prospect(self, now: int) -> tuple[bool, bool]:
        """Whether a step formed now has room for a prompt; whether requests run, or none is there at all."""
        state = self.state
        receive(state)
        queued, received = state.queue.waiting or state.queue.unknown, state.incoming.received
        return has_prompt(state, self._open(now)), bool(state.admitted or received or not queued)

    def finish(self, step: Step, now: int) -> list[Request]:
        """End a step: return the requests with a new token, in the order of admission."""
        state = self.state
        state.started, state.before = step.start, state.running.copy()
        state.in_flight = list(step.tokens) if self.settings.schedule_ahead else []
        note_step(state, step)
        end_step(state, step)
        accumulators = None if self.ranking is None else self.ranking.accumulators
        if accumulators is not None:
            accumulators.now = now
        for request in state.running:
            if not request.token_times and (request in step.tokens or request in state.batch):
                request.prefill_steps.append((step.start, now))
        if step.last_group:
            state.batch = {}
        yielded, chunks, holds = [], [], may_lose(state, step)
        state.results = self._in_order_of_results(step)
        for request in state.results:
            drafts = step.drafts.get(request, 0)
            request.computed += step.tokens[request] - drafts
            request.steps_run += 1
            if request.lacking:
                chunks.append(request)
                continue
            _, kept = step.verified[request]
            if holds and may_hold(state, request):
                hold_token(state, request, step, now)
                continue
            request.decoding, request.yielded = True, kept
            request.in_set = not self.settings.speculation.drafts
            self._count_tokens(request, kept, step.start, now)
            if self.settings.speculation.drafts:
                self._propose(request, step)
            if self.settings.schedule_ahead:
                request.hidden, request.given_up = kept, drafts - (kept - 1)
                state.unseen.append(request)
            yielded.append(request)
            if request.done and request.cancelled is None and request.generated < request.spec.output_tokens:
                request.cancelled, request.cause = now, "cancelled"
            if accumulators is not None and request.done:
                accumulators.left_batch(request, finished=request.finished)
            if step.parts[request] in ("admitted", "chunk"):
                state.computed.append(request)
                if not self.settings.schedule_ahead:
                    insert_computed(state)
            if request.done:
                request.place = "gone"
                self._end(request)
        state.incoming.finish(step.discarded if self.settings.schedule_ahead else yielded, now)
        insert_chunks(state, chunks, now, seen=step.start if self.settings.schedule_ahead else now)
        if state.tier is not None:
            state.tier.end(now, [one for one in yielded if one.done])
        for request in state.running:
            if self.ranking is not None and request in step.tokens and request not in state.batch:
                self.ranking.ran(request, state.scope(now, request))
        return yielded

    def _count_tokens(self, request: Request, kept: int, start: int, now: int) -> None:
        """Count the tokens that a step from ``start`` to ``now`` yields a request."""
        for token in range(kept):
            request.generated += 1
            request.token_times.append(now)
            # A further token of a step begins when the one before it has appeared.
            request.token_starts.append(now if token else start)
            if self.ranking is not None and self.ranking.accumulators is not None:
                self.ranking.accumulators.yielded(request)

    def _propose(self, request: Request, step: Step) -> None:
        """Write the tokens that a step yielded of a request after its first, and propose drafts for it."""
        speculation, (accepted, kept) = self.settings.speculation, step.verified[request]
        if not self.settings.schedule_ahead:
            self.memory.register_full(request, request.computed + kept - 1)
        request.computed += speculation.written(accepted, kept)
        request.drafts = speculation.proposals(request, len(step.tokens))

    def _in_order_of_results(self, step: Step) -> list[Request]:
        """Return the requests of a step whose results come with it: beside a tree, in the order of its rows.

        Prefills are before decodes. Those that end beside decodes stay before them.
        """
        ran = [one for one in self.state.running if one in step.tokens and one not in self.state.batch]
        if not isinstance(self.memory, TreeMemory):
            return ran
        rows = [one for one in self.state.rows if one in self.state.running]
        prefills = [one for one in step.tokens if one not in rows]
        ending = [one for one in prefills if step.tokens[one] == one.lacking]
        self.state.rows = ending + rows if step.decodes else rows + ending
        return [one for one in prefills + rows if one in ran]

    def cancel_running(self, request: Request, now: int) -> None:
        """Remove a request from the batch between two steps, and free its blocks."""
        state = self.state
        count_pending(request)
        state.batch.pop(request, None)
        if self.ranking is not None:
            self.ranking.accumulators.now = now
            self.ranking.accumulators.left_batch(request, finished=False)
        request.place, request.left_out = "gone", False
        self._end(request)
        if state.tier is not None:
            state.tier.leave(request)

    def _end(self, request: Request) -> None:
        """Remove a request that has ended from the batch, and free its blocks."""
        state = self.state
        state.running.remove(request)
        if self.settings.schedule_ahead:
            state.ended.append(request)
            state.deferred.append(request)
        else:
            leave_adapter(state, request)
            self.memory.release(request)

    def cancel_waiting(self, request: Request) -> None:
        """Remove a request from the queue, and free what it has."""
        state = self.state
        state.queue.remove(request)
        if state.tier is not None:
            cancel_load(state, request)
            return
        if request in state.incoming.received:
            state.incoming.admit(request)
            self.free_sent(self.memory.detach_blocks(request), request)
        elif request.memory == "cpu":
            self.memory.cpu_pool.release(request.blocks)
        request.blocks, request.place, request.memory = [], "gone", None

    def leave(self, request: Request, now: int) -> list[int]:
        """Remove a request that migrates; return its blocks, which are not free before they are released."""
        count_pending(request)
        self.running.remove(request)
        if self.ranking is not None:
            self.ranking.accumulators.now = now
            self.ranking.accumulators.left_batch(request, finished=False)
        request.attained += 0 if request.left_out else now - request.admitted_at
        request.left_out, request.place, request.drafts = False, "moving", 0
        computed = self.state.computed.copy()
        forget_outcome(self.state, request)
        self.memory.register_known(request)
        request.memory = "host"
        if self.state.tier is not None:
            self.state.tier.leave(request, migrates=True)
        return detach(self.state, request, computed)

    def free_sent(self, blocks: list[int], request: Request) -> None:
        """Free the blocks of a migrated request, which its target has read by now."""
        if self.settings.schedule_ahead:
            self.state.deferred.append((blocks, request))
        else:
            self.memory.release_detached(blocks, request)

    def blocks_of(self, request: Request) -> int:
        """Return the blocks that a request holds if it runs, else those that its admission needs.

        An offer needs blocks to be accepted; a received request has all blocks that it needs, and one whose
        chunks are loaded those of the chunks.
        """
        if request.running:
            return len(request.blocks)
        if request in self.state.incoming.received:
            return 0
        if request in self._loading:
            return max(0, self.memory.blocks_for(request.tokens) - len(request.blocks))
        if request.memory:
            return max(len(request.blocks), self.memory.blocks_for(self.state.incoming.tokens_of(request)))
        by_chunk = self.settings.allocation == "chunk"
        most = self.settings.max_num_batched_tokens if by_chunk else request.tokens
        return self.memory.blocks_for(min(request.tokens, most))

    @property
    def head(self) -> Request | None:
        """The request that is admitted next, of those that need blocks if requests are not ranked."""
        queue = self.state.queue
        offered = [handover.request for handover in self.state.incoming.offered if self.ranking is None]
        waiting = [request for request in queue.in_order if request not in self._loading]
        known = sorted(queue.unknown, key=lambda one: one.announced)
        return next(iter([*queue.swapped, *offered, *waiting, *known]), None)

    def cached_tokens(self, request: Request) -> int:
        """Return the tokens of a request's prompt that the prefix cache has."""
        return len(self.memory.hits(request, request.spec.prompt_tokens)) * self.memory.block_tokens

    # -- forming a step -------------------------------------------------------------------

    def _open(self, now: int) -> Step:
        state, settings = self.state, self.settings
        if self.ranking is not None:
            for request in state.queue.waiting:
                request.cached = self.cached_tokens(request)
            self.ranking.start(self.running + state.queue.waiting, state.scope, now, state.formed)
            for request in state.queue.waiting:
                request.cached = 0
        # A request that is alone delays no other, so its chunks have no limit.
        queued = len({*state.queue.waiting, *state.queue.swapped, *state.incoming.received})
        alone = state.admitted + queued <= 1 and not settings.threshold_when_alone
        budget, longest = step_limits(state, now)
        step = Step(now, budget, budget, longest, None if alone or longest == 0 else longest)
        step.chunk_unit = settings.block_tokens if settings.whole_block_chunks else 1
        if state.reserve is not None and any(stage.get("chunked") for stage in settings.stages):
            step.charge_unit = settings.block_tokens
        open_reserve(state, step)
        if settings.schedule_ahead:
            step.decided = now if state.started is None else state.started
        step.input_slots = settings.speculation.input_slots
        return step

    def _run_stages(self, step: Step) -> None:
        state, settings = self.state, self.settings
        displaces = settings.admission["kind"] == "displace" and holds(
            settings.admission.get("when"), state.scope(step.start, None)
        )
        for stage in settings.stages:
            kind = stage["kind"]
            if kind == "running":
                step.decodes_reached = True
                resume(state, step, ResumeRules())
            elif kind == "decodes":
                step.decodes_reached = True
                if settings.exclusive_prefill and step.prefills:
                    return
                sits_out = stage.get("sits_out") and step.prefills
                # No step of decodes is decided before the blocks of requests that have ended are free.
                awaits = state.reserve is not None and state.ended and not settings.unseen_ends
                if (sits_out or awaits) and blocks_of_decodes(state) > self.memory.free:
                    self.memory.give_up_cached()
                    return
                # Prefills of the current layered batch are in the step, wherever their stage is.
                others = {*step.tokens, *state.batch} if stage["seated"] else ()
                most = max(settings.max_num_seqs - len(others), 0)
                resume(state, step, ResumeRules(False, stage["over_prefills"], stage["charged"], most))
            elif kind == "prefills":
                resume_prefills(state, step)
            elif kind == "swap_in":
                if not (stage["unless_preempted"] and step.preempted):
                    swap_in(state, step)
            elif kind == "select":
                step.decodes_reached = True
                select(state, step, stage)
            elif kind == "admit":
                if self._admits(stage, step) and not holds_prompts(state, step):
                    admit(state, step, stage, displaces=displaces)
            else:
                advance_layers(state, step, stage)

    def _admits(self, stage: dict[str, Any], step: Step) -> bool:
        if stage["unless_preempted"] and step.preempted:
            return False
        if stage["unless_swapped"] and self.state.queue.swapped:
            return False
        return stage["gather"] is None or has_gathered(self.state, stage["gather"], step.start)

    def _settle(self, step: Step) -> Step:
        """Finish the decision of a step."""
        state = self.state
        self._keep_migrated_on_cpu(step.start)
        if self.settings.decodes_first:
            state.running.sort(key=step.place_of)
        state.formed += 1
        if state.copies is not None:
            state.copies.load(step.start)
        self.memory.settle(step)
        if state.copies is not None:
            step.waits = state.copies.begin() - step.start
            step.host = state.copies.used
        step.held_blocks = self.memory.pool.held
        step.verified = {request: self._verified(request, step) for request in step.tokens}
        step.free_blocks = self.memory.free
        step.order = state.running.copy()
        step.discarded = [one for one in state.ended if one in step.tokens]
        if state.tier is not None:
            step.waits = state.tier.close(step) - step.start
        if self.settings.schedule_ahead:
            end_decision(state, step)
            accept_formed(state, step)
        step.blocks_out, step.blocks_in, step.loads = state.copied_out, state.copied_in, state.loads
        state.copied_out = state.copied_in = state.loads = 0
        return step

    def _verified(self, request: Request, step: Step) -> tuple[int, int]:
        """Return how many drafts of a request are accepted in a step, and the tokens that it yields.

        They are -1 and 0 if the step does not compute all that the request lacks.
        """
        if request in self.state.ended or step.tokens[request] < request.lacking:
            return -1, 0
        verified = min(step.drafts.get(request, 0), request.drafts)
        accepted = 0
        if verified > 0:
            accepted = min(self.settings.speculation.accepted(request.index, request.generated), verified)
        return accepted, min(accepted + 1, request.spec.last_token - request.generated)

    def _keep_migrated_on_cpu(self, now: int) -> None:
        """Move the KV of migrated requests that were not admitted to the CPU's memory, if there is room."""
        if self.ranking is None or self.settings.swap is None:
            return
        for request in self.state.queue.waiting:
            if request.memory == "host":
                blocks = self.memory.blocks_for(request.computed)
                if not self.memory.keep_on_cpu(request, blocks):
                    self.state.rank(request, now)
