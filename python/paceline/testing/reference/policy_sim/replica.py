"""One instance of the cluster: its scheduler, the step it is in, and what it has done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from paceline.testing.reference.instance import Usage
from paceline.testing.reference.policy_sim.contents import Contents
from paceline.testing.reference.policy_sim.cost import Cost
from paceline.testing.reference.policy_sim.expression import Scope
from paceline.testing.reference.policy_sim.request import Request, Spell, TraceRequest
from paceline.testing.reference.policy_sim.scheduler import Scheduler
from paceline.testing.reference.policy_sim.step import Step
from paceline.testing.reference.refusal import Reason, refuse


@dataclass(slots=True)
class Counts:
    """What an instance computed, copied, sent and received; tokens, blocks, and requests."""

    prefill_tokens: int = 0
    decode_tokens: int = 0
    swapped_out_blocks: int = 0
    swapped_in_blocks: int = 0
    sent: int = 0
    landed: int = 0


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
    """

    def __init__(
        self,
        index: int,
        config: dict[str, Any],
        role: int,
        scope: Callable[[int, Replica, Request | None], Scope],
        contents: Contents | None = None,
    ) -> None:
        self.index: int = index
        self.role: int = role
        self.blocks: int = config["blocks"]
        self.block_tokens: int = config["block_tokens"]
        self.kv_bytes: int = config.get("kv_bytes_per_token", 0)
        self.scheduler: Scheduler = Scheduler(
            config, lambda now, request: scope(now, self, request), contents
        )
        self.requests: list[Request] = []  # unfinished ones that are here
        self.leaving: dict[Request, tuple[int, int]] = {}  # where to, and the tokens that are there already
        self.step: Step | None = None
        self.ends: int | None = None
        self.decode_gaps: list[int] = []  # between the ends of steps that decoded, without idle time
        self.steps: list[list[Any]] = []  # a row for each
        self.formed_steps: list[Step] = []
        self.usage = Usage()
        self.counts = Counts()
        self._max_model_len: int | None = config["max_model_len"]
        self._cost = Cost(config["cost"])
        self._stirred = False  # whether anything happened since it last tried to form a step
        self._last_end: int | None = None
        self._last_decode: int | None = None  # None: or it stood idle since

    @property
    def formed(self) -> int:
        """Steps it has decided."""
        return self.scheduler.formed

    @property
    def wakes(self) -> int | None:
        """When it tries again to form a step, though nothing happens."""
        return self.scheduler.state.wakes

    def refusal(self, spec: TraceRequest) -> Reason | None:
        """Say why the instance could never finish a request, or None where it could."""
        settings = self.scheduler.settings
        return refuse(
            spec,
            max_model_len=self._max_model_len,
            block_size=self.block_tokens,
            blocks=self.blocks - settings.reserve,
            largest_prefill=None if settings.cuts_prompts else settings.max_num_batched_tokens,
        )

    def prefill_ticks(self, spec: TraceRequest) -> int:
        """How long a request's prompt would take with nothing beside it, in steps of all their tokens."""
        prompt, most = spec.prompt_tokens, self.scheduler.settings.max_num_batched_tokens
        return sum(self._cost.prefill(min(most, prompt - at), at) for at in range(0, prompt, most))

    # -- what comes and goes --------------------------------------------------------------

    def arrive(self, request: Request, now: int) -> None:
        """Take a request in that is new, or that another instance sent."""
        self._stirred = True
        request.where = request.last = self.index
        if request.scheduled is not None:
            request.spells.append(Spell(now, request.phase))
            self.counts.landed += 1
        self.requests.append(request)
        self.scheduler.add(request, now)
        self.usage.peak_waiting = max(self.usage.peak_waiting, len(self.scheduler.queue))

    def take_back(self, blocks: list[int]) -> None:
        """Free blocks whose content another instance has by now."""
        self._stirred = True
        self.scheduler.take_back(blocks)

    def wake(self, now: int) -> None:
        """Note that it is time to try again to form a step, if it is."""
        if self.wakes == now:
            self.scheduler.state.wakes = None
            self._stirred = True

    def leave(self, request: Request, now: int) -> list[int]:
        """Let a request go; return its blocks, which are still taken."""
        self._forget(request)
        self.counts.sent += 1
        return self.scheduler.leave(request, now)

    def _forget(self, request: Request) -> None:
        self.requests.remove(request)
        self.leaving.pop(request, None)
        request.where = None

    # -- steps ----------------------------------------------------------------------------

    def form(self, now: int) -> list[Request]:
        """Form a step, where none is under way, something happened, and anything can run.

        Return the requests that were dropped, as they can never be admitted again.
        """
        if self.step is not None or not self._stirred:
            return []
        self._stirred = False
        scheduler, usage = self.scheduler, self.usage
        before = sum(request.preemptions for request in self.requests)
        self.step = step = scheduler.form(now)
        usage.preemptions += sum(request.preemptions for request in self.requests) - before
        usage.peak_waiting = max(usage.peak_waiting, len(scheduler.queue))
        dropped, scheduler.state.dropped = scheduler.state.dropped, []
        for request in dropped:
            self._forget(request)
        if step is not None:
            if now != self._last_end:
                self._last_decode = None
            self.steps.append(step.row(scheduler.running))
            self.formed_steps.append(step)
            self.counts.swapped_out_blocks += step.blocks_out
            self.counts.swapped_in_blocks += step.blocks_in
            usage.peak_running = max(usage.peak_running, len(scheduler.running))
            usage.peak_blocks = max(usage.peak_blocks, step.held_blocks)
        return dropped

    def begin(self, now: int, ticks: int | None = None) -> None:
        """Start the step that was just formed, if there is one; ``ticks``: it takes so long."""
        if self.step is not None and self.ends is None:
            self.ends = now + (self.ticks if ticks is None else ticks)

    @property
    def ticks(self) -> int:
        """How long the step under way takes by itself, with the copies before it or beside it."""
        assert self.step is not None
        ticks = self._cost.step(self.step)
        swap = self.scheduler.settings.swap
        if swap is None:
            return ticks
        copies = self.step.blocks_out * int(swap["out"]) + self.step.blocks_in * int(swap["back"])
        return max(ticks, copies) if swap["overlapped"] else ticks + copies

    def end(self, now: int) -> list[Request]:
        """End the step under way; return those that yielded a token, in the order of admission."""
        step, self.step, self.ends = self.step, None, None
        self._stirred = True
        assert step is not None
        self.usage.steps += 1
        self.counts.decode_tokens += (decoded := len(step.decodes))
        # A batch computes its tokens once, however many groups of layers it goes through.
        prefilled = sum(step.tokens.values()) - decoded if step.last_group else 0
        self.counts.prefill_tokens += prefilled
        self.usage.tokens += decoded + prefilled
        if decoded:
            self.decode_gaps.append(now - (step.start if self._last_decode is None else self._last_decode))
            self._last_decode = now
        self._last_end = now
        yielded = self.scheduler.finish(step, now)
        for request in yielded:
            if request.done:
                self._forget(request)
                self.usage.finished += 1
        return yielded

    def pass_time(self, duration: int) -> None:
        """Account for ``duration`` in which nothing changed."""
        running = self.scheduler.running
        under_way = sum(self.step.tokens.values()) if self.step else 0
        self.usage.busy += duration * (self.step is not None)
        self.usage.running_time += duration * len(running)
        self.usage.waiting_time += duration * len(self.scheduler.queue)
        self.usage.kv_token_time += duration * (sum(request.computed for request in running) + under_way)
