"""PASCAL's phase-aware scheduler for reasoning models."""

from __future__ import annotations

from typing import Literal

from paceline._arguments import typed
from paceline.errors import PolicyError
from paceline.policies.ranked import ranked_scheduler
from paceline.policy import Class, Pace, Policy, Quantum, first_of, inst, pick, req
from paceline.policy.stages import Preemption

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
    preemption: Preemption | None = None,
    max_num_batched_tokens: int = 512,
    max_num_seqs: int = 256,
    watermark: float = 0.01,
) -> Policy:
    """Schedule by phases: reasoning before answering, answers in turns at the pace of their readers.

    An arrival joins the instance with the least KV, among instances with all
    answers on pace (Algorithm 1). When its reasoning ends, the request
    migrates to the instance with the fewest reasoning requests (Algorithm 2),
    unless its own instance has room for the answer and the other one has not.
    On an instance, requests that reason rank before requests that answer. In
    each of both queues, the request that has used up fewer quanta ranks first.

    Parameters
    ----------
    migration
        ``adaptive``; ``always``, the paper's PASCAL(NonAdaptive), which migrates
        whether there is room or not; ``never``, its PASCAL(NoMigration).
    quantum
        Tokens of a quantum, in both queues.
    demote_above
        Tokens above which a reasoning request is queued with answering ones.
    demote_by
        What is counted for that: section IV-C says the size of the KV cache, V-A
        reasoning tokens.
    tpot
        Seconds that a reader takes for a token of the answer.
    ttfat
        Seconds after the end of reasoning within which the answer must start for
        its pacer not to run dry.
    turn
        Order of requests with equal quanta: by when they ``joined`` the queue, or
        by ``arrival``.
    recount
        Whether quanta are counted anew when the answer begins. A demoted request
        is in that queue already, and keeps its count.
    admission
        ``displace``: the worst-ranked running requests are preempted when a
        better-ranked one needs their blocks. ``wait``: they run on until blocks
        run out.
    prefill_as
        Whether prefill counts as ``reasoning`` (footnote 2) or ranks ``first``,
        before it.
    room
        Tokens of the answer that an instance must be able to hold, above its
        watermark, to have room for a request; None: one quantum. With 0 it is
        enough that the request itself leaves the watermark free, which is vLLM's
        own test for a swap-in.
    on_pace
        When the answers of an instance are on pace. ``every_buffer``: each of
        them has tokens left in its pacer. ``mean_interval``: the recent mean time
        between tokens is at most `tpot`.
    footprint
        What Algorithm 1 compares: KV of ``gpu_and_cpu``, as the paper defines
        it, or the GPU's alone.
    preemption
        What happens to the KV of a preempted request; None: a swap over PCIe to
        256 GiB of CPU memory a GPU, the size of the paper's host (III-A). If KV
        is dropped instead, two prompts longer than `demote_above` may preempt
        each other for ever, which a replay reports.
    max_num_batched_tokens, max_num_seqs
        Of a step, as vLLM 0.6.1 sets them with chunked prefill.
    watermark
        Share of the blocks that an admission or a swap-in leaves free. vLLM 0.6.1
        has 0.01, and no option for it. Running requests grow into it. Free blocks
        below it do not count as room, since a preempted request could not resume
        in them.

    Returns
    -------
    Policy
        The policy. The cluster says how fast requests migrate:
        ``Cluster(instances, links=Links(gbps=100))`` in the paper.

    Raises
    ------
    PolicyError
        If `room` is negative.

    Examples
    --------
    >>> pascal(migration="never").on_answering is None
    True

    Notes
    -----
    Source: Cho et al., "PASCAL: A Phase-Aware Scheduling Algorithm for Serving
    Reasoning-based Large Language Models" (HPCA 2026), sections IV and V-A. The
    authors have published no code. Where the paper leaves a choice, it is one of
    the parameters from `demote_by` to `footprint`. Demoted requests are not in
    the high-priority queue, so that Algorithm 2's r does not count them. A
    request stays where there is "sufficient memory to handle the answering
    phase"; its length is not known, hence `room`. docs/studies/pascal.md says
    what each choice changes. The watermark is that of ``block_manager_v1.py``
    (``can_allocate``, ``can_swap_in``) in vLLM 0.6.1.
    """
    if room is not None and room < 0:
        raise PolicyError(f"room of pascal must be 0 or more tokens, was {room}")
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
    answer = quantum if room is None else room
    reserved = inst.here.total_blocks * watermark // 1, inst.there.total_blocks * watermark // 1
    here = (inst.here.free_blocks - reserved[0]) * inst.here.block_tokens >= answer
    there = (inst.there.free_blocks - reserved[1] - req.blocks) * inst.there.block_tokens >= answer
    moves = {
        "adaptive": fewest.unless(here & ~there),
        "always": fewest,
        "never": None,
    }
    return Policy(
        name={"adaptive": "pascal", "always": "pascal-nonadaptive", "never": "pascal-nomigration"}[migration],
        scheduler=ranked_scheduler(
            round_robin,
            max_num_batched_tokens=max_num_batched_tokens,
            max_num_seqs=max_num_seqs,
            classes=classes,
            admission=admission,
            watermark=watermark,
            preemption=preemption,
            cpu_gib=256,
        ),
        on_arrival=first_of(pick(min=memory, where=paced), pick(min=memory)),
        on_answering=moves[migration],
        handover=None,
        pace=Pace(tpot=tpot, first=ttfat),
    )
