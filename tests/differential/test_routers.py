"""What routers know and hold: the engine, leaping and stepping, against the step-by-step reference."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

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
        [
            {"rule": "pick", "min": [], "where": compared("inst.requests", "lt", 1), "accept": None,
             "within": None},
            {"rule": "hold"},
        ],
        [{"rule": "reject", "when": compared("req.prompt_tokens", "gt", 30)}, {"rule": "round_robin"}],
    ]
)  # fmt: skip
ROUTERS = st.fixed_dictionaries(
    {
        "count": st.sampled_from([1, 1, 2, 3]),
        "report_every": st.sampled_from([None, 1, 15, 40, 200]),
        "give_up_after": st.sampled_from([None, 20, 90, 400]),
        "seed": st.integers(0, 2**64 - 1),
    }
)
REQUESTS = st.lists(
    st.tuples(st.sampled_from([0, 0, 1, 7, 30, 120]), st.integers(1, 40), st.integers(1, 30)),
    min_size=1,
    max_size=14,
)


@given(
    st.lists(st.tuples(st.sampled_from([20, 40]), st.sampled_from([1, 3, 8])), min_size=1, max_size=4),
    st.lists(PICKS, max_size=2),
    LAST,
    st.one_of(st.none(), PICKS),
    ROUTERS,
    REQUESTS,
    st.sampled_from([None, None, 150]),
)
def test_routers_decide_as_the_reference_does(
    sizes: list[tuple[int, int]],
    picks: list[dict[str, Any]],
    last: list[dict[str, Any]],
    later: dict[str, Any] | None,
    routers: dict[str, Any],
    requests: list[tuple[int, int, int]],
    until: int | None,
) -> None:
    arrivals = np.cumsum([gap for gap, _, _ in requests]).tolist()
    instances = [instance(blocks, seqs) for blocks, seqs in sizes]
    routing = {
        "on_arrival": {"rule": "first_of", "rules": [*picks, *last]},
        "on_prefilled": later,
        "on_answering": None,
        "every": [],
    }
    rows = [
        TraceRequest(at, prompt, output) for at, (_, prompt, output) in zip(arrivals, requests, strict=True)
    ]
    config = {"instances": instances, "routing": routing, "routers": routers, "until": until}
    theirs = replay(config, rows)
    for leap in (True, False):
        ours = _native.run(
            instances,
            {
                "arrival_ticks": np.array(arrivals, dtype=np.uint64),
                "prompt_tokens": np.array([prompt for _, prompt, _ in requests], dtype=np.uint32),
                "output_tokens": np.array([output for _, _, output in requests], dtype=np.uint32),
            },
            routing=routing,
            routers=routers,
            until_ticks=until,
            leap=leap,
        )
        statuses = [STATUSES[code] for code in ours.status.tolist()]
        assert statuses == [theirs.status(row) for row in range(len(rows))]
        none = 2**32 - 1
        assert ours.instance.tolist() == [none if index is None else index for index in theirs.instance]
        never = 2**64 - 1
        for row, request in enumerate(theirs.requests):
            times = request.token_times
            first, finish = (times[0], times[-1]) if times else (never, never)
            assert ours.first_token_ticks[row] == first
            assert ours.finish_ticks[row] == (finish if request.done else never)
