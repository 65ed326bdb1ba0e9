"""What every simulator is given: requests, one deployment, and one price of a step."""

from __future__ import annotations

import csv
import functools
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from paceline.synthesis import Lognormal, Workload, synthesize

#: Lengths of about 600 and 200 tokens in the mean; a sequence fits into 4,096.
LENGTHS = Workload(
    prompt_tokens=Lognormal.from_mean(600, sigma=0.8, high=3_000),
    output_tokens=Lognormal.from_mean(200, sigma=0.6, high=1_000),
)
SEED = 11


@dataclass(frozen=True)
class Deployment:
    """One replica of Llama 3.1 8B on one H100, under a scheduler like vLLM's."""

    #: Blocks that hold tokens.
    blocks: int
    model: str = "llama-3.1-8b"
    gpu: str = "h100-sxm"
    max_num_batched_tokens: int = 2_048
    max_num_seqs: int = 256
    block_tokens: int = 16
    max_model_len: int = 4_096


@dataclass(frozen=True)
class Linear:
    """A price of a step that all can be given: seconds of any step, and of each token that it computes.

    It is no round number: with 20 µs a token, steps end exactly when requests arrive, in whole milliseconds,
    and the error of sums of doubles decides whether such a request is in the next step.
    """

    step_s: float = 0.008
    token_s: float = 20.003e-6


@dataclass(frozen=True)
class Work:
    """A trace: Poisson arrivals at a rate, rounded to milliseconds, which every format can say."""

    name: str
    requests: int
    rate: float
    #: Blocks of KV: 432,000 tokens take 52.7 GiB, which an H100 has beside the weights.
    blocks: int = 27_000

    def rows(self) -> list[tuple[int, int, int]]:
        """Return arrival in ms, prompt tokens and output tokens of each request."""
        return _rows(self.requests, self.rate)

    def longer(self, times: int) -> Work:
        """Return the work that begins with this and has more requests at the same rate."""
        return Work(f"{self.name}, {times} times", times * self.requests, self.rate, self.blocks)


@functools.cache
def _rows(requests: int, rate: float) -> list[tuple[int, int, int]]:
    frame = synthesize(LENGTHS, requests=requests, rate=rate, seed=SEED).frame
    columns = frame.select("arrival", "prompt_tokens", "output_tokens").rows()
    # Some simulators count time from the first request, so that all do: it arrives at 0.
    start = columns[0][0]
    return [(round(1e3 * (arrival - start)), prompt, output) for arrival, prompt, output in columns]


#: In the third, requests wait for memory and are preempted. The last is for simulators whose times of the
#: others are mostly those of starting.
WORKS = (
    Work("moderate", 2_000, 10.0),
    Work("near saturation", 2_000, 35.0),
    Work("short of memory", 2_000, 35.0, blocks=5_000),
    Work("long", 50_000, 10.0),
)


def write_trace(work: Work, path: Path) -> None:
    """Write the requests as CSV: arrival in seconds, prompt tokens, output tokens."""
    with path.open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(("arrival", "prompt_tokens", "output_tokens"))
        out.writerows((f"{ms / 1e3:.3f}", prompt, output) for ms, prompt, output in work.rows())


def write_job(work: Work, folder: Path, *, cost: Linear | None) -> Path:
    """Write the trace and what a driver is told, and return the job's path.

    A job names the trace, the file for the answers, the deployment, and the price of a step: null is the
    simulator's own.
    """
    trace = folder / "trace.csv"
    write_trace(work, trace)
    job = {
        "trace": str(trace),
        "out": str(folder / "answers.csv"),
        "folder": str(folder),
        "cost": cost and asdict(cost),
        "deployment": asdict(Deployment(blocks=work.blocks)),
    }
    path = folder / "job.json"
    path.write_text(json.dumps(job, indent=1))
    return path
