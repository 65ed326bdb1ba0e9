"""Stages of inference-perf with shared prefixes (inference-sim/sim-to-real-accuracy-validation, dcec3fd).

``inference_perf_stages.csv`` has a row a stage, with its whole workload: prompts of some system prompts,
which the client sends over and over, so that after the first round the prefix cache has whole prompts.
``runs.csv`` has more runs of the same servers and no workload for them; ``peer_predictions.csv`` has what
other predictors said of those.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paceline.validation.points.names import model_of
from paceline.validation.points.point import Point, Server
from paceline.validation.points.readers.tables import Found, Row, each_row, known, table
from paceline.validation.points.refusals import NotModelled
from paceline.validation.points.workloads import SharedPrompts

__all__ = ["COLUMNS", "PEERS_COLUMNS", "RUNS_COLUMNS", "read", "read_runs"]

COLUMNS = ("wl_num_unique_system_prompts", "wl_system_prompt_len", "load_type", "requested_rate")
RUNS_COLUMNS = ("experiment", "workload", "stage", "meas_ttft_mean_ms", "meas_itl_mean_ms")
PEERS_COLUMNS = ("experiment", "stage", "pred_llmservingsim_e2e_mean", "pred_vidur_e2e_mean")
#: A stage that answers so much less than was asked of it is at the edge of what the server can do.
_SERVED = 0.95

Peers = Mapping[tuple[str, int], Mapping[str, Mapping[str, float]]]


def read(file: Path, name: str) -> Found:
    """Yield the stages of a file, with predictions of others from a file beside it."""
    peers = _peers(file.parent / "peer_predictions.csv")
    yield from each_row(name, table(file), functools.partial(_point, peers))


def read_runs(file: Path, name: str) -> Found:
    """Refuse each run, as its workload is not in the data, or stands in the file of stages."""
    yield from each_row(name, table(file), _no_workload)


def _no_workload(place: str, row: Row) -> Point:
    if row["set"] == "trainval" and str(row["experiment"])[:8].isdigit():
        raise NotModelled("the same run stands in another file, with its workload")
    raise NotModelled("the requests that were sent are not in the data")


def _point(peers: Peers, place: str, row: Row) -> Point:
    if row["failed"]:
        raise NotModelled("an overloaded run with failed requests")
    model, precision = model_of(row["model"], None)
    # Tokens of answers were counted from their text, which gives fewer than were generated. As many as were
    # asked for were generated: answers that end early would lower the mean E2E latency below its median.
    outputs = row["wl_output_len"]
    ttft, e2e = 1e-3 * row["ttft_mean_ms"], 1e-3 * row["e2e_mean_ms"]
    served = row["requests_per_sec"]
    return Point(
        id=f"{place} ({row['experiment']}, stage {row['stage']})",
        server=Server(
            engine="vllm",
            version="0.15.1",
            model=model,
            gpu="h100-sxm",
            tensor_parallel=row["tensor_parallelism"],
            max_num_seqs=row["max_num_seqs"],
            max_num_batched_tokens=row["max_num_batched_tokens"],
            prefix_caching=True,
        ),
        precision=precision,
        workload=SharedPrompts(
            systems=row["wl_num_unique_system_prompts"],
            users=row["wl_num_users_per_system_prompt"],
            system_tokens=row["wl_system_prompt_len"],
            prompt_tokens=round(row["prompt_len_mean"]),
            output_tokens=outputs,
            rate=float(row["rate"]),
            requests=row["count"],
        ),
        measured=known(ttft=ttft, e2e=e2e, tpot=(e2e - ttft) / (outputs - 1), throughput=served * outputs),
        in_flight=served * e2e,
        edge=served < _SERVED * row["requested_rate"],
        peers=peers.get((row["experiment"], row["stage"]), {}),
        fitted="front end",
    )


def _peers(file: Path) -> Peers:
    """Return other predictors' TTFT and E2E latency by run and stage; TPOT as their gap between tokens."""
    if not file.is_file():
        return {}
    found: dict[tuple[str, int], dict[str, dict[str, float]]] = {}
    for row in table(file).iter_rows(named=True):
        by_name = found.setdefault((row["experiment"], row["stage"]), {})
        for column, milliseconds in row.items():
            parts = column.split("_")
            if parts[0] != "pred" or parts[-1] != "mean" or milliseconds is None:
                continue
            metric: Any = {"ttft": "ttft", "itl": "tpot", "e2e": "e2e"}[parts[-2]]
            by_name.setdefault(parts[1], {})[metric] = 1e-3 * milliseconds
    return found
