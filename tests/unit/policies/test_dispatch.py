"""Which instance each policy that routes picks, and why, in cases worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from paceline import Affine, Cluster, Instance, Trace, policies, replay
from paceline.errors import PolicyError
from paceline.policy import Policy
from paceline.result import Result

A_SECOND = Instance(cost=Affine(step_s=1.0), num_blocks=101)
"""A second a step; 1,600 tokens of KV in blocks of 16."""
BY_TOKEN = Instance(cost=Affine(step_s=0.0, token_s=0.01), num_blocks=1001)
"""A hundredth of a second for each token of a step."""


def replayed(policy: Policy, cluster: list[Instance], **columns: Any) -> Result:
    """Replay a trace of the given columns."""
    return replay(Trace.from_columns(**columns), Cluster(cluster), policy)


def routed(policy: Policy, cluster: list[Instance], **columns: Any) -> list[int | None]:
    """Return the instance of each request, None where it was rejected."""
    return replayed(policy, cluster, **columns).requests["instance"].to_list()


def decoded(policy: Policy, cluster: list[Instance], **columns: Any) -> list[int | None]:
    """Return the instance on which each request finished."""
    return replayed(policy, cluster, **columns).requests["last_instance"].to_list()


def test_mooncake_prefills_at_the_earliest_first_token_and_rejects_a_late_one() -> None:
    """A prompt of 512 takes 5.12 s. The third shares all of the second's 512 tokens.

    At 0.2 s instance 0 predicts 5.12 + 8 s for it, instance 1 5.12 + 2.88 s. The fourth takes 6 s
    behind 5.12 s at best, and the objective is 10 s.
    """
    columns: dict[str, Any] = {
        "arrival": [0.0, 0.1, 0.2, 0.3],
        "prompt_tokens": [512, 512, 800, 600],
        "output_tokens": [2, 2, 2, 2],
        "prefix": [[1], [2], [2], [3]],
        "prefix_block_tokens": 512,
    }
    pools = {"prefill": 2, "decode": 2}
    cluster = 4 * [BY_TOKEN]
    assert routed(policies.mooncake(**pools, ttft=10.0, tbt=1.0), cluster, **columns) == [0, 1, 1, None]
    assert routed(policies.mooncake(**pools, ttft=12.0, tbt=1.0), cluster, **columns) == [0, 1, 1, 0]
    unbounded = policies.mooncake(**pools, ttft=10.0, tbt=1.0, rejecting=False)
    assert routed(unbounded, cluster, **columns) == [0, 1, 1, 0]
    # In blocks of 1,024 tokens of the store the third finds nothing, and its 8 s come behind the fewest.
    coarse = policies.mooncake(**pools, ttft=30.0, tbt=1.0, store_block_tokens=1024)
    assert routed(coarse, cluster, **columns)[2] == 0


def test_mooncake_rejects_by_the_predicted_time_between_tokens() -> None:
    """A step takes 5 ms and 10 µs a token of context; the objective is 10 ms.

    The first prompt ends at 3 s, so that at 4 s about 400 tokens decode. With 300 more a step would take
    12 ms, with 10 more 9.1 ms.
    """
    policy = policies.mooncake(ttft=60.0, tbt=0.01, step_s=0.005, token_s=1e-5)
    columns = {"arrival": [0.0, 4.0, 4.0], "prompt_tokens": [300, 300, 10], "output_tokens": [500, 2, 2]}
    assert routed(policy, 2 * [BY_TOKEN], **columns) == [0, None, 0]


def test_tetri_infer_decodes_where_the_predicted_length_fits() -> None:
    """Decode instance 1 holds 1,600 tokens, 2 holds 224; both are drawn.

    With buckets of 200, 100 tokens of prompt need 300: both go to 1, though 2 is idle at the second.
    A prompt of 16 needs 216, and 2 has fewer requests. With buckets of 100, an output of 50 counts as 100,
    and the second fits on 2.
    """
    columns = {
        "arrival": [0.0, 5.0, 10.0],
        "prompt_tokens": [100, 100, 16],
        "output_tokens": [150, 50, 150],
    }
    cluster = [A_SECOND, A_SECOND, Instance(cost=Affine(step_s=1.0), num_blocks=15)]
    pools = {"prefill": 1, "decode": 2}
    assert decoded(policies.tetri_infer(**pools), cluster, **columns) == [1, 1, 2]
    assert decoded(policies.tetri_infer(**pools, bucket_tokens=100), cluster, **columns)[1] == 2
    predicted = policies.tetri_infer(**pools, bucket_tokens=100, length="score")
    assert decoded(predicted, cluster, **columns, score=[150.0, 250.0, 1.0])[1] == 1


PREFIXES: dict[str, Any] = {
    "arrival": [0.0, 10.0, 20.0, 30.0],
    "output_tokens": [2, 2, 2, 2],
    "prefix_block_tokens": 16,
}
TWICE: list[list[int]] = [[1, 2, 3, 4], [1, 2, 3, 4], [5, 6, 7, 8]]


@pytest.mark.parametrize(("tokens", "apart"), [(16, False), (15, True), (0, False)])
def test_llm_d_prefills_apart_above_a_number_of_uncached_tokens(tokens: int, apart: bool) -> None:
    """The fourth shares 64 of its 80 tokens with the third, and is scored highest where that decoded."""
    policy = policies.llm_d_disaggregated(prefill=1, decode=2, non_cached_tokens=tokens)
    prefix = [*TWICE, [5, 6, 7, 8, 9]]
    rows = replayed(
        policy, 3 * [A_SECOND], **PREFIXES, prompt_tokens=[64, 64, 64, 80], prefix=prefix
    ).requests
    assert (rows["instance"][0] == 0) == (tokens > 0)
    assert (rows["instance"][3] == 0) == apart
    assert rows["last_instance"][3] == rows["last_instance"][2] != 0


@pytest.mark.parametrize(
    ("prompt", "below", "apart"), [(160, 2048, False), (224, 2048, True), (160, 97, False), (160, 96, True)]
)
def test_dynamo_prefills_on_the_decode_instance_below_both_bounds(
    prompt: int, below: int, apart: bool
) -> None:
    """The fourth shares 64 tokens with the third: 96 of 160 are new, a share of 0.6, or 160 of 224, 0.71."""
    policy = policies.dynamo_disaggregated(prefill=1, decode=2, local_below_tokens=below)
    prefix = [*TWICE, [5, 6, 7, 8, *range(9, 9 + prompt // 16 - 4)]]
    rows = replayed(
        policy, 3 * [A_SECOND], **PREFIXES, prompt_tokens=[64, 64, 64, prompt], prefix=prefix
    ).requests
    assert rows["instance"][0] == 0  # nothing is cached: all of it is new
    assert (rows["instance"][3] == 0) == apart
    assert rows["last_instance"][3] == rows["last_instance"][2] != 0


def test_power_of_two_among_all_is_the_least_loaded() -> None:
    columns = {"arrival": [0.0] * 8, "prompt_tokens": [16] * 8, "output_tokens": [4] * 8}
    picked = routed(policies.power_of_two(choices=4), 4 * [A_SECOND], **columns)
    assert sorted(picked[:4]) == sorted(picked[4:]) == [0, 1, 2, 3]
    seeds = {tuple(routed(policies.power_of_two(seed=seed), 4 * [A_SECOND], **columns)) for seed in range(6)}
    assert len(seeds) > 1


def test_a_session_stays_on_its_instance_unless_that_has_too_many() -> None:
    """Of four requests of a session at once, the third finds two there, and so does the fourth."""
    columns: dict[str, Any] = {"arrival": [0.0] * 4, "prompt_tokens": [16] * 4, "output_tokens": [4] * 4}
    columns["session"] = ["a"] * 4
    owner = routed(policies.session_affinity(), 3 * [A_SECOND], **columns)
    assert len(set(owner)) == 1
    others = [index for index in range(3) if index != owner[0]]
    bounded = routed(policies.session_affinity(most_requests=1), 3 * [A_SECOND], **columns)
    assert bounded == [owner[0], owner[0], *others]


def test_a_prefix_has_one_instance_unless_its_load_exceeds_the_mean() -> None:
    """Three at once of one prefix, two later, each alone.

    The second finds a load of 1 there and a mean of 1/4: 1 is more than 1.25 times that, not more than 10
    times.
    """
    columns: dict[str, Any] = {
        "arrival": [0.0, 0.0, 0.0, 9.0, 18.0],
        "prompt_tokens": [32] * 5,
        "output_tokens": [4] * 5,
        "prefix": [[1, 2], [1, 3], [1, 2], [1, 9], [1, 2]],
        "prefix_block_tokens": 16,
    }
    bounded = routed(policies.prefix_hash(blocks=1), 4 * [A_SECOND], **columns)
    owner = bounded[0]
    others = [index for index in range(4) if index != owner]
    assert bounded == [owner, *others[:2], owner, owner]
    assert routed(policies.prefix_hash(blocks=1, load_factor=10.0), 4 * [A_SECOND], **columns) == [owner] * 5


@pytest.mark.parametrize(("version", "second"), [("0.11", 0), ("0.33", 1)])
def test_only_the_newer_balancer_moves_the_beginning_of_its_scan(version: Any, second: int) -> None:
    """All is idle when the second request arrives. Of three at once each client counts its own choices."""
    policy = policies.vllm_balancer(version=version)
    columns = {"arrival": [0.0, 10.0], "prompt_tokens": [16, 16], "output_tokens": [2, 2]}
    assert routed(policy, 3 * [A_SECOND], **columns) == [0, second]
    at_once = {"arrival": [0.0] * 5, "prompt_tokens": [16] * 5, "output_tokens": [4] * 5}
    assert routed(policy, 3 * [A_SECOND], **at_once) == [0, 1, 2, 0, 1]


@pytest.mark.parametrize(
    ("metric", "second"),
    [
        ("remaining_steps", 1),
        ("kv_blocks_ratio", 1),
        ("miss_waiting_tokens", 0),
        ("adaptive_decode", 0),
    ],
)
def test_the_metrics_of_llumnix_while_one_request_decodes_on_an_instance(metric: Any, second: int) -> None:
    """Only the first decodes when the second arrives, on the same instance if decodes are packed.

    The idle instance lasts longer and has a smaller share of its blocks in use; nothing waits on
    either. The first goes to the last of equals by remaining steps, and to the first by all others.
    """
    policy = policies.llumnix(metric=metric, migration=False)
    columns = {"arrival": [0.0, 3.5], "prompt_tokens": [64, 64], "output_tokens": [10, 10]}
    first = 1 if metric == "remaining_steps" else 0
    assert routed(policy, 2 * [A_SECOND], **columns) == [first, 0 if first else second]


def test_a_request_that_llumnix_migrates_holds_no_blocks_at_its_source() -> None:
    """Of 20 blocks of 4 tokens the first request has 11 at 3 s, and the third, queued behind it, needs 12.

    The first leaves at the end of the step, at 3 s. Its target has 5 blocks free, so that it waits there for
    the second to end, while the third takes its blocks and has its first token at 4 s.
    """
    small = Instance(cost=Affine(step_s=1.0), num_blocks=21, block_tokens=4)
    policy = policies.llumnix(migrate_below=-1.0, period_s=0.5)
    columns = {"arrival": [0.0, 0.1, 2.5], "prompt_tokens": [40, 56, 48], "output_tokens": [20, 20, 2]}
    rows = replayed(policy, 2 * [small], **columns).requests
    assert (rows["instance"][0], rows["last_instance"][0]) == (1, 0)
    assert rows["instance"][2] == 1
    assert rows["first_token"][2] == 4.0


def test_adaptive_instances_are_packed_with_decodes_up_to_the_bound() -> None:
    """TPOT is 0.1 s and 0.3 s a request; the bound is 0.85 s: two requests an instance.

    The first two decode on the reserved instance 3, the next two on 1, and then one on 2. All
    prefill on the reserved instance 0, which is as fast as the adaptive ones.
    """
    policy = policies.llumnix_adaptive(tpot=1.0, step_s=0.1, request_s=0.3, token_s=0.0, rescheduling=False)
    columns = {"arrival": [0.0, 3.0, 6.0, 9.0, 12.0], "prompt_tokens": [16] * 5, "output_tokens": [60] * 5}
    rows = replayed(policy, 4 * [A_SECOND], **columns).requests
    assert rows["instance"].to_list() == [0] * 5
    assert rows["last_instance"].to_list() == [3, 3, 1, 1, 2]


def test_adaptive_instances_are_emptied_below_the_floor() -> None:
    """TPOT is 0.1 s and 0.25 s a request. Two fit below 0.85 s, so that the third decodes on instance 1.

    That has 0.35 s, below the floor of 0.6 s, and instance 3 has 0.6 s, below the bound: the third
    migrates there.
    """
    kept, packed = (
        policies.llumnix_adaptive(
            tpot=1.0, step_s=0.1, request_s=0.25, token_s=0.0, rescheduling=rescheduling
        )
        for rescheduling in (False, True)
    )
    columns = {"arrival": [0.0, 3.0, 6.0], "prompt_tokens": [16] * 3, "output_tokens": [60] * 3}
    assert decoded(kept, 4 * [A_SECOND], **columns) == [3, 3, 1]
    assert decoded(packed, 4 * [A_SECOND], **columns) == [3, 3, 3]
    with pytest.raises(PolicyError, match="instances of llumnix_adaptive must be 2 or more, was 1"):
        policies.llumnix_adaptive(instances=1)


def test_an_instance_starts_after_its_delay_and_stops_when_all_are_nearly_idle() -> None:
    """Three prompts of 200 are 600 of 1,600 tokens, above the bound of 0.2 at 1 s, and at 6 s.

    At 6 s instance 1 serves, has fewer requests than 0, and gets the next two. At 11 s the three
    have finished, and instance 2 serves: all are below 0.1, so 0, without tokens, is stopped, and a
    second later 1. The last one stays, and serves the last request.
    """
    policy = policies.autoscaled(serving=1, off=2, period_s=1.0, start_s=5.0, up=0.2, down=0.1)
    result = replayed(
        policy,
        3 * [A_SECOND],
        arrival=[0.0, 0.5, 0.6, 7.5, 8.0, 40.0],
        prompt_tokens=[200, 200, 200, 16, 16, 16],
        output_tokens=[10, 10, 10, 3, 3, 3],
    )
    assert result.requests["instance"].to_list() == [0, 0, 0, 1, 1, 2]
    flips = [tuple(row[name] for name in ("time_s", "instance", "to")) for row in result.flips.to_dicts()]
    assert flips == [
        (1.0, 1, "off→serving"),
        (6.0, 1, "serving"),
        (6.0, 2, "off→serving"),
        (11.0, 2, "serving"),
        (11.0, 0, "off"),
        (12.0, 1, "off"),
    ]
