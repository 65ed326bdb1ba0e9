"""Fill in the tables of docs/engine-steps.md: `.venv/bin/python docs/engine_steps.py`.

The measurements are those in docs/measured, which `benches/engine_steps.py` describes; the predictions are
replays with the shipped kernels.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl

from paceline import (
    AcceptanceLength,
    ByPosition,
    Cluster,
    Concurrency,
    CudaGraphs,
    Draft,
    Instance,
    Result,
    Roofline,
    Speculation,
    Trace,
    policies,
    replay,
)
from paceline.kernels import Table

HERE = Path(__file__).resolve().parent
PAGE = HERE / "engine-steps.md"
PLACE = re.compile(r"(<!-- begin (\w+) -->\n).*?(<!-- end \2 -->)", re.DOTALL)
#: A request's tokens while it decodes with the others, as the measurement has them.
OUTPUT = 33
#: The shares of steps that accepted the draft at each position, as vLLM was told to draw them.
ACCEPTED = (0.7, 0.49, 0.343, 0.24, 0.168, 0.118, 0.082)
#: Prompts that pieces of graphs hold, and the shortest that none holds: these end with their host's launches.
SHORT, PAST = pl.col("tokens") <= 256, pl.col("tokens") == 1024
#: Rows of the LM head of the EAGLE-3 head.
ROWS = 32_000


@dataclass(frozen=True)
class Engine:
    """A run of vLLM, and the kernels that were measured on the same kind of GPU."""

    model: str
    layers: int
    #: As the server logged them.
    blocks: int
    longest: int
    drafts: int = 0
    #: Whether a profile of its kernels ships; else a roofline prices them.
    profiled: bool = True

    def measured(self, name: str) -> pl.DataFrame:
        """Return one of its files."""
        drafts = f"-eagle3-{self.drafts}" if self.drafts else ""
        return pl.read_csv(HERE / f"measured/vllm-0.23.0-h100-{self.model}{drafts}/{name}.csv")

    def launched(self) -> Instance:
        """Return the instance with the least times of the engine's steps, read off its prompts."""
        prompts = self.measured("prompt").filter(pl.col("history") == 0)
        pieces, eager = (prompts.filter(which)["first_token_ms"].to_numpy() for which in (SHORT, PAST))
        return replace(
            self.instance(),
            prompt_step_s=float(np.median(pieces)) / 1e3,
            cuda_graphs=CudaGraphs(eager_step_s=float(eager.min()) / 1e3),
        )

    def instance(self, acceptance: AcceptanceLength | ByPosition | None = None) -> Instance:
        """Return an instance with the shipped kernels, and nothing else."""
        cost = Table(profile=f"h100-sxm-{self.model}", overhead_s=0.0) if self.profiled else Roofline()
        speculation = graphs = None
        if self.drafts:
            graphs = CudaGraphs()
            speculation = Speculation(
                tokens=self.drafts,
                acceptance=acceptance or ByPosition(ACCEPTED[: self.drafts]),
                draft=Draft(vocab_size=ROWS),
            )
        return Instance(
            model=self.model,
            gpu="h100-sxm",
            num_blocks=self.blocks,
            max_model_len=self.longest,
            cost=cost,
            cuda_graphs=graphs,
            speculation=speculation,
        )


QWEN = Engine("qwen3-14b", 40, 17_815, 40_960)
LLAMA = Engine("llama-3.1-8b", 32, 28_934, 131_072)
EAGLES = (
    Engine("llama-3.1-8b", 32, 27_638, 131_072, 2),
    Engine("llama-3.1-8b", 32, 27_360, 131_072, 4),
    Engine("llama-3.1-8b", 32, 27_638, 131_072, 7),
)
MIXTURE = Engine("qwen3-30b-a3b", 48, 9_616, 40_960, profiled=False)


def predicted(
    trace: Trace, instance: Instance, *, budget: int = 8192, clients: Concurrency | None = None
) -> Result:
    """Replay on one H100 with vLLM's scheduler."""
    policy = policies.vllm(
        max_num_seqs=256, max_num_batched_tokens=budget, prefix_caching=True, async_scheduling=True
    )
    return replay(trace, Cluster([instance]), policy, clients=clients)


def decodes(engine: Engine = QWEN) -> pl.DataFrame:
    """Return the measured gaps between steps of requests that decode together, with the predicted ones."""
    frame = engine.measured("decode")
    # A step takes as long whichever drafts are accepted: with none, each step yields a token of each request.
    instance = engine.instance(AcceptanceLength(1.0))
    found = []
    for context, running in frame.select("context", "running").iter_rows():
        # One step computes all prompts, so that all decode over equal contexts from there on.
        columns = {"prompt_tokens": [context] * running, "output_tokens": [OUTPUT] * running}
        trace = Trace.from_columns(arrival=[0.0] * running, **columns)
        budget = max(8192, running * context) if engine.drafts else running * context
        found.append(1e3 * predicted(trace, instance, budget=budget).requests["tpot"].to_numpy().mean())
    return frame.with_columns(pl.Series("predicted_ms", found)).with_columns(
        error=pl.col("predicted_ms") / pl.col("median_ms") - 1
    )


def firsts(engine: Engine) -> pl.DataFrame:
    """Return the median time to the first token of a request alone."""
    return engine.measured("prompt").group_by("history", "tokens", maintain_order=True).median()


def alone(engine: Engine = QWEN) -> pl.DataFrame:
    """Return the time to the first token of a request alone, measured and predicted."""
    frame = firsts(engine)
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
        found.append(1e3 * predicted(trace, engine.instance()).requests["ttft"][-1])
    return frame.with_columns(pl.Series("predicted_ms", found))


def closed(engine: Engine = QWEN, *, launched: bool = False) -> pl.DataFrame:
    """Return the means of capped clients, measured and predicted: seconds."""
    rows = []
    for (most,), part in engine.measured("closed").group_by("most", maintain_order=True):
        first, last = (part[f"{name}_token_s"] for name in ("first", "last"))
        trace = Trace.from_columns(
            arrival=np.zeros(part.height),
            prompt_tokens=part["prompt_tokens"],
            output_tokens=part["output_tokens"],
        )
        clients = Concurrency(int(str(most)))
        instance = engine.launched() if launched else engine.instance()
        replayed = predicted(trace, instance, clients=clients).requests
        measured = {
            "ttft": float((first - part["sent_s"]).to_numpy().mean()),
            "tpot": float(((last - first) / (part["output_tokens"] - 1)).to_numpy().mean()),
            "e2e": float((last - part["sent_s"]).to_numpy().mean()),
        }
        rows.append({"drafts": engine.drafts, "most": most, "requests": part.height, **measured})
        rows[-1] |= {f"{name}_predicted": float(replayed[name].to_numpy().mean()) for name in measured}
    return pl.DataFrame(rows)


def grid(steps: pl.DataFrame) -> list[str]:
    """Return a table of steps by requests and context."""
    contexts = sorted(steps["context"].unique())
    rows = [
        "| requests | " + " | ".join(f"{context:,} tokens" for context in contexts) + " |",
        "|---:|" + len(contexts) * "---:|",
    ]
    for running in sorted(steps["running"].unique()):
        cells = []
        for context in contexts:
            one = steps.filter((pl.col("context") == context) & (pl.col("running") == running))
            cells.append(cell(one))
        rows.append(f"| {running} | " + " | ".join(cells) + " |")
    return rows


def cell(one: pl.DataFrame) -> str:
    """Return the measured median of one size and the prediction's error, if there is one."""
    if not one.height:
        return ""
    error = f" ({one['error'][0]:+.1%})" if "error" in one.columns else ""
    return f"{one['median_ms'][0]:.2f}{error}"


def told(steps: pl.DataFrame) -> str:
    """Say how far the steps are off."""
    errors = steps["error"].to_numpy()
    beyond = (steps["median_ms"] - steps["predicted_ms"]).to_numpy()
    low, middle, high = np.quantile(beyond, (0.25, 0.5, 0.75))
    return (
        f"Of {len(errors)} sizes the error's median is {np.median(errors):+.1%}, the largest "
        f"{errors[np.abs(errors).argmax()]:+.1%}. A step takes {middle:.2f} ms beyond its kernels (quartiles "
        f"{low:.2f} and {high:.2f}): what the graph's launches and the host leave between two steps."
    )


def drafted(frames: Mapping[int, pl.DataFrame]) -> list[str]:
    """Return a table of steps with drafts, by their number."""
    rows = [
        "| context | requests | no drafts | " + " | ".join(f"{k} drafts" for k in frames if k) + " |",
        "|---:|---:|" + len(frames) * "---:|",
    ]
    for context, running in frames[2].select("context", "running").iter_rows():
        at = (pl.col("context") == context) & (pl.col("running") == running)
        cells = [f"{context:,}", f"{running}", *(cell(frame.filter(at)) for frame in frames.values())]
        rows.append(f"| {' | '.join(cells)} |")
    return rows


def kernels(prompts: pl.DataFrame) -> list[str]:
    """Return a table of requests alone."""
    rows = [
        "| cached before | tokens | measured, ms | kernels, ms | beyond them, ms |",
        "|---:|---:|---:|---:|---:|",
    ]
    for row in prompts.iter_rows(named=True):
        measured, kernel = row["first_token_ms"], row["predicted_ms"]
        cells = [f"{row['history']:,}", f"{row['tokens']:,}"]
        cells += [f"{each:.1f}" for each in (measured, kernel, measured - kernel)]
        rows.append(f"| {' | '.join(cells)} |")
    return rows


def launches() -> list[str]:
    """Return the times to the first token of short prompts under each engine."""
    engines = (QWEN, LLAMA, *EAGLES, MIXTURE)
    found = [firsts(engine).filter(pl.col("history") == 0) for engine in engines]
    names = [
        f"{one.model}, {one.layers} layers" if not one.drafts else f"{one.drafts} drafts" for one in engines
    ]
    rows = ["| tokens | " + " | ".join(names) + " |", "|---:|" + len(engines) * "---:|"]
    for tokens in found[2]["tokens"]:
        times = [frame.filter(pl.col("tokens") == tokens)["first_token_ms"][0] for frame in found]
        rows.append(f"| {tokens:,} | " + " | ".join(f"{each:.1f}" for each in times) + " |")
    return rows


def capped(frames: Sequence[pl.DataFrame], launched: Sequence[pl.DataFrame] = ()) -> list[str]:
    """Return a table of capped clients; least times of steps make a second error, beside the drafts."""
    rows = ["| in flight | requests | TTFT, ms | TPOT, ms | E2E, ms |", "|---:|---:|---:|---:|---:|"]
    if launched:
        rows = [f"| drafts {rows[0]}", f"|---:{rows[1]}"]
    found = pl.concat(frames).rows(named=True)
    again = pl.concat(launched).rows(named=True) if launched else found
    for row, other in zip(found, again, strict=True):
        cells = [f"{row['drafts']}"] if launched else []
        cells += [f"{row['most']}", f"{row['requests']}"]
        for name in ("ttft", "tpot", "e2e"):
            errors = [
                one[f"{name}_predicted"] / row[name] - 1 for one in ((row, other) if launched else (row,))
            ]
            cells.append(f"{1e3 * row[name]:,.1f} ({', '.join(f'{each:+.1%}' for each in errors)})")
        rows.append(f"| {' | '.join(cells)} |")
    return rows


def tables() -> Mapping[str, Iterable[str]]:
    """Return the rows of each table."""
    steps, plain = decodes(), decodes(LLAMA)
    frames = {0: plain} | {engine.drafts: decodes(engine) for engine in EAGLES}
    return {
        "decode": [*grid(steps), "", told(steps)],
        "llama": [*grid(plain), "", told(plain)],
        "drafts": drafted(frames),
        "mixture": grid(decodes(MIXTURE)),
        "prompt": kernels(alone()),
        "second": kernels(alone(LLAMA)),
        "launches": launches(),
        "closed": capped([closed()]),
        "clients": capped(
            [closed(engine) for engine in (LLAMA, *EAGLES)],
            [closed(engine, launched=True) for engine in (LLAMA, *EAGLES)],
        ),
    }


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
