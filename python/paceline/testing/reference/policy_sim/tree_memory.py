"""The KV memory of one instance whose prefix cache is a radix tree.

Follows SGLang 0.5.23: ``UnifiedRadixCache`` (``srt/mem_cache/unified_radix_cache.py``), ``SchedulePolicy``
(``srt/managers/schedule_policy.py``) and ``release_req`` (``srt/managers/schedule_batch.py``).
"""

from __future__ import annotations

from collections.abc import Hashable
from copy import copy
from itertools import count
from typing import Any

from paceline.testing.reference.blocks import blocks_for
from paceline.testing.reference.policy_sim.contents import Contents
from paceline.testing.reference.policy_sim.memory import Memory
from paceline.testing.reference.policy_sim.request import Request
from paceline.testing.reference.policy_sim.settings import Settings
from paceline.testing.reference.policy_sim.step import Step
from paceline.testing.reference.radix import Node, RadixTree


class DetachedBlocks(list[int]):
    """Blocks of a request that has left, until they are freed.

    Attributes
    ----------
    request : Request
        A copy of the request as it left, which has the blocks.
    """

    def __init__(self, request: Request) -> None:
        super().__init__(request.blocks)
        self.request = request


class TreePool:
    """The blocks of requests and those of the tree.

    Attributes
    ----------
    own : set of int
        Blocks of requests that the tree does not have.
    """

    def __init__(self, count: int, tree: RadixTree) -> None:
        self.own: set[int] = set()
        self.lost: list[Hashable] | None = None
        self._count, self._tree = count, tree

    @property
    def known_free(self) -> int:
        """Blocks that no request holds, and whose content could still be hit."""
        return self._tree.unlocked

    @property
    def held(self) -> int:
        """Blocks that at least one request holds."""
        return len(self.own) + sum(len(node.blocks) for node in self._tree.nodes if node.locks)

    @property
    def free(self) -> int:
        """Blocks that no request holds."""
        return self._count - self.held

    @property
    def evictions(self) -> int:
        """Blocks that were evicted from the tree."""
        return self._tree.evictions


class TreeMemory(Memory):
    """Allocates blocks to requests, and frees them, beside a radix tree of those that were computed.

    Blocks that are allocated while a step is formed are taken from the tree once it is (`settle`).
    """

    pool: TreePool  # type: ignore[assignment]

    def __init__(self, blocks: int, settings: Settings, contents: Contents | None) -> None:
        super().__init__(blocks, settings, contents)
        assert settings.prefix_cache is not None
        self._rules: dict[str, Any] = settings.prefix_cache["tree"]
        self.tree: RadixTree = RadixTree()
        self.pool = TreePool(blocks, self.tree)
        self._numbers = count()
        self._passes = 0
        self._nodes: dict[Request, Node] = {}
        self._inserted: dict[Request, int] = {}

    def grow(self, request: Request, tokens: int) -> None:
        """Give a request the blocks that it lacks for ``tokens`` tokens in all."""
        new = [next(self._numbers) for _ in range(self.lacking(request, tokens))]
        self.pool.own.update(new)
        request.blocks += new

    def settle(self, step: Step) -> None:
        """Evict as much as the allocations of the step that is formed take.

        Where blocks have several tokens, an allocation evicts before it counts the blocks that it takes: for
        prompts as many as their tokens fill together, and one for each; for decodes one for each; for decodes
        with drafts, if they take any, one for each beside these.
        """
        if self._block_tokens == 1:
            self.make_room(0)
            return

        def filled(tokens: int) -> int:
            return blocks_for(tokens, self._block_tokens)

        def taken(requests: list[Request]) -> int:
            return sum(filled(step.after(one)) - filled(step.before[one]) for one in requests)

        prompts, decodes = step.prefills, step.decodes
        tokens = sum(step.tokens[one] for one in prompts)
        wanted = filled(tokens) + len(prompts) - taken(prompts) - taken(decodes)
        if self._speculation.drafts:
            of_decodes = len(decodes) if any(step.grown.get(one, 0) for one in decodes) else 0
        else:
            of_decodes = len(decodes) - taken(decodes)
        self.make_room(max(wanted, of_decodes))

    def make_room(self, blocks: int) -> None:
        """Evict until so many blocks hold nothing, or no leaf is left."""
        while self.pool.free - self.tree.unlocked < blocks and self.tree.evict():
            pass

    def give_up_cached(self) -> None:
        """Evict all that no request holds."""
        while self.tree.evict():
            pass

    # -- lookups ---------------------------------------------------------------------

    def _names(self, request: Request, tokens: int) -> list[Hashable]:
        named = max(tokens - self._speculation.hash_lookahead, 0)
        return [self.name(request, position) for position in range(named // self._block_tokens)]

    def hits(self, request: Request, tokens: int) -> list[int]:
        """Return the blocks of the longest cached prefix of a request's ``tokens`` first tokens but one."""
        found, equal = self.tree.find(self._names(request, tokens - 1))
        blocks = [block for node in found[:-1] for block in node.blocks]
        return blocks + found[-1].blocks[:equal] if found else []

    def cached(self, request: Request) -> int:
        """Return the tokens of a waiting request's sequence that a queue is sorted by, but the last."""
        found, equal = self.tree.find(self._names(request, request.tokens))
        blocks = sum(len(node.blocks) for node in found[:-1]) + equal
        return min(blocks * self._block_tokens, request.tokens - 1)

    def depth_first(self, waiting: list[Request]) -> list[Request]:
        """Return waiting requests depth first by the last nodes of their prefixes, behind those that go on.

        Of the nodes below one, that comes first with which the most requests begin, else the older one.
        """
        ends: dict[Node, list[Request]] = {}
        for request in waiting:
            found, _ = self.tree.find(self._names(request, request.tokens))
            ends.setdefault(found[-1] if found else self.tree.root, []).append(request)

        def below(node: Node) -> list[Request]:
            parts = [below(child) for child in node.below.values()]
            parts.sort(key=len, reverse=True)
            return [one for part in parts for one in part] + ends.get(node, [])

        return below(self.tree.root)

    def free_without(self, victims: list[Request], hits: list[int]) -> tuple[int, int]:
        """Return the free blocks, and how many of ``hits`` no request holds."""
        assert not victims, "no request is displaced where the prefix cache is a tree"
        free = {block for node in self.tree.nodes if not node.locks for block in node.blocks}
        return self.free, sum(block in free for block in hits)

    def _copies(self, request: Request, blocks: int) -> list[int]:
        """Take blocks of the CPU's memory for a copy of a request's, each for itself."""
        return self.cpu_pool.take(blocks)

    def move_to_gpu(self, request: Request, tokens: int) -> int:
        """Move a request's KV to blocks of its own on the GPU; return the blocks copied."""
        held = len(request.blocks)
        self.cpu_pool.release(request.blocks)
        self.attach_prefix(request, [], counted=False)
        self.grow(request, tokens)
        request.memory = "gpu"
        return held

    def begin_pass(self, waiting: list[Request], *, sorts: bool) -> None:
        """Use the prefixes of waiting requests: all where the queue is sorted by them, else now and then."""
        if not waiting:
            return
        if sorts:
            for request in waiting:
                self.tree.match(self._names(request, request.tokens))
            return
        passes, self._passes = self._passes, self._passes + 1
        if self._rules["passes"] and passes % self._rules["passes"] == 0:
            for request in reversed(waiting[: self._rules["most"]]):
                self.tree.match(self._names(request, request.tokens))

    def look_up(self, request: Request) -> None:
        """Use the prefix of a request that is to be admitted, whether it is or not."""
        self.tree.match(self._names(request, request.tokens - 1))

    def attach_prefix(self, request: Request, hits: list[int], *, counted: bool = True) -> None:
        """Give a request that holds no block the blocks of its cached prefix."""
        if counted:
            self.queried_tokens += request.tokens
            self.hit_tokens += len(hits) * self._block_tokens
        node, blocks = self.tree.match(
            self._names(request, len(hits) * self._block_tokens + self._speculation.hash_lookahead)
        )
        assert blocks == hits
        self.tree.lock(node)
        self._nodes[request] = node
        request.blocks, request.known = blocks, len(blocks)

    # -- insertions and releases ---------------------------------------------------------------------

    def register_full(self, request: Request, tokens: int) -> None:
        """Do nothing: what a request is scheduled to compute is inserted once it is computed."""

    def insert(self, request: Request) -> None:
        """Insert what a request has computed; its output is apart from its prompt: it is evicted alone."""
        self._insert(request, counted=0)

    def _insert(self, request: Request, counted: int) -> None:
        # The KV of a token that a decision does not know yet is in no prefix.
        computed = request.computed - request.hidden
        names = self._names(request, computed)
        blocks = request.blocks[: len(names)]
        node, _ = self.tree.insert(names, blocks, counted)
        prompt = len(self._names(request, request.spec.prompt_tokens))
        if 0 < prompt < len(names):
            self.tree.insert(names[:prompt], self.tree.blocks_of(node)[:prompt], prompt)
        self.pool.own.difference_update(blocks)
        request.blocks[: len(names)] = self.tree.blocks_of(node)
        self.tree.unlock(self._nodes[request])
        self.tree.lock(node)
        self._nodes[request], request.known = node, len(names)
        self._inserted[request] = computed

    def release(self, request: Request) -> None:
        """Insert what a request has computed, which uses what the tree has of it, and free its blocks.

        One that ends with its prompt was inserted with it, and uses nothing once more.
        """
        if not (request.done and self._inserted.get(request) == request.computed - request.hidden):
            self.insert(request)
        self.preempt(request)

    def detach_blocks(self, request: Request) -> list[int]:
        """Take a request's blocks without freeing them: the path that it locks stays locked."""
        self.leave_set(request)
        left = copy(request)
        self._nodes[left] = self._nodes.pop(request)
        if request in self._inserted:
            self._inserted[left] = self._inserted.pop(request)
        request.blocks, request.known = [], 0
        left.blocks = DetachedBlocks(left)
        return left.blocks

    def release_detached(self, blocks: list[int], request: Request) -> None:
        """Insert what a request had computed as it left, and free its blocks."""
        assert isinstance(blocks, DetachedBlocks)
        self.release(blocks.request)

    def take_over(self, request: Request, stand_in: Request) -> None:
        """Give a request the blocks of its stand-in."""
        super().take_over(request, stand_in)
        if stand_in in self._nodes:
            self._nodes[request] = self._nodes.pop(stand_in)

    def preempt(self, request: Request) -> None:
        """Free a request's blocks, and insert none of them."""
        self.leave_set(request)
        self.pool.own.difference_update(request.blocks)
        self.tree.unlock(self._nodes.pop(request))
        self._inserted.pop(request, None)
        request.blocks, request.known, request.memory = [], 0, None
