"""Packages whose names are imported when they are first used.

A package's ``__init__`` imports its names for type checkers only, and attaches them here. So a command waits
for the modules that it uses, and not for the others of a package. `dir()` lists all names, imported or not.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any

__all__ = ["attach"]


class _Package(ModuleType):
    """A package that imports a name from its home when the name is first read."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - any object of the package
        home = self.__dict__["_home_of"].get(name)
        if home is None:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}", name=name, obj=self)
        value = getattr(import_module(f"{self.__name__}.{home}"), name)
        self.__dict__[name] = value
        return value

    def __setattr__(self, name: str, value: object) -> None:
        # After `import package.vllm` Python binds that module to the name, which is of the function in it.
        if isinstance(value, ModuleType) and name in self.__dict__["_home_of"]:
            value = getattr(value, name, value)
        super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*self.__dict__, *self.__dict__["_home_of"]})


def attach(package: str, homes: Mapping[str, Sequence[str]]) -> None:
    """Give a package names that are imported from its modules when they are first read.

    Parameters
    ----------
    package
        The package: its ``__name__``.
    homes
        The names by the module that has them, relative to the package.

    Examples
    --------
    >>> import paceline.synthesis
    >>> "Poisson" in dir(paceline.synthesis)
    True
    >>> paceline.synthesis.Poisson.__module__
    'paceline.synthesis.arrivals'
    """
    module = sys.modules[package]
    module.__dict__["_home_of"] = {name: home for home, names in homes.items() for name in names}
    module.__class__ = _Package
