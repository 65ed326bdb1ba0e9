"""A Ray cluster that ends during a sweep, seen from the sweep: its head does not answer any more."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from paceline.errors import ClusterLostError
from paceline.sweeping import on_ray
from paceline.sweeping.dataset import Dataset


@pytest.fixture
def head() -> socket.socket:
    """Return a socket that listens, as the head of a cluster does."""
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    return listening


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return a clock that stands, for the sweep's."""
    now = [100.0]
    monkeypatch.setattr(on_ray.time, "monotonic", lambda: now[0])
    return now


def watched(head: socket.socket, dataset: Dataset | None) -> on_ray._Head:
    host, port = head.getsockname()
    return on_ray._Head(f"{host}:{port}", dataset)


def test_a_head_that_ended_is_waited_for_and_then_lost(
    head: socket.socket, clock: list[float], tmp_path: Path
) -> None:
    watch = watched(head, Dataset(tmp_path / "swept"))
    assert watch.answers()
    head.close()
    clock[0] += 1.0
    assert not watch.answers()
    assert not watch.lost
    clock[0] += 25.0
    with pytest.raises(
        ClusterLostError, match=r"finished points are in .*swept, and the same command continues there"
    ):
        watch.answers()
    assert watch.lost


def test_a_head_that_is_there_again_in_time_is_not_lost(head: socket.socket, clock: list[float]) -> None:
    watch = watched(head, None)
    place = head.getsockname()
    head.close()
    clock[0] += 10.0
    assert not watch.answers()
    again = socket.socket()
    again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    again.bind(place)
    again.listen()
    clock[0] += 15.0
    assert watch.answers()
    again.close()
    clock[0] += 25.0
    with pytest.raises(ClusterLostError, match="give out=FOLDER"):
        watch.answers()


def test_a_cluster_that_ends_while_it_is_asked_for_its_cores_keeps_no_sweep_waiting() -> None:
    asked, end = threading.Event(), threading.Event()
    answers = iter((4, 6))

    def ask() -> int:
        said = next(answers)
        if said == 6:
            asked.set()
            end.wait()
        return said

    cores = on_ray._Cores(ask)
    assert cores.latest() == 4
    assert asked.wait(60)
    # The question is open: there is no other, and no one waits for it.
    assert cores.latest() == 4
    end.set()
    assert cores._asking is not None
    cores._asking.join(60)
    assert cores._said == 6


def test_a_cluster_that_fails_while_it_is_asked_for_its_cores_has_those_that_it_last_said() -> None:
    answers = iter((4,))
    cores = on_ray._Cores(lambda: next(answers))
    cores.latest()
    assert cores._asking is not None
    cores._asking.join(60)
    assert cores.latest() == 4
