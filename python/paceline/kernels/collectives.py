"""What ranks take to exchange activations: a link, or measurements."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Literal

import polars as pl

from paceline import _check
from paceline._arguments import typed, typed_fields
from paceline.errors import ConfigError
from paceline.kernels.curve import Curve

__all__ = ["Collective", "Link", "read_all_reduce"]

Collective = Literal["all_reduce", "all_gather", "reduce_scatter"]


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields()
class Link:
    """A ring of ranks over links of one kind.

    Of ``n`` ranks, an all-gather or a reduce-scatter of ``b`` bytes in all takes ``n - 1`` hops of ``b / n``
    each, and an all-reduce both of them.

    Parameters
    ----------
    bytes_per_s
        Bandwidth between two ranks, in one direction.
    latency_s
        Of each hop.

    Examples
    --------
    >>> link = Link(bytes_per_s=50e9, latency_s=10e-6)
    >>> round(link.seconds("all_reduce", 1_000_000, ranks=2) * 1e6, 1)
    40.0
    """

    bytes_per_s: float
    latency_s: float = 0.0

    def __post_init__(self) -> None:
        _check.positive("bytes_per_s of a Link", self.bytes_per_s)
        _check.seconds("latency_s of a Link", self.latency_s)

    @typed()
    def seconds(self, what: Collective, size: float, *, ranks: int) -> float:
        """Return what a collective over ``size`` bytes takes: those that each rank has in the end, or had.

        Parameters
        ----------
        what
            Which one.
        size
            Bytes of the whole message, the parts of all ranks together.
        ranks
            How many take part.
        """
        _check.count("ranks of a message", ranks, most=2**20)
        if ranks == 1 or size <= 0:
            return 0.0
        hops = (ranks - 1) * (2 if what == "all_reduce" else 1)
        return hops * (self.latency_s + size / ranks / self.bytes_per_s)


@typed()
def read_all_reduce(path: str | PathLike[str], *, ranks: int) -> Curve:
    """Read a measured all-reduce in Vidur's format: medians over ranks and repetitions, by bytes.

    Parameters
    ----------
    path
        ``all_reduce.csv``, plain or compressed: columns ``num_workers``, ``size`` (bytes) and
        ``time_stats.all_reduce.median`` (milliseconds).
    ranks
        The number of GPUs to look at.

    Returns
    -------
    Curve
        Seconds over bytes.

    Raises
    ------
    ConfigError
        If a column is missing, or nothing was measured with that many GPUs.
    """
    try:
        frame = pl.read_csv(Path(path))
    except pl.exceptions.PolarsError as error:
        raise ConfigError(f"{path} must be a CSV: {error}") from error
    median = "time_stats.all_reduce.median"
    missing = [column for column in ("num_workers", "size", median) if column not in frame.columns]
    if missing:
        raise ConfigError(f"{path} must have the columns num_workers, size and {median}, lacked {missing}")
    rows = frame.filter(pl.col("num_workers") == ranks)
    if rows.is_empty():
        known = sorted(frame["num_workers"].unique().to_list())
        raise ConfigError(f"{path} must have measured {ranks} GPUs, had {known}")
    return Curve.of((size, 1e-3 * time) for size, time in rows.select("size", median).iter_rows())
