"""The virtual token counter: fair shares of service for tenants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from paceline._arguments import typed
from paceline.errors import PolicyError
from paceline.policy import Policy, Rule, Scheduler, accumulated

__all__ = ["vtc"]


@typed(PolicyError)
def vtc(
    *,
    input_weight: float = 1.0,
    output_weight: float = 2.0,
    shares: Mapping[str, float] | None = None,
    lift: Literal["artifact", "paper", "none"] = "artifact",
    max_num_batched_tokens: int | None = None,
    max_num_seqs: int | None = None,
    routing: Rule = "fewest_requests",
) -> Policy:
    """Admit next the oldest request of the tenant that has received the least service.

    A tenant's counter is charged for a prompt as its request is admitted, and for each
    output token as it appears. Running requests are not displaced. If the next request
    does not fit, no other tenant's is admitted before it.

    Parameters
    ----------
    input_weight, output_weight
        Charges for a token of a prompt, and of an output.
    shares
        Weights of tenants, by name; 1 where none is given. A tenant with weight 2 may
        receive twice the service.
    lift
        What a tenant's counter rises to as it comes back without a waiting request:
        the smallest counter of the other tenants with waiting requests; if no request
        waits, it stays (``artifact``), or rises to the counter of the tenant whose
        request left the queue last (``paper``). ``none``: it stays always (the
        paper's LCF), so that a tenant that was idle monopolises the instance.
    max_num_batched_tokens, max_num_seqs
        Limits of a step; None: the GPU's defaults.
    routing
        Which instance an arrival joins. Each instance has counters of its own.

    Returns
    -------
    Policy
        The policy. It reads the trace's ``tenant``.

    Examples
    --------
    >>> vtc().scheduler.order
    accumulated(by='tenant', prompt=1.0, output=2.0, lift='waiting')

    Notes
    -----
    Source: Sheng et al., "Fairness in Serving Large Language Models" (OSDI 2024,
    arXiv 2401.00588), algorithm 2; Ying1123/VTC-artifact,
    ``slora/server/router/vtc_req_queue.py``. Different from it: of tenants with
    equal counters the one with the oldest request is first, where the artifact takes
    the one that it has known for longest; a request that was preempted, which the
    artifact does not do, is not charged for its prompt again, and waits with its
    tenant's others; blocks are allocated as vLLM does, and not for the longest output.
    """
    rule = {"artifact": "waiting", "paper": "waiting_or_last", "none": "none"}[lift]
    service = accumulated(
        by="tenant",
        prompt=input_weight,
        output=output_weight,
        weights=shares or (),
        lift=rule,  # type: ignore[arg-type]  # one of its words, by the line above
    )
    return Policy(
        name="vtc",
        scheduler=Scheduler(
            max_num_batched_tokens=max_num_batched_tokens,
            max_num_seqs=max_num_seqs,
            order=service,
        ),
        on_arrival=routing,
    )
