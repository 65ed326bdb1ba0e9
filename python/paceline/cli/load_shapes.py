"""Options of `paceline synthesize` for rates that change with time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast

from cyclopts import Parameter

from paceline.cli.options import LOAD, seconds_of

if TYPE_CHECKING:
    from paceline.synthesis import Arrivals

__all__ = ["NO_SHAPE", "ShapeOptions"]


@Parameter(name="*", group=LOAD)
@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeOptions:
    """A rate that changes with time; one of them. --rate multiplies it, and is 1 if not given.

    Parameters
    ----------
    ramp
        FROM,TO,TIME or FROM,TO,TIME,exponential: a rate that changes over a time, and stays there: 2,20,60s.
    steps
        TIME:RATE,...: rates from given times on, the first at 0s: 0s:2,60s:10,120s:2.
    on_off
        HIGH,LOW,TIME,TIME: bursts of one rate between times of another, of random lengths with these means:
        20,2,5s,30s.
    diurnal
        MEAN,SWING or MEAN,SWING,TIME: a sine around a mean, whose peak is a part SWING above it, with a
        period of a day or TIME: 5,0.8,600s.
    """

    ramp: str | None = None
    steps: str | None = None
    on_off: str | None = None
    diurnal: str | None = None

    def arrivals(self) -> Arrivals | None:
        """Return the arrival process; None if no option is given.

        Raises
        ------
        ConfigError
            If two are given, or one cannot be read.
        """
        from paceline.errors import ConfigError

        given = {
            f"--{name.replace('_', '-')}": (text, read)
            for name, read in _READERS.items()
            if (text := getattr(self, name)) is not None
        }
        if len(given) > 1:
            raise ConfigError(f"the rate must change in one way, was given {' and '.join(given)}")
        for option, (text, read) in given.items():
            try:
                return read(text)
            except ConfigError:
                raise
            except (ValueError, TypeError) as error:
                right = _FORMS[option]
                raise ConfigError(f"{option} must be {right}, was {text!r}") from error
        return None


def _ramp(text: str) -> Arrivals:
    from paceline.synthesis import Ramp

    start, end, over, *shape = text.split(",")
    if shape not in ([], ["linear"], ["exponential"]):
        raise ValueError(shape)
    kind = cast(Literal["linear", "exponential"], shape[0] if shape else "linear")
    return Ramp(float(start), float(end), over_s=seconds_of(over, "--ramp"), shape=kind)


def _steps(text: str) -> Arrivals:
    from paceline.synthesis import Steps

    stages = [stage.split(":") for stage in text.split(",")]
    return Steps(tuple((seconds_of(start, "--steps"), float(rate)) for start, rate in stages))


def _on_off(text: str) -> Arrivals:
    from paceline.synthesis import OnOff

    high, low, high_s, low_s = text.split(",")
    times = [seconds_of(time, "--on-off") for time in (high_s, low_s)]
    return OnOff(float(high), float(low), high_s=times[0], low_s=times[1])


def _diurnal(text: str) -> Arrivals:
    from paceline.synthesis import Diurnal

    mean, swing, *period = text.split(",")
    if len(period) > 1:
        raise ValueError(period)
    length = seconds_of(period[0], "--diurnal") if period else 86_400.0
    return Diurnal(float(mean), swing=float(swing), period_s=length)


_READERS: dict[str, Callable[[str], Arrivals]] = {
    "ramp": _ramp,
    "steps": _steps,
    "on_off": _on_off,
    "diurnal": _diurnal,
}
_FORMS = {
    "--ramp": "FROM,TO,TIME, with ,exponential if it is: 2,20,60s",
    "--steps": "TIME:RATE,...: 0s:2,60s:10",
    "--on-off": "HIGH,LOW,TIME,TIME: 20,2,5s,30s",
    "--diurnal": "MEAN,SWING, with ,TIME if it is not a day: 5,0.8,600s",
}
NO_SHAPE = ShapeOptions()
