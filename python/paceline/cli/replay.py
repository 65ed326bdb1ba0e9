"""`paceline replay`: replay a trace and print the latencies that users would see."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Group, Parameter

if TYPE_CHECKING:
    from paceline.deployment import Cluster
    from paceline.limits import Limits
    from paceline.objectives import SLO
    from paceline.trace import Trace

__all__ = ["replay"]

_CLUSTER = Group("Cluster", sort_key=1)
_POLICY = Group("Policy", sort_key=2)
_LOAD = Group("Load", sort_key=3)
_SLO = Group("Objectives", sort_key=4)
_OUTPUT = Group("Output", sort_key=5)

Routing = Literal["round-robin", "fewest-requests", "fewest-tokens"]


def replay(
    trace: Path,
    /,
    *,
    model: Annotated[str, Parameter(group=_CLUSTER)],
    gpu: Annotated[str, Parameter(group=_CLUSTER)],
    instances: Annotated[int, Parameter(group=_CLUSTER)] = 1,
    tp: Annotated[int, Parameter(group=_CLUSTER)] = 1,
    pp: Annotated[int, Parameter(group=_CLUSTER)] = 1,
    profile: Annotated[str | None, Parameter(group=_CLUSTER)] = None,
    num_blocks: Annotated[int | None, Parameter(group=_CLUSTER)] = None,
    max_model_len: Annotated[int | Literal["auto"] | None, Parameter(group=_CLUSTER)] = None,
    link_gbps: Annotated[float | None, Parameter(group=_CLUSTER)] = None,
    policy: Annotated[str, Parameter(group=_POLICY)] = "vllm",
    routing: Annotated[Routing | None, Parameter(group=_POLICY)] = None,
    prefix_caching: Annotated[bool, Parameter(group=_POLICY, negative="", show_default=False)] = False,
    max_num_batched_tokens: Annotated[int | None, Parameter(group=_POLICY)] = None,
    max_num_seqs: Annotated[int | None, Parameter(group=_POLICY)] = None,
    long_prefill_token_threshold: Annotated[int | None, Parameter(group=_POLICY)] = None,
    settings: Annotated[
        tuple[str, ...], Parameter(name="--set", group=_POLICY, negative="", show_default=False)
    ] = (),
    rate: Annotated[float | None, Parameter(group=_LOAD)] = None,
    scale: Annotated[float | None, Parameter(group=_LOAD)] = None,
    until: Annotated[float | None, Parameter(group=_LOAD)] = None,
    on_empty_output: Annotated[Literal["drop", "error"], Parameter(group=_LOAD)] = "drop",
    limit: Annotated[tuple[str, ...], Parameter(group=_LOAD, negative="", show_default=False)] = (),
    slo_ttft: Annotated[float | None, Parameter(group=_SLO)] = None,
    slo_tpot: Annotated[float | None, Parameter(group=_SLO)] = None,
    slo_e2e: Annotated[float | None, Parameter(group=_SLO)] = None,
    slo_itl: Annotated[float | None, Parameter(group=_SLO)] = None,
    out: Annotated[Path | None, Parameter(group=_OUTPUT)] = None,
    json: Annotated[bool, Parameter(group=_OUTPUT, negative="", show_default=False)] = False,
    quiet: Annotated[bool, Parameter(group=_OUTPUT, negative="", show_default=False)] = False,
    no_leap: Annotated[bool, Parameter(group=_OUTPUT, negative="", show_default=False)] = False,
) -> None:
    """Replay a trace on a cluster and summarize the latencies that users would see.

    Parameters
    ----------
    trace
        File with the requests; its format is recognised, also with .gz or .zst.
    model
        Model of every instance: a name from `paceline models`, or a Hugging Face config.json.
    gpu
        GPU of every instance, as listed by `paceline gpus`.
    instances
        Replicas of the model.
    tp
        GPUs of a stage, over which each layer is split (tensor parallelism).
    pp
        Stages of an instance (pipeline parallelism), with one step in flight at a time.
    profile
        Measured kernels to take step times from, instead of a roofline: a name from `paceline profiles list`,
        or a path.
    num_blocks
        KV blocks of an instance as vLLM logs them; computed from memory if not given.
    max_model_len
        Longest sequence that is not rejected, in tokens: by default the model's; auto: what fits.
    link_gbps
        Gigabits per second of an instance's link, each way, for migrations; they take no time if not given.
    policy
        Scheduler of an instance: a name from `paceline policies`, or a policy's FILE.toml.
    routing
        How an arrival is routed to an instance; fewest-requests if not given.
    prefix_caching
        Keep KV blocks for later requests with the same prefix, as the trace says.
    max_num_batched_tokens
        Tokens of one step; the policy's default if not given.
    max_num_seqs
        Running requests of an instance; the policy's default if not given.
    long_prefill_token_threshold
        The most tokens of one prefill in a step; no limit if not given.
    settings
        A parameter of the policy as NAME=VALUE, as listed by `paceline policies`; may be repeated.
    rate
        Stretch or squeeze the arrivals to this many requests per second.
    scale
        Multiply the rate of arrivals.
    until
        Stop at this simulated second, whatever is unfinished.
    on_empty_output
        What to do with requests that have no output.
    limit
        A bound on reading the trace as NAME=VALUE: file_bytes, values, columns, line_bytes; may be repeated.
    slo_ttft
        Bound on the time to first token, in seconds.
    slo_tpot
        Bound on the mean time per output token, in seconds.
    slo_e2e
        Bound on the whole time of a request, in seconds.
    slo_itl
        Bound on the longest gap between two tokens, in seconds.
    out
        Directory to save the result to, for `paceline.load_result`.
    json
        Print one JSON object instead of tables.
    quiet
        Print nothing to standard error but errors.
    no_leap
        Simulate every step by itself: slower, and bit for bit the same.
    """
    import paceline
    from paceline.cli.interrupt import interruptible
    from paceline.cli.output import note, print_json
    from paceline.cli.policy_choice import choose
    from paceline.cli.progress import progress_bar
    from paceline.cli.rendering import as_document, print_result
    from paceline.limits import Limits

    slo = _objectives(ttft=slo_ttft, tpot=slo_tpot, e2e=slo_e2e, itl=slo_itl)
    if out is not None:
        from paceline.result.save import check_target

        check_target(out)
    extras = (link_gbps, profile)
    cluster = _cluster(model, gpu, instances, (tp, pp), num_blocks, max_model_len, extras)
    options = {
        "routing": routing and routing.replace("-", "_"),
        "prefix_caching": prefix_caching or None,
        "max_num_batched_tokens": max_num_batched_tokens,
        "max_num_seqs": max_num_seqs,
        "long_prefill_token_threshold": long_prefill_token_threshold,
    }
    chosen = choose(policy, options, settings, layers=_layers(cluster))
    limits = Limits.current().changed(limit)
    requests = interruptible(lambda: _read(trace, on_empty_output, limits, rate, scale))

    begun = time.perf_counter()
    with progress_bar(quiet=quiet) as progress:
        result = paceline.replay(requests, cluster, chosen, until=until, leap=not no_leap, progress=progress)
    took = time.perf_counter() - begun
    document = interruptible(lambda: as_document(result, slo))
    if out is not None:
        directory = out
        interruptible(lambda: result.save(directory))
    if json:
        print_json(document)
    else:
        print_result(document)
    if not quiet:
        note(f"replayed {len(result):,} requests in {took:.2f} s" + (f", saved to {out}" if out else ""))


def _objectives(**bounds: float | None) -> SLO | None:
    from paceline.objectives import SLO

    return SLO(**bounds) if any(bound is not None for bound in bounds.values()) else None


def _cluster(
    model: str,
    gpu: str,
    instances: int,
    ranks: tuple[int, int],
    num_blocks: int | None,
    max_model_len: int | Literal["auto"] | None,
    extras: tuple[float | None, str | None],
) -> Cluster:
    from paceline.deployment import Cluster, Instance, Links
    from paceline.errors import ConfigError
    from paceline.kernels import Table
    from paceline.model import Model

    link_gbps, profile = extras
    if instances < 1:
        raise ConfigError(f"--instances must be at least 1, was {instances}")
    shape = Model.from_hf_config(model) if Path(model).exists() else model
    instance = Instance(
        model=shape,
        gpu=gpu,
        tensor_parallel=ranks[0],
        pipeline_parallel=ranks[1],
        num_blocks=num_blocks,
        max_model_len=max_model_len,
        cost=None if profile is None else Table(profile=profile),
    )
    links = None if link_gbps is None else Links(gbps=link_gbps)
    return Cluster(instances * [instance], links)


def _layers(cluster: Cluster) -> int | None:
    shape = cluster.instances[0].resolved_model
    return None if shape is None else shape.layers


def _read(
    path: Path,
    on_empty_output: Literal["drop", "error"],
    limits: Limits,
    rate: float | None,
    scale: float | None,
) -> Trace:
    from paceline.trace import read_trace

    trace = read_trace(path, on_empty_output=on_empty_output, limits=limits)
    return trace if rate is None and scale is None else trace.at_rate(rate=rate, scale=scale)
