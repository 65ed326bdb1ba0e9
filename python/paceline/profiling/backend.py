"""The interface of a device for profiling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from paceline.profiling.work import Work

__all__ = ["Backend"]


class Backend(Protocol):
    """A device that runs kernels and measures their times."""

    @property
    def memory_bytes(self) -> int:
        """What a kernel's operands may take together."""

    def facts(self) -> Mapping[str, str]:
        """Return what a reader must know of the device: its name, driver and versions."""

    def measure(self, work: Work, *, dtype: str, warmup: int, repeat: int) -> Sequence[float]:
        """Return the seconds of each repetition, after some that are not counted.

        Parameters
        ----------
        work
            What to run.
        dtype
            Of weights and activations, as a model has it.
        warmup, repeat
            Repetitions before and of the measurement.
        """
