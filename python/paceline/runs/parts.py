"""Clusters and policies in the TOML files of runs and studies: written out, by preset, or in a file."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paceline import _check, _toml
from paceline._documents import read_document
from paceline.deployment import Cluster
from paceline.errors import ConfigError, PacelineError, PolicyError
from paceline.policies.by_name import maker, names
from paceline.policy import Policy

__all__ = ["cluster_from", "included", "policy_from"]


def included(content: object, what: str, folder: Path) -> dict[str, Any]:
    """Return a table; where it is ``{file = "…"}`` or the name of a TOML file, the file's content.

    A policy may be the name of a preset alone.
    """
    if isinstance(content, str):
        content = {"preset" if what == "policy" and not content.endswith(".toml") else "file": content}
    if not isinstance(content, Mapping):
        raise ConfigError(f"{what} must be a table or the name of a FILE.toml, was {_check.said(content)}")
    if "file" not in content:
        return dict(content)
    if len(content) > 1:
        others = ", ".join(name for name in content if name != "file")
        raise ConfigError(f"{what} must have file and nothing else, was file with {others}")
    name = content["file"]
    if not isinstance(name, str) or not name:
        raise ConfigError(f"file of {what} must be the name of a FILE.toml, was {_check.said(name)}")
    path = folder / name
    return _toml.parse(read_document(path), str(path))


def cluster_from(content: Mapping[str, Any]) -> Cluster:
    """Return the cluster of a table, as `Cluster.to_toml` writes it."""
    return Cluster.from_toml(_toml.dump(content))


def policy_from(content: Mapping[str, Any], layers: int | None = None) -> Policy:
    """Return the policy of a table: a preset with its parameters, or as `Policy.to_toml` writes it.

    Parameters
    ----------
    content
        ``preset`` with the name of a function of `paceline.policies`, and ``settings`` with its parameters;
        or a policy's own fields.
    layers
        Layers of the model, for a preset that needs them.

    Raises
    ------
    PolicyError
        If there is no such preset, or no such parameter.
    """
    if "preset" not in content:
        return Policy.from_toml(_toml.dump(content))
    strange = [name for name in content if name not in ("preset", "settings")]
    if strange:
        raise PolicyError(
            f"a policy with a preset must have settings and nothing else, had {', '.join(strange)}"
        )
    name = str(content["preset"]).replace("-", "_")
    if name not in names():
        raise PolicyError(f"preset of a policy has no name {name!r}{_toml.close_matches(name, names())}")
    make = maker(name)
    settings = content.get("settings", {})
    if not isinstance(settings, Mapping):
        raise PolicyError(f"settings of policy {name} must be a table, was {_check.said(settings)}")
    parameters = inspect.signature(make).parameters
    for setting in settings:
        if setting not in parameters:
            raise PolicyError(
                f"policy {name} has no parameter {setting!r}{_toml.close_matches(setting, parameters)}"
            )
    arguments = dict(settings)
    if layers is not None and "layers" in parameters:
        arguments.setdefault("layers", layers)
    lacking = [
        each.name for each in parameters.values() if each.default is each.empty and each.name not in arguments
    ]
    if lacking:
        raise PolicyError(f"policy {name} needs settings.{lacking[0]}")
    try:
        return make(**arguments)
    except PacelineError:
        raise
    except (TypeError, ValueError, AttributeError) as error:
        raise PolicyError(f"settings of policy {name}: {error}") from error
