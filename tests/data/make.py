"""Make the stand-ins of this folder again: small files in the formats of real traces and measurements.

Tests read them beside the real data of ``../shared``, or alone where there is none, so that formats and rules
are tried in every clone. Every number is drawn or chosen here; none is from a real file. Run from the root of
the repository: ``python tests/data/make.py`` writes them where they are, ``python tests/data/make.py DIR``
elsewhere. A test holds the two equal.
"""

from __future__ import annotations

import io
import json
import sys
import tarfile
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from random import Random

import polars as pl
import zstandard

__all__ = ["contents", "make"]

AZURE_ROWS = 300
MOONCAKE_ROWS = 201
BURSTGPT_ROWS = 60
ALPACA_ROWS = 2_000
ALPACAEVAL_ROWS = 150
SERVEGEN_ROWS = 200


def azure(seed: int) -> Iterator[tuple[int, int, int]]:
    """Yield arrivals in units of 100 ns from the first, prompts and outputs, as Azure's tables have them."""
    random = Random(seed)
    stamps = sorted(random.randrange(5_000_000, 6_000_000_000) for _ in range(AZURE_ROWS - 3))
    for stamp in (0, 2_500_002, *stamps):
        yield stamp, random.randint(20, 7_000), random.randint(5, 300)
    yield 6_000_000_003, 549, 173


def azure_table(seed: int) -> str:
    """Stamps with seven digits, lines that end in CR LF, and no end of the last line."""
    start = datetime(2023, 11, 16, 9, 0, 0)
    lines = ["TIMESTAMP,ContextTokens,GeneratedTokens"]
    for ticks, prompt, output in azure(seed):
        moment = start + timedelta(seconds=ticks // 10**7)
        lines.append(f"{moment:%Y-%m-%d %H:%M:%S}.{ticks % 10**7:07d},{prompt},{output}")
    return "\r\n".join(lines)


def vidur_code() -> str:
    """The same requests as Vidur writes them, in microseconds."""
    rows = (f"{round(ticks / 10) / 1e6},{prompt},{output}" for ticks, prompt, output in azure(1))
    return "\n".join(["arrived_at,num_prefill_tokens,num_decode_tokens", *rows, ""])


def mooncake() -> str:
    """Conversations: each prompt begins like an earlier one, or with the first block alone."""
    random = Random(2)
    known: list[list[int]] = []
    fresh, lines = 0, []
    for row in range(MOONCAKE_ROWS):
        head = [0] if known else []
        if known and random.random() < 0.6:
            head = random.choice(known)
        more = 14 if not known else random.randint(1, 6)
        ids = [*head, *range(fresh, fresh + more)]
        fresh += more
        known.append(ids)
        prompt = 512 * len(ids) - random.randint(1, 511)
        line = {"timestamp": 300 * row, "input_length": prompt, "output_length": random.randint(5, 600)}
        lines.append(json.dumps({**line, "hash_ids": ids}))
    return "\n".join([*lines, ""])


def burstgpt() -> str:
    """Requests of two models, of which five failed: these have no tokens."""
    random = Random(3)
    lines = ["Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type"]
    stamps = [5, *sorted(random.randint(6, 900) for _ in range(BURSTGPT_ROWS - 2)), 905]
    for row, stamp in enumerate(stamps):
        failed = row in (20, 31, 32, 40, 55)
        prompt, output = (0, 0) if failed else (random.randint(10, 2_000), random.randint(5, 900))
        model = random.choice(["ChatGPT", "GPT-4"])
        lines.append(f"{stamp},{model},{prompt},{output},{prompt + output},Conversation log")
    return "\n".join([*lines, ""])


def lengths(seed: int) -> str:
    """Lengths without arrivals, as Sarathi-Serve and Vidur publish them."""
    random = Random(seed)
    lines = ["num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio"]
    for _ in range(400):
        prompt, output = random.randint(20, 7_000), random.randint(10, 900)
        lines.append(f"{prompt},{output},{prompt + output},{prompt / output}")
    return "\n".join([*lines, ""])


def servegen_window() -> str:
    """A table whose columns have other names than any format: prompts, reasoning and answers."""
    random = Random(8)
    lines = ["arrival_s,client_id,prompt_tokens,reasoning_tokens,answer_tokens"]
    for row in range(SERVEGEN_ROWS):
        lengths = (random.randint(20, 3_000), random.randint(50, 2_500), random.randint(10, 700))
        lines.append(f"{0.5 * row},{row % 7},{','.join(map(str, lengths))}")
    return "\r\n".join([*lines, ""])


def archive() -> bytes:
    """Return a tar file, which is no trace."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        tar.addfile(tarfile.TarInfo("chunk-0-trace.csv"), io.BytesIO())
    return written.getvalue()


ASKED = {
    "Name a word for": (1, 4),
    "List three facts about": (12, 24),
    "Explain in a sentence": (26, 40),
    "Describe to a child": (50, 90),
    "Write an essay about": (110, 220),
}
TOPICS = ("rivers", "music", "sleep", "glass", "trade", "storms", "bees", "chess", "bridges", "tea")


def alpaca() -> str:
    """Instructions whose kind says how long the answer is; two have none, and some have an input beside."""
    random = Random(6)
    rows = []
    for row in range(ALPACA_ROWS):
        asked, (least, most) = random.choice(list(ASKED.items()))
        topic = " and ".join(random.sample(TOPICS, random.randint(1, 3)))
        beside = " ".join(random.choices(TOPICS, k=random.randint(5, 30))) if row % 5 < 2 else ""
        answer = (
            "" if row in (700, 1_300) else " ".join(random.choices(TOPICS, k=random.randint(least, most)))
        )
        rows.append({"instruction": f"{asked} {topic}.", "input": beside, "output": answer})
    return json.dumps(rows)


MODELS = (
    "gpt4_1106_preview",
    "Meta-Llama-3.1-8B-Instruct-Turbo",
    "Qwen2-72B-Instruct",
    "vicuna-13b-v1.5",
)


def alpacaeval() -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return prompts, and how long four models answer them, by the kind of the prompt."""
    random = Random(9)
    prompts: dict[str, list[int | str]] = {"prompt_id": [], "dataset": [], "prompt": [], "prompt_tokens": []}
    lengths: dict[str, list[int | str]] = {
        "prompt_id": [],
        "model": [],
        "output_tokens": [],
        "output_chars": [],
    }
    for row in range(ALPACAEVAL_ROWS):
        asked, (least, most) = random.choice(list(ASKED.items()))
        text = f"{asked} {' and '.join(random.sample(TOPICS, random.randint(1, 3)))}."
        for name, value in zip(prompts, (row, "made up", text, 2 * len(text.split())), strict=True):
            prompts[name].append(value)
        for model in MODELS:
            tokens = 2 * random.randint(least, most)
            for name, value in zip(lengths, (row, model, tokens, 4 * tokens), strict=True):
                lengths[name].append(value)
    return pl.DataFrame(prompts), pl.DataFrame(lengths)


OPERATORS = {  # milliseconds of 4,096 tokens on one rank
    "emb": 0.3,
    "input_layernorm": 0.2,
    "post_attention_layernorm": 0.2,
    "add": 0.1,
    "attn_pre_proj": 1.0,
    "attn_rope": 0.1,
    "attn_post_proj": 0.8,
    "mlp_up_proj": 5.6,
    "mlp_act": 0.3,
    "mlp_down_proj": 2.8,
}


def vidur_mlp() -> str:
    """Medians of operators that grow with the tokens, and halve on two ranks."""
    names = [f"time_stats.{operator}.median" for operator in OPERATORS]
    lines = [",".join([*names, "num_tokens", "num_tensor_parallel_workers"])]
    for ranks in (1, 2):
        for tokens in (8, 512, 4_096, 8_192):
            times = (0.01 + ms * tokens / 4_096 / ranks for ms in OPERATORS.values())
            lines.append(",".join([*(f"{time:.6f}" for time in times), str(tokens), str(ranks)]))
    return "\n".join([*lines, ""])


def vidur_all_reduce() -> str:
    """Reductions by a ring at 45 GB/s, in ms."""
    lines = ["time_stats.all_reduce.median,rank,num_workers,size,collective"]
    for ranks in (2, 4, 8):
        for size in (2**10, 2**16, 2**24, 2**28):
            ms = 0.03 + 2e3 * (ranks - 1) / ranks * size / 45e9
            lines += (f"{ms:.9f},{rank},{ranks},{size},all_reduce" for rank in range(ranks))
    return "\n".join([*lines, ""])


def parquet() -> dict[str, pl.DataFrame]:
    """Return the tables in Parquet, by their paths."""
    prompts, lengths = alpacaeval()
    return {"traces/alpacaeval_prompts.parquet": prompts, "traces/alpacaeval_output_lengths.parquet": lengths}


def contents() -> dict[str, str | bytes]:
    """Return what each other file holds, by its path without ``.zst``."""
    return {
        "traces/azure2023_code.csv": azure_table(1),
        "traces/azure2023_conv.csv": azure_table(7),
        "traces/vidur_splitwise_code.csv": vidur_code(),
        "traces/mooncake_conversation.jsonl": mooncake(),
        "traces/burstgpt_1_head400.csv": burstgpt(),
        "traces/sarathi_sharegpt8k_lengths.csv": lengths(4),
        "traces/vidur_arxiv_lengths.csv": lengths(5),
        "traces/derived_servegen_r1_10min.csv": servegen_window(),
        "traces/servegen_deepseek-r1.tar": archive(),
        "traces/alpaca_5000.json": alpaca(),
        "measured/vidur/h100_llama-2-70b_mlp.csv": vidur_mlp(),
        "measured/vidur/h100_dgx.all_reduce.csv": vidur_all_reduce(),
    }


def make(folder: Path) -> None:
    """Write them all into a folder, packed with Zstandard unless they are Parquet."""
    for name, content in contents().items():
        raw = content if isinstance(content, bytes) else content.encode()
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.zst").write_bytes(zstandard.ZstdCompressor(level=19).compress(raw))
    for name, frame in parquet().items():
        frame.write_parquet(folder / name)


if __name__ == "__main__":
    make(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
