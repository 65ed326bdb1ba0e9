"""Open-loop runs: read, replayed and compared by rate."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import paceline
from paceline.cli.open_loop import compare_open_loop
from paceline.cost import Roofline
from paceline.errors import ConfigError
from paceline.testing import check
from paceline.validation.open_loop import Server, noise, predict_means, read_open_loop, same_rate

HEAD = "request_id,tenant,arrival_us,send_us,prompt_tokens_server,output_tokens,ttft_us,e2e_us,status\n"


def write(folder: Path, name: str, *rows: tuple[int, int, int, int, int, str]) -> None:
    lines = [f"{i},a,0," + ",".join(map(str, row)) for i, row in enumerate(rows)]
    with gzip.open(folder / f"{name}.csv.gz", "wt") as file:
        file.write(HEAD + "\n".join(lines))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    ok = [(500_000 * i, 1000, 11, 60_000 + i, 160_000 + i, "ok") for i in range(9)]
    # Sent out of order, and one that failed.
    write(tmp_path, "two-vanilla", *ok[::-1], (77, 1000, 1, 0, 0, "timeout"))
    slower = [(*row[:3], row[3] + 6_000, row[4] + 16_000, "ok") for row in ok]
    write(tmp_path, "two-patched", *slower)
    return tmp_path


def test_a_run_is_what_succeeded_by_when_it_was_sent(folder: Path) -> None:
    patched, vanilla = read_open_loop(folder)
    assert (vanilla.name, patched.name) == ("two-vanilla", "two-patched")
    assert (len(vanilla.trace), vanilla.left_out, patched.left_out) == (9, 1, 0)
    assert vanilla.rate == pytest.approx(2.0)
    of = vanilla.measured.statistics()
    assert of["ttft"]["mean"] == pytest.approx(0.060004)
    assert of["tpot"]["mean"] == pytest.approx(0.010)
    assert of["e2e"]["mean"] == pytest.approx(0.160004)


def test_the_noise_is_what_two_gpus_differ_by(folder: Path) -> None:
    runs = read_open_loop(folder)
    assert noise(runs) == pytest.approx({"ttft": 6_000 / 60_004, "tpot": 0.1, "e2e": 16_000 / 160_004})
    assert noise(runs[:1]) == {}
    assert [(rate, len(group)) for rate, group in same_rate(runs)] == [(2, 2)]


def test_the_front_end_lengthens_what_begins_with_the_sending_by_itself(folder: Path) -> None:
    run = read_open_loop(folder)[0]
    plain = predict_means(run, Roofline())
    later = predict_means(run, Roofline(), frontend_s=0.008)
    assert later["ttft"] - plain["ttft"] == pytest.approx(0.008, abs=1e-9)
    assert later["e2e"] - plain["e2e"] == pytest.approx(0.008, abs=1e-9)
    assert later["tpot"] == pytest.approx(plain["tpot"], abs=1e-12)
    with pytest.raises(ConfigError, match="frontend_s"):
        predict_means(run, Roofline(), frontend_s=-1.0)


def test_with_fewer_seats_requests_queue(folder: Path) -> None:
    write(folder, "burst", *((i, 1000, 11, 60_000, 160_000, "ok") for i in range(40)))
    run = read_open_loop(folder)[0]
    one = predict_means(run, Roofline(), server=Server(max_num_seqs=1))
    assert one["ttft"] > 2 * predict_means(run, Roofline())["ttft"]


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"must have RUN\.csv\.gz"):
        read_open_loop(tmp_path)
    with gzip.open(tmp_path / "a.csv.gz", "wt") as file:
        file.write("send_us,status\n1,ok\n")
    with pytest.raises(ConfigError, match=r"must have the columns .* lacked prompt_tokens_server"):
        read_open_loop(tmp_path)
    (tmp_path / "a.csv.gz").unlink()
    write(tmp_path, "b", (0, 10, 2, 1, 2, "ok"))
    with pytest.raises(ConfigError, match="two requests or more of status ok, had 1"):
        read_open_loop(tmp_path)
    with gzip.open(tmp_path / "b.csv.gz", "wt") as file:
        file.write(HEAD + "0,a,0,early,10,2,1,2,ok\n")
    with pytest.raises(ConfigError, match=r"send_us of .* must be whole numbers"):
        read_open_loop(tmp_path)


def test_the_command_prints_means_by_rate(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    compare_open_loop(folder, None, frontend_s=0.008, json=True)
    document = json.loads(capsys.readouterr().out)
    (row,) = document["rates"]
    assert (row["rate"], row["requests"], row["left_out"]) == (2, 18, 1)
    assert row["measured_s"]["ttft"] == pytest.approx(np.mean([0.060004, 0.066004]))
    means = [predict_means(run, Roofline(), frontend_s=0.008)["ttft"] for run in read_open_loop(folder)]
    of = [run.measured.statistics()["ttft"]["mean"] for run in read_open_loop(folder)]
    assert row["off"]["roofline"]["ttft"] == pytest.approx(np.mean(np.array(means) / of) - 1)


def test_a_front_end_shifts_every_moment_and_is_in_the_provenance() -> None:
    trace = paceline.Trace.from_columns(
        arrival=[0.0, 0.001, 0.5], prompt_tokens=[100, 200, 50], output_tokens=[5, 1, 9]
    )
    instances = [paceline.Instance(model="llama-3.1-8b", gpu="h100-sxm")]
    plain, later = (paceline.replay(trace, paceline.Cluster(instances, frontend_s=f)) for f in (0.0, 0.25))
    shifts = dict.fromkeys(("scheduled", "first_token", "finish", "queueing", "ttft", "e2e"), 0.25)
    for name, shift in {**shifts, "arrival": 0.0, "executed": 0.0, "tpot": 0.0}.items():
        off = (later.requests[name] - plain.requests[name]).drop_nulls().to_numpy()
        assert off == pytest.approx(shift, abs=1e-9), name
    check(plain)
    check(later)
    assert paceline.Cluster.from_toml(later.provenance.cluster).frontend_s == 0.25
    assert "frontend_s" not in plain.provenance.cluster
    with pytest.raises(ConfigError, match=r"frontend_s must be 0 or more seconds .*, was -0\.1"):
        paceline.Cluster(instances, frontend_s=-0.1)


def test_a_limited_client_sends_as_scheduled_under_its_limit(folder: Path) -> None:
    # All nine are scheduled at 0, and one is in flight: each is alone, whenever it was measured to be sent.
    run = read_open_loop(folder)[0]
    one = predict_means(run, Roofline(), clients=paceline.Concurrency(1))
    all_at_once = predict_means(run, Roofline(), clients=paceline.Concurrency(9))
    assert one == pytest.approx(predict_means(run, Roofline()), rel=1e-9)
    assert all_at_once["ttft"] > 2 * one["ttft"]
    with pytest.raises(ConfigError, match="clients need the column arrival_us"):
        predict_means(replace(run, scheduled=None), Roofline(), clients=paceline.Concurrency(1))
