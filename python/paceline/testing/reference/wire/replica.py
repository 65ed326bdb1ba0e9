"""One instance of the cluster: its scheduler, the step it is in, and what it has done."""

from __future__ import annotations

from typing import Any

from paceline.testing.reference.instance import Usage
from paceline.testing.reference.refusal import Reason, refuse
from paceline.testing.reference.request import Request
from paceline.testing.reference.wire.request import Job, Spell
from paceline.testing.reference.wire.scheduler import Scheduler
from paceline.testing.reference.wire.scope import Pace, View
from paceline.testing.reference.wire.step import Step


class Replica:
    """One replica of the model.

    Parameters
    ----------
    index : int
    config : dict
        The instance, as the engine's configuration spells it; its cost is affine.
    role : int
    cluster : list of Replica
        All instances, which an expression may speak of.
    pace : Pace or None
    """

    def __init__(
        self, index: int, config: dict[str, Any], role: int, cluster: list[Replica], pace: Pace | None
    ) -> None:
        self.index = index
        self.role = role
        self.blocks: int = config["blocks"]
        self.block_tokens: int = config["block_tokens"]
        self.kv_bytes: int = config["kv_bytes_per_token"]
        self.scheduler = Scheduler(config, self.view)
        self.jobs: list[Job] = []  # unfinished ones that are here
        self.leaving: dict[Job, tuple[int, int]] = {}  # where to, and the tokens that are there already
        self.step: Step | None = None
        self.ends: int | None = None
        self.decode_gaps: list[int] = []  # between the ends of steps that decoded, without idle time
        self.steps: list[list[Any]] = []
        self.usage = Usage()
        self._max_model_len: int | None = config["max_model_len"]
        self._cost: dict[str, int] = config["cost"]
        self._cluster = cluster
        self._pace = pace
        self._stirred = False  # whether anything happened since it last tried to form a step
        self._last_end: int | None = None
        self._last_decode: int | None = None  # None: or it stood idle since

    @property
    def formed(self) -> int:
        """Steps it has decided."""
        return self.scheduler.formed

    def view(self, now: int, job: Job | None = None) -> View:
        """Return what an expression sees that speaks of this instance."""
        return View(now, self._cluster, self._pace, job, inst=self, here=self)

    def refusal(self, request: Request) -> Reason | None:
        """Say why the instance could never finish the request, or None where it could."""
        return refuse(
            request,
            max_model_len=self._max_model_len,
            block_size=self.block_tokens,
            blocks=self.blocks,
            largest_prefill=None if self.scheduler.chunked else self.scheduler.budget,
        )

    def prefill_ticks(self, request: Request) -> int:
        """How long a request's prompt would take with nothing beside it, in chunks if those are cut."""
        prompt = request.prompt_tokens
        most = self.scheduler.budget if self.scheduler.chunked else prompt
        chunks = [(before, min(most, prompt - before)) for before in range(0, prompt, most)]
        return sum(self._duration(tokens, before + tokens) for before, tokens in chunks)

    def arrive(self, job: Job, now: int) -> None:
        """Take a request in that is new, or that another instance sent."""
        self._stirred = True
        job.where = job.last = self.index
        if job.scheduled is not None:
            job.spells.append(Spell(now, job.phase))
        self.jobs.append(job)
        self.scheduler.add(job, now)
        self.usage.peak_waiting = max(self.usage.peak_waiting, len(self.scheduler.queue))

    def take_back(self, blocks: list[int]) -> None:
        """Free blocks whose content another instance has by now."""
        self._stirred = True
        self.scheduler.pool.release(blocks)

    def leave(self, job: Job, now: int) -> list[int]:
        """Let a request go; return its blocks, which are still taken."""
        self.jobs.remove(job)
        self.leaving.pop(job, None)
        job.where = None
        return self.scheduler.leave(job, now)

    def start(self, now: int) -> None:
        """Start a step, where none is under way, something happened, and anything can run."""
        if self.step is not None or not self._stirred:
            return
        self._stirred = False
        before = sum(job.preemptions for job in self.jobs)
        self.step = step = self.scheduler.form(now)
        self.usage.preemptions += sum(job.preemptions for job in self.jobs) - before
        self.usage.peak_waiting = max(self.usage.peak_waiting, len(self.scheduler.queue))
        if step is None:
            return
        if now != self._last_end:
            self._last_decode = None
        self.ends = now + self._ticks(step)
        self.steps.append(step.row(self.scheduler.running))
        usage = self.usage
        usage.peak_running = max(usage.peak_running, len(self.scheduler.running))
        usage.peak_blocks = max(usage.peak_blocks, self.scheduler.pool.held)

    def end(self, now: int) -> list[Job]:
        """End the step under way; return those that yielded a token, in the order of admission."""
        step, self.step, self.ends = self.step, None, None
        self._stirred = True
        assert step is not None
        self.usage.steps += 1
        self.usage.tokens += sum(step.tokens.values())
        if step.decodes:
            self.decode_gaps.append(now - (step.start if self._last_decode is None else self._last_decode))
            self._last_decode = now
        self._last_end = now
        yielded = self.scheduler.finish(step, now)
        for job in yielded:
            if job.done:
                self.jobs.remove(job)
                self.leaving.pop(job, None)
                job.where = None
                self.usage.finished += 1
        return yielded

    def pass_time(self, duration: int) -> None:
        """Account for ``duration`` in which nothing changed."""
        running = self.scheduler.running
        under_way = sum(self.step.tokens.values()) if self.step else 0
        self.usage.busy += duration * (self.step is not None)
        self.usage.running_time += duration * len(running)
        self.usage.waiting_time += duration * len(self.scheduler.queue)
        self.usage.kv_token_time += duration * (sum(job.computed for job in running) + under_way)

    def _ticks(self, step: Step) -> int:
        """How long a step takes, with the copies before it or beside it."""
        after = sum(job.computed + tokens for job, tokens in step.tokens.items())
        ticks = self._duration(sum(step.tokens.values()), after)
        swap = self.scheduler.swap
        if swap is None:
            return ticks
        copies = step.blocks_out * int(swap["out"]) + step.blocks_in * int(swap["back"])
        return max(ticks, copies) if swap["overlapped"] else ticks + copies

    def _duration(self, tokens: int, kv_tokens: int) -> int:
        return self._cost["step"] + self._cost["token"] * tokens + self._cost["kv_token"] * kv_tokens
