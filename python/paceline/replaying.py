"""Replaying a trace through a cluster under a policy."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from paceline import _native
from paceline._arguments import typed
from paceline._check import said
from paceline._clock import moment
from paceline._cores import threads_of_one
from paceline._serving import name_models, served
from paceline.concurrency import Concurrency
from paceline.deployment import Cluster
from paceline.errors import ConfigError, InternalError
from paceline.hosts import EngineHost
from paceline.limits import Limits
from paceline.policies.vllm import vllm
from paceline.policy import Pace, Policy
from paceline.policy.misuse import warn_of_misuse
from paceline.policy.python_routers import Watched, routers_of
from paceline.result import Provenance, Result
from paceline.result.output import Output, output_of
from paceline.result.turns import warn_of_early_turns
from paceline.sampling import Sample, sample_of, sample_to_wire, warn_if_longer
from paceline.trace import Trace, TraceScan

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from paceline._core import Progress

__all__ = ["checked_for_scan", "replay", "settings_kept"]


@typed()
def replay(
    trace: Trace | TraceScan,
    cluster: Cluster,
    policy: Policy | None = None,
    *,
    clients: Concurrency | None = None,
    pace: Pace | None = None,
    host: str | os.PathLike[str] | EngineHost | None = None,
    until: float | None = None,
    leap: bool = True,
    sample: float | Sample | None = None,
    record: tuple[float, float] | None = None,
    out: str | os.PathLike[str] | Output | None = None,
    progress: Callable[[Progress], object] | None = None,
) -> Result:
    """Replay a trace through a cluster under a policy.

    The same inputs give the same result, bit for bit, on any machine. Ctrl-C
    stops the replay within a few hundredths of a second. Instances that do not influence each other, such as
    those behind a round robin, are replayed on all cores, with the same result
    (``PACELINE_THREADS=1`` in the environment: on one).

    Parameters
    ----------
    trace
        The requests. Those of :func:`~paceline.scan_trace` are read as they are replayed, and written to
        `out` as they end, so that memory does not grow with their number; the result is the same. What
        needs the whole trace is refused: clients, columns that make requests wait for answers, sessions,
        tiers of KV, routers' books of prompts, samples and records.
    cluster
        The instances that serve them.
    policy
        How requests are routed and scheduled; None: vLLM V1's scheduler.
    clients
        How many requests, or sessions, are in flight at most. None: as the trace has it (`Trace.by`); if it
        has no clients, each request is sent when it arrives, or when those that it waits for have ended.
    pace
        How fast users read, by which QoE is measured if the policy has no pace.
    host
        The engine's time on the host, by engine and version (``"vllm-0.23"``), as a
        :class:`~paceline.hosts.EngineHost` or its TOML file, which is added to the cluster's front end and
        its steps. None: none is.
    until
        The end of the simulated time, in seconds from the trace's start. Requests
        that are unfinished then have a status that says so. None: the replay ends
        when all requests have finished.
    leap
        Whether runs of equal steps are computed at once. It does not change the
        result, only the time that the replay takes.
    sample
        How often the replay is sampled for `Result.timeline`. A float (``1.0``) is the seconds between two
        samples. A whole number (``1000``) is the most samples: between half as many and as many are taken,
        equally spaced, and fewer if the replay takes less than a microsecond for each. None: never. A
        timeline has at most 2,097,152 rows, one for each sample and instance; if seconds would give more,
        they are doubled until they do not, with a warning. Other results stay the same. A
        :class:`~paceline.Sample` keeps the router's part by tenant, too, in `Result.tenant_timeline`.
    record
        The window in seconds in which each step and each transfer of KV is recorded, for `Result.steps`,
        `Result.transfers` and `Result.perfetto`: those that start from the first moment on and before the
        second. None: none is. Steps take some 20 bytes for each request that they run; a window whose steps
        exceed the limit ``recorded`` (:class:`~paceline.limits.Limits`, 1.3 GB) is refused when they do.
    out
        A directory to which the result is saved (`Result.save`); a saved result in it is replaced. Needed for
        a scanned trace, of which the result reads columns from there as they are used. An
        :class:`~paceline.Output` has checkpoints, too, from which the same call goes on after an end.
    progress
        Called at most ten times a second with the finished requests, their total,
        and the simulated time.

    Returns
    -------
    Result
        A row for each request, and what is computed from the rows.

    Raises
    ------
    ConfigError
        If an instance or a setting cannot be used, or the policy may move KV between instances of different
        models or KV layouts.
    PolicyError
        If the policy reads a column or a tenant that the trace does not have, or
        the sizes of its pools do not add up to the number of instances.
    ClockError
        If the simulated time exceeds 186 days.
    InternalError
        If a bug is found in the engine. The error has the configuration, for a report.

    Examples
    --------
    >>> import paceline
    >>> trace = paceline.Trace.from_columns(arrival=[0.0], prompt_tokens=[100], output_tokens=[3])
    >>> cost = paceline.Affine(step_s=0.010, token_s=0.0, kv_token_s=0.0)
    >>> cluster = paceline.Cluster([paceline.Instance(cost=cost, num_blocks=101)])
    >>> result = paceline.replay(trace, cluster)
    >>> result.requests.select("ttft", "tpot", "e2e").row(0)
    (0.01, 0.01, 0.03)
    """
    policy = vllm() if policy is None else policy
    cluster = _hosted(cluster, host, trace)
    if isinstance(trace, TraceScan):
        from paceline.streaming import replay_scan

        output = checked_for_scan(trace, out, {"clients": clients, "sample": sample, "record": record})
        settings = settings_kept(until, leap, None, pace)
        return replay_scan(
            trace, cluster, policy, pace=pace, out=output, settings=settings, progress=progress
        )
    clients = _clients(trace, clients)
    by_session = clients is not None and clients.of == "sessions"
    named = {one.served_model_name for one in cluster.instances if one.served_model_name is not None}
    columns = _native.columns(trace, policy, sessions=by_session, served=named)
    names = policy.names(_native.tenants(trace) if "tenant" in columns else ())
    serving = served(cluster, policy, names, pace, trace.frame)
    warn_of_misuse(policy, names.tenants)
    if named:
        name_models(serving["instances"], cluster, _native.models(trace, named))
    kept = _kept(trace, cluster, columns["arrival_ticks"], _Asked(sample_of(sample), record, until))
    settings = settings_kept(until, leap, clients, pace) | kept.settings
    try:
        with Watched(policy.calls):
            outcome = _native.run(
                columns=columns,
                **serving,
                **kept.wire,
                entrance=cluster.entrance_to_wire(),
                clients=None if clients is None else clients.to_wire(),
                calls=routers_of(policy.calls),
                until_ticks=None if until is None else moment("until", until),
                leap=leap,
                progress=progress,
                threads=threads_of_one(len(trace)),
            )
    except InternalError as error:
        error.configuration.update(Provenance.of(trace, cluster, policy, settings).to_files())
        raise
    if sample is not None:
        warn_if_longer(sample if isinstance(sample, int | float) else sample.every, outcome.timeline)
    inputs: dict[str, Any] = {"trace": trace, "cluster": cluster, "policy": policy, "settings": settings}
    result = Result.from_outcome(outcome=outcome, arrivals=columns["arrival_ticks"], **inputs)
    if "session" in result.names:
        warn_of_early_turns(result.totals().early_turns)
    return _saved(result, out)


def _hosted(
    cluster: Cluster, host: str | os.PathLike[str] | EngineHost | None, trace: Trace | TraceScan
) -> Cluster:
    """Return a cluster whose engines run on a host."""
    if host is None:
        return cluster
    times = host if isinstance(host, EngineHost) else EngineHost.load(os.fspath(host))
    return times.on(cluster, prompt_tokens=trace.mean_prompt_tokens if times.frontend_token_s else 0.0)


def _saved(result: Result, out: str | os.PathLike[str] | Output | None) -> Result:
    """Save a result, if there is a directory for it."""
    if out is not None:
        result.save(output_of(out).directory)
    return result


@typed()
def settings_kept(
    until: float | None,
    leap: bool,
    clients: Concurrency | None,
    pace: Pace | None,
) -> dict[str, Any]:
    """Return the arguments of `replay` that the provenance keeps."""
    given = {"clients": clients, "pace": pace}
    shown = {name: repr(value) for name, value in given.items() if value is not None}
    return {"until": until, "leap": leap, **shown}


_WHOLE: Final = {
    "clients": "the moments at which they send depend on the answers to all requests before",
    "sample": "the router's part of a timeline is computed from all requests",
    "record": "recorded steps are kept in memory",
}
"""Why arguments of `replay` must be left out where a trace is scanned."""


@typed()
def checked_for_scan(
    scan: TraceScan, out: str | os.PathLike[str] | Output | None, given: Mapping[str, object]
) -> Output:
    """Return where the result of a scanned trace goes; refuse what cannot be had of one."""
    if out is None:
        raise ConfigError(f"{scan.name}: out must be a directory where a trace is scanned, was None")
    for name, value in given.items():
        if value not in (None, False):
            raise ConfigError(
                f"{name} must be left out where a trace is scanned, was {said(value)}: {_WHOLE[name]}; read "
                "the trace with read_trace"
            )
    return output_of(out)


def _clients(trace: Trace, given: Concurrency | None) -> Concurrency | None:
    """Return the clients that send the requests: the given ones, or the trace's."""
    if given is not None and trace.clients not in (None, given):
        raise ConfigError(
            f"clients must be left out where the trace has some ({trace.clients!r}), was {given!r}; "
            "trace.by(None) has none"
        )
    return trace.clients if given is None else given


class _Kept(NamedTuple):
    """What a replay keeps beside its columns.

    Attributes
    ----------
    wire
        The arguments of `_native.run` for it.
    settings
        The arguments of `replay` for it, as the provenance has them.
    """

    wire: dict[str, Any]
    settings: dict[str, Any]


class _Asked(NamedTuple):
    """The arguments of `replay` that say what is kept, and the end of time."""

    sample: Sample | None
    record: tuple[float, float] | None
    until: float | None


def _kept(trace: Trace, cluster: Cluster, arrivals: NDArray[np.uint64], asked: _Asked) -> _Kept:
    """Return what is sampled and recorded."""
    sample, record, until = asked
    wire: dict[str, Any] = {}
    settings: dict[str, Any] = {}
    if sample is not None:
        settings["sample"] = sample.every
        wire["sample"] = sample_to_wire(
            sample.every,
            instances=len(cluster.instances),
            arrivals=arrivals,
            until=None if until is None else moment("until", until),
        )
        if sample.tenants:
            if "tenant" not in trace.frame.columns:
                raise ConfigError(
                    f"tenants of Sample must be False without the column tenant, which {trace.name} has not"
                )
            settings["sample_tenants"] = True
    if record is not None:
        settings["record"] = f"{record[0]} to {record[1]}"
        most = Limits.current().recorded
        wire |= {"record_decisions": True, "record_between": _window(record), "record_most": most}
    return _Kept(wire, settings)


def _window(record: tuple[float, float]) -> dict[str, int]:
    start, end = (moment("record", each) for each in record)
    if end <= start:
        raise ConfigError(f"record must be two moments in order, from one to a later one, was {record}")
    return {"from": start, "to": end}
