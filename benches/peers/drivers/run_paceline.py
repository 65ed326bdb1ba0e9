"""Replay a job with Paceline: read the trace, replay, write every request's moments."""

import json
import os
import sys
import time
from pathlib import Path

import paceline
from paceline.cost import Affine

job = json.loads(Path(sys.argv[1]).read_text())
of, cost = job["deployment"], job["cost"]
trace = paceline.read_trace(job["trace"])
if cost is not None:
    price = Affine(step_s=cost["step_s"], token_s=cost["token_s"])
elif len(sys.argv) > 2:
    from paceline.kernels import Table

    os.environ["PACELINE_PROFILES"], profile = sys.argv[2:]
    price = Table(profile=profile, overhead_s=0.0)
else:
    price = None
instance = paceline.Instance(
    model=of["model"],
    gpu=of["gpu"],
    block_tokens=of["block_tokens"],
    num_blocks=of["blocks"] + 1,  # vLLM counts its null block
    max_model_len=of["max_model_len"],
    cost=price,
)
policy = paceline.policies.vllm(
    max_num_batched_tokens=of["max_num_batched_tokens"], max_num_seqs=of["max_num_seqs"]
)
cluster = paceline.Cluster([instance])
# Its modules are loaded when they are first used. The others load theirs before they are timed.
paceline.replay(paceline.Trace(trace.frame[:1], name="first"), cluster, policy)
started = time.process_time()
result = paceline.replay(trace, cluster, policy)
replay_s = time.process_time() - started
result.requests.select("first_token", "finish").write_csv(job["out"])
print(json.dumps({"replay_s": replay_s, "steps": result.stats.steps}))
