"""What of the supervision lies on a node: the program `services`, its library, what it is to run.

All of it is on disk, so that a node that was restarted can start its services by itself.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from clusters.remote.bundle import module_texts
from dstest.core.errors import ConfigError
from dstest.core.protocols import LocalFile, Service

__all__ = [
    "GIVEN",
    "GROUPS",
    "HOME",
    "MEMBER",
    "PROGRAM",
    "given_at",
    "held",
    "local_data",
    "override_of",
    "programs",
    "spec",
]

HOME: Final = "/opt/dstest-services"
PROGRAM: Final = f"{HOME}/services"
MEMBER: Final = f"{HOME}/member.json"
GROUPS: Final = f"{HOME}/groups"
GIVEN: Final = f"{HOME}/given"
MODULES: Final = ("agent_exec", "agent_groups", "agent_start", "agent_services")

_PROGRAM: Final = f"""\
#!/usr/bin/env -S python3 -E -s -S
import sys
sys.path.insert(0, "{HOME}/lib")
from clusters.remote.agent_services import main
sys.exit(main(sys.argv[1:]))
"""


def programs() -> dict[str, bytes]:
    """Path -> content of the library; `PROGRAM` is to be executable."""
    found = {f"{HOME}/lib/{path}": text.encode() for path, text in module_texts(MODULES).items()}
    return {**found, PROGRAM: _PROGRAM.encode()}


_OURS: Final = (
    *("given", "groups", "homes", "homes.owned", "lib", "lock", "member.json", "run", "services"),
)
"""What lies in `HOME` beside a directory for each service."""


def spec(services: Sequence[Service]) -> bytes:
    """The text of `MEMBER`: services in the order in which they start. ConfigError where one has
    the name of a file of ours."""
    if taken := [service.name for service in services if service.name in _OURS]:
        raise ConfigError(
            f"no service can be called {' or '.join(taken)}: its place on a node is taken",
            remedy="another name for the service",
        )
    rows: list[dict[str, Any]] = []
    for service in _in_order(services):
        row = msgspec.to_builtins(msgspec.structs.replace(service, files={}))
        for path, what in service.files.items():
            if isinstance(what, LocalFile):
                row.setdefault("given", {})[path] = [given_at(path), what.mode]
            else:
                row["files"][path] = base64.b64encode(what).decode()
        row["probe"] = None
        rows.append(row)
    return msgspec.json.encode({"services": rows})


def given_at(path: str) -> str:
    """Where a `LocalFile` waits on the node until it is laid at its path."""
    return f"{GIVEN}/{hashlib.sha256(path.encode()).hexdigest()[:16]}"


def local_data(node: str, path: str, file: LocalFile) -> bytes:
    """What is to lie at `path`. Raises ConfigError where it cannot be read here."""
    try:
        return Path(file.path).read_bytes()
    except OSError as error:
        raise ConfigError(
            f"{file.path}, which is to be {path} on {node}, cannot be read: {error.strerror}",
            remedy="build it first; its path is best told from that of the system's file:"
            ' LocalFile(Path(__file__).with_name("NAME"))',
        ) from None


def _in_order(services: Sequence[Service]) -> list[Service]:
    """Each after those that it names. ValueError where they wait for one another."""
    ordered: list[Service] = []
    left = list(services)
    while left:
        ready = [s for s in left if {*s.after} <= {f.name for f in ordered}]
        if not ready:
            raise ValueError(f"services wait for one another: {', '.join(s.name for s in left)}")
        ordered += ready
        left = [s for s in left if s not in ready]
    return ordered


def override_of(service: str) -> str:
    """The file that lets a service start otherwise."""
    return f"{HOME}/{service}/override.json"


def held(*argv: str) -> list[str]:
    """The command, while nobody else starts or stops the services of the node."""
    return [PROGRAM, "hold", *argv]
