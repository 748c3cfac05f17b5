"""Adopting machines that exist already, and releasing them: what plug-ins say meets what is
there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any

import msgspec

from clusters.labs import state
from clusters.labs.existing import adopt, book
from clusters.labs.existing.arrive import Accept
from clusters.labs.existing.book import Adopted
from clusters.labs.existing.entry import ASK, HostEntry
from clusters.labs.existing.lab import LAB
from clusters.labs.existing.survey import Asks, Request, Surveyed, asking, survey
from clusters.remote import connect_all
from dstest.core import registry
from dstest.core.errors import ConfigError, DstestError, LabError, NotALabNode
from dstest.core.node import LabInfo, NodeInfo, both_names
from dstest.core.node_features import FEATURES, alternatives, what_of
from dstest.core.protocols import NemesisTraits
from dstest.core.residue import MAY_TOUCH, read_found
from dstest.runner.homes import COMMON_HOMES, homes_of, is_shared, places_of
from dstest.runner.lab_lock import alone, in_use
from dstest.runner.node_check import needs_of
from dstest.runner.residues import look, remove, residues


class Adoption(msgspec.Struct, frozen=True, kw_only=True):
    """What was found of the machines, before anything is changed there. `problems` refuse it;
    `foreign` is what stands there that is not ours and stays, by node; `homes` are the
    directories that were asked about; `places` those in which the systems that were named for these
    machines would write."""

    lab_id: str
    seen: list[Surveyed]
    problems: list[str]
    foreign: dict[str, list[str]]
    homes: list[str]
    places: Mapping[str, Sequence[str]] = {}

    @property
    def touched(self) -> list[str]:
        """What adopting and running does to the machines."""
        taken = {path for one in self.seen for path in one.facts.paths}
        homes = [path for path in self.homes if path not in taken]
        return adopt.touched(self.lab_id, self.seen, homes)

    @property
    def adopted(self) -> Adopted:
        """What would be written down."""
        return adopt.adopted_of(self.lab_id, self.seen, self.foreign, self.homes)

    def lost_systems(self) -> dict[str, str]:
        """System -> why it cannot be run there, by machine: directories of its own in which the
        system would write, packages that are not installed (where it can tell)."""
        rows = {}
        for name in registry.names("systems"):
            system = registry.load("systems", name)
            places = self.places.get(name) or homes_of([system])
            whys: dict[str, list[str]] = {}
            for one in self.seen:
                there, has = both_names(one.info.name, one.alias), one.facts.packages
                if taken := [path for path in places if path in one.facts.paths]:
                    own = any(map(is_shared, taken))
                    advice = "" if own else "move it away, or "
                    advice += "let it write below a directory of its own"
                    why = f"{', '.join(taken)} is there already, and is not dstest's ({advice})"
                    whys.setdefault(why, []).append(there)
                elif lacks := sorted(
                    p for p in system.packages if has is not None and p not in has
                ):
                    whys.setdefault(f"not installed: {' '.join(lacks)}", []).append(there)
            if whys:
                rows[name] = "; ".join(f"{', '.join(on)}: {why}" for why, on in whys.items())
        return rows

    def refuse_lost(self) -> None:
        """Raises LabError where a system that is meant to run there cannot."""
        lost = {name: why for name, why in self.lost_systems().items() if name in self.places}
        if lost:
            raise LabError(
                "; ".join(
                    f"{name} cannot run on these machines: {why}" for name, why in lost.items()
                ),
                remedy="put that right and adopt again, or adopt without --system; nothing was"
                " changed on them",
            )

    def carry_out(self) -> Adopted:
        """Mark the machines."""
        adopted = self.adopted
        lines = dict.fromkeys(line for one in self.seen for line in one.lines)
        path = book.folder_of(self.lab_id) / "known_hosts"
        book.write_secret(path, "".join(lines).rstrip("\n"))
        asyncio.run(adopt.mark(adopted, self.seen))
        return adopted


class Released(msgspec.Struct, frozen=True, kw_only=True):
    """By node: `ours` is what we have left there or taken away, `others` what somebody else has
    changed meanwhile, `said` what there is to know besides; `problems`: why a node was not
    released; `called`: what the user calls it."""

    ours: dict[str, list[str]]
    others: dict[str, list[str]]
    said: dict[str, list[str]]
    problems: dict[str, str]
    called: dict[str, str] = msgspec.field(default_factory=dict)

    def shown(self, name: str) -> str:
        """See `both_names`."""
        return both_names(name, self.called.get(name, name))

    @property
    def clean(self) -> bool:
        """Is nothing of ours on any machine?"""
        return not self.problems and not any(self.ours.values())

    @property
    def same(self) -> bool:
        """Are all machines as they were?"""
        return self.clean and not any(self.others.values())


def prepare(
    lab_id: str,
    entries: Sequence[HostEntry],
    *,
    accept: Accept,
    password: Callable[[str], str] | None,
    systems: Sequence[str] = (),
) -> Adoption:
    """Look at the machines; nothing is changed there. `systems` are meant to run there: it is asked
    where they would write. Whoever calls it has the record to itself (`book.held`) until the
    machines are marked. Raises LabError, ConfigError."""
    state.check_lab_id(lab_id)
    if (known := book.load(lab_id)) is not None:
        half = "" if known.whole else ", though not all of its machines are marked"
        raise ConfigError(
            f"lab {lab_id} is adopted already{half}",
            remedy=f"dstest lab release --lab-id {lab_id}, or another --lab-id",
        )
    if state.load(lab_id) is not None:
        raise ConfigError(f"there is another lab {lab_id}", remedy="choose another --lab-id")
    book.forget(lab_id)  # what somebody has left who was killed while looking
    kinds = residues()
    every = [registry.load("systems", name) for name in registry.names("systems")]
    places = {name: places_of(registry.load("systems", name)) for name in systems}
    homes = [*dict.fromkeys([*COMMON_HOMES, *homes_of(every), *chain(*places.values())])]
    request = Request(
        features={name: feature.look for name, feature in FEATURES.items()},
        residues={kind.name: kind.look for kind in kinds},
        packages=sorted({p for system in every for p in system.packages}),
        paths=homes,
    )
    asks = Asks(accept=accept)
    try:
        if password is not None:
            entries = _with_passwords(lab_id, entries, asks, password)
        seen = asyncio.run(survey(lab_id, entries, request, asks))
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
                why = said.text[-200:].strip() or f"the look ends with status {said.status}"
                problems.append(f"{one.alias}: nobody can tell what is there of {kind.name}: {why}")
            there = read_found(kind, said.text.splitlines())
            # Processes that a fault could have left like that, where no service of ours is.
            asked = kind.home == "" and MAY_TOUCH not in kind.look and one.facts.marker is None
            rows += [f.what for f in there if not (f.ours and (asked or kind.home))]
            problems += [
                f"{one.alias} has {f.what}, which looks like dstest's: remove it there first"
                for f in there
                if f.ours and asked
            ]
        foreign[one.info.name] = rows
    return Adoption(
        lab_id=lab_id, seen=seen, problems=problems, foreign=foreign, homes=homes, places=places
    )


def _with_passwords(
    lab_id: str, entries: Sequence[HostEntry], asks: Asks, password: Callable[[str], str]
) -> list[HostEntry]:
    """One question after the other, while nothing waits for the answers. An empty answer is the one
    before, of the same user."""
    silent = [e for e in entries if not e.password and e.password_path in ("", ASK)]
    unsure = [e for e in silent if e.password_path == "" and e.ssh.user != "root"]
    wanted = [e.alias for e in silent if e.password_path == ASK and e.ssh.user != "root"]
    if unsure:
        wanted += [entry.alias for entry in asyncio.run(asking(lab_id, unsure, asks))]
    last: dict[str, str] = {}
    rows = []
    for entry in entries:
        answer = entry.password
        if entry.alias in wanted:
            user = entry.ssh.user
            same = f" (empty: the same {user} has above)" if user in last else ""
            answer = password(f"sudo password of {entry.ssh.where}{same}: ") or last.get(user, "")
            last[user] = answer
        rows.append(msgspec.structs.replace(entry, password=answer))
    return rows


def lost_nemeses(lacks: Mapping[str, Mapping[str, Any]]) -> dict[str, list[str]]:
    """Nemesis -> what it lacks on which nodes, of those that cannot be injected there."""
    rows: dict[str, list[str]] = {}
    nemeses = [registry.load("nemeses", name) for name in registry.names("nemeses")]
    pairs = [(one.name, need) for one in nemeses for need in needs_of(one)]
    for one in nemeses:
        whens = NemesisTraits.of(one).requires_when
        pairs += [(f"{one.name} with {when}", need) for when in whens for need in when.needs]
    for name, need in pairs:
        names = alternatives(need)
        where = [node for node, row in lacks.items() if all(name in row for name in names)]
        if where:
            rows.setdefault(name, []).append(f"{what_of(need)} on {', '.join(where)}")
    return rows


def other_ways(lacks: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """What is done in another way than the usual one since a node lacks that, in words."""
    rows = []
    for name in registry.names("nemeses"):
        for first, *others in map(alternatives, needs_of(registry.load("nemeses", name))):
            where = [node for node, row in lacks.items() if first in row]
            way = next((o for o in others if not any(o in lacks[node] for node in lacks)), None)
            if where and way is not None:
                rows.append(f"nemesis {name} goes by {way}: no {first} on {', '.join(where)}")
    return rows


def refuse_in_use(lab_id: str) -> None:
    """Raises LabError while a run uses the machines: of those nothing is forgotten either."""
    try:
        info = LAB.known(lab_id)
    except LabError:
        return  # a record that nobody can read
    if info is not None and in_use(info):
        raise LabError(f"a run uses lab {lab_id} now", remedy="wait for its end, or stop it")


def release_lab(lab_id: str, *, strict: bool = False) -> Released:
    """Take away what runs have left, then our marks; forget the machines once nothing of ours is
    there, or with `strict` once all is as it was. Until then it can be repeated. Whoever calls it
    has the record to itself (`book.held`).

    Raises ConfigError where nothing is adopted, LabError while a run uses the machines.
    """
    adopted, info = book.load(lab_id), LAB.known(lab_id)
    if adopted is None and lab_id in state.adopted_ids():
        book.forget(lab_id)  # somebody was killed while looking: no machine was touched
        return Released(ours={}, others={}, said={}, problems={})
    if adopted is None or info is None:
        raise ConfigError(
            f"no machines are adopted as lab {lab_id}",
            remedy=f"adopted: {', '.join(state.adopted_ids()) or 'nothing'}",
        )
    with alone(info):
        book.save(msgspec.structs.replace(adopted, releasing=True))
        problems = asyncio.run(_swept(info)) if adopted.marked else {}
        seen, unreleased = asyncio.run(adopt.release(adopted))
    problems |= unreleased
    done = Released(
        ours={name: [d.what for d in row.differs if d.ours] for name, row in seen.items()},
        others={name: [d.what for d in row.differs if not d.ours] for name, row in seen.items()},
        said={name: row.said for name, row in seen.items()},
        problems=problems,
        called=adopted.aliases,
    )
    if done.same if strict else done.clean:
        book.forget(lab_id)
    elif not problems:
        book.save(msgspec.structs.replace(adopted, marked=False))
    return done


async def _swept(info: LabInfo) -> dict[str, str]:
    """Everything that a plug-in may have left is removed; why not, by node."""
    kinds = residues(lab=info)

    async def one(node: NodeInfo) -> str:
        try:
            nodes = await connect_all(msgspec.structs.replace(info, nodes=[node]))
        except NotALabNode:
            return ""  # it was released already, or is another lab's, which is said later
        except DstestError as error:
            return error.message
        try:
            await remove(nodes, kinds)
            # What is not ours and was not there before is told when both are compared.
            left = [found.what for found in (await look(nodes, kinds))[node.name] if found.ours]
            return f"does not go: {', '.join(left)}" if left else ""
        except DstestError as error:
            return error.message
        finally:
            await nodes[node.name].close()

    rows = zip(info.nodes, await asyncio.gather(*map(one, info.nodes)), strict=True)
    return {node.name: why for node, why in rows if why}
