"""The instances and rules of a cluster under a policy, as the engine takes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from paceline._clock import ticks
from paceline.deployment import Cluster, Instance, Lockstep
from paceline.deployment.kv_layout import check_same_kv, check_states
from paceline.errors import ConfigError, PolicyError
from paceline.kernels.loaded import is_table
from paceline.policy import Pace, Policy, Scheduler
from paceline.policy.expressions.wire import Names
from paceline.policy.reach import moves_of
from paceline.policy.stores import Store, put_stores_below
from paceline.policy.tiers import Host
from paceline.speculation.column import resolve_columns

if TYPE_CHECKING:
    import polars as pl

__all__ = ["name_models", "served"]


def served(
    cluster: Cluster, policy: Policy, names: Names, pace: Pace | None, frame: pl.DataFrame | None = None
) -> dict[str, Any]:
    """Return the instances with their schedulers and the rules, as arguments of `_native.run`.

    ``frame`` is the table of the trace; None: requests are submitted from outside.
    """
    count = len(cluster.instances)
    rules = policy.to_wire(instances=count, tenants=names.tenants)
    check_same_kv(cluster.instances, moves_of(policy, count))
    if pace is not None and policy.pace is not None and pace != policy.pace:
        raise ConfigError(f"pace must be left out where the policy has one ({policy.pace!r}), was {pace!r}")
    if pace is not None:
        rules["pace"] = pace.to_wire()
    schedulers = [policy.scheduler_of(index) for index in range(count)]
    check_states(cluster.instances, schedulers)
    placed = list(zip(cluster.instances, schedulers, strict=True))
    wires = {pair: dict(_wire(*pair, names)) for pair in dict.fromkeys(placed)}
    given = [wires[pair] for pair in placed]
    lockstep = [_lockstep(group, placed, given) for group in cluster.groups]
    links = None if cluster.links is None else cluster.links.to_wire(instances=count)
    instances = resolve_columns(given, frame)
    stores = put_stores_below(instances, [_store(*pair) for pair in placed])
    return {
        "instances": instances,
        **rules,
        "links": links,
        "lockstep": lockstep or None,
        "stores": stores or None,
    }


def _store(instance: Instance, scheduler: Scheduler) -> tuple[Store, Instance] | None:
    """Return the store below the host's memory of an instance, with the instance."""
    tiers = () if scheduler.prefix_cache is None else scheduler.prefix_cache.tiers
    store = tiers[-1] if tiers else None
    return (store, instance) if isinstance(store, Store) else None


def name_models(wires: list[dict[str, Any]], cluster: Cluster, models: Sequence[str]) -> None:
    """Tell the engine which model each instance serves, by its code."""
    for at, instance in enumerate(cluster.instances):
        if instance.served_model_name is not None:
            wires[at] = {**wires[at], "model": models.index(instance.served_model_name)}


@lru_cache(maxsize=64)
def _wire(instance: Instance, scheduler: Scheduler, names: Names) -> dict[str, Any]:
    """Return an instance and its scheduler as the engine reads them; kept, as replays of a sweep have few."""
    defaults = instance.default_batching()
    tokens, seqs = scheduler.sized_for(defaults)
    tiers = () if scheduler.prefix_cache is None else scheduler.prefix_cache.tiers
    two_steps = scheduler.draft_slots == "two_steps"
    wire = instance.to_wire(
        max_num_batched_tokens=tokens, max_num_seqs=seqs, tiered=bool(tiers), two_steps=two_steps
    )
    if tiers and isinstance(tiers[0], Host):
        wire["tier"] = tiers[0].on(instance, wire["blocks"])
    if scheduler.pipelined is not None and (pipeline := scheduler.pipelined.on(instance)):
        wire["pipeline"] = pipeline
    # The engine counts usable blocks. vLLM's shares are of all blocks, its null block included.
    names = replace(names, classes=tuple(each.name for each in scheduler.classes))
    formed = scheduler.on(instance).to_wire(num_blocks=wire["blocks"] + 1, defaults=defaults, names=names)
    return {**wire, "scheduler": formed}


def _lockstep(
    group: Lockstep, placed: Sequence[tuple[Instance, Scheduler]], wires: list[dict[str, Any]]
) -> dict[str, Any]:
    """Remove from the costs of a group's members what they share, and return the group for the engine."""
    (instance, scheduler), *others = (placed[member] for member in group.members)
    if any(other != scheduler for _, other in others):
        raise PolicyError(
            "scheduler must be one for all instances that step together, was another for some of "
            f"{list(group.members)}: pools of a policy have whole groups"
        )
    cost, model, ranks = instance.cost, instance.resolved_model, instance.tensor_parallel
    found: dict[str, Any] = {"members": list(group.members), "shared": {"at": [1], "ticks": [0]}, "padded": 0}
    if group.balance is not None:
        found["balance"] = group.balance.to_wire()
    if not is_table(cost):
        return found
    own = cost.to_wire(
        model,
        tensor_parallel=ranks,
        pipeline_parallel=instance.pipeline_parallel,
        kv_dtype=instance.kv_dtype,
        shared=False,
    )
    tokens, seqs = scheduler.sized_for(instance.default_batching())
    part = {**wires[group.members[0]], "cost": instance.padded(own, tokens, seqs)}
    for member in group.members:
        wires[member] = part
    _, seqs = scheduler.limits(instance.default_batching())
    return {
        **found,
        "shared": cost.shared_wire(model, tensor_parallel=ranks),
        # vLLM captures CUDA graphs up to so many tokens (vllm/config/vllm.py, _set_cudagraph_sizes).
        "padded": min(2 * seqs, 512),
        "prompts": ticks(instance.prompt_step_s),
    }
