"""Simulate a job with sched-sim: its chunked prefill, on its profile of an H100 with the 8B model."""

import csv
import json
import sys
import time
from pathlib import Path

from said import say
from sched_sim.core.event_engine import Simulator
from sched_sim.core.request import Request
from sched_sim.hardware.latency_model import RooflineLatencyModel
from sched_sim.hardware.presets import PRESETS
from sched_sim.memory.block_manager import BlockManager
from sched_sim.memory.preemption import PreemptionHandler
from sched_sim.schedulers.chunked import ChunkedPrefillScheduler

MODEL = ("model_name", "parameter_count_billions", "num_layers", "hidden_size", "num_heads", "num_kv_heads")


class Linear(RooflineLatencyModel):
    """The shared price of a step."""

    def compute_prefill_step_time(self, num_prefill_tokens: int) -> float:
        return self.compute_mixed_step_time(num_prefill_tokens, 0, 0)

    def compute_decode_step_time(self, batch_size: int, total_context_tokens: int) -> float:
        return self.compute_mixed_step_time(0, batch_size, total_context_tokens)

    def compute_mixed_step_time(
        self, num_prefill_tokens: int, num_decode_requests: int, total_decode_context_tokens: int
    ) -> float:
        return cost["step_s"] + cost["token_s"] * (num_prefill_tokens + num_decode_requests)


job = json.loads(Path(sys.argv[1]).read_text())
of, cost = job["deployment"], job["cost"]
with Path(job["trace"]).open(newline="") as file:
    requests = [
        Request(
            request_id=str(row),
            arrived_at=float(line["arrival"]),
            prompt_tokens=int(line["prompt_tokens"]),
            output_tokens=int(line["output_tokens"]),
        )
        for row, line in enumerate(csv.DictReader(file))
    ]
hardware = PRESETS["h100"].model_copy(update={name: getattr(PRESETS["a100"], name) for name in MODEL})
latency = RooflineLatencyModel(hardware) if cost is None else Linear(hardware)
blocks = BlockManager(hardware, block_size=of["block_tokens"])
blocks.total_gpu_blocks = of["blocks"]
blocks.free_gpu_blocks = list(range(of["blocks"]))
scheduler = ChunkedPrefillScheduler(
    blocks,
    latency,
    PreemptionHandler(blocks, latency),
    max_batch_size=of["max_num_seqs"],
    max_token_budget=of["max_num_batched_tokens"],
)
simulator = Simulator(hardware, scheduler, block_size=of["block_tokens"])
simulator.submit_workload(requests)
started = time.process_time()
simulator.run()
replay_s = time.process_time() - started
moments = [(each.first_token_at, each.completed_at) for each in requests]
say(job, moments, replay_s=replay_s, steps=len(simulator.iteration_records))
