"""Arrow as its authors' xLLM-service implements it."""

from __future__ import annotations

from paceline._arguments import typed
from paceline.errors import PolicyError
from paceline.objectives import SLO
from paceline.policy import Policy, Pools, Scheduler, cluster, first_of, flip, inst, pick, req, slo, where

__all__ = ["arrow_xllm"]

_NONE = 1e9
"""In place of the index of an instance, where none meets the objective."""


@typed(PolicyError)
def arrow_xllm(
    *,
    prefill: int = 4,
    decode: int = 4,
    ttft: float = 1.0,
    tpot: float = 0.05,
    step_s: float = 0.0075,
    request_s: float = 0.0,
    token_s: float = 4.5e-8,
    period_s: float = 0.05,
    scheduler: Scheduler | None = None,
) -> Policy:
    """Route by predicted backlog and TPOT, and flip instances between two pools.

    A request decodes on the first decode instance whose predicted TPOT meets the
    objective with it, else on that with the least. It prefills on the instance with
    the least prefill queued; or, if that exceeds the TTFT objective, on a decode
    instance with time to spare. If no decode instance meets the objective, that
    prefill instance is flipped to decode. A decode instance without requests is
    flipped to prefill.

    Parameters
    ----------
    prefill, decode
        Instances of each pool at the start.
    ttft, tpot
        The objectives in seconds (``target_ttft``, ``target_tpot``).
    step_s, request_s, token_s
        The prediction of TPOT: seconds of a step, for each request, and for each token
        of context. The source fits them to a profile of each instance; these
        are Llama-3.1-8B on an H800.
    period_s
        Seconds between two looks for decode instances without requests.
    scheduler
        How instances form their steps; None: as vLLM.

    Returns
    -------
    Policy
        The policy, for a cluster of ``prefill + decode`` instances with `Links`.

    Examples
    --------
    >>> arrow_xllm().slo
    SLO(ttft=1.0, tpot=0.05)

    Notes
    -----
    Source: jd-opensource/xllm-service at c8033e00, ``instance_mgr.cpp``
    (``select_instance_pair_on_slo``, ``update_request_metrics``) and
    ``time_predictor.cpp``. Differences: the source looks for decode instances without
    requests whenever a request ends or a prefill does, here a monitor does; the
    source counts a request at its decode instance from its arrival on, here from
    the end of its prefill; its TTFT predictor is a quadratic fit, here the cost
    model; the order of decode instances is that of the cluster, not that in
    which they became decode instances; averages of backlogs are not truncated
    to milliseconds.
    """
    after = step_s + request_s * (inst.requests + 1) + token_s * (inst.outstanding_tokens + req.prompt_tokens)
    meets = after <= slo.tpot
    first = cluster.min(where(meets, inst.index, _NONE), within="decode")
    count_p, count_d = cluster.count(within="prefill"), cluster.count(within="decode")
    least = cluster.min(inst.prefill_delay, within="prefill")
    spare = (
        (least > slo.ttft)
        & (inst.index != first)
        & (after < slo.tpot * ((count_d - 1) / count_d))
        & (inst.prefill_delay < least)
    )
    backlog = cluster.mean(inst.prefill_delay, within="prefill")
    short = (first == _NONE) & ((backlog < slo.ttft * ((count_p - 1) / count_p)) | (count_d < count_p))
    shortest = pick(min=inst.prefill_delay, within="prefill")
    idle = pick(min=inst.index, within="decode", where=inst.requests == 0)
    return Policy(
        name="arrow-xllm",
        scheduler=Scheduler() if scheduler is None else scheduler,
        pools=Pools(prefill=prefill, decode=decode),
        on_arrival=first_of(
            pick(min=after, within="decode", accept=spare),
            flip(shortest, to="decode", when=short),
            shortest,
        ),
        # Without the prefill instance, which was flipped after the source had chosen.
        decode_on_arrival=first_of(
            pick(min=inst.index, within="decode", where=meets & (inst.index != inst.here.index)),
            pick(min=after, within="decode", where=inst.index != inst.here.index),
        ),
        every={period_s: [flip(idle, to="prefill")]},
        slo=SLO(ttft=ttft, tpot=tpot),
    )
