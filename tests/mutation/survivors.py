"""The mutants that no test notices, each with its reason: `survivors.toml`."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

FILE = Path(__file__).with_name("survivors.toml")


def explained(file: Path = FILE) -> dict[str, str]:
    """Return the reason of each listed mutant, by its name.

    Raises
    ------
    ValueError
        If a mutant is listed twice.
    """
    reasons: dict[str, str] = {}
    for group in tomllib.loads(file.read_text())["group"]:
        for name in group["mutants"]:
            if name in reasons:
                raise ValueError(f"{file.name} must list each mutant once, and lists {name!r} again")
            reasons[name] = group["reason"]
    return reasons


def by_reason(names: Iterable[str], reasons: dict[str, str]) -> Counter[str]:
    """Count mutants by their reason."""
    return Counter(reasons[name] for name in names if name in reasons)
