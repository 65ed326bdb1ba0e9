"""Logs of splitwise-sim's router with a mixed pool (Mutinifni/splitwise-sim 8f99e7d, MixedPoolScheduler).

The rules of `splitwise` are asked about what the log says that the router saw: the
instances stand in the order of their pools, as the source breaks ties by it. The
order within a pool after a decision is not compared, as the engine's pools have none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec

from paceline.conformance.routers.bounds import Index, Request
from paceline.conformance.routers.decided import Decided
from paceline.conformance.routers.seen import Rules, Sight
from paceline.conformance.routers.splitwise import Cluster, Seen, check_rows
from paceline.errors import TraceError
from paceline.policies.splitwise import splitwise

__all__ = ["GRADE", "Log", "recorded", "replayed"]

GRADE: Final = "rule"


class _Config(msgspec.Struct):
    prompt_max_pending_batch_tokens: Annotated[int, msgspec.Meta(ge=0, lt=2**40)]


class _Pools(msgspec.Struct):
    prompt: list[Index]
    mixed: list[Index]
    token: list[Index]

    def kept(self) -> list[list[int]]:
        """Return the instances of each pool, in the order of their indices."""
        return [sorted(self.prompt), sorted(self.mixed), sorted(self.token)]


class _Seen(Seen):
    pools: _Pools


class _Decision(msgspec.Struct):
    request: Index
    prompt_instance: Index
    token_instance: Index
    seen: _Seen
    pools_after: _Pools


class Log(msgspec.Struct):
    """What a file holds."""

    router: str
    config: _Config
    cluster: Cluster
    requests: list[Request]
    decisions: list[_Decision]


def recorded(log: Log) -> Decided:
    """Return the decisions in a log."""
    return {
        "prompt instance": [decision.prompt_instance for decision in log.decisions],
        "token instance": [decision.token_instance for decision in log.decisions],
        "pools [prompt, mixed, token]": [decision.pools_after.kept() for decision in log.decisions],
    }


def replayed(log: Log, *, leap: bool, follow: bool) -> Decided:
    """Ask the rules about each request."""
    del leap, follow  # each replay is of one request, and nothing is random
    check_rows([decision.request for decision in log.decisions], len(log.requests))
    tags = [each.tag for each in log.cluster.instances]
    if None in tags:
        raise TraceError(
            f"cluster.instances[{tags.index(None)}].tag of a log of MixedPoolScheduler must be 'prompt' or "
            "'token', was null"
        )
    policy = splitwise(
        prompt=tags.count("prompt"),
        token=tags.count("token"),
        most_pending_tokens=log.config.prompt_max_pending_batch_tokens,
    )
    assert policy.pools is not None
    names, rules = policy.pools.names, Rules(policy, len(tags))
    ours = []
    for decision in log.decisions:
        roles = _roles(decision.seen.pools, [f"mixed_{tag}" for tag in tags])
        answer = rules.ask(_sight(log, decision, [names.index(role) for role in roles]))
        for index, code in answer.flips:
            roles[index] = names[code]
        pools = [
            [index for index, role in enumerate(roles) if _pool(role) == pool]
            for pool in _Pools.__struct_fields__
        ]
        ours.append((answer.first, answer.last, pools))
    return {name: [each[at] for each in ours] for at, name in enumerate(recorded(log))}


def _roles(pools: _Pools, mixed: Sequence[str]) -> list[str]:
    """Return the pool of each instance; the mixed pools are those of the pools from which they came."""
    placed = sorted([*pools.prompt, *pools.mixed, *pools.token])
    if placed != list(range(len(mixed))):
        raise TraceError(f"pools seen must have each of the {len(mixed)} instances once, had {placed}")
    roles = list(mixed)
    for name in ("prompt", "token"):
        for index in getattr(pools, name):
            roles[index] = name
    return roles


def _pool(role: str) -> str:
    """Return the source's name of a pool."""
    return "mixed" if role.startswith("mixed_") else role


def _sight(log: Log, decision: _Decision, roles: Sequence[int]) -> Sight:
    seen, cluster, request = decision.seen, log.cluster, log.requests[decision.request]
    count = len(cluster.instances)
    # The weights are in the source's memory. Bytes at the limit are rejected there.
    size, weights = cluster.kv_bytes_per_token, cluster.weights_bytes
    return Sight(
        prompt_tokens=request.prompt_tokens,
        output_tokens=request.output_tokens,
        order=[*seen.pools.prompt, *seen.pools.mixed, *seen.pools.token],
        roles=roles,
        fields={
            "requests": seen.pending_requests,
            "waiting": seen.pending_queue,
            # The source has one number for the tokens of prompts and a token for each token task.
            "active_prefill_tokens": seen.sched_pending_tokens,
            "decoding_requests": [0] * count,
            "outstanding_tokens": [(memory - weights) / size for memory in seen.sched_memory],
            "total_blocks": [(cluster.max_memory_bytes - weights) / size] * count,
            "block_tokens": [1] * count,
        },
    )
