"""vLLM V0's scheduler as of 0.6.1, one step at a time.

Follows ``vllm/core/scheduler.py`` and ``block_manager_v1.py`` for requests of one sequence,
without prefix caching: prefill first by default, or chunked prefill; preemption by recompute or
by swap to a pool of CPU blocks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from paceline.testing.reference.blocks import BlockPool, blocks_for
from paceline.testing.reference.cost import AffineCost
from paceline.testing.reference.refusal import Reason, refuse
from paceline.testing.reference.request import Entry, Request, Sequence

_WATERMARK = 0.01  # share of the GPU's blocks that admissions and swap-ins leave free


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmV0Config:
    """Settings of an instance, named as in the decision logs.

    Attributes
    ----------
    num_blocks, num_cpu_blocks : int
        KV blocks on the GPU, all usable, and in the swap pool.
    chunked_prefill : bool
        Without it a step runs whole prompts or decodes, never both.
    preemption : {"recompute", "swap"}
    """

    block_size: int
    num_blocks: int
    num_cpu_blocks: int
    max_num_batched_tokens: int
    max_num_seqs: int
    max_model_len: int
    chunked_prefill: bool = False
    preemption: Literal["recompute", "swap"] = "recompute"

    @property
    def watermark_blocks(self) -> int:
        """Blocks that an admission or a swap-in leaves free."""
        return int(_WATERMARK * self.num_blocks)

    def refusal(self, request: Request) -> Reason | None:
        """Return why the instance could never finish the request, or None if it could.

        vLLM would abort such a request midway, or wait forever. Besides its KV and the watermark, a
        running sequence needs one free block, even if it fills none.
        """
        return refuse(
            request,
            max_model_len=self.max_model_len,
            block_size=self.block_size,
            blocks=self.num_blocks - self.watermark_blocks - 1,
            largest_prefill=None if self.chunked_prefill else self.max_num_batched_tokens,
        )

    def scheduler(self) -> VllmV0:
        """Make a scheduler with an empty cache."""
        return VllmV0(self)


@dataclass(slots=True)
class VllmV0Step:
    """A step, while it is formed and after."""

    decodes: list[Entry] = field(default_factory=list)
    chunks: list[Entry] = field(default_factory=list)
    swapped_in_decodes: list[Entry] = field(default_factory=list)
    swapped_in_chunks: list[Entry] = field(default_factory=list)
    admitted: list[Entry] = field(default_factory=list)
    preempted: list[Sequence] = field(default_factory=list)
    blocks_in: int = 0
    blocks_out: int = 0
    free_blocks: int = 0

    @property
    def entries(self) -> list[Entry]:
        """Sequences of the step: prompts first, the newest foremost, then decodes."""
        return self.admitted + self.chunks + self.swapped_in_chunks + self.decodes + self.swapped_in_decodes

    @property
    def tokens(self) -> int:
        """Tokens in the step so far."""
        return sum(entry.tokens for entry in self.entries)

    def duration(self, cost: AffineCost) -> int:
        """Return how long the step takes, the copies included."""
        return cost.duration(self.entries, self.blocks_in + self.blocks_out)

    def row(self, start: int) -> list[Any]:
        """Return the step as a row of a decision log."""
        return [
            start,
            [[entry.sequence.index, entry.tokens, entry.before] for entry in self.entries],
            [sequence.index for sequence in self.preempted],
            self.blocks_in,
            self.blocks_out,
            self.free_blocks,
        ]


class VllmV0:
    """The scheduler of one instance and its two pools of blocks."""

    def __init__(self, config: VllmV0Config) -> None:
        self.config = config
        self.pool = BlockPool(config.num_blocks)
        self.cpu_pool = BlockPool(config.num_cpu_blocks)
        self.waiting: list[Sequence] = []
        self.running: list[Sequence] = []
        self.swapped: list[Sequence] = []
        self._in_prefill: set[Sequence] = set()

    # -- called by the clock -------------------------------------------------------------

    @property
    def queued(self) -> list[Sequence]:
        """Queued sequences: new, preempted or swapped out."""
        return self.waiting + self.swapped

    def add(self, sequence: Sequence) -> None:
        """Queue a sequence that has just arrived."""
        self.waiting.append(sequence)

    def schedule(self) -> VllmV0Step | None:
        """Decide the next step; None if no sequence can run."""
        step = VllmV0Step()
        if self.config.chunked_prefill:
            self._schedule_chunked(step)
        else:
            self._schedule_prefill_first(step)
        entries = step.entries
        if not entries:
            return None
        for entry in entries:
            entry.sequence.computed += entry.tokens
        step.free_blocks = self.pool.free
        return step

    def finish(self, step: VllmV0Step) -> list[Sequence]:
        """End a step: return the sequences with a new token, in the step's order."""
        yielded = []
        for sequence in (entry.sequence for entry in step.entries):
            if sequence.computed < sequence.tokens:
                continue  # a chunk of a prompt that is not finished
            sequence.generated += 1
            self._in_prefill.discard(sequence)
            yielded.append(sequence)
            if sequence.done:
                self._free(sequence)
                self.running.remove(sequence)
        return yielded

    # -- the two modes --------------------------------------------------------------------

    def _schedule_prefill_first(self, step: VllmV0Step) -> None:
        in_use = len(self.running)
        if not self.swapped:  # swapped-out requests come before new ones
            self._admit(step, in_use)
        if step.admitted:
            self.running += [entry.sequence for entry in step.admitted]
            return
        victims = self._continue_running(step)
        if not victims:
            self._swap_in(step, in_use)
        self.running += [entry.sequence for entry in step.decodes + step.swapped_in_decodes]
        self._requeue(victims)

    def _schedule_chunked(self, step: VllmV0Step) -> None:
        victims = self._continue_running(step)
        if not victims:
            self._swap_in(step, len(step.entries))
        self._admit(step, len(step.entries))  # admits even if a request was preempted
        # Requests beyond the budget are still in `running`, and stay at its head.
        for part in (
            step.swapped_in_decodes,
            step.swapped_in_chunks,
            step.decodes,
            step.chunks,
            step.admitted,
        ):
            self.running += [entry.sequence for entry in part]
        self._requeue(victims)

    # -- their parts ----------------------------------------------------------------------

    def _share(self, sequence: Sequence, step: VllmV0Step) -> int:
        """Return the tokens of a sequence in this step: all it lacks, or a chunk of it."""
        lacking = sequence.tokens - sequence.computed
        if self.config.chunked_prefill:
            return min(lacking, self.config.max_num_batched_tokens - step.tokens)
        return lacking

    def _has_room(self, step: VllmV0Step, tokens: int, in_use: int) -> bool:
        """Whether one more sequence with ``tokens`` tokens keeps within the step's limits."""
        return (
            tokens > 0
            and step.tokens + tokens <= self.config.max_num_batched_tokens
            and in_use < self.config.max_num_seqs
        )

    def _continue_running(self, step: VllmV0Step) -> list[Sequence]:
        """Schedule running sequences, from the head; return the victims preempted for them.

        Each needs a free block, even if it fills none; if there is none, the tail is preempted.
        """
        while self.running:
            sequence = self.running[0]
            tokens = self._share(sequence, step)
            if tokens == 0:
                break  # the budget is spent
            self.running.pop(0)
            while self.pool.free < 1:
                victim = self.running.pop() if self.running else sequence
                self._preempt(victim, step)
                if victim is sequence:
                    break
            if sequence in step.preempted:
                continue
            self._grow(sequence)
            part = step.chunks if sequence in self._in_prefill else step.decodes
            part.append(Entry(sequence, tokens, sequence.computed))
        return step.preempted

    def _swap_in(self, step: VllmV0Step, in_use: int) -> None:
        """Resume swapped sequences, from the head, while each fits with a spare block.

        A prompt swapped out midway is not cut into chunks here, not even in chunked mode: what it lacks must
        fit the step, and a prompt that lacks more than a whole step is stuck.
        """
        while self.swapped:
            sequence = self.swapped[0]
            blocks = len(sequence.blocks)
            tokens = sequence.tokens - sequence.computed
            fits = self.pool.free - (blocks + 1) >= self.config.watermark_blocks
            if not fits or not self._has_room(step, tokens, in_use):
                break
            self.swapped.pop(0)
            self.cpu_pool.release(sequence.blocks)
            sequence.blocks = self.pool.take(blocks)
            step.blocks_in += blocks
            self._grow(sequence)
            part = step.swapped_in_chunks if sequence in self._in_prefill else step.swapped_in_decodes
            part.append(Entry(sequence, tokens, sequence.computed))
            in_use += 1

    def _admit(self, step: VllmV0Step, in_use: int) -> None:
        """Admit waiting sequences, from the head, while each fits whole."""
        while self.waiting:
            sequence = self.waiting[0]
            tokens = self._share(sequence, step)
            blocks = blocks_for(sequence.tokens, self.config.block_size)
            fits = self.pool.free - blocks >= self.config.watermark_blocks
            if not fits or not self._has_room(step, tokens, in_use):
                break
            self.waiting.pop(0)
            sequence.blocks = self.pool.take(blocks)
            self._in_prefill.add(sequence)
            step.admitted.append(Entry(sequence, tokens, 0))
            in_use += 1

    # -- preemption -----------------------------------------------------------------------

    def _preempt(self, victim: Sequence, step: VllmV0Step) -> None:
        step.preempted.append(victim)
        victim.preemptions += 1
        if self.config.preemption == "recompute":
            self._free(victim)
            victim.computed = 0
            return
        blocks = len(victim.blocks)
        if blocks > self.cpu_pool.free:
            raise RuntimeError(
                f"request {victim.index} holds {blocks} blocks and cannot be swapped out: "
                f"{self.cpu_pool.free} of {self.config.num_cpu_blocks} CPU blocks are free"
            )
        self._free(victim)
        victim.blocks = self.cpu_pool.take(blocks)
        step.blocks_out += blocks

    def _requeue(self, victims: list[Sequence]) -> None:
        """Queue the step's victims.

        Recomputed victims go before the waiting sequences, the last victim first; swapped ones go behind the
        swapped sequences, the first victim first.
        """
        if self.config.preemption == "recompute":
            self.waiting = victims[::-1] + self.waiting
        else:
            self.swapped += victims

    # -- KV blocks ------------------------------------------------------------------------

    def _grow(self, sequence: Sequence) -> None:
        """Add a block where the next token starts one."""
        if blocks_for(sequence.tokens, self.config.block_size) > len(sequence.blocks):
            sequence.blocks += self.pool.take(1)

    def _free(self, sequence: Sequence) -> None:
        self.pool.release(sequence.blocks)
        sequence.blocks = []
