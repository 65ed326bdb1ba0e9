"""PASCAL's phase-aware scheduler for reasoning models."""

from __future__ import annotations

from typing import Literal

from paceline._arguments import typed
from paceline.errors import PolicyError
from paceline.policies.pascal_reading import PascalReading
from paceline.policies.ranked import ranked_scheduler
from paceline.policy import Class, Pace, Policy, PrefixCache, Quantum, first_of, inst, pick, req
from paceline.policy.stages import Preemption

__all__ = ["pascal"]


@typed(PolicyError)
def pascal(
    *,
    migration: Literal["adaptive", "always", "never"] = "adaptive",
    quantum: int = 500,
    demote_above: int = 5000,
    tpot: float = 0.100,
    ttfat: float = 0.25,
    admission: Literal["displace", "wait"] = "displace",
    reading: PascalReading | None = None,
    preemption: Preemption | None = None,
    max_num_batched_tokens: int = 512,
    max_num_seqs: int = 256,
    watermark: float = 0.01,
    prefix_caching: bool | PrefixCache = False,
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
    tpot
        Seconds that a reader takes for a token of the answer.
    ttfat
        Seconds after the end of reasoning within which the answer must start for
        its pacer not to run dry.
    admission
        ``displace``: the worst-ranked running requests are preempted when a
        better-ranked one needs their blocks. ``wait``: they run on until blocks
        run out.
    reading
        How the paper is read where it leaves a choice; None: as `PascalReading` has it.
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
    prefix_caching
        Whether full blocks are kept for later requests that start the same; a
        :class:`~paceline.policy.PrefixCache` says how. The paper has none.

    Returns
    -------
    Policy
        The policy. The cluster says how fast requests migrate:
        ``Cluster(instances, links=Links(gbps=100))`` in the paper.

    Examples
    --------
    >>> pascal(migration="never").on_answering is None
    True

    Notes
    -----
    Source: Cho et al., "PASCAL: A Phase-Aware Scheduling Algorithm for Serving
    Reasoning-based Large Language Models" (HPCA 2026), sections IV and V-A. The
    authors have published no code. Where the paper leaves a choice, it is a field of
    `reading`, or `admission`. Demoted requests are not in the high-priority queue, so
    that Algorithm 2's r does not count them. A request stays where there is
    "sufficient memory to handle the answering phase"; its length is not known, hence
    `PascalReading.room`. docs/studies/pascal.md says what each choice changes. The
    watermark is that of ``block_manager_v1.py``
    (``can_allocate``, ``can_swap_in``) in vLLM 0.6.1.
    """
    read = PascalReading() if reading is None else reading
    high, low = "reasoning", "answering"
    spent = req.kv_tokens if read.demote_by == "kv_tokens" else req.generated_tokens
    round_robin = Quantum(quantum) if read.turn == "joined" else Quantum(quantum, then=req.arrival)
    behind = None if read.recount else [req.generated_tokens // quantum, *round_robin.tiebreaks]
    classes = [
        Class(high, when=(req.phase != "answering") & (spent <= demote_above)),
        Class(low, order=behind),
    ]
    reasoning = inst.requests_in(high)
    if read.prefill_as == "first":
        classes.insert(0, Class("prefill", when=req.phase == "prefill", order=req.arrival))
        reasoning = inst.requests_in("prefill") + reasoning
    paced = inst.answering_on_pace if read.on_pace == "every_buffer" else inst.mean_token_interval <= tpot
    memory = inst.kv_tokens if read.footprint == "gpu_and_cpu" else inst.gpu_kv_tokens
    fewest = first_of(pick(min=reasoning, where=paced), pick(min=reasoning + inst.fresh_answering_requests))
    answer = quantum if read.room is None else read.room
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
            prefix_caching=prefix_caching,
        ),
        on_arrival=first_of(pick(min=memory, where=paced), pick(min=memory)),
        on_answering=moves[migration],
        handover=None,
        pace=Pace(tpot=tpot, first=ttfat),
    )
