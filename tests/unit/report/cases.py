"""Small replays with latencies that are known in closed form, and a sampled one.

Imported as `unit.report.cases`: the tests folder is on the path.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import polars as pl

import paceline
from paceline.report.replayed import Run

EVIL = "<script>alert(1)</script>"


def replayed(
    arrival: Sequence[float],
    output: Sequence[int],
    *,
    prompt: Sequence[int] | None = None,
    instances: int = 1,
    name: str = "case",
    frontend_s: float = 0.0,
    **others: Any,
) -> paceline.Result:
    """Replay requests on instances whose every step takes half a second."""
    trace = paceline.Trace.from_columns(
        arrival=arrival, prompt_tokens=prompt or [8] * len(output), output_tokens=output, name=name
    )
    cluster = paceline.Cluster(
        [paceline.Instance(cost=paceline.Affine(step_s=0.5), num_blocks=64)] * instances,
        frontend_s=frontend_s,
    )
    return paceline.replay(trace, cluster, **others)


def run(result: Any, name: str = "a") -> Run:
    return Run(name, result)


class Sampled:
    """A result with samples of two instances at three moments, as a sampled replay has them."""

    is_sampled = True

    def __init__(self, result: paceline.Result, tenants: Sequence[str | None] = ()) -> None:
        self._result = result
        self._tenants = tenants

    def __getattr__(self, name: str) -> Any:
        return getattr(self._result, name)

    def __len__(self) -> int:
        return len(self._result)

    @property
    def provenance(self) -> Any:
        settings = {"sample": 1.0, "sample_tenants": bool(self._tenants)}
        return replace(self._result.provenance, settings=settings)

    @property
    def timeline(self) -> pl.DataFrame:
        rows = [
            (t, i, t * 10 + i, i, 1, 100, 10 * t + 40 * i, 6, 4, 2, 5.0) for t in (1, 2, 3) for i in (0, 1)
        ]
        columns = (
            "time_s",
            "instance",
            "running",
            "waiting",
            "swapped",
            "kv_total_blocks",
            "kv_used_blocks",
            "prefill_tokens",
            "decode_tokens",
            "preemptions",
            "energy_j",
        )
        frame = pl.DataFrame(rows, schema=list(columns), orient="row")
        return frame.with_columns(pl.col("time_s").cast(pl.Float64), interval_s=pl.lit(1.0))

    @property
    def tenant_timeline(self) -> pl.DataFrame:
        rows = [
            (float(t), 1.0, tenant, len(self._tenants) - place, 1)
            for t in (1, 2, 3)
            for place, tenant in enumerate(self._tenants)
        ]
        schema = {
            "time_s": pl.Float64(),
            "interval_s": pl.Float64(),
            "tenant": pl.String(),
            "arrivals": pl.UInt32(),
            "finished": pl.UInt32(),
        }
        return pl.DataFrame(rows, schema=schema, orient="row")
