"""Output throughput of Qwen3-Next-80B-A3B by the roofline, beside what SGLang's developers printed.

    python benches/hybrid_steps.py

Measured: sgl-project/sglang pull requests 10404 (H200) and 10467 (H20), after their change, September 2025:
bench_serving with 100 random requests of 1,000 tokens in and 2,000 out. Here all requests arrive at once, and
as many run at once as there.
"""

from __future__ import annotations

from paceline import Cluster, Instance, Trace, policies, replay

REQUESTS, PROMPT, OUTPUT = 100, 1_000, 2_000
MEASURED = (
    ("h200", 2, 8, 937.94),
    ("h200", 4, 8, 1137.94),
    ("h200", 8, 8, 1239.43),
    ("h20", 4, 32, 2233.44),
    ("h20", 8, 32, 2704.56),
)


def main() -> None:
    trace = Trace.from_columns(
        arrival=[0.0] * REQUESTS, prompt_tokens=[PROMPT] * REQUESTS, output_tokens=[OUTPUT] * REQUESTS
    )
    print("gpu   gpus  at once  measured  roofline  ratio")
    for gpu, ranks, seats, measured in MEASURED:
        instance = Instance(
            model="qwen3-next-80b-a3b", gpu=gpu, tensor_parallel=ranks, max_model_len=PROMPT + OUTPUT
        )
        result = replay(trace, Cluster([instance]), policies.vllm(max_num_seqs=seats))
        rate = REQUESTS * OUTPUT / max(result.requests["e2e"])
        print(f"{gpu:5} {ranks:4} {seats:8} {measured:9,.0f} {rate:9,.0f} {rate / measured:6.2f}")


if __name__ == "__main__":
    main()
