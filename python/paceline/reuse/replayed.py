"""Hit rates of replays at several capacities."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import polars as pl

from paceline import _check
from paceline._arguments import typed
from paceline.deployment import Cluster, Instance
from paceline.errors import ConfigError
from paceline.policy import Policy
from paceline.replaying import replay
from paceline.result import Result
from paceline.trace.model import Trace

__all__ = ["replayed_hits"]

_SCHEMA: Final = pl.Schema(
    {
        "capacity_blocks": pl.UInt64(),
        "token_hit_rate": pl.Float64(),
        "evictions": pl.UInt64(),
        "preemptions": pl.UInt64(),
        "rejected": pl.UInt64(),
        "host_hit_rate": pl.Float64(),
        "store_hit_rate": pl.Float64(),
    }
)


@typed(ConfigError)
def replayed_hits(
    trace: Trace,
    cluster: Cluster,
    policy: Policy,
    *,
    capacities: Sequence[int],
    progress: Callable[[int, int], object] | None = None,
) -> pl.DataFrame:
    """Return the hit rates of replays whose instances have so many blocks.

    Parameters
    ----------
    trace
        With ``prefix`` or ``session``.
    cluster
        Its instances, whose blocks are replaced.
    policy
        With a prefix cache; its eviction may be any.
    capacities
        KV blocks of each instance, without vLLM's null block.
    progress
        Called with the replays done and their number.

    Returns
    -------
    polars.DataFrame
        A row for each capacity: ``token_hit_rate`` (tokens found over tokens looked up, once an admission),
        ``evictions``, ``preemptions``, and requests ``rejected`` because they do not fit in these blocks,
        which look nothing up. Where the policy has tiers: the tokens loaded from the host's memory
        (``host_hit_rate``), and those read into it from a store below (``store_hit_rate``), over the same
        tokens; null without.

    Raises
    ------
    ConfigError
        If the policy has no prefix cache, or a capacity is out of range.

    Examples
    --------
    >>> from paceline import Affine, Instance, policies
    >>> trace = Trace.from_columns(
    ...     arrival=[0, 9], prompt_tokens=[100, 200], output_tokens=[50, 1], session=["a", "a"]
    ... )
    >>> cluster = Cluster([Instance(cost=Affine(step_s=0.01), num_blocks=99)])
    >>> found = replayed_hits(trace, cluster, policies.vllm(prefix_caching=True), capacities=[50])
    >>> found["token_hit_rate"].item() == 144 / 300  # nine full blocks of the first turn
    True
    """
    if not policy.reads_prefixes:
        raise ConfigError("policy must have a prefix cache, such as policies.vllm(prefix_caching=True)")
    rows = []
    for done, blocks in enumerate(capacities, 1):
        _check.count("a capacity", blocks, most=2**32 - 2, why="the engine numbers blocks in 32 bits")
        instances = [_sized(instance, blocks) for instance in cluster.instances]
        result = replay(trace, replace(cluster, instances=instances), policy)
        totals = result.totals()
        rows.append(
            (
                blocks,
                totals.prefix_hit_rate,
                totals.evictions,
                totals.preemptions,
                totals.rejected,
                *_below(result),
            )
        )
        if progress is not None:
            progress(done, len(capacities))
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row")


def _below(result: Result) -> tuple[float | None, float | None]:
    """Return the tokens loaded from the host and read from a store, over those looked up; None without."""
    instances = result.stats.instances
    asked = sum(one.prefix_queries for one in instances)

    def rate(copied: list[int | None]) -> float | None:
        known = [tokens for tokens in copied if tokens is not None]
        return sum(known) / asked if known and asked else None

    loaded = [one.tier["loaded_blocks"] * one.block_tokens if one.tier else None for one in instances]
    read = [one.store["read_blocks"] * one.block_tokens if one.store else None for one in instances]
    return rate(loaded), rate(read)


def _sized(instance: Instance, blocks: int) -> Instance:
    """Return an instance with so many blocks; they bound its sequences where the model would."""
    whole = instance.model is not None and instance.max_model_len is None
    longest = "auto" if whole else instance.max_model_len
    return replace(instance, num_blocks=blocks + 1, max_model_len=longest)
