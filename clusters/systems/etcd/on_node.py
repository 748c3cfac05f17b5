"""What of etcd lies on a node: its files, the programs that change them or let it join anew, and
the secret by which members check tokens.

The programs are there so that a node's janitor can do what we would have done. Each is harmless
where there is nothing to do, and runs while nobody else starts or stops the member (`exclusive`): a
lease and a heal may both come. `REMOVED` holds the id of a member that was removed, or is about to
be, from before the removal until the node has joined again as another member.

Nobody logs in: whoever has the secret issues tokens (JSON web tokens), here we for all clients. A
token names its user and the revision of the user database that it was issued for; ours is what it
is once `auth_steps` have been taken.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import io
import json
import shlex
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from clusters.supervise.member_set import HOME as SERVICES
from clusters.supervise.member_set import PROGRAM
from clusters.systems.etcd.wire import message

HOME: Final = "/opt/etcd"
DATA: Final = f"{HOME}/data"
LOG: Final = f"{HOME}/etcd.log"
SERVICE: Final = "etcd"
START: Final = f"{PROGRAM} start"
STOP: Final = f"{PROGRAM} stop"
PIDFILE: Final = f"{SERVICES}/{SERVICE}/pid"
REJOIN: Final = f"{HOME}/rejoin"
FLIP: Final = f"{HOME}/flip.pyz"
FLIPPED: Final = f"{HOME}/flipped"
CUT_OFF: Final = f"{FLIPPED}.wal"
REMOVED: Final = f"{HOME}/removed"
BACKUP: Final = f"{HOME}/backup"
OTHER_HOME: Final = "/opt/etcd-other"
OTHER_BINARY: Final = f"{OTHER_HOME}/etcd"
BACKUP_DONE: Final = f"{HOME}/backup.done"
PEER_PORT: Final = 2380

STRAYS: Final = (REMOVED, BACKUP, BACKUP_DONE, FLIPPED, CUT_OFF)
"""What a fault may have left; nothing of it outlives the data."""

_STORE: Final = "member/snap/db"

BACK_UP: Final = (
    f"rm -rf {BACKUP} {BACKUP_DONE}; read -r pid _ <{PIDFILE} && kill -STOP $pid || exit 1; "
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

SECRET: Final = "dstest-lab"
"""Of a lab that exists for a test: it keeps nothing from anybody."""

SECRET_FILE: Final = f"{HOME}/secret"
SECRET_KEPT: Final = f"{HOME}/secret.kept"
"""A copy that no fault touches."""

USER: Final = "root"
AUTH_REVISION: Final = 3


def url(address: str, port: int) -> str:
    """`http://` and the address, which may be IPv6."""
    return f"http://[{address}]:{port}" if ":" in address else f"http://{address}:{port}"


def rejoin_script(peers: Sequence[str], mine: str, token: str = "") -> str:
    """Text of `REJOIN`. `peers` are the other members' client URLs, `mine` is our peer URL."""
    config = {
        "peers": list(peers),
        "mine": mine,
        "headers": {"Authorization": token} if token else {},
        "data": DATA,
        "removed": REMOVED,
        "start": START.split(),
        "stop": STOP.split(),
    }
    return f'#!/bin/sh\nexec python3 {REJOIN}.py {shlex.quote(json.dumps(config))} "$@"\n'


def programs() -> dict[str, bytes]:
    """Path on the node -> what `REJOIN` and `FLIP` run."""
    agents = Path(__file__).parent / "agents"
    return {
        f"{REJOIN}.py": (agents / "rejoin.py").read_bytes(),
        FLIP: _pack(agents, "flip_bytes", "cut_log", "wal"),
    }


def _pack(folder: Path, *modules: str) -> bytes:
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


def auth_steps() -> tuple[tuple[str, Any], ...]:
    """Method and request, in this order, on a cluster without users."""
    return (
        ("auth_user_add", message("AuthUserAddRequest")(name=USER, password="unused")),
        ("auth_user_grant", message("AuthUserGrantRoleRequest")(user=USER, role="root")),
        ("auth_enable", message("AuthEnableRequest")()),
    )


def auth_flag() -> tuple[str, str]:
    """What makes a member check tokens."""
    return (
        "--auth-token",
        f"jwt,sign-method=HS256,pub-key={SECRET_FILE},priv-key={SECRET_FILE},ttl=24h",
    )


def _text(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def token(secret: str) -> str:
    """A token for the user who may do everything (RFC 7519, HS256), which does not expire."""
    parts = ({"alg": "HS256", "typ": "JWT"}, {"revision": AUTH_REVISION, "username": USER})
    body = b".".join(_text(json.dumps(part).encode()) for part in parts)
    signature = hmac.new(secret.encode(), body, hashlib.sha256).digest()
    return f"{body.decode()}.{_text(signature).decode()}"


def token_for(options: Mapping[str, Any]) -> str:
    """The token of a run's clients; empty where the cluster asks for none."""
    return token(SECRET) if options.get("auth") else ""
