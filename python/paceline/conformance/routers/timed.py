"""What logs of the sections on vLLM and Llumnix have in common: results by request, and one choice each."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from paceline import _core
from paceline.conformance.routers.bounds import Index, Nanoseconds
from paceline.conformance.routers.decided import Decided

__all__ = ["Result", "decided", "recorded"]


class Result(msgspec.Struct):
    """When a request had its first and its last token."""

    first_token_ns: Nanoseconds
    finish_ns: Nanoseconds


def recorded(instances: Sequence[Index], results: Sequence[Result]) -> Decided:
    """Return the decisions and times in a log."""
    return {
        "instance": instances,
        "first token (ns)": [result.first_token_ns for result in results],
        "finish (ns)": [result.finish_ns for result in results],
    }


def decided(outcome: _core.Outcome) -> Decided:
    """Return the decisions and times of a replay."""
    return {
        "instance": outcome.columns["instance"].tolist(),
        "first token (ns)": outcome.columns["first_token"].tolist(),
        "finish (ns)": outcome.columns["finish"].tolist(),
    }
