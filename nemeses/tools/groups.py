"""A control group of ours on a node, with limits of one controller, for the server alone; and which
system calls on files the server's threads are inside, sampled on its node.

In version 1 it is a group below the node's own hierarchy of that controller, which is mounted where
only we look, so that nothing of the node's init is touched. In version 2 the path is a link to the
group above those of all services (`clusters/remote/agent_groups.py`), in which servers are from
their start on where the freezer is of version 2 as well. A node may have each controller in another
version: servers are moved into the group wherever they are.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from dstest.core.errors import FaultRefused, RemoteTimeout
from dstest.core.node import Node
from dstest.core.residue import Residue

V1: Final = "cgroup v1"
V2: Final = "cgroup v2"

_MAKE: Final = (
    # A controller is of one version at a time: where version 2 has it, version 1 cannot.
    "m=$(awk '$3 == \"cgroup2\" && $4 ~ /^rw/ { print $2; exit }' /proc/mounts); "
    'if [ -n "$m" ] && grep -qw "$2" "$m/cgroup.controllers"; then '
    'echo "+$2" >"$m/cgroup.subtree_control" || exit 1; mkdir -p "$m/dstest" "$0" && '
    'ln -sfT "$m/dstest" "$1" && exec test -e "$m/dstest/$2.max"; fi; '
    'mountpoint -q "$0" || { mkdir -p "$0" && mount -t cgroup -o "$2" "dstest-$2" "$0"; }; '
    'mkdir -p "$1"'
)
_DISSOLVE: Final = (
    '[ -d "$1" ] || exit 0; '
    # Of version 2, what is in it stays in it, without limits.
    'if [ -L "$1" ]; then for f in memory.max memory.high cpu.max; do '
    '[ ! -w "$1/$f" ] || echo max >"$1/$f"; done; g=$(readlink "$1"); rm "$1"; '
    'rmdir "$g" 2>/dev/null; exit 0; fi; '
    # Tasks that wait for memory leave no group.
    'for f in limit_in_bytes=-1 oom_control=0; do f="$1/memory.$f"; '
    '[ ! -w "${f%=*}" ] || echo "${f#*=}" >"${f%=*}"; done 2>/dev/null; '
    "for _ in 1 2 3 4 5 6 7 8 9 10; do "
    'for p in $(cat "$1/cgroup.procs"); do echo $p >"$0/cgroup.procs"; done; '
    'rmdir "$1" 2>/dev/null && exit 0; sleep 0.1; done; exit 1'
)
_UNMOUNT: Final = 'if mountpoint -q "$0"; then umount "$0"; fi; [ ! -d "$0" ] || rmdir "$0" || :'
_PROCESSES: Final = 'cat "$0/cgroup.procs" "$0"/*/cgroup.procs 2>/dev/null'
_LIMITED: Final = (
    'if [ -L "$0" ]; then case "$(cat "$0/cpu.max")" in max*) exit 0 ;; esac; fi; ' + _PROCESSES
)

SYNCS: Final = (74, 75, 277)
"""fsync, fdatasync, sync_file_range on x86-64."""

WRITES: Final = (1, 18, 20, 77, 285, 296, 328)
"""write, pwrite64, writev, ftruncate, fallocate, pwritev, pwritev2 on x86-64."""

GAP_S: Final = 0.01
SLACK_S: Final = 5.0


class Group(msgspec.Struct, frozen=True):
    """The group `dstest` of one controller, by that controller's name (`cpu`, `memory`)."""

    controller: str

    @property
    def mount(self) -> str:
        return f"/run/dstest-{self.controller}"

    @property
    def path(self) -> str:
        return f"{self.mount}/dstest"

    @property
    def residue(self) -> Residue:
        """The group and the mount, which nobody else makes."""
        mount, path = shlex.quote(self.mount), shlex.quote(self.path)
        return Residue(
            name=f"control group ({self.controller})",
            mark=f"{self.mount} is a mount of ours",
            look=f"if mountpoint -q {mount}; then echo ours mount {mount}; fi; "
            f"[ ! -d {path} ] || echo ours control group {path}",
            remove=f"{shlex.join(self.dissolve_command())}; {shlex.join(self.unmount_command())}",
            rank=30,
        )

    async def make(self, node: Node, nemesis: str) -> None:
        """An empty one, whatever was there. FaultRefused where the node has no such controller."""
        await node.run(self.dissolve_command(), timeout_s=5.0, check=False)
        argv = ["sh", "-c", _MAKE, self.mount, self.path, self.controller]
        done = await node.run(argv, timeout_s=5.0, check=False)
        if done.status != 0:
            raise FaultRefused(
                f"{nemesis}: {node.name} has no control group with the {self.controller}"
                f" controller: {done.stderr.strip()}",
                remedy=f"nodes whose control groups have the {self.controller} controller",
            )

    async def enter(self, node: Node, pids: Sequence[int]) -> None:
        """Put processes into the group; those that have ended meanwhile are no error."""
        script = 'for p in "$@"; do echo $p >"$0/cgroup.procs" || [ ! -e /proc/$p ] || exit 1; done'
        argv = ["sh", "-c", script, self.path, *map(str, pids)]
        await node.run(argv, timeout_s=5.0)

    async def version(self, node: Node) -> str:
        """Of the group that was made; see `version_of`."""
        return await version_of(node, self.path)

    async def processes(self, node: Node) -> set[int]:
        """Pids in the group; none where it is not there."""
        return await _pids(node, _PROCESSES, self.path)

    async def throttled(self, node: Node) -> set[int]:
        """Pids in the group, where that has a share of the processors (of the `cpu` controller)."""
        return await _pids(node, _LIMITED, self.path)

    def dissolve_command(self) -> list[str]:
        """Puts what is in the group back into the node's root group, and removes it; of version 2,
        takes its limits away."""
        return ["sh", "-c", _DISSOLVE, self.mount, self.path]

    def unmount_command(self) -> list[str]:
        """Takes the mount away, where there is one."""
        return ["sh", "-c", _UNMOUNT, self.mount]

    async def withdraw(self, node: Node) -> None:
        """No group and no mount of ours any more."""
        await node.run(self.dissolve_command(), timeout_s=5.0, check=False)
        await node.run(self.unmount_command(), timeout_s=5.0, check=False)

    async def leaks(self, node: Node) -> list[str]:
        """The group, where it is still there."""
        found = await node.run(["test", "-d", self.path], timeout_s=5.0, check=False)
        return [f"control group {self.path}"] if found.status == 0 else []


async def version_of(node: Node, group: str) -> str:
    """`V1` or `V2`, of any group, by a file that each one of version 2 has."""
    found = await node.run(["test", "-e", f"{group}/cgroup.events"], timeout_s=5.0, check=False)
    return V2 if found.status == 0 else V1


async def _pids(node: Node, script: str, path: str) -> set[int]:
    found = await node.run(["sh", "-c", script, path], timeout_s=5.0, check=False)
    return {int(word) for word in found.stdout.split()}


_PROGRAM: Final = Path(__file__).parent / "agent_calls.py"


class Samples(msgspec.Struct, frozen=True):
    """`taken` samples in `ns`; in `busy` of them a thread was inside, `threads` in all. `syncs`:
    what the file system counted meanwhile."""

    taken: int = 0
    busy: int = 0
    threads: int = 0
    ns: int = 0
    syncs: int = 0

    @property
    def share(self) -> float:
        """Of the samples, those with a thread inside."""
        return self.busy / self.taken if self.taken else 0.0

    @property
    def inside_s(self) -> float:
        """For how long threads were inside, summed over them."""
        return self.threads / self.taken * self.ns / 1e9 if self.taken else 0.0


async def sample(
    node: Node,
    pids: Sequence[int],
    folder: str,
    calls: Sequence[int],
    seconds: float,
    *,
    synced: Sequence[int] = (),
    control_socket: str = "",
) -> Samples:
    """Look for `seconds`; none are taken where the node cannot, or is too busy to. The calls in
    `synced` count on files that are open with O_SYNC or O_DSYNC.

    With the control socket of a file system of ours, its syncs are counted by the same program: a
    busy machine may start that much later than it is asked to.

    For servers that do not measure their own calls. A call that uses no descriptor of a file below
    the folder (io_uring, msync) is not seen.
    """
    argv = ["python3", "-I", "-S", "-", str(seconds), str(GAP_S), folder]
    argv += [",".join(map(str, calls)), ",".join(map(str, synced)), control_socket]
    argv += map(str, pids)
    program = _PROGRAM.read_text(encoding="utf-8")
    try:
        done = await node.run(argv, timeout_s=seconds + SLACK_S, stdin=program, check=False)
    except RemoteTimeout:
        return Samples()
    if done.status != 0:
        return Samples()
    pairs = (part.split("=") for part in done.stdout.split())
    return Samples(**{name: int(value) for name, value in pairs})
