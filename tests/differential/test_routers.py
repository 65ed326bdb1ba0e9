"""What routers know and hold: the engine, leaping and stepping, against the step-by-step reference."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from differential import wire
from paceline import _native
from paceline.testing.reference.policy_sim import TraceRequest, replay

STATUSES = ("finished", "running", "waiting", "not arrived", "rejected", "held", "gave up")
FIELDS = (
    *("routed_requests", "routed_tokens", "routed_since_report", "routed_ever"),
    *("requests", "waiting", "running", "kv_tokens", "free_blocks", "context_blocks", "outstanding_tokens"),
)


def instance(blocks: int, seqs: int) -> dict[str, Any]:
    """Return an instance with steps of 10 ticks, and one more a token."""
    return {
        "blocks": blocks, "block_tokens": 4, "max_model_len": None, "kv_bytes_per_token": 0,
        "cost": {"kind": "affine", "step": 10, "token": 1, "kv_token": 0},
        "scheduler": {
            "max_num_batched_tokens": 24, "max_num_seqs": seqs, "long_prefill_token_threshold": 0,
            "threshold_when_alone": False, "exclusive_prefill": False, "order": {"kind": "arrival"},
            "stages": [
                {"kind": "running"},
                {"kind": "admit", "chunked": True, "unless_preempted": True, "unless_swapped": False,
                 "count_decodes": True, "gather": None},
            ],
            "admission": {"kind": "wait"}, "victim": "latest", "allocation": "chunk", "watermark_blocks": 0,
            "watermark_when_idle": False, "spare_block": False, "decodes_first": False, "refund": True,
            "stop_at_own_preemption": False, "preemption": {"kind": "recompute"},
            "requeue_late": False, "prefix_cache": None, "schedule_ahead": False,
        },
    }  # fmt: skip


def compared(field: str, op: str, with_: float) -> dict[str, Any]:
    return {"op": op, "args": [{"field": field}, {"const": with_}]}


def either(*conditions: dict[str, Any]) -> dict[str, Any]:
    return {"op": "or", "args": list(conditions)}


KEYS = st.lists(st.sampled_from(FIELDS).map(lambda name: {"field": f"inst.{name}"}), min_size=0, max_size=2)
PICKS = st.builds(
    lambda keys, ties, among, where: {
        "rule": "pick", "min": keys, "where": where, "accept": None, "within": None,
        "ties": ties, "among": among,
    },
    KEYS,
    st.sampled_from(["first", "last", "next", "rotate", "spread", "random"]),
    st.sampled_from([None, None, 1, 2, 3]),
    st.sampled_from(
        [
            None,
            {"field": "inst.fits"},
            compared("inst.requests", "lt", 3),
            compared("inst.routed_requests", "lt", 2),
            compared("inst.routed_since_report", "lt", 1),
        ]
    ),
)  # fmt: skip
# Requests are held until an instance has few of them, as it does once all others have finished.
LAST = st.sampled_from(
    [
        [{"rule": "fewest_requests"}],
        [{"rule": "fewest_tokens"}],
        [{"rule": "round_robin"}],
        *(
            [
                {"rule": "pick", "min": [], "where": where, "accept": None, "within": None},
                {"rule": "hold", "blocks": blocks},
            ]
            for blocks in ("none", "all", "tenant", "session")
            for where in (
                compared("inst.requests", "lt", 1),
                either(compared("req.tenant", "eq", 1), compared("inst.requests", "lt", 1)),
                either(compared("req.prompt_tokens", "lt", 12), compared("inst.requests", "lt", 2)),
            )
        ),
        [{"rule": "reject", "when": compared("req.prompt_tokens", "gt", 30)}, {"rule": "round_robin"}],
    ]
)  # fmt: skip
RELAYS = st.fixed_dictionaries(
    {
        "gap": st.sampled_from([0, 7, 30, 60]),
        "unit": st.sampled_from([1, 10]),
        "before": st.booleans(),
        "copies": st.sampled_from([None, 5, 40]),
    }
)
ROUTERS = st.builds(
    lambda relay, settings: {**settings, "relay": None if settings["report_every"] is None else relay},
    st.none() | RELAYS,
    st.fixed_dictionaries(
        {
            "count": st.sampled_from([1, 1, 2, 3]),
            "report_every": st.sampled_from([None, 1, 15, 40, 200]),
            "give_up_after": st.sampled_from([None, 20, 90, 400]),
            "seed": st.integers(0, 2**64 - 1),
        }
    ),
)
LOCKSTEPS = st.builds(
    lambda sync: [{"shared": {"at": [1, 9], "ticks": [2, 18]}, "padded": 4, "sync": sync}],
    st.none() | st.fixed_dictionaries({"every": st.integers(1, 6), "first": st.booleans()}),
)
REQUESTS = st.lists(
    st.tuples(
        st.sampled_from([0, 0, 1, 7, 30, 120]),
        st.integers(1, 40),
        st.integers(1, 30),
        st.integers(0, 2),
        st.sampled_from([None, 0]),
        st.sampled_from([None, 0, 30]),
    ),
    min_size=1,
    max_size=14,
)
CLIENTS = st.none() | st.fixed_dictionaries(
    {"most": st.integers(1, 4), "gap": st.sampled_from([0, 7]), "by_session": st.just(value=False)}
)


@given(
    st.lists(st.tuples(st.sampled_from([20, 40]), st.sampled_from([1, 3, 8])), min_size=1, max_size=4),
    st.lists(PICKS, max_size=2),
    LAST,
    st.one_of(st.none(), PICKS),
    st.sampled_from(["on_prefilled", "decode_on_arrival"]),
    ROUTERS,
    REQUESTS,
    st.sampled_from([None, None, 150]),
    st.none() | LOCKSTEPS,
    st.booleans(),
    CLIENTS,
)
def test_routers_decide_as_the_reference_does(
    sizes: list[tuple[int, int]],
    picks: list[dict[str, Any]],
    last: list[dict[str, Any]],
    later: dict[str, Any] | None,
    moment: str,
    routers: dict[str, Any],
    requests: list[tuple[int, int, int, int, int | None, int | None]],
    until: int | None,
    lockstep: list[dict[str, Any]] | None,
    waits: bool,
    clients: dict[str, Any] | None,
) -> None:
    arrivals = np.cumsum([gap for gap, *_ in requests]).tolist()
    instances = [instance(blocks, seqs) for blocks, seqs in sizes]
    routing = {
        "on_arrival": {"rule": "first_of", "rules": [*picks, *last]},
        "on_prefilled": None,
        moment: later,
        "on_answering": None,
        "every": [],
    }
    rows = [
        TraceRequest(
            at,
            prompt,
            output,
            tenant=tenant,
            session=session,
            think=think if waits and session is not None else None,
        )
        for at, (_, prompt, output, tenant, session, think) in zip(arrivals, requests, strict=True)
    ]
    config = {"instances": instances, "routing": routing, "routers": routers, "until": until}
    if lockstep is not None:
        lockstep = [{**group, "members": list(range(len(sizes)))} for group in lockstep]
    config |= {"lockstep": lockstep, "clients": clients}
    theirs = replay(config, rows)
    for leap in (True, False):
        ours = _native.run(
            instances,
            {**wire.columns(rows), "session": wire.sessions(rows)},
            routing=routing,
            routers=routers,
            clients=clients,
            until_ticks=until,
            lockstep=lockstep,
            leap=leap,
        )
        statuses = [STATUSES[code] for code in ours.columns["status"].tolist()]
        assert statuses == [theirs.status(row) for row in range(len(rows))]
        none = 2**32 - 1
        assert ours.columns["instance"].tolist() == [
            none if index is None else index for index in theirs.instance
        ]
        never = 2**64 - 1
        for row, request in enumerate(theirs.requests):
            times = request.token_times
            first, finish = (times[0], times[-1]) if times else (never, never)
            assert ours.columns["first_token"][row] == first
            assert ours.columns["finish"][row] == (finish if request.done else never)


def by_tenant(blocks: str | None) -> list[float]:
    """Return when each request has its first token: gold goes at once, free one at a time.

    A step takes 10 ticks and one more a token; a request of one token is a step of its prompt.
    """
    allowed = either(compared("req.tenant", "eq", 1), compared("inst.requests", "lt", 1))
    hold = {"rule": "hold"} if blocks is None else {"rule": "hold", "blocks": blocks}
    pick = {"rule": "pick", "min": [], "where": allowed, "accept": None, "within": None}
    routing = {
        "on_arrival": {"rule": "first_of", "rules": [pick, hold]},
        "on_prefilled": None, "on_answering": None, "every": [],
    }  # fmt: skip
    rows = [(0, 20, 0), (1, 20, 0), (2, 20, 0), (3, 10, 1), (65, 10, 1)]
    found = [
        _native.run(
            [instance(40, 8)],
            {
                "arrival_ticks": np.array([at for at, _, _ in rows], dtype=np.uint64),
                "prompt_tokens": np.array([prompt for _, prompt, _ in rows], dtype=np.uint32),
                "output_tokens": np.ones(len(rows), dtype=np.uint32),
                "tenant": np.array([tenant for _, _, tenant in rows], dtype=np.uint32),
            },
            routing=routing,
            leap=leap,
        )
        .columns["first_token"]
        .tolist()
        for leap in (True, False)
    ]
    assert found[0] == found[1]
    reference = replay(
        {"instances": [instance(40, 8)], "routing": routing, "until": None},
        [TraceRequest(at, prompt, 1, tenant=tenant) for at, prompt, tenant in rows],
    )
    assert [request.token_times[0] for request in reference.requests] == found[0]
    times: list[float] = found[0]
    return times


def test_gold_does_not_wait_behind_the_quota_of_free() -> None:
    # Three free requests of 30 ticks each, and two gold ones of 20. By hand: free from 0 to 30. Gold, which
    # arrived at 3, runs from 30 to 50, and an instance with a request takes no free one; so free goes from 50
    # to 80. Gold, which arrived at 65, runs from 80 to 100, and the last free one until 130.
    alone = [30, 80, 130, 50, 100]
    assert by_tenant(None) == alone
    assert by_tenant("tenant") == alone
    # One queue for all: gold waits behind both free ones. The second runs from 30 to 60. With the third goes
    # the first gold one, and the second as it arrives: a step of 20 + 4 tokens until 94, and one of 6 + 10
    # until 120.
    assert by_tenant("all") == [30, 60, 94, 120, 120]
