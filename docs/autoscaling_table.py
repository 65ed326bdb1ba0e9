"""Make the table of docs/guides/autoscaling.md again: `.venv/bin/python docs/autoscaling_table.py`."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import polars as pl

import paceline
from paceline.policy import Policy
from paceline.synthesis import Diurnal

GUIDE = Path(__file__).resolve().parent / "guides/autoscaling.md"
ROWS = re.compile(r"(?<=\|:--\|---:\|---:\|---:\|---:\|\n)(\|.*\|\n)+")
OBJECTIVES = paceline.SLO(ttft=2.0, tpot=0.050)
INSTANCES = 8


def fitted_step(instance: paceline.Instance) -> tuple[float, float, float]:
    """Fit the time of a step to what a short replay records: seconds, and more for prompt and KV tokens."""
    trace = paceline.synthesize("azure-conv", requests=2_000, rate=20.0, seed=2)
    steps = paceline.replay(trace, paceline.Cluster([instance]), record=(0.0, 60.0)).steps
    held = pl.col("kv_free_blocks").max() - pl.col("kv_free_blocks")
    features = steps.select(
        fixed=pl.lit(1.0),
        prompts=pl.col("tokens").list.sum() - pl.col("decodes"),
        kv=held * instance.block_tokens,
    ).to_numpy()
    found, *_ = np.linalg.lstsq(features, steps["step_s"].to_numpy(), rcond=None)
    return float(found[0]), float(found[1]), float(found[2])


def policies(instance: paceline.Instance) -> dict[str, tuple[int, Policy]]:
    """Return the policies of the table by their names there, and the instances for each."""
    ways = {"serving": 2, "off": INSTANCES - 2, "start_s": 60.0}
    scaled = {
        "HPA, 5 waiting requests": paceline.policies.hpa(metric="waiting", **ways),
        "HPA, 50% of the KV cache": paceline.policies.hpa(metric="kv_usage", target=0.5, **ways),
        "HPA, 100 unfinished requests": paceline.policies.hpa(metric="requests", target=100, **ways),
        "llm-d's WVA": paceline.policies.wva(**ways),
        "Dynamo's planner, latency": paceline.policies.autoscaled(target="latency", **ways),
        **{
            f"Dynamo's planner, throughput by its {source}": paceline.policies.dynamo_planner(
                step_s=fitted_step(instance), ttft_s=2.0, metrics=source, **ways
            )
            for source in ("frontend", "router")
        },
    }
    always = {f"{count} always on": (count, paceline.policies.vllm()) for count in (4, 6, INSTANCES)}
    return always | {name: (INSTANCES, policy) for name, policy in scaled.items()}


def rows() -> str:
    """Replay an hour whose rate rises and falls tenfold, and return a row for each policy."""
    load = Diurnal(88.0, swing=0.82, period_s=3_600.0)
    trace = paceline.synthesize("azure-conv", requests=316_800, arrivals=load, seed=1)
    instance = paceline.Instance(model="llama-3.1-8b", gpu="h100-sxm")
    table = ""
    for name, (count, policy) in policies(instance).items():
        result = paceline.replay(trace, paceline.Cluster(count * [instance]), policy)
        met, on = result.attainment(OBJECTIVES), result.totals().on_s / 3600
        ttft = result.requests["ttft"].quantile(0.99)
        starts = result.flips.filter(to="off→serving").height
        table += f"| {name} | {met:.2%} | {ttft:,.2f} s | {on:.1f} | {starts} |\n"
    return table


if __name__ == "__main__":
    made = rows()
    GUIDE.write_text(ROWS.sub(made, GUIDE.read_text(encoding="utf-8"), count=1), encoding="utf-8")
    print(made, end="")
