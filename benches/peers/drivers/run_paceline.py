"""Replay a job with Paceline: read the trace, replay, write every request's moments."""

import json
import sys
import time
from pathlib import Path

import paceline
from paceline.cost import Affine

job = json.loads(Path(sys.argv[1]).read_text())
of, cost = job["deployment"], job["cost"]
trace = paceline.read_trace(job["trace"])
instance = paceline.Instance(
    model=of["model"],
    gpu=of["gpu"],
    block_tokens=of["block_tokens"],
    num_blocks=of["blocks"] + 1,  # vLLM counts its null block
    max_model_len=of["max_model_len"],
    cost=None if cost is None else Affine(step_s=cost["step_s"], token_s=cost["token_s"]),
)
policy = paceline.policies.vllm(
    max_num_batched_tokens=of["max_num_batched_tokens"], max_num_seqs=of["max_num_seqs"]
)
started = time.process_time()
result = paceline.replay(trace, paceline.Cluster([instance]), policy)
replay_s = time.process_time() - started
result.requests.select("first_token", "finish").write_csv(job["out"])
print(json.dumps({"replay_s": replay_s, "steps": result.stats.steps}))
