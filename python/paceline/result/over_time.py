"""The part of a result that is over time."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import polars as pl

from paceline.errors import ResultError
from paceline.result.save import ROUTER_TIMELINE, STEPS, TENANT_TIMELINE, TIMELINE, TRANSFERS
from paceline.result.steps import Recorded
from paceline.result.timeline import Timelines

__all__ = ["OverTime", "frames_as_recorded", "frames_as_timelines"]


class OverTime:
    """States and sums of instances and of the router at equally spaced moments, if they were sampled."""

    def __init__(self, timelines: Timelines | None, recorded: Recorded | None) -> None:
        self._timelines = timelines
        self._recorded = recorded

    @cached_property
    def steps(self) -> pl.DataFrame:
        """The recorded steps: one row per step that started in the window, by instance and then by start.

        ================== ==============================================================================
        instance           index of the instance
        start_s            when the step started, in seconds from the trace's start
        step_s             seconds that it took
        requests           rows of the requests that it ran, in order of admission
        tokens             tokens that it computed of each
        decodes            how many of them decoded
        preempted          rows of the requests that were preempted while it was formed
        swapped_out_blocks blocks copied to the CPU's memory before it
        swapped_in_blocks  blocks copied back before it
        kv_free_blocks     free blocks once it was formed
        ================== ==============================================================================

        Raises
        ------
        ResultError
            If no steps were recorded.
        """
        return self._window().steps()

    @cached_property
    def transfers(self) -> pl.DataFrame:
        """The recorded transfers of KV: one row per transfer that was sent in the window, in that order.

        ============ ===================================================================================
        request      row of the request
        source       instance that sent it
        target       instance that received it
        kind         ``request``: it left its instance; ``accepted``: its target had accepted it;
                     ``stage``: a copy in a live migration, while it ran
        sent_s       when it was sent; from then on it waited for the network
        first_byte_s when its first byte was sent
        delivered_s  when it was delivered, which may be after the end of the replay
        bytes        its bytes
        ============ ===================================================================================

        Raises
        ------
        ResultError
            If no transfers were recorded.
        """
        return self._window().transfers()

    @property
    def is_recorded(self) -> bool:
        """Whether steps and transfers were recorded."""
        return self._recorded is not None

    @property
    def is_sampled(self) -> bool:
        """Whether the replay was sampled."""
        return self._timelines is not None

    def _window(self) -> Recorded:
        if self._recorded is None:
            raise ResultError(
                "no steps were recorded; replay with record=(0.0, 10.0) for those of the first ten seconds"
            )
        return self._recorded

    @cached_property
    def timeline(self) -> pl.DataFrame:
        """The instances over time: one row per sample and instance, by time and then by instance.

        A sample is taken after all events of its moment; the last row of an instance is the end of the
        replay. A state is what holds at `time_s`. A sum is over the `interval_s` seconds that ended there, so
        that the sums of all rows are those of the whole replay. A mean is an integral over that
        interval, divided by it.

        =================== ===== ========================================================================
        time_s                    the moment, in seconds from the trace's start
        interval_s                seconds since the sample before
        instance                  index of the instance
        role                state its pool; null without pools
        running             state running requests
        waiting             state queued requests, but for the next two
        swapped             state swapped-out requests
        incoming            state requests handed over to it whose KV has not been received
        kv_total_blocks           KV blocks of the instance
        kv_used_blocks      state blocks that requests hold, those in transfer included
        kv_cached_blocks    state free blocks whose content the prefix cache keeps
        kv_sending_blocks   state blocks of requests that left, whose KV has not been read
        kv_receiving_blocks state blocks of accepted and of loading requests, whose KV is on its way
        kv_tokens           state tokens of KV in the GPU's memory, as of the last finished step
        kv_host_tokens      state tokens of KV off the GPU: swapped out, or arrived and in no block
        kv_arriving_tokens  state tokens of KV on its way into blocks here
        tier_chunks         state chunks of KV that the host's memory holds, those being stored included
        store_chunks        state chunks in the store below that, of all instances that share it
        batch_requests      state requests in the step in progress; 0 if there is none, as the next two
        batch_tokens        state tokens that this step computes
        step_s              state seconds that this step takes
        on_s                sum   seconds in which it was switched on; starting and draining are in it
        steps               sum   steps that ended
        busy_s              sum   seconds in which a step was in progress
        prefill_tokens      sum   tokens computed by prefills, recomputed ones included, of steps that ended
        decode_tokens       sum   tokens computed by decodes, of steps that ended
        finished            sum   requests that finished
        dropped             sum   requests rejected here, as they could never be admitted again
        preemptions         sum   preemptions
        migrated_out        sum   requests that left for another instance
        migrated_in         sum   requests that came from another instance
        swapped_out_blocks  sum   blocks copied to the CPU's memory
        swapped_in_blocks   sum   blocks copied back
        prefix_queries      sum   tokens looked up in the prefix cache
        prefix_hits         sum   tokens of those that were found
        evictions           sum   cached blocks that were evicted
        mean_running        mean  running requests
        mean_waiting        mean  waiting and swapped-out requests
        mean_kv_tokens      mean  tokens of KV of running requests, those that a step computes from its start
        hbm_bytes           sum   bytes from and to the GPUs' memory, of steps that ended; null if not known
        flops               sum   floating-point operations, likewise
        link_bytes          sum   bytes that the GPUs of the instance sent to each other, likewise
        energy_j            sum   joules of these, of the busy time and of idle power; null if not known
        =================== ===== ========================================================================

        Raises
        ------
        ResultError
            If the replay was not sampled.
        """
        return self._sampled().instances()

    @cached_property
    def router_timeline(self) -> pl.DataFrame:
        """The router over time: one row per sample.

        ============ ===== ===============================================================================
        time_s             the moment, in seconds from the trace's start
        interval_s         seconds since the sample before
        arrivals     sum   requests that reached the router: after ``frontend_s`` and the prediction
        routed       sum   requests sent to an instance
        rejected     sum   requests that the router rejected
        gave_up      sum   requests that left the router because they were held for too long
        cancelled    sum   requests that left the router because their clients cancelled them
        first_tokens sum   requests that yielded their first token
        finished     sum   requests that finished
        held         state requests that the router holds
        ============ ===== ===============================================================================

        Raises
        ------
        ResultError
            If the replay was not sampled.
        """
        return self._sampled().router()

    @cached_property
    def tenant_timeline(self) -> pl.DataFrame:
        """The router over time by tenant: the columns of :attr:`router_timeline`, and ``tenant``.

        By time, then by tenant; requests without a tenant are in rows whose ``tenant`` is null.

        Raises
        ------
        ResultError
            If the replay was not sampled by tenant, or there are more than 10,000,000 rows.
        """
        tenants = self._sampled().tenants
        if tenants is None:
            raise ResultError(
                "the replay was not sampled by tenant; replay with sample=Sample(1.0, tenants=True)"
            )
        return tenants()

    def _sampled(self) -> Timelines:
        if self._timelines is None:
            raise ResultError("the replay was not sampled; replay with sample=1.0 for a sample each second")
        return self._timelines

    def _timeline_files(self) -> dict[str, pl.DataFrame]:
        """Return the frames over time that the result has, by the name of their file."""
        frames: dict[str, pl.DataFrame] = {}
        if self._timelines is not None:
            frames |= {TIMELINE: self.timeline, ROUTER_TIMELINE: self.router_timeline}
            if self._timelines.tenants is not None:
                frames[TENANT_TIMELINE] = self.tenant_timeline
        if self._recorded is not None:
            frames |= {STEPS: self.steps, TRANSFERS: self.transfers}
        return frames


def frames_as_timelines(frames: Mapping[str, pl.DataFrame]) -> Timelines | None:
    """Return timelines from frames by the name of their file; None if there are none."""
    if TIMELINE not in frames:
        return None
    tenants = frames.get(TENANT_TIMELINE)
    return Timelines(
        instances=lambda: frames[TIMELINE],
        router=lambda: frames[ROUTER_TIMELINE],
        tenants=None if tenants is None else lambda: tenants,
    )


def frames_as_recorded(frames: Mapping[str, pl.DataFrame]) -> Recorded | None:
    """Return recorded steps and transfers likewise."""
    return Recorded(lambda: frames[STEPS], lambda: frames[TRANSFERS]) if STEPS in frames else None
