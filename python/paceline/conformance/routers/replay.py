"""Replaying a log's requests through the engine, on instances of fixed steps. A tick is a nanosecond."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from paceline import _core, _native
from paceline.conformance.routers.bounds import Request
from paceline.policy import Expr, Policy, Scheduler
from paceline.policy.expressions.wire import to_wire
from paceline.policy.scheduler import NO_LIMIT
from paceline.policy.stages import Admit, Running

__all__ = ["NO_SHORTAGE", "TICKS_PER_S", "columns", "instance", "run", "watch"]

TICKS_PER_S = 1e9
NO_SHORTAGE = 2**31
"""Blocks that the requests of no log fill."""


def instance(
    *,
    step_ns: int,
    token_ns: int = 0,
    max_num_seqs: int | None = None,
    block_tokens: int = 16,
    admission_blocks: int | None = None,
) -> dict[str, Any]:
    """Return an instance whose steps take the same time, as the engine reads it.

    A step runs the whole prompt of each request that it admits, first come, first
    served, and a token of all others.

    Parameters
    ----------
    step_ns, token_ns
        Nanoseconds of a step, and of each of its tokens.
    max_num_seqs
        Requests that may run at once; None: no limit.
    block_tokens
        Tokens in a block.
    admission_blocks
        Blocks that must hold the running requests and the prompt that is admitted
        beside them; None: no limit. Requests that run may fill more, and a prompt
        that runs alone as well. ``inst.free_blocks`` is then as many too large as
        `NO_SHORTAGE` has.
    """
    scheduler = Scheduler(
        max_num_batched_tokens=NO_LIMIT,
        max_num_seqs=NO_LIMIT if max_num_seqs is None else max_num_seqs,
        stages=(Running(), Admit(chunked=False, unless_preempted=True)),
        allocation="sequence",
    )
    wire = scheduler.to_wire(num_blocks=1, defaults=(1, 1), ticks_per_s=TICKS_PER_S)
    if admission_blocks is not None:
        wire["watermark_blocks"] = NO_SHORTAGE
    return {
        "blocks": NO_SHORTAGE + (admission_blocks or 0),
        "block_tokens": block_tokens,
        "max_model_len": None,
        "scheduler": wire,
        "cost": {"kind": "affine", "step": step_ns, "token": token_ns, "kv_token": 0},
    }


def columns(requests: Sequence[Request]) -> dict[str, Any]:
    """Return the columns of a log's requests, as the engine takes them."""
    return {
        "arrival_ticks": np.array([each.arrival_ns for each in requests], dtype=np.uint64),
        "prompt_tokens": np.array([each.prompt_tokens for each in requests], dtype=np.uint32),
        "output_tokens": np.array([each.output_tokens for each in requests], dtype=np.uint32),
    }


def run(
    instances: Sequence[dict[str, Any]],
    columns: Mapping[str, Any],
    policy: Policy,
    *,
    leap: bool,
    follow: Sequence[int] | None = None,
    lockstep: Sequence[Mapping[str, Any]] | None = None,
) -> _core.Outcome:
    """Replay requests under the rules of a policy; its scheduler is not used.

    Random ties of the rule for arrivals go to ``follow``, an instance for each
    request, where it is among the equals. ``lockstep`` has the groups of
    instances that step together, as the engine reads them.
    """
    wire = policy.to_wire(instances=len(instances), ticks_per_s=TICKS_PER_S)
    if follow is not None:
        _follow(wire["routing"]["on_arrival"], follow)
    return _native.run(
        instances,
        columns,
        **wire,
        calls=policy.calls,
        leap=leap,
        lockstep=lockstep,
    )


def _follow(rule: dict[str, Any], follow: Sequence[int]) -> None:
    """Have random ties of a rule, and of those within it, go to the given instances."""
    if rule.get("ties") == "random":
        rule["ties"] = {"given": list(follow)}
    for part in (*rule.get("rules", ()), *filter(None, [rule.get("of")])):
        _follow(part, follow)


def watch(
    instances: Sequence[dict[str, Any]],
    columns: Mapping[str, Any],
    policy: Policy,
    score: Expr,
    *,
    leap: bool,
    followed: Sequence[int] | None = None,
) -> _core.Outcome:
    """As `run`, and note a number of each instance as each request arrives, in ``watched`` of the outcome.

    Parameters
    ----------
    instances, columns, policy, leap
        As for `run`.
    score
        The number.
    followed
        By request, the instance that its arrival rule, a ``pick``, takes if it is among the equals.
    """
    wire = policy.to_wire(instances=len(instances), ticks_per_s=TICKS_PER_S)
    wire["routing"]["watch"] = to_wire(score, policy.names())
    if followed is not None:
        wire["routing"]["on_arrival"]["ties"] = {"given": list(followed)}
    return _native.run(instances, columns, **wire, calls=policy.calls, leap=leap)
