"""`paceline capacity` and `paceline plan` print what the functions return."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import paceline as package
from cli.running import ON_ONE_H100, Run
from paceline import SLO, Cluster, Instance, policies, read_trace
from paceline.cli import policy_choice
from paceline.policy import Policy, Pools, pick

H100 = Instance(model="llama-3.1-8b", gpu="h100-sxm")
BOUNDS = ("--slo", "ttft=0.3,tpot=0.01")


def test_the_json_of_capacity_is_what_the_function_returns(paceline: Run, small_trace: Path) -> None:
    done = paceline(
        "capacity", small_trace, *ON_ONE_H100, "--instances", 2, *BOUNDS, "--target", 0.8, "--json"
    )
    assert done.returncode == 0
    assert done.stdout.count("\n") == 1
    document = json.loads(done.stdout)
    trace = read_trace(small_trace)
    found = package.capacity(trace, Cluster(2 * [H100]), None, SLO(ttft=0.3, tpot=0.01), 0.8)
    more = {"paceline", "trace", "cluster", "policy"}
    assert {name: value for name, value in document.items() if name not in more} == {
        name: value for name, value in found.to_dict().items() if name not in more
    }
    assert document["trace"] == {"name": trace.name, "sha256": trace.sha256, "requests": 40}
    assert Cluster.from_toml(document["cluster"]) == Cluster(2 * [H100])
    assert Policy.from_toml(document["policy"]) == policies.vllm()


def test_a_printed_rate_can_be_replayed_and_gives_the_printed_attainment(
    paceline: Run, small_trace: Path
) -> None:
    done = paceline("capacity", small_trace, *ON_ONE_H100, *BOUNDS)
    rate = done.stdout.partition("capacity")[2].split()[0]
    row = next(line.split() for line in done.stdout.splitlines() if line.split()[:1] == [rate])
    replayed = paceline(
        "replay", small_trace, *ON_ONE_H100, "--rate", rate, "--slo", "ttft=0.3,tpot=0.01", "--json"
    )
    attainment = json.loads(replayed.stdout)["slo"]["attainment"]
    assert f"{100 * attainment:.2f}%" in row
    assert row[-1] == "passes"
    assert done.stderr.startswith("evaluated ")


@pytest.mark.parametrize("rule", ["joint", "marginal"])
def test_the_table_of_capacity_fits_a_terminal_and_names_rule_and_edge(
    rule: str, paceline: Run, small_trace: Path
) -> None:
    done = paceline("capacity", small_trace, *ON_ONE_H100, *BOUNDS, "--rule", rule, "--windows", 2)
    lines = done.stdout.splitlines()
    assert lines[0].endswith(": 40 requests on 1 × llama-3.1-8b on h100-sxm, vllm")
    objective = next(line for line in lines if line.startswith("objective"))
    assert (
        objective.split(maxsplit=1)[1]
        == {
            "joint": "90% of all requests within TTFT ≤ 0.3 s, TPOT ≤ 0.01 s",
            "marginal": "P90 TTFT < 0.3 s, P90 TPOT < 0.01 s",
        }[rule]
    )
    assert any(line.startswith("edge") and "fails" in line for line in lines)
    assert any(line.startswith("windows    2, of capacities from ") for line in lines)
    assert sum(line.endswith(("passes", "fails")) for line in lines) > 20
    assert max(map(len, lines)) <= 80


def test_limits_of_the_search_are_said(paceline: Run, small_trace: Path) -> None:
    above = paceline("capacity", small_trace, *ON_ONE_H100, "--slo", "ttft=1000", "--highest", 9)
    assert "capacity   9 requests/s or more: the highest rate of the search passes" in above.stdout
    below = paceline("capacity", small_trace, *ON_ONE_H100, "--slo", "ttft=0.0001", "--lowest", 2)
    assert "capacity   less than 2 requests/s: the lowest rate of the search fails" in below.stdout


def test_the_json_of_plan_is_what_the_function_returns(paceline: Run, small_trace: Path) -> None:
    words = ("--scale", 60, "--also", "tp=2", "--price", "h100-sxm=2.5", "--most", 12)
    done = paceline("plan", small_trace, *ON_ONE_H100, *BOUNDS, *words, "--json")
    assert done.returncode == 0
    document = json.loads(done.stdout)
    found = package.plan(
        read_trace(small_trace),
        package.Candidates(
            [H100, Instance(model="llama-3.1-8b", gpu="h100-sxm", tensor_parallel=2)],
            most=12,
            prices={"h100-sxm": 2.5},
        ),
        None,
        SLO(ttft=0.3, tpot=0.01),
        scale=60,
    )
    assert document["table"] == found.to_dict()["table"]
    assert document["evaluated"] == found.to_dict()["evaluated"]
    assert document["best"] == found.best


def test_the_table_of_plan_has_a_row_for_each_kind_or_for_each_replay(
    paceline: Run, small_trace: Path
) -> None:
    words = ("plan", small_trace, *ON_ONE_H100, *BOUNDS, "--scale", 60, "--also", "tp=2", "--most", 12)
    short, long = paceline(*words), paceline(*words, "--all")
    kinds = [line.split("  ")[0] for line in short.stdout.splitlines() if line.endswith(("passes", "fails"))]
    assert sorted(kinds) == ["h100-sxm", "h100-sxm tp=2"]
    count = int(short.stderr.split()[1])
    assert sum(line.endswith(("passes", "fails")) for line in long.stdout.splitlines()) == count > 2
    assert next(line for line in short.stdout.splitlines() if line.startswith("fewest")).endswith(
        ("GPU", "GPUs")
    )
    assert max(map(len, short.stdout.splitlines())) <= 90


def test_a_policy_of_the_catalog_with_pools_is_searched_over_its_splits(
    paceline: Run, small_trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def divided(*, prefill: int = 1, decode: int = 1, max_num_seqs: int | None = None) -> Policy:
        assert max_num_seqs == 64
        return Policy(
            name="divided",
            scheduler=policies.vllm(max_num_seqs=max_num_seqs).scheduler,
            pools=Pools(prefill=prefill, decode=decode),
            on_arrival=pick(min=package.inst.outstanding_tokens, within="prefill"),
            on_prefilled=pick(min=package.inst.kv_tokens, within="decode"),
        )

    made_by = policy_choice.made_by
    monkeypatch.setattr(
        policy_choice, "made_by", lambda name: divided if name == "divided" else made_by(name)
    )
    words = (
        "plan",
        small_trace,
        *ON_ONE_H100,
        *BOUNDS,
        "--scale",
        40,
        "--policy",
        "divided",
        "--max-num-seqs",
        64,
    )
    document = json.loads(paceline(*words, "--json").stdout)
    assert document["pools"] == ["prefill", "decode"]
    prefill, decode = map(int, document["best"]["split"].split(":"))
    assert prefill + decode == document["best"]["instances"]
    assert f"({prefill} prefill, {decode} decode)" in paceline(*words).stdout
    named = paceline(*words, "--split", "prefill,decode", "--json")
    assert json.loads(named.stdout)["table"] == document["table"]
    both = paceline(*words, "--set", "prefill=2")
    assert (both.returncode, both.stdout) == (2, "")
    assert "--set prefill=2: prefill is searched, and cannot be set" in both.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("capacity", "--slo", "ttft=0.4", "--tolerance", 0.1),
        ("plan", "--slo", "ttft=0.4"),
        ("compare", "--against", "sarathi"),
    ],
)
def test_predictions_are_charged_by_each_command(
    words: tuple[object, ...], paceline: Run, small_trace: Path
) -> None:
    command, *others = words
    given = (command, small_trace, *ON_ONE_H100, *others, "--json")
    free, late = paceline(*given), paceline(*given, "--prediction-ms", 200)
    assert (free.returncode, late.returncode) == (0, 0), late.stderr
    assert free.stdout != late.stdout
    wrong = paceline(*given, "--prediction-batch", 4)
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr == (
        "paceline: --prediction-batch needs --prediction-ms, the time of a prompt; none was given\n"
    )


def test_plan_names_a_kind_that_does_not_fit_and_goes_on(paceline: Run, small_trace: Path) -> None:
    kinds = ("--model", "llama-3.1-70b", "--gpu", "a100-40gb", "--also", "gpu=h100-sxm,tp=4")
    done = paceline("plan", small_trace, *kinds, "--slo", "ttft=9", "--json", "--quiet")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert [row["kind"] for row in document["table"]] == ["h100-sxm tp=4"]
    assert "does not fit on 1 x a100-40gb" in document["left_out"]["gpu=a100-40gb"]
