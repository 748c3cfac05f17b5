"""A plan of faults: what any must be, whoever made it, a nemesis by its seed or a file; its file.

    {"schema": "dstest.schedule/1", "nemesis": "partition,kill", "nodes": 5, "time_limit_s": 60.0,
     "options": {"scope": "random"},
     "plans": [{"fault_id": "f1", "nemesis": "kill", "start_ns": 4000000000,
                "duration_ns": 6000000000, "facts": {"scope": "minority"}, "heal_rank": 0}]}

Every run writes one; `dstest run --schedule FILE` and `dstest replay` follow it to the letter
instead of planning by seed. Faults due at the same time stand together.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from dstest.core.errors import ConfigError
from dstest.core.evidence import FaultDetails
from dstest.core.protocols import FaultPlan, Option
from dstest.core.recordable import not_json

OPEN: Final = "random"

_OF_RUNS: Final = frozenset(FaultDetails.__struct_fields__) - {"moment"}
"""Facts by which a fault is judged. The moment is planned, and what came of it is added there."""

_FAULT_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,31}")
"""It names files, leases and rules on the nodes."""


def problem_of(plans: Sequence[FaultPlan], names: Sequence[str]) -> str | None:
    """What is wrong with these plans of nemeses of these names, None where nothing is."""
    ids = [plan.fault_id for plan in plans]
    for name in ids:
        if not _FAULT_ID.fullmatch(name):
            return f"a fault_id is {name!r}: up to 32 letters, digits and any of _.- are allowed"
    if len(set(ids)) < len(ids):
        return "two faults have the same fault_id"
    starts = [plan.start_ns for plan in plans]
    if starts != sorted(starts):
        return "its faults are not in order of start_ns"
    for plan in plans:
        if plan.nemesis not in names:
            return f"{plan.fault_id} is a {plan.nemesis}, which its nemesis does not name"
        if plan.start_ns < 0 or plan.duration_ns <= 0:
            return f"{plan.fault_id} has no time"
        if said := sorted(_OF_RUNS & plan.facts.keys()):
            return f"{plan.fault_id} has the fact {said[0]}, which its run is to find out"
        if odd := not_json(plan.facts):
            return f"its plan() gives {plan.fault_id} the fact {odd}, which no schedule can hold"
    return None


def completed(
    plans: Sequence[FaultPlan], samples: Sequence[FaultPlan], options: Mapping[str, Option]
) -> list[FaultPlan]:
    """The plans, with the defaults of options that are younger than them. An option whose default
    is no fact, since a plan chooses or reads it, is left out."""
    missing: dict[str, dict[str, Any]] = {}
    for sample in samples:
        for key, value in sample.facts.items():
            default = options[key].default if key in options else OPEN
            if default != OPEN and type(default) is type(value):
                missing.setdefault(sample.nemesis, {})[key] = default
    found = []
    for plan in plans:
        # In the order that it has, so that a schedule that lacks nothing is written as it was read.
        more = {k: v for k, v in missing.get(plan.nemesis, {}).items() if k not in plan.facts}
        found.append(msgspec.structs.replace(plan, facts={**plan.facts, **more}))
    return found


_PLAIN: Final = re.compile(r"[A-Za-z0-9_.,:+ -]*")
"""What facts are made of: some of them reach nodes."""


def facts_problem(
    plans: Sequence[FaultPlan], samples: Sequence[FaultPlan], options: Mapping[str, Option]
) -> str | None:
    """What no nemesis would plan so: facts that are lacking, or have no such value.

    `samples` are plans of the same nemeses as they make them, with the same options.
    """
    made: dict[tuple[str, str], list[Any]] = {}
    for sample in samples:
        for key, value in sample.facts.items():
            made.setdefault((sample.nemesis, key), []).append(value)
    for plan in plans:
        lacking = {key for nemesis, key in made if nemesis == plan.nemesis} - plan.facts.keys()
        if lacking:
            return f"{plan.fault_id} does not say its {', '.join(sorted(lacking))}"
        for key in plan.facts.keys() & options.keys():
            # A plan has made the choice that such an option leaves open.
            choices = [each for each in options[key].choices if each != OPEN]
            choices += [each for each in made.get((plan.nemesis, key), ()) if each not in choices]
            if options[key].choices and plan.facts[key] not in choices:
                return f"{plan.fault_id}: {key} is {plan.facts[key]!r}, none of {choices}"
        for key, value in plan.facts.items():
            odd = [word for word in _words(value) if not _PLAIN.fullmatch(word)]
            if odd and value not in made.get((plan.nemesis, key), ()):
                return f"{plan.fault_id}: {key} is {odd[0]!r}, which no nemesis says"
    return None


def _words(value: Any) -> Iterator[str]:
    """All texts in a fact."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _words(key)
            yield from _words(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _words(inner)


def end_ns(plans: Sequence[FaultPlan]) -> int:
    """When the last of them ends, in run time; 0 without any."""
    return max((plan.start_ns + plan.duration_ns for plan in plans), default=0)


SCHEDULE: Final = "schedule.json"
"""Its name in a run directory."""

_SCHEMA: Final = "dstest.schedule/1"


class Schedule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`options` are the nemesis' own, typed. `time_limit_s` is what the plan was made for."""

    schema: str = _SCHEMA
    nemesis: str
    nodes: int
    time_limit_s: float
    options: dict[str, Any] = msgspec.field(default_factory=dict)
    plans: list[FaultPlan] = msgspec.field(default_factory=list)


def _problem(schedule: Schedule) -> str | None:
    """What is wrong with the plans, None where nothing is."""
    names = [name.strip() for name in schedule.nemesis.split(",")]
    if schedule.schema != _SCHEMA:
        return f"its schema is {schedule.schema!r}, not {_SCHEMA!r}"
    if found := problem_of(schedule.plans, names):
        return found
    absent = set(names) - {"none"} - {plan.nemesis for plan in schedule.plans}
    if absent:
        return f"it plans no {' and no '.join(sorted(absent))}"
    return None


def read_schedule(path: Path) -> Schedule:
    """The schedule in a file. Raises ConfigError where there is none."""
    remedy = f"a run keeps its own as {SCHEDULE} in its directory"
    try:
        schedule = msgspec.json.decode(path.read_bytes(), type=Schedule)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}", remedy=remedy) from None
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise ConfigError(f"{path} is no fault schedule: {error}", remedy=remedy) from None
    problem = _problem(schedule)
    if problem is not None:
        raise ConfigError(f"{path} is no fault schedule: {problem}", remedy=remedy)
    return schedule
