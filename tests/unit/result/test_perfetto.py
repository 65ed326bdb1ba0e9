"""Traces for Perfetto, read back by its own schema."""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

import paceline
from paceline.errors import ConfigError, ResultError
from paceline.policy import inst, pick

schema = pytest.importorskip(
    "perfetto.protos.perfetto.trace.perfetto_trace_pb2", reason="the package perfetto is not installed"
)

HALF = paceline.Affine(step_s=0.5)


def replayed(**settings: Any) -> paceline.Result:
    """Two requests on one instance with blocks for one and a half: the second is preempted."""
    trace = paceline.Trace.from_columns(arrival=[0, 0], prompt_tokens=[16, 16], output_tokens=[4, 20])
    cluster = paceline.Cluster([paceline.Instance(cost=HALF, num_blocks=4)])
    return paceline.replay(trace, cluster, **settings)


def moved(**settings: Any) -> paceline.Result:
    """A request that migrates from instance 0 to 1 after its prefill, at a byte a nanosecond."""
    policy = paceline.Policy(
        name="away",
        on_arrival=pick(min=inst.index),
        on_prefilled=pick(max=inst.index),
    )
    trace = paceline.Trace.from_columns(arrival=[0.0], prompt_tokens=[16], output_tokens=[4])
    cluster = paceline.Cluster(
        [
            paceline.Instance(
                model="llama-3.1-8b", gpu="h100-sxm", cost=HALF, num_blocks=9, max_model_len="auto"
            )
        ]
        * 2,
        links=paceline.Links(gbps=8),
    )
    return paceline.replay(trace, cluster, policy, **settings)


class Read:
    """A trace as events by track."""

    def __init__(self, path: Path) -> None:
        packets = schema.Trace.FromString(path.read_bytes()).packet
        self.names: dict[int, str] = {}
        self.parents: dict[int, int] = {}
        events: dict[int, list[Any]] = defaultdict(list)
        last = 0
        for packet in packets:
            assert packet.IsInitialized()
            if packet.HasField("track_descriptor"):
                track = packet.track_descriptor
                assert track.uuid not in self.names
                assert not track.HasField("parent_uuid") or track.parent_uuid in self.names
                self.names[track.uuid], self.parents[track.uuid] = track.name, track.parent_uuid
            else:
                assert packet.timestamp >= last, "events are in the order of time"
                last = packet.timestamp
                events[packet.track_event.track_uuid].append(packet)
        self.tracks = {
            f"{self.names.get(self.parents[number], '')}/{self.names[number]}": events[number]
            for number in events
        }

    def slices(self, track: str) -> list[tuple[str, float, float]]:
        """Return name, start and end in seconds; no two may overlap."""
        found: list[tuple[str, float, float]] = []
        open_slice: tuple[str, int] | None = None
        for packet in self.tracks.get(track, []):
            kind = packet.track_event.type
            if kind == schema.TrackEvent.TYPE_SLICE_BEGIN:
                assert open_slice is None
                open_slice = packet.track_event.name, packet.timestamp
            elif kind == schema.TrackEvent.TYPE_SLICE_END:
                assert open_slice is not None
                found.append((open_slice[0], open_slice[1] / 1e9, packet.timestamp / 1e9))
                open_slice = None
        assert open_slice is None
        return found

    def moments(self, track: str) -> list[tuple[str, float]]:
        return [(one.track_event.name, one.timestamp / 1e9) for one in self.tracks.get(track, [])]


def test_steps_requests_and_preemptions_have_tracks(tmp_path: Path) -> None:
    result = replayed(record=(0.0, 100.0))
    assert result.totals().preemptions > 0
    written = result.perfetto(tmp_path / "out.perfetto-trace")
    read = Read(written.path)
    steps = read.slices("instance 0/steps")
    assert steps[:2] == [("prefill", 0.0, 0.5), ("decode", 0.5, 1.0)]
    assert written.steps == len(steps) == result.stats.steps
    first = result.requests.row(0, named=True)
    assert read.slices("requests/request 0") == [
        ("prefill", 0.0, first["first_token"]),
        ("decode", first["first_token"], first["finish"]),
    ]
    preempted = read.moments("instance 0/preemptions")
    assert [name for name, _ in preempted] == ["request 1"] * result.totals().preemptions
    assert {time for _, time in preempted} <= {start for _, start, _ in steps}
    assert (written.requests, written.requests_left_out) == (2, 0)


def test_counters_are_the_states_of_the_samples(tmp_path: Path) -> None:
    result = replayed(sample=0.7)
    written = result.perfetto(tmp_path / "out.perfetto-trace")
    found = Read(written.path).tracks["instance 0/running"]
    values = [(one.timestamp / 1e9, one.track_event.counter_value) for one in found]
    assert values == [*zip(*(result.timeline[name] for name in ("time_s", "running")), strict=True)]
    assert written.samples == result.timeline.height
    assert [reason.split(":")[0] for reason in written.left_out] == ["steps, preemptions and transfers"]


def test_a_transfer_has_its_time_and_its_bytes(tmp_path: Path) -> None:
    result = moved(record=(0.0, 10.0))
    # 16 tokens, each with keys and values of 2 bytes, of 32 layers with 8 heads of 128.
    size = 16 * 2 * 2 * 32 * 8 * 128
    assert result.transfers.row(0, named=True) == {
        "request": 0,
        "source": 0,
        "target": 1,
        "kind": "accepted",
        "sent_s": 0.5,
        "first_byte_s": 0.5,
        "delivered_s": pytest.approx(0.5 + size / 1e9),
        "bytes": size,
    }
    written = result.perfetto(tmp_path / "out.perfetto-trace")
    assert Read(written.path).slices("instance 0/transfers 0") == [
        ("request 0 to 1", 0.5, pytest.approx(0.5 + size / 1e9, abs=1e-9))
    ]


def test_a_window_leaves_the_rest_out(tmp_path: Path) -> None:
    result = replayed(record=(0.6, 2.0), sample=0.5)
    assert result.steps["start_s"].to_list() == [1.0, 1.5]
    assert result.steps.select("requests", "tokens", "decodes").row(0) == ([0], [1], 1)
    written = result.perfetto(tmp_path / "out", between=(1.5, 3.0), most_requests=1)
    assert (written.steps, written.samples) == (1, 3)
    assert (written.requests, written.requests_left_out) == (1, 1)


@pytest.mark.parametrize("leap", [True, False])
def test_the_recorded_steps_are_those_of_the_whole_that_start_in_the_window(leap: bool) -> None:
    whole = replayed(record=(0.0, 1000.0), leap=True).steps
    part = replayed(record=(1.2, 4.0), leap=leap).steps
    assert part.equals(whole.filter((whole["start_s"] >= 1.2) & (whole["start_s"] < 4.0)))


def test_saved_and_pickled_results_keep_what_was_recorded(tmp_path: Path) -> None:
    import pickle

    result = moved(record=(0.0, 10.0))
    loaded = paceline.load_result(result.save(tmp_path / "run"), lazy=True)
    assert loaded.steps.equals(result.steps)
    assert loaded.transfers.equals(result.transfers)
    assert pickle.loads(pickle.dumps(loaded)) == result == loaded


def test_what_was_not_recorded_is_an_error_that_says_how() -> None:
    with pytest.raises(ResultError, match=r"replay with record=\(0\.0, 10\.0\)"):
        _ = replayed().steps
    with pytest.raises(ConfigError, match="two moments in order"):
        replayed(record=(2.0, 2.0))
    with pytest.raises(ResultError, match="between must be two moments"):
        replayed().perfetto("out", between=(3.0, 1.0))


def test_without_the_package_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "perfetto.protos.perfetto.trace.perfetto_trace_pb2", None)
    with pytest.raises(ResultError, match=r"paceline\[perfetto\]"):
        replayed().perfetto(tmp_path / "out")
