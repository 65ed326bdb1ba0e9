"""`--policy` and `--set` build the same policy as the Python API."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cli.running import ON_ONE_H100, Run
from paceline import load_result, policies
from paceline.cli.policy_choice import choose, known
from paceline.cli.typed_value import typed_value
from paceline.errors import PolicyError
from paceline.policies.by_name import names
from paceline.policy import inst, pick
from paceline.policy.stages import Groups, Recompute, Swap


def test_every_policy_is_known_by_its_name() -> None:
    assert {name.replace("-", "_") for name in known()} == set(names())


@pytest.mark.parametrize("name", ["vllm-v0", "vllm_v0"])
def test_a_policy_name_may_have_dashes_or_underscores(name: str) -> None:
    assert choose(name, {}, ["chunked-prefill=true"]) == policies.vllm_v0(chunked_prefill=True)


def test_options_and_settings_become_arguments() -> None:
    options = {"max_num_seqs": 64, "prefix_caching": True, "routing": None}
    chosen = choose("vllm", options, ["version=0.11", "watermark=0.02", "routing=fewest-tokens"])
    assert chosen == policies.vllm(
        max_num_seqs=64, prefix_caching=True, version="0.11", watermark=0.02, routing="fewest_tokens"
    )


def test_layers_are_the_models_unless_set() -> None:
    assert choose("layered-prefill", {}, [], layers=32) == policies.layered_prefill(layers=32)
    assert choose("layered-prefill", {}, ["layers=48"], layers=32) == policies.layered_prefill(layers=48)
    assert choose("vllm", {}, [], layers=32) == policies.vllm()
    with pytest.raises(PolicyError, match=r"layered-prefill needs layers: --set layers=VALUE"):
        choose("layered-prefill", {}, [])


def test_a_parameter_given_twice_is_refused() -> None:
    with pytest.raises(PolicyError, match=r"max_num_seqs was given twice: by --max-num-seqs and by --set"):
        choose("vllm", {"max_num_seqs": 64}, ["max_num_seqs=65"])
    with pytest.raises(PolicyError, match=r"watermark was given twice by --set"):
        choose("vllm", {}, ["watermark=0.1", "watermark=0.2"])


def test_a_policy_file_takes_no_further_settings(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    mine = policies.vllm_v0(preemption=Swap(cpu_blocks=512), chunked_prefill=True)
    path.write_text(mine.to_toml(), encoding="utf-8")
    assert choose(str(path), {"routing": None}, []) == mine
    with pytest.raises(PolicyError, match=r"mine\.toml says all there is .* what --max-num-seqs says"):
        choose(str(path), {"max_num_seqs": 3}, [])


@pytest.mark.parametrize(
    ("text", "annotation", "value"),
    [
        ("12", int, 12),
        ("12", float, 12.0),
        ("1e-3", float, 0.001),
        ("none", int | None, None),
        ("12", int | None, 12),
        ("True", bool | None, True),
        ("12", Groups | int, 12),
        ("{tokens_per_group = 512, most = 32}", Groups | int, Groups(tokens_per_group=512, most=32)),
        ('{kind = "swap", cpu_blocks = 9}', Recompute | Swap | None, Swap(cpu_blocks=9)),
        ('{kind = "recompute"}', Recompute | Swap | None, Recompute()),
        ("any words", str, "any words"),
    ],
)
def test_a_word_becomes_a_value_of_the_type_asked_for(text: str, annotation: Any, value: object) -> None:
    found = typed_value(text, annotation, "x")
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "annotation", "message"),
    [
        ("1.5", int, r"x must be a whole number, was '1\.5'"),
        ("nan", float, r"x must be a number, was 'nan'"),
        ("yes", bool, r"x must be true or false, was 'yes'"),
        ("a", int | None, r"x must be a whole number or none, was 'a'"),
        ("{cpu_blocks = 1, colour = 2}", Swap, r"x has no field 'colour'"),
        ('{kind = "swap"}', Recompute | Swap, r"x lacks cpu_blocks"),
        ("{cpu_blocks = -1}", Swap, r"cpu_blocks of a Swap must be 0 or more, was -1"),
        ("swap", Recompute | Swap, r"x must be a Recompute as .* or a Swap as .*cpu_blocks"),
    ],
)
def test_another_word_is_refused_with_what_would_be_right(text: str, annotation: Any, message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        typed_value(text, annotation, "x")


def test_a_replay_runs_under_the_policy_that_was_chosen(
    paceline: Run, small_trace: Path, tmp_path: Path
) -> None:
    words = (
        "--policy",
        "vllm",
        "--prefix-caching",
        "--long-prefill-token-threshold",
        64,
        "--set",
        "watermark=0.1",
    )
    done = paceline("replay", small_trace, *ON_ONE_H100, *words, "--out", "run")
    assert done.returncode == 0, done.stderr
    expected = policies.vllm(prefix_caching=True, long_prefill_token_threshold=64, watermark=0.1)
    result = load_result(tmp_path / "run")
    assert result.provenance.policy == expected.to_toml()
    # Each prompt is looked up once, and no two prompts of the trace share a prefix.
    assert result.totals().prefix_queries == result.requests["prompt_tokens"].sum()
    assert result.totals().prefix_hits == 0
    assert "prefix cache  0.0% of" in done.stdout


def test_a_rule_is_written_as_in_python() -> None:
    where = "routing=pick(min=inst.requests, where=inst.waiting == 0)"
    with pytest.raises(PolicyError, match=r"on_arrival must always pick an instance"):
        choose("pars", {}, [where])
    chosen = choose("pars", {}, ["routing=pick(min=inst.kv_tokens)"])
    assert chosen == policies.pars(routing=pick(min=inst.kv_tokens))
    assert choose("pars", {}, ["routing=round-robin"]) == policies.pars(routing="round_robin")
    with pytest.raises(PolicyError, match=r"routing of pars: inst has no field 'kv'"):
        choose("pars", {}, ["routing=pick(min=inst.kv)"])
    with pytest.raises(PolicyError, match=r"routing of pars must be a rule as pick.* or round_robin"):
        choose("pars", {}, ["routing=best"])


def test_a_swap_over_pcie_is_a_table() -> None:
    chosen = choose("pascal", {}, ['preemption={kind = "swap_over_pcie", cpu_gib = 8}', "migration=never"])
    assert chosen == policies.pascal(preemption=Swap.over_pcie(cpu_gib=8), migration="never")


def test_requests_migrate_over_links_if_the_cluster_has_links(paceline: Run, tmp_path: Path) -> None:
    trace = tmp_path / "reasons.jsonl"
    row = '{{"arrival": {}, "prompt_tokens": 50, "output_tokens": 40, "reasoning_tokens": 20}}\n'
    trace.write_text("".join(row.format(at / 10) for at in range(5)), encoding="utf-8")
    settings = ("--policy", "pascal", "--set", "migration=always", "--instances", "2")
    slowest = []
    for links in ((), ("--link-gbps", 0.1)):
        done = paceline(
            "replay", trace, *ON_ONE_H100, *settings, *links, "--out", tmp_path / f"run{len(links)}"
        )
        assert done.returncode == 0, done.stderr
        result = load_result(tmp_path / f"run{len(links)}")
        assert 'name = "pascal-nonadaptive"' in result.provenance.policy
        assert ("gbps = 0.1" in result.provenance.cluster) == bool(links)
        slowest.append(max(result.requests["first_answer"] - result.requests["reasoning_end"]))
    # A request then has 69 tokens of 131,072 bytes: 0.72 s at 0.1 Gb/s.
    assert slowest[0] < 0.1 < 0.7 < slowest[1]
