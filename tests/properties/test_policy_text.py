"""Any text as an expression, a rule or a policy is read or refused by a PolicyError, and nothing else."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from paceline import Policy, PolicyError, policies
from paceline.policy.expressions.text import parse
from paceline.policy.serialize import rule_from_text

VOCABULARY = """
    req inst oracle slo cluster here there age quanta kv_tokens phase ttft fits requests_in mean count pick
    first_of stay migrate Quantum Displace Live minimum maximum where ilog2 abs min max within accept unless
    stages __class__ lambda for if else not and None True 1 0.5 1e400 'a' "answering" b'x' f'{x}' ( ) [ ] { }
    , . = == != < <= > + - * / // % ** & | ~ ^ := : @ ; # \\ é 9999999999999999999999999
"""
WORDS = (*re.findall(r"\S+", VOCABULARY), "\n", "\0", " ")
SOUP = st.lists(st.sampled_from(WORDS), max_size=25)
TEXTS = st.one_of(SOUP.map(" ".join), SOUP.map("".join), st.text(max_size=60))

MAKERS = (policies.vllm, policies.andes, policies.fastserve, policies.llumnix, policies.pascal)
FILES = tuple(make().to_toml() for make in MAKERS)
PIECES = (
    *(
        "",
        "\n",
        '"',
        "'",
        "[",
        "]",
        "{",
        "}",
        "=",
        "x = 1",
        "[scheduler]",
        "[[every]]",
        "[pace]",
        "0",
        "1e400",
    ),
    *("classes = 'x'", "stages = [1]", "seconds = nan", "tpot = -1", "9" * 30, "true", '"req.age"'),
    *('"inst.fits(req)"', '"((((("', "'''", "é", "\0", "kind = 'swap'"),
)


@given(TEXTS)
@example("9" * 5000)
@example("0x" + "f" * 5000)
@example("req" + "." * 300)
def test_an_expression_is_read_or_refused(text: str) -> None:
    try:
        made = parse(text)
    except PolicyError:
        return
    assert parse(repr(made)).same(made)


@given(TEXTS)
def test_a_rule_is_read_or_refused(text: str) -> None:
    try:
        rule = rule_from_text(text, "on_arrival")
    except PolicyError:
        return
    if not isinstance(rule, str):
        assert rule_from_text(repr(rule), "on_arrival") == rule


@st.composite
def files(draw: st.DrawFn) -> str:
    """Draw a policy's file with some pieces cut, replaced or inserted."""
    text = draw(st.sampled_from(FILES))
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(text)))
        piece: Any = draw(st.one_of(st.sampled_from(PIECES), TEXTS.filter(lambda text: len(text) < 40)))
        text = text[:start] + piece + text[start + draw(st.integers(0, 12)) :]
    return text


@given(files())
@example("name = 'a'\nscheduler = ['x']")
@example("name = 'a'\n[scheduler]\nclasses = 'x'")
@example("name = 'a'\n[scheduler]\nclasses = [1]")
@example("name = 'a'\n[scheduler]\nstages = [1]")
@example("name = 'a'\n[scheduler]\nstages = 3")
@example("name = 'a'\n[scheduler]\npreemption = 3")
@example("name = 'a'\npools = {a = 'x'}")
@example("name = 'a'\npools = {'a b' = 1}")
@example("name = 'a'\nevery = 3")
@example("name = 'a'\n[[every]]\nseconds = 1\nactions = 3")
@example("name = 3\n")
@example("a = " + "[" * 2000)
@example("a = " + "9" * 5000)
def test_a_policy_file_is_read_or_refused(text: str) -> None:
    try:
        policy = Policy.from_toml(text)
    except PolicyError:
        return
    assert Policy.from_toml(policy.to_toml()) == policy
