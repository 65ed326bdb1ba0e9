"""Flow control of a gateway: priority bands, fairness between flows, an order within a flow."""

from __future__ import annotations

from typing import Literal

from paceline._arguments import typed
from paceline.errors import PolicyError
from paceline.policy import Expr, Policy, Rule, Scheduler, accumulated, req

__all__ = ["flow_control"]

_HALF_LIFE_S = 60.0


@typed(PolicyError)
def flow_control(
    *,
    fairness: Literal["global_strict", "round_robin", "least_service"] = "global_strict",
    ordering: Literal["fcfs", "deadline"] = "fcfs",
    deadline: str = "slo_ttft",
    bands: bool = True,
    max_num_batched_tokens: int | None = None,
    max_num_seqs: int | None = None,
    routing: Rule = "fewest_requests",
) -> Policy:
    """Admit from the best band of priorities, fairly between tenants, in an order within a tenant.

    Parameters
    ----------
    fairness
        The tenant whose request is next: that of the first request in the order
        (``global_strict``); each in turn (``round_robin``): the one of which the
        fewest requests were admitted since it came back; or the one that has received the
        least service (``least_service``): prompt tokens, and twice the output tokens, of
        requests that have finished, of which half count after each 60 s.
    ordering
        Within a tenant: by arrival (``fcfs``), or by arrival plus `deadline`, the
        earliest first.
    deadline
        Column of the trace with seconds from the arrival to the deadline, as of
        ``x-llm-d-slo-ttft-ms`` or a request's time to live. A request without one is last.
    bands
        Whether requests of a smaller ``priority`` are always before others.
    max_num_batched_tokens, max_num_seqs
        Limits of a step; None: the GPU's defaults.
    routing
        Which instance an arrival joins.

    Returns
    -------
    Policy
        The policy. It reads the trace's ``tenant``, unless `fairness` is ``global_strict``,
        its ``priority`` with `bands`, and the column `deadline` if `ordering` asks for it.

    Examples
    --------
    >>> flow_control(fairness="round_robin", ordering="deadline", bands=False).scheduler.order[1]
    req.arrival + req.column('slo_ttft')

    Notes
    -----
    Source: llm-d/llm-d-router, ``pkg/epp/flowcontrol`` and
    ``pkg/epp/framework/plugins/flowcontrol`` (2026-08-22). Different from it: the queue is that of
    an instance, where its seats and blocks say when the next request is admitted, and not
    a gateway's with a saturation detector (`llm_d` has that); priorities are numbers of
    which the smallest is first; `round_robin` goes by counts, as a cursor over sorted flows
    has no state here; `least_service` leaves out the fifth of the score that
    is the wait of a flow's head, as ranges over all flows normalise it; no request of a sheddable band
    is evicted.
    """
    fair: dict[str, list[Expr]] = {
        "global_strict": [],
        "round_robin": [accumulated(by="tenant", request=1.0, lift="waiting")],
        "least_service": [
            accumulated(by="tenant", prompt=1.0, output=2.0, when="finished", half_life=_HALF_LIFE_S)
        ],
    }
    order: list[Expr] = [req.priority] if bands else []
    order += fair[fairness]
    order.append(req.arrival if ordering == "fcfs" else req.arrival + req.column(deadline))
    return Policy(
        name="flow_control",
        scheduler=Scheduler(
            max_num_batched_tokens=max_num_batched_tokens,
            max_num_seqs=max_num_seqs,
            order=tuple(order),
        ),
        on_arrival=routing,
    )
