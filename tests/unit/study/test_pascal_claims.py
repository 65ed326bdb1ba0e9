"""The verdicts of the study, the choices it lists, and its findings on other workloads."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from paceline import policies
from paceline.policy import Pace
from paceline.study.claims import claims_tables, verdicts
from paceline.study.pascal.claims import CLAIMS
from paceline.study.pascal.comparison import FORMATS, comparisons
from paceline.study.pascal.elsewhere import fates
from paceline.study.pascal.hardware import HOST_STEP_S, kv_tokens, pascals_instance
from paceline.study.pascal.runs import Runs, Setting
from paceline.study.pascal.schedulers import PAPER, POLICIES, scheduler
from paceline.study.pascal.variations import CHOICES, OWN, VARIATIONS
from paceline.study.pascal.workloads import Asked, chats
from paceline.study.work import Work

BEST = dict.fromkeys(FORMATS, 0.1) | {
    **{"worse FCFS": 0.0612, "worse RR": 0.0923, "throughput": -0.03},
    **{"violations": 0.01, "FCFS's": 0.5, "RR's": 0.0, "NoMigration's": 0.02, "NonAdaptive's": 0.02},
    **{"blocking": 1.0, "blocking NoMigration": 27.39},
}


def _verdict(**changed: float) -> dict[str, str]:
    row = {"what": "case"} | BEST | {name.replace("_", " "): value for name, value in changed.items()}
    return verdicts(CLAIMS, pl.DataFrame([row])).drop("what").row(0, named=True)


def test_a_claim_holds_up_to_and_with_its_threshold() -> None:
    assert set(_verdict().values()) == {"holds"}


@pytest.mark.parametrize(
    ("changed", "lost"),
    [
        ({"worse_FCFS": 0.0613}, "tails"),
        ({"worse_RR": 0.0924}, "tails"),
        ({"cut_RR": 0.0}, "tails"),
        ({"violations": 0.0101}, "violations"),
        ({"throughput": 0.031}, "throughput"),
        ({"throughput": -0.031}, "throughput"),
        ({"blocking": 1.01}, "blocking"),
        ({"NoMigration's": 0.01}, "migration"),
        ({"NonAdaptive's": 0.01}, "adaptivity"),
        ({"e2e_median": -0.01}, "adaptivity"),
        ({"e2e_tail": 0.0}, "adaptivity"),
    ],
)
def test_a_row_that_breaks_a_condition_loses_that_claim_alone(changed: dict[str, float], lost: str) -> None:
    assert [name for name, verdict in _verdict(**changed).items() if verdict == "no"] == [lost]


def test_the_summary_of_claims_counts_the_rows_beside_the_studys_own() -> None:
    rows = pl.DataFrame(
        [
            {"what": OWN} | BEST,
            {"what": "a"} | BEST | {"blocking": 9.0},
            {"what": "b"} | BEST | {"violations": 0.2, "blocking": 9.0},
            {"what": "c"} | BEST,
        ]
    )
    elsewhere = pl.DataFrame([{"what": "d"} | BEST, {"what": "e"} | BEST | {"throughput": 0.5}])
    tables = claims_tables(CLAIMS, rows, elsewhere)
    varied, others = "its variations where it holds", "other workloads and loads where it holds"
    counted = {row["claim"]: row for row in tables["claims-table"].frame.iter_rows(named=True)}
    assert (counted["blocking"][varied], counted["blocking"][others]) == ("1 of 3", "2 of 2")
    assert (counted["throughput"][varied], counted["throughput"][others]) == ("3 of 3", "1 of 2")
    assert set(counted) == {claim.name for claim in CLAIMS}
    assert tables["claims-rows"].frame["what"].to_list() == [OWN, "a", "b", "c", "d", "e"]


def test_a_choice_says_what_its_variation_changes_and_which_claims_it_costs() -> None:
    rows = pl.DataFrame(
        [{"what": OWN} | BEST, {"what": "load 9"} | BEST | {"violations": 0.25, "blocking": 0.5}]
    )
    assert comparisons(rows).moved("load 9", ["cut FCFS", "violations", "blocking"]) == (
        "load 9: cut FCFS 10%, violations 25.00%, blocking 0.50 s; "
        "no longer: violations, migration, adaptivity"
    )


def test_every_variation_belongs_to_a_choice_and_every_choice_names_variations_that_run() -> None:
    named = [what for choice in CHOICES for what in choice.rows]
    assert sorted(named) == sorted(what for what in VARIATIONS if what != OWN)


def test_every_note_quotes_variations_and_columns_that_there_are() -> None:
    quotes = [quote for stated in PAPER.table("headline").values() for quote in stated.more.get("quotes", ())]
    own = [quote for quote in quotes if "table" not in quote]
    assert len(own) > 10
    for quote in own:
        assert set(quote["rows"]) <= set(VARIATIONS)
        assert quote["column"] in FORMATS
    assert {quote["table"] for quote in quotes if "table" in quote} == {"mixes", "figure 4"}


def test_variations_share_the_replays_that_they_do_not_change() -> None:
    trials = [setting.trial(policy, 1) for setting in VARIATIONS.values() for policy in POLICIES]
    # FCFS on the study's own trace is changed by the watermark, by swap space and time of copies (two each),
    # and by its own two variations.
    own = VARIATIONS[OWN].trial("FCFS", 1)
    same = {trial for trial in trials if trial.trace == own.trace and trial.policy.name == own.policy.name}
    assert len(same) == 1 + 1 + 4 + 2
    assert len(set(trials)) < len(trials)


@pytest.mark.parametrize(
    ("name", "shipped"),
    [
        ("FCFS", policies.fcfs()),
        ("RR", policies.round_robin_quanta()),
        ("PASCAL", policies.pascal()),
        ("PASCAL(NoMigration)", policies.pascal(migration="never")),
        ("PASCAL(NonAdaptive)", policies.pascal(migration="always")),
    ],
)
def test_the_study_runs_the_shipped_policies(name: str, shipped: policies.Policy) -> None:
    # The pace is what QoE is measured by; PASCAL ships with it.
    assert scheduler(name) == replace(shipped, pace=Pace(tpot=0.1, first=0.25))
    if name.startswith("PASCAL"):
        assert scheduler(name) == shipped


def test_no_shipped_policy_of_the_study_leaves_less_than_vllms_watermark() -> None:
    # vllm/core/block_manager_v1.py, 0.6.1: watermark: float = 0.01.
    assert {scheduler(name).scheduler.watermark for name in POLICIES} == {0.01}


def test_host_time_is_added_to_each_step_and_takes_no_memory() -> None:
    with_host, without = pascals_instance(), pascals_instance(host_step_s=0.0)
    assert kv_tokens(with_host) == kv_tokens(without)
    costs = [instance.cost.efficiency.step_s for instance in (with_host, without)]  # type: ignore[union-attr]
    assert costs[0] - costs[1] == pytest.approx(HOST_STEP_S)


def test_fates_compare_the_same_requests_under_the_other_variant() -> None:
    def frame(violated: list[bool], migrations: list[int]) -> pl.DataFrame:
        return pl.DataFrame(
            {
                "violated": violated,
                "migrations": migrations,
                "reasoning_tokens": [6000, 10, 10, 10],
                "ttft": [700.0, 1.0, 1.0, 1.0],
            }
        )

    frames = {
        "PASCAL": frame([True, False, False, True], [0, 0, 1, 1]),
        "PASCAL(NoMigration)": frame([False, False, True, True], [0] * 4),
        "PASCAL(NonAdaptive)": frame([False, False, False, False], [1] * 4),
    }
    found = fates(frames, frames)
    assert found["stay"] == 0.5
    assert (found["stay: PASCAL"], found["stay: NonAdaptive"]) == (0.5, 0.0)
    assert (found["move: PASCAL"], found["move: NoMigration"]) == (0.5, 1.0)
    assert found["long: PASCAL"] == found["long, no demotion: NonAdaptive"] == 700.0


def test_where_reasoning_is_heavy_staying_costs_requests_that_moving_would_not() -> None:
    setting = Setting(trace=Asked(workload=chats("problem-solving"), requests=2500), load=1.25)
    names = ("PASCAL", "PASCAL(NoMigration)", "PASCAL(NonAdaptive)")
    frames = Runs(Work()).frames(setting, names)
    found = fates(frames, frames)
    assert found["stay: PASCAL"] > 2 * found["stay: NonAdaptive"]
    assert found["stay: PASCAL"] > 2 * found["move: PASCAL"]
