"""The KV memory of one instance whose prefix tree is on the GPU and in the host's memory.

Follows SGLang 0.5.23: ``UnifiedRadixCache`` with ``--enable-hierarchical-cache``
(``srt/mem_cache/unified_radix_cache.py``).
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from paceline.testing.reference.hosted_radix import HostedTree
from paceline.testing.reference.policy_sim.contents import Contents
from paceline.testing.reference.policy_sim.memory import Memory
from paceline.testing.reference.policy_sim.request import Request
from paceline.testing.reference.policy_sim.settings import Settings
from paceline.testing.reference.policy_sim.step import Step
from paceline.testing.reference.policy_sim.tree_memory import TreeMemory, TreePool
from paceline.testing.reference.radix import Node


class HostedMemory(TreeMemory):
    """Allocates blocks to requests beside a tree that is on the GPU and in the host's memory.

    Attributes
    ----------
    tree : HostedTree
    loads : list of Node
        The last node of each load of the step that is formed.
    loading_blocks : int
        Blocks of these loads.
    """

    tree: HostedTree

    def __init__(
        self, blocks: int, settings: Settings, contents: Contents | None, tier: dict[str, Any]
    ) -> None:
        super().__init__(blocks, settings, contents)
        self.tree = HostedTree(tier["chunks"], tier["write"])
        self.pool = TreePool(blocks, self.tree)
        self.loads: list[Node] = []
        self.loading_blocks = 0
        self._grown = 0  # blocks that the step which is formed takes once it is

    def open(self) -> None:
        """Begin to form a step."""
        self._grown = 0

    def grow(self, request: Request, tokens: int) -> None:
        """Give a request the blocks that it lacks, which are allocated once the step is formed."""
        self._grown += self.lacking(request, tokens)
        super().grow(request, tokens)

    def settle(self, step: Step) -> None:
        """Evict as much as the allocations of the step that is formed take."""
        self._grown = 0
        super().settle(step)

    def cached_anywhere(self, request: Request) -> int:
        """Return the tokens of a waiting request's sequence that the GPU and the host have, but the last."""
        names = self._names(request, request.tokens)
        found, equal = self.tree.find(names)
        blocks = sum(len(node.names) for node in found[:-1]) + equal
        return min(blocks * self._block_tokens, request.tokens - 1)

    def cached(self, request: Request) -> int:
        """Return the tokens of a waiting request's sequence that the GPU has."""
        found, equal = self.tree.find(self._names(request, request.tokens))
        lengths = [len(node.names) for node in found[:-1]] + [equal]
        blocks = sum(length for node, length in zip(found, lengths, strict=False) if node.blocks)
        return min(blocks * self._block_tokens, request.tokens - 1)

    def loadable(self, request: Request) -> int:
        """Return the tokens of a request after those on the GPU that are loaded with its admission."""
        tokens = self.tree.host_part(self._names(request, request.tokens - 1)) * self._block_tokens
        return tokens if tokens >= self._rules.get("least_load", 0) else 0

    def attach_prefix(self, request: Request, hits: list[int], *, counted: bool = True) -> None:
        """Give a request that holds no block the blocks of its prefix on the GPU."""
        assert counted
        self.queried_tokens += request.tokens
        self.hit_tokens += len(hits) * self._block_tokens
        node, blocks = self.tree.match(self._names(request, request.tokens - 1))
        assert blocks == hits
        while node.names and not node.blocks:
            assert node.above is not None
            node = node.above
        self.tree.lock(node)
        self._nodes[request] = node
        request.blocks, request.known = blocks, len(blocks)

    def load(self, request: Request, tokens: int) -> None:
        """Load what the host has of a request after its prefix on the GPU, once that has room."""
        count = tokens // self._block_tokens
        end, _ = self.tree.match(self._names(request, request.tokens - 1))
        self.tree.lock(end)
        # What the step has given to others is not allocated yet.
        while self.pool.free - self.tree.unlocked + self._grown < count and self.tree.evict():
            pass
        new = [next(self._numbers) for _ in range(count)]
        self.tree.load(end, new)
        self.tree.unlock(self._nodes[request])
        self._nodes[request] = end
        request.blocks = request.blocks + new
        request.known = len(request.blocks)
        self.loads.append(end)
        self.loading_blocks += count

    def names_before_last(self, request: Request) -> list[Hashable]:
        """Return the names of the whole blocks of a request's sequence but its last token."""
        return self._names(request, request.tokens - 1)

    def insert(self, request: Request) -> None:
        """Insert what a request has computed; its output is apart from its prompt."""
        self._insert(request, counted=self._inserted.get(request, 0) // self._block_tokens)


def memory_of(config: dict[str, Any], settings: Settings, contents: Contents | None) -> Memory:
    """Return the empty memory of an instance."""
    tree = (settings.prefix_cache or {}).get("tree")
    if tree and config.get("tier"):
        return HostedMemory(config["blocks"], settings, contents, config["tier"])
    return (TreeMemory if tree else Memory)(config["blocks"], settings, contents)
