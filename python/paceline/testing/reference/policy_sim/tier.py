"""A tier of KV in the host's memory: what is stored and loaded, and when its copies end.

Follows vLLM 0.33.0 (``vllm/distributed/kv_transfer/kv_connector/v1/offloading/scheduler.py`` and
``worker.py``). A step that computes no tokens takes no time, but it makes copies and sees the end of others.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from fractions import Fraction
from math import ceil
from typing import Any

from paceline.testing.reference.policy_sim.chunks import PENDING, Access, Chunks
from paceline.testing.reference.policy_sim.copies import Actions, Job, Kind, Use
from paceline.testing.reference.policy_sim.host_copies import HostCopies
from paceline.testing.reference.policy_sim.insertions import Insertions
from paceline.testing.reference.policy_sim.memory import Memory
from paceline.testing.reference.policy_sim.request import Request
from paceline.testing.reference.policy_sim.step import Step
from paceline.testing.reference.policy_sim.store import Below, Store


class Tier:
    """The tier of one instance.

    Parameters
    ----------
    config : dict
        As ``rust/core/src/config/tier.rs`` names its fields.
    memory : Memory
    loading : list of Request
        The requests that wait for loads, or to be admitted after that.
    drops_last : bool
        Whether a draft head may change the KV of the last chunk.
    ahead : bool
        Whether each step is decided, and given to the worker, as the one before it begins.
    """

    def __init__(
        self,
        config: dict[str, Any],
        memory: Memory,
        loading: list[Request],
        *,
        drops_last: bool = False,
        ahead: bool = False,
    ) -> None:
        self.chunks = Chunks(config["chunks"], config["eviction"], config["store_threshold"])
        self.jobs: list[Job] = []
        self.loading = loading
        self.steps: list[tuple[Actions, Step]] = []
        self.ends: int | None = None  # of a step without tokens that waits for copies
        self.stored_blocks = self.loaded_blocks = self.refused = self.peak_chunks = 0
        self.whole_loads = 0
        self._config = config
        self._write = config.get("write", "completed")
        self._insertions = Insertions(self._write, memory.pool)
        self._memory = memory
        self._drops_last, self._ahead = drops_last, ahead
        self._begun: int | None = None  # the forward pass of the step in flight
        self._unseen: list[Job] = []  # reported by the latest step, which the next decision does not know
        # Finished, cancelled or migrated out since, likewise; the last with their computed tokens.
        self._ended: list[tuple[Request, Use, int | None]] = []
        self._kept: list[Request] = []  # cancelled: their blocks are free once their load has ended
        self._uses: dict[Request, Use] = {}
        self._free: dict[Kind, int] = {"store": 0, "load": 0, "sync": 0}  # when each link is free
        self._unsent: list[Job] = []
        self._fenced: dict[int, set[Job]] = {}  # blocks of finished requests that stores still read
        self._finished: list[tuple[Request, Use, int]] = []  # with their computed tokens
        self._now = Actions(0)
        self.below: Below | None = None
        self.joined: list[Request] = []  # the queue since a step was formed
        self._waits: dict[Request, int] = {}  # until when requests wait for reads that began as they joined

    # -- decisions -------------------------------------------------------------------------

    @property
    def chunk_blocks(self) -> int:
        """Blocks that are stored and loaded as one."""
        return int(self._config["chunk_blocks"])

    @property
    def chunk_tokens(self) -> int:
        """Tokens of a chunk."""
        return self.chunk_blocks * self._memory.block_tokens

    @property
    def overlaps(self) -> bool:
        """Whether loads overlap with the steps that they are made for."""
        return bool(self._config.get("overlap_layers"))

    def stall(self, compute: int) -> int:
        """Return for how long the loads of the step that was formed hold up its forward pass.

        Each layer is computed once it has been loaded and the one before it has been computed.
        """
        if not self.overlaps or not self._now.span:
            return 0
        layers, ends = int(self._config["overlap_layers"]), Fraction(0)
        for layer in range(layers):
            loaded = Fraction(self._now.span * (layer + 1), layers)
            ends = max(ends, loaded) + Fraction(compute, layers)
        return ceil(ends) - compute

    @property
    def store_chunks(self) -> int:
        """Chunks in the store below, those that are being written among them."""
        return 0 if self.below is None else len(self.below.store.objects)

    def open(self, now: int) -> None:
        """Begin to form a step."""
        self._now = Actions(now)
        self._insertions.lose()
        for way, keys in self.below.ended(now) if self.below is not None else ():
            (self.chunks.loaded if way == "write" else self.chunks.stored)(keys)
        joined, self.joined = self.joined, []
        for request in joined if self.prefetches else ():
            self._prefetch(request)

    def use(self, request: Request) -> Use:
        """Return what the tier keeps of a request."""
        return self._uses.setdefault(request, Use())

    def _key(self, request: Request, chunk: int) -> Hashable:
        return self._memory.name(request, (chunk + 1) * self.chunk_blocks - 1)

    def look_up(self, request: Request, cached: int) -> tuple[int, bool] | None:
        """Return the tokens to load after the cached ones, and whether within the step.

        None: that is not known yet.
        """
        use, size = self.use(request), self.chunk_tokens
        use.next_chunk = 0
        if use.jobs or self._waits.get(request, 0) > self._now.start:
            return None
        # Where loads overlap with the step of a request, it computes one token at least.
        chunks, first = (request.tokens - self.overlaps) // size, cached // size
        if chunks * size - cached < size:
            return 0, False
        found, fetched = list[Hashable](), list[Hashable]()
        for chunk in range(first, chunks):
            key = self._key(request, chunk)
            if self.prefetches and self.chunks.readers(key) in (None, PENDING):
                break
            if self.chunks.readers(key) is None:
                if not self._fetch(request, chunk, key):
                    break
                fetched.append(key)
            found.append(key)
        if fetched:
            assert self.below is not None
            self.below.found.append(fetched)
        if not found:
            return 0, False
        if any(self.chunks.readers(key) == PENDING for key in found):
            return None
        # With a draft head, the last chunk is not used: its KV may be another after other drafts.
        found = found[:-1] if self._drops_last else found
        tokens = (first + len(found)) * size - cached
        if tokens < size:
            return 0, False
        awaited = [job for job in self.jobs if job.kind == "load" and job in job.use.jobs]
        loading = {key for job in awaited for key in job.keys}
        if not loading.isdisjoint(found):
            return None
        most = self._config["sync_tokens"]
        fits = self._now.sync_tokens + tokens <= most
        sync = self.overlaps or (cached + tokens < request.tokens and fits)
        self._now.sync_tokens += tokens if sync else 0
        return tokens, sync

    @property
    def prefetches(self) -> bool:
        """Whether chunks are read from the store below as requests join the queue."""
        return self.below is not None and bool(self.below.config.get("prefetch"))

    def _prefetch(self, request: Request) -> None:
        """Read what the store has of a request after the GPU and the tier, if that is enough."""
        assert self.below is not None
        cached = len(self._memory.hits(request, request.tokens)) * self._memory.block_tokens
        last = (request.tokens - self.overlaps) // self.chunk_tokens
        chunks = {self._key(request, chunk): chunk for chunk in range(cached // self.chunk_tokens, last)}
        use = self.use(request)
        until = self.below.prefetch(chunks, self.chunks, use.access, use.fetched, self._now.start)
        self.peak_chunks = max(self.peak_chunks, self.chunks.used)
        if until is not None:
            self._waits[request] = until

    def _fetch(self, request: Request, chunk: int, key: Hashable) -> bool:
        """Take room for a chunk that the store below has; return whether it has it and there is room."""
        # Chunks that evict each other from the tier would be read without end.
        if self.below is None or chunk in self.use(request).fetched:
            return False
        if not self.below.store.has(key, self._now.start):
            return False
        if self.chunks.store({key: chunk}, self.use(request).access) is None:
            self.below.refused += 1
            return False
        self.use(request).fetched.add(chunk)
        self.peak_chunks = max(self.peak_chunks, self.chunks.used)
        return True

    def take_fetched(self, request: Request, cached: int, loaded: int) -> int:
        """Return how many of the loaded tokens were read from the store for an admission, and forget it."""
        self._waits.pop(request, None)
        use, size = self.use(request), self.chunk_tokens
        fetched, use.fetched = use.fetched, set()
        return sum(at // size in fetched for at in range(cached, cached + loaded))

    def put_off(self, request: Request) -> None:
        """Note that a request is passed over, as its lookup has no answer yet."""
        self._now.put_off.append(request)

    def allocated(self, request: Request, cached: int, loaded: int, *, sync: bool) -> None:
        """Note the blocks of an admission or a load; load ``loaded`` tokens after the cached ones."""
        self._now.hits.append((request, cached, loaded))
        self._now.allocated.update(request.blocks)
        if loaded == 0:
            return
        size, block = self.chunk_tokens, self._memory.block_tokens
        use, first, last = self.use(request), cached // size, -(-(cached + loaded) // size)
        keys = {self._key(request, chunk): chunk for chunk in range(first, last)}
        use.next_chunk = last
        self.chunks.load(keys, use.access)
        blocks = request.blocks[cached // block : (cached + loaded) // block]
        kind: Kind = "sync" if sync else "load"
        job = Job(len(self.jobs), kind, request, use, list(keys), blocks, self._now.start)
        self.loaded_blocks += len(blocks)
        self._open(job, self._now.loads)
        if not sync:
            self.loading.append(request)
            use.seen = False

    def admitted(self, request: Request) -> None:
        """Note that a request is admitted whose load has ended, or whose KV another instance has sent."""
        if request in self.loading:
            self.loading.remove(request)
        self.given(request)

    def given(self, request: Request) -> None:
        """Note that the step gives a request its blocks."""
        self._now.allocated.update(request.blocks)

    def is_loading(self, request: Request) -> bool:
        """Whether a load of the request has not been reported."""
        return any(job.kind == "load" for job in self.use(request).jobs)

    def _open(self, job: Job, made: list[Job]) -> None:
        self.jobs.append(job)
        job.use.jobs.append(job)
        made.append(job)

    # -- the end of forming a step ------------------------------------------------------------

    def close(self, step: Step) -> int:
        """Make the stores of a step that was formed; return when its forward pass begins."""
        now = self._now
        for request in step.tokens:
            use = self.use(request)
            now.before[request] = request.computed
            now.allocated.update(request.blocks[len(use.blocks) :])
            use.blocks = request.blocks.copy()
        flushed = {job for request in step.preempted for job in self.use(request).jobs}
        flushed |= {job for block in now.allocated for job in self._fenced.get(block, ())}
        evicted = self.chunks.evicted
        # Requests that have ended have inserted their chunks before this step was formed.
        at_once = self._store_finished(flushed) if self._insertions.counts else []
        self._insertions.lose()
        for request in (one for one in step.order if one in step.tokens):
            # Drafts are not known, nor what the step before yields if this one is decided ahead of its end.
            computed = request.computed + request.given_up + step.tokens[request]
            self._store(request, self.use(request), min(computed, request.tokens - request.hidden))
        if not self._insertions.counts:
            self._store_finished(flushed)
        flushed.update(self._store_lost())
        now.flushed = sorted(flushed, key=lambda job: job.number)
        now.chunks, now.evicted = self.chunks.used, self.chunks.evicted - evicted
        now.loading = [one for one in self.loading if not self.use(one).seen]
        urgent = [job for job in now.stores if job in flushed or job in at_once]
        self._send([*self._unsent, *urgent], now.start)
        self._unsent = [job for job in now.stores if job not in urgent]
        if self.below is not None:
            self.below.read(now.start)
        awaited = [job.ends or 0 for job in now.flushed]
        begins = max([now.start, *awaited])
        if self.overlaps:
            self._send(now.loads, begins)
            now.span = max([begins, *(job.ends or 0 for job in now.loads)]) - begins
        elif any(job.kind == "sync" for job in now.loads):
            self._send(now.loads, begins)
            begins = max([begins, *(job.ends or 0 for job in now.loads if job.kind == "sync")])
            awaited.append(begins)
        # A step that is decided ahead is given to the worker as the one before it begins.
        given = begins if self._begun is None else self._begun
        now.begins, now.looks = begins, max([given, *awaited])
        if self._ahead and step.tokens:
            self._begun = begins
        self.steps.append((now, step))
        return begins

    def _store_finished(self, flushed: set[Job]) -> list[Job]:
        """Store what requests that have ended have left to store; return the copies."""
        finished, self._finished = self._finished, []
        made = list[Job]()
        for request, use, written in finished:
            job = self._store(request, use, written, ended=True)
            if job is not None:
                made.append(job)
                self._fence(job)
                if not self._now.allocated.isdisjoint(job.blocks):
                    flushed.add(job)
        for _, use, _ in finished:
            self.chunks.finished(use.access)
        return made

    def _store_lost(self) -> list[Job]:
        """Store what the GPU has lost, each on its own, in one copy."""
        stored = list[Hashable]()
        for key in self._insertions.take_lost():
            taken = self.chunks.store({key: 0}, Access())
            if taken is None:
                self._now.refused += 1
                self.refused += 1
            stored += taken or []
        if not stored:
            return []
        job = Job(len(self.jobs), "store", None, Use(), stored, [-1] * len(stored), self._now.start)
        self.stored_blocks += len(stored)
        self.peak_chunks = max(self.peak_chunks, self.chunks.used)
        self._open(job, self._now.stores)
        return [job]

    def _store(self, request: Request, use: Use, tokens: int, *, ended: bool = False) -> Job | None:
        """Store the chunks of a request that are complete after a step with so many known tokens."""
        if self._write == "back":
            return None
        if self._config["prompts_only"] or (self._insertions.counts and not ended):
            tokens = min(tokens, request.spec.prompt_tokens)
        chunks = tokens // self.chunk_tokens
        # With a draft head, the last chunk of a decode may still change.
        chunks -= self._drops_last and tokens > request.spec.prompt_tokens and not ended
        # A request that was received, and cancelled before a step ran it, has given the tier no blocks.
        chunks = min(chunks, len(use.blocks) // self.chunk_blocks)
        offered = {self._key(request, chunk): chunk for chunk in range(use.next_chunk, chunks)}
        if not offered:
            return None
        if self._insertions.counts:
            use.next_chunk = chunks
            wanted = self._insertions.insert(list(offered))
            there = [key for key in offered if self.chunks.readers(key) is not None]
            offered = {key: at for key, at in offered.items() if key in wanted or key in there}
        stored = self.chunks.store(offered, use.access)
        if stored is None:
            self._now.refused += 1
            self.refused += 1
            return None
        use.next_chunk = chunks
        if not stored:
            return None
        first = [offered[key] * self.chunk_blocks for key in stored]
        blocks = [use.blocks[start + at] for start in first for at in range(self.chunk_blocks)]
        self.stored_blocks += len(blocks)
        self.peak_chunks = max(self.peak_chunks, self.chunks.used)
        job = Job(len(self.jobs), "store", request, use, stored, blocks, self._now.start)
        self._open(job, self._now.stores)
        return job

    def _fence(self, job: Job) -> None:
        for block in job.blocks:
            self._fenced.setdefault(block, set()).add(job)

    def _send(self, jobs: list[Job], now: int) -> None:
        for job in jobs:
            times = self._config["store" if job.kind == "store" else "load"]
            job.begins = max(now, self._free[job.kind])
            job.ends = job.begins + int(times["fixed"]) + int(times["block"]) * len(job.blocks)
            self._free[job.kind] = job.ends

    # -- the end of a step ------------------------------------------------------------------------

    def end(self, now: int, finished: list[Request]) -> None:
        """End the step that was formed last, with the requests that finished."""
        actions = self._now
        self._send([job for job in actions.loads if job.begins is None], now)
        seen = now if self._config["polls_at_end"] else actions.looks
        ended = [
            job for job in self.jobs if job.reported is None and job.ends is not None and job.ends <= seen
        ]
        for kind in ("store", "load", "sync"):
            reported = [job for job in ended if job.kind == kind]
            for job in reported:
                job.reported = now
            actions.reported += reported
        self._unseen += actions.reported
        self._ended += [(request, self.use(request), None) for request in finished]
        if not self._ahead or self._begun is None:
            self.learn()

    def learn(self) -> None:
        """Know of the requests that have finished, and of the copies that were reported."""
        ended, self._ended = self._ended, []
        for request, use, written in ended:
            if written is None and request.cancelled is not None:
                written = request.computed
            elif written is None:
                written = max(request.spec.prompt_tokens, request.tokens - 1)
            self._finished.append((request, use, written))
            for job in use.jobs:
                self._fence(job)
        unseen, self._unseen = self._unseen, []
        for job in unseen:
            (self.chunks.stored if job.kind == "store" else self.chunks.loaded)(job.keys)
            if job.kind == "store" and self.below is not None:
                assert job.reported is not None
                self.chunks.hold(self.below.write(job.keys, job.reported))
            job.use.jobs.remove(job)
            for block in job.blocks:
                self._fenced.get(block, set()).discard(job)
            if job.request is not None and job.request in self._kept:
                self._kept.remove(job.request)
                self._memory.release(job.request)

    def leave(self, request: Request, *, migrates: bool = False) -> bool:
        """Note that a request was cancelled or migrates; return whether the step decided next knows of it."""
        if request in self.loading:
            self.loading.remove(request)
        self._ended.append((request, self.use(request), request.computed if migrates else None))
        if migrates:
            # It may come back, as another request to the tier.
            del self._uses[request]
        known = not self._ahead or self._begun is None
        if known:
            self.learn()
        return known

    def free(self, request: Request) -> None:
        """Free the blocks of a request that has left: a cancelled one keeps them while it is loaded."""
        if self.is_loading(request):
            self._kept.append(request)
        else:
            self._memory.release(request)

    def land(self) -> None:
        """Note that no step is in flight."""
        self._begun = None

    def drain(self, now: int) -> None:
        """Form the steps without tokens that follow the end of a replay."""
        again, ends = True, None
        while again or ends is not None:
            now = now if again else max(now, ends or 0)
            self.open(now)
            again, _ = self.pass_step(Step(now, 0, free_blocks=self._memory.free))
            ends = self.next_end

    @property
    def next_end(self) -> int | None:
        """When the next copy ends, but for those to a store below."""
        ends = [job.ends for job in self.jobs if job.reported is None and job.ends is not None]
        read = None if self.below is None else self.below.next_read
        waits = [until for until in self._waits.values() if until > self._now.start]
        return min([*ends, *waits] if read is None else [*ends, *waits, read], default=None)

    def pass_step(self, step: Step) -> tuple[bool, int | None]:
        """End a step without tokens; return whether another one follows at once, and else when to form one.

        It takes no time, unless it waits for stores to end.
        """
        begins = self.close(step)
        if begins > step.start:
            self.ends = begins
            return False, begins
        self.end(begins, [])
        ends = self.next_end
        at_once = ends is not None and ends <= step.start and self.below is not None
        if self._unsent or not self._now.idle or at_once:
            return True, None
        return False, ends

    def wake(self, now: int) -> bool:
        """End the step without tokens that is in progress; return whether none is any more."""
        if self.ends is not None and now >= self.ends:
            self.end(self.ends, [])
            self.ends = None
        return self.ends is None


def stores_below(config: dict[str, Any], tiers: Sequence[Tier | HostCopies | None]) -> list[Store]:
    """Return the stores of a configuration, once they are below the tiers of its instances."""
    stores = [Store(store) for store in config.get("stores", [])]
    for instance, tier in zip(config["instances"], tiers, strict=True):
        below, size = (instance.get("tier") or {}).get("below"), instance["block_tokens"]
        if below is None or tier is None:
            continue
        if isinstance(tier, Tier):
            tier.below = Below(stores[below["store"]], below, tier.chunk_blocks, size)
        else:
            tier.set_store(stores[below["store"]], below, size)
    return stores
