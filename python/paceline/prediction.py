"""The time that a predictor of output lengths takes before the router sees a request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from paceline import _check
from paceline._arguments import typed_fields
from paceline._clock import TICKS_PER_SECOND
from paceline.errors import ClockError, ConfigError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Prediction"]

_LIMIT_S: Final = 16_000_000
"""Less than what the clock holds, so that a request that is predicted last can be served."""

_MOST: Final = 3600.0
"""A prompt whose length takes longer than an hour to predict is a mistake of units."""


@dataclass(frozen=True, slots=True)
@typed_fields()
class Prediction:
    """The time of predicting output lengths, charged to each request before it reaches the router.

    A request's prompt reaches the predictor after the front end, and the router has the request when the
    prediction is done. The router and the schedulers are as fast as without predictions.

    Parameters
    ----------
    seconds
        Time for a prompt, as measured.
    batch
        The most prompts that a serial predictor scores at once.
    where
        ``"parallel"``: each prompt is scored at once, whatever else is scored. ``"serial"``: one predictor
        for all, first come first served. While it is free, it takes what has arrived, at most ``batch``
        prompts; k prompts take ``batch_seconds + k * seconds``, and their scores are known together.
    batch_seconds
        Time for a batch, whatever its size; for a prompt where prompts are scored in parallel.

    Raises
    ------
    ConfigError
        If a time is negative or longer than an hour, or ``batch`` is used where predictions are parallel.

    Examples
    --------
    Three prompts at once, of which a serial predictor takes two together:

    >>> from paceline import Affine, Cluster, Instance, Trace, policies, replay
    >>> trace = Trace.from_columns(
    ...     arrival=[0, 0, 0], prompt_tokens=[8, 8, 8], output_tokens=[2, 2, 2], score=[1.0, 2.0, 3.0]
    ... )
    >>> cluster = Cluster([Instance(cost=Affine(step_s=0.01), num_blocks=101)])
    >>> serial = Prediction(seconds=0.002, batch=2, where="serial")
    >>> replay(trace, cluster, policies.pars(), prediction=serial).requests["prediction"].to_list()
    [0.004, 0.004, 0.006]

    Notes
    -----
    Source: Tao et al., "PARS" (ISC 2026), section III-B: the predictor scores each request of the waiting
    queue before the queue is sorted. The paper calls its overhead minimal and names no time, so there is no
    default: measure it.
    """

    seconds: float
    batch: int = 1
    where: Literal["parallel", "serial"] = "parallel"
    batch_seconds: float = 0.0

    def __post_init__(self) -> None:
        for name in ("seconds", "batch_seconds"):
            value = getattr(self, name)
            if not _check.is_number(value) or not 0 <= value <= _MOST:
                raise ConfigError(
                    f"{name} of a Prediction must be a number of seconds from 0 to {_MOST:g}, "
                    f"was {_check.said(value)}"
                )
        _check.count("batch of a Prediction", self.batch)
        if self.where == "parallel" and self.batch > 1:
            raise ConfigError(
                f"batch of a Prediction must be 1 with where='parallel', as each prompt is scored at once, "
                f"was {self.batch}; batches need where='serial'"
            )

    def delays(self, arrivals: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Return the time of each prediction, from a request's arrival at the predictor until it is known.

        Parameters
        ----------
        arrivals
            Ticks at which prompts reach the predictor, in order.

        Returns
        -------
        numpy.ndarray
            Ticks.

        Raises
        ------
        ClockError
            If the last prediction ends later than the clock holds.
        """
        each, once = (round(value * TICKS_PER_SECOND) for value in (self.seconds, self.batch_seconds))
        if self.where == "parallel" or len(arrivals) == 0:
            _check_end(int(arrivals[-1]) + each + once if len(arrivals) else 0)
            return np.full(len(arrivals), each + once, dtype=np.uint64)
        if self.batch == 1:
            ends = _one_by_one(arrivals, each + once)
        else:
            ends = _in_batches(arrivals, each, once, self.batch)
        _check_end(int(ends[-1]))
        return ends - arrivals


def _one_by_one(arrivals: NDArray[np.uint64], each: int) -> NDArray[np.uint64]:
    """Return when each prediction ends: it starts when the prompt is there and the one before has ended.

    So the end of a prediction is the latest, over the prompts up to its own, of the arrival and the times of
    all predictions from there on.
    """
    _check_end(each * len(arrivals))
    before = np.arange(len(arrivals), dtype=np.uint64) * np.uint64(each)
    # Counted from the last prompt, so that unsigned ticks never fall below 0.
    later = before[::-1]
    ends: NDArray[np.uint64] = np.maximum.accumulate(arrivals + later) - later + np.uint64(each)
    return ends


def _in_batches(arrivals: NDArray[np.uint64], each: int, once: int, batch: int) -> NDArray[np.uint64]:
    """Return when each prediction ends, batch by batch."""
    ends = np.empty_like(arrivals)
    moments = arrivals.tolist()
    first, free = 0, 0
    while first < len(moments):
        start = max(free, moments[first])
        last = first + 1
        while last < len(moments) and last - first < batch and moments[last] <= start:
            last += 1
        free = start + once + each * (last - first)
        _check_end(free)
        ends[first:last] = free
        first = last
    return ends


def _check_end(ticks: int) -> None:
    if ticks > _LIMIT_S * TICKS_PER_SECOND:
        raise ClockError(
            f"predictions must end before {_LIMIT_S:,} s (the clock holds 186 days), the last would end at "
            f"{ticks / TICKS_PER_SECOND:,.0f} s; predict faster, or replay fewer requests"
        )
