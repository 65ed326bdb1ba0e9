"""A replay of a million requests: `make demo`.

The trace is drawn from the lengths and the burstiness of Azure's conversation
trace of 2023, and replayed on eight instances of Llama 3.1 8B, each on one H100,
under vLLM's scheduler. Nothing here is special: it is the public API and a table.
"""

from __future__ import annotations

import time

import polars as pl
from rich.console import Console
from rich.table import Table

import paceline

__all__ = ["main"]

REQUESTS = 1_000_000
RATE = 155.0
INSTANCES = 8
OBJECTIVES = paceline.SLO(ttft=0.5, tpot=0.040)

_MEANING = {
    "ttft": "until the first token, queueing included",
    "tpot": "from one token to the next, over an answer",
    "e2e": "until the whole answer is there",
}


def main(requests: int = REQUESTS, console: Console | None = None) -> paceline.Result:
    """Synthesize a trace, replay it, and print the latencies that users would see.

    Parameters
    ----------
    requests
        Requests in the trace.
    console
        Where to print; the terminal unless given.

    Returns
    -------
    Result
        The result.
    """
    console = console or Console()
    started = time.perf_counter()
    trace = paceline.synthesize("azure-conv", requests=requests, rate=RATE, seed=11)
    made = time.perf_counter()
    cluster = paceline.Cluster(INSTANCES * [paceline.Instance(model="llama-3.1-8b", gpu="h100-sxm")])
    policy = paceline.policies.vllm()
    ready = time.perf_counter()
    result = paceline.replay(trace, cluster, policy)
    done = time.perf_counter()

    totals = result.totals()
    met = result.attainment(OBJECTIVES)
    console.print(
        f"{requests:,} conversations, {RATE:g} a second, drawn in {made - started:.1f} s.",
        f"Replayed in [bold]{done - ready:.2f} s[/bold] on {INSTANCES} × Llama 3.1 8B on an H100: "
        f"{totals.makespan_s / 3600:.1f} hours, {totals.output_tokens:,} tokens, {totals.steps:,} steps.\n",
        sep="\n",
        soft_wrap=True,
    )
    console.print(_felt(result.summary()), soft_wrap=True)
    console.print(
        f"\n{met:.1%} of the requests met both objectives: the first token within "
        f"{1000 * (OBJECTIVES.ttft or 0):g} ms,",
        f"and no more than {1000 * (OBJECTIVES.tpot or 0):g} ms a token from there on.",
        sep="\n",
        soft_wrap=True,
    )
    return result


def _felt(summary: pl.DataFrame) -> Table:
    """Return a table of the latency percentiles, with the meaning of each row."""
    table = Table(title="What users would have felt", title_justify="left", box=None, padding=(0, 2, 0, 0))
    table.add_column("")
    for column in ("p50", "p90", "p99"):
        table.add_column(column, justify="right")
    table.add_column("")
    for row in summary.iter_rows(named=True):
        if row["metric"] in _MEANING:
            felt = (_duration(row[column]) for column in ("p50", "p90", "p99"))
            table.add_row(row["metric"].upper(), *felt, _MEANING[row["metric"]])
    return table


def _duration(seconds: float) -> str:
    """Write a duration with three significant digits or so, in ms below a second."""
    return f"{1000 * seconds:,.1f} ms" if seconds < 1 else f"{seconds:,.2f} s"


if __name__ == "__main__":
    main()
