"""Compare step times that Paceline and AISimulate derive from the same kernels.

Run with Paceline's Python, after ``paceline profiles import`` of the wheel; AISimulate is asked in an
interpreter of its own:

    python benches/aisimulate_steps.py --aisimulate ~/aisimulate/bin/python [--gpu h100_sxm] [--backend vllm]

It prints milliseconds, ours / theirs, of a step with one prompt of 512 and of 4,096 tokens, and of a decode
step with 1, 32 and 128 requests over 1,024, 1,024 and 4,096 tokens.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from typing import Any

from paceline import Cluster, Instance, Trace, policies, replay
from paceline.errors import ConfigError
from paceline.kernels import Table
from paceline.kernels.store import stored

MODELS = {
    "llama-3.1-8b": "meta-llama/Meta-Llama-3.1-8B",
    "llama-3.1-70b": "meta-llama/Meta-Llama-3.1-70B",
    "qwen3-32b": "Qwen/Qwen3-32B",
    "qwen3-30b-a3b": "Qwen/Qwen3-30B-A3B",
    "deepseek-v3": "deepseek-ai/DeepSeek-V3",
}
# Model, tensor parallelism, data parallelism, and expert parallelism.
SPLITS = (
    ("llama-3.1-8b", 1, 1, False),
    ("llama-3.1-70b", 4, 1, False),
    ("qwen3-32b", 2, 1, False),
    ("qwen3-30b-a3b", 1, 1, False),
    ("qwen3-30b-a3b", 2, 1, False),
    ("qwen3-30b-a3b", 2, 1, True),
    ("qwen3-30b-a3b", 1, 2, True),
    ("deepseek-v3", 8, 1, False),
    ("deepseek-v3", 8, 1, True),
)
PROMPTS = (512, 4096)
DECODES = ((1, 1023), (32, 1023), (128, 4095))

THEIRS = """
import json, sys
from aisimulate_core.sdk.engine import EngineHandle
found = []
for case in json.load(sys.stdin):
    options = dict(tp_size=case["tp"])
    if case["mixture"]:
        ranks = case["tp"] * case["dp"]
        options |= dict(attention_dp_size=case["dp"], moe_tp_size=1 if case["ep"] else ranks,
                        moe_ep_size=ranks if case["ep"] else 1)
    try:
        engine = EngineHandle.compile(
            case["path"], case["gpu"], case["backend"], backend_version=case["version"], **options)
        found.append([engine.predict_prefill_latency(1, n) for n in case["prompts"]]
                     + [engine.predict_decode_latency(n, context, 2) for n, context in case["decodes"]])
    except Exception as error:
        found.append(str(error)[:100])
print(json.dumps(found))
"""


def ours(case: dict[str, Any]) -> list[float]:
    """Return the times of the same steps from replays of one request, or of a batch that arrives at once."""
    cost = Table(profile=case["name"], data_parallel=case["dp"], expert_parallel=case["ep"], overhead_s=0.0)
    instance = Instance(
        model=case["model"], tensor_parallel=case["tp"], cost=cost, num_blocks=200_000, max_model_len=16384
    )

    def run(batch: int, prompt: int, output: int) -> Any:
        trace = Trace.from_columns(
            arrival=batch * [0.0], prompt_tokens=batch * [prompt], output_tokens=batch * [output]
        )
        policy = policies.vllm(max_num_batched_tokens=batch * prompt + 1, max_num_seqs=1024)
        return replay(trace, Cluster([instance]), policy).requests

    prompts = [1e3 * run(1, n, 1)["ttft"][0] for n in PROMPTS]
    rows = [run(n, context, 2) for n, context in DECODES]
    return prompts + [1e3 * (row["e2e"] - row["ttft"])[-1] for row in rows]


def main() -> None:
    """Compare every imported engine, or those that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--aisimulate", required=True, help="Python with aisimulate installed")
    parser.add_argument("--gpu", action="append", default=[])
    parser.add_argument("--backend", action="append", default=[])
    chosen = parser.parse_args()
    cases = []
    for entry in stored():
        if entry.what != "operators":
            continue
        _, gpu, backend, version = entry.name.split("/")
        if (chosen.gpu and gpu not in chosen.gpu) or (chosen.backend and backend not in chosen.backend):
            continue
        for model, tp, dp, ep in SPLITS:
            mixture = model in ("qwen3-30b-a3b", "deepseek-v3")
            cases.append(
                {
                    "name": entry.name, "gpu": gpu, "backend": backend, "version": version, "model": model,
                    "path": MODELS[model], "tp": tp, "dp": dp, "ep": ep, "mixture": mixture,
                    "prompts": PROMPTS, "decodes": DECODES,
                }
            )  # fmt: skip
    asked = subprocess.run(
        [chosen.aisimulate, "-c", THEIRS], input=json.dumps(cases), capture_output=True, text=True, check=True
    )
    for case, theirs in zip(cases, json.loads(asked.stdout), strict=True):
        title = f"{case['name']} {case['model']} tp{case['tp']} dp{case['dp']}{' ep' if case['ep'] else ''}"
        try:
            steps = ours(case)
        except ConfigError as error:
            print(f"{title}: ours cannot: {error}")
            continue
        if isinstance(theirs, str):
            print(f"{title}: theirs cannot: {theirs}")
            continue
        pairs = zip(steps, theirs, strict=True)
        print(f"{title}:", "  ".join(f"{a:.1f}/{b:.1f} ({a / b - 1:+.0%})" for a, b in pairs))


if __name__ == "__main__":
    main()
