"""The stages of a scheduler that form a step, and the rules that they share."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from paceline._arguments import typed, typed_fields
from paceline._check import is_number, said
from paceline.errors import ConfigError, PolicyError
from paceline.policy.value import Value

if TYPE_CHECKING:
    from paceline.deployment import Instance

__all__ = [
    "Admit",
    "Decodes",
    "Gather",
    "Groups",
    "Layered",
    "PcieSwap",
    "Preemption",
    "Prefills",
    "Recompute",
    "Running",
    "Select",
    "Stage",
    "Swap",
    "SwapIn",
    "preemption_to_wire",
    "stage_to_wire",
]


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
@typed_fields(PolicyError)
class Running(Value):
    """Schedule all running requests, in order of admission."""

    kind: Literal["running"] = "running"


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
@typed_fields(PolicyError)
class Decodes(Value):
    """Schedule the running requests that decode, in order of admission.

    Attributes
    ----------
    charged
        Whether decodes use up the step's tokens.
    seated
        Whether decodes share ``max_num_seqs`` with the prefills of the step.
    over_prefills
        Whether running prefills can be preempted for decodes.
    sits_out
        Whether decodes leave a step to its prefills if not all of them find blocks
        beside these. Their tokens are then taken from the step's before those of
        prefills.
    """

    charged: bool = True
    seated: bool = False
    over_prefills: bool = True
    sits_out: bool = False
    kind: Literal["decodes"] = "decodes"


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
@typed_fields(PolicyError)
class Prefills(Value):
    """Schedule running prefills with the tokens that are left, in order of admission."""

    kind: Literal["prefills"] = "prefills"


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
@typed_fields(PolicyError)
class SwapIn(Value):
    """Resume swapped-out requests while their blocks fit.

    Attributes
    ----------
    unless_preempted
        Only in steps in which no request was preempted.
    """

    unless_preempted: bool = True
    kind: Literal["swap_in"] = "swap_in"


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
@typed_fields(PolicyError)
class Gather(Value):
    """Wait until a batch has enough requests to start.

    Attributes
    ----------
    size
        Requests of a full batch.
    wait_s
        Seconds that the first of them waits for more.
    """

    size: int
    wait_s: float

    def __post_init__(self) -> None:
        if self.size < 1:
            raise PolicyError(f"size of a Gather must be 1 or more requests, was {self.size}")
        if not 0 <= self.wait_s < 1e6:
            raise PolicyError(f"wait_s of a Gather must be 0 or more seconds, was {self.wait_s}")


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
@typed_fields(PolicyError)
class Admit(Value):
    """Admit waiting requests in the queue's order, until one does not fit.

    Attributes
    ----------
    chunked
        Whether the prompt admitted last may be cut to the tokens that are left.
    unless_preempted, unless_swapped
        Only in steps in which no request was preempted; only while no request is
        swapped out.
    count_decodes
        Whether ``max_num_seqs`` counts all running requests, or only this step's
        prefills.
    gather
        Start a batch only when nothing runs and enough requests wait.
    """

    chunked: bool = True
    unless_preempted: bool = False
    unless_swapped: bool = False
    count_decodes: bool = True
    gather: Gather | None = None
    kind: Literal["admit"] = "admit"


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
@typed_fields(PolicyError)
class Groups(Value):
    """The number of groups of layers that a batch of prefills runs in.

    Attributes
    ----------
    limits
        Pairs of tokens and groups, in order of tokens: the first pair applies that
        has at least the batch's tokens.
    tokens_per_group
        For a larger batch, the tokens of a group: their number is rounded up. 0:
        ``most`` groups.
    most
        The most groups.
    """

    limits: tuple[tuple[int, int], ...] = ()
    tokens_per_group: int = 0
    most: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "limits", tuple((int(a), int(b)) for a, b in self.limits))
        if list(self.limits) != sorted(self.limits):
            raise PolicyError(f"limits of Groups must be in order of tokens, were {self.limits}")


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
@typed_fields(PolicyError)
class Layered(Value):
    """Run prefills through one group of layers a step, decodes through all.

    Attributes
    ----------
    layers
        Layers of the model.
    groups
        The number of groups of a batch.
    """

    layers: int
    groups: Groups
    kind: Literal["layered"] = "layered"


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
@typed_fields(PolicyError)
class Select(Value):
    """Select the requests of each step anew, by rank; a running request that is left out keeps its memory.

    Tokens and seats are given out in the order of ranks, whether requests run, wait
    or are swapped out. If blocks are lacking, running requests that were left out
    are preempted, the worst-ranked first. The stage is the only one of its scheduler.

    Attributes
    ----------
    chunked
        Whether the prompt selected last may be cut to the tokens that are left.
    charged
        Whether decodes use up the step's tokens.
    reserve_blocks
        Blocks that each step leaves free, beside the watermark.
    swap_reserve
        Share of the swap space that must be free to select a prompt without KV;
        else it is passed over. 0: no limit.
    """

    chunked: bool = True
    charged: bool = True
    reserve_blocks: int = 0
    swap_reserve: float = 0.0
    kind: Literal["select"] = "select"

    def __post_init__(self) -> None:
        if not 0 <= self.reserve_blocks < 2**32:
            raise PolicyError(f"reserve_blocks of a Select must be 0 or more, was {self.reserve_blocks}")
        if not 0 <= self.swap_reserve <= 1:
            raise PolicyError(f"swap_reserve of a Select must be a share, 0 to 1, was {self.swap_reserve}")


Stage = Running | Decodes | Prefills | SwapIn | Admit | Layered | Select
"""A stage of forming a step."""


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
@typed_fields(PolicyError)
class Recompute(Value):
    """Drop a victim's KV, and compute it again when the request resumes."""

    kind: Literal["recompute"] = "recompute"


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
@typed_fields(PolicyError)
class Swap(Value):
    """Copy a victim's KV to the CPU's memory.

    If the CPU's memory is full, the victim is recomputed instead, which the result
    counts (``swap_overflows``).

    Attributes
    ----------
    cpu_blocks
        Blocks that the CPU's memory holds.
    out_s, in_s
        Seconds to copy one block out and in. `Swap.over_pcie` computes them from
        the instance.
    overlapped
        Whether copies run beside the step, which then takes the longer of the two,
        or before it (as vLLM 0.6.1 does).
    """

    cpu_blocks: int
    out_s: float = 0.0
    in_s: float = 0.0
    overlapped: bool = False
    kind: Literal["swap"] = "swap"

    def __post_init__(self) -> None:
        if self.cpu_blocks < 0:
            raise PolicyError(f"cpu_blocks of a Swap must be 0 or more, was {self.cpu_blocks}")
        for name in ("out_s", "in_s"):
            value = getattr(self, name)
            if not 0 <= value < 1e6:
                raise PolicyError(f"{name} of a Swap must be 0 or more seconds, was {value}")

    @classmethod
    @typed(PolicyError)
    def sized(
        cls, *, memory_bytes: float, block_bytes: float, bytes_per_s: float, overlapped: bool = False
    ) -> Swap:
        """Return a swap space of a size in bytes, over a link.

        Parameters
        ----------
        memory_bytes
            CPU memory that is set aside.
        block_bytes
            Bytes of a KV block on one GPU.
        bytes_per_s
            The link's bandwidth each way.
        overlapped
            See the class.

        Examples
        --------
        >>> Swap.sized(memory_bytes=4 * 2**30, block_bytes=2**21, bytes_per_s=25e9).cpu_blocks
        2048
        """
        for name, value in (("block_bytes", block_bytes), ("bytes_per_s", bytes_per_s)):
            if not (is_number(value) and value > 0):
                raise PolicyError(f"{name} of a Swap must be a finite number above 0, was {said(value)}")
        if not (is_number(memory_bytes) and memory_bytes >= 0):
            raise PolicyError(
                f"memory_bytes of a Swap must be a finite number, 0 or more, was {said(memory_bytes)}"
            )
        seconds = block_bytes / bytes_per_s
        return cls(
            cpu_blocks=int(memory_bytes // block_bytes), out_s=seconds, in_s=seconds, overlapped=overlapped
        )

    @staticmethod
    @typed(PolicyError)
    def over_pcie(*, cpu_gib: float = 4.0, overlapped: bool = False) -> PcieSwap:
        """Swap over each instance's own PCIe links, at the bandwidth of its GPU's datasheet.

        Parameters
        ----------
        cpu_gib
            GiB of the CPU's memory that each GPU may use; 4 is vLLM's
            ``swap_space`` by default.
        overlapped
            See the class.

        Examples
        --------
        >>> from paceline import Instance
        >>> swap = Swap.over_pcie(cpu_gib=64).on(Instance(model="llama-3.1-8b", gpu="h100-sxm"))
        >>> swap.cpu_blocks, swap.out_s == 2**21 / 64e9
        (32768, True)
        """
        return PcieSwap(cpu_gib=cpu_gib, overlapped=overlapped)


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class PcieSwap(Value):
    """A `Swap` with a size and copying times that follow from the instance. Made by `Swap.over_pcie`.

    Attributes
    ----------
    cpu_gib, overlapped
        As of `Swap.over_pcie`.
    """

    cpu_gib: float = 4.0
    overlapped: bool = False
    kind: Literal["swap_over_pcie"] = "swap_over_pcie"

    def __post_init__(self) -> None:
        if not 0 <= self.cpu_gib < 1e9:
            raise PolicyError(f"cpu_gib of a Swap must be 0 or more GiB, was {self.cpu_gib}")

    def __repr__(self) -> str:
        return f"Swap.over_pcie({Value.__repr__(self).partition('(')[2]}"

    def on(self, instance: Instance) -> Swap:
        """Return the swap space of an instance; each of its GPUs copies its share at the same time.

        Raises
        ------
        ConfigError
            If the instance has no model or GPU.
        """
        gpu = instance.resolved_gpu
        if gpu is None:
            raise ConfigError(
                f"{self!r} needs an Instance with a gpu and a model; a Swap with cpu_blocks, out_s and in_s "
                "does without"
            )
        return Swap.sized(
            memory_bytes=self.cpu_gib * 2**30,
            block_bytes=instance.block_bytes,
            bytes_per_s=gpu.pcie_bytes_per_s,
            overlapped=self.overlapped,
        )


Preemption = Recompute | Swap | PcieSwap
"""What happens to the KV of a preempted request."""


def preemption_to_wire(preemption: object, ticks_per_s: float) -> dict[str, object]:
    """Return what happens to a victim's KV as the engine reads it.

    Raises
    ------
    PolicyError
        If the size of its swap space depends on an instance.
    """
    if isinstance(preemption, Recompute):
        return {"kind": "recompute"}
    if not isinstance(preemption, Swap):
        raise PolicyError(f"the size of {preemption!r} depends on the instance: use scheduler.on(instance)")
    return {
        "kind": "swap",
        "blocks": preemption.cpu_blocks,
        "out": round(preemption.out_s * ticks_per_s),
        "back": round(preemption.in_s * ticks_per_s),
        "overlapped": preemption.overlapped,
    }


def stage_to_wire(stage: Stage, ticks_per_s: float, preemption: object) -> dict[str, Any]:
    """Return a stage as the engine reads it, beside what becomes of preempted requests."""
    wire = dataclasses.asdict(stage)
    if isinstance(stage, Select):
        share = wire.pop("swap_reserve")
        space = preemption.cpu_blocks if isinstance(preemption, Swap) else 0
        wire["swap_reserve_blocks"] = math.ceil(share * space)
    if isinstance(stage, Admit) and stage.gather is not None:
        wire["gather"] = {"size": stage.gather.size, "wait": round(stage.gather.wait_s * ticks_per_s)}
    if isinstance(stage, Layered):
        wire["groups"]["limits"] = [list(pair) for pair in stage.groups.limits]
    return wire
