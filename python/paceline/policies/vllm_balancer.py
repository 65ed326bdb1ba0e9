"""The balancer of vLLM's data-parallel engines."""

from __future__ import annotations

from typing import Literal

from paceline._arguments import typed
from paceline.errors import PolicyError
from paceline.policies.vllm import vllm
from paceline.policy import Expr, Policy, Reports, Scheduler, inst, maximum, pick, where
from paceline.policy.rules import Pick

__all__ = ["balancer_rule", "vllm_balancer"]


@typed(PolicyError)
def balancer_rule(version: Literal["0.33", "0.11"], clients: int, kv_usage: Expr) -> Pick:
    """Return the rule of a version: the least score, scanned from a client's own beginning.

    Each choice since the last report counts as many requests as there are clients, as
    every client is assumed to send as many.

    Parameters
    ----------
    version
        0.11: four times the waiting requests, and the running ones; ties go to the first from the
        client's beginning. 0.33: the larger of the client's own unfinished requests,
        times the clients, and of waiting and running ones, and a penalty where requests
        wait and over half of the KV is in use; the beginning moves by one with each choice.
    clients
        API servers.
    kv_usage
        The share of the KV in use.
    """
    waiting = inst.waiting + clients * inst.routed_since_report
    if version == "0.11":
        return pick(min=4 * waiting + inst.running, ties="spread")
    penalty = where(waiting > 0, waiting * 6.0 * maximum(0, kv_usage - 0.5), 0)
    score = maximum(clients * inst.routed_requests, waiting + inst.running) + penalty
    return pick(min=score, ties="rotate")


@typed(PolicyError)
def vllm_balancer(
    *,
    version: Literal["0.33", "0.11"] = "0.33",
    clients: int = 1,
    report_s: float = 0.1,
    scheduler: Scheduler | None = None,
) -> Policy:
    """Route among data-parallel engines by waiting and running requests, as of the last report.

    Parameters
    ----------
    version
        vLLM's version, which determines the score.
    clients
        API servers (``--api-server-count``), each with a view of its own; request i is
        routed by client i modulo their number.
    report_s
        Seconds from one report of the engines to the next.
    scheduler
        How instances form their steps; None: as vLLM.

    Returns
    -------
    Policy
        The policy.

    Examples
    --------
    >>> vllm_balancer(version="0.11").on_arrival
    pick(min=4 * (inst.waiting + 1 * inst.routed_since_report) + inst.running, ties='spread')

    Notes
    -----
    Source: vLLM 0.11.0 and 0.33.0, ``v1/engine/core_client.py``
    (``DPLBAsyncMPClient.get_core_engine_for_request``). The engine makes every decision in
    the logs of that code under ``tests/conformance/logs/routers/vllm_dplb_*`` by
    `balancer_rule`. Differences: the coordinator publishes at most every 100 ms and only
    after a change, here engines report every `report_s`; engines do not step together
    unless ``Cluster(lockstep=True)``; the engine started last in a wave is not favoured.
    """
    return Policy(
        name="vllm-balancer",
        scheduler=vllm(version=version).scheduler if scheduler is None else scheduler,
        on_arrival=balancer_rule(version, clients, inst.kv_usage),
        reports=Reports(every=report_s),
        routers=clients,
    )
