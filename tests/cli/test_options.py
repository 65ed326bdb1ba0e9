"""Options that several commands have: the GPU and its memory, the warm-up, units, and what is replaced."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import paceline as package
from cli.running import ON_ONE_H100, Run
from paceline import SLO, Cluster, Gpu, Instance, Trace, load_result, policies, read_trace
from paceline.cli.objective import objectives
from paceline.cli.options import seconds_of
from paceline.errors import ConfigError
from paceline.policies.by_name import names


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("500ms", 0.5),
        ("40ms", 0.04),
        ("35 ms", 0.035),
        ("250us", 0.00025),
        ("2s", 2.0),
        ("2", 2.0),
        ("1e3ms", 1),
    ],
)
def test_a_time_has_a_unit_or_is_in_seconds(text: str, seconds: float) -> None:
    assert seconds_of(text, "--warmup") == seconds


@pytest.mark.parametrize("text", ["ms", "5 h", "5m", "1 s 2", ""])
def test_a_time_of_another_unit_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--warmup must be a time in s, ms or us"):
        seconds_of(text, "--warmup")


def test_bounds_have_units() -> None:
    assert objectives("ttft=500ms, tpot=40000us, e2e=9s") == SLO(ttft=0.5, tpot=0.04, e2e=9.0)


def test_a_gpu_of_ones_own_replays_as_in_python(paceline: Run, small_trace: Path, tmp_path: Path) -> None:
    own = Gpu.load("h100-sxm").to_toml().replace('name = "h100-sxm"\n', "")
    (tmp_path / "mine.toml").write_text(own, encoding="utf-8")
    words = ("--model", "llama-3.1-8b", "--gpu", "mine.toml")
    done = paceline("replay", small_trace, *words, "--out", "run")
    assert done.returncode == 0, done.stderr
    assert "llama-3.1-8b on mine" in done.stdout
    # The figures are those of the catalog's GPU, so the latencies are too.
    gpu = Gpu.from_toml('name = "mine"\n' + own)
    expected = package.replay(
        read_trace(small_trace), Cluster([Instance(model="llama-3.1-8b", gpu=gpu)]), policies.vllm()
    )
    assert load_result(tmp_path / "run").requests.equals(expected.requests)


def test_the_gpu_of_the_guide_replays(root: Path, paceline: Run, small_trace: Path, tmp_path: Path) -> None:
    guide = (root / "docs/guides/command-line.md").read_text(encoding="utf-8")
    (tmp_path / "own.toml").write_text(guide.partition("```toml\n")[2].partition("```")[0], encoding="utf-8")
    done = paceline("replay", small_trace, "--model", "llama-3.1-8b", "--gpu", "own.toml", "--json")
    assert done.returncode == 0, done.stderr
    catalog = paceline("replay", small_trace, *ON_ONE_H100, "--json")
    assert json.loads(done.stdout)["summary"] == json.loads(catalog.stdout)["summary"]


def test_a_gpu_file_is_named_in_its_errors(paceline: Run, small_trace: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('device = "x"\nmemory = 3\n', encoding="utf-8")
    done = paceline("replay", small_trace, "--model", "llama-3.1-8b", "--gpu", "mine.toml")
    assert done.returncode == 2
    assert done.stderr.startswith(
        "paceline: mine.toml: the GPU has no field 'memory'; close to it: memory_bytes"
    )


def test_fp8_keys_and_values_and_a_share_of_the_memory_change_the_blocks(
    paceline: Run, small_trace: Path, tmp_path: Path
) -> None:
    words = ("--kv-dtype", "fp8", "--gpu-memory-utilization", 0.5)
    assert paceline("replay", small_trace, *ON_ONE_H100, *words, "--out", "run").returncode == 0
    instance = Instance(model="llama-3.1-8b", gpu="h100-sxm", kv_dtype="fp8", gpu_memory_utilization=0.5)
    assert load_result(tmp_path / "run").provenance.cluster == Cluster([instance]).to_toml()


@pytest.mark.parametrize(
    ("asked", "first"), [("h100", "h100-sxm"), ("a100", "a100-40gb"), ("rtx4090", "rtx-4090")]
)
def test_the_nearest_gpu_comes_first(asked: str, first: str, paceline: Run, small_trace: Path) -> None:
    done = paceline("replay", small_trace, "--model", "llama-3.1-8b", "--gpu", asked)
    assert f"close to it: {first}" in done.stderr


def test_a_warm_up_leaves_requests_out_of_the_latencies(paceline: Run, small_trace: Path) -> None:
    # Arrivals are 0, 0.25, … 9.75 s: 20 before 5 s.
    words = ("--slo", "ttft=1s,tpot=20ms", "--warmup", "5s", "--json")
    document = json.loads(paceline("replay", small_trace, *ON_ONE_H100, *words).stdout)
    assert document["warmup"] == {"seconds": 5.0, "requests": 20}
    cluster = Cluster([Instance(model="llama-3.1-8b", gpu="h100-sxm")])
    rows = package.replay(read_trace(small_trace), cluster).requests[20:]
    ttft = document["summary"]["ttft"]
    assert (ttft["count"], ttft["max"]) == (20, rows["ttft"].max())
    assert ttft["mean"] == pytest.approx(rows["ttft"].mean())
    met = ((rows["ttft"] <= 1.0) & (rows["tpot"].fill_null(0.0) <= 0.02)).sum()
    assert document["slo"]["attainment"] == met / 20
    shown = paceline("replay", small_trace, *ON_ONE_H100, "--warmup", "5s").stdout
    assert "20 requests of the first 5 s are not in the latencies" in shown


def test_a_warm_up_beyond_the_trace_is_refused(paceline: Run, small_trace: Path) -> None:
    for words in (
        ("replay",),
        ("capacity", "--slo", "ttft=1"),
        ("plan", "--slo", "ttft=1"),
        ("compare", "--against", "sarathi"),
    ):
        done = paceline(words[0], small_trace, *ON_ONE_H100, *words[1:], "--warmup", "10s")
        assert done.returncode == 2
        assert "must end before the last arrival" in done.stderr


def test_searches_judge_what_arrives_after_the_warm_up() -> None:
    # The first request takes 1 s more than the objective, all others are served at once: without it all pass.
    trace = Trace.from_columns(
        arrival=[0.0, *range(10, 28, 2)], prompt_tokens=[2] + [1] * 9, output_tokens=[1] * 10
    )
    server = Instance(cost=package.Affine(step_s=0.1, token_s=1.0), num_blocks=99)
    bounds = SLO(ttft=1.5)
    whole = package.plan(trace, package.Candidates(server, most=4), None, bounds, 1.0)
    cut = package.plan(trace, package.Candidates(server, most=4), None, bounds, 1.0, warmup_s=5.0)
    assert (whole.best, cut.best["instances"], cut.best["requests"]) == (None, 1, 9)
    found = package.capacity(trace, Cluster([server]), None, bounds, 1.0, warmup_s=5.0, between=(None, 1.0))
    assert found.curve["requests"].unique().to_list() == [9]
    assert found.rate is not None


def test_an_earlier_result_is_replaced_with_force_only(
    paceline: Run, small_trace: Path, tmp_path: Path
) -> None:
    words = ("replay", small_trace, *ON_ONE_H100, "--out", "run")
    assert paceline(*words).returncode == 0
    before = (tmp_path / "run/manifest.json").read_bytes()
    again = paceline(*words, "--instances", 2)
    assert (again.returncode, again.stderr) == (
        2,
        "paceline: run: holds the result of an earlier replay; --force replaces it\n",
    )
    assert (tmp_path / "run/manifest.json").read_bytes() == before
    assert paceline(*words, "--instances", 2, "--force").returncode == 0
    assert (tmp_path / "run/manifest.json").read_bytes() != before


def test_a_page_of_a_policy_says_what_it_reads_and_where_it_is_from(paceline: Run) -> None:
    shown = paceline("policies", "las").stdout
    for words in ("grain_s", "Seconds of service that count as equal", "req.attained_time", "Nuyens and"):
        assert words in shown
    document = json.loads(paceline("policies", "sjf", "--json").stdout)["sjf"]
    assert document["reads"]["oracle"]
    assert "oracle.output_tokens" in document["reads"]["fields"]
    wrong = paceline("policies", "sarathy")
    assert wrong.returncode == 2
    assert wrong.stderr.startswith("paceline: there is no policy 'sarathy'; close to it: sarathi, ")


def test_every_policy_has_a_page(paceline: Run) -> None:
    for name in names():
        page = json.loads(paceline("policies", name, "--json").stdout)[name.replace("_", "-")]
        assert any("Source" in note for note in page["notes"]), name
