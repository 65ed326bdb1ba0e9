"""The libraries that reports and charts need: the extra ``paceline[report]``."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from paceline.errors import ConfigError

__all__ = ["altair", "jinja2", "libraries", "plotext", "vl_convert"]


@cache
def altair() -> Any:  # noqa: ANN401 - a module
    """Return Altair."""
    return _library("altair", "charts need Altair")


@cache
def jinja2() -> Any:  # noqa: ANN401 - a module
    """Return Jinja."""
    return _library("jinja2", "reports need Jinja")


@cache
def vl_convert() -> Any:  # noqa: ANN401 - a module
    """Return vl-convert, which has the scripts of Vega."""
    return _library("vl_convert", "reports need vl-convert-python")


@cache
def plotext() -> Any:  # noqa: ANN401 - a module
    """Return plotext, which draws in a terminal."""
    return _library("plotext", "charts in the terminal need plotext")


def libraries() -> None:
    """Check that all that a report needs is there, before what may take long."""
    for library in (altair, jinja2, vl_convert):
        library()


def _library(name: str, needs: str) -> Any:  # noqa: ANN401 - a module
    try:
        return import_module(name)
    except ImportError as error:
        raise ConfigError(f"{needs}, which is not installed: pip install 'paceline[report]'") from error
