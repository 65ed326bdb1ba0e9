"""Reading router logs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import msgspec

from paceline._arguments import typed, typed_fields
from paceline.conformance.routers.kinds import KINDS, Kind, kind_of
from paceline.errors import TraceError
from paceline.limits import Limits
from paceline.trace.opening import content

__all__ = ["RouterLog", "is_router_log", "read_router_log"]


class _Named(msgspec.Struct):
    router: str


class _Request(Protocol):
    arrival_ns: int
    prompt_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields(but=("kind", "content"))
class RouterLog:
    """A workload, and the decisions of a real router on it.

    Attributes
    ----------
    path
        The file.
    router
        The name that the log gives the router.
    kind
        The module of this kind of log.
    content
        What the file holds, as the kind's ``Log``.
    """

    path: Path
    router: str
    kind: Kind
    content: Any

    @property
    def grade(self) -> str:
        """``replay``: a replay's decisions and times are compared; ``rule``: decisions, given what it saw."""
        return getattr(self.kind, "GRADE", "replay")

    @property
    def left_out(self) -> str | None:
        """Whose decisions in the log are not compared; None: all are."""
        return getattr(self.kind, "LEFT_OUT", None)

    @property
    def requests(self) -> Sequence[_Request]:
        """The requests, in order of arrival."""
        requests: Sequence[_Request] = self.content.requests
        return requests


@typed()
def is_router_log(path: Path | str) -> bool:
    """Whether a file is JSON that names a router, as router logs do and scheduler logs do not."""
    try:
        msgspec.json.decode(content(Path(path)), type=_Named)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
    return True


@typed()
def read_router_log(path: Path | str) -> RouterLog:
    """Read a router log, plain JSON, gzip or zstd.

    Parameters
    ----------
    path
        The file.

    Returns
    -------
    RouterLog
        Its content.

    Raises
    ------
    TraceError
        If it is not a router log, or one of a router that is not known.
    """
    path = Path(path)
    text = content(path)
    try:
        router = msgspec.json.decode(text, type=_Named).router
        kind = kind_of(router)
        if kind is None:
            known = ", ".join(KINDS)
            raise TraceError(f"{path}: router must be one of {known}, was {router[:80]!r}")
        log = RouterLog(path=path, router=router, kind=kind, content=msgspec.json.decode(text, type=kind.Log))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        reason = str(error) or "nested too deeply"
        raise TraceError(f"{path}: not a router log: {reason[0].lower()}{reason[1:]}") from error
    _check_requests(log)
    return log


def _check_requests(log: RouterLog) -> None:
    """Refuse requests out of order, and more tokens than a replay without leaping should step through."""
    if not log.requests:
        raise TraceError(f"{log.path}: requests must be at least one, were none")
    arrival = 0
    for at, request in enumerate(log.requests):
        if request.arrival_ns < arrival:
            raise TraceError(
                f"{log.path}: request {at}: arrival_ns must be at least {arrival}, that of the one before, "
                f"was {request.arrival_ns}"
            )
        arrival = request.arrival_ns
    limits, tokens = Limits.current(), sum(each.prompt_tokens + each.output_tokens for each in log.requests)
    if tokens * 16 > limits.values:
        over = limits.over("values", f"{tokens * 16:,}")
        raise TraceError(f"{log.path}: tokens of all requests, each counted as 16 values, {over}")
