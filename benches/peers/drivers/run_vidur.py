"""Simulate a job with Vidur: its Sarathi scheduler, which chunks as vLLM does, under the shared price."""

import csv
import json
import sys
import time
from pathlib import Path
from typing import Any

from said import say
from vidur import config as vidur_config
from vidur._native.entities import ExecutionTime
from vidur.execution_time_predictor import BaseExecutionTimePredictor, ExecutionTimePredictorRegistry
from vidur.simulator import Simulator
from vidur.types import ExecutionTimePredictorType
from vidur.utils.random import set_seeds

job = json.loads(Path(sys.argv[1]).read_text())
of, cost = job["deployment"], job["cost"]


class Linear(BaseExecutionTimePredictor):
    """The shared price of a step, in milliseconds in the one part that is not multiplied by layers."""

    def get_execution_time(self, batch: Any, pipeline_stage: int) -> ExecutionTime:
        step_s = cost["step_s"] + cost["token_s"] * sum(batch.num_q_tokens)
        return ExecutionTime(1, *[0.0] * 13, 1e3 * step_s)


# Its operators are abstract, and none is asked.
Linear.__abstractmethods__ = frozenset()
ExecutionTimePredictorRegistry.unregister(ExecutionTimePredictorType.RANDOM_FORREST)
ExecutionTimePredictorRegistry.register(ExecutionTimePredictorType.RANDOM_FORREST, Linear)

trace = Path(job["folder"]) / "vidur.csv"
with Path(job["trace"]).open(newline="") as source, trace.open("w", newline="") as file:
    out = csv.writer(file)
    out.writerow(("Date", "Time", "PromptTokenCount", "CompletionTokenCount"))
    for line in csv.DictReader(source):
        out.writerow(("2023-08-21", line["arrival"], line["prompt_tokens"], line["output_tokens"]))

settings = vidur_config.SimulationConfig(
    seed=42,
    cluster_config=vidur_config.ClusterConfig(
        num_replicas=1,
        replica_config=vidur_config.ReplicaConfig(
            model_name="meta-llama/Llama-3-8B",
            num_pipeline_stages=1,
            tensor_parallel_size=1,
            device="h100",
            network_device="h100_dgx",
        ),
        cache_config=vidur_config.CacheConfig(
            block_size=of["block_tokens"], num_blocks=of["blocks"], watermark_blocks_fraction=0.0
        ),
        global_scheduler_config=vidur_config.RoundRobinGlobalSchedulerConfig(),
        replica_scheduler_config=vidur_config.SarathiSchedulerConfig(
            batch_size_cap=of["max_num_seqs"], chunk_size=of["max_num_batched_tokens"]
        ),
    ),
    request_generator_config=vidur_config.TraceRequestGeneratorConfig(
        trace_file=str(trace),
        prefill_scale_factor=1.0,
        decode_scale_factor=1.0,
        time_scale_factor=1.0,
        max_tokens=of["max_model_len"],
    ),
    # The least output that it can be asked for: no plots, no trace of events.
    metrics_config=vidur_config.MetricsConfig(
        write_metrics=False,
        enable_chrome_trace=False,
        store_plots=False,
        output_dir=str(Path(job["folder"]) / "vidur"),
    ),
)
set_seeds(settings.seed)
simulator = Simulator(settings)
requests = sorted(
    (event._request for _, event in simulator._event_queue), key=lambda each: (each.arrived_at, each.id)
)
started = time.process_time()
simulator.run()
replay_s = time.process_time() - started
say(job, [(each._prefill_completed_at, each._completed_at) for each in requests], replay_s=replay_s)
