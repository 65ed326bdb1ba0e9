"""The printed tables contain the same values as the JSON document."""

from __future__ import annotations

from typing import Any

import pytest

from paceline.cli.rendering import print_result

ROW = {"mean": 0.5, "p50": 0.25, "p90": 1.0, "p95": 2.0, "p99": 3.0, "max": 4.0, "count": 9}


def document(**changes: Any) -> dict[str, Any]:
    totals = {
        "finished": 9,
        "running": 0,
        "waiting": 0,
        "not_arrived": 0,
        "rejected": 0,
        "held": 0,
        "gave_up": 0,
        "rejected_by_reason": {},
        "dropped_rows": {},
        "requests_per_s": 12.345,
        "output_tokens_per_s": 1234.5,
        "total_tokens_per_s": 23456.7,
        "makespan_s": 100.0,
        "mean_batch": 3.21,
        "mean_batch_busy": 6.54,
        "mean_kv_use": 0.125,
        "peak_kv_use": 1.0,
        "preemptions": 7,
        "swapped_out_blocks": 0,
        "swapped_in_blocks": 0,
        "swap_overflows": 0,
        "prefix_queries": 0,
        "prefix_hits": 0,
        "prefix_hit_rate": 0.0,
        "evictions": 0,
        "uses_oracle": False,
        "borrowed_fits": [],
        "steps": 1_000_000,
        "instance_s": {},
        "on_s": 100.0,
        "extrapolated": {},
        "hbm_bytes": None,
        "kv_transfers": 0,
        "kv_transfer_bytes": 0,
    }
    return {
        "trace": {"name": "by-hand", "requests": 9},
        "cluster": '[[instances]]\nmodel = "llama-3.1-8b"\ngpu = "h100-sxm"\n',
        "policy": 'name = "mine"\n[scheduler]\n',
        "summary": {"ttft": ROW},
        "slo": None,
        **changes,
        "totals": {**totals, **changes.get("totals", {})},
    }


def lines(capsys: pytest.CaptureFixture[str], **changes: Any) -> list[str]:
    print_result(document(**changes))
    return capsys.readouterr().out.splitlines()


def test_a_row_has_one_unit_in_all_columns(capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = [line for line in lines(capsys) if line.startswith("TTFT")]
    assert row.split() == ["TTFT", "(ms)", "500.0", "250.0", "1,000", "2,000", "3,000", "4,000"]
    slow = {**ROW, "p50": 1.5}
    (row,) = [line for line in lines(capsys, summary={"ttft": slow}) if line.startswith("TTFT")]
    assert row.split() == ["TTFT", "(s)", "0.500", "1.500", "1.000", "2.000", "3.000", "4.000"]


def test_metrics_without_values_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    empty = {**dict.fromkeys(ROW), "count": 0}
    shown = lines(capsys, summary={"ttft": ROW, "tpot": empty})
    assert not any(line.startswith("TPOT") for line in shown)


def test_single_figures_follow(capsys: pytest.CaptureFixture[str]) -> None:
    assert lines(capsys)[-6:] == [
        "requests     9 finished",
        "throughput   12.35 requests/s over 100.0 s",
        "             1,234 output tokens/s, 23,457 with prompts",
        "batch        3.2 running on average, 6.5 while busy",
        "KV cache     12.5% in use on average, 100.0% at most",
        "preemptions  7 in 1,000,000 steps",
    ]


def test_instance_hours_are_shown_if_instances_were_off(capsys: pytest.CaptureFixture[str]) -> None:
    """Two instances in 9,000 s are 5 hours; one of them was off for 5,400 s."""
    pools = {"instance_s": {"serving": 12_000.0, "off→serving": 600.0, "off": 5_400.0}, "on_s": 12_600.0}
    assert "switched on  3.500 of 5.000 instance-hours" in lines(capsys, totals=pools)
    always = {"instance_s": {"prefill": 9_000.0, "decode": 9_000.0}, "on_s": 18_000.0}
    assert not any("instance-hours" in line for line in lines(capsys, totals=always))


def test_rejected_and_unfinished_requests_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    changed = {
        "waiting": 2,
        "not_arrived": 3,
        "rejected": 4,
        "rejected_by_reason": {"too long": 4},
        "dropped_rows": {"no output": 5},
    }
    shown = lines(capsys, totals=changed)
    assert "requests     9 finished, 2 waiting, 3 not arrived, 4 rejected" in shown
    assert "rejected     4: too long" in shown
    assert "left out     5 rows of the file: no output" in shown


def test_counts_that_only_some_policies_have_are_shown_if_present(capsys: pytest.CaptureFixture[str]) -> None:
    swapped = {"swapped_out_blocks": 1200, "swapped_in_blocks": 1100, "swap_overflows": 3}
    cached = {"prefix_queries": 20_000, "prefix_hits": 5_000, "prefix_hit_rate": 0.25, "evictions": 1_000}
    shown = lines(capsys, totals={**swapped, **cached, "uses_oracle": True})
    assert shown[-3:] == [
        "swapped       1,200 blocks out, 1,100 back; 3 times without room",
        "prefix cache  25.0% of 20,000 tokens found, 1,000 blocks evicted",
        "oracle        the policy saw what no real scheduler knows: output lengths",
    ]
    none_swapped = {**swapped, "swapped_out_blocks": 0, "swapped_in_blocks": 0}
    assert lines(capsys, totals=none_swapped)[-1].endswith("0 blocks out, 0 back; 3 times without room")


@pytest.mark.parametrize(
    ("attainment", "percent"),
    [(1.0, "100.00%"), (0.999999, "99.99%"), (0.0, "0.00%"), (float("nan"), "nan%")],
)
def test_attainment_is_not_rounded_up_to_all(
    attainment: float, percent: str, capsys: pytest.CaptureFixture[str]
) -> None:
    slo = {"bounds": {"ttft": 2.0, "itl": 0.5}, "attainment": attainment, "goodput": 3.0}
    assert lines(capsys, slo=slo)[-2:] == [
        f"attainment   {percent} within TTFT ≤ 2 s, longest ITL ≤ 0.5 s",
        "goodput      3.000 requests/s",
    ]


@pytest.mark.parametrize(
    ("toml", "words"),
    [
        ('[[instances]]\nmodel = "m"\ngpu = "g"', "1 × m on g"),
        ('[[instances]]\ncount = 4\nmodel = "m"\ngpu = "g"\ntensor_parallel = 2', "4 × m on 2 × g"),
        (
            '[[instances]]\nmodel = "m"\ngpu = "g"\ntensor_parallel = 2\npipeline_parallel = 3',
            "1 × m on 6 × g",
        ),
        ('[[instances]]\nnum_blocks = 9\n[[instances]]\nmodel = { name = "own" }', "1 × instance, 1 × own"),
    ],
)
def test_the_title_names_the_cluster_and_the_policy(
    toml: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lines(capsys, cluster=toml)[0] == f"by-hand: 9 requests on {words}, mine"


def test_traffic_and_energy_are_shown_if_known(capsys: pytest.CaptureFixture[str]) -> None:
    moved = {
        "hbm_bytes": 4_000 * 10**9,
        "expert_bytes": 1_000 * 10**9,
        "weight_bytes": 2_000 * 10**9,
        "kv_read_bytes": 300 * 10**9,
        "kv_written_bytes": 100 * 10**9,
        "flops": 12_340 * 10**12,
        "link_bytes": 0,
        "energy_j": None,
        "energy_per_token_j": None,
    }
    assert lines(capsys, totals=moved)[-2:] == [
        "traffic      4.000 TB of memory: 25% experts, 50% other weights, 10% KV",
        "arithmetic   12.34 PFLOP",
    ]
    burned = {**moved, "link_bytes": 5 * 10**9, "energy_j": 1234.5, "energy_per_token_j": 0.0602}
    assert lines(capsys, totals=burned)[-2:] == [
        "arithmetic   12.34 PFLOP, 5.000 GB between GPUs of an instance",
        "energy       1.234 kJ, 60.20 mJ a prompt or output token",
    ]
