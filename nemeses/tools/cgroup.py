"""A control group of ours on a node, below one controller of cgroup v1, for the server alone.

The node's own hierarchy of that controller is mounted where only we look, so that nothing of the
node's init is touched.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Final

import msgspec

from dstest.core.errors import FaultRefused
from dstest.core.node import Node
from dstest.core.residue import Residue

__all__ = ["Group"]

_MAKE: Final = (
    'mountpoint -q "$0" || { mkdir -p "$0" && mount -t cgroup -o "$2" "dstest-$2" "$0"; }; '
    'mkdir -p "$1"'
)
_DISSOLVE: Final = (
    '[ -d "$1" ] || exit 0; '
    # Tasks that wait for memory leave no group.
    'for f in limit_in_bytes=-1 oom_control=0; do f="$1/memory.$f"; '
    '[ ! -w "${f%=*}" ] || echo "${f#*=}" >"${f%=*}"; done 2>/dev/null; '
    "for _ in 1 2 3 4 5 6 7 8 9 10; do "
    'for p in $(cat "$1/cgroup.procs"); do echo $p >"$0/cgroup.procs"; done; '
    'rmdir "$1" 2>/dev/null && exit 0; sleep 0.1; done; exit 1'
)
_UNMOUNT: Final = '! mountpoint -q "$0" || umount "$0"'


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
            look=f"if mountpoint -q {mount}; then echo ours mount {mount}; "
            f"[ ! -d {path} ] || echo ours control group {path}; fi",
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
                remedy=f"a host with the {self.controller} controller of cgroup v1",
            )

    async def enter(self, node: Node, pids: Sequence[int]) -> None:
        """Put processes into the group; those that have ended meanwhile are no error."""
        script = 'for p in "$@"; do echo $p >"$0/cgroup.procs" || [ ! -e /proc/$p ] || exit 1; done'
        argv = ["sh", "-c", script, self.path, *map(str, pids)]
        await node.run(argv, timeout_s=5.0)

    async def processes(self, node: Node) -> set[int]:
        """Pids in the group; none where it is not there."""
        argv = ["cat", f"{self.path}/cgroup.procs"]
        found = await node.run(argv, timeout_s=5.0, check=False)
        return {int(word) for word in found.stdout.split()}

    def dissolve_command(self) -> list[str]:
        """Puts what is in the group back into the node's root group, and removes it."""
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
