"""Which configurations the simulator covers."""

from __future__ import annotations

from typing import Any

_NOT_COVERED = ("call", "hold", "reject", "affinity", "prefix_tree")


def covers(config: dict[str, Any]) -> bool:
    """Whether the simulator covers a configuration that the engine accepts.

    Not covered are several routers and reports to them, requests that routers hold or reject, ties that
    are not broken by index, samples, affinity, costs that are not affine, rules that are Python
    functions, and prefills that continue beside a batch that runs by groups of layers, which no engine
    does.
    """
    routers = config.get("routers") or {}
    plain = routers.get("count", 1) == 1 and routers.get("report_every") is None
    instances = all(_covers_instance(instance) for instance in config["instances"])
    return plain and instances and not _lacks(config["routing"])


def _covers_instance(instance: dict[str, Any]) -> bool:
    kinds = [stage["kind"] for stage in instance["scheduler"]["stages"]]
    cost = instance["cost"]
    for wrapping in ("floor", "graphs"):
        cost = cost["cost"] if cost["kind"] == wrapping else cost
    return bool(cost["kind"] == "affine") and not {"layered", "prefills"} <= set(kinds)


def _lacks(part: Any) -> bool:  # noqa: ANN401 - any part of a configuration
    if isinstance(part, dict):
        sampled = part.get("among") is not None or part.get("ties", "first") != "first"
        return part.get("rule") in _NOT_COVERED or sampled or any(_lacks(one) for one in part.values())
    return isinstance(part, list) and any(_lacks(one) for one in part)
