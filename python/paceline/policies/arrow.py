"""Arrow: instances that change between prefill and decode by the objectives."""

from __future__ import annotations

from typing import Literal

from paceline._arguments import typed
from paceline._check import fraction
from paceline.errors import ConfigError, PolicyError
from paceline.objectives import SLO
from paceline.policies.vllm_v0 import vllm_v0
from paceline.policy import (
    Expr,
    Policy,
    Pools,
    Scheduler,
    cluster,
    first_of,
    flip,
    inst,
    pick,
    req,
    round_robin,
    slo,
    stay,
    where,
)
from paceline.policy.flips import Flip
from paceline.policy.rules import When

__all__ = ["arrow"]

_P, _D, _PD, _DP = "prefill", "decode", "prefill→decode", "decode→prefill"


@typed(PolicyError)
def arrow(
    *,
    prefill: int = 4,
    decode: int = 4,
    ttft: float = 2.0,
    tpot: float = 0.15,
    scheduling: Literal["slo_aware", "minimal_load", "round_robin"] = "slo_aware",
    max_running_tokens: int | None = None,
    load: Literal["running", "assigned"] = "assigned",
    low: float = 0.5,
    busy: float = 0.5,
    period_s: float = 1.0,
    scheduler: Scheduler | None = None,
) -> Policy:
    """Route by predicted TTFT and measured token intervals, and flip instances where they miss objectives.

    An arrival joins the prefill instance with the least prefill queued, if it meets
    the TTFT objective there, else one on its way to prefill, else a decode
    instance that is flipped for it while decode load is low (Algorithms 1 and 3).
    A prefilled request stays if its instance has been flipped to decode. Else it
    joins the decode instance with the fewest tokens, if that has room and meets
    the TPOT objective, else one on its way to decode, else a prefill instance
    that is flipped for it (Algorithms 2 and 4).

    Parameters
    ----------
    prefill, decode
        Instances of each pool at the start; the paper gives no numbers. With two or
        more of each, neither pool stays without one.
    ttft, tpot
        The objectives in seconds; by default of the paper's Azure conversation.
    scheduling
        ``slo_aware`` is Arrow. ``minimal_load`` and ``round_robin`` are its
        ablations (7.3), in which no instance is flipped.
    max_running_tokens
        Tokens of requests above which an instance gets no more decodes; None: as
        many as its KV cache holds. The paper takes the smaller of this and of the
        tokens whose step meets the TPOT objective. Set it where a full cache
        makes steps longer than `tpot`.
    load
        The decode load: tokens of ``running`` requests, as Algorithm 2 calls them,
        or of all requests ``assigned`` to the instance. The scheduler assigns them
        itself, so it knows those whose KV is on its way. If it left them out, two
        prefills that end together would go to the same instance.
    low
        The decode load is low if its mean over decode instances is below this share
        of `max_running_tokens`. The paper has no figure.
    busy
        Decode is busy if the mean load is at least this share. The paper has no
        figure. With `low`, an instance that prefill has just returned is not
        flipped back by the monitor.
    period_s
        Seconds between two evaluations of the monitor. The paper has no figure. Its
        intervals are over 64 steps, which take about a second near the objectives.
    scheduler
        How instances form their steps; None: as vLLM V0, on which the authors
        built: chunked prefill after decodes, with the defaults of 0.7.3, 2,048
        tokens and 256 requests in a step.

    Returns
    -------
    Policy
        The policy, for a cluster of ``prefill + decode`` instances with `Links`.

    Raises
    ------
    PolicyError
        If a parameter is out of range.

    Examples
    --------
    >>> arrow(prefill=2, decode=2).pools.leaving.keys()
    dict_keys(['prefill→decode', 'decode→prefill'])
    >>> arrow(scheduling="minimal_load").on_arrival
    pick(min=inst.prefill_delay, within='prefill')

    Notes
    -----
    Source: Wu et al., "Arrow: Adaptive Scheduling Mechanisms for Disaggregated LLM
    Inference Architecture" (arXiv:2505.11916), sections 5.3 to 5.5; there is no
    public code of this form. If all prefill instances are on their way there, the
    paper's last resort t1 does not exist, and the best of these takes the request.
    If loads in the last line of Algorithm 2 are equal, the decode pool comes first.
    ``paceline study arrow`` says what each choice changes.
    """
    try:
        fraction("low of arrow", low)
        fraction("busy of arrow", busy)
    except ConfigError as error:
        raise PolicyError(str(error)) from None
    chunked = vllm_v0(chunked_prefill=True, max_num_batched_tokens=2048, max_num_seqs=256).scheduler
    local = chunked if scheduler is None else scheduler
    objectives = SLO(ttft=ttft, tpot=tpot)
    tokens = inst.outstanding_tokens if load == "assigned" else inst.running_tokens
    if scheduling != "slo_aware":
        turns = scheduling == "round_robin"
        return Policy(
            name=f"arrow-{scheduling.replace('_', '-')}",
            scheduler=local,
            pools=Pools(prefill=prefill, decode=decode),
            on_arrival=round_robin(within=_P) if turns else pick(min=inst.prefill_delay, within=_P),
            on_prefilled=round_robin(within=_D) if turns else pick(min=tokens, within=_D),
            slo=objectives,
        )
    most = inst.total_blocks * inst.block_tokens if max_running_tokens is None else max_running_tokens
    share = cluster.mean(tokens / most, within=(_D, _PD))
    soon = inst.prefill_delay + inst.prefill_time(req) <= slo.ttft
    room = (tokens <= most) & (inst.mean_token_interval <= slo.tpot)
    late = cluster.mean(inst.mean_token_interval, within=_D) > slo.tpot
    return Policy(
        name="arrow",
        scheduler=local,
        pools=Pools(
            prefill=prefill,
            decode=decode,
            leaving={_PD: inst.prefilling_requests == 0, _DP: inst.decoding_requests == 0},
        ),
        # Algorithm 1; its last line if the prefill pool is empty.
        on_arrival=first_of(
            pick(min=inst.prefill_delay, within=_P, accept=soon),
            pick(min=inst.prefill_delay, within=_DP, accept=soon),
            _moved(tokens, (_PD, _D), _P).when(share < low),
            pick(min=inst.prefill_delay, within=_P),
            pick(min=inst.prefill_delay, within=_DP),
        ),
        # Algorithm 2
        on_prefilled=first_of(
            stay(when=inst.here.in_pool(_D, _PD)),
            pick(min=tokens, within=_D, accept=room),
            pick(min=tokens, within=_PD, accept=room),
            _moved(inst.prefill_delay, (_DP, _P), _D),
            pick(min=[tokens, where(inst.role == _D, 0, 1)], within=(_D, _PD)),
        ),
        # Section 5.5: situations (2) and (3) of flips to decode
        every={
            period_s: [
                _moved(inst.prefill_delay, (_DP, _P), _D).when(late),
                flip(pick(min=tokens, within=_P, where=inst.requests == 0), to=_D, when=share >= busy),
            ]
        },
        slo=objectives,
    )


def _moved(load: Expr, pools: tuple[str, str], to: str) -> Flip | When:
    """Return Algorithm 3 or 4: flip the instance with the least load of the first pool that is not empty."""
    return flip(first_of(*(pick(min=load, within=pool) for pool in pools)), to=to)
