"""Several batches in the stages of an instance at a time, each step by step.

A batch passes the stages in order. A stage has one batch at a time, in the order in which they were formed.
The tokens of a batch count as computed once it is formed, and the requests that it yields a token of lack
none until it has ended.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from paceline.testing.reference.policy_sim.joining import leave_adapter
from paceline.testing.reference.policy_sim.request import Request, Spell
from paceline.testing.reference.policy_sim.state import State
from paceline.testing.reference.policy_sim.step import Step


@dataclass(slots=True)
class Batch:
    """A batch in the pipeline.

    Attributes
    ----------
    step : Step or None
        What it computes; None: it has no requests.
    ends : int
        When it has left the last stage.
    row : list
        Its decisions, as a row.
    decoded, prefilled : int
        The tokens of decodes and of prefills that it computes.
    gone : list of Request
        Requests of it that have left since, without its tokens.
    """

    step: Step | None
    ends: int
    row: list[Any] = field(default_factory=list)
    decoded: int = 0
    prefilled: int = 0
    gone: list[Request] = field(default_factory=list)


class Pipeline:
    """The stages of an instance, and the batches in them, the oldest first.

    Parameters
    ----------
    config : dict
        Stages, the most batches, and whether one without requests takes a place, as the engine's
        configuration spells them.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        self.batches: list[Batch] = []
        self._shares: list[int] = config["stages"]
        self._most: int = config["batches"]
        self._empty: bool = config["empty_batches"]
        self._left = [0] * len(self._shares)  # when each stage was left last

    @property
    def has_room(self) -> bool:
        """Whether another batch may be formed."""
        return len(self.batches) < self._most

    @property
    def under_way(self) -> list[Step]:
        """The steps of the batches that have requests."""
        return [batch.step for batch in self.batches if batch.step is not None]

    @property
    def ends(self) -> int | None:
        """When the oldest batch ends."""
        return self.batches[0].ends if self.batches else None

    def enter(self, step: Step, ticks: int) -> None:
        """Have a batch pass the stages, which takes ``ticks`` where none is ahead of it."""
        at, whole = step.start, sum(self._shares)
        for stage in range(len(self._shares)):
            before, after = sum(self._shares[:stage]), sum(self._shares[: stage + 1])
            at = max(at, self._left[stage]) + ticks * after // whole - ticks * before // whole
            self._left[stage] = at
        batch = Batch(step, at, step.row())
        batch.decoded = sum(step.tokens[one] for one in step.decodes)
        batch.prefilled = sum(step.tokens[one] for one in step.prefills)
        self.batches.append(batch)
        for request, tokens in step.tokens.items():
            request.computed += tokens

    def add_empty(self) -> bool:
        """Have a batch without requests take a place behind others; return whether it does."""
        if not self._empty or not self.under_way:
            return False
        self.batches.append(Batch(None, self.batches[-1].ends))
        return True

    def drop_empty(self, now: int) -> bool:
        """Remove the oldest batch if it has no requests and has ended; return whether it did."""
        ended = bool(self.batches) and self.batches[0].step is None and self.batches[0].ends <= now
        if ended:
            self.batches.pop(0)
        return ended

    def take(self, now: int) -> Batch:
        """Remove and return the oldest batch with requests, which ends now."""
        while self.drop_empty(now):
            pass
        return self.batches.pop(0)

    def forget(self, request: Request) -> None:
        """Have no batch yield a token of a request that has left."""
        for batch in self.batches:
            batch.gone.append(request)


def land(state: State, batch: Batch, step: Step, now: int) -> list[Request]:
    """End a batch, which has computed a step; return the requests with a new token, in the step's order."""
    yielded = []
    for request in [one for one in step.tokens if one not in batch.gone]:
        if not request.token_times:
            # Chunks of a prompt in two batches overlap, which counts once.
            before = max((end for _, end in request.prefill_steps), default=0)
            request.prefill_steps.append((max(step.start, before), now))
        yields = step.verified[request][0] >= 0
        request.generated += yields
        if not request.running:
            # It was preempted since, and is out of the batch from now on.
            request.spells[-1] = Spell(now, request.phase)
        if not yields:
            continue
        request.decoding = request.running
        request.yielded = 1
        request.token_times.append(now)
        request.token_starts.append(step.start)
        yielded.append(request)
    # In the order of admission, as after a step without a pipeline.
    ended = [one for one in [*state.running, *state.queue.requests] if one in yielded and one.done]
    for request in ended:
        if request.cancelled is None and request.generated < request.spec.output_tokens:
            request.cancelled, request.cause = now, "cancelled"
        if request.running:
            state.running.remove(request)
            leave_adapter(state, request)
            state.memory.release(request)
        else:
            state.queue.remove(request)
            request.spells.pop()
        request.place = "gone"
    return yielded
