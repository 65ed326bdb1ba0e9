"""Pages of the Python API: one of the names that `paceline` has itself, and one for each public package."""

from __future__ import annotations

import pkgutil
import tomllib
from pathlib import Path

import paceline

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python/paceline"
CARGO = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))
SOURCE = CARGO["workspace"]["package"]["repository"]

NOT_CALLED = {"cli", "demo"}
"""Public modules that are run, and not imported."""

WITHIN = ("policy.expressions", "rank.light", "rank.neural")
"""Packages in packages with names of their own."""


def pages() -> dict[str, str]:
    """Return the pages by name."""
    modules = sorted(
        {found.name for found in pkgutil.iter_modules([str(PACKAGE)]) if not found.name.startswith("_")}
        - NOT_CALLED
        | set(WITHIN)
    )
    return {"index": _overview()} | {name: f"::: paceline.{name}\n" for name in modules}


def _overview() -> str:
    """Return the page of the names that are imported from `paceline` itself."""
    rows = [
        f"| [`{name}`][paceline.{home}.{name}] | {_summary(name)} |"
        for home, names in sorted(paceline._HOMES.items())
        for name in names
    ]
    about = (paceline.__doc__ or "").partition("\n\n")[0]
    return "\n".join(["# The names of `paceline`", "", about, "", "| name | |", "|---|---|", *rows, ""])


def _summary(name: str) -> str:
    """Return the first sentence of a name's docstring."""
    value = getattr(paceline, name)
    said = (value.__doc__ or "") if callable(value) else ""
    return said.partition("\n\n")[0].replace("\n", " ").replace("|", "\\|")
