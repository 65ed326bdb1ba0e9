"""Reading decision logs."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paceline._arguments import typed, typed_fields
from paceline.errors import TraceError

__all__ = ["DecisionLog", "read_log"]


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields()
class DecisionLog:
    """A workload and what a real scheduler decided about it.

    Attributes
    ----------
    path
        The file.
    engine
        The real engine's settings, as it names them.
    cost
        What a step takes, in whole nanoseconds.
    requests
        One list a request: arrival in nanoseconds, prompt tokens, output
        tokens, and what else its kind of log has.
    steps
        One list a step.
    first_token_ns, finish_ns
        By request.
    """

    path: Path
    engine: dict[str, Any]
    cost: dict[str, int]
    requests: list[list[Any]]
    steps: list[list[Any]]
    first_token_ns: list[int]
    finish_ns: list[int]

    @property
    def kind(self) -> str:
        """Which engine it logs: ``vllm``, ``vllm-v0`` or ``layered``."""
        if "mode" in self.engine:
            return "layered"
        return "vllm-v0" if "num_cpu_blocks" in self.engine else "vllm"


@typed()
def read_log(path: Path | str) -> DecisionLog:
    """Read a decision log, plain JSON or gzipped.

    Parameters
    ----------
    path
        The file.

    Returns
    -------
    DecisionLog
        Its content.

    Raises
    ------
    TraceError
        If it is not a decision log.
    """
    path = Path(path)
    raw = path.read_bytes()
    try:
        data = json.loads(gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw)
        return DecisionLog(
            path=path,
            engine=data["engine"],
            cost=data["cost"],
            requests=data["requests"],
            steps=data["log"]["steps"],
            first_token_ns=data["log"]["first_token_ns"],
            finish_ns=data["log"]["finish_ns"],
        )
    except (ValueError, EOFError, OSError, KeyError, TypeError) as error:
        raise TraceError(f"{path}: not a decision log ({type(error).__name__}: {error})") from error
