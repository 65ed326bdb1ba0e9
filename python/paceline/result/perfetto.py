"""A replay as a trace for Perfetto's viewer.

The trace has track events only, in the schema that Perfetto publishes (protos/perfetto/trace/track_event).
Times are nanoseconds from the trace's start, rounded. The package perfetto, which has the schema's classes,
is imported when a trace is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import polars as pl

from paceline._atomic import new_file
from paceline._check import said
from paceline.errors import ResultError
from paceline.result.over_time import OverTime
from paceline.result.perfetto_tracks import Tracks
from paceline.result.stats import ReplayStats
from paceline.result.totals import Totals

__all__ = ["PerfettoTrace", "write_perfetto"]

_COUNTERS: Final = ("running", "waiting", "swapped", "kv_used_blocks", "kv_cached_blocks", "batch_tokens")

_OF_A_REQUEST: Final = (
    "arrival",
    "scheduled",
    "first_token",
    "finish",
    "status",
    "instance",
    "prompt_tokens",
    "output_tokens",
    "preemptions",
)


_MOST_REQUESTS: Final = 1_000_000


class Shown(Protocol):
    """What is read of a result beside what it has over time."""

    @property
    def stats(self) -> ReplayStats:
        """The counters."""
        ...

    @property
    def roles(self) -> pl.DataFrame:
        """The pools over time."""
        ...

    @property
    def flips(self) -> pl.DataFrame:
        """The changes of pools."""
        ...

    def column(self, name: str) -> pl.Series:
        """Return a column of requests."""
        ...

    def totals(self) -> Totals:
        """Return the totals."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PerfettoTrace:
    """What was written.

    Attributes
    ----------
    path
        The file.
    steps, preemptions, transfers, flips, samples
        Steps, preemptions, transfers, changes of pools and samples in it.
    requests
        Requests that have a track.
    requests_left_out
        Requests that overlap the window and have none, as there are too many.
    left_out
        Kinds of events that the result does not have, and what to replay with to have them.
    """

    path: Path
    steps: int
    preemptions: int
    transfers: int
    flips: int
    samples: int
    requests: int
    requests_left_out: int
    left_out: tuple[str, ...]


def write_perfetto(
    result: Shown, over_time: OverTime, path: Path, between: tuple[float, float] | None, most_requests: int
) -> PerfettoTrace:
    """Write a trace: see `Result.perfetto`."""
    start, end = between or (0.0, float("inf"))
    if not 0 <= start < end:
        raise ResultError(f"between must be two moments, the later one last, was {between}")
    if not 0 <= most_requests <= _MOST_REQUESTS:
        raise ResultError(f"most_requests must be 0 to {_MOST_REQUESTS}, was {said(most_requests)}")
    tracks = Tracks()
    for index in range(len(result.stats.instances)):
        tracks.group(f"instance {index}")
    left_out = []
    counts = {"steps": 0, "preemptions": 0, "transfers": 0, "samples": 0}
    if over_time.is_recorded:
        counts["steps"], counts["preemptions"] = _steps(
            tracks, _within(over_time.steps, "start_s", start, end)
        )
        counts["transfers"] = _transfers(tracks, over_time.transfers, start, end)
    else:
        left_out.append("steps, preemptions and transfers: replay with record=(from, to) in seconds")
    if over_time.is_sampled:
        counts["samples"] = _counters(tracks, _within(over_time.timeline, "time_s", start, end))
    else:
        left_out.append("counters: replay with sample=1.0, or another number of seconds or points")
    flips = _pools(tracks, result, start, end)
    shown, others = _requests(tracks, result, (start, end), most_requests)
    try:
        with new_file(path) as draft, draft.open("wb") as file:
            file.writelines(tracks.encoded())
    except OSError as error:
        raise ResultError(f"{path}: could not be written: {error.strerror or error}") from error
    return PerfettoTrace(
        path=path,
        **counts,
        flips=flips,
        requests=shown,
        requests_left_out=others,
        left_out=tuple(left_out),
    )


def _within(frame: pl.DataFrame, column: str, start: float, end: float) -> pl.DataFrame:
    return frame.filter((pl.col(column) >= start) & (pl.col(column) < end))


def _steps(tracks: Tracks, steps: pl.DataFrame) -> tuple[int, int]:
    """Add a slice for each step, and an instant for each preemption."""
    preemptions = 0
    for row in steps.iter_rows(named=True):
        group, decodes, requests = f"instance {row['instance']}", row["decodes"], row["requests"]
        name = "decode" if decodes == len(requests) else "prefill" if not decodes else "mixed"
        details = {
            "requests": len(requests),
            "decodes": decodes,
            "tokens": sum(row["tokens"]),
            "kv_free_blocks": row["kv_free_blocks"],
            "swapped_out_blocks": row["swapped_out_blocks"],
            "swapped_in_blocks": row["swapped_in_blocks"],
        }
        tracks.slice(group, "steps", name, row["start_s"], row["start_s"] + row["step_s"], details)
        for request in row["preempted"]:
            preemptions += 1
            tracks.instant(group, "preemptions", f"request {request}", row["start_s"])
    return steps.height, preemptions


def _transfers(tracks: Tracks, transfers: pl.DataFrame, start: float, end: float) -> int:
    """Add a slice for each transfer, or an instant if it takes no time, in lanes in which none overlap."""
    shown = transfers.filter((pl.col("sent_s") < end) & (pl.col("delivered_s") >= start))
    lanes: dict[int, list[float]] = {}
    for row in shown.iter_rows(named=True):
        group = f"instance {row['source']}"
        details = {
            "bytes": row["bytes"],
            "target": row["target"],
            "kind": row["kind"],
            "sent_s": row["sent_s"],
        }
        name = f"request {row['request']} to {row['target']}"
        first, last = row["first_byte_s"], row["delivered_s"]
        free = lanes.setdefault(row["source"], [])
        lane = next((at for at, until in enumerate(free) if until <= first), len(free))
        free[lane : lane + 1] = [last]
        tracks.slice(group, f"transfers {lane}", name, first, last, details)
    return shown.height


def _counters(tracks: Tracks, timeline: pl.DataFrame) -> int:
    for row in timeline.iter_rows(named=True):
        for name in _COUNTERS:
            tracks.counter(f"instance {row['instance']}", name, row["time_s"], row[name])
        if row["energy_j"] is not None:
            watts = row["energy_j"] / row["interval_s"]
            tracks.counter(f"instance {row['instance']}", "watts", row["time_s"], watts)
    return timeline.height


def _pools(tracks: Tracks, result: Shown, start: float, end: float) -> int:
    """Add a slice for each time in a pool, and an instant for each flip."""
    spans = result.roles.filter((pl.col("from_s") < end) & (pl.col("to_s") > start))
    for instance, role, since, until in spans.iter_rows():
        tracks.slice(f"instance {instance}", "pool", role, since, until, {})
    flips = _within(result.flips, "time_s", start, end)
    for row in flips.iter_rows(named=True):
        name = f"{row['from']} to {row['to']}: {row['cause']}"
        tracks.instant(f"instance {row['instance']}", "flips", name, row["time_s"])
    return flips.height


def _requests(tracks: Tracks, result: Shown, window: tuple[float, float], most: int) -> tuple[int, int]:
    """Add a track for each request: when it was queued, in prefill, and decoding."""
    start, end = window
    frame = pl.DataFrame([result.column(name) for name in _OF_A_REQUEST]).with_row_index("row")
    over = result.totals().simulated_s
    # A rejected request has no time of its own.
    left = pl.coalesce("finish", pl.when(pl.col("status") == "rejected").then("arrival").otherwise(over))
    frame = frame.filter((pl.col("status") != "not_arrived") & (pl.col("arrival") < end) & (left >= start))
    for row in frame.head(most).iter_rows(named=True):
        for name, since, until in _phases(row, over):
            tracks.slice("requests", f"request {row['row']}", name, since, until, _details(row))
    return min(most, frame.height), max(frame.height - most, 0)


def _phases(row: dict[str, Any], over: float) -> Iterator[tuple[str, float, float]]:
    """Yield the phases of a request, the last up to the end of the replay if it is unfinished."""
    if row["status"] == "rejected" and row["scheduled"] is None:
        yield "rejected", row["arrival"], row["arrival"]
        return
    moments = [row["arrival"], row["scheduled"], row["first_token"], row["finish"]]
    for name, since, until in zip(("queued", "prefill", "decode"), moments, moments[1:], strict=False):
        if since is not None:
            yield name, since, over if until is None else until


def _details(row: dict[str, Any]) -> dict[str, Any]:
    names = ("instance", "status", "prompt_tokens", "output_tokens", "preemptions")
    return {name: row[name] for name in names if row[name] is not None}
