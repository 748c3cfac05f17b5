"""The page of `make systems-selftest`: which fault has landed on which system, with its numbers."""

from __future__ import annotations

from collections.abc import Sequence

from selftest_table import Seen, short

from dstest.core import registry
from dstest.runner.nemesis_loop import describe
from dstest.runner.requirements import lacking

__all__ = ["TESTED", "faults_on", "lacks", "systems_table"]

TESTED = tuple(name for name in registry.names("systems") if name != "etcd")
"""Systems on which each fault is tried; etcd's are tried one by one, by `make nemesis-selftest`."""

_HEAD = """\
# Faults on systems

Written by `make systems-selftest`, which tries every fault that fits on a five-node lab. `lacks`:
refused when a run is planned, since the system does not offer what the fault asks for. Else what
the landing record of a run says: the fault has landed by both of its sides and was healed. A `-`
has not landed. What etcd's column says is from `dstest list`.

"""


def lacks(system: str, nemesis: str) -> list[str]:
    """The capabilities for want of which no fault of the nemesis is possible on the system."""
    found = lacking(registry.load("systems", system), registry.load("nemeses", nemesis))
    return [lack.capability for lack in found if not lack.when]


def faults_on(system: str) -> list[str]:
    """Nemeses with a fault that is possible on the system."""
    return [n for n in registry.names("nemeses") if n != "none" and not lacks(system, n)]


def _landed(system: str, nemesis: str, seen: Sequence[Seen]) -> str:
    for run in seen:
        for record in run.records:
            same = (run.system, record.nemesis) == (system, nemesis)
            if same and record.landed == "yes" and record.heal_verified and not run.leaks:
                return f"landed: {short(describe(record))}"
    return "-"


def systems_table(seen: list[Seen]) -> str:
    """Markdown; `seen` are the runs of tests that passed."""
    systems = ["etcd", *TESTED]
    lines = [f"| fault | {' | '.join(systems)} |", "|---" * (len(systems) + 1) + "|"]
    for nemesis in registry.names("nemeses"):
        cells = []
        for system in systems:
            if missing := lacks(system, nemesis):
                cells.append(f"lacks {', '.join(missing)}")
            elif nemesis == "none" or system not in TESTED:
                cells.append("fits")
            else:
                cells.append(_landed(system, nemesis, seen))
        lines.append(f"| {nemesis} | {' | '.join(cells)} |")
    return _HEAD + "\n".join(lines) + "\n"
