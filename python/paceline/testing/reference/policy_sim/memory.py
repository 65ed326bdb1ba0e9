"""The KV memory of one instance: blocks on the GPU, blocks of the CPU, and the prefix cache."""

from __future__ import annotations

from collections.abc import Hashable

from paceline.testing.reference.blocks import BlockPool, blocks_for
from paceline.testing.reference.policy_sim.contents import Contents
from paceline.testing.reference.policy_sim.eviction import EvictingPool
from paceline.testing.reference.policy_sim.request import Request
from paceline.testing.reference.policy_sim.settings import Settings
from paceline.testing.reference.policy_sim.step import Step


class Memory:
    """Allocates blocks to requests, and frees them.

    Parameters
    ----------
    blocks : int
        Blocks of the GPU.
    settings : Settings
    contents : Contents or None
        What the blocks of the trace's requests hold; None where prefixes are not cached.
    """

    def __init__(self, blocks: int, settings: Settings, contents: Contents | None) -> None:
        cache = settings.prefix_cache
        evict = None if cache is None else cache.get("evict")
        self.pool = (
            BlockPool(blocks, unknown_first=cache is None or cache["unknown_first"])
            if evict is None
            else EvictingPool(blocks, evict)
        )
        self.cpu_pool = BlockPool(settings.swap["blocks"] if settings.swap else 0)
        self.swap_overflows = 0
        self.queried_tokens, self.hit_tokens = 0, 0  # of the prefix cache, once an admission
        self._swaps = settings.swap is not None
        self._block_tokens = self.block_tokens = settings.block_tokens
        self._state_blocks = settings.state_blocks
        self._contents = contents
        self._speculation = settings.speculation

    @property
    def free(self) -> int:
        """Blocks of the GPU that no request holds."""
        return self.pool.free

    def pass_time(self, now: int) -> None:
        """Note the present moment, where the eviction of blocks depends on it."""
        if isinstance(self.pool, EvictingPool):
            self.pool.now = now

    def blocks_for(self, tokens: int) -> int:
        """Blocks of a request with ``tokens`` tokens: those that they fill, and those of its states."""
        return blocks_for(tokens, self._block_tokens) + (self._state_blocks if tokens else 0)

    def lacking(self, request: Request, tokens: int) -> int:
        """Blocks that a request lacks for ``tokens`` tokens in all."""
        return max(self.blocks_for(tokens) - len(request.blocks), 0)

    def grow(self, request: Request, tokens: int) -> None:
        """Give a request the blocks that it lacks for ``tokens`` tokens in all."""
        request.blocks += self.pool.take(self.lacking(request, tokens))

    # -- prefix cache ---------------------------------------------------------------------

    def hits(self, request: Request, tokens: int) -> list[int]:
        """Return the blocks of the longest cached prefix of a request's first ``tokens`` tokens but the last.

        Blocks that no other request can share are found once the request has released them.
        """
        found: list[int] = []
        if self._contents is not None:
            for position in range((tokens - 1) // self._block_tokens):
                name = self.name(request, position)
                own = name == ("own", request.index, position)
                block = self.pool.find_released(name) if own else self.pool.find(name)
                if block is None:
                    break
                found.append(block)
        return found[:-1] if self._speculation.drops_last_block else found

    def cached(self, request: Request) -> int:
        """Return the tokens of a waiting request's prompt that a queue is sorted by."""
        return len(self.hits(request, request.tokens)) * self._block_tokens

    def cached_anywhere(self, request: Request) -> int:
        """Return the same, those that only the host's memory has included."""
        return self.cached(request)

    def start(self, request: Request, tokens: int) -> Hashable | None:
        """Name the first blocks of a request, up to the one that ends at ``tokens`` tokens or after.

        None: it is shorter.
        """
        last = blocks_for(tokens, self._block_tokens) - 1
        if self._contents is None or (last + 1) * self._block_tokens > request.tokens:
            return None
        return self._contents.name(request.index, last)

    def name(self, request: Request, position: int) -> Hashable:
        """Name what a full block holds, with the token after it where the hash of a block covers that."""
        assert self._contents is not None
        if not self._speculation.hash_lookahead:
            return self._contents.name(request.index, position)
        after = self._contents.name(request.index, position + 1)
        own = after == ("own", request.index, position + 1)
        return ("own", request.index, position) if own else ("before", after)

    def attach_prefix(self, request: Request, hits: list[int], *, counted: bool = True) -> None:
        """Give a request that holds no block the blocks of its cached prefix.

        The lookup of a request that is handed over is not counted: the request does not compute its prompt.
        """
        if counted and self._contents is not None:
            self.queried_tokens += request.tokens
            self.hit_tokens += len(hits) * self._block_tokens
        self.pool.touch(hits)
        request.blocks = hits.copy()
        request.known = len(hits)

    def register_full(self, request: Request, tokens: int) -> None:
        """Register the full blocks of a request's first ``tokens`` tokens in the prefix cache."""
        if self._contents is None:
            return
        full = self._known_blocks(request, tokens)
        for position in range(request.known, full):
            self.pool.register(request.blocks[position], self.name(request, position))
        request.known = max(request.known, full)

    def _known_blocks(self, request: Request, tokens: int) -> int:
        """Return how many blocks of a request's first ``tokens`` tokens are full and of known content."""
        if self._contents is None:
            return 0
        # A draft is not known, and with a draft head a block is only once the token after it is. A step that
        # is decided ahead does not know the tokens of the step before it.
        most = request.tokens - request.hidden - self._speculation.hash_lookahead
        return min(tokens - request.hidden, most) // self._block_tokens

    def register_known(self, request: Request) -> None:
        """Register what a request has computed, once the outcome of its latest step is known."""
        if not request.in_set:
            self.register_full(request, request.computed)

    def leave_set(self, request: Request) -> None:
        """Register what a member of the decode set has generated, as it leaves the set."""
        if request.in_set:
            request.in_set = False
            self.register_full(request, request.computed)

    # -- freeing and swapping ----------------------------------------------------------------------

    def detach_blocks(self, request: Request) -> list[int]:
        """Take a request's blocks without freeing them; return them in the order of freeing, last first."""
        self.leave_set(request)
        blocks, request.blocks, request.known = request.blocks[::-1], [], 0
        return blocks

    def release_detached(self, blocks: list[int], request: Request) -> None:
        """Free blocks that were taken from a request."""
        self.pool.release(blocks, request)

    def take_over(self, request: Request, stand_in: Request) -> None:
        """Give a request the blocks of its stand-in."""
        request.blocks, request.known = stand_in.blocks, stand_in.known

    def release(self, request: Request) -> None:
        """Free a request's blocks on the GPU; its last block is reused first."""
        self.pool.release(self.detach_blocks(request), request)
        request.memory = None

    def preempt(self, request: Request) -> None:
        """Free the blocks of a request that is preempted."""
        self.release(request)

    # -- a prefix cache that is filled by insertions ------------------------------------------------

    def begin_pass(self, waiting: list[Request], *, sorts: bool) -> None:
        """Note that requests are going to be admitted."""

    def look_up(self, request: Request) -> None:
        """Note that a request is to be admitted, whether it is or not."""

    def insert(self, request: Request) -> None:
        """Note that a request has computed a chunk."""

    def settle(self, step: Step) -> None:
        """Note that a step is formed."""

    def make_room(self, blocks: int) -> None:
        """Note that blocks are wanted that hold nothing."""

    def give_up_cached(self) -> None:
        """Note that not all decodes find blocks."""

    def lose(self, request: Request) -> None:
        """Note that a request has lost all that it has computed."""
        request.computed, request.memory, request.decoding = 0, None, False

    def keep_on_cpu(self, request: Request, blocks: int) -> bool:
        """Keep a request's KV in the CPU's memory; if there is no room, it is lost."""
        if self._swaps and blocks <= self.cpu_pool.free:
            request.blocks, request.memory = self._copies(request, blocks), "cpu"
            return True
        self.swap_overflows += self._swaps
        self.lose(request)
        return False

    def _copies(self, request: Request, blocks: int) -> list[int]:
        """Take blocks of the CPU's memory for a copy of a request's; equal ones of requests are shared."""
        known = self._known_blocks(request, request.computed)
        taken = []
        for position in range(blocks):
            name = self.name(request, position) if position < known else None
            block = None if name is None else self.cpu_pool.find(name)
            if block is not None:
                self.cpu_pool.touch([block])
            else:
                (block,) = self.cpu_pool.take(1)
                if name is not None:
                    self.cpu_pool.register(block, name)
            taken.append(block)
        return taken

    def move_to_gpu(self, request: Request, tokens: int) -> int:
        """Move a request's KV to the GPU, with room for ``tokens`` tokens; return the blocks copied.

        The request takes the blocks that the prefix cache still has of it; all are copied nevertheless. The
        KV of a request that has just migrated here is in no memory of the instance, and copied at no charge.
        """
        held = len(request.blocks)
        self.cpu_pool.release(request.blocks)
        cached = self.hits(request, request.computed + 1) if request.memory == "cpu" else []
        self.attach_prefix(request, cached, counted=False)
        request.blocks += self.pool.take(max(self.blocks_for(tokens), held) - len(cached))
        request.memory = "gpu"
        return held

    def free_without(self, victims: list[Request], hits: list[int]) -> tuple[int, int]:
        """Return the free blocks once some requests have freed theirs, and how many of ``hits`` are free."""
        given = [block for victim in victims for block in victim.blocks]
        left = {block: self.pool.references(block) - given.count(block) for block in {*given, *hits}}
        freed = sum(left[block] == 0 for block in set(given))
        return self.free + freed, sum(left[block] == 0 for block in hits)
