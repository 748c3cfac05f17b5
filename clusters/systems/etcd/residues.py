"""What etcd, and what is done to it, may leave on a node."""

from __future__ import annotations

from typing import Final

from clusters.systems.etcd import on_node
from clusters.systems.etcd.clients.register import CLIENT_PORT
from clusters.systems.etcd.on_node import HOME, OTHER_HOME, PEER_PORT, PIDFILE
from dstest.core.residue import Residue

__all__ = ["RESIDUES"]

BINARY: Final = "/usr/bin/etcd"

_SERVERS: Final = f"""\
member=$(cat {PIDFILE} 2>/dev/null)
servers() {{
    for path in /proc/[0-9]*; do
        case "$(readlink $path/exe)" in
        {BINARY} | {BINARY}\\ * | {OTHER_HOME}/*) echo ${{path#/proc/}} ;;
        esac
    done
}}
"""

_OTHERS: Final = f'{_SERVERS}for pid in $(servers); do [ "$pid" != "$member" ] || continue; '

STRAYS: Final = Residue(
    name="stray servers",
    mark="it runs etcd, and the member's pid file does not name it",
    look=f"{_OTHERS}echo ours server $pid that no pid file names; done",
    remove=f"mkdir -p {HOME}; exec 9>{on_node.START_LOCK} && flock -w 8 9; "
    f"{_OTHERS}kill -9 $pid; done; :",
    rank=45,
)

MEMBER: Final = Residue(
    name="member",
    mark="it runs etcd, and the member's pid file names it",
    look=f'{_SERVERS}for pid in $(servers); do [ "$pid" != "$member" ] || '
    "echo ours server $pid of an earlier run; done",
    remove=f'{_SERVERS}for pid in $(servers); do [ "$pid" != "$member" ] || kill -9 $pid; done; '
    'for _ in $(seq 50); do [ -n "$(servers)" ] || exit 0; sleep 0.1; done; exit 1',
    rank=60,
    janitor=False,
    kept=True,
)

_FILES: Final = " ".join(
    # A file that was only half written has its later name in its own.
    [*(p for p in on_node.STRAYS if p != on_node.REMOVED), f"{HOME}/*.dstest.*"]
)

FILES: Final = Residue(
    name="etcd's files",
    mark=f"it is in {HOME} or {OTHER_HOME}, where nothing but ours is",
    look=f"for path in {_FILES} {OTHER_HOME}; do [ ! -e $path ] || echo ours file $path; done",
    remove=f"rm -rf {_FILES} {OTHER_HOME}",
    rank=70,
)

REMOVED: Final = Residue(
    name="etcd's membership",
    mark=f"{on_node.REMOVED} names the member",
    look=f"[ ! -e {on_node.REMOVED} ] || echo ours member that was removed and is not back",
    remove=f"rm -f {on_node.REMOVED}",
    rank=70,
    janitor=False,
)

PLACE: Final = Residue(
    name="etcd's place",
    mark="none: this is about what others have put there",
    look=f"""\
while read -r source mount _; do
    case "$mount" in {HOME} | {HOME}/*) ;; *) continue ;; esac
    [ "$source" = faultfs ] || echo "foreign mount of $source at $mount"
done </proc/mounts
{_SERVERS}known=" $(servers | tr '\\n' ' ') "
ss -Hltnp "( sport = :{CLIENT_PORT} or sport = :{PEER_PORT} )" | grep -o 'pid=[0-9]*' | sort -u |
while IFS== read -r _ pid; do
    case "$known" in
    *" $pid "*) ;;
    *) echo "foreign process $pid ($(cat /proc/$pid/comm)) at a port of etcd" ;;
    esac
done
""",
    remove=":",
    janitor=False,
)

RESIDUES: Final = (STRAYS, MEMBER, FILES, REMOVED, PLACE)
