"""`paceline compare-bench`: replay what a benchmark client measured, and print how close the numbers come."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from paceline.cli.options import (
    DEFAULT_CLUSTER,
    DEFAULT_POLICY,
    LOAD,
    OUTPUT,
    ClusterOptions,
    Flag,
    PolicyOptions,
    layers_of,
)
from paceline.cli.waiting import NO_CLIENTS, ClientOptions

if TYPE_CHECKING:
    from paceline.benchmarks import BenchComparison, BenchmarkResult
    from paceline.concurrency import Concurrency

__all__ = ["compare_bench"]


def compare_bench(
    measured: Path,
    /,
    *,
    run: int | None = None,
    on: ClusterOptions = DEFAULT_CLUSTER,
    under: PolicyOptions = DEFAULT_POLICY,
    waiting: ClientOptions = NO_CLIENTS,
    as_sent: Annotated[Flag, Parameter(group=LOAD)] = False,
    frontend_ms: Annotated[float, Parameter(group=LOAD)] = 0.0,
    seed: Annotated[int, Parameter(group=LOAD)] = 0,
    out: Annotated[Path | None, Parameter(group=OUTPUT)] = None,
    json: Annotated[Flag, Parameter(group=OUTPUT)] = False,
    quiet: Annotated[Flag, Parameter(group=OUTPUT)] = False,
) -> None:
    """Replay the requests of a benchmark, and compare latencies and throughput with what was measured.

    Parameters
    ----------
    measured
        A result of vllm bench serve --save-result --save-detailed, SGLang's bench_serving, aiperf, guidellm
        or inference-perf: a file or its folder, recognised by its content. Without --model the file's is
        taken, if `paceline models` knows it.
    run
        Which run of a file with several, from 0.
    as_sent
        Send requests when they were measured to be sent, even if the client was held back by its limit of
        requests in flight; by default such a run is replayed under the limit.
    frontend_ms
        Milliseconds from a request's sending until the scheduler sees it.
    seed
        Of the arrivals that are drawn where the file has none and a finite rate.
    out
        Directory to save the replay's result to; its requests have the measured columns, too.
    json
        Print one JSON object instead of a table.
    quiet
        Print nothing to standard error but errors.
    """
    from paceline.benchmarks import compare_bench as compare
    from paceline.benchmarks import read_bench
    from paceline.cli.interrupt import interruptible
    from paceline.cli.output import print_json
    from paceline.cli.progress import progress_bar
    from paceline.errors import ConfigError

    given = waiting.clients()
    if as_sent and given is not None:
        raise ConfigError("--as-sent replays without a limit of requests in flight; drop --concurrency")
    clients: Concurrency | Literal["auto"] | None = "auto" if given is None else given
    if out is not None:
        from paceline.result.save import check_target

        check_target(out)
    bench = interruptible(lambda: read_bench(measured, run=run))
    cluster = _with_model(on, bench).cluster()
    if frontend_ms:
        cluster = replace(cluster, frontend_s=1e-3 * frontend_ms)
    policy = under.choose(layers_of(cluster.instances[0]))
    with progress_bar(quiet=quiet) as progress:
        compared = compare(
            bench, cluster, policy, clients=None if as_sent else clients, seed=seed, progress=progress
        )
    if out is not None:
        directory = out
        interruptible(lambda: compared.result.save(directory))
    if json:
        print_json(compared.to_json())
    else:
        _print(compared)


def _with_model(on: ClusterOptions, bench: BenchmarkResult) -> ClusterOptions:
    """Return the options with the file's model, if none is given and the catalog has it."""
    from paceline.errors import ConfigError
    from paceline.validation.resolving import find_model

    if on.file is not None or on.model is not None or bench.model is None:
        return on
    try:
        return replace(on, model=find_model(bench.model).name)
    except ConfigError:
        return on


def _print(compared: BenchComparison) -> None:
    """Print a row for each metric and statistic, and remarks."""
    from paceline.cli.output import console, table

    bench = compared.measured
    rows = []
    for metric, statistic, measured, predicted, error, definition in compared.frame.rows():
        first = statistic == "mean"
        per_second = metric.endswith("_throughput")
        name = (
            metric.replace("_throughput", "s/s").replace("output", "output token")
            if per_second
            else metric.upper()
        )
        scale, unit = (1.0, "/s") if per_second else (1e3, "ms")
        rows.append(
            [
                f"{name} {statistic}" if not per_second else name,
                f"{scale * measured:,.2f} {unit}",
                f"{scale * predicted:,.2f} {unit}",
                "" if error is None else f"{100 * error:+.1f}%",
                definition if first else "",
            ]
        )
    screen = console()
    version = "" if bench.version is None else f" {bench.version}"
    heads = [f"{bench.tool}{version}", "measured", "predicted", "off by", f"as {bench.tool} defines it"]
    screen.print(table(heads, rows))
    for remark in (*compared.comparison.notes, *(f"the file lacks {lack}" for lack in bench.lacks)):
        screen.print(remark)
