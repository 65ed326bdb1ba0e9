"""KV moves only between instances on which it means the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from paceline import Affine, Cluster, Instance, Policy, Trace, inst, replay, req
from paceline.errors import ConfigError
from paceline.policy import Pools, first_of, migrate, pick, stay

TRACE = Trace.from_columns(arrival=[0.0], prompt_tokens=[20], output_tokens=[3])
LLAMA = Instance(model="llama-3.1-8b", gpu="h100-sxm", num_blocks=100, max_model_len=1_000)
PLAIN = Instance(cost=Affine(step_s=0.1), num_blocks=100, kv_bytes=131_072)
TO_DECODE = Policy(
    name="two pools",
    on_arrival=pick(min=inst.requests, within="prefill"),
    on_prefilled=pick(min=inst.requests, within="decode"),
    pools=Pools(prefill=1, decode=1),
)


@pytest.mark.parametrize(
    ("one", "other", "difference"),
    [
        (LLAMA, replace(LLAMA, model="qwen3-8b"), "model: model was 'llama-3.1-8b' and 'qwen3-8b'"),
        (LLAMA, replace(LLAMA, kv_dtype="fp8"), "kv_dtype: kv_dtype was bfloat16 and fp8"),
        (LLAMA, replace(LLAMA, block_tokens=32), "block_tokens: block_tokens was 16 and 32"),
        (PLAIN, replace(PLAIN, kv_bytes=5), "the same bytes on both: kv_bytes was 131072 and 5"),
        (PLAIN, replace(PLAIN, kv_bytes=None), "kv_bytes was 131072 and unknown"),
        (PLAIN, replace(PLAIN, block_tokens=8), "block_tokens was 16 and 8"),
        (LLAMA, replace(PLAIN, kv_bytes=5), "kv_bytes was 131072 and 5"),
    ],
)
def test_moves_between_different_layouts_are_refused_before_the_run(
    one: Instance, other: Instance, difference: str
) -> None:
    with pytest.raises(
        ConfigError, match=f"on_prefilled may move KV from instance 0 to instance 1, .*{difference}"
    ):
        replay(TRACE, Cluster([one, other]), TO_DECODE)


@pytest.mark.parametrize(
    "other",
    [
        replace(LLAMA, tensor_parallel=2),
        replace(LLAMA, gpu="a100-80gb", num_blocks=90, kv_dtype="bfloat16"),
        PLAIN,
    ],
)
def test_the_same_kv_may_move_between_instances_that_differ_otherwise(other: Instance) -> None:
    # A token of Llama-3.1-8B has 131,072 bytes of KV: keys and values of 32 layers x 8 heads x 128 numbers.
    result = replay(TRACE, Cluster([LLAMA, other]), TO_DECODE)
    assert result.requests["migrations"].to_list() == [1]


OTHER = replace(PLAIN, kv_bytes=7)
RELIEVE = pick(min=inst.requests, within="a")


@pytest.mark.parametrize(
    ("policy", "names"),
    [
        # Only the rules of arrival name pool b, so that no KV moves to it.
        (Policy(name="no move", on_arrival=pick(min=inst.requests)), None),
        (
            Policy(
                name="within a",
                on_arrival=pick(min=inst.requests, within="a"),
                on_prefilled=first_of(pick(max=inst.index, within="a", where=inst.waiting == 0), stay()),
                pools=Pools(a=2, b=1),
            ),
            None,
        ),
        (
            Policy(
                name="function",
                on_arrival=pick(min=inst.requests, within="a"),
                on_answering=lambda request, instances: 0,
                pools=Pools(a=2, b=1),
            ),
            ("on_answering", 0, 2),
        ),
        (
            Policy(
                name="arrives in b",
                on_arrival=pick(min=inst.requests, within="b"),
                on_prefilled=pick(min=inst.index, within="a").unless(inst.there.requests > 3),
                pools=Pools(a=2, b=1),
            ),
            ("on_prefilled", 2, 0),
        ),
        (
            Policy(
                name="monitor",
                on_arrival=pick(min=inst.requests, within="a"),
                every={
                    1.0: [migrate(source=RELIEVE, target=pick(max=inst.index), choose=pick(min=req.arrival))]
                },
                pools=Pools(a=2, b=1),
            ),
            ("a monitor", 0, 2),
        ),
        (
            Policy(
                name="monitor of b, which no request reaches",
                on_arrival=pick(min=inst.requests, within="a"),
                every={
                    1.0: [
                        migrate(
                            source=pick(min=inst.index, within="b"),
                            target=RELIEVE,
                            choose=pick(min=req.arrival),
                        )
                    ]
                },
                pools=Pools(a=2, b=1),
            ),
            None,
        ),
    ],
)
def test_only_instances_that_the_policy_may_pick_must_match(policy: Policy, names: Any) -> None:
    cluster = Cluster([PLAIN, PLAIN, OTHER])
    if names is None:
        assert replay(TRACE, cluster, policy).totals().finished == 1
        return
    moment, source, target = names
    with pytest.raises(
        ConfigError, match=f"{moment} may move KV from instance {source} to instance {target}"
    ):
        replay(TRACE, cluster, policy)


def test_kv_bytes_follow_from_a_model() -> None:
    with pytest.raises(
        ConfigError, match="kv_bytes of an Instance must be left out where there is a model, was 1"
    ):
        replace(LLAMA, kv_bytes=1)
    with pytest.raises(
        ConfigError, match="kv_bytes of an Instance must be a whole number of at least 1, was 0"
    ):
        replace(PLAIN, kv_bytes=0)
    assert Instance.from_toml(PLAIN.to_toml()) == PLAIN
