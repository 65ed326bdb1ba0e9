"""vLLM V1's scheduler as of 0.33.0, one step at a time.

Follows ``vllm/v1/core/sched/scheduler.py`` and the KV-cache manager beside it, in what they do
for text-only models with full attention on one GPU group, asynchronous scheduling off: running
sequences first, then admissions; chunked prefill; preemption by recompute; prefix caching;
first come first served, or by priority.
"""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field
from typing import Any, Literal

from paceline.testing.reference.blocks import BlockPool, blocks_for
from paceline.testing.reference.cost import AffineCost
from paceline.testing.reference.refusal import Reason, refuse
from paceline.testing.reference.request import Entry, Request, Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmV1Config:
    """Settings of an instance, named as in the decision logs.

    Attributes
    ----------
    num_blocks : int
        KV blocks, one of which (the null block) no sequence can hold.
    reserve_full_prompt : bool
        Whether a sequence is admitted only if all its tokens fit now, not just its first chunk.
    watermark : float
        Share of the blocks that an admission leaves free while something runs.
    long_prefill_token_threshold : int
        Most tokens of one sequence in a step, while there is another; 0 is no limit.
    """

    block_size: int
    num_blocks: int
    max_num_batched_tokens: int
    max_num_seqs: int
    max_model_len: int | None = None
    prefix_caching: bool = False
    policy: Literal["fcfs", "priority"] = "fcfs"
    reserve_full_prompt: bool = True
    watermark: float = 0.0
    long_prefill_token_threshold: int = 0

    def refusal(self, request: Request) -> Reason | None:
        """Return why the instance could never finish the request, or None if it could."""
        return refuse(
            request,
            max_model_len=self.max_model_len,
            block_size=self.block_size,
            blocks=self.num_blocks - 1,
        )

    def scheduler(self) -> VllmV1:
        """Make a scheduler with an empty cache."""
        return VllmV1(self)


@dataclass(slots=True)
class VllmV1Step:
    """The decision of one call of the scheduler."""

    entries: list[Entry]
    preempted: list[Sequence]
    free_blocks: int

    def duration(self, cost: AffineCost) -> int:
        """Return how long the step takes."""
        return cost.duration(self.entries)

    def row(self, start: int) -> list[Any]:
        """Return the step as a row of a decision log."""
        return [
            start,
            [[entry.sequence.index, entry.tokens, entry.before] for entry in self.entries],
            sorted(sequence.index for sequence in self.preempted),
            self.free_blocks,
        ]


@dataclass(slots=True)
class _Batch:
    """A step while it is formed."""

    budget: int
    threshold: int
    tokens: dict[Sequence, int] = field(default_factory=dict)
    preempted: list[Sequence] = field(default_factory=list)

    def cap(self, tokens: int) -> int:
        """Return a sequence's tokens, cut to what it may have in this step."""
        if 0 < self.threshold < tokens:
            tokens = self.threshold
        return min(tokens, self.budget)

    def add(self, sequence: Sequence, tokens: int) -> None:
        self.tokens[sequence] = tokens
        self.budget -= tokens

    def remove(self, sequence: Sequence) -> None:
        self.budget += self.tokens.pop(sequence, 0)


class VllmV1:
    """The scheduler of one instance and its KV cache."""

    def __init__(self, config: VllmV1Config) -> None:
        self.config = config
        self.pool = BlockPool(config.num_blocks - 1)
        self.waiting: list[Sequence] = []
        self.running: list[Sequence] = []
        self._contents: dict[tuple[int, int, int], int] = {}
        # The contents of each sequence's blocks, as far as they have been asked for.
        self._chains: dict[int, list[int]] = {}

    # -- called by the clock -------------------------------------------------------------

    @property
    def queued(self) -> list[Sequence]:
        """Queued sequences: new or preempted."""
        return self.waiting

    def add(self, sequence: Sequence) -> None:
        """Queue a sequence that has just arrived."""
        if self.config.policy == "priority":
            insort(self.waiting, sequence, key=_rank)
        else:
            self.waiting.append(sequence)

    def schedule(self) -> VllmV1Step | None:
        """Decide the next step; None if no sequence can run."""
        alone = len(self.running) + len(self.waiting) == 1
        batch = _Batch(
            budget=self.config.max_num_batched_tokens,
            threshold=0 if alone else self.config.long_prefill_token_threshold,
        )
        self._continue_running(batch)
        if not batch.preempted:
            self._admit_waiting(batch)
        if not batch.tokens:
            return None
        entries = [Entry(sequence, n, sequence.computed) for sequence, n in batch.tokens.items()]
        for entry in entries:
            entry.sequence.computed += entry.tokens
        return VllmV1Step(entries, batch.preempted, self.pool.free)

    def finish(self, step: VllmV1Step) -> list[Sequence]:
        """End a step: return the sequences with a new token, in the step's order."""
        yielded = []
        for sequence in (entry.sequence for entry in step.entries):
            if sequence.computed < sequence.tokens:
                continue  # a chunk of a prompt that is not finished
            sequence.generated += 1
            yielded.append(sequence)
            if sequence.done:
                self._free(sequence)
                self.running.remove(sequence)
        return yielded

    # -- the two phases of a step ---------------------------------------------------------

    def _continue_running(self, batch: _Batch) -> None:
        position = 0
        while position < len(self.running) and batch.budget > 0:
            sequence = self.running[position]
            tokens = batch.cap(sequence.tokens - sequence.computed)
            while not self._allocate(sequence, tokens):
                victim = self._victim()
                if self.running.index(victim) < position:
                    position -= 1
                self._preempt(victim, batch)
                if victim is sequence:
                    break
            if sequence in batch.preempted:
                if self.config.policy == "priority":
                    continue  # better-ranked sequences may follow, and its preemption freed blocks
                break
            batch.add(sequence, tokens)
            position += 1

    def _admit_waiting(self, batch: _Batch) -> None:
        while self.waiting and batch.budget > 0 and len(self.running) < self.config.max_num_seqs:
            sequence = self.waiting[0]
            hits = self._cached_prefix(sequence)
            hit_tokens = len(hits) * self.config.block_size
            tokens = batch.cap(sequence.tokens - hit_tokens)
            if not self._admissible(sequence, hits) or not self._allocate(
                sequence, tokens, hits, headroom=self._headroom()
            ):
                break  # no request overtakes the head of the queue
            self.waiting.pop(0)
            self.running.append(sequence)
            sequence.computed = hit_tokens
            if sequence.scheduled is None:
                sequence.hit_tokens = hit_tokens
            batch.add(sequence, tokens)

    # -- preemption -----------------------------------------------------------------------

    def _victim(self) -> Sequence:
        if self.config.policy == "priority":
            return max(self.running, key=lambda s: (s.request.priority, s.request.arrival))
        return self.running[-1]

    def _preempt(self, victim: Sequence, batch: _Batch) -> None:
        self.running.remove(victim)
        batch.remove(victim)
        batch.preempted.append(victim)
        self._free(victim)
        victim.computed = 0
        victim.preemptions += 1
        if self.config.policy == "priority":
            insort(self.waiting, victim, key=_rank)
        else:
            self.waiting.insert(0, victim)

    # -- KV blocks ------------------------------------------------------------------------

    def _headroom(self) -> int:
        """Return the blocks that an admission must leave free."""
        return int(self.config.watermark * self.config.num_blocks) if self.running else 0

    def _missing(self, sequence: Sequence, tokens: int, hits: list[int]) -> int:
        """Return the free blocks that ``tokens`` tokens of ``sequence`` use up.

        A hit on a block that no sequence holds uses up a free block, too.
        """
        held = len(sequence.blocks) + len(hits)
        new = max(blocks_for(tokens, self.config.block_size) - held, 0)
        return new + sum(self.pool.is_free(block) for block in hits)

    def _admissible(self, sequence: Sequence, hits: list[int]) -> bool:
        """Whether the whole sequence would fit, if that is required."""
        if not self.config.reserve_full_prompt:
            return True
        return self._missing(sequence, sequence.tokens, hits) + self._headroom() <= self.pool.free

    def _allocate(
        self, sequence: Sequence, tokens: int, hits: list[int] | None = None, headroom: int = 0
    ) -> bool:
        """Allocate blocks for ``tokens`` more tokens of ``sequence``, after its hits; or do nothing."""
        hits = hits or []
        computed = sequence.computed + len(hits) * self.config.block_size
        if self._missing(sequence, computed + tokens, hits) + headroom > self.pool.free:
            return False
        self.pool.touch(hits)
        cached = sequence.computed // self.config.block_size + len(hits)
        sequence.blocks += hits
        needed = blocks_for(computed + tokens, self.config.block_size) - len(sequence.blocks)
        sequence.blocks += self.pool.take(max(needed, 0))
        if self.config.prefix_caching:
            # Blocks can be hit from the moment they are scheduled, even within the same step.
            full = (computed + tokens) // self.config.block_size
            contents = self._chain(sequence, full)
            for position in range(cached, full):
                self.pool.register(sequence.blocks[position], contents[position])
        return True

    def _free(self, sequence: Sequence) -> None:
        """Free all blocks, the last first, so that the tail of a chain is reused before its head."""
        self.pool.release(reversed(sequence.blocks))
        sequence.blocks = []

    # -- prefix cache ---------------------------------------------------------------------

    def _cached_prefix(self, sequence: Sequence) -> list[int]:
        """Blocks of the longest cached prefix. At least one token is left to compute."""
        hits: list[int] = []
        if self.config.prefix_caching:
            for content in self._chain(sequence, (sequence.tokens - 1) // self.config.block_size):
                block = self.pool.find(content)
                if block is None:
                    break
                hits.append(block)
        return hits

    def _chain(self, sequence: Sequence, count: int) -> list[int]:
        """Identities of the contents of the first ``count`` full blocks.

        The content of a block is its tokens and all before it. Beyond the ids of the trace, a block belongs
        to its request alone (generated tokens, too), and is named by its position.
        """
        chain = self._chains.setdefault(sequence.index, [])
        content = chain[-1] if chain else -1
        shared = min(len(sequence.request.prefix), sequence.request.prompt_tokens // self.config.block_size)
        for position in range(len(chain), count):
            if position < shared:
                key = (content, -1, sequence.request.prefix[position])
            else:
                key = (content, sequence.index, position)
            content = self._contents.setdefault(key, len(self._contents))
            chain.append(content)
        return chain[:count]


def _rank(sequence: Sequence) -> tuple[int, int, int]:
    """Order of the waiting queue under the priority policy."""
    return sequence.request.priority, sequence.request.arrival, sequence.index
