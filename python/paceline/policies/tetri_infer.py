"""TetriInfer's two levels of dispatch."""

from __future__ import annotations

from typing import Literal

from paceline._arguments import typed
from paceline.errors import PolicyError
from paceline.policies.vllm import vllm
from paceline.policy import Policy, Pools, Scheduler, fewest_tokens, inst, oracle, pick, req, where
from paceline.policy.checks import whole

__all__ = ["tetri_infer"]


@typed(PolicyError)
def tetri_infer(
    *,
    prefill: int = 1,
    decode: int = 1,
    length: Literal["oracle", "score"] = "oracle",
    bucket_tokens: int = 200,
    choices: int = 2,
    chunk_tokens: int = 512,
    seed: int = 0,
    scheduler: Scheduler | None = None,
) -> Policy:
    """Prefill where the least is queued, and decode on the better of two instances drawn at random.

    Of the two, one is better that has room for the request's KV at its predicted length;
    of equals, the one with fewer requests.

    Parameters
    ----------
    prefill, decode
        Instances of each pool.
    length
        What the predicted length is made of: ``oracle``, the real length of the output, which
        no real scheduler knows; ``score``, a column of the trace with a prediction in tokens.
        Either is known only by its bucket.
    bucket_tokens
        The width of a bucket; its upper end counts.
    choices
        Instances that are drawn.
    chunk_tokens
        Tokens of a step of a prefill instance.
    seed
        What the draws begin with.
    scheduler
        How decode instances form their steps; None: as vLLM.

    Returns
    -------
    Policy
        The policy, for a cluster of ``prefill + decode`` instances with `Links`.

    Examples
    --------
    >>> tetri_infer().uses_oracle, tetri_infer(length="score").uses_oracle
    (True, False)

    Notes
    -----
    Source: Hu et al., "Inference without Interference: Disaggregate LLM Inference for Mixed
    Downstream Workloads" (arXiv 2401.11181), sections 3.2 to 3.4; no public code. The paper's
    predictor gives a range of lengths, 200 tokens wide; a dispatcher at each prefill instance
    passes over decode instances without room for the request, draws two of the others, and
    takes the one where heavy decodes (over 128 tokens) are rarer among the light ones.
    Differences: the two are drawn before those without room are passed over; the number of
    requests stands for the mix of heavy and light ones, which no field counts; the queue of a
    prefill instance is first come, first served (the paper also has shortest and longest
    first, in batches of 16); instances do not change roles.
    """
    whole("bucket_tokens of tetri_infer", bucket_tokens)
    tokens = oracle.output_tokens if length == "oracle" else req.score
    most = (tokens // bucket_tokens + 1) * bucket_tokens
    room = inst.free_blocks * inst.block_tokens >= req.prompt_tokens + most
    base = vllm().scheduler_of(0) if scheduler is None else scheduler
    chunked = vllm(max_num_batched_tokens=chunk_tokens).scheduler_of(0)
    return Policy(
        name="tetri-infer",
        scheduler={"prefill": chunked, "decode": base},
        pools=Pools(prefill=prefill, decode=decode),
        on_arrival=fewest_tokens(within="prefill"),
        on_prefilled=pick(min=[where(room, 0, 1), inst.requests], within="decode", among=choices),
        seed=seed,
    )
