"""Drawn sessions: contexts that grow, shared prompts, compaction, subagents; what a prefix cache finds."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import polars as pl
import pytest

from paceline import Affine, Cluster, Concurrency, Instance, policies, replay
from paceline.errors import ConfigError
from paceline.synthesis import (
    Constant,
    ContextLimit,
    FixedTime,
    Sessions,
    SharedPrompts,
    Subagents,
    Tenants,
    ToolLoop,
    TurnTokens,
    Uniform,
    ideal_hit_rate,
    synthesize,
)
from paceline.trace import Trace

CHAT = Sessions(
    name="chat",
    turns=Constant(3),
    tokens=TurnTokens(first=Constant(500), later=Constant(60), output=Constant(100)),
    think_time=FixedTime(8.0),
)
AGENT = replace(
    CHAT,
    name="agent",
    turns=Uniform(low=1, high=4),
    tokens=TurnTokens(first=Uniform(low=100, high=900), later=Constant(50), output=Uniform(low=1, high=300)),
    tools=ToolLoop(steps=Uniform(low=1, high=9), tokens=Uniform(low=1, high=400), delay=FixedTime(1.0)),
    shared=SharedPrompts(Constant(256), groups=3, block_tokens=16),
    tenants=Tenants(5),
)
FORKS = replace(
    AGENT,
    tools=ToolLoop(
        steps=Uniform(low=2, high=6),
        tokens=Constant(40),
        delay=FixedTime(1.0),
        subagents=Subagents(
            share=0.5,
            count=Uniform(low=1, high=3),
            steps=Uniform(low=1, high=3),
            tokens=Constant(64),
            shared_tokens=128,
        ),
    ),
)
CLUSTER = Cluster(
    [Instance(cost=Affine(step_s=0.01), num_blocks=60_001, block_tokens=16, max_model_len=8_192)]
)


def by_session(trace: Trace) -> list[pl.DataFrame]:
    return trace.frame.partition_by("session", maintain_order=True)


def test_prompts_without_a_whole_block_have_no_ids() -> None:
    recipe = replace(CHAT, shared=SharedPrompts(Constant(256), block_tokens=2**20))
    trace = synthesize(recipe, sessions=3, rate=1.0, seed=1)
    assert trace.frame["prefix"].list.len().to_list() == [0] * len(trace)


def test_a_later_prompt_has_the_prompt_and_the_answer_before_it() -> None:
    trace = synthesize(CHAT, sessions=4, rate=1.0, seed=1)
    assert len(trace) == 12
    for turns in by_session(trace):
        assert turns["prompt_tokens"].to_list() == [500, 660, 820]
        assert turns["think_time"].to_list() == [None, 8.0, 8.0]
        assert np.diff(turns["arrival"].to_numpy()).tolist() == pytest.approx([8.0, 8.0])


@pytest.mark.parametrize("recipe", [CHAT, AGENT, FORKS], ids=lambda recipe: recipe.name)
def test_more_sessions_continue_the_same_trace_and_another_seed_is_another(recipe: Sessions) -> None:
    short, long = (synthesize(recipe, sessions=count, rate=1.0, seed=3).frame for count in (40, 600))
    first = short["session"].unique()
    assert long.filter(pl.col("session").is_in(first)).equals(short)
    again = synthesize(recipe, sessions=40, rate=1.0, seed=3)
    assert again.frame.equals(short)
    assert not synthesize(recipe, sessions=40, rate=1.0, seed=4).frame.equals(short)


@pytest.mark.parametrize("recipe", [AGENT, FORKS], ids=["agent", "forks"])
def test_requests_are_as_many_as_asked_and_the_last_session_is_cut(recipe: Sessions) -> None:
    trace = synthesize(recipe, requests=777, rate=1.0, seed=3)
    assert len(trace) == 777
    whole = synthesize(recipe, sessions=600, rate=1.0, seed=3).frame
    lengths = dict(whole.group_by("session").len().rows())
    cut = [name for name, count in trace.frame.group_by("session").len().rows() if count != lengths[name]]
    assert len({name.split("/")[0] for name in cut}) <= 1


def test_messages_of_the_user_and_results_of_tools_add_their_tokens_after_their_times() -> None:
    recipe = replace(
        CHAT, turns=Constant(2), tools=ToolLoop(steps=Constant(4), tokens=Constant(7), delay=FixedTime(1.0))
    )
    orders = set()
    for turns in by_session(synthesize(recipe, sessions=200, rate=1.0, seed=2)):
        triggers = turns["trigger"].to_list()
        assert (triggers[0], sorted(triggers)) == ("user", ["tool"] * 3 + ["user"] * 2)
        grown = np.diff(turns["prompt_tokens"].to_numpy().astype(int)).tolist()
        assert grown == [107 if trigger == "tool" else 160 for trigger in triggers[1:]]
        assert turns["think_time"].to_list()[1:] == [1.0 if t == "tool" else 8.0 for t in triggers[1:]]
        orders.add(tuple(triggers))
    assert len(orders) == 4, "the second message may come after 0, 1, 2 or 3 tools"


def test_sessions_of_a_group_share_the_blocks_of_its_prompt_and_no_others() -> None:
    trace = synthesize(AGENT, sessions=300, rate=1.0, seed=5)
    firsts = [turns["prefix"][0].to_list() for turns in by_session(trace)]
    heads = {tuple(ids[:16]) for ids in firsts}  # 256 shared tokens in blocks of 16
    assert len(heads) == 3
    tails = [ids for blocks in firsts for ids in blocks[16:]]
    assert len(tails) == len(set(tails))
    for turns in by_session(trace):
        lists, prompts = turns["prefix"].to_list(), turns["prompt_tokens"].to_list()
        assert [len(ids) for ids in lists] == [prompt // 16 for prompt in prompts]
        for one, other in pairwise(lists):
            assert other[: len(one)] == one


def test_groups_of_a_tenant_are_its_own_and_some_sessions_share_nothing() -> None:
    shared = SharedPrompts(Constant(64), groups=1, share=0.5, by_tenant=True, block_tokens=64)
    frame = synthesize(replace(CHAT, shared=shared, tenants=Tenants(3)), sessions=900, rate=1.0, seed=1).frame
    heads = frame.group_by("session").first().select("tenant", pl.col("prefix").list.first().alias("head"))
    uses = heads.group_by("head").agg(pl.col("tenant").n_unique().alias("tenants"), pl.len())
    assert uses.filter(pl.col("len") > 1)["tenants"].to_list() == [1, 1, 1]
    alone = uses.filter(pl.col("len") == 1).height
    assert alone == pytest.approx(450, abs=4 * np.sqrt(900) / 2)


def test_tenants_have_shares_by_the_power_law() -> None:
    frame = synthesize(
        replace(CHAT, turns=Constant(1), tenants=Tenants(4)), sessions=40_000, rate=1.0, seed=1
    ).frame
    counts = dict(frame.group_by("tenant").len().rows())
    for k in range(4):
        share = (1 / (k + 1)) / (1 + 1 / 2 + 1 / 3 + 1 / 4)
        assert counts[f"tenant-{k}"] / 40_000 == pytest.approx(share, abs=4 * np.sqrt(share / 40_000))


def test_a_context_at_its_limit_goes_on_from_a_summary() -> None:
    # 500, 660, 820, 980 and an answer of 100 are 1,080 tokens: the fourth prompt has a summary instead.
    recipe = replace(CHAT, turns=Constant(6), limit=ContextLimit(1_000, summary=Constant(80)))
    turns = synthesize(recipe, sessions=1, rate=1.0, seed=1)
    assert turns.frame["prompt_tokens"].to_list() == [500, 660, 820, 140, 300, 460]
    assert turns.frame["compacted"].to_list() == [False, False, False, True, False, False]
    assert turns.source.detail.endswith("; 1 contexts compacted")
    shared = replace(recipe, shared=SharedPrompts(Constant(100), block_tokens=10))
    frame = synthesize(shared, sessions=1, rate=1.0, seed=1).frame
    assert frame["prompt_tokens"].to_list() == [600, 760, 240, 400, 560, 720]
    before, after = frame["prefix"][1].to_list(), frame["prefix"][2].to_list()
    assert (after[:10], set(after[10:]) & set(before)) == (before[:10], set())
    assert frame["prefix"][3].to_list()[:24] == after


def test_a_session_may_end_at_its_limit_and_what_is_left_out_is_counted() -> None:
    recipe = replace(CHAT, turns=Constant(6), limit=ContextLimit(1_000, then="end"))
    trace = synthesize(recipe, sessions=3, rate=1.0, seed=1)
    assert trace.frame["prompt_tokens"].max() == 820
    assert (len(trace), dict(trace.dropped)) == (9, {"request beyond the context limit": 9})


def test_no_prompt_exceeds_the_limit() -> None:
    for then in ("compact", "end"):
        limit = ContextLimit(600, then=then, summary=Constant(90))  # type: ignore[arg-type]
        frame = synthesize(replace(AGENT, limit=limit), sessions=300, rate=1.0, seed=2).frame
        assert (frame["prompt_tokens"] + frame["output_tokens"]).max() == 600


def test_idle_times_are_capped() -> None:
    frame = synthesize(replace(AGENT, idle_cap_s=2.5), sessions=50, rate=1.0, seed=2).frame
    assert set(frame["think_time"].drop_nulls()) == {1.0, 2.5}


def test_the_request_after_subagents_waits_for_the_last_of_each() -> None:
    trace = synthesize(FORKS, sessions=60, rate=1.0, seed=7)
    frame = trace.frame
    rows = {row["request_id"]: row for row in frame.rows(named=True)}
    forks = 0
    for row in rows.values():
        if row["trigger"] == "subagent":
            main = row["session"].split("/")[0]
            assert (row["think_time"] is None) == bool(row["parents"])
            assert all(rows[parent]["session"] == main for parent in row["parents"])
        elif row["parents"]:
            forks += 1
            assert (row["trigger"], row["delay"]) == ("tool", 1.0)
            for parent in row["parents"]:
                own = frame.filter(pl.col("session") == rows[parent]["session"])
                assert own["request_id"][-1] == parent
    assert forks > 30
    agents = frame.filter(pl.col("trigger") == "subagent")
    assert agents.group_by("session").first()["prompt_tokens"].unique().to_list() == [192]
    heads = {tuple(ids[:8]) for ids in agents["prefix"].to_list()}
    assert len(heads) == 1, "subagents share the blocks of 128 tokens"


def test_a_replay_of_agents_keeps_the_order_of_their_waits() -> None:
    trace = synthesize(FORKS, sessions=30, rate=2.0, seed=7)
    result = replay(trace, CLUSTER, policies.vllm(prefix_caching=True))
    done = {row["request_id"]: row for row in result.requests.rows(named=True)}
    assert all(row["status"] == "finished" for row in done.values())
    for row in done.values():
        ends = [done[parent]["arrival"] + done[parent]["e2e"] for parent in row["parents"]]
        if ends:
            assert row["arrival"] >= max(ends) + (row["delay"] or 0.0) - 1e-9


def hits(trace: Trace) -> float:
    """Return the part of the prompt tokens found in a prefix cache, with a session at a time."""
    result = replay(trace, CLUSTER, policies.vllm(prefix_caching=True), clients=Concurrency(1, of="sessions"))
    return float(result.requests["cached_tokens"].sum() / result.requests["prompt_tokens"].sum())


def test_the_prefix_cache_finds_answers_in_later_prompts_with_ids_as_with_sessions_alone() -> None:
    # Blocks of 16, and the last token of an answer has no KV yet: of 599 tokens the second prompt finds 37
    # blocks, of 759 the third 47.
    plain = synthesize(CHAT, sessions=5, rate=1.0, seed=1)
    assert hits(plain) == pytest.approx((37 + 47) * 16 / (500 + 660 + 820))
    # With ids, too, and from the second session on, 12 blocks of the shared prompt in the first prompt.
    ids = synthesize(
        replace(CHAT, shared=SharedPrompts(Constant(200), block_tokens=16)), sessions=5, rate=1.0, seed=1
    )
    found = 5 * ((700 + 99) // 16 + (860 + 99) // 16) + 4 * (200 // 16)
    assert hits(ids) == pytest.approx(found * 16 / (5 * (700 + 860 + 1_020)))
    assert ideal_hit_rate(ids) == pytest.approx((found + 10) * 16 / (5 * (700 + 860 + 1_020)))


def test_the_ideal_hit_rate_of_a_chat_is_what_its_turns_repeat() -> None:
    trace = synthesize(CHAT, sessions=50, rate=1.0, seed=1)
    assert ideal_hit_rate(trace) == pytest.approx((600 + 760) / (500 + 660 + 820))
    assert ideal_hit_rate(trace, answers=False) == pytest.approx((500 + 660) / (500 + 660 + 820))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: replace(CHAT, rate=-1.0), "rate must be"),
        (lambda: replace(CHAT, idle_cap_s=-1.0), "idle_cap_s must be seconds, at least 0, was -1.0"),
        (lambda: replace(CHAT, shared=SharedPrompts(by_tenant=True)), "by_tenant need tenants"),
        (lambda: SharedPrompts(share=1.5), "share of SharedPrompts must be from 0 to 1, was 1.5"),
        (lambda: SharedPrompts(groups=0), "groups of SharedPrompts"),
        (lambda: Tenants(0), "count of Tenants"),
        (lambda: Tenants(2, skew=-1.0), "skew of Tenants"),
        (lambda: ContextLimit(1), "tokens of a ContextLimit"),
        (
            lambda: Subagents(share=2, count=Constant(1), steps=Constant(1), tokens=Constant(1)),
            "share of Subagents must be from 0 to 1, was 2",
        ),
        (lambda: FixedTime(-1.0), "time_s must be seconds, at least 0"),
        (lambda: synthesize(CHAT, rate=1.0, seed=1), "one of requests and sessions must be given"),
        (lambda: synthesize(CHAT, rate=1.0, seed=1, requests=1, sessions=1), "one of requests and sessions"),
        (lambda: synthesize(CHAT, rate=1.0, seed=1, sessions=0), "sessions must be a whole number from 1"),
        (lambda: synthesize(CHAT, seed=1, sessions=1), "rate must be given: workload 'chat'"),
        (lambda: synthesize("sharegpt", rate=1.0, seed=1, sessions=1), "sessions must be left out"),
    ],
)
def test_what_makes_no_sense_is_refused(build: object, message: str) -> None:
    assert callable(build)
    with pytest.raises(ConfigError, match=message):
        build()
