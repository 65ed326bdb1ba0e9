"""vllm-ltr's scheduler, which ranks by a predicted score."""

from __future__ import annotations

from paceline._arguments import typed
from paceline.errors import PolicyError
from paceline.policies.ranked import ranked_scheduler
from paceline.policy import Class, Policy, Rule, Select, req
from paceline.policy.stages import Preemption

__all__ = ["vllm_ltr"]


@typed(PolicyError)
def vllm_ltr(
    *,
    starved_steps: int = 200,
    hold: int = 10,
    preemption: Preemption | None = None,
    max_num_batched_tokens: int = 512,
    max_num_seqs: int = 256,
    watermark: float = 0.01,
    routing: Rule = "fewest_requests",
) -> Policy:
    """Run the requests with the best scores at each step, and for a while those that were idle too long.

    The requests of each step are selected anew by rank, whether they run, wait or
    are swapped out. A request that is left out keeps its memory until a selected one
    needs it.

    Parameters
    ----------
    starved_steps
        Steps without a token to compute after which a request ranks before all
        others.
    hold
        Steps that run it before it loses that rank.
    preemption
        What happens to the KV of a preempted request; None: a swap over PCIe to
        512 GiB of CPU memory a GPU.
    max_num_batched_tokens, max_num_seqs, watermark
        Limits of a step, and the share of blocks that admissions leave free.
    routing
        Which instance an arrival joins.

    Returns
    -------
    Policy
        The policy. It reads the trace's ``score``, the smallest first.

    Examples
    --------
    >>> vllm_ltr().scheduler.classes
    (Class('starving', when=req.idle_steps >= 200, hold_steps=10),)

    Notes
    -----
    Source: Fu et al., "Efficient LLM Scheduling by Learning to Rank" (NeurIPS
    2024), hao-ai-lab/vllm-ltr (8886f1e8), with its option starv200-period10.
    ``_general_schedule`` in ``vllm/core/scheduler.py`` selects by tokens and seats,
    counts one block for each selected request that has KV whether it needs one or
    not, and then preempts from the worst rank. Differences: its score is higher for
    shorter outputs, a trace's is lower; equal scores rank by arrival, there by
    queue; a request that is promoted and then idle again for as long is promoted for
    ``hold`` more steps there, here it keeps the rest of them; a prompt that is
    swapped out half computed takes the blocks of its computed tokens along, there
    those of the whole prompt; and where the CPU's memory is full, KV is computed
    again, where the code stops with an error.
    """
    return Policy(
        name="vllm-ltr",
        scheduler=ranked_scheduler(
            req.score,
            max_num_batched_tokens=max_num_batched_tokens,
            max_num_seqs=max_num_seqs,
            classes=[Class("starving", when=req.idle_steps >= starved_steps, hold_steps=hold)],
            watermark=watermark,
            select=Select(),
            spare_block=True,
            preemption=preemption,
        ),
        on_arrival=routing,
    )
