"""Instances as TOML tables, and the fields that such a table stands for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paceline._toml import build, table
from paceline.cost import cost_from_table, cost_to_table
from paceline.deployment.cuda_graphs import cuda_graphs_from_table
from paceline.hardware import gpu_from_table
from paceline.model import Model
from paceline.speculation.reading import speculation_from_table, speculation_to_table

__all__ = ["instance_fields", "instance_table"]


def instance_table(instance: Any) -> dict[str, Any]:  # noqa: ANN401 - an Instance, which imports this
    """Return an instance as a TOML table; its cost has a ``kind``."""
    content = table(instance)
    if instance.cost is not None:
        content["cost"] = cost_to_table(instance.cost)
    if instance.speculation is not None:
        content["speculation"] = speculation_to_table(instance.speculation)
    return content


def instance_fields(content: Mapping[str, Any], what: str) -> dict[str, Any]:
    """Return the fields of an instance from its TOML table; ``what`` names the table in errors."""
    fields = dict(content)
    if isinstance(fields.get("model"), dict):
        fields["model"] = build(Model, fields["model"], f"model of {what}")
    if isinstance(fields.get("gpu"), dict):
        fields["gpu"] = gpu_from_table(fields["gpu"], f"gpu of {what}")
    if isinstance(fields.get("cost"), dict):
        fields["cost"] = _cost(fields["cost"], f"cost of {what}")
    if isinstance(fields.get("speculation"), dict):
        fields["speculation"] = speculation_from_table(fields["speculation"], f"speculation of {what}")
    if isinstance(fields.get("cuda_graphs"), dict):
        fields["cuda_graphs"] = cuda_graphs_from_table(fields["cuda_graphs"], f"cuda_graphs of {what}")
    return fields


def _cost(content: dict[str, Any], what: str) -> object:
    if content.get("kind") != "table":
        return cost_from_table(content, what)
    from paceline.kernels.table import table_from_toml

    return table_from_toml(content, what)
