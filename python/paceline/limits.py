"""Bounds on the memory that reading a file may use.

A few kilobytes can decompress to gigabytes, and a header can name a million columns. Every reader of files
therefore stops at the bounds below, with an error that names the bound. The defaults admit a trace of ten
million requests. Readers without an argument for limits take them from one place, `Limits.current`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Final

from paceline import _check
from paceline.errors import ConfigError

__all__ = ["ENVIRONMENT", "Limits"]

ENVIRONMENT: Final = "PACELINE_LIMITS"
"""The environment variable that changes the defaults: ``file_bytes=8000000000,columns=5000``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds on the memory that reading a file may use.

    Parameters
    ----------
    file_bytes
        Bytes of a file's content after decompression, all of which is held in memory.
    document_bytes
        Bytes of a document: a policy, a cluster, a run, or the JSON that a command printed.
    values
        Fields of all rows together. One takes up to 32 bytes of memory while CSV is read.
    columns
        Columns of a table.
    line_bytes
        Bytes of one line of text.
    recorded
        Entries of the steps that `paceline.replay(record=…)` records: one for each step, and one for each
        request in it, of some 20 bytes each.
    grid_points
        Combinations of the four axes of measured attention, to which a kernel profile is completed.

    Raises
    ------
    ConfigError
        If a limit is no whole number of at least 1.

    Examples
    --------
    >>> Limits(columns=5_000).columns
    5000
    """

    file_bytes: int = 2**32
    document_bytes: int = 2**26
    values: int = 2**28
    columns: int = 1_000
    line_bytes: int = 2**24
    recorded: int = 2**26
    grid_points: int = 2**22

    def __post_init__(self) -> None:
        for field in fields(self):
            _check.count(f"{field.name} of Limits", getattr(self, field.name))

    @classmethod
    def current(cls) -> Limits:
        """Return the defaults with the changes in the environment variable ``PACELINE_LIMITS``.

        Raises
        ------
        ConfigError
            If the variable is not of the form ``NAME=VALUE,NAME=VALUE``.
        """
        text = os.environ.get(ENVIRONMENT, "")
        return cls().changed([part for part in text.split(",") if part.strip()], ENVIRONMENT)

    def changed(self, settings: Iterable[str], what: str = "--limit") -> Limits:
        """Return these limits with others in their place, given as ``NAME=VALUE``.

        Parameters
        ----------
        settings
            Such as ``"file_bytes=8_000_000_000"``.
        what
            Where they were given, for an error.

        Raises
        ------
        ConfigError
            If a setting is not of that form, or names no limit.
        """
        known = [field.name for field in fields(self)]
        changes: dict[str, int] = {}
        for setting in settings:
            name, equals, value = (part.strip() for part in setting.partition("="))
            digits = value.replace("_", "")
            # Eighteen digits stay below 2**63, and far below what int() refuses.
            if (
                not equals
                or name not in known
                or not (digits.isascii() and digits.isdigit() and len(digits) < 19)
            ):
                raise ConfigError(
                    f"{what} must be NAME=VALUE with a whole number and NAME one of {', '.join(known)}, "
                    f"was {setting[:60]!r}"
                )
            changes[name] = int(digits)
        return replace(self, **changes)

    def over(self, name: str, was: str) -> str:
        """Return the end of an error message about a file that exceeds the limit ``name``.

        Parameters
        ----------
        name
            The limit.
        was
            What the file has, as far as it is known.
        """
        of_traces = name != "document_bytes"
        elsewhere = f", or --limit {name}=N or limits=Limits({name}=N) where a trace is read"
        return (
            f"must be at most {getattr(self, name):,} (limit {name}), was {was}; if the file is meant to be "
            f"so, raise the limit: {ENVIRONMENT}={name}=N in the environment{elsewhere if of_traces else ''}"
        )
