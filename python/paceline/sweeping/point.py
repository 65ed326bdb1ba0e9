"""A point of a sweep: its configuration, its identity, and the run that it stands for."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from paceline import _core, _toml
from paceline.deployment import Cluster
from paceline.errors import ConfigError
from paceline.policy import Policy
from paceline.runs import Recipe, Settings
from paceline.runs.parts import cluster_from, policy_from
from paceline.sweeping.paths import with_field
from paceline.trace import Trace

__all__ = ["Point", "canonical"]

_OF_PRESETS: Final = ("preset", "settings")
"""The fields of a policy that is a preset; paths of others are fields of the policy that it makes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One combination of a grid's values.

    Attributes
    ----------
    labels
        The value or the name of each axis.
    types
        The type of each axis in the dataset: ``int``, ``float``, ``bool`` or ``str``.
    whole
        The tables of the run: trace, cluster, policy and settings.
    fields
        Values of fields in them, by path.
    slo
        The bounds of attainment and goodput.
    warmup_s
        The first seconds, of which requests are not judged.
    """

    labels: dict[str, Any]
    types: dict[str, str]
    whole: dict[str, Any]
    fields: dict[str, Any]
    slo: dict[str, float]
    warmup_s: float
    _config: list[dict[str, Any]] = field(default_factory=list, repr=False, compare=False)
    _texts: dict[str, str] = field(default_factory=dict, repr=False, compare=False)

    @property
    def config(self) -> dict[str, Any]:
        """The tables with the fields set.

        Raises
        ------
        ConfigError
            If the path of a field leads nowhere.
        """
        if not self._config:
            content: Any = self.whole
            of_policy = [path.split(".")[1] for path in self.fields if path.startswith("policy.")]
            if any(name not in _OF_PRESETS for name in of_policy):
                content = {**content, "policy": _written_out(content)}
            for path, value in self.fields.items():
                content = with_field(content, path.split("."), value, path)
            self._config.append(content)
        return self._config[0]

    def text(self, part: str) -> str:
        """Return one of the tables with the fields set, as JSON in which equal tables have equal text."""
        if part not in self._texts:
            self._texts[part] = canonical(self.config[part])
        return self._texts[part]

    def config_text(self) -> str:
        """Return all tables with the fields set, likewise."""
        return _joined({part: self.text(part) for part in self.config})

    def identity(self, digest: str | None) -> str:
        """Return the hash of all that the point's row depends on.

        Parameters
        ----------
        digest
            Of the trace's rows before `rate` and `scale`; None if there is no trace, because the point fails.
        """
        others = {"slo": self.slo, "warmup_s": self.warmup_s, "paceline": _core.VERSION}
        texts = {name: canonical(value) for name, value in others.items()}
        try:
            texts |= {part: self.text(part) for part in self.config}
        except ConfigError:
            texts |= {"whole": canonical(self.whole), "fields": canonical(self.fields)}
        if digest is not None:
            # The rows count, and not where they come from.
            table = self.config["trace"]
            rate = {name: table[name] for name in ("rate", "scale") if name in table}
            texts["trace"] = canonical({"sha256": digest, **rate})
        return hashlib.sha256(_joined(texts).encode()).hexdigest()[:32]

    def recipe(self) -> Recipe | None:
        """Return what the trace is made from; None if the grid has the trace itself."""
        table = self.config["trace"]
        return Recipe.from_table(table, Path()) if "path" in table or "preset" in table else None

    def paced(self, rows: Trace) -> Trace:
        """Bring the rows to the rate of the point."""
        recipe = self.recipe()
        if recipe is not None:
            return recipe.paced(rows)
        table = self.config["trace"]
        strange = [name for name in table if name not in ("sha256", "rate", "scale")]
        if strange:
            raise ConfigError(
                f"trace.{strange[0]} belongs to a trace that is read or drawn; this one was given whole"
            )
        if "rate" in table or "scale" in table:
            return rows.at_rate(rate=table.get("rate"), scale=table.get("scale"))
        return rows

    def parts(self) -> tuple[Cluster, Policy, Settings]:
        """Return the cluster, the policy and the settings."""
        cluster = _cluster(self.text("cluster"))
        shape = cluster.instances[0].resolved_model
        policy = _policy(self.text("policy"), None if shape is None else shape.layers)
        return cluster, policy, _settings(self.text("settings"))

    def borrowed_fits(self) -> tuple[str, ...]:
        """Return the instances of the cluster with costs fitted to something else, each once."""
        return _borrowed_fits(self.text("cluster"))


def _written_out(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the policy of a run with all of its own fields, where it is a preset."""
    table: dict[str, Any] = content["policy"]
    if "preset" not in table:
        return table
    shape = _cluster(canonical(content["cluster"])).instances[0].resolved_model
    return _table_of_policy(canonical(table), None if shape is None else shape.layers)


def canonical(content: object) -> str:
    """Return tables as JSON in which equal tables have equal text."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), default=str)


def _joined(texts: Mapping[str, str]) -> str:
    """Return what `canonical` does for a table, of the texts of its values."""
    return "{" + ",".join(f"{json.dumps(name)}:{texts[name]}" for name in sorted(texts)) + "}"


@lru_cache(maxsize=256)
def _cluster(text: str) -> Cluster:
    return cluster_from(json.loads(text))


@lru_cache(maxsize=256)
def _settings(text: str) -> Settings:
    return Settings.from_table(json.loads(text))


@lru_cache(maxsize=256)
def _borrowed_fits(text: str) -> tuple[str, ...]:
    found = dict.fromkeys(instance.borrowed_fit for instance in dict.fromkeys(_cluster(text).instances))
    return tuple(fit for fit in found if fit is not None)


@lru_cache(maxsize=256)
def _table_of_policy(text: str, layers: int | None) -> dict[str, Any]:
    """Return all fields of a policy, not to be changed: many points share them."""
    return _toml.parse(_policy(text, layers).to_toml(), "a policy")


@lru_cache(maxsize=256)
def _policy(text: str, layers: int | None) -> Policy:
    return policy_from(json.loads(text), layers)
