"""SGLang's scheduler."""

from __future__ import annotations

from typing import Literal, get_args

from paceline import _check
from paceline._arguments import typed
from paceline.errors import PolicyError
from paceline.policy import OutputReserve, Policy, Routing, Scheduler
from paceline.policy.prefix_cache import PrefixCache, RadixTree
from paceline.policy.scheduler import QueueOrder
from paceline.policy.stages import Admit, Decodes, Prefills
from paceline.policy.stores import Store
from paceline.policy.tiers import Host

__all__ = ["sglang"]

SchedulePolicy = Literal["fcfs", "lof", "lpm", "dfs-weight"]
Priorities = Literal["highest", "lowest"]

_ORDERS: dict[tuple[SchedulePolicy, Priorities | None], QueueOrder] = {
    ("fcfs", None): "arrival",
    ("lof", None): "longest_output",
    ("lpm", None): "longest_prefix",
    ("dfs-weight", None): "shared_prefix",
    ("fcfs", "highest"): "highest_priority",
    ("fcfs", "lowest"): "priority",
    ("lof", "highest"): "highest_priority_then_longest_output",
    ("lof", "lowest"): "priority_then_longest_output",
}


@typed(PolicyError)
def sglang(
    *,
    schedule_policy: SchedulePolicy = "fcfs",
    chunked_prefill_size: int = 8192,
    max_running_requests: int = 2048,
    prefix_caching: bool | PrefixCache = False,
    hierarchical_cache: bool | Store = False,
    mixed_chunk: bool = False,
    schedule_conservativeness: float = 1.0,
    ignore_eos: bool = False,
    receive_interval: int = 1,
    overlap_schedule: bool = False,
    priorities: Priorities | None = None,
    routing: Routing = "fewest_requests",
) -> Policy:
    """Prefill first: waiting requests that fit run a step of prefill; decodes run when there is none.

    A prompt that exceeds what is left of a step is cut. The rest runs in the next
    steps, and decodes pause until it is done. An admission leaves room for a share of
    the outputs to come (`OutputReserve`). If decodes find no block, the
    request with the fewest generated tokens is preempted; among equals, the one
    with the longest prompt. It goes behind those that wait.

    Parameters
    ----------
    schedule_policy
        Which request is admitted first: ``fcfs``, the earliest; ``lof``, the one
        with the longest output, which a replay takes from the trace (so the policy
        uses an oracle; SGLang takes the request's ``max_new_tokens``); ``lpm``, the
        one with the longest cached prefix, while at most 128 requests wait;
        ``dfs-weight``, depth first through the tree of prefixes, where the most
        waiting requests begin alike first.
    chunked_prefill_size
        Tokens of a prefill step; SGLang chooses by the GPU's memory.
    max_running_requests
        Requests that may run at once; SGLang works it out from the memory, 2,048 to
        4,096.
    prefix_caching
        Whether blocks are kept for later requests that start the same, in a
        :class:`~paceline.policy.RadixTree`. SGLang's default is on; here it needs a trace that
        says what prompts share. A `PrefixCache` says how, and may have a
        :class:`~paceline.policy.Host` below it with ``overlap="layers"``, of any size and rule
        of writing, and a :class:`~paceline.policy.Store` with a `Prefetch` below that. Without a
        tree, it caches block by block.
    hierarchical_cache
        Whether the host's memory has the tree, too (``--enable-hierarchical-cache``): twice as
        many blocks as the GPU has (``--hicache-ratio``), written as requests insert them
        (``--hicache-write-policy``). A `Store` with a `Prefetch` is the third level below it
        (``--hicache-storage-backend``).
    mixed_chunk
        Whether decodes run beside prompts (``--enable-mixed-chunk``), where their blocks
        are free; a step's prompts then have a token less for each of them.
    schedule_conservativeness
        Factor of the share of outputs to come that an admission leaves free, which
        begins at 0.7 (``--schedule-conservativeness``).
    ignore_eos
        Whether clients let no output end before its limit: all outputs to come are
        then left free, as in benchmarks with ``ignore_eos``.
    receive_interval
        Decode steps from one look for new requests to the next
        (``--scheduler-recv-interval``); after a prefill step the scheduler looks at
        once. A request then waits for up to so many steps before it is prefilled.
    overlap_schedule
        Whether a step is decided when the one before it starts, as SGLang does unless
        ``--disable-overlap-schedule`` is given.
    priorities
        Which priorities come first, where requests have some (``--enable-priority-scheduling`` with
        ``--disable-priority-preemption``): ``highest``, or ``lowest`` with
        ``--schedule-low-priority-values-first``. Equal ones are admitted by arrival, or under
        ``lof`` by their outputs. None: the trace's priorities are not read.
    routing
        Which instance an arrival joins.

    Returns
    -------
    Policy
        The policy.

    Raises
    ------
    PolicyError
        If ``schedule_policy`` is another, it is ``lpm`` or ``dfs-weight`` without prefix caching or with
        priorities, it is ``dfs-weight`` with a hierarchical cache, ``schedule_conservativeness`` is
        negative, or the prefix cache has tiers that this scheduler does not have.

    Examples
    --------
    >>> sglang(schedule_policy="lof").scheduler.uses_oracle
    True
    >>> sglang(prefix_caching=True, hierarchical_cache=True).scheduler.prefix_cache.tiers[0].write
    'through'

    A third level, from which prefixes are read as requests arrive:

    >>> from paceline.policy import Prefetch, Store
    >>> disk = Store(read_bytes_per_s=7e9, write_bytes_per_s=5e9, prefetch=Prefetch(stop="best_effort"))
    >>> len(sglang(prefix_caching=True, hierarchical_cache=disk).scheduler.prefix_cache.tiers)
    2

    Notes
    -----
    Source: SGLang 0.5.23, ``srt/managers/schedule_policy.py``,
    ``schedule_batch.py`` and ``scheduler.py``; of ``receive_interval``,
    ``scheduler_recv_skipper.py`` of 0.5.9 (a decode step counts as 1, one with a prompt as
    1,000). Decisions, with its radix tree and without, are those of logs that its own code
    made (``tests/conformance/logs/sglang``). A request's ``max_new_tokens`` is its output's
    length in the trace. Not modelled: that requests without a free seat preempt running ones of lower
    priority; ``--retraction-policy priority``; ``max_prefill_tokens``; the simulation of
    ends that admissions make with ``ignore_eos`` and no cache. Blocks are its pages, of one
    token or more: ``block_tokens`` of the instance is ``--page-size``. With pages of more than 32
    tokens, ``lpm`` sees only whole pages that prompts share. With an instance's ``speculation``,
    decodes have slots for two steps (``srt/speculative/eagle_utils.py``,
    ``srt/mem_cache/allocation_sizing.py``), one draft at each position
    (``--speculative-eagle-topk 1``), without the overlapped schedule and mixed chunks. The
    hierarchical cache is that of ``srt/mem_cache/unified_radix_cache.py`` and
    ``srt/managers/cache_controller.py``: nodes of the tree on the GPU, on the host or on both.
    Its third level is that of the default
    ``--hicache-storage-prefetch-policy`` and of the two others, without the overlapped schedule and without
    asking again for what the store lacked (``--hicache-storage-prefetch-retry-max-attempts 0``).
    """
    if schedule_policy not in get_args(SchedulePolicy):
        legal = ", ".join(get_args(SchedulePolicy))
        raise PolicyError(f"schedule_policy must be one of {legal}, was {schedule_policy!r}")
    if schedule_policy in ("lpm", "dfs-weight"):
        where = f"where schedule_policy is {schedule_policy!r}"
        if priorities is not None:
            raise PolicyError(f"priorities must be None {where}, was {priorities!r}")
        if not prefix_caching:
            raise PolicyError(f"prefix_caching must be True {where}, was False")
    if schedule_policy == "dfs-weight" and hierarchical_cache:
        raise PolicyError("hierarchical_cache must be False where schedule_policy is 'dfs-weight', was True")
    cache = _cache(prefix_caching, hierarchical_cache)
    scheduler = Scheduler(
        max_num_batched_tokens=chunked_prefill_size,
        max_num_seqs=max_running_requests,
        stages=(Prefills(), Admit(), Decodes(charged=False, over_prefills=False, sits_out=mixed_chunk)),
        exclusive_prefill=not mixed_chunk,
        order=_ORDERS[schedule_policy, priorities],
        victim="fewest_generated",
        allocation="chunk_if_all_fits",
        # By priority and arrival, a retracted request keeps its place.
        requeue_last=priorities is None or schedule_policy != "fcfs",
        output_reserve=_reserve(schedule_conservativeness, ignore_eos=ignore_eos),
        prefix_cache=cache,
        receive_interval=receive_interval,
        draft_slots="two_steps",
        schedule_ahead=overlap_schedule,
        drop_unseen=overlap_schedule and (cache is None or cache.tree is not None),
    )
    return Policy(name=f"sglang-{schedule_policy}", scheduler=scheduler, on_arrival=routing)


def _cache(caching: bool | PrefixCache, hierarchical: bool | Store) -> PrefixCache | None:
    """Return the prefix cache, with the host's memory below it."""
    if hierarchical is not False:
        if caching is not True:
            raise PolicyError(
                f"prefix_caching must be True where hierarchical_cache is, was {_check.said(caching)}"
            )
        host = Host(ratio=2.0, write="through", overlap="layers", prompt_only=False, poll="end")
        below = [hierarchical] if isinstance(hierarchical, Store) else []
        return PrefixCache(tree=RadixTree(), tiers=[host, *below])
    if isinstance(caching, bool):
        return PrefixCache(tree=RadixTree()) if caching else None
    for tier in caching.tiers:
        if isinstance(tier, Store):
            if tier.prefetch is None:
                raise PolicyError(
                    "prefetch of a Store in prefix_caching must be a Prefetch under sglang(), whose requests "
                    "are not passed over, was None"
                )
            continue
        if tier.overlap != "layers":
            raise PolicyError(
                "overlap of a Host in prefix_caching must be 'layers' under sglang(), whose requests do not "
                f"wait for loads, was {tier.overlap!r}"
            )
    return caching


def _reserve(conservativeness: float, *, ignore_eos: bool) -> OutputReserve:
    """Return what an admission leaves for outputs: all of them where none ends before its limit."""
    if ignore_eos:
        return OutputReserve(share=1.0, least=1.0)
    if not 0 <= conservativeness < float("inf"):
        raise PolicyError(f"schedule_conservativeness must be 0 or more, was {conservativeness!r}")
    share = min(0.7 * conservativeness, 1.0)
    return OutputReserve(share=share, least=0.14 * share)
