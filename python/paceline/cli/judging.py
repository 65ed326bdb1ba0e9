"""What a replay says of the requests that arrive after the warm-up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from paceline.objectives import SLO
    from paceline.result import Result

__all__ = ["judged"]

_METRICS: Final = ("ttft", "tpot", "max_itl", "e2e", "normalized_latency", "queueing")
"""Latencies of single requests: the gaps of all requests together cannot be taken apart afterwards."""


def judged(result: Result, slo: SLO | None, warmup_s: float) -> dict[str, Any]:
    """Return the parts of the document that are of the judged requests only.

    Parameters
    ----------
    result
        The replay.
    slo
        The objective.
    warmup_s
        Requests that arrive before this second are not judged.

    Raises
    ------
    ConfigError
        If all requests do.
    """
    from paceline.errors import ConfigError
    from paceline.result.summary import spread_of

    arrivals = result.column("arrival")
    rows = arrivals >= warmup_s
    if not rows.any():
        raise ConfigError(
            f"--warmup must end before the last arrival at {arrivals[-1]} s, was {warmup_s:g} s: no request "
            "would be judged"
        )
    answers = ("ttfat",) if result.column("ttfat").is_not_null().any() else ()
    metrics = (*_METRICS, *answers)
    document: dict[str, Any] = {
        "warmup": {"seconds": warmup_s, "requests": len(result) - int(rows.sum())},
        "summary": {metric: spread_of(result.column(metric).filter(rows)) for metric in metrics},
    }
    if slo is not None:
        met = int(result.met(slo).filter(rows).sum())
        arrived = int((result.column("status").filter(rows) != "not_arrived").sum())
        window = result.totals().makespan_s - warmup_s
        document["slo"] = {
            "bounds": slo.bounds(),
            "attainment": met / arrived if arrived else float("nan"),
            "goodput": met / window if window > 0 else float("nan"),
        }
    return document
