"""Open-loop runs of inference-sim/residency-vllm (2641b57), by the columns of their files."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from paceline.concurrency import Concurrency
from paceline.validation.open_loop import OpenLoopRun, read_open_loop_run
from paceline.validation.open_loop import Server as Described
from paceline.validation.points.names import model_of
from paceline.validation.points.point import Point, Server
from paceline.validation.points.readers.tables import Found
from paceline.validation.points.workloads import Sent

__all__ = ["COLUMNS", "read"]

COLUMNS = ("send_us", "arrival_us", "prompt_tokens_server", "ttft_us", "e2e_us", "status")
#: A client that is so late was held back by its limit of requests in flight.
_LATE_S = 1.0
#: Between an answer and the next request of a client that was held back: assumed, as docs/validation.md says.
_GAP_S = 0.004


def read(file: Path, name: str) -> Found:
    """Yield the run of a file, as it was sent; under the client's limit where its delay shows one."""
    run, server = read_open_loop_run(file), Described()
    model, precision = model_of(server.model, None)
    means = {metric: of["mean"] for metric, of in run.measured.statistics().items()}
    span = float(run.measured.last_token.max() - run.measured.arrival.min())
    in_flight = float((run.measured.last_token - run.measured.arrival).sum()) / span
    limit = most_in_flight(run) if held_back(run) else None
    workload = Sent(run.trace)
    if limit is not None and run.scheduled is not None:
        workload = Sent(run.scheduled, Concurrency(limit, gap_s=_GAP_S))
    yield Point(
        id=f"{name}#{run.name}",
        server=Server(
            engine="vllm",
            version="0.23.0",
            model=model,
            gpu=server.gpu,
            num_blocks=server.num_blocks,
            max_num_seqs=server.max_num_seqs,
            max_num_batched_tokens=server.max_num_batched_tokens,
        ),
        precision=precision,
        workload=workload,
        measured={**means, "throughput": int(run.measured.output_tokens.sum()) / span},
        in_flight=in_flight,
        fitted="front end",
    )


def held_back(run: OpenLoopRun) -> bool:
    """Whether the client sent requests long after it was to send them."""
    if run.scheduled is None:
        return False
    late = run.trace.frame["arrival"].sort().to_numpy() - run.scheduled.frame["arrival"].sort().to_numpy()
    return float(np.quantile(late, 0.99)) > _LATE_S


def most_in_flight(run: OpenLoopRun) -> int:
    """Return the most requests that were in flight at once."""
    starts, ends = run.measured.arrival, run.measured.last_token
    moments = np.concatenate([starts, ends])
    change = np.concatenate([np.ones(len(starts)), -np.ones(len(ends))])
    # An answer that ends at a moment makes room for a request that is sent at it.
    order = np.lexsort((change, moments))
    return int(np.cumsum(change[order]).max())
