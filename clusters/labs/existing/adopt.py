"""Taking machines into use, and giving them back as they were.

What is written on a machine is the marker, and the nodes' names into /etc/hosts where they do not
lead to them; everything else a run lays there and takes away.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

import asyncssh
import msgspec

from clusters.labs.existing import book
from clusters.labs.existing.book import Adopted
from clusters.labs.existing.facts import differences
from clusters.labs.existing.survey import Surveyed, look
from clusters.remote.bundle import MARKER_PATH, RUN_PATH
from clusters.remote.login import log_in
from clusters.remote.root_command import run_as_root
from dstest.core import limits
from dstest.core.errors import DstestError, LabError
from dstest.core.node import NodeInfo

__all__ = ["about", "adopted_of", "mark", "problems_of", "release", "touched"]

MARK_S: Final = 30.0

_MARK: Final = """\
set -eu
umask 022
printf '%s\\n' "$1" | (set -C; cat >"$0") 2>/dev/null || [ "$(cat "$0")" = "$1" ]
[ -z "$2" ] || printf '%s' "$2" >>/etc/hosts
"""
_UNMARK: Final = """\
set -eu
[ -e "$0" ] || exit 0
[ "$(cat "$0")" = "$1" ] || { echo "it belongs to lab $(cat "$0") now" >&2; exit 1; }
if grep -q "# dstest-lab $1\\$" /etc/hosts; then
    kept=$(grep -v "# dstest-lab $1\\$" /etc/hosts; echo .)
    printf '%s' "${kept%.}" >/etc/hosts
fi
for family in $2; do
    rules=$(nft list table "$family" mangle 2>/dev/null) || continue
    # Chains with their hooks and policies, and no rule in any of them.
    if ! echo "$rules" | grep -Eqv '^(table |\t(chain |\t(type .*)?$|}$)|}$)'; then
        nft delete table "$family" mangle
    fi
done
shift 2
pid=$(sed -n 's/.*"pid": *\\([0-9]*\\).*/\\1/p' "$1/janitor.json" 2>/dev/null || :)
janitor() { tr '\\0' ' ' <"/proc/${pid:-none}/cmdline" 2>/dev/null | grep -q agent_janitor; }
if janitor; then kill "$pid"; fi
for _ in $(seq 50); do janitor || break; sleep 0.1; done
for home; do rm -rf --one-file-system "$home"; done
rmdir /run/dstest-* 2>/dev/null || :
rm -f "$0"
"""


def problems_of(seen: Sequence[Surveyed]) -> list[str]:
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


def touched(lab_id: str, seen: Sequence[Surveyed], homes: Sequence[str]) -> list[str]:
    """What adopting and running does to the machines, in words."""
    lines = [
        f"write {MARKER_PATH} ({lab_id}): faults are made only where it stands",
        f"keep dstest's agent and leases in {RUN_PATH}, and its tools in /opt/dstest",
        (
            "start, stop, kill and starve the system under test; its files are in one of these,"
            f" which the release removes: {', '.join(homes)}"
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
    users = sorted({one.info.user for one in seen if one.info.user != "root"})
    if users:
        lines.append(
            f"as {', '.join(users)} run `sudo python3` (the agent, which does all this as root) and"
            " `sudo sh` (this marking and its undoing)"
        )
    return lines


def _names_for(one: Surveyed, seen: Sequence[Surveyed]) -> str:
    """Lines for /etc/hosts, of those names that lead elsewhere or nowhere there."""
    lines = []
    for other in seen:
        info = other.info
        if one.facts.names.get(info.name) != info.address:
            mark = f"# dstest-lab {info.lab_id}\n"
            lines += [f"{a} {info.name} {mark}" for a in (info.address, info.address6) if a]
    return "".join(lines)


def adopted_of(lab_id: str, seen: Sequence[Surveyed], as_found: Mapping[str, list[str]]) -> Adopted:
    """What is written down of the machines. Raises LabError where nobody can tell how they see
    us."""
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
        shared_kernel=len({one.facts.boot_id for one in seen}) < len(seen),
        names_written={one.info.name: bool(_names_for(one, seen)) for one in seen},
    )


def about(one: Surveyed) -> str:
    """A line on what the machine is."""
    facts = one.facts
    return (
        f"{facts.os}, Linux {facts.kernel}, {facts.machine}, {facts.cpus} processors,"
        f" {facts.memory_bytes / 1e9:.1f} GB memory, {facts.disk_free_bytes / 1e9:.1f} GB free"
    )


async def mark(adopted: Adopted, seen: Sequence[Surveyed]) -> None:
    """Write the markers. What was there before is written down first, on our side."""
    for one in seen:
        book.write_found(adopted.lab_id, one.info.name, one.found)
    book.save(adopted)

    async def each(one: Surveyed) -> None:
        argv = ["sh", "-c", _MARK, MARKER_PATH, adopted.lab_id, _names_for(one, seen)]
        await _on(one.info, argv)

    await asyncio.gather(*map(each, seen))
    book.save(msgspec.structs.replace(adopted, marked=True))


async def release(
    adopted: Adopted, homes: Sequence[str]
) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Take away our marks, and those of the `homes` that were not there before us, and look: what
    differs from before by node, and why a node could not be released."""

    async def each(info: NodeInfo) -> list[str] | str:
        try:
            taken = adopted.taken.get(info.name, [])
            ours = [path for path in homes if path not in taken]
            before = book.read_found(adopted.lab_id, info.name)
            if before is None:
                return "nobody wrote down what was there before"
            # iptables makes a table the first time that it is asked for one, and leaves it.
            made = [f for f in ("ip", "ip6") if f"table {f} mangle {{" not in before.nft]
            words = [adopted.lab_id, " ".join(made), RUN_PATH, *ours]
            argv = ["sh", "-c", _UNMARK, MARKER_PATH, *words]
            async with asyncio.timeout(MARK_S * 3):
                connection = await _open(info)
                try:
                    await run_as_root(connection, info, argv, timeout_s=MARK_S)
                    return differences(before, await look(connection, info))
                finally:
                    connection.abort()
        except TimeoutError:
            return "no answer"
        except DstestError as error:
            return error.message

    outcomes = await asyncio.gather(*map(each, adopted.nodes))
    rows = dict(zip([info.name for info in adopted.nodes], outcomes, strict=True))
    return (
        {name: row for name, row in rows.items() if isinstance(row, list)},
        {name: row for name, row in rows.items() if isinstance(row, str)},
    )


async def _open(info: NodeInfo) -> asyncssh.SSHClientConnection:
    limit_s = limits.SSH_CONNECT_TIMEOUT_S
    return await log_in(info.name, info.login, info.jumps, deadline_s=limit_s)


async def _on(info: NodeInfo, argv: Sequence[str]) -> None:
    connection = await _open(info)
    try:
        await run_as_root(connection, info, argv, timeout_s=MARK_S)
    finally:
        connection.abort()
