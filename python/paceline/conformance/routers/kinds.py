"""The kinds of router logs, by the name of the router that a log gives.

A kind is a module with

- ``Log``: what a file holds, a `msgspec.Struct` with the bounds of every number;
- ``recorded(log)``: the decisions and times in the log, a `Decided`;
- ``GRADE``, if it is not ``"replay"``: ``"rule"`` where the policy's rules are
  asked about what the log says that the router saw, and times are not compared;
- ``LEFT_OUT``, if decisions in the log are not compared: which;
- ``replayed(log, leap=..., follow=...)``: the same from a replay of the log's
  requests. With ``follow``, ties that the router breaks at random go to the
  instance in the log where it is among the equals.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final, Protocol

import msgspec

from paceline.conformance.routers.decided import Decided

__all__ = ["KINDS", "Kind", "kind_of"]

KINDS: Final[dict[str, str]] = {
    "dynamo_kv": "dynamo_kv",
    "sglang_cache_aware": "sglang_cache_aware",
    "sglang_round_robin": "sglang_round_robin",
    "sglang_power_of_two": "sglang_power_of_two",
    "sglang_pd_pair": "sglang_pd_pair",
    "vllm-0.11.0/DPLBAsyncMPClient": "vllm_balancer_0_11",
    "vllm-0.11.0/DPLBAsyncMPClient+DPCoordinator": "vllm_balancer_0_11",
    "vllm-0.33.0/DPLBAsyncMPClient": "vllm_balancer_0_33",
    "vllm-0.33.0/DPLBAsyncMPClient+DPCoordinator": "vllm_balancer_0_33",
    "llumnix/*": "llumnix",
    "distserve/ContextStageFCFSScheduler+*": "distserve_context",
    "simdistserve/Scheduler": "simdistserve",
    "splitwise-sim/MixedPoolScheduler": "splitwise_mixed",
    "splitwise-sim/*": "splitwise",
    "vllm-nixl-toy-proxy": "vllm_proxies",
    "vllm-p2p-nccl-xpyd-proxy": "vllm_proxies",
}
"""Names of routers, and the modules of their kinds; ``name*`` stands for all names that begin so."""


class Kind(Protocol):
    """What a module of a kind offers."""

    Log: type[msgspec.Struct]

    def recorded(self, log: Any) -> Decided:  # noqa: ANN401 - the kind's own struct
        """Return the decisions and times in a log."""

    def replayed(self, log: Any, *, leap: bool, follow: bool) -> Decided:  # noqa: ANN401 - the kind's own struct
        """Return the decisions and times of a replay of the log's requests."""


def kind_of(router: str) -> Kind | None:
    """Return the module of a router's logs; None if there is none."""
    for name, module in KINDS.items():
        if router == name or (name.endswith("*") and router.startswith(name[:-1])):
            found: Any = import_module(f"paceline.conformance.routers.{module}")
            return found  # type: ignore[no-any-return]  # a module has the members of the protocol
    return None
