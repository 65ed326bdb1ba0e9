"""A sweep on a real Ray cluster of two nodes on this machine, with workers and nodes killed in the middle.

`make test-ray` makes an environment with Ray for these tests; elsewhere they are skipped.
"""

from __future__ import annotations

import os
import signal
import subprocess
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
