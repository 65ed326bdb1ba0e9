"""What a router keeps of the requests that it routes: prefixes, active blocks, prompts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from paceline._arguments import typed, typed_fields
from paceline._check import said
from paceline.errors import PolicyError
from paceline.policy.checks import flag, whole
from paceline.policy.value import Value

__all__ = ["BOOKED", "ActiveBlocks", "Learns", "PrefixIndex", "PromptTree", "TrackedOutputs", "books_to_wire"]

Learns = Literal["routed", "prefilled", "finished"]
"""When a prefix index learns that an instance holds blocks.

``routed``: those of a prompt, as its request is routed. ``prefilled``: those of a
prompt, at the first token. ``finished``: the same, and those of prompt and output at
the end.
"""

TrackedOutputs = Literal["none", "whole", "decaying"]
"""What the books of active blocks count of outputs."""

_MOST_BLOCK_TOKENS = 2**20


def _block_tokens(of: str, value: object) -> None:
    whole(f"block_tokens of {of}", value)
    if value > _MOST_BLOCK_TOKENS:  # type: ignore[operator]  # a number, by the line above
        raise PolicyError(f"block_tokens of {of} must be at most {_MOST_BLOCK_TOKENS}, was {said(value)}")


def _one_of(what: str, value: object, legal: Any) -> None:  # noqa: ANN401 - a Literal
    if value not in get_args(legal):
        raise PolicyError(f"{what} must be one of {', '.join(get_args(legal))}, was {said(value)}")


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
@typed_fields(PolicyError)
class PrefixIndex(Value):
    """Keep an approximate index of the prompt blocks that each instance holds.

    The index learns from the router's decisions, or from events of the instances,
    and does not look into their memory: an instance may hold more or less. Rules
    read it as ``inst.index_blocks(req)`` and ``inst.index_tokens(req)``.

    Attributes
    ----------
    block_tokens
        Tokens in a block: a divisor or a multiple of the trace's
        ``prefix_block_tokens``. Only full blocks count.
    capacity
        Blocks of each instance, of which the least recently learned are forgotten;
        None: no limit.
    longest
        Leading blocks of a prompt that are looked up and learned; None: all.
    learns
        When the index learns blocks, see `Learns`. What is in the blocks of an
        output is known for traces with sessions; of a trace with prefix ids,
        ``finished`` learns no more than ``prefilled``.

    Examples
    --------
    >>> PrefixIndex(capacity=31_250)
    PrefixIndex(capacity=31250)
    """

    block_tokens: int = 16
    capacity: int | None = None
    longest: int | None = None
    learns: Learns = "routed"

    def __post_init__(self) -> None:
        _block_tokens("a PrefixIndex", self.block_tokens)
        for name in ("capacity", "longest"):
            if getattr(self, name) is not None:
                whole(f"{name} of a PrefixIndex", getattr(self, name))
        _one_of("learns of a PrefixIndex", self.learns, Learns)

    def to_wire(self) -> dict[str, Any]:
        """Return the index as the engine reads it."""
        return {
            "block_tokens": self.block_tokens,
            "capacity": self.capacity,
            "longest": self.longest,
            "learns": self.learns,
        }


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
@typed_fields(PolicyError)
class ActiveBlocks(Value):
    """Keep books of the blocks of each instance's unfinished requests, and of its unfinished prefills.

    A request is booked as it is routed, its prefill ends with its first token, and
    it leaves the books as it finishes. Rules read them as ``inst.active_blocks``,
    ``inst.active_new_blocks(req)`` and ``inst.active_prefill_tokens``.

    Attributes
    ----------
    block_tokens
        Tokens in a block, as of a `PrefixIndex`.
    prompts
        Whether the full blocks of prompts count.
    reuses
        Whether a block that several requests of an instance have counts once.
    outputs
        Which blocks of outputs count. ``none``; ``whole``: each block that an
        output begins; ``decaying``: the same, and each of them sets the weight of
        the request's blocks, as far as no other request has them, to the share of
        its output that is still to come. The last one reads how long outputs will
        be, so the policy uses an oracle.

    Examples
    --------
    >>> ActiveBlocks(block_tokens=64, outputs="whole")
    ActiveBlocks(block_tokens=64, outputs='whole')
    """

    block_tokens: int = 16
    prompts: bool = True
    reuses: bool = True
    outputs: TrackedOutputs = "none"

    def __post_init__(self) -> None:
        _block_tokens("ActiveBlocks", self.block_tokens)
        for name in ("prompts", "reuses"):
            flag(f"{name} of ActiveBlocks", getattr(self, name))
        _one_of("outputs of ActiveBlocks", self.outputs, TrackedOutputs)

    def to_wire(self) -> dict[str, Any]:
        """Return the books as the engine reads them."""
        return {
            "block_tokens": self.block_tokens,
            "prompts": self.prompts,
            "reuses": self.reuses,
            "outputs": self.outputs,
        }


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
@typed_fields(PolicyError)
class PromptTree(Value):
    """Keep a radix tree of the prompts that were routed, with an owner for each node.

    The owner is the instance to which the prompt was routed that created the node.
    The rule `prompt_owner` reads the tree. Nothing is evicted from it.

    Attributes
    ----------
    block_tokens
        Tokens in a block of text, for a trace that says by sessions what prompts
        share; a trace with prefix ids has blocks of its own.
    text
        What is compared. ``tokens``: each token is a character, equal where the
        trace's blocks are; ``hex``: each block is the eight hexadecimal digits of
        its id's lower 32 bits, so that different blocks may begin alike. That needs
        a trace with prefix ids.

    Examples
    --------
    >>> PromptTree()
    PromptTree()
    """

    block_tokens: int = 16
    text: Literal["tokens", "hex"] = "tokens"

    def __post_init__(self) -> None:
        _block_tokens("a PromptTree", self.block_tokens)
        _one_of("text of a PromptTree", self.text, Literal["tokens", "hex"])

    def to_wire(self) -> dict[str, Any]:
        """Return the tree as the engine reads it."""
        return {"block_tokens": self.block_tokens, "text": self.text}


BOOKED: Final[dict[str, tuple[str, str]]] = {
    "index_blocks": ("index", "PrefixIndex()"),
    "index_tokens": ("index", "PrefixIndex()"),
    "active_blocks": ("active", "ActiveBlocks()"),
    "active_new_blocks": ("active", "ActiveBlocks()"),
    "active_prefill_tokens": ("active", "ActiveBlocks()"),
}
"""The fields that a router keeps in books: the part of a policy that each needs, and an example of it."""


@typed(PolicyError)
def books_to_wire(
    index: PrefixIndex | None, active: ActiveBlocks | None, tree: PromptTree | None
) -> dict[str, Any]:
    """Return the books of a policy as the engine reads them."""
    return {
        "index": None if index is None else index.to_wire(),
        "active": None if active is None else active.to_wire(),
        "tree": None if tree is None else tree.to_wire(),
    }
