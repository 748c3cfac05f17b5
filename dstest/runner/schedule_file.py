"""A run's fault schedule as a file: what was planned, and a plan for another run.

    {"schema": "dstest.schedule/1", "nemesis": "partition,kill", "nodes": 5, "time_limit_s": 60.0,
     "options": {"scope": "random"},
     "plans": [{"fault_id": "f1", "nemesis": "kill", "start_ns": 4000000000,
                "duration_ns": 6000000000, "facts": {"scope": "minority"}, "heal_rank": 0}]}

Every run writes one; `dstest run --schedule FILE` and `dstest replay` follow it to the letter
instead of planning by seed. Faults due at the same time stand together.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgspec

from dstest.core.errors import ConfigError
from dstest.core.protocols import FaultPlan
from dstest.runner.planned import problem_of

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
