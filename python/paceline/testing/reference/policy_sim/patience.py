"""For how long clients wait for an answer, and when they send a request again.

A client cancels a request some time after it was sent: at its time-out, or when the trace says. A request
that timed out, that the policy rejected, or that gave up at its router is sent again some time after its end,
up to a number of times. A share of that time, drawn for each row and time, may be left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from paceline.testing.reference.policy_sim.request import Request, TraceRequest
from paceline.testing.reference.policy_sim.routers import mix

__all__ = ["Patience", "Rules"]

_MOST = 2**64 - 1


@dataclass(frozen=True, slots=True)
class Rules:
    """How long clients wait, as the engine's configuration spells it; times in ticks."""

    timeout: int | None
    retries: int
    backoff: int
    growth: int
    longest: int
    jitter: int
    seed: int

    def wait(self, row: int, count: int) -> int:
        """Return the time before a row is sent again for the ``count``th time.

        >>> Rules(None, 3, backoff=100, growth=2, longest=350, jitter=0, seed=0).wait(0, 3)
        350
        """
        wait: int = min(self.backoff * self.growth ** (count - 1), self.longest, _MOST)
        drawn = mix(mix(self.seed ^ row) ^ count) >> 32
        return wait - ((wait * self.jitter // 10**6 * drawn) >> 32)


class Patience:
    """The requests that are to be cancelled, and those that are sent again.

    Attributes
    ----------
    due : list of (int, Request)
        When each request that has arrived and not ended is cancelled: by moment, then by arrival.
    again : list of (int, int)
        When each row is sent again, in order of the moments, then of the rows.
    """

    def __init__(self, rules: dict[str, Any] | None, requests: Sequence[TraceRequest]) -> None:
        self._rules = None if rules is None else Rules(**rules)
        self._requests = requests
        self._counts: Counter[int] = Counter()
        self.due: list[tuple[int, Request]] = []
        self.again: list[tuple[int, int]] = []

    def is_up(self, request: Request, now: int) -> bool:
        """Return whether a request that arrives is cancelled at once; note when it is if it is later."""
        after = [one for one in (self._timeout, request.spec.cancel_after) if one is not None]
        if after and min(after) > 0:
            self.due.append((now + min(after), request))
            self.due.sort(key=lambda one: (one[0], one[1].number))
        return bool(after) and min(after) == 0

    def cause(self, request: Request) -> Literal["timed out", "cancelled"]:
        """Return why a request is cancelled; its client's own reason is before the time-out."""
        after, timeout = request.spec.cancel_after, self._timeout
        return "cancelled" if after is not None and (timeout is None or after <= timeout) else "timed out"

    def cancels(self, now: int) -> list[Request]:
        """Return the requests that are cancelled now."""
        return [request for at, request in self.due if at == now]

    def forget(self, request: Request) -> None:
        """Forget a request that has ended."""
        self.due = [one for one in self.due if one[1] is not request]

    def repeat(self, row: int, now: int) -> bool:
        """Return whether a row that has ended is sent again, and note when."""
        if self._rules is None or self._counts[row] >= self._rules.retries:
            return False
        self._counts[row] += 1
        self.again.append((now + self._rules.wait(row, self._counts[row]), row))
        self.again.sort()
        return True

    def send(self, now: int) -> int | None:
        """Return the row that is sent again now, if there is one."""
        return self.again.pop(0)[1] if self.again and self.again[0][0] == now else None

    @property
    def _timeout(self) -> int | None:
        return None if self._rules is None else self._rules.timeout
