"""PASCAL's scheduler for models that reason."""

from __future__ import annotations

from typing import Literal

from paceline._arguments import typed
from paceline.errors import PolicyError
from paceline.policies.vllm_v0 import chunked_stages
from paceline.policy import Class, Pace, Policy, Quantum, Scheduler, Swap, first_of, inst, pick, req
from paceline.policy.stages import PcieSwap, Recompute

__all__ = ["pascal"]


@typed(PolicyError)
def pascal(
    *,
    migration: Literal["adaptive", "always", "never"] = "adaptive",
    quantum: int = 500,
    demote_above: int = 5000,
    demote_by: Literal["kv_tokens", "generated_tokens"] = "kv_tokens",
    tpot: float = 0.100,
    ttfat: float = 0.25,
    turn: Literal["joined", "arrival"] = "joined",
    recount: bool = True,
    admission: Literal["displace", "wait"] = "displace",
    prefill_as: Literal["reasoning", "first"] = "reasoning",
    room: int | None = None,
    on_pace: Literal["every_buffer", "mean_interval"] = "every_buffer",
    footprint: Literal["gpu_and_cpu", "gpu"] = "gpu_and_cpu",
    preemption: Recompute | Swap | PcieSwap | None = None,
    max_num_batched_tokens: int = 512,
    max_num_seqs: int = 256,
    watermark: float = 0.01,
) -> Policy:
    """Schedule by phases: reasoning first and without interruption, answers in turns, just fast enough.

    A request that arrives goes where the least memory is kept for others, among
    instances whose answers are on pace (Algorithm 1). When its reasoning ends,
    it moves to where the fewest reason (Algorithm 2), unless it has room where
    it is and would have none there. On an instance, those that reason go before
    those that answer; among each, who has used up fewer quanta goes first.

    Parameters
    ----------
    migration
        ``adaptive``; ``always``, the paper's PASCAL(NonAdaptive), which moves
        whether there is room or not; ``never``, its PASCAL(NoMigration).
    quantum
        Tokens of a quantum, in both queues.
    demote_above
        Tokens above which a request that reasons queues with those that answer.
    demote_by
        What is counted for that: section IV-C says the size of the KV cache, V-A
        reasoning tokens.
    tpot
        Seconds that a user takes for a token of the answer.
    ttfat
        Seconds after the end of reasoning within which the answer must start for
        its pacer not to run dry.
    turn
        Who goes first of those with as many quanta: who ``joined`` the queue
        earlier, or whose ``arrival`` was. Since quanta come first, a request's
        rank falls as it goes on.
    recount
        Whether quanta are counted anew in the queue of answers. A demoted request
        is in that queue already when its reasoning ends, and keeps its count.
    admission
        Whether a running request is put out when its room is needed for one that
        ranks better (``displace``), and only then, or goes on until memory runs
        out (``wait``).
    prefill_as
        Whether prefill counts as ``reasoning`` (footnote 2) or goes ``first``,
        before it.
    room
        Tokens for which an instance must have memory left, beside what the
        request holds, to be one where it has room; None: those of its next step.
        The paper's blocking latencies come out with a quantum's
        (docs/studies/pascal.md).
    on_pace
        When the answers of an instance are: ``every_buffer``: as long as each of
        them has something left in its pacer; ``mean_interval``: as long as the
        recent mean time between its tokens is at most `tpot`.
    footprint
        What Algorithm 1 compares: KV of ``gpu_and_cpu``, as the paper defines
        it, or the GPU's alone.
    preemption
        What becomes of the memory of those put out; None: a swap over PCIe to
        512 GiB of CPU memory a GPU, which is more than a replay fills. The paper
        gives no size. Where memory is lost instead, two prompts longer than
        `demote_above` can put each other out for ever, which a replay tells.
    max_num_batched_tokens, max_num_seqs, watermark
        As vLLM 0.6.1 has them for a model of 131,072 positions: chunked prefill
        turns itself on above 32,768, and steps then have 512 tokens.

    Returns
    -------
    Policy
        The policy. Its cluster says how fast requests move:
        ``Cluster(instances, links=Links(gbps=100))`` in the paper.

    Examples
    --------
    >>> pascal(migration="never").on_answering is None
    True

    Notes
    -----
    Source: Cho et al., "PASCAL: A Phase-Aware Scheduling Algorithm for Serving
    Reasoning-based Large Language Models" (HPCA 2026), sections IV and V-A. There
    is no code of the authors'; where the paper leaves room, the readings are the
    parameters from `demote_by` to `footprint`. Requests in the queue of reasoning
    are those of Algorithm 2's r, so demoted ones do not count there. Algorithm 2
    has a request stay where there is "sufficient memory to handle the answering
    phase", whose length nobody knows: hence `room`.
    """
    high, low = "reasoning", "answering"
    spent = req.kv_tokens if demote_by == "kv_tokens" else req.generated_tokens
    round_robin = Quantum(quantum) if turn == "joined" else Quantum(quantum, then=req.arrival)
    behind = None if recount else [req.generated_tokens // quantum, *round_robin.tiebreaks]
    classes = [
        Class(high, when=(req.phase != "answering") & (spent <= demote_above)),
        Class(low, order=behind),
    ]
    reasoning = inst.requests_in(high)
    if prefill_as == "first":
        classes.insert(0, Class("prefill", when=req.phase == "prefill", order=req.arrival))
        reasoning = inst.requests_in("prefill") + reasoning
    paced = inst.answering_on_pace if on_pace == "every_buffer" else inst.mean_token_interval <= tpot
    memory = inst.kv_tokens if footprint == "gpu_and_cpu" else inst.gpu_kv_tokens
    fewest = first_of(pick(min=reasoning, where=paced), pick(min=reasoning + inst.fresh_answering_requests))
    here, there = inst.here.fits(req), inst.there.fits(req)
    if room is not None:
        here = inst.here.free_blocks * inst.here.block_tokens >= room
        there = (inst.there.free_blocks - req.blocks) * inst.there.block_tokens >= room
    moves = {
        "adaptive": fewest.unless(here & ~there),
        "always": fewest,
        "never": None,
    }
    return Policy(
        name={"adaptive": "pascal", "always": "pascal-nonadaptive", "never": "pascal-nomigration"}[migration],
        scheduler=Scheduler(
            max_num_batched_tokens=max_num_batched_tokens,
            max_num_seqs=max_num_seqs,
            stages=chunked_stages(),
            classes=classes,
            order=round_robin,
            admission=admission,
            allocation="sequence",
            watermark=watermark,
            watermark_when_idle=True,
            preemption=preemption or Swap.over_pcie(cpu_gib=512),
        ),
        on_arrival=first_of(pick(min=memory, where=paced), pick(min=memory)),
        on_answering=moves[migration],
        pace=Pace(tpot=tpot, first=ttfat),
    )
