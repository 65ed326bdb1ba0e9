"""Which configurations the simulator covers."""

from __future__ import annotations

from typing import Any


def covers(config: dict[str, Any]) -> bool:
    """Whether the simulator covers a configuration that the engine accepts.

    Not covered are costs that are not affine, rules that are Python functions, and prefills that continue
    beside a batch that runs by groups of layers, which no engine does.
    """
    return all(_covers_instance(instance) for instance in config["instances"]) and not _calls(
        config["routing"]
    )


def _covers_instance(instance: dict[str, Any]) -> bool:
    kinds = [stage["kind"] for stage in instance["scheduler"]["stages"]]
    return bool(instance["cost"]["kind"] == "affine") and not {"layered", "prefills"} <= set(kinds)


def _calls(part: Any) -> bool:  # noqa: ANN401 - any part of a configuration
    if isinstance(part, dict):
        return part.get("rule") == "call" or any(_calls(one) for one in part.values())
    return isinstance(part, list) and any(_calls(one) for one in part)
