"""PyTorch and transformers, imported when they are first needed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from paceline.errors import RankError

__all__ = ["torch_module", "transformers_module"]


def torch_module() -> Any:  # noqa: ANN401 - not installed where types are checked
    """Return PyTorch, or say how to install it."""
    return _module("torch")


def transformers_module() -> Any:  # noqa: ANN401
    """Return transformers, or say how to install it."""
    return _module("transformers")


def _module(name: str) -> Any:  # noqa: ANN401
    try:
        return import_module(name)
    except ImportError as error:
        raise RankError(
            f"the neural family needs {name}, which cannot be imported ({error}): pip install "
            f"'paceline[rank]', or "
            'use family="light"'
        ) from error
