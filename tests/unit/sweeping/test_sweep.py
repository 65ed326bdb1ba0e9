"""`paceline.sweep`: rows, resuming, failures, and what makes a point the same."""

from __future__ import annotations

import json
import os
import shutil
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import paceline
from paceline import (
    SLO,
    Affine,
    Cluster,
    ConfigError,
    Grid,
    Instance,
    Recipe,
    ResultError,
    Trace,
    policies,
    read_sweep,
    sweep,
)
from paceline.runs import Settings
from paceline.sweeping import SweepProgress, dataset, running
from paceline.sweeping.measure import METRICS, QUANTILES, TOTALS

H100 = Cluster([Instance(model="llama-3.1-8b", gpu="h100-sxm")])
DRAWN = Recipe(preset="azure-conv", requests=60)
OVER = {"policy": ["vllm", "sarathi"], "rate": [2.0, 20.0], "seed": [1, 2]}
MIXED_FATE = Grid(trace=DRAWN, cluster=H100, over={"cluster.instances.*.num_blocks": [100, 20_000]})


def test_a_row_is_what_a_replay_comes_to() -> None:
    grid = Grid(trace=DRAWN, cluster=H100, over=OVER, slo=SLO(ttft=0.1, tpot=0.02), warmup_s=1.0)
    found = sweep(grid)
    assert found.frame.height == len(grid) == 8
    assert found.frame.select("policy", "rate", "seed").rows() == [
        (policy, rate, seed) for policy in OVER["policy"] for rate in OVER["rate"] for seed in OVER["seed"]
    ]
    for row in found.frame.rows(named=True):
        trace = paceline.synthesize("azure-conv", requests=60, seed=row["seed"], rate=row["rate"])
        result = paceline.replay(trace, H100, getattr(policies, row["policy"])())
        totals = result.totals().to_dict()
        assert json.loads(row["totals"]) == totals
        assert {name: row[name] for name in TOTALS} == {name: totals[name] for name in TOTALS}
        judged = result.requests.filter(pl.col("arrival") >= 1.0)
        assert row["warmup_requests"] == 60 - judged.height > 0
        for metric in ("ttft", "tpot", "e2e", "max_itl", "queueing"):
            values = judged[metric].drop_nulls().to_numpy()
            assert row[f"{metric}_mean"] == pytest.approx(values.mean())
            assert row[f"{metric}_p99"] == pytest.approx(np.quantile(values, 0.99))
            assert row[f"{metric}_max"] == values.max()
        within = judged.filter((pl.col("ttft") <= 0.1) & (pl.col("tpot").fill_null(0) <= 0.02)).height
        assert row["attainment"] == pytest.approx(within / judged.height)
        assert row["goodput"] == pytest.approx(within / (totals["makespan_s"] - 1.0))
        assert (row["trace"], row["trace_sha256"]) == (trace.name, trace.sha256)


lengths = st.integers(1, 30)
slos = st.builds(
    SLO, ttft=st.floats(0.1, 3), tpot=st.floats(0.1, 2), e2e=st.floats(0.5, 9), itl=st.floats(0.1, 2)
)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 5), lengths, lengths), min_size=1, max_size=12),
    st.one_of(st.none(), st.floats(1, 9)),
    st.sampled_from([0.0, 1.5, 9.0]),
    slos,
)
def test_a_row_has_the_figures_of_the_result(
    requests: list[tuple[float, int, int]], until: float | None, warmup_s: float, slo: SLO
) -> None:
    arrival, prompt, output = zip(*requests, strict=True)
    trace = Trace.from_columns(arrival=arrival, prompt_tokens=prompt, output_tokens=output)
    # Sequences of more than 48 tokens are rejected.
    cluster = Cluster([Instance(cost=Affine(step_s=0.25), num_blocks=4)])
    grid = Grid(
        trace=trace,
        cluster=cluster,
        settings=Settings(until=until),
        over={"scale": [1.0]},
        slo=slo,
        warmup_s=warmup_s,
    )
    (row,) = sweep(grid).frame.rows(named=True)
    result = paceline.replay(trace, cluster, until=until)
    totals = result.totals().to_dict()
    assert (row["status"], row["error"]) == ("done", None)
    assert json.loads(row["totals"]) == totals
    judged = result.requests["arrival"] >= warmup_s
    for metric in METRICS:
        values = result.column(metric).filter(judged).drop_nulls().to_numpy()
        figures = [row[f"{metric}_{name}"] for name in ("mean", "max", *QUANTILES)]
        if values.size == 0:
            assert figures == [None] * len(figures)
            continue
        assert row[f"{metric}_max"] == values.max()
        expected = [values.mean(), values.max(), *np.quantile(values, list(QUANTILES.values()))]
        assert figures == pytest.approx(expected, rel=1e-12)
    good = int((result.met(slo) & judged).sum())
    window = totals["makespan_s"] - warmup_s
    assert row["attainment"] == (good / judged.sum() if judged.any() else None)
    assert row["goodput"] == (good / window if window > 0 else None)


def test_any_field_varies_and_labels_name_whole_parts() -> None:
    grid = Grid(
        trace=DRAWN,
        cluster=H100,
        over={
            "cluster": {"one": H100, "two": Cluster(2 * list(H100.instances))},
            "policy.scheduler.max_num_seqs": [1, None],
            "cluster.instances.0.num_blocks": [10_000, 20_000],
            "settings.until": [1.0, 1000.0],
        },
    )
    rows = sweep(grid).frame.rows(named=True)
    assert len(rows) == 16
    for row in rows:
        first = Instance(
            model="llama-3.1-8b", gpu="h100-sxm", num_blocks=row["cluster.instances.0.num_blocks"]
        )
        others = list(H100.instances) * (row["cluster"] == "two")
        result = paceline.replay(
            paceline.synthesize("azure-conv", requests=60, seed=0),
            Cluster([first, *others]),
            policies.vllm(max_num_seqs=row["policy.scheduler.max_num_seqs"]),
            until=row["settings.until"],
        )
        assert row["finished"] == result.totals().finished
        assert row["ttft_mean"] == pytest.approx(result.requests["ttft"].mean(), nan_ok=True)
        assert json.loads(row["config"])["settings"] == {"until": row["settings.until"]}


def test_a_trace_in_memory_varies_in_rate() -> None:
    trace = Trace.from_columns(arrival=[0.0, 1.0], prompt_tokens=[8, 8], output_tokens=[4, 4], name="mine")
    cluster = Cluster([Instance(cost=Affine(step_s=0.5), num_blocks=9)])
    rows = sweep(Grid(trace=trace, cluster=cluster, over={"rate": [1.0, 10.0]})).frame
    assert rows["trace"].to_list() == ["mine", "mine"]
    assert rows["trace_sha256"].to_list() == [trace.sha256, trace.at_rate(rate=10.0).sha256]


def test_a_failing_point_is_recorded_and_stops_no_other(tmp_path: Path) -> None:
    found = sweep(MIXED_FATE, out=tmp_path / "out")
    assert found.frame["status"].to_list() == ["failed", "done"]
    assert "FitError: max_model_len must be at most" in found.failed["error"][0]
    assert found.failed["ttft_p50"].to_list() == [None]
    assert found.frame["ttft_p50"][1] > 0
    assert read_sweep(tmp_path / "out")["status"].sort().to_list() == ["done", "failed"]
    again = sweep(MIXED_FATE, out=tmp_path / "out")
    assert (again.kept, again.frame.equals(found.frame)) == (1, True)


@pytest.mark.parametrize(
    ("over", "said"),
    [
        ({"policy.scheduler.stages.9.kind": ["running"]}, "'9' must be an index below 2"),
        ({"policy.name.first": ["a"]}, "'first' must be a field of a table"),
        ({"cluster.instance.*.gpu": ["h100-sxm"]}, "no list 'instance'; close to it: instances"),
        ({"trace.preset": ["azure-comv"]}, "azure-comv"),
        ({"policy": ["sarathy"]}, "close to it: sarathi"),
        ({"settings.untill": [1.0]}, "close to it: until"),
        ({"trace": {"gone": {"path": "gone.csv"}}}, "gone.csv"),
    ],
)
def test_whatever_is_wrong_with_a_point_is_in_its_row(over: dict[str, list[object]], said: str) -> None:
    policy = None if "policy" in over else policies.vllm()
    found = sweep(Grid(trace=DRAWN, cluster=H100, policy=policy, over=over))  # type: ignore[arg-type]
    assert found.frame["status"].to_list() == ["failed"]
    assert said in found.frame["error"][0]


def test_a_sweep_resumes_and_its_dataset_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "_GATHER_S", 0.0)
    grid = Grid(trace=DRAWN, cluster=H100, over=OVER)
    whole = sweep(grid, out=tmp_path / "whole", workers=1)
    stopped_after = 3

    class Stop(Exception):
        pass

    def stop(at: SweepProgress) -> None:
        if at.done == stopped_after:
            raise Stop

    with pytest.raises(Stop):
        sweep(grid, out=tmp_path / "cut", progress=stop, workers=1)
    there = read_sweep(tmp_path / "cut").height
    assert stopped_after <= there < 8
    seen: list[SweepProgress] = []
    resumed = sweep(grid, out=tmp_path / "cut", progress=seen.append)
    assert resumed.kept == there
    assert resumed.frame.equals(whole.frame)
    assert read_sweep(tmp_path / "cut").equals(read_sweep(tmp_path / "whole"))
    assert [at.done for at in seen] == list(range(1, 9))
    assert (seen[-1].kept, seen[-1].failed, seen[-1].total, seen[-1].left_s) == (there, 0, 8, 0)
    assert sweep(grid, out=tmp_path / "cut").kept == 8


def test_the_number_of_threads_changes_nothing() -> None:
    grid = Grid(trace=DRAWN, cluster=H100, over=OVER)
    assert sweep(grid, workers=1).frame.equals(sweep(grid, workers=7).frame)


def test_a_larger_grid_replays_only_what_is_new(tmp_path: Path) -> None:
    sweep(Grid(trace=DRAWN, cluster=H100, over={"rate": [2, 4]}), out=tmp_path)
    more = sweep(Grid(trace=DRAWN, cluster=H100, over={"rate": [2.5, 2, 4], "seed": [0]}), out=tmp_path)
    # Seed 0 is the default, but is now written in the trace's table; the rows of the trace are the same.
    assert more.kept == 2
    assert read_sweep(tmp_path).height == 3


def test_what_the_trace_is_made_from_does_not_matter_but_its_rows_do(tmp_path: Path) -> None:
    trace = paceline.synthesize("azure-conv", requests=60, seed=1)
    trace.write(tmp_path / "a.csv")
    trace.write(tmp_path / "b.parquet")

    def grid(path: str) -> Grid:
        return Grid(trace=Recipe(path=str(tmp_path / path)), cluster=H100, over={"scale": [1.0, 2.0]})

    sweep(grid("a.csv"), out=tmp_path / "out")
    assert sweep(grid("b.parquet"), out=tmp_path / "out").kept == 2
    text = (tmp_path / "a.csv").read_text().splitlines()
    (tmp_path / "a.csv").write_text("\n".join(text[:-1]) + "\n")
    assert sweep(grid("a.csv"), out=tmp_path / "out").kept == 0


@pytest.mark.parametrize(
    "change", [{"slo": SLO(ttft=1.0)}, {"warmup_s": 1.0}, {"policy": policies.sarathi()}]
)
def test_another_configuration_is_another_point(change: dict[str, object], tmp_path: Path) -> None:
    sweep(Grid(trace=DRAWN, cluster=H100), out=tmp_path)
    assert sweep(Grid(trace=DRAWN, cluster=H100, **change), out=tmp_path).kept == 0  # type: ignore[arg-type]
    assert sweep(Grid(trace=DRAWN, cluster=H100), out=tmp_path).kept == 1


def test_whole_results_are_saved_with_their_runs(tmp_path: Path) -> None:
    paceline.synthesize("azure-conv", requests=40, seed=1).write(tmp_path / "t.csv")
    grid = Grid(trace=Recipe(path=str(tmp_path / "t.csv")), cluster=H100, over={"rate": [2.0, 9.0]})
    found = sweep(grid, out=tmp_path / "out", results=True)
    for identity, requests in found.frame.select("id", "requests").rows():
        folder = tmp_path / "out/results" / identity
        saved = paceline.load_result(folder)
        assert len(saved) == requests
        assert paceline.read_run(folder / "run.toml").replay() == saved
    shutil.rmtree(tmp_path / "out/results" / found.frame["id"][0])
    assert sweep(grid, out=tmp_path / "out", results=True).kept == 1
    with pytest.raises(ConfigError, match="out must be given"):
        sweep(grid, results=True)


def test_rows_that_end_together_are_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "_GATHER_S", 3600.0)
    found = sweep(Grid(trace=DRAWN, cluster=H100, over=OVER), out=tmp_path)
    assert len(list((tmp_path / "points").iterdir())) == 1
    assert read_sweep(tmp_path).equals(found.frame.sort("id"))


def test_a_point_that_failed_and_then_did_not_has_one_row(tmp_path: Path) -> None:
    failed = sweep(MIXED_FATE, out=tmp_path / "out").failed
    (file,) = (tmp_path / "out/points").iterdir()
    mended = failed.with_columns(status=pl.lit("done"), error=pl.lit(None, pl.String()))
    mended.write_parquet(tmp_path / "out/points/mended.parquet")
    os.utime(tmp_path / "out/points/mended.parquet", (1, 1))
    rows = read_sweep(tmp_path / "out")
    assert rows["status"].to_list() == ["done", "done"]
    assert pl.read_parquet(file)["status"].sort().to_list() == ["done", "failed"]
    assert sweep(MIXED_FATE, out=tmp_path / "out").kept == 2


def test_a_kept_row_has_the_labels_of_this_sweep(tmp_path: Path) -> None:
    policy = policies.sarathi()
    sweep(Grid(trace=DRAWN, cluster=H100, policy=policy, over={"rate": [2.0]}), out=tmp_path)
    again = sweep(
        Grid(trace=DRAWN, cluster=H100, over={"policy": {"mine": policy}, "rate": {"low": 2.0}}), out=tmp_path
    )
    assert (again.kept, again.frame.select("policy", "rate").rows()) == (1, [("mine", "low")])


def test_a_draft_of_a_killed_sweep_is_no_point(tmp_path: Path) -> None:
    grid = Grid(trace=DRAWN, cluster=H100)
    sweep(grid, out=tmp_path)
    (tmp_path / "points/.abc.parquet.0123456789ab.partial").write_bytes(b"PAR1")
    assert read_sweep(tmp_path).height == 1
    assert sweep(grid, out=tmp_path).kept == 1
    assert len(list((tmp_path / "points").iterdir())) == 1


def test_folders_that_hold_no_sweep_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ResultError, match="must be the folder of a sweep"):
        read_sweep(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(ResultError, match="must be a folder for a sweep"):
        sweep(Grid(trace=DRAWN, cluster=H100), out=tmp_path / "file")
    (tmp_path / "points").mkdir()
    (tmp_path / "points/x.parquet").write_bytes(b"nothing")
    with pytest.raises(ResultError, match="not readable as Parquet"):
        read_sweep(tmp_path)


def test_a_row_that_cannot_be_written_ends_the_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(dataset, "new_file", full)
    with pytest.raises(ResultError, match="No space left on device"):
        sweep(Grid(trace=DRAWN, cluster=H100, over=OVER), out=tmp_path)


@pytest.mark.parametrize(
    ("over", "said"),
    [
        ({"polcy": ["vllm"]}, "was 'polcy'"),
        ({"policy.": [1]}, "was 'policy.'"),
        ({"rate": []}, "at least one, was"),
        ({"rate": 3.0}, "at least one, was 3.0"),
        ({"rate": [1.0, 1.0]}, "each value once, had 1.0 twice"),
        ({"policy": [policies.vllm(), policies.vllm(max_num_seqs=3)]}, "had 'vllm' twice; give names"),
        ({"cluster": [H100]}, "must have names for its values"),
        ({"policy": [3]}, "policy must be a table"),
    ],
)
def test_axes_that_cannot_be_are_refused(over: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Grid(trace=DRAWN, cluster=H100, over=over)  # type: ignore[arg-type]


def test_ray_is_asked_for_where_it_is_not_installed() -> None:
    if find_spec("ray") is not None:
        pytest.skip("Ray is installed")
    with pytest.raises(ConfigError, match="needs Ray, which is not installed: pip install"):
        sweep(Grid(trace=DRAWN, cluster=H100), executor="ray")
