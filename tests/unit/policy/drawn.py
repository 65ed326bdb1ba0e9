"""Random expressions, rules and policies for the tests of the language."""

from __future__ import annotations

import operator
from typing import Any

from hypothesis import strategies as st

from paceline.objectives import SLO
from paceline.policy import (
    Class,
    Displace,
    Live,
    Pace,
    Policy,
    Pools,
    Quantum,
    Refresh,
    Reports,
    Scheduler,
    Swap,
    affinity,
    cluster,
    first_of,
    hold,
    ilog2,
    inst,
    maximum,
    migrate,
    minimum,
    oracle,
    pick,
    reject,
    req,
    slo,
    stay,
    where,
)
from paceline.policy.books import BOOKED
from paceline.policy.expressions.fields import FIELDS
from paceline.policy.expressions.tree import Expr, lift


def found_in(expression: Expr, *fields: Expr) -> bool:
    """Whether an expression reads one of some fields."""
    return any(field.same(part) for part in expression.walk() for field in fields)


NUMBERS = st.one_of(
    st.integers(-(2**53), 2**53),
    st.floats(-1e9, 1e9, allow_nan=False),
    st.sampled_from([0, 1, -1, 0.5, 1e-12]),
)

INFIX = [operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv]
COMPARISONS = [operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne]


def leaves(namespaces: list[Any], *, alone: bool = False) -> dict[str, st.SearchStrategy[Expr]]:
    """Draw a field of some namespaces, by what it stands for; `alone`: as an instance knows it of itself."""
    numbers: list[Expr] = []
    truths: list[Expr] = []
    for space in namespaces:
        for (owner, name), meaning in FIELDS.items():
            if owner != repr(space).partition(".")[0] or (
                alone and (meaning.takes == "request" or meaning.source == "kept" or name == "role")
            ):
                continue
            # They need a router that keeps books, levels, keys evaluated for each step, and monitors.
            if name in BOOKED or name in ("level", "cached_tokens", "gauge"):
                continue
            found = getattr(space, name)
            if meaning.takes != "nothing":
                found = found(req if meaning.takes == "request" else "first")
            if meaning.kind in ("number", "truth"):
                (numbers if meaning.kind == "number" else truths).append(found)
            elif meaning.kind == "phase":
                truths += [found == "answering", found != "prefill"]
            elif meaning.kind == "role":
                truths += [found == "decode", space.in_pool("prefill", "decode")]
            else:
                truths.append(found == "a tenant")
    return {"number": st.sampled_from(numbers), "truth": st.sampled_from(truths or [lift(True)])}


def expressions(
    *namespaces: Any, over: bool = False, alone: bool = False
) -> dict[str, st.SearchStrategy[Expr]]:
    """Draw expressions over some namespaces, by what they stand for."""
    fields = leaves([*namespaces, slo], alone=alone)
    ends = [fields["number"]]
    if over:
        inner = leaves([inst])
        pools = st.sampled_from([None, "prefill", ("prefill", "decode")])
        ends.append(
            st.builds(
                lambda how, of, within: getattr(cluster, how)(of, within=within),
                st.sampled_from(["mean", "min", "max", "sum"]),
                inner["number"],
                pools,
            )
        )
        ends.append(st.builds(lambda of, within: cluster.count(of, within=within), inner["truth"], pools))
    numbers: st.SearchStrategy[Expr] = st.recursive(st.one_of(ends), lambda part: _grown(part), max_leaves=4)
    compared = st.builds(lambda how, pair: how(*pair), st.sampled_from(COMPARISONS), _pairs(numbers))
    conditions = st.recursive(
        st.one_of(compared, fields["truth"]),
        lambda part: st.one_of(
            st.builds(lambda a, b: a & b, part, part),
            st.builds(lambda a, b: a | b, part, part),
            part.map(lambda a: ~a),
            st.builds(where, part, part, part),
        ),
        max_leaves=3,
    )
    return {"number": st.one_of(numbers, st.builds(where, conditions, numbers, numbers)), "truth": conditions}


def _pairs(part: st.SearchStrategy[Expr]) -> st.SearchStrategy[tuple[Any, Any]]:
    """Draw two operands, of which one is an expression: Python itself works out what is of numbers alone."""
    return st.one_of(st.tuples(part, NUMBERS), st.tuples(NUMBERS, part), st.tuples(part, part))


def _grown(part: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    return st.one_of(
        st.builds(lambda how, pair: how(*pair), st.sampled_from(INFIX), _pairs(part)),
        st.builds(lambda how, pair: how(*pair, 7), st.sampled_from([minimum, maximum]), _pairs(part)),
        st.builds(lambda how, a: how(a), st.sampled_from([abs, ilog2, operator.neg]), part),
    )


def picks(
    known: dict[str, st.SearchStrategy[Expr]], *, bare: bool = False, accepts: bool = True, pools: bool = True
) -> st.SearchStrategy[Any]:
    """Draw a pick(); a `bare` one always picks an instance."""
    maybe = st.none() if bare else st.one_of(st.none(), known["truth"])
    within = st.sampled_from([None, "prefill", ("decode", "prefill")]) if pools else st.none()
    accept = maybe if accepts else st.none()
    keys = st.lists(known["number"], min_size=1, max_size=2)
    return st.one_of(
        st.builds(lambda k, w, a, i: pick(min=k, where=w, accept=a, within=i), keys, maybe, accept, within),
        st.builds(lambda k, w, i: pick(max=k, where=w, within=i), keys, maybe, within),
    )


CANDIDATE = expressions(req, oracle, inst, over=True)
MOVING = expressions(req, oracle, inst, inst.here, over=True)
PICKED = expressions(req, oracle, inst.here, inst.there)
QUEUED = expressions(req, oracle)
LONE = expressions(inst, alone=True)
KEYS = QUEUED["number"].filter(lambda found: not found_in(found, req.quanta))  # that needs a Quantum
# Both start again as a request enters the class.
MEMBERS = QUEUED["truth"].filter(lambda found: not found_in(found, req.quanta, req.joined))
NAMES = st.sampled_from(["round_robin", "fewest_requests", "fewest_tokens"])

GUARDED = st.builds(
    lambda key, where_: pick(min=key, where=where_), CANDIDATE["number"], CANDIDATE["truth"]
)  # may pick no instance, so that the next rule is reached
AT_ROUTERS = st.builds(
    lambda keyed, drawn, last: first_of(keyed, drawn, last),
    st.sampled_from(
        [affinity("session"), affinity("prefix", blocks=3, within="prefill"), reject(when=req.score > 2)]
    ),
    st.builds(
        lambda key, allowed, ties, among: pick(min=key, where=allowed, ties=ties, among=among),
        CANDIDATE["number"],
        CANDIDATE["truth"],
        st.sampled_from(["first", "last", "next", "rotate", "spread", "random"]),
        st.sampled_from([None, 2]),
    ),
    st.sampled_from([hold(), reject()]),
)
ARRIVAL = st.one_of(
    NAMES,
    AT_ROUTERS,
    picks(CANDIDATE, bare=True),
    st.builds(first_of, GUARDED, st.one_of(NAMES, picks(CANDIDATE, bare=True))),
)
MOVES = st.one_of(
    st.none(),
    picks(MOVING),
    st.builds(lambda rule, when: rule.unless(when), picks(MOVING), PICKED["truth"]),
    st.builds(
        lambda when, rule: first_of(stay(when=when), rule),
        expressions(req, inst.here)["truth"],
        picks(MOVING),
    ),
)
MONITORS = st.builds(
    migrate,
    source=picks(LONE, accepts=False),
    target=picks(LONE, accepts=False),
    choose=picks(QUEUED, accepts=False, pools=False),
    when=st.one_of(st.none(), expressions(inst.here, inst.there, alone=True)["truth"]),
    live=st.sampled_from([None, Live(stages=3, last_blocks=16)]),
)
CLASSES = st.builds(
    lambda firsts, last: [Class("first", when=firsts[0], hold=firsts[1], order=firsts[2]), *last],
    st.tuples(MEMBERS, st.sampled_from([0, 10]), st.one_of(st.none(), KEYS)),
    st.sampled_from([[], [Class("rest")]]),
)
SCHEDULERS = st.builds(
    Scheduler,
    classes=CLASSES,
    order=st.one_of(
        st.sampled_from(["arrival", "score", Quantum(500), Quantum(7, then=req.score)]),
        KEYS,
        st.just([req.priority, -req.arrival]),
    ),
    refresh=st.sampled_from([Refresh(steps=3), Refresh(seconds=0.25), Refresh(steps=1, seconds=1)]),
    admission=st.one_of(
        st.sampled_from(["wait", "displace"]),
        st.builds(
            lambda when, most: Displace(when=when, most=most), LONE["truth"], st.sampled_from([None, 2])
        ),
    ),
    preemption=st.sampled_from(
        ["swap", "recompute", Swap(cpu_blocks=4), Swap.over_pcie(cpu_gib=64, overlapped=True)]
    ),
)

POLICIES = st.builds(
    Policy,
    name=st.sampled_from(["mine", "a name with 'quotes' and \"more\""]),
    scheduler=SCHEDULERS,
    on_arrival=ARRIVAL,
    on_prefilled=MOVES,
    on_answering=MOVES,
    every=st.one_of(
        st.just({}), st.dictionaries(st.sampled_from([0.05, 1.0]), st.lists(MONITORS, max_size=2))
    ),
    pools=st.just(Pools(prefill=2, decode=1)),
    pace=st.sampled_from([Pace(tpot=0.1), Pace(tpot=0.05, first=1, ttft=2.5)]),
    slo=st.just(SLO(ttft=2.0, tpot=0.1, e2e=9.0, itl=0.5)),
    reports=st.sampled_from(
        [
            None,
            Reports(every=0.25),
            Reports(every=5.0, on_change="after"),
            Reports(every=5.0, on_change="around", gap=0.1, unit=0.001, whole_steps=0.05),
        ]
    ),
    routers=st.sampled_from([1, 3]),
    seed=st.sampled_from([0, 2**64 - 1]),
)
"""Policies that hold everything there is."""
