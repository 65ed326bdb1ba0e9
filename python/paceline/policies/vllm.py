"""vLLM V1's scheduler."""

from __future__ import annotations

from typing import Literal

from paceline._arguments import typed
from paceline.errors import PolicyError
from paceline.policy import Policy, Routing, Scheduler
from paceline.policy.expressions.tree import Expr
from paceline.policy.loras import Loras
from paceline.policy.pipelines import Pipelined
from paceline.policy.prefix_cache import PrefixCache
from paceline.policy.stages import Admit, Running

__all__ = ["vllm"]


@typed(PolicyError)
def vllm(
    *,
    version: Literal["0.33", "0.11"] = "0.33",
    policy: Literal["fcfs", "priority"] = "fcfs",
    prefix_caching: bool | PrefixCache = False,
    max_num_batched_tokens: int | Expr | None = None,
    max_num_seqs: int | None = None,
    long_prefill_token_threshold: int | Expr = 0,
    reserve_full_prompt: bool | None = None,
    watermark: float = 0.0,
    async_scheduling: bool = False,
    pipelined: bool = True,
    loras: Loras | None = None,
    routing: Routing = "fewest_requests",
) -> Policy:
    """Schedule as vLLM V1 does: running requests first, then waiting requests are admitted.

    Parameters
    ----------
    version
        The generation. 0.11 admits a request if its first chunk fits; reuses freed
        blocks in order whether their content is known or not; and limits the
        prefill of a request that is alone, too. Under ``priority``, 0.11 does not
        return the tokens of a victim that was already scheduled to the step, and
        schedules no further running request after one that preempted itself.
    policy
        ``fcfs``, or ``priority``: the trace's column, smallest first, decides which
        request is admitted and which is preempted.
    prefix_caching
        Whether full blocks are kept for later requests that start the same.
        vLLM's default is on; here it needs a trace that says what prompts share. A
        :class:`~paceline.policy.PrefixCache` says how, and which tiers are below it.
    max_num_batched_tokens
        Tokens that one step may compute; None: the API server's default for the
        GPU (8192 on an H100, 2048 on an A100). An expression over `inst` is
        evaluated for each step, which no version of vLLM does.
    max_num_seqs
        Requests that may run at once; None: the default likewise (1024, 256).
    long_prefill_token_threshold
        The most tokens of one prefill in a step; 0: no limit. May be an expression
        likewise.
    reserve_full_prompt
        Whether a request is admitted only if its whole prompt fits
        (``scheduler_reserve_full_isl``); None: the version's default.
    watermark
        Share of the blocks that admissions leave free while something runs.
    async_scheduling
        Whether a step is decided when the one before it starts, as vLLM does by
        default since 0.14 where it can. Beside drafts the engine refuses lists of
        proposals, as vLLM refuses ngram drafters.
    pipelined
        Whether an instance with several stages (``pipeline_parallel``) has a batch in
        each, as vLLM's V1 model runner does: see
        :class:`~paceline.policy.Pipelined`. If not, a step passes all stages before
        the next one is formed. Batches that are decided ahead (vLLM's V2 model
        runner) are not modelled, so `async_scheduling` beside stages needs False.
    loras
        The adapters that run at once (``max_loras``), and the time to load one.
    routing
        Which instance an arrival joins.

    Returns
    -------
    Policy
        The policy.

    Examples
    --------
    >>> vllm(max_num_batched_tokens=2048).scheduler.max_num_batched_tokens
    2048

    Notes
    -----
    Source: ``vllm/v1/core/sched/scheduler.py`` and ``async_scheduler.py``, 0.33.0 and
    0.11.0. All decision logs in ``tests/conformance/logs/vllm``, ``vllm-pipeline`` and
    ``vllm-spec`` (0.33.0) are reproduced, three of them with ``async_scheduling``. 0.11
    follows its source. Not modelled of 0.11: under ``priority``, it skips the next request
    in the list if a victim was already scheduled; it counts a prefix query for
    each attempt to admit; it has no ``watermark``.
    """
    newest = version == "0.33"
    reserve = newest if reserve_full_prompt is None else reserve_full_prompt
    cache = PrefixCache(unknown_first=newest) if prefix_caching is True else prefix_caching or None
    scheduler = Scheduler(
        max_num_batched_tokens=max_num_batched_tokens,
        max_num_seqs=max_num_seqs,
        long_prefill_token_threshold=long_prefill_token_threshold,
        stages=(Running(), Admit(unless_preempted=True)),
        order="priority" if policy == "priority" else "arrival",
        victim="worst" if policy == "priority" else "latest",
        allocation="chunk_if_all_fits" if reserve else "chunk",
        watermark=watermark,
        schedule_ahead=async_scheduling,
        pipelined=Pipelined() if pipelined else None,
        loras=loras,
        refund=newest,
        stop_at_own_preemption=not newest,
        threshold_when_alone=not newest,
        prefix_cache=cache,
    )
    return Policy(name="vllm" if newest else f"vllm-{version}", scheduler=scheduler, on_arrival=routing)
