"""Replaying a trace through a cluster under a policy."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, NamedTuple

from paceline import _native
from paceline._arguments import typed
from paceline._clock import moment
from paceline._sampling import sample_to_wire, warn_if_longer
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
from paceline.result.turns import warn_of_early_turns
from paceline.trace import Trace

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from paceline._core import Progress

__all__ = ["replay"]


@typed()
def replay(
    trace: Trace,
    cluster: Cluster,
    policy: Policy | None = None,
    *,
    clients: Concurrency | None = None,
    pace: Pace | None = None,
    host: str | PathLike[str] | EngineHost | None = None,
    until: float | None = None,
    leap: bool = True,
    sample: float | None = None,
    sample_tenants: bool = False,
    record: tuple[float, float] | None = None,
    progress: Callable[[Progress], object] | None = None,
) -> Result:
    """Replay a trace through a cluster under a policy.

    The same inputs give the same result, bit for bit, on any machine. Ctrl-C
    stops the replay within a few hundredths of a second.

    Parameters
    ----------
    trace
        The requests.
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
        they are doubled until they do not, with a warning. Other results stay the same.
    sample_tenants
        Whether the router's part of the timeline is also kept by tenant, in `Result.tenant_timeline`.
    record
        The window in seconds in which each step and each transfer of KV is recorded, for `Result.steps`,
        `Result.transfers` and `Result.perfetto`: those that start from the first moment on and before the
        second. None: none is. Steps take some 20 bytes for each request that they run; a window whose steps
        exceed the limit ``recorded`` (:class:`~paceline.limits.Limits`, 1.3 GB) is refused when they do.
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
    clients = _clients(trace, clients)
    if host is not None:
        cluster = (host if isinstance(host, EngineHost) else EngineHost.load(fspath(host))).on(cluster)
    by_session = clients is not None and clients.of == "sessions"
    named = {one.served_model_name for one in cluster.instances if one.served_model_name is not None}
    columns = _native.columns(trace, policy, sessions=by_session, served=named)
    arrivals = columns["arrival_ticks"]
    names = policy.names(_native.tenants(trace) if "tenant" in columns else ())
    serving = served(cluster, policy, names, pace, trace.frame)
    warn_of_misuse(policy, names.tenants)
    if named:
        name_models(serving["instances"], cluster, _native.models(trace, named))
    kept = _kept(trace, cluster, arrivals, _Asked(sample, sample_tenants, record, until))
    settings: dict[str, Any] = {
        "until": until,
        "leap": leap,
        **({} if clients is None else {"clients": repr(clients)}),
        **({} if pace is None else {"pace": repr(pace)}),
        **kept.settings,
    }
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
            )
    except InternalError as error:
        error.configuration.update(Provenance.of(trace, cluster, policy, settings).to_files())
        raise
    if sample is not None:
        warn_if_longer(sample, outcome.timeline)
    result = Result.from_outcome(
        trace=trace, cluster=cluster, policy=policy, outcome=outcome, settings=settings, arrivals=arrivals
    )
    if "session" in trace.frame.columns:
        warn_of_early_turns(result.totals().early_turns)
    return result


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

    sample: float | None
    sample_tenants: bool
    record: tuple[float, float] | None
    until: float | None


def _kept(trace: Trace, cluster: Cluster, arrivals: NDArray[np.uint64], asked: _Asked) -> _Kept:
    """Return what is sampled and recorded."""
    sample, sample_tenants, record, until = asked
    wire: dict[str, Any] = {}
    settings: dict[str, Any] = {}
    if sample is not None:
        settings["sample"] = sample
        wire["sample"] = sample_to_wire(
            sample,
            instances=len(cluster.instances),
            arrivals=arrivals,
            until=None if until is None else moment("until", until),
        )
    if sample_tenants:
        if sample is None or "tenant" not in trace.frame.columns:
            missing = (
                "sample" if sample is None else f"a trace with the column tenant, which {trace.name} has not"
            )
            raise ConfigError(f"sample_tenants=True needs {missing}")
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
