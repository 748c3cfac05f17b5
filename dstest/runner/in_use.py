"""Is what runs from the build that was asked for? Asked of the processes themselves."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from dstest.core.builds import Build, build_of
from dstest.core.errors import ConfigError, LabError
from dstest.core.node import Node
from dstest.core.protocols import Deployment, Processes

_FILES: Final = (
    'for pid; do printf "program %s\\n" "$(readlink "/proc/$pid/exe")";'
    ' tr "\\0" "\\n" <"/proc/$pid/cmdline";'
    ' sed -n "s/^[^/]*\\//\\//p" "/proc/$pid/maps"; find "/proc/$pid/fd" -printf "%l\\n"; done'
    " 2>/dev/null; :"
)
"""Programs, each behind its word, and arguments, mapped and open files of these processes."""

_PROGRAM: Final = "program "

_MERGED: Final = re.compile(r"^/(bin|sbin|lib|lib32|lib64|libx32)/")
"""Debian has these directories below /usr, and links in their place."""

ASK_S: Final = 10.0


async def builds_in_use(
    names: Sequence[str], deployment: Deployment, nodes: Mapping[str, Node]
) -> dict[str, str]:
    """By the name of each build, a file of it that a server uses on the first node that has any.

    LabError where none uses any, or a server's program is another file than the build's of that
    name: what was asked for is not what would be tested. Files that the deployment writes itself
    are there whatever the build.
    """
    if not names:
        return {}
    if not isinstance(deployment, Processes):
        raise ConfigError(
            "--system-version: nobody could say whether that build is what runs",
            remedy="a system that knows its processes (docs/new-system.md)",
        )
    rows = await deployment.processes()
    where = next(name for name in nodes if rows.get(name))
    node = nodes[where]
    pids = [str(process.pid) for process in rows[where]]
    said = (await node.run(["sh", "-c", _FILES, "files", *pids], timeout_s=ASK_S)).stdout
    used, programs = used_of(said) - _written(deployment), programs_of(said)
    found = {}
    for name in names:
        build = build_of(name)
        if build is None:
            raise ConfigError(f"{name} is no build", remedy="--system-version PATH")
        files = await files_of(build, node)
        if stray := _same_name(programs - files, files):
            raise LabError(
                f"{where} runs {stray[0]}, and {build.path} has that program at {stray[1]}",
                remedy="lay each file where the system looks for it",
            )
        there = used & files
        if not there:
            raise LabError(
                f"no server on {where} uses a file of {build.path}: what runs there is another"
                " build",
                remedy="lay each file where the system looks for it; a .deb must be of the package"
                " that has the server's program",
            )
        found[name] = min(there)
    return found


def used_of(said: str) -> set[str]:
    """Absolute paths in what a node says of its processes."""
    lines = (line.removeprefix(_PROGRAM) for line in said.splitlines())
    return {_merged(line) for line in lines if line.startswith("/")}


def programs_of(said: str) -> set[str]:
    """The programs among them."""
    return used_of("\n".join(line for line in said.splitlines() if line.startswith(_PROGRAM)))


def _same_name(programs: set[str], files: set[str]) -> tuple[str, str] | None:
    """A program, and a file of the build that is called alike."""
    named = {os.path.basename(path): path for path in sorted(files)}
    pairs = ((path, named.get(os.path.basename(path))) for path in sorted(programs))
    return next(((path, twin) for path, twin in pairs if twin is not None), None)


def _written(deployment: Deployment) -> set[str]:
    services = (s for member in deployment.members.values() for s in member.services)
    return {_merged(path) for service in services for path in service.files}


def _merged(path: str) -> str:
    return _MERGED.sub(r"/usr/\1/", path)


async def files_of(build: Build, node: Node) -> set[str]:
    """What a build has, as paths on a node."""
    if build.path.is_dir():
        return set(_of_tree(build.path))
    package = _field(build.path, "Package")
    argv = ["dpkg-query", "-W", "-f", "${Version}", package]
    there = (await node.run(argv, timeout_s=ASK_S, check=False)).stdout.strip()
    if there != _field(build.path, "Version"):
        raise LabError(
            f"{node.name} has {package} {there or 'not at all'}, not that of {build.path}",
            remedy="`dstest lab down`, then up again",
        )
    listed = await node.run(["dpkg-query", "-L", package], timeout_s=ASK_S)
    return {_merged(line) for line in _leaves(listed.stdout.splitlines())}


def _leaves(paths: Sequence[str]) -> Iterable[str]:
    """Those that are no directory of another one."""
    folders = {os.path.dirname(path) for path in paths}
    return (path for path in paths if path not in folders)


def _of_tree(root: Path) -> Iterable[str]:
    for folder, _, names in os.walk(root):
        for name in names:
            yield _merged(f"/{Path(folder, name).relative_to(root)}")


def _field(path: Path, name: str) -> str:
    if shutil.which("dpkg-deb") is None:
        raise ConfigError("dpkg-deb is not installed", remedy="apt-get install dpkg")
    argv = ["dpkg-deb", "-f", str(path), name]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=ASK_S, check=False)
    if done.returncode != 0:
        raise ConfigError(
            f"{path} is no whole Debian package: {done.stderr.strip()}", remedy="fetch it again"
        )
    return done.stdout.strip()
