"""What of etcd lies on a node: its files, and the scripts that start, stop and rejoin a member.

The scripts are there so that a node's janitor can do what we would have done. Each is harmless
where there is nothing to do, and runs under `START_LOCK`: a lease and a heal may both come.

`OVERRIDE` is a shell file that replaces `binary` or adds `flags` to the command line for as long as
it is there. `GROUPS` lists control groups that the member joins before it starts, so that all of
its memory is theirs. `REMOVED` holds the id of a member that was removed, or is about to be, from
before the removal until the node has joined again as another member.
"""

from __future__ import annotations

import io
import json
import shlex
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

__all__ = [
    "BACKUP",
    "BACK_UP",
    "CUT_OFF",
    "DATA",
    "FLIP",
    "FLIPPED",
    "GROUPS",
    "HOME",
    "LOG",
    "OTHER_BINARY",
    "OTHER_HOME",
    "OVERRIDE",
    "PEER_PORT",
    "PIDFILE",
    "REJOIN",
    "REMOVED",
    "RESTORE",
    "RESTORE_IF_DONE",
    "START",
    "START_LOCK",
    "STOP",
    "STRAYS",
    "locked",
    "override",
    "programs",
    "rejoin_script",
    "start_script",
    "stop_script",
    "url",
]

HOME: Final = "/opt/etcd"
DATA: Final = f"{HOME}/data"
LOG: Final = f"{HOME}/etcd.log"
PIDFILE: Final = f"{HOME}/etcd.pid"
START: Final = f"{HOME}/start"
STOP: Final = f"{HOME}/stop"
REJOIN: Final = f"{HOME}/rejoin"
FLIP: Final = f"{HOME}/flip.pyz"
FLIPPED: Final = f"{HOME}/flipped"
CUT_OFF: Final = f"{FLIPPED}.wal"
START_LOCK: Final = f"{HOME}/start.lock"
OVERRIDE: Final = f"{HOME}/override"
GROUPS: Final = f"{HOME}/groups"
REMOVED: Final = f"{HOME}/removed"
BACKUP: Final = f"{HOME}/backup"
OTHER_HOME: Final = "/opt/etcd-other"
OTHER_BINARY: Final = f"{OTHER_HOME}/etcd"
BACKUP_DONE: Final = f"{HOME}/backup.done"
PEER_PORT: Final = 2380

STRAYS: Final = (OVERRIDE, GROUPS, REMOVED, BACKUP, BACKUP_DONE, FLIPPED, CUT_OFF)
"""What a fault may have left; nothing of it outlives the data."""

_GONE: Final = (
    "{ [ ! -e /proc/$pid ] || { grep -qs '^State:.[ZX]' /proc/$pid/status && "
    '[ "$(ls /proc/$pid/task 2>/dev/null | wc -l)" -le 1 ]; }; }'
)
"""A process whose main thread has ended holds its ports until its last thread has."""

_START: Final = """\
#!/bin/sh
# Start etcd on the data it has, unless it runs.
pid=$(cat {pidfile} 2>/dev/null)
if [ -n "$pid" ] && [ "$(cat /proc/$pid/comm 2>/dev/null)" = etcd ]; then
    # It may end between two looks: only a state that was read tells that it runs.
    grep -qs '^State:.[^ZX]' /proc/$pid/status && exit 0
    for _ in $(seq 60); do
        {gone} && break
        sleep 0.1
    done
fi
cd {home} || exit 1
binary={binary}
flags=
[ ! -f {override} ] || . {override}
for group in $(cat {groups} 2>/dev/null); do echo $$ >"$group/cgroup.procs"; done
setsid "$binary" {arguments} $flags </dev/null >>{log} 2>&1 &
pid=$!
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    [ "$(cat /proc/$pid/comm 2>/dev/null)" = etcd ] && break
    sleep 0.05
done
echo $pid >{pidfile}.new && mv {pidfile}.new {pidfile}
"""

_STOP: Final = """\
#!/bin/sh
# Kill etcd if it runs, and wait until it is gone.
pid=$(cat {pidfile} 2>/dev/null)
[ -n "$pid" ] && [ "$(cat /proc/$pid/comm 2>/dev/null)" = etcd ] || exit 0
kill -9 "$pid"
for _ in $(seq 60); do
    {gone} && exit 0
    sleep 0.1
done
exit 1
"""

_STORE: Final = "member/snap/db"

BACK_UP: Final = (
    f"rm -rf {BACKUP} {BACKUP_DONE}; pid=$(cat {PIDFILE}) && kill -STOP $pid || exit 1; "
    'stopped=$(date +%s%N); sleep "$1"; copying=$(date +%s%N); '
    f"cp -a --sparse=always {DATA} {BACKUP}; copied=$?; kill -CONT $pid; "
    f"[ $copied = 0 ] && touch {BACKUP_DONE} && echo $stopped $copying && "
    f"sha256sum {BACKUP}/{_STORE}"
)
"""Copies a member's data as of one instant, for which its server stands still, `$1` seconds before
the copy begins; prints when it stood still and when the copy began (ns), then the store's checksum.
"""

RESTORE: Final = (
    f"{STOP} && sha256sum {DATA}/{_STORE} && find {DATA} -mindepth 1 -delete && "
    f"cp -a --sparse=always {BACKUP}/. {DATA}/ && sha256sum {DATA}/{_STORE}"
)
"""Kills a member, puts the copy in place of its data; prints the store's checksums, two lines."""

RESTORE_IF_DONE: Final = f"[ ! -f {BACKUP_DONE} ] || {{ {RESTORE}; }}; exec {START}"


def url(address: str, port: int) -> str:
    """`http://` and the address, which may be IPv6."""
    return f"http://[{address}]:{port}" if ":" in address else f"http://{address}:{port}"


def start_script(binary: str, arguments: Sequence[str]) -> str:
    """Text of `START`."""
    return _START.format(
        gone=_GONE,
        pidfile=PIDFILE,
        home=HOME,
        log=LOG,
        override=OVERRIDE,
        groups=GROUPS,
        binary=shlex.quote(binary),
        arguments=shlex.join(arguments),
    )


def stop_script() -> str:
    """Text of `STOP`."""
    return _STOP.format(pidfile=PIDFILE, gone=_GONE)


def rejoin_script(peers: Sequence[str], mine: str, token: str = "") -> str:
    """Text of `REJOIN`. `peers` are the other members' client URLs, `mine` is our peer URL."""
    config = {
        "peers": list(peers),
        "mine": mine,
        "headers": {"Authorization": token} if token else {},
        "data": DATA,
        "removed": REMOVED,
        "start": START,
        "stop": STOP,
    }
    return f'#!/bin/sh\nexec python3 {REJOIN}.py {shlex.quote(json.dumps(config))} "$@"\n'


def programs() -> dict[str, bytes]:
    """Path on the node -> what `REJOIN` and `FLIP` run."""
    agents = Path(__file__).parent / "agents"
    return {
        f"{REJOIN}.py": (agents / "rejoin.py").read_bytes(),
        FLIP: _packed(agents, "flip_bytes", "cut_log", "wal"),
    }


def _packed(folder: Path, *modules: str) -> bytes:
    """Programs of a folder as one file for Python to run; it starts in the first."""
    package = __name__.rpartition(".")[0] + f".{folder.name}"
    files = {
        "__main__.py": f"import sys\nfrom {package}.{modules[0]} import main\nmain(sys.argv[1:])\n"
    }
    parts = package.split(".")
    for depth in range(len(parts)):
        files["/".join([*parts[: depth + 1], "__init__.py"])] = ""
    for name in modules:
        files["/".join([*parts, f"{name}.py"])] = (folder / f"{name}.py").read_text()
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as packed:
        for path, text in files.items():
            packed.writestr(zipfile.ZipInfo(path), text)
    return data.getvalue()


def override(flags: Sequence[str] = (), binary: str = "") -> str:
    """Text of `OVERRIDE`; flags hold no blanks."""
    lines = [f"flags={shlex.quote(' '.join(flags))}"] if flags else []
    lines += [f"binary={shlex.quote(binary)}"] if binary else []
    return "\n".join([*lines, ""])


def locked(*argv: str) -> list[str]:
    """The command, while nobody else starts or stops the member."""
    return ["flock", "--close", "--timeout", "8", START_LOCK, *argv]
