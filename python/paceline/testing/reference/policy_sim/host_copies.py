"""The copies between the GPU and the host of a prefix tree, and what a step learns of them.

Follows SGLang 0.5.23: ``start_writing``, ``start_loading`` (``srt/managers/cache_controller.py``) and
``check_hicache_events`` (``srt/mem_cache/unified_radix_cache.py``).
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil
from typing import Any

from paceline.testing.reference.policy_sim.host_store import HostStore
from paceline.testing.reference.policy_sim.hosted_memory import HostedMemory
from paceline.testing.reference.policy_sim.request import Request
from paceline.testing.reference.policy_sim.store import Store
from paceline.testing.reference.radix import Node


class HostCopies:
    """The copies of one instance, each of all that is to be copied at a moment.

    Parameters
    ----------
    config : dict
        As ``rust/core/src/config/tier.rs`` names its fields.
    memory : HostedMemory
    """

    def __init__(self, config: dict[str, Any], memory: HostedMemory) -> None:
        self.loaded_blocks = 0
        self._config, self._memory = config, memory
        self._free = {"store": 0, "load": 0}  # when each link is free
        self._writes: list[tuple[int, list[tuple[Node, int]]]] = []  # the end of each copy, and its nodes
        self._loads: list[tuple[int, list[Node]]] = []
        self._load: tuple[int, int] | None = None  # of the step that was formed
        self._begins = 0  # its forward pass
        self._kept = 0  # nodes that wait for the next step
        self.below: HostStore | None = None
        self.joined: list[Request] = []  # the queue since it was looked at last
        self.preempted: list[Request] = []  # in the step that is formed
        self._looked = -1  # when a step that ended has looked

    @property
    def used(self) -> int:
        """Blocks in the host's memory."""
        return self._memory.tree.used

    @property
    def next_end(self) -> int | None:
        """When the next copy ends whose end no step has seen."""
        ends = [ends for ends, _ in self._writes] + [ends for ends, _ in self._loads]
        return min(ends + ([] if self.below is None else self.below.ends), default=None)

    @property
    def wakes(self) -> int | None:
        """When an idle instance looks again."""
        ends = [] if self.next_end is None else [self.next_end]
        return min(ends + ([] if self.below is None else self.below.deadlines), default=None)

    def _send(self, way: str, blocks: int, now: int) -> tuple[int, int]:
        begins = max(now, self._free[way])
        times = self._config[way]
        self._free[way] = begins + int(times["fixed"]) + int(times["block"]) * blocks
        return begins, self._free[way]

    def open(self, now: int, seen: int) -> None:
        """Begin to form a step, which sees the ends of copies up to a moment."""
        self._memory.open()
        self._load = None
        self._begin_reads(now)
        # Of requests that were cancelled since the last step.
        self.flush(now, self._kept)
        self._learn(now, seen, looks=self._looked != now)
        self._looked = -1

    def end_step(self, now: int, seen: int) -> None:
        """Copy what a step has inserted that ends, and see what the next one sees of copies."""
        self._begin_reads(now)
        self.flush(now)
        self._learn(now, seen, looks=True)
        self._looked = now

    def _begin_reads(self, now: int) -> None:
        """Begin reads for the requests that were preempted, and for those that have arrived."""
        requests, self.preempted, self.joined = self.preempted + self.joined, [], []
        if self.below is not None:
            for request in requests:
                self.below.begin(request, now)

    def _learn(self, now: int, seen: int, *, looks: bool) -> None:
        """See the ends of copies up to a moment."""
        tree, below = self._memory.tree, self.below
        found = ([], 0, 0) if below is None or not looks else below.look(now)
        while self._writes and self._writes[0][0] <= seen:
            for node, blocks in self._writes.pop(0)[1]:
                tree.unlock(node)
                if below is not None:
                    below.write(tree.parts(node, blocks), now)
        while self._loads and self._loads[0][0] <= seen:
            for node in self._loads.pop(0)[1]:
                tree.end_load(node)
        if below is not None:
            below.settle(found, now)

    def set_store(self, store: Store, config: dict[str, Any], block_tokens: int) -> None:
        """Have a store be below the host's memory."""
        self.below = HostStore(store, config, self._memory, block_tokens)

    @property
    def store_chunks(self) -> int:
        """Blocks in the store below, those that are being written among them."""
        return 0 if self.below is None else len(self.below.store.objects)

    def awaits(self, request: Request, now: int) -> bool:
        """Whether a request that may be admitted otherwise waits for its read."""
        return self.below is not None and self.below.awaits(request, now)

    def has_more(self, now: int) -> bool:
        """Whether another look at the same moment finds anything: the end of a copy, or more in the store."""
        if self.next_end is not None and self.next_end <= now:
            return True
        return self.below is not None and self.below.has_news(now)

    def admitted(self, request: Request, cached: int, loaded: int) -> int:
        """Return how many of the tokens that an admission loads were read from a store for it."""
        return 0 if self.below is None else self.below.admitted(request, cached, loaded)

    def flush(self, now: int, kept: int = 0) -> None:
        """Copy to the host what requests have inserted, but the first nodes."""
        tree = self._memory.tree
        written, tree.written = tree.written[kept:], tree.written[:kept]
        if written:
            blocks = sum(blocks for _, blocks in written)
            self._writes.append((self._send("store", blocks, now)[1], written))

    def keep(self) -> None:
        """Have what was inserted as the step ended wait for the next step."""
        self._kept = len(self._memory.tree.written)

    def load(self, now: int) -> None:
        """Begin the loads of the step that was formed, once what had to make room for them is on the host."""
        self._begin_reads(now)
        now = self._copy_evicted(now)
        memory = self._memory
        nodes, blocks = memory.loads, memory.loading_blocks
        memory.loads, memory.loading_blocks = [], 0
        self._begins = now
        if nodes:
            self.loaded_blocks += blocks
            self._load = self._send("load", blocks, now)
            self._loads.append((self._load[1], nodes))

    def begin(self) -> int:
        """Return when the forward pass of the step begins, once what the step has evicted is on the host."""
        self._begins = self._copy_evicted(self._begins)
        return self._begins

    def _copy_evicted(self, now: int) -> int:
        blocks, self._memory.tree.at_once = self._memory.tree.at_once, []
        for count in blocks:
            now = self._send("store", count, now)[1]
        return now

    def stall(self, compute: int) -> int:
        """Return for how long the loads of the step that was formed hold up its forward pass.

        Each layer is computed once it has been loaded and the one before it has been computed.
        """
        if self._load is None:
            return 0
        layers, (begins, loaded) = int(self._config["overlap_layers"]), self._load
        ends = Fraction(self._begins)
        for layer in range(layers):
            ends = max(ends, begins + Fraction((loaded - begins) * (layer + 1), layers))
            ends += Fraction(compute, layers)
        return ceil(ends) - self._begins - compute
