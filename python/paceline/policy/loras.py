"""LoRA adapters: how many run at once, and the time to load one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from paceline._arguments import typed, typed_fields
from paceline.errors import PolicyError
from paceline.policy.checks import duration, whole
from paceline.policy.value import Value

__all__ = ["Loras"]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
@typed_fields(PolicyError)
class Loras(Value):
    """Run requests of a limited number of LoRA adapters at once.

    A trace says by its column ``adapter`` which one a request runs with. A waiting
    request of another adapter than the running ones is passed over while as many run
    as may; requests behind it are looked at. The GPU keeps that many adapters. If
    the adapter of a request that is admitted is not among them, it is loaded in place of the
    one that has not been used for the longest, and the step takes longer by `load_s`.

    Parameters
    ----------
    most
        Adapters of running requests, and adapters in the GPU's memory
        (``max_loras``; vLLM's default is 1).
    load_s
        Seconds to load an adapter into the GPU's memory, one after another before the
        step. vLLM copies it from the host's memory, or reads it from a disk if it is
        not there (``max_cpu_loras``), which is not modelled.

    Raises
    ------
    PolicyError
        If `most` is not at least 1, or the time is out of range.

    Examples
    --------
    >>> Loras(4, load_s=0.02).to_wire(1e9)
    {'adapters': 4, 'adapter_load': 20000000}

    Notes
    -----
    Source: vLLM 0.33.0, ``vllm/v1/core/sched/scheduler.py`` (the waiting loop) and
    ``vllm/lora/worker_manager.py`` (``LRUCacheWorkerLoRAManager``). That adapters
    make steps slower is not modelled.
    """

    positional: ClassVar = ("most",)

    most: int
    load_s: float = 0.0

    def __post_init__(self) -> None:
        whole("most of Loras", self.most)
        duration("load_s of Loras", self.load_s)

    @typed(PolicyError)
    def to_wire(self, ticks_per_s: float) -> dict[str, int]:
        """Return it as the engine reads it."""
        return {"adapters": self.most, "adapter_load": round(self.load_s * ticks_per_s)}
