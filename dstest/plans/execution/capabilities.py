"""What the scenarios need and whether it is there, before anything is started or touched.

A plug-in is there or not; a program or right of this host is tried by `clusters/labs/hostcheck.py`;
what only a node can tell (a feature of its kernel, a package) is looked for by every run before its
load, and stands here as not known yet.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable
from typing import Final

from clusters.labs.hostcheck import host_rows
from dstest import __version__
from dstest.core import registry
from dstest.core.errors import DstestError
from dstest.core.node_features import FEATURES, remedy_of
from dstest.core.spec import RunSpec
from dstest.plans.execution.state import Capability
from dstest.plans.model import Plan

_GROUP_OF: Final = {
    "lab": "labs",
    "system": "systems",
    "workload": "workloads",
    "nemesis": "nemeses",
    "checker": "checkers",
}
"""The word of a requirement -> the group of plug-ins."""


def capabilities_of(plan: Plan) -> list[Capability]:
    """The matrix: this host first, then what the labs of the scenarios lack on it, then the rows of
    section 6b."""
    every = [scenario.id for scenario in plan.scenarios]
    by_lab: dict[str, list[str]] = {}
    for scenario in plan.scenarios:
        kind = RunSpec().lab if scenario.run is None else scenario.run.lab or RunSpec().lab
        by_lab.setdefault(kind, []).append(scenario.id)
    made_here = by_lab.get(RunSpec().lab, [])
    rows = [
        Capability(
            needs="python",
            present=True,
            version=platform.python_version(),
            source="this process",
            scenarios=every,
        ),
        Capability(
            needs="dstest",
            present=True,
            version=__version__,
            source="this process",
            scenarios=every,
        ),
    ]
    rows += [
        Capability(
            needs=row.name,
            present=row.ok,
            version="",
            source=row.detail,
            scenarios=made_here,
            install=row.remedy or "",
        )
        for row in (host_rows() if made_here else ())
        if not row.optional
    ]
    rows += [row for kind, ids in by_lab.items() for row in _of_lab(kind, ids)]
    rows += [_row(r.needs, r.floor, list(r.scenarios), r.install) for r in plan.requirements]
    return rows


def _of_lab(kind: str, scenarios: list[str]) -> list[Capability]:
    """What a kind of labs lacks on this host."""
    try:
        lacks = dict(registry.load("labs", kind).missing())
    except DstestError as error:
        lacks = {f"lab {kind}": error.remedy or error.message}
    return [
        Capability(
            needs=what,
            present=False,
            version="",
            source=f"asked of the lab {kind}",
            scenarios=scenarios,
            install=remedy,
        )
        for what, remedy in lacks.items()
    ]


def _row(needs: str, floor: str, scenarios: list[str], install: str) -> Capability:
    kind, _, name = needs.partition(" ")
    name = name.strip("`")
    if kind in _GROUP_OF and name:
        there = all(part in registry.names(_GROUP_OF[kind]) for part in name.split(","))
        source = f"dstest list: {_GROUP_OF[kind]}" if there else f"no {kind} of that name"
        return Capability(
            needs=needs,
            present=there,
            version=__version__ if there else "",
            source=source,
            scenarios=scenarios,
            install=install or f"`dstest new {kind} {name}` writes one",
        )
    feature = needs.strip("`")
    return Capability(
        needs=needs,
        present=None,
        version=floor,
        source="looked for on each node before its run",
        scenarios=scenarios,
        install=install or (remedy_of(feature) if feature in FEATURES else ""),
    )


def lacking(rows: Iterable[Capability]) -> list[Capability]:
    """Those that are known not to be there."""
    return [row for row in rows if row.present is False]


def toolbox() -> dict[str, list[str]]:
    """Every plug-in that there is, by group."""
    return {group: sorted(registry.names(group)) for group in registry.GROUPS}
