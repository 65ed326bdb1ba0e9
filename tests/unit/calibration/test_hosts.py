"""A host fitted to a run that was replayed with a known one finds it again, or says that it cannot tell."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import paceline
from paceline import Cluster, Concurrency, Instance
from paceline.calibration import fit_host
from paceline.errors import ConfigError
from paceline.hosts import EngineHost
from paceline.policies import vllm

SERVED = Cluster([Instance(model="llama-3.1-8b", gpu="h100-sxm")])
POLICY = vllm(max_num_seqs=256, max_num_batched_tokens=8192, async_scheduling=True)
TRUTH = replace(EngineHost.named("vllm-0.12.1"), frontend_s=0.020, step_s=0.001, request_s=50e-6)


def run(path: Path, most: int) -> Path:
    """Write what a client with so many requests in flight would have measured of the true host."""
    trace = paceline.synthesize("azure-conv", requests=160, rate=1000.0, seed=most)
    result = paceline.replay(trace, SERVED, POLICY, clients=Concurrency(most), host=TRUTH)
    return paceline.write_bench(result, path / f"{most}.json")


def test_runs_at_two_loads_tell_a_step_from_its_requests(tmp_path: Path) -> None:
    files = [run(tmp_path, 8), run(tmp_path, 32)]
    found = fit_host(files, SERVED, POLICY, name="vllm-0.12.1")
    # The truth itself leaves nothing: a fit that leaves more has stopped where requests join other steps.
    assert found.off < 1e-4
    assert found.host.frontend_s == pytest.approx(TRUTH.frontend_s, rel=0.005)
    assert found.host.step_s == pytest.approx(TRUTH.step_s, rel=0.005)
    assert found.host.request_s == pytest.approx(TRUTH.request_s, rel=0.005)
    assert found.held["median"] < 0.001 < 0.05 < found.without["median"]
    # Without one of the constants no fit is as good.
    assert len(found.equals) == 1
    path = tmp_path / "mine.toml"
    found.host.write(path)
    trace = paceline.synthesize("azure-conv", requests=20, rate=1.0, seed=0)
    by_file, by_value = (
        paceline.replay(trace, SERVED, POLICY, host=host).requests for host in (path, found.host)
    )
    assert by_file.equals(by_value)
    assert EngineHost.load(str(path)) == found.host


def test_a_run_of_one_request_at_a_time_leaves_the_constants_open(tmp_path: Path) -> None:
    found = fit_host([run(tmp_path, 1)], SERVED, POLICY, name="vllm-0.12.1")
    # With one request in each step, a + b is 1.05 ms, whichever has it.
    least, most = found.spread()["step_s"]
    assert least == 0.0
    assert most == pytest.approx(0.00105, rel=0.02)
    assert all(one["step_s"] + one["request_s"] == pytest.approx(0.00105, rel=0.02) for one in found.equals)


def test_what_cannot_be_fitted_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="files must be one result"):
        fit_host([], SERVED, POLICY, name="vllm-0.12.1")
    with pytest.raises(ConfigError, match="must be an engine and a version"):
        fit_host([run(tmp_path, 2)], SERVED, POLICY, name="fastest")
    with pytest.raises(ConfigError, match=r"frontend_s of the Cluster must be 0 as it is fitted, was 0\.1"):
        fit_host([run(tmp_path, 2)], replace(SERVED, frontend_s=0.1), POLICY, name="vllm-0.12.1")
