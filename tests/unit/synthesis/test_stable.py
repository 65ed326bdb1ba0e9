"""The functions that must give the same bits everywhere, against libm and against plain Python arithmetic."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.synthesis import stable

probabilities = st.floats(2.0**-53, 1 - 2.0**-53)


@given(st.floats(1e-300, 1e300))
def test_log_is_within_two_units_of_libms(x: float) -> None:
    got = float(stable.log(np.array([x]))[0])
    assert abs(got - math.log(x)) <= 2 * math.ulp(math.log(x))


@given(st.floats(-690, 690))
def test_exp_is_within_two_units_of_libms(x: float) -> None:
    got = float(stable.exp(np.array([x]))[0])
    assert abs(got - math.exp(x)) <= 2 * math.ulp(math.exp(x))


@given(probabilities)
def test_the_normal_quantile_is_the_standard_librarys(p: float) -> None:
    got = float(stable.normal_quantile(np.array([p]))[0])
    assert got == pytest.approx(NormalDist().inv_cdf(p), rel=1e-14, abs=1e-300)


@given(st.lists(probabilities, min_size=1, max_size=40))
def test_the_normal_quantile_of_many_is_that_of_each(values: list[float]) -> None:
    together = stable.normal_quantile(np.array(values))
    alone = [float(stable.normal_quantile(np.array([value]))[0]) for value in values]
    assert together.tolist() == alone


@given(st.floats(1e-300, 1e300))
def test_log_has_the_bits_of_the_same_steps_in_plain_python(x: float) -> None:
    # Python's own floats round each step by IEEE 754, and never fuse two.
    mantissa, exponent = math.frexp(x)
    if mantissa < 0.7071067811865476:
        mantissa, exponent = mantissa * 2, exponent - 1
    s = (mantissa - 1) / (mantissa + 1)
    square = s * s
    total = square * (1 / 21) + 1 / 19
    for odd in (17, 15, 13, 11, 9, 7, 5, 3, 1):
        total = total * square + 1 / odd
    assert float(stable.log(np.array([x]))[0]) == total * s * 2 + exponent * 0.6931471805599453


@given(st.floats(-690, 690))
def test_exp_has_the_bits_of_the_same_steps_in_plain_python(x: float) -> None:
    turns = float(round(x * (1 / 0.6931471805599453)))
    rest = x - turns * stable._LN2_HIGH
    rest -= turns * stable._LN2_LOW
    total = rest * (1 / math.factorial(13)) + 1 / math.factorial(12)
    for n in range(11, -1, -1):
        total = total * rest + 1 / math.factorial(n)
    assert float(stable.exp(np.array([x]))[0]) == math.ldexp(total, int(turns))
