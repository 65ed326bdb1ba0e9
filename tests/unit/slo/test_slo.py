"""Bounds that make sense are kept; those that do not are refused by name."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from paceline.errors import ConfigError
from paceline.objectives import SLO


def test_only_the_bounds_given_are_shown() -> None:
    assert repr(SLO(ttft=2, tpot=0.150)) == "SLO(ttft=2.0, tpot=0.15)"
    assert SLO(e2e=30).bounds() == {"e2e": 30.0}


def test_equal_bounds_are_equal_whatever_number_type_they_came_in() -> None:
    assert SLO(ttft=2) == SLO(ttft=np.float32(2.0)) == SLO(ttft=2.0)
    assert len({SLO(ttft=2), SLO(ttft=2.0), SLO(ttft=2, itl=0.5)}) == 2


def test_it_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        SLO(ttft=2).ttft = 3  # type: ignore[misc]


@pytest.mark.parametrize("bound", [0, -1, math.nan, math.inf, True, "2", [2]])
@pytest.mark.parametrize("name", ["ttft", "tpot", "e2e", "itl"])
def test_a_bound_must_be_a_positive_number_of_seconds(name: str, bound: object) -> None:
    with pytest.raises(ConfigError, match=rf"SLO\.{name} must be a positive, finite number of seconds, was"):
        SLO(**{name: bound})  # type: ignore[arg-type]


def test_a_message_shows_what_was_given() -> None:
    with pytest.raises(ConfigError, match=r"was '150ms'$"):
        SLO(tpot="150ms")  # type: ignore[arg-type]


def test_an_slo_must_ask_for_something() -> None:
    with pytest.raises(ConfigError, match="at least one of ttft, tpot, e2e and itl"):
        SLO()


def test_it_survives_toml() -> None:
    slo = SLO(ttft=2.0, itl=1 / 3)
    assert SLO.from_toml(slo.to_toml()) == slo


def test_toml_with_something_else_in_it_is_refused() -> None:
    with pytest.raises(ConfigError, match="an SLO has no field 'tfft'; close to it: ttft"):
        SLO.from_toml("tfft = 2.0")
