"""What writes reports and draws charts, by name: it registers itself, so that results need not import it."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, Final

__all__ = ["register", "writer"]

_PROVIDER: Final = "paceline.report.registered"
"""The module that registers all of them. It is imported at the first call for one."""

_WRITERS: Final[dict[str, Callable[..., Any]]] = {}


def register(name: str, function: Callable[..., Any]) -> None:
    """Have a function called under a name."""
    _WRITERS[name] = function


def writer(name: str) -> Callable[..., Any]:
    """Return the function of a name.

    Examples
    --------
    >>> writer("report").__name__
    'write_report'
    """
    if name not in _WRITERS:
        importlib.import_module(_PROVIDER)
    return _WRITERS[name]
