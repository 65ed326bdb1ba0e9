"""Asynchronous scheduling as vLLM runs it, with two steps in flight: each is decided when it is scheduled.

The engine and the reference decide a step at the end of the one before, and hide from it what vLLM does not
know yet. This is the other way round, from the rules of ``step_with_batch_queue``, ``AsyncScheduler`` and
``Scheduler`` of vLLM 0.33.0: computed tokens that count drafts as accepted, output placeholders, and outputs
that come later.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paceline.conformance import DecisionLog
from paceline.testing.reference.blocks import BlockPool


@dataclass(eq=False, slots=True)
class Request:
    row: int
    arrival: int
    prompt: int
    most: int
    priority: int
    ids: tuple[int, ...]
    outputs: int = 0
    computed: int = 0
    in_flight: int = 0
    stale: int = 0
    placeholders: int = 0
    drafts: int = 0
    is_chunk: bool = True
    state: str = "waiting"
    blocks: list[int] = field(default_factory=list)
    cached: int = 0
    times: list[int] = field(default_factory=list)

    @property
    def tokens(self) -> int:
        return self.prompt + self.outputs

    @property
    def rank(self) -> tuple[int, int]:
        return self.priority, self.arrival


@dataclass(eq=False, slots=True)
class Step:
    entries: list[list[Any]]
    requests: list[Request]
    samples: list[bool]
    padded: list[bool]
    end: int = 0


class Engine:
    """One engine of these settings, as a decision log has them."""

    def __init__(self, settings: dict[str, Any], cost: dict[str, int], requests: list[list[Any]]) -> None:
        self.settings, self.cost, self.rows = settings, cost, requests
        self.spec = settings["spec"]
        self.k: int = self.spec["k"] if self.spec else 0
        self.size: int = settings["block_size"]
        self.longest: int = settings["max_model_len"]
        self.by_priority: bool = settings["policy"] == "priority"
        self.caches: bool = settings["prefix_caching"]
        self.pool = BlockPool(settings["num_blocks"] - 1)
        self.all = [Request(i, *row[:4], tuple(row[4])) for i, row in enumerate(requests)]
        self.coming = self.all.copy()
        self.waiting: list[Request] = []
        self.running: list[Request] = []
        self.news = False  # of finished requests, for the workers
        self.steps: list[list[Any]] = []

    def log(self) -> DecisionLog:
        """Run all requests, and return what was decided."""
        queue: list[Step] = []
        clock = 0
        while True:
            while self.coming and self.coming[0].arrival <= clock:
                self.waiting.append(self.coming.pop(0))
            if len(queue) < 2 and (self.running or self.waiting or self.news):
                queue.append(self.schedule(clock, queue[-1].end if queue else clock))
            elif queue:
                step = queue.pop(0)
                clock = max(clock, step.end)
                self.update(step, clock)
            elif self.coming:
                clock = self.coming[0].arrival
            else:
                return DecisionLog(
                    path=Path("two in flight"),
                    engine=self.settings,
                    cost=self.cost,
                    requests=self.rows,
                    steps=self.steps,
                    first_token_ns=[one.times[0] for one in self.all],
                    finish_ns=[one.times[-1] for one in self.all],
                )

    # -- scheduling -----------------------------------------------------------------------

    def schedule(self, clock: int, ready: int) -> Step:
        self.news = False
        alone = len(self.running) + len(self.waiting) <= 1
        chunk = 0 if alone else self.settings.get("long_prefill_token_threshold", 0)
        taken: dict[Request, tuple[int, int, bool]] = {}  # tokens, drafts, padded
        preempted: list[Request] = []
        left, continues = self.resume(taken, preempted, chunk)
        if not preempted:
            self.admit(taken, left, chunk, continues=continues)
        step = Step([], [], [], [])
        kv = 0
        for request in [one for one in self.running if one in taken]:
            tokens, drafts, padded = taken[request]
            step.entries.append([request.row, tokens, request.computed, drafts, -1, 0])
            request.computed += tokens
            request.in_flight += tokens
            kv += request.computed
            request.is_chunk = request.computed < request.tokens + request.placeholders
            step.requests.append(request)
            step.samples.append(not request.is_chunk)
            step.padded.append(padded)
            if not request.is_chunk:
                request.placeholders += 1 + drafts
                request.drafts = self.k
        begin = max(clock, ready)
        step.end = begin
        if step.entries:
            tokens = sum(entry[1] for entry in step.entries)
            step.end += self.cost["step_ns"] + self.cost["token_ns"] * tokens + self.cost["kv_token_ns"] * kv
            rows = sorted(one.row for one in preempted)
            self.steps.append([clock, step.entries, rows, self.pool.free, begin])
        return step

    def resume(
        self, taken: dict[Request, tuple[int, int, bool]], preempted: list[Request], chunk: int
    ) -> tuple[int, bool]:
        left, at, continues = self.settings["max_num_batched_tokens"], 0, False
        while at < len(self.running) and left > 0:
            request = self.running[at]
            sure = request.computed + 2 - request.placeholders >= request.prompt + request.most
            if request.placeholders and sure:
                at += 1
                continue
            tokens = request.tokens + request.drafts + request.placeholders - request.computed
            tokens = min(tokens, chunk or tokens, left, self.longest - request.computed - 1)
            if tokens == 0:
                at += 1
                continue
            while not (fits := self.allocate(request, tokens)):
                victim = max(self.running, key=lambda one: one.rank) if self.by_priority else self.running[-1]
                if (place := self.running.index(victim)) < at:
                    at -= 1
                del self.running[place]
                left += taken.pop(victim, (0, 0, False))[0]
                self.preempt(victim)
                preempted.append(victim)
                if victim is request:
                    break
            if not fits:
                if self.by_priority:
                    continue
                break
            drafts = tokens + request.computed - request.tokens - request.placeholders
            taken[request] = (tokens, max(min(drafts, request.drafts), 0), False)
            if request.drafts:
                request.drafts = 0
            continues |= request.is_chunk
            left -= tokens
            at += 1
        return left, continues

    def admit(
        self, taken: dict[Request, tuple[int, int, bool]], left: int, chunk: int, *, continues: bool
    ) -> None:
        resumed = bool(taken)
        passed: list[Request] = []
        if self.by_priority:
            self.waiting.sort(key=lambda one: one.rank)
        while self.waiting and left > 0 and len(self.running) < self.settings["max_num_seqs"]:
            request = self.waiting[0]
            if request.stale:
                passed.append(self.waiting.pop(0))
                continue
            hits = self.hits(request)
            hit = len(hits) * self.size
            tokens = request.tokens - hit
            pads = self.k > 0 and tokens == 1 and not continues and (resumed or hit > 0)
            pads = pads and hit + 1 + self.k + 1 <= self.longest
            if pads:
                tokens += self.k
                if tokens > left:
                    break
            tokens = min(tokens, chunk or tokens, left)
            if not self.allocate(request, tokens, hits, whole=True):
                break
            self.waiting.pop(0)
            self.running.append(request)
            request.state, request.computed, request.is_chunk = "running", hit, True
            taken[request] = (tokens, self.k if pads else 0, pads)
            left -= tokens
        self.waiting[:0] = passed

    def preempt(self, request: Request) -> None:
        self.free(request)
        request.state, request.computed, request.drafts, request.placeholders = "preempted", 0, 0, 0
        request.stale = request.in_flight
        self.waiting.insert(0, request)

    # -- outputs --------------------------------------------------------------------------

    def update(self, step: Step, clock: int) -> None:
        for entry, request, samples, padded in zip(
            step.entries, step.requests, step.samples, step.padded, strict=True
        ):
            _, tokens, _, drafts, *_ = entry
            request.in_flight -= tokens
            stale = request.stale > 0
            request.stale -= tokens if stale else 0
            if request.state == "finished" or not samples:
                continue
            accepted = 0
            if drafts and not padded:
                accept = self.spec["accept"]
                accepted = min(accept[(7 * request.row + request.outputs) % len(accept)], drafts)
            if not stale:
                request.computed -= drafts - accepted
                request.placeholders -= drafts - accepted
            kept = min(accepted + 1, request.most - request.outputs, self.longest - request.tokens)
            request.outputs += kept
            request.times += [clock] * kept
            entry[4:] = accepted, kept
            if not stale:
                request.computed -= accepted + 1 - kept
                request.placeholders -= accepted + 1
                self.register(request, request.computed - request.in_flight)
            if request.outputs == request.most or request.tokens >= self.longest:
                (self.running if request.state == "running" else self.waiting).remove(request)
                request.state, self.news = "finished", True
                self.free(request)

    # -- blocks ---------------------------------------------------------------------------

    def name(self, request: Request, position: int) -> object:
        after = position + 1 + (self.spec["hash_lookahead"] if self.spec else 0)
        return request.ids[:after] if after <= len(request.ids) else ("own", request.row, position)

    def hits(self, request: Request) -> list[int]:
        found: list[int] = []
        for position in range((request.tokens - 1) // self.size if self.caches else 0):
            block = self.pool.find(self.name(request, position))
            if block is None:
                break
            found.append(block)
        return found

    def allocate(
        self, request: Request, tokens: int, hits: list[int] | None = None, *, whole: bool = False
    ) -> bool:
        hits = hits or []
        held = len(hits) + len(request.blocks)
        computed = request.computed + len(hits) * self.size
        idle = sum(self.pool.references(block) == 0 for block in hits)
        lookahead = self.spec["lookahead_slots"] if self.spec else 0
        slots = min(computed + tokens + lookahead, self.longest)
        needed = max(-(-slots // self.size) - held, 0)
        everything = max(-(-min(request.tokens, self.longest) // self.size) - held, 0)
        if max(needed, everything if whole else 0) + idle > self.pool.free:
            return False
        self.pool.touch(hits)
        request.blocks += hits
        request.cached = max(request.cached, len(hits))
        request.blocks += self.pool.take(needed)
        self.register(request, computed + tokens)
        return True

    def register(self, request: Request, tokens: int) -> None:
        known = request.tokens - (self.spec["hash_lookahead"] if self.spec else 0)
        full = min(tokens, known) // self.size if self.caches else 0
        for position in range(request.cached, full):
            self.pool.register(request.blocks[position], self.name(request, position))
        request.cached = max(request.cached, full)

    def free(self, request: Request) -> None:
        self.pool.release(request.blocks[::-1])
        request.blocks, request.cached = [], 0
