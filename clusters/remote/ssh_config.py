"""Paramiko's corner: other people's `ssh_config`, and a second opinion on a node.

Paramiko shares no code with the engine of a run. Where both fail the node or the network is at
fault; where only one fails that library is.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from clusters.remote.bundle import MARKER_PATH
from dstest.core import clock
from dstest.core.errors import LabError
from dstest.core.node import NodeInfo

__all__ = ["parse_ssh_config", "second_opinion"]


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
    """Log in with paramiko, host key pinned, and read the lab marker. Blocks.

    Returns `{"server", "host_key", "lab_id", "seconds"}`. Raises LabError with paramiko's reason.
    """
    import paramiko

    started_ns = clock.monotonic_ns()
    client = paramiko.SSHClient()
    client.set_missing_host_key_policy(paramiko.RejectPolicy())
    try:
        if not Path(info.known_hosts_path).is_file():
            raise LabError(f"{info.name}: there is no pinned host key at {info.known_hosts_path!r}")
        client.load_host_keys(info.known_hosts_path)
        client.connect(
            info.address,
            port=info.port,
            username=info.user,
            key_filename=info.key_path,
            look_for_keys=False,
            allow_agent=False,
            timeout=timeout_s,
            banner_timeout=timeout_s,
            auth_timeout=timeout_s,
            channel_timeout=timeout_s,
        )
        transport = client.get_transport()
        assert transport is not None
        _, out, _ = client.exec_command(f"cat {MARKER_PATH}", timeout=timeout_s)
        marker = out.read().decode(errors="replace").strip()
        return {
            "server": transport.remote_version,
            "host_key": transport.get_remote_server_key().get_name(),
            "lab_id": marker or None,
            "seconds": (clock.monotonic_ns() - started_ns) / 1e9,
        }
    except (paramiko.SSHException, paramiko.hostkeys.InvalidHostKey, OSError, EOFError) as error:
        text = str(error) or type(error).__name__
        raise LabError(f"{info.name} ({info.address}): paramiko: {text}") from None
    finally:
        client.close()
