"""Logs of vLLM's proxies for prefill and decode apart.

The toy proxy of the NIXL connector (vllm-project/vllm 030ea52, toy_proxy_server.py) takes
the decode instances in turn as prompts end. The proxy of the P2P NCCL connector (057847c,
disagg_proxy_p2p_nccl_xpyd.py) counts arrivals, and takes both instances by that count.

A prefill instance runs one prompt at a time, and the decode instance yields all tokens of
the output. Here a prefill yields a token, so the requests of a log have one more, which is
their only reasoning token: the first token of a log is the first of the answer.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
import numpy as np

from paceline import _core
from paceline.conformance.routers import timed
from paceline.conformance.routers.bounds import Count, Index, Instances, Nanoseconds, Request, Step
from paceline.conformance.routers.decided import Decided
from paceline.conformance.routers.replay import columns, instance, run
from paceline.policy import Policy, Pools, round_robin

__all__ = ["Log", "recorded", "replayed"]


class _Cluster(msgspec.Struct):
    prefill_base_ns: Step
    prefill_per_token_ns: Annotated[int, msgspec.Meta(ge=0, le=10**7)]
    step_ns: Step
    prefill: Instances
    decode: Instances
    max_num_seqs: Count


class _Decision(msgspec.Struct):
    time_ns: Nanoseconds
    request: Index
    stage: Literal["prefill", "decode"]
    instance: Index


class Log(msgspec.Struct):
    """What a file holds."""

    router: str
    cluster: _Cluster
    requests: list[Request]
    decisions: list[_Decision]
    results: list[timed.Result]


def recorded(log: Log) -> Decided:
    """Return the decisions and times in a log, both stages by request."""
    stages = {
        stage: sorted((each for each in log.decisions if each.stage == stage), key=lambda each: each.request)
        for stage in ("prefill", "decode")
    }
    return {
        "prefill instance": [each.instance for each in stages["prefill"]],
        "decode instance": [each.instance for each in stages["decode"]],
        "end of the prompt (ns)": [each.time_ns for each in stages["decode"]],
        "first token (ns)": [result.first_token_ns for result in log.results],
        "finish (ns)": [result.finish_ns for result in log.results],
    }


def replayed(log: Log, *, leap: bool, follow: bool) -> Decided:
    """Replay a log."""
    del follow  # nothing is random
    cluster = log.cluster
    policy = Policy(
        name=log.router,
        on_arrival=round_robin(within="prefill"),
        **_decode(log),
        pools=Pools(prefill=cluster.prefill, decode=cluster.decode),
    )
    prefill = instance(step_ns=cluster.prefill_base_ns, token_ns=cluster.prefill_per_token_ns, max_num_seqs=1)
    decode = instance(step_ns=cluster.step_ns, max_num_seqs=cluster.max_num_seqs)
    given = columns(log.requests)
    given["output_tokens"] += 1
    given["reasoning_tokens"] = np.ones(len(log.requests), dtype=np.uint32)
    instances = [prefill] * cluster.prefill + [decode] * cluster.decode
    return _decided(run(instances, given, policy, leap=leap), cluster.prefill)


def _decode(log: Log) -> dict[str, Any]:
    """Return the rule for the decode instance, by the moment at which it is asked."""
    moment = "on_prefilled" if log.router == "vllm-nixl-toy-proxy" else "decode_on_arrival"
    return {moment: round_robin(within="decode")}


def _decided(outcome: _core.Outcome, prefill: int) -> Decided:
    """Return the decisions and times of a replay."""
    return {
        "prefill instance": outcome.columns["instance"].tolist(),
        "decode instance": (outcome.columns["last_instance"].astype(np.int64) - prefill).tolist(),
        "end of the prompt (ns)": outcome.columns["first_token"].tolist(),
        "first token (ns)": outcome.columns["first_answer"].tolist(),
        "finish (ns)": outcome.columns["finish"].tolist(),
    }
