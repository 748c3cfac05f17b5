"""A chaos run of the shop of tests/fixtures/chaos, in processes and sockets of its own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from polling import wait_for

SHOP = Path(__file__).resolve().parents[1] / "fixtures" / "chaos"

SETTINGS = """
target = "http://127.0.0.1:{shop}"
seed = 1

[[endpoint]]
path = "/orders"
json_keys = ["stock"]
[[endpoint]]
path = "/users"
[[endpoint]]
path = "/prices"
[[endpoint]]
path = "/reports"

[[proxy]]
name = "inventory"
upstream = "http://127.0.0.1:{inventory}"
{faults}

[load]
rate = {rate}
requests = {requests}
timeout_s = 2
quiet_s = 2
{load}

{more}

[service]
command = [{python!r}, {program!r}, "{shop}"]
source = {source!r}

[service.environment]
INVENTORY_URL = "{{proxy.inventory}}"
{environment}
"""

FAULTS = """
[proxy.faults]
delay = 0.1
delay_low_s = 0.4
delay_high_s = 1.5
error = 0.15
blackhole = 0.03
"""


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@contextmanager
def inventory() -> Iterator[int]:
    """The port of a running inventory."""
    port = free_port()
    process = subprocess.Popen([sys.executable, str(SHOP / "inventory.py"), str(port)])
    try:
        wait_for(lambda: listens(port))
        yield port
    finally:
        process.kill()
        process.wait()


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def settings(
    inventory_port: int,
    *,
    faults: str = FAULTS,
    rate: float = 60,
    requests: int = 100,
    load: str = "",
    more: str = "",
    environment: str = "",
) -> str:
    return SETTINGS.format(
        shop=free_port(),
        inventory=inventory_port,
        faults=faults,
        rate=rate,
        requests=requests,
        load=load,
        more=more,
        environment=environment,
        python=sys.executable,
        program=str(SHOP / "shop.py"),
        source=str(SHOP),
    )


def started(words: Sequence[str], cwd: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "dstest", *words],
        cwd=cwd,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def children_of(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(word) for word in text.split()]


def working(pid: int, work: str) -> int:
    """The child of a run that does this work."""
    for child in children_of(pid):
        words = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
        if work.encode() in words:
            return child
    raise LookupError(work)


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
