"""Input that bypasses Python's checks is refused by the native engine's own."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import paceline
from paceline import (
    Affine,
    Cluster,
    ConfigError,
    Instance,
    Links,
    Pace,
    Policy,
    ResultError,
    Scheduler,
    Trace,
    TraceError,
    _core,
    inst,
    req,
)
from paceline.policy import Live, Refresh, Swap, migrate, pick

TRACE = Trace.from_columns(arrival=[0.0, 1.0], prompt_tokens=[8, 9], output_tokens=[2, 3])
HORIZON = _core.HORIZON_TICKS


@pytest.fixture(scope="module")
def wire() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the configuration and the columns of a replay that has every kind of number."""
    given: list[Any] = []
    real = _core.replay

    def spy(config: bytes, columns: Any, *rest: Any) -> Any:
        given[:] = [json.loads(config), dict(columns)]
        return real(config, columns, *rest)

    scheduler = Scheduler(
        order=req.age,
        refresh=Refresh(seconds=1.0),
        preemption=Swap(cpu_blocks=10, out_s=1e-6, in_s=1e-6),
    )
    relieve = migrate(
        source=pick(max=inst.requests),
        target=pick(min=inst.requests),
        choose=pick(min=req.kv_tokens),
        live=Live(stages=3, last_blocks=1),
    )
    policy = Policy(
        name="all",
        scheduler=scheduler,
        on_arrival=pick(min=inst.requests),
        every={1.0: [relieve]},
        pace=Pace(tpot=0.1, ttft=1.0),
    )
    cluster = Cluster(2 * [Instance(cost=Affine(step_s=0.01), num_blocks=101)], Links(gbps=10))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_core, "replay", spy)
        paceline.replay(TRACE, cluster, policy, until=99.0)
    return given[0], given[1]


def replayed(config: Any, columns: dict[str, Any]) -> _core.Outcome:
    return _core.replay(json.dumps(config).encode(), columns)


def test_it_is_replayed_as_it_is(wire: tuple[dict[str, Any], dict[str, Any]]) -> None:
    assert replayed(*wire).columns["finish"].size == 2


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (
            ("until",),
            2**64 - 1,
            f"until: must be at most {HORIZON} ticks, the clock's range",
        ),
        (("until",), HORIZON + 1, "until: must be at most"),
        (("until",), 2**64, "configuration: "),
        (("links", "latency"), HORIZON + 1, "links.latency: must be at most"),
        (("pace", "interval"), HORIZON + 1, "pace.interval: must be at most"),
        (("pace", "first"), 2**64 - 1, "pace.first: must be at most"),
        (("pace", "ttft"), 2**64 - 1, "pace.ttft: must be at most"),
        (("routing", "every", 0, "period"), 2**64 - 1, "routing.every.period: must be at most"),
        (
            ("instances", 0, "blocks"),
            2**32 - 1,
            r"instances\[0\].blocks: must be 1 to 4294967294, was",
        ),
        (
            ("instances", 1, "block_tokens"),
            4_000_000_000,
            r"\[1\].block_tokens: must be 1 to 1048576",
        ),
        (("instances", 0, "block_tokens"), 0, r"block_tokens: must be 1 to"),
        (("instances", 0, "kv_bytes_per_token"), 2**63, "kv_bytes_per_token: must be 0 to 4294967295"),
        (("instances", 0, "scheduler", "watermark_blocks"), 2**64 - 1, "watermark_blocks: must be 0 to"),
        (("instances", 0, "scheduler", "max_num_seqs"), 2**32 - 1, "max_num_seqs: must be 1 to"),
        (("instances", 0, "scheduler", "long_prefill_token_threshold"), 2**64 - 1, "threshold: must be 0 to"),
        (("instances", 0, "scheduler", "preemption", "out"), 2**64 - 1, "preemption.out: must be at most"),
        (("instances", 0, "scheduler", "preemption", "blocks"), 2**64 - 1, "preemption.blocks: must be 0 to"),
        (("instances", 0, "scheduler", "order", "refresh", "ticks"), 2**64 - 1, "refresh.ticks: must be at"),
    ],
)
def test_numbers_out_of_range_are_refused_by_name(
    wire: tuple[dict[str, Any], dict[str, Any]], place: tuple[str | int, ...], value: int, message: str
) -> None:
    config, columns = copy.deepcopy(wire[0]), wire[1]
    inner: Any = config
    for key in place[:-1]:
        inner = inner[key]
    assert place[-1] in inner if isinstance(inner, dict) else True
    inner[place[-1]] = value
    with pytest.raises(ConfigError, match=message):
        replayed(config, columns)


NAMES = (
    ("prompt_tokens", np.uint32),
    ("output_tokens", np.uint32),
    ("reasoning_tokens", np.uint32),
    ("priority", np.int64),
    ("score", np.float64),
    ("tenant", np.uint32),
    ("session", np.uint32),
    ("prefix_ends", np.uint64),
)


@pytest.mark.parametrize("length", [0, 1, 3])
@pytest.mark.parametrize(("name", "dtype"), NAMES)
def test_a_column_of_another_length_is_refused_by_name(
    wire: tuple[dict[str, Any], dict[str, Any]], name: str, dtype: type, length: int
) -> None:
    columns = {**wire[1], name: np.ones(length, dtype=dtype)}
    if name == "prefix_ends":
        columns |= {"prefix_ids": np.ones(1, dtype=np.uint64), "prefix_block_tokens": 16}
    with pytest.raises(TraceError, match=f"{name} must have a value for each of 2 arrivals, had {length}"):
        replayed(wire[0], columns)


def array(*values: int, dtype: type = np.uint32) -> Any:
    return np.array(values, dtype=dtype)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"arrival_ticks": array(5, 4, dtype=np.uint64)},
            "row 1 of the trace: arrivals are in order",
        ),
        ({"arrival_ticks": array(5, 2**64 - 1, dtype=np.uint64)}, "arrivals lie within 186 days"),
        ({"prompt_tokens": array(0, 4)}, "row 0 of the trace: prompt_tokens is 1 to 1073741823, was 0"),
        ({"output_tokens": array(1, 2**32 - 1)}, "row 1 of the trace: output_tokens is 1 to"),
        ({"reasoning_tokens": array(1, 9)}, "reasoning_tokens is at most the 3 of output_tokens, was 9"),
        ({"session": array(0, 2**32 - 2)}, "session must be below the 2 requests of the trace"),
    ],
)
def test_rows_that_break_a_rule_are_refused_by_number(
    wire: tuple[dict[str, Any], dict[str, Any]], changed: dict[str, Any], message: str
) -> None:
    with pytest.raises(TraceError, match=message):
        replayed(wire[0], {**wire[1], **changed})


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda columns: columns.update(arrival_ticks=[0, 1]), TypeError, r"Columns\.arrival_ticks"),
        (lambda columns: columns.update(prompt_tokens=np.ones(2)), TypeError, r"Columns\.prompt_tokens"),
        (lambda columns: columns.pop("output_tokens"), KeyError, "output_tokens"),
        (
            lambda columns: columns.update(
                prefix_ends=np.array([0, 0], dtype=np.uint64),
                prefix_ids=np.array([], dtype=np.uint64),
                prefix_block_tokens=-1,
            ),
            TypeError,
            r"Columns\.prefix_block_tokens",
        ),
    ],
)
def test_a_column_of_another_type_is_an_error_that_names_the_column(
    wire: tuple[dict[str, Any], dict[str, Any]],
    change: Callable[[dict[str, Any]], object],
    error: type[Exception],
    message: str,
) -> None:
    columns = dict(wire[1])
    change(columns)
    with pytest.raises(error, match=message):
        replayed(wire[0], columns)


@pytest.mark.parametrize("text", [b"", b"[]", b"{", b"null", b"[" * 100_000, b'{"instances": []}', b"\xff"])
def test_a_text_that_is_no_configuration_is_refused(
    wire: tuple[dict[str, Any], dict[str, Any]], text: bytes
) -> None:
    with pytest.raises(ConfigError, match="configuration"):
        _core.replay(text, wire[1])


@pytest.mark.parametrize(
    "text",
    [
        b'{"buckets":[[3,1]],"count":1,"sum":"3","sum_of_squares":"9","min":4,"max":3}',
        b'{"buckets":[[3,1]],"count":2,"sum":"3","sum_of_squares":"9","min":3,"max":3}',
        b'{"buckets":[[3,1]],"count":1,"sum":"x","sum_of_squares":"9","min":3,"max":3}',
        b"[" * 100_000,
    ],
)
def test_a_sketch_that_no_gaps_leave_behind_is_refused(text: bytes) -> None:
    with pytest.raises(ResultError, match="sketch: not readable"):
        _core.Sketch.from_json(text)


def test_a_sketch_with_a_wrong_sum_of_squares_has_a_variance_all_the_same() -> None:
    text = b'{"buckets":[[3,2]],"count":2,"sum":"6","sum_of_squares":"0","min":3,"max":3}'
    assert _core.Sketch.from_json(text).variance == 0.0


def test_a_sketch_counts_no_further_than_64_bits() -> None:
    sketch = _core.Sketch()
    sketch.add(1, 2**64 - 1)
    with pytest.raises(ValueError, match="counts up to"):
        sketch.add(1, 1)
    with pytest.raises(ValueError, match="counts up to"):
        sketch.merge(sketch.from_json(sketch.to_json()))
