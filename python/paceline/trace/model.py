"""The trace: a checked table of requests.

A trace has the requests of a serving system, with their arrivals and lengths. It
has neither their text nor the latencies that they had in that system.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import polars as pl

from paceline._arguments import typed
from paceline._check import is_number, said
from paceline._fork import use
from paceline.concurrency import Concurrency
from paceline.errors import TraceError
from paceline.trace.columns import Values
from paceline.trace.combining import concatenated
from paceline.trace.cutting import drawn_rows, windowed
from paceline.trace.digest import frame_sha256
from paceline.trace.frames import as_polars, renamed
from paceline.trace.parents import of_part
from paceline.trace.rates import arrival_ticks, check_rate
from paceline.trace.rows import Rows, frame_rows
from paceline.trace.schema import checked, checked_arrival
from paceline.trace.series import series
from paceline.trace.shapes import RateShape, mover
from paceline.trace.source import Source
from paceline.trace.statistics import summarized
from paceline.trace.writing import write_frame

__all__ = ["Trace"]


class Trace:
    """Requests in order of arrival; immutable.

    Parameters
    ----------
    frame
        One row a request, in the columns of `traces/schema.md`: ``arrival`` (seconds from the trace's
        start), ``prompt_tokens``, ``output_tokens``, and the optional ones, of which ``session`` with
        ``think_time``, and ``parents`` with ``delay``, make requests wait for answers. Other columns are kept
        for the result to be grouped by. Arrivals may be dates, which count from the first. Rows may be in
        any order; they are sorted by arrival, equal arrivals keeping their order.
    name
        Its name in messages and tables.
    source
        The source of the rows.
    dropped
        Rows of the source that are not in the frame, counted by reason.
    prefix_block_tokens
        Prompt tokens of one id in ``prefix``.

    Raises
    ------
    TraceError
        A rule of the schema is broken; the message names the row, the rule and the value.

    Examples
    --------
    >>> import polars as pl
    >>> frame = pl.DataFrame({"arrival": [0.5, 0.0], "prompt_tokens": [7, 300], "output_tokens": [9, 1]})
    >>> trace = Trace(frame)
    >>> len(trace), trace.span_s, trace.frame["prompt_tokens"].to_list()
    (2, 0.5, [300, 7])
    """

    __slots__ = (
        "_clients",
        "_dropped",
        "_name",
        "_prefix_block_tokens",
        "_sha256",
        "_source",
        "_table",
        "_ticks",
    )

    @typed(TraceError)
    def __init__(
        self,
        frame: pl.DataFrame,
        *,
        name: str = "trace",
        source: Source | None = None,
        dropped: Mapping[str, int] | None = None,
        prefix_block_tokens: int | None = None,
        _rows: Rows | None = None,
    ) -> None:
        use()
        rows = frame_rows(name) if _rows is None else _rows
        self._table = checked(frame, rows=rows, prefix_block_tokens=prefix_block_tokens)
        self._name = name
        self._source = Source(kind="columns") if source is None else source
        self._dropped = MappingProxyType(dict(dropped or {}))
        self._prefix_block_tokens = prefix_block_tokens
        self._clients: Concurrency | None = None
        self._sha256: str | None = None
        self._ticks: npt.NDArray[np.uint64] | None = None

    @classmethod
    @typed(TraceError)
    def from_columns(
        cls,
        *,
        arrival: Values,
        prompt_tokens: Values,
        output_tokens: Values,
        name: str = "trace",
        prefix_block_tokens: int | None = None,
        **optional: Values,
    ) -> Trace:
        """Build a trace from lists, numpy arrays or polars series of one length.

        Parameters
        ----------
        arrival
            Seconds from the trace's start.
        prompt_tokens, output_tokens
            Whole numbers of at least 1.
        name
            Its name in messages and tables.
        prefix_block_tokens
            Prompt tokens of one id in ``prefix``.
        **optional
            Any of the other columns of the schema, and further ones, which are kept.

        Raises
        ------
        TraceError
            A rule of the schema is broken, or the lengths differ.

        Examples
        --------
        >>> trace = Trace.from_columns(arrival=[0.0, 1.5], prompt_tokens=[100, 20], output_tokens=[8, 9])
        >>> trace.rate_per_s
        0.6666666666666666
        """
        use()
        required = {"arrival": arrival, "prompt_tokens": prompt_tokens, "output_tokens": output_tokens}
        try:
            given = [series(column, values) for column, values in (required | optional).items()]
            frame = pl.DataFrame(given)
        except (pl.exceptions.PolarsError, TypeError, ValueError, OverflowError) as error:
            raise TraceError(f"{name}: {error}") from error
        return cls(frame, name=name, prefix_block_tokens=prefix_block_tokens)

    @classmethod
    @typed(TraceError)
    def from_frame(
        cls,
        frame: Any,  # noqa: ANN401 - of any library
        *,
        columns: Mapping[str, str] | None = None,
        name: str = "trace",
        prefix_block_tokens: int | None = None,
    ) -> Trace:
        """Build a trace from a table of polars, pandas or Arrow.

        Parameters
        ----------
        frame
            A table with a row a request; anything that exports Arrow streams (``__arrow_c_stream__``), or a
            pandas frame.
        columns
            The table's name of each column that it has by another name than the schema's:
            ``{"arrival": "sent_at"}``.
        name
            Its name in messages and tables.
        prefix_block_tokens
            Prompt tokens of one id in ``prefix``.

        Raises
        ------
        TraceError
            If it is no such table, or a rule of the schema is broken.

        Examples
        --------
        >>> import datetime, polars as pl
        >>> sent = [datetime.datetime(2026, 1, 1, 12, 0, second) for second in (0, 3)]
        >>> table = pl.DataFrame({"sent": sent, "prompt": [9, 8], "answer": [2, 3], "region": ["eu", "us"]})
        >>> names = {"arrival": "sent", "prompt_tokens": "prompt", "output_tokens": "answer"}
        >>> Trace.from_frame(table, columns=names).frame.rows()
        [(0.0, 9, 2, 'eu'), (3.0, 8, 3, 'us')]
        """
        use()
        table = renamed(as_polars(frame, name), columns or {}, name)
        return cls(table, name=name, prefix_block_tokens=prefix_block_tokens)

    @property
    def _frame(self) -> pl.DataFrame:
        use()
        return self._table

    @property
    def frame(self) -> pl.DataFrame:
        """The table. Changing what this returns does not change the trace."""
        return self._frame.clone()

    @property
    def name(self) -> str:
        """The name of the trace in messages and tables."""
        return self._name

    @property
    def source(self) -> Source:
        """The source of the trace."""
        return self._source

    @property
    def dropped(self) -> Mapping[str, int]:
        """Rows of the source that are not in the trace, counted by reason."""
        return self._dropped

    @property
    def prefix_block_tokens(self) -> int | None:
        """Prompt tokens of one id in ``prefix``; None without that column."""
        return self._prefix_block_tokens

    @property
    def span_s(self) -> float:
        """Seconds from the first arrival to the last."""
        arrival = self._frame.get_column("arrival")
        return float(arrival[-1] - arrival[0])

    @property
    def mean_prompt_tokens(self) -> float:
        """The mean of its prompts; 0 without requests."""
        prompts = self._frame.get_column("prompt_tokens").to_numpy()
        return float(prompts.mean()) if prompts.size else 0.0

    @property
    def rate_per_s(self) -> float:
        """Mean requests per second: gaps between arrivals over the span; infinite when the span is 0."""
        return (len(self) - 1) / self.span_s if self.span_s > 0 else float("inf")

    @property
    def sha256(self) -> str:
        """A hash of the rows and the clients, the same on every machine, whatever names and sources are."""
        if self._sha256 is None:
            self._sha256 = frame_sha256(self._frame, self._prefix_block_tokens, self._clients)
        return self._sha256

    def __len__(self) -> int:
        return self._frame.height

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Trace):
            return NotImplemented
        own, others = ((each._prefix_block_tokens, each._clients) for each in (self, other))
        return own == others and self._frame.equals(other._frame)

    def __hash__(self) -> int:
        return hash(self.sha256)

    def __repr__(self) -> str:
        sent = "" if self._clients is None else f", sent by {self._clients!r}"
        return f"<Trace {self._name!r}: {len(self):,} requests over {self.span_s:,.1f} s{sent}>"

    def __reduce__(self) -> tuple[Any, ...]:
        parts = (self._frame, self._name, self._source, dict(self._dropped), self._prefix_block_tokens)
        return _rebuilt, (*parts, self._clients)

    @property
    def clients(self) -> Concurrency | None:
        """The clients that send the requests; None: each is sent when the rows say."""
        return self._clients

    @typed(TraceError)
    def by(self, clients: Concurrency | None) -> Trace:
        """Return the trace with clients that send its requests, at most so many at a time; None: without.

        Whatever replays the trace then replays it with them: `replay`, `compare`, `plan`, `sweep`; and
        `capacity` searches for the most requests, or sessions, in flight.

        Examples
        --------
        >>> from paceline import Concurrency
        >>> trace = Trace.from_columns(arrival=[0, 0], prompt_tokens=[5, 6], output_tokens=[1, 1])
        >>> trace.by(Concurrency(1))
        <Trace 'trace': 2 requests over 0.0 s, sent by Concurrency(most=1, gap_s=0.0, of='requests')>
        """
        changed = self._copy()
        changed._clients = clients
        changed._sha256 = None
        return changed

    def _copy(self) -> Trace:
        copy = object.__new__(Trace)
        for name in Trace.__slots__:
            setattr(copy, name, getattr(self, name))
        return copy

    def with_frame(
        self, frame: pl.DataFrame, *, name: str | None = None, dropped: Mapping[str, int] | None = None
    ) -> Trace:
        """Return a trace of other rows, made from this one: its source, block size and clients stay.

        Parameters
        ----------
        frame
            A table in the columns of traces.
        name
            Its name in messages and tables; None: that of this trace.
        dropped
            Requests that were left out, by reason; None: those of this trace.

        Raises
        ------
        TraceError
            If a rule of the schema is broken.

        Examples
        --------
        >>> trace = Trace.from_columns(arrival=[0.0, 1.0], prompt_tokens=[9, 8], output_tokens=[2, 3])
        >>> later = trace.with_frame(trace.frame.tail(1), name="later", dropped={"before noon": 1})
        >>> later.name, len(later), later.dropped["before noon"]
        ('later', 1, 1)
        """
        changed = Trace(
            frame,
            name=self._name if name is None else name,
            source=self._source,
            dropped=self._dropped if dropped is None else dropped,
            prefix_block_tokens=self._prefix_block_tokens,
        )
        changed._clients = self._clients
        return changed

    @typed(TraceError)
    def scaled(self, scale: float) -> Trace:
        """Multiply the rate of arrivals, as ``at_rate(scale=…)`` and ``--scale`` do: 2 is twice the load.

        Raises
        ------
        TraceError
            `scale` is not a positive finite number, or an arrival leaves the clock's range.

        Examples
        --------
        >>> trace = Trace.from_columns(arrival=[0, 1, 2], prompt_tokens=[1, 1, 1], output_tokens=[1, 1, 1])
        >>> trace.scaled(2.0).frame["arrival"].to_list()
        [0.0, 0.5, 1.0]
        """
        return self.at_rate(scale=scale)

    @typed(TraceError)
    def stretched(self, factor: float) -> Trace:
        """Multiply every arrival by `factor`, as Arrow's experiments do: 2 is half the load.

        Raises
        ------
        TraceError
            `factor` is not a positive finite number, or an arrival leaves the clock's range.

        Examples
        --------
        >>> trace = Trace.from_columns(arrival=[0, 1, 2], prompt_tokens=[1, 1, 1], output_tokens=[1, 1, 1])
        >>> trace.stretched(2.0).frame["arrival"].to_list()
        [0.0, 2.0, 4.0]
        """
        if not (is_number(factor) and factor > 0):
            raise TraceError(f"factor must be a positive finite number, was {said(factor)}")
        return self._at(lambda moment: moment * float(factor))

    @typed(TraceError)
    def at_rate(self, *, scale: float | None = None, rate: float | None = None) -> Trace:
        """Compress or stretch time, keeping the order and the shape of the bursts.

        Parameters
        ----------
        scale
            Times the present rate: 4 divides every arrival by 4.
        rate
            Requests per second of the result, as `rate_per_s` counts them. Give one of the two.

        Raises
        ------
        TraceError
            Neither or both are given, either is not positive and finite, or all requests arrive at one
            instant and a rate is given.

        Examples
        --------
        >>> trace = Trace.from_columns(arrival=[0, 1, 2], prompt_tokens=[1, 1, 1], output_tokens=[1, 1, 1])
        >>> trace.at_rate(rate=10).frame["arrival"].to_list()
        [0.0, 0.1, 0.2]
        """
        check_rate(self._name, self.span_s, scale=scale, rate=rate)
        if scale is not None:
            return self._at(lambda moment: moment / float(scale))
        return self.stretched(self.rate_per_s / cast(float, rate))

    @typed(TraceError)
    def reshaped(self, shape: RateShape, *, seed: int = 0) -> Trace:
        """Move the arrivals so that their rate follows a shape, keeping their order and their bursts.

        Parameters
        ----------
        shape
            A rate over time, such as `paceline.synthesis.Ramp`. Where twice as many requests came as the mean
            rate says, twice as many come as the shape says. Turns that follow an answer are not counted.
        seed
            Draws the phases of a shape that has random ones (`OnOff`).

        Raises
        ------
        TraceError
            All requests arrive at one instant, or an arrival leaves the clock's range.

        Examples
        --------
        One request a second, at a rate that doubles after two requests:

        >>> from paceline.synthesis import Steps
        >>> ones = [1] * 5
        >>> trace = Trace.from_columns(arrival=[0, 1, 2, 3, 4], prompt_tokens=ones, output_tokens=ones)
        >>> trace.reshaped(Steps(((0, 1), (2, 2)))).frame["arrival"].to_list()
        [0.0, 1.0, 2.0, 2.5, 3.0]
        """
        return self._at(mover(self._frame, shape, seed, self._name))

    @typed(TraceError)
    def window(self, start_s: float, end_s: float) -> Trace:
        """Cut the requests that arrive in [start_s, end_s), and count time from `start_s`.

        Raises
        ------
        TraceError
            The window is empty, or no request arrives in it.
        """
        return self._with(windowed(self._frame, self._name, start_s, end_s))

    @typed(TraceError)
    def sample(self, n: int | None = None, *, fraction: float | None = None, seed: int) -> Trace:
        """Keep a random part of the requests, each with its own arrival, none twice.

        Parameters
        ----------
        n
            How many to keep.
        fraction
            Or the share to keep, in (0, 1]; the count is rounded to the nearest, and at least 1.
        seed
            The same seed keeps the same requests, on any machine: they are the `n` smallest of one raw
            PCG64 draw per request.

        Raises
        ------
        TraceError
            Neither or both of `n` and `fraction` are given, or the count is not in 1 to ``len(trace)``.
        """
        return self._with(self._frame[drawn_rows(len(self), n, fraction, seed)])

    @staticmethod
    @typed(TraceError)
    def concat(traces: Sequence[Trace], *, gap_s: float = 0.0) -> Trace:
        """Lay traces end to end.

        Each starts `gap_s` seconds after the last arrival of the one before. A column that only some have
        is filled with 0, null or no blocks where it is missing, except ``score``, which has no neutral
        value. Sessions and prefix ids are kept as they are: equal ids mean equal content across traces.
        Clients are not kept.

        Raises
        ------
        TraceError
            No trace is given, `gap_s` is negative, scores are missing in some, or block sizes differ.
        """
        frame, block_tokens, dropped = concatenated(
            [(t._name, t._frame, t._prefix_block_tokens, t._dropped) for t in traces], gap_s=gap_s
        )
        names = [trace._name for trace in traces]
        source = Source(kind="concat", detail=", ".join(names))
        name = " + ".join(dict.fromkeys(names))
        return Trace(frame, name=name, source=source, dropped=dropped, prefix_block_tokens=block_tokens)

    def summary(self) -> pl.DataFrame:
        """Describe the trace: a row for the gaps between arrivals and one for each kind of length.

        Returns
        -------
        DataFrame
            ``quantity`` (``"gap_s"``, ``"prompt_tokens"``, ``"output_tokens"`` and, where the trace has them,
            ``"reasoning_tokens"``), ``count``, ``sum``, ``mean``, ``cv`` (standard deviation over mean),
            ``p50``, ``p90``, ``p99``, ``max``. Quantiles interpolate linearly between order statistics.
            The sum of the gaps is the span. Gaps are null for a single request.

        Examples
        --------
        >>> trace = Trace.from_columns(arrival=[0, 1, 4], prompt_tokens=[5, 6, 7], output_tokens=[1, 1, 4])
        >>> trace.summary().select("quantity", "count", "sum", "mean").rows()
        [('gap_s', 2, 4.0, 2.0), ('prompt_tokens', 3, 18.0, 6.0), ('output_tokens', 3, 6.0, 2.0)]
        """
        return summarized(self._frame)

    @typed(TraceError)
    def write(self, path: str | Path) -> None:
        """Write the trace in Paceline's own schema, whole or not at all.

        The suffix decides: ``.csv``, ``.jsonl`` or ``.parquet``, the first two also with ``.gz`` or ``.zst``.
        `read_trace` gives back an equal trace. The same trace gives the same bytes.

        Raises
        ------
        TraceError
            The suffix is none of these.
        OSError
            The file cannot be written.
        """
        write_frame(self._frame, Path(path), prefix_block_tokens=self._prefix_block_tokens)

    def columns_for_engine(
        self,
    ) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
        """Return arrivals in ticks, prompt tokens and output tokens, not to be changed."""
        if self._ticks is None:
            # Kept, as replays in a sweep share the trace.
            self._ticks = arrival_ticks(self._frame)
        prompt = self._frame.get_column("prompt_tokens").to_numpy()
        output = self._frame.get_column("output_tokens").to_numpy()
        return self._ticks, prompt, output

    def _at(self, moved: Callable[[pl.Expr], pl.Expr]) -> Trace:
        """Return the trace with its moments moved, in the same order; its other columns were checked before.

        Think times and delays are spans between an answer and a request, and stay.
        """
        frame = self._frame
        changed = self._copy()
        moments = frame.select(
            moved(pl.col(name)) for name in ("arrival", "not_before") if name in frame.columns
        )
        arrivals = checked_arrival(moments.drop_in_place("arrival"), frame_rows(self._name))
        changed._table = frame.with_columns(arrivals, *moments)
        changed._sha256 = changed._ticks = None
        return changed

    def _with(self, frame: pl.DataFrame) -> Trace:
        """Return a part of the trace. Its requests wait for those of their parents that it has."""
        return self.with_frame(of_part(frame, self._name))


def _rebuilt(
    frame: pl.DataFrame,
    name: str,
    source: Source,
    dropped: dict[str, int],
    prefix_block_tokens: int | None,
    clients: Concurrency | None,
) -> Trace:
    trace = Trace(frame, name=name, source=source, dropped=dropped, prefix_block_tokens=prefix_block_tokens)
    return trace if clients is None else trace.by(clients)
