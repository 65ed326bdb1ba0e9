"""What all formats write of a replay: its requests, its statistics and its inputs."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from paceline._clock import TICKS_PER_SECOND
from paceline.errors import ResultError
from paceline.result import Result

__all__ = ["Facts", "facts_of", "token_gaps"]

Floats = NDArray[np.float64]

_LIMIT: Final = re.compile(r"Concurrency\(most=(\d+), .*of='requests'\)")


@dataclass(frozen=True, slots=True, eq=False)
class Facts:
    """The numbers of a replay that the formats write.

    Parameters
    ----------
    rows
        All requests, with ``failure``: why one did not finish, null if it did.
    start, duration_s
        The first arrival, and the seconds from there to the last completion.
    model
        The model of the first instance; ``paceline`` if it has none.
    max_concurrency
        The limit of requests in flight; None without.
    """

    rows: pl.DataFrame
    start: float
    duration_s: float
    model: str
    max_concurrency: int | None

    @property
    def finished(self) -> pl.DataFrame:
        """The requests that finished."""
        return self.rows.filter(pl.col("failure").is_null())

    @property
    def rate(self) -> float | None:
        """Requests sent a second; None if all were sent at once, or the limit decided when."""
        if self.max_concurrency is not None:
            return None
        arrival = self.rows.get_column("arrival").drop_nulls()
        span = float(arrival.max() or 0.0) - float(arrival.min() or 0.0)  # type: ignore[arg-type] # polars: any literal
        return (len(arrival) - 1) / span if span > 0 else None


def facts_of(result: Result) -> Facts:
    """Return the numbers of a replay.

    Raises
    ------
    ResultError
        If no request finished.
    """
    names = (
        "arrival",
        "first_token",
        "finish",
        "ttft",
        "tpot",
        "e2e",
        "prompt_tokens",
        "output_tokens",
        "status",
        "reason",
    )
    rows = pl.DataFrame([result.column(name) for name in names])
    status, reason = pl.col("status").cast(pl.String), pl.col("reason").cast(pl.String)
    why = pl.when(reason.is_null()).then(status).otherwise(pl.concat_str(status, pl.lit(": "), reason))
    rows = rows.with_columns(pl.when(status != "finished").then(why).alias("failure"))
    finished = rows.filter(pl.col("failure").is_null())
    if finished.is_empty():
        raise ResultError("a benchmark's result must have a request that finished, had none")
    start = float(rows.get_column("arrival").drop_nulls().to_numpy().min())
    end = float(finished.get_column("finish").to_numpy().max())
    provenance = result.provenance
    limit = _LIMIT.match(str(provenance.settings.get("clients", "")))
    return Facts(rows, start, end - start, _model(provenance.cluster), int(limit[1]) if limit else None)


def _model(cluster: str) -> str:
    try:
        instances: Any = tomllib.loads(cluster).get("instances")
    except tomllib.TOMLDecodeError:
        return "paceline"
    first = instances[0] if isinstance(instances, list) and instances else {}
    model = first.get("model") if isinstance(first, dict) else None
    if isinstance(model, dict):
        model = model.get("name")
    return model if isinstance(model, str) else "paceline"


def token_gaps(result: Result, finished: pl.DataFrame) -> list[list[float]] | None:
    """Return the gaps between the tokens of each finished request, from the recorded steps.

    A step in which a preempted request computes a part of its context again yields no token of it.

    Returns
    -------
    list or None
        None if steps were not recorded, or do not account for every token.
    """
    if not result.is_recorded:
        return None
    row = pl.Series("request", np.flatnonzero(result.column("finish").is_not_null().to_numpy()), pl.UInt32)
    first = finished.select(row, "first_token")
    steps = (
        result.steps.select(pl.col("start_s") + pl.col("step_s"), "requests", "tokens")
        .explode("requests", "tokens")
        .rename({"start_s": "end", "requests": "request"})
        .drop_nulls()
        .join(first, on="request")
        .filter(pl.col("end") > pl.col("first_token") - 0.5 / TICKS_PER_SECOND - 1e-12 * pl.col("end"))
        .sort("request", "end", maintain_order=True)
    )
    following = pl.col("tokens").shift(-1).over("request")
    begins = pl.col("end") == pl.col("end").first().over("request")
    yields = steps.filter((pl.col("tokens") == 1) | begins | following.is_null() | (following == 1))
    gaps = yields.group_by("request", maintain_order=True).agg(
        pl.col("end").diff().drop_nulls().alias("gaps"), pl.len().alias("count")
    )
    joined = finished.select(row, "output_tokens").join(gaps, on="request", how="left", maintain_order="left")
    if not (joined.get_column("count") == joined.get_column("output_tokens")).fill_null(value=False).all():
        return None
    return [list(each) for each in joined.get_column("gaps").to_list()]
