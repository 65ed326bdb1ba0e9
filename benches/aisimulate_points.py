"""Compare Paceline and AISimulate on the same measured closed loops.

Run with Paceline's Python, after ``paceline profiles import`` of the wheel and
``paceline validate --suite DIR --out ours.json``; AISimulate replays in an interpreter of its own:

    python benches/aisimulate_points.py ours.json --suite DIR --aisimulate ~/aisimulate/bin/python

Points are drawn by the seed from the closed loops that both can take: aggregated, of one instance, with
measured kernels, and in the types of weights that a model comes with. Both replay the same lengths under the
same limits; AISimulate with kernels of the version that Paceline takes, or its default where it refuses that.
It prints the median and the ninetieth percentile of the sizes of relative errors, and the median error with
its sign, in per cent. A point takes AISimulate some seconds.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from paceline.validation.points import Point
from paceline.validation.points.readers import read_points
from paceline.validation.points.scoring import score
from paceline.validation.points.serving import Unserved, profiles, table_of
from paceline.validation.points.workloads import Closed

#: Models by their paths, with the types of weights that AISimulate takes for them.
MODELS = {
    "llama-3.1-8b": ("meta-llama/Meta-Llama-3.1-8B", "bf16"),
    "qwen3-32b": ("Qwen/Qwen3-32B", "bf16"),
    "deepseek-r1": ("deepseek-ai/DeepSeek-R1", "fp8"),
    "deepseek-v3": ("deepseek-ai/DeepSeek-V3", "fp8"),
    "gpt-oss-120b": ("openai/gpt-oss-120b", "mxfp4"),
    "minimax-m2.5": ("MiniMaxAI/MiniMax-M2.5", "fp8"),
}
METRICS = ("ttft", "tpot", "e2e", "throughput")

THEIRS = """
import json, sys
from aisimulate.config.cli import CorePredictionConfig
from aisimulate.predict import run_prediction
from aisimulate.stack import resolve_runner_factory
factory = resolve_runner_factory("engine")
for line in sys.stdin:
    case = json.loads(line)
    def run():
        config = CorePredictionConfig.model_validate(case["config"])
        return run_prediction(config, stack="engine", runner_factory=factory).summary
    try:
        try:
            found = run()
        except Exception as error:
            if "no timing data" not in str(error):
                raise
            del case["config"]["engine"]["backend_version"]
            found = run()
        out = {metric: 1e-3 * found[f"{case['statistic']}_{name}_ms"]
               for metric, name in (("ttft", "ttft"), ("tpot", "tpot"), ("e2e", "e2e_latency"))}
        out["throughput"] = found["output_throughput_tok_s"]
    except Exception as error:
        out = {"error": " ".join(str(error).split())[:120]}
    print(json.dumps({"id": case["id"], **out}), flush=True)
"""


def case_of(point: Point, folder: Path, number: int, known: Mapping[Any, Any]) -> dict[str, Any]:
    """Return a point as AISimulate takes it, and write its requests.

    Raises
    ------
    Unserved
        If there are no kernels of its GPU and engine.
    """
    server, load = point.server, point.workload.load(0)
    _, gpu, engine, version = (table_of(server, known).profile or "").split("/")
    path = folder / f"{number}.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for row, (prompt, output) in enumerate(
            load.trace.frame.select("prompt_tokens", "output_tokens").rows()
        ):
            blocks = [1000 * row + block for block in range(-(-prompt // 512))]
            request = {"timestamp": 0, "input_length": prompt, "output_length": output, "hash_ids": blocks}
            file.write(json.dumps(request) + "\n")
    split = {"tensor": server.tensor_parallel}
    if server.model.experts is not None:
        split["moe_expert" if server.expert_parallel else "moe_tensor"] = server.tensor_parallel
    limits = {"max_sequences": server.max_num_seqs or 1024}
    limits["max_batched_tokens"] = server.max_num_batched_tokens or 8192
    assert load.clients is not None, "Invariant: a closed loop has a limit"
    return {
        "id": point.id,
        "statistic": point.statistic,
        "config": {
            "traffic": {
                "source": {"type": "trace", "paths": [str(path)], "format": "mooncake"},
                "load": {"type": "concurrency", "concurrency": load.clients.most},
            },
            "engine": {
                "model": MODELS[server.model.name][0],
                "hardware": gpu,
                "backend": engine,
                "backend_version": version,
                "workers": {"aggregated": {"parallelism": split, "scheduler": limits}},
            },
        },
    }


def replayed(points: Iterable[Point], python: str) -> dict[str, dict[str, Any]]:
    """Return AISimulate's predictions by point, or its error."""
    known = profiles()
    with tempfile.TemporaryDirectory() as folder:
        cases = []
        for number, point in enumerate(points):
            try:
                cases.append(json.dumps(case_of(point, Path(folder), number, known)))
            except Unserved as reason:
                print(f"{point.id}: {reason}")
        command = [python, "-c", THEIRS]
        done = subprocess.run(command, input="\n".join(cases), capture_output=True, text=True, check=True)
    return {of["id"]: of for of in map(json.loads, done.stdout.splitlines())}


def comparable(point: Point) -> bool:
    """Whether both can take a point."""
    known = MODELS.get(point.server.model.name)
    alone = point.server.instances == 1 and not point.edge
    return isinstance(point.workload, Closed) and alone and known is not None and known[1] == point.precision


def written(errors: Iterable[float]) -> str:
    """Return a score in per cent."""
    of = score(list(errors))
    return f"{100 * of['median_abs']:6.1f}, {100 * of['p90_abs']:5.1f} ({100 * of['bias']:+.1f})"


def main() -> None:
    """Replay the points with both, and print the scores."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("ours", type=Path, help="what paceline validate --suite --out wrote")
    parser.add_argument("--suite", type=Path, required=True)
    parser.add_argument("--aisimulate", required=True, help="a Python that has AISimulate")
    parser.add_argument("--points", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--theirs", type=Path, help="a file of AISimulate's predictions, made if it is not there"
    )
    given = parser.parse_args()
    ours = {one["id"]: one for one in json.loads(given.ours.read_text())["points"] if one["cost"] == "tables"}
    points = [
        one
        for one in read_points(given.suite)
        if isinstance(one, Point) and one.id in ours and comparable(one)
    ]
    order = np.random.default_rng(given.seed).permutation(len(points))[: given.points]
    chosen = [points[place] for place in sorted(order)]
    if given.theirs is not None and given.theirs.is_file():
        theirs = json.loads(given.theirs.read_text())
    else:
        theirs = replayed(chosen, given.aisimulate)
        if given.theirs is not None:
            given.theirs.write_text(json.dumps(theirs, indent=1))
    taken = {name: of for name, of in theirs.items() if "error" not in of}
    reasons: dict[str, int] = {}
    for of in theirs.values():
        if "error" in of:
            reasons[of["error"]] = reasons.get(of["error"], 0) + 1
    print(f"{len(taken)} of {len(points)} points, seed {given.seed}: median, P90 (signed median), per cent")
    for metric in METRICS:
        both = [
            (of[metric], one["predicted"]["tables"][metric], one["measured"][metric])
            for name, of in taken.items()
            if metric in (one := ours[name])["measured"] and of[metric]
        ]
        if both:
            their, our = ([values[at] / values[2] - 1 for values in both] for at in (0, 1))
            print(f"{metric:>10} {len(both):4}  AISimulate {written(their)}   Paceline {written(our)}")
    for reason, count in sorted(reasons.items(), key=lambda row: -row[1]):
        print(f"{count:4} not taken by AISimulate: {reason}")


if __name__ == "__main__":
    main()
