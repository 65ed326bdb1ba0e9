"""Decision logs of real schedulers: the workload, and the decisions.

A log is a JSON file, gzipped or not, with ``engine`` (its settings), ``cost`` (what its steps
took, in integer nanoseconds), ``requests`` and ``log``; the settings say the generation.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paceline.testing.reference.cost import AffineCost
from paceline.testing.reference.instance import Config
from paceline.testing.reference.layered import LayeredConfig
from paceline.testing.reference.request import Request
from paceline.testing.reference.vllm_v0 import VllmV0Config
from paceline.testing.reference.vllm_v1 import VllmV1Config


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionLog:
    """A decision log, read.

    Attributes
    ----------
    requests : list of Request
        The requests, with times in nanoseconds.
    config : VllmV1Config, VllmV0Config or LayeredConfig
    cost : AffineCost
    log : dict
        ``steps``, ``first_token_ns`` and ``finish_ns``, as :func:`replay` returns them.
    """

    requests: list[Request]
    config: Config
    cost: AffineCost
    log: dict[str, list[Any]]


def read_decision_log(path: str | Path) -> DecisionLog:
    """Read a decision log.

    Parameters
    ----------
    path : str or Path
        A ``.json`` or ``.json.gz`` file.

    Returns
    -------
    DecisionLog
    """
    data = Path(path).read_bytes()
    document = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
    engine: dict[str, Any] = document["engine"]
    config: Config
    if "num_layers" in engine:
        config = LayeredConfig(**engine)
    elif "num_cpu_blocks" in engine:
        config = VllmV0Config(**engine)
    else:
        config = VllmV1Config(**engine)
    return DecisionLog(
        requests=[Request(*row[:4], *(tuple(ids) for ids in row[4:])) for row in document["requests"]],
        config=config,
        cost=AffineCost(**{name.removesuffix("_ns"): value for name, value in document["cost"].items()}),
        log=document["log"],
    )
