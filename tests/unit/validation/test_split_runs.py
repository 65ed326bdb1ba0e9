"""Runs on two GPUs, made by hand: step costs of a split model, and the settings in its folder."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from paceline import Cluster, Instance, Result, Trace, policies, replay
from paceline.cost import Roofline
from paceline.deployment import Balance, CudaGraphs, Lockstep
from paceline.errors import ConfigError, PolicyError
from paceline.kernels import Shape
from paceline.model import Model
from paceline.policy import round_robin
from paceline.testing import check
from paceline.validation import read_run, validate
from paceline.validation.prediction import cost_of
from paceline.validation.resolving import find_model, usable_blocks

US = 1_000_000  # ticks
LAYERS = ("layernorm", "qkv_proj", "rotary_emb", "o_proj")
MLP = ("gate_up_proj", "act_fn", "down_proj")
GPU = "NVIDIA RTX PRO 6000 Blackwell Server Edition"
DENSE: dict[str, Any] = {
    "model_type": "qwen3", "num_hidden_layers": 3, "hidden_size": 1000, "num_attention_heads": 8,
    "num_key_value_heads": 2, "head_dim": 128, "intermediate_size": 4000, "vocab_size": 5000,
    "max_position_embeddings": 4096, "torch_dtype": "bfloat16",
}  # fmt: skip
MIXTURE = DENSE | {
    "model_type": "qwen3_moe", "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 500,
}  # fmt: skip


def make_run(folder: Path, config: dict[str, Any], engine: dict[str, Any], **files: str) -> Path:
    """Write a run whose dense kernels take 1 us, attention 1 us a request, LM head 5 us and sampler 2 us."""
    profile = folder / "profile"
    profile.mkdir(parents=True)
    names = LAYERS if "num_experts" in config else LAYERS + MLP
    dense = [f"{layer},{n},1" for layer in names for n in (1, 64)]
    (profile / "dense.csv").write_text("layer,tokens,time_us\n" + "\n".join(dense))
    (profile / "per_sequence.csv").write_text("layer,sequences,time_us\nlm_head,1,5\nsampler,1,2\n")
    rows = [
        (pc, 0, n, kv, n) for pc in (0, 64) for n in (0, 1, 8) for kv in ((16, 64) if n else (0,)) if pc + n
    ]
    text = "\n".join(",".join(map(str, row)) for row in rows)
    (profile / "attention.csv").write_text("prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n" + text)
    (profile / "meta.yaml").write_text(f"vllm_version: 0.19.0\ngpu: {GPU}\n")
    (folder / "config.json").write_text(json.dumps(config))
    for name, content in files.items():
        (profile / f"{name}.csv").write_text(content)
    settings = {
        "model": "unknown/unheard-of",
        "engine_kwargs": {"max_num_seqs": 8, "max_num_batched_tokens": 64, **engine},
        "link": {"bandwidth_gb_per_s": 1.0, "latency_us": 3.0},
    }
    (folder / "engine.json").write_text(json.dumps(settings))
    times = [0.0, 1.0]
    requests = pl.DataFrame(
        {
            "arrival_s": times, "prompt_tokens": [16, 16], "output_tokens": [3, 3],
            "first_token_s": [t + 0.01 for t in times], "last_token_s": [t + 0.02 for t in times],
        }
    )  # fmt: skip
    requests.write_parquet(folder / "requests.parquet")
    return folder


def wire(folder: Path) -> dict[str, Any]:
    run = read_run(folder)
    table = cost_of(run)
    # The overhead that vLLM 0.19 leaves is not of interest here.
    return {**table.to_wire(tensor_parallel=run.tensor_parallel), "step": 0}


def test_a_model_split_in_two_reduces_twice_a_layer_and_gathers_its_logits(tmp_path: Path) -> None:
    cost = wire(make_run(tmp_path / "run", DENSE, {"tensor_parallel_size": 2}))
    # A layer: two norms and six others. An all-reduce of 1,000 numbers of two bytes: the two ranks exchange
    # them in one hop of 3 us, at 1 GB/s; twice a layer, and once for the embedding.
    hop = 3 * US + 2_000 * 1_000
    assert cost["tokens"]["ticks"][0] == 3 * 8 * US + (2 * 3 + 1) * hop
    # Half of 5,000 logits comes from the other rank, once.
    assert cost["rows"]["ticks"][0] == 7 * US + 3 * US + 5_000 * 1_000
    assert cost["decode"]["ticks"][0] == 3 * US


def experts(first: int, last: int, share: int = 1) -> str:
    """Return the table of experts that take 10 us each and 1 us for each token's work."""
    rows = [f"{n},{e},{10 * e + n / share}" for n in (1, 64) for e in (first, last)]
    return "tokens,activated_experts,time_us\n" + "\n".join(rows)


ENGINE = {"data_parallel_size": 2, "enable_expert_parallel": True}


def expected(tokens: int) -> float:
    """Return a layer's experts in us: of each rank ``tokens``, on the rank half of the experts they hit."""
    hit = 8 * (1 - (6 / 8) ** (2 * tokens))
    # Gathering hidden states and router logits of both, and scattering hidden states.
    exchange = 3 + tokens * (1_000 + 8) * 2 / 1_000 + 3 + tokens * 1_000 * 2 / 1_000
    return 10 * hit / 2 + tokens + exchange


@pytest.mark.parametrize("tokens", [1, 2])
def test_two_ranks_share_tokens_and_experts(tmp_path: Path, tokens: int) -> None:
    """Measured whole on one GPU: half of both ranks' work, by half of the experts."""
    cost = wire(make_run(tmp_path / "run", MIXTURE, ENGINE, moe=experts(2, 8)))
    at = cost["tokens"]["at"].index(tokens)
    assert cost["tokens"]["ticks"][at] == pytest.approx(3 * US * (5 + expected(tokens)), abs=3)


@pytest.mark.parametrize("tokens", [1, 2])
def test_a_profile_of_one_of_two_ranks_has_the_share_in_it(tmp_path: Path, tokens: int) -> None:
    """Measured as one of two ranks: by all tokens that come to it, and the experts that it has of them."""
    whole = "ep,tokens,activated_experts,time_us\n"
    table = experts(1, 4, share=2).splitlines()[1:]
    both = whole + "\n".join([*(f"2,{row}" for row in table), "1,1,2,999", "1,64,8,999"])
    named = wire(make_run(tmp_path / "named", MIXTURE, ENGINE, moe=both))
    guessed = wire(make_run(tmp_path / "guessed", MIXTURE, ENGINE, moe=experts(1, 4, share=2)))
    at = named["tokens"]["at"].index(tokens)
    assert named["tokens"]["ticks"][at] == pytest.approx(3 * US * (5 + expected(tokens)), abs=3)
    assert guessed == named


@pytest.mark.parametrize(
    ("config", "engine", "files"),
    [(DENSE, {"tensor_parallel_size": 2}, {}), (MIXTURE, ENGINE, {"moe": experts(2, 8)})],
)
def test_a_run_on_two_gpus_is_replayed(
    tmp_path: Path, config: dict[str, Any], engine: dict[str, Any], files: dict[str, str]
) -> None:
    comparison = validate(make_run(tmp_path / "run", config, engine, **files))
    # Each request is alone: a prompt's step, then two of decoding a context of 17 and 18.
    run = read_run(tmp_path / "run")
    cost = cost_of(run).to_wire(tensor_parallel=run.tensor_parallel)
    at = cost["tokens"]["at"].index(1)
    decode = cost["step"] + cost["tokens"]["ticks"][at] + cost["rows"]["ticks"][0] + 3 * US
    assert comparison.predicted["tpot"]["mean"] == pytest.approx(1e-12 * decode, rel=1e-6)


def test_ranks_that_share_experts_have_room_for_more_context(tmp_path: Path) -> None:
    alone = make_run(tmp_path / "alone", MIXTURE, {}, moe=experts(2, 8))
    shared = make_run(tmp_path / "shared", MIXTURE, ENGINE, moe=experts(2, 8))
    split = make_run(tmp_path / "split", MIXTURE, {"data_parallel_size": 2}, moe=experts(2, 8))
    few, many, as_many = (usable_blocks(read_run(run), GPU) for run in (alone, shared, split))
    block = 16 * Model.from_hf_config(MIXTURE).kv_bytes_per_token()
    # Half of 3 layers of 8 experts of 3 x 1,000 x 500 numbers of two bytes.
    assert many - few == pytest.approx(36_000_000 / block, abs=1)
    assert as_many == many


def test_names_are_looked_up_with_what_tuning_adds_to_them(tmp_path: Path) -> None:
    for name, model in {
        "Qwen/Qwen3-30B-A3B-Instruct-2507": "qwen3-30b-a3b",
        "Qwen/Qwen3-32B": "qwen3-32b",
        "qwen3-14b": "qwen3-14b",
        "microsoft/Phi-mini-MoE-instruct": "phi-mini-moe",
        "/models/Llama-3.1-70B-Instruct/": "llama-3.1-70b",
    }.items():
        assert find_model(name, tmp_path).name == model
    with pytest.raises(
        ConfigError, match=r"config\.json must lie in the folder, was 'a/qwen3-31b'; close to it"
    ):
        find_model("a/qwen3-31b", tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(DENSE))
    assert Shape.of(find_model("a/qwen3-31b", tmp_path)).hidden_size == 1000


def test_attention_by_mean_key_length_is_read_as_history(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", DENSE, {"tensor_parallel_size": 2})
    plain = wire(folder)
    path = folder / "profile" / "attention.csv"
    renamed = [path.read_text().splitlines()[0].replace("kv_prefill", "prefill_key") + ",decode_q_len,layer"]
    for line in path.read_text().splitlines()[1:]:
        chunk, history, *rest = line.split(",")
        key = int(history) + int(chunk) / 2
        renamed += [
            f"{chunk},{key},{','.join(rest)},1,attention",
            f"{chunk},{key},{','.join(rest)},4,attention",
        ]
    path.write_text("\n".join(renamed))
    assert wire(folder)["prefill"] == plain["prefill"]


def lockstep_run(folder: Path, requests: list[tuple[float, int, int]]) -> list[tuple[float, float]]:
    """Replay requests on two ranks that share experts, in turn, and return each one's TTFT and E2E in us."""
    run = read_run(make_run(folder, MIXTURE, ENGINE, moe=experts(2, 8)))
    table = replace(cost_of(run), overhead_s=0.0)
    instance = Instance(cost=table, num_blocks=1000, max_model_len=4096)
    arrivals, prompts, outputs = zip(*requests, strict=True)
    trace = Trace.from_columns(
        arrival=[1e-6 * at for at in arrivals], prompt_tokens=list(prompts), output_tokens=list(outputs)
    )
    # Graphs are captured up to twice the most requests: two tokens.
    policy = policies.vllm(max_num_seqs=1, max_num_batched_tokens=64, routing="round_robin")
    result = replay(trace, Cluster(2 * [instance], lockstep=True), policy)
    check(result)
    return [(1e6 * ttft, 1e6 * e2e) for ttft, e2e in result.requests.select("ttft", "e2e").iter_rows()]


def shared_us(tokens: int) -> float:
    """Return three layers' experts and exchanges, by the tokens of both ranks, in us."""
    hit = 8 * (1 - (6 / 8) ** tokens)
    exchange = 6 + tokens * (1_000 + 8) / 1_000 + tokens * 1_000 / 1_000
    return 3 * (10 * hit / 2 + tokens / 2 + exchange)


def alone_us(decodes: int) -> float:
    """Return what a rank takes beside: three layers of five kernels and attention, LM head and sampler."""
    return 3 * (5 + decodes) + 7


def test_a_rank_waits_for_the_other_and_computes_with_its_tokens(tmp_path: Path) -> None:
    # One prompt of 32 tokens on a rank, and one of 2 on the other, at once; both then decode twice.
    (long, long_end), (short, short_end) = lockstep_run(tmp_path / "run", [(0, 32, 3), (0, 2, 3)])
    assert long == short
    assert long == pytest.approx(alone_us(0) + shared_us(34), rel=1e-3)
    step = alone_us(1) + shared_us(2)
    assert long_end - long == pytest.approx(2 * step, rel=1e-3)
    assert short_end - short == pytest.approx(2 * step, rel=1e-3)


def test_an_idle_rank_takes_part_with_one_token(tmp_path: Path) -> None:
    ((first, end),) = lockstep_run(tmp_path / "run", [(0, 16, 3)])
    assert end - first == pytest.approx(2 * (alone_us(1) + shared_us(2)), rel=1e-3)


def test_a_request_that_arrives_in_a_step_of_the_other_rank_starts_after_it(tmp_path: Path) -> None:
    (first, _), (second, _) = lockstep_run(tmp_path / "run", [(0, 32, 3), (1, 2, 3)])
    # The first rank's step continues without the second. The next has a decode, as long as the prompt of two.
    assert second == pytest.approx(first - 1 + alone_us(1) + shared_us(2 + 2), rel=1e-3)


def test_a_cluster_in_lockstep_is_of_equal_ranks(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", MIXTURE, ENGINE, moe=experts(2, 8))
    instance = Instance(cost=cost_of(read_run(folder)), num_blocks=1000, max_model_len=4096)
    cluster = Cluster(2 * [instance], lockstep=True)
    assert Cluster.from_toml(cluster.to_toml()) == cluster
    balanced = replace(cluster, balance=Balance(timeout_steps=60, gather_steps=2))
    assert Cluster.from_toml(balanced.to_toml()) == balanced
    with pytest.raises(ConfigError, match="with a Table or a Roofline of data_parallel 3, was 2"):
        Cluster(3 * [instance], lockstep=True)
    eager = replace(instance, cuda_graphs=CudaGraphs(eager_step_s=0.2))
    with pytest.raises(
        ConfigError, match=r"eager_step_s of instances of a Cluster in lockstep must be 0.*0\.2"
    ):
        Cluster(2 * [eager], lockstep=True)


def test_groups_are_of_equal_ranks_and_share_no_instance(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", MIXTURE, ENGINE, moe=experts(2, 8))
    instance = Instance(cost=cost_of(read_run(folder)), num_blocks=1000, max_model_len=4096)
    groups = [Lockstep([0, 1]), Lockstep(range(3, 5), balance=Balance(timeout_steps=60))]
    cluster = Cluster(5 * [instance], lockstep=groups)
    assert cluster.groups == tuple(groups)
    assert Cluster.from_toml(cluster.to_toml()) == cluster
    assert Cluster(2 * [instance], lockstep=True).groups == (Lockstep([0, 1]),)
    assert Cluster(2 * [instance]).groups == Cluster(2 * [instance], lockstep=[]).groups == ()
    refused = {
        "group 0 .* must be equal, with a Table or a Roofline of data_parallel 3, was 2": [
            Lockstep([0, 1, 2])
        ],
        "group 1 .* must be in no other group, but instance 1 is": [Lockstep([0, 1]), Lockstep([1, 2])],
        "group 0 .* must be indexes of its 5 instances": [Lockstep([4, 5])],
    }
    for said, wrong in refused.items():
        with pytest.raises(ConfigError, match=said):
            Cluster(5 * [instance], lockstep=wrong)
    other = replace(instance, num_blocks=900)
    with pytest.raises(ConfigError, match=r"group 0 .* must be equal"):
        Cluster([instance, other], lockstep=[Lockstep([0, 1])])
    with pytest.raises(ConfigError, match="members of a Lockstep must be indexes"):
        Lockstep([1, 1])
    with pytest.raises(ConfigError, match="a group has its own"):
        Cluster(5 * [instance], lockstep=groups, balance=Balance(timeout_steps=60))


def apart(folder: Path, requests: list[tuple[float, int, int]], **fields: Any) -> Result:
    """Replay requests on two instances that prefill and one that decodes, each of two ranks."""
    table = replace(cost_of(read_run(make_run(folder, MIXTURE, ENGINE, moe=experts(2, 8)))), overhead_s=0.0)
    instance = Instance(cost=table, num_blocks=1000, max_model_len=4096, **fields)
    groups = [Lockstep([0, 1]), Lockstep([2, 3]), Lockstep([4, 5])]
    one = policies.vllm(max_num_seqs=1, max_num_batched_tokens=64, async_scheduling=False).scheduler
    policy = policies.disaggregated(prefill=4, decode=2, scheduler=one)
    policy = replace(policy, on_arrival=round_robin(within="prefill"))
    arrivals, prompts, outputs = zip(*requests, strict=True)
    trace = Trace.from_columns(
        arrival=[1e-6 * at for at in arrivals], prompt_tokens=list(prompts), output_tokens=list(outputs)
    )
    result = replay(trace, Cluster(6 * [instance], lockstep=groups), policy)
    check(result)
    return result


def test_requests_are_handed_from_one_group_to_another(tmp_path: Path) -> None:
    """Rows 0 and 1 are on both ranks of a group, row 2 on the next, whose other rank has no request."""
    result = apart(tmp_path / "run", [(0, 32, 3), (0, 2, 3), (0, 16, 1)])
    ttft, e2e = (result.requests[name].cast(float).to_numpy() * 1e6 for name in ("ttft", "e2e"))
    assert ttft[0] == ttft[1] == pytest.approx(alone_us(0) + shared_us(34), rel=1e-3)
    assert ttft[2] == pytest.approx(alone_us(0) + shared_us(17), rel=1e-3)
    assert result.requests["last_instance"].to_list()[:2] == [4, 5]
    step = alone_us(1) + shared_us(2)
    assert [e2e[row] - ttft[row] for row in (0, 1)] == pytest.approx([2 * step, 2 * step], rel=1e-3)


def test_a_step_with_a_prompt_on_any_rank_lasts_for_its_launches(tmp_path: Path) -> None:
    result = apart(tmp_path / "run", [(0, 32, 3), (0, 2, 3)], prompt_step_s=0.01)
    assert result.requests["ttft"].cast(float).to_list() == pytest.approx([0.01, 0.01])
    later = (result.requests["e2e"].cast(float) - result.requests["ttft"].cast(float)).to_numpy() * 1e6
    assert later == pytest.approx(2 * [2 * (alone_us(1) + shared_us(2))], rel=1e-3)


def test_a_group_that_a_roofline_prices_ends_with_its_slowest_rank() -> None:
    """The rank with the long prompt counts the other one as having as many tokens, and both wait for it."""
    priced = Roofline(expert_parallel=True, data_parallel=2)
    instance = Instance(model="qwen3-30b-a3b", gpu="b200", cost=priced)
    trace = Trace.from_columns(arrival=[0, 0], prompt_tokens=[500, 20], output_tokens=[1, 1])
    policy = policies.vllm(routing="round_robin", async_scheduling=False)
    alone, together = (
        replay(trace, Cluster(2 * [instance], lockstep=lockstep), policy).requests["ttft"].cast(float)
        for lockstep in (False, True)
    )
    assert alone[1] < alone[0]
    assert together.to_list() == [alone[0], alone[0]]


def test_a_group_has_one_scheduler(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", MIXTURE, ENGINE, moe=experts(2, 8))
    instance = Instance(cost=cost_of(read_run(folder)), num_blocks=1000, max_model_len=4096)
    few, many = (policies.vllm(max_num_seqs=most, async_scheduling=False).scheduler for most in (1, 9))
    policy = policies.disaggregated(prefill=1, decode=1, scheduler=few, prefill_scheduler=many)
    trace = Trace.from_columns(arrival=[0], prompt_tokens=[5], output_tokens=[2])
    with pytest.raises(PolicyError, match=r"all instances that step together, was another .* \[0, 1\]"):
        replay(trace, Cluster(2 * [instance], lockstep=True), policy)
