"""Adopting machines that exist already, and releasing them: what plug-ins say meets what is
there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from clusters.labs import state
from clusters.labs.existing import adopt, book
from clusters.labs.existing.book import Adopted
from clusters.labs.existing.entry import HostEntry
from clusters.labs.existing.lab import LAB
from clusters.labs.existing.survey import Asks, Request, Surveyed, survey
from clusters.remote import connect_all
from dstest.core import registry
from dstest.core.errors import ConfigError, DstestError, LabError, NotALabNode
from dstest.core.node_features import FEATURES
from dstest.core.protocols import SystemTraits
from dstest.core.residue import read_found
from dstest.runner.node_check import needs_of
from dstest.runner.residues import look, remove, residues

__all__ = ["COMMON_HOMES", "Adoption", "Released", "lost_nemeses", "prepare", "release_lab"]


COMMON_HOMES: Final = ("/opt/dstest", "/opt/dstest-services")
"""Of tools and services, whatever the system; nothing but ours is there."""


def homes_of(systems: Sequence[Any]) -> list[str]:
    """Directories of a node in which systems keep what is theirs."""
    return list(dict.fromkeys(h for s in systems for h in SystemTraits.of(s).homes))


class Adoption(msgspec.Struct, frozen=True, kw_only=True):
    """What was found of the machines, before anything is changed there. `problems` refuse it;
    `foreign` is what stands there that is not ours and stays, by node; `packages` what is
    installed of the systems', by node."""

    lab_id: str
    seen: list[Surveyed]
    problems: list[str]
    foreign: dict[str, list[str]]

    @property
    def touched(self) -> list[str]:
        """What adopting and running does to the machines."""
        taken = {path for one in self.seen for path in one.facts.paths}
        systems = [registry.load("systems", name) for name in registry.names("systems")]
        homes = [path for path in homes_of(systems) if path not in taken]
        return adopt.touched(self.lab_id, self.seen, homes)

    @property
    def adopted(self) -> Adopted:
        """What would be written down."""
        return adopt.adopted_of(self.lab_id, self.seen, self.foreign)

    def lost_systems(self) -> dict[str, str]:
        """System -> why it cannot be run there: directories of the machines' own in which it would
        write, packages that are not installed (of Debian alone)."""
        there = [set(one.facts.packages) for one in self.seen if one.facts.debian]
        rows = {}
        for name in registry.names("systems"):
            system = registry.load("systems", name)
            lacks = sorted(p for p in system.packages if any(p not in row for row in there))
            taken = [p for p in homes_of([system]) if any(p in o.facts.paths for o in self.seen)]
            if taken:
                rows[name] = f"{', '.join(taken)} is there already, and is not dstest's"
            elif lacks:
                rows[name] = f"not installed: {' '.join(lacks)}"
        return rows

    def carry_out(self) -> Adopted:
        """Mark the machines."""
        adopted = self.adopted
        lines = dict.fromkeys(line for one in self.seen for line in one.lines)
        path = book.folder_of(self.lab_id) / "known_hosts"
        book.write_secret(path, "".join(lines).rstrip("\n"))
        asyncio.run(adopt.mark(adopted, self.seen))
        return adopted


class Released(msgspec.Struct, frozen=True, kw_only=True):
    """`differs`: what is not as it was, by node; `problems`: why a node was not released."""

    differs: dict[str, list[str]]
    problems: dict[str, str]

    @property
    def clean(self) -> bool:
        """Are all machines as they were?"""
        return not self.problems and not any(self.differs.values())


def prepare(
    lab_id: str,
    entries: Sequence[HostEntry],
    *,
    accept: Callable[[str, str], bool],
    password: Callable[[str], str] | None,
) -> Adoption:
    """Look at the machines; nothing is changed there. Raises LabError, ConfigError."""
    state.check_lab_id(lab_id)
    if book.load(lab_id) is not None:
        raise ConfigError(
            f"lab {lab_id} is adopted already",
            remedy=f"dstest lab release --lab-id {lab_id}, or another --lab-id",
        )
    if state.load(lab_id) is not None:
        raise ConfigError(f"there is another lab {lab_id}", remedy="choose another --lab-id")
    kinds = residues()
    systems = [registry.load("systems", name) for name in registry.names("systems")]
    request = Request(
        features={name: feature.look for name, feature in FEATURES.items()},
        residues={kind.name: kind.look for kind in kinds},
        packages=sorted({p for system in systems for p in system.packages}),
        paths=[*COMMON_HOMES, *homes_of(systems)],
    )
    try:
        seen = asyncio.run(survey(lab_id, entries, request, Asks(accept, password)))
    except BaseException:
        book.forget(lab_id)
        raise
    problems, foreign = adopt.problems_of(seen), {}
    problems += [
        f"{one.alias} has {path} already, which is dstest's (of an adoption that was forgotten?)"
        for one in seen
        for path in one.facts.paths
        if path in COMMON_HOMES
    ]
    for one in seen:
        rows = []
        for kind in kinds:
            said = one.facts.residues[kind.name]
            if said.status != 0:
                problems.append(
                    f"{one.alias}: nobody can tell what is there of {kind.name}: {said.text[-200:]}"
                )
            rows += [f.what for f in read_found(kind, said.text.splitlines()) if not f.ours]
        foreign[one.info.name] = rows
    return Adoption(lab_id=lab_id, seen=seen, problems=problems, foreign=foreign)


def lost_nemeses(lacks: Mapping[str, Mapping[str, Any]]) -> dict[str, list[str]]:
    """Nemesis -> what it lacks on which nodes, of those that cannot be injected there."""
    rows: dict[str, list[str]] = {}
    for name in registry.names("nemeses"):
        for need in needs_of(registry.load("nemeses", name)):
            where = [node for node, row in lacks.items() if need in row]
            if where:
                rows.setdefault(name, []).append(f"{FEATURES[need].what} on {', '.join(where)}")
    return rows


def release_lab(lab_id: str) -> Released:
    """Take away what runs have left, then our marks; forget the machines that are as they were.

    Raises ConfigError where nothing is adopted, LabError while a run uses the machines.
    """
    from dstest.runner.session import in_use

    adopted, info = book.load(lab_id), LAB.known(lab_id)
    if adopted is None and lab_id in book.adopted_ids():
        book.forget(lab_id)  # somebody was killed while looking: no machine was touched
        return Released(differs={}, problems={})
    if adopted is None or info is None:
        raise ConfigError(
            f"no machines are adopted as lab {lab_id}",
            remedy=f"adopted: {', '.join(book.adopted_ids()) or 'nothing'}",
        )
    if in_use(info):
        raise LabError(f"a run uses lab {lab_id} now", remedy="wait for its end, or stop it")
    problems = asyncio.run(_swept(adopted)) if adopted.marked else {}
    systems = [registry.load("systems", name) for name in registry.names("systems")]
    homes = [*COMMON_HOMES, *homes_of(systems)]
    differs, unreleased = asyncio.run(adopt.release(adopted, homes))
    problems |= unreleased
    if not problems:
        book.forget(lab_id)
    return Released(differs=differs, problems=problems)


async def _swept(adopted: Adopted) -> dict[str, str]:
    """Everything that a plug-in may have left is removed; why not, by node."""
    info = LAB.known(adopted.lab_id)
    assert info is not None
    problems: dict[str, str] = {}
    kinds = residues()
    for node in info.nodes:
        one = msgspec.structs.replace(info, nodes=[node])
        try:
            nodes = await connect_all(one)
        except NotALabNode:
            continue  # it was released already, or is another lab's, which is said later
        except DstestError as error:
            problems[node.name] = error.message
            continue
        try:
            await remove(nodes, kinds)
            left = await look(nodes, kinds)
            # What is not ours and was not there before is told when both are compared.
            rows = [found.what for found in left[node.name] if found.ours]
            if rows:
                problems[node.name] = f"does not go: {', '.join(rows)}"
        except DstestError as error:
            problems[node.name] = error.message
        finally:
            await nodes[node.name].close()
    return problems
