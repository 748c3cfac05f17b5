"""Student's t distribution, by which few runs have wide intervals.

Its distribution function is an incomplete beta function, evaluated by its continued fraction
(Abramowitz and Stegun 1964, 26.5.8 and 26.7.1; the modified method of Lentz), and inverted by
bisection.
"""

from __future__ import annotations

import math
from typing import Final

_TERMS_MAX: Final = 300
_TINY: Final = 1e-300
_EXACT: Final = 1e-15
_HALVINGS: Final = 200


def t_quantile(probability: float, freedom: float) -> float:
    """The value below which Student's t lies with this probability, 0.5 or more; `freedom` are its
    degrees of freedom, which need not be whole."""
    if not (0.5 <= probability < 1 and freedom > 0):
        raise ValueError(f"no quantile for {probability} and {freedom} degrees of freedom")
    low, high = 0.0, 1.0
    while _below(high, freedom) < probability:
        low, high = high, high * 2
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if _below(middle, freedom) < probability:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _below(value: float, freedom: float) -> float:
    """The probability of a smaller value, for one of 0 or more."""
    return 1 - _incomplete_beta(freedom / 2, 0.5, freedom / (freedom + value * value)) / 2


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularized one."""
    if x <= 0 or x >= 1:
        return min(1.0, max(0.0, x))
    logs = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    front = math.exp(logs + a * math.log(x) + b * math.log1p(-x))
    if x < (a + 1) / (a + b + 2):
        return front * _fraction(a, b, x) / a
    return 1 - front * _fraction(b, a, 1 - x) / b


def _fraction(a: float, b: float, x: float) -> float:
    found, c = 1.0, 1.0
    d = 1 / _not_zero(1 - (a + b) * x / (a + 1))
    found = d
    for m in range(1, _TERMS_MAX):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 / _not_zero(1 + term * d)
            c = _not_zero(1 + term / c)
            found *= d * c
        if abs(d * c - 1) < _EXACT:
            break
    return found


def _not_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
