"""Whether KV of one instance can be used on another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from paceline.deployment.instance import Instance
from paceline.errors import ConfigError
from paceline.policy import Scheduler

__all__ = ["check_same_kv", "check_states"]

_RIGHT = {
    "model": "both must have the same model",
    "kv_dtype": "both must have the same kv_dtype",
    "block_tokens": "both must have the same block_tokens",
    "kv_bytes": "a token's keys and values must have the same bytes on both",
}


def check_same_kv(
    instances: Sequence[Instance], moves: Iterable[tuple[str, frozenset[int], frozenset[int]]]
) -> None:
    """Refuse moves of KV between instances of different models, or whose KV has another layout.

    Of two instances with models, the models, the types of KV numbers and the tokens in a block must be the
    same. They may be split over different numbers of GPUs, as connectors divide the KV anew. If one has no
    model, the bytes of a token's KV over all GPUs and the tokens in a block must be the same. Instances that
    serve models of different names share no request, and are not compared.

    Parameters
    ----------
    instances
        The instances of a cluster, in order.
    moves
        What moves, from which instances, and to which: see :func:`paceline.policy.reach.moves_of`.

    Raises
    ------
    ConfigError
        Names two instances, the field in which they differ and both values.
    """
    if len(set(instances)) == 1:
        return
    for what, sources, targets in moves:
        # One instance of each kind stands for all of its kind.
        first = {instances[index]: index for index in sorted(sources, reverse=True)}
        others = {instances[index]: index for index in sorted(targets, reverse=True)}
        for source, here in first.items():
            for target, there in others.items():
                if _serve_apart(source, target):
                    continue
                differ = _difference(source, target)
                if differ is not None:
                    field, mine, theirs = differ
                    raise ConfigError(
                        f"{what} may move KV from instance {here} to instance {there}, so {_RIGHT[field]}: "
                        f"{field} was {mine} and {theirs}; keep requests within instances of one kind "
                        f"(pick(..., within=...) with pools)"
                    )


def check_states(instances: Sequence[Instance], schedulers: Sequence[Scheduler]) -> None:
    """Refuse a prefix cache on instances whose requests have states: a cached prefix has none of them.

    vLLM keeps states at the ends of blocks for that (``--mamba-cache-mode align``), which is not modelled.

    Raises
    ------
    ConfigError
        Names the instance and its model.
    """
    for index, (instance, scheduler) in enumerate(zip(instances, schedulers, strict=True)):
        if scheduler.prefix_cache is not None and instance.pages.state_blocks:
            model = instance.resolved_model
            raise ConfigError(
                f"prefix_cache of the scheduler on instance {index} must be None (prefix_caching=False), was "
                f"{scheduler.prefix_cache!r}: {'' if model is None else model.name} keeps states in layers "
                f"without attention, and those of a cached prefix are not modelled"
            )


def _serve_apart(source: Instance, target: Instance) -> bool:
    """Whether instances serve models of different names, so that no request moves between them."""
    names = {source.served_model_name, target.served_model_name}
    return None not in names and len(names) == 2


def _difference(source: Instance, target: Instance) -> tuple[str, object, object] | None:
    """Return the first field of the KV in which two instances differ, and its values; None if none does."""
    if source == target:
        return None
    model, other = source.resolved_model, target.resolved_model
    if model is None or other is None:
        mine, theirs = (_bytes(instance) for instance in (source, target))
        if mine != theirs:
            return "kv_bytes", mine, theirs
    else:
        if model != other:
            same_name = model.name == other.name
            named = [f"{each.name!r}" + (f" ({each!r})" if same_name else "") for each in (model, other)]
            return "model", named[0], named[1]
        dtypes = [model.dtype if each.kv_dtype == "auto" else each.kv_dtype for each in (source, target)]
        if dtypes[0] != dtypes[1]:
            return "kv_dtype", dtypes[0], dtypes[1]
    own, other_tokens = source.pages.block_tokens, target.pages.block_tokens
    if own != other_tokens:
        return "block_tokens", own, other_tokens
    return None


def _bytes(instance: Instance) -> int | str:
    return instance.to_wire()["kv_bytes_per_token"] or "unknown (no model and no kv_bytes)"
