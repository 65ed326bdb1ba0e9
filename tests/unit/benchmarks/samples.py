"""Small results of each benchmark client, made by hand; the numbers follow from the comments."""

from __future__ import annotations

from typing import Any

__all__ = [
    "AIPERF_RECORDS",
    "AIPERF_SUMMARY",
    "GUIDELLM",
    "INFERENCE_PERF_REQUESTS",
    "INFERENCE_PERF_STAGE",
    "LLM_D",
    "SGLANG",
    "VLLM",
]

# Three requests: the second failed, and keeps its place. The first: 3 tokens, the first after 31 ms, 11 and
# 12 ms: TPOT 11.5 ms, E2E 54 ms. Third: 5 tokens in 2 chunks after the first (speculation), 40 ms and then
# 20 and 24 ms: TPOT 44 / 4 = 11 ms, E2E 84 ms.
VLLM: dict[str, Any] = {
    "date": "20261123-101500",
    "backend": "vllm",
    "endpoint_type": "vllm",
    "model_id": "meta-llama/Llama-3.1-8B-Instruct",
    "num_prompts": 3,
    "request_rate": "inf",
    "burstiness": 1.0,
    "max_concurrency": 3,
    "duration": 1.5,
    "completed": 2,
    "total_input_tokens": 30,
    "total_output_tokens": 8,
    "request_throughput": 2 / 1.5,
    "output_throughput": 8 / 1.5,
    "mean_ttft_ms": 35.5,
    "median_ttft_ms": 35.5,
    "p99_ttft_ms": 39.91,
    "mean_tpot_ms": 11.25,
    "input_lens": [10, 15, 20],
    "output_lens": [3, 0, 5],
    "ttfts": [0.031, 0.0, 0.040],
    "itls": [[0.011, 0.012], [], [0.020, 0.024]],
    "start_times": [812.10, 812.11, 812.12],
    "errors": ["", "Traceback:\n  ...\nTimeoutError", ""],
}

# As above without times of sending; `Infinity` is what Python's json writes.
SGLANG = (
    '{"backend":"sglang","dataset_name":"random","request_rate":Infinity,"max_concurrency":4,"duration":25.1,'
    '"completed":2,"mean_ttft_ms":41.0,"p95_itl_ms":9.2,"mean_e2e_latency_ms":57.8,"accept_length":null,'
    '"input_lens":[512,800],"output_lens":[3,2],"ttfts":[0.040,0.042],"itls":[[0.009,0.0085],[0.0091]],'
    '"errors":["",""]}'
)


def _record(start_ms: int, metrics: dict[str, Any], **of: Any) -> dict[str, Any]:
    start = 1_795_400_000_000_000_000 + start_ms * 1_000_000
    metadata = {"session_num": 0, "request_start_ns": start, "worker_id": "w", "benchmark_phase": "profiling"}
    units = {name: "tokens" if name.endswith(("length", "count", "isl")) else "ms" for name in metrics}
    return {
        "metadata": {**metadata, **{name: value for name, value in of.items() if name != "error"}},
        "metrics": {name: {"value": value, "unit": units[name]} for name, value in metrics.items()},
        "error": of.get("error"),
    }


# Two requests, 250 ms apart; TTFT 30 and 50 ms, E2E 70 and 130 ms of 5 and 9 tokens: ITL 10 ms. The chunks
# of the second are of 2 tokens. One record of the warm-up, and one that failed.
AIPERF_RECORDS: list[dict[str, Any]] = [
    _record(-900, {"input_sequence_length": 9, "output_sequence_length": 2}, benchmark_phase="warmup"),
    _record(
        0,
        {
            "input_sequence_length": 100,
            "output_sequence_length": 5,
            "time_to_first_token": 30.0,
            "inter_token_latency": 10.0,
            "inter_chunk_latency": [10.0, 10.0, 10.0, 10.0],
            "request_latency": 70.0,
        },
        x_request_id="a",
        x_correlation_id="s1",
    ),
    _record(
        250,
        {
            "input_sequence_length": 200,
            "output_sequence_length": 9,
            "time_to_first_token": 50.0,
            "inter_token_latency": 10.0,
            "inter_chunk_latency": [20.0, 20.0, 20.0, 20.0],
            "request_latency": 130.0,
        },
        x_request_id="b",
    ),
    _record(300, {"error_isl": 50}, error={"code": 503, "type": "ServiceUnavailable", "message": "busy"}),
]
AIPERF_SUMMARY: dict[str, Any] = {
    "schema_version": "1.0",
    "aiperf_version": "0.13.0",
    "request_count": {"unit": "requests", "avg": 2.0},
    "request_throughput": {"unit": "requests/sec", "avg": 5.0},
    "benchmark_duration": {"unit": "sec", "avg": 0.4},
    "time_to_first_token": {"unit": "ms", "avg": 40.0, "p50": 40.0, "p90": 48.0, "p99": 49.8, "std": 10.0},
    "request_latency": {"unit": "ms", "avg": 100.0, "p50": 100.0},
    "input_config": {
        "endpoint": {"model_names": ["Qwen/Qwen3-14B"]},
        "loadgen": {"concurrency": 8, "request_rate": None},
    },
}


def _guide(start: float, first: float, last: float, inputs: int, outputs: int) -> dict[str, Any]:
    timings = {
        "targeted_start": start - 0.001,
        "request_start": start,
        "first_token_iteration": first,
        "last_token_iteration": last,
        "request_end": last + 0.5,
    }
    return {
        "request_id": f"r{start}",
        "info": {"status": "completed", "timings": timings},
        "input_metrics": {"text_tokens": inputs},
        "output_metrics": {"text_tokens": outputs},
    }


# Two requests, 0.4 and 0.2 s to the first token, 1.4 s for 5 tokens and 0.5 s for 2. TPOT by guidellm: 1.4/5
# with weight 5, 0.5/2 with weight 2: (1.4 + 0.5) / 7. ITL: 0.25 with weight 4, 0.3 with weight 1: 1.3 / 5.
GUIDELLM: dict[str, Any] = {
    "metadata": {"version": 2, "guidellm_version": "0.7.0"},
    "config": {},
    "benchmarks": [
        {
            "type_": "generative_benchmark",
            "config": {"strategy": {"type_": "poisson", "rate": 2.0}, "backend": {"model": "llama"}},
            "scheduler_metrics": {
                "measure_start_time": 100.0,
                "measure_end_time": 110.0,
                "requests_made": {"successful": 2, "incomplete": 1, "errored": 0, "total": 3},
            },
            "metrics": {
                "time_to_first_token_ms": {
                    "successful": {
                        "mean": 300.0,
                        "median": 200.0,
                        "percentiles": {"p90": 400.0, "p99": 400.0},
                    }
                },
                "requests_per_second": {"successful": {"mean": 0.2}},
            },
            "requests": {
                "successful": [_guide(100.0, 100.4, 101.4, 10, 5), _guide(101.0, 101.2, 101.5, 20, 2)],
                "incomplete": [_guide(109.9, 109.95, 110.0, 20, 1)],
                "errored": [],
                "total": None,
            },
        }
    ],
}

# Stage 1, two requests: 3 tokens at 0.4, 0.5 and 0.7 s, end at 0.75 s; 2 tokens at 0.2 and 0.35 s.
INFERENCE_PERF_REQUESTS: list[dict[str, Any]] = [
    {
        "stage_id": 1,
        "scheduled_time": 9.99,
        "start_time": 10.0,
        "end_time": 10.75,
        "request_data": "{}",
        "info": {
            "request_metrics": {"text": {"input_tokens": 7}},
            "response_metrics": {"output_tokens": 3, "output_token_times": [10.4, 10.5, 10.7]},
        },
        "error": None,
    },
    {
        "stage_id": 1,
        "scheduled_time": 11.0,
        "start_time": 11.0,
        "end_time": 11.35,
        "request_data": "{}",
        "info": {
            "request_metrics": {"text": {"input_tokens": 8}},
            "response_metrics": {"output_tokens": 2, "output_token_times": [11.2, 11.35]},
        },
        "error": None,
    },
    {
        "stage_id": 1,
        "start_time": 11.5,
        "end_time": 11.6,
        "info": {},
        "error": {"error_type": "ClientError", "error_msg": "refused"},
    },
]
INFERENCE_PERF_STAGE: dict[str, Any] = {
    "load_summary": {"count": 3, "requested_rate": 1.0, "send_duration": 1.6},
    "successes": {
        "count": 2,
        "latency": {
            "request_latency": {"mean": 0.55, "median": 0.55, "p90": 0.71, "p99": 0.746},
            "normalized_time_per_output_token": {"mean": 0.2125},
        },
        "throughput": {"requests_per_sec": 1.48},
    },
    "failures": {"count": 1},
}

LLM_D: dict[str, Any] = {
    "version": "0.2.1",
    "run": {"uid": "u"},
    "scenario": {
        "stack": [{"standardized": {"kind": "inference_engine", "model": {"name": "Qwen/Qwen3-14B"}}}],
        "load": {"standardized": {"tool": "vllm-benchmark", "tool_version": "0.24.0", "concurrency": 64}},
    },
    "results": {
        "request_performance": {
            "aggregate": {
                "requests": {"total": 100, "failures": 3},
                "latency": {
                    "time_to_first_token": {"units": "ms", "mean": 40.0, "p50": 38.0, "p99": 90.0},
                    "time_per_output_token": {"units": "s/token", "mean": 0.011},
                },
                "throughput": {"request_rate": {"units": "queries/s", "mean": 9.5}},
            }
        }
    },
}
