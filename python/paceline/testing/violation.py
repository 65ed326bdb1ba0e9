"""A broken invariant, with the place where it broke."""

from __future__ import annotations

from paceline.errors import InvariantViolation

__all__ = ["BrokenInvariant"]


class BrokenInvariant(InvariantViolation):
    """An invariant of `docs/invariants.md` did not hold.

    Parameters
    ----------
    number
        The invariant's number: 4 for INV-4.
    statement
        What should have held.
    found
        What was found instead, with its values.
    request
        The row of the request, in the trace's order; None if no single request
        breaks it.
    time_s
        The simulated time at which it breaks, in seconds; None likewise.

    Examples
    --------
    >>> print(BrokenInvariant(1, "arrival <= scheduled", "scheduled at 2.0 s", request=7, time_s=2.0))
    INV-1: arrival <= scheduled, was: scheduled at 2.0 s (request 7, at 2.0 s)
    """

    def __init__(
        self,
        number: int,
        statement: str,
        found: str,
        *,
        request: int | None = None,
        time_s: float | None = None,
    ) -> None:
        self.number = number
        self.statement = statement
        self.found = found
        self.request = request
        self.time_s = time_s
        where = [] if request is None else [f"request {request}"]
        if time_s is not None:
            where.append(f"at {time_s!r} s")
        place = f" ({', '.join(where)})" if where else ""
        super().__init__(f"INV-{number}: {statement}, was: {found}{place}")
