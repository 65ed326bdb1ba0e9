"""The energy that a GPU uses."""

from __future__ import annotations

from dataclasses import dataclass

from paceline import _check
from paceline._arguments import typed, typed_fields
from paceline.errors import ConfigError

__all__ = ["Energy"]

_LARGEST_J = 1e-3  # more is a mistake of units; a few joules exceed the engine's numbers


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields()
class Energy:
    """The energy of a GPU as a sum over time, bytes and FLOPs.

    The four parts are those of the layered-prefill paper (section 2.5): a static baseline, arithmetic, memory
    traffic and links. The catalog has one for each GPU; its file says where each number comes from. A fit to
    measured joules replaces them: ``replace(gpu, energy=Energy(...))``.

    Parameters
    ----------
    idle_w
        Watts of an idle GPU with an engine loaded.
    busy_w
        Further watts while a step runs.
    hbm_j_per_byte
        Joules of a byte read from or written to the GPU's memory.
    j_per_flop
        Joules of a floating-point operation.
    link_j_per_byte
        Joules of a byte sent to another GPU.
    source
        Where the numbers come from, in a line.

    Raises
    ------
    ConfigError
        If a number is negative, or a byte or a FLOP takes more than a millijoule.

    Examples
    --------
    >>> Energy(idle_w=115, hbm_j_per_byte=31e-12, j_per_flop=0.85e-12).to_wire(gpus=2)["idle_uw"]
    230000000
    """

    idle_w: float
    busy_w: float = 0.0
    hbm_j_per_byte: float
    j_per_flop: float
    link_j_per_byte: float = 0.0
    source: str = ""

    def __post_init__(self) -> None:
        for name in ("idle_w", "busy_w"):
            _check.not_negative(f"{name} of an Energy", getattr(self, name))
        for name in ("hbm_j_per_byte", "j_per_flop", "link_j_per_byte"):
            value = getattr(self, name)
            _check.not_negative(f"{name} of an Energy", value)
            if value > _LARGEST_J:
                raise ConfigError(f"{name} of an Energy must be at most {_LARGEST_J} J, was {value!r}")

    @typed()
    def to_wire(self, *, gpus: int, busy: int | None = None) -> dict[str, int]:
        """Return the energy as the engine reads it: microwatts of all GPUs, attojoules of a byte or FLOP.

        Parameters
        ----------
        gpus
            GPUs of an instance.
        busy
            GPUs that work at the same time while a step runs; all by default.
        """
        return {
            "idle_uw": round(gpus * self.idle_w * 1e6),
            "busy_uw": round((gpus if busy is None else busy) * self.busy_w * 1e6),
            "hbm_byte_aj": round(self.hbm_j_per_byte * 1e18),
            "flop_aj": round(self.j_per_flop * 1e18),
            "link_byte_aj": round(self.link_j_per_byte * 1e18),
        }
