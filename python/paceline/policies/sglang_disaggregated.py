"""SGLang with prefill and decode on separate instances."""

from __future__ import annotations

import dataclasses
from typing import Literal

from paceline._arguments import typed
from paceline.errors import PolicyError
from paceline.policies.sglang import sglang
from paceline.policy import Handover, Policy, Pools, Scheduler, Swap, SwapIn, round_robin
from paceline.policy.scheduler import NO_LIMIT
from paceline.policy.stages import PcieSwap

__all__ = ["decodes_alone", "handover_of", "prefills_alone", "sglang_disaggregated"]


@typed(PolicyError)
def sglang_disaggregated(
    *,
    prefill: int = 1,
    decode: int = 1,
    chunked_prefill_size: int = 8192,
    max_running_requests: int = 2048,
    prefix_caching: bool = True,
    decode_radix_cache: bool = False,
    decode_allocation_policy: Literal["early", "prefill_complete"] = "early",
    num_reserved_decode_tokens: int = 512,
    retraction_backup: Swap | PcieSwap | None = None,
    schedule_conservativeness: float = 1.0,
    overlap_schedule: bool = True,
) -> Policy:
    """Prefill on the first instances in turn, and decode on the others in turn, as SGLang does.

    Parameters
    ----------
    prefill, decode
        Instances of each pool, in this order in the cluster.
    chunked_prefill_size
        Tokens of a prefill step.
    max_running_requests
        Requests that may run at once on an instance; on one that decodes, those that
        were accepted count, too.
    prefix_caching
        Whether instances that prefill have a `RadixTree`, for traces that say what
        prompts share. A prompt is locked there until its KV has been sent.
    decode_radix_cache
        Whether those that decode have one (``--disaggregation-decode-enable-radix-cache``):
        they are sent what it lacks.
    decode_allocation_policy
        When the instance that decodes allocates the KV of a request
        (``--disaggregation-decode-allocation-policy``): as it arrives, so that its prompt is
        queued once that is done, or once its prompt is computed.
    num_reserved_decode_tokens
        Tokens that an acceptance leaves for each request that runs or was accepted
        (``--num-reserved-decode-tokens``), and a request that was retracted for each of those
        and for itself as it returns.
    retraction_backup
        The host's memory for the KV of requests that are retracted where they decode, such as
        ``Swap.over_pcie(cpu_gib=64)``; None: of any size, and copies take no time.
    schedule_conservativeness
        As of :func:`sglang`.
    overlap_schedule
        Whether steps are decided as the ones before them start.

    Returns
    -------
    Policy
        The policy, for a cluster of ``prefill + decode`` instances with `Links`.

    Raises
    ------
    PolicyError
        If a value is out of range.

    Examples
    --------
    >>> sglang_disaggregated(prefill=2, decode=1).handover.reserve_tokens
    512

    Notes
    -----
    Source: SGLang 0.5.23, ``srt/disaggregation/prefill.py`` and ``decode.py``. Decisions of two instances
    that hand requests over, and of one of either kind, with a tree and without, are those of logs that its
    own code made (``tests/conformance/logs/sglang``). `docs/guides/disaggregation.md` says what differs:
    the KV of a request is sent in one piece. Where requests decode, a step of the overlapped schedule
    computes one more token of those that end with the one before it, as SGLang's loop there does.
    """
    early = decode_allocation_policy == "early"
    one, other = (
        sglang(
            chunked_prefill_size=chunked_prefill_size,
            max_running_requests=max_running_requests,
            schedule_conservativeness=schedule_conservativeness,
            overlap_schedule=overlap_schedule,
            prefix_caching=caches,
        ).scheduler_of(0)
        for caches in (prefix_caching, decode_radix_cache)
    )
    return Policy(
        name="sglang-disaggregated",
        scheduler={"prefill": prefills_alone(one), "decode": decodes_alone(other, retraction_backup)},
        pools=Pools(prefill=prefill, decode=decode),
        on_arrival=round_robin(within="prefill"),
        decode_on_arrival=round_robin(within="decode"),
        handover=dataclasses.replace(
            handover_of(num_reserved_decode_tokens), offer="arrival" if early else "prefilled"
        ),
    )


def prefills_alone(scheduler: Scheduler) -> Scheduler:
    """Return a scheduler of an instance that only prefills: requests end there with their first token."""
    reserve = scheduler.output_reserve
    assert reserve is not None
    return dataclasses.replace(scheduler, output_reserve=dataclasses.replace(reserve, clip=1))


def decodes_alone(scheduler: Scheduler, backup: Swap | PcieSwap | None = None) -> Scheduler:
    """Return a scheduler of an instance that only decodes: what it retracts stays in the host's memory."""
    return dataclasses.replace(
        scheduler,
        stages=(SwapIn(), *scheduler.stages),
        preemption=Swap(cpu_blocks=NO_LIMIT) if backup is None else backup,
        unseen_ends=scheduler.schedule_ahead,
    )


def handover_of(reserved: int) -> Handover:
    """Return the rules of a hand-over, with tokens that are left for each request that decodes."""
    return Handover(lease=None, reserve_tokens=reserved)
