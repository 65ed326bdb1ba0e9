"""Host times by engine and version: which versions they hold for, and what they add to a replay."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from paceline import Affine, Cluster, ConfigError, Instance, Trace, replay, scan_trace
from paceline.cost import Roofline
from paceline.hosts import EngineHost, host_names
from paceline.kernels import Curve, Grid, KernelProfile, Table, write_parquet

LOAD = Trace.from_columns(arrival=[0.0] * 20, prompt_tokens=[16] * 20, output_tokens=[51] * 20)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Kernels of which each takes 10 us, whatever is in a step."""
    flat = Curve((1, 8192), (10e-6, 10e-6))
    layers = ("layernorm", "qkv_proj", "rotary_emb", "o_proj", "gate_up_proj", "act_fn", "down_proj")
    corners = [(p, h, n, c) for p in (0, 8192) for h in (0, 4096) for n in (0, 64) for c in (0, 4096)]
    profile = KernelProfile(
        name="toy",
        source="a test",
        dense=dict.fromkeys(layers, flat),
        per_sequence={"lm_head": flat},
        decode=Grid.of([(0, 0, n, c, 10e-6) for n in (1, 64) for c in (16, 4096)]),
        prefill=Grid.of([(p, h, 0, 0, 10e-6) for p in (16, 8192) for h in (0, 4096)]),
        mixed=Grid.of([(*corner, 10e-6) for corner in corners]),
    )
    write_parquet(profile, tmp_path / "toy.parquet")
    return Table(profile=str(tmp_path / "toy.parquet"))


def served_by(cost: Roofline | Table) -> Cluster:
    instance = Instance(model="llama-3.1-8b", gpu="h100-sxm", cost=cost, num_blocks=20_000)
    return Cluster([instance])


@pytest.mark.parametrize("kind", ["roofline", "table"])
def test_a_step_is_longer_by_a_constant_and_a_time_for_each_request(kind: str, table: Table) -> None:
    cluster = served_by(Roofline() if kind == "roofline" else table)
    plain, later = (replay(LOAD, cluster, host=host).requests for host in (None, "vllm-0.12"))
    # All 20 requests decode together: 1.1 ms + 20 x 48 us a step. A prompt's step samples all of them, too.
    added = 0.0011 + 20 * 48e-6
    assert (later["tpot"] - plain["tpot"]).to_list() == pytest.approx([added] * 20, abs=1e-9)
    # The first token waits for the front end, too, of 4 ms and 2 us a token of the prompt.
    assert (later["ttft"] - plain["ttft"]).to_list() == pytest.approx(
        [0.004 + 16 * 2e-6 + added] * 20, abs=1e-9
    )


def test_a_front_end_delays_the_first_token_alone() -> None:
    cluster = served_by(Roofline())
    plain, later = (replay(LOAD, cluster, host=host).requests for host in (None, "vllm-0.19"))
    assert (later["ttft"] - plain["ttft"]).to_list() == pytest.approx([0.006 + 16 * 4e-6] * 20, abs=1e-9)
    assert (later["tpot"] - plain["tpot"]).to_list() == pytest.approx([0.0] * 20, abs=1e-9)


def test_all_requests_wait_for_the_tokens_of_the_mean_prompt(tmp_path: Path) -> None:
    host = EngineHost(name="mine", engine="vllm", first="1", last="1", frontend_s=0.01, frontend_token_s=1e-4)
    load = Trace.from_columns(arrival=[0.0, 5.0], prompt_tokens=[100, 300], output_tokens=[2, 2])
    cluster = served_by(Roofline())
    plain, later = (replay(load, cluster, host=one).requests for one in (None, host))
    assert (later["ttft"] - plain["ttft"]).to_list() == pytest.approx([0.01 + 200 * 1e-4] * 2, abs=1e-9)
    load.write(tmp_path / "load.parquet")
    assert scan_trace(tmp_path / "load.parquet").mean_prompt_tokens == 200
    with pytest.raises(ConfigError, match=r"must be 0 beside the host 'mine', which has 0\.03 s, was 0\.5"):
        host.on(replace(cluster, frontend_s=0.5), prompt_tokens=200)


def test_a_step_with_prompts_ends_after_its_launches(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('engine = "vllm"\nfirst = "1"\nlast = "1"\nprompt_step_s = 0.5\n')
    cluster = served_by(Roofline())
    plain, later = (replay(LOAD, cluster, host=one).requests for one in (None, str(tmp_path / "mine.toml")))
    # One step computes all prompts, which takes far less than half a second; the others only decode.
    assert later["ttft"].to_list() == [0.5] * 20
    assert later["tpot"].to_list() == plain["tpot"].to_list()


def test_a_step_with_prompts_launches_each_layer_with_latent_attention() -> None:
    host = EngineHost(name="mine", engine="sglang", first="1", last="1", latent_layer_s=0.01)
    deepseek = Instance(model="deepseek-r1", gpu="b200", tensor_parallel=8, num_blocks=20_000)
    # One step computes all prompts, far faster than its 61 layers of 10 ms are launched.
    assert replay(LOAD, Cluster([deepseek]), host=host).requests["ttft"].to_list() == [0.61] * 20
    later = replace(host, prompt_step_s=0.7).on(Cluster([deepseek])).instances[0]
    assert later.prompt_step_s == 0.7
    llama = served_by(Roofline())
    assert host.on(llama) == llama


def test_a_host_holds_for_its_versions_alone() -> None:
    held = {version: EngineHost.of("vllm", version) for version in ("0.11.0", "0.11.1", "0.12.0", "0.13.0")}
    assert {version: host and host.name for version, host in held.items()} == {
        "0.11.0": None,
        "0.11.1": "vllm-0.11",
        "0.12.0": "vllm-0.12",
        "0.13.0": None,
    }
    assert [EngineHost.of("vllm", version) is None for version in ("0.15.0", "0.23.9", "0.24.0")] == [
        False,
        False,
        True,
    ]
    assert EngineHost.of("trtllm", "1.0.0rc3") is not None
    # Beside its kernels alone, and only where it holds.
    beside = [EngineHost.of("vllm", version, kernels="shipped") for version in ("0.23.0", "0.22.1")]
    assert [host and host.name for host in beside] == ["vllm-0.23-shipped", "vllm-0.23"]
    assert EngineHost.of("trtllm", "1.0.0rc4") is None
    trtllm = [EngineHost.of("trtllm", version) for version in ("1.1.0rc2.post2", "1.2.0rc6", "1.3.0rc14")]
    assert [host and host.name for host in trtllm] == ["trtllm-1.1", "trtllm-1.3", "trtllm-1.3"]
    # A host that begins later is one of fewer versions.
    sglang = [EngineHost.of("sglang", version) for version in ("0.5.4", "0.5.6", "0.5.6.post2", "0.5.8")]
    names = [None, "sglang-0.5.12", "sglang-0.5.6", "sglang-0.5.12"]
    assert [host and host.name for host in sglang] == names
    assert EngineHost.of("sglang", "0.15.0") is None
    assert EngineHost.of("vllm", "nightly-5b8c30d6") is None


def test_every_host_says_where_it_comes_from_and_how_far_it_spreads() -> None:
    for name in host_names():
        host = EngineHost.load(name)
        assert host.source, name
        assert host.spread, name
        assert host.flags, name
        assert host.frontend_s + host.step_s + host.request_s > 0, name


def test_a_host_of_a_version_that_was_not_measured_is_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"host must be one that was measured, .*vllm-0\.12 \(0\.12 to 0\.12\)"
    ):
        EngineHost.load("vllm-0.13")
    with pytest.raises(ConfigError, match="was 'faster'"):
        replay(LOAD, served_by(Roofline()), host="faster")


def test_a_front_end_is_not_counted_twice() -> None:
    instance = Instance(model="llama-3.1-8b", gpu="h100-sxm")
    with pytest.raises(ConfigError, match=r"must be 0 beside the host .vllm-0\.23., which"):
        replay(LOAD, Cluster([instance], frontend_s=0.002), host="vllm-0.23")


def test_a_line_takes_a_hosts_constant_and_has_no_time_for_a_request() -> None:
    cluster = Cluster([Instance(cost=Affine(step_s=0.01), num_blocks=1000)])
    constant = EngineHost(name="mine", engine="vllm", first="1", last="1", step_s=0.002)
    assert constant.on(cluster).instances[0].cost == Affine(step_s=0.012)
    with pytest.raises(ConfigError, match=r"a Roofline or a Table with the host .vllm-0\.12."):
        replay(LOAD, cluster, host="vllm-0.12")
