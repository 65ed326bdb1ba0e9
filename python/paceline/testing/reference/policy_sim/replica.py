"""One instance of the cluster: its scheduler, its running step, and its counters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from paceline.testing.reference.instance import Usage
from paceline.testing.reference.policy_sim.acceptance import receive, withdraw
from paceline.testing.reference.policy_sim.contents import Contents
from paceline.testing.reference.policy_sim.cost import Cost
from paceline.testing.reference.policy_sim.expression import Scope
from paceline.testing.reference.policy_sim.handover import Handover, Incoming
from paceline.testing.reference.policy_sim.pipeline import Pipeline, land
from paceline.testing.reference.policy_sim.refusing import refusal
from paceline.testing.reference.policy_sim.request import Request, Spell, TraceRequest
from paceline.testing.reference.policy_sim.scheduler import Scheduler
from paceline.testing.reference.policy_sim.step import Step
from paceline.testing.reference.refusal import Reason


@dataclass(slots=True)
class Counts:
    """What an instance computed, copied, sent and received; tokens, blocks, and requests."""

    prefill_tokens: int = 0
    decode_tokens: int = 0
    swapped_out_blocks: int = 0
    swapped_in_blocks: int = 0
    sent: int = 0
    landed: int = 0
    expired_offers: int = 0
    discarded_tokens: int = 0


class Replica:
    """One replica of the model.

    Parameters
    ----------
    index : int
    config : dict
        The instance, as the engine's configuration spells it; its cost is affine.
    role : int
    scope : callable
        Gives what an expression sees at a moment of an instance, and of a request if one is given.
    contents : Contents or None
        What the blocks of the trace's requests hold, where the instance caches prefixes.
    incoming : Incoming or None
        How requests that are handed over are accepted; None: none is.
    """

    def __init__(
        self,
        index: int,
        config: dict[str, Any],
        role: int,
        scope: Callable[[int, Replica, Request | None], Scope],
        contents: Contents | None = None,
        incoming: Incoming | None = None,
    ) -> None:
        self.index: int = index
        self.role: int = role
        self.blocks: int = config["blocks"]
        self.block_tokens: int = config["block_tokens"]
        self.kv_bytes: int = config.get("kv_bytes_per_token", 0)
        self.kv_layers: int = config.get("kv_layers", 1)
        self.state_bytes: int = config.get("state_bytes", 0)
        self.scheduler: Scheduler = Scheduler(
            config, lambda now, request: scope(now, self, request), contents, incoming
        )
        self.requests: list[Request] = []  # unfinished requests of the instance
        self.arrived: list[TraceRequest] = []  # all that were sent here on arrival
        self.finished: list[TraceRequest] = []  # all that yielded their last token here
        self.gauges: dict[int | None, float] = {}  # what monitors have read, by the number of the gauge
        self.pipeline = Pipeline(config["pipeline"]) if config.get("pipeline") else None
        if self.pipeline is not None:
            pipeline = self.pipeline
            self.scheduler.state.under_way = lambda: pipeline.under_way
        self.leaving: dict[Request, tuple[int, int]] = {}  # target, and the tokens of KV that it has
        self.cancelled: list[Request] = []  # leave at the end of the running step
        self.outgoing: list[Handover] = []  # requests that left and whose KV has not been read
        self.step: Step | None = None
        self.ends: int | None = None
        self.decode_gaps: list[int] = []  # between the ends of steps that decoded, without idle time
        self.steps: list[list[Any]] = []  # a row for each
        self.formed_steps: list[Step] = []
        self.usage = Usage()
        self.counts = Counts()
        self.dropped = 0  # requests that could never be admitted again
        self._model: int | None = config.get("model")
        self._config = config
        self._cost = Cost(config["cost"])
        self._changed = False  # whether an event occurred since it last tried to form a step
        self._last_end: int | None = None
        self._last_decode: int | None = None  # None also if it has been idle since

    @property
    def formed(self) -> int:
        """Steps it has decided."""
        return self.scheduler.formed

    @property
    def oldest_step(self) -> Step | None:
        """The running step: of several batches the one that ends first."""
        under_way = [] if self.pipeline is None else self.pipeline.under_way
        return under_way[0] if under_way else self.step

    @property
    def wakes(self) -> int | None:
        """When it tries again to form a step without another event."""
        return self.scheduler.state.wakes

    def refusal(self, spec: TraceRequest) -> Reason | None:
        """Return why the instance could never finish a request, or None if it could."""
        if self._model is not None and spec.model is not None and self._model != spec.model:
            return "model"
        return refusal(spec.prompt_tokens, spec.output_tokens, self._config)

    def prefill_ticks(self, spec: TraceRequest) -> int:
        """Return the time of a request's prompt alone, in steps of all their tokens."""
        prompt, most = spec.prompt_tokens, self.scheduler.settings.max_num_batched_tokens
        return sum(self._cost.prefill(min(most, prompt - at), at) for at in range(0, prompt, most))

    # -- requests --------------------------------------------------------------

    def arrive(self, request: Request, now: int) -> None:
        """Queue a request that arrives or has migrated here."""
        self._changed = True
        request.where = request.last = self.index
        if request.scheduled is not None:
            request.spells.append(Spell(now, request.phase))
            self.counts.landed += 1
        self.requests.append(request)
        self.scheduler.add(request, now)
        self._count_waiting()

    def free_sent(self, blocks: list[int], request: Request) -> None:
        """Free the blocks of a migrated request, which its target has read by now."""
        self._changed = True
        self.scheduler.free_sent(blocks, request)

    def wake(self, now: int) -> None:
        """Try again to form a step if it is time."""
        if self.wakes == now:
            self.scheduler.state.wakes = None
            self._changed = True

    def cancel(self, request: Request, now: int) -> None:
        """Remove a request that was cancelled: one that runs once the running step has ended."""
        self._changed = True
        if not request.running:
            self.scheduler.cancel_waiting(request)
            if self.pipeline is not None:
                self.pipeline.forget(request)
        elif self.step is not None or (self.pipeline is not None and not self.pipeline.has_room):
            self.cancelled.append(request)
            return
        else:
            self.scheduler.cancel_running(request, now)
            if self.pipeline is not None:
                self.pipeline.forget(request)
        self._gone(request)

    def withdraw_cancelled(self, handover: Handover) -> None:
        """Withdraw the offer of a request that was cancelled."""
        self._changed = True
        self.scheduler.state.incoming.offered.remove(handover)
        handover.request.place = "gone"
        self._gone(handover.request)

    def _gone(self, request: Request) -> None:
        self._forget(request)
        request.left = True

    def leave(self, request: Request, now: int) -> list[int]:
        """Remove a request that migrates; return its blocks, which are not free yet."""
        self._forget(request)
        self.counts.sent += 1
        # Another request may run in its place, though its blocks are not free yet.
        self._changed = True
        return self.scheduler.leave(request, now)

    def hand_over(self, request: Request, target: int, now: int, copied: int) -> Handover:
        """Remove a request that is offered to another instance; its blocks and KV stay."""
        blocks = self.leave(request, now)
        handover = Handover(request, self.index, target, blocks, request.computed, now, now, copied)
        self.outgoing.append(handover)
        return handover

    @property
    def ending(self) -> list[Request]:
        """Requests whose prompt ends with the running step, in the order of admission."""
        step = self.step
        return [
            one
            for one in (self.scheduler.running if step is not None else ())
            if step is not None and one.generated == 0 and one.lacking == step.tokens.get(one)
        ]

    def expect(self, handover: Handover) -> None:
        """Add a request that is offered while the last step of its prompt runs elsewhere."""
        self._changed = True
        handover.request.place, handover.request.memory = "offered", "source"
        self.scheduler.state.incoming.offered.append(handover)

    def confirm(self, handover: Handover, request: Request, now: int) -> None:
        """Have a request that has left its source take the place of its stand-in, with its blocks."""
        stand_in, handover.request, handover.early = handover.request, request, False
        incoming = self.scheduler.state.incoming
        incoming.receiving = [request if one is stand_in else one for one in incoming.receiving]
        request.place, request.memory = stand_in.place, stand_in.memory
        self.scheduler.memory.take_over(request, stand_in)
        self._join(request, now)

    def call_off(self, handover: Handover) -> None:
        """Withdraw the offer of a request that has ended with its first token."""
        self._changed = True
        self.scheduler.state.incoming.offered.remove(handover)

    def release_reserved(self, handover: Handover, *, received: bool = True) -> None:
        """Free the blocks of such a request that was accepted; ``received``: its KV has come by now."""
        stand_in, memory = handover.request, self.scheduler.memory
        self.scheduler.state.incoming.receiving.remove(stand_in)
        stand_in.computed = stand_in.computed if received else 0
        memory.register_full(stand_in, stand_in.computed)
        self.free_sent(memory.detach_blocks(stand_in), stand_in)

    def _join(self, request: Request, now: int) -> None:
        request.where = request.last = self.index
        request.position, request.joined, request.joined_tokens = None, now, request.generated
        self.requests.append(request)

    def end_handover(self, handover: Handover) -> None:
        """Free the blocks of a request whose KV has been read, or is given up."""
        self.outgoing.remove(handover)
        self.free_sent(handover.blocks, handover.request)

    def offer(self, handover: Handover) -> None:
        """Add a request that is offered to the instance: it counts here from now on."""
        self._changed = True
        request = handover.request
        request.place, request.memory = "offered", "source"
        self._join(request, handover.left)
        self.scheduler.state.incoming.offered.append(handover)

    def receive(self, request: Request, now: int) -> None:
        """Receive the KV of an accepted request."""
        self._changed = True
        receive(self.scheduler.state, request, now)
        self._count_waiting()

    def withdraw(self, request: Request, now: int) -> None:
        """Withdraw the offer of a request, which computes its KV here."""
        self._changed = True
        withdraw(self.scheduler.state, request, now)
        self.counts.expired_offers += 1
        self._count_waiting()

    def _count_waiting(self) -> None:
        self.usage.peak_waiting = max(self.usage.peak_waiting, len(self.scheduler.queue))

    def _forget(self, request: Request) -> None:
        self.requests.remove(request)
        self.leaving.pop(request, None)
        request.where = None

    # -- steps ----------------------------------------------------------------------------

    def form(self, now: int) -> list[Request]:
        """Form a step if none runs, an event occurred, and any request can run.

        Return the requests that were dropped since they can never be admitted again.
        """
        if self.step is not None or not self._changed:
            return []
        self._changed = False
        return self._form_one(now) if self.pipeline is None else self._fill(self.pipeline, now)

    def _fill(self, pipeline: Pipeline, now: int) -> list[Request]:
        """Form batches while there is room for them."""
        dropped = []
        while True:
            while pipeline.has_room:
                dropped += self._form_one(now)
                step, ticks = self.step, 0 if self.step is None else self.ticks
                self.step = None
                if step is not None:
                    pipeline.enter(step, ticks)
                elif not pipeline.add_empty():
                    break
            if not pipeline.drop_empty(now):
                self.ends = pipeline.ends
                return dropped

    def _form_one(self, now: int) -> list[Request]:
        """Form a step if any request can run."""
        scheduler, usage = self.scheduler, self.usage
        known = [*self.requests, *scheduler.state.ended]
        before = sum(request.preemptions for request in known)
        self.step = step = scheduler.form(now)
        usage.preemptions += sum(request.preemptions for request in known) - before
        self._count_waiting()
        dropped, scheduler.state.dropped = scheduler.state.dropped, []
        self.dropped += len(dropped)
        for request in dropped:
            self._forget(request)
        late, scheduler.state.ended_late = scheduler.state.ended_late, []
        self._end_requests(late, now)
        if step is None:
            # Offers may have been accepted, though no step forms.
            usage.peak_blocks = max(usage.peak_blocks, scheduler.memory.pool.held)
        else:
            if now != self._last_end:
                self._last_decode = None
            if self.pipeline is None:
                self.steps.append(step.row())
                self.formed_steps.append(step)
            self.counts.swapped_out_blocks += step.blocks_out
            self.counts.swapped_in_blocks += step.blocks_in
            usage.peak_running = max(usage.peak_running, len(scheduler.running))
            usage.peak_blocks = max(usage.peak_blocks, step.held_blocks)
        return dropped

    def count_copies(self) -> None:
        """Count the copies from the CPU's memory after which no step was formed."""
        self.counts.swapped_in_blocks += self.scheduler.state.copied_in

    def begin(self, now: int, ticks: int | None = None) -> None:
        """Start the step that was just formed, if there is one; ``ticks`` is its time if given."""
        if self.step is not None and self.ends is None:
            self.ends = now + (self.ticks if ticks is None else ticks)

    @property
    def ticks(self) -> int:
        """The time of the running step by itself, with the copies before it or beside it."""
        assert self.step is not None
        loading = self.scheduler.settings.joining.get("adapter_load", 0) * self.step.loads
        ticks = self._cost.step(self.step)
        swap = self.scheduler.settings.swap
        if swap is None:
            tier = self.scheduler.state.tier or self.scheduler.state.copies
            stall = 0 if tier is None else tier.stall(ticks)
            return ticks + int(loading) + self.step.waits + stall
        copies = self.step.blocks_out * int(swap["out"]) + self.step.blocks_in * int(swap["back"])
        return max(ticks, copies) if swap["overlapped"] else ticks + copies

    def end(self, now: int) -> list[Request]:
        """End the running step; return requests with a new token, in the order of admission."""
        if self.pipeline is not None:
            return self._end_batch(self.pipeline, now)
        step, self.step, self.ends = self.step, None, None
        self._changed = True
        assert step is not None
        step.ended = now
        self.usage.steps += 1
        self.counts.decode_tokens += (decoded := sum(one not in step.discarded for one in step.decodes))
        self.counts.discarded_tokens += sum(step.tokens[one] for one in step.discarded)
        # A batch computes its tokens once, in however many groups of layers it runs.
        prefilled = sum(step.tokens[one] - step.drafts.get(one, 0) for one in step.prefills)
        prefilled = prefilled if step.last_group else 0
        self.counts.prefill_tokens += prefilled
        self.usage.tokens += decoded + prefilled
        for request in step.handed_over:
            # It may have been preempted in the step that admitted it.
            runs = request in step.tokens or request not in step.preempted
            request.first_decode += now - step.start if runs else 0
        if decoded:
            self.decode_gaps.append(now - (step.start if self._last_decode is None else self._last_decode))
            self._last_decode = now
        self._last_end = now
        yielded = self.scheduler.finish(step, now)
        accepted = sum(step.verified[request][1] - 1 for request in yielded)
        self.counts.decode_tokens += accepted
        self.usage.tokens += accepted
        self._end_requests(yielded, now)
        return yielded

    def _end_batch(self, pipeline: Pipeline, now: int) -> list[Request]:
        """End the oldest of several batches."""
        self._changed = True
        batch = pipeline.take(now)
        assert batch.step is not None
        self.ends = None
        self.steps.append(batch.row)
        self.formed_steps.append(batch.step)
        batch.step.ended = now
        self.usage.steps += 1
        self.usage.tokens += batch.decoded + batch.prefilled
        self.counts.decode_tokens += batch.decoded
        self.counts.prefill_tokens += batch.prefilled
        if batch.decoded:
            self.decode_gaps.append(now - batch.step.start)
        yielded = land(self.scheduler.state, batch, batch.step, now)
        self._end_requests(yielded, now)
        return yielded

    def _end_requests(self, yielded: list[Request], now: int) -> None:
        """Have the requests leave that have their last token, or were cancelled while a step ran."""
        for request in yielded:
            if request.done:
                self._forget(request)
                self.usage.finished += request.finished
                self.finished += [request.spec] if request.finished else []
                request.left = not request.finished
        cancelled, self.cancelled = self.cancelled, []
        for request in cancelled:
            if request.left or request.done:
                continue
            self.scheduler.cancel_running(request, now)
            self._gone(request)
            if self.pipeline is not None:
                self.pipeline.forget(request)

    def pass_time(self, duration: int) -> None:
        """Account for ``duration`` in which nothing changed."""
        running = self.scheduler.running
        tokens = self.step.tokens.items() if self.step is not None else ()
        computing = sum(count for one, count in tokens if self.step and one not in self.step.discarded)
        self.usage.busy += duration * (self.oldest_step is not None)
        self.usage.running_time += duration * len(running)
        self.usage.waiting_time += duration * len(self.scheduler.queue)
        self.usage.kv_token_time += duration * (sum(request.computed for request in running) + computing)
