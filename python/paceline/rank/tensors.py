"""Arrays in safetensors files, which hold numbers and nothing that runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load, save

from paceline.errors import RankError

__all__ = ["read_tensors", "write_tensors"]


def write_tensors(path: Path, tensors: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write arrays by name."""
    path.write_bytes(save(dict(tensors)))


def read_tensors(path: Path) -> dict[str, npt.NDArray[Any]]:
    """Read arrays by name.

    Raises
    ------
    RankError
        It is no safetensors file.
    """
    try:
        return load(path.read_bytes())
    except (SafetensorError, ValueError, KeyError) as error:
        raise RankError(f"{path}: is no readable safetensors file: {error}") from error
