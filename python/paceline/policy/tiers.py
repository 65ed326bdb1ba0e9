"""Tiers of KV below the GPU's prefix cache: their sizes, their rules and their links."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from paceline import _check
from paceline._arguments import typed_fields
from paceline._clock import ticks
from paceline.errors import ConfigError, PolicyError
from paceline.model import stages
from paceline.policy.stores import Store
from paceline.policy.value import Value

if TYPE_CHECKING:
    from paceline.deployment import Instance

__all__ = ["Host", "check_tiers"]

# The bounds of rust/core/src/config/tier.rs.
_MOST_CHUNKS = 2**32 - 2
_MOST_CHUNK_BLOCKS = 2**16
_MOST_OFFERS = 2**16
_MOST_LAYERS = 2**16


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
@typed_fields(PolicyError)
class Host(Value):
    """A tier in the host's memory, which keeps chunks of prefixes as vLLM 0.33.0's OffloadingConnector does.

    Each chunk of a prompt is copied to the host once it is complete, after the step that completes it. A
    request whose prefix goes on in the tier, after the part that the GPU's prefix cache has, is given blocks.
    It waits until the chunks are loaded, and is admitted at the step after that; requests behind it go on.
    Stores and loads have a link each, which makes one copy after the other, beside the steps.

    Attributes
    ----------
    gib
        GiB of the host's memory for the whole instance (vLLM's ``cpu_bytes_to_use`` is in bytes). Give this,
        ``chunks`` or ``ratio``.
    chunks
        Chunks that fit.
    ratio
        Blocks that fit, as a multiple of the GPU's blocks (SGLang's ``--hicache-ratio``).
    chunk_blocks
        KV blocks that are stored and loaded as one, ``block_size`` over the GPU's in vLLM's
        ``kv_connector_extra_config``.
    eviction
        ``"lru"``: the least recently used chunk goes first, the end of a request's prefix before its start.
        ``"arc"``: adaptive replacement, which protects chunks that were used again. Chunks that are copied
        stay. vLLM's ``eviction_policy``.
    prompt_only
        Whether blocks that the output fills are not stored (``offload_prompt_only``).
    write
        When chunks are stored. ``"completed"``: after the step that completes them, as vLLM. The others are
        the values of ``--hicache-write-policy`` in SGLang 0.5.23. ``"through"``: as a request inserts them
        into the prefix cache, those of its prompt after the step that computes them and those of its output
        once it has ended. ``"selective"``: as the second request inserts them while the GPU has them.
        ``"back"``: as the GPU's cache loses them; the step that takes their blocks waits for the copies.
    store_threshold
        Offers of a chunk before it is stored; 0 and 1: it is stored at the first.
    sync_load_tokens
        Tokens that a step may load before its forward pass, which then waits for them. A hit that fits is
        loaded in that way, and its request is admitted at once; 0: every hit is waited for
        (``sync_load_budget_bytes`` over the bytes of a token).
    overlap
        ``"none"``: a request waits for its load. ``"layers"``: it is admitted at once, as in SGLang 0.5.23,
        and its chunks are loaded while its step computes, layer by layer. A layer is computed once it has
        been loaded, so that a load which takes less time than the step costs the time of one layer of it. The
        step computes the last token of the prompt at least.
    layers
        Layers over which such a load is spread; by default those of the model.
    bytes_per_s
        Bytes per second that each GPU copies, in each direction. By default the catalog's PCIe
        bandwidth of the GPU.
    latency_s
        Seconds that each copy takes beside its bytes.
    poll
        When a step looks for copies that have ended: at the ``"begin"`` of its forward pass, as vLLM does
        just after it has launched it, or at its ``"end"``. The scheduler learns of them at the step's end.

    Raises
    ------
    PolicyError
        If a value is out of range, or not one of ``gib``, ``chunks`` and ``ratio`` is given.

    Examples
    --------
    >>> from paceline import Instance
    >>> from paceline.policy import Host
    >>> tier = Host(gib=64).on(Instance(model="llama-3.1-8b", gpu="h100-sxm"))
    >>> tier["chunks"], tier["store"]["block"] == round(2**21 / 64e9 * 1e12)
    (32768, True)
    """

    gib: float | None = None
    chunks: int | None = None
    ratio: float | None = None
    chunk_blocks: int = 1
    eviction: Literal["lru", "arc"] = "lru"
    prompt_only: bool = True
    write: Literal["completed", "through", "selective", "back"] = "completed"
    store_threshold: int = 0
    sync_load_tokens: int = 0
    overlap: Literal["none", "layers"] = "none"
    layers: int | None = None
    bytes_per_s: float | None = None
    latency_s: float = 0.0
    poll: Literal["begin", "end"] = "begin"
    kind: Literal["host"] = "host"

    def __post_init__(self) -> None:
        sizes = self.gib, self.chunks, self.ratio
        if sizes.count(None) != len(sizes) - 1:
            raise PolicyError(
                "one of gib, chunks and ratio of a Host must be given, were "
                f"{self.gib}, {self.chunks} and {self.ratio}"
            )
        if self.ratio is not None and not 0 < self.ratio < 1e9:
            raise PolicyError(f"ratio of a Host must be above 0, was {self.ratio}")
        if self.gib is not None and not 0 < self.gib < 1e9:
            raise PolicyError(f"gib of a Host must be above 0 GiB, was {self.gib}")
        why = "the engine numbers chunks and blocks in 32 bits"
        if self.chunks is not None:
            _check.count("chunks of a Host", self.chunks, most=_MOST_CHUNKS, why=why, error=PolicyError)
        _check.count(
            "chunk_blocks of a Host", self.chunk_blocks, most=_MOST_CHUNK_BLOCKS, why=why, error=PolicyError
        )
        _check.count(
            "store_threshold of a Host",
            self.store_threshold,
            least=0,
            most=_MOST_OFFERS,
            why=why,
            error=PolicyError,
        )
        _check.count(
            "sync_load_tokens of a Host",
            self.sync_load_tokens,
            least=0,
            most=_MOST_CHUNKS,
            why=why,
            error=PolicyError,
        )
        self._check_write()
        self._check_overlap(why)
        if self.bytes_per_s is not None and not 0 < self.bytes_per_s < 1e18:
            raise PolicyError(f"bytes_per_s of a Host must be above 0 bytes, was {self.bytes_per_s}")
        if not 0 <= self.latency_s < 1e6:
            raise PolicyError(f"latency_s of a Host must be 0 or more seconds, was {self.latency_s}")

    def _chunks_beside(self, gpu_blocks: int | None) -> int:
        """Return the chunks that fit beside so many blocks of the GPU."""
        if gpu_blocks is None:
            raise ConfigError("ratio of a Host needs the KV blocks of the GPU: give gpu_blocks")
        chunks = int((self.ratio or 0) * gpu_blocks) // self.chunk_blocks
        if not 1 <= chunks <= _MOST_CHUNKS:
            raise ConfigError(
                f"ratio of a Host must be of 1 to {_MOST_CHUNKS} chunks, was {self.ratio}, which is {chunks}"
            )
        return chunks

    def _check_write(self) -> None:
        if self.write != "completed" and self.store_threshold > 1:
            raise PolicyError(
                "store_threshold of a Host must be 0 or 1 unless write is 'completed', was "
                f"{self.store_threshold}"
            )
        if self.write == "back" and self.chunk_blocks > 1:
            raise PolicyError(
                f"chunk_blocks of a Host must be 1 where write is 'back', was {self.chunk_blocks}: the GPU's "
                "cache loses one block at a time"
            )
        if self.write == "back" and self.prompt_only:
            raise PolicyError(
                "prompt_only of a Host must be False where write is 'back', was True: a block that is "
                "lost may hold output"
            )

    def _check_overlap(self, why: str) -> None:
        if self.overlap == "layers" and self.sync_load_tokens:
            raise PolicyError(
                f"sync_load_tokens of a Host must be 0 where overlap is 'layers', was {self.sync_load_tokens}"
            )
        if self.layers is None:
            return
        if self.overlap == "none":
            raise PolicyError(f"layers of a Host must be None where overlap is 'none', was {self.layers}")
        _check.count("layers of a Host", self.layers, most=_MOST_LAYERS, why=why, error=PolicyError)

    def _overlap_layers(self, instance: Instance) -> int:
        """Return the layers over which a load is spread; 0 where requests wait for it."""
        if self.overlap == "none" or self.layers is not None:
            return self.layers or 0
        model = instance.resolved_model
        if model is None:
            raise ConfigError(
                "tiers of a PrefixCache need a model, or layers of a Host, where its overlap is 'layers'"
            )
        return max(stage.part.layers for stage in stages(model, instance.pipeline_parallel))

    def on(self, instance: Instance, gpu_blocks: int | None = None) -> dict[str, Any]:
        """Return the tier of an instance as the engine reads it; each of its GPUs copies its share.

        ``gpu_blocks``: KV blocks of the GPU, which a ``ratio`` is of.

        Pipeline stages copy side by side: a block takes as long as that of the stage with the most layers.

        Raises
        ------
        ConfigError
            If the size or the time of a block follows from a model or GPU that is missing, no chunk fits, or
            the instance has parts that are not modelled with a tier.
        """
        model, gpu = instance.resolved_model, instance.resolved_gpu
        rule = "tiers of a PrefixCache must be empty"
        if model is not None and model.recurrent is not None:
            raise ConfigError(f"{rule} for {model.name}, whose states a chunk does not have")
        known = model is not None
        block_bytes = instance.block_bytes if known else (instance.kv_bytes or 0) * instance.block_tokens
        gpus = instance.tensor_parallel if known else 1
        pcie_bytes_per_s = None if gpu is None else gpu.pcie_bytes_per_s
        speed = self.bytes_per_s or pcie_bytes_per_s
        if speed is None or (block_bytes == 0 and self.gib is not None):
            raise ConfigError(
                "tiers of a PrefixCache need a model and a gpu, which say how large a block is and how fast "
                "it is copied; a Host with chunks and bytes_per_s, and an Instance with kv_bytes, do without"
            )
        copied = block_bytes
        if model is not None and instance.pipeline_parallel > 1:
            parts = [stage.part for stage in stages(model, instance.pipeline_parallel)]
            tokens = [one.kv_bytes_per_token(instance.tensor_parallel, instance.kv_dtype) for one in parts]
            copied = max(tokens) * instance.block_tokens
        chunks = self.chunks
        if self.ratio is not None:
            chunks = self._chunks_beside(gpu_blocks)
        elif chunks is None:
            chunks = int((self.gib or 0) * 2**30 // (block_bytes * gpus * self.chunk_blocks))
        if not 1 <= chunks <= _MOST_CHUNKS:
            size = block_bytes * gpus * self.chunk_blocks / 2**30
            raise ConfigError(
                f"gib of a Host must hold 1 to {_MOST_CHUNKS} chunks of {size:.6g} GiB, was {self.gib}"
            )
        copies = {
            "fixed": ticks(self.latency_s, "latency_s of a Host"),
            "block": ticks(copied / speed, "the time of a block of a Host"),
        }
        return {
            "chunks": chunks,
            "chunk_blocks": self.chunk_blocks,
            "eviction": self.eviction,
            "prompts_only": self.prompt_only,
            "write": self.write,
            "store_threshold": self.store_threshold,
            "sync_tokens": self.sync_load_tokens,
            "overlap_layers": self._overlap_layers(instance),
            "polls_at_end": self.poll == "end",
            "store": copies,
            "load": copies,
        }


def check_tiers(tiers: object) -> tuple[Host | Store, ...]:
    """Return the tiers of a prefix cache, the first of which is next to the GPU.

    Raises
    ------
    PolicyError
        If they are anything but a `Host`, a `Host` and a `Store` below it, or none.
    """
    rule = "tiers of a PrefixCache must be"
    if not isinstance(tiers, list | tuple) or not all(isinstance(tier, Host | Store) for tier in tiers):
        raise PolicyError(f"{rule} a sequence of Host and Store, was {_check.said(tiers)}")
    if [type(tier) for tier in tiers] not in ([], [Host], [Host, Store]):
        raise PolicyError(
            f"{rule} a Host, or a Host and a Store below it, through which all chunks go, were {list(tiers)}"
        )
    if len(tiers) > 1 and tiers[0].store_threshold > 1:
        raise PolicyError(
            f"store_threshold of a Host must be 0 or 1 above a Store, was {tiers[0].store_threshold}"
        )
    return tuple(tiers)
