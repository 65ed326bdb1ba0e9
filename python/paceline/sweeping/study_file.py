"""A grid as a TOML file."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from paceline import _toml
from paceline._arguments import typed
from paceline._check import said
from paceline._documents import read_document
from paceline.errors import ConfigError
from paceline.objectives import SLO
from paceline.runs import Settings
from paceline.sweeping.grid import Grid

__all__ = ["read_grid"]

_TABLES: Final = ("trace", "cluster", "policy", "settings", "over", "slo", "warmup_s")


@typed()
def read_grid(path: str | Path) -> Grid:
    """Read the grid of a sweep from a TOML file.

    Parameters
    ----------
    path
        A file with the tables of a run (``[trace]``, ``[cluster]``, ``[policy]``, ``[settings]``) and
        ``[over]``, whose keys are the axes of `Grid`; perhaps ``[slo]`` and ``warmup_s``. The path of a field
        is one key, in quotation marks. Relative paths start at the folder of the file.

    Raises
    ------
    ConfigError
        If a table is missing, unknown or has a field that cannot be used.
    OSError
        If the file cannot be read.
    """
    path = Path(path)
    content = _toml.parse(read_document(path), str(path))
    for name in content:
        if name not in _TABLES:
            raise ConfigError(f"{path} has no table {name!r}{_toml.close_matches(name, _TABLES)}")
    over = content.get("over", {})
    if not isinstance(over, dict):
        raise ConfigError(f"over of {path} must be a table of axes, was {said(over)}")
    parts: dict[str, Any] = {name: content[name] for name in ("policy", "warmup_s") if name in content}
    for name in ("trace", "cluster"):
        # An axis of whole traces or clusters needs no other.
        parts[name] = content.get(name, _first(over.get(name)))
        if parts[name] is None:
            raise ConfigError(f"{path} lacks the table [{name}]")
    if "settings" in content:
        parts["settings"] = Settings.from_table(content["settings"])
    if "slo" in content:
        parts["slo"] = _toml.build(SLO, content["slo"], f"slo of {path}")
    return Grid(
        over={axis: _unnested(axis, values) for axis, values in over.items()}, folder=path.parent, **parts
    )


def _first(values: Any) -> Any:  # noqa: ANN401 - as TOML has it
    if isinstance(values, dict):
        values = list(values.values())
    return values[0] if isinstance(values, list) and values else None


def _unnested(axis: str, values: Any) -> Any:  # noqa: ANN401
    """Refuse the tables that a path without quotation marks makes."""
    inner = values
    path = [axis]
    while isinstance(inner, dict) and len(inner) == 1 and axis not in ("trace",):
        name = next(iter(inner))
        path.append(name)
        inner = inner[name]
    if isinstance(inner, list) and len(path) > 1 and not any(isinstance(each, dict) for each in inner):
        raise ConfigError(
            f'the path of an axis must be in quotation marks: "{".".join(path)}" = {said(inner)}'
        )
    return values
