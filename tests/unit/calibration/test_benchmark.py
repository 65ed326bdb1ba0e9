"""Benchmarks as observations: a fit finds the efficiencies that a replay was made with."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

import paceline
from paceline import Cluster, Concurrency, Instance
from paceline.calibration import Benchmark, calibrate, read_observations
from paceline.cost import Roofline
from paceline.errors import ConfigError
from paceline.hardware import Gpu
from paceline.policies import vllm

TRUTH = {"memory": 0.6, "matmul": 0.4}


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write what a client with 16 requests in flight would have measured on a GPU of other efficiencies."""
    given = Gpu.load("h100-sxm").efficiency
    assert given is not None
    cost = Roofline(efficiency=dataclasses.replace(given, **TRUTH))
    trace = paceline.synthesize("azure-conv", requests=200, rate=100.0, seed=1)
    cluster = Cluster([Instance(model="llama-3.1-8b", gpu="h100-sxm", cost=cost)], frontend_s=0.005)
    policy = vllm(max_num_seqs=256, max_num_batched_tokens=8192, async_scheduling=True)
    result = paceline.replay(trace, cluster, policy, clients=Concurrency(16, gap_s=0.004))
    path = tmp_path_factory.mktemp("bench") / "bench.json"
    return paceline.write_bench(result, path)


def test_a_clients_result_alone_is_a_problem(bench: Path) -> None:
    problem = read_observations(bench, gpu="h100-sxm", fit=("memory", "matmul"))
    assert problem.model == "llama-3.1-8b"  # the file's
    assert [of.name for of in problem.observations] == [
        "mean TTFT of bench.json",
        "mean TPOT of bench.json",
        "mean ITL of bench.json",
    ]
    stated = json.loads(bench.read_text())
    assert problem.observations[1].value == pytest.approx(stated["mean_tpot_ms"] / 1000)
    with pytest.raises(ConfigError, match=r"gpu of .* must be a name of the catalog"):
        read_observations(bench, fit=("memory",))


def test_the_efficiencies_of_the_server_are_found_again(bench: Path) -> None:
    rows = [
        f'[[observations]]\nkind = "benchmark"\nname = "{metric}"\nfile = "bench.json"\nmetric = "{metric}"\n'
        f'source = "a replay"\nfrontend_s = 0.005\n'
        for metric in ("ttft", "tpot", "e2e")
    ]
    path = bench.with_name("problem.toml")
    head = '[[parameters]]\nname = "memory"\n[[parameters]]\nname = "matmul"\n'
    path.write_text(head + "\n".join(rows))
    problem = read_observations(path, model="llama-3.1-8b", gpu="h100-sxm")
    fit = calibrate(problem)
    assert fit.fitted == pytest.approx(TRUTH, rel=0.02)
    assert all(abs(of.off) < 0.005 for of in fit.residuals)


def test_the_hash_of_a_problem_is_of_its_benchmarks_too(bench: Path, tmp_path: Path) -> None:
    text = (
        '[[parameters]]\nname = "memory"\n[[observations]]\nkind = "benchmark"\nname = "a"\nfile = "b.json"\n'
        'metric = "tpot"\nsource = "s"\n'
    )
    (tmp_path / "p.toml").write_text(text)
    hashes = set()
    for changed in (0.0, 1.0):
        document = json.loads(bench.read_text())
        document["latencies"][0] += changed
        (tmp_path / "b.json").write_text(json.dumps(document))
        problem = read_observations(tmp_path / "p.toml", model="llama-3.1-8b", gpu="h100-sxm")
        hashes.add(problem.sha256)
    assert len(hashes) == 2


def test_a_metric_that_the_client_does_not_report_is_refused(bench: Path) -> None:
    with pytest.raises(ConfigError, match=r"must be one of ttft, .*, was 'icl'"):
        Benchmark(file=str(bench), metric="icl").observed()
    with pytest.raises(ConfigError, match="statistic of a Benchmark must be one of mean"):
        Benchmark(file=str(bench), metric="tpot", statistic="p42")


def test_a_file_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text(
        'model = "llama-3.1-8b"\ngpu = "h100-sxm"\n[[parameters]]\nname = "memory"\n[[observations]]\n'
        'kind = "benchmark"\nname = "a"\nfile = "none.json"\nmetric = "tpot"\nsource = "s"\n'
    )
    with pytest.raises(ConfigError, match=r"file of observation 0 of .*p.toml must exist, was .*none.json"):
        read_observations(tmp_path / "p.toml")
