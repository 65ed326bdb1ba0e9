"""vllm-ltr's scheduler, which ranks by a predicted score."""

from __future__ import annotations

from paceline._arguments import typed
from paceline.errors import PolicyError
from paceline.policies.vllm_v0 import chunked_stages
from paceline.policy import Class, Policy, Rule, Scheduler, Swap, req
from paceline.policy.stages import PcieSwap, Recompute

__all__ = ["vllm_ltr"]


@typed(PolicyError)
def vllm_ltr(
    *,
    starved_steps: int = 200,
    hold: int = 10,
    preemption: Recompute | Swap | PcieSwap | None = None,
    max_num_batched_tokens: int = 512,
    max_num_seqs: int = 256,
    watermark: float = 0.01,
    routing: Rule = "fewest_requests",
) -> Policy:
    """Run those with the best score, whoever ran before; let in for a while who waited too long.

    Parameters
    ----------
    starved_steps
        Steps without a turn after which a request goes before all others.
    hold
        Tokens for which it keeps that place.
    preemption
        What becomes of the memory of those put out; None: a swap over PCIe to
        512 GiB of CPU memory a GPU.
    max_num_batched_tokens, max_num_seqs, watermark
        Limits of a step, and the share of blocks that admissions leave free.
    routing
        Which instance an arrival joins.

    Returns
    -------
    Policy
        The policy. It looks at the trace's ``score``, the smallest first.

    Examples
    --------
    >>> vllm_ltr().scheduler.classes
    (Class('starving', when=req.idle_steps >= 200, hold=10),)

    Notes
    -----
    Source: Fu et al., "Efficient LLM Scheduling by Learning to Rank" (NeurIPS
    2024), hao-ai-lab/vllm-ltr (13bbf6ff), with its option starv200-period10.
    Other than there: its score is higher for shorter outputs, a trace's is lower;
    the period counts scheduled steps there and tokens here, which differ while a
    prompt is cut. Those who decode have their tokens before prompts do, and who is
    put out for a seat gives its memory up; the code hands seats and tokens out in
    the order of ranks, running or not, and whoever gets none sits the step out
    with its memory, which others may need later. So a prompt with a good score
    delays the tokens of those who rank behind it more there than here.
    """
    return Policy(
        name="vllm-ltr",
        scheduler=Scheduler(
            max_num_batched_tokens=max_num_batched_tokens,
            max_num_seqs=max_num_seqs,
            stages=chunked_stages(),
            classes=[Class("starving", when=req.idle_steps >= starved_steps, hold=hold)],
            order=req.score,
            admission="displace",
            allocation="sequence",
            watermark=watermark,
            watermark_when_idle=True,
            preemption=preemption or Swap.over_pcie(cpu_gib=512),
        ),
        on_arrival=routing,
    )
