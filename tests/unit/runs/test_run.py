"""Runs as TOML: what is written reads back, and repeats a replay bit for bit."""

from __future__ import annotations

from pathlib import Path

import pytest

import paceline
from paceline import (
    Affine,
    Cluster,
    ConfigError,
    Instance,
    Links,
    Pace,
    PolicyError,
    Recipe,
    Run,
    Trace,
    TraceError,
    policies,
    read_run,
)
from paceline.runs import Settings

MIXED = Cluster(
    [
        Instance(model="llama-3.1-8b", gpu="h100-sxm"),
        Instance(model="llama-3.1-8b", gpu="a100-80gb", num_blocks=9000),
        Instance(model="llama-3.1-8b", gpu="a100-80gb", num_blocks=9000),
    ],
    Links(gbps=100.0),
)
DRAWN = Recipe(preset="azure-conv", requests=60, seed=3, rate=8.0)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Return a file of ten requests."""
    Trace.from_columns(
        arrival=[index / 2 for index in range(10)], prompt_tokens=[100] * 10, output_tokens=[9] * 10
    ).write(tmp_path / "small.csv")
    return tmp_path / "small.csv"


@pytest.mark.parametrize(
    "policy",
    [policies.vllm(), policies.sarathi(), policies.distserve(prefill=1, decode=2), policies.dynamo()],
    ids=lambda policy: policy.name,
)
@pytest.mark.parametrize(
    "settings",
    [Settings(), Settings(until=3.0, leap=False, pace=Pace(tpot=0.1, ttft=1.0))],
    ids=["plain", "all"],
)
def test_a_run_reads_back_and_replays_to_the_same_result(policy: paceline.Policy, settings: Settings) -> None:
    run = Run(trace=DRAWN, cluster=MIXED, policy=policy, settings=settings)
    again = Run.from_toml(run.to_toml())
    assert again == run
    assert again.to_toml() == run.to_toml()
    assert again.replay() == run.replay()


def test_a_run_is_the_replay_of_its_parts(small: Path) -> None:
    run = Run(trace=Recipe(path=str(small), rate=4.0), cluster=MIXED, settings=Settings(until=2.0))
    expected = paceline.replay(paceline.read_trace(small).at_rate(rate=4.0), MIXED, until=2.0)
    assert run.replay() == expected


def test_a_run_written_by_hand_names_files_and_presets(small: Path, tmp_path: Path) -> None:
    (tmp_path / "cluster.toml").write_text(MIXED.to_toml())
    (tmp_path / "policy.toml").write_text(policies.sarathi().to_toml())
    (tmp_path / "run.toml").write_text(
        '[trace]\npath = "small.csv"\nscale = 2.0\n[cluster]\nfile = "cluster.toml"\n'
        '[policy]\npreset = "sarathi"\nsettings = { max_num_seqs = 64 }\n'
    )
    run = read_run(tmp_path / "run.toml")
    assert run.trace == Recipe(path=str(small), scale=2.0)
    assert run.cluster == MIXED
    assert run.policy == policies.sarathi(max_num_seqs=64)
    head = '[cluster]\nfile = "cluster.toml"\n[trace]\npath = "small.csv"\n'
    for words in ('policy = "policy.toml"\n', 'policy = "sarathi"\n', 'policy = { file = "policy.toml" }\n'):
        assert Run.from_toml(words + head, tmp_path).policy == policies.sarathi()


def test_a_preset_that_needs_the_models_layers_has_them(tmp_path: Path) -> None:
    text = 'policy = "layered-prefill"\n[trace]\npreset = "azure-conv"\nrequests = 5\n[[cluster.instances]]\n'
    run = Run.from_toml(text + 'model = "llama-3.1-8b"\ngpu = "h100-sxm"\n')
    assert run.policy == policies.layered_prefill(layers=32)


def test_paths_are_relative_to_the_file_also_through_a_link(small: Path, tmp_path: Path) -> None:
    (tmp_path / "deep/down").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "deep/down")
    run = Run(trace=Recipe(path=str(small)), cluster=MIXED)
    for folder in (tmp_path, tmp_path / "deep/down", tmp_path / "link"):
        text = run.to_toml(folder)
        assert str(tmp_path) not in text
        assert len(Run.from_toml(text, folder).trace.load()) == 10


def test_a_trace_that_changed_is_refused(small: Path) -> None:
    digest = paceline.read_trace(small).sha256
    recipe = Recipe(path=str(small), rate=9.0, sha256=digest)
    assert recipe.load() == paceline.read_trace(small).at_rate(rate=9.0)
    small.write_text(small.read_text().replace("100", "101", 1))
    with pytest.raises(TraceError, match=f"must have the digest {digest} of the run, had .*restore it"):
        recipe.load()


def test_a_file_is_cut_to_its_first_requests(small: Path) -> None:
    assert Recipe(path=str(small), requests=4).load().frame.equals(paceline.read_trace(small).frame.head(4))
    assert len(Recipe(path=str(small), requests=99).load()) == 10


def test_how_a_file_is_read_is_in_the_run(tmp_path: Path) -> None:
    path = tmp_path / "chat.jsonl"
    path.write_text(
        '{"session_id": 1, "timestamp": 0, "input_length": 40, "output_length": 5, "hash_ids": [1, 2, 3]}\n'
        '{"session_id": 1, "timestamp": 8, "input_length": 48, "output_length": 6, "hash_ids": [1, 2, 3]}\n'
    )
    recipe = Recipe(path=str(path), format="mooncake", unit="s", block_tokens=16, arrivals="dependent")
    text = Run(trace=recipe, cluster=MIXED).to_toml(tmp_path)
    again = Run.from_toml(text, tmp_path).trace
    assert again == recipe
    trace = again.load()
    assert trace.frame["think_time"].to_list() == [None, 8.0]
    assert trace.prefix_block_tokens == 16


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "one of path and preset"),
        ({"path": "a", "preset": "b"}, "one of path and preset"),
        ({"preset": "azure-conv"}, "needs requests, how many"),
        ({"path": "a", "seed": 3}, "seed belongs to a preset"),
        ({"path": "a", "rate": 1.0, "scale": 1.0}, "one of scale and rate"),
        ({"path": "a", "rate": -1.0}, "positive finite number, was -1.0"),
        ({"preset": "azure-conv", "requests": 0}, "at least 1, was 0"),
        ({"preset": "azure-conv", "requests": 1, "seed": -1}, "at least 0, was -1"),
        ({"preset": "azure-conv", "requests": 1, "unit": "ms"}, "unit says how a file is read"),
        ({"path": "a", "arrivals": "late"}, "arrivals of a Recipe must be"),
        ({"path": 3}, "path of a Recipe must be"),
    ],
)
def test_recipes_that_cannot_be_are_refused(fields: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Recipe(**fields)  # type: ignore[arg-type]


HEAD = '[trace]\npreset = "azure-conv"\nrequests = 5\n'
BODY = '[[cluster.instances]]\nmodel = "llama-3.1-8b"\ngpu = "h100-sxm"\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = [", "a run must be TOML"),
        (HEAD, r"lacks the table \[cluster\]"),
        (BODY, r"lacks the table \[trace\]"),
        (HEAD + BODY + "[polcy]\n", "no table 'polcy'; close to it: policy"),
        ("trace = 3\n" + BODY, "trace must be a table with path or preset, was 3"),
        (HEAD + "sede = 3\n" + BODY, "trace has no field 'sede'; close to it: seed"),
        (HEAD + BODY + "[settings]\nunitl = 3\n", "settings has no field 'unitl'; close to it: until"),
        ("settings = 3\n" + HEAD + BODY, "settings must be a table, was 3"),
        ("cluster = 3\n" + HEAD, "cluster must be a table or the name of a FILE.toml, was 3"),
        ('cluster = { file = "a.toml", count = 3 }\n' + HEAD, "file and nothing else, was file with count"),
        ('policy = "sarathy"\n' + HEAD + BODY, "no name 'sarathy'; close to it: sarathi"),
        (HEAD + BODY + '[policy]\npreset = "vllm"\nx = 1\n', "settings and nothing else, had x"),
        (HEAD + BODY + '[policy]\npreset = "vllm"\nsettings = 1\n', "policy vllm must be a table, was 1"),
        (
            HEAD + BODY + '[policy]\npreset = "vllm"\nsettings = { max_seqs = 1 }\n',
            "close to it: max_num_seqs",
        ),
        (HEAD + BODY + '[policy]\npreset = "vllm"\nsettings = { max_num_seqs = "a" }\n', "whole number"),
    ],
)
def test_files_that_say_no_run_are_refused(text: str, said: str) -> None:
    with pytest.raises((ConfigError, PolicyError), match=said):
        Run.from_toml(text)


def test_a_python_function_has_no_file() -> None:
    policy = paceline.Policy(
        name="mine", scheduler=policies.vllm().scheduler, on_arrival=lambda request, instances: 0
    )
    run = Run(trace=DRAWN, cluster=Cluster([Instance(cost=Affine(step_s=1.0), num_blocks=9)]), policy=policy)
    with pytest.raises(PolicyError, match="Python function"):
        run.to_toml()
