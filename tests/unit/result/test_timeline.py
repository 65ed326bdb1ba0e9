"""Timelines of replays that can be followed by hand: steps take half a second each."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

import paceline
from paceline.errors import ConfigError, ResultError
from paceline.policy import first_of, hold, inst, pick
from paceline.result.router_timeline import ROUTER_SCHEMA, TENANT_SCHEMA
from paceline.result.timeline import INSTANCE_SCHEMA

HALF = paceline.Affine(step_s=0.5)


def cluster(*, blocks: int = 9, count: int = 1) -> paceline.Cluster:
    return paceline.Cluster([paceline.Instance(cost=HALF, num_blocks=blocks)] * count)


def two_requests(**columns: list[str | None]) -> paceline.Trace:
    """Both run in the first two steps; the second takes two more."""
    return paceline.Trace.from_columns(arrival=[0, 0], prompt_tokens=[8, 8], output_tokens=[2, 4], **columns)


def columns(frame: pl.DataFrame, *names: str) -> dict[str, list[float]]:
    return frame.select(names).to_dict(as_series=False)


@pytest.mark.parametrize("leap", [True, False])
def test_states_are_those_of_the_moment_and_sums_those_of_the_interval(leap: bool) -> None:
    frame = paceline.replay(two_requests(), cluster(), sample=0.75, leap=leap).timeline
    assert dict(frame.schema) == INSTANCE_SCHEMA
    wanted = {
        "time_s": [0.75, 1.5, 2.0],
        "interval_s": [0.75, 0.75, 0.5],
        "running": [2, 1, 0],
        "waiting": [0, 0, 0],
        "kv_total_blocks": [8, 8, 8],
        "kv_used_blocks": [2, 1, 0],
        # The second request has its prompt and two of its tokens after the third step.
        "kv_tokens": [16, 10, 0],
        # At 1.5 s the third step has ended and the last has started.
        "batch_requests": [2, 1, 0],
        "batch_tokens": [2, 1, 0],
        "step_s": [0.5, 0.5, 0.0],
        "steps": [1, 2, 1],
        "busy_s": [0.75, 0.75, 0.5],
        "prefill_tokens": [16, 0, 0],
        "decode_tokens": [0, 3, 1],
        "finished": [0, 1, 1],
        # Half of the second interval's first third has two requests.
        "mean_running": [2.0, (0.25 * 2 + 0.5) / 0.75, 1.0],
        "mean_kv_tokens": [(0.5 * 16 + 0.25 * 18) / 0.75, (0.25 * 18 + 0.5 * 10) / 0.75, 11.0],
        "energy_j": [None, None, None],
        "role": [None, None, None],
    }
    assert columns(frame, *wanted) == wanted


def test_the_router_counts_what_arrives_and_what_leaves_it() -> None:
    trace = paceline.Trace.from_columns(
        arrival=[0.0, 0.75, 0.8, 1.0], prompt_tokens=[8, 8, 900, 8], output_tokens=[2, 2, 2, 2]
    )
    frame = paceline.replay(trace, cluster(), sample=0.75).router_timeline
    assert dict(frame.schema) == ROUTER_SCHEMA
    wanted = {
        "time_s": [0.75, 1.5, 2.0],
        # A moment belongs to the interval that it ends.
        "arrivals": [2, 2, 0],
        "routed": [2, 1, 0],
        "rejected": [0, 1, 0],
        "held": [0, 0, 0],
        "gave_up": [0, 0, 0],
        "first_tokens": [1, 2, 0],
        "finished": [0, 1, 2],
    }
    assert columns(frame, *wanted) == wanted


def test_requests_that_the_router_holds_are_held_until_they_are_sent_or_give_up() -> None:
    one_each = first_of(pick(min=inst.index, where=inst.requests < 1), hold())
    held = paceline.replay(
        paceline.Trace.from_columns(arrival=[0, 0, 0], prompt_tokens=[8] * 3, output_tokens=[2] * 3),
        cluster(),
        replace(paceline.policies.vllm(), on_arrival=one_each),
        sample=0.5,
    )
    frame = held.router_timeline
    assert frame["held"].to_list() == [2, 1, 1, 0, 0, 0]
    assert frame["routed"].to_list() == [1, 1, 0, 1, 0, 0]


def test_the_router_by_tenant_adds_up_to_the_router() -> None:
    trace = two_requests(tenant=["b", None])
    result = paceline.replay(trace, cluster(), sample=paceline.Sample(0.75, tenants=True))
    frame = result.tenant_timeline
    assert dict(frame.schema) == TENANT_SCHEMA
    assert frame.select("time_s", "tenant", "arrivals", "finished").rows()[:4] == [
        (0.75, "b", 1, 0),
        (0.75, None, 1, 0),
        (1.5, "b", 0, 1),
        (1.5, None, 0, 0),
    ]
    summed = frame.group_by("time_s", maintain_order=True).agg(pl.col("arrivals", "finished").sum())
    assert summed.equals(result.router_timeline.select("time_s", "arrivals", "finished"))


def test_a_number_of_points_gives_between_half_as_many_and_as_many() -> None:
    trace = paceline.Trace.from_columns(arrival=[0, 40, 90], prompt_tokens=[8] * 3, output_tokens=[2, 2, 300])
    for points in (2, 7, 100):
        frame = paceline.replay(trace, cluster(blocks=99), sample=points).timeline
        # One row more is the end of the replay, unless that is a sample.
        assert points // 2 <= frame.height <= points + 1
        assert frame["interval_s"].n_unique() <= 2
        assert frame["steps"].sum() == 2 + 2 + 300


def test_every_row_of_a_timeline_has_its_instance() -> None:
    trace = paceline.Trace.from_columns(arrival=[0, 0, 1, 1], prompt_tokens=[8] * 4, output_tokens=[5] * 4)
    result = paceline.replay(trace, cluster(count=3), sample=1.0)
    frame = result.timeline
    assert frame.select("time_s", "instance").rows()[:4] == [(1.0, 0), (1.0, 1), (1.0, 2), (2.0, 0)]
    totals = frame.group_by("instance", maintain_order=True).agg(
        pl.col("steps", "finished", "prefill_tokens", "decode_tokens", "busy_s").sum()
    )
    wanted = result.instances.select(totals.columns)
    assert totals.cast(dict(wanted.schema)).equals(wanted)


def test_energy_and_bytes_add_up_to_those_of_the_replay() -> None:
    instance = paceline.Instance(model="llama-3.1-8b", gpu="h100-sxm")
    trace = paceline.Trace.from_columns(arrival=[0, 0.1], prompt_tokens=[500, 90], output_tokens=[40, 90])
    result = paceline.replay(trace, paceline.Cluster([instance] * 2), sample=0.05)
    frame, totals = result.timeline, result.totals()
    assert totals.energy_j is not None
    assert frame["energy_j"].sum() == pytest.approx(totals.energy_j, rel=1e-12)
    assert frame["hbm_bytes"].sum() == pytest.approx(totals.hbm_bytes, rel=1e-12)
    assert frame["flops"].sum() == pytest.approx(totals.flops, rel=1e-12)
    # An instance without work uses its idle power.
    idle = frame.filter((pl.col("busy_s") == 0) & (pl.col("instance") == 1))
    watts = (idle["energy_j"] / idle["interval_s"]).unique()
    assert len(watts) >= 1
    assert watts.to_list() == pytest.approx([instance.resolved_gpu.energy.idle_w] * len(watts))


def test_instances_that_are_switched_off_draw_no_power_and_those_that_start_idle_power() -> None:
    instance = paceline.Instance(model="llama-3.1-8b", gpu="h100-sxm")
    # A request runs for some seconds from 0. At 1 s the load is above 0, and the second instance starts until
    # 4 s; nothing stops it.
    trace = paceline.Trace.from_columns(arrival=[0], prompt_tokens=[500], output_tokens=[900])
    policy = paceline.policies.autoscaled(serving=1, off=1, period_s=1.0, start_s=3.0, up=0.0, down=0.0)
    result = paceline.replay(trace, paceline.Cluster([instance] * 2), policy, sample=0.5)
    second = result.timeline.filter(pl.col("instance") == 1)
    idle_w = instance.resolved_gpu.energy.idle_w
    end = result.totals().simulated_s
    assert end > 5.0
    spans = [("off", 0.0, 1.0), ("off→serving", 1.0, 4.0), ("serving", 4.0, end)]
    assert result.roles.filter(pl.col("instance") == 1).drop("instance").rows() == spans
    for start, stop, power in ((0.0, 1.0, 0.0), (1.0, 4.0, idle_w), (4.0, end, idle_w)):
        rows = second.filter((pl.col("time_s") > start) & (pl.col("time_s") <= stop + 1e-9))
        assert rows["energy_j"].sum() == pytest.approx(power * rows["interval_s"].sum())
    joules = result.instances["energy_j"]
    assert joules[1] == pytest.approx(idle_w * (end - 1.0))
    assert joules.sum() == pytest.approx(result.totals().energy_j)
    assert result.timeline["energy_j"].sum() == pytest.approx(result.totals().energy_j)


def test_pools_are_named(tmp_path: Path) -> None:
    policy = paceline.policies.tetri_infer(prefill=1, decode=1)
    trace = paceline.Trace.from_columns(arrival=[0, 0], prompt_tokens=[8, 8], output_tokens=[3, 3])
    frame = paceline.replay(trace, cluster(count=2), policy, sample=0.5).timeline
    assert frame["role"].to_list()[:2] == ["prefill", "decode"]


def test_a_saved_result_has_its_timelines(tmp_path: Path) -> None:
    result = paceline.replay(
        two_requests(tenant=["a", "<b>"]), cluster(), sample=paceline.Sample(0.3, tenants=True)
    )
    again = paceline.load_result(result.save(tmp_path / "saved"))
    assert again.timeline.equals(result.timeline)
    assert again.router_timeline.equals(result.router_timeline)
    assert again.tenant_timeline.equals(result.tenant_timeline)
    assert again == result
    assert again != paceline.load_result(
        paceline.replay(two_requests(), cluster(), sample=0.3).save(tmp_path / "other")
    )


def test_a_result_without_samples_says_how_to_get_them() -> None:
    result = paceline.replay(two_requests(), cluster())
    for read in (lambda: result.timeline, lambda: result.router_timeline, lambda: result.tenant_timeline):
        with pytest.raises(ResultError, match=r"not sampled; replay with sample=1\.0"):
            read()
    sampled = paceline.replay(two_requests(), cluster(), sample=1.0)
    with pytest.raises(ResultError, match=r"sample=Sample\(1.0, tenants=True\)"):
        _ = sampled.tenant_timeline


@pytest.mark.parametrize(
    ("sample", "message"),
    [
        (0.0, "1e-9 or more seconds"),
        (float("nan"), "1e-9 or more seconds"),
        (1, "2 to 2097152 points"),
        (3_000_000, "2 to 2097152 points"),
        ("1s", "must be a number"),
        (True, "must be a number"),
    ],
)
def test_a_sample_is_seconds_or_a_number_of_points(sample: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        paceline.replay(two_requests(), cluster(), sample=sample)  # type: ignore[arg-type]


def test_tenants_need_a_column() -> None:
    with pytest.raises(ConfigError, match="column tenant"):
        paceline.replay(two_requests(), cluster(), sample=paceline.Sample(1.0, tenants=True))


def test_seconds_that_would_take_too_many_rows_are_doubled_with_a_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("paceline.sampling.MOST_ROWS", 8)
    with pytest.warns(UserWarning, match=r"a sample every 0\.4 seconds"):
        frame = paceline.replay(two_requests(), cluster(), sample=0.1).timeline
    assert frame["time_s"].to_list() == pytest.approx([0.4, 0.8, 1.2, 1.6, 2.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        paceline.replay(two_requests(), cluster(), sample=0.25)


def test_a_replay_of_no_time_has_no_rows() -> None:
    trace = paceline.Trace.from_columns(arrival=[0.0], prompt_tokens=[9_000], output_tokens=[2])
    result = paceline.replay(trace, cluster(), sample=10)
    assert (result.timeline.height, result.router_timeline.height) == (0, 0)
