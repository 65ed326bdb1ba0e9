"""What a step is formed by: the stages of a scheduler, and the rules that they share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from paceline.errors import PolicyError

__all__ = [
    "Admit",
    "Decodes",
    "Gather",
    "Groups",
    "Layered",
    "Prefills",
    "PrefixCache",
    "Recompute",
    "Running",
    "Stage",
    "Swap",
    "SwapIn",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """Let everyone who was admitted go on, in order of admission."""

    kind: Literal["running"] = "running"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decodes:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefills:
    """Let prefills under way have what is left of the tokens, in order of admission."""

    kind: Literal["prefills"] = "prefills"


@dataclass(frozen=True, slots=True, kw_only=True)
class SwapIn:
    """Bring those back who were swapped out, while each has room.

    Attributes
    ----------
    unless_preempted
        Only in steps in which nobody was preempted.
    """

    unless_preempted: bool = True
    kind: Literal["swap_in"] = "swap_in"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gather:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Admit:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Layered:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Recompute:
    """Let a victim's memory go, and compute it again."""

    kind: Literal["recompute"] = "recompute"


@dataclass(frozen=True, slots=True, kw_only=True)
class Swap:
    """Copy a victim's memory to the CPU.

    Where the CPU's memory is full, the victim is recomputed instead, which the
    result counts (``swap_overflows``).

    Attributes
    ----------
    cpu_blocks
        Blocks that the CPU's memory holds.
    out_s, in_s
        Seconds to copy one block out and back. See `Swap.over_pcie`.
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
    def over_pcie(
        cls, *, memory_bytes: float, block_bytes: float, bytes_per_s: float, overlapped: bool = False
    ) -> Swap:
        """Work a swap space out from its size and the link to it.

        Parameters
        ----------
        memory_bytes
            What the CPU sets aside (vLLM's ``swap_space``, 4 GiB a GPU by default).
        block_bytes
            Bytes of a KV block on one GPU.
        bytes_per_s
            The link's bandwidth each way.
        overlapped
            See the class.

        Examples
        --------
        >>> Swap.over_pcie(memory_bytes=4 * 2**30, block_bytes=2**21, bytes_per_s=25e9).cpu_blocks
        2048
        """
        if not (block_bytes > 0 and bytes_per_s > 0):
            raise PolicyError(
                "block_bytes and bytes_per_s of a Swap must be more than 0, were "
                f"{block_bytes} and {bytes_per_s}"
            )
        seconds = block_bytes / bytes_per_s
        return cls(
            cpu_blocks=int(memory_bytes // block_bytes), out_s=seconds, in_s=seconds, overlapped=overlapped
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixCache:
    """Keep full blocks for later requests that start the same.

    Attributes
    ----------
    unknown_first
        Whether freed blocks without known content are reused before all others
        (vLLM 0.33.0) or queue up like them (vLLM 0.11.0).
    """

    unknown_first: bool = True
