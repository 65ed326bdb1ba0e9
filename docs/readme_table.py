"""Make the README's table again: `.venv/bin/python docs/readme_table.py`, after a change that moves results.

Needs Azure's conversation trace of 2023 in ../shared/traces; traces/README.md says where it comes from.
"""

from __future__ import annotations

import re
from pathlib import Path

import paceline

README = Path(__file__).resolve().parents[1] / "README.md"
TRACE = README.parents[1] / "shared/traces/azure2023_conv.csv.zst"
ROWS = re.compile(r"(?<=\|---:\|\n)(\|.*\|\n)+")


def rows(trace: Path) -> str:
    """Replay the trace at 20 times its rate on 5 to 8 instances, and return a row of the table for each."""
    load = paceline.read_trace(trace).at_rate(scale=20)
    instance = paceline.Instance(model="llama-3.1-8b", gpu="h100-sxm")
    objectives = paceline.SLO(ttft=0.5, tpot=0.040)
    table = ""
    for count in (5, 6, 7, 8):
        result = paceline.replay(load, paceline.Cluster(count * [instance]), paceline.policies.vllm())
        felt = result.summary().select("metric", "p50", "p90", "p99").rows_by_key("metric", unique=True)
        cells = [duration(seconds) for metric in ("ttft", "tpot") for seconds in felt[metric]]
        table += f"| {count} | {' | '.join(cells)} | {result.attainment(objectives):.1%} |\n"
    return table


def duration(seconds: float) -> str:
    """Write a duration in whole ms, or from a second on in s."""
    return f"{1000 * seconds:,.0f} ms" if seconds < 1 else f"{seconds:,.1f} s"


if __name__ == "__main__":
    table = rows(TRACE)
    README.write_text(ROWS.sub(table, README.read_text(encoding="utf-8"), count=1), encoding="utf-8")
    print(table, end="")
