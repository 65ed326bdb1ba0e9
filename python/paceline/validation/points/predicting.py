"""Replaying a measured point, and reducing the replay to what was measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl

from paceline._arguments import typed, typed_fields
from paceline.deployment import Cluster
from paceline.errors import PacelineError
from paceline.policy import Policy
from paceline.replaying import replay
from paceline.validation.points.point import METRICS, Point, Server
from paceline.validation.points.serving import COSTS, Cost

__all__ = ["Predicted", "predict_point"]

#: A replay that leaves out more of its requests is no prediction.
_LOST = 0.01


@dataclass(frozen=True, slots=True, eq=False)
@typed_fields()
class Predicted:
    """A point with what its replays say.

    Parameters
    ----------
    point
        What was measured.
    values
        By cost of a step, the value of each metric that was measured.
    refused
        By cost, why there is no prediction.
    """

    point: Point
    values: Mapping[Cost, Mapping[str, float]] = field(default_factory=dict)
    refused: Mapping[Cost, str] = field(default_factory=dict)

    def chosen(self) -> Cost | None:
        """Return the cost that is scored: tables where they can be used, else the roofline."""
        return next((cost for cost in COSTS if cost in self.values), None)

    def errors(self, cost: Cost) -> dict[str, float]:
        """Return the relative errors of a cost by metric, above 0 if it predicts too much.

        At the edge of capacity the throughput is scored alone.
        """
        scored = ("throughput",) if self.point.edge else METRICS
        values = self.values.get(cost, {})
        return {
            metric: values[metric] / self.point.measured[metric] - 1
            for metric in scored
            if metric in self.point.measured and metric in values
        }


@typed()
def predict_point(
    point: Point, cluster: Cluster, policy: Policy, *, seed: int = 0, frontend_token_s: float = 0.0
) -> dict[str, float]:
    """Replay a point, and return its metrics in seconds and output tokens a second.

    Parameters
    ----------
    point
        What to replay.
    cluster, policy
        What serves it.
    seed
        Of what its data leave open: lengths, gaps, the order of prompts.
    frontend_token_s
        Seconds of the front end for each token of the mean prompt, beyond what the cluster has.

    Raises
    ------
    PacelineError
        If the replay is refused, or leaves requests unserved.
    """
    load = point.workload.load(seed)
    tokens = frontend_token_s * load.trace.mean_prompt_tokens
    cluster = replace(cluster, frontend_s=cluster.frontend_s + tokens) if tokens else cluster
    rows = _cold(replay(load.trace, cluster, policy, clients=load.clients).requests, point.server.cold_s)
    if point.server.prefill:
        rows = _from_decode(rows, point.server)
    done = rows.filter(pl.col("finish").is_not_null())
    lost = 1 - len(done) / len(rows)
    if lost > _LOST:
        raise PacelineError("the replay leaves requests unserved: a sequence exceeds the memory for KV")
    finish = done["finish"].to_numpy()
    found = {"throughput": float(done["output_tokens"].sum()) / float(finish.max())}
    if load.steady:
        done, found["throughput"] = _steady(done)
    for metric in ("ttft", "tpot", "e2e"):
        values = done[metric].drop_nulls().to_numpy()
        if len(values):
            found[metric] = float(np.median(values) if point.statistic == "median" else np.mean(values))
    if load.steady:
        # Tokens of running requests, and not of requests: the mean over time, as it was measured.
        found["tpot"] = _running(rows) / found["throughput"]
    return {metric: value for metric, value in found.items() if metric in point.measured}


def _cold(rows: pl.DataFrame, cold_s: float) -> pl.DataFrame:
    """Return requests whose server is ready so much later: the first ones wait, and all end later."""
    if not cold_s:
        return rows
    later = pl.when(pl.col("arrival") == pl.col("arrival").min()).then(cold_s).otherwise(0.0)
    waits = [(pl.col(metric) + later).alias(metric) for metric in ("ttft", "e2e")]
    return rows.with_columns(*waits, pl.col("finish") + cold_s)


def _from_decode(rows: pl.DataFrame, server: Server) -> pl.DataFrame:
    """Return requests whose client has its first token from the instance that decodes.

    So it is behind vLLM's proxies, which drop what the prefill answered, and behind Dynamo: the token is
    there once the KV has been received and the request has a seat. SGLang sends it then
    (``process_batch_result_prebuilt``); vLLM and TensorRT-LLM as the first step on that instance ends. Under
    SGLang the prefill waits until the instance that decodes has received the request, too, which it does
    every few steps.
    """
    others = pl.col("output_tokens").cast(pl.Float64) - 1.0
    waits = ["transfer", "received_wait"] + ([] if server.engine == "sglang" else ["first_decode"])
    later = sum((pl.col(name).fill_null(0.0) for name in waits), start=pl.lit(0.0))
    rows = rows.with_columns(ttft=pl.col("ttft") + later)
    rows = rows.with_columns(tpot=pl.when(others > 0.0).then((pl.col("e2e") - pl.col("ttft")) / others))
    steps = server.receive_interval if server.receive_interval > 1 else 0
    wait = steps * pl.col("tpot").fill_null(0.0)
    return rows.with_columns((pl.col(name) + wait).alias(name) for name in ("ttft", "e2e"))


def _steady(rows: pl.DataFrame) -> tuple[pl.DataFrame, float]:
    """Return the requests that end in the middle half of a run, and the output tokens a second in it.

    A request's tokens are spread evenly from its first to its last.
    """
    low, high = _middle(rows)
    first, last = rows["first_token"].to_numpy(), rows["finish"].to_numpy()
    span = np.maximum(last - first, 1e-12)
    inside = np.clip(np.minimum(last, high) - np.maximum(first, low), 0.0, None) / span
    tokens = float((inside * rows["output_tokens"].to_numpy()).sum())
    return rows.filter((pl.col("finish") >= low) & (pl.col("finish") <= high)), tokens / (high - low)


def _running(rows: pl.DataFrame) -> float:
    """Return the requests that are past their first token on average, in the middle half of a run."""
    low, high = _middle(rows)
    first, last = rows["scheduled"].to_numpy(), rows["finish"].to_numpy()
    inside = np.clip(np.minimum(last, high) - np.maximum(first, low), 0.0, None)
    return float(inside.sum()) / (high - low)


def _middle(rows: pl.DataFrame) -> tuple[float, float]:
    """Return the bounds of the middle half of a run."""
    end = float(rows["finish"].to_numpy().max())
    return 0.25 * end, 0.75 * end
