"""A replay that is driven from outside."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import polars as pl

from paceline import _native
from paceline._arguments import typed
from paceline._check import is_number, said
from paceline._clock import TICKS_PER_SECOND, moment
from paceline._serving import name_models, served
from paceline.deployment import Cluster
from paceline.errors import ConfigError, PolicyError, TraceError
from paceline.policies.vllm import vllm
from paceline.policy import Pace, Policy
from paceline.policy.python_routers import routers_of
from paceline.result import Result
from paceline.sampling import sample_to_wire
from paceline.simulation.columns import Encoder
from paceline.simulation.events import Event, event_frame, event_list
from paceline.trace import Trace
from paceline.trace.rates import arrival_ticks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from paceline import _core

__all__ = ["Simulation"]

Requests: TypeAlias = Trace | pl.DataFrame | Mapping[str, Any] | Sequence[Mapping[str, Any]]

_NUMBER: Final = "\0number"


class Simulation:
    """A cluster under a policy that serves requests as they are submitted, for clients and scalers in Python.

    It is the engine of `paceline.replay`: if the same requests are submitted, in whatever batches and between
    whatever runs, :meth:`result` is that of the replay, bit for bit. It stands at a moment, :attr:`now`, at
    the start 0: steps that end then have ended, and no request that is sent then has been routed. So a
    request may still be submitted for this moment.

    Parameters
    ----------
    cluster
        The instances that serve the requests.
    policy
        How requests are routed and scheduled; None: vLLM V1's scheduler.
    columns
        The optional columns that requests will have: of ``reasoning_tokens``, ``priority``, ``score``,
        ``tenant``, ``model``, ``adapter``, ``session`` and ``prefix``. Columns that the schema of traces does
        not know need not be named, and come back in the result.
    tenants
        Tenants that rules of the policy name. Others may come later.
    prefix_block_tokens
        Prompt tokens of one id in ``prefix``.
    pace
        As of `paceline.replay`.
    sample
        Seconds between two samples of the timeline; None: there is none.
    leap
        As of `paceline.replay`.

    Raises
    ------
    ConfigError
        If an instance or a setting cannot be used, or the policy's routers number the prompts of a whole
        trace (an index, a tree or active blocks of prompts).
    PolicyError
        If the policy reads a column that is not declared.

    Examples
    --------
    A client that asks again one second after each answer, three times:

    >>> import paceline
    >>> cost = paceline.Affine(step_s=0.010)
    >>> cluster = paceline.Cluster([paceline.Instance(cost=cost, num_blocks=101)])
    >>> simulation = paceline.Simulation(cluster)
    >>> asked = simulation.submit({"prompt_tokens": 100, "output_tokens": 2}, at=0.0)
    >>> while simulation.step() is not None:
    ...     for event in simulation.events():
    ...         if event.kind == "finished" and event.request < 2:
    ...             asked = simulation.submit({"prompt_tokens": 100, "output_tokens": 2}, at=event.time + 1)
    >>> simulation.result().requests["arrival"].to_list()
    [0.0, 1.02, 2.04]

    Notes
    -----
    ``affinity("session")`` and ``affinity("tenant")`` hash the number of a session or tenant. Here they are
    numbered as they come (tenants that are given at the start first, in alphabetical order), in a trace in
    alphabetical order of all.
    """

    @typed()
    def __init__(
        self,
        cluster: Cluster,
        policy: Policy | None = None,
        *,
        columns: Collection[str] = (),
        tenants: Collection[str] = (),
        prefix_block_tokens: int | None = None,
        pace: Pace | None = None,
        sample: float | None = None,
        leap: bool = True,
    ) -> None:
        self._cluster = cluster
        self._policy = vllm() if policy is None else policy
        if isinstance(columns, str):
            raise ConfigError(f"columns must be names, such as ['session'], was {said(columns)}")
        if ("prefix" in columns) != (prefix_block_tokens is not None):
            raise ConfigError(
                "prefix_block_tokens must be given with the column prefix, and only then, was "
                f"{said(prefix_block_tokens)} with columns of {', '.join(columns) or 'none'}"
            )
        named = {one.served_model_name for one in cluster.instances if one.served_model_name is not None}
        shared = math.gcd(*(instance.block_tokens for instance in cluster.instances))
        self._encoder = Encoder(
            self._policy,
            declared=columns,
            tenants=sorted(tenants),
            served=named,
            block_tokens=prefix_block_tokens or shared,
        )
        self._prefix_block_tokens = prefix_block_tokens
        self._settings: dict[str, Any] = {"until": None, "leap": leap}
        parts: dict[str, Any] = {}
        empty = self._encoder.empty()
        if pace is not None:
            self._settings["pace"] = repr(pace)
        if sample is not None:
            if isinstance(sample, int):
                raise ConfigError(
                    f"sample must be seconds as a float, as no end is known, was the whole number {sample}"
                )
            count = len(cluster.instances)
            parts["sample"] = sample_to_wire(
                sample, instances=count, arrivals=empty["arrival_ticks"], until=None
            )
            self._settings["sample"] = sample
        names = self._policy.names(sorted(tenants))
        serving = served(cluster, self._policy, names, pace)
        if named:
            name_models(serving["instances"], cluster, sorted(named))
        self._engine: _core.Simulation = _native.opened(
            columns=empty,
            **serving,
            **parts,
            entrance=cluster.entrance_to_wire(),
            calls=routers_of(self._policy.calls),
            leap=leap,
        )
        self._batches: list[pl.DataFrame] = []
        self._submitted = 0

    @property
    def now(self) -> float:
        """The moment at which the simulation stands, in seconds."""
        return self._engine.now() / TICKS_PER_SECOND

    @typed()
    def submit(self, requests: Requests, *, at: float | None = None) -> range:
        """Submit requests.

        Parameters
        ----------
        requests
            A request as a mapping of columns to values (``{"prompt_tokens": 100, "output_tokens": 20}``),
            several as a list of these, or a table in the columns of traces. Those with ``arrival`` are sent
            then; it must not be before :attr:`now`.
        at
            When all are sent, in seconds; None: at their ``arrival``, or, without that column, now.

        Returns
        -------
        range
            The numbers by which :meth:`events` names the requests: in order of their arrivals, and of equal
            ones as they were given.

        Raises
        ------
        TraceError
            If a row breaks a rule of traces, a declared column is missing, or a request is sent before now.
            Then none is submitted.
        """
        batch = self._batch(requests, at)
        given = self._encoder.of(batch)
        batch, given["arrival_ticks"] = self._sent(batch, given["arrival_ticks"])
        self._engine.submit(given)
        self._batches.append(batch.frame)
        numbers = range(self._submitted, self._submitted + len(batch))
        self._submitted = numbers.stop
        return numbers

    @typed()
    def run_until(self, time: float) -> None:
        """Run to a moment, and stand there; to one that is past: do nothing.

        Parameters
        ----------
        time
            Seconds from the start.

        Raises
        ------
        ClockError
            If the simulated time exceeds 186 days.
        InternalError
            If a bug is found in the engine.
        """
        self._engine.run_until(moment("time", time))

    def step(self) -> float | None:
        """Run to the next moment at which something happens: a request arrives, a step or a transfer ends.

        Returns
        -------
        float or None
            That moment, which is :attr:`now` then, in seconds; None if nothing happens until another request
            is submitted.
        """
        next_ticks = self._engine.step()
        return None if next_ticks is None else next_ticks / TICKS_PER_SECOND

    def events(self) -> list[Event]:
        """Return what has happened to requests since the last call, in order of time."""
        return event_list(self._engine.events())

    def events_frame(self) -> pl.DataFrame:
        """Return the same as a table with ``time``, ``kind``, ``request`` and ``instance``."""
        return event_frame(self._engine.events())

    def tokens(self) -> pl.DataFrame:
        """Return the requests that are on instances now.

        Returns
        -------
        polars.DataFrame
            ``request``, its number; ``instance``; and ``tokens``, its output tokens so far.
        """
        return pl.DataFrame(self._engine.tokens())

    def state(self) -> pl.DataFrame:
        """Return the instances as rules of a policy can read them now, a row for each.

        Returns
        -------
        polars.DataFrame
            ``instance``, its ``pool`` (of a policy with pools), and the fields of `paceline.inst` of the same
            names: requests (``running``, ``waiting``, ``swapped``, ``requests``, ``prefilling_requests``,
            ``decoding_requests``), tokens (``kv_tokens``, ``gpu_kv_tokens``, ``cpu_kv_tokens``,
            ``running_tokens``, ``outstanding_tokens``), blocks (``free_blocks``, ``total_blocks``) and
            ``kv_usage``, a share.
        """
        fields = self._engine.state()
        roles = fields.pop("role").astype(int).tolist()
        counts = [name for name in fields if name != "kv_usage"]
        frame = pl.DataFrame({"instance": range(len(roles)), **fields})
        frame = frame.with_columns(pl.col("instance", *counts).cast(pl.UInt64))
        pools = self._policy.pools
        if pools is None:
            return frame
        return frame.insert_column(1, pl.Series("pool", [pools.names[role] for role in roles]))

    @typed(PolicyError)
    def set_pool(self, instance: int, pool: str) -> bool:
        """Have an instance join a pool, as `paceline.policy.flip` would in a monitor of the policy.

        If the policy has a pool for instances on the way there (``leaving``), the instance is in it until its
        condition holds or its delay has passed: the time of a start, or until its requests have ended.

        Parameters
        ----------
        instance
            Its place in the cluster, from 0.
        pool
            The name of one of the policy's pools.

        Returns
        -------
        bool
            Whether it is in the pool then, or on its way. If not, it is on its way to another.

        Raises
        ------
        PolicyError
            If the policy has no such pool, or the cluster no such instance.
        """
        pools = self._policy.pools
        names = () if pools is None else tuple(pools.sizes)
        if pool not in names:
            raise PolicyError(f"pool must be one of the policy ({', '.join(names) or 'none'}), was {pool!r}")
        count = len(self._cluster.instances)
        if not 0 <= instance < count:
            raise PolicyError(f"instance must be 0 to {count - 1}, was {instance}")
        self._settings["set_pool"] = int(self._settings.get("set_pool", 0)) + 1
        return self._engine.set_role(instance, names.index(pool))

    def trace(self) -> Trace:
        """Return the requests that were submitted, in order of their arrivals.

        Raises
        ------
        TraceError
            If there are none.
        """
        return self._ordered()[0]

    def numbers(self) -> list[int]:
        """Return the numbers of the requests in the order of :meth:`trace`, and of the result's rows."""
        return self._ordered()[1]

    def result(self) -> Result:
        """Run until all requests have ended, and return the result; the simulation has ended then.

        Returns
        -------
        Result
            A row for each request, in order of arrival; equal arrivals in the order of their submission.

        Raises
        ------
        TraceError
            If no request was submitted.
        """
        trace, _ = self._ordered()
        return Result.from_outcome(
            trace=trace,
            cluster=self._cluster,
            policy=self._policy,
            outcome=self._engine.finish(),
            settings=self._settings,
            arrivals=trace.columns_for_engine()[0],
        )

    def _batch(self, requests: Requests, at: float | None) -> Trace:
        """Return requests as a trace, with their arrivals."""
        if isinstance(requests, Trace):
            if at is None:
                return requests
            requests = requests.frame
        if isinstance(requests, Mapping):
            requests = [requests]
        rows = requests if isinstance(requests, pl.DataFrame) else pl.from_dicts(list(requests))
        if at is not None:
            if not (is_number(at) and at >= 0):
                raise TraceError(f"at must be 0 or more seconds, was {said(at)}")
            rows = rows.with_columns(pl.lit(float(at)).alias("arrival"))
        elif "arrival" not in rows.columns:
            rows = rows.with_columns(pl.lit(self.now).alias("arrival"))
        return Trace(rows, name="the requests", prefix_block_tokens=self._prefix_block_tokens)

    def _sent(self, batch: Trace, ticks: NDArray[np.uint64]) -> tuple[Trace, NDArray[np.uint64]]:
        """Return a batch whose first requests arrive no tick before now, where they are to arrive now.

        After 2.5 hours a number of seconds is no whole number of ticks.
        """
        now = self._engine.now()
        early = ticks < now
        if not early.any():
            return batch, ticks
        seconds = now / TICKS_PER_SECOND
        given = batch.frame.get_column("arrival").to_numpy()
        if (given[early] < seconds).any():
            row = int(np.argmax(early))
            raise TraceError(
                f"row {row}: arrival must be {seconds} s, where the simulation stands, or later, "
                f"was {given[row]}"
            )
        while round(seconds * TICKS_PER_SECOND) < now:
            seconds = math.nextafter(seconds, math.inf)
        moved = batch.frame.with_columns(pl.Series("arrival", np.where(early, seconds, given)))
        batch = Trace(moved, name=batch.name, prefix_block_tokens=batch.prefix_block_tokens)
        return batch, batch.columns_for_engine()[0]

    def _ordered(self) -> tuple[Trace, list[int]]:
        """Return the trace of what was submitted, and its numbers."""
        if not self._batches:
            raise TraceError("a simulation must have at least one request, had none: submit some")
        rows = pl.concat(self._batches, how="diagonal_relaxed").with_row_index(_NUMBER)
        ticks = arrival_ticks(rows)
        rows = rows[np.argsort(ticks, kind="stable")]
        numbers = rows.drop_in_place(_NUMBER).to_list()
        # Of moments within one tick, the order of submission counts.
        rows = rows.with_columns(pl.col("arrival").cum_max())
        return Trace(rows, name="submitted", prefix_block_tokens=self._prefix_block_tokens), numbers
