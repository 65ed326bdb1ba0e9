"""Replaying a measured run."""

from __future__ import annotations

import re
from os import PathLike
from typing import Any

import numpy as np

from paceline._arguments import typed
from paceline.deployment import Cluster, Instance
from paceline.kernels import Shape, Table
from paceline.policies.vllm import vllm
from paceline.replaying import replay
from paceline.result import Result
from paceline.trace import Trace
from paceline.validation.comparison import Comparison, Latencies, compare
from paceline.validation.folder import MeasuredRun, read_run
from paceline.validation.peer import read_peer
from paceline.validation.resolving import find_model, usable_blocks

__all__ = ["cost_of", "decides_ahead", "predict", "validate"]


def cost_of(run: MeasuredRun, *, overhead_s: float | None = None) -> Table:
    """Return the cost model of a run."""
    return Table(
        profile=str(run.profile),
        shape=Shape.of(find_model(run.model, run.folder)),
        overhead_s=overhead_s,
        link=run.link,
        data_parallel=run.data_parallel,
        expert_parallel=run.expert_parallel,
    )


@typed()
def predict(run: MeasuredRun, *, overhead_s: float | None = None) -> tuple[Latencies, tuple[str, ...]]:
    """Replay a run and return its latencies, in the order of ``run.requests``, and what to know of them.

    Each data-parallel rank is an instance; vLLM sends a request to the one with the fewest.

    Parameters
    ----------
    run
        What to replay.
    overhead_s
        Seconds of a step that kernels do not explain; None: what was fitted for the engine's version.
    """
    table = cost_of(run, overhead_s=overhead_s)
    blocks = usable_blocks(run, table.read().facts.get("gpu", ""))
    instance = Instance(
        cost=table,
        tensor_parallel=run.tensor_parallel,
        block_tokens=run.block_tokens,
        num_blocks=blocks,
        max_model_len=run.max_model_len,
    )
    prefix = "prefix_block_ids" in run.requests.columns and run.prefix_caching
    blocks_known: dict[str, Any] = {}
    if prefix:
        blocks_known = {"prefix": run.requests["prefix_block_ids"], "prefix_block_tokens": run.block_tokens}
    trace = Trace.from_columns(
        arrival=run.requests["arrival_s"],
        prompt_tokens=run.requests["prompt_tokens"],
        output_tokens=run.requests["output_tokens"],
        **blocks_known,
    )
    policy = vllm(
        prefix_caching=prefix,
        async_scheduling=decides_ahead(table.read().facts.get("vllm_version", "")),
        max_num_seqs=run.max_num_seqs,
        max_num_batched_tokens=run.max_num_batched_tokens,
    )
    together = run.data_parallel > 1 and find_model(run.model, run.folder).experts is not None
    result = replay(trace, Cluster(run.data_parallel * [instance], lockstep=together), policy)
    arrival = run.requests["arrival_s"].to_numpy().astype(np.float64)
    first, last = (
        arrival + result.requests[column].cast(float).fill_null(np.nan).to_numpy()
        for column in ("ttft", "e2e")
    )
    latencies = Latencies(arrival, first, last, run.requests["output_tokens"].to_numpy().astype(np.int64))
    return latencies, _notes(result)


def decides_ahead(version: str) -> bool:
    """Whether a vLLM schedules asynchronously by default; one that is not named counts as a new one.

    ``async_scheduling`` is False in ``vllm/config/scheduler.py`` up to 0.13.0, and from 0.14.0 on None, which
    ``vllm/config/vllm.py`` turns into True where the executor can.
    """
    found = re.match(r"(\d+)\.(\d+)", version)
    return found is None or (int(found[1]), int(found[2])) >= (0, 14)


def _notes(result: Result) -> tuple[str, ...]:
    """Return a remark on the steps beyond the end of the tables."""
    steps = result.stats.extrapolated
    share = {axis: count / result.stats.steps for axis, count in steps.items()}
    return tuple(f"{part:.1%} of the steps lie past the measured {axis}" for axis, part in share.items())


@typed()
def validate(folder: str | PathLike[str], *, overhead_s: float | None = None) -> Comparison:
    """Replay a measured folder and compare latencies with the measurement, and with a peer's prediction.

    Parameters
    ----------
    folder
        What :func:`~paceline.validation.folder.read_run` takes; a ``peer-llmservingsim.txt`` in it is read.
    overhead_s
        As in :func:`predict`.

    Returns
    -------
    Comparison
    """
    run = read_run(folder)
    predicted, notes = predict(run, overhead_s=overhead_s)
    peer = run.folder / "peer-llmservingsim.txt"
    return compare(
        run.name,
        run.measured(),
        predicted,
        read_peer(peer) if peer.is_file() else None,
        notes=notes,
    )
