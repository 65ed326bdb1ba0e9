"""Policies as TOML tables, and back."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, get_args

from paceline._toml import build
from paceline.errors import ConfigError, PolicyError
from paceline.policy.scheduler import Scheduler
from paceline.policy.stages import Admit, Gather, Groups, Layered, PrefixCache, Recompute, Stage, Swap

__all__ = ["scheduler_from_table", "to_table"]

_STAGES: dict[str, type] = {cls.__dataclass_fields__["kind"].default: cls for cls in get_args(Stage)}


def to_table(value: Any) -> Any:  # noqa: ANN401 - whatever a policy holds
    """Return a policy, or a part of one, as tables, lists and plain values, without what is None."""
    if dataclasses.is_dataclass(value):
        fields = ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))
        return {name: to_table(part) for name, part in fields if part is not None}
    if isinstance(value, tuple | list):
        return [to_table(part) for part in value]
    return value


def scheduler_from_table(content: Mapping[str, Any]) -> Scheduler:
    """Read a scheduler from its table.

    Raises
    ------
    PolicyError
        If a field is unknown, missing or of the wrong kind.
    """
    try:
        fields = dict(content)
        if "stages" in fields:
            fields["stages"] = tuple(_stage(stage) for stage in fields["stages"])
        if "preemption" in fields:
            swaps = fields["preemption"].get("kind") == "swap"
            fields["preemption"] = build(Swap if swaps else Recompute, fields["preemption"], "preemption")
        if "prefix_cache" in fields:
            fields["prefix_cache"] = build(PrefixCache, fields["prefix_cache"], "prefix_cache")
        return build(Scheduler, fields, "the scheduler")
    except (ConfigError, AttributeError, TypeError) as error:
        raise PolicyError(f"policy: {error}") from error


def _stage(content: Mapping[str, Any]) -> Stage:
    kind = content.get("kind")
    if kind not in _STAGES:
        raise PolicyError(f"kind of a stage must be one of {', '.join(_STAGES)}, was {kind!r}")
    cls = _STAGES[kind]
    fields = dict(content)
    if cls is Admit and "gather" in fields:
        fields["gather"] = build(Gather, fields["gather"], "gather")
    if cls is Layered and "groups" in fields:
        fields["groups"] = build(Groups, fields["groups"], "groups")
    stage: Stage = build(cls, fields, f"stage {kind}")
    return stage
