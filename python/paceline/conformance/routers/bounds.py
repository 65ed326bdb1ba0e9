"""The bounds of numbers in router logs."""

from __future__ import annotations

from typing import Annotated

import msgspec

from paceline.trace.schema import TOKENS_LIMIT

__all__ = [
    "Block",
    "Blocks",
    "Count",
    "Index",
    "Instances",
    "Nanoseconds",
    "Request",
    "Seed",
    "Step",
    "Tokens",
]

Tokens = Annotated[int, msgspec.Meta(ge=1, lt=TOKENS_LIMIT)]
# The engine's clock counts beyond 2**63, and a log's ticks are nanoseconds: this is 146 years.
Nanoseconds = Annotated[int, msgspec.Meta(ge=0, lt=2**62)]
# The bound of a step, so that none can exceed the clock: ten seconds.
Step = Annotated[int, msgspec.Meta(ge=1, le=10**10)]
Count = Annotated[int, msgspec.Meta(ge=1, lt=2**31)]
Index = Annotated[int, msgspec.Meta(ge=0, lt=2**16)]
Instances = Annotated[int, msgspec.Meta(ge=1, le=2**12)]
# Blocks are counted, and a replay adds as many again that no limit reaches.
Blocks = Annotated[int, msgspec.Meta(ge=1, le=2**24)]
Block = Annotated[int, msgspec.Meta(ge=0, le=2**62)]
Seed = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class Request(msgspec.Struct):
    """A request of a log."""

    arrival_ns: Nanoseconds
    prompt_tokens: Tokens
    output_tokens: Tokens
