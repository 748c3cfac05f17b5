"""Runs on a node: lets it join anew, with empty data, as another member, and starts its server.

    python3 -m clusters.systems.toykv.agents.rejoin CONFIG JOIN

CONFIG is JSON: `servers` (HOST:PORT of all, for clients), the paths `data`, `removed` and `join`,
and the commands `start` and `stop`. Where the file `removed` exists, it holds the id of a member
that is to go for good: the server is stopped, the member removed unless it is, the data wiped, and
the file deleted. Each step may be repeated after a death in between. Then the server is started and
asks to be let in, as JOIN says (`voter`, `learner`).
Exits 0 when it votes; 1 when eight and a half seconds were not enough, to be called again.
Standard library only.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

__all__ = ["main"]

PATIENCE_S = 8.5
"""A janitor gives a command ten seconds."""

ASK_TIMEOUT_S = 2.0
POLL_S = 0.2


def ask(address: str, request: dict[str, Any]) -> dict[str, Any]:
    """What a server answers; empty where it does not."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), ASK_TIMEOUT_S) as sock:
            sock.sendall(json.dumps(request).encode() + b"\n")
            with sock.makefile("rb") as lines:
                found: dict[str, Any] = json.loads(lines.readline() or b"{}")
                return found
    except (OSError, ValueError):
        return {}


def remove(config: dict[str, Any], deadline: float) -> bool:
    """The member that is to go is none any more, and has left nothing."""
    removed = Path(config["removed"])
    if not removed.exists():
        return True
    subprocess.run(config["stop"], check=True)
    request = {"op": "remove", "value": int(removed.read_text())}
    while not any("ok" in ask(server, request) for server in config["servers"]):
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    for path in Path(config["data"]).iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    removed.unlink()
    return True


def own_id(config: dict[str, Any]) -> int:
    """The id in the data of this node; 0 where there is none yet."""
    try:
        return int(json.loads((Path(config["data"]) / "meta").read_text())["id"])
    except (OSError, ValueError, KeyError):
        return 0


def votes(config: dict[str, Any]) -> bool:
    """Is this node's server a member that votes, by the word of all that answer?"""
    mine = own_id(config)
    said = [ask(server, {"op": "status"}).get("ok") for server in config["servers"]]
    rows = [status["members"] for status in said if status]
    return bool(rows) and all(any(m[0] == mine and m[3] for m in members) for members in rows)


def main() -> int:
    """One go."""
    deadline = time.monotonic() + PATIENCE_S
    config = json.loads(sys.argv[1])
    if not remove(config, deadline):
        return 1
    Path(config["join"]).write_text(sys.argv[2])
    subprocess.run(config["start"], check=True)
    while not votes(config):
        if time.monotonic() > deadline:
            return 1
        time.sleep(POLL_S)
    return 0


if __name__ == "__main__":
    sys.exit(main())
