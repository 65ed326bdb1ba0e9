"""The steps of a vLLM that runs on the GPU at hand, with weights that are drawn: no checkpoint, no tokenizer.

    python benches/engine_steps.py MODEL OUT [--seconds 300] [--draft HEAD --accepted 0.7,0.49]

MODEL is a folder with a Hugging Face `config.json`, HEAD one of an EAGLE-3 head. The engine runs in a
process of its own, as under its API server, with that server's limits for the GPU; the client is this
process, without HTTP. Times are those at which the engine sends a step's tokens. OUT receives three files of
CSV, written as the run goes on:

- `decode.csv`: requests that decode together over contexts of one length, from the prefix cache, so that
  all start at once; the median of the gaps between steps in which all got a token, their quartiles, and the
  tokens that a request got a step;
- `prompt.csv`: a request alone, after a history that is cached or none: milliseconds to its first token;
- `closed.csv`: a capped client; each request's lengths, and when it was sent, got its first and its last
  token.

Drawn weights predict nothing, so with a head the share of steps that accept the draft at each position is
given, and vLLM draws by it (`rejection_sample_method="synthetic"`). As many drafts are made as there are
shares, and fewer sizes are measured.

docs/measured holds what came out with vLLM 0.23.0 and PyTorch 2.11.0 on an H100
(`VLLM_USE_FLASHINFER_SAMPLER=0`, as FlashInfer was not installed; greedy sampling does not use it).
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

#: Requests that decode together, by the tokens of their contexts: those that the KV cache holds are measured.
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
#: The same with drafts.
DRAFTED_DECODES = {1024: (1, 2, 4, 8, 16, 32, 64, 128), 4096: (1, 8, 32)}
DRAFTED_PROMPTS = PROMPTS[:8]
DRAFTED_CLOSED = CLOSED[:4]
#: Steps of the requests that decode together, and those at both ends that are not counted.
_STEPS, _FIRST, _LAST = 33, 4, 3
HEADS = {
    "decode": ("context", "running", "steps", "low_ms", "median_ms", "high_ms", "tokens"),
    "prompt": ("history", "tokens", "first_token_ms"),
    "closed": ("most", "prompt_tokens", "output_tokens", "sent_s", "first_token_s", "last_token_s"),
}


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
    #: Tokens of a request that a step yields on average.
    a_step: float
    draw: random.Random = field(default_factory=lambda: random.Random(1))
    alive: dict[str, Sent] = field(default_factory=dict)
    number: int = 0

    @property
    def room(self) -> int:
        """The tokens that the KV cache holds."""
        cache = self.engine.vllm_config.cache_config
        return int(cache.num_gpu_blocks * cache.block_size)

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

    def step(self) -> tuple[float, list[int], list[Sent]]:
        """Wait for a step: when its tokens were sent, how many of each request, and those that ended."""
        step = self.engine.engine_core.get_output()
        ended = []
        for output in step.outputs:
            sent = self.alive[output.request_id]
            sent.first = sent.first or step.timestamp
            sent.last = step.timestamp
            sent.tokens += len(output.new_token_ids)
            if output.finish_reason is not None:
                ended.append(self.alive.pop(output.request_id))
        return step.timestamp, [len(output.new_token_ids) for output in step.outputs], ended

    def together(
        self, prompts: Iterable[list[int]], output: int
    ) -> tuple[list[tuple[float, list[int]]], list[Sent]]:
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
    output = round(_STEPS * client.a_step)
    counts = [count for count in counts if count * (context + output + 64) <= client.room]
    prompts = [client.prompt(context) for _ in range(max(counts))]
    client.together(prompts, 1)
    rows: list[tuple[object, ...]] = []
    for count in counts:
        steps, _ = client.together(prompts[:count], output)
        full = [step for step in steps if len(step[1]) == count][_FIRST : -_LAST or None]
        gaps = [1e3 * (b - a) for (a, _), (b, _) in itertools.pairwise(full)]
        tokens = statistics.mean(sum(each) / count for _, each in full[1:])
        quartiles = (round(gap, 3) for gap in statistics.quantiles(gaps, n=4))
        rows.append((context, count, len(gaps), *quartiles, round(tokens, 3)))
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


def drafting(head: str, accepted: Sequence[float]) -> dict[str, Any]:
    """Return vLLM's configuration of drafts by an EAGLE-3 head with drawn weights."""
    from vllm.model_executor.models.llama_eagle3 import Eagle3LlamaForCausalLM

    # Loading a checkpoint sets it for a head with an LM head of its own; else it has the target's larger one.
    Eagle3LlamaForCausalLM.has_own_lm_head = True
    return {
        "method": "eagle3",
        "model": head,
        "num_speculative_tokens": len(accepted),
        "rejection_sample_method": "synthetic",
        "synthetic_acceptance_rates": list(accepted),
    }


def start(model: str, head: str | None = None, accepted: Sequence[float] = ()) -> Client:
    """Start the engine as its API server does."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    from vllm.engine.arg_utils import EngineArgs
    from vllm.usage.usage_lib import UsageContext
    from vllm.v1.engine.llm_engine import LLMEngine

    limits: dict[str, Any] = {"max_num_seqs": 256, "max_num_batched_tokens": 8192}
    if head is not None:
        limits["speculative_config"] = drafting(head, accepted)
    arguments = EngineArgs(model=model, skip_tokenizer_init=True, load_format="dummy", **limits)
    server = UsageContext.OPENAI_API_SERVER
    engine = LLMEngine.from_engine_args(arguments, usage_context=server, enable_multiprocessing=True)
    client = Client(engine, engine.get_supported_tasks(), 1 + sum(accepted))
    client.together([client.prompt(100) for _ in range(8)], 20)
    return client


def stages(*, drafts: bool) -> list[tuple[str, Any, tuple[Any, ...]]]:
    """Return what is measured: the file of each stage, the function and its sizes."""
    sizes = DRAFTED_DECODES if drafts else DECODES
    lengths = DRAFTED_PROMPTS if drafts else PROMPTS
    histories = () if drafts else (4096, 16384)
    return [
        *(("decode", decodes, (context, counts)) for context, counts in sizes.items()),
        ("prompt", prompts, (0, lengths, 3)),
        *(("prompt", prompts, (history, CHUNKS, 2)) for history in histories),
        *(("closed", closed, limits) for limits in (DRAFTED_CLOSED if drafts else CLOSED)),
    ]


def main() -> None:
    """Measure until the time is over."""
    command = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    command.add_argument("model")
    command.add_argument("out", type=Path)
    command.add_argument("--seconds", type=float, default=300.0)
    command.add_argument("--draft")
    command.add_argument("--accepted", default="")
    asked = command.parse_args()
    accepted = [float(share) for share in asked.accepted.split(",") if share]
    begin = time.monotonic()
    client = start(asked.model, asked.draft, accepted)
    print(f"{client.room:,} tokens of KV; ready after {time.monotonic() - begin:.0f} s", flush=True)
    asked.out.mkdir(parents=True, exist_ok=True)
    for name, head in HEADS.items():
        with (asked.out / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerow(head)
    left_out = 0
    for name, measure, limits in stages(drafts=asked.draft is not None):
        if time.monotonic() - begin > asked.seconds:
            left_out += 1
            continue
        rows = measure(client, *limits)
        with (asked.out / f"{name}.csv").open("a", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(rows)
        print(f"{time.monotonic() - begin:.0f} s: {name} {limits}", flush=True)
    print(f"{left_out} stages were left out for time")


if __name__ == "__main__":
    main()
