"""What a step is formed by: the stages of a scheduler, and the rules that they share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

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
    "Prefills",
    "PrefixCache",
    "Recompute",
    "Running",
    "Stage",
    "Swap",
    "SwapIn",
]


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
@typed_fields(PolicyError)
class Running(Value):
    """Let everyone who was admitted go on, in order of admission."""

    kind: Literal["running"] = "running"


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
@typed_fields(PolicyError)
class Decodes(Value):
    """Let those who decode go on, in order of admission.

    Attributes
    ----------
    charged
        Whether they use up the step's tokens.
    seated
        Whether they share ``max_num_seqs`` with the prefills of the step.
    over_prefills
        Whether prefills under way can be preempted for them.
    """

    charged: bool = True
    seated: bool = False
    over_prefills: bool = True
    kind: Literal["decodes"] = "decodes"


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
@typed_fields(PolicyError)
class Prefills(Value):
    """Let prefills under way have what is left of the tokens, in order of admission."""

    kind: Literal["prefills"] = "prefills"


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
@typed_fields(PolicyError)
class SwapIn(Value):
    """Bring those back who were swapped out, while each has room.

    Attributes
    ----------
    unless_preempted
        Only in steps in which nobody was preempted.
    """

    unless_preempted: bool = True
    kind: Literal["swap_in"] = "swap_in"


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
@typed_fields(PolicyError)
class Gather(Value):
    """Wait until a batch is full enough to start.

    Attributes
    ----------
    size
        Requests that make a batch.
    wait_s
        Seconds that the first of them waits for the others.
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
    """Let those in who wait, in the queue's order, until one does not fit.

    Attributes
    ----------
    chunked
        Whether the last one may be cut to the tokens that are left.
    unless_preempted, unless_swapped
        Only in steps in which nobody was preempted; only while nobody is
        swapped out.
    count_decodes
        Whether ``max_num_seqs`` counts those who decode, or only this step's
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
    """Say in how many groups of layers a batch of prefills runs.

    Attributes
    ----------
    limits
        Pairs of tokens and groups, by tokens: the first whose tokens the batch
        does not exceed decides.
    tokens_per_group
        Beyond them, one group for each so many tokens begun; 0: ``most``.
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
        How many groups a batch gets.
    """

    layers: int
    groups: Groups
    kind: Literal["layered"] = "layered"


Stage = Running | Decodes | Prefills | SwapIn | Admit | Layered
"""A part of forming a step."""


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
@typed_fields(PolicyError)
class Recompute(Value):
    """Let a victim's memory go, and compute it again."""

    kind: Literal["recompute"] = "recompute"


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
@typed_fields(PolicyError)
class Swap(Value):
    """Copy a victim's memory to the CPU.

    Where the CPU's memory is full, the victim is recomputed instead, which the
    result counts (``swap_overflows``).

    Attributes
    ----------
    cpu_blocks
        Blocks that the CPU's memory holds.
    out_s, in_s
        Seconds to copy one block out and back. See `Swap.over_pcie`, which
        works them out from the instance.
    overlapped
        Whether copies run beside the step, which then takes the longer of the
        two, or before it (as vLLM 0.6.1 does).
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
        """Work a swap space out from its size and the link to it.

        Parameters
        ----------
        memory_bytes
            What the CPU sets aside.
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
    """A `Swap` whose size and copying times follow from the instance. Made by `Swap.over_pcie`.

    Attributes
    ----------
    cpu_gib, overlapped
        As there.
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
        """Work it out for an instance; each of its GPUs copies its share at the same time.

        Raises
        ------
        ConfigError
            If the instance does not say its model and GPU.
        """
        gpu = instance.resolved_gpu
        if gpu is None:
            raise ConfigError(
                f"{self!r} needs an Instance with a gpu and a model; a Swap with cpu_blocks, out_s and in_s "
                "does without"
            )
        return Swap.sized(
            memory_bytes=self.cpu_gib * 2**30,
            block_bytes=instance.kv_bytes_per_token * instance.block_tokens,
            bytes_per_s=gpu.pcie_bytes_per_s,
            overlapped=self.overlapped,
        )


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
@typed_fields(PolicyError)
class PrefixCache(Value):
    """Keep full blocks for later requests that start the same.

    Attributes
    ----------
    unknown_first
        Whether freed blocks without known content are reused before all others
        (vLLM 0.33.0) or queue up like them (vLLM 0.11.0).
    """

    unknown_first: bool = True
