"""Simulate a job with vllm-sr-sim's fleet of one instance, on its computed profile of an H100."""

import csv
import json
import sys
import time
from dataclasses import replace
from pathlib import Path

from fleet_sim.core.fleet import Fleet, FleetConfig, PoolConfig
from fleet_sim.core.request import Request
from fleet_sim.gpu_profiles import ProfileBuilder, ServingConfig
from fleet_sim.hardware.catalog import H100_SXM
from fleet_sim.models.catalog import LLAMA_3_1_8B
from said import say

job = json.loads(Path(sys.argv[1]).read_text())
of = job["deployment"]
with Path(job["trace"]).open(newline="") as file:
    lines = list(csv.DictReader(file))
requests = [
    Request(row, float(line["arrival"]), int(line["prompt_tokens"]), int(line["output_tokens"]))
    for row, line in enumerate(lines)
]
lengths = [each.l_in + each.l_out for each in requests]
profile = ProfileBuilder().build(
    hw=H100_SXM,
    model=LLAMA_3_1_8B,
    cfg=ServingConfig(
        chunk=of["max_num_batched_tokens"],
        blk_size=of["block_tokens"],
        max_slots=of["max_num_seqs"],
        mean_ctx_tokens=sum(lengths) // len(lengths),
    ),
)
profile = replace(profile, total_kv_blks=of["blocks"])
pool = PoolConfig("pool", profile, n_gpus=1, max_ctx=of["max_model_len"])
fleet = Fleet(FleetConfig([pool], router_type="LeastLoadedRouter"))
started = time.process_time()
fleet.run([(each.arrival_time, each) for each in requests])
replay_s = time.process_time() - started
say(job, [(each.first_token_time, each.physical_end_time) for each in requests], replay_s=replay_s)
