"""The page of `make systems-selftest`: which fault has landed on which system.

All pairs take hours together, so what was tried, and what each landing record says, is kept beside
the page (`docs/systems.json`). A run of some of them (`TEST_ARGS="-k zookeeper"`) replaces their
rows alone.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence
from pathlib import Path

import msgspec
from selftest_table import Seen, short

from dstest.core import registry
from dstest.core.errors import ConfigError
from dstest.core.run_record import RunSpec
from dstest.runner.nemesis_loop import describe
from dstest.runner.requirements import check_lab, lacking

__all__ = [
    "TESTED",
    "Tried",
    "elsewhere",
    "faults_on",
    "lacks",
    "pairs_of",
    "systems_page",
    "systems_table",
]

TESTED = tuple(name for name in registry.names("systems") if name != "etcd")
"""Systems on which each fault is tried; etcd's are tried one by one, by `make nemesis-selftest`."""

_HEAD = """\
# Faults on systems

Which fault lands on which system, with the builds of Debian 12 on a five-node lab. Written by
`make systems-selftest`, with one run for each pair:

    dstest run --system S --workload W --nemesis N --seed 11 --rate 200 --time-limit 15 \\
        -o fault_s=4 -o quiet_s=8

W is `register`, or `work-queue`, or else the first workload for which the system has clients. NATS
under fsync-error and slow-disk had `-o fault_s=70 --time-limit 81`, RabbitMQ under io-error
`-o fault_s=15 --time-limit 26`, Tarantool under fsync-error and slow-disk `-o wal_mode=fsync`.
`systems.json` beside this page has the counts of each landing.

| | |
|---|---|
| **landed** | proven at the node and at the victim, and healed |
| no | refused before the run: `dstest list --system NAME` says what the system lacks |
| fits | of etcd, on which `make nemesis-selftest` tries each fault |
| other lab | needs more than this lab can do, such as a clock for each node (`--lab vm`) |
| missed | tried, not landed; the reason is below |
| - | fits, not tried yet |

"""


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """A fault on a system; `landed` is what its record says, empty where it has not landed.

    `why` it misses is written by hand, and stays for as long as it does.
    """

    system: str
    nemesis: str
    landed: str
    why: str = ""


Rows = dict[tuple[str, str], Tried]
"""By system and nemesis."""


@functools.cache
def lacks(system: str, nemesis: str) -> tuple[str, ...]:
    """The capabilities for want of which no fault of the nemesis is possible on the system."""
    found = lacking(registry.load("systems", system), registry.load("nemeses", nemesis))
    return tuple(lack.capability for lack in found if not lack.when)


@functools.cache
def elsewhere(nemesis: str, lab: str = RunSpec().lab) -> bool:
    """Does the nemesis ask for what a lab cannot do?"""
    try:
        check_lab(registry.load("labs", lab), registry.load("nemeses", nemesis))
    except ConfigError:
        return True
    return False


def faults_on(system: str) -> list[str]:
    """Nemeses with a fault that is possible on the system, in the lab of these tests."""
    names = [name for name in registry.names("nemeses") if name != "none"]
    return [n for n in names if not lacks(system, n) and not elsewhere(n)]


def pairs_of(tests: Collection[str]) -> list[tuple[str, str]]:
    """The pairs that tests of these node ids try: `...[SYSTEM-NEMESIS]`."""
    ends = {test.partition("[")[2].removesuffix("]") for test in tests}
    return [(s, n) for s in TESTED for n in faults_on(s) if f"{s}-{n}" in ends]


def _landed(system: str, nemesis: str, seen: Sequence[Seen]) -> str:
    for run in seen:
        for record in run.records:
            same = (run.system, record.nemesis) == (system, nemesis)
            if same and record.landed == "yes" and record.heal_verified and not run.leaks:
                return short(describe(record))
    return ""


def _joined(known: Sequence[Tried], seen: Sequence[Seen], tests: Collection[str]) -> Rows:
    rows = {
        (row.system, row.nemesis): row
        for row in known
        if row.system in TESTED and row.nemesis in faults_on(row.system)
    }
    for system, nemesis in pairs_of(tests):
        told = _landed(system, nemesis, seen)
        earlier = rows.get((system, nemesis))
        why = "" if told or earlier is None else earlier.why
        rows[system, nemesis] = Tried(system=system, nemesis=nemesis, landed=told, why=why)
    return dict(sorted(rows.items()))


def _cell(system: str, nemesis: str, rows: Rows) -> str:
    if lacks(system, nemesis):
        return "no"
    if elsewhere(nemesis):
        return "other lab"
    if system not in TESTED:
        return "fits"
    row = rows.get((system, nemesis))
    return "-" if row is None else "**landed**" if row.landed else "missed"


def _missed(rows: Rows) -> list[str]:
    """Why a fault has not landed, where it is known."""
    told = [row for row in rows.values() if row.why]
    lines = ["", "## Missed", "", "| system | fault | why |", "|---|---|---|"]
    return [*lines, *(f"| {row.system} | {row.nemesis} | {row.why} |" for row in told)]


def systems_page(rows: Rows) -> str:
    """Markdown: one grid, and why some have not landed."""
    systems = ["etcd", *TESTED]
    lines = [f"| fault | {' | '.join(systems)} |", "|---" * (len(systems) + 1) + "|"]
    for nemesis in registry.names("nemeses"):
        if nemesis != "none":
            cells = [_cell(system, nemesis, rows) for system in systems]
            lines.append(f"| {nemesis} | {' | '.join(cells)} |")
    return _HEAD + "\n".join([*lines, *_missed(rows)]) + "\n"


def systems_table(seen: Sequence[Seen], tests: Collection[str], page: Path) -> str:
    """The page, with what was just tried; `seen` are the runs of tests that passed, `tests` the
    node ids of all that were run. What is known is read from beside the page, and written there."""
    kept = page.with_suffix(".json")
    known = msgspec.json.decode(kept.read_bytes(), type=list[Tried]) if kept.exists() else []
    rows = _joined(known, seen, tests)
    kept.write_bytes(
        msgspec.json.format(msgspec.json.encode(list(rows.values())), indent=1) + b"\n"
    )
    return systems_page(rows)
