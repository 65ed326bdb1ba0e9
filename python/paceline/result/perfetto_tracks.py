"""Tracks of a trace, as Perfetto's track events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, Final

from paceline.errors import ResultError

__all__ = ["Tracks"]

_SEQUENCE: Final = 1
"""All packets are of one writer."""


def _schema() -> Any:  # noqa: ANN401 - a generated module
    try:
        return import_module("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    except ImportError as error:
        raise ResultError(
            "the package perfetto, which has the schema of the traces, must be installed; "
            "install it with: pip install 'paceline[perfetto]'"
        ) from error


class Tracks:
    """Groups of tracks, each of slices, instants or values; written in the order of time."""

    def __init__(self) -> None:
        self._proto = _schema()
        self._ids: dict[tuple[str, str], int] = {}
        self._descriptors: list[Any] = []
        self._events: list[tuple[int, int, Any]] = []

    def group(self, name: str) -> int:
        """Return the number of a group, which is added if there is none."""
        return self._track(name, "")

    def slice(
        self,
        group: str,
        track: str,
        name: str,
        start_s: float,
        end_s: float,
        details: Mapping[str, str | float],
    ) -> None:
        """Add a slice; no other on its track may overlap it."""
        track_id = self._track(group, track)
        event = self._proto.TrackEvent
        start, end = _nanoseconds(start_s), _nanoseconds(end_s)
        if end == start:
            self._add(start, 1, track_id, event.TYPE_INSTANT, name, details)
            return
        self._add(start, 2, track_id, event.TYPE_SLICE_BEGIN, name, details)
        # Where a slice begins as another ends on the same track, the end comes first.
        self._add(end, 0, track_id, event.TYPE_SLICE_END)

    def instant(self, group: str, track: str, name: str, time_s: float) -> None:
        """Add a moment."""
        track_id = self._track(group, track)
        self._add(_nanoseconds(time_s), 1, track_id, self._proto.TrackEvent.TYPE_INSTANT, name)

    def counter(self, group: str, track: str, time_s: float, value: float) -> None:
        """Add a value of a counter."""
        track_id = self._track(group, track, counter=True)
        packet = self._add(_nanoseconds(time_s), 1, track_id, self._proto.TrackEvent.TYPE_COUNTER)
        if isinstance(value, int):
            packet.track_event.counter_value = value
        else:
            packet.track_event.double_counter_value = value

    def encoded(self) -> Iterator[bytes]:
        """Yield the trace in parts: first the tracks, then the events in the order of time."""
        self._events.sort(key=lambda event: event[:2])
        for packet in (*self._descriptors, *(event[2] for event in self._events)):
            # Concatenated messages are one message whose repeated fields are joined.
            yield self._proto.Trace(packet=[packet]).SerializeToString()

    def _track(self, group: str, name: str, *, counter: bool = False) -> int:
        known = self._ids.get((group, name))
        if known is not None:
            return known
        parent = None if not name else self._track(group, "")
        number = self._ids[group, name] = len(self._ids) + 1
        packet = self._proto.TracePacket(trusted_packet_sequence_id=_SEQUENCE)
        packet.track_descriptor.uuid = number
        packet.track_descriptor.name = name or group
        if parent is not None:
            packet.track_descriptor.parent_uuid = parent
        if counter:
            packet.track_descriptor.counter.SetInParent()
        self._descriptors.append(packet)
        return number

    def _add(
        self,
        time: int,
        place: int,
        track: int,
        kind: int,
        name: str = "",
        details: Mapping[str, str | float] | None = None,
    ) -> Any:  # noqa: ANN401 - a generated class
        packet = self._proto.TracePacket(timestamp=time, trusted_packet_sequence_id=_SEQUENCE)
        packet.track_event.type = kind
        packet.track_event.track_uuid = track
        if name:
            packet.track_event.name = name
        for key, value in (details or {}).items():
            note = packet.track_event.debug_annotations.add(name=key)
            if isinstance(value, str):
                note.string_value = value
            elif isinstance(value, int):
                note.int_value = value
            else:
                note.double_value = value
        self._events.append((time, place, packet))
        return packet


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1e9)
