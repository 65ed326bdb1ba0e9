"""Results that go to another process, and results that are read from a directory as they are used."""

from __future__ import annotations

import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import polars as pl
import pytest

import paceline
from paceline.errors import ResultError
from paceline.result.save import REQUESTS, TIMELINE


def replayed(seed: int) -> paceline.Result:
    """Replay a few requests: a function that another process can import."""
    trace = paceline.Trace.from_columns(
        arrival=[0.0, 0.1 * seed, 1.0],
        prompt_tokens=[8, 80, 9],
        output_tokens=[2, 4, 1],
        tenant=["a", "b", "a"],
    )
    cluster = paceline.Cluster([paceline.Instance(cost=paceline.Affine(step_s=0.5), num_blocks=99)])
    return paceline.replay(trace, cluster, sample=paceline.Sample(0.25, tenants=True))


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return replayed(3).save(tmp_path / "run")


def test_a_pickled_result_is_equal() -> None:
    result = replayed(3)
    again = pickle.loads(pickle.dumps(result))
    assert again == result
    assert again.summary().equals(result.summary())
    assert again.totals() == result.totals()
    assert again.tenant_timeline.equals(result.tenant_timeline)


def test_a_result_that_was_not_sampled_is_pickled_too() -> None:
    trace = paceline.Trace.from_columns(arrival=[0.0], prompt_tokens=[8], output_tokens=[2])
    cluster = paceline.Cluster([paceline.Instance(cost=paceline.Affine(step_s=0.5), num_blocks=9)])
    result = pickle.loads(pickle.dumps(paceline.replay(trace, cluster)))
    assert result.requests["ttft"].to_list() == [0.5]
    with pytest.raises(ResultError, match="not sampled"):
        _ = result.timeline


def test_a_result_comes_back_from_a_spawned_process() -> None:
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn) as pool:
        assert pool.submit(replayed, 5).result() == replayed(5)


def test_a_lazily_loaded_result_is_judged_as_the_saved_one(saved: Path) -> None:
    slo = paceline.SLO(ttft=1.0, tpot=0.5)
    lazy, result = paceline.load_result(saved, lazy=True), replayed(3)
    assert (lazy.goodput(slo), lazy.attainment(slo)) == (result.goodput(slo), result.attainment(slo))
    assert result.goodput(slo) > 0


def test_a_lazily_loaded_result_is_equal(saved: Path) -> None:
    assert paceline.load_result(saved, lazy=True) == paceline.load_result(saved) == replayed(3)


def test_summary_and_totals_are_read_without_the_requests(saved: Path) -> None:
    eager = paceline.load_result(saved)
    for name in (REQUESTS, TIMELINE):
        (saved / name).unlink()
    lazy = paceline.load_result(saved, lazy=True)
    assert lazy.summary().equals(eager.summary())
    assert lazy.totals() == eager.totals()
    assert len(lazy) == 3
    assert repr(lazy) == repr(eager)
    with pytest.raises(ResultError, match=r"requests\.parquet: missing"):
        lazy.column("ttft")
    with pytest.raises(ResultError, match=r"timeline\.parquet: missing"):
        _ = lazy.timeline


def test_one_column_is_read_without_the_others(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lazy = paceline.load_result(saved, lazy=True)
    read: list[list[str]] = []
    select = pl.LazyFrame.select

    def noting(self: pl.LazyFrame, names: list[str]) -> pl.LazyFrame:
        read.append(names)
        return select(self, names)

    monkeypatch.setattr(pl.LazyFrame, "select", noting)
    assert lazy.column("ttft").to_list() == lazy.column("ttft").to_list()
    assert read == [["ttft"]]
    assert lazy.requests.equals(replayed(3).requests)


def test_a_changed_file_is_refused_when_it_is_read(saved: Path) -> None:
    path = saved / REQUESTS
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    lazy = paceline.load_result(saved, lazy=True)
    assert lazy.totals().finished == 3
    with pytest.raises(ResultError, match="SHA-256"):
        lazy.column("ttft")
    with pytest.raises(ResultError, match="SHA-256"):
        _ = lazy.requests


def test_a_lazily_loaded_result_is_pickled_with_its_columns(saved: Path) -> None:
    text = pickle.dumps(paceline.load_result(saved, lazy=True))
    for path in saved.iterdir():
        path.unlink()
    assert pickle.loads(text) == replayed(3)
