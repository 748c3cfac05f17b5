"""Directories of systems on machines that dstest has not made: each carries our mark from its first
moment on, so that a release removes nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from os.path import dirname, normpath
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

from dstest.core.errors import ConfigError, LabError
from dstest.core.node import LabInfo, Node, NodeInfo
from dstest.core.protocols import Deployment, Member, SystemTraits
from dstest.core.residue import HOME_MARK, HOMES_LAID, HOMES_OWNED

COMMON_HOMES: Final = ("/opt/dstest", "/opt/dstest-services")
"""Of tools and services, whatever the system. The first comes and goes as a whole, as a residue."""

SHARED: Final = frozenset(
    [
        *("/", "/bin", "/boot", "/dev", "/dev/shm", "/etc", "/home", "/lib", "/media", "/mnt"),
        *("/opt", "/proc", "/root", "/run", "/sbin", "/srv", "/sys", "/tmp", "/usr", "/usr/local"),
        *("/var", "/var/cache", "/var/lib", "/var/log", "/var/run", "/var/tmp"),
    ]
)

LAY_S: Final = 20.0

_TOP: Final = f"""\
lab=$0
ours() {{ [ ! -L "$1" ] && [ "$(cat "$1/{HOME_MARK}" 2>/dev/null)" = "$lab" ]; }}
# Sets `top`: what is ours already on the way to $1, or what is to be made there; 1 where neither.
find_top() {{
    top= rest=${{1#/}}
    while [ -n "$rest" ]; do
        top=$top/${{rest%%/*}}
        case $rest in */*) rest=${{rest#*/}} ;; *) rest= ;; esac
        [ -L "$top" ] || [ -e "$top" ] || return 0
        ! ours "$top" || return 0
    done
    return 1
}}
"""

_LOOK: Final = f"""\
{_TOP}
noted() {{
    while [ -n "$1" ]; do
        ! grep -qxF -- "$1" {HOMES_OWNED} || return 0
        set -- "${{1%/*}}"
    done
    return 1
}}
# Says of $1 where what is written there would come to lie elsewhere: a link leads there from our
# directory, or another file system is mounted in it, but for one of a fault (faultfs).
astray() {{
    find_top "$1" && [ -e "$top" ] || return 0
    real=$(readlink -m -- "$top")${{1#"$top"}}
    [ "$(readlink -m -- "$1")" = "$real" ] || echo "$1	a link leads from there"
    while read -r source point _; do
        case $(printf "%b/" "$point") in
            "$real"/*) [ "$source" = faultfs ] || echo "$1	$point is mounted" ;;
        esac
    done </proc/mounts
}}
for pair; do
    find_top "${{pair#*:}}" || echo "${{pair#*:}}"
    id -u "${{pair%%:*}}" >/dev/null 2>&1 || echo "no user ${{pair%%:*}}"
done
[ -e {HOMES_OWNED} ] || exit 0
while IFS= read -r path; do
    said=$(astray "$path")
    [ -z "$said" ] || {{ echo "$said"; continue; }}
    [ -L "$path" ] || [ -f "$path" ] || [ -n "$(ls -A "$path" 2>/dev/null)" ] || continue
    noted "$path" || echo "$path"
done
"""
"""Of pairs USER:DIRECTORY prints the directories that are there and not ours, and users that are
none; of the paths that it reads, what has content though no run has noted it. Of the latter,
behind a tab, why what is written there would come to lie elsewhere."""

_LAY: Final = f"""\
{_TOP}
set -e
new=
trap '[ -z "$new" ] || rm -rf "$new"' EXIT
lay() {{
    find_top "${{1#*:}}"
    [ ! -e "$top" ] || return 0
    new=$(mktemp -d "$top.dstest.XXXXXX")
    chmod 755 "$new"
    chown "${{1%%:*}}" "$new"
    echo "$lab" | cat >"$new/{HOME_MARK}"
    [ "$top" = {COMMON_HOMES[1]} ] || echo "$top" | cat >>{HOMES_LAID}
    mv -T "$new" "$top"
    new=
}}
lay "$1"
shift
{{ cat {HOMES_OWNED} 2>/dev/null || :; cat; }} | sort -u >{HOMES_OWNED}.new
mv {HOMES_OWNED}.new {HOMES_OWNED}
for pair; do
    lay "$pair"
done
"""
"""Of pairs USER:DIRECTORY makes what is missing, belonging to the user. The first pair is that of
our services: what else is made is written down there, as are the paths that it reads, so that a
release knows them whoever made them."""


def homes_of(systems: Sequence[Any]) -> list[str]:
    """Directories of a node in which systems keep what is theirs."""
    return list(dict.fromkeys(h for s in systems for h in SystemTraits.of(s).homes))


class _Place(NamedTuple):
    """`path` is the service's alone, with what is below it; `folder`, which may be the same, it
    has to have to itself for that. `what` is the field and the service."""

    what: str
    user: str
    path: str
    folder: str


def _places(members: Iterable[Member]) -> list[_Place]:
    """Where the services of these members write. Data begins empty, so that no mark is in it."""
    return [
        _Place(f"{field} of {service.name}", service.user, path, folder(path))
        for member in members
        for service in member.services
        for field, paths, folder in (
            ("data", service.data, dirname),
            ("files", service.files, dirname),
            ("log", (service.log,), dirname),
            ("directories", service.directories, str),
        )
        for path in paths
    ]


def is_shared(folder: str) -> bool:
    """Is it one that every machine has, which no system can have to itself?"""
    kernel = any(_within(folder, place) for place in ("/proc", "/sys"))
    return kernel or folder in SHARED or dirname(folder) in ("/usr", "/usr/local")


def require_paths(system: Any, members: Iterable[Member]) -> None:
    """Raises ConfigError where a path of a service is not what it says, by dots or slashes, or is a
    directory that every machine has and would be emptied or replaced."""
    named = [(place.what, place.path) for place in _places(members)]
    for what, path in [*named, *(("homes", home) for home in homes_of([system]))]:
        taken = is_shared(path) and not what.startswith("directories ")
        if path[:1] != "/" or path[:2] == "//" or normpath(path) != path or taken:
            raise ConfigError(
                f"{system.name}: {what} is {path!r}",
                remedy="an absolute path without `.`, `..` or further slashes, below a directory of"
                " the system's own: /opt/NAME/data",
            )


def places_of(system: Any) -> list[str]:
    """Directories in which a system would write with the defaults of its options, as far as it says
    so without a node; what it would not say is found when it is run. Raises ConfigError."""
    info = NodeInfo(name="n1", address="192.0.2.1", lab_id="none")
    try:
        defaults = {name: option.default for name, option in system.options.items()}
        deployment = system.deploy([SimpleNamespace(name=info.name, info=info)], defaults)
        members = list(deployment.members.values())
    except Exception:
        members = []  # whatever it may be that this one needs
    require_paths(system, members)
    places = list(dict.fromkeys(p.folder for p in _places(members)))
    homes = homes_of([system])
    return [*homes, *(p for p in places if not any(_within(p, home) for home in homes))]


def _within(path: str, home: str) -> bool:
    return path == home or path.startswith(f"{home}/")


async def lay_homes(
    lab: LabInfo, nodes: Mapping[str, Node], system: Any, deployment: Deployment
) -> None:
    """Make and mark the directories that a run of the system writes into, where the machines are
    not of our making. Raises LabError where somebody else has one of them, ConfigError on any lab
    where it could not have one to itself."""
    require_paths(system, deployment.members.values())
    if lab.made is not None:
        return
    homes = homes_of([system])
    made = [f"root:{home}" for home in (COMMON_HOMES[1], *homes)]

    on = {name: _places(m for m in deployment.members.values() if m.node == name) for name in nodes}
    if shared := {f"{p.what}: {p.path}" for row in on.values() for p in row if is_shared(p.folder)}:
        raise LabError(
            f"{', '.join(sorted(shared))}: that is in a directory which every machine has",
            remedy="let it write below a directory of its own: data of /opt/NAME/data, log of"
            " /opt/NAME/log",
        )

    async def one(node: Node, program: str) -> list[str]:
        pairs = [*made, *dict.fromkeys(f"{p.user}:{p.folder}" for p in on[node.name])]
        paths = [p.path for p in on[node.name]]
        if program is _LOOK:  # all in its homes is the system's, whoever has written it down
            paths = [path for path in paths if not any(_within(path, home) for home in homes)]
        else:
            paths += homes
        argv, text = ["sh", "-c", program, lab.lab_id, *pairs], "".join(f"{p}\n" for p in paths)
        return (await node.run(argv, timeout_s=LAY_S, stdin=text)).stdout.splitlines()

    def named(node: str, line: str) -> str:
        path, _, why = line.partition("\t")
        whats = [p.what for p in on[node] if path in (p.folder, p.path)]
        of = ", ".join(dict.fromkeys(whats)) or f"home of {system.name}"
        return f"{path} ({of}{'; ' if why else ''}{why})"

    # All are looked at before any is touched.
    looks = await asyncio.gather(*(one(node, _LOOK) for node in nodes.values()))
    rows = dict(zip(nodes, looks, strict=True))
    users = {(name, p.what.split()[-1], p.user) for name in nodes for p in on[name]}
    if none := sorted(u for u in users if f"no user {u[2]}" in rows[u[0]]):
        raise LabError(
            "; ".join(
                f"{name} has no user {who}, as whom {of} is to run" for name, of, who in none
            ),
            remedy="make that user there (its package does), or another `user` of that Service",
        )
    if there := {name: row for name, row in rows.items() if row}:
        told = {name: ", ".join(named(name, path) for path in row) for name, row in there.items()}
        raise LabError(
            "what dstest has not made stands where the system would write: "
            + "; ".join(f"{name} has {row}" for name, row in told.items()),
            remedy="let the system write into a directory of its own, as /opt/NAME (data, files,"
            " log of its services); or, where what stands there is an old run's, move it away; take"
            " links and mounts out of its directories",
        )
    await asyncio.gather(*(one(node, _LAY) for node in nodes.values()))
