"""How much of the peak of their GPUs the steps of each run used."""

from __future__ import annotations

import tomllib
from typing import Any

import polars as pl

from paceline._clock import TICKS_PER_SECOND
from paceline.errors import ConfigError
from paceline.hardware.gpu import Gpu
from paceline.report.replayed import Replayed, Run

__all__ = ["utilisation"]

_SCHEMA = {
    "run": pl.String(),
    "gpus": pl.Int64(),
    "busy": pl.Float64(),
    "mfu": pl.Float64(),
    "bandwidth": pl.Float64(),
    "mfu_on": pl.Float64(),
    "bandwidth_on": pl.Float64(),
}


def utilisation(runs: tuple[Run, ...]) -> pl.DataFrame:
    """Return a row for each run whose GPUs are known.

    ``mfu`` is the floating-point operations of the steps over those that the GPUs' 16-bit peak allows in the
    time in which steps ran; ``bandwidth`` is the bytes from and to memory over those of the peak, likewise.
    ``mfu_on`` and ``bandwidth_on`` are over the whole time of the replay, and ``busy`` is the share of it in
    which steps ran.
    """
    rows = [(run.name, *found) for run in runs if (found := _of(run.result)) is not None]
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row")


def _of(result: Replayed) -> tuple[int, float, float, float, float, float] | None:
    gpus = _gpus(result)
    instances = result.stats.instances
    if gpus is None or len(gpus) != len(instances) or any(of.traffic is None for of in instances):
        return None
    end = result.stats.end_ticks
    flops = moved = busy = could = could_move = could_on = could_move_on = 0.0
    for (peak, bandwidth, degree), of in zip(gpus, instances, strict=True):
        assert of.traffic is not None
        seconds, whole = of.busy_ticks / TICKS_PER_SECOND, end / TICKS_PER_SECOND
        flops += of.traffic.flops
        moved += of.traffic.hbm_bytes
        busy += seconds * degree
        could += seconds * degree * peak
        could_move += seconds * degree * bandwidth
        could_on += whole * degree * peak
        could_move_on += whole * degree * bandwidth
    if could == 0:
        return None
    number = sum(degree for *_, degree in gpus)
    on = number * end / TICKS_PER_SECOND
    return number, busy / on, flops / could, moved / could_move, flops / could_on, moved / could_move_on


def _gpus(result: Replayed) -> list[tuple[float, float, int]] | None:
    """Return each instance's 16-bit peak and bandwidth of a GPU, and its GPUs; None if one is not known."""
    try:
        kinds: list[dict[str, Any]] = tomllib.loads(result.provenance.cluster)["instances"]
        found = []
        for kind in kinds:
            gpu = kind["gpu"]
            if isinstance(gpu, str):
                known = Gpu.load(gpu)
                peak, bandwidth = known.bf16_flop_per_s, known.bandwidth_bytes_per_s
            else:
                peak, bandwidth = float(gpu["bf16_flop_per_s"]), float(gpu["bandwidth_bytes_per_s"])
            degree = int(kind.get("tensor_parallel", 1)) * int(kind.get("pipeline_parallel", 1))
            found += [(peak, bandwidth, degree)] * int(kind.get("count", 1))
    except (tomllib.TOMLDecodeError, ConfigError, KeyError, TypeError):
        return None
    return found
