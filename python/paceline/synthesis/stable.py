"""Logarithm, exponential and normal quantile with the same bits on every machine.

numpy's own ``log`` and ``exp`` differ in the last bit between processors and
versions. Here only operations are used that IEEE 754 rounds exactly (+, -, *,
/, sqrt, frexp, ldexp, rint), one numpy call each, so that no compiler can fuse
two of them. Errors stay within a few units in the last place.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["Floats", "exp", "log", "normal_quantile", "power"]

Floats: TypeAlias = npt.NDArray[np.float64]

_LN2: Final = 0.6931471805599453
# ln 2 in two parts: the first has 21 trailing zero bits, so that k times it is exact for |k| < 2**21.
_LN2_HIGH: Final = float.fromhex("0x1.62e42feep-1")
_LN2_LOW: Final = float.fromhex("0x1.a39ef35793c76p-33")

# 2 atanh(s) = 2 s (1 + s²/3 + s⁴/5 + …), |s| <= 0.1716: eleven terms leave 3e-18.
_ATANH: Final = tuple(1.0 / (2 * n + 1) for n in range(10, -1, -1))

# e^r = 1 + r + r²/2! + …, |r| <= 0.3466: thirteen powers leave 4e-18.
_FACTORIALS: Final = (1, 1, 2, 6, 24, 120, 720, 5040, 40320, 362880, 3628800, 39916800, 479001600, 6227020800)
_EXP: Final = tuple(1.0 / factorial for factorial in reversed(_FACTORIALS))

# M. J. Wichura, Algorithm AS 241: The Percentage Points of the Normal Distribution, Applied Statistics
# 37 (1988) 477-484, routine PPND16; highest power first.
_CENTRE: Final = (
    (
        2.5090809287301226727e3,
        3.3430575583588128105e4,
        6.7265770927008700853e4,
        4.5921953931549871457e4,
        1.3731693765509461125e4,
        1.9715909503065514427e3,
        1.3314166789178437745e2,
        3.3871328727963666080e0,
    ),
    (
        5.2264952788528545610e3,
        2.8729085735721942674e4,
        3.9307895800092710610e4,
        2.1213794301586595867e4,
        5.3941960214247511077e3,
        6.8718700749205790830e2,
        4.2313330701600911252e1,
        1.0,
    ),
)
_TAIL: Final = (
    (
        7.74545014278341407640e-4,
        2.27238449892691845833e-2,
        2.41780725177450611770e-1,
        1.27045825245236838258e0,
        3.64784832476320460504e0,
        5.76949722146069140550e0,
        4.63033784615654529590e0,
        1.42343711074968357734e0,
    ),
    (
        1.05075007164441684324e-9,
        5.47593808499534494600e-4,
        1.51986665636164571966e-2,
        1.48103976427480074590e-1,
        6.89767334985100004550e-1,
        1.67638483018380384940e0,
        2.05319162663775882187e0,
        1.0,
    ),
)
_FAR_TAIL: Final = (
    (
        2.01033439929228813265e-7,
        2.71155556874348757815e-5,
        1.24266094738807843860e-3,
        2.65321895265761230930e-2,
        2.96560571828504891230e-1,
        1.78482653991729133580e0,
        5.46378491116411436990e0,
        6.65790464350110377720e0,
    ),
    (
        2.04426310338993978564e-15,
        1.42151175831644588870e-7,
        1.84631831751005468180e-5,
        7.86869131145613259100e-4,
        1.48753612908506148525e-2,
        1.36929880922735805310e-1,
        5.99832206555887937690e-1,
        1.0,
    ),
)


def log(x: Floats) -> Floats:
    """Give the natural logarithm of positive finite numbers."""
    mantissa, exponent = np.frexp(x)
    low = mantissa < 0.7071067811865476
    mantissa *= 1.0 + low
    exponent -= low
    s = (mantissa - 1.0) / (mantissa + 1.0)
    series = _polynomial(_ATANH, s * s)
    series *= s
    series *= 2.0
    series += exponent * _LN2
    return series


def exp(x: Floats) -> Floats:
    """Give e to the power of numbers of magnitude below 700."""
    turns = np.rint(x * (1.0 / _LN2))
    rest = x - turns * _LN2_HIGH
    rest -= turns * _LN2_LOW
    result: Floats = np.ldexp(_polynomial(_EXP, rest), turns.astype(np.int32))
    return result


def power(base: Floats, exponent: float) -> Floats:
    """Give positive numbers to a power, as the exponential of a multiple of their logarithm."""
    return exp(log(base) * exponent)


def normal_quantile(p: Floats) -> Floats:
    """Give the standard normal quantile of probabilities strictly between 0 and 1."""
    q = p - 0.5
    result = _ratio(_CENTRE, 0.180625 - q * q)
    result *= q
    outer = np.flatnonzero(np.abs(q) > 0.425)
    if len(outer):
        side = q[outer]
        nearest = np.where(side < 0.0, p[outer], 1.0 - p[outer])
        r = np.sqrt(-log(nearest))
        size = _ratio(_TAIL, r - 1.6)
        far = r > 5.0
        if far.any():
            size[far] = _ratio(_FAR_TAIL, r[far] - 5.0)
        result[outer] = np.where(side < 0.0, -size, size)
    return result


def _ratio(coefficients: tuple[tuple[float, ...], tuple[float, ...]], x: Floats) -> Floats:
    above = _polynomial(coefficients[0], x)
    above /= _polynomial(coefficients[1], x)
    return above


def _polynomial(coefficients: tuple[float, ...], x: Floats) -> Floats:
    """Evaluate by Horner's rule, highest power first."""
    result = x * coefficients[0]
    result += coefficients[1]
    for coefficient in coefficients[2:]:
        result *= x
        result += coefficient
    return result
