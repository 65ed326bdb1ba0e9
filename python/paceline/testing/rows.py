"""A result as arrays, which the checks of invariants read."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from paceline.result import InstanceStats, ReplayStats, Result

__all__ = ["Rows", "times"]

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Rows:
    """The requests of a result, column by column; times in seconds, nan where never.

    Attributes
    ----------
    result
        The result.
    frame
        Its requests.
    stats
        Its counters.
    """

    result: Result
    frame: pl.DataFrame
    stats: ReplayStats
    _arrays: dict[tuple[str, str], NDArray[Any]] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, result: Result) -> Rows:
        """Read a result."""
        return cls(result, result.requests, result.stats)

    @property
    def before_instance_s(self) -> Floats:
        """Seconds from each arrival to its instance: front end, prediction, router and acceptance."""
        routed = self.seconds("prediction") + self.seconds("held") + self.frontend_s
        return routed + self.seconds("acceptance_wait")

    @cached_property
    def frontend_s(self) -> float:
        """Seconds of the cluster's front end."""
        return float(tomllib.loads(self.result.provenance.cluster).get("frontend_s", 0.0))

    def seconds(self, name: str) -> Floats:
        """Return a column of times."""
        return self._kept("seconds", name, lambda of: of.cast(pl.Float64).fill_null(np.nan))

    def count(self, name: str) -> NDArray[np.int64]:
        """Return a column of whole numbers."""
        return self._kept("count", name, lambda of: of.cast(pl.Int64))

    def status(self, *names: str) -> Bools:
        """Return which requests have a status."""
        statuses = self._kept("status", "status", lambda of: of.cast(pl.String))
        return np.isin(statuses, names)

    def on(self, index: int) -> Bools:
        """Return which requests were routed to an instance."""
        instances = self._kept("instance", "instance", lambda of: of.cast(pl.Int64).fill_null(-1))
        return cast(Bools, instances == index)

    def _kept(self, how: str, name: str, convert: Callable[[pl.Series], pl.Series]) -> NDArray[Any]:
        """Return a column, converted once for all checks, which must not write to it."""
        if (how, name) not in self._arrays:
            array = convert(self.frame[name]).to_numpy(writable=True)
            array.flags.writeable = False
            self._arrays[how, name] = array
        return self._arrays[how, name]

    @cached_property
    def unanswered(self) -> Bools:
        """Return which requests wait for an answer that does not come: one of the requests did not finish."""
        waits = np.zeros(self.frame.height, dtype=np.bool_)
        if "think_time" in self.frame.columns:
            before = pl.col("status").cast(pl.String).shift(1).over("session")
            turns = pl.col("think_time").is_not_null() & (before != "finished").fill_null(value=False)
            waits |= self.frame.select(turns).to_series().to_numpy()
        if "parents" in self.frame.columns:
            unfinished = pl.col("request_id").filter(pl.col("status").cast(pl.String) != "finished")
            lost = pl.col("parents").list.set_intersection(unfinished.implode()).list.len() > 0
            waits |= self.frame.select(lost).to_series().to_numpy()
        return cast(Bools, waits)

    @cached_property
    def moved(self) -> bool:
        """Whether any request migrated."""
        return bool((self.frame["migrations"] > 0).any())

    def groups(self) -> list[tuple[str, Bools, list[int]]]:
        """Return requests with the instances that served them: by instance, or all if any migrated."""
        every = range(len(self.instances))
        if self.moved:
            return [("all instances", np.ones(self.frame.height, dtype=np.bool_), list(every))]
        return [(f"instance {index}", self.on(index), [index]) for index in every]

    def settled(self, index: int) -> bool:
        """Whether all requests that were routed to an instance finished there, and none was sent again."""
        return bool(np.all(self.status("finished")[self.on(index)])) and not self.sent_again

    @cached_property
    def sent_again(self) -> bool:
        """Whether clients sent any request again: the columns are those of the last time."""
        return bool(self.count("sent_again").any())

    @property
    def instances(self) -> tuple[InstanceStats, ...]:
        """The counters of each instance."""
        return self.stats.instances

    @property
    def end_s(self) -> float:
        """The end of the replay, in seconds."""
        return times(self.stats.end_ticks)

    @property
    def slack_s(self) -> float:
        """The largest difference of two equal sums of a few rounded times."""
        return 8 * float(np.spacing(max(self.end_s, 1.0)))

    def counter(self, index: int, name: str) -> int:
        """Return a counter that only some engines keep; 0 if it is not kept."""
        return int(getattr(self.instances[index], name, 0))

    def setting(self, name: str) -> Any:  # noqa: ANN401 - whatever `replay` was given
        """Return an argument of the replay; None if it is not known."""
        return self.result.provenance.settings.get(name)


def times(ticks: int) -> float:
    """Return ticks of a picosecond as seconds."""
    return ticks / 10**12
