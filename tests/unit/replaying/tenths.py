"""A server whose every step takes a tenth of a second: timelines of it are worked out by hand."""

from __future__ import annotations

from typing import Any

import paceline
from paceline import Affine, Cluster, Instance, Trace, policies

TENTH = Cluster([Instance(cost=Affine(step_s=0.1), num_blocks=101)])
"""One instance with room for all requests."""

ALONE = policies.vllm(max_num_seqs=1)
"""One request runs at a time."""


def sent(**columns: Any) -> Trace:
    """Return a trace of prompts of 8 tokens and outputs of one, but for what is given."""
    rows = len(columns["arrival"])
    given = {"prompt_tokens": [8] * rows, "output_tokens": [1] * rows, **columns}
    return Trace.from_columns(**given)


def moments(result: paceline.Result, name: str) -> list[float | None]:
    """Return a column of seconds, rounded to nanoseconds."""
    return [None if one is None else round(one, 9) for one in result.requests[name].to_list()]
