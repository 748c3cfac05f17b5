"""`faultfs` on the nodes: a file system of ours under the system's data, told what to do.

It is laid under the data directory before the system first starts, passes everything through until
a fault is asked for, and is taken away when the system has stopped (csrc/faultfs.h).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from dstest.core.errors import FaultRefused, LabError
from dstest.core.node import Node
from dstest.core.protocols import DataDir, NemesisContext
from dstest.core.residue import Residue
from nemeses.base.cluster import nodes_of
from nemeses.tools.compiled import HOME, compiled

TOOL: Final = f"{HOME}/faultfs"
BACKING: Final = f"{HOME}/disk"
SOCKET: Final = f"{HOME}/faultfs.sock"
LOG: Final = f"{HOME}/faultfs.log"
MOUNTED_LOOKS: Final = 100
UNMOUNT_TRIES: Final = 100
POLL_S: Final = 0.05

_SOURCES: Final = (
    "faultfs.c", "faultfs_names.c", "faultfs_undo.c", "faultfs_journal.c", "faultfs_control.c",
)  # fmt: skip
_PACKAGES: Final = "gcc libc6-dev libfuse3-dev"


_LAID_BY_US: Final = f"""\
laid_by_us() {{
    [ -z "${{dstest_adopted-}}" ] || [ -S {SOCKET} ] || [ -d {BACKING} ]
}}
"""
"""On machines that dstest has not made, a file system of this name may be somebody else's."""

RUNNING: Final = (
    f"for exe in $(pgrep -x faultfs); do case $(readlink /proc/$exe/exe) in"
    f" {TOOL}|'{TOOL} (deleted)') echo $exe ;; esac; done"
)
"""Prints the pids of our program; others may have one of that name."""

RESIDUE: Final = Residue(
    name="faultfs",
    mark="the mounted file system, or the program, is called faultfs",
    look=f"""\
{_LAID_BY_US}while read -r source mount _; do
    [ "$source" = faultfs ] && laid_by_us "$mount" || continue
    echo "ours file system faultfs at $mount"
done </proc/mounts
for pid in $({RUNNING}); do echo "ours process $pid (faultfs)"; done
[ ! -e {BACKING} ] || echo "ours files in {BACKING}"
""",
    remove=f"""\
{_LAID_BY_US}users() {{
    find /proc/[0-9]*/fd /proc/[0-9]*/cwd -maxdepth 1 -lname "$1*" 2>/dev/null |
        cut -d / -f 3 | sort -u
}}
while read -r source mount _; do
    [ "$source" = faultfs ] && laid_by_us "$mount" || continue
    # A server whose calls wait cannot even be killed.
    timeout 3 {TOOL} ask {SOCKET} clear >/dev/null
    for _ in $(seq 30); do
        found=$(users "$mount")
        [ -n "$found" ] || break
        kill -9 $found
        sleep 0.1
    done
    umount "$mount" || umount -l "$mount"
    ! mountpoint -q "$mount" && [ -d {BACKING} ] || continue
    # A look at the data should still be possible: it goes to where it seemed to be, in place of
    # what an earlier run may have left below.
    find "$mount" -mindepth 1 -delete
    chown --reference={BACKING} "$mount"
    chmod --reference={BACKING} "$mount"
    rm -rf {BACKING}/.faultfs
    find {BACKING} -mindepth 1 -maxdepth 1 -exec mv -t "$mount" {{}} +
done </proc/mounts
for pid in $({RUNNING}); do kill -9 $pid; done
rm -rf {BACKING} {SOCKET} {LOG}
:
""",
    rank=40,
)


def asking(*words: str | int) -> list[str]:
    """The command that tells the file system something; its answer is `name=value` pairs."""
    return [TOOL, "ask", SOCKET, *map(str, words)]


async def ask(node: Node, *words: str | int) -> dict[str, int]:
    """Settings and counters after `words`. Raises LabError where it does not answer."""
    done = await node.run(asking(*words), timeout_s=10.0, check=False)
    if done.status != 0:
        why = (done.stderr or done.stdout).strip() or f"status {done.status}"
        raise LabError(f"{node.name}: {why}")
    pairs = (part.split("=", 1) for part in done.stdout.split())
    return {name: int(value) for name, value in pairs}


async def _mounted(node: Node, path: str) -> bool:
    found = await node.run(["cat", "/proc/mounts"], timeout_s=5.0)
    return any(line.startswith(f"faultfs {path} ") for line in found.stdout.splitlines())


async def lay(ctx: NemesisContext, nemesis: str) -> None:
    """Put the file system under the data of each node, unless it is there already."""
    path = ctx.need(DataDir).data_dir()
    program = await compiled(
        nemesis,
        _SOURCES,
        flags=("-D_FILE_OFFSET_BITS=64",),
        libraries=("-lfuse3", "-lpthread"),
        packages=_PACKAGES,
    )

    async def one(node: Node) -> None:
        if await _mounted(node, path):
            return
        if (await node.run(["test", "-c", "/dev/fuse"], check=False)).status != 0:
            raise FaultRefused(
                f"{nemesis}: {node.name} has no /dev/fuse",
                remedy="a host whose kernel has FUSE; then `dstest lab down` and up again",
            )
        await node.run(["rm", "-rf", BACKING, SOCKET])
        await node.run(["mkdir", "-p", BACKING, path])
        # The mounted directory is whose the directory below was.
        await node.run(["chown", f"--reference={path}", BACKING])
        await node.run(["chmod", f"--reference={path}", BACKING])
        await node.put(TOOL, program, mode=0o755)
        await node.call("spawn", argv=[TOOL, path, BACKING, SOCKET], log=LOG, cwd="/")
        for _ in range(MOUNTED_LOOKS):
            if await _mounted(node, path):
                return
            await asyncio.sleep(POLL_S)
        raise LabError(
            f"{nemesis}: {node.name} has not mounted the file system",
            remedy=f"see {LOG} on the node",
        )

    await asyncio.gather(*map(one, nodes_of(ctx)))


async def take_away(ctx: NemesisContext, names: Sequence[str]) -> None:
    """Unmount it; the system must have stopped. The data goes with it."""
    path = ctx.need(DataDir).data_dir()

    async def one(node: Node) -> None:
        error = ""
        # A server that was killed may hold its files for a while yet.
        for _ in range(UNMOUNT_TRIES):
            if not await _mounted(node, path):
                break
            done = await node.run(["umount", path], timeout_s=10.0, check=False)
            error = done.stderr.strip()
            await asyncio.sleep(POLL_S)
        else:
            raise LabError(f"{node.name}: the file system is still mounted: {error}")
        await node.run(["rm", "-rf", BACKING, SOCKET])

    # One node that fails leaves the others clean.
    ends = await asyncio.gather(*(one(ctx.node(name)) for name in names), return_exceptions=True)
    for end in ends:
        if isinstance(end, BaseException):
            raise end
