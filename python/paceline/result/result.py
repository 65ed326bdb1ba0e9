"""The result of a replay, by request and in total."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import polars as pl
from numpy.typing import NDArray

from paceline._arguments import typed
from paceline.errors import ResultError
from paceline.objectives import SLO
from paceline.policy.pools import Pools
from paceline.result.attainment import attainment, met
from paceline.result.columns import COLUMNS, RequestColumns
from paceline.result.declared import DEFINITIONS
from paceline.result.groups import attained_by, met_by_group, summarized_by
from paceline.result.outcome import Outcome, Sketch
from paceline.result.over_time import OverTime, frames_as_recorded, frames_as_timelines
from paceline.result.provenance import Provenance
from paceline.result.roles import flips_frame, roles_frame
from paceline.result.save import Rest, save_parts
from paceline.result.sketch import read_sketch
from paceline.result.stats import ReplayStats
from paceline.result.steps import Recorded, recorded_of
from paceline.result.summary import summarize
from paceline.result.timeline import Timelines, timelines_of
from paceline.result.totals import Totals, makespan_s, rate, total
from paceline.showing.shown import Shown

if TYPE_CHECKING:
    from paceline.result.perfetto import PerfettoTrace
    from paceline.trace import Trace

__all__ = ["Result", "stats_of"]


class Result(OverTime, Shown):
    """The outcome of one replay.

    A result is made by :func:`paceline.replay` or :func:`paceline.load_result`.
    It holds the engine's columns; everything else is computed when it is first
    read. Times are seconds from the trace's start, and a token is emitted at the
    end of the step that computed it.

    Examples
    --------
    >>> import paceline
    >>> trace = paceline.Trace.from_columns(arrival=[0, 0], prompt_tokens=[8, 8], output_tokens=[2, 4])
    >>> cluster = paceline.Cluster([paceline.Instance(cost=paceline.Affine(step_s=0.5), num_blocks=9)])
    >>> result = paceline.replay(trace, cluster)
    >>> result.requests.select("ttft", "tpot", "e2e", "status").rows()
    [(0.5, 0.5, 1.0, 'finished'), (0.5, 0.5, 2.0, 'finished')]
    >>> result.attainment(paceline.SLO(e2e=1.5))
    0.5
    >>> result.totals().requests_per_s
    1.0
    """

    @typed(ResultError)
    def __init__(
        self,
        *,
        columns: RequestColumns,
        stats: Callable[[], ReplayStats],
        itl: Callable[[], Sketch],
        provenance: Callable[[], Provenance],
        timelines: Timelines | None = None,
        recorded: Recorded | None = None,
        summary: pl.DataFrame | None = None,
        totals: Totals | None = None,
    ) -> None:
        self._columns = columns
        self._make_stats = stats
        self._make_itl = itl
        self._make_provenance = provenance
        super().__init__(timelines, recorded)
        self._saved_summary = summary
        self._saved_totals = totals

    @classmethod
    def from_outcome(
        cls,
        *,
        trace: Trace,
        cluster: object,
        policy: object,
        outcome: Outcome,
        settings: Mapping[str, Any],
        arrivals: NDArray[np.uint64] | None = None,
    ) -> Result:
        """Wrap what the engine returned, without a copy or a computation.

        Parameters
        ----------
        trace, cluster, policy
            The inputs of the replay; kept for its provenance.
        outcome
            The engine's columns, in the trace's order.
        settings
            Other arguments of the replay by name: numbers, text, booleans or None.
        arrivals
            The arrivals in ticks, as of `Trace.columns_for_engine`; None: computed when they are read.
        """
        return cls(
            columns=RequestColumns.from_outcome(trace.frame, outcome, arrivals),
            stats=lambda: stats_of(outcome, policy),
            itl=lambda: outcome.itl,
            provenance=lambda: Provenance.of(trace, cluster, policy, settings),
            timelines=timelines_of(
                trace.frame,
                outcome,
                lambda: stats_of(outcome, policy),
                policy,
                settings,
                getattr(cluster, "frontend_s", 0.0),
            ),
            recorded=recorded_of(outcome, lambda: len(stats_of(outcome, policy).instances))
            if "record" in settings
            else None,
        )

    @cached_property
    def requests(self) -> pl.DataFrame:
        """One row per request, in the trace's order; times in seconds from the trace's start.

        :attr:`definitions` has the definition of each column, as does `docs/columns.md`. In order:

        - moments from ``arrival`` to ``finish``, null where they did not happen;
        - latencies (``queueing``, ``ttft``, ``ttfat``, ``tpot``, ``e2e``, ``normalized_latency``,
          ``max_itl``), null where the request did not come so far;
        - ``executed``, ``blocked``, ``blocking`` and the other parts of a finished request's ``e2e``, null
          where it is unfinished, and 0 where it spent no such time;
        - qualities of experience, null without a pace;
        - counts, ``instance`` and ``last_instance`` (null if it was routed to none), ``status``
          (finished, running, waiting, not_arrived, rejected, held, gave_up or cancelled), and ``reason``, why
          it was rejected or cancelled;
        - the trace's own: ``reasoning_tokens``, ``priority``, ``score``, ``tenant``, ``model``, ``adapter``,
          ``session`` and all further columns, if it has them; not ``prefix``.

        Notes
        -----
        ``tpot`` is that of vLLM's ``bench serve``, which genai-perf and AIPerf
        call ITL. DistServe counts zero instead of null for a single token, and
        its simulator and splitwise-sim divide by ``output_tokens``.
        """
        return self._columns.frame()

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of :attr:`requests`, those of the trace included."""
        return self._columns.names

    @property
    def definitions(self) -> dict[str, str]:
        """The definition of each column of :attr:`requests` that is not the trace's own.

        Examples
        --------
        >>> import paceline
        >>> trace = paceline.synthesize("azure-conv", requests=5, rate=1.0, seed=1)
        >>> instance = paceline.Instance(model="llama-3.1-8b", gpu="h100-sxm")
        >>> result = paceline.replay(trace, paceline.Cluster([instance]), paceline.policies.vllm())
        >>> result.definitions["ttft"]
        '`first_token - arrival`.'
        """
        return {name: DEFINITIONS[name] for name in COLUMNS}

    @typed(ResultError)
    def column(self, name: str) -> pl.Series:
        """Return one column of :attr:`requests`, without computing the others.

        Raises
        ------
        ResultError
            If there is no such column.
        """
        if name not in self._columns.names:
            known = ", ".join(self._columns.names)
            raise ResultError(f"a column of requests must be one of {known}, was {name!r}")
        return self._columns[name]

    @cached_property
    def stats(self) -> ReplayStats:
        """The engine's counters."""
        return self._make_stats()

    @cached_property
    def itl(self) -> Sketch:
        """The gaps between tokens, of all requests together, as a mergeable sketch."""
        return self._make_itl()

    @cached_property
    def provenance(self) -> Provenance:
        """The trace, cluster, policy and settings that were replayed."""
        return self._make_provenance()

    @cached_property
    def instances(self) -> pl.DataFrame:
        """One row per instance: work done, mean and peak load, use of the KV cache."""
        return self.stats.frame()

    @cached_property
    def links(self) -> pl.DataFrame:
        """One row per medium between instances: transfers, bytes, and the time in which it was busy.

        No rows if the cluster has no links. A byte counts in each medium that it crosses; `Totals` counts it
        once.

        ========== ==================================================================================
        medium     ``port 0 out`` and ``port 0 in`` of instance 0, ``inner port 0 out``, ``uplink 0 out`` of
                   node 0, ``fabric``, ``pair 0 to 1``, as far as the links have them
        transfers  transfers sent over it by the end of the replay, each stage of a live migration among them
        bytes      their bytes
        busy_s     seconds in which transfers occupied it, up to the end of the replay
        busy_share the same over the time of the replay
        ========== ==================================================================================
        """
        return self.stats.network.frame(self.stats.end_ticks)

    @cached_property
    def flips(self) -> pl.DataFrame:
        """The changes of instances' pools, in the order in which they happened.

        ========== ===============================================================================
        time_s     when the pool changed, in seconds from the trace's start
        instance   index of the instance
        from       its pool before
        to         its pool after: the pool that it was to join, or one for instances on their way
        cause      the rule that flipped it (on_arrival, on_prefilled, on_answering, every), or
                   why it joined the pool that it was on its way to: condition, delay
        request    row of the request about which the rule was asked; null otherwise
        ========== ===============================================================================
        """
        return flips_frame(self.stats)

    @cached_property
    def roles(self) -> pl.DataFrame:
        """The pools of each instance over time: `instance`, `role`, `from_s` and `to_s`.

        A row for each time that an instance spent in a pool, by instance and in order;
        no rows if the policy has no pools. Times in a pool of no length are left out.
        """
        return roles_frame(self.stats)

    @cached_property
    def _summary(self) -> pl.DataFrame:
        return summarize(self._columns, self.itl) if self._saved_summary is None else self._saved_summary

    @typed(ResultError)
    def summary(self, *, by: str | Sequence[str] | None = None) -> pl.DataFrame:
        """Summarize each latency in a row.

        Parameters
        ----------
        by
            Columns of `requests` to group by, such as ``"tenant"``: a row for each group and latency, sorted
            by the groups, without ``itl``, whose gaps are kept for all requests together.

        Returns
        -------
        polars.DataFrame
            Columns `metric` (ttft, tpot, itl, e2e, normalized_latency,
            queueing), `p50`, `p90`, `p99`, `p95`, `std`, `mean`, `min` and
            `max` in seconds, and `count`, of the requests that have the metric;
            for `itl`, of the gaps. Null where the count is zero. Printed, the
            frame shows all but `p95` and `std`.

        Notes
        -----
        As in vLLM's ``bench serve``, percentiles interpolate linearly, the
        standard deviation is the population's, and ``itl`` pools the gaps of
        all requests, so that long outputs weigh more. The percentiles of
        ``itl`` come from a sketch and are off by at most its relative error
        (`Result.itl.relative_error`); everything else is exact.
        """
        return self._summary if by is None else summarized_by(self._columns, by)

    @cached_property
    def _totals(self) -> Totals:
        saved = self._saved_totals
        return total(self._columns, self.stats, self.provenance) if saved is None else saved

    def totals(self) -> Totals:
        """Return counts, rates and means over the whole replay."""
        return self._totals

    @typed(ResultError)
    def met(self, slo: SLO | None = None, *, deadlines: Mapping[str, str] | None = None) -> pl.Series:
        """Return for each request, in the trace's order, whether it finished within every bound.

        Parameters
        ----------
        slo
            Bounds of all requests.
        deadlines
            Columns of the trace with bounds of each request, in seconds, by the latency that they bound:
            ``{"ttft": "patience_s"}``. Where it is null, the request has no such bound.

        Raises
        ------
        ResultError
            If neither is given, or a column is missing or holds no numbers.
        """
        return met(self._columns, slo, deadlines)

    @overload
    def attainment(
        self, slo: SLO | None = None, *, deadlines: Mapping[str, str] | None = None, by: None = None
    ) -> float: ...

    @overload
    def attainment(
        self,
        slo: SLO | Mapping[str | int | None, SLO] | None = None,
        *,
        deadlines: Mapping[str, str] | None = None,
        by: str | Sequence[str],
    ) -> pl.DataFrame: ...

    @typed(ResultError)
    def attainment(
        self,
        slo: SLO | Mapping[str | int | None, SLO] | None = None,
        *,
        deadlines: Mapping[str, str] | None = None,
        by: str | Sequence[str] | None = None,
    ) -> float | pl.DataFrame:
        """Return the share of requests that met `slo`.

        Of all requests that arrived, those that finished within every bound;
        rejected and unfinished ones count as missed. nan if none arrived.

        Parameters
        ----------
        slo
            Bounds of all requests; with `by`, also a dictionary of the bounds of each group.
        deadlines
            As of `met`.
        by
            Columns of `requests` to group by.

        Returns
        -------
        float or polars.DataFrame
            With `by`, a row for each group, sorted: its values, ``requests`` that arrived, those ``met``, and
            the share ``attainment``, null if none arrived.

        Examples
        --------
        >>> import paceline
        >>> trace = paceline.Trace.from_columns(
        ...     arrival=[0, 0, 0], prompt_tokens=[8, 8, 8], output_tokens=[2, 4, 4], tenant=["a", "a", "b"]
        ... )
        >>> cluster = paceline.Cluster([paceline.Instance(cost=paceline.Affine(step_s=0.5), num_blocks=9)])
        >>> result = paceline.replay(trace, cluster)
        >>> result.attainment(paceline.SLO(e2e=1.5), by="tenant").rows()
        [('a', 2, 1, 0.5), ('b', 1, 0, 0.0)]
        >>> strict, lax = paceline.SLO(e2e=1.5), paceline.SLO(e2e=2.0)
        >>> result.attainment({"a": strict, "b": lax}, by="tenant")["attainment"].to_list()
        [0.5, 1.0]
        """
        if isinstance(slo, Mapping):
            if by is None or deadlines:
                raise ResultError("slo by group needs by, the column of the groups, and takes no deadlines")
            return attained_by(self._columns, by, met_by_group(self._columns, slo, by))
        within = met(self._columns, slo, deadlines)
        return attainment(self._columns, within) if by is None else attained_by(self._columns, by, within)

    @typed(ResultError)
    def goodput(self, slo: SLO | None = None, *, deadlines: Mapping[str, str] | None = None) -> float:
        """Return the requests per second that met `slo`, and the `deadlines` as of `met`.

        As vLLM's ``bench serve``: requests within every bound over the whole
        duration, draining included (`Totals.makespan_s`). DistServe means
        another thing by the word: the highest rate at a target attainment.
        """
        window = makespan_s(self._columns, self.stats)
        return rate(int(self.met(slo, deadlines=deadlines).sum()), window)

    @typed(ResultError)
    def save(
        self, directory: str | os.PathLike[str], *, overwrite: bool = False, run: str | None = None
    ) -> Path:
        """Write the result to a directory, whole or not at all.

        Parameters
        ----------
        directory
            Created if it does not exist. A saved result in it is replaced.
        overwrite
            Replace the directory even if it holds something else.
        run
            Text of a file ``run.toml`` to save beside it, as `Run.to_toml` returns for the directory.

        Returns
        -------
        pathlib.Path
            The directory.

        Raises
        ------
        ResultError
            If the directory holds something else, is a file, or cannot be written.
        """
        return save_parts(
            directory,
            requests=self.requests,
            rest=Rest(
                stats=self.stats,
                itl=self.itl,
                provenance=self.provenance,
                summary=self.summary(),
                totals=self.totals(),
                timelines=self._timeline_files(),
                run=run,
            ),
            overwrite=overwrite,
        )

    @typed(ResultError)
    def perfetto(
        self,
        path: str | os.PathLike[str],
        *,
        between: tuple[float, float] | None = None,
        most_requests: int = 1000,
    ) -> PerfettoTrace:
        """Write the replay as a trace for Perfetto's viewer, https://ui.perfetto.dev.

        Each instance has a group of tracks: its steps, preemptions and sent transfers (if the replay recorded
        them), its pools, and counters (if the replay was sampled). Each request has a track with its phases:
        queued, prefill, decode.

        Parameters
        ----------
        path
            The file.
        between
            The window in seconds: only what overlaps it is written. None: the whole replay.
        most_requests
            The most requests with a track: the first that overlap the window, in the trace's order.

        Returns
        -------
        PerfettoTrace
            How much was written, and what was left out.

        Raises
        ------
        ResultError
            If the package perfetto is not installed, the window is none, or the file cannot be written.
        """
        from paceline.result.perfetto import write_perfetto

        return write_perfetto(self, self, Path(path), between, most_requests)

    def __len__(self) -> int:
        """Return the number of requests."""
        return len(self._columns)

    def __eq__(self, other: object) -> bool:
        """Compare all columns, counters and inputs of the replay."""
        if not isinstance(other, Result):
            return NotImplemented
        return (
            self.stats == other.stats
            and self.provenance == other.provenance
            and self.itl == other.itl
            and self.requests.equals(other.requests)
            and self._timeline_files().keys() == other._timeline_files().keys()
            and all(
                frame.equals(other._timeline_files()[name]) for name, frame in self._timeline_files().items()
            )
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Show how many requests finished, on how many instances, and in what time."""
        totals, instances = self.totals(), len(self.stats.instances)
        return (
            f"Result({self.provenance.trace!r}, {totals.finished:,} of {len(self):,} requests finished on "
            f"{instances} {'instance' if instances == 1 else 'instances'} "
            f"in {totals.makespan_s:,.1f} simulated seconds)"
        )

    def __reduce__(self) -> tuple[Callable[..., Result], tuple[Any, ...]]:
        """Pickle what the result holds: a saved result that was loaded lazily reads its columns first."""
        return unpickled, (
            self._columns,
            self.stats,
            self.itl.to_json(),
            self.provenance,
            self._timeline_files(),
        )


def unpickled(
    columns: RequestColumns,
    stats: ReplayStats,
    itl: bytes,
    provenance: Provenance,
    timelines: Mapping[str, pl.DataFrame],
) -> Result:
    """Return the result that was pickled."""
    sketch = read_sketch(itl, "a pickled result")
    return Result(
        columns=columns,
        stats=lambda: stats,
        itl=lambda: sketch,
        provenance=lambda: provenance,
        timelines=frames_as_timelines(timelines),
        recorded=frames_as_recorded(timelines),
    )


def stats_of(outcome: Outcome, policy: object) -> ReplayStats:
    """Return the engine's counters, with the names of the policy's pools."""
    pools = getattr(policy, "pools", None)
    if not isinstance(pools, Pools):
        return ReplayStats.from_json(outcome.stats)
    roles = tuple(pool for pool, size in pools.sizes.items() for _ in range(size))
    stats = ReplayStats.from_json(outcome.stats, roles=roles, flips=outcome.flips, pools=pools.names)
    return replace(stats, switched_off=pools.switched_off)
