"""The mutants that no test notices, each with its reason: `survivors.toml`.

A group either lists mutants by their names, or names functions that only decide how many steps are booked at
once. A mutant of such a function needs no explanation of its own if it changes no outcome and makes no replay
take fewer events: its runs are at most shorter than they could be, and a shorter run is as exact (INV-5).
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("survivors.toml")


@dataclass(frozen=True, slots=True)
class Survivors:
    """Reasons.

    Attributes
    ----------
    listed : dict of str to str
        By the name of a mutant.
    shortens : dict of str to str
        By the file and function.
    """

    listed: dict[str, str]
    shortens: dict[str, str]

    def reason(self, name: str, found: Mapping[str, Any]) -> str | None:
        """Return why a mutant survives; None if that is not known. ``found``: what replays say of it."""
        if name in self.listed:
            return self.listed[name]
        if found["reached"] and found["slower"] and not found["faster"] and not found["differ"]:
            return self.shortens.get(name.partition(": ")[0])
        return None


def read(file: Path = FILE) -> Survivors:
    """Read the list.

    Raises
    ------
    ValueError
        If a mutant or function is listed twice.
    """
    found = Survivors({}, {})
    for group in tomllib.loads(file.read_text())["group"]:
        for key, reasons in (("mutants", found.listed), ("shorter_runs", found.shortens)):
            for name in group.get(key, ()):
                if name in reasons:
                    raise ValueError(f"{file.name} must list each mutant once, and lists {name!r} again")
                reasons[name] = group["reason"]
    return found
