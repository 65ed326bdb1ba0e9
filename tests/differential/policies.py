"""Random policies in the engine's format, and random workloads with reasoning for them.

Blocks are few, and many events coincide.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import accumulate

from hypothesis import strategies as st

from differential import wire
from differential.expressions import (
    ABOUT_A_REQUEST,
    COMPARISONS,
    OF_INSTANCE,
    OF_REQUEST,
    STILL,
    comparisons,
    conditions,
    keys,
    numbers,
    prefixed,
)
from differential.flips import with_flips
from differential.networks import networks
from differential.strategies import BUDGETS, CAPACITY, OUTPUTS, PROMPTS
from differential.wire import Wire, const, field, op
from paceline.testing.reference.policy_sim import TraceRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class WireCase:
    """A workload, and the cluster and policy that serve it; times in ticks."""

    requests: list[TraceRequest]
    config: Wire


@cache
def key_lists(*, refreshed: bool, least: int) -> st.SearchStrategy[list[Wire]]:
    return st.lists(keys(refreshed=refreshed), min_size=least, max_size=3)


@cache
@st.composite
def orders(draw: st.DrawFn) -> Wire:
    """Draw a ranked order of one to three classes."""
    refresh = draw(st.sampled_from(["never", "never", "steps", "ticks"]))
    some_keys = key_lists(refreshed=refresh != "never", least=draw(st.sampled_from([0, 1, 1])))
    # Quanta are counted from when a class is entered: as the class's condition they would revoke themselves.
    whens = conditions(
        tuple(one for one in OF_REQUEST if one[0] not in ("req.quanta", "req.joined_s", "req.level"))
    )
    count = draw(st.sampled_from([1, 1, 2, 3]))
    classes = [
        wire.a_class(
            *draw(some_keys),
            when=draw(whens) if position < count - 1 else None,
            hold=draw(st.sampled_from([0, 0, 1, 5])),
        )
        for position in range(count)
    ]
    return wire.order(
        *classes,
        quantum=draw(st.sampled_from([0, 1, 3, 8])),
        steps=draw(st.sampled_from([1, 2, 7])) if refresh == "steps" else 0,
        ticks=draw(st.sampled_from([1, 10, 64])) if refresh == "ticks" else 0,
    )


ADMISSIONS = st.one_of(
    st.just(wire.WAIT),
    st.just(wire.displace()),
    st.builds(
        wire.displace,
        when=st.none() | conditions(prefixed(STILL, "inst")),
        most=st.sampled_from([0, 0, 1, 2]),
    ),
)
COPIES = st.sampled_from([0, 0, 1, 3])
PREEMPTIONS = st.one_of(
    st.just(wire.RECOMPUTE),
    st.builds(
        wire.swap, st.sampled_from([0, 5, 20, 1000, 1000]), out=COPIES, back=COPIES, overlapped=st.booleans()
    ),
)


@cache
@st.composite
def instances(draw: st.DrawFn) -> Wire:
    """Draw an instance with a ranked queue and few blocks."""
    block_tokens = draw(st.sampled_from([1, 1, 2, 4, 16]))
    chunked = draw(st.booleans())
    return wire.instance(
        max(1, draw(CAPACITY) // block_tokens),
        block_tokens=block_tokens,
        max_model_len=draw(st.sampled_from([None, None, None, 60])),
        kv_bytes=draw(st.sampled_from([1, 1, 3])),
        state_blocks=draw(st.sampled_from([0, 0, 0, 1, 3])),
        state_bytes=draw(st.sampled_from([0, 0, 40])),
        step=draw(st.integers(1, 20)),
        token=draw(st.integers(0, 3)),
        kv_token=draw(st.sampled_from([0, 0, 1, 2])),
        budget=draw(BUDGETS) if chunked else 70 + draw(st.integers(0, 40)),
        seats=draw(st.sampled_from([1, 2, 4, 16, 16])),
        chunked=chunked,
        unless_preempted=draw(st.sampled_from([False, False, True])),
        allocation=draw(st.sampled_from(["chunk", "chunk_if_all_fits", "sequence"])),
        order=draw(orders()),
        admission=draw(ADMISSIONS),
        preemption=draw(PREEMPTIONS),
    )


OVER = st.one_of(
    st.builds(
        lambda how, of, within: {"over": how, "of": of, "within": within},
        st.sampled_from(["mean", "min", "max", "sum"]),
        st.sampled_from(prefixed(OF_INSTANCE, "inst")).map(lambda one: field(one[0])),
        st.none(),
    ),
    st.builds(
        lambda how, of, within: {"over": how, "of": of, "within": within},
        st.sampled_from(["any", "all", "count"]),
        comparisons(prefixed(OF_INSTANCE, "inst")),
        st.none() | st.lists(st.integers(0, 2), min_size=1, max_size=2, unique=True),
    ),
)
CANDIDATE = prefixed(OF_INSTANCE + ABOUT_A_REQUEST, "inst")
CLUSTER_HOLDS = st.builds(lambda name, one: op(name, one, const(1)), COMPARISONS, OVER)
WITHIN = st.none() | st.lists(st.integers(0, 2), min_size=1, max_size=2, unique=True)


@cache
def class_requests(subject: str) -> st.SearchStrategy[Wire]:
    return st.integers(0, 2).map(lambda position: field(f"{subject}.class_requests", position))


@cache
def picks(*, total: bool) -> st.SearchStrategy[Wire]:
    """Draw a rule that picks the instance with the least of something; ``total``: it always picks one."""
    least = st.lists(
        st.one_of(numbers(CANDIDATE), numbers(CANDIDATE), class_requests("inst")), min_size=1, max_size=2
    )
    if total:
        return least.map(lambda by: wire.pick(*by))
    where = st.none() | conditions(CANDIDATE + OF_REQUEST[:6]) | CLUSTER_HOLDS
    return st.builds(
        lambda by, *rest: wire.pick(*by, where=rest[0], accept=rest[1], within=rest[2]),
        least,
        where,
        where,
        WITHIN,
    )


@cache
@st.composite
def arrival_rules(draw: st.DrawFn) -> Wire:
    """Draw a rule that picks an instance for every arrival."""
    plain = st.sampled_from([{"rule": one} for one in ("round_robin", "fewest_requests", "fewest_tokens")])
    last = draw(plain | picks(total=True))
    before = draw(st.lists(picks(total=False), max_size=2))
    return wire.first_of(*before, last) if before else last


@cache
@st.composite
def later_rules(draw: st.DrawFn) -> Wire | None:
    """Draw a rule for a request that is on an instance already, or none."""
    both = prefixed(OF_INSTANCE + ABOUT_A_REQUEST, "here", "there")
    here = prefixed(OF_INSTANCE, "here") + OF_REQUEST
    part = st.one_of(
        picks(total=False),
        picks(total=True),
        st.builds(
            lambda of, when: {"rule": "unless", "of": of, "when": when}, picks(total=True), conditions(both)
        ),
        st.builds(lambda when: {"rule": "stay", "when": when}, conditions(here)),
    )
    parts = draw(st.lists(part, max_size=3))
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else wire.first_of(*parts)


@cache
@st.composite
def decode_rules(draw: st.DrawFn) -> Wire:
    """Draw a rule that picks, as a request arrives, where it decodes; it may pick none."""
    plain = st.sampled_from([{"rule": one} for one in ("round_robin", "fewest_requests", "fewest_tokens")])
    stays = st.builds(lambda when: {"rule": "stay", "when": when}, conditions(prefixed(OF_INSTANCE, "here")))
    parts = draw(st.lists(picks(total=False) | stays, max_size=2))
    last = draw(st.lists(plain | picks(total=True), min_size=0 if parts else 1, max_size=1))
    return wire.first_of(*parts, *last) if len(parts) + len(last) > 1 else (parts + last)[0]


@cache
@st.composite
def monitors(draw: st.DrawFn) -> tuple[int, Wire]:
    """Draw a periodic migration rule."""
    of_one = prefixed(OF_INSTANCE, "inst")
    sides = st.builds(
        lambda by, where, within: wire.side(*by, where=where, within=within),
        st.lists(numbers(of_one), min_size=1, max_size=1),
        st.none() | conditions(of_one),
        WITHIN,
    )
    chosen = st.builds(
        lambda by, where: wire.side(*by, where=where),
        st.lists(numbers(OF_REQUEST), min_size=1, max_size=1),
        st.none() | conditions(OF_REQUEST),
    )
    live = st.none() | st.fixed_dictionaries(
        {"stages": st.integers(1, 3), "last_blocks": st.sampled_from([0, 1, 4])}
    )
    when = st.none() | conditions(prefixed(OF_INSTANCE, "here", "there"))
    action = wire.migrate(draw(sides), draw(sides), draw(chosen), when=draw(when), live=draw(live))
    return draw(st.integers(5, 80)), action


@cache
@st.composite
def requests(draw: st.DrawFn, least: int, most: int) -> list[TraceRequest]:
    """Draw requests sorted by arrival; some have only reasoning tokens, some none."""
    gaps = st.sampled_from([st.just(0), st.integers(0, 12), st.integers(0, 12), st.integers(0, 60)]).flatmap(
        lambda one: one
    )
    shape = st.tuples(
        gaps, PROMPTS, OUTPUTS, st.sampled_from([0.0, 0.5, 0.5, 0.9, 1.0]), *3 * [st.integers(0, 2)]
    )
    shapes = draw(st.lists(shape, min_size=least, max_size=most))
    arrivals = accumulate(gap for gap, *_ in shapes)
    return [
        TraceRequest(
            at,
            prompt,
            output,
            priority,
            reasoning_tokens=int(share * output),
            score=score / 2,
            tenant=tenant,
        )
        for at, (_, prompt, output, share, priority, score, tenant) in zip(arrivals, shapes, strict=True)
    ]


HANDOVERS = st.builds(
    wire.handover,
    most_transfers=st.sampled_from([None, None, 1, 2]),
    most_held=st.sampled_from([None, None, 0.05, 0.5, 1.0]),
    lease=st.sampled_from([None, 1, 20, 100, 10_000]),
    reserve=st.sampled_from([None, None, None, {"tokens": 3, "clip": 20}, {"tokens": 0, "clip": 1}]),
)
PACES = st.integers(1, 40).flatmap(
    lambda interval: st.tuples(st.just(interval), st.integers(interval, 60), st.none() | st.integers(0, 100))
)


@cache
@st.composite
def policies(draw: st.DrawFn, *, moves: bool = True) -> WireCase:
    """Draw a case; without ``moves`` no request migrates."""
    count = draw(st.sampled_from([1, 2, 2, 3, 4] if moves else [1, 1, 2]))
    first = draw(instances())
    alike = draw(st.booleans())
    fleet = [first if alike or index == 0 else draw(instances()) for index in range(count)]
    early = moves and draw(st.sampled_from([False, False, True]))
    config = wire.cluster(
        *fleet,
        on_arrival=draw(arrival_rules()),
        decode_on_arrival=draw(decode_rules()) if early else None,
        on_prefilled=draw(later_rules()) if moves and not early else None,
        on_answering=draw(later_rules()) if moves else None,
        every=draw(st.lists(monitors(), max_size=2)) if moves and count > 1 else [],
        roles=draw(st.lists(st.integers(0, 2), min_size=count, max_size=count)),
        handover=draw(st.none() | HANDOVERS) if moves else None,
        pace=draw(st.none() | PACES),
        until=None,
    )
    config["links"] = draw(st.none() | networks(count))
    if draw(st.booleans()):
        config = draw(with_flips(config, moves=moves))
        if config["routing"].get("decode_on_arrival"):
            config["routing"]["on_prefilled"] = None
    least = draw(st.sampled_from([1, 6 * count, 6 * count]))
    return WireCase(requests=draw(requests(least=least, most=8 * count)), config=config)
