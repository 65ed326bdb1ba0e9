"""A sweep on a real Ray cluster of two nodes on this machine, with workers and nodes killed in the middle.

`make test-ray` makes an environment with Ray for these tests; elsewhere they are skipped.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import paceline
from paceline import SLO, Cluster, Grid, Instance, Recipe, load_result, read_run, sweep
from paceline.sweeping import SweepProgress

ray: Any = pytest.importorskip("ray", reason="needs Ray: make test-ray")
RayCluster: Any = pytest.importorskip("ray.cluster_utils").Cluster

H100 = Cluster([Instance(model="llama-3.1-8b", gpu="h100-sxm")])


def grid(requests: int, seeds: int) -> Grid:
    """Return a grid of two policies, two rates and some seeds."""
    return Grid(
        trace=Recipe(preset="azure-conv", requests=requests),
        cluster=H100,
        over={"seed": list(range(seeds)), "scale": [1.0, 2.0], "policy": ["vllm", "sarathi"]},
        slo=SLO(ttft=1.0),
    )


@pytest.fixture
def nodes() -> Iterator[Any]:
    """Start a cluster of two nodes with a core each."""
    cluster = RayCluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    cluster.add_node(num_cpus=1)
    ray.init(address=cluster.address, log_to_driver=False)
    cluster.wait_for_nodes()
    assert len([node for node in ray.nodes() if node["Alive"]]) == 2
    yield cluster
    ray.shutdown()
    cluster.shutdown()


def workers_of(node: Any) -> list[int]:
    """Return the processes of a node that replay: children of its raylet named after the task."""
    raylet = node.all_processes["raylet"][0].process.pid
    listed = subprocess.run(
        ["ps", "--ppid", str(raylet), "-o", "pid=,args="], capture_output=True, text=True, check=False
    )
    return [int(line.split()[0]) for line in listed.stdout.splitlines() if "ray::_replayed" in line]


def written(folder: Path) -> list[str]:
    """Return the identities of all rows that the files of a sweep have."""
    return [name for path in (folder / "points").iterdir() for name in pl.read_parquet(path)["id"]]


def test_rows_are_those_of_threads_and_each_is_written_once(nodes: Any, tmp_path: Path) -> None:
    expected = sweep(grid(100, 3), workers=1)
    found = sweep(grid(100, 3), out=tmp_path, executor="ray")
    assert found.frame.equals(expected.frame)
    assert sorted(written(tmp_path)) == expected.frame["id"].sort().to_list()
    assert sweep(grid(100, 3), out=tmp_path, executor="ray").kept == 12


def test_traces_are_put_into_the_store_once(nodes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    put, stored = ray.put, []

    def counted(value: object) -> object:
        stored.append(value)
        return put(value)

    monkeypatch.setattr(ray, "put", counted)
    sweep(grid(100, 3), executor="ray")
    assert [len(trace) for trace in stored] == [100, 100, 100]


@pytest.mark.parametrize("lost", ["worker", "node"])
def test_a_killed_worker_or_a_lost_node_loses_and_doubles_nothing(
    lost: str, nodes: Any, tmp_path: Path
) -> None:
    killed: list[int] = []

    def kill(at: SweepProgress) -> None:
        if killed or at.done < 3:
            return
        if lost == "node":
            (other,) = nodes.worker_nodes
            killed.append(other.all_processes["raylet"][0].process.pid)
            nodes.remove_node(other, allow_graceful=False)
            return
        for node in nodes.list_all_nodes():
            for process in workers_of(node)[:1]:
                os.kill(process, signal.SIGKILL)
                killed.append(process)

    over = grid(60_000, 5)
    found = sweep(over, out=tmp_path, executor="ray", progress=kill)
    assert killed, "a worker must have been replaying"
    assert found.failed.height == 0
    assert found.frame["id"].n_unique() == found.frame.height == len(over) == 20
    assert found.kept == 0
    assert sorted(written(tmp_path)) == found.frame["id"].sort().to_list()
    assert found.frame.equals(sweep(over).frame)


def test_a_failing_point_is_recorded(nodes: Any, tmp_path: Path) -> None:
    over = Grid(
        trace=Recipe(preset="azure-conv", requests=60),
        cluster=H100,
        over={"cluster.instances.*.num_blocks": [100, 20_000], "trace.preset": ["azure-conv", "none"]},
    )
    found = sweep(over, out=tmp_path, executor="ray")
    assert found.frame.select(pl.col("status").value_counts(sort=True)).unnest("status").rows() == [
        ("failed", 3),
        ("done", 1),
    ]
    assert found.frame.equals(sweep(over).frame)


def test_whole_results_come_back(nodes: Any, tmp_path: Path) -> None:
    over = grid(50, 1)
    found = sweep(over, out=tmp_path / "ray", executor="ray", results=True)
    for identity in found.frame["id"]:
        folder = tmp_path / "ray/results" / identity
        assert read_run(folder / "run.toml").replay() == load_result(folder)


def test_a_trace_in_memory_is_shipped(nodes: Any) -> None:
    over = Grid(
        trace=paceline.synthesize("azure-conv", requests=80, seed=4), cluster=H100, over={"rate": [1.0, 5.0]}
    )
    assert sweep(over, executor="ray", workers=1).frame.equals(sweep(over).frame)


class Head:
    """A cluster of one node in processes of its own, which may all be killed."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        port = self.address.rpartition(":")[2]
        options = (
            "--head",
            "--num-cpus=1",
            f"--port={port}",
            "--include-dashboard=false",
            "--disable-usage-stats",
        )
        command = [str(Path(sys.executable).with_name("ray")), "start", *options, f"--temp-dir={folder}"]
        subprocess.run(command, check=True, capture_output=True, text=True)
        listed = subprocess.run(
            ["ps", "-ww", "-eo", "pid=,args="], capture_output=True, text=True, check=True
        )
        # All its processes name the port or the folder of its session.
        lines = [line for line in listed.stdout.splitlines() if port in line or str(folder) in line]
        self.processes = [int(line.split()[0]) for line in lines]

    def kill(self) -> None:
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)


def swept(folder: Path, address: str) -> subprocess.Popen[str]:
    """Start the command of a sweep on a cluster."""
    words = ("-m", "paceline", "sweep", "study.toml", "--out", "swept", "--executor", "ray", "--quiet")
    environment = os.environ | {"RAY_ADDRESS": address}
    return subprocess.Popen(
        [sys.executable, *words],
        cwd=folder,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.timeout(600)
def test_a_killed_cluster_says_that_the_same_command_continues() -> None:
    # Sockets of Ray have names of at most 107 characters, and lie below the folder.
    with tempfile.TemporaryDirectory(prefix="ray-") as place, contextlib.ExitStack() as stack:
        folder = Path(place)
        (folder / "study.toml").write_text(STUDY, encoding="utf-8")
        head = Head(folder / "a")
        stack.callback(head.kill)
        first = swept(folder, head.address)
        points = folder / "swept/points"
        while not (points.is_dir() and list(points.iterdir())):
            assert first.poll() is None
            time.sleep(0.2)
        assert head.processes
        head.kill()
        said = first.communicate()[1]
        assert (first.returncode, "the same command continues there" in said) == (2, True), said
        kept = written(folder / "swept")
        assert 0 < len(kept) < 32
        another = Head(folder / "b")
        stack.callback(another.kill)
        again = swept(folder, another.address)
        said = again.communicate()[1]
        assert again.returncode == 0, said
        rows = written(folder / "swept")
        assert len(rows) == len(set(rows)) == 32
        assert set(kept) < set(rows)


STUDY = """
[trace]
preset = "azure-conv"
requests = 30000
rate = 10.0

[[cluster.instances]]
model = "llama-3.1-8b"
gpu = "h100-sxm"

[over]
seed = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]
policy = ["vllm", "sarathi"]
"""
