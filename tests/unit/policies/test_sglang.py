"""SGLang: prefill first, the orders of its queue, and its victims. Each time is worked out by hand."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from paceline import AcceptanceLength, Cluster, Instance, Speculation, Trace, replay
from paceline.cost import Affine
from paceline.errors import ConfigError, PolicyError
from paceline.policies import sglang
from paceline.policies.sglang import Priorities, SchedulePolicy
from paceline.policy import Host, Policy, Prefetch, PrefixCache, RadixTree, Store
from unit.policies.scenario import run, times

BOTH = pytest.mark.parametrize("leap", [True, False])


def without_reserve() -> Policy:
    """Return the policy without what an admission leaves for outputs."""
    scheduler = dataclasses.replace(sglang().scheduler, output_reserve=None)
    return Policy(name="sglang, without a reserve", scheduler=scheduler)


@BOTH
def test_prefill_precludes_decodes(leap: bool) -> None:
    """10 tokens a prefill step; A is 4 in and 3 out, B 20 in and 2 out; 1 s a step and 10 ms a token.

    ====  ===================  ======  =======
    step  runs                 tokens  ends at
    ====  ===================  ======  =======
    1     A's prompt           4       1.04
    2     10 tokens of B       10      2.14
    3     10 tokens of B       10      3.24
    4     A, B                 2       4.26
    5     A                    1       5.27
    ====  ===================  ======  =======
    """
    policy = sglang(chunked_prefill_size=10)
    result = run(policy, [(0, 4, 3), (0.5, 20, 2)], token_s=0.01, block_tokens=1, leap=leap)
    assert times(result, "first_token") == [1.04, 3.24]
    assert times(result, "finish") == [5.27, 4.26]
    assert times(result, "max_itl") == [3.22, 1.02]


def drafting(blocks: int) -> Cluster:
    """Return an instance of pages of one token that drafts a token a step, which is accepted; 1 s a step."""
    drafts = Speculation(tokens=1, acceptance=AcceptanceLength(2), method="ngram")
    own = Instance(cost=Affine(step_s=1.0), num_blocks=blocks + 1, block_tokens=1, speculation=drafts)
    return Cluster([own])


@BOTH
def test_a_decode_has_slots_for_two_steps(leap: bool) -> None:
    """A is 4 in and 5 out, B 4 in and 9 out, on 19 slots; each decode yields two tokens.

    ====  ==========  ==================  =======
    step  runs        slots of A and B    ends at
    ====  ==========  ==================  =======
    1     A's prompt  4, 0                1
    2     B's prompt  4, 4                2
    3     A, B        4 + 4, 4 + 4        3
    4     A           6 + 4, (6 + 4)      4
    ====  ==========  ==================  =======

    B's prompt and output do not fit beside A's in step 1. In step 4 the slots are one too many. So B, which
    has as many tokens and an equal prompt and came last, is retracted. A ends with that step. B's prompt and
    its three tokens are computed again in step 5, which yields the fourth. Its last five come with steps 6 to
    8.
    """
    trace = Trace.from_columns(arrival=[0.0, 0.0], prompt_tokens=[4, 4], output_tokens=[5, 9])
    result = replay(trace, drafting(19), sglang(schedule_conservativeness=0.0), leap=leap)
    assert result.requests["preemptions"].to_list() == [0, 1]
    assert result.requests["finish"].to_list() == [4.0, 8.0]


def test_a_request_is_rejected_whose_last_decode_lacks_slots() -> None:
    """The last decode of 4 in and 5 out begins with 4 + 3 tokens written at most, and has 4 slots more."""
    trace = Trace.from_columns(arrival=[0.0], prompt_tokens=[4], output_tokens=[5])
    rejected = [replay(trace, drafting(blocks), sglang()).totals().rejected for blocks in (10, 11)]
    assert rejected == [1, 0]


@pytest.mark.parametrize(
    ("settings", "rule"),
    [
        ({"mixed_chunk": True}, "speculation: must be null where decodes sit out"),
        ({"overlap_schedule": True}, "speculation: must be null with schedule_ahead"),
        (
            {"prefix_caching": PrefixCache()},
            "must not be two_steps where prefixes are cached, and not in a tree",
        ),
    ],
)
def test_drafts_that_its_scheduler_does_not_have_are_refused(settings: dict[str, Any], rule: str) -> None:
    trace = Trace.from_columns(arrival=[0.0], prompt_tokens=[4], output_tokens=[5], session=[0])
    with pytest.raises(ConfigError, match=rule):
        replay(trace, drafting(99), sglang(**settings))


@BOTH
def test_the_rest_of_a_prompt_shares_its_step_with_the_next_one(leap: bool) -> None:
    """B's last 4 tokens and C's prompt of 6 make one step, the second."""
    policy = sglang(chunked_prefill_size=10)
    result = run(policy, [(0, 14, 1), (0, 6, 1)], token_s=0.01, block_tokens=1, leap=leap)
    assert times(result, "first_token") == [2.2, 2.2]
    assert times(result, "scheduled") == [0.0, 1.1]


@BOTH
@pytest.mark.parametrize(("order", "finish"), [("fcfs", [1.0, 4.0, 6.0]), ("lof", [6.0, 3.0, 5.0])])
def test_the_order_of_the_queue(order: SchedulePolicy, finish: list[float], leap: bool) -> None:
    """One at a time, of 1, 3 and 2 tokens; the longest output goes first under lof."""
    policy = sglang(schedule_policy=order, max_running_requests=1)
    result = run(policy, [(0, 4, 1), (0, 4, 3), (0, 4, 2)], leap=leap)
    assert times(result, "finish") == finish


@BOTH
@pytest.mark.parametrize(
    ("order", "others", "finish"),
    [("fcfs", 0, [4.0, 5.0]), ("lpm", 0, [5.0, 4.0]), ("lpm", 126, [5.0, 4.0]), ("lpm", 127, [4.0, 5.0])],
)
def test_the_longest_cached_prefix_goes_first_while_128_wait(
    order: SchedulePolicy, others: int, finish: list[float], leap: bool
) -> None:
    """W computes two blocks until 3 s, one at a time. Of X and Y, which wait, only Y begins as W does.

    Y is the last to arrive. With 126 others 128 requests wait, and Y goes first. With 127
    one too many waits: X goes first, and then Y, of the 128 that are left.
    """
    policy = sglang(schedule_policy=order, max_running_requests=1, prefix_caching=True)
    requests = [(0.0, 9, 3), (0.1, 9, 1), *[(0.2, 9, 1)] * others, (0.3, 9, 1)]
    prefix = [[1, 2], *[[3 + 2 * i, 4 + 2 * i] for i in range(others + 1)], [1, 2]]
    result = run(policy, requests, blocks=2000, leap=leap, prefix=prefix, prefix_block_tokens=4)
    ends = times(result, "finish")
    assert [ends[1], ends[-1]] == pytest.approx(finish)


@BOTH
@pytest.mark.parametrize(("order", "finish"), [("fcfs", [3.0, 4.0, 5.0]), ("dfs-weight", [4.0, 3.0, 5.0])])
def test_the_prefix_that_most_begin_with_goes_first(
    order: SchedulePolicy, finish: list[float], leap: bool
) -> None:
    """V and W leave two prefixes by 2 s. Of three that wait, one begins as V, and the others as W.

    Once one of those has run, each prefix begins one of the two that are left, and V's is the older one.
    """
    policy = sglang(schedule_policy=order, max_running_requests=1, prefix_caching=True)
    requests = [(0.0, 9, 1), (0.1, 9, 1), (1.5, 9, 1), (1.6, 9, 1), (1.7, 9, 1)]
    prefix = [[1, 2], [3, 4], [1, 2], [3, 4], [3, 4]]
    result = run(policy, requests, leap=leap, prefix=prefix, prefix_block_tokens=4)
    assert times(result, "finish")[2:] == finish


@BOTH
def test_of_two_alike_the_longer_prompt_is_preempted(leap: bool) -> None:
    """4 blocks of 4: A is 8 in and 3 out, B 4 in and 4 out. Both have one token after step 1.

    Step 2 has one free block for two: A is preempted though it arrived first. B has its
    fourth token at 4 s. A computes 9 tokens in step 5, for its second, and ends at 6 s.
    """
    result = run(without_reserve(), [(0, 8, 3), (0, 4, 4)], blocks=4, leap=leap)
    assert result.requests["preemptions"].to_list() == [1, 0]
    assert times(result, "finish") == [6.0, 4.0]


@BOTH
def test_the_request_with_the_fewest_tokens_is_preempted(leap: bool) -> None:
    """5 blocks of 4: A is 8 in and 8 out; B, 4 in and 5 out, is admitted at 2 s, for the third step.

    After step 6, A has 5 tokens out and holds 3 blocks, B has 4 and holds 2. A's
    13th token needs a sixth, so B is preempted, though A's prompt is longer.
    A ends at 9 s. B computes its 8 tokens in step 10, for its fifth.
    """
    result = run(without_reserve(), [(0, 8, 8), (1.5, 4, 5)], blocks=5, leap=leap)
    assert times(result, "scheduled") == [0.0, 2.0]
    assert result.requests["preemptions"].to_list() == [0, 1]
    assert times(result, "finish") == [9.0, 10.0]


@BOTH
@pytest.mark.parametrize(
    ("conservativeness", "ignore_eos", "scheduled"),
    [(1.0, False, 11.0), (0.5, False, 1.0), (1.0, True, 11.0)],
)
def test_an_admission_leaves_room_for_a_share_of_the_outputs_to_come(
    conservativeness: float, ignore_eos: bool, scheduled: float, leap: bool
) -> None:
    """10 blocks of 4: A is 12 in and 11 out, B 8 in and 9 out; B comes in A's first step, which ends at 1 s.

    B needs 8 + 9 tokens and a block, 21. At 1 s, A holds 12 of 40 tokens and has 10 outputs left, of which
    0.7 are reserved: 21 are left, and B would need fewer. No other admission is tried before A leaves, at
    11 s. With 0.35 of the outputs 24.5 are left, and B begins at 1 s. If no output ends early, all are
    reserved.
    """
    policy = sglang(schedule_conservativeness=conservativeness, ignore_eos=ignore_eos)
    result = run(policy, [(0, 12, 11), (0.5, 8, 9)], blocks=10, leap=leap)
    assert times(result, "scheduled") == [0.0, scheduled]
    assert result.requests["preemptions"].to_list() == [0, 0]


@BOTH
@pytest.mark.parametrize(("blocks", "finish"), [(6, [3.0, 2.0]), (7, [2.0, 2.0])])
def test_decodes_sit_out_a_step_whose_prompts_leave_them_no_block(
    blocks: int, finish: list[float], leap: bool
) -> None:
    """Blocks of 4, chunks of 16: A is 8 in and 2 out, B 15 in and 1 out.

    The second step has one token less for prompts, as A decodes: B's 15 tokens fit. They take four blocks
    beside the two of A, which needs a third.
    """
    mixed = sglang(chunked_prefill_size=16, mixed_chunk=True).scheduler
    policy = Policy(name="mixed", scheduler=dataclasses.replace(mixed, output_reserve=None))
    result = run(policy, [(0, 8, 2), (0.5, 15, 1)], blocks=blocks, leap=leap)
    assert times(result, "finish") == finish


@BOTH
def test_a_preempted_request_goes_behind_those_that_wait(leap: bool) -> None:
    """As above, B is preempted after step 6. C, of 16 in and 1 out, waits since 2.5 s.

    A ends at 9 s. C's prompt takes four blocks and B's 8 tokens two, so that one of them runs in step 10.
    """
    result = run(without_reserve(), [(0, 8, 8), (1.5, 4, 5), (2.5, 16, 1)], blocks=5, leap=leap)
    assert result.requests["preemptions"].to_list() == [0, 1, 0]
    assert times(result, "finish") == [9.0, 11.0, 10.0]


def test_lengths_of_outputs_take_an_oracle() -> None:
    """SGLang reads the outputs that requests ask for, which a replay takes from the trace."""
    assert sglang().scheduler.uses_oracle
    assert not without_reserve().scheduler.uses_oracle


def test_what_cannot_be_asked_for() -> None:
    with pytest.raises(
        PolicyError,
        match=r"schedule_policy of sglang\(\) must be one of fcfs, lof, lpm, dfs-weight, was 'hrrn",
    ):
        sglang(schedule_policy="hrrn")  # type: ignore[arg-type]
    with pytest.raises(PolicyError, match="prefix_caching must be True where schedule_policy is 'lpm'"):
        sglang(schedule_policy="lpm")


@BOTH
def test_a_prefix_is_loaded_from_the_host_while_its_step_computes(leap: bool) -> None:
    """A step takes 10 ms and 1 ms a token, a copy of a block of 16 tokens 1 ms; the GPU has 10 blocks.

    A's prompt fills 6 blocks, which are written after its step. B takes 8: the 4 that were free, and the last
    4 of A. A's next turn of 100 tokens finds 2 on the GPU and 4 on the host. Over 4 layers they take 1 ms
    each, and the 4 other tokens 10 + 4 ms: the first layer waits for 1 ms. 6 and 7 blocks have been written.
    """
    host = Host(
        chunks=50,
        bytes_per_s=16e5,
        write="through",
        overlap="layers",
        layers=4,
        prompt_only=False,
        poll="end",
    )
    trace = Trace.from_columns(
        arrival=[0.0, 1.0, 2.0], prompt_tokens=[96, 120, 100], output_tokens=[1, 1, 1], session=[0, 1, 0]
    )
    instance = Instance(
        cost=Affine(step_s=0.010, token_s=0.001), num_blocks=11, kv_bytes=100, max_model_len=160
    )
    policy = sglang(prefix_caching=PrefixCache(tiers=[host]))
    result = replay(trace, Cluster([instance]), policy=policy, leap=leap)
    assert times(result, "ttft") == pytest.approx([0.106, 0.130, 0.015])
    assert result.requests["cached_tokens"].to_list() == [0, 0, 32]
    assert result.requests["loaded_tokens"].to_list() == [0, 0, 64]
    used = result.stats.instances[0].tier
    assert used is not None
    assert (used["stored_blocks"], used["loaded_blocks"]) == (6 + 7, 4)


def test_the_hierarchical_cache_has_its_defaults() -> None:
    """``--hicache-ratio`` 2, and ``--hicache-write-policy`` write_through."""
    cache = sglang(prefix_caching=True, hierarchical_cache=True).scheduler_of(0).prefix_cache
    assert cache is not None
    (host,) = cache.tiers
    assert isinstance(host, Host)
    assert isinstance(cache.tree, RadixTree)
    assert (host.write, host.overlap, host.prompt_only) == ("through", "layers", False)
    assert (host.gib, host.ratio) == (None, 2.0)


def test_a_store_is_the_third_level_of_the_hierarchical_cache() -> None:
    store = Store(read_bytes_per_s=1e9, write_bytes_per_s=1e9, prefetch=Prefetch())
    cache = sglang(prefix_caching=True, hierarchical_cache=store).scheduler_of(0).prefix_cache
    assert cache is not None
    host, below = cache.tiers
    assert isinstance(host, Host)
    assert below == store
    with pytest.raises(PolicyError, match="prefix_caching must be True where hierarchical_cache is"):
        sglang(hierarchical_cache=store)


def test_a_store_below_the_host_is_read_as_requests_arrive() -> None:
    """The GPU loses a conversation's history but for a block, and the host all of it; it is read again."""
    trace = Trace.from_columns(
        arrival=[0.0, 10.0, 20.0], prompt_tokens=[96, 130, 100], output_tokens=[1, 1, 1], session=[0, 1, 0]
    )
    store = Store(read_bytes_per_s=1e6, write_bytes_per_s=1e6, prefetch=Prefetch(least_tokens=16))
    host = Host(chunks=8, write="through", overlap="layers", layers=4, bytes_per_s=1e6)
    cost = Affine(step_s=0.010, token_s=0.001)
    instance = Instance(cost=cost, num_blocks=11, kv_bytes=100, max_model_len=160)
    policy = sglang(prefix_caching=PrefixCache(tiers=[host, store]))
    result = replay(trace, Cluster([instance]), policy=policy)
    # The second request takes 9 of 10 blocks, and its 8 chunks all of the host's.
    assert result.requests["cached_tokens"].to_list() == [0, 0, 16]
    assert result.requests["store_tokens"].to_list() == [0, 0, 80]
    # 5 blocks of 1,600 bytes are read in 8 ms, and loaded in 8 ms beside the 14 ms of 4 tokens, whose first
    # of 4 layers waits for a quarter of that.
    assert times(result, "ttft")[2] == pytest.approx(0.008 + 0.002 + 0.014)


@pytest.mark.parametrize(
    ("caching", "hierarchical", "message"),
    [
        (False, True, "prefix_caching must be True where hierarchical_cache is, was False"),
        (PrefixCache(tiers=[Host(gib=1)]), False, "must be 'layers' under sglang.*, was 'none'"),
        (
            PrefixCache(
                tiers=[
                    Host(gib=1, write="through", overlap="layers"),
                    Store(read_bytes_per_s=1e9, write_bytes_per_s=1e9),
                ]
            ),
            False,
            "prefetch of a Store in prefix_caching must be a Prefetch under sglang.*, was None",
        ),
    ],
)
def test_tiers_that_its_scheduler_does_not_have_are_refused(
    caching: bool | PrefixCache, hierarchical: bool, message: str
) -> None:
    with pytest.raises(PolicyError, match=message):
        sglang(prefix_caching=caching, hierarchical_cache=hierarchical)


@BOTH
@pytest.mark.parametrize(
    ("order", "priorities", "finish"),
    [
        ("fcfs", "highest", [1.0, 5.0, 8.0, 3.0]),
        ("fcfs", "lowest", [8.0, 2.0, 5.0, 7.0]),
        ("lof", "highest", [1.0, 8.0, 6.0, 3.0]),
        ("lof", "lowest", [8.0, 5.0, 3.0, 7.0]),
    ],
)
def test_priorities_come_first(
    order: SchedulePolicy, priorities: Priorities, finish: list[float], leap: bool
) -> None:
    """One at a time, of 1, 2, 3 and 2 tokens, with priorities of 9, 0, 0 and 5."""
    policy = sglang(schedule_policy=order, priorities=priorities, max_running_requests=1)
    trace = Trace.from_columns(
        arrival=[0.0] * 4, prompt_tokens=[2] * 4, output_tokens=[1, 2, 3, 2], priority=[9, 0, 0, 5]
    )
    instance = Instance(block_tokens=1, num_blocks=1000, cost=Affine(step_s=1.0))
    result = replay(trace, Cluster([instance]), policy, leap=leap)
    assert times(result, "finish") == finish


def test_the_longest_prefix_has_no_priorities_beside_it() -> None:
    with pytest.raises(PolicyError, match="priorities must be None where schedule_policy is 'lpm'"):
        sglang(schedule_policy="lpm", prefix_caching=True, priorities="highest")


def test_rules_that_its_tree_and_its_overlapped_schedule_do_not_have_are_refused() -> None:
    overlapped = sglang(prefix_caching=True, overlap_schedule=True).scheduler
    with pytest.raises(PolicyError, match="tree of prefix_cache must be None beside decodes_first"):
        dataclasses.replace(overlapped, decodes_first=True)
    with pytest.raises(PolicyError, match="drop_unseen must be False beside spare_block"):
        dataclasses.replace(overlapped, spare_block=True)


@BOTH
@pytest.mark.parametrize(
    ("before", "arrival", "third"),
    [([], 0.0, 402.0), ([(0.0, 10, 900)], 2000.0, 402.0), ([(0.0, 10, 900)], 850.0, 52.0)],
    ids=["without", "after a rest", "before its end"],
)
def test_the_reserve_begins_anew_after_a_rest(
    before: list[tuple[float, int, int]], arrival: float, third: float, leap: bool
) -> None:
    """1,000 slots, and two requests of 100 in and 400 out before one of 100 in and 200 out; 1 s a step.

    The first two are admitted in two steps. In the second, beside the first, which has 399 tokens to come,
    900 - 500 slots are left and a share of 399: 0.7 at first, so that the third request lacks room for its
    300 (400 - 279), and no request is admitted before the first has ended; 0.098 after the 849 decodes of a
    long request (400 - 39). A rest takes the share back to 0.7 (`Scheduler.on_idle` of SGLang 0.5.23).
    """
    burst = [(arrival, 100, 400), (arrival, 100, 400), (arrival, 100, 200)]
    result = run(sglang(), [*before, *burst], blocks=1000, block_tokens=1, leap=leap)
    first, second, last = result.requests["ttft"].to_list()[len(before) :]
    assert last == third
    assert (first, second) == ((1.0, 2.0) if third > 100 else (51.0, 52.0))
