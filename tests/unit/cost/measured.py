"""How far the catalog's rooflines are from measurements in ../shared.

Imported as `unit.cost.measured`, as the tests folder is on the path. `PYTHONPATH=tests python -m
unit.cost.measured` prints the figures that the docstring of Roofline quotes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import polars as pl

from paceline.cost import Roofline
from paceline.hardware import Gpu
from paceline.model import Model
from unit.cost.reference import Shape, decode, prefill, step_ticks

KERNELS = {"rtx-4090": "rtx4090-llama-3.1-8b", "rtx-pro-6000": "rtxpro6000-llama-3.1-8b"}
DECODES = [decode(n, kv) for n in (1, 4, 16, 64, 256) for kv in (256, 1024, 2048, 4096, 8192)]
PROMPTS = [prefill(n) for n in (128, 256, 512, 1024, 2048)]


def kernel_errors(folder: Path, gpu: str, shapes: Sequence[Shape]) -> list[float]:
    """Return ours / measured - 1 for whole steps of Llama-3.1-8B; measured is the sum of its kernels."""
    profile = folder / KERNELS[gpu] / "profile"
    model = Model.load("llama-3.1-8b")
    wire = Roofline().to_wire(model, Gpu.load(gpu))
    dense = pl.read_csv(profile / "dense.csv")
    rows = pl.read_csv(profile / "per_sequence.csv")
    attention = {row[:4]: row[4] for row in pl.read_csv(profile / "attention.csv").iter_rows()}

    def at(table: pl.DataFrame, axis: str, layer: str) -> Callable[[int], float]:
        points = table.filter(pl.col("layer") == layer).sort(axis)
        return lambda x: float(np.interp(x, points[axis], points["time_us"]))

    in_layer = [
        "layernorm",
        "qkv_proj",
        "rotary_emb",
        "o_proj",
        "layernorm",
        "gate_up_proj",
        "act_fn",
        "down_proj",
    ]
    errors = []
    for shape in shapes:
        tokens = shape.decode_requests + shape.prefill_tokens
        context = shape.decode_kv // shape.decode_requests if shape.decode_requests else 0
        key = (shape.prefill_tokens, 0, shape.decode_requests, context)
        layer = attention[key] + sum(at(dense, "tokens", name)(tokens) for name in in_layer)
        once = sum(at(dense, "tokens", name)(tokens) for name in ("embedding", "final_layernorm"))
        head = sum(at(rows, "sequences", name)(shape.sampled) for name in ("lm_head", "sampler"))
        measured = model.layers * layer + once + head
        errors.append(step_ticks(wire, shape) / 1e6 / measured - 1)
    return errors


def mixed_attention_errors(folder: Path, gpu: str) -> tuple[float, float]:
    """Return the median of sum / joint - 1 and longer / joint - 1 where decodes and a prefill share a launch.

    Sum and longer are of the two measured apart, both at least 50 us; one launch's least time is not counted
    twice.
    """
    table = pl.read_csv(folder / KERNELS[gpu] / "profile" / "attention.csv")
    times = {row[:4]: row[4] for row in table.iter_rows()}
    least = times[0, 0, 1, 16]
    sums, longer = [], []
    for (chunk, before, requests, context), joint in times.items():
        apart = times.get((chunk, before, 0, 0), 0.0), times.get((0, 0, requests, context), 0.0)
        if chunk and requests and min(apart) > 50:
            sums.append((sum(apart) - least) / joint - 1)
            longer.append(max(apart) / joint - 1)
    return float(np.median(sums)), float(np.median(longer))


def splitwise(folder: Path) -> pl.DataFrame:
    """Return prompt and token times of Llama-2-70B at batch 1, in ms, measured and ours."""
    model = Model.load("llama-2-70b")
    columns = ("hardware", "tensor_parallel", "prompt_size")
    median = (
        pl.read_csv(folder / "splitwise" / "perf_model.csv")
        .filter((pl.col("model") == "llama2-70b") & (pl.col("batch_size") == 1))
        .filter(pl.col("hardware").is_in(["a100-80gb", "h100-80gb"]) & (pl.col("prompt_size") >= 128))
        .group_by(columns)
        .agg(pl.col("prompt_time", "token_time").median(), pl.col("token_size").median())
        .sort(columns)
    )
    ours = []
    for hardware, ranks, prompt, _, _, tokens in median.iter_rows():
        gpu = Gpu.load({"a100-80gb": "a100-80gb", "h100-80gb": "h100-sxm"}[hardware])
        wire = Roofline().to_wire(model, gpu, tensor_parallel=ranks)
        context = prompt + int(tokens) // 2
        ours.append((step_ticks(wire, prefill(prompt)) / 1e9, step_ticks(wire, decode(1, context)) / 1e9))
    return median.with_columns(
        prompt_ours=pl.Series([prompt for prompt, _ in ours]),
        token_ours=pl.Series([token for _, token in ours]),
    )


def summary(errors: Sequence[float]) -> str:
    """Return mean, least and greatest error in per cent."""
    percent = 100 * np.asarray(errors)
    return f"{percent.mean():+.1f}% on average ({percent.min():+.0f}% to {percent.max():+.0f}%)"


def main() -> None:
    """Print the table that the docstring of Roofline quotes."""
    folder = Path(__file__).resolve().parents[4] / "shared" / "measured"
    for gpu in KERNELS:
        print(gpu, "decode: ", summary(kernel_errors(folder, gpu, DECODES)))
        print(gpu, "prefill:", summary(kernel_errors(folder, gpu, PROMPTS)))
        apart = mixed_attention_errors(folder, gpu)
        print(gpu, "mixed attention: sum {:+.0%}, longer {:+.0%} in the median".format(*apart))
    times = splitwise(folder).with_columns(
        prompt=pl.col("prompt_ours") / pl.col("prompt_time") - 1,
        token=pl.col("token_ours") / pl.col("token_time") - 1,
    )
    for (hardware, ranks), part in times.group_by("hardware", "tensor_parallel", maintain_order=True):
        print(
            hardware,
            ranks,
            "prompt",
            summary(part["prompt"].to_list()),
            "token",
            summary(part["token"].to_list()),
        )
    with pl.Config(tbl_rows=100, tbl_cols=20):
        print(times)


if __name__ == "__main__":
    main()
