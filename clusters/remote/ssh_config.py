"""Paramiko's corner: other people's `ssh_config`, and a second opinion on a node.

Paramiko shares no code with the engine of a run. Where both fail the node or the network is at
fault; where only one fails that library is.
"""

from __future__ import annotations

from typing import Any, Final

from clusters.remote.bundle import MARKER_PATH
from dstest.core import clock
from dstest.core.errors import LabError
from dstest.core.node import NodeInfo

MARKER_BYTES_MAX: Final = 1000


def parse_ssh_config(text: str, *, lab_id: str, known_hosts_path: str = "") -> list[NodeInfo]:
    """One node per named host, in order of appearance; patterns name no host.

    This is what `vagrant ssh-config` prints. Raises LabError where it cannot be read.
    """
    import paramiko  # type: ignore[import-untyped]

    try:
        config = paramiko.SSHConfig.from_text(text)
    except (paramiko.ConfigParseError, ValueError) as error:
        raise LabError(f"not an ssh_config: {error}") from None
    named = [
        word.strip('"')
        for line in text.splitlines()
        if (words := line.split())[:1] and words[0].lower() == "host"
        for word in words[1:]
    ]
    nodes = []
    for name in dict.fromkeys(n for n in named if not set(n) & set("*?!")):
        options = config.lookup(name)
        keys = options.get("identityfile") or [""]
        nodes.append(
            NodeInfo(
                name=name,
                address=options.get("hostname", name),
                port=int(options.get("port", 22)),
                user=options.get("user", "root"),
                key_path=str(keys[0]).strip('"'),
                known_hosts_path=known_hosts_path,
                lab_id=lab_id,
            )
        )
    return nodes


def second_opinion(info: NodeInfo, *, timeout_s: float = 10.0) -> dict[str, Any]:
    """Log in with paramiko, as chores do, and read the lab marker. Blocks.

    Returns `{"server", "host_key", "lab_id", "seconds"}`. Raises LabError with paramiko's reason.
    """
    from clusters.remote.fabric_login import logged_in

    started_ns = clock.monotonic_ns()
    try:
        with logged_in(info, timeout_s=timeout_s) as connection:
            _, out, _ = connection.client.exec_command(f"cat {MARKER_PATH}", timeout=timeout_s)
            marker = out.read(MARKER_BYTES_MAX).decode(errors="replace").strip()
            return {
                "server": connection.transport.remote_version,
                "host_key": connection.transport.get_remote_server_key().get_name(),
                "lab_id": marker or None,
                "seconds": (clock.monotonic_ns() - started_ns) / 1e9,
            }
    except LabError as error:
        raise LabError(f"{info.name}: paramiko: {error.message}") from None
    except Exception as error:  # it stumbles over the answers of a strange server in many ways
        raise LabError(f"{info.name}: paramiko: {str(error) or type(error).__name__}") from None
