"""Static batching, as FasterTransformer serves."""

from __future__ import annotations

from paceline._arguments import typed
from paceline.errors import PolicyError
from paceline.policy import Policy, Routing, Scheduler
from paceline.policy.scheduler import NO_LIMIT, QueueOrder
from paceline.policy.stages import Admit, Gather, Running

__all__ = ["static"]


@typed(PolicyError)
def static(
    *,
    size: int = 8,
    wait_s: float = 0.1,
    order: QueueOrder = "arrival",
    routing: Routing = "fewest_requests",
) -> Policy:
    """Gather a batch, run it to its end, and only then start the next one.

    A batch starts when nothing runs and either ``size`` requests wait or the head
    of the queue has waited ``wait_s``. No request joins a running batch.

    Parameters
    ----------
    size
        Requests of a full batch.
    wait_s
        Seconds from its arrival that the head of the queue waits for a full batch
        while nothing runs; 0: a batch is all requests that wait.
    order
        The order of the queue, such as ``"score"``; the head is the first in it.
    routing
        Which instance an arrival joins.

    Returns
    -------
    Policy
        The policy.

    Raises
    ------
    PolicyError
        If ``size`` is not 1 or more, or ``wait_s`` not 0 or more.

    Examples
    --------
    >>> static(size=4, wait_s=0.05).scheduler.stages[1].gather
    Gather(size=4, wait_s=0.05)

    Notes
    -----
    Source: FasterTransformer behind Triton's dynamic batcher (its
    ``max_batch_size`` and ``max_queue_delay_microseconds``), as section 2 of the
    Orca paper describes it. FasterTransformer pads prompts to the longest,
    computes finished requests on, and returns all outputs when the last request
    finishes; here each request computes its own tokens and leaves with its last.
    FasterTransformer reserves memory in full; here, if blocks run out, the request
    admitted last is preempted and starts over with the next batch.
    """
    gather = Gather(size=size, wait_s=wait_s)
    scheduler = Scheduler(
        max_num_batched_tokens=NO_LIMIT,
        max_num_seqs=size,
        stages=(Running(), Admit(chunked=False, unless_preempted=True, gather=gather)),
        allocation="sequence",
        order=order,
    )
    return Policy(name="static", scheduler=scheduler, on_arrival=routing)
