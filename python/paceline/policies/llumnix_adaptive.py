"""Llumnix' adaptive prefill and decode: instances decode when requests are packed on them."""

from __future__ import annotations

from paceline._arguments import typed
from paceline._check import said
from paceline.errors import PolicyError
from paceline.objectives import SLO
from paceline.policies.vllm import vllm
from paceline.policy import (
    Expr,
    Live,
    Policy,
    Pools,
    Scheduler,
    first_of,
    inst,
    migrate,
    pick,
    req,
    slo,
    where,
)
from paceline.policy.expressions.namespaces import Instance

__all__ = ["llumnix_adaptive"]


@typed(PolicyError)
def llumnix_adaptive(
    *,
    instances: int = 4,
    tpot: float = 0.05,
    dispatch_below: float = 0.85,
    ceiling: float = 0.95,
    floor: float = 0.60,
    period_s: float = 0.5,
    rescheduling: bool = True,
    step_s: float = 0.0075,
    request_s: float = 0.0,
    token_s: float = 4.5e-8,
    scheduler: Scheduler | None = None,
) -> Policy:
    """Pack requests that decode on few instances, and prefill on those where none decodes.

    The first instance is reserved for prefill and the last for decode; the others do
    either. A request prefills where no request decodes, on the instance with the lowest predicted
    TTFT. It decodes on the instance with the highest predicted TPOT of those below the
    bound with it; if only instances without decodes are, that with the lowest predicted
    TTFT, which thereby decodes; if none is below, on that with the lowest TPOT.
    Monitors migrate requests from instances above the ceiling, and from those below the
    floor, so that these become empty.

    Parameters
    ----------
    instances
        All instances, 2 or more.
    tpot
        The objective in seconds.
    dispatch_below, ceiling, floor
        Shares of it: the bound of dispatch, that above which an instance is a source of
        migrations, and that below which it is.
    period_s
        Seconds between two evaluations of the monitors.
    rescheduling
        Whether requests that decode migrate.
    step_s, request_s, token_s
        The prediction of TPOT: seconds of a step, for each request, and for each token of
        context, by default those of `arrow_xllm`.
    scheduler
        How instances form their steps; None: as vLLM.

    Returns
    -------
    Policy
        The policy, for a cluster of `instances` instances with `Links`.

    Raises
    ------
    PolicyError
        If there are fewer than two instances.

    Examples
    --------
    >>> llumnix_adaptive(instances=6).pools
    Pools(prefill=1, adaptive=4, decode=1)

    Notes
    -----
    Source: llumnix-project/llumnix at b7e136e8, ``pkg/scheduler/policy``
    (``configureAdaptivePDForSlo``, ``sloPrefillApdSelector``, ``sloDecodeApdSelector``, and in
    ``rescheduling_policy_registry.go`` at 45e8301a ``BinPackingMitigation`` and
    ``BinPackingConsolidation``). No instance changes its pool: whether it prefills follows from
    its decodes. Differences: this is the strategy that the code's comments describe; the code
    of that commit picks the reserved decode instance first wherever it is below the bound, skips
    instances with a predicted TTFT above the bound of TPOT unless none is left, and leaves the
    bound out when it falls back, so that it then balances. TPOT is linear in requests and tokens,
    where the source interpolates a profile; TTFT is the prefill queued and, on arrival, the request's own.
    The request that migrates is the shortest that decodes, as in Llumnix' first version.
    Consolidation migrates only towards a higher TPOT.
    """
    if instances < 2:
        raise PolicyError(f"instances of llumnix_adaptive must be 2 or more, was {said(instances)}")
    if instances == 2:
        pools = Pools(prefill=1, decode=1)
    else:
        pools = Pools(prefill=1, adaptive=instances - 2, decode=1)
    prefills = tuple(name for name in pools.names if name != "decode")
    decodes = tuple(name for name in pools.names if name != "prefill")

    def predicted(of: Instance, requests: Expr | int = 0, tokens: Expr | int = 0) -> Expr:
        """Return the TPOT of an instance with some more requests, of so many tokens."""
        held = where(of.decoding_requests == 0, 0, of.outstanding_tokens)
        return step_s + request_s * (of.decoding_requests + requests) + token_s * (held + tokens)

    elsewhere = inst.index != inst.here.index
    after = predicted(inst, where(elsewhere, 1, 0), where(elsewhere, req.context_tokens, 0))
    now = predicted(inst)
    bound = slo.tpot * dispatch_below
    below = now < bound
    choose = pick(min=req.context_tokens, where=req.running & (req.phase != "prefill"))
    live = Live(stages=3, last_blocks=16)
    mitigate = migrate(
        source=pick(max=now, within=decodes, where=now >= slo.tpot * ceiling),
        target=pick(max=now, within=decodes, where=below),
        choose=choose,
        live=live,
    )
    consolidate = migrate(
        source=pick(min=now, within=prefills, where=(now < slo.tpot * floor) & (inst.decoding_requests > 0)),
        target=pick(max=now, within=decodes, where=below & (inst.decoding_requests > 0)),
        choose=choose,
        when=predicted(inst.here) < predicted(inst.there),
        live=live,
    )
    actions = [mitigate] if instances == 2 else [mitigate, consolidate]
    return Policy(
        name="llumnix-adaptive",
        scheduler=vllm().scheduler if scheduler is None else scheduler,
        pools=pools,
        on_arrival=first_of(
            pick(
                min=[inst.prefill_delay + inst.prefill_time(req), where(inst.role == "prefill", 0, 1)],
                within=prefills,
                where=inst.decoding_requests == 0,
            ),
            pick(min=inst.prefill_delay, within="prefill"),
        ),
        on_prefilled=first_of(
            pick(
                max=[after, -inst.prefill_delay, where(inst.role == "decode", 1, 0)],
                within=decodes,
                where=after < bound,
            ),
            pick(min=after, within=decodes),
        ),
        every={period_s: actions} if rescheduling else {},
        slo=SLO(tpot=tpot),
    )
