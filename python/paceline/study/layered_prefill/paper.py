"""What the paper says, in seconds, bytes and joules a token."""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["E2E", "LENGTHS", "OBJECTIVES", "TABLE_2", "TABLE_6", "TABLE_7", "Latencies", "Row"]


class Latencies(NamedTuple):
    """Means and 99th percentiles in seconds."""

    ttft: float
    ttft_p99: float
    tbt: float
    tbt_p99: float


class Row(NamedTuple):
    """A row of Table 2."""

    chunk: int
    rate: float
    latencies: Latencies
    load: float
    energy: float


TABLE_2: Final = (
    Row(512, 1.3, Latencies(2.68, 8.05, 29.0e-3, 48.4e-3), 955e9, 60.2e-3),
    Row(1024, 1.7, Latencies(2.32, 5.83, 43.6e-3, 83.4e-3), 631e9, 45.4e-3),
    Row(2048, 2.6, Latencies(2.56, 5.58, 73.6e-3, 129e-3), 304e9, 32.4e-3),
)

TABLE_6: Final = {
    "chunked": Latencies(2.80, 8.65, 32.9e-3, 51.1e-3),
    "layered": Latencies(1.24, 4.10, 21.5e-3, 37.1e-3),
}
"""Qwen on arXiv at 1.3 requests a second."""

TABLE_7: Final = {
    "sharegpt": {"chunked": 28.5e12, "layered": 25.1e12},
    "arxiv-summarization": {"chunked": 35.6e12, "layered": 21.7e12},
}
"""Bytes of experts loaded for 100 requests, Qwen."""

E2E: Final = {"chunked": 9.4, "layered": 5.5}
"""Section 5.5, mean end-to-end latency, arXiv at 1.3 requests a second."""

OBJECTIVES: Final = {
    ("qwen", "sharegpt"): (5.0, 0.125),
    ("qwen", "arxiv-summarization"): (10.0, 0.125),
    ("gpt", "sharegpt"): (5.0, 0.100),
    ("gpt", "arxiv-summarization"): (10.0, 0.100),
}
"""Table 5: seconds of TTFT and of every TBT."""

LENGTHS: Final = {
    "sharegpt": (2340, 5696, 2088, 438, 834, 265),
    "arxiv-summarization": (9194, 17152, 5754, 231, 386, 104),
}
"""Table 4: mean, p90 and standard deviation of prompts, then of outputs."""
