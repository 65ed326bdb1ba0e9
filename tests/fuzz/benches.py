"""Results of benchmark clients, and calls that read them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

import paceline
from fuzz.mutations import damaged_tree
from paceline import Cluster, Instance
from paceline.benchmarks import compare_bench, read_benches
from unit.benchmarks import samples

__all__ = ["BENCHES", "aiperf", "aiperf_files", "bench_tree", "benches"]

BENCHES: list[Any] = [
    samples.VLLM,
    {**samples.VLLM, "latencies": [0.1, 0.0, 0.2], "queue_times": [0.0, 0.1, 0.0], "request_rate": 4.0},
    {**json.loads(samples.SGLANG), "request_rate": 4.0, "burstiness": 0.5},
    samples.GUIDELLM,
    samples.INFERENCE_PERF_REQUESTS,
    samples.INFERENCE_PERF_STAGE,
    samples.AIPERF_SUMMARY,
    samples.AIPERF_RECORDS[1],
    samples.LLM_D,
]


def benches(folder: Path, data: bytes) -> None:
    """Read a benchmark's file, and replay each run that has requests."""
    (folder / "result.json").write_bytes(data)
    server = Cluster([Instance(cost=paceline.Affine(step_s=0.01), num_blocks=200)])
    for bench in read_benches(folder / "result.json"):
        bench.statistics()
        if not bench.completed.is_empty():
            compare_bench(bench, server).to_json()


def bench_tree(folder: Path, tree: Any) -> None:
    """Read a tree as a benchmark's file."""
    benches(folder, json.dumps(tree).encode())


def aiperf(folder: Path, trees: tuple[Any, Any]) -> None:
    """Read AIPerf's two files."""
    records, summary = trees
    lines = records if isinstance(records, list) else [records]
    (folder / "profile_export.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (folder / "profile_export_aiperf.json").write_text(json.dumps(summary))
    for bench in read_benches(folder):
        bench.statistics()


@st.composite
def aiperf_files(draw: st.DrawFn) -> tuple[Any, Any]:
    """Damage one of AIPerf's two files."""
    if draw(st.booleans()):
        return draw(damaged_tree(st.just(samples.AIPERF_RECORDS))), samples.AIPERF_SUMMARY
    return samples.AIPERF_RECORDS, draw(damaged_tree(st.just(samples.AIPERF_SUMMARY)))
