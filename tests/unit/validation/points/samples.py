"""Small made-up data in the columns of each source of measured points, written as files."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Row = Mapping[str, Any]

#: A row of ai-dynamo/aiconfigurator's points.csv; numbers are made up.
AICONFIGURATOR: dict[str, Any] = {
    "source": "made-up/one.csv",
    "backend": "vllm",
    "backend_version": "0.19.0",
    "model_path": "meta-llama/Llama-3.1-8B-Instruct",
    "system": "h100_sxm",
    "precision": "",
    "mode": "agg",
    "isl": 256,
    "osl": 32,
    "concurrency": 4,
    "spec_method": "none",
    "gemm_quant_mode": "",
    "batch_size": 4,
    "tp_size": 1,
    "pp_size": 1,
    "attention_dp_size": 1,
    "moe_tp_size": 1,
    "moe_ep_size": 1,
    "silicon_ttft_ms": 30.0,
    "silicon_tpot_ms": 8.0,
}
#: A row of InferenceX's points.csv; numbers are made up.
INFERENCEX: dict[str, Any] = {
    "src": "made-up",
    "model": "openai/gpt-oss-120b",
    "hardware": "h200",
    "framework": "vllm",
    "image": "vllm/vllm-openai:v0.22.0",
    "precision": "fp4",
    "spec_method": "none",
    "disagg": False,
    "is_multinode": False,
    "isl": 1024,
    "osl": 128,
    "conc": 8,
    "prefill_tp": 2,
    "prefill_ep": 1,
    "prefill_dp_attention": False,
    "prefill_num_workers": 1,
    "decode_num_workers": 1,
    "decode_tp": 2,
    "decode_ep": 1,
    "decode_dp_attention": False,
    "num_decode_gpu": 2,
    "output_tput_per_gpu": 250.0,
    "mean_ttft": 0.05,
    "median_ttft": 0.04,
    "mean_tpot": 0.011,
    "median_tpot": 0.010,
    "mean_e2el": 1.3,
    "median_e2el": 1.2,
}
#: A row of ml-energy/leaderboard's points.csv; numbers are made up.
MLENERGY: dict[str, Any] = {
    "task": "gpqa",
    "model_id": "Qwen/Qwen3-8B",
    "weight_precision": "bfloat16",
    "gpu_model": "H100",
    "num_gpus": 1,
    "tensor_parallel": 1,
    "expert_parallel": 1,
    "data_parallel": 1,
    "max_num_seqs": 4,
    "avg_batch_size": 4.0,
    "output_throughput_tokens_per_sec": 400.0,
}
#: A row of sim-to-real-accuracy-validation's inference_perf_stages.csv; numbers are made up.
STAGE: dict[str, Any] = {
    "experiment": "20260101-one",
    "stage": 0,
    "model": "meta-llama/Llama-2-7b-hf",
    "tensor_parallelism": 1,
    "max_num_batched_tokens": 2048,
    "max_num_seqs": 128,
    "rate": 5,
    "load_type": "constant",
    "wl_num_unique_system_prompts": 3,
    "wl_num_users_per_system_prompt": 2,
    "wl_output_len": 21,
    "wl_question_len": 50,
    "wl_system_prompt_len": 32,
    "count": 60,
    "requested_rate": 5.0,
    "failed": 0,
    "requests_per_sec": 4.9,
    "e2e_mean_ms": 250.0,
    "ttft_mean_ms": 30.0,
    "prompt_len_mean": 96.0,
}
#: A row of lmbench's requests; numbers are made up.
LMBENCH: dict[str, Any] = {
    "qps": 1.0,
    "launch_s": 0.0,
    "user_id": "",
    "question_id": "",
    "prompt_tokens": 75,
    "generation_tokens": 21,
    "ttft_s": 0.1,
    "generation_time_s": 0.4,
    "finish_s": 0.5,
}
#: A row of inferencex-profiling's sweeps.csv; numbers are made up.
SWEEP: dict[str, Any] = {
    "set": "made-up",
    "run": "c2",
    "spec": "none",
    "max_concurrency": 2,
    "num_prompts": 4,
    "total_input_tokens": 400,
    "output_throughput": 300.0,
    "mean_ttft_ms": 40.0,
    "mean_tpot_ms": 6.0,
    "mean_e2el_ms": 160.0,
}
#: A row of llm-d-benchmark's pd_runs.csv; numbers are made up.
APART: dict[str, Any] = {
    "gpu": "H100",
    "deployment": "llm-d-1p1d",
    "model_id": "meta-llama/Llama-3.1-8B-Instruct",
    "num_prompts": 10,
    "request_rate": 3.6,
    "burstiness": 100.0,
    "total_input_tokens": 80_000,
    "total_output_tokens": 2_000,
    "request_throughput": 3.5,
    "output_throughput": 700.0,
    "mean_ttft_ms": 250.0,
    "mean_tpot_ms": 18.0,
}


def write(file: Path, rows: Sequence[Row]) -> Path:
    """Write rows as a CSV file, compressed if its name says so, and its folder."""
    file.parent.mkdir(parents=True, exist_ok=True)
    opener = gzip.open if file.suffix == ".gz" else open
    with opener(file, "wt", newline="", encoding="utf-8") as out:
        writer = csv.DictWriter(out, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return file


def open_loop(*, late_s: float = 0.0) -> list[dict[str, Any]]:
    """Return an open-loop run of 40 requests, one each half second, of 2 s; the client may be late."""
    return [
        {
            "request_id": i,
            "arrival_us": 500_000 * i,
            "send_us": 500_000 * i + round(1e6 * late_s),
            "prompt_tokens_server": 1000,
            "output_tokens": 101,
            "ttft_us": 60_000,
            "e2e_us": 2_000_000,
            "status": "ok",
        }
        for i in range(40)
    ]


def histogram(folder: Path, edges: Sequence[float], counts: Sequence[int]) -> None:
    """Write the lengths of outputs beside ml-energy/leaderboard's points."""
    file = folder / "workload" / "output_length_hist.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"Qwen/Qwen3-8B|gpqa": {"bins": edges, "counts": counts}}))
