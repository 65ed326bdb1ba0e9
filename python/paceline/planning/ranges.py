"""The numbers of instances that a plan searches, each with the ways to divide it into pools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, overload

from paceline.errors import ConfigError
from paceline.planning.layouts import Kind, Layouts
from paceline.planning.sizes import Counts

__all__ = ["NEAR", "Sizes"]

NEAR: Final = 64
"""GPUs up to which a plan searches unless it is told otherwise."""


class Sizes(Sequence[list[Counts]]):
    """The options of each number of instances, from the fewest that fill all pools; made when asked for.

    Parameters
    ----------
    kind
        The instance.
    layouts
        The divisions.
    most
        The most GPUs.

    Raises
    ------
    ConfigError
        If not even the fewest instances have at most so many GPUs.
    """

    def __init__(self, kind: Kind, layouts: Layouts, most: int) -> None:
        self._layouts = layouts
        self._fewest = len(layouts.pools)
        if self._fewest * kind.gpus > most:
            raise ConfigError(
                f"most must be at least {self._fewest * kind.gpus} GPUs, which {self._fewest} of {kind.name} "
                f"have, was {most}"
            )
        self._most = most // kind.gpus

    def end_at(self, instances: int) -> None:
        """Leave out numbers above this one, but not the fewest."""
        self._most = max(self._fewest, min(self._most, instances))

    def __len__(self) -> int:
        """Return how many numbers there are."""
        return self._most - self._fewest + 1

    @overload
    def __getitem__(self, at: int) -> list[Counts]: ...
    @overload
    def __getitem__(self, at: slice) -> list[list[Counts]]: ...
    def __getitem__(self, at: int | slice) -> list[Counts] | list[list[Counts]]:
        """Return the options of a number, by its place."""
        if isinstance(at, slice):
            return [self[place] for place in range(*at.indices(len(self)))]
        if not 0 <= at < len(self):
            raise IndexError(f"there are {len(self)} numbers of instances, was {at}")
        return self._layouts.options(self._fewest + at)
