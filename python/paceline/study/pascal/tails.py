"""Tail TTFT by reasoning length, by the paper's rule (Figure 10's caption)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import polars as pl

from paceline.study.pascal.requests import number

__all__ = ["BIN", "compared", "extremes", "tail", "tails", "undemoted"]

BIN: Final = 256
"""Reasoning tokens of a bin."""

_FEWEST: Final = 5
_STATISTICS: Final = ((10, 1.0, "max"), (20, 0.90, "P90"), (100, 0.95, "P95"), (math.inf, 0.99, "P99"))
"""The percentile of a bin with fewer requests than the first number."""


def tail(values: pl.Series) -> tuple[float, str] | None:
    """Return the tail of a bin's values, and which one it is.

    The largest of fewer than 10, P90 of fewer than 20, P95 of fewer than 100, else P99; nothing of fewer
    than 5. Percentiles interpolate linearly, as numpy's do by default; the paper does not say how its own do.

    Examples
    --------
    >>> tail(pl.Series([1.0, 2.0, 3.0, 4.0, 9.0]))
    (9.0, 'max')
    >>> tail(pl.Series(range(11)))
    (9.0, 'P90')
    """
    count = len(values)
    if count < _FEWEST:
        return None
    share, name = next((share, name) for fewer_than, share, name in _STATISTICS if count < fewer_than)
    found = values.quantile(share, interpolation="linear")
    assert found is not None
    return found, name


def tails(requests: pl.DataFrame, of: str = "ttft") -> pl.DataFrame:
    """Return the tails of a column by bins of reasoning tokens.

    Parameters
    ----------
    requests
        With ``reasoning_tokens`` and the column; requests in which it is null are left out.
    of
        The column.

    Returns
    -------
    DataFrame
        A row a bin that has enough requests, in order: ``from_tokens`` (its least), ``count``, ``statistic``
        and ``tail``.
    """
    rows = []
    kept = requests.filter(pl.col(of).is_not_null())
    binned = kept.with_columns((pl.col("reasoning_tokens") // BIN * BIN).cast(pl.Int64).alias("from_tokens"))
    for (start,), inside in binned.sort("from_tokens").group_by("from_tokens", maintain_order=True):
        found = tail(inside[of])
        if found is not None:
            rows.append((start, inside.height, found[1], found[0]))
    schema = {"from_tokens": pl.Int64, "count": pl.Int64, "statistic": pl.String, "tail": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def compared(by_policy: Mapping[str, pl.DataFrame], policy: str, baseline: str) -> pl.DataFrame:
    """Return the bins that two policies share: both tails, and the cut in seconds and as a share."""
    return (
        by_policy[policy]
        .join(by_policy[baseline].select("from_tokens", base="tail"), on="from_tokens")
        .with_columns(cut_s=pl.col("base") - pl.col("tail"))
        .with_columns(cut=pl.col("cut_s") / pl.col("base"))
        .sort("from_tokens")
    )


def undemoted(bins: pl.DataFrame, above: int = 5000) -> pl.DataFrame:
    """Keep the bins none of whose requests PASCAL demotes for its reasoning alone."""
    return bins.filter(pl.col("from_tokens") + BIN <= above)


def extremes(bins: pl.DataFrame) -> dict[str, float]:
    """Return the most that the tail is cut and lengthened, as shares and in seconds; 0 where it is not.

    Returns
    -------
    dict
        ``cut`` and ``cut_s``, ``worse`` and ``worse_s``, each the largest over the bins, not all of one bin;
        and where the largest share was, ``cut_at`` and ``worse_at`` in tokens.
    """
    best = bins.row(bins["cut"].arg_max() or 0, named=True)
    worst = bins.row(bins["cut"].arg_min() or 0, named=True)
    return {
        "cut": max(best["cut"], 0.0),
        "cut_s": max(number(bins["cut_s"].max()), 0.0),
        "cut_at": best["from_tokens"],
        "worse": max(-worst["cut"], 0.0),
        "worse_s": max(-number(bins["cut_s"].min()), 0.0),
        "worse_at": worst["from_tokens"],
    }
