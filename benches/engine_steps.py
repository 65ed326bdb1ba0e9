"""The steps of a vLLM that runs on the GPU at hand, with weights that are drawn: no checkpoint, no tokenizer.

    python benches/engine_steps.py MODEL OUT [--seconds 300]

MODEL is a folder with a Hugging Face `config.json`. The engine runs in a process of its own, as under its API
server, with that server's limits for the GPU; the client is this process, without HTTP. Times are those at
which the engine sends a step's tokens. OUT receives three files of CSV:

- `decode.csv`: requests that decode together over contexts of one length, from the prefix cache, so that
  all start at once; the median of the gaps between steps in which all got a token, and their quartiles;
- `prompt.csv`: a request alone, after a history that is cached or none: milliseconds to its first token;
- `closed.csv`: a capped client; each request's lengths, and when it was sent, got its first and its last
  token.

docs/measured holds what came out with vLLM 0.23.0 and PyTorch 2.11.0 on an H100
(`VLLM_USE_FLASHINFER_SAMPLER=0`, as FlashInfer was not installed; greedy sampling does not use it). The
script was put in order after that run, and sends the same requests; in this form it has not run on a GPU.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import os
import random
import statistics
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

#: Requests that decode together, by the tokens of their contexts: as many as the KV cache of an H100 holds.
DECODES = {
    128: (1, 2, 4, 8, 16, 32, 64, 96, 128, 192, 256),
    1024: (1, 2, 4, 8, 16, 32, 64, 96, 128, 192, 256),
    4096: (1, 4, 16, 32, 48),
    16384: (1, 4, 8),
}
PROMPTS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
CHUNKS = (64, 256, 1024, 4096)
#: Requests in flight, and of the run.
CLOSED = ((1, 4), (8, 24), (32, 80), (128, 300), (256, 512))
#: Outputs of the requests that decode together, and the steps at both ends that are not counted.
_OUTPUT, _FIRST, _LAST = 33, 4, 3


@dataclass
class Sent:
    """A request, and when its tokens came."""

    prompt: int
    output: int
    sent: float
    first: float = 0.0
    last: float = 0.0
    tokens: int = 0


@dataclass
class Client:
    """Sends requests to the engine's process and reads what it sends for each step."""

    engine: Any
    tasks: Any
    draw: random.Random = field(default_factory=lambda: random.Random(1))
    alive: dict[str, Sent] = field(default_factory=dict)
    number: int = 0

    def prompt(self, tokens: int) -> list[int]:
        """Draw a prompt that no other begins like."""
        return [self.draw.randrange(1000, 100_000) for _ in range(tokens)]

    def made(self, prompt: list[int], output: int) -> Any:
        """Return a request, which is made before the clock runs."""
        from vllm import SamplingParams

        self.number += 1
        sampling = SamplingParams(temperature=0.0, max_tokens=output, ignore_eos=True, detokenize=False)
        return self.engine.input_processor.process_inputs(
            f"r{self.number}", {"prompt_token_ids": prompt}, sampling, supported_tasks=self.tasks
        )

    def send(self, request: Any) -> None:
        """Send it, and take the time."""
        sent = Sent(len(request.prompt_token_ids), request.sampling_params.max_tokens, time.monotonic())
        self.alive[request.request_id] = sent
        self.engine.engine_core.add_request(request)

    def step(self) -> tuple[float, int, list[Sent]]:
        """Wait for a step: when its tokens were sent, of how many requests, and those that ended with it."""
        step = self.engine.engine_core.get_output()
        ended = []
        for output in step.outputs:
            sent = self.alive[output.request_id]
            sent.first = sent.first or step.timestamp
            sent.last = step.timestamp
            sent.tokens += len(output.new_token_ids)
            if output.finish_reason is not None:
                ended.append(self.alive.pop(output.request_id))
        return step.timestamp, len(step.outputs), ended

    def together(
        self, prompts: Iterable[list[int]], output: int
    ) -> tuple[list[tuple[float, int]], list[Sent]]:
        """Send requests at once, and return the steps until all have ended."""
        for request in [self.made(prompt, output) for prompt in prompts]:
            self.send(request)
        steps, done = [], []
        while self.alive:
            at, tokens, ended = self.step()
            steps.append((at, tokens))
            done += ended
        return steps, done


def decodes(client: Client, context: int, counts: Sequence[int]) -> list[tuple[object, ...]]:
    """Measure requests that decode together; the first batch fills the prefix cache."""
    prompts = [client.prompt(context) for _ in range(max(counts))]
    client.together(prompts, 1)
    rows: list[tuple[object, ...]] = []
    for count in counts:
        steps, _ = client.together(prompts[:count], _OUTPUT)
        full = [at for at, tokens in steps if tokens == count]
        gaps = [1e3 * (b - a) for a, b in itertools.pairwise(full)][_FIRST:-_LAST]
        low, middle, high = statistics.quantiles(gaps, n=4)
        rows.append((context, count, len(gaps), round(low, 3), round(middle, 3), round(high, 3)))
    return rows


def prompts(client: Client, history: int, lengths: Sequence[int], times: int) -> list[tuple[object, ...]]:
    """Measure requests alone, each after a history of its own that is cached."""
    before = [client.prompt(history) for _ in range(times)]
    if history:
        client.together(before, 1)
    rows: list[tuple[object, ...]] = []
    for length in lengths:
        for cached in before:
            _, (sent,) = client.together([cached + client.prompt(length)], 2)
            rows.append((history, length, round(1e3 * (sent.first - sent.sent), 3)))
    return rows


def closed(client: Client, most: int, number: int) -> list[tuple[object, ...]]:
    """Run a capped client, of prompts and outputs within 0.8 to 1.0 of 1,024 and 128 tokens."""
    draw = random.Random(7 + most)
    lengths = [draw.randint(820, 1024) for _ in range(number)]
    waiting = [client.made(client.prompt(length), draw.randint(103, 128)) for length in lengths][::-1]
    done: list[Sent] = []
    while waiting or client.alive:
        while waiting and len(client.alive) < most:
            client.send(waiting.pop())
        done += client.step()[2]
    start = min(sent.sent for sent in done)
    done.sort(key=lambda sent: sent.sent)
    return [
        (most, s.prompt, s.output, *(round(at - start, 6) for at in (s.sent, s.first, s.last))) for s in done
    ]


def start(model: str) -> Client:
    """Start the engine as its API server does."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    from vllm.engine.arg_utils import EngineArgs
    from vllm.usage.usage_lib import UsageContext
    from vllm.v1.engine.llm_engine import LLMEngine

    limits = {"max_num_seqs": 256, "max_num_batched_tokens": 8192}
    arguments = EngineArgs(model=model, skip_tokenizer_init=True, load_format="dummy", **limits)
    server = UsageContext.OPENAI_API_SERVER
    engine = LLMEngine.from_engine_args(arguments, usage_context=server, enable_multiprocessing=True)
    client = Client(engine, engine.get_supported_tasks())
    client.together([client.prompt(100) for _ in range(8)], 20)
    return client


def main() -> None:
    """Measure until the time is over."""
    command = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    command.add_argument("model")
    command.add_argument("out", type=Path)
    command.add_argument("--seconds", type=float, default=300.0)
    asked = command.parse_args()
    begin = time.monotonic()
    client = start(asked.model)
    heads = {
        "decode": ("context", "running", "steps", "low_ms", "median_ms", "high_ms"),
        "prompt": ("history", "tokens", "first_token_ms"),
        "closed": ("most", "prompt_tokens", "output_tokens", "sent_s", "first_token_s", "last_token_s"),
    }
    stages = [
        *(("decode", decodes, (context, counts)) for context, counts in DECODES.items()),
        ("prompt", prompts, (0, PROMPTS, 3)),
        *(("prompt", prompts, (history, CHUNKS, 2)) for history in (4096, 16384)),
        *(("closed", closed, limits) for limits in CLOSED),
    ]
    rows: dict[str, list[tuple[object, ...]]] = {name: [] for name in heads}
    left_out = 0
    for name, measure, limits in stages:
        if time.monotonic() - begin > asked.seconds:
            left_out += 1
            continue
        rows[name] += measure(client, *limits)  # type: ignore[operator]
    for name, head in heads.items():
        with (asked.out / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([head, *rows[name]])
    print(f"{sum(map(len, rows.values())):,} rows; {left_out} of {len(stages)} stages were left out for time")


if __name__ == "__main__":
    main()
