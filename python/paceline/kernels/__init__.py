"""Measured kernels: profiles, how they are read, and the cost model that they make.

A :class:`KernelProfile` is what one rank of a model took, kernel by kernel. :func:`read_profile` finds out
which of the known formats a path is; a :class:`Table` adds a profile up to what the engine looks steps up in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paceline._lazy import attach

if TYPE_CHECKING:
    from paceline.kernels.collectives import Collective, Link, read_all_reduce
    from paceline.kernels.curve import Curve
    from paceline.kernels.grid import Grid
    from paceline.kernels.parquet import read_parquet, write_parquet
    from paceline.kernels.profile import KernelProfile
    from paceline.kernels.reading import read_profile
    from paceline.kernels.shape import Shape
    from paceline.kernels.skew import Skew
    from paceline.kernels.table import Table

__all__ = [
    "Collective",
    "Curve",
    "Grid",
    "KernelProfile",
    "Link",
    "Shape",
    "Skew",
    "Table",
    "read_all_reduce",
    "read_parquet",
    "read_profile",
    "write_parquet",
]

attach(
    __name__,
    {
        "collectives": ("Collective", "Link", "read_all_reduce"),
        "curve": ("Curve",),
        "grid": ("Grid",),
        "parquet": ("read_parquet", "write_parquet"),
        "profile": ("KernelProfile",),
        "reading": ("read_profile",),
        "shape": ("Shape",),
        "skew": ("Skew",),
        "table": ("Table",),
    },
)
