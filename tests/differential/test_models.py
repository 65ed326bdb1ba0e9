"""Requests that name the model that serves them: the engine against the reference, under any rules."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from hypothesis import Phase, find, given, reject, settings
from hypothesis import strategies as st

from differential.policies import WireCase, policies
from differential.test_policies import (
    BOTH,
    agree_on_decisions,
    agree_on_requests,
    agree_on_usage,
    engine,
    reference,
)
from paceline import _core
from paceline.errors import ConfigError, NoProgressError

NO_MODEL = 5
"""The code of the reason that no instance serves the model."""


@cache
@st.composite
def several_models(draw: st.DrawFn, *, moves: bool) -> WireCase:
    """Draw a case in which instances serve a model each, or any, and requests name one, or none."""
    case = draw(policies(moves=moves))
    named = st.sampled_from([None, 0, 0, 0, 1, 1, 1, 2])
    fleet = [{**one, "model": draw(st.sampled_from([None, 0, 0, 1, 1]))} for one in case.config["instances"]]
    requests = [replace(one, model=draw(named)) for one in case.requests]
    return replace(case, requests=requests, config={**case.config, "instances": fleet})


def agree(case: WireCase) -> None:
    expected = reference(case)
    for leap in BOTH:
        agree_on_decisions(case, expected, leap=leap)
        agree_on_requests(case, expected, leap=leap)
        agree_on_usage(case, expected, leap=leap)


@given(case=several_models(moves=False))
def test_each_request_is_routed_as_in_the_reference(case: WireCase) -> None:
    agree(case)


@given(case=several_models(moves=True))
def test_moves_stay_within_the_instances_of_a_model(case: WireCase) -> None:
    agree(case)


@given(case=several_models(moves=True), leap=st.booleans())
def test_no_request_is_on_an_instance_of_another_model(case: WireCase, leap: bool) -> None:
    outcome = serving(case, leap=leap)
    served = [one["model"] for one in case.config["instances"]]
    places = [outcome.columns[name] for name in ("instance", "last_instance")]
    for row, request in enumerate(case.requests):
        wanted = (None, request.model)
        able = [at for at, model in enumerate(served) if model in wanted or request.model is None]
        rejected = outcome.columns["reason"][row] == NO_MODEL
        assert rejected == (not able)
        assert all(column[row] in (*able, 2**32 - 1) for column in places if len(column))


@given(case=several_models(moves=False))
def test_one_model_for_all_is_no_model(case: WireCase) -> None:
    """Where all instances serve the model that all requests name, the result is that without models."""

    def columns(model: int | None) -> dict[str, bytes]:
        fleet = [{**one, "model": model} for one in case.config["instances"]]
        requests = [replace(one, model=model) for one in case.requests]
        found = serving(
            replace(case, requests=requests, config={**case.config, "instances": fleet}), leap=True
        )
        return {name: column.tobytes() for name, column in found.columns.items()}

    assert columns(7) == columns(None)


def serving(case: WireCase, *, leap: bool) -> _core.Outcome:
    """Replay a case through the engine; drop one that it refuses, or in which nothing progresses."""
    try:
        return engine(case, leap=leap, record=False)
    except (ConfigError, NoProgressError):
        reject()


def test_the_cases_reach_what_they_are_for() -> None:
    """Requests are rejected for their model, and routed among some of the instances only."""
    seen = dict.fromkeys(("rejected", "restricted"), 0)

    def all_seen(case: WireCase) -> bool:
        outcome = serving(case, leap=True)
        reasons = outcome.columns["reason"]
        seen["rejected"] += bool((reasons == NO_MODEL).any())
        free = replace(case, requests=[replace(one, model=None) for one in case.requests])
        other = serving(free, leap=True).columns["instance"]
        moved = (outcome.columns["instance"] != other) & (reasons == 0)
        seen["restricted"] += bool(moved.any())
        return min(seen.values()) >= 1

    find(several_models(moves=True), all_seen, settings=settings(max_examples=400, phases=[Phase.generate]))
