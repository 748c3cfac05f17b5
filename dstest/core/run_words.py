"""The words of `dstest run` that make a run: whoever prints or starts a run has them from here, so
that nothing of it is lost, and each number is the number that it was."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import ROUND_CEILING, Decimal
from typing import Any, Final

_FLAGS: Final[Mapping[str, str]] = {
    "files": "--plugin",
    "builds": "--system-version",
    "checkers": "--checker",
    "system": "--system",
    "workload": "--workload",
    "nemesis": "--nemesis",
    "lab": "--lab",
    "lab_id": "--lab-id",
    "nodes": "--nodes",
    "time_limit_s": "--time-limit",
    "rate": "--rate",
    "concurrency": "--concurrency",
    "seed": "--seed",
    "seeds": "--seeds",
    "model": "--model",
    "schedule": "--schedule",
    "tier": "--tier",
    "stop_on_violation": "--stop-on-violation",
    "monitor": "--no-monitor",
    "options": "-o",
}
"""By field of `RunSpec`, and by what a command says besides: in the order of a command."""

_SWITCHES: Final[Mapping[str, bool]] = {"stop_on_violation": True, "monitor": False}
"""Flags that stand alone, by field, with the value of it that they say."""

_ROUND_BELOW: Final = 1e12
"""Beyond it three decimals are more than a float holds."""


def number(value: float) -> str:
    """As short as says the same number."""
    return repr(value).removesuffix(".0")


def at_least(value: float) -> str:
    """For a remedy: no less than this number, with three decimals at most."""
    if not abs(value) < _ROUND_BELOW:
        return number(value)
    return number(float(Decimal(repr(value)).quantize(Decimal("0.001"), ROUND_CEILING)))


def run_words(
    said: Mapping[str, Any], pairs: Iterable[str] = (), first: Sequence[str] = ()
) -> list[str]:
    """`run` with the flags of what is said: fields of a `RunSpec` by their names, and `lab_id`,
    `tier`, `seeds`; what is None or empty is not said. `pairs` are options as they stand behind
    `-o`; those that `said` holds are not looked at. `first` are fields whose flags come first, in
    this order: nothing is left out because it does not stand there."""
    rows = {**said, "options": list(pairs)}
    fields = dict.fromkeys((*first, *_FLAGS))
    return ["run", *(word for field in fields for word in _words(field, rows.get(field)))]


def _words(field: str, value: Any) -> list[str]:
    flag = _FLAGS[field]
    if field in _SWITCHES:
        return [flag] if value is _SWITCHES[field] else []
    if value is None:
        return []
    each = value if isinstance(value, list | tuple) else [value]
    return [word for one in each for word in (flag, _text(one))]


def _text(value: Any) -> str:
    return number(value) if isinstance(value, float) else str(value)
