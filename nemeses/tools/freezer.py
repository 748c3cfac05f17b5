"""A freezer control group of ours on a node: processes in it stand still and are told nothing.

Version 1 has a controller for it (`freezer.state`), whose hierarchy nobody else uses; version 2 has
`cgroup.freeze` in every group. Where a node has both, the first is taken: a process that changes
its group there stays what it was to systemd. The node's own mounts are used, none is made.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Final

import msgspec

from dstest.core.node import Node
from dstest.core.residue import Residue

__all__ = [
    "GROUP",
    "KINDS",
    "RESIDUE",
    "Freezer",
    "Home",
    "clear",
    "find",
    "freeze",
    "groups",
    "home",
    "mounted",
    "thaw_command",
]

GROUP: Final = "/dstest-pause"
"""Our group, below the root of the hierarchy."""

KINDS: Final = ("v1", "v2")

_FREEZE: Final = """\
[ -d "$0" ] || mkdir "$0" || exit
echo "$2" >"$0/cgroup.procs" || exit
case $1 in
  v1) echo FROZEN >"$0/freezer.state" ;;
  v2) echo 1 >"$0/cgroup.freeze" ;;
esac
"""

_THAW: Final = """\
[ -d "$0" ] || exit 0
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
  case $1 in
    v1) echo THAWED >"$0/freezer.state"; state=$(cat "$0/freezer.state") ;;
    v2) echo 0 >"$0/cgroup.freeze"
        grep -q "^frozen 0" "$0/cgroup.events" && state=THAWED || state=FROZEN ;;
  esac
  if [ "$state" = THAWED ]; then
    for p in $(cat "$0/cgroup.procs"); do
      echo "$p" >"$2/cgroup.procs" || echo "$p" >"${0%/*}/cgroup.procs"
    done 2>/dev/null
    rmdir "$0" 2>/dev/null && exit 0
  fi
  sleep 0.1
done
echo "$0 reads $state and holds $(cat "$0/cgroup.procs" | tr '\\n' ' ')" >&2
exit 1
"""
"""Group $0 of kind $1: its processes go on and back to $2; 0 once it read THAWED and is gone."""


_EACH: Final = f"""\
while read -r _ mount type flags _; do
    case $type,$flags, in
    cgroup,*freezer,*) kind=v1 ;;
    cgroup2,*) kind=v2 ;;
    *) continue ;;
    esac
    group=$mount{GROUP}
    [ -d "$group" ] || continue
"""

RESIDUE: Final = Residue(
    name="freezer",
    mark=f"the control group is called {GROUP}",
    look=f'{_EACH}    echo "ours control group $group"\ndone </proc/mounts\n',
    remove=f'{_EACH}    sh -c {shlex.quote(_THAW)} "$group" $kind "$mount"\ndone </proc/mounts\n',
    rank=10,
)


class Freezer(msgspec.Struct, frozen=True):
    """A hierarchy that can freeze, and where the node has it mounted."""

    kind: str
    mount: str

    @property
    def group(self) -> str:
        """The directory of our group."""
        return self.mount + GROUP


class Home(msgspec.Struct, frozen=True):
    """Which freezer holds a process, and the directory of the group that it is taken from."""

    kind: str
    group: str
    back: str


def mounted(mounts: str, kinds: Sequence[str] = KINDS) -> list[Freezer]:
    """The freezers in the text of /proc/mounts that may be written, in the order of `kinds`."""
    found = []
    for line in mounts.splitlines():
        _, mount, filesystem, options = line.split()[:4]
        flags = options.split(",")
        kind = {"cgroup": "v1" if "freezer" in flags else "", "cgroup2": "v2"}.get(filesystem, "")
        if kind in kinds and "rw" in flags:
            found.append(Freezer(kind, mount))
    return sorted(found, key=lambda freezer: kinds.index(freezer.kind))


def _group_of(cgroups: str, kind: str) -> str:
    """A process's group in the hierarchy of that kind, by the text of its /proc/PID/cgroup."""
    wanted = r"^\d+:(?:[^:]*,)?freezer(?:,[^:]*)?:(.*)$" if kind == "v1" else r"^0::(.*)$"
    found = re.search(wanted, cgroups, re.MULTILINE)
    return found[1] if found else "/"


async def find(node: Node, kinds: Sequence[str] = KINDS) -> Freezer | None:
    """The freezer to use on a node, None where there is none to write."""
    rows = await node.run(["cat", "/proc/mounts"], timeout_s=5.0)
    return next(iter(mounted(rows.stdout, kinds)), None)


async def home(node: Node, freezer: Freezer, pid: int) -> Home:
    """What `thaw_command` will need to know of a process."""
    rows = await node.run(["cat", f"/proc/{pid}/cgroup"], timeout_s=5.0)
    back = freezer.mount + _group_of(rows.stdout, freezer.kind).rstrip("/")
    return Home(freezer.kind, freezer.group, back)


async def freeze(node: Node, where: Home, pid: int) -> None:
    """Put a process into our group and freeze it. Raises RemoteError where that is refused."""
    await node.run(["sh", "-c", _FREEZE, where.group, where.kind, str(pid)], timeout_s=5.0)


def thaw_command(where: Home) -> list[str]:
    """Thaws our group, empties and removes it; ends with 0 where it is gone."""
    return ["sh", "-c", _THAW, where.group, where.kind, where.back]


async def groups(node: Node) -> list[Freezer]:
    """The freezers of a node in which a group of ours exists."""
    rows = await node.run(["cat", "/proc/mounts"], timeout_s=5.0)
    found = []
    for freezer in mounted(rows.stdout):
        there = await node.run(["test", "-d", freezer.group], timeout_s=5.0, check=False)
        found += [freezer] if there.status == 0 else []
    return found


async def clear(node: Node) -> None:
    """Thaw and remove what a dead run left; its processes go to the root of the hierarchy."""
    for freezer in await groups(node):
        where = Home(freezer.kind, freezer.group, freezer.mount)
        await node.run(thaw_command(where), timeout_s=10.0)
