"""Expressions and rules are bounded in size and depth, and all that is within the bounds works."""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable
from functools import reduce
from typing import Any

import pytest

import paceline
from paceline import Affine, Cluster, Instance, Policy, PolicyError, Scheduler, Trace, inst, req
from paceline.policy import Class, Expr, Rule, first_of, maximum, pick, where
from paceline.policy.expressions.text import parse
from paceline.policy.limits import MOST_CHARACTERS, MOST_LEVELS, MOST_PARTS, MOST_RULE_LEVELS, MOST_RULES
from paceline.testing.reference.policy_sim.expression import apply

TRACE = Trace.from_columns(arrival=[0.0, 0.0], prompt_tokens=[8, 9], output_tokens=[2, 3])
CLUSTER = Cluster(2 * [Instance(cost=Affine(step_s=0.01), num_blocks=101)])
ONE = inst.requests

STEPS: dict[str, Callable[[Expr], Expr]] = {
    "abs": abs,
    "minus": operator.neg,
    "minus on the right": lambda e: 1 - e,
    "minus on the left": lambda e: e - inst.waiting,
    "over": lambda e: 3 // e,
    "sum on the right": lambda e: 1 + e,
    "sums and products": lambda e: (e + 1) * 2,
    "where": lambda e: where(e > 1, 1, 2),
    "where in where": lambda e: where(inst.waiting > 1, e, 2),
    "maximum": lambda e: maximum(1, e),
    "not": lambda e: where(~(e > 1), 1, 2),
}


def deepest(step: Callable[[Expr], Expr]) -> Expr:
    """Apply a step for as long as it stays within the bound on levels."""
    made = ONE
    while True:
        try:
            made = step(made)
        except PolicyError:
            return made


def forty_times(step: Callable[[Any], Any], first: object) -> None:
    """Apply a step to its own result, forty times."""
    reduce(lambda made, _: step(made), range(40), first)


@pytest.mark.parametrize("name", STEPS)
def test_the_deepest_expressions_are_printed_read_compared_and_replayed(name: str) -> None:
    made = deepest(STEPS[name])
    with pytest.raises(PolicyError, match=r"at most 100 levels, was 10\d$"):
        STEPS[name](made)
    assert MOST_LEVELS - 3 <= made.levels <= MOST_LEVELS
    again = parse(repr(made))
    assert again.same(made)
    assert hash(again) == hash(made)
    policy = Policy(name="deep", on_arrival=pick(min=made))
    assert Policy.from_toml(policy.to_toml()) == policy
    assert (paceline.replay(TRACE, CLUSTER, policy).requests["status"] == "finished").all()


def deepest_rule() -> Rule:
    """Return a rule of most levels around an expression of most levels."""
    rule: Rule = pick(min=deepest(abs), where=inst.waiting < 0)
    for _ in range(MOST_RULE_LEVELS - 1):
        rule = first_of(rule, pick(min=ONE, where=inst.waiting >= 0))
    return rule


def deepest_policy() -> Policy:
    """Return a policy whose queue and whose router are nested as deeply as may be."""
    order: Expr = req.prompt_tokens
    while order.levels < MOST_LEVELS:
        order = abs(order)
    rules = deepest_rule().rules[:-1]  # type: ignore[union-attr]
    return Policy(
        name="deepest",
        scheduler=Scheduler(order=order, classes=(Class("small", when=abs(req.kv_tokens) < 3),)),
        on_arrival=first_of(*rules, "fewest_requests"),
    )


def test_the_engine_reads_whatever_python_allows_even_on_a_small_stack() -> None:
    policy = deepest_policy()
    failed: list[BaseException] = []

    def run() -> None:
        try:
            assert (paceline.replay(TRACE, CLUSTER, policy).requests["status"] == "finished").all()
        except BaseException as error:
            failed.append(error)

    before = threading.stack_size(1 << 20)
    try:
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    assert not failed


def test_a_long_chain_is_one_level_and_computed_from_left_to_right() -> None:
    half = MOST_PARTS // 2
    for sign in (operator.add, operator.mul):
        made = reduce(sign, [req.prompt_tokens] * half)
        assert made.levels == 2
        assert made.size == half + 1
        assert parse(repr(made)).same(made)
    policy = Policy(name="sum", on_arrival=pick(min=reduce(operator.add, [ONE] * half)))
    assert Policy.from_toml(policy.to_toml()) == policy
    assert paceline.replay(TRACE, CLUSTER, policy).requests["instance"].to_list() == [0, 1]
    assert apply("add", [0.1, 0.2, 0.3]) == (0.1 + 0.2) + 0.3 != 0.1 + (0.2 + 0.3)
    right = reduce(lambda before, one: one + before, [ONE] * 5)
    assert right.levels == 5
    assert not right.same(reduce(operator.add, [ONE] * 5))


@pytest.mark.parametrize(
    "double",
    [
        lambda e: e + e,
        lambda e: e * e,
        lambda e: e - e,
        lambda e: maximum(e, e),
        lambda e: where(e > e, e, e),
    ],
)
def test_an_expression_that_doubles_itself_forty_times_is_refused(double: Callable[[Expr], Expr]) -> None:
    rule = r"at most 1000 parts .*counted as often as it is used\), was [12]\d\d\d$"
    with pytest.raises(PolicyError, match=rule):
        forty_times(double, ONE)


def test_conditions_and_clusters_count_too() -> None:
    with pytest.raises(PolicyError, match="at most 1000 parts"):
        forty_times(lambda condition: condition & condition, ONE > 1)
    with pytest.raises(PolicyError, match="at most 100 levels, was 101"):
        paceline.cluster.mean(deepest(abs))


def test_a_rule_that_doubles_itself_is_refused() -> None:
    with pytest.raises(PolicyError, match=f"at most {MOST_RULES} rules"):
        forty_times(lambda rule: first_of(rule, rule), pick(min=ONE, where=ONE > 1))


def test_rules_are_nested_in_few_levels() -> None:
    with pytest.raises(PolicyError, match=f"at most {MOST_RULE_LEVELS} levels, was {MOST_RULE_LEVELS + 1}"):
        forty_times(lambda rule: rule.unless(inst.there.waiting > 1), pick(min=ONE))


@pytest.mark.parametrize(
    "text",
    [
        "(" * 1000 + "1" + ")" * 1000,
        "~" * 1000 + "req.running",
        "abs(" * 150 + "1" + ")" * 150,
        "1 - " * 300 + "1",
        " + ".join(["1"] * 2000),
        "[" * 1000,
        "req" + ".quanta" * 5000,
        "1" * 5000,
    ],
)
def test_text_beyond_the_bounds_is_refused_in_a_short_sentence(text: str) -> None:
    with pytest.raises(PolicyError) as raised:
        parse(text, "order")
    assert str(raised.value).startswith("order")
    assert len(str(raised.value)) < 1500


def test_a_text_that_is_longer_than_any_expression_is_not_read() -> None:
    with pytest.raises(PolicyError, match=f"at most {MOST_CHARACTERS} characters, had {MOST_CHARACTERS + 1}"):
        parse(" " * MOST_CHARACTERS + "1")
