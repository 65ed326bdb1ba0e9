"""The catalogs: one TOML file for each GPU, model, link and host, every number with its source beside it.

File names are the names users write: ``catalog/gpus/h100-sxm.toml`` is ``"h100-sxm"``.
"""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from typing import Any, Literal

from paceline._toml import close_matches
from paceline.errors import ConfigError

__all__ = ["Kind", "load", "names"]

Kind = Literal["gpu", "host", "link", "model"]


@cache
def names(kind: Kind) -> tuple[str, ...]:
    """Return the names that a catalog holds, sorted.

    Parameters
    ----------
    kind
        Which catalog.

    Examples
    --------
    >>> "h100-sxm" in names("gpu")
    True
    """
    folder = resources.files(__name__) / f"{kind}s"
    return tuple(
        sorted(file.name.removesuffix(".toml") for file in folder.iterdir() if file.name[-5:] == ".toml")
    )


@cache
def load(kind: Kind, name: str) -> dict[str, Any]:
    """Return the content of a catalog's file.

    Parameters
    ----------
    kind
        Which catalog.
    name
        Lower-case and dashed, as in :func:`names`.

    Raises
    ------
    ConfigError
        If there is no such name; the message says which are close.
    """
    known = names(kind)
    if name not in known:
        raise ConfigError(f"there is no {kind} {name!r}{close_matches(name, known)}")
    text = (resources.files(__name__) / f"{kind}s" / f"{name}.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)
