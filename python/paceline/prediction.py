"""The time that a predictor of output lengths takes before the router sees a request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

from paceline import _check
from paceline._arguments import typed_fields
from paceline._clock import TICKS_PER_SECOND
from paceline.errors import ConfigError

__all__ = ["Prediction"]

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
    >>> serial = Prediction(seconds=0.002, batch=2, where="serial")
    >>> cluster = Cluster([Instance(cost=Affine(step_s=0.01), num_blocks=101)], prediction=serial)
    >>> replay(trace, cluster, policies.pars()).requests["prediction"].to_list()
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

    def to_wire(self) -> dict[str, Any]:
        """Return the times in ticks, as the engine takes them."""
        each, once = (round(value * TICKS_PER_SECOND) for value in (self.seconds, self.batch_seconds))
        return {"each": each, "once": once, "batch": self.batch, "serial": self.where == "serial"}
