"""Vidur, of Microsoft and Georgia Tech."""

from __future__ import annotations

from benches.peers.adapter import About, from_pypi

NAME = "vidur"
VERSION = "0.0.26"
ABOUT = About(
    name="Vidur",
    version=VERSION,
    source="PyPI",
    costs=("linear",),
    most_requests=8_000,
    limit_s=1_800.0,
    definitions="as Paceline's; TTFT is the end of the prefill, and there is no TPOT",
    differs=(
        "in nothing but the error of sums of doubles where no request is preempted",
        "it fails where requests are preempted: `Request.restart` keeps `_num_stage_processed_tokens`, of "
        "which an assertion says that it is no more than the request's tokens",
    ),
    instead=(
        "its own price of a step needs profiles that it downloads, and the package has none",
        "scheduler: its Sarathi, which chunks prompts beside decodes as vLLM V1 does; its `vllm` is V0's, "
        "which does not",
        "8B model: Llama 3; its watermark is set to 0",
    ),
)
prepare, command = from_pypi(NAME, VERSION)
