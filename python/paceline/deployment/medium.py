"""A medium between instances: how long it takes for a message."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from paceline import _check, catalog
from paceline._arguments import typed, typed_fields
from paceline._clock import TICKS_PER_SECOND, ticks
from paceline._toml import build, table
from paceline.errors import ConfigError
from paceline.kernels.curve import Curve

__all__ = ["Medium", "check_speed", "link_names", "loaded", "medium_from", "medium_of", "medium_table"]

_MOST_BESIDE = 2**20
_MOST_BYTES = 2**64 - 1

# Slower or faster than any link by a factor of a million. The engine's own range is wider.
_SLOWEST_GBPS = 1e-9
_FASTEST_GBPS = 1e9


def link_names() -> tuple[str, ...]:
    """Return the names of the links that come with Paceline.

    Examples
    --------
    >>> "infiniband-ndr" in link_names()
    True
    """
    return catalog.names("link")


@dataclass(frozen=True, slots=True, kw_only=True)
@typed_fields()
class Medium:
    """What a transfer crosses: a port in one direction, an uplink, a fabric, or the link of a pair.

    Parameters
    ----------
    gbps
        Gigabits a second (10**9 bits), in one direction.
    latency_s
        Seconds from when the last byte is sent until it is received.
    curve
        Measured seconds at message sizes in bytes. Between two sizes the time is linear, below the first its
        time holds, and past the last one each further byte takes its time at ``gbps``. None: bytes over
        ``gbps``.

    Raises
    ------
    ConfigError
        If a figure is out of range, or a larger message takes less time than a smaller one.

    Examples
    --------
    >>> Medium(gbps=100).seconds(125_000_000)
    0.01
    >>> from paceline.kernels import Curve
    >>> measured = Medium(gbps=8, curve=Curve((1_000, 2_000), (5e-6, 6e-6)))
    >>> [f"{measured.seconds(size):.1e}" for size in (1, 1_500, 3_000)]
    ['5.0e-06', '5.5e-06', '7.0e-06']
    >>> Medium.load("nvlink-h100").gbps
    3600
    """

    gbps: float
    latency_s: float = 0.0
    curve: Curve | None = None

    def __post_init__(self) -> None:
        check_speed("a Medium", self.gbps, self.latency_s)
        if self.curve is None:
            return
        if self.curve.at[0] < 0:
            raise ConfigError(f"sizes of the curve of a Medium must be 0 or more, were {self.curve.at}")
        times = self.curve.seconds
        for size, before, after in zip(self.curve.at[1:], times, times[1:], strict=False):
            if after < before:
                raise ConfigError(
                    f"times of the curve of a Medium must not fall with the size, fell from {before} to "
                    f"{after} at {size} bytes"
                )

    @classmethod
    @typed()
    def load(cls, name: str) -> Medium:
        """Return a link that comes with Paceline; its file says where the numbers come from.

        Raises
        ------
        ConfigError
            If there is no link of that name; the message names close ones.
        """
        return build(cls, catalog.load("link", name), f"link {name!r}")

    @typed()
    def seconds(self, kv_bytes: int) -> float:
        """Return the time that a message occupies the medium, without the latency."""
        _check.count("kv_bytes of seconds()", kv_bytes, least=0, most=_MOST_BYTES, why="64 bits hold it")
        if kv_bytes == 0:
            return 0.0
        curve = self.curve
        if curve is None:
            return kv_bytes * 8 / (self.gbps * 1e9)
        return curve(min(kv_bytes, curve.end)) + max(0, kv_bytes - curve.end) * 8 / (self.gbps * 1e9)

    @typed()
    def beside(self, count: int) -> Medium:
        """Return so many of these media side by side, over which each message is divided evenly.

        An instance on several GPUs sends the KV of each over that GPU's own link.

        Examples
        --------
        >>> Medium.load("infiniband-ndr").beside(8).gbps
        3200
        """
        _check.count("count of beside()", count, most=_MOST_BESIDE, why="an instance has a link for each GPU")
        curve = self.curve
        if curve is not None:
            curve = Curve(tuple(count * size for size in curve.at), curve.seconds)
        return Medium(gbps=count * self.gbps, latency_s=self.latency_s, curve=curve)

    def to_wire(self) -> dict[str, Any]:
        """Return the medium as the engine reads it."""
        wire: dict[str, Any] = {
            "bytes_per_s": self.gbps * 1e9 / 8,
            "latency": ticks(self.latency_s),
        }
        if self.curve is not None:
            times = [round(seconds * TICKS_PER_SECOND) for seconds in self.curve.seconds]
            wire["curve"] = [list(point) for point in zip(self.curve.at, times, strict=True)]
        return wire


def check_speed(what: str, gbps: float, latency_s: float) -> None:
    """Refuse a rate or a latency with which the engine cannot compute exactly."""
    _check.positive(f"gbps of {what}", gbps)
    if not _SLOWEST_GBPS <= gbps <= _FASTEST_GBPS:
        raise ConfigError(
            f"gbps of {what} must be {_SLOWEST_GBPS:g} to {_FASTEST_GBPS:g} gigabits a second, was {gbps!r}"
        )
    ticks(latency_s, f"latency_s of {what}")


def medium_of(given: object, what: str) -> Medium | None:
    """Return a medium, loaded if it is the name of a link; refuse anything else."""
    if given is None or isinstance(given, Medium):
        return given
    if not isinstance(given, str):
        raise ConfigError(f"{what} must be a Medium or the name of a link, was {_check.said(given)}")
    return Medium.load(given)


def loaded(given: str | Medium) -> Medium:
    """Return a medium, loaded if it is the name of a link."""
    return Medium.load(given) if isinstance(given, str) else given


def medium_table(given: str | Medium) -> str | dict[str, Any]:
    """Return a link's name, or a medium as a TOML table."""
    return given if isinstance(given, str) else table(given)


def medium_from(content: object, what: str) -> str | Medium:
    """Return what :func:`medium_table` made; ``what`` names it in errors."""
    if not isinstance(content, Mapping):
        return content  # type: ignore[return-value]  # checked by the class that it is given to
    fields = dict(content)
    if "curve" in fields:
        fields["curve"] = _curve(fields["curve"], f"curve of {what}")
    return build(Medium, fields, what)


def _curve(content: Any, what: str) -> Curve:  # noqa: ANN401 - read from a file
    fields = {
        name: tuple(each) if isinstance(each, list) else each
        for name, each in (content.items() if isinstance(content, Mapping) else ())
    }
    return build(Curve, fields if isinstance(content, Mapping) else content, what)
