"""The inputs of a replay, in enough detail to run it again."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from paceline import _core
from paceline._arguments import typed, typed_fields
from paceline._check import said
from paceline.errors import PolicyError, ResultError

if TYPE_CHECKING:
    from paceline.trace import Trace, TraceScan

__all__ = ["Provenance"]


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields(ResultError)
class Provenance:
    """The inputs of a replay, as text and numbers.

    Attributes
    ----------
    version
        The version of Paceline that replayed it.
    trace
        Name of the trace.
    trace_sha256
        Hash of its columns, as `Trace.sha256` gives it.
    dropped_rows
        Rows of its file that were left out on reading, by reason.
    cluster, policy
        The cluster and the policy, in the TOML that they read back from or,
        for one that has none (or holds a Python function), its `repr`.
    uses_oracle
        Whether the policy read what no real scheduler knows, such as the length of
        an output before its end.
    settings
        Arguments of `replay` by name.
    borrowed_fits
        Instances with costs that were fitted to another model, GPU or split, each once.
    """

    version: str
    trace: str
    trace_sha256: str
    dropped_rows: dict[str, int]
    cluster: str
    policy: str
    uses_oracle: bool
    settings: dict[str, Any] = field(default_factory=dict)
    borrowed_fits: list[str] = field(default_factory=list)

    @classmethod
    @typed(ResultError)
    def of(
        cls, trace: Trace | TraceScan, cluster: object, policy: object, settings: Mapping[str, Any]
    ) -> Provenance:
        """Describe the inputs of a replay; hashes the trace."""
        return cls(
            version=_core.VERSION,
            trace=trace.name,
            trace_sha256=trace.sha256,
            dropped_rows=dict(trace.dropped),
            cluster=_text(cluster),
            policy=_text(policy),
            uses_oracle=_uses_oracle(policy),
            settings=dict(settings),
            borrowed_fits=_borrowed_fits(cluster),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name, ready for JSON."""
        return asdict(self)

    def to_files(self) -> dict[str, str]:
        """Return the fields as texts by the name of a file, for the report of a bug."""
        rest = {name: value for name, value in self.to_dict().items() if name not in ("cluster", "policy")}
        return {
            "cluster.toml": self.cluster,
            "policy.toml": self.policy,
            "replay.json": json.dumps(rest, indent=2, ensure_ascii=False) + "\n",
        }


def _uses_oracle(policy: object) -> bool:
    return bool(getattr(policy, "uses_oracle", False))


def _borrowed_fits(cluster: object) -> list[str]:
    instances = getattr(cluster, "instances", ())
    distinct = dict.fromkeys(getattr(instance, "borrowed_fit", None) for instance in dict.fromkeys(instances))
    return [fit for fit in distinct if fit is not None]


def _text(configuration: object) -> str:
    to_toml = getattr(configuration, "to_toml", None)
    if callable(to_toml):
        with contextlib.suppress(PolicyError):  # it holds a Python function
            return str(to_toml())
    try:
        return repr(configuration)
    except Exception:  # the replay has ended, so an error here must not lose its result
        return said(configuration)
