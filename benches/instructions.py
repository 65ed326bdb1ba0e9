"""Count the instructions that the engine takes for a request, on this tree and on another commit.

    python benches/instructions.py cd1bf6e

Times vary by a tenth on a busy machine; instructions do not. callgrind counts those of the event loop alone,
on traces of some 40,000 requests like those of `end_to_end.py`. Both trees time steps by one set of
efficiencies, so that a change of the catalog changes no step. This tree must have been built (`make dev`);
the other commit is built in a worktree in a temporary folder. A case that the other commit cannot replay is
counted for this tree alone. It needs valgrind.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from against import ROOT, build

REQUESTS = 40_000
STEPPED = 5_000
"""Of cases that do not leap."""
ADVANCE = "*Simulation::advance*"
"""The function whose instructions, and those of what it calls, are counted."""


EFFICIENCY = {
    "memory": 0.861,
    "matmul": 0.697,
    "attention_memory": 0.861,
    "attention_matmul": 0.75,
    "layer_s": 18.2e-6,
    "step_s": 30e-6,
    "ring": 0.742,
}
"""Of an H100, as the catalog had them up to November 2026."""


def instance(model: str = "llama-3.1-8b", gpu: str = "h100-sxm", ranks: int = 1, **more: Any) -> Any:
    """Return an instance, or one of data-parallel ranks, whose steps take the same time in all trees."""
    import paceline
    from paceline.hardware import Efficiency

    parallel = {"data_parallel": ranks, "expert_parallel": True} if ranks > 1 else {}
    cost = paceline.Roofline(efficiency=Efficiency(**EFFICIENCY), **parallel)
    return paceline.Instance(model=model, gpu=gpu, cost=cost, **more)


def plain(requests: int = REQUESTS, *, rate: float = 60.0, instances: int = 8, served: Any = None) -> None:
    """Replay the workload of the issues under vLLM V1, on equal instances."""
    from workloads import WORKLOAD

    import paceline

    trace = paceline.synthesize(WORKLOAD, requests=requests, rate=rate, seed=11)
    together = {"lockstep": True} if served and served.cost.data_parallel > 1 else {}
    paceline.replay(trace, paceline.Cluster(instances * [served or instance()], **together))


def many() -> None:
    """Replay it on 64 instances."""
    plain(rate=480.0, instances=64)


def pascal() -> None:
    """Replay reasoning models under PASCAL, with memory pressure."""
    from workloads import reasoning

    import paceline

    trace, _ = reasoning(REQUESTS, 11.0)
    served = instance("deepseek-r1-distill-qwen-32b", "h100-96gb", max_model_len="auto")
    cluster = paceline.Cluster(8 * [served], links=paceline.Links(gbps=100))
    paceline.replay(trace, cluster, paceline.policies.pascal())


def bursts(rate: float = 1_800.0, size: int = 2_000) -> None:
    """Replay bursts of 2,000 requests at ten times the rate that can be served, under PARS."""
    import polars as pl
    from workloads import WORKLOAD

    import paceline
    from paceline.rank import noisy_scores
    from paceline.synthesis import Bursts

    trace = paceline.synthesize(WORKLOAD, requests=REQUESTS, rate=rate, arrivals=Bursts(size=size), seed=11)
    scores = noisy_scores(trace.frame["output_tokens"].to_numpy(), tau=0.65, seed=11)
    scored = paceline.Trace(trace.frame.with_columns(score=pl.Series(scores)), name=trace.name)
    paceline.replay(scored, paceline.Cluster(8 * [instance()]), paceline.policies.pars())


def busy() -> None:
    """Replay the workload near saturation, in small bursts, under PARS."""
    bursts(rate=170.0, size=20)


def mooncake() -> None:
    """Replay Mooncake's conversations on four saturated instances that cache prefixes."""
    from workloads import TRACES

    import paceline

    trace = paceline.read_trace(TRACES / "mooncake_conversation.jsonl.zst").at_rate(scale=20)
    policy = paceline.policies.vllm(prefix_caching=True)
    paceline.replay(trace, paceline.Cluster(4 * [instance()]), policy)


def drafts(tokens: int = 3) -> None:
    """Replay the workload of `speculation.py` with so many drafts a step."""
    import paceline

    if tokens:
        from speculation import drafted

    trace = paceline.synthesize("azure-conv", requests=REQUESTS, seed=1, rate=250.0)
    drafted_by = {"speculation": drafted(tokens, 2.5)} if tokens else {}
    paceline.replay(trace, paceline.Cluster(16 * [instance(**drafted_by)]))


def stages() -> None:
    """Replay the plain workload on instances of two pipeline stages, which take each step by itself."""
    plain(STEPPED, served=instance(pipeline_parallel=2))


def ranks() -> None:
    """Replay it on the eight ranks of a mixture of experts, which step together."""
    plain(STEPPED, served=instance("qwen3-30b-a3b", ranks=8))


def no_drafts() -> None:
    """Replay it without drafts."""
    drafts(0)


CASES: dict[str, tuple[Callable[[], None], int]] = {
    "plain": (plain, REQUESTS),
    "64 instances": (many, REQUESTS),
    "PASCAL": (pascal, REQUESTS),
    "PARS in bursts": (bursts, REQUESTS),
    "PARS near saturation": (busy, REQUESTS),
    "Mooncake, prefix caching": (mooncake, 12_031),
    "no drafts": (no_drafts, REQUESTS),
    "three drafts": (drafts, REQUESTS),
    "two pipeline stages": (stages, STEPPED),
    "eight ranks in lockstep": (ranks, STEPPED),
}
"""Each case, and its requests."""


def counted(tree: Path, case: str) -> float:
    """Return the instructions of a case for a request, by a tree's engine."""
    replayed = [sys.executable, str(ROOT / "benches/instructions.py"), "--replay", case]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        valgrind = [
            "valgrind",
            "--tool=callgrind",
            f"--toggle-collect={ADVANCE}",
            f"--callgrind-out-file={out}",
        ]
        environment = {**os.environ, "PYTHONPATH": str(tree / "python"), "POLARS_MAX_THREADS": "1"}
        subprocess.run([*valgrind, *replayed], check=True, capture_output=True, env=environment)
        found = re.search(r"^(?:totals|summary): (\d+)", out.read_text(), re.MULTILINE)
    total = int(found.group(1)) if found else 0
    return total / CASES[case][1] if total else math.nan


def counted_where_possible(tree: Path, cases: list[str]) -> dict[str, float]:
    """Return the instructions of those cases that a tree can replay."""
    found = {}
    for case in cases:
        with contextlib.suppress(subprocess.CalledProcessError):
            found[case] = counted(tree, case)
    return found


def main() -> None:
    """Read the command line, count both trees, and print the ratios."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "commit", nargs="?", help="the commit to compare with; left out: only this tree is counted"
    )
    parser.add_argument("--case", choices=CASES, action="append", help="a case; left out: all")
    parser.add_argument("--replay", choices=CASES, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.replay:
        CASES[chosen.replay][0]()
        return
    cases = chosen.case or list(CASES)
    here = {case: counted(ROOT, case) for case in cases}
    there: dict[str, float] = {}
    if chosen.commit:
        with tempfile.TemporaryDirectory() as folder:
            other = Path(folder) / "other"
            git = ["git", "-C", str(ROOT), "worktree"]
            subprocess.run([*git, "add", "--quiet", "--detach", str(other), chosen.commit], check=True)
            try:
                build(other)
                there = counted_where_possible(other, cases)
            finally:
                subprocess.run([*git, "remove", "--force", str(other)], check=True)
    for case in cases:
        line = f"{case:26} {here[case]:10,.0f} instructions a request"
        print(line + (f", {here[case] / there[case]:.3f} of {there[case]:,.0f}" if case in there else ""))


if __name__ == "__main__":
    main()
