"""Splitwise' scheduling of a cluster: pools for prompts, for tokens, and for both."""

from __future__ import annotations

from typing import Literal

from paceline._arguments import typed
from paceline.errors import PolicyError
from paceline.policy import (
    ActiveBlocks,
    Expr,
    Handover,
    Policy,
    Pools,
    Rule,
    Scheduler,
    cluster,
    first_of,
    flip,
    inst,
    oracle,
    pick,
    req,
    round_robin,
    stay,
    where,
)
from paceline.policy.stages import Admit, Decodes

__all__ = ["splitwise", "splitwise_router"]

MIXED = ("mixed_prompt", "mixed_token")
TOKEN = ("token", "token→mixed_token")
"""The pool of tokens as it is before the prompt's rule moves an instance."""
MOST_RETURNS = 8
"""Instances that return to each pool at one arrival, at most."""


def _scheduler() -> Scheduler:
    """Return how its instances form steps: whole prompts first, then tokens."""
    return Scheduler(
        max_num_batched_tokens=2048,
        max_num_seqs=512,
        stages=(Admit(chunked=False, unless_preempted=True), Decodes(charged=True, over_prefills=False)),
        allocation="sequence",
    )


@typed(PolicyError)
def splitwise_router(
    rule: Literal["round_robin", "jsq", "token_jsq"] = "jsq",
    *,
    prompt: int | None = None,
    token: int | None = None,
    scheduler: Scheduler | None = None,
) -> Policy:
    """Route each request in turn, or to the shortest queue, with or without pools for prompts and tokens.

    With pools, both instances of a request are picked as it arrives.

    Parameters
    ----------
    rule
        ``round_robin``: each in turn. ``jsq``: the fewest unfinished requests.
        ``token_jsq``: the fewest prompt tokens before their first token, plus one for
        each unfinished request.
    prompt, token
        Instances of the two pools; None: all instances run both.
    scheduler
        How instances form their steps; None: whole prompts before tokens.

    Examples
    --------
    >>> splitwise_router("jsq", prompt=2, token=2).on_arrival
    pick(min=inst.requests - inst.incoming_requests, within='prompt')

    Notes
    -----
    Source: Mutinifni/splitwise-sim (8f99e7dc), ``scheduler.py``: the schedulers
    ``RoundRobin``, ``JSQ``, ``TokenJSQ``, and with pools ``KVRoundRobin``, ``KVJSQ``
    and ``OverlapKVJSQ`` (a faster link). The source's ``KVTokenJSQ`` lowers its
    count of tokens and never raises it, so that the busiest instance is picked;
    ``token_jsq`` with pools counts right. Differences: see `splitwise`.
    """
    if (prompt is None) != (token is None):
        raise PolicyError(f"prompt and token must both be given or both None, was {prompt!r} and {token!r}")
    pools = None if prompt is None or token is None else Pools(prompt=prompt, token=token)
    tokens = rule == "token_jsq"

    def within(pool: str) -> Rule:
        names = None if pools is None else pool
        if rule == "round_robin":
            return round_robin(within=names)
        key = inst.active_prefill_tokens + inst.requests if tokens else inst.requests
        return pick(min=key if pools is None else key - inst.incoming_requests, within=names)

    return Policy(
        name=f"splitwise-{rule.replace('_', '-')}",
        scheduler=_scheduler() if scheduler is None else scheduler,
        on_arrival=within("prompt"),
        decode_on_arrival=None if pools is None else within("token"),
        pools=pools,
        handover=Handover(lease=None),
        active=ActiveBlocks(prompts=False, reuses=False) if tokens else None,
    )


@typed(PolicyError)
def splitwise(
    *, prompt: int, token: int, most_pending_tokens: int = 8192, scheduler: Scheduler | None = None
) -> Policy:
    """Keep a pool for prompts and one for tokens, and have instances do both while one of the pools is full.

    The prompt goes to the instance of its pool with the fewest tokens pending, the
    tokens to the one of their pool with the least memory in use; both are picked as
    the request arrives. If that instance has no room, one of the mixed pool is
    asked; then an instance of the other pool moves to the mixed pool. If there is
    none to move, one instance does both. An instance of the mixed pool that has
    no requests returns.

    Parameters
    ----------
    prompt, token
        Instances of each pool at the start.
    most_pending_tokens
        An instance with a queue is full for a prompt with which its pending tokens
        exceed this.
    scheduler
        How instances form their steps; None: whole prompts before tokens.

    Examples
    --------
    >>> splitwise(prompt=2, token=2).pools.sizes
    {'prompt': 2, 'mixed_prompt': 0, 'mixed_token': 0, 'token': 2}

    Notes
    -----
    Source: Patel et al., "Splitwise: Efficient Generative LLM Inference Using Phase
    Splitting" (ISCA 2024); Mutinifni/splitwise-sim (8f99e7dc), ``scheduler.py``,
    ``MixedPoolScheduler``. Given what the source's router saw, the rules make its
    choices and moves (``tests/conformance/logs/routers/splitwise_mixed_pool``). There are two
    mixed pools, one for the instances of each pool. Differences: a prompt that exceeds
    the 2,048 tokens of a step is rejected, where the source runs it alone (37% of Azure's
    prompts of code, 14% of conversations): give a `scheduler` that cuts prompts; memory in use is
    that of the tokens that there are, where the source also counts the outputs to
    come and requests whose prompt is not done; ties go to the lowest index, where
    the source has the order in which instances joined the pool; an instance returns
    at the next arrival, at most eight of a pool at one; a preempted token task keeps
    its place by the order of admission, where the source forces it after four steps.
    """
    pending = inst.active_prefill_tokens + inst.decoding_requests
    memory = inst.outstanding_tokens
    # The source rejects at the limit itself.
    fits = memory + (req.prompt_tokens + oracle.output_tokens) < inst.total_blocks * inst.block_tokens
    takes = (inst.waiting == 0) | (pending + req.prompt_tokens <= most_pending_tokens)
    no_token = ~cluster.any(fits, within=TOKEN) & ~cluster.any(fits, within=MIXED)
    no_prompt = _full("prompt", pending, most_pending_tokens) & _full(MIXED, pending, most_pending_tokens)
    to_token = cluster.count(within=TOKEN)
    to_prompt = cluster.count(within="prompt")
    lend_token = pick(min=pending, within="token")
    lend_prompt = pick(min=memory, within="prompt")
    both = no_token & (to_prompt == 0)
    returns = [
        flip(
            pick(min=inst.index, within=f"mixed_{home}", where=inst.requests == 0),
            to=home,
            keep=0,
            picks=False,
        )
        for home, size in (("prompt", prompt), ("token", token))
        for _ in range(min(size, MOST_RETURNS))
    ]
    apart = first_of(
        pick(min=pending, within="prompt", accept=takes),
        pick(min=pending, within=MIXED, accept=takes),
        flip(lend_token, to="mixed_token", keep=0),
    )
    return Policy(
        name="splitwise",
        scheduler=_scheduler() if scheduler is None else scheduler,
        on_arrival=first_of(
            *returns,
            apart.when(~both),
            flip(lend_token, to="mixed_token", keep=0, picks=False, when=both & no_prompt),
            pick(min=pending),
        ),
        decode_on_arrival=first_of(
            stay().when(both),
            first_of(flip(lend_prompt, to="mixed_prompt", keep=0, picks=False, when=no_token), stay()).when(
                no_prompt & (to_token == 0)
            ),
            pick(min=memory, within=TOKEN, accept=fits),
            pick(min=memory, within=MIXED, accept=fits),
            flip(lend_prompt, to="mixed_prompt", keep=0),
        ),
        pools=Pools(
            prompt=prompt,
            mixed_prompt=0,
            mixed_token=0,
            token=token,
            # The rule for the tokens still finds it in its pool.
            leaving={"token→mixed_token": 1e-9},
        ),
        handover=Handover(lease=None),
        active=ActiveBlocks(prompts=False, reuses=False),
    )


def _full(pool: str | tuple[str, ...], pending: Expr, most: int) -> Expr:
    """Whether a pool's instance with the fewest pending tokens has a queue and no room, or there is none."""
    # The lowest bit says whether it has a queue.
    least = cluster.min(2 * pending + where(inst.waiting > 0, 1, 0), within=pool)
    queued = least - 2 * (least // 2) == 1
    return (cluster.count(within=pool) == 0) | (queued & (least // 2 + req.prompt_tokens > most))
