"""`dstest list`: what fits together, and the runs in a store."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

__all__ = ["list_"]

_STORE = Path("store")


def _matrix() -> list[dict[str, Any]]:
    """Every system x workload x nemesis with the reason where it does not fit.

    `lacks` are the capabilities, and of each the methods, that the nemesis asks of the system in
    vain: always, or for faults of the kind `when` only, where it fits all the same.
    """
    from dstest.core import registry

    rows = []
    workloads = {name: registry.load("workloads", name) for name in registry.names("workloads")}
    nemeses = {name: registry.load("nemeses", name) for name in registry.names("nemeses")}
    for system_name in registry.names("systems"):
        system = registry.load("systems", system_name)
        asked = {name: _asked(system, nemesis) for name, nemesis in nemeses.items()}
        for workload_name, workload in workloads.items():
            refused = _no_client(system, workload)
            for nemesis_name, (why, lacks) in asked.items():
                reasons = [reason for reason in (refused, why) if reason]
                rows.append(
                    {
                        "system": system_name,
                        "workload": workload_name,
                        "nemesis": nemesis_name,
                        "fits": not reasons,
                        "reason": "; ".join(reasons) or None,
                        "lacks": lacks,
                    }
                )
    return rows


def _no_client(system: Any, workload: Any) -> str | None:
    """Why no client of the system can do the workload, None where one can."""
    from dstest.core.errors import ConfigError
    from dstest.runner.requirements import check_client

    if workload.capability not in system.capabilities:
        return f"{system.name} offers no {workload.capability} client"
    try:
        check_client(system, workload)
    except ConfigError as error:
        return error.message
    return None


def _asked(system: Any, nemesis: Any) -> tuple[str | None, list[dict[str, Any]]]:
    """Why no fault of the nemesis is possible on the system, None where one is; what it lacks."""
    from dstest.core.errors import ConfigError
    from dstest.runner.requirements import lacking

    try:
        lacks = lacking(system, nemesis)
    except ConfigError as error:
        return error.message, []
    always = [lack.text for lack in lacks if not lack.when]
    rows = [
        {"capability": lack.capability, "missing": list(lack.missing), "when": lack.when or None}
        for lack in lacks
    ]
    return f"{system.name} lacks {', '.join(always)}" if always else None, rows


def _note(row: dict[str, Any]) -> str:
    """Why not; or what the nemesis cannot do there, though it fits."""
    said = [row["reason"]] if row["reason"] else []
    if row["fits"]:
        said = [f"not with {lack['when']}: no {lack['capability']}" for lack in row["lacks"]]
    return f"  ({'; '.join(said)})" if said else ""


def _workloads() -> list[dict[str, Any]]:
    """What clients can do: the capability that it needs, and which checkers judge it."""
    from dstest.core import registry

    workloads = [registry.load("workloads", name) for name in registry.names("workloads")]
    return [
        {
            "workload": w.name,
            "doc": w.doc,
            "capability": w.capability,
            "model": w.model,
            "checkers": list(w.checkers),
        }
        for w in workloads
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
        typer.echo(f"{row['system']:10} {row['workload']:14} {row['nemesis']:12}{_note(row)}")
    for run in runs:
        typer.echo(f"{run['status']:32} {run['run']}")
