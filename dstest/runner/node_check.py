"""What nodes lack of what a run asks of them, found before anything is started there."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Final

from dstest.core.errors import FaultRefused, LabError
from dstest.core.node import LabInfo, Node
from dstest.core.node_features import FEATURES, alternatives, remedy_of, what_of
from dstest.core.protocols import Composite, FaultPlan, NemesisTraits, System, SystemTraits

LOOK_S: Final = 30.0
_MARK: Final = "== status "


def _parts(nemesis: Any) -> list[Any]:
    return list(nemesis.parts.values()) if isinstance(nemesis, Composite) else [nemesis]


def needs_of(nemesis: Any, plans: Sequence[FaultPlan] = ()) -> tuple[str, ...]:
    """Features of nodes that the nemesis, or any part of it, needs; and its planned faults."""
    found = {need: None for part in _parts(nemesis) for need in NemesisTraits.of(part).needs}
    for part in _parts(nemesis):
        facts = [plan.facts for plan in plans if plan.nemesis == part.name]
        for when in NemesisTraits.of(part).requires_when:
            if any(fact.get(when.fact) == when.value for fact in facts):
                found |= dict.fromkeys(when.needs)
    return tuple(found)


async def check_features(
    nodes: Mapping[str, Node], nemesis: Any, plans: Sequence[FaultPlan] = ()
) -> None:
    """Raises FaultRefused, with node, feature and reason, where one is not there."""
    needs = needs_of(nemesis, plans)
    if not needs:
        return
    names = list(dict.fromkeys(name for need in needs for name in alternatives(need)))
    looks = [f"sh -c {shlex.quote(FEATURES[n].look)} 2>&1; echo {_MARK}$?" for n in names]

    async def one(node: Node) -> list[tuple[str, str, str]]:
        argv = ["sh", "-c", "\n".join(looks)]
        done = await node.run(argv, timeout_s=LOOK_S, check=False)
        whys = dict(zip(names, _reasons(done.stdout, len(names)), strict=True))
        lacks = []
        for need in needs:
            said = [whys[name] for name in alternatives(need)]
            if all(why is not None for why in said):
                lacks.append((node.name, need, "; ".join(filter(None, said))))
        return lacks

    found = [row for rows in await asyncio.gather(*map(one, nodes.values())) for row in rows]
    if found:
        raise FaultRefused(
            f"{nemesis.name} cannot be injected: "
            + "; ".join(f"{name} lacks {what_of(need)} ({why})" for name, need, why in found),
            remedy="; ".join(dict.fromkeys(remedy_of(need) for _, need, _ in found)),
        )


def _reasons(text: str, number: int) -> list[str | None]:
    """Of each look, why there is no such feature; None where there is."""
    # A part begins with the status of the look before.
    first, *parts = text.split(_MARK)
    rows = [part.partition("\n") for part in parts]
    said = [first, *(after for _, _, after in rows)]
    whys: list[str | None] = []
    for index in range(number):
        status = rows[index][0].strip() if index < len(rows) else "unknown"
        words = said[index].strip()[-200:] if index < len(said) else ""
        whys.append(None if status == "0" else words or f"status {status}")
    return whys


async def check_installed(lab: LabInfo, nodes: Mapping[str, Node], system: System) -> None:
    """On machines that were not made for us: raises LabError where the system's packages are not
    installed, or where it would write into what is the machine's own.

    Where nodes are not Debian's nobody can tell by packages: then the system's start does.
    """
    if lab.made is not None:
        return
    rows_taken = lab.adopted.taken if lab.adopted is not None else {}
    taken = {path for name in nodes for path in rows_taken.get(name, ())}
    if there := sorted(taken & {*SystemTraits.of(system).homes}):
        raise LabError(
            f"{', '.join(there)} was there before dstest, and {system.name} would write into it",
            remedy="move it away, `dstest lab release`, and adopt the machines again",
        )
    names = sorted(system.packages)

    async def one(node: Node) -> list[str]:
        argv = ["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\\n", *names]
        try:
            done = await node.run(argv, timeout_s=LOOK_S, check=False)
        except LabError:
            return []  # it has no dpkg-query
        there = {line.split()[0] for line in done.stdout.splitlines() if line.endswith("installed")}
        return [name for name in names if name not in there]

    rows = dict(zip(nodes, await asyncio.gather(*map(one, nodes.values())), strict=True))
    if lacking := {name: row for name, row in rows.items() if row}:
        everything = sorted({package for row in lacking.values() for package in row})
        raise LabError(
            f"{system.name} needs what is not installed: "
            + "; ".join(f"{name} lacks {', '.join(row)}" for name, row in lacking.items()),
            remedy=f"on these nodes: apt-get install -y --no-install-recommends"
            f" {' '.join(everything)}; dstest installs nothing there. Where that starts a server,"
            " `systemctl disable --now` it: a run starts its own",
        )
