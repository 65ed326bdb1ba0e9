"""vllm-ltr's scheduler, which ranks by a predicted score."""

from __future__ import annotations

from paceline._arguments import typed
from paceline.errors import PolicyError
from paceline.policies.ranked import ranked_scheduler
from paceline.policy import Class, Policy, Rule, req
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
    """Run the requests with the best scores, and for a while those that waited too long.

    Parameters
    ----------
    starved_steps
        Steps of waiting after which a request ranks before all others.
    hold
        Tokens for which it keeps that rank.
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
    (Class('starving', when=req.idle_steps >= 200, hold=10),)

    Notes
    -----
    Source: Fu et al., "Efficient LLM Scheduling by Learning to Rank" (NeurIPS
    2024), hao-ai-lab/vllm-ltr (13bbf6ff), with its option starv200-period10.
    Differences: its score is higher for shorter outputs, a trace's is lower. The
    period counts scheduled steps there and tokens here, which differ while a
    prompt is cut. Here decodes are scheduled before prompts, and a request that is
    displaced for its seat gives up its memory. The code assigns seats and tokens in
    the order of ranks, running or not, and a request that gets none keeps its
    memory, which others may need later. So a prompt with a good score delays the
    tokens of worse-ranked requests more there than here.
    """
    return Policy(
        name="vllm-ltr",
        scheduler=ranked_scheduler(
            req.score,
            max_num_batched_tokens=max_num_batched_tokens,
            max_num_seqs=max_num_seqs,
            classes=[Class("starving", when=req.idle_steps >= starved_steps, hold=hold)],
            watermark=watermark,
            preemption=preemption,
        ),
        on_arrival=routing,
    )
