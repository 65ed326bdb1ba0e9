"""vllm-sr-sim, the fleet simulator of vLLM's semantic router."""

from __future__ import annotations

from benches.peers.adapter import About, from_pypi

NAME = "vllm-sr-sim"
VERSION = "0.1.0.dev20260713123629"
ABOUT = About(
    name=NAME,
    version=VERSION,
    source="PyPI",
    costs=("own",),
    definitions="as Paceline's; its percentiles do not interpolate",
    price="a roofline with its share of the bandwidth, at the number of slots in use when a request starts",
    instead=(
        "it has no steps: a request's times are computed once, when it gets a slot, from the number of "
        "slots in use at that moment, so there is no price of a step to share",
        "tokens a step: a chunk of that size for each request; requests that run: its slots, which its KV "
        "memory for 4,096 tokens each limits to 105",
    ),
    differs=(
        "a slot is free again after the request's time over the number of slots (`s_eff` of "
        "`core/instance.py`), so few slots are in use at once, and its latencies hardly depend on the rate",
    ),
)
prepare, command = from_pypi(NAME, VERSION)
