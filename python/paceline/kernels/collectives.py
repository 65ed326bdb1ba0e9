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
from paceline.kernels.typed import read_csv

__all__ = ["Collective", "Link", "read_all_reduce"]

Collective = Literal["all_reduce", "all_gather", "reduce_scatter"]


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields()
class Link:
    """Ranks over links of one kind, by the time of a hop.

    Of ``n`` ranks, an all-gather or a reduce-scatter of ``b`` bytes in all takes ``n - 1`` hops of ``b / n``
    each. An all-reduce takes the least of three ways:

    - *one-shot*: each rank gets the message of every other, and sums by itself: one hop of ``(n - 1) * b``.
      Two ranks exchange their messages so, which a ring would do in two hops; more need ``direct``.
    - *ring*: a reduce-scatter and an all-gather: ``2 * (n - 1)`` hops of ``b / n``.
    - *tree*: up and down a binary tree, in pieces, so that the bandwidth is paid once each way: the latency
      of ``2 * ceil(log2(n))`` hops, and ``2 * b`` bytes.

    These are the ways that vLLM's own kernel (``csrc/custom_all_reduce.cuh``) and NCCL
    (``src/graph/tuning.cc``) choose from by size and ranks; here all hops are alike.

    Parameters
    ----------
    bytes_per_s
        Bandwidth of a rank to the others, in one direction.
    latency_s
        Of each hop.
    direct
        Whether each rank reaches all others at once, as over NVLink. Without it, more than two ranks do not
        reduce one-shot, as in vLLM (``custom_all_reduce.py``).

    Examples
    --------
    >>> link = Link(bytes_per_s=50e9, latency_s=10e-6)
    >>> round(link.seconds("all_reduce", 1_000_000, ranks=2) * 1e6, 1)
    30.0
    >>> [round(link.seconds("all_reduce", size, ranks=8) * 1e6) for size in (1000, 10_000_000)]
    [60, 460]
    """

    bytes_per_s: float
    latency_s: float = 0.0
    direct: bool = False

    def __post_init__(self) -> None:
        _check.positive("bytes_per_s of a Link", self.bytes_per_s)
        _check.seconds("latency_s of a Link", self.latency_s)
        if not isinstance(self.direct, bool):
            raise ConfigError(f"direct of a Link must be true or false, was {self.direct!r}")

    @typed()
    def seconds(self, what: Collective, size: float, *, ranks: int) -> float:
        """Return the time of a collective over ``size`` bytes: those that each rank has after it, or had.

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
        if what != "all_reduce":
            return (ranks - 1) * (self.latency_s + size / ranks / self.bytes_per_s)
        ways = [
            (2 * (ranks - 1), 2 * (ranks - 1) / ranks),
            (2 * (ranks - 1).bit_length(), 2.0),  # the bits of n - 1: its logarithm, rounded up
        ]
        if self.direct or ranks == 2:
            ways.append((1, float(ranks - 1)))
        return min(hops * self.latency_s + sent * size / self.bytes_per_s for hops, sent in ways)


@typed()
def read_all_reduce(path: str | PathLike[str], *, ranks: int) -> Curve:
    """Read a measured all-reduce in Vidur's format: medians over ranks and repetitions, by bytes.

    Parameters
    ----------
    path
        ``all_reduce.csv``, plain or compressed: columns ``num_workers``, ``size`` (bytes) and
        ``time_stats.all_reduce.median`` (milliseconds).
    ranks
        The number of GPUs of the measurements to read.

    Returns
    -------
    Curve
        Seconds over bytes.

    Raises
    ------
    ConfigError
        If a column is missing or holds something else, or nothing was measured with that many GPUs.
    """
    median = "time_stats.all_reduce.median"
    frame = read_csv(Path(path), {"num_workers": "count", "size": "count", median: "number"}).drop_nulls()
    rows = frame.filter(pl.col("num_workers") == ranks)
    if rows.is_empty():
        known = sorted(frame["num_workers"].unique().to_list())
        raise ConfigError(f"{path} must have measured {ranks} GPUs, had {known}")
    return Curve.of((size, 1e-3 * time) for size, time in rows.select("size", median).iter_rows())
