"""`dstest list`: what fits together, and the runs in a store."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

__all__ = ["list_"]

_STORE = Path("store")


def _matrix() -> list[dict[str, Any]]:
    """Every system x workload x nemesis with the reason where it does not fit."""
    from dstest.core import registry

    rows = []
    for system_name in registry.names("systems"):
        system = registry.load("systems", system_name)
        for workload_name in registry.names("workloads"):
            workload = registry.load("workloads", workload_name)
            fits = workload.capability in system.capabilities
            why = None if fits else f"{system_name} offers no {workload.capability} client"
            rows += [
                {
                    "system": system_name,
                    "workload": workload_name,
                    "nemesis": nemesis_name,
                    "fits": fits,
                    "reason": why,
                }
                for nemesis_name in registry.names("nemeses")
            ]
    return rows


def _workloads() -> list[dict[str, Any]]:
    """What clients can do: the capability that it needs, and which checkers judge it."""
    from dstest.core import registry

    found = [registry.load("workloads", name) for name in registry.names("workloads")]
    return [
        {
            "workload": w.name,
            "doc": w.doc,
            "capability": w.capability,
            "model": w.model,
            "checkers": list(w.checkers),
        }
        for w in found
    ]


def _checkers() -> list[dict[str, Any]]:
    """Every checker with the models that it knows."""
    from dstest.core import registry

    found = [registry.load("checkers", name) for name in registry.names("checkers")]
    return [{"checker": c.name, "kind": c.kind, "models": list(c.models)} for c in found]


def _runs(store: Path) -> list[dict[str, str]]:
    statuses = sorted(store.glob("*/*/status"), key=lambda path: path.parent.name)
    return [{"run": str(s.parent), "status": s.read_text().strip()} for s in statuses]


def list_(
    store: Annotated[Path, typer.Option(help="Where run directories are.")] = _STORE,
    json_: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """What can be run, and what was."""
    import msgspec

    matrix, runs = _matrix(), _runs(store)
    if json_:
        shown = {"matrix": matrix, "workloads": _workloads(), "checkers": _checkers()}
        typer.echo(msgspec.json.encode({**shown, "runs": runs}).decode())
        return
    for row in _workloads():
        judges = ", ".join(row["checkers"])
        typer.echo(f"workload {row['workload']:14} {row['capability']:13} {judges}: {row['doc']}")
    for row in _checkers():
        typer.echo(f"checker  {row['checker']:14} {', '.join(row['models'])}")
    for row in matrix:
        note = "" if row["fits"] else f"  ({row['reason']})"
        typer.echo(f"{row['system']:10} {row['workload']:14} {row['nemesis']:12}{note}")
    for run in runs:
        typer.echo(f"{run['status']:32} {run['run']}")
