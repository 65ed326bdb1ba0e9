"""Examples of each command, which its ``--help`` ends with, and the names that its arguments take."""

from __future__ import annotations

from typing import Final

__all__ = ["EXAMPLES", "FORMATS", "PRESETS", "SESSIONS", "TRACE", "epilogue"]

FORMATS: Final = (
    *("agentic_mooncake", "aibrix", "applied_compute_agentic", "azure", "bailian", "baseten", "burstgpt"),
    *("dynamo", "llmservingsim", "mooncake", "mooncake-delta", "otel", "paceline", "timed_trace", "tracelab"),
    *("vidur", "weka"),
)
"""The formats of traces that are recognised."""

PRESETS: Final = (
    *("azure-conv", "azure-code", "mooncake-conv", "sharegpt", "arxiv-summarization", "tracelab-claude"),
    *("tracelab-codex", "codex-swe-bench-pro", "agentperf", "conversation-replay", "synthetic-session"),
    *("mooncake-sessions", "alibaba-chat", "alibaba-api"),
)
"""The workloads that can be drawn."""

_ON: Final = "--model llama-3.1-8b --gpu h100-sxm"

TRACE: Final = "synthesize azure-conv --requests 1000 --seed 1 --out trace.csv"
"""Makes the trace of the examples."""

SESSIONS: Final = "synthesize alibaba-chat --sessions 300 --seed 1 --out sessions.csv"
"""Makes the trace with sessions of the examples."""

EXAMPLES: Final[dict[str, tuple[str, ...]]] = {
    "replay": (
        f"replay trace.csv {_ON} --instances 2 --rate 9 --slo ttft=500ms,tpot=40ms --warmup 20s",
        f"replay trace.csv {_ON} --kv-dtype fp8 --gpu-memory-utilization 0.9",
        f"replay trace.csv {_ON} --policy sarathi --set chunk_size=1024 --out result",
        f"replay trace.csv {_ON} --record 10,20 --perfetto out.perfetto-trace",
        "replay result/run.toml",
    ),
    "report": (
        "report result --slo ttft=500ms,tpot=40ms --out report.html",
        "report vllm sarathi --name vllm --name sarathi --out both.html",
    ),
    "capacity": (f"capacity trace.csv {_ON} --slo ttft=500ms,tpot=40ms --target 0.99",),
    "plan": (f"plan trace.csv {_ON} --also gpu=a100-80gb,tp=2 --rate 40 --slo ttft=500ms,tpot=40ms",),
    "compare": (
        f"compare trace.csv {_ON} --policy vllm --against sarathi --warmup 20s",
        f"compare one.csv two.csv three.csv {_ON} --against sarathi:max_num_seqs=64 --report out.html",
    ),
    "compare-bench": (
        f"compare-bench bench.json {_ON}",
        f"compare-bench bench.json {_ON} --profile aisimulate/h100_sxm/vllm --frontend-ms 8 --out replayed",
        f"compare-bench benchmarks.json {_ON} --run 1 --concurrency 64 --client-gap 4ms",
    ),
    "export": ("export result --out bench.json", "export result --format llm-d --out report.yaml"),
    "sweep": ("sweep study.toml --out swept", "sweep study.toml --out swept --executor ray"),
    "trace": ("trace trace.csv", "trace convert trace.jsonl --out trace.parquet"),
    "hits": (
        "hits sessions.csv --model llama-3.1-8b --page hits.html",
        f"hits sessions.csv {_ON} --replay --policy vllm --prefix-caching",
    ),
    "rank": ("rank score prompts.jsonl --model ranker --out scores.csv",),
    "presets": ("presets", "presets tracelab-codex"),
    "synthesize": (
        "synthesize azure-conv --requests 1000 --rate 12 --seed 1 --out trace.parquet",
        "synthesize codex-swe-bench-pro --sessions 20 --rate 0.5 --idle-cap 10s --out agents.parquet",
        "synthesize sharegpt --requests 2000 --ramp 2,20,60s --out ramp.csv",
    ),
    "conformance": ("conformance log.json",),
    "validate": ("validate run",),
    "calibrate": (
        f"calibrate points.csv {_ON} --out fit.toml",
        "calibrate bench.json --gpu h100-sxm --fit memory --fit matmul --out fit.toml",
    ),
    "study": ("study arrow --out figures",),
    "models": ("models --json",),
    "gpus": ("gpus --json",),
    "profiles": ("profiles list",),
    "profile": ("profile qwen3-14b --out kernels.parquet",),
    "policies": ("policies", "policies pascal"),
    "completion": ("completion bash > ~/.local/share/bash-completion/completions/paceline",),
    "clean": ("clean results --dry-run",),
}

_NAMES: Final = {
    "replay": f"Formats of traces: {', '.join(FORMATS)}.",
    "trace": f"Formats of traces: {', '.join(FORMATS)}.",
    "synthesize": f"Presets: {', '.join(PRESETS)}.",
}


def epilogue(command: str) -> str:
    """Return what the help of a command ends with."""
    lines = [_NAMES[command], ""] if command in _NAMES else []
    lines += ["Examples:", *(f"  paceline {example}" for example in EXAMPLES[command])]
    if any("trace.csv" in example for example in EXAMPLES[command]):
        lines += ["A trace.csv to try them with:", f"  paceline {TRACE}"]
    if any("sessions.csv" in example for example in EXAMPLES[command]):
        lines += ["A sessions.csv to try them with:", f"  paceline {SESSIONS}"]
    return "\n".join(lines)
