"""`paceline replay`: replay a trace and print the latencies that users would see."""

from __future__ import annotations

import time
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from paceline.cli.load import DEFAULT_LOAD, LoadOptions
from paceline.cli.objective import objectives_if
from paceline.cli.options import (
    DEFAULT_CLUSTER,
    DEFAULT_POLICY,
    DEFAULT_READING,
    OBJECTIVES,
    OUTPUT,
    ClusterOptions,
    Flag,
    PolicyOptions,
    ReadingOptions,
    Warmup,
    layers_of,
    warmup_of,
)
from paceline.cli.predicting import NO_PREDICTION, PredictionOptions
from paceline.cli.waiting import NO_CLIENTS, ClientOptions

if TYPE_CHECKING:
    from paceline.result import Result
    from paceline.runs import Run

__all__ = ["replay"]


def replay(
    trace: Path,
    /,
    *,
    on: ClusterOptions = DEFAULT_CLUSTER,
    under: PolicyOptions = DEFAULT_POLICY,
    predicting: PredictionOptions = NO_PREDICTION,
    load: LoadOptions = DEFAULT_LOAD,
    waiting: ClientOptions = NO_CLIENTS,
    reading: ReadingOptions = DEFAULT_READING,
    slo: Annotated[str | None, Parameter(group=OBJECTIVES)] = None,
    warmup: Warmup = None,
    out: Annotated[Path | None, Parameter(group=OUTPUT)] = None,
    force: Annotated[Flag, Parameter(group=OUTPUT)] = False,
    stream: Annotated[Flag, Parameter(group=OUTPUT)] = False,
    checkpoint: Annotated[int | None, Parameter(group=OUTPUT)] = None,
    sample: Annotated[str | None, Parameter(group=OUTPUT)] = None,
    sample_tenants: Annotated[Flag, Parameter(group=OUTPUT)] = False,
    record: Annotated[str | None, Parameter(group=OUTPUT)] = None,
    perfetto: Annotated[Path | None, Parameter(group=OUTPUT)] = None,
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
    slo
        Bounds as NAME=TIME,…: ttft=500ms,tpot=0.04; in seconds without a unit (s, ms, us); also e2e, and itl
        for the longest gap.
    warmup
        Requests that arrive in the first so long a time (20s, 500ms; seconds without a unit) are replayed,
        but are not in the latencies and the attainment that are printed.
    out
        Directory to save the result to, for `paceline.load_result`; its run.toml repeats the replay.
    force
        Replace the result of an earlier replay in that directory.
    stream
        Read the trace as it is replayed and write requests to --out as they end, so that memory does not grow
        with their number. The trace is Parquet in Paceline's own schema, a file or a folder of them.
    checkpoint
        With --stream: keep the state after each so many requests, so that the same command continues a replay
        that was killed or interrupted (5000000; rounded up to chunks of the trace).
    sample
        Save how instances and router do over time: seconds between two samples, with a unit or a point (1s,
        500ms, 2.5), or the most samples (1000).
    sample_tenants
        Keep the router's part by tenant, too.
    record
        Record each step and each transfer of KV that starts in a window of simulated seconds, FROM,TO: 10,20.
    perfetto
        Write what was recorded to a file for Perfetto's viewer, ui.perfetto.dev; without --record the first
        minute. Needs pip install 'paceline[perfetto]'.
    chart
        Print small charts too, where the output can show them; needs pip install 'paceline[report]'.
    json
        Print one JSON object instead of tables.
    quiet
        Print nothing to standard error but errors.
    no_leap
        Simulate every step by itself: slower, and bit for bit the same.
    """
    from paceline.cli.interrupt import interruptible
    from paceline.cli.output import note, print_json
    from paceline.cli.progress import progress_bar
    from paceline.cli.recording import perfetto_library, recorded_window
    from paceline.cli.rendering import as_document, print_result
    from paceline.errors import ConfigError
    from paceline.runs import Recipe, Run, Settings, read_run
    from paceline.sampling import sample_from_text

    every = None if sample is None else sample_from_text(sample)
    window = recorded_window(record, perfetto)
    for option, given in (("--sample", sample), ("--record", record)):
        if given is not None and out is None and (option == "--sample" or perfetto is None):
            other = "" if option == "--sample" else " or --perfetto FILE"
            raise ConfigError(f"{option} needs --out DIR{other}, where it is saved; none was given")
    if perfetto is not None:
        perfetto_library()
    if chart:
        from paceline.report.libraries import plotext

        plotext()
    bounds, warmup_s = objectives_if(slo), warmup_of(warmup)
    if out is not None:
        from paceline.result.save import check_target

        earlier = check_target(out)
        if not force and earlier.exists() and any(earlier.iterdir()):
            raise ConfigError(f"{out}: holds the result of an earlier replay; --force replaces it")
    if checkpoint is not None and not stream:
        raise ConfigError("--checkpoint needs --stream, which reads a trace in chunks and writes to --out")
    if stream:
        _refuse_whole(
            load,
            waiting,
            reading,
            sample=sample is not None,
            sample_tenants=sample_tenants,
            record=record is not None,
            perfetto=perfetto is not None,
            slo=slo is not None,
            warmup=warmup is not None,
            chart=chart,
        )
    if trace.suffix == ".toml":
        _nothing_else(
            trace,
            {
                "options of the cluster": on != DEFAULT_CLUSTER,
                "options of the policy": under != DEFAULT_POLICY,
            },
            predicting,
            load,
            waiting,
            replace(reading, limit=()),
            no_leap=no_leap,
            sample=sample is not None,
            sample_tenants=sample_tenants,
            record=record is not None,
        )
        run = read_run(trace)
        if perfetto is not None and run.settings.record is None:
            run = replace(run, settings=replace(run.settings, record=window))
    else:
        cluster = predicting.of(on.cluster())
        run = Run(
            trace=Recipe(path=str(trace), rate=load.rate, scale=load.scale, **reading.choices()),
            cluster=cluster,
            policy=under.choose(layers_of(cluster.instances[0])),
            settings=Settings(
                until=load.until,
                leap=not no_leap,
                clients=waiting.clients(),
                sample=every,
                sample_tenants=sample_tenants,
                record=window,
            ),
        )
    if stream:
        _replay_stream(run, out, checkpoint, json=json, quiet=quiet)
        return
    rows = interruptible(lambda: run.trace.draw(reading.limits()))
    requests = run.trace.paced(rows)

    begun = time.perf_counter()
    with progress_bar(quiet=quiet) as progress:
        result = run.replay(requests, progress=progress)
    took = time.perf_counter() - begun
    document = interruptible(lambda: as_document(result, bounds, warmup_s))
    if out is not None:
        directory = out
        again = replace(run, trace=replace(run.trace, sha256=rows.sha256)).to_toml(directory)
        interruptible(lambda: result.save(directory, run=again))
    if perfetto is not None:
        target = perfetto
        interruptible(lambda: result.perfetto(target))
    if json:
        print_json(document)
    else:
        print_result(document)
        if chart:
            _print_charts(result)
    if not quiet:
        done = f"replayed {len(result):,} requests in {took:.2f} s"
        done += "" if out is None else f", saved to {out}"
        note(done if perfetto is None else f"{done}, recorded in {perfetto}")


def _replay_stream(run: Run, out: Path | None, checkpoint: int | None, *, json: bool, quiet: bool) -> None:
    """Replay a trace that is read in chunks, and print its result."""
    from paceline.cli.output import note, print_json
    from paceline.cli.progress import progress_bar
    from paceline.cli.rendering import as_document, print_result
    from paceline.errors import ConfigError
    from paceline.result.output import Output
    from paceline.streaming.checkpoints import checkpoints_of

    if out is None:
        raise ConfigError("--stream needs --out DIR, where requests are written as they end; none was given")
    if checkpoint is not None and checkpoints_of(out) and not quiet:
        note(f"continues from the checkpoint in {checkpoints_of(out)}")
    begun = time.perf_counter()
    try:
        with progress_bar(quiet=quiet) as progress:
            result = run.stream(Output(out, checkpoint), progress=progress)
    except KeyboardInterrupt:
        if checkpoint is not None and checkpoints_of(out):
            note(f"kept the last checkpoint in {checkpoints_of(out)}; the same command continues there")
        raise
    took = time.perf_counter() - begun
    document = as_document(result, None)
    if json:
        print_json(document)
    else:
        print_result(document)
    if not quiet:
        note(f"replayed {len(result):,} requests in {took:.2f} s, saved to {out}")


def _refuse_whole(*of: LoadOptions | ClientOptions | ReadingOptions, **flags: bool) -> None:
    """Refuse options that need the whole trace, with --stream."""
    from paceline.errors import ConfigError

    given = [each.name for one in of for each in fields(one) if getattr(one, each.name) != each.default]
    given += [name for name, there in flags.items() if there]
    words = [f"--{name.replace('_', '-')}" for name in given if name != "until"]
    if words:
        raise ConfigError(
            f"{words[0]} must be left out with --stream, which reads a trace in chunks: it needs the whole"
        )


def _print_charts(result: Result) -> None:
    from rich.text import Text

    from paceline.cli.output import console
    from paceline.report.terminal import terminal_charts

    screen = console()
    for drawn in terminal_charts(result, width=min(100, screen.width)):
        screen.print()
        screen.print(Text(drawn), soft_wrap=True)


def _nothing_else(
    run: Path,
    parts: dict[str, bool],
    *of: PredictionOptions | LoadOptions | ClientOptions | ReadingOptions,
    **flags: bool,
) -> None:
    """Refuse options that say what a run's file says: parts in words, and options by name."""
    from paceline.errors import ConfigError

    given = [each.name for one in of for each in fields(one) if getattr(one, each.name) != each.default]
    given += [name for name, there in flags.items() if there]
    words = [f"--{name.replace('_', '-')}" for name in given]
    words += [part for part, there in parts.items() if there]
    if words:
        raise ConfigError(f"{run} says all there is about the run; write there what {words[0]} would say")
