"""Whether a client limited its requests in flight, from when requests were sent and ended."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["in_flight", "in_flight_cap"]

Floats = NDArray[np.float64]

#: Of the requests sent since the most were first in flight, the share that brings them there again if the
#: client holds requests back. An unlimited client reaches its maximum a few times.
_HELD_SHARE: Final = 0.5
#: Fewer requests cannot tell a limit from chance.
_FEWEST: Final = 8


def in_flight_cap(sent: Floats, ended: Floats) -> tuple[int, float] | None:
    """Return the limit of requests in flight that a client kept to, and its time from an end to a sending.

    The most requests that were ever in flight are the limit if at least half of the requests sent since then
    bring the number there again: such a sending waited for an end.

    Parameters
    ----------
    sent, ended
        Moments of each request, in seconds.

    Returns
    -------
    tuple or None
        The limit, and the median of the times from an end to the sending that it allowed.

    Examples
    --------
    Requests of 1 s each by a client with two in flight, 10 ms after the end of another:

    >>> sent = np.array([0, 0, 1.01, 1.01, 2.02, 2.02, 3.03, 3.03, 4.04, 4.04])
    >>> most, gap = in_flight_cap(sent, sent + 1.0)
    >>> most, round(gap, 3)
    (2, 0.01)

    >>> in_flight_cap(np.arange(10.0), np.arange(10.0) + 0.5) is None
    True
    """
    if len(sent) < _FEWEST:
        return None
    sent, ended = np.sort(sent), np.sort(ended)
    done = _done(sent, ended)
    flying = np.arange(1, len(sent) + 1) - done
    most = int(flying.max())
    reached = int(flying.argmax())
    since = flying[reached:]
    if most < 1 or most >= len(sent) or len(since) < _FEWEST // 2:
        return None
    held = since >= most
    if most == 1:
        # One in flight at a time is also what a light load looks like: the waits have to be alike.
        waits = sent[1:] - ended[np.maximum(done[1:] - 1, 0)]
        held = np.concatenate(([True], waits < 0.1 * np.median(ended[1:] - sent[1:])))
    if held[1:].mean() < _HELD_SHARE:
        return None
    at = reached + np.flatnonzero(held)[1:]
    at = at[at >= most]
    if not len(at):
        return None
    # The sending of request i needs that i - most + 1 requests have ended.
    return most, float(np.median(sent[at] - ended[at - most]))


def _done(sent: Floats, ended: Floats) -> NDArray[np.int64]:
    """Return how many requests had ended by each sending; at equal moments the end comes first."""
    return np.searchsorted(ended, sent, side="right").astype(np.int64)


def in_flight(sent: Floats, ended: Floats) -> NDArray[np.int64]:
    """Return how many requests were in flight after each sending, by when they were sent."""
    flying: NDArray[np.int64] = np.arange(1, len(sent) + 1) - _done(np.sort(sent), np.sort(ended))
    return flying
