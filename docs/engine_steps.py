"""Fill in the tables of docs/engine-steps.md: `.venv/bin/python docs/engine_steps.py`.

The measurements are those in docs/measured, which `benches/engine_steps.py` describes; the predictions are
replays with the shipped kernels.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import polars as pl

from paceline import Cluster, Concurrency, Instance, Result, Trace, policies, replay
from paceline.kernels import Table

HERE = Path(__file__).resolve().parent
DATA = HERE / "measured/vllm-0.23.0-h100-qwen3-14b"
PAGE = HERE / "engine-steps.md"
PROFILE = "h100-sxm-qwen3-14b"
#: As the server logged them.
BLOCKS = 17_815
PLACE = re.compile(r"(<!-- begin (\w+) -->\n).*?(<!-- end \2 -->)", re.DOTALL)
#: A request's tokens while it decodes with the others, as the measurement has them.
OUTPUT = 33


def predicted(trace: Trace, *, budget: int = 8192, clients: Concurrency | None = None) -> Result:
    """Replay on one H100 with vLLM's scheduler and the shipped kernels, and nothing else."""
    cost = Table(profile=PROFILE, overhead_s=0.0)
    instance = Instance(model="qwen3-14b", gpu="h100-sxm", num_blocks=BLOCKS, max_model_len=40_960, cost=cost)
    policy = policies.vllm(
        max_num_seqs=256, max_num_batched_tokens=budget, prefix_caching=True, async_scheduling=True
    )
    return replay(trace, Cluster([instance]), policy, clients=clients)


def decodes() -> pl.DataFrame:
    """Return the measured gaps between steps of requests that decode together, with the predicted ones."""
    frame = pl.read_csv(DATA / "decode.csv")
    found = []
    for context, running in frame.select("context", "running").iter_rows():
        # One step computes all prompts, so that all decode over equal contexts from there on.
        columns = {"prompt_tokens": [context] * running, "output_tokens": [OUTPUT] * running}
        trace = Trace.from_columns(arrival=[0.0] * running, **columns)
        found.append(1e3 * predicted(trace, budget=running * context).requests["tpot"].to_numpy().mean())
    return frame.with_columns(pl.Series("predicted_ms", found)).with_columns(
        error=pl.col("predicted_ms") / pl.col("median_ms") - 1
    )


def alone() -> pl.DataFrame:
    """Return the time to the first token of a request alone, measured and predicted."""
    frame = pl.read_csv(DATA / "prompt.csv").group_by("history", "tokens", maintain_order=True).median()
    found = []
    for history, tokens in frame.select("history", "tokens").iter_rows():
        # The history is computed by a request long before, and is cached then: whole blocks of 16 tokens.
        cached, length = list(range(history // 16)), history + tokens
        rest = list(range(10_000, 10_000 + length // 16 - len(cached)))
        trace = Trace.from_columns(
            arrival=[0.0, 100.0] if history else [0.0],
            prompt_tokens=[history, length] if history else [length],
            output_tokens=[2, 2] if history else [2],
            prefix=[cached, [*cached, *rest]] if history else [rest],
            prefix_block_tokens=16,
        )
        found.append(1e3 * predicted(trace).requests["ttft"][-1])
    return frame.with_columns(pl.Series("predicted_ms", found))


def closed() -> pl.DataFrame:
    """Return the means of capped clients, measured and predicted: seconds."""
    rows = []
    for (most,), part in pl.read_csv(DATA / "closed.csv").group_by("most", maintain_order=True):
        first, last = (part[f"{name}_token_s"] for name in ("first", "last"))
        trace = Trace.from_columns(
            arrival=np.zeros(part.height),
            prompt_tokens=part["prompt_tokens"],
            output_tokens=part["output_tokens"],
        )
        replayed = predicted(trace, clients=Concurrency(int(str(most)))).requests
        measured = {
            "ttft": float((first - part["sent_s"]).to_numpy().mean()),
            "tpot": float(((last - first) / (part["output_tokens"] - 1)).to_numpy().mean()),
            "e2e": float((last - part["sent_s"]).to_numpy().mean()),
        }
        rows.append({"most": most, "requests": part.height, **measured})
        rows[-1] |= {f"{name}_predicted": float(replayed[name].to_numpy().mean()) for name in measured}
    return pl.DataFrame(rows)


def tables() -> Mapping[str, Iterable[str]]:
    """Return the rows of each table."""
    steps, prompts, clients = decodes(), alone(), closed()
    contexts = sorted(steps["context"].unique())
    grid = [
        "| requests | " + " | ".join(f"{context:,} tokens" for context in contexts) + " |",
        "|---:|" + len(contexts) * "---:|",
    ]
    for running in sorted(steps["running"].unique()):
        cells = []
        for context in contexts:
            one = steps.filter((pl.col("context") == context) & (pl.col("running") == running))
            cells.append(f"{one['median_ms'][0]:.2f} ({one['error'][0]:+.1%})" if one.height else "")
        grid.append(f"| {running} | " + " | ".join(cells) + " |")
    errors = steps["error"].to_numpy()
    beyond = (steps["median_ms"] - steps["predicted_ms"]).to_numpy()
    low, middle, high = np.quantile(beyond, (0.25, 0.5, 0.75))
    told = (
        f"Of {len(errors)} sizes the error's median is {np.median(errors):+.1%}, the largest "
        f"{errors[np.abs(errors).argmax()]:+.1%}. A step takes {middle:.2f} ms beyond its kernels (quartiles "
        f"{low:.2f} and {high:.2f}): what the graph's launches and the host leave between two steps."
    )
    first = [
        "| cached before | tokens | measured, ms | kernels, ms | beyond them, ms |",
        "|---:|---:|---:|---:|---:|",
    ]
    for row in prompts.iter_rows(named=True):
        measured, kernels = row["first_token_ms"], row["predicted_ms"]
        cells = [f"{row['history']:,}", f"{row['tokens']:,}"]
        cells += [f"{each:.1f}" for each in (measured, kernels, measured - kernels)]
        first.append(f"| {' | '.join(cells)} |")
    capped = ["| in flight | requests | TTFT, ms | TPOT, ms | E2E, ms |", "|---:|---:|---:|---:|---:|"]
    for row in clients.iter_rows(named=True):
        cells = [
            f"{1e3 * row[name]:,.1f} ({row[f'{name}_predicted'] / row[name] - 1:+.1%})"
            for name in ("ttft", "tpot", "e2e")
        ]
        capped.append(f"| {row['most']} | {row['requests']} | " + " | ".join(cells) + " |")
    return {"decode": [*grid, "", told], "prompt": first, "closed": capped}


def main() -> None:
    """Write the page's tables."""
    made = {name: "\n".join(rows) for name, rows in tables().items()}
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(
        PLACE.sub(lambda found: f"{found[1]}\n{made[found[2]]}\n\n{found[3]}", page), encoding="utf-8"
    )
    print(PAGE.name)


if __name__ == "__main__":
    main()
