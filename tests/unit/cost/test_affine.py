"""Prices per step, token and token of context."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.cost import Affine, Roofline, ticks
from paceline.errors import ConfigError


def test_prices_cross_to_the_engine_in_picoseconds() -> None:
    wire = Affine(step_s=5e-3, token_s=50e-6, kv_token_s=39e-9).to_wire()
    assert wire == {"kind": "affine", "step": 5 * 10**9, "token": 50 * 10**6, "kv_token": 39_000}


@given(st.floats(min_value=0, max_value=10**6))
def test_a_time_is_within_half_a_tick(seconds: float) -> None:
    # A float of a million seconds is itself no finer than 1e-10 s.
    assert abs(ticks(seconds) / 1e12 - seconds) <= 0.5e-12 + seconds * 2**-52


@pytest.mark.parametrize("price", [-1e-9, math.nan, math.inf, True, "1", None])
@pytest.mark.parametrize("field", ["step_s", "token_s", "kv_token_s"])
def test_a_price_that_is_no_time_is_refused(field: str, price: object) -> None:
    with pytest.raises(ConfigError, match=f"{field} must be a finite number of seconds, 0 or more, was"):
        Affine(**({"step_s": 1.0} | {field: price}))  # type: ignore[arg-type]


def test_milliseconds_given_as_seconds_are_refused_where_that_is_evident() -> None:
    with pytest.raises(ConfigError, match="step_s must be at most 1000000 s, was 10000000"):
        Affine(step_s=1e7)


@pytest.mark.parametrize("price", [0.0, 1e-13])
def test_a_step_that_takes_no_time_is_refused(price: float) -> None:
    with pytest.raises(ConfigError, match="a step must take time"):
        Affine(step_s=price, kv_token_s=1.0)


@given(*3 * [st.floats(min_value=1e-12, max_value=1e6)])
def test_it_survives_toml(step: float, token: float, kv_token: float) -> None:
    cost = Affine(step_s=step, token_s=token, kv_token_s=kv_token)
    assert Affine.from_toml(cost.to_toml()) == cost


def test_toml_of_another_model_is_refused() -> None:
    with pytest.raises(ConfigError, match="kind of a cost must be affine, was 'roofline'"):
        Affine.from_toml(Roofline().to_toml())
    with pytest.raises(ConfigError, match="kind of a cost must be affine, was 'table'"):
        Affine.from_toml('kind = "table"')
