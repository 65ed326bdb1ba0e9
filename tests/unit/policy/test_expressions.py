"""Expressions: how they are built, printed, read, compared and refused."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline import policy as language
from paceline.errors import PolicyError
from paceline.policy import cluster, ilog2, inst, maximum, minimum, oracle, req, slo, where
from paceline.policy.expressions.fields import FIELDS
from paceline.policy.expressions.kinds import PHASES
from paceline.policy.expressions.text import parse
from paceline.policy.expressions.tree import Expr, Op, Over, lift
from paceline.policy.expressions.wire import Names, to_wire
from unit.policy.drawn import CANDIDATE, MOVING, PICKED, QUEUED

ANY = st.one_of(
    *(known[kind] for known in (CANDIDATE, MOVING, PICKED, QUEUED) for kind in ("number", "truth"))
)
NAMES = Names(
    tenants=("a tenant",),
    pools=("prefill", "decode"),
    classes=("first",),
    columns=("first",),
    bounds={"ttft": 2.0, "tpot": 0.1, "e2e": 9.0, "itl": 0.5},
)


@given(ANY)
def test_what_is_printed_reads_back_the_same(expression: Expr) -> None:
    assert parse(repr(expression)).same(expression)


@given(ANY)
def test_what_is_printed_is_python(expression: Expr) -> None:
    names = {name: getattr(language, name) for name in language.__all__}
    assert expression.same(eval(repr(expression), names))


@given(ANY, ANY)
def test_structure_decides_what_is_the_same(left: Expr, right: Expr) -> None:
    assert left.same(copy.deepcopy(left))
    assert hash(left) == hash(pickle.loads(pickle.dumps(left)))
    assert left.same(right) == (repr(left) == repr(right))


@given(ANY)
def test_the_wire_form_has_only_numbers_and_the_engines_names(expression: Expr) -> None:
    known = {f"{space}.{meaning.wire}" for (space, _), meaning in FIELDS.items()}
    known |= {f"{side}.{meaning.wire}" for side in ("here", "there") for meaning in FIELDS.values()}

    def walk(wire: dict[str, Any]) -> None:
        if "const" in wire:
            assert isinstance(wire["const"], float)
        elif "field" in wire:
            assert wire["field"] in known
            assert not wire["field"].startswith("slo.")
        elif "over" in wire:
            assert wire["within"] is None or set(wire["within"]) <= {0, 1}
            walk(wire["of"])
        else:
            for arg in wire["args"]:
                walk(arg)

    walk(to_wire(expression, NAMES))


def value(wire: dict[str, Any], fields: dict[str, float]) -> float:
    """Evaluate a wire expression of a few operators by the contract with the engine."""
    if "const" in wire:
        return wire["const"]
    if "field" in wire:
        return fields[wire["field"]]
    args = [value(arg, fields) for arg in wire["args"]]
    return float(
        {
            "add": lambda a, b: a + b,
            "sub": lambda a, b: a - b,
            "mul": lambda a, b: a * b,
            "floordiv": lambda a, b: a // b,
            "lt": lambda a, b: a < b,
            "gt": lambda a, b: a > b,
            "ge": lambda a, b: a >= b,
            "eq": lambda a, b: a == b,
            "ne": lambda a, b: a != b,
            "and": lambda a, b: a and b,
            "or": lambda a, b: a or b,
            "not": lambda a: not a,
            "if": lambda c, a, b: a if c else b,
            "neg": lambda a: -a,
            "max": max,
        }[wire["op"]](*args)
    )


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (req.prompt_tokens - 2 * (req.quanta - 1), 100 - 2 * (3 - 1)),
        (1000 - req.prompt_tokens - 100, 800),
        (req.prompt_tokens // 7, 14),
        (where(req.quanta >= 3, req.prompt_tokens, -1), 100),
        (maximum(req.quanta, 1, 7), 7),
        ((req.phase != "answering") & ~(req.phase == "prefill"), 1),
        ((req.phase == "answering") | (req.prompt_tokens > 5), 1),
        (-(req.quanta - 5), 2),
    ],
)
def test_operators_mean_what_they_mean_in_python(expression: Expr, expected: float) -> None:
    fields = {"req.prompt_tokens": 100.0, "req.quanta": 3.0, "req.phase": float(PHASES.index("reasoning"))}
    assert value(to_wire(expression, Names()), fields) == expected


def test_python_functions_and_reflected_operators_build_expressions() -> None:
    assert repr(abs(1 - req.quanta)) == "abs(1 - req.quanta)"
    assert repr(req.kv_tokens <= 5000) == "req.kv_tokens <= 5000"
    assert repr(req.phase == "answering") == "req.phase == 'answering'"
    assert repr(10 / ilog2(req.prompt_tokens) // 2) == "10 / ilog2(req.prompt_tokens) // 2"
    assert repr(True & (req.quanta > 1)) == "True & (req.quanta > 1)"


def test_here_there_and_pools_are_said_by_their_own_names() -> None:
    expression = inst.here.fits(req) & ~inst.there.in_pool("prefill", "decode")
    assert repr(expression) == (
        "inst.here.fits(req) & ~((inst.there.role == 'prefill') | (inst.there.role == 'decode'))"
    )
    wire = to_wire(cluster.mean(inst.mean_token_interval, within="decode"), NAMES)
    assert wire == {"over": "mean", "of": {"field": "inst.mean_token_interval_s"}, "within": [1]}
    assert to_wire(cluster.count(within="prefill"), NAMES) == {
        "over": "count",
        "of": {"const": 1.0},
        "within": [0],
    }
    assert to_wire(inst.requests_in("first"), NAMES) == {"field": "inst.class_requests", "class": 0}
    assert isinstance(parse("cluster.any(inst.waiting > 0, within=('prefill', 'decode'))"), Over)


REFUSED: list[tuple[Callable[[], object], str]] = [
    (
        lambda: req.phase == 2,
        r'req\.phase compares with "prefill", "reasoning" or "answering", not with a number: 2',
    ),
    (
        lambda: req.phase == "anwsering",
        r"req\.phase must be compared with one of prefill, reasoning, answering",
    ),
    (lambda: req.phase < 2, r"< compares numbers; req\.phase is a phase, which compares with .* by == or !="),
    (lambda: req.phase == inst.role, r"req\.phase compares with .*, not with a role: inst\.role"),
    (
        lambda: req.kv_tokens == "many",
        r"== compares numbers .* was req\.kv_tokens \(a number\) == 'many' \(a string\)",
    ),
    (lambda: req.kv_tokens + "many", r"add takes numbers, not a string: 'many'"),
    (
        lambda: req.running + 1,
        r"add takes numbers, not .*req\.running; where\(condition, 1, 0\) makes a number",
    ),
    (
        lambda: req.kv_tokens & (req.quanta > 1),
        r"& \| and ~ join conditions .*, not a number: req\.kv_tokens",
    ),
    (lambda: ~req.kv_tokens, r"join conditions"),
    (lambda: where(req.kv_tokens, 1, 2), r"where\(\) takes a condition first, not a number: req\.kv_tokens"),
    (
        lambda: where(req.running, 1, req.running),
        r"where\(\) must choose between two numbers or two conditions",
    ),
    (lambda: bool(req.quanta > 1), r"write & for and, \| for or, ~ for not, where.*was req\.quanta > 1"),
    (lambda: 1 < req.quanta < 5, r"\(a < b\) & \(b < c\) for a < b < c"),
    (lambda: (req.quanta > 1) and req.running, r"write & for and"),
    (lambda: req.kv_token, r"req has no field 'kv_token'; close to it: kv_tokens"),
    (lambda: inst.here.kv_token, r"inst\.here has no field 'kv_token'; close to it: kv_tokens"),
    (lambda: oracle.output, r"oracle has no field 'output'; close to it: output_tokens"),
    (lambda: slo.latency, r"slo has no field 'latency'; there are: e2e, itl, tpot, ttft"),
    (lambda: cluster.median, r"cluster has no field 'median'; close to it: mean"),
    (lambda: inst.fits(inst), r"inst\.fits takes the request: inst\.fits\(req\), was inst"),
    (lambda: inst.fits & req.running, r"inst\.fits takes the request: inst\.fits\(req\)"),
    (lambda: ~inst.fits, r"inst\.fits takes the request: inst\.fits\(req\)"),
    (
        lambda: req.quanta + inst.prefill_time,
        r"inst\.prefill_time takes the request: inst\.prefill_time\(req\)",
    ),
    (lambda: inst.requests_in(3), r"inst\.requests_in takes the name of a class, was 3"),
    (lambda: inst.in_pool(), r"inst\.in_pool\(\) takes the names of one or more pools"),
    (lambda: minimum(req.quanta), r"minimum\(\) takes two or more numbers, was given 1"),
    (
        lambda: req.quanta > float("inf"),
        r"a number in an expression must be finite and within 2\*\*53, was inf",
    ),
    (lambda: req.quanta > 2**60, r"must be finite and within 2\*\*53"),
    (
        lambda: req.quanta > [1],
        r"an expression must be made of fields, numbers and strings, was \[1\] \(list\)",
    ),
    (lambda: cluster.mean(inst.waiting > 1), r"cluster\.mean\(\) takes a number, was inst\.waiting > 1"),
    (lambda: cluster.any(inst.waiting), r"cluster\.any\(\) takes a condition, was inst\.waiting"),
    (
        lambda: cluster.max(inst.here.waiting),
        r"reads each instance as inst: inst\.waiting, not inst\.here\.waiting",
    ),
    (lambda: cluster.max(cluster.max(inst.waiting)), r"must not hold another aggregate"),
    (
        lambda: cluster.max(inst.waiting, within=()),
        r"within must be the names of one or more pools, was \(\)",
    ),
]


@pytest.mark.parametrize(("attempt", "message"), REFUSED)
def test_what_makes_no_sense_is_refused_when_it_is_built(attempt: Callable[[], object], message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        attempt()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("req.quanta > 1 and req.running", r"write & \(with comparisons in parentheses\)"),
        ("not req.running", r"is not understood; write ~"),
        ("1 if req.running else 2", r"write where\(condition, a, b\)"),
        ("1 < req.quanta < 5", r"write \(a < b\) & \(b < c\) for a < b < c"),
        ("req.quanta >", r"must be an expression, was 'req\.quanta >'"),
        ("reg.quanta", r"there is no 'reg'; close to it: req"),
        ("req.quantas", r"req has no field 'quantas'; close to it: quanta"),
        ("req._space", r"req has no '_space'"),
        ("req.__class__", r"req has no '__class__'"),
        ("(1).real", r"1 has no 'real'"),
        ("abs.__self__", r"abs has no '__self__'"),
        ("req.quanta(1)", r"req\.quanta takes nothing in parentheses"),
        ("__import__('os').getcwd()", r"there is no '__import__'"),
        ("[x for x in (1, 2)]", r"is not understood"),
        ("(lambda: 1)()", r"is not understood"),
        ("minimum(*[1, 2])", r"\* and \*\* are not understood"),
        ("req.quanta % 2", r"is not understood"),
        ("req.quanta ** 2", r"is not understood"),
        ("minimum(req.quanta)", r"takes two or more numbers"),
        ("minimum(req.quanta, key=3)", r"unexpected keyword"),
        ("(" * 250 + "1" + ")" * 250, r"must be (an expression|nested in at most 100 levels)"),
        ("-" * 20000 + "req.quanta", r"must be (an expression|nested in at most 100 levels)"),
    ],
)
def test_text_that_is_no_expression_is_refused_without_being_run(text: str, message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        parse(text)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (inst.role == "prefil", r"there is no pool 'prefil'; close to it: prefill"),
        (inst.requests_in("second"), r"there is no class 'second'; there are: first"),
        (inst.prefill_delay > slo.ttft, None),
    ],
)
def test_names_are_looked_up_when_the_wire_form_is_made(expression: Expr, message: str | None) -> None:
    if message is None:
        assert isinstance(expression, Op)
        wire = to_wire(expression, NAMES)
        assert wire["args"][1] == {"const": 2.0}
        message = r"slo\.ttft needs a policy with slo=SLO\(ttft=\.\.\.\); the bounds there are: none"
        with pytest.raises(PolicyError, match=message):
            to_wire(expression, Names())
        return
    with pytest.raises(PolicyError, match=message):
        to_wire(expression, NAMES)


def test_every_field_has_a_meaning_and_the_engine_a_name_of_its_own_for_it() -> None:
    assert all(meaning.text.endswith(".") for meaning in FIELDS.values())
    for space in ("req", "inst", "oracle"):
        wires = [meaning.wire for (owner, _), meaning in FIELDS.items() if owner == space]
        assert len(set(wires)) == len(wires)


def test_zeros_of_both_signs_are_two_constants() -> None:
    # A replay keeps what it made of a scheduler for the next equal one, and 1 / 0.0 is not 1 / -0.0.
    assert lift(0.0).same(lift(0.0))
    assert not lift(0.0).same(lift(-0.0))
    assert not (req.prompt_tokens / lift(0.0)).same(req.prompt_tokens / lift(-0.0))
