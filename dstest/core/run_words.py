"""The words of `dstest run` that make a run, its options and its lab: whoever prints or starts a
run has them from here, so that nothing of it is lost, and each number is the number that it was.
What a command may be told of its lab goes by what the lab says of itself, not by its name."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from decimal import ROUND_CEILING, Decimal
from typing import TYPE_CHECKING, Any, Final

from dstest.core import registry
from dstest.core.run_record import RunSpec

if TYPE_CHECKING:
    from dstest.core.protocols import Option


FLAGS: Final[Mapping[str, str]] = {
    "files": "--plugin",
    "builds": "--system-version",
    "checkers": "--checker",
    "system": "--system",
    "workload": "--workload",
    "nemesis": "--nemesis",
    "lab": "--lab",
    "lab_id": "--lab-id",
    "attach": "--attach",
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

SWITCHES: Final[Mapping[str, bool]] = {
    "attach": True,
    "stop_on_violation": True,
    "monitor": False,
}
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
    fields = dict.fromkeys((*first, *FLAGS))
    return ["run", *(word for field in fields for word in _words(field, rows.get(field)))]


def _words(field: str, value: Any) -> list[str]:
    flag = FLAGS[field]
    if field in SWITCHES:
        return [flag] if value is SWITCHES[field] else []
    if value is None:
        return []
    each = value if isinstance(value, list | tuple) else [value]
    return [word for one in each for word in (flag, _text(one))]


def _text(value: Any) -> str:
    return number(value) if isinstance(value, float) else str(value)


def value_text(value: Any) -> str:
    """As one would give it; empty where nothing is given."""
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def pair_of(name: str, value: Any) -> str:
    """As it stands behind `-o`."""
    return f"{name}={value_text(value)}"


def behind_o(pairs: Iterable[str]) -> list[str]:
    """Each of them behind a `-o` of its own."""
    return [word for pair in pairs for word in ("-o", pair)]


def option_words(options: Mapping[str, Any] | None) -> list[str]:
    """The `-o` of each, as a person would write it."""
    return behind_o(pair_of(name, value) for name, value in (options or {}).items())


def allowed_values(option: Option) -> str:
    """Its choices, or its type with the bounds of a number; empty for a text that may be any."""
    if option.choices:
        return ", ".join(map(value_text, option.choices))
    if option.type is bool:
        return "true, false"
    name = option.type.__name__
    ends = (option.least, option.most)
    if ends == (None, None):
        return "" if option.type is str else name
    low, high = ("" if end is None else _number(end) for end in ends)
    if low and high:
        return f"{name}, {low} to {high}"
    return f"{name}, {low} or more" if low else f"at most {high}"


def _number(value: float) -> str:
    return f"{int(value):,}" if value == int(value) else f"{value:g}"


_LAB: Final = "--lab"


def simulates(lab: str | None) -> bool:
    """Are nodes of this kind of lab simulated? Not where nobody here knows it."""
    return bool(registry.known("labs", lab or RunSpec().lab).transport != "network")


def lab_id_words(argv: Sequence[str], lab_id: str | None) -> list[str]:
    """`--lab-id` for a command of dstest; nothing where its nodes are simulated, which come and go
    with their run, and have no name to be known by."""
    if lab_id is None or simulates(_lab_in(argv)):
        return []
    return ["--lab-id", lab_id]


def _lab_in(argv: Sequence[str]) -> str | None:
    """The kind of lab that a command names, the last of several."""
    named = None
    for word, value in itertools.zip_longest(argv, argv[1:]):
        if word == _LAB:
            named = value
        elif word.startswith(f"{_LAB}="):
            named = word.removeprefix(f"{_LAB}=")
    return named


_OWN: Final = re.compile(r"default|run-\d+|s\d+-\d+")
"""Labs that nobody has named: a run finds or makes them itself."""


def with_lab(spec: dict[str, Any], lab_id: str | None) -> dict[str, Any]:
    """The spec of a run with the lab that somebody has named for it."""
    named = lab_id is not None and not _OWN.fullmatch(lab_id)
    return {**spec, "lab_id": lab_id} if spec and named else spec


def command_of(spec: dict[str, Any], given: Sequence[str] | None = None) -> str:
    """The command line that runs the same operations and faults again; empty for an import.

    `given` are the `key=value` pairs that the user gave; without them all options are spelt out.
    """
    if not spec:
        return ""
    if spec.get("schedule") is not None:
        spec = {**spec, "nemesis": None}  # a schedule names its own faults
    if given is None:
        options = sorted(spec.get("options", {}).items())
        given = [pair_of(key, value) for key, value in options if value_text(value)]
    return shlex.join(["dstest", *run_words(spec, given)])


def case_name(spec: Mapping[str, Any], given: Iterable[str] = ()) -> str:
    """What a run tests, as the name of a test case: the same each time it is run, whatever its seed
    and its directory are. Empty for what was not made here. `given` are its `-o key=value`."""
    if not spec:
        return ""
    faults = "schedule" if spec.get("schedule") else str(spec.get("nemesis") or "none")
    return " ".join([faults, *sorted(given), f"{spec.get('nodes', 0)} nodes"])
