"""How prefixes are cached: block by block, or in a radix tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paceline._arguments import typed_fields
from paceline._check import said
from paceline.errors import PolicyError
from paceline.policy.eviction import Eviction
from paceline.policy.expressions.tree import Expr
from paceline.policy.expressions.wire import Names
from paceline.policy.stores import Store
from paceline.policy.tiers import Host, check_tiers
from paceline.policy.value import Value

__all__ = ["LONGEST_PREFIX", "PrefixCache", "RadixTree"]

_MOST = 2**31 - 1

LONGEST_PREFIX = {"most": 128, "shares": 32}
"""SGLang's ``lpm`` (``srt/managers/schedule_policy.py``, 0.5.23) falls back to arrival if more than ``most``
requests wait, and puts a request last that has at most ``shares`` cached tokens and shares as many with one
before it."""


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
@typed_fields(PolicyError)
class RadixTree(Value):
    """Keep prefixes in a radix tree, a node of which has several blocks.

    A prompt is inserted as its chunks end, and its output as the request ends; blocks that are there already
    are freed. A request locks the path to the end of its prefix. Of the other leaves, the one that was used
    the longest ago is evicted, with all its blocks. Requests use a prefix as they are looked up for
    admission, as they are inserted, and while they wait.

    Attributes
    ----------
    passes
        Passes over the queue, of those that may admit requests, from one in which waiting requests use their
        prefixes to the next; 0: they do not. Under ``longest_prefix`` and ``shared_prefix`` they do in each.
    most
        The most requests at the front of the queue that do.
    least_load
        Where a :class:`Host` keeps the tree, too: the fewest tokens that are loaded from it
        (``load_back_threshold``). Fewer are computed.

    Raises
    ------
    PolicyError
        If a number is negative or too large.

    Examples
    --------
    >>> RadixTree().passes
    32

    Notes
    -----
    Source: SGLang 0.5.23, ``srt/mem_cache/unified_cache/unified_tree_core.py``, whose rules its tree in Rust
    has, too; ``_touch_waiting_prefixes`` in ``srt/managers/schedule_policy.py``.
    """

    passes: int = 32
    most: int = 128
    least_load: int = 10

    def __post_init__(self) -> None:
        for name in ("passes", "most", "least_load"):
            value = getattr(self, name)
            if not 0 <= value <= _MOST:
                raise PolicyError(f"{name} of a RadixTree must be 0 to {_MOST}, was {value}")

    def to_wire(self) -> dict[str, int]:
        """Return the tree as the engine reads it."""
        return {"passes": self.passes, "most": self.most, "least_load": self.least_load}


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
@typed_fields(PolicyError, but=("evict", "tiers", "tree"))
class PrefixCache(Value):
    """Keep full blocks for later requests with the same prefix.

    Attributes
    ----------
    unknown_first
        Whether freed blocks without known content are reused before all others
        (vLLM 0.33.0) or in order of their release (vLLM 0.11.0).
    evict
        The order in which cached blocks that no request holds are evicted: an `Eviction`, or a number as its
        ``order``. None: the least recently freed first.
    tiers
        The tiers that keep chunks of prefixes below the GPU, the nearest first: a :class:`Host`, and a
        :class:`Store` below it if there is one. Not beside states of a hybrid model or pipeline stages.
    tree
        A `RadixTree` that has the prefixes, as in SGLang; with ``evict`` and ``unknown_first`` as they are.
        Of ``tiers`` it may have a `Host` with ``overlap="layers"``, ``prompt_only=False``, ``poll="end"`` and
        one of SGLang's ``write`` policies, to which whole nodes are written; and a `Store` with a `Prefetch`
        below it, unless ``write`` is ``"back"``. None: each block is cached by itself, as in vLLM.

    Raises
    ------
    PolicyError
        If ``evict`` is neither, or is given without ``unknown_first``; of ``tiers`` that are not modelled; or
        if another is given beside a ``tree``.

    Examples
    --------
    The last blocks of prompts first:

    >>> from paceline.policy import PrefixCache, block
    >>> PrefixCache(evict=-block.position).evict.order
    -block.position

    A tier in the host's memory:

    >>> from paceline.policy import Host
    >>> PrefixCache(tiers=[Host(gib=64)])
    PrefixCache(tiers=[Host(gib=64)])

    Prefixes in a tree, whose waiting requests never use theirs before they are looked up:

    >>> from paceline.policy import RadixTree
    >>> PrefixCache(tree=RadixTree(passes=0))
    PrefixCache(tree=RadixTree(passes=0))

    A tree that the host's memory has, too:

    >>> host = Host(gib=64, write="through", overlap="layers", prompt_only=False, poll="end")
    >>> PrefixCache(tree=RadixTree(), tiers=[host]).tree.least_load
    10
    """

    unknown_first: bool = True
    evict: Eviction | Expr | float | None = None
    tiers: Sequence[Host | Store] = ()
    tree: RadixTree | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "tiers", check_tiers(self.tiers))
        self._check_tree()
        if self.evict is None:
            return
        if not isinstance(self.evict, Eviction):
            object.__setattr__(self, "evict", Eviction(order=self.evict))
        if not self.unknown_first:
            raise PolicyError(
                "evict of a PrefixCache must be None unless unknown_first: blocks without known content have "
                "no place in the order"
            )

    def _check_tree(self) -> None:
        if self.tree is None:
            return
        if not isinstance(self.tree, RadixTree):
            raise PolicyError(f"tree of a PrefixCache must be a RadixTree or None, was {said(self.tree)}")
        others = {
            "evict": (self.evict, None, "as a tree evicts its leaves"),
            "unknown_first": (self.unknown_first, True, "as a tree has blocks of known content only"),
        }
        for name, (value, only, why) in others.items():
            if value != only:
                raise PolicyError(
                    f"{name} of a PrefixCache must be {only!r} beside a tree, {why}, was {value!r}"
                )
        for tier in self.tiers:
            if isinstance(tier, Host):
                _check_host(tier, below=self.tiers[1:])
            elif tier.prefetch is None:
                raise PolicyError(
                    "prefetch of a Store must be a Prefetch beside a tree, as in SGLang, was None"
                )

    def to_wire(self, names: Names) -> dict[str, object]:
        """Return the cache as the engine reads it."""
        wire: dict[str, object] = {"unknown_first": self.unknown_first}
        if isinstance(self.evict, Eviction):
            wire["evict"] = self.evict.to_wire(names)
        if self.tree is not None:
            wire["tree"] = self.tree.to_wire()
        return wire


def _check_host(tier: Host, *, below: Sequence[Host | Store]) -> None:
    """Check the host's memory of a tree, whose nodes are written and evicted whole."""
    if below and tier.write == "back":
        raise PolicyError(
            "write of a Host must be 'through' or 'selective' beside a tree above a Store, which is given no "
            "nodes as they are evicted, was 'back'"
        )
    rules = {
        "chunk_blocks": (tier.chunk_blocks == 1, "1"),
        "eviction": (tier.eviction == "lru", "'lru'"),
        "prompt_only": (not tier.prompt_only, "False"),
        "write": (tier.write != "completed", "'through', 'selective' or 'back'"),
        "overlap": (tier.overlap == "layers", "'layers'"),
        "poll": (tier.poll == "end", "'end'"),
    }
    for name, (kept, must) in rules.items():
        if not kept:
            raise PolicyError(
                f"{name} of a Host must be {must} beside a tree, as in SGLang, was {getattr(tier, name)!r}"
            )
