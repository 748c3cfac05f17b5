"""What supervised services may leave on a node, for any system."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Final

from clusters.supervise.on_node import GROUPS, HOME, PROGRAM
from dstest.core.residue import Residue

__all__ = ["FROZEN", "SERVERS", "STRAYS", "STRAY_FILES", "foreign", "residues"]

_LOOK: Final = f"[ ! -x {PROGRAM} ] || {PROGRAM} residue look"

STRAYS: Final = Residue(
    name="stray servers",
    mark="it is in the control group of a service whose main process has ended",
    look=f"{_LOOK} | sed -n 's/^stray server/ours stray server/p'",
    remove=f"[ ! -x {PROGRAM} ] || {PROGRAM} residue strays",
    rank=45,
)

SERVERS: Final = Residue(
    name="servers",
    mark="it is in the control group of a service of ours",
    look=f"{_LOOK} | sed -n 's/^server/ours server/; s/$/ of an earlier run/; /^ours/p'",
    remove=f"[ ! -x {PROGRAM} ] || {PROGRAM} residue all",
    rank=60,
    janitor=False,
    kept=True,
)

FROZEN: Final = Residue(
    name="frozen services",
    mark="the control group is that of a service of ours",
    look=f"[ ! -x {PROGRAM} ] || {PROGRAM} residue frozen",
    remove=f"[ ! -x {PROGRAM} ] || {PROGRAM} thaw",
    rank=5,
)

_FILES: Final = f"{HOME}/*/override.json {GROUPS} {HOME}/*.dstest.*"

STRAY_FILES: Final = Residue(
    name="service files",
    mark=f"it is in {HOME}, where nothing but ours is",
    look=f"for path in {_FILES}; do [ ! -e $path ] || echo ours file $path; done",
    remove=f"rm -f {_FILES}",
    rank=70,
)


def foreign(ports: Sequence[int], home: str = "") -> Residue:
    """What others have put where a system's services go: listeners at its ports, mounts at `home`.

    A file system that a fault lays under the data is ours, and looked for by its own residue.
    """
    wanted = " or ".join(f"sport = :{port}" for port in ports)
    place = shlex.quote(home or "/nowhere")
    return Residue(
        name=f"place of ports {', '.join(map(str, ports))}",
        mark="none: this is about what others have put there",
        look=f"""\
while read -r source mount _; do
    case "$mount" in {place} | {place}/*) ;; *) continue ;; esac
    [ "$source" = faultfs ] || echo "foreign mount of $source at $mount"
done </proc/mounts
listing=$(ss -Hltnp "( {wanted} )") || exit 1
pids=$(echo "$listing" | grep -o 'pid=[0-9]*' | sort -u)
# Asked only where somebody listens: each node is asked this of every system there is.
[ -n "$pids" ] || exit 0
known=" $([ ! -x {PROGRAM} ] || {PROGRAM} residue look | sed 's/.*server \\([0-9]*\\) of.*/\\1/' |
    tr '\\n' ' ') "
echo "$pids" | while IFS== read -r _ pid; do
    case "$known" in
    *" $pid "*) ;;
    *) echo "foreign process $pid ($(cat /proc/$pid/comm)) at a port of the system" ;;
    esac
done
""",
        remove=":",
        janitor=False,
    )


def residues(ports: Sequence[int], home: str = "") -> tuple[Residue, ...]:
    """All of them, for a system with these ports that keeps its files below `home`."""
    return (FROZEN, STRAYS, SERVERS, STRAY_FILES, foreign(ports, home))
