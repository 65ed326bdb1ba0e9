"""What a router keeps: the parts of a policy, their text, and what rules read in hand-made replays."""

from __future__ import annotations

import pytest

import paceline
from paceline import inst, req
from paceline.errors import PolicyError
from paceline.policy import (
    ActiveBlocks,
    Policy,
    PrefixIndex,
    PromptTree,
    first_of,
    migrate,
    pick,
    prompt_owner,
)

KEPT = Policy(
    name="kept",
    on_arrival=first_of(
        prompt_owner(above=0.5),
        pick(min=inst.active_blocks + inst.active_new_blocks(req) - inst.index_blocks(req),
            temperature=0.5, seed=7),
    ),
    index=PrefixIndex(block_tokens=32, capacity=100, longest=8, learns="finished"),
    active=ActiveBlocks(block_tokens=64, prompts=False, reuses=False, outputs="whole"),
    tree=PromptTree(block_tokens=8, text="tokens"),
)  # fmt: skip
TWO = paceline.Cluster(
    2 * [paceline.Instance(cost=paceline.Affine(step_s=1.0), num_blocks=1000, block_tokens=16)]
)


def test_a_policy_with_books_is_read_back_from_its_text() -> None:
    assert Policy.from_toml(KEPT.to_toml()) == KEPT
    assert "seed=7" in KEPT.to_toml()


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (pick(min=inst.index_blocks(req)), r"needs a policy with index=PrefixIndex\(\)"),
        (pick(min=inst.active_prefill_tokens), r"needs a policy with active=ActiveBlocks\(\)"),
        (first_of(prompt_owner(above=0.1), "round_robin"), r"needs a policy with tree=PromptTree\(\)"),
    ],
)
def test_a_rule_that_reads_what_the_router_does_not_keep_is_refused(rule: object, message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        Policy(name="refused", on_arrival=rule)  # type: ignore[arg-type]  # a rule


def test_a_monitor_that_reads_what_a_router_keeps_is_refused() -> None:
    moves = migrate(
        source=pick(max=inst.active_blocks), target=pick(min=inst.requests), choose=pick(min=req.arrival)
    )
    with pytest.raises(PolicyError, match="must be read in on_arrival"):
        Policy(name="refused", every={1.0: [moves]}, active=ActiveBlocks())


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: PrefixIndex(block_tokens=0), "block_tokens of a PrefixIndex must be a whole number"),
        (lambda: PrefixIndex(capacity=0), "capacity of a PrefixIndex must be a whole number of at least 1"),
        (lambda: PrefixIndex(learns="sometimes"), "routed"),
        (lambda: ActiveBlocks(outputs="half"), "decaying"),
        (lambda: PromptTree(text="words"), "hex"),
        (lambda: prompt_owner(above=1.5), "above of prompt_owner"),
        (lambda: pick(min=inst.requests, temperature=-1.0), "temperature of pick"),
        (lambda: pick(min=[inst.requests, inst.waiting], temperature=1.0), "takes a single key"),
    ],
)  # fmt: skip
def test_values_out_of_range_are_refused(build: object, message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        build()  # type: ignore[operator]  # a function


def routed(policy: Policy, **columns: object) -> list[int]:
    """Replay requests with a step of 1 s on two instances, and return where each went."""
    trace = paceline.Trace.from_columns(**columns)  # type: ignore[arg-type]  # columns by name
    return paceline.replay(trace, TWO, policy).requests["instance"].to_list()


@pytest.mark.parametrize(
    ("learns", "seconds", "least", "found"),
    [
        ("routed", 0.5, 2, True),
        ("prefilled", 0.5, 2, False),
        ("prefilled", 1.0, 2, True),
        ("finished", 1.0, 2, True),
        # 32 tokens of prompt and 32 of output fill four blocks, at the end at 32 s.
        ("prefilled", 32.0, 3, False),
        ("finished", 31.0, 3, False),
        ("finished", 32.0, 4, True),
    ],
)
def test_an_index_learns_from_the_decision_the_first_token_and_the_end(
    learns: str, seconds: float, least: int, found: bool
) -> None:
    holds = inst.index_blocks(req) >= least
    policy = Policy(
        name="index",
        on_arrival=first_of(pick(max=inst.index_tokens(req), where=holds), "round_robin"),
        index=PrefixIndex(learns=learns),  # type: ignore[arg-type]  # one of the three
    )
    # A second turn that continues the first: if the index has it, it goes where that went, else to the other.
    went = routed(
        policy, arrival=[0.0, seconds], prompt_tokens=[32, 80], output_tokens=[32, 1], session=["a", "a"]
    )
    assert went == [0, 0 if found else 1]


def test_active_blocks_count_a_shared_prefix_once_until_its_last_request_ends() -> None:
    # The first and the third prompt have two blocks in common and one each.
    least = pick(min=inst.active_blocks + inst.active_new_blocks(req))
    policy = Policy(name="active", on_arrival=least, active=ActiveBlocks())
    found = routed(
        policy,
        arrival=[0.0, 0.0, 0.0, 0.0],
        prompt_tokens=[48, 80, 48, 16],
        output_tokens=[2, 2, 2, 2],
        prefix=[[1, 2, 3], [9, 8, 7, 6, 5], [1, 2, 4], [10]],
        prefix_block_tokens=16,
    )
    # First: 3 and 3 blocks, a tie. Second: 8 or 5. Third: 3 + 1 or 5 + 3. Fourth: 4 + 1 or 5 + 1.
    assert found == [0, 1, 0, 0]


def test_the_owner_of_a_prompt_is_picked_only_if_enough_of_it_is_known() -> None:
    policy = Policy(
        name="tree",
        on_arrival=first_of(prompt_owner(above=0.5), "round_robin"),
        tree=PromptTree(),
    )
    found = routed(
        policy,
        arrival=[0.0, 1.0, 2.0, 3.0],
        prompt_tokens=[32, 32, 48, 64],
        output_tokens=[1, 1, 1, 1],
        prefix=[[1, 2], [3, 4], [1, 2, 5], [1, 2, 7, 8]],
        prefix_block_tokens=16,
    )
    # The third has 32 of 48 tokens of the first; the fourth 32 of 64, which is not more than half.
    assert found == [0, 1, 0, 0]


def test_draws_follow_from_the_seed() -> None:
    columns = {"arrival": [0.0] * 40, "prompt_tokens": [16] * 40, "output_tokens": [1] * 40}

    def drawn(seed: int) -> list[int]:
        return routed(
            Policy(name="drawn", on_arrival=pick(min=inst.block_tokens, temperature=0.0, seed=seed)),
            **columns,
        )

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)
    assert set(drawn(1)) == {0, 1}
