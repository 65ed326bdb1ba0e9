"""What a router keeps of the requests that it routed, recounted from scratch whenever it is read.

An instance holds what a list says; active blocks are those of the requests that are unfinished; the owner of
a text is the instance of the first prompt that began with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from paceline.testing.reference.policy_sim.contents import Contents
from paceline.testing.reference.policy_sim.request import Request, TraceRequest

BOOKED = ("index_blocks", "index_tokens", "active_blocks", "active_new_blocks", "active_prefill_tokens")


@dataclass(slots=True)
class _Active:
    """A booked request: its instance, the weight of each of its blocks, and what its output filled."""

    instance: int
    prefill: int
    blocks: list[Hashable]
    weights: dict[Hashable, float]
    seen: int
    filled: int = 0
    filled_weight: float = 1.0


@dataclass(slots=True)
class Books:
    """The books of one router, by the engine's configuration of them.

    Parameters
    ----------
    config : dict
        ``index``, ``active`` and ``tree`` of ``routing.books``, each None if it is not kept.
    requests : sequence of TraceRequest
    prefix_block_tokens : int or None
        Tokens in a block of the trace's ids.
    """

    config: dict[str, Any]
    requests: Sequence[TraceRequest]
    prefix_block_tokens: int | None
    held: dict[int, list[Hashable]] = field(default_factory=dict)
    active: dict[Request, _Active] = field(default_factory=dict)
    prompts: list[tuple[tuple[Hashable, ...], int, int]] = field(default_factory=list)
    role_of: Callable[[int], int] = lambda instance: 0

    # -- what happens ---------------------------------------------------------------------

    def route(self, request: Request, instance: int) -> None:
        """Book a request that is routed to an instance, by an arrival or a migration."""
        known = int(self.field("index_tokens", instance, request)) if self.config["index"] else 0
        if config := self.config["active"]:
            size, prompt = config["block_tokens"], request.spec.prompt_tokens
            self.active.pop(request, None)
            blocks = self._blocks(request, size) if config["prompts"] else []
            if not config["reuses"]:
                blocks = [("own", request.index, position) for position in range(len(blocks))]
            seen = math.ceil((prompt + request.generated) / size)
            filled = seen - math.ceil(prompt / size) if config["outputs"] != "none" else 0
            prefill = 0 if request.generated else prompt - min(known, prompt)
            weights = {block: self._weight(instance, block) for block in blocks}
            self.active[request] = _Active(instance, prefill, blocks, weights, seen, filled)
        self._learn(request, instance, "routed")
        self.insert(request, instance)

    def insert(self, request: Request, instance: int) -> None:
        """Note the prompt of a request in the trees of the instance to which it is routed."""
        if self.config["tree"]:
            self.prompts.append((self._text(request), instance, self.role_of(instance)))

    def token(self, request: Request, instance: int) -> None:
        """Book a token of a request on an instance, the last one as its end."""
        if request.generated == 1:
            if request in self.active:
                self.active[request].prefill = 0
            self._learn(request, instance, "prefilled", "finished")
        self._fill(request)
        if request.done:
            self.active.pop(request, None)
        if request.finished:
            self._learn(request, instance, "finished", output=True)

    def _fill(self, request: Request) -> None:
        config, mine = self.config["active"], self.active.get(request)
        if mine is None or config["outputs"] == "none":
            return
        total = math.ceil((request.spec.prompt_tokens + request.generated) / config["block_tokens"])
        if total <= mine.seen:
            return
        mine.seen, mine.filled = total, mine.filled + 1
        if config["outputs"] == "whole":
            return
        mine.filled_weight = max(0.0, 1 - request.generated / request.spec.output_tokens)
        for block in reversed(mine.blocks):
            if any(block in other.weights for other in self._on(mine.instance) if other is not mine):
                break
            mine.weights[block] = mine.filled_weight

    def _learn(self, request: Request, instance: int, *when: str, output: bool = False) -> None:
        config = self.config["index"]
        if not config or config["learns"] not in when:
            return
        blocks = self._blocks(request, config["block_tokens"], output=output)
        held = self.held.setdefault(instance, [])
        for block in blocks[: config["longest"]]:
            if block in held:
                held.remove(block)
            held.append(block)
            if config["capacity"] is not None:
                del held[: -config["capacity"]]

    # -- what is read ---------------------------------------------------------------------

    def field(self, name: str, instance: int, request: Request | None) -> float:
        """Return a field of an instance, for the request that is routed."""
        for gone in [one for one in self.active if one.rejected or one.left]:
            del self.active[gone]
        if name == "active_prefill_tokens":
            return sum(one.prefill for one in self._on(instance))
        if name == "active_blocks":
            here = self._on(instance)
            weights = {block: weight for one in here for block, weight in one.weights.items()}
            return math.floor(
                sum(weights.values()) + sum(one.filled * one.filled_weight for one in here) + 0.5
            )
        assert request is not None, name
        if name == "active_new_blocks":
            config = self.config["active"]
            blocks = self._blocks(request, config["block_tokens"])
            if not config["prompts"]:
                return 0
            found = {block for one in self._on(instance) for block in one.blocks}
            return len(blocks) - _leading(blocks, found if config["reuses"] else set())
        config = self.config["index"]
        blocks = self._blocks(request, config["block_tokens"])[: config["longest"]]
        leading = _leading(blocks, set(self.held.get(instance, ())))
        return leading if name == "index_blocks" else leading * config["block_tokens"]

    def owner(self, request: Request, above: float, within: Sequence[int] | None) -> int | None:
        """Return the owner of as much of a prompt as was routed before, if it exceeds a share of it.

        Only prompts count that were routed to the roles ``within``, and the owner must have one of them.
        """
        text = self._text(request)
        common = [
            (sum(takewhile(bool, (a == b for a, b in zip(text, other, strict=False)))), at)
            for other, at, role in self.prompts
            if within is None or role in within
        ]
        matched = max((length for length, _ in common), default=0)
        if not matched or matched / len(text) <= above:
            return None
        owner = next(at for length, at in common if length == matched)
        return owner if within is None or self.role_of(owner) in within else None

    # -- their parts ----------------------------------------------------------------------

    def _on(self, instance: int) -> list[_Active]:
        return [one for one in self.active.values() if one.instance == instance]

    def _weight(self, instance: int, block: Hashable) -> float:
        weights = [one.weights[block] for one in self._on(instance) if block in one.weights]
        return weights[0] if weights else 1.0

    def _blocks(self, request: Request, size: int, *, output: bool = False) -> list[Hashable]:
        contents = Contents(self.requests, size, self.prefix_block_tokens or size)
        full = request.spec.prompt_tokens // size
        blocks = [contents.name(request.index, position) for position in range(full)]
        if output and request.spec.session is not None and not any(one.prefix for one in self.requests):
            total = (request.spec.prompt_tokens + request.spec.output_tokens) // size
            blocks += [contents.name(request.index, position) for position in range(full, total)]
        return blocks

    def _text(self, request: Request) -> tuple[Hashable, ...]:
        """Return the characters of a prompt: its tokens, each by its place and what is known of its block."""
        ids, tokens = request.spec.prefix, range(request.spec.prompt_tokens)
        if not any(one.prefix for one in self.requests):
            contents = Contents(self.requests, 1, 1)
            return tuple(contents.name(request.index, token) for token in tokens)
        size = self.prefix_block_tokens or 1
        return tuple(
            (token, ids[: token // size + 1] if token // size < len(ids) else request.index)
            for token in tokens
        )


def _leading(blocks: Sequence[Hashable], among: set[Hashable]) -> int:
    return next((at for at, block in enumerate(blocks) if block not in among), len(blocks))
