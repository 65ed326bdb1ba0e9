"""Which of the known formats a profile is in."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from paceline._arguments import typed
from paceline.errors import ConfigError
from paceline.kernels.folder import read_folder
from paceline.kernels.parquet import read_parquet
from paceline.kernels.profile import KernelProfile

__all__ = ["read_profile"]


@typed()
def read_profile(path: str | PathLike[str]) -> KernelProfile:
    """Read a kernel profile that is complete in itself.

    Vidur's and AISimulate's tables are of operators, of which a model has to be made up first: see
    :func:`paceline.kernels.vidur.read_vidur` and :func:`paceline.kernels.assembled.assemble`.

    Parameters
    ----------
    path
        A folder as LLMServingSim's profiler writes it (``attention.csv``, ``dense.csv``, …), or a file in our
        own Parquet format.

    Returns
    -------
    KernelProfile

    Raises
    ------
    ConfigError
        If it is neither, or not well formed.
    """
    path = Path(path)
    if path.is_dir() and (path / "attention.csv").is_file():
        return read_folder(path)
    if path.is_file() and path.suffix == ".parquet":
        return read_parquet(path)
    raise ConfigError(
        f"a kernel profile must be a folder with attention.csv and dense.csv, or a .parquet file, was {path}"
    )
