"""Small profiles made by hand."""

from __future__ import annotations

from pathlib import Path

import polars as pl

LAYERS = ("layernorm", "qkv_proj", "rotary_emb", "o_proj", "gate_up_proj", "act_fn", "down_proj")
SYSTEM = "gpu:\n  mem_bw: 1000000000000\n  mem_empirical_constant_latency: 0.000003\n"


def make_folder(folder: Path) -> Path:
    """Write a profile in LLMServingSim's format: every layer takes 1 us and 1 us a token."""
    folder.mkdir(parents=True)
    dense = [f"{layer},{n},{1 + n}" for layer in LAYERS for n in (1, 3)]
    (folder / "dense.csv").write_text("layer,tokens,time_us\n" + "\n".join(dense))
    (folder / "per_sequence.csv").write_text("layer,sequences,time_us\nlm_head,1,5\nsampler,1,2\n")
    rows = [(0, 0, n, kv, n * kv) for n in (1, 2) for kv in (16, 32)]
    rows += [(16, kp, 0, 0, 7 + kp) for kp in (0, 10)]
    rows += [(16, kp, n, kv, 7 + kp + n * kv) for kp in (0, 10) for n in (1, 2) for kv in (16, 32)]
    text = "\n".join(",".join(map(str, row)) for row in rows)
    (folder / "attention.csv").write_text("prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n" + text)
    (folder / "meta.yaml").write_text("model: a/b\ngpu: 'X'\nvllm_version: 0.1.0\n")
    return folder


def make_database(folder: Path) -> Path:
    """Write a database like AISimulate's, of one GPU and one engine."""
    data = folder / "systems" / "data" / "toy"
    data.mkdir(parents=True)
    (folder / "systems" / "toy.yaml").write_text(SYSTEM)
    shape = {
        "num_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
        "kv_cache_dtype": "bfloat16", "attn_dtype": "bfloat16",
    }  # fmt: skip
    tables: dict[str, list[dict[str, object]]] = {
        "gemm/vllm/0.24.0/gemm_perf": [
            {"gemm_dtype": "bfloat16", "m": m, "n": n, "k": k, "latency": 1e-6 * n * k + m}
            for m in (1, 64) for n in (1024, 65536) for k in (1024, 16384)
        ],
        "attention/vllm/0.24.0/generation_attention_perf": [
            {**shape, "batch_size": b, "isl": 1, "step": s, "latency": float(b * (s + 1))}
            for b in (1, 8) for s in (15, 1023)
        ],
        "attention/vllm/0.24.0/context_attention_perf": [
            {**shape, "batch_size": 1, "isl": n, "step": 0, "latency": float(n)} for n in (1, 16, 1024)
        ],
    }  # fmt: skip
    for name, rows in tables.items():
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        pl.DataFrame(rows).write_parquet(data / f"{name}.parquet")
    return folder
