"""Drawing a trace from a workload."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final, cast

import numpy as np
import polars as pl

from paceline._arguments import typed
from paceline._check import said
from paceline.errors import ConfigError
from paceline.synthesis.arrivals import Arrivals, times_in_parts
from paceline.synthesis.benchmark_ramp import BenchmarkRamp
from paceline.synthesis.empirical import Empirical, places
from paceline.synthesis.lengths import Lengths, Tokens
from paceline.synthesis.numbers import check_rate, is_whole
from paceline.synthesis.presets import preset
from paceline.synthesis.session_drawing import draw_sessions
from paceline.synthesis.sessions import Sessions
from paceline.synthesis.stable import Floats
from paceline.synthesis.streams import PART, Stream
from paceline.synthesis.workload import Workload
from paceline.trace.model import Trace
from paceline.trace.scanning import TraceScan, scan_trace
from paceline.trace.shapes import RateShape
from paceline.trace.source import Source

__all__ = ["synthesize", "synthesize_parts"]

_NANOSECONDS: Final = 1e9


@typed()
def synthesize(
    workload: str | Workload | Sessions,
    *,
    requests: int | None = None,
    sessions: int | None = None,
    seed: int,
    rate: float | None = None,
    arrivals: Arrivals | None = None,
    name: str | None = None,
) -> Trace:
    """Draw a trace of any size from distributions.

    Parameters
    ----------
    workload
        A preset's name (see `presets`), a `Workload` or `Sessions`.
    requests
        How many, at least 1. Of sessions, as many sessions are drawn as it takes, and the last is cut short.
    sessions
        Or how many sessions, each to its end.
    seed
        A whole number of at least 0. The same workload, rate and seed give the same bytes on any machine
        and with any version of numpy: the random bits are PCG64's, of which numpy promises to keep the
        stream, and all that is done to them is made of operations that IEEE 754 rounds exactly
        (`paceline.synthesis.stable`). More requests of the same seed continue the same trace, except
        where bursts overlap.
    rate
        Mean requests per second, or sessions that start; by default the workload's own. Infinite lets all
        start at 0. It multiplies the rates of a process that has its own (`Ramp`, `Steps`, `Diurnal`,
        `OnOff`, `BenchmarkRamp`), and is 1 for those if not given.
    arrivals
        Another arrival process than the workload's.
    name
        Another name than the workload's.

    Returns
    -------
    Trace
        Arrivals in whole nanoseconds.

    Raises
    ------
    ConfigError
        The preset is not known, there is no rate, or a number is out of its range.
    TraceError
        The trace would be longer than the clock holds (186 days).

    Examples
    --------
    >>> trace = synthesize("azure-conv", requests=1_000, rate=60.0, seed=11)
    >>> trace
    <Trace 'azure-conv': 1,000 requests over 16.2 s>
    >>> longer = synthesize("azure-conv", requests=2_000, rate=60.0, seed=11)
    >>> trace.frame.equals(longer.frame.head(1_000))
    True
    """
    recipe = preset(workload) if isinstance(workload, str) else workload
    if arrivals is not None:
        recipe = replace(recipe, arrivals=arrivals)
    _check_size(recipe, requests, sessions)
    if not (is_whole(seed) and 0 <= seed < 2**256):
        raise ConfigError(f"seed must be a whole number of at least 0 and below 2**256, was {said(seed)}")
    if rate is None:
        rate = 1.0 if has_rates(recipe.arrivals) else recipe.rate
    if rate is None:
        raise ConfigError(f"rate must be given: workload {recipe.name!r} has no rate of its own")
    check_rate(rate)
    if isinstance(recipe, Sessions):
        return _of_sessions(recipe, seed, float(rate), (sessions, requests), name)
    assert requests is not None
    arrival = recipe.arrivals.times(requests, float(rate), seed)
    frame = _frame(arrival, _lengths_of(recipe, seed))
    detail = f"synthesize({recipe.name!r}, requests={requests}, rate={rate}, seed={seed}), {recipe.arrivals}"
    return Trace(frame, name=name or recipe.name, source=Source(kind="synthesis", detail=detail))


@typed()
def synthesize_parts(
    workload: str | Workload,
    directory: str | Path,
    *,
    requests: int,
    seed: int,
    rate: float | None = None,
    arrivals: Arrivals | None = None,
    rows: int = 1 << 20,
) -> TraceScan:
    """Draw a trace that need not fit into memory, and write it to a folder of Parquet files.

    Parameters
    ----------
    workload, requests, seed, rate, arrivals
        As of `synthesize`, which gives the same requests; arrivals are Poisson, Gamma or Regular.
    directory
        The folder, which is new or empty.
    rows
        Requests in a file.

    Returns
    -------
    TraceScan
        The trace, to be replayed.

    Raises
    ------
    ConfigError
        As of `synthesize`; the arrivals are drawn at once, or the folder holds files.
    TraceError
        The trace would be longer than the clock holds (186 days).

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     scan = synthesize_parts("azure-conv", folder, requests=5_000, rate=60.0, seed=11, rows=2_000)
    ...     len(scan), [len(part) for part in scan.chunks()]
    (5000, [2000, 2000, 1000])
    """
    recipe = preset(workload) if isinstance(workload, str) else workload
    if not isinstance(recipe, Workload):
        raise ConfigError(f"workload {recipe.name!r} has sessions, which are drawn at once; use synthesize")
    if arrivals is not None:
        recipe = replace(recipe, arrivals=arrivals)
    _check_size(recipe, requests, None)
    if not (is_whole(rows) and rows >= 1):
        raise ConfigError(f"rows must be a whole number of at least 1, was {said(rows)}")
    rate = recipe.rate if rate is None else rate
    if rate is None:
        raise ConfigError(f"rate must be given: workload {recipe.name!r} has no rate of its own")
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise ConfigError(f"{folder}: must be empty, held files")
    lengths = _lengths_of(recipe, seed)
    for part, times in enumerate(times_in_parts(recipe.arrivals, requests, float(rate), seed, rows)):
        Trace(_frame(times, lengths), name=recipe.name).write(folder / f"part-{part:05}.parquet")
    return scan_trace(folder)


def _frame(arrival: Floats, lengths: Callable[[int], tuple[Tokens, Tokens]]) -> pl.DataFrame:
    """Return requests that arrive at these times, with the next lengths."""
    prompt, output = lengths(len(arrival))
    return pl.DataFrame({"arrival": _rounded(arrival), "prompt_tokens": prompt, "output_tokens": output})


def _check_size(recipe: Workload | Sessions, requests: int | None, sessions: int | None) -> None:
    """Refuse a number of requests or sessions that nothing can be drawn with."""
    if isinstance(recipe, Workload) and sessions is not None:
        raise ConfigError(
            f"sessions must be left out, workload {recipe.name!r} has none: give requests; was {sessions}"
        )
    if (requests is None) == (sessions is None):
        needed = "requests" if isinstance(recipe, Workload) else "one of requests and sessions"
        raise ConfigError(f"{needed} must be given, was requests={requests}, sessions={sessions}")
    size, what = (sessions, "sessions") if requests is None else (requests, "requests")
    if not (is_whole(size) and 1 <= cast(int, size) < 2**32):
        raise ConfigError(f"{what} must be a whole number from 1 to 2**32 - 1, was {said(size)}")


def _of_sessions(
    recipe: Sessions, seed: int, rate: float, size: tuple[int | None, int | None], name: str | None
) -> Trace:
    sessions, requests = size
    frame, left_out, happened = draw_sessions(recipe, seed, rate, sessions=sessions, requests=requests)
    asked = f"sessions={sessions}" if requests is None else f"requests={requests}"
    detail = f"synthesize({recipe.name!r}, {asked}, rate={rate}, seed={seed}), {recipe.arrivals}"
    return Trace(
        frame,
        name=name or recipe.name,
        source=Source(kind="synthesis", detail=f"{detail}; {happened}" if happened else detail),
        dropped=left_out,
        prefix_block_tokens=None if recipe.shared is None else recipe.shared.block_tokens,
    )


def has_rates(arrivals: Arrivals) -> bool:
    """Whether a process has rates of its own, which the rate of a synthesis multiplies."""
    return isinstance(arrivals, RateShape | BenchmarkRamp)


def _rounded(times: Floats) -> Floats:
    times *= _NANOSECONDS
    np.rint(times, out=times)
    times /= _NANOSECONDS
    return times


def _lengths_of(recipe: Workload, seed: int) -> Callable[[int], tuple[Tokens, Tokens]]:
    """Return a function that draws the lengths of the next requests."""
    if recipe.lengths is not None:
        pairs, stream = recipe.lengths, Stream(seed, "lengths")
        return lambda count: _pairs(pairs, count, stream)
    prompts, outputs = recipe.prompt_tokens, recipe.output_tokens
    assert prompts is not None
    assert outputs is not None
    streams = Stream(seed, "prompt_tokens"), Stream(seed, "output_tokens")
    return lambda count: (_drawn(prompts, count, streams[0]), _drawn(outputs, count, streams[1]))


def _drawn(lengths: Lengths, count: int, stream: Stream) -> Tokens:
    drawn = np.empty(count, dtype=np.uint32)
    for at in range(0, count, PART):
        part = drawn[at : at + PART]
        part[:] = lengths.tokens(stream.uniforms(len(part)))
    return drawn


def _pairs(lengths: Empirical, count: int, stream: Stream) -> tuple[Tokens, Tokens]:
    prompt, output = np.empty(count, dtype=np.uint32), np.empty(count, dtype=np.uint32)
    sizes = lengths.prompt_tokens.counts, lengths.output_tokens.counts
    for at in range(0, count, PART):
        chosen = places(stream.uniforms(min(PART, count - at)), len(sizes[0]))
        prompt[at : at + PART] = sizes[0][chosen]
        output[at : at + PART] = sizes[1][chosen]
    return prompt, output
