"""The scheduler of the layered-prefill authors, one step at a time, in its three modes.

Follows ``nanovllm/engine/scheduler.py`` of scale-snu/layered-prefill: *chunked-prefill* (decodes,
then chunks within the budget), *orca* (whole prompts, then decodes) and *layered-prefill* (decodes
run all layers, while a batch of prompts runs one group of layers a step).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from paceline.testing.reference.blocks import BlockPool, blocks_for
from paceline.testing.reference.cost import AffineCost
from paceline.testing.reference.refusal import Reason, refuse
from paceline.testing.reference.request import Entry, Request, Sequence

# Groups of layers for a batch of at most 512, 1,024, 2,048 and 4,096 prefill tokens, and for more.
_GROUPS = {
    4: (1, 2, 4, 4, 4),
    12: (1, 2, 4, 6, 12),
    16: (1, 2, 4, 8, 16),
    24: (1, 2, 4, 8, 24),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LayeredConfig:
    """Settings of an instance, named as in the decision logs.

    Attributes
    ----------
    num_blocks : int
        KV blocks, all usable; of at least two tokens each.
    num_layers : int
        Layers of the model.
    num_stages : int
        Most groups of layers in layered-prefill mode: 4, 12, 16 or 24.
    """

    block_size: int
    num_blocks: int
    max_num_batched_tokens: int
    max_num_seqs: int
    max_model_len: int
    num_layers: int
    mode: Literal["chunked-prefill", "orca", "layered-prefill"]
    num_stages: int = 1

    def refusal(self, request: Request) -> Reason | None:
        """Return why the instance could never finish the request, or None if it could."""
        return refuse(
            request,
            max_model_len=self.max_model_len,
            block_size=self.block_size,
            blocks=self.num_blocks,
            largest_prefill=self.max_num_batched_tokens if self.mode == "orca" else None,
        )

    def scheduler(self) -> Layered:
        """Make a scheduler with an empty cache."""
        return Layered(self)


@dataclass(slots=True)
class LayeredStep:
    """The decision of one call of the scheduler.

    ``stage`` is the group of layers the prompts run in, of ``stages``; -1 where they run in all.
    """

    num_layers: int
    decodes: list[Entry] = field(default_factory=list)
    prefills: list[Entry] = field(default_factory=list)
    stage: int = -1
    stages: int = 1
    preemptions: int = 0
    free_blocks: int = 0

    @property
    def entries(self) -> list[Entry]:
        """Sequences of the step, prompts first."""
        return self.prefills + self.decodes

    @property
    def layers(self) -> int:
        """Layers that run prefill in this step: the first groups have those left over."""
        if self.stage < 0:
            return self.num_layers
        return self.num_layers // self.stages + (self.stage < self.num_layers % self.stages)

    def duration(self, cost: AffineCost) -> int:
        """Return how long the step takes."""
        prefill_tokens = sum(entry.tokens for entry in self.prefills)
        return cost.layered(len(self.decodes), prefill_tokens, self.layers, self.num_layers)

    def row(self, start: int) -> list[Any]:
        """Return the step as a row of a decision log."""
        return [
            start,
            [entry.sequence.index for entry in self.decodes],
            [[entry.sequence.index, entry.tokens, entry.before] for entry in self.prefills],
            self.stage,
            self.stages,
            self.preemptions,
            self.free_blocks,
        ]


class Layered:
    """The scheduler of one instance and its KV cache."""

    def __init__(self, config: LayeredConfig) -> None:
        self.config = config
        self.pool = BlockPool(config.num_blocks)
        self.waiting: list[Sequence] = []
        self.prefilling: list[Sequence] = []
        self.decoding: list[Sequence] = []
        self._batch: list[Entry] = []  # prompts that run by groups of layers
        self._stage = 0
        self._stages = 1

    # -- called by the clock -------------------------------------------------------------

    @property
    def queued(self) -> list[Sequence]:
        """Queued sequences: new or preempted."""
        return self.waiting

    def add(self, sequence: Sequence) -> None:
        """Queue a sequence that has just arrived."""
        self.waiting.append(sequence)

    def schedule(self) -> LayeredStep | None:
        """Decide the next step; None if no sequence can run."""
        step = LayeredStep(self.config.num_layers)
        if self.config.mode == "chunked-prefill":
            self._decode(step, charged=True)
            step.prefills = self._form_batch(len(step.decodes), charged=len(step.decodes))
        elif self.config.mode == "orca":
            step.prefills = self._form_batch(0, charged=0, whole=True)
            self._decode(step)
        else:
            self._decode(step)
            self._advance_batch(step)
        step.free_blocks = self.pool.free
        return step if step.entries else None

    def finish(self, step: LayeredStep) -> list[Sequence]:
        """End a step: return the sequences with a new token, prompts first."""
        yielded = []
        if step.stage in (-1, step.stages - 1):
            for entry in step.prefills:
                sequence = entry.sequence
                if sequence.computed == sequence.tokens:
                    self.decoding.append(sequence)
                    yielded.append(sequence)
                else:
                    self.prefilling.append(sequence)
        yielded += [entry.sequence for entry in step.decodes]
        for sequence in yielded:
            sequence.generated += 1
            if sequence.done:
                self._free(sequence)
                self.decoding.remove(sequence)
        return yielded

    # -- decodes --------------------------------------------------------------------------

    def _decode(self, step: LayeredStep, *, charged: bool = False) -> None:
        """Schedule decodes, from the head; if one lacks a block, the tail is preempted."""
        limit = self.config.max_num_seqs - len(step.prefills)
        if charged:
            limit = min(limit, self.config.max_num_batched_tokens)
        scheduled: list[Sequence] = []
        while self.decoding and len(scheduled) < limit:
            sequence = self.decoding.pop(0)
            needed = int(sequence.tokens % self.config.block_size == 1)
            while self.pool.free < needed:
                victim = self.decoding.pop() if self.decoding else sequence
                self._preempt(victim)
                step.preemptions += 1
                if victim is sequence:
                    break
            else:
                sequence.blocks += self.pool.take(needed)
                scheduled.append(sequence)
        self.decoding = scheduled + self.decoding
        step.decodes = [Entry(sequence, 1, sequence.computed) for sequence in scheduled]
        for sequence in scheduled:
            sequence.computed += 1

    def _preempt(self, victim: Sequence) -> None:
        self._free(victim)
        victim.computed = 0
        victim.preemptions += 1
        self.waiting.insert(0, victim)

    # -- prompts --------------------------------------------------------------------------

    def _form_batch(self, sequences: int, *, charged: int, whole: bool = False) -> list[Entry]:
        """Pick prompts for ``max_num_batched_tokens - charged`` tokens, beside ``sequences`` others.

        Running prompts come first, then waiting ones, each of which needs room for all its
        tokens; the last may be cut to what is left of the budget, unless prompts run ``whole``.
        """
        batch: list[Entry] = []
        budget = self.config.max_num_batched_tokens - charged
        while budget > 0 and sequences + len(batch) < self.config.max_num_seqs:
            if self.prefilling:
                sequence = self.prefilling.pop(0)
            elif self.waiting:
                sequence = self.waiting[0]
                blocks = blocks_for(sequence.tokens, self.config.block_size)
                if blocks > self.pool.free or (whole and sequence.tokens > budget):
                    break
                self.waiting.pop(0)
                sequence.blocks = self.pool.take(blocks)
            else:
                break
            tokens = min(sequence.tokens - sequence.computed, budget)
            budget -= tokens
            batch.append(Entry(sequence, tokens, sequence.computed))
            sequence.computed += tokens
        return batch

    def _advance_batch(self, step: LayeredStep) -> None:
        """Run the current batch through its next group of layers, or form a new one."""
        if not self._batch:
            # Decodes count as sequences of the step, not as tokens of its budget.
            self._batch = self._form_batch(len(step.decodes), charged=0)
            if not self._batch:
                return
            self._stage = 0
            self._stages = self._groups(sum(entry.tokens for entry in self._batch))
        step.prefills, step.stage, step.stages = self._batch, self._stage, self._stages
        self._stage += 1
        if self._stage == self._stages:
            self._batch = []

    def _groups(self, tokens: int) -> int:
        """Return the number of groups of layers of a batch with this many prefill tokens."""
        return _GROUPS[self.config.num_stages][sum(tokens > limit for limit in (512, 1024, 2048, 4096))]

    def _free(self, sequence: Sequence) -> None:
        self.pool.release(sequence.blocks)
        sequence.blocks = []
