"""The `hosts` lab: machines that exist already, taken into use and given back as they were.

    dstest lab adopt nodes.toml --lab-id staging
    dstest run --lab hosts --lab-id staging
    dstest lab release --lab-id staging

What is written on a machine is the marker, and the nodes' names into /etc/hosts where they do not
lead to them; everything else a run lays there and takes away.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import asyncssh
import msgspec

from clusters.labs import state
from clusters.labs.existing import agent_mark, book
from clusters.labs.existing.book import Adopted, Difference, LeftNow, differences, not_its_own
from clusters.labs.existing.survey import LOOK_S, MachineSurvey, ask, look
from clusters.remote.bundle import MARKER_PATH, RUN_PATH, start_argv
from clusters.remote.chores import CHORE_ARGV
from clusters.remote.login import log_in
from dstest.core import limits
from dstest.core.errors import ConfigError, DstestError, LabError
from dstest.core.node import Lab, LabInfo, NodeInfo

MARK_S: Final = 30.0
RELEASE_S: Final = MARK_S + LOOK_S + limits.SSH_CONNECT_TIMEOUT_S
"""A node that has to be entered through more than one jump host has less time to look."""


class _MarkAnswer(msgspec.Struct):
    said: list[str]
    stays: list[str]
    laid: list[str]
    kept: list[str]


_MARK_ANSWER: Final = msgspec.json.Decoder(_MarkAnswer)


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """A machine that was given back: what differs from before, and what was `said` of it."""

    differs: list[Difference]
    said: list[str]


def problems_of(seen: Sequence[MachineSurvey]) -> list[str]:
    """Why these machines cannot be nodes, in words."""
    found = []
    for one in seen:
        if one.facts.marker is not None:
            # Also of a lab of this name: another control host may have one.
            whose = f"{one.alias} belongs to lab {one.facts.marker!r} already"
            found.append(f"{whose}; where that was forgotten, remove {MARKER_PATH} there")
        if one.facts.uid != 0:
            found.append(f"{one.alias}: sudo does not make {one.info.user} root")
        if tuple(map(int, one.facts.python.split(".")[:2])) < (3, 9):
            found.append(f"{one.alias} has Python {one.facts.python}; 3.9 is needed")
        named = (one.info.address, one.info.address6)
        found += filter(None, [not_its_own(one.alias, named, one.facts)])
    sources = {one.ssh_from for one in seen}
    found += [
        f"{one.alias} is a jump host: faults on its network would cut off the others"
        for one in seen
        if {one.info.address, one.info.address6} & sources
    ]
    for family in ("control", "control6"):
        many = Counter(a for one in seen if (a := getattr(one, family)) is not None)
        if len(many) > 1:
            found.append(f"nodes see clients under several addresses: {', '.join(many)}")
    six = [one.info.address6 is not None for one in seen]
    if any(six) and not all(six):
        found.append("some nodes have an IPv6 address and others none: name all of them, or none")
    return found


def effects(lab_id: str, seen: Sequence[MachineSurvey], homes: Sequence[str]) -> list[str]:
    """What adopting and running does to the machines, in words."""
    lines = [
        f"write {MARKER_PATH} ({lab_id}): faults are made only where it stands",
        f"keep dstest's agent and leases in {RUN_PATH}, and its tools in /opt/dstest",
        (
            "start, stop, kill and starve the system under test; its files are in one of these,"
            f" which a release removes where a run has made them: {', '.join(homes)}"
        ),
        (
            "as the nemeses of a run ask: rules in tables and chains called dstest*, traffic"
            " control, control groups and mounts called dstest*, the clocks of processes"
        ),
    ]
    if any(_names_for(one, seen) for one in seen):
        lines.append(
            f"write the nodes' names into /etc/hosts (lines that end in # dstest-lab {lab_id})"
        )
    if users := sorted({one.info.user for one in seen if one.info.user != "root"}):
        lines.append(f"as {', '.join(users)} run by sudo {', '.join(_programs(seen))}")
    return lines


def _programs(seen: Sequence[MachineSurvey]) -> list[str]:
    """What sudo is asked to run there, and what for."""
    python, chore = start_argv()[0], CHORE_ARGV[0]
    rows = [
        f"`{python}` (the agent, which does all this as root; the marking and its undoing)",
        f"`{chore}` (what you tell `dstest lab exec`, `get`, `put` and `logs` to do)",
    ]
    if any(one.info.sudo_password_path for one in seen):
        rows.append("`sh` (starts these where sudo asks for a password)")
    return rows


def _names_for(one: MachineSurvey, seen: Sequence[MachineSurvey]) -> str:
    """Lines for /etc/hosts, of those names that lead elsewhere or nowhere there."""
    lines = []
    for other in seen:
        info = other.info
        if one.facts.names.get(info.name) != info.address:
            mark = f"# dstest-lab {info.lab_id}\n"
            lines += [f"{a} {info.name} {mark}" for a in (info.address, info.address6) if a]
    return "".join(lines)


def adopted_of(
    lab_id: str,
    seen: Sequence[MachineSurvey],
    as_found: Mapping[str, list[str]],
    homes: Sequence[str],
) -> Adopted:
    """What is written down of the machines; about each of the `homes` they were asked. Raises
    LabError where nobody can tell how they see us."""
    control = next((one.control for one in seen if one.control), None)
    control6 = next((one.control6 for one in seen if one.control6), None)
    direct = [one for one in seen if not one.info.jumps]
    for one in direct:
        if control is None and ipaddress.ip_address(one.ssh_from).version == 4:
            control = one.ssh_from
    if control is None:
        raise LabError(
            "no node can be reached at its address from here, where the clients run",
            remedy=f"let TCP port {limits.PROBE_UDP_PORT} and those of the system pass, or name as"
            " `address` what can be reached; only SSH goes through jump hosts",
        )
    sources = {one.ssh_from for one in seen} - {control, control6}
    return Adopted(
        lab_id=lab_id,
        nodes=[one.info for one in seen],
        aliases={one.info.name: one.alias for one in seen},
        control=control,
        control6=control6,
        ssh_from=sorted(sources),
        about={one.info.name: about(one) for one in seen},
        lacks={
            one.info.name: {k: why for k, why in one.facts.features.items() if why is not None}
            for one in seen
        },
        taken={one.info.name: one.facts.paths for one in seen},
        as_found=dict(as_found),
        homes=list(homes),
        names={one.info.name: _names_for(one, seen) for one in seen},
    )


def about(one: MachineSurvey) -> str:
    """A line on what the machine is."""
    facts = one.facts
    return (
        f"{facts.os}, Linux {facts.kernel}, {facts.machine}, {facts.cpus} processors,"
        f" {facts.memory_bytes / 1e9:.1f} GB memory, {facts.disk_free_bytes / 1e9:.1f} GB free"
    )


async def mark(adopted: Adopted, seen: Sequence[MachineSurvey]) -> None:
    """Write the markers. What was there before is written down first, on our side. Raises LabError
    where any of the machines is not marked; a release takes back what the others carry."""
    for one in seen:
        book.write_before(adopted.lab_id, one.info.name, one.found)
    book.save(adopted)

    async def each(one: MachineSurvey) -> str:
        try:
            async with asyncio.timeout(limits.SSH_CONNECT_TIMEOUT_S + MARK_S):
                connection = await _open(one.info)
                try:
                    await _ask(connection, one.info, "mark", _request(adopted, one.info, one.found))
                finally:
                    connection.abort()
        except TimeoutError:
            return f"{one.alias}: no answer"
        except DstestError as error:
            return f"{one.alias}: {error.message}"
        return ""

    if whys := list(filter(None, await asyncio.gather(*map(each, seen)))):
        raise LabError(
            f"not marked, so that lab {adopted.lab_id} is half adopted: {'; '.join(whys)}",
            remedy=f"dstest lab release --lab-id {adopted.lab_id} takes back what was marked;"
            " then adopt them again",
        )
    book.save(msgspec.structs.replace(adopted, marked=True))


def _there(adopted: Adopted, info: NodeInfo, before: LeftNow) -> set[str]:
    """Directories that the machine had before us, of those that were asked about."""
    return {*adopted.taken.get(info.name, []), *before.places}


def _request(adopted: Adopted, info: NodeInfo, before: LeftNow) -> dict[str, Any]:
    # iptables makes a table the first time that it is asked for one, and leaves it.
    made = [f for f in ("ip", "ip6") if f"table {f} mangle {{" not in before.nft]
    there = _there(adopted, info, before)
    return {
        "lab_id": adopted.lab_id,
        "marked": adopted.marked,
        "lines": adopted.names.get(info.name, ""),
        "hosts": before.hosts,
        "families": made,
        "run": RUN_PATH,
        "homes": [home for home in adopted.homes if home not in there],
    }


async def release(adopted: Adopted) -> tuple[dict[str, Comparison], dict[str, str]]:
    """Take away our marks and what carries them, and look: what differs from before by node, and
    why a node could not be released."""

    async def each(info: NodeInfo) -> Comparison | str:
        try:
            before = book.read_before(adopted.lab_id, info.name)
            if before is None:
                return "nobody wrote down what was there before"
            async with asyncio.timeout(RELEASE_S):
                connection = await _open(info)
                try:
                    request = _request(adopted, info, before)
                    told = await _ask(connection, info, "unmark", request)
                    now = await look(connection, info)
                finally:
                    connection.abort()
            # What still stands carries no mark, so that somebody else has made it.
            # What was there before us has been moved away by whoever has put it there.
            laid = {*told.laid} - _there(adopted, info, before)
            ours = [home for home in (*request["homes"], *laid) if home not in told.stays]
            differs = differences(before, now, ours)
            for path in told.kept:
                why = "was put there by others, or by a service that does not declare it"
                differs.append(Difference(f"{path} {why}, and stays", ours=False))
            return Comparison(differs=differs, said=told.said)
        except TimeoutError:
            return "no answer"
        except DstestError as error:
            return error.message

    outcomes = await asyncio.gather(*map(each, adopted.nodes))
    rows = dict(zip([info.name for info in adopted.nodes], outcomes, strict=True))
    return (
        {name: row for name, row in rows.items() if isinstance(row, Comparison)},
        {name: row for name, row in rows.items() if isinstance(row, str)},
    )


async def _open(info: NodeInfo) -> asyncssh.SSHClientConnection:
    limit_s = limits.SSH_CONNECT_TIMEOUT_S
    return await log_in(info.name, info.login, info.jumps, deadline_s=limit_s)


async def _ask(
    connection: asyncssh.SSHClientConnection, info: NodeInfo, act: str, request: Mapping[str, Any]
) -> _MarkAnswer:
    """What `agent_mark` does there. Raises LabError."""
    return await ask(connection, info, (agent_mark, act), request, _MARK_ANSWER, MARK_S)


UNTOUCHED = "its adoption was cut off before it touched a machine: dstest lab release --lab-id {0}"
HALF_ADOPTED = (
    "its adoption did not come to an end, so that not all machines are marked:"
    " dstest lab release --lab-id {0} takes back what was marked, then adopt them again"
)
HALF_RELEASED = (
    "its release did not come to an end, so that not all machines are marked any more:"
    " dstest lab release --lab-id {0} goes on, with --forget it gives up on those that are left;"
    " then adopt them again"
)


class HostsLab(Lab):
    """Implements `dstest.core.node.Lab` and `Inspects`. It makes nothing and removes nothing."""

    name = "hosts"
    doc = "machines of your own that `dstest lab adopt` has looked at and marked"

    def up(
        self,
        lab_id: str,
        nodes: int,
        *,
        packages: Sequence[str],
        progress: Any = None,
        persistent: bool = False,
    ) -> LabInfo:
        """The adopted machines, all of them. Raises ConfigError where there are none."""
        info = self.status(lab_id)
        if lacks := self.examine(lab_id):
            raise ConfigError(
                f"lab {lab_id} cannot be used: {lacks[0]}",
                remedy=f"dstest lab release --lab-id {lab_id}",
            )
        if info is None:
            there = ", ".join(self.list()) or "none"
            raise ConfigError(
                f"no machines are adopted as lab {lab_id}",
                remedy=f"dstest lab adopt FILE --lab-id {lab_id}; adopted: {there}",
            )
        return info

    def down(self, lab_id: str) -> list[str]:
        """Machines of the user's are not removed: raises ConfigError where they are adopted."""
        if book.load(lab_id) is None:
            return []
        raise ConfigError(
            f"lab {lab_id} is made of machines of yours, which are not taken down",
            remedy=f"`dstest lab release --lab-id {lab_id}` takes our marks away",
        )

    def status(self, lab_id: str) -> LabInfo | None:
        """See `Lab.status`; whether the machines run shows when they are connected to."""
        adopted = book.load(lab_id)
        return self._info(adopted) if adopted is not None and adopted.whole else None

    def known(self, lab_id: str) -> LabInfo | None:
        """See `Inspects.known`."""
        adopted = book.load(lab_id)
        return None if adopted is None else self._info(adopted)

    def examine(self, lab_id: str) -> list[str]:
        """See `Inspects.examine`."""
        adopted = book.load(lab_id)
        if adopted is None:
            what = UNTOUCHED if lab_id in self.list() else ""
        elif adopted.releasing:
            what = HALF_RELEASED
        else:
            what = "" if adopted.marked else HALF_ADOPTED
        return [what.format(lab_id)] if what else []

    def users(self, lab_id: str) -> list[int]:
        """See `Inspects.users`: nobody owns them."""
        return []

    def starting(self, lab_id: str) -> bool:
        """See `Inspects.starting`."""
        return False

    def list(self) -> list[str]:
        """See `Lab.list`."""
        return state.adopted_ids()

    def missing(self) -> Mapping[str, str]:
        """See `Lab.missing`: this host needs nothing."""
        return {}

    def _info(self, adopted: Adopted) -> LabInfo:
        return LabInfo(
            lab_id=state.check_lab_id(adopted.lab_id),
            kind=self.name,
            nodes=adopted.nodes,
            control=adopted.control,
            control6=adopted.control6,
            ssh_from=adopted.ssh_from,
            adopted=adopted.foreign,
            facts=adopted.facts,
        )


LAB = HostsLab()
