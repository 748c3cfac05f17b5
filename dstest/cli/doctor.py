"""`dstest doctor`: what this machine has and lacks, one row per capability, each with a remedy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from dstest.cli.options import JsonArray
from dstest.cli.output import say
from dstest.core.errors import Exit, LabError

if TYPE_CHECKING:
    from clusters.labs.hostcheck import Capability

ROOMS = ("nemeses", "workloads", "checkers", "clusters")


def doctor(
    as_json: JsonArray = False,
) -> None:
    """Check this machine and the labs that run on it. Exit 0 when all is well, else 4.

    What only some labs need is tried too: a host without it is well all the same. So is one whose
    user is not root, where --lab rootless works.
    """
    from clusters.labs.hostcheck import host_rows

    rows = [*_rooms(), *host_rows(), *_second_opinions()]
    if as_json:
        import msgspec

        say(msgspec.json.format(msgspec.json.encode(rows), indent=2).decode())
    else:
        for row in rows:
            found = "ok" if row.ok else "without" if row.optional else "MISSING"
            typer.echo(f"{found:7}  {row.name}: {row.detail}")
            if row.remedy:
                typer.echo(f"         remedy: {row.remedy}")
    raise typer.Exit(Exit.PASS if all(row.ok or row.optional for row in rows) else Exit.HARNESS)


def _rooms() -> list[Capability]:
    """Our packages have everyday names: another distribution's `checkers` could come first."""
    import importlib

    import dstest
    from clusters.labs.hostcheck import Capability

    home = Path(str(dstest.__file__)).parents[1]
    rows = []
    for name in ROOMS:
        folder = Path(str(importlib.import_module(name).__file__)).parents[1]
        rows.append(
            Capability(
                name=f"package {name}",
                ok=folder == home,
                detail=str(folder),
                remedy=None
                if folder == home
                else f"{folder} comes before {home}: uninstall the other package called {name}",
            )
        )
    return rows


def _second_opinions() -> list[Capability]:
    from clusters.labs.hostcheck import Capability
    from clusters.remote.chores import second_opinion
    from dstest.cli.lab_common import every_lab, lab_of_kind, way_out
    from dstest.core.node import Inspects, Secluded

    rows = []
    for kind, lab_id in every_lab(None):
        lab = lab_of_kind(kind)
        info = lab.status(lab_id)
        if isinstance(lab, Secluded) or not isinstance(lab, Inspects):
            continue  # nobody but the command that has it reaches its nodes
        remedy = f"dstest lab status --lab-id {lab_id}; {way_out(lab_id)}"
        if info is None:
            lacks = "; ".join(lab.examine(lab_id)) or "nothing of it runs"
            rows.append(Capability(name=f"lab {lab_id}", ok=False, detail=lacks, remedy=remedy))
            continue
        for node in info.nodes:
            name = f"lab {lab_id}, {node.name} by paramiko"
            try:
                seen = second_opinion(node)
            except LabError as error:
                rows.append(Capability(name=name, ok=False, detail=error.message, remedy=remedy))
                continue
            ok = seen["lab_id"] == lab_id
            detail = f"{seen['server']}, {seen['host_key']}, {seen['seconds'] * 1e3:.0f} ms"
            if not ok:
                detail = f"its marker says {seen['lab_id']!r}"
            rows.append(Capability(name=name, ok=ok, detail=detail, remedy=None if ok else remedy))
    return rows
