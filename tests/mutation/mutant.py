"""One change to the engine's sources, and the names by which it is found again."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mutant:
    """A change.

    Attributes
    ----------
    number : int
        From 1; the engine that holds all mutants is told which one is active.
    file : str
        Below ``rust/core/src``.
    line : int
        Of the unchanged file, from 1.
    function : str
        With its type: ``PrefixCache::take``.
    change : str
        What becomes of which expression.
    """

    number: int
    file: str
    line: int
    function: str
    change: str

    @property
    def place(self) -> str:
        """The file and the function."""
        return f"{self.file} {self.function}"

    @property
    def name(self) -> str:
        """The same while the expression and its function stay, wherever they move in the file."""
        return f"{self.place}: {self.change}"
