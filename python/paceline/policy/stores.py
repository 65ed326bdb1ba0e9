"""Stores of KV below the host's memory, on a disk or beyond the network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from paceline import _check
from paceline._arguments import typed_fields
from paceline._clock import ticks
from paceline.errors import ConfigError, PolicyError
from paceline.policy.value import Value

if TYPE_CHECKING:
    from paceline.deployment import Instance

__all__ = ["Prefetch", "Store", "put_stores_below"]

# The bounds of rust/core/src/config/store.rs.
_MOST_CHUNKS = 2**32 - 2
_WHOLE = 10**6

_SPEEDS = ("read_bytes_per_s", "write_bytes_per_s", "total_read_bytes_per_s", "total_write_bytes_per_s")


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
@typed_fields(PolicyError)
class Prefetch(Value):
    """Read chunks from a `Store` as a request joins the queue; it is admitted with those read in time.

    Attributes
    ----------
    stop
        Until when a request waits for its reads, once it may be admitted otherwise. ``"best_effort"``: it
        does not wait. ``"wait_complete"``: until all have ended. ``"timeout"``: until all have ended, or the
        two times below are over since they began (``--hicache-storage-prefetch-policy``).
    least_tokens
        The fewest tokens that are read (``prefetch_threshold``): if the store has fewer of a request, none
        is.
    base_s, per_ki_token_s
        Seconds of the time-out, and further seconds for each 1,024 tokens that are read
        (``prefetch_timeout_base``, ``prefetch_timeout_per_ki_token``).

    Raises
    ------
    PolicyError
        If a value is out of range.

    Notes
    -----
    Source: SGLang 0.5.23, ``prefetch_from_storage`` and ``check_prefetch_progress`` of
    ``srt/mem_cache/unified_radix_cache.py``. A read that a request no longer waits for goes on, for those
    that come after it; SGLang ends it.

    Examples
    --------
    >>> Prefetch().stop, Prefetch(stop="best_effort", least_tokens=64).least_tokens
    ('timeout', 64)
    """

    stop: Literal["best_effort", "wait_complete", "timeout"] = "timeout"
    least_tokens: int = 256
    base_s: float = 1.0
    per_ki_token_s: float = 0.25

    def __post_init__(self) -> None:
        why = "the engine counts tokens in 32 bits"
        _check.count(
            "least_tokens of Prefetch",
            self.least_tokens,
            least=0,
            most=_MOST_CHUNKS,
            why=why,
            error=PolicyError,
        )
        for name in ("base_s", "per_ki_token_s"):
            if not 0 <= getattr(self, name) < 1e6:
                raise PolicyError(f"{name} of Prefetch must be 0 or more seconds, was {getattr(self, name)}")

    def to_wire(self) -> dict[str, Any]:
        """Return it as the engine reads it."""
        stop: dict[str, Any] = {"kind": self.stop}
        if self.stop == "timeout":
            stop |= {
                "base": ticks(self.base_s, "base_s of Prefetch"),
                "per_ki_token": ticks(self.per_ki_token_s, "per_ki_token_s of Prefetch"),
            }
        return {"least": self.least_tokens, "stop": stop}


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
@typed_fields(PolicyError)
class Store(Value):
    """A tier below a `Host`, of one instance or shared by several.

    Chunks are written to it once they are in the host's memory. A request whose prefix goes on in the store
    waits until the chunks have been read into the host's memory, and is then looked at as if they had been
    there. The rules are those of vLLM 0.33.0's secondary tiers (``vllm/v1/kv_offload/tiering/manager.py``).

    Attributes
    ----------
    read_bytes_per_s, write_bytes_per_s
        Bytes per second from and to the store over the link of one instance, all its GPUs together: of its
        disk, or of its network card.
    gib
        GiB of the store. Give this or ``chunks``, or neither for a store without bounds.
    chunks
        Chunks that fit. A chunk is as large as the host's (``chunk_blocks``).
    shared
        Whether all instances whose policy has an equal store share one. If not, each has its own.
    eviction
        ``"none"``: a full store takes no more, as vLLM's file system tier. ``"lru"``: the least recently
        written or read chunk goes. ``"lease"``: the rules of Mooncake Store, with the three values that
        follow. Chunks that are being read or written stay.
    lease_s
        Seconds for which a chunk is not evicted after it was looked up or read
        (``default_kv_lease_ttl``).
    watermark
        The use above which chunks are evicted, as a share of the store
        (``eviction_high_watermark_ratio``).
    evict_share
        The share of its chunks that is evicted at a time, beside what is above the watermark
        (``eviction_ratio``). Those whose lease ended the longest ago go first.
    total_read_bytes_per_s, total_write_bytes_per_s
        Bytes per second that the store carries for all instances together; None: only their links limit.
    latency_s
        Seconds that each copy takes beside its bytes.
    prefetch
        How chunks are read as requests join the queue. None: they are read as a request is looked at for
        admission, which waits for them.

    Raises
    ------
    PolicyError
        If a value is out of range, or both ``gib`` and ``chunks`` are given.

    Notes
    -----
    The defaults of the lease are those of Mooncake's master (``mooncake-store/include/types.h`` at
    ``00aabe0d``). Its thread looks at the use every 10 ms; here it is looked at as chunks are written.

    Examples
    --------
    >>> from paceline.policy import Host, PrefixCache, Store
    >>> disk = Store(gib=2048, read_bytes_per_s=7e9, write_bytes_per_s=5e9)
    >>> PrefixCache(tiers=[Host(gib=64), disk]).tiers[1].eviction
    'lru'
    """

    read_bytes_per_s: float
    write_bytes_per_s: float
    gib: float | None = None
    chunks: int | None = None
    shared: bool = False
    eviction: Literal["none", "lru", "lease"] = "lru"
    lease_s: float = 5.0
    watermark: float = 0.95
    evict_share: float = 0.05
    total_read_bytes_per_s: float | None = None
    total_write_bytes_per_s: float | None = None
    latency_s: float = 0.0
    prefetch: Prefetch | None = None
    kind: Literal["store"] = "store"

    def __post_init__(self) -> None:
        if self.gib is not None and self.chunks is not None:
            raise PolicyError(
                f"one of gib and chunks of a Store may be given, were {self.gib} and {self.chunks}"
            )
        if self.gib is not None and not 0 < self.gib < 1e12:
            raise PolicyError(f"gib of a Store must be above 0 GiB, was {self.gib}")
        if self.chunks is not None:
            why = "the engine numbers chunks in 32 bits"
            _check.count("chunks of a Store", self.chunks, most=_MOST_CHUNKS, why=why, error=PolicyError)
        for name in _SPEEDS:
            speed = getattr(self, name)
            if speed is not None and not 0 < speed < 1e18:
                raise PolicyError(f"{name} of a Store must be above 0 bytes, was {speed}")
        for name in ("latency_s", "lease_s"):
            if not 0 <= getattr(self, name) < 1e6:
                raise PolicyError(f"{name} of a Store must be 0 or more seconds, was {getattr(self, name)}")
        for name in ("watermark", "evict_share"):
            if not 1 / _WHOLE <= getattr(self, name) <= 1:
                raise PolicyError(
                    f"{name} of a Store must be above 0 and at most 1, was {getattr(self, name)}"
                )

    def on(self, instance: Instance, chunk_blocks: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the store and an instance's link to it as the engine reads them.

        Raises
        ------
        ConfigError
            If the size of a block is not known, no chunk fits, or the instance has pipeline stages.
        """
        if instance.pipeline_parallel > 1:
            stages = instance.pipeline_parallel
            raise ConfigError(
                "tiers of a PrefixCache must have no Store unless pipeline_parallel of an Instance is 1, "
                f"was {stages}"
            )
        bytes_of_block = _bytes_of_block(instance)
        if bytes_of_block == 0:
            raise ConfigError(
                "tiers of a PrefixCache need a model, or an Instance with kv_bytes, for the size of a block"
            )
        chunks = self.chunks
        if self.gib is not None:
            chunks = int(self.gib * 2**30 // (bytes_of_block * chunk_blocks))
            if not 1 <= chunks <= _MOST_CHUNKS:
                size = bytes_of_block * chunk_blocks / 2**30
                raise ConfigError(
                    f"gib of a Store must hold 1 to {_MOST_CHUNKS} chunks of {size:.6g} GiB, was {self.gib}"
                )

        def time_of(speed: float | None) -> int:
            return 0 if speed is None else ticks(bytes_of_block / speed, "the time of a block of a Store")

        eviction: dict[str, Any] = {"kind": self.eviction}
        if self.eviction == "lease":
            eviction |= {
                "ttl": ticks(self.lease_s, "lease_s of a Store"),
                "watermark": round(self.watermark * _WHOLE),
                "share": round(self.evict_share * _WHOLE),
            }
        fixed = ticks(self.latency_s, "latency_s of a Store")
        store = {
            "chunks": chunks,
            "eviction": eviction,
            "write": time_of(self.total_write_bytes_per_s),
            "read": time_of(self.total_read_bytes_per_s),
        }
        link = {
            "write": {"fixed": fixed, "block": time_of(self.write_bytes_per_s)},
            "read": {"fixed": fixed, "block": time_of(self.read_bytes_per_s)},
            **({} if self.prefetch is None else {"prefetch": self.prefetch.to_wire()}),
        }
        return store, link


def _bytes_of_block(instance: Instance) -> int:
    """Return the bytes of a block over all GPUs of an instance; 0 if they are not known."""
    if instance.resolved_model is None:
        return (instance.kv_bytes or 0) * instance.block_tokens
    return instance.block_bytes * instance.tensor_parallel


def put_stores_below(
    wires: list[dict[str, Any]], below: list[tuple[Store, Instance] | None]
) -> list[dict[str, Any]]:
    """Give each instance with a store its link to that, and return the stores as the engine reads them.

    Parameters
    ----------
    wires
        The instances as the engine reads them. Those with a store are replaced.
    below
        The store of each instance, with the instance.

    Raises
    ------
    ConfigError
        If instances that share a store have different models, or chunks of different sizes.
    """
    stores: list[dict[str, Any]] = []
    common: dict[Store, int] = {}
    kinds: list[tuple[object, ...]] = []
    for at, pair in enumerate(below):
        if pair is None:
            continue
        store, instance = pair
        tier = wires[at]["tier"]
        wired, link = store.on(instance, tier["chunk_blocks"])
        number = common.setdefault(store, len(stores)) if store.shared else len(stores)
        size = instance.block_tokens, tier["chunk_blocks"], _bytes_of_block(instance)
        kind = instance.resolved_model, *size
        if number == len(stores):
            stores.append(wired)
            kinds.append(kind)
        elif kinds[number] != kind:
            raise ConfigError(
                "tiers of a PrefixCache must have a shared Store only for instances of one model, whose "
                "chunks have equal tokens and bytes: tokens of a block, blocks of a chunk, bytes of a block "
                f"were {kinds[number][1:]} and {size}"
            )
        wires[at] = {**wires[at], "tier": {**tier, "below": {"store": number, **link}}}
    return stores
