"""Simulate a job with AISimulate's engine replay, on its measured kernels of an H100 under vLLM."""

import csv
import json
import sys
import time
from pathlib import Path

from aisimulate.config.cli import CorePredictionConfig
from aisimulate.predict import run_prediction
from aisimulate.stack import resolve_runner_factory
from aisimulate.sweeper.replay import ReplayOutputRequirements
from said import say

job = json.loads(Path(sys.argv[1]).read_text())
of = job["deployment"]
trace = Path(job["folder"]) / "mooncake.jsonl"
prompts = []
with Path(job["trace"]).open(newline="") as source, trace.open("w") as file:
    for row, line in enumerate(csv.DictReader(source)):
        prompt = int(line["prompt_tokens"])
        prompts.append(prompt)
        request = {
            "timestamp": round(1e3 * float(line["arrival"])),
            "input_length": prompt,
            "output_length": int(line["output_tokens"]),
            # No two prompts share a block.
            "hash_ids": [1_000 * row + block for block in range(-(-prompt // 512))],
        }
        file.write(json.dumps(request) + "\n")
settings = CorePredictionConfig.model_validate(
    {
        "traffic": {
            "source": {"type": "trace", "paths": [str(trace)], "format": "mooncake"},
            "load": {"type": "trace_timestamps"},
        },
        "engine": {
            "model": "meta-llama/Meta-Llama-3.1-8B",
            "hardware": "h100_sxm",
            "backend": "vllm",
            "workers": {
                "aggregated": {
                    "parallelism": {"tensor": 1},
                    "scheduler": {
                        "max_sequences": of["max_num_seqs"],
                        "max_batched_tokens": of["max_num_batched_tokens"],
                    },
                    "kv_cache": {
                        "block_size": of["block_tokens"],
                        "prefix_caching": False,
                        "capacity": {"type": "fixed", "blocks": of["blocks"]},
                    },
                }
            },
        },
    }
)
started = time.process_time()
result = run_prediction(
    settings,
    stack="engine",
    runner_factory=resolve_runner_factory("engine"),
    output_requirements=ReplayOutputRequirements(include_raw_report=True, capture_per_request=True),
)
replay_s = time.process_time() - started
# Sessions are numbered from 1 in the order of the trace.
rows = {int(each["session_id"].rsplit("_", 1)[1]): each for each in result.native["per_request"]}
if [rows[number]["input_length"] for number in sorted(rows)] != prompts:
    raise SystemExit("the records are not those of the trace's requests in order")
moments = [(rows[number]["first_token_ms"], rows[number]["last_token_ms"]) for number in sorted(rows)]
in_s = [[None if moment is None else moment / 1e3 for moment in each] for each in moments]
say(job, in_s, replay_s=replay_s)
