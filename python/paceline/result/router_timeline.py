"""The router over time: what arrived, where it went, and what was held, in all or by tenant."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from paceline._clock import TICKS_PER_SECOND
from paceline.errors import ResultError
from paceline.result.outcome import NEVER, NOWHERE, STATUSES, Outcome

__all__ = ["ROUTER_SCHEMA", "TENANT_SCHEMA", "router_timeline", "tenant_timeline"]

_COUNTS: Final = (
    "arrivals",
    "routed",
    "rejected",
    "gave_up",
    "cancelled",
    "first_tokens",
    "finished",
    "held",
)

ROUTER_SCHEMA: Final[dict[str, pl.DataType]] = {
    "time_s": pl.Float64(),
    "interval_s": pl.Float64(),
    **dict.fromkeys(_COUNTS, pl.UInt32()),
}
"""Names and types of the columns of `Result.router_timeline`, in order."""

TENANT_SCHEMA: Final[dict[str, pl.DataType]] = {
    "time_s": pl.Float64(),
    "interval_s": pl.Float64(),
    "tenant": pl.String(),
    **dict.fromkeys(_COUNTS, pl.UInt32()),
}
"""Names and types of the columns of `Result.tenant_timeline`, in order."""

_MOST_ROWS: Final = 10_000_000

Ticks = NDArray[np.uint64]


def router_timeline(times: Ticks, arrivals: Ticks, outcome: Outcome) -> pl.DataFrame:
    """Return a row per sample.

    Parameters
    ----------
    times
        The moments of the samples, in ticks.
    arrivals
        When each request reached its router.
    outcome
        The engine's columns.
    """
    groups = np.zeros(len(arrivals), dtype=np.int64)
    return _frame(times, 1, _counts(times, arrivals, outcome, groups, 1), None)


def tenant_timeline(times: Ticks, arrivals: Ticks, outcome: Outcome, tenants: pl.Series) -> pl.DataFrame:
    """Return a row per sample and tenant: by time, then by the tenant's name; requests without one come last.

    Raises
    ------
    ResultError
        If there are too many.
    """
    names = tenants.unique().sort(nulls_last=True)
    if len(times) * len(names) > _MOST_ROWS:
        raise ResultError(
            f"a timeline by tenant must have at most {_MOST_ROWS} rows, had {len(times)} samples of "
            f"{len(names)} tenants; replay with fewer samples"
        )
    ranks = tenants.rank("dense").cast(pl.Int64) - 1
    groups = ranks.fill_null(len(names) - 1).to_numpy()
    counts = _counts(times, arrivals, outcome, groups, len(names))
    return _frame(times, len(names), counts, names)


def _counts(
    times: Ticks, arrivals: Ticks, outcome: Outcome, groups: NDArray[np.int64], number: int
) -> dict[str, NDArray[np.int64]]:
    """Return the counts by sample and group."""
    held = outcome.columns["held"] if outcome.columns["held"].size else np.zeros_like(arrivals)
    status, left = np.asarray(outcome.columns["status"]), arrivals + held
    at_router = np.asarray(outcome.columns["instance"]) == NOWHERE
    arrived = status != STATUSES.index("not_arrived")

    def count(moments: Ticks, rows: NDArray[np.bool_]) -> NDArray[np.int64]:
        at = np.searchsorted(times, moments[rows]) * number + groups[rows]
        return np.bincount(at, minlength=len(times) * number)[: len(times) * number]

    counts = {
        "arrivals": count(arrivals, arrived),
        "routed": count(left, ~at_router),
        "rejected": count(left, at_router & (status == STATUSES.index("rejected"))),
        "gave_up": count(left, status == STATUSES.index("gave_up")),
        "cancelled": count(left, at_router & (status == STATUSES.index("cancelled"))),
        "first_tokens": count(outcome.columns["first_token"], outcome.columns["first_token"] != NEVER),
        "finished": count(outcome.columns["finish"], outcome.columns["finish"] != NEVER),
    }
    change = counts["arrivals"] - counts["routed"] - counts["rejected"] - counts["gave_up"]
    change -= counts["cancelled"]
    counts["held"] = change.reshape(-1, number).cumsum(axis=0).ravel()
    return counts


def _frame(
    times: Ticks, number: int, counts: dict[str, NDArray[np.int64]], names: pl.Series | None
) -> pl.DataFrame:
    spans = np.diff(times, prepend=np.uint64(0))
    columns: dict[str, Any] = {
        "time_s": np.repeat(times, number) / TICKS_PER_SECOND,
        "interval_s": np.repeat(spans, number) / TICKS_PER_SECOND,
    }
    schema = ROUTER_SCHEMA
    if names is not None:
        columns["tenant"] = names.gather(np.tile(np.arange(number), len(times)))
        schema = TENANT_SCHEMA
    frame = pl.DataFrame({name: (columns | counts)[name] for name in schema})
    return frame.cast(schema)  # type: ignore[arg-type] # polars names fewer types than it takes
