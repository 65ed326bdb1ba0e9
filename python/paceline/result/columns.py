"""The columns of a result's requests, each computed when it is first read.

A replay returns ticks. The latency between two moments is a difference of
integers, and is rounded when it is converted to seconds, so that it is as exact
at the end of a long trace as at its start. Columns of a saved result are returned
as they were saved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from paceline import _core
from paceline._clock import TICKS_PER_SECOND
from paceline._fork import use
from paceline.result.declared import KIND, named
from paceline.result.outcome import NEVER, NOWHERE, REASONS, STATUSES, Outcome

__all__ = ["COLUMNS", "REASON", "SCHEMA", "STATUS", "RequestColumns", "Spread"]

STATUS: Final = pl.Enum(STATUSES)
REASON: Final = pl.Enum(REASONS)

_SECONDS: Final = ("queueing", "ttft", "ttfat", "tpot", "e2e", "normalized_latency")

SCHEMA: Final[dict[str, pl.DataType]] = {
    **dict.fromkeys(("arrival", *named("moment"), *_SECONDS, *named("gap")), pl.Float64()),
    **dict.fromkeys(("executed", "blocked", "blocking", *named("part")), pl.Float64()),
    **dict.fromkeys(named("quality"), pl.Float64()),
    **dict.fromkeys(("prompt_tokens", "output_tokens", *named("count", "place")), pl.UInt32()),
    "status": STATUS,
    "reason": REASON,
}
"""Names and types of the columns of `Result.requests`, in order."""

COLUMNS: Final = tuple(SCHEMA)

_NOT_CARRIED: Final = frozenset({"arrival", "prompt_tokens", "output_tokens", "prefix"})
"""Columns of a trace that a result has of its own, and the ids of prompts, which take the most room."""

_MOMENTS: Final = frozenset({"arrival", *named("moment", "gap")})

_BEFORE: Final = frozenset({"held", "acceptance_wait", "prediction"})
"""Parts of every request's queueing."""

_PARTS: Final = frozenset(named("part")) - _BEFORE
"""Parts of a finished request's latency, 0 ticks if there was none."""

_SPANS: Final = {
    "queueing": ("arrival", "scheduled"),
    "ttft": ("arrival", "first_token"),
    "ttfat": ("reasoning_end", "first_answer"),
    "e2e": ("arrival", "finish"),
    "tpot": ("first_token", "finish"),
}


class Spread(NamedTuple):
    """The figures of a latency, in seconds.

    Attributes
    ----------
    number
        Requests that have it.
    mean, max
        Their mean and the largest.
    quantiles
        One for each share that was asked for; they interpolate linearly between ranks.
    """

    number: int
    mean: float
    max: float
    quantiles: list[float]


def _seconds(ticks: NDArray[np.uint64], happened: NDArray[np.bool_], name: str) -> pl.Series:
    """Return ticks as seconds; null where the moment did not happen."""
    # polars divides by a scalar by multiplying with its reciprocal, which may differ in the last bit.
    return _where(happened, ticks / TICKS_PER_SECOND, name)


def _where(holds: NDArray[np.bool_], values: NDArray[Any], name: str) -> pl.Series:
    """Return values where `holds`, null elsewhere."""
    if holds.all():
        return pl.Series(name, values)
    # Setting takes a fifth of the time that a selection does for a few rows, and no more for a million.
    return pl.Series(name, values).set(pl.Series(~holds), None)


def _or(given: NDArray[Any], otherwise: NDArray[Any]) -> NDArray[Any]:
    """Return the engine's array, or a default if the engine left it out."""
    return given if given.size else otherwise


class RequestColumns:
    """Columns of requests by name, computed on demand and kept.

    Parameters
    ----------
    made
        Columns that need no computation.
    ticks
        Moments and durations in ticks by name for those that do.
        An empty array stands for moments that do not apply to the trace.
    given
        The engine's other arrays by name, of which columns are made likewise.
    carried
        Columns of the trace that results show as they are.
    """

    __slots__ = ("_carried", "_given", "_made", "_reasons", "_ticks")

    def __init__(
        self,
        made: Mapping[str, pl.Series],
        ticks: Mapping[str, NDArray[np.uint64]],
        given: Mapping[str, NDArray[Any]] | None = None,
        carried: Sequence[pl.Series] = (),
    ) -> None:
        self._made = {**made, **{column.name: column for column in carried}}
        self._carried = tuple(column.name for column in carried)
        self._ticks = dict(ticks)
        # Arrays of moments that do not apply are filled in as they are read.
        self._reasons = ticks["first_answer"].size > 0 if "first_answer" in ticks else None
        self._given = dict(given or {})

    @classmethod
    def from_frame(cls, frame: pl.DataFrame) -> RequestColumns:
        """Return the columns of a frame that has all of `COLUMNS`; any others are those of its trace."""
        carried = [frame.get_column(name) for name in frame.columns if name not in SCHEMA]
        return cls({name: frame.get_column(name) for name in COLUMNS}, {}, carried=carried)

    @classmethod
    def from_outcome(
        cls,
        trace: pl.DataFrame,
        outcome: Outcome,
        arrivals: NDArray[np.uint64] | None = None,
    ) -> RequestColumns:
        """Wrap a trace's columns and an outcome's arrays, without a copy; see `Result.from_outcome`."""
        return cls.from_arrays(trace, outcome.columns, arrivals)

    @classmethod
    def from_arrays(
        cls,
        trace: pl.DataFrame,
        arrays: Mapping[str, NDArray[Any]],
        arrivals: NDArray[np.uint64] | None = None,
    ) -> RequestColumns:
        """Wrap some rows of a trace and the engine's arrays of these, likewise."""
        made = {
            "arrival_s": trace.get_column("arrival"),
            "prompt_tokens": trace.get_column("prompt_tokens"),
            "output_tokens": trace.get_column("output_tokens"),
        }
        ticks = {name: arrays[name] for name in named("moment", "gap", "part")}
        given = {name: arrays[name] for name in KIND.keys() - ticks.keys()}
        if not ticks["arrival"].size:
            # The trace's own arrivals were replayed.
            ticks = {name: values for name, values in ticks.items() if name != "arrival"}
            ticks |= {} if arrivals is None else {"arrival": arrivals}
        given["last_instance"] = _or(given["last_instance"], given["instance"])
        carried = [column for column in trace.get_columns() if column.name not in _NOT_CARRIED]
        return cls(made, ticks, given, carried)

    def __len__(self) -> int:
        """Return the number of requests."""
        use()
        return len(self._made["prompt_tokens"])

    def __getitem__(self, name: str) -> pl.Series:
        """Return one column of `names`."""
        use()
        if name not in self._made:
            self._made[name] = self._make(name)
        return self._made[name]

    @property
    def names(self) -> tuple[str, ...]:
        """All columns: `COLUMNS`, and those that are carried over from the trace."""
        return (*COLUMNS, *self._carried)

    @property
    def reasons(self) -> bool:
        """Whether the trace says which tokens are reasoning."""
        if self._reasons is not None:
            return self._reasons
        return bool(self._made["first_answer"].is_not_null().any())

    def seconds(self, name: str) -> NDArray[np.float64]:
        """Return one column of seconds as numbers, nan where it is null, without keeping it."""
        if name in self._made or not self._ticks or not (name in _SPANS or name in _MOMENTS):
            return self[name].cast(pl.Float64()).fill_null(np.nan).to_numpy()
        values, holds = self._timed(name)
        return values if holds.all() else np.where(holds, values, np.nan)

    def measure(
        self,
        names: Sequence[str],
        shares: Sequence[float],
        *,
        rows: NDArray[np.bool_] | None = None,
        bounds: Mapping[str, float] | None = None,
        candidates: NDArray[np.bool_] | None = None,
    ) -> tuple[dict[str, Spread | None], int]:
        """Return the spread of each latency, bounded ones included, and the candidates within all bounds.

        Of a replay, not of a saved result. The interpreter is released meanwhile, and no column is made.

        Parameters
        ----------
        names
            ``max_itl``, and others of the columns in seconds that are a moment, or a time between two.
        shares
            Of the quantiles, 0 to 1.
        rows
            Which requests count in spreads; None: all. A latency that none has is None.
        bounds
            Seconds by latency. A candidate without the latency does not exceed its bound.
        candidates
            Which requests are counted; None: all.
        """
        bounds = {} if bounds is None else bounds
        all_names = dict.fromkeys((*names, *bounds))
        found, within = _core.measure(
            [{**self._latency(name), "bound": bounds.get(name)} for name in all_names],
            shares,
            candidates=np.ones(len(self), dtype=np.bool_) if candidates is None else candidates,
            rows=rows,
        )
        spreads = {
            name: None if of is None else Spread(*of) for name, of in zip(all_names, found, strict=True)
        }
        return spreads, within

    def _latency(self, name: str) -> dict[str, Any]:
        """Return the columns of a moment or a latency as the engine takes them."""
        if name not in _SPANS:
            return {"ends": self._moment(name)}
        starts, ends = (self._moment(moment) for moment in _SPANS[name])
        tokens = {"tokens": self.counts("output_tokens")} if name == "tpot" else {}
        return {"starts": starts, "ends": ends, **tokens}

    def counts(self, name: str) -> NDArray[np.uint32]:
        """Return one column of whole numbers without nulls."""
        return self._given[name] if name in self._given else self[name].to_numpy()

    def codes(self, name: str) -> NDArray[np.uint8]:
        """Return the codes of ``status``, or those of ``reason`` plus one: 0 is "no reason"."""
        if name in self._given:
            return self._given[name]
        codes = self[name].to_physical()
        return (codes if name == "status" else codes.cast(pl.UInt8) + 1).fill_null(0).to_numpy()

    def happened(self, moment: str) -> NDArray[np.bool_]:
        """Return for which requests a moment is known."""
        if moment in self._made or not self._ticks:
            return self[moment].is_not_null().to_numpy()
        return np.asarray(self._moment(moment) != NEVER)

    def latest(self, moment: str) -> float | None:
        """Return the latest of a column of moments in seconds; None if no request has it."""
        if moment in self._made or not self._ticks:
            found = self[moment].max()
            return None if found is None else float(found)  # type: ignore[arg-type]
        ticks = self._moment(moment)
        latest = int(ticks.max(initial=0))
        if latest == NEVER:
            latest = int(ticks[ticks != NEVER].max(initial=0))
        return latest / TICKS_PER_SECOND if latest else None

    def frame(self) -> pl.DataFrame:
        """Return all columns as one frame."""
        return pl.DataFrame([self[name] for name in self.names])

    def _make(self, name: str) -> pl.Series:
        if name in _SPANS or name in _MOMENTS:
            values, holds = self._timed(name)
            return _where(holds, values, name)
        if name == "normalized_latency":
            return (self["e2e"] / self["output_tokens"]).alias(name)
        if KIND.get(name) == "place":
            index = self._given[name]
            return _where(index != NOWHERE, index, name)
        if name in _BEFORE:
            return _seconds(self._part(name), np.ones(len(self), dtype=np.bool_), name)
        if name in _PARTS or name in ("blocked", "blocking", "executed"):
            done = self._moment("finish") != NEVER
            return _seconds(self._part(name), done & self._answers(name), name)
        if KIND.get(name) == "quality":
            column = self._given_or(name, None, pl.Float64())
            return column.fill_nan(None) if self._given[name].size else column
        if KIND.get(name) == "count":
            return self._given_or(name, 0, pl.UInt32())
        if name == "status":
            return pl.Series(name, self._given[name]).cat.to(STATUS).alias(name)
        if not self._given["reason"].any():
            return pl.Series("reason", [None], dtype=REASON).new_from_index(0, len(self))
        # A row without a reason keeps code 0 under its null: some readers refuse codes past the last one.
        given = np.asarray(self._given["reason"])
        codes = pl.Series(np.maximum(given, 1) - 1).cat.to(REASON)
        return pl.select(pl.when(pl.Series(given > 0)).then(codes).alias(name)).to_series()

    def _timed(self, name: str) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Return the seconds of a moment, a span between two or TPOT, and where it exists."""
        if name in _MOMENTS:
            moment = self._moment(name)
            return moment / TICKS_PER_SECOND, moment != NEVER
        start, end = (self._moment(moment) for moment in _SPANS[name])
        seconds, holds = (end - start) / TICKS_PER_SECOND, (start != NEVER) & (end != NEVER)
        if name != "tpot":
            return seconds, holds
        gaps = self._gaps()
        return seconds / np.maximum(gaps, 1), holds & (gaps > 0)

    def _given_or(self, name: str, otherwise: float | None, dtype: pl.DataType) -> pl.Series:
        """Return the engine's column, or one value for all rows if the engine left it out."""
        given = self._given[name]
        if given.size:
            return pl.Series(name, given)
        return pl.Series(name, [otherwise], dtype=dtype).new_from_index(0, len(self))

    def _answers(self, name: str) -> NDArray[np.bool_]:
        """Return where the part applies: ``blocking`` needs a change of phase."""
        if name != "blocking":
            return np.ones(len(self), dtype=np.bool_)
        reasoned, answered = self._moment("reasoning_end"), self._moment("answer_started")
        return np.asarray((reasoned != NEVER) & (answered != NEVER))

    def _part(self, name: str) -> NDArray[np.uint64]:
        """Return the ticks of one part of each latency; rows of unfinished requests are undefined."""
        if name in _PARTS or name in _BEFORE:
            return _or(self._ticks[name], np.zeros(len(self), dtype=np.uint64))
        zero = np.zeros(len(self), dtype=np.uint64)
        if name == "blocking":
            # In transfer a request is neither blocked nor served.
            waited = self._moment("answer_started") - self._moment("reasoning_end")
            return np.asarray(waited - self._part("transfer_answering"))
        if name == "blocked":
            return np.asarray(self._moment("scheduled") - self._moment("arrival"))
        blocking = np.where(self._answers("blocking"), self._part("blocking"), zero)
        total = self._moment("finish") - self._moment("arrival")
        queueing = self._part("blocked")
        rest: NDArray[np.uint64] = (
            total - queueing - blocking - self._part("preempted") - self._part("transfer")
        )
        return rest

    def _moment(self, name: str) -> NDArray[np.uint64]:
        if name not in self._ticks:
            # Rounded to the nearest tick, ties to even, as the engine gets it.
            seconds = self._made["arrival_s"].to_numpy()
            self._ticks[name] = np.rint(seconds * TICKS_PER_SECOND).astype(np.uint64)
        if self._ticks[name].size < len(self):
            # The engine leaves out moments that do not apply to the trace.
            self._ticks[name] = np.full(len(self), NEVER, dtype=np.uint64)
        return self._ticks[name]

    def _gaps(self) -> NDArray[np.int64]:
        return self.counts("output_tokens").astype(np.int64) - 1
