"""The copies between the GPU and the host of a prefix tree, and what a step learns of them.

Follows SGLang 0.5.23: ``start_writing``, ``start_loading`` (``srt/managers/cache_controller.py``) and
``check_hicache_events`` (``srt/mem_cache/unified_radix_cache.py``).
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil
from typing import Any

from paceline.testing.reference.policy_sim.hosted_memory import HostedMemory
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
        self._writes: list[tuple[int, list[Node]]] = []  # the end of each copy, and its nodes
        self._loads: list[tuple[int, list[Node]]] = []
        self._load: tuple[int, int] | None = None  # of the step that was formed
        self._begins = 0  # its forward pass
        self._kept = 0  # nodes that wait for the next step

    @property
    def used(self) -> int:
        """Blocks in the host's memory."""
        return self._memory.tree.used

    @property
    def next_end(self) -> int | None:
        """When the next copy ends whose end no step has seen."""
        return min((ends for ends, _ in self._writes + self._loads), default=None)

    def _send(self, way: str, blocks: int, now: int) -> tuple[int, int]:
        begins = max(now, self._free[way])
        times = self._config[way]
        self._free[way] = begins + int(times["fixed"]) + int(times["block"]) * blocks
        return begins, self._free[way]

    def open(self, now: int, seen: int) -> None:
        """Begin to form a step, which sees the ends of copies up to a moment."""
        self._memory.open()
        self._load = None
        # Of requests that were cancelled since the last step.
        self.flush(now, self._kept)
        self.learn(seen)

    def learn(self, seen: int) -> None:
        """See the ends of copies up to a moment."""
        tree = self._memory.tree
        for copies, end in ((self._writes, tree.unlock), (self._loads, tree.end_load)):
            while copies and copies[0][0] <= seen:
                for node in copies.pop(0)[1]:
                    end(node)

    def flush(self, now: int, kept: int = 0) -> None:
        """Copy to the host what requests have inserted, but the first nodes."""
        tree = self._memory.tree
        written, tree.written = tree.written[kept:], tree.written[:kept]
        if written:
            blocks = sum(blocks for _, blocks in written)
            self._writes.append((self._send("store", blocks, now)[1], [node for node, _ in written]))

    def keep(self) -> None:
        """Have what was inserted as the step ended wait for the next step."""
        self._kept = len(self._memory.tree.written)

    def load(self, now: int) -> None:
        """Begin the loads of the step that was formed, once what had to make room for them is on the host."""
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
