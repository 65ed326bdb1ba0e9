"""Instances and clusters: their configuration."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.cost import Affine, Efficiency, Roofline
from paceline.deployment import Cluster, Instance, kv_memory
from paceline.errors import ConfigError
from paceline.hardware import Gpu
from paceline.model import Model

FLAT = Affine(step_s=0.01)


def test_a_bare_instance_is_its_cost_and_blocks() -> None:
    assert Instance(cost=FLAT, num_blocks=101, block_tokens=8).to_wire() == {
        "blocks": 100,
        "block_tokens": 8,
        "max_model_len": None,
        "kv_bytes_per_token": 0,
        "kv_layers": 1,
        "cost": {"kind": "affine", "step": 10**10, "token": 0, "kv_token": 0},
    }


@pytest.mark.parametrize(
    ("fields", "missing"),
    [
        ({}, "a model"),
        ({"cost": FLAT}, "a model"),
        ({"num_blocks": 10}, "a model"),
        ({"model": "llama-3.1-8b"}, "a gpu"),
        ({"model": "llama-3.1-8b", "num_blocks": 10**4}, "a gpu"),
        ({"gpu": "h100-sxm", "cost": FLAT}, "a model"),
        ({"cost": Roofline(), "num_blocks": 10}, "a model"),
    ],
)
def test_what_is_needed_and_missing_is_named(fields: dict[str, Any], missing: str) -> None:
    with pytest.raises(
        ConfigError, match=f"an Instance without {missing} must have both a cost and num_blocks"
    ):
        Instance(**fields)


def test_blocks_follow_from_memory_less_the_null_block() -> None:
    instance = Instance(model="llama-3.1-8b", gpu="h100-sxm")
    rule = kv_memory(
        Model.load("llama-3.1-8b"), Gpu.load("h100-sxm"), max_num_batched_tokens=8192, max_num_seqs=1024
    )
    assert instance.usable_blocks == rule.blocks - 1 == instance.to_wire()["blocks"]
    assert instance.memory() == rule
    fewer_rows = instance.to_wire(max_num_batched_tokens=2048, max_num_seqs=256)
    assert fewer_rows["blocks"] > instance.usable_blocks, "a smaller dummy run leaves more for KV"


def test_blocks_given_by_hand_stand() -> None:
    instance = Instance(model="llama-3.1-8b", gpu="rtx-4090", num_blocks=2588, max_model_len=32768)
    assert instance.to_wire(max_num_batched_tokens=512)["blocks"] == instance.usable_blocks == 2587


def test_objects_do_as_well_as_names() -> None:
    named = Instance(model="llama-3.1-8b", gpu="h100-sxm")
    given_ = Instance(model=Model.load("llama-3.1-8b"), gpu=Gpu.load("h100-sxm"))
    assert named.to_wire() == given_.to_wire()
    assert named.kv_bytes_per_token == given_.kv_bytes_per_token == 131_072


def test_the_cost_is_the_gpus_roofline_unless_given() -> None:
    model, gpu = Model.load("llama-3.1-70b"), Gpu.load("h100-sxm")
    instance = Instance(model="llama-3.1-70b", gpu="h100-sxm", tensor_parallel=4, kv_dtype="fp8")
    assert instance.to_wire()["cost"] == Roofline().to_wire(model, gpu, tensor_parallel=4, kv_dtype="fp8")
    assert replace(instance, cost=FLAT).to_wire()["cost"] == FLAT.to_wire()


@pytest.mark.parametrize(
    ("gpu", "batching"),
    [
        ("a100-40gb", (2048, 256)),
        ("a100-80gb", (2048, 256)),
        ("h100-sxm", (8192, 1024)),
        ("h200", (8192, 1024)),
        ("b200", (16384, 1024)),
        ("rtx-4090", (2048, 256)),
        (None, (2048, 256)),
    ],
)
def test_default_batching_is_vllms_for_the_gpu(gpu: str | None, batching: tuple[int, int]) -> None:
    assert Instance(gpu=gpu, cost=FLAT, num_blocks=10).default_batching() == batching


class TestMaxModelLen:
    def test_is_the_models_own_by_default(self) -> None:
        assert Instance(model="llama-3.1-8b", gpu="h100-sxm").to_wire()["max_model_len"] == 131072

    def test_that_does_not_fit_is_refused_with_what_would(self) -> None:
        rule = (
            r"max_model_len must be at most 41392, .* 2587 usable blocks .*, was 131072 \(the model's own\)"
        )
        with pytest.raises(ConfigError, match=rule):
            Instance(model="llama-3.1-8b", gpu="rtx-4090", num_blocks=2588)
        with pytest.raises(ConfigError, match='max_model_len="auto" takes what fits'):
            Instance(cost=FLAT, num_blocks=11, max_model_len=161)

    def test_may_fill_every_usable_block(self) -> None:
        assert Instance(cost=FLAT, num_blocks=11, max_model_len=160).to_wire()["max_model_len"] == 160

    def test_auto_takes_what_fits_and_no_more_than_the_models(self) -> None:
        tight = Instance(model="llama-3.1-8b", gpu="rtx-4090", num_blocks=2588, max_model_len="auto")
        assert tight.to_wire()["max_model_len"] == 2587 * 16
        roomy = Instance(model="llama-2-7b", gpu="h100-sxm", max_model_len="auto")
        assert roomy.to_wire()["max_model_len"] == 4096
        bare = Instance(cost=FLAT, num_blocks=11, max_model_len="auto")
        assert bare.to_wire()["max_model_len"] == 160

    def test_beyond_the_models_positions_is_refused(self) -> None:
        with pytest.raises(ConfigError, match="at most the 4096 positions of llama-2-7b, was 8192"):
            Instance(model="llama-2-7b", gpu="h100-sxm", max_model_len=8192)


def test_a_model_that_does_not_fit_is_refused_with_the_sums() -> None:
    with pytest.raises(
        ConfigError, match=r"llama-3.1-70b does not fit on 1 x h100-sxm: .* weights take 131.42"
    ):
        Instance(model="llama-3.1-70b", gpu="h100-sxm")


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ({"num_blocks": 1}, "num_blocks of an Instance must be a whole number of at least 2, was 1"),
        ({"block_tokens": 0}, "block_tokens of an Instance must be a whole number of at least 1, was 0"),
        ({"tensor_parallel": 1.5}, "tensor_parallel of an Instance must be a whole number"),
        ({"gpu_memory_utilization": 92}, "gpu_memory_utilization of an Instance must be a number above 0"),
        (
            {"max_model_len": "all"},
            "max_model_len of an Instance must be a whole number of at least 1, was 'all'",
        ),
        ({"kv_dtype": "int4"}, "kv_dtype of an Instance must be auto or one of .*, was 'int4'"),
        ({"cost": 0.01}, "cost of an Instance must be an Affine, a Roofline or a Table, was 0.01"),
        ({"model": 8}, "model of an Instance must be a name or a Model, was 8"),
        ({"gpu": "h100"}, "there is no gpu 'h100'; close to it: "),
    ],
)
def test_values_that_make_no_sense_are_refused(fields: dict[str, Any], rule: str) -> None:
    with pytest.raises(ConfigError, match=rule):
        Instance(**{"cost": FLAT, "num_blocks": 10, **fields})


CUSTOM = Roofline(
    efficiency=Efficiency(
        memory=0.9, matmul=0.7, attention_memory=0.8, attention_matmul=0.6, layer_s=1e-5, step_s=1e-4
    )
)
INSTANCES = [
    Instance(model="llama-3.1-8b", gpu="h100-sxm"),
    Instance(
        model=replace(Model.load("llama-3.1-8b"), name="mine"), gpu=Gpu.load("a100-80gb"), cost=Roofline()
    ),
    Instance(model="llama-3.1-70b", gpu="h200", tensor_parallel=2, kv_dtype="fp8", cost=CUSTOM),
    Instance(cost=Affine(step_s=0.01, token_s=1e-5), num_blocks=101, block_tokens=8, max_model_len="auto"),
    Instance(cost=FLAT, num_blocks=1001, max_model_len=500, gpu_memory_utilization=0.9),
]


@pytest.mark.parametrize("instance", INSTANCES)
def test_an_instance_survives_toml(instance: Instance) -> None:
    assert Instance.from_toml(instance.to_toml()) == instance


@given(st.lists(st.sampled_from(INSTANCES), min_size=1, max_size=12))
def test_a_cluster_survives_toml_with_its_order(instances: list[Instance]) -> None:
    cluster = Cluster(instances)
    assert Cluster.from_toml(cluster.to_toml()) == cluster
    assert list(cluster.instances) == instances


def test_equal_neighbours_share_a_table() -> None:
    text = Cluster(1000 * [INSTANCES[0]]).to_toml()
    assert text.count("[[instances]]") == 1
    assert "count = 1000" in text


@pytest.mark.parametrize(
    ("instances", "rule"),
    [
        ([], "instances of a Cluster must be at least one, were none"),
        (INSTANCES[0], r"instances of a Cluster must be a sequence: Cluster\(\[instance\]\)"),
        ([INSTANCES[0], "h100"], "instance 1 of a Cluster must be an Instance, was 'h100'"),
    ],
)
def test_a_cluster_of_something_else_is_refused(instances: Any, rule: str) -> None:
    with pytest.raises(ConfigError, match=rule):
        Cluster(instances)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("", r"a cluster must be tables \[\[instances\]\], and perhaps \[links\], .*, was \[\]"),
        ("links = 1", r"a cluster must be tables \[\[instances\]\], and perhaps"),
        (
            "[[instances]]\ncount = 0",
            "count of table 0 of instances must be a whole number of at least 1, was 0",
        ),
        ("[[instances]]\ngpus = 1", "table 0 of instances has no field 'gpus'; close to it: gpu"),
        ("[[instances", "a cluster must be TOML"),
        (
            '[[instances]]\nnum_blocks = 9\ncost = {kind = "affine"}',
            "cost of table 0 of instances lacks step_s",
        ),
    ],
)
def test_toml_that_makes_no_sense_is_refused(text: str, rule: str) -> None:
    with pytest.raises(ConfigError, match=rule):
        Cluster.from_toml(text)
