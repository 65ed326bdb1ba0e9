"""`paceline replay`: replay a trace and print the latencies that users would see."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from paceline.cli.options import (
    DEFAULT_CLUSTER,
    DEFAULT_POLICY,
    DEFAULT_READING,
    LOAD,
    OBJECTIVES,
    OUTPUT,
    POLICY,
    ClusterOptions,
    Flag,
    PolicyOptions,
    ReadingOptions,
)

if TYPE_CHECKING:
    from paceline.objectives import SLO
    from paceline.prediction import Prediction
    from paceline.result import Result
    from paceline.runs import Run, Settings

__all__ = ["objectives", "replay"]


def replay(
    trace: Path,
    /,
    *,
    on: ClusterOptions = DEFAULT_CLUSTER,
    under: PolicyOptions = DEFAULT_POLICY,
    rate: Annotated[float | None, Parameter(group=LOAD)] = None,
    scale: Annotated[float | None, Parameter(group=LOAD)] = None,
    until: Annotated[float | None, Parameter(group=LOAD)] = None,
    prediction_ms: Annotated[float | None, Parameter(group=POLICY)] = None,
    prediction_batch: Annotated[int | None, Parameter(group=POLICY)] = None,
    prediction_batch_ms: Annotated[float | None, Parameter(group=POLICY)] = None,
    reading: ReadingOptions = DEFAULT_READING,
    slo_ttft: Annotated[float | None, Parameter(group=OBJECTIVES)] = None,
    slo_tpot: Annotated[float | None, Parameter(group=OBJECTIVES)] = None,
    slo_e2e: Annotated[float | None, Parameter(group=OBJECTIVES)] = None,
    slo_itl: Annotated[float | None, Parameter(group=OBJECTIVES)] = None,
    out: Annotated[Path | None, Parameter(group=OUTPUT)] = None,
    sample: Annotated[str | None, Parameter(group=OUTPUT)] = None,
    sample_tenants: Annotated[Flag, Parameter(group=OUTPUT)] = False,
    chart: Annotated[Flag, Parameter(group=OUTPUT)] = False,
    json: Annotated[Flag, Parameter(group=OUTPUT)] = False,
    quiet: Annotated[Flag, Parameter(group=OUTPUT)] = False,
    no_leap: Annotated[Flag, Parameter(group=OUTPUT)] = False,
) -> None:
    """Replay a trace on a cluster and summarize the latencies that users would see.

    Parameters
    ----------
    trace
        File with the requests; its format is recognised, also with .gz or .zst. Or a whole run as a TOML
        file, such as the run.toml of a saved result: trace, cluster, policy and settings.
    rate
        Stretch or squeeze the arrivals to this many requests per second.
    scale
        Multiply the rate of arrivals.
    until
        Stop at this simulated second, whatever is unfinished.
    prediction_ms
        Milliseconds that it takes to predict the length of a request, before it reaches the router.
    prediction_batch
        Predict serially, at most this many prompts at once; without it all prompts in parallel.
    prediction_batch_ms
        Milliseconds for a batch of predictions, whatever its size, beside those for each prompt.
    slo_ttft
        Bound on the time to first token, in seconds.
    slo_tpot
        Bound on the mean time per output token, in seconds.
    slo_e2e
        Bound on the whole time of a request, in seconds.
    slo_itl
        Bound on the longest gap between two tokens, in seconds.
    out
        Directory to save the result to, for `paceline.load_result`; its run.toml repeats the replay.
    sample
        Save how instances and router do over time: seconds between two samples, with a unit or a point (1s,
        500ms, 2.5), or the most samples (1000).
    sample_tenants
        Keep the router's part by tenant, too.
    chart
        Print small charts too, where the output can show them; needs pip install 'paceline[report]'.
    json
        Print one JSON object instead of tables.
    quiet
        Print nothing to standard error but errors.
    no_leap
        Simulate every step by itself: slower, and bit for bit the same.
    """
    from paceline._sampling import sample_from_text
    from paceline.cli.interrupt import interruptible
    from paceline.cli.output import note, print_json
    from paceline.cli.progress import progress_bar
    from paceline.cli.rendering import as_document, print_result
    from paceline.errors import ConfigError
    from paceline.runs import Settings, read_run

    every = None if sample is None else sample_from_text(sample)
    if sample is not None and out is None:
        raise ConfigError("--sample needs --out DIR, where the timeline is saved; none was given")
    if chart:
        from paceline.report.libraries import plotext

        plotext()  # before the replay, which may take long
    slo = objectives(ttft=slo_ttft, tpot=slo_tpot, e2e=slo_e2e, itl=slo_itl)
    if out is not None:
        from paceline.result.save import check_target

        check_target(out)
    prediction = _prediction(prediction_ms, prediction_batch, prediction_batch_ms)
    if trace.suffix == ".toml":
        _nothing_else(
            trace,
            on,
            under,
            reading,
            rate=rate,
            scale=scale,
            until=until,
            no_leap=no_leap or None,
            sample=sample,
            sample_tenants=sample_tenants or None,
            prediction_ms=prediction_ms,
        )
        run = read_run(trace)
    else:
        settings = Settings(
            until=until,
            leap=not no_leap,
            prediction=prediction,
            sample=every,
            sample_tenants=sample_tenants,
        )
        run = _run(trace, on, under, reading, settings, rate=rate, scale=scale)
    rows = interruptible(lambda: run.trace.draw(reading.limits()))
    requests = run.trace.paced(rows)

    begun = time.perf_counter()
    with progress_bar(quiet=quiet) as progress:
        result = run.replay(requests, progress=progress)
    took = time.perf_counter() - begun
    document = interruptible(lambda: as_document(result, slo))
    if out is not None:
        directory = out
        again = replace(run, trace=replace(run.trace, sha256=rows.sha256)).to_toml(directory)
        interruptible(lambda: result.save(directory, run=again))
    if json:
        print_json(document)
    else:
        print_result(document)
        if chart:
            _print_charts(result)
    if not quiet:
        note(f"replayed {len(result):,} requests in {took:.2f} s" + (f", saved to {out}" if out else ""))


def _print_charts(result: Result) -> None:
    from rich.text import Text

    from paceline.cli.output import console
    from paceline.report.terminal import terminal_charts

    screen = console()
    for drawn in terminal_charts(result, width=min(100, screen.width)):
        screen.print()
        screen.print(Text(drawn), soft_wrap=True)


def objectives(**bounds: float | None) -> SLO | None:
    """Return the objectives of the options; None if none was given."""
    from paceline.objectives import SLO

    return SLO(**bounds) if any(bound is not None for bound in bounds.values()) else None


def _run(
    trace: Path,
    on: ClusterOptions,
    under: PolicyOptions,
    reading: ReadingOptions,
    settings: Settings,
    *,
    rate: float | None,
    scale: float | None,
) -> Run:
    """Return the run that the options describe."""
    from paceline.cli.options import layers_of
    from paceline.runs import Recipe, Run

    cluster = on.cluster()
    return Run(
        trace=Recipe(path=str(trace), rate=rate, scale=scale, on_empty_output=reading.on_empty_output),
        cluster=cluster,
        policy=under.choose(layers_of(cluster.instances[0])),
        settings=settings,
    )


def _nothing_else(
    run: Path,
    on: ClusterOptions,
    under: PolicyOptions,
    reading: ReadingOptions,
    **load: object,
) -> None:
    """Refuse options that describe what a run's file describes."""
    from paceline.errors import ConfigError

    given = [f"--{name.replace('_', '-')}" for name, value in load.items() if value is not None]
    given += ["options of the cluster"] * (on != DEFAULT_CLUSTER)
    given += ["options of the policy"] * (under != DEFAULT_POLICY)
    given += ["--on-empty-output"] * (reading.on_empty_output != DEFAULT_READING.on_empty_output)
    if given:
        raise ConfigError(f"{run} says all there is about the run; write there what {given[0]} would say")


def _prediction(ms: float | None, batch: int | None, batch_ms: float | None) -> Prediction | None:
    from paceline import Prediction
    from paceline.errors import ConfigError

    if ms is None:
        for name, value in (("--prediction-batch", batch), ("--prediction-batch-ms", batch_ms)):
            if value is not None:
                raise ConfigError(f"{name} needs --prediction-ms, the time of a prompt; none was given")
        return None
    return Prediction(
        seconds=ms / 1e3,
        batch=1 if batch is None else batch,
        where="parallel" if batch is None else "serial",
        batch_seconds=0.0 if batch_ms is None else batch_ms / 1e3,
    )
