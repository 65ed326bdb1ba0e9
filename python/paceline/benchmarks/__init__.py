"""Results of benchmark clients: read, compared with a replay of the same requests, and written.

:func:`read_bench` reads what ``vllm bench serve``, SGLang, AIPerf, guidellm, inference-perf and llm-d
write, :func:`compare_bench` replays it, and :func:`write_bench` writes a replay as these tools would have
measured it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paceline._lazy import attach

if TYPE_CHECKING:
    from paceline.benchmarks.clients import Arrivals
    from paceline.benchmarks.comparing import BenchComparison, compare_bench
    from paceline.benchmarks.model import BenchmarkLoad, BenchmarkResult, BenchmarkTotals
    from paceline.benchmarks.reading import read_bench, read_benches
    from paceline.benchmarks.writing import BenchFormat, write_bench

__all__ = [
    "Arrivals",
    "BenchComparison",
    "BenchFormat",
    "BenchmarkLoad",
    "BenchmarkResult",
    "BenchmarkTotals",
    "compare_bench",
    "read_bench",
    "read_benches",
    "write_bench",
]

attach(
    __name__,
    {
        "clients": ("Arrivals",),
        "comparing": ("BenchComparison", "compare_bench"),
        "model": ("BenchmarkLoad", "BenchmarkResult", "BenchmarkTotals"),
        "reading": ("read_bench", "read_benches"),
        "writing": ("BenchFormat", "write_bench"),
    },
)
