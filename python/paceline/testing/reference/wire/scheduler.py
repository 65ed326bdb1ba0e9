"""An instance's scheduler with one ranked queue, one step at a time.

Everyone admitted goes on; where blocks lack, the worst of them gives way. Then the best of those
that wait come in, for whom worse ones may be displaced.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from paceline.testing.reference.blocks import BlockPool, blocks_for
from paceline.testing.reference.wire.expression import holds
from paceline.testing.reference.wire.ranking import Ranking
from paceline.testing.reference.wire.request import Job, Spell
from paceline.testing.reference.wire.scope import View
from paceline.testing.reference.wire.step import Step


class Scheduler:
    """The scheduler of one instance, its GPU's blocks and its share of the CPU's.

    Parameters
    ----------
    config : dict
        The instance, as the engine's configuration spells it.
    view : callable
        Gives what an expression sees of the instance and of a request, at a moment.
    """

    def __init__(self, config: dict[str, Any], view: Callable[[int, Job | None], View]) -> None:
        wire = config["scheduler"]
        self.block_tokens: int = config["block_tokens"]
        self.budget: int = wire["max_num_batched_tokens"]
        self.seats: int = wire["max_num_seqs"]
        self.allocation: str = wire["allocation"]
        self.admission: dict[str, Any] = wire["admission"]
        admit = next(stage for stage in wire["stages"] if stage["kind"] == "admit")
        self.chunked: bool = admit["chunked"]
        self.unless_preempted: bool = admit["unless_preempted"]
        self.swap = wire["preemption"] if wire["preemption"]["kind"] == "swap" else None
        self.pool = BlockPool(config["blocks"])
        self.cpu_pool = BlockPool(self.swap["blocks"] if self.swap else 0)
        self.ranking = Ranking(wire["order"])
        self.running: list[Job] = []  # in the order of admission
        self.queue: list[Job] = []  # in the order of joining it
        self.formed = 0
        self.swap_overflows = 0
        self._view = view

    # -- what the instance calls ----------------------------------------------------------

    @property
    def ranked_queue(self) -> list[Job]:
        """Those without a place, the best first."""
        return sorted(self.queue, key=self.ranking.rank)

    def add(self, job: Job, now: int) -> None:
        """Queue a request that arrives or lands."""
        self._enqueue(job, now)
        self.ranking.enter(job, self._view(now, job))

    def form(self, now: int) -> Step | None:
        """Decide the next step; None where nothing can run."""
        while True:
            everyone = [(job, self._view(now, job)) for job in self.running + self.queue]
            self.ranking.start(everyone, now, self.formed)
            displaces = self.admission["kind"] == "displace" and holds(
                self.admission["when"], self._view(now, None)
            )
            step = Step(now, self.budget)
            self._go_on(step)
            self._admit(step, displaces)
            if step.tokens:
                break
            if not step.preempted:
                return None
        self._put_up_landed(now)
        self.formed += 1
        step.free_blocks = self.pool.free
        step.decodes = any(job.decoding for job in step.tokens)
        return step

    def finish(self, step: Step, now: int) -> list[Job]:
        """End a step: return the requests that yielded a token, in the order of admission."""
        yielded = []
        for job in self.running.copy():
            job.computed += step.tokens.get(job, 0)
            if job not in step.tokens or job.lacking:
                continue
            job.generated += 1
            job.decoding = True
            job.token_times.append(now)
            job.token_starts.append(step.start)
            yielded.append(job)
            if job.done:
                job.place = "gone"
                self.running.remove(job)
                self._free(job)
        for job in self.running:
            if job in step.tokens:
                self.ranking.ran(job, self._view(now, job))
        return yielded

    def leave(self, job: Job, now: int) -> list[int]:
        """Let a request go to another instance; its blocks stay taken until they are released."""
        self.running.remove(job)
        job.attained += now - job.admitted_at
        job.place = "moving"
        job.memory = "host"
        blocks, job.blocks = job.blocks, []
        return blocks

    def blocks_of(self, job: Job) -> int:
        """Blocks a request holds if it runs, and else those it needs to come in."""
        if job.running:
            return len(job.blocks)
        if job.memory:
            return max(len(job.blocks), blocks_for(job.computed + 1, self.block_tokens))
        chunk = self.allocation == "chunk"
        return blocks_for(min(job.tokens, self.budget) if chunk else job.tokens, self.block_tokens)

    # -- those admitted -------------------------------------------------------------------

    def _go_on(self, step: Step) -> None:
        for job in self.running.copy():
            tokens = min(job.lacking, step.left)
            if job in step.preempted or tokens == 0:
                continue
            lacking = max(blocks_for(job.computed + tokens, self.block_tokens) - len(job.blocks), 0)
            while job.running and self.pool.free < lacking:
                self._preempt(max(self.running, key=self.ranking.rank), step)
            if job.running:
                job.blocks += self.pool.take(lacking)
                step.add(job, tokens)

    # -- those that wait ------------------------------------------------------------------

    def _admit(self, step: Step, displaces: bool) -> None:
        displaced = 0
        if self.unless_preempted and step.preempted:
            return
        while self.queue and step.left > 0:
            job = self.ranked_queue[0]
            if job in step.preempted or not (self.chunked or job.lacking <= step.left):
                return
            chunk = min(job.lacking, step.left)
            after, wanted = self._wants(job, chunk)
            victims = self._in_the_way(job, wanted, step)
            if victims is None:
                return
            if victims:
                displaced += len(victims)
                most = self.admission.get("most", 0)
                if not displaces or 0 < most < displaced:
                    return
                for victim in victims:
                    self._preempt(victim, step)
            self._let_in(job, chunk, after, step)

    def _wants(self, job: Job, chunk: int) -> tuple[int, int]:
        """Blocks that a request takes when it comes in, and those that must be free for it."""
        now, whole = (blocks_for(tokens, self.block_tokens) for tokens in (job.computed + chunk, job.tokens))
        if job.memory:
            now = max(now, len(job.blocks))
            return now, now
        if self.allocation == "sequence":
            return whole, whole
        return now, whole if self.allocation == "chunk_if_all_fits" else now

    def _in_the_way(self, job: Job, wanted: int, step: Step) -> list[Job] | None:
        """Those that must give way for a request to come in, the worst first; None: that is not enough."""
        worse = [
            one
            for one in self.running
            if self.ranking.rank(one) > self.ranking.rank(job) and one not in step.admitted
        ]
        worse.sort(key=self.ranking.rank, reverse=True)
        for count in range(len(worse) + 1):
            freed = sum(len(one.blocks) for one in worse[:count])
            if wanted <= self.pool.free + freed and len(self.running) - count < self.seats:
                return worse[:count]
        return None

    def _let_in(self, job: Job, chunk: int, blocks: int, step: Step) -> None:
        if job.memory == "cpu":
            step.blocks_in += len(job.blocks)
            self.cpu_pool.release(job.blocks)
        self.queue.remove(job)
        self.running.append(job)
        job.blocks = self.pool.take(blocks)
        job.place, job.memory = "running", "gpu"
        job.admitted_at = step.start
        if job.scheduled is None:
            job.scheduled = step.start
        else:
            job.spells[-1].end = step.start
        step.add(job, chunk)
        step.admitted.append(job)
        self.ranking.moved(job, self._view(step.start, job))

    # -- those that give way --------------------------------------------------------------

    def _preempt(self, job: Job, step: Step) -> None:
        """Take a request's place and blocks; only those with KV in them are copied."""
        step.drop(job)
        self.running.remove(job)
        step.preempted.append(job)
        job.preemptions += 1
        job.attained += step.start - job.admitted_at
        job.spells.append(Spell(step.start, job.phase))
        self._enqueue(job, step.start)
        self.pool.release(job.blocks)
        if self._put_up(job):
            step.blocks_out += len(job.blocks)
        self.ranking.moved(job, self._view(step.start, job))

    def _put_up(self, job: Job) -> bool:
        """Keep a request's KV in the CPU's memory; where there is no room for it, it is lost."""
        blocks, job.blocks = blocks_for(job.computed, self.block_tokens), []
        if self.swap and blocks <= self.cpu_pool.free:
            job.blocks, job.memory = self.cpu_pool.take(blocks), "cpu"
            return True
        self.swap_overflows += self.swap is not None
        job.computed, job.memory, job.decoding = 0, None, False
        return False

    def _put_up_landed(self, now: int) -> None:
        """Make room in the CPU's memory for those that landed and did not come in at the first step."""
        for job in self.queue:
            if job.memory == "host" and self.swap and not self._put_up(job):
                self.ranking.moved(job, self._view(now, job))

    def _enqueue(self, job: Job, now: int) -> None:
        self.queue.append(job)
        job.place = "queued"
        job.queued_at, job.idle_from = now, self.formed

    def _free(self, job: Job) -> None:
        self.pool.release(job.blocks)
        job.blocks, job.memory = [], None
