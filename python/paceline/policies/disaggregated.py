"""Prefill and decode on separate instances, as vLLM's proxies send requests."""

from __future__ import annotations

from typing import Literal

from paceline._arguments import typed
from paceline.errors import PolicyError
from paceline.policy import Handover, Policy, Pools, Scheduler, round_robin

__all__ = ["disaggregated"]


@typed(PolicyError)
def disaggregated(
    *,
    prefill: int = 1,
    decode: int = 1,
    proxy: Literal["nixl", "p2p_nccl"] = "nixl",
    scheduler: Scheduler | None = None,
    prefill_scheduler: Scheduler | None = None,
    handover: Handover | None = None,
) -> Policy:
    """Prefill on the first instances in turn, and decode on the others in turn.

    Parameters
    ----------
    prefill, decode
        Instances of each pool, in this order in the cluster.
    proxy
        When a request's decode instance has its turn: as its prefill ends
        (``nixl``), or as it arrives (``p2p_nccl``).
    scheduler
        How instances form their steps; None: as vLLM.
    prefill_scheduler
        How those of the prefill pool do; None: as the others.
    handover
        When blocks are allocated and freed; None: as vLLM's NIXL connector, where
        the decode instance allocates and then reads.

    Returns
    -------
    Policy
        The policy, for a cluster of ``prefill + decode`` instances with `Links`.

    Examples
    --------
    >>> disaggregated(prefill=2, decode=1).on_prefilled
    round_robin(within='decode')

    Notes
    -----
    Source: vLLM's ``toy_proxy_server.py`` of the NIXL connector (030ea52) and
    ``disagg_proxy_p2p_nccl_xpyd.py`` (057847c). All logs of both in
    ``tests/conformance/logs/routers`` are reproduced with these rules. The P2P NCCL
    connector pushes the KV of each layer as the last step of a prompt computes it:
    ``handover=Handover(lease=None, overlap="layers")``. Its receiver has a buffer
    beside the blocks, and drops what finds no room there, which is not modelled.
    """
    base = Scheduler() if scheduler is None else scheduler
    own = {} if prefill_scheduler is None else {"prefill": prefill_scheduler, "decode": base}
    turn, early = round_robin(within="decode"), proxy == "p2p_nccl"
    return Policy(
        name="disaggregated",
        scheduler=own or base,
        pools=Pools(prefill=prefill, decode=decode),
        on_arrival=round_robin(within="prefill"),
        decode_on_arrival=turn if early else None,
        on_prefilled=None if early else turn,
        handover=Handover() if handover is None else handover,
    )
