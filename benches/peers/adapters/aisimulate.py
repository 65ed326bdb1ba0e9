"""AISimulate, of NVIDIA."""

from __future__ import annotations

from benches.peers.adapter import About, from_pypi

NAME = "aisimulate"
VERSION = "0.13.0.dev202610270000000085"
ABOUT = About(
    name="AISimulate",
    version=VERSION,
    source="PyPI, the newest wheel there (0.13.0 itself is a stub that fetches from another index)",
    costs=("own",),
    definitions="as Paceline's; its ITL is the pooled gaps, its TPOT (E2E - TTFT) / (n - 1)",
    price="measured kernels of vLLM 0.24.0 on an H100, its default",
    instead=(
        "the shared price of a step: its fixed timing has one time for prefill and one for decode, and a "
        "step that has both takes their sum",
        "longest sequence: its model's, 131,072 tokens",
    ),
    differs=(
        "a step that has both prefill and decode takes the sum of the times of a prefill and of a decode "
        "(18.19 ms for a prompt of 512 beside one decode: 12.02 + 6.17), and Paceline's is one pass over the "
        "weights (12.90 ms with the same kernels)",
    ),
)
prepare, command = from_pypi(NAME, VERSION)
