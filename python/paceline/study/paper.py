"""A paper's numbers, as data: ``paper.toml`` in the package of each study.

The file has ``source``, and tables of numbers. A number is a value, or a table with ``value`` and what
belongs to it: ``name`` (what it is a number of), ``unit``, ``where`` (the section, table or figure that
states it) and any keys of the study's own. ``where`` and ``unit`` of an enclosing table hold for all numbers
in it, and its ``units`` for the numbers of these names. A table with ``name`` and without ``value`` is a
number that the paper does not state, or states in words only.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

from paceline._toml import close_matches
from paceline.errors import ConfigError

__all__ = ["Paper", "Stated"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """A number of a paper.

    Parameters
    ----------
    name
        What it is a number of.
    value
        In ``unit``; ``None`` where the paper states no number.
    unit
        As the paper has it.
    where
        The section, table or figure that states it.
    more
        Keys that the study gives a meaning to.
    """

    name: str
    value: float | None
    unit: str = ""
    where: str = ""
    more: Mapping[str, Any] = field(default_factory=dict)

    @property
    def number(self) -> float:
        """The value, where there must be one.

        Raises
        ------
        ConfigError
            If the paper states none.
        """
        if self.value is None:
            raise ConfigError(f"{self.name} must have a value in paper.toml, had none")
        return self.value


class Paper:
    r"""The numbers of a paper, by their place in ``paper.toml``.

    Parameters
    ----------
    text
        The file's text.

    Examples
    --------
    >>> paper = Paper('source = "A paper"\n[table-1]\nwhere = "Table 1"\nunit = "s"\nttft = 2.5')
    >>> paper["table-1", "ttft"]
    Stated(name='ttft', value=2.5, unit='s', where='Table 1', more={})
    """

    def __init__(self, text: str) -> None:
        content = tomllib.loads(text)
        self.source: str = content.pop("source")
        self._numbers: dict[tuple[str, ...], Stated] = {}
        self._read((), content, {"where": "", "unit": "", "units": {}})

    @classmethod
    def load(cls, package: str) -> Paper:
        """Read ``paper.toml`` of a study's package."""
        return cls(files(package).joinpath("paper.toml").read_text(encoding="utf-8"))

    def __getitem__(self, path: tuple[str, ...]) -> Stated:
        if path not in self._numbers:
            known = (".".join(each) for each in self._numbers)
            raise ConfigError(
                f"paper.toml has no number {'.'.join(path)}{close_matches('.'.join(path), known)}"
            )
        return self._numbers[path]

    def all(self) -> list[Stated]:
        """Return all numbers, in order."""
        return list(self._numbers.values())

    def table(self, *path: str) -> dict[str, Stated]:
        """Return the numbers directly in a table, by name and in order."""
        return {key[-1]: number for key, number in self._numbers.items() if key[:-1] == path}

    def names(self, *path: str) -> list[str]:
        """Return the names of the numbers and tables directly in a table, in order."""
        inside = (key for key in self._numbers if key[: len(path)] == path)
        return list(dict.fromkeys(key[len(path)] for key in inside))

    def _read(self, path: tuple[str, ...], table: Mapping[str, Any], outer: Mapping[str, Any]) -> None:
        own = {**outer, **{key: table[key] for key in outer if key in table}}
        for key, value in table.items():
            place = (*path, key)
            if key in outer:
                continue
            if isinstance(value, Mapping) and not {"value", "name"} & value.keys():
                self._read(place, value, own)
            elif isinstance(value, Mapping):
                self._numbers[place] = _stated(place, value, own)
            else:
                self._numbers[place] = _stated(place, {"value": value}, own)


def _stated(path: tuple[str, ...], entry: Mapping[str, Any], outer: Mapping[str, Any]) -> Stated:
    unit = outer["units"].get(path[-1], outer["unit"])
    known = {"name": path[-1], "value": None, "unit": unit, "where": outer["where"]}
    found = {key: entry.get(key, default) for key, default in known.items()}
    where, value = ".".join(path), found["value"]
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise ConfigError(f"{where} of paper.toml must be a number, was {value!r}")
    if value is not None and not found["where"]:
        raise ConfigError(f"{where} of paper.toml must say where the paper states it: add where")
    return Stated(**found, more={key: value for key, value in entry.items() if key not in known})
