"""Open-loop runs of a server, one file each, replayed and compared by their means.

The format is that of inference-sim/residency-vllm (2641b57: Qwen3-14B in bfloat16 on one H100 under vLLM
0.23.0). A folder has ``RUN.csv.gz`` with a row for each request, in which ``send_us`` is when the client sent
it, in microseconds from the run's start. Runs that end in ``-vanilla`` and ``-patched`` are of the same
requests on two GPUs at once: the difference between the two is the noise of a mean.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np
import polars as pl

from paceline import _check
from paceline.concurrency import Concurrency
from paceline.cost import Roofline
from paceline.deployment import Cluster, Instance
from paceline.errors import ConfigError
from paceline.kernels.table import Table
from paceline.policies.vllm import vllm
from paceline.replaying import replay
from paceline.trace import Trace
from paceline.validation.comparison import METRICS, Latencies

__all__ = [
    "OpenLoopRun",
    "Server",
    "noise",
    "predict_means",
    "read_open_loop",
    "read_open_loop_run",
    "same_rate",
]

_COLUMNS = ("send_us", "prompt_tokens_server", "output_tokens", "ttft_us", "e2e_us", "status")


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """The server of the runs; the defaults are residency-vllm's: vLLM 0.23.0 as it comes, on one H100.

    Parameters
    ----------
    model, gpu
        Names of the catalogs.
    num_blocks
        KV blocks of 16 tokens, as vLLM logged them.
    max_num_seqs, max_num_batched_tokens
        The scheduler's limits.
    """

    model: str = "qwen3-14b"
    gpu: str = "h100-sxm"
    num_blocks: int = 18038
    max_num_seqs: int = 256
    max_num_batched_tokens: int = 8192


@dataclass(frozen=True, slots=True, eq=False)
class OpenLoopRun:
    """A run: when requests were sent, and when their tokens arrived.

    Parameters
    ----------
    name
        The file's, without its ending.
    trace
        The requests that succeeded, by when they were sent.
    measured
        What was measured of them.
    left_out
        Requests that did not succeed.
    scheduled
        The same requests, by when the client was to send them; None if the file has no ``arrival_us``. A
        client that limits its requests in flight sends them later.
    """

    name: str
    trace: Trace
    measured: Latencies
    left_out: int
    scheduled: Trace | None = None

    @property
    def rate(self) -> float:
        """Requests sent a second."""
        arrival = self.measured.arrival
        return (len(arrival) - 1) / float(arrival[-1] - arrival[0])


def read_open_loop(folder: str | PathLike[str]) -> list[OpenLoopRun]:
    """Read all runs of a folder, by name.

    Raises
    ------
    ConfigError
        If there is no run, or a file has another form.
    """
    files = sorted(Path(folder).glob("*.csv.gz"))
    if not files:
        raise ConfigError(f"a folder of open-loop runs must have RUN.csv.gz, was {folder}")
    return [read_open_loop_run(file) for file in files]


def read_open_loop_run(file: Path) -> OpenLoopRun:
    """Read one run.

    Raises
    ------
    ConfigError
        If the file has another form.
    """
    try:
        frame = pl.read_csv(file)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise ConfigError(f"{file} must be a CSV file, compressed by gzip: {error}") from error
    missing = [column for column in _COLUMNS if column not in frame.columns]
    if missing:
        raise ConfigError(f"{file} must have the columns {', '.join(_COLUMNS)}, lacked {', '.join(missing)}")
    for column in _COLUMNS[:-1]:
        if not frame[column].dtype.is_integer():
            raise ConfigError(f"{column} of {file} must be whole numbers, was {frame[column].dtype}")
    served = frame.filter(pl.col("status") == "ok").sort("send_us", maintain_order=True)
    if len(served) < 2:
        raise ConfigError(f"{file} must have two requests or more of status ok, had {len(served)}")
    sent, ttft, e2e = (1e-6 * served[name].to_numpy() for name in ("send_us", "ttft_us", "e2e_us"))
    outputs = served["output_tokens"].to_numpy().astype(np.int64)
    name = file.name.removesuffix(".csv.gz")
    trace = Trace.from_columns(
        arrival=sent, prompt_tokens=served["prompt_tokens_server"], output_tokens=outputs, name=name
    )
    scheduled = None
    if "arrival_us" in served.columns:
        arrival = 1e-6 * served["arrival_us"].to_numpy()
        scheduled = Trace.from_columns(
            arrival=arrival - arrival.min(),
            prompt_tokens=served["prompt_tokens_server"],
            output_tokens=outputs,
            name=name,
        )
    measured = Latencies(sent, sent + ttft, sent + e2e, outputs)
    return OpenLoopRun(name, trace, measured, len(frame) - len(served), scheduled)


def predict_means(
    run: OpenLoopRun,
    cost: Roofline | Table,
    *,
    server: Server | None = None,
    frontend_s: float = 0.0,
    clients: Concurrency | None = None,
) -> Mapping[str, float]:
    """Replay a run, and return its mean TTFT, TPOT and E2E latency in seconds.

    Parameters
    ----------
    run
        What to replay.
    cost
        What a step takes.
    server
        What serves it.
    frontend_s
        As of `Cluster`.
    clients
        The limit that the client of the run had: requests are then sent as they were scheduled, under that
        limit. None: they are sent when they were measured to be.

    Raises
    ------
    ConfigError
        If clients are given and the run does not say when its requests were scheduled.
    """
    _check.seconds("frontend_s", frontend_s)
    server = server or Server()
    instance = Instance(model=server.model, gpu=server.gpu, num_blocks=server.num_blocks, cost=cost)
    policy = vllm(
        max_num_seqs=server.max_num_seqs,
        max_num_batched_tokens=server.max_num_batched_tokens,
        async_scheduling=True,  # vLLM's default from 0.14 on
    )
    trace = run.trace if clients is None else run.scheduled
    if trace is None:
        raise ConfigError(f"{run.name}: clients need the column arrival_us, when requests were scheduled")
    cluster = Cluster([instance], frontend_s=frontend_s)
    rows = replay(trace, cluster, policy, clients=clients).requests
    return {metric: float(np.mean(rows[metric].drop_nulls().to_numpy())) for metric in METRICS}


def same_rate(runs: list[OpenLoopRun]) -> Iterator[tuple[int, list[OpenLoopRun]]]:
    """Yield runs in groups of the same requests a second, as a whole number, by rising rate."""
    for rate in sorted({round(run.rate) for run in runs}):
        yield rate, [run for run in runs if round(run.rate) == rate]


def noise(runs: list[OpenLoopRun]) -> Mapping[str, float]:
    """Return how far ``-patched`` is from ``-vanilla``, by metric: means over pairs; empty without."""
    by_name = {run.name: run for run in runs}
    shares: dict[str, list[float]] = {metric: [] for metric in METRICS}
    for name, run in by_name.items():
        other = by_name.get(name.removesuffix("-vanilla") + "-patched")
        if not name.endswith("-vanilla") or other is None:
            continue
        for metric in METRICS:
            plain, patched = (each.measured.statistics()[metric]["mean"] for each in (run, other))
            shares[metric].append(patched / plain - 1)
    return {metric: float(np.mean(values)) for metric, values in shares.items() if values}
