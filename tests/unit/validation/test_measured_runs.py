"""The two measured runs, replayed by the reference simulator with a second reading of the tables.

Both accuracy and the folder's reading are tested here without the engine, so that what the engine says of the
same runs has something independent to agree with.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from paceline.testing.reference import Request, VllmV1Config, replay_cluster
from paceline.validation.comparison import Latencies, compare
from paceline.validation.folder import read_run
from paceline.validation.peer import read_peer
from paceline.validation.prediction import cost_of
from paceline.validation.resolving import usable_blocks

sys.path.insert(0, str(Path(__file__).parent))
from lookup import LookedUp

RUNS = ("rtx4090-llama-3.1-8b", "rtxpro6000-llama-3.1-8b")


@pytest.fixture
def folder(shared: Path, request: pytest.FixtureRequest) -> Path:
    found = shared / "measured" / request.param
    if not found.is_dir():
        pytest.skip(f"needs ../shared/measured/{request.param}, which is not beside this checkout")
    return Path(found)


@pytest.mark.slow
@pytest.mark.parametrize("folder", RUNS, indirect=True)
def test_means_are_as_measured(folder: Path) -> None:
    run = read_run(folder)
    table = cost_of(run)
    config = VllmV1Config(
        block_size=run.block_tokens,
        num_blocks=usable_blocks(run, table.read().facts["gpu"]),
        max_num_batched_tokens=run.max_num_batched_tokens,
        max_num_seqs=run.max_num_seqs,
        max_model_len=run.max_model_len,
        prefix_caching=run.prefix_caching,
    )
    columns = ("arrival_s", "prompt_tokens", "output_tokens", "prefix_block_ids")
    rows = run.requests.select(columns).iter_rows()
    requests = [Request(round(at * 1e12), prompt, out, 0, tuple(ids)) for at, prompt, out, ids in rows]
    outcome = replay_cluster(requests, [(config, LookedUp.of(table.to_wire()))])
    measured = run.measured()
    first, last = (np.array(times, dtype=float) / 1e12 for times in (outcome.first_token, outcome.finish))
    predicted = Latencies(measured.arrival, first, last, measured.output_tokens)
    comparison = compare(run.name, measured, predicted)
    assert abs(comparison.error("tpot", "mean")) < 0.01
    assert abs(comparison.error("e2e", "mean")) < 0.01
    assert abs(comparison.error("ttft", "mean")) < 0.04


@pytest.mark.parametrize("folder", RUNS, indirect=True)
def test_measured_statistics_are_those_the_peer_printed(folder: Path) -> None:
    """The peer prints measured means beside its own, from the same run by another program."""
    words = [line.split() for line in (folder / "peer-llmservingsim.txt").read_text().splitlines()]
    theirs = {
        (row[0], row[1]): float(row[2]) for row in words if row and row[0] in ("TTFT", "TPOT", "Latency")
    }
    ours = read_run(folder).measured().statistics()
    for metric, name in (("ttft", "TTFT"), ("tpot", "TPOT"), ("e2e", "Latency")):
        for statistic in ("mean", "p90", "p99"):
            key = (name, statistic.upper() if statistic != "mean" else "Mean")
            assert 1e3 * ours[metric][statistic] == pytest.approx(theirs[key], rel=2e-3)
    assert read_peer(folder / "peer-llmservingsim.txt")["ttft"]["mean"] > 0
